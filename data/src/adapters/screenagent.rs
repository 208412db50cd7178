//! `ScreenAgent`: one folder is one session of a person who corrected a model step by step.
//!
//! A session folder holds `<timestamp>_translate.json` files, which are gold, beside rejected
//! variants (`_translate_neg_plan.json`, `_translate_neg_eval.json`), which are counted and not
//! read. The timestamp orders the files. Each mouse, keyboard and wait action of a gold file is
//! one step; plans, evaluations and counts go to the episode's `extra`. A session with a faulty
//! gold file is refused as a whole, since its later steps would follow from nothing.

mod session;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::source::{Fault, Rejecter};
use super::{Adapter, AdapterError, AdapterOptions, Input, Item, Record, nothing};
use crate::trace::{Episode, Format, Outcome, Platform, RejectKind};
use session::Session;

const GOLD: &str = "_translate.json";
const NEG_PLAN: &str = "_translate_neg_plan.json";
const NEG_EVAL: &str = "_translate_neg_eval.json";

/// Reads `ScreenAgent` session folders.
#[derive(Debug, Clone, Copy)]
pub struct Screenagent;

impl Adapter for Screenagent {
    fn format(&self) -> Format {
        Format::Screenagent
    }

    /// One item for each folder with session files, or the one file given.
    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError> {
        let keep = |p: &Path| [GOLD, NEG_PLAN, NEG_EVAL].iter().any(|end| ends_with(p, end));
        let files = input.files(keep)?;
        let mut paths: Vec<PathBuf> = match &input.only {
            Some(_) => files,
            None => files.iter().filter_map(|f| f.parent()).map(Path::to_owned).collect(),
        };
        paths.sort();
        paths.dedup();
        if paths.is_empty() {
            return Err(nothing(input, self.format()));
        }
        Ok(paths.into_iter().map(Item::whole).collect())
    }

    fn read(&self, input: &Input, item: &Item, options: AdapterOptions, sink: &mut dyn FnMut(Record)) {
        let folder = if item.path.is_dir() { item.path.as_path() } else { parent(&item.path) };
        let episode_id = format!("{}:{}", self.format(), name(folder));
        let mut refuse = |file: &Path, key: String, fault: Fault| {
            let rejecter = Rejecter { format: self.format(), file: input.display(file) };
            sink(Record::Reject(rejecter.reject(key, Some(&episode_id), fault)));
        };
        let files = match session_files(&item.path) {
            Ok(files) => files,
            Err(fault) => return refuse(&item.path, String::new(), fault),
        };
        let gold: Vec<_> = files.iter().filter(|f| ends_with(f, GOLD)).collect();
        if gold.is_empty() {
            let fault = Fault::new(RejectKind::Empty, format!("no gold file (`*{GOLD}`) in the session"));
            return refuse(&item.path, String::new(), fault);
        }
        let mut session = Session::default();
        for file in gold {
            if let Err((key, fault)) = session.add_file(input, folder, file, options) {
                return refuse(file, key, fault);
            }
        }
        if let Err(fault) = session.finish() {
            return refuse(&item.path, String::new(), fault);
        }
        let count = |end: &str| files.iter().filter(|f| ends_with(f, end)).count();
        let rejected = (count(NEG_PLAN), count(NEG_EVAL));
        sink(Record::Episode(Box::new(episode(
            session,
            episode_id,
            input.display(folder),
            folder,
            rejected,
        ))));
    }
}

fn episode(session: Session, id: String, source: String, folder: &Path, rejected: (usize, usize)) -> Episode {
    let extra = json!({
        "plan": session.plan(),
        "neg_plan": rejected.0,
        "neg_eval": rejected.1,
        "sub_task_success": session.evaluations.success,
        "need_retry": session.evaluations.retry,
        "need_reformulate": session.evaluations.reformulate,
    });
    let succeeded = session.evaluations.last_succeeded;
    let split = ["train", "test"].into_iter().find(|s| name(parent(folder)) == *s);
    Episode {
        episode_id: id,
        format: Format::Screenagent,
        source,
        source_key: String::new(),
        platform: Platform::Desktop,
        instruction: session.instruction,
        apps: Vec::new(),
        domain: None,
        outcome: if succeeded { Outcome::Success } else { Outcome::Unknown },
        split: split.map(str::to_owned),
        extra: Some(extra.to_string()),
        steps: session.steps,
    }
}

/// The session's files in the order of their timestamps, which are of fixed width.
fn session_files(path: &Path) -> Result<Vec<PathBuf>, Fault> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |e: std::io::Error| Fault::new(RejectKind::Unreadable, e.to_string());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.file_type().map_err(unreadable)?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn ends_with(path: &Path, end: &str) -> bool {
    path.file_name().is_some_and(|n| n.to_string_lossy().ends_with(end))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// The last component of a path, as text.
pub(super) fn name(path: &Path) -> String {
    path.file_name().unwrap_or(OsStr::new("")).to_string_lossy().into_owned()
}

/// Keys as one combination: lower case, joined with `+`, with the names of `ctrl+shift+enter`
/// whatever the source's own (X11's `Control_L`, pynput's `ctrl_l`, pyautogui's `ctrlleft`).
pub(super) fn combination<'a>(keys: impl IntoIterator<Item = &'a str>) -> String {
    keys.into_iter().map(key_name).collect::<Vec<_>>().join("+")
}

fn key_name(key: &str) -> String {
    let key = if key == " " { "space" } else { key.trim() };
    let lower = key.to_lowercase();
    let base = ["_l", "_r", "left", "right"]
        .iter()
        .find_map(|side| lower.strip_suffix(side).filter(|base| is_modifier(base)))
        .unwrap_or(&lower);
    let name = match base {
        "control" | "ctl" => "ctrl",
        "super" | "windows" | "meta" | "winkey" => "win",
        "option" => "alt",
        "command" => "cmd",
        "return" => "enter",
        "escape" => "esc",
        "del" => "delete",
        "page_up" | "prior" | "pgup" => "pageup",
        "page_down" | "next" | "pgdn" => "pagedown",
        other => other,
    };
    name.to_owned()
}

fn is_modifier(key: &str) -> bool {
    matches!(
        key,
        "control" | "ctrl" | "alt" | "shift" | "super" | "win" | "meta" | "option" | "cmd" | "command"
    )
}
