//! Why a policy could not be loaded or used.

use std::path::Path;

use thiserror::Error;

/// Why a policy could not be loaded or used.
#[derive(Debug, Error)]
pub enum PolicyError {
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
}

impl PolicyError {
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
