//! What can go wrong with a policy.

use crate::optim::OptimError;

/// Result of the policy's functions.
pub type Result<T> = std::result::Result<T, PolicyError>;

/// An error of a policy, with what is needed to find its cause.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A tensor operation failed.
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
    /// A file of the model cannot be read.
    #[error("{file}: {reason}")]
    File {
        /// The file or folder.
        file: String,
        /// What is wrong, and the remedy.
        reason: String,
    },
    /// A key of the model's configuration.
    #[error("model configuration, `{key}`: {reason}")]
    Config {
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A weight that the configuration asks for is not there.
    #[error("the model has no tensor `{name}`: the weights are not all there, or belong to another configuration")]
    MissingTensor {
        /// Its name.
        name: String,
    },
    /// A weight has another shape than the configuration says.
    #[error("`{name}` has shape {found:?}, the configuration says {expected:?}")]
    Shape {
        /// Its name.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape it should have.
        expected: Vec<usize>,
    },
    /// Input that the model cannot take.
    #[error("{0}")]
    Input(String),
    /// An adapter that does not fit.
    #[error("adapter: {0}")]
    Adapter(String),
    /// The optimizer stopped.
    #[error(transparent)]
    Optimizer(#[from] OptimError),
}

impl PolicyError {
    pub(super) fn config(key: &str, reason: impl Into<String>) -> Self {
        Self::Config { key: key.to_owned(), reason: reason.into() }
    }

    pub(super) fn missing(name: &str) -> Self {
        Self::MissingTensor { name: name.to_owned() }
    }

    pub(super) fn file(file: &std::path::Path, reason: impl std::fmt::Display) -> Self {
        Self::File { file: file.display().to_string(), reason: reason.to_string() }
    }
}
