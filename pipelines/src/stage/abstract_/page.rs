//! `R/states/page.html`: some steps with their screens, the changed region drawn, the crops and the abstracted step.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{ExtendedColorType, RgbImage};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};
use serde::Serialize;
use tracemill_data::artifact::StateStep;
use tracemill_data::export::Pictures;
use tracemill_data::trace::StepRow;
use tracemill_models::state::Region;

use crate::manifest;
use crate::picture::Rgb;

const TEMPLATE: &str = include_str!("page.html");
/// Widest picture of the page, in pixels.
const WIDTH_PX: u32 = 480;
/// Highest.
const HEIGHT_PX: u32 = 480;
/// The box around a region.
const RED: [u8; 3] = [220, 30, 30];
const QUALITY: u8 = 80;

/// Steps for the page, spread over a run whose length is not known before its end: every step is kept until there
/// are twice too many, then every other one, and from then on every second, fourth, … step.
pub struct Sample {
    wanted: usize,
    stride: usize,
    seen: usize,
    kept: Vec<Kept>,
}

struct Kept {
    row: StateStep,
    before: Option<String>,
    after: Option<String>,
}

impl Sample {
    /// A sample of about `wanted` steps.
    pub fn new(wanted: usize) -> Self {
        Self { wanted, stride: 1, seen: 0, kept: Vec::new() }
    }

    /// Looks at an episode; only steps with a change that was looked for in pictures are shown.
    pub fn see(&mut self, steps: &[StepRow], rows: &[StateStep]) {
        for (i, row) in rows.iter().enumerate().filter(|(_, row)| row.seen_in == "pixels") {
            if self.wanted > 0 && self.seen.is_multiple_of(self.stride) {
                let after = steps.get(i + 1).and_then(|s| s.screenshot.clone());
                self.kept.push(Kept { row: row.clone(), before: steps[i].screenshot.clone(), after });
            }
            self.seen += 1;
            if self.kept.len() > 2 * self.wanted {
                self.stride *= 2;
                let mut at = 0;
                self.kept.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
            }
        }
    }
}

#[derive(Serialize)]
struct Card {
    row: StateStep,
    share: String,
    before: Option<String>,
    after: Option<String>,
    crop_before: Option<String>,
    crop_after: Option<String>,
}

/// The page.
///
/// # Errors
/// Those of the template.
pub fn render(sample: Sample, pictures: &Pictures) -> Result<String> {
    let cards: Vec<Card> = sample.kept.into_iter().take(sample.wanted).map(|kept| card(kept, pictures)).collect();
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_template("page", TEMPLATE)?;
    let page = environment.get_template("page")?;
    Ok(page.render(context! { tool => manifest::tool(), seen => sample.seen, cards => Serde(cards) })?)
}

fn card(kept: Kept, pictures: &Pictures) -> Card {
    let Kept { row, before, after } = kept;
    let decoded = |name: &Option<String>| Rgb::decode(&std::fs::read(pictures.find(name.as_ref()?)?).ok()?).ok();
    let (before, after) = (decoded(&before), decoded(&after));
    let corners = || Some([row.left_px?, row.top_px?, row.right_px?, row.bottom_px?]);
    let region = corners().map(|[left_px, top_px, right_px, bottom_px]| Region { left_px, top_px, right_px, bottom_px });
    let fits = |rgb: &Rgb, r: Region| r.right_px <= rgb.width_px && r.bottom_px <= rgb.height_px;
    let crop = |rgb: &Option<Rgb>| {
        let (rgb, region) = (rgb.as_ref()?, region?);
        fits(rgb, region).then(|| data_url(&rgb.crop(region), None)).flatten()
    };
    Card {
        share: row.share.map(|share| format!("{:.2} %", share * 100.0)).unwrap_or_default(),
        crop_before: crop(&before),
        crop_after: crop(&after),
        before: before.as_ref().and_then(|rgb| data_url(rgb, region.filter(|r| fits(rgb, *r)))),
        after: after.as_ref().and_then(|rgb| data_url(rgb, region.filter(|r| fits(rgb, *r)))),
        row,
    }
}

/// A picture scaled to fit the page, with a box drawn, as JPEG.
fn data_url(rgb: &Rgb, region: Option<Region>) -> Option<String> {
    let image = RgbImage::from_raw(rgb.width_px, rgb.height_px, rgb.bytes.clone())?;
    let scale = [f64::from(WIDTH_PX) / f64::from(rgb.width_px), f64::from(HEIGHT_PX) / f64::from(rgb.height_px), 1.0];
    let scale = scale.into_iter().fold(1.0, f64::min);
    let side = |px: u32| ((f64::from(px) * scale).round() as u32).max(1);
    let (width, height) = (side(rgb.width_px), side(rgb.height_px));
    let mut small = image::imageops::resize(&image, width, height, FilterType::Triangle);
    if let Some(region) = region {
        draw(&mut small, region, scale);
    }
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, QUALITY).encode(&small, width, height, ExtendedColorType::Rgb8).ok()?;
    Some(format!("data:image/jpeg;base64,{}", STANDARD.encode(bytes)))
}

/// A box of two pixels around a region.
fn draw(image: &mut RgbImage, region: Region, scale: f64) {
    let at = |px: u32, most: u32| ((f64::from(px) * scale) as u32).min(most.saturating_sub(1));
    let (width, height) = image.dimensions();
    let (left, right) = (at(region.left_px, width), at(region.right_px, width));
    let (top, bottom) = (at(region.top_px, height), at(region.bottom_px, height));
    for x in left..=right {
        for y in [top, (top + 1).min(bottom), bottom.saturating_sub(1).max(top), bottom] {
            image.put_pixel(x, y, image::Rgb(RED));
        }
    }
    for y in top..=bottom {
        for x in [left, (left + 1).min(right), right.saturating_sub(1).max(left), right] {
            image.put_pixel(x, y, image::Rgb(RED));
        }
    }
}
