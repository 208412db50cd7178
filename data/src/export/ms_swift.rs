//! ms-swift: JSON lines of messages, with pictures by path and whatever a reward needs beside them.

use serde_json::{Value, json};

use super::Kind;
use super::target::Written;

/// `{"messages", "images"?, "id", "solution"?}`; other keys reach the reward functions.
pub(super) fn row(row: &Written) -> Value {
    let sample = &row.sample;
    let mut out = json!({ "messages": sample.messages() });
    if let Some(picture) = &row.picture {
        out["images"] = json!([picture.url()]);
    }
    out["id"] = json!(sample.lineage.row_id);
    out["prompt_hash"] = json!(sample.lineage.prompt_hash);
    if sample.reply.is_none() {
        out["solution"] = json!(super::pool::ground_truth(sample));
    }
    out
}

/// The plug-in that rewards through `tracemill serve reward`.
pub(super) fn companions(kind: Kind) -> Vec<(String, String)> {
    match kind {
        Kind::Sft => Vec::new(),
        Kind::Rl => vec![
            ("plugin.py".to_owned(), include_str!("templates/plugin.py").to_owned()),
            ("tracemill_reward.py".to_owned(), include_str!("templates/tracemill_reward.py").to_owned()),
        ],
    }
}
