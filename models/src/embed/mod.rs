//! Text embedders: from the text of a view to a vector.
//!
//! The paper embeds every view with a frozen text embedder before its multi-view encoder sees it (`IntentCUA`,
//! section 3.1). Two are built in: [`HashEmbedder`], which needs no weights, and [`BertEmbedder`], which runs any
//! sentence-transformers folder of the BERT family. [`CacheMap`] keeps what was embedded once.

mod cache;
mod hash;
mod minilm;

use thiserror::Error;

pub use cache::{CacheError, CacheMap};
pub use hash::{HashEmbedder, HashSettings};
pub use minilm::{BertEmbedder, BertSettings};

/// Maps texts to unit vectors of one fixed dimension.
pub trait Embedder: Send + Sync {
    /// What identifies the vectors: the model with its revision, or the scheme with its dimension. Two embedders
    /// with the same name give the same vectors, so the name belongs in cache keys and manifests.
    fn name(&self) -> String;

    /// Width `d` of a vector.
    fn dim(&self) -> usize;

    /// Embeds `n` texts.
    ///
    /// # Shapes
    /// Returns `n x d`, row-major, each row of Euclidean norm 1, in the order of `texts`.
    ///
    /// # Errors
    /// [`EmbedError::EmptyText`] when a text is empty or white space: an absent view is masked by the caller, for
    /// a zero vector would count as a real view in every loss.
    fn embed(&self, texts: &[&str]) -> Result<Vec<f32>, EmbedError>;
}

/// Why texts could not be embedded.
#[derive(Debug, Error)]
pub enum EmbedError {
    /// A text holds nothing to embed.
    #[error("text {index} is empty: mask the view instead of embedding it")]
    EmptyText {
        /// Position in the call.
        index: usize,
    },
    /// The settings contradict themselves.
    #[error("embedder setting `{key}` = {value}: {reason}")]
    Setting {
        /// The setting's name.
        key: &'static str,
        /// Its value.
        value: usize,
        /// What it must be.
        reason: &'static str,
    },
    /// A file of the model folder cannot be read.
    #[error(
        "model folder {folder}: {file}: {reason}; run `scripts/fetch-models.sh minilm`, or name a folder with config.json, tokenizer.json and model.safetensors"
    )]
    ModelFile {
        /// The folder.
        folder: String,
        /// The file inside it.
        file: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The tokenizer refused a text.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// A server that embeds failed.
    #[error("embedding service: {0}")]
    Service(Box<dyn std::error::Error + Send + Sync>),
    /// The tensor library failed: out of memory, or a device fault.
    #[error("forward pass of the embedder: {0}")]
    Tensor(#[from] candle_core::Error),
}

/// Refuses a call that holds an empty text.
fn check_not_empty(texts: &[&str]) -> Result<(), EmbedError> {
    match texts.iter().position(|text| text.trim().is_empty()) {
        Some(index) => Err(EmbedError::EmptyText { index }),
        None => Ok(()),
    }
}

/// Scales `row` to Euclidean norm 1; a zero row stays zero.
fn normalise(row: &mut [f32]) {
    let norm = row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    if norm > 0.0 {
        for x in row {
            *x = (f64::from(*x) / norm) as f32;
        }
    }
}
