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
mod calls;
mod events;
mod pyautogui;
mod recording;
mod standard;
#[cfg(test)]
mod tests;

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::nothing;
use super::screenagent::unlistable;
use super::source::{Fault, Rejecter, parse_json, read_text, utf8};
use super::{Adapter, AdapterError, AdapterOptions, Input, Item, Record};
use crate::trace::{Episode, Format, RejectKind};

const COMPLETE: &str = "reduced_events_complete.jsonl";
const VISIBLE: &str = "reduced_events_vis.jsonl";

/// JSON lines are read in items of about this many bytes, so that large files are shared out.
const CHUNK_BYTES: u64 = 8 << 20;

/// Reads `AgentNet` recordings, standardised trajectories and `AgentNetBench` tasks.
#[derive(Debug, Clone, Copy)]
pub struct Agentnet;

/// What every reader of a form needs.
#[derive(Clone, Copy)]
struct Context<'a> {
    input: &'a Input,
    options: AdapterOptions,
}

/// A refused episode: its id as far as known, and why.
struct Refused {
    episode_id: Option<String>,
    fault: Fault,
}

impl Adapter for Agentnet {
    fn format(&self) -> Format {
        Format::Agentnet
    }

    /// One item for each recording folder, each task file, and each stretch of JSON lines.
    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError> {
        let io = |source| unlistable(input, source);
        let files = input.files(|p| has_extension(p, "json") || has_extension(p, "jsonl")).map_err(io)?;
        let is_events = |p: &&PathBuf| p.ends_with(COMPLETE) || p.ends_with(VISIBLE);
        let recordings: std::collections::BTreeSet<PathBuf> =
            files.iter().filter(is_events).filter_map(|p| p.parent().map(Path::to_owned)).collect();
        let mut items: Vec<Item> = recordings.iter().cloned().map(Item::whole).collect();
        for file in files.into_iter().filter(|f| !f.parent().is_some_and(|p| recordings.contains(p))) {
            if input.only.is_none() && !looks_like_ours(&file) {
                continue;
            }
            if has_extension(&file, "jsonl") {
                items.extend(chunks(&file).map_err(io)?);
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
        } else if has_extension(&item.path, "jsonl") {
            read_lines(context, item, sink);
        } else {
            let read = read_text(&item.path).and_then(|text| parse_json(&text));
            let episode = read.map_err(|fault| Refused { episode_id: None, fault });
            let episode = episode.and_then(|value| bench::episode(context, &item.path, &value));
            hand_on(input, &item.path, String::new(), episode, sink);
        }
    }
}

fn hand_on(
    input: &Input,
    file: &Path,
    key: String,
    episode: Result<Episode, Refused>,
    sink: &mut dyn FnMut(Record),
) {
    let rejecter = Rejecter { format: Format::Agentnet, file: input.display(file) };
    sink(match episode {
        Ok(episode) => Record::Episode(Box::new(episode)),
        Err(Refused { episode_id, fault }) => {
            Record::Reject(rejecter.reject(key, episode_id.as_deref(), fault))
        }
    });
}

fn read_lines(context: Context<'_>, item: &Item, sink: &mut dyn FnMut(Record)) {
    let input = context.input;
    let mut any = false;
    let result = for_each_line(item, |number, bytes| {
        any = true;
        let key = format!("line {number}");
        let value = utf8(bytes).and_then(|text| parse_json(&text));
        let episode = value
            .map_err(|fault| Refused { episode_id: None, fault })
            .and_then(|value| standard::episode(context, &item.path, &key, &value));
        hand_on(input, &item.path, key, episode, sink);
    });
    let fault = match result {
        Err(e) => Fault::new(RejectKind::Unreadable, e.to_string()),
        Ok(()) if !any => Fault::new(RejectKind::Empty, "the file holds no trajectory"),
        Ok(()) => return,
    };
    hand_on(input, &item.path, String::new(), Err(Refused { episode_id: None, fault }), sink);
}

/// Calls `each` with the number and bytes of every line of an item that is not blank.
fn for_each_line(item: &Item, mut each: impl FnMut(u64, Vec<u8>)) -> std::io::Result<()> {
    let mut file = std::fs::File::open(&item.path)?;
    let range = item.bytes.clone().unwrap_or(0..u64::MAX);
    file.seek(SeekFrom::Start(range.start))?;
    let mut reader = BufReader::new(file.take(range.end - range.start));
    let mut number = item.first_line;
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if !line.trim_ascii().is_empty() {
            each(number, line);
        }
        number += 1;
    }
}

/// A file of JSON lines as items of whole lines, each of [`CHUNK_BYTES`] or a little more.
fn chunks(path: &Path) -> std::io::Result<Vec<Item>> {
    let size = std::fs::metadata(path)?.len();
    if size <= CHUNK_BYTES {
        return Ok(vec![Item::whole(path.to_owned())]);
    }
    let mut reader = BufReader::new(std::fs::File::open(path)?);
    let (mut items, mut line) = (Vec::new(), Vec::new());
    let (mut start, mut at, mut first_line, mut lines) = (0, 0, 1, 0);
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)? as u64;
        at += read;
        lines += u64::from(read > 0);
        if at - start >= CHUNK_BYTES || (read == 0 && at > start) {
            items.push(Item { path: path.to_owned(), bytes: Some(start..at), first_line });
            (start, first_line) = (at, lines + 1);
        }
        if read == 0 {
            return Ok(items);
        }
    }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case(extension))
}

/// True when the start of a file has the keys of a task or trajectory, or is no JSON at all:
/// a broken file among ours is reported rather than passed over.
fn looks_like_ours(path: &Path) -> bool {
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
