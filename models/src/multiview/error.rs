//! What can go wrong in the encoder.

use crate::optim::OptimError;

/// Result of the encoder's functions.
pub type Result<T> = std::result::Result<T, EncoderError>;

/// An error of the multi-view encoder, with what is needed to find its cause.
#[derive(Debug, thiserror::Error)]
pub enum EncoderError {
    /// A tensor operation failed.
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
    /// A view's tensor has another shape than the batch or the encoder.
    #[error("{what} has shape {found:?}, expected {expected:?}")]
    Shape {
        /// Which tensor.
        what: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape it should have.
        expected: Vec<usize>,
    },
    /// A unit without any view has no latent.
    #[error("unit at row {row} has none of its three views; leave it out before encoding")]
    NoView {
        /// Row in the batch.
        row: usize,
    },
    /// There is nothing to train on.
    #[error("no units to train on")]
    NoData,
    /// A setting outside its range.
    #[error("{name} is {value}, expected {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What it should be.
        expected: &'static str,
    },
    /// The optimizer stopped: a gradient is not finite.
    #[error(transparent)]
    Optimizer(#[from] OptimError),
    /// A tensor of a checkpoint is missing.
    #[error("the checkpoint has no tensor `{name}`")]
    MissingTensor {
        /// Its name.
        name: String,
    },
    /// The bytes are not a checkpoint of this encoder.
    #[error("not an encoder checkpoint: {0}")]
    Checkpoint(String),
    /// A checkpoint cannot continue with these settings or data.
    #[error("cannot resume: {what} is {now} now and was {then} in the checkpoint")]
    Resume {
        /// What differs.
        what: &'static str,
        /// Its value now.
        now: String,
        /// Its value in the checkpoint.
        then: String,
    },
}
