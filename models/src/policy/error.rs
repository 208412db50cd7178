//! What can go wrong with a policy.

use std::path::Path;

use crate::optim::OptimError;

/// Result of the policy's functions.
pub type Result<T> = std::result::Result<T, PolicyError>;

/// An error of a policy, with what is needed to find its cause.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A tensor operation failed.
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
    /// A file of the model cannot be read, or holds something else than it should.
    #[error("{file}: {reason}; {remedy}")]
    File {
        /// The file: its path, or its name where only bytes were given.
        file: String,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A GGUF file lacks a metadata key, or its value cannot be used.
    #[error("GGUF metadata `{key}`: {reason}; {remedy}")]
    Metadata {
        /// The key.
        key: String,
        /// What is wrong with its value, which is quoted.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A chat template cannot be compiled or rendered, or it refused the conversation.
    #[error("chat template: {reason}; {remedy}")]
    Template {
        /// What happened, with the template's line where it is known.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A conversation is not what the call needs.
    #[error("messages: {reason}; {remedy}")]
    Messages {
        /// What is wrong.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The tokenizer refused a text or ids.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// A key of the model's configuration.
    #[error("model configuration, `{key}`: {reason}")]
    Config {
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A weight that the configuration asks for is not there.
    #[error(
        "the model has no tensor `{name}`: the weights are not all there, or belong to another configuration"
    )]
    MissingTensor {
        /// Its name.
        name: String,
    },
    /// A layer's weight that a model of this configuration does not have, so that leaving it out would change the model.
    #[error(
        "the weights have `{name}`, for which the configuration has no place: the model is of another kind than \
         llama, qwen2 or qwen3, or config.json is not its own"
    )]
    UnknownTensor {
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

    pub(super) fn file(file: &Path, reason: impl std::fmt::Display) -> Self {
        let remedy = "name a Hugging Face folder with all its files, or a GGUF file";
        Self::File { file: file.display().to_string(), reason: reason.to_string(), remedy }
    }

    /// A [`PolicyError::File`] about `file` of `folder`.
    pub(super) fn in_folder(folder: &Path, file: &str, reason: &dyn std::fmt::Display) -> Self {
        let remedy = "name a model folder as the Hugging Face libraries write it, or a GGUF file";
        Self::File { file: folder.join(file).display().to_string(), reason: reason.to_string(), remedy }
    }

    /// The same error, with the folder before the file's name.
    pub(super) fn with_folder(self, folder: &Path) -> Self {
        match self {
            Self::File { file, reason, remedy } => {
                Self::File { file: folder.join(file).display().to_string(), reason, remedy }
            }
            other => other,
        }
    }
}
