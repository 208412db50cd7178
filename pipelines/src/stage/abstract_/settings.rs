//! Settings of `abstract` and `lessons`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracemill_models::state::{RefineSettings, StoreSettings};

use crate::chat::ChatSettings;

/// Shortest bound of a summary that a step and its suggestion always fit into.
const LEAST_CHARS: usize = 400;

/// `[abstract]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AbstractSection {
    /// Pixels added to the changed region on every side: 0 in `HiSA`'s paper, 50 in its released code.
    pub margin_px: u32,
    /// Keep the changed regions as pictures in `R/states/crops`.
    pub crops: bool,
    /// Refined contexts.
    pub refine: RefineSettings,
    /// Largest share of pictures that may be missing or unreadable.
    pub max_rejects: f64,
    /// Most questions put to the model, answers from the ledger counted; with none, as many as there are steps.
    pub max_calls: Option<u64>,
    /// Longest reply, in tokens.
    pub max_tokens: u32,
    /// Hold replies to a JSON schema. The server must know `response_format` (see `doctor`).
    pub structured: bool,
    /// Steps shown in `R/states/page.html`, spread over the run; 0 for no page.
    pub page_steps: usize,
    /// The model that labels; with no endpoints, the rules do.
    pub endpoint: ChatSettings,
    /// Token accounting.
    pub tokens: TokensSection,
}

impl Default for AbstractSection {
    fn default() -> Self {
        Self {
            margin_px: 0,
            crops: true,
            refine: RefineSettings::default(),
            max_rejects: 1.0,
            max_calls: None,
            max_tokens: 1_024,
            structured: false,
            page_steps: 12,
            endpoint: ChatSettings::default(),
            tokens: TokensSection::default(),
        }
    }
}

/// `[abstract.tokens]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokensSection {
    /// How text is counted: `o200k_base`, `cl100k_base`, or the path of a tokenizer.json.
    pub text: String,
    /// How pictures are counted: `openai-tiles` or `qwen-patches`.
    pub image: ImageRule,
    /// `openai-tiles`: tokens of every picture.
    pub tile_base: u64,
    /// `openai-tiles`: tokens of each tile of 512 × 512.
    pub tile: u64,
    /// `qwen-patches`: most pixels of a picture before it is scaled down.
    pub max_pixels: u64,
    /// Pictures of the sliding window (`W` of `HiSA`, Eq. 1): the current one and so many before it.
    pub window: u32,
    /// Prices (TOML); with none, those of `HiSA`'s table 7.
    pub prices: Option<PathBuf>,
    /// A size that pictures are brought to before they are counted, `[1280, 720]` in the paper; with none, their own.
    pub resolution: Option<[u32; 2]>,
}

impl Default for TokensSection {
    fn default() -> Self {
        Self {
            text: "o200k_base".to_owned(),
            image: ImageRule::OpenaiTiles,
            tile_base: 70,
            tile: 140,
            max_pixels: 1_003_520,
            window: 8,
            prices: None,
            resolution: None,
        }
    }
}

/// How many tokens a picture has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageRule {
    /// `OpenAI`'s rule for high detail: into 2048 × 2048, the shorter side to 768, tiles of 512 × 512. The defaults of
    /// base and tile are GPT-5's; GPT-4o has 85 and 170.
    OpenaiTiles,
    /// Qwen2-VL's: sides to multiples of 28, one token for each 28 × 28.
    QwenPatches,
}

impl AbstractSection {
    /// What the published folder depends on: of the endpoint, only which model answers.
    pub fn identity(&self) -> Value {
        let Self {
            margin_px,
            crops,
            refine,
            max_rejects,
            max_calls,
            max_tokens,
            structured,
            page_steps,
            endpoint,
            tokens: _,
        } = self;
        let models: Vec<String> =
            endpoint.endpoints.iter().map(|e| format!("{}@{}", e.model, e.revision)).collect();
        json!({
            "margin_px": margin_px, "crops": crops, "refine": refine, "max_rejects": max_rejects, "max_calls": max_calls,
            "max_tokens": max_tokens, "structured": structured, "page_steps": page_steps, "models": models,
            "image_max_pixels": endpoint.image_max_pixels,
        })
    }

    /// Refuses what cannot work.
    ///
    /// # Errors
    /// Names the setting.
    pub fn check(&self) -> Result<()> {
        if self.refine.every == 0 {
            bail!("abstract.refine.every is 0: contexts are refined every so many steps, 5 by default");
        }
        if self.refine.max_chars < LEAST_CHARS {
            bail!("abstract.refine.max_chars is {}: give {LEAST_CHARS} or more", self.refine.max_chars);
        }
        if !(0.0..=1.0).contains(&self.max_rejects) {
            bail!("abstract.max_rejects is {}: give a share from 0 to 1", self.max_rejects);
        }
        if !self.crops && !self.endpoint.endpoints.is_empty() {
            bail!("abstract.crops is false, and a model is to look at the crops: set one of the two");
        }
        Ok(())
    }
}

/// `[lessons]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LessonsSection {
    /// Most lessons of a trajectory.
    pub per_trajectory: usize,
    /// Thresholds of store and retrieval.
    pub store: StoreSettings,
    /// Standard operating procedures (TOML: `[[require]]` with `domain` and `text`).
    pub require: Option<PathBuf>,
    /// An earlier store that this one goes on from: a run's `lessons` folder.
    pub base: Option<PathBuf>,
    /// Most questions put to the model, answers from the ledger counted.
    pub max_calls: Option<u64>,
    /// Longest reply, in tokens.
    pub max_tokens: u32,
    /// Hold replies to a JSON schema.
    pub structured: bool,
    /// The model that induces and synthesises; with no endpoints, the rules do.
    pub endpoint: ChatSettings,
    /// A Qdrant server that lessons are kept in too, and queried from; with no address, the run folder alone.
    pub qdrant: QdrantSection,
}

impl Default for LessonsSection {
    fn default() -> Self {
        Self {
            per_trajectory: 3,
            store: StoreSettings::default(),
            require: None,
            base: None,
            max_calls: None,
            max_tokens: 1_024,
            structured: false,
            endpoint: ChatSettings::default(),
            qdrant: QdrantSection::default(),
        }
    }
}

/// `[lessons.qdrant]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QdrantSection {
    /// Address: `http://localhost:6333`.
    pub url: Option<String>,
    /// The collection; made when it is not there.
    pub collection: String,
    /// Environment variable that holds the key, where the server wants one.
    pub api_key_env: Option<String>,
    /// Until an answer is complete, in seconds.
    pub timeout_secs: f64,
}

impl Default for QdrantSection {
    fn default() -> Self {
        Self { url: None, collection: "tracemill-lessons".to_owned(), api_key_env: None, timeout_secs: 30.0 }
    }
}
