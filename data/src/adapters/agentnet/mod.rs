//! `AgentNet` (`OpenCUA`) in its three forms.
//!
//! - A raw recording: a folder with `reduced_events_complete.jsonl` (or only `…_vis.jsonl`), and
//!   beside it the window titles, accessibility trees, machine and task. One episode.
//! - The standardised form: JSON lines `{task_id, instruction, traj}`, whose steps are `PyAutoGUI`
//!   code. It is parsed, never run. One episode a line.
//! - `AgentNetBench`: one JSON file for each task, with gold boxes and alternatives.
//!
//! A step that moves the pointer and then scrolls, drags or clicks where it is, is one action:
//! the sources write `moveTo` first because the call after it takes no position.

mod bench;
mod events;
mod recording;
mod standard;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use super::source::{Refused, Rejecter, parse_json, read_text};
use super::{Adapter, AdapterError, AdapterOptions, Input, Item, Record};
use super::{CHUNK_BYTES, for_each_line, has_extension, line_items, nothing, rows::some_records};
use crate::trace::Format;

const COMPLETE: &str = "reduced_events_complete.jsonl";
const VISIBLE: &str = "reduced_events_vis.jsonl";

/// Reads `AgentNet` recordings, standardised trajectories and `AgentNetBench` tasks.
#[derive(Debug, Clone, Copy)]
pub struct Agentnet;

/// What every reader of a form needs.
#[derive(Clone, Copy)]
struct Context<'a> {
    input: &'a Input,
    options: AdapterOptions,
}

impl Adapter for Agentnet {
    fn format(&self) -> Format {
        Format::Agentnet
    }

    /// One item for each recording folder, each task file, and each stretch of JSON lines.
    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError> {
        let files = input.files(|p| has_extension(p, &["json", "jsonl"]))?;
        let is_events = |p: &&PathBuf| p.ends_with(COMPLETE) || p.ends_with(VISIBLE);
        let recordings: std::collections::BTreeSet<PathBuf> =
            files.iter().filter(is_events).filter_map(|p| p.parent().map(Path::to_owned)).collect();
        let mut items: Vec<Item> = recordings.iter().cloned().map(Item::whole).collect();
        for file in files.into_iter().filter(|f| !f.parent().is_some_and(|p| recordings.contains(p))) {
            if input.only.is_none() && !looks_like_ours(&file) {
                continue;
            }
            if has_extension(&file, &["jsonl"]) {
                items.extend(line_items(&file, CHUNK_BYTES));
            } else {
                items.push(Item::whole(file));
            }
        }
        items.sort_by(|a, b| (&a.path, a.first_line).cmp(&(&b.path, b.first_line)));
        if items.is_empty() {
            return Err(nothing(input, self.format()));
        }
        Ok(items)
    }

    fn read(&self, input: &Input, item: &Item, options: AdapterOptions, sink: &mut dyn FnMut(Record)) {
        let context = Context { input, options };
        if item.path.is_dir() {
            recording::read(context, &item.path, sink);
        } else if has_extension(&item.path, &["jsonl"]) {
            read_lines(context, item, sink);
        } else {
            let read = read_text(&item.path).and_then(|text| parse_json(&text));
            let value = read.map_err(|fault| Refused::new("", None, fault));
            let episode = value.and_then(|value| bench::episode(context, &item.path, &value));
            sink(Rejecter::of(Format::Agentnet, input, &item.path).outcome(episode));
        }
    }
}

fn read_lines(context: Context<'_>, item: &Item, sink: &mut dyn FnMut(Record)) {
    let rejecter = Rejecter::of(Format::Agentnet, context.input, &item.path);
    let mut lines = 0;
    let result = for_each_line(item, |number, line| {
        lines += 1;
        let key = format!("line {number}");
        let value = line.and_then(parse_json).map_err(|fault| Refused::new(key.as_str(), None, fault));
        sink(rejecter.outcome(value.and_then(|value| standard::episode(context, &item.path, &key, &value))));
    });
    if let Err(fault) = result.and_then(|()| some_records(lines)) {
        sink(rejecter.record(Refused::new("", None, fault)));
    }
}

/// True when the start of a file has the keys of a task or trajectory, or is no JSON at all:
/// a broken file among ours is reported rather than passed over.
fn looks_like_ours(path: &Path) -> bool {
    use std::io::Read;
    let mut start = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(1 << 16).read_to_end(&mut start));
    let text = String::from_utf8_lossy(&start);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let keys = ["\"traj\"", "\"step_num\"", "\"high_level_task_description\"", "\"ground_truth_actions\""];
    let broken = !text.starts_with(['{', '[']);
    read.is_err() || broken || (text.contains("\"task_id\"") && keys.iter().any(|k| text.contains(k)))
}

/// Text of a field, trimmed; `None` when it is blank.
fn text_of(fields: super::source::Fields<'_>, name: &str) -> Option<String> {
    fields.opt_str(name).map(|s| s.trim().to_owned())
}
