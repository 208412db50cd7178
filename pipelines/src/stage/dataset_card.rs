//! The README.md of a data set: what it holds, how it was made, and what was left out.

use std::collections::BTreeMap;

use serde_json::Value;
use tracemill_data::export::{Exporter, Form, Kind, Target};

/// The card, with the YAML that Hugging Face reads.
pub fn card(kind: Kind, exporter: Exporter, target: Target, counts: &BTreeMap<String, Value>) -> String {
    let role = exporter.role.name();
    let rows = &counts["rows"];
    let mut card = String::from("---\n");
    card.push_str("tags: [gui-agents, tracemill]\n");
    if target == Target::Trl {
        card.push_str("configs:\n- config_name: default\n  data_files:\n");
        for split in rows.as_object().into_iter().flatten().map(|(split, _)| split) {
            card.push_str(&format!("  - split: {split}\n    path: data/{split}-*.parquet\n"));
        }
    }
    card.push_str("---\n\n");
    card.push_str(&format!("# {role} rows for {} ({})\n\n", kind.name().to_uppercase(), target.name()));
    card.push_str(&format!("Made by {} from GUI interaction traces. ", crate::manifest::tool()));
    card.push_str(match exporter.form {
        Form::Paper => "Prompts and replies as in CES, appendices B and C.",
        Form::CesCode => "Prompts and replies as in CES's released rows.",
    });
    card.push_str(
        " Splits are by task: no task is on both sides. `lineage.parquet` names the episode, step and source record \
         of every row; `manifest.json` holds the settings and the hash of every file.\n\n",
    );
    card.push_str("| what | count |\n| --- | --- |\n");
    for (name, value) in counts {
        match value {
            Value::Object(fields) => {
                for (key, n) in fields {
                    card.push_str(&format!("| {}: {key} | {n} |\n", name.replace('_', " ")));
                }
            }
            Value::Array(_) => {}
            n => card.push_str(&format!("| {} | {n} |\n", name.replace('_', " "))),
        }
    }
    let prompts = counts["prompts"].as_array().cloned().unwrap_or_default();
    card.push_str("\nPrompts (rows are to be used with these words only):\n\n");
    for prompt in prompts {
        let text = |key: &str| prompt[key].as_str().unwrap_or_default().to_owned();
        card.push_str(&format!("- `{}`, hash `{}`\n", text("prompt"), text("hash")));
    }
    card
}
