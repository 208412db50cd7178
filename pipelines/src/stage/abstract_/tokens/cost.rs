//! Tokens of pictures, and prices.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tracemill_data::action::ScreenSize;

use super::{Module, Tokens};
use crate::executor::smart_resize;
use crate::stage::abstract_::{ImageRule, TokensSection};

/// Prices of the paper's table 7.
const PRICES: &str = include_str!("prices.toml");
/// `OpenAI`: a picture is brought into a square of this side.
const SQUARE_PX: f64 = 2_048.0;
/// Then its shorter side to this.
const SHORT_PX: f64 = 768.0;
/// Side of a tile.
const TILE_PX: f64 = 512.0;
/// Qwen2-VL: side of a patch that is one token.
const PATCH_PX: u32 = 28;

/// Counts the tokens of pictures.
pub struct ImageCounter {
    rule: ImageRule,
    base: u64,
    tile: u64,
    max_pixels: u64,
    resolution: Option<[u32; 2]>,
}

impl ImageCounter {
    /// The rule that the settings name.
    pub fn of(section: &TokensSection) -> Self {
        let TokensSection { image, tile_base, tile, max_pixels, resolution, .. } = section;
        Self { rule: *image, base: *tile_base, tile: *tile, max_pixels: *max_pixels, resolution: *resolution }
    }

    /// Tokens of a screen.
    pub fn screen(&self, width_px: u32, height_px: u32) -> u64 {
        let [width_px, height_px] = self.resolution.unwrap_or([width_px, height_px]);
        self.tokens(width_px, height_px)
    }

    /// Tokens of a region of a screen, scaled as the screen is.
    pub fn region(&self, (width_px, height_px): (u32, u32), screen: (u32, u32)) -> u64 {
        let Some([to_width, to_height]) = self.resolution else { return self.tokens(width_px, height_px) };
        let scaled = |px: u32, to: u32, of: u32| {
            (u64::from(px) * u64::from(to)).div_ceil(u64::from(of.max(1))).max(1) as u32
        };
        self.tokens(scaled(width_px, to_width, screen.0), scaled(height_px, to_height, screen.1))
    }

    fn tokens(&self, width_px: u32, height_px: u32) -> u64 {
        match self.rule {
            ImageRule::OpenaiTiles => {
                let (width, height) = (f64::from(width_px.max(1)), f64::from(height_px.max(1)));
                let fit = (SQUARE_PX / width.max(height)).min(1.0);
                let short = (SHORT_PX / (width * fit).min(height * fit)).min(1.0);
                let tiles = |side: f64| (side * fit * short / TILE_PX).ceil().max(1.0) as u64;
                self.base + self.tile * tiles(width) * tiles(height)
            }
            ImageRule::QwenPatches => {
                let size = ScreenSize { width_px: width_px.max(1), height_px: height_px.max(1) };
                let seen = smart_resize(size, self.max_pixels);
                u64::from(seen.width_px / PATCH_PX) * u64::from(seen.height_px / PATCH_PX)
            }
        }
    }
}

/// What tokens cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// The policy.
    decision: Price,
    /// The state manager: abstraction, refinement, induction, retrieval.
    state: Price,
}

/// A model's prices, in US dollars for a million tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Price {
    model: String,
    input: f64,
    output: f64,
}

impl Prices {
    /// Reads a file of prices; with none, those of the paper.
    ///
    /// # Errors
    /// Names the file.
    pub fn read(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return toml::from_str(PRICES).context("the prices that are compiled in");
        };
        let at = || format!("abstract.tokens.prices {}", path.display());
        toml::from_str(&std::fs::read_to_string(path).with_context(at)?).with_context(at)
    }

    /// What a module's tokens cost, in US dollars.
    pub fn of(&self, module: Module, tokens: Tokens) -> f64 {
        let price = if module == Module::Decision { &self.decision } else { &self.state };
        ((tokens.text_in + tokens.image_in) as f64 * price.input + tokens.out as f64 * price.output) / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(rule: ImageRule, base: u64, tile: u64) -> ImageCounter {
        ImageCounter { rule, base, tile, max_pixels: 1_003_520, resolution: None }
    }

    #[test]
    fn tiles_are_those_of_the_published_examples() {
        // OpenAI's own examples: 1024 × 1024 is scaled to 768 × 768, 2048 × 4096 to 768 × 1536.
        let gpt4o = counter(ImageRule::OpenaiTiles, 85, 170);
        assert_eq!(gpt4o.screen(1024, 1024), 765);
        assert_eq!(gpt4o.screen(2048, 4096), 1105);
        assert_eq!(counter(ImageRule::OpenaiTiles, 70, 140).screen(1280, 720), 70 + 140 * 6);
        assert_eq!(gpt4o.screen(1, 1), 255, "nothing is enlarged");
    }

    #[test]
    fn patches_are_multiples_of_28() {
        let qwen = counter(ImageRule::QwenPatches, 0, 0);
        assert_eq!(qwen.screen(28 * 10, 28 * 5), 50);
        assert_eq!(qwen.screen(1280, 720), (1288 / 28) * (728 / 28));
        assert!(qwen.screen(4000, 3000) * 28 * 28 <= 1_003_520, "scaled down to its limit");
    }

    #[test]
    fn regions_are_scaled_as_their_screens() {
        let mut scaled = counter(ImageRule::QwenPatches, 0, 0);
        scaled.resolution = Some([1280, 720]);
        assert_eq!(scaled.screen(2560, 1440), scaled.screen(1280, 720));
        assert_eq!(scaled.region((560, 280), (2560, 1440)), 10 * 5);
    }

    #[test]
    fn prices_are_those_of_the_file() {
        let prices = Prices::read(None).expect("valid");
        let million = Tokens { text_in: 600_000, image_in: 400_000, out: 1_000_000 };
        assert!((prices.of(Module::Decision, million) - 11.25).abs() < 1e-9);
        assert!((prices.of(Module::Refinement, million) - 2.25).abs() < 1e-9);
        let error = Prices::read(Some(Path::new("absent.toml"))).expect_err("not there");
        assert!(format!("{error:#}").contains("absent.toml"), "{error:#}");
    }
}
