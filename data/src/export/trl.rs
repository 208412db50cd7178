//! TRL, and whatever reads a Hugging Face data set folder: Parquet of prompts and completions.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Kind;
use super::parquet_rows::{ImageCell, MessageCell, Sink, images};
use super::target::{TableSink, Written};
use crate::parquet_io::TableError;
use crate::prompt::{IMAGE, PromptMessage, Role};

/// A message with pictures between its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PartsCell {
    role: String,
    content: Vec<PartCell>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PartCell {
    r#type: String,
    text: Option<String>,
}

impl PartsCell {
    fn of(message: &PromptMessage) -> Self {
        let text = |t: &str| PartCell { r#type: "text".to_owned(), text: Some(t.to_owned()) };
        let mut content = Vec::new();
        for (i, part) in message.content.split(IMAGE).enumerate() {
            if i > 0 {
                content.push(PartCell { r#type: "image".to_owned(), text: None });
            }
            if !part.is_empty() {
                content.push(text(part));
            }
        }
        Self { role: message.role.name().to_owned(), content }
    }
}

/// A row of text alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TextRow {
    prompt: Vec<MessageCell>,
    completion: Vec<MessageCell>,
    id: String,
    prompt_hash: String,
    ground_truth: Option<String>,
}

impl From<&Written> for TextRow {
    fn from(row: &Written) -> Self {
        let (prompt, completion) = halves(row);
        Self {
            prompt: prompt.iter().map(MessageCell::of).collect(),
            completion: completion.iter().map(MessageCell::of).collect(),
            id: row.sample.lineage.row_id.clone(),
            prompt_hash: row.sample.prompt.hash.clone(),
            ground_truth: Some(super::pool::ground_truth(&row.sample)),
        }
    }
}

/// A row with a picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PicturedRow {
    prompt: Vec<PartsCell>,
    completion: Vec<PartsCell>,
    images: Vec<ImageCell>,
    id: String,
    prompt_hash: String,
    ground_truth: Option<String>,
}

impl From<&Written> for PicturedRow {
    fn from(row: &Written) -> Self {
        let (prompt, completion) = halves(row);
        Self {
            prompt: prompt.iter().map(PartsCell::of).collect(),
            completion: completion.iter().map(PartsCell::of).collect(),
            images: images(row.picture.as_ref()),
            id: row.sample.lineage.row_id.clone(),
            prompt_hash: row.sample.prompt.hash.clone(),
            ground_truth: Some(super::pool::ground_truth(&row.sample)),
        }
    }
}

fn halves(row: &Written) -> (Vec<PromptMessage>, Vec<PromptMessage>) {
    row.sample.messages().into_iter().partition(|m| m.role != Role::Assistant)
}

pub(super) fn create(kind: Kind, path: &Path, pictured: bool) -> Result<Box<dyn TableSink>, TableError> {
    let without: &[&str] = match kind {
        Kind::Sft => &["ground_truth"],
        Kind::Rl => &["completion"],
    };
    if pictured { Sink::<PicturedRow>::create(path, without) } else { Sink::<TextRow>::create(path, without) }
}

/// The reward function for `GRPOTrainer`.
pub(super) fn companions(kind: Kind) -> Vec<(String, String)> {
    match kind {
        Kind::Sft => Vec::new(),
        Kind::Rl => {
            let text = include_str!("templates/tracemill_reward.py").to_owned();
            vec![("tracemill_reward.py".to_owned(), text)]
        }
    }
}
