//! The chat form of OpenAI's API: JSON lines of messages, pictures as data URLs.

use serde_json::{Value, json};

use super::target::Written;
use crate::prompt::{IMAGE, PromptMessage};

/// `{"messages"}` and nothing else, which is all that fine-tuning takes; RL rows have `id` and
/// `ground_truth` for a grader.
pub(super) fn row(row: &Written) -> Value {
    let sample = &row.sample;
    let url = row.picture.as_ref().map(super::target::Picture::url);
    let messages: Vec<Value> = sample.messages().iter().map(|m| message(m, url.as_deref())).collect();
    let mut out = json!({ "messages": messages });
    if sample.reply.is_none() {
        out["id"] = json!(sample.lineage.row_id);
        out["ground_truth"] = json!(super::pool::ground_truth(sample));
    }
    out
}

fn message(message: &PromptMessage, url: Option<&str>) -> Value {
    let Some(url) = url.filter(|_| message.content.contains(IMAGE)) else { return json!(message) };
    let mut parts = Vec::new();
    for (i, text) in message.content.split(IMAGE).enumerate() {
        if i > 0 {
            parts.push(json!({"type": "image_url", "image_url": {"url": url}}));
        }
        if !text.is_empty() {
            parts.push(json!({"type": "text", "text": text}));
        }
    }
    json!({"role": message.role, "content": parts})
}
