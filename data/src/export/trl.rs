//! TRL, and whatever reads a Hugging Face data set folder: Parquet of prompts and completions.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Kind;
use super::parquet_rows::{ImageCell, MessageCell, Sink};
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

/// A message in one of the two forms: text alone, or texts with pictures between them.
trait Cell: Serialize + DeserializeOwned + Send + 'static {
    fn of(message: &PromptMessage) -> Self;
}

impl Cell for MessageCell {
    fn of(message: &PromptMessage) -> Self {
        Self::of(message)
    }
}

impl Cell for PartsCell {
    fn of(message: &PromptMessage) -> Self {
        Self::of(message)
    }
}

/// A row; the columns that its kind does not have are left out of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "C: Cell")]
struct Row<C> {
    prompt: Vec<C>,
    completion: Vec<C>,
    images: Vec<ImageCell>,
    id: String,
    prompt_hash: String,
    ground_truth: String,
}

impl<C: Cell> From<&Written> for Row<C> {
    fn from(row: &Written) -> Self {
        let (prompt, completion) = halves(row);
        Self {
            prompt: prompt.iter().map(C::of).collect(),
            completion: completion.iter().map(C::of).collect(),
            images: row.picture.iter().map(ImageCell::of).collect(),
            id: row.sample.lineage.row_id.clone(),
            prompt_hash: row.sample.prompt.hash.clone(),
            ground_truth: super::pool::ground_truth(&row.sample),
        }
    }
}

fn halves(row: &Written) -> (Vec<PromptMessage>, Vec<PromptMessage>) {
    row.sample.messages().into_iter().partition(|m| m.role != Role::Assistant)
}

pub(super) fn create(kind: Kind, path: &Path, pictured: bool) -> Result<Box<dyn TableSink>, TableError> {
    let other = if kind == Kind::Sft { "ground_truth" } else { "completion" };
    if pictured {
        Sink::<Row<PartsCell>>::create(path, &[other])
    } else {
        Sink::<Row<MessageCell>>::create(path, &[other, "images"])
    }
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
