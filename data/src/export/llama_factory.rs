//! LLaMA-Factory: sharegpt conversations in a JSON array, named by `dataset_info.json`.
//!
//! The released rows of CES have this form; under `ces-code` a row holds nothing else.

use serde_json::{Map, Value, json};

use super::target::Written;
use super::{Kind, Split, Target};
use crate::artifact::AgentRole;
use crate::prompt::Role;

/// `{"system", "images"?, "conversations", …}`. An RL row, which has no reply, ends with the true action:
/// the loader takes even numbers of turns only.
pub(super) fn row(row: &Written) -> Value {
    let sample = &row.sample;
    let mut out = Map::new();
    let messages = &sample.prompt.messages;
    if let Some(system) = messages.iter().find(|m| m.role == Role::System) {
        out.insert("system".to_owned(), Value::String(system.content.clone()));
    }
    if let Some(picture) = &row.picture {
        out.insert("images".to_owned(), json!([picture.path]));
    }
    let human = messages.iter().filter(|m| m.role == Role::User).map(|m| m.content.as_str());
    let reply = sample.reply.clone().unwrap_or_else(|| sample.action.clone());
    out.insert(
        "conversations".to_owned(),
        json!([
            {"from": "human", "value": human.collect::<String>()},
            {"from": "gpt", "value": reply},
        ]),
    );
    if !sample.lineage.prompt.starts_with("ces-") {
        out.insert("id".to_owned(), json!(sample.lineage.row_id));
    }
    if sample.reply.is_none() {
        out.insert("ground_truth".to_owned(), json!(super::pool::ground_truth(sample)));
    }
    Value::Object(out)
}

/// `dataset_info.json`.
///
/// The loader takes a column that is named and that no row has for an error.
pub(super) fn companions(
    kind: Kind,
    role: AgentRole,
    splits: &[Split],
    pictured: bool,
) -> Vec<(String, String)> {
    let mut info = Map::new();
    for &split in splits {
        let name = format!("tracemill_{}_{}_{}", kind.name(), role.name().replace('-', "_"), split.name());
        let mut columns = json!({"messages": "conversations", "system": "system"});
        if pictured {
            columns["images"] = json!("images");
        }
        let entry = json!({
            "file_name": Target::LlamaFactory.file(split),
            "formatting": "sharegpt",
            "columns": columns,
        });
        info.insert(name, entry);
    }
    let text = serde_json::to_string_pretty(&Value::Object(info)).unwrap_or_default();
    vec![("dataset_info.json".to_owned(), format!("{text}\n"))]
}
