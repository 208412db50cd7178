//! Which format a file looks like: for discovery, and for errors that say what was found instead.
//!
//! Only the beginning of a file is looked at: the keys of its first JSON object, its CSV header, or
//! the keys at the start of its YAML lines. No format is guessed from a value.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{AdapterError, Input};
use crate::trace::Format;

/// How much of a file is looked at.
const PEEK_BYTES: u64 = 16 << 10;
/// How many files of a folder [`looks_like`] opens.
const PEEK_FILES: usize = 64;
/// How many lines are tried when the first of a file of lines is damaged.
const PEEK_LINES: usize = 16;
/// Endings of YAML files.
pub const YAML: &[&str] = &["yaml", "yml"];

/// What the beginning of a file says about its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// A file of this format.
    Is(Format),
    /// Damaged, empty, or with some of a known format's keys only: reading it will tell.
    Unclear,
    /// Something else.
    Foreign,
}

/// Keys that together are found in one format only.
const SIGNATURES: &[(Format, &[&str])] = &[
    (Format::GuiOdyssey, &["device_info", "task_info"]),
    (Format::GuiOdyssey, &["task_info", "steps"]),
    (Format::GuiOdyssey, &["device_info", "steps"]),
    (Format::GuiOdyssey, &["step_length", "steps"]),
    (Format::CesSft, &["conversations"]),
    (Format::AndroidControl, &["goal", "steps"]),
    (Format::Mind2web, &["annotation_id", "operation"]),
    (Format::Mind2web, &["annotation_id", "previous_actions"]),
    (Format::Screenagent, &["task_prompt", "send_prompt"]),
    (Format::Agentnet, &["task_id", "high_level_task_description"]),
    (Format::Agentnet, &["task_id", "traj"]),
    (Format::Aitz, &["episode_id", "result_action_type"]),
    (Format::Amex, &["episode_id", "instruction", "steps"]),
    (Format::Osworld, &["step_num", "action", "screenshot_file"]),
    (Format::Osworld, &["app", "action", "before", "after"]),
];

/// Files known by their name where their keys do not tell: a chat has the keys of any chat, a row may be cut off.
const NAMES: &[(Format, &str)] =
    &[(Format::Osworld, super::osworld::TRAJECTORY), (Format::Webvoyager, super::webvoyager::CHAT)];

/// Keys that a task of `DroidTask` has, below its application and its hash.
const TASK_KEYS: &[&str] = &["task", "profile"];

/// Keys of one format's records that other datasets use too: one of them alone proves nothing.
const HINTS: &[&str] = &[
    "annotation_id",
    "device_info",
    "episode_id",
    "goal",
    "ground_truth_actions",
    "previous_actions",
    "result_action_type",
    "step_length",
    "steps",
    "system",
    "task_id",
    "task_info",
    "traj",
];

/// Looks at the beginning of the file `path`.
pub fn look(path: &Path) -> Look {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("reduced_events_") && has_extension(path, &["jsonl"]) {
        return Look::Is(Format::Agentnet);
    }
    if matches!(name.as_ref(), "utg.yaml" | "utg.yml") {
        return Look::Is(Format::Droidtask);
    }
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(PEEK_BYTES).read_to_end(&mut head));
    if read.is_err() {
        return Look::Unclear;
    }
    if has_extension(path, &["csv"]) {
        look_at_header(&head)
    } else if has_extension(path, YAML) {
        look_at_yaml(&head)
    } else {
        let named = NAMES.iter().find(|(_, named)| name == *named).map(|(format, _)| Look::Is(*format));
        match (look_at_json(&head), named) {
            (Look::Unclear | Look::Foreign, Some(named)) => named,
            (look, _) => look,
        }
    }
}

/// Keys of the first record in the file, as far as its beginning can be read.
pub fn keys_of(path: &Path) -> BTreeSet<String> {
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(PEEK_BYTES).read_to_end(&mut head));
    if read.is_err() {
        return BTreeSet::new();
    }
    first_keys(head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&head), 0).0
}

/// An exploration of `DroidTask` is a list of records, each with a choice.
fn look_at_yaml(head: &[u8]) -> Look {
    let text = String::from_utf8_lossy(head);
    let holds = |key: &str| text.lines().any(|line| line.trim_start_matches([' ', '-']).starts_with(key));
    match (holds("records:"), holds("Choice:")) {
        (true, true) => Look::Is(Format::Droidtask),
        (false, false) if !text.trim().is_empty() => Look::Foreign,
        _ => Look::Unclear,
    }
}

fn look_at_header(head: &[u8]) -> Look {
    let header =
        String::from_utf8_lossy(head.split(|b| *b == b'\n').next().unwrap_or_default()).to_lowercase();
    if header.contains("timestamp") && (header.contains("eventtype") || header.contains("targetapp")) {
        Look::Is(Format::UiLog)
    } else if header.trim().is_empty() {
        Look::Unclear
    } else {
        Look::Foreign
    }
}

fn look_at_json(head: &[u8]) -> Look {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let (keys, whole) = first_keys(head, 0);
    if let Some(format) = format_of(&keys) {
        return Look::Is(format);
    }
    let tasks = first_keys(head, 2).0;
    if TASK_KEYS.iter().all(|key| tasks.contains(*key)) {
        return Look::Is(Format::Droidtask);
    }
    // A damaged first line says nothing of the lines after it.
    let lines = head.split(|b| *b == b'\n').skip(1).take(PEEK_LINES);
    if let Some(format) = { lines }.find_map(|line| format_of(&first_keys(line, 0).0)) {
        return Look::Is(format);
    }
    let cut_by_us = head.len() as u64 >= PEEK_BYTES;
    let damaged = !whole && !cut_by_us;
    if keys.is_empty() || damaged || keys.iter().any(|k| HINTS.contains(&k.as_str())) {
        Look::Unclear
    } else {
        Look::Foreign
    }
}

fn format_of(keys: &BTreeSet<String>) -> Option<Format> {
    let holds = |wanted: &[&str]| wanted.iter().all(|k| keys.contains(*k));
    SIGNATURES.iter().find(|(_, wanted)| holds(wanted)).map(|(format, _)| *format)
}

/// Keys of the first object in `json` (or of the first object of the array in it), as far as they
/// can be read, and whether it could be read to its end. `below` is the number of levels to go
/// down first, each time into an object's first value.
fn first_keys(json: &[u8], below: usize) -> (BTreeSet<String>, bool) {
    let mut keys = BTreeSet::new();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let whole = Keys { keys: &mut keys, below }.deserialize(&mut deserializer).is_ok();
    (keys, whole)
}

struct Keys<'a> {
    keys: &'a mut BTreeSet<String>,
    below: usize,
}

impl<'de> DeserializeSeed<'de> for Keys<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object or an array of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.below > 0 && map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value_seed(Keys { keys: &mut *self.keys, below: self.below - 1 })?;
        }
        while let Some(key) = map.next_key::<String>()? {
            if self.below == 0 {
                self.keys.insert(key);
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        sequence.next_element_seed(self)?;
        while sequence.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// True when the path ends in one of `extensions` (lower case, no dot).
pub fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    extensions.contains(&extension.as_str())
}

/// Files with one of `extensions` under `input` that are of `format`, sorted by path.
///
/// A file whose format cannot be told (damaged, empty) is taken when it was given itself, or when
/// it lies where the format's files lie, so that reading it gives a reject; other files are none
/// of this format's business.
///
/// # Errors
/// When the path cannot be listed, or nothing under it is of `format`.
pub fn files_of(input: &Input, format: Format, extensions: &[&str]) -> Result<Vec<PathBuf>, AdapterError> {
    let candidates = input.files(|path| has_extension(path, extensions))?;
    let looked: Vec<(PathBuf, Look)> = candidates.into_iter().map(|p| (p.clone(), look(&p))).collect();
    let homes: BTreeSet<PathBuf> = looked
        .iter()
        .filter(|(_, look)| *look == Look::Is(format))
        .filter_map(|(path, _)| path.parent().map(Path::to_owned))
        .collect();
    let at_home = |path: &Path| {
        let parent = path.parent().unwrap_or(path);
        let home = match format {
            Format::GuiOdyssey => parent.ends_with("annotations"),
            Format::Amex => parent.ends_with("instruction_anno"),
            _ => false,
        };
        home || homes.contains(parent)
    };
    let kept: Vec<PathBuf> = looked
        .into_iter()
        .filter(|(path, look)| match look {
            Look::Is(found) => *found == format,
            Look::Unclear => input.only.is_some() || at_home(path),
            Look::Foreign => false,
        })
        .map(|(path, _)| path)
        .collect();
    if kept.is_empty() { Err(nothing(input, format)) } else { Ok(kept) }
}

/// The error for an input without a file of `format`, saying what its files look like.
pub fn nothing(input: &Input, format: Format) -> AdapterError {
    let path = input.only.clone().unwrap_or_else(|| input.root.clone());
    let found: Vec<Format> = looks_like(&path).into_iter().filter(|f| *f != format).collect();
    let hint = match found.first() {
        None => "; nothing there looks like a known format".to_owned(),
        Some(first) => {
            let names: Vec<_> = found.iter().map(|f| format!("`{f}`")).collect();
            format!("; the files look like {}: pass --format {first}", names.join(" and "))
        }
    };
    AdapterError::Nothing { path, format, hint }
}

/// Formats that the file, or the first files of the folder, look like; most files first.
pub fn looks_like(path: &Path) -> Vec<Format> {
    let mut counts = [0_usize; Format::ALL.len()];
    let files = walkdir::WalkDir::new(path).sort_by_file_name().into_iter().filter_map(Result::ok);
    let data = files.filter(|e| e.file_type().is_file()).map(walkdir::DirEntry::into_path);
    for file in data.filter(|p| has_extension(p, &["json", "jsonl", "csv", "yaml", "yml"])).take(PEEK_FILES) {
        if let Look::Is(format) = look(&file) {
            counts[format as usize] += 1;
        }
    }
    let mut found: Vec<Format> = Format::ALL.into_iter().filter(|f| counts[*f as usize] > 0).collect();
    found.sort_by_key(|f| std::cmp::Reverse(counts[*f as usize]));
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fixture, read_bytes, real_data, try_bytes};
    use super::super::{Input, adapter};
    use super::*;

    fn looked(name: &str, content: &str) -> Look {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("written");
        look(&path)
    }

    #[test]
    fn each_format_is_known_by_its_keys() {
        for (format, name, content) in [
            (Format::GuiOdyssey, "a.json", "{\"device_info\": {\"w\": 1}, \"task_info\": {}, \"steps\": ["),
            (Format::CesSft, "a.json", "[{\"system\": \"s\", \"conversations\": [{\"fr"),
            (Format::AndroidControl, "a.jsonl", "{\"goal\": \"g\", \"steps\": []}\n{"),
            (Format::AndroidControl, "a.jsonl", "broken\n{\"goal\": \"g\", \"steps\": []}\n"),
            (Format::Mind2web, "a.jsonl", "{\"annotation_id\": \"a\", \"operation\": \"CLICK\"}"),
            (Format::Screenagent, "a_translate.json", "{\"task_prompt\": \"t\", \"send_prompt\": \"s\"}"),
            (Format::UiLog, "a.csv", "\u{feff}\"timeStamp\",\"userID\",\"targetApp\",\"eventType\"\n"),
            (Format::Agentnet, "reduced_events_vis.jsonl", "{\"action\": \"click\"}"),
            (Format::Agentnet, "a.jsonl", "{\"task_id\": \"t\", \"traj\": []}"),
            (Format::Droidtask, "profile.json", "{\"app\": {\"0a\": {\"task\": \"t\", \"profile\": [{\"la"),
            (Format::Droidtask, "a.yaml", "task_name: t\nrecords:\n- Choice: 1\n  State: s\n"),
            (Format::Droidtask, "utg.yaml", ""),
            (Format::Aitz, "a.json", "[{\"episode_id\": \"1\", \"result_action_type\": 4}]"),
            (Format::Amex, "a.json", "{\"episode_id\": \"1\", \"instruction\": \"i\", \"steps\": [{\"ac"),
            (
                Format::Osworld,
                "a.jsonl",
                "{\"step_num\": 1, \"action\": \"WAIT\", \"screenshot_file\": \"1.png\"}",
            ),
            (Format::Osworld, "traj.jsonl", "{\"Error\": \"Time limit exceeded\"}"),
            (Format::Osworld, "traj.jsonl", ""),
            (
                Format::Osworld,
                "steps.jsonl",
                "{\"app\": \"a\", \"action\": null, \"before\": null, \"after\": \"001\"}\n",
            ),
            (Format::Agentnet, "traj.jsonl", "{\"task_id\": \"t\", \"traj\": []}"),
            (Format::Webvoyager, "interact_messages.json", "[{\"role\": \"system\", \"content\": \"\"}]"),
        ] {
            assert_eq!(looked(name, content), Look::Is(format), "{name}: {content}");
        }
    }

    #[test]
    fn damaged_files_are_unclear_and_others_foreign() {
        for content in ["", "not JSON", "[]", "{\"episode_id\": \"1\", \"dev", "{\"steps\": []}"] {
            assert_eq!(looked("a.json", content), Look::Unclear, "{content}");
        }
        assert_eq!(looked("a.json", "[{\"role\": \"system\", \"content\": \"\"}]"), Look::Foreign);
        assert_eq!(looked("a.csv", "a,b,c\n1,2,3\n"), Look::Foreign);
        assert_eq!(looked("a.json", "{\"a\": {\"b\": {\"task\": 1}}, \"profile\": 1}"), Look::Foreign);
        assert_eq!(looked("a.yaml", "on: push\njobs: {}\n"), Look::Foreign);
        assert_eq!(looked("a.yaml", ""), Look::Unclear);
    }

    #[test]
    fn the_wrong_format_is_an_error_that_names_the_right_one() {
        let error =
            try_bytes(Format::GuiOdyssey, "a.jsonl", b"{\"annotation_id\": 1, \"operation\": \"CLICK\"}\n");
        let error = error.expect_err("another format").to_string();
        assert!(error.contains("no gui-odyssey file found"), "{error}");
        let error = try_bytes(
            Format::AndroidControl,
            "a.jsonl",
            b"{\"annotation_id\": 1, \"operation\": \"CLICK\"}\n",
        );
        let error = error.expect_err("another format").to_string();
        assert!(error.ends_with("the files look like `mind2web`: pass --format mind2web"), "{error}");
        let input = Input::new(&fixture("gui-odyssey")).expect("exists");
        let error = adapter(Format::Mind2web).discover(&input).expect_err("another format").to_string();
        assert!(error.ends_with("pass --format gui-odyssey"), "{error}");
    }

    #[test]
    fn a_damaged_file_is_read_when_named_or_among_its_like() {
        assert_eq!(read_bytes(Format::AndroidControl, "a.jsonl", b"{\"goal\": \"cut o").1.len(), 1);
        let folder = tempfile::tempdir().expect("temporary folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        write("bad.jsonl", "broken");
        write("other.json", "{\"role\": \"system\"}");
        let input = Input::new(folder.path()).expect("exists");
        let found = || files_of(&input, Format::AndroidControl, &["json", "jsonl"]);
        assert!(matches!(found(), Err(AdapterError::Nothing { .. })));
        write("good.jsonl", "{\"goal\": \"g\", \"steps\": []}\n");
        let names: Vec<_> = found()
            .expect("found")
            .into_iter()
            .filter_map(|p| p.file_name().map(ToOwned::to_owned))
            .collect();
        assert_eq!(names, ["bad.jsonl", "good.jsonl"]);
    }

    #[test]
    fn real_folders_are_named() {
        for (folder, format) in [
            ("gui-odyssey-ces", Format::CesSft),
            ("android-control", Format::AndroidControl),
            ("mind2web", Format::Mind2web),
            ("screenagent", Format::Screenagent),
            ("ui-logs", Format::UiLog),
            ("agentnet", Format::Agentnet),
            ("droidtask", Format::Droidtask),
            ("aitz", Format::Aitz),
            ("webvoyager", Format::Webvoyager),
            ("desktop-a11y", Format::Osworld),
        ] {
            let Some(path) = real_data(folder) else { return };
            assert_eq!(looks_like(&path), [format], "{folder}");
        }
    }
}
