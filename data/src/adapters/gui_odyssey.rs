//! GUI-Odyssey v2: one annotation JSON for each episode.
//!
//! Layout: `annotations/<episode_id>.json`, `screenshots/<episode_id>_<step>.png` beside it, and
//! `splits/{random,task,device,app}_split.json`, of which the random one assigns
//! [`Episode::split`]. Coordinates are thousandths of the screen. A scroll's source direction is
//! the finger's (end minus start); content moves the other way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::detect::files_of;
use super::source::{Fields, Refused, Rejecter, bbox, parse_json, point, read_text};
use super::{Adapter, AdapterError, AdapterOptions, Fault, Input, Item, Record};
use crate::action::{Action, Direction, ScreenSize, Thousandths, Verb};
use crate::trace::{Episode, Format, Outcome, Platform, RejectKind, Step};

/// Which part each annotation file belongs to, by the name of the split: `random` → `train`.
type Splits = BTreeMap<String, BTreeMap<String, String>>;

const ACTIONS: &str = "CLICK, LONG_PRESS, SCROLL, TEXT, TYPE, COMPLETE, INCOMPLETE";

/// Reads GUI-Odyssey annotations.
#[derive(Debug, Default)]
pub struct GuiOdyssey {
    /// Splits of each `splits` folder: every episode needs them, and they list every episode.
    splits: Mutex<BTreeMap<PathBuf, Arc<Splits>>>,
}

impl Adapter for GuiOdyssey {
    fn format(&self) -> Format {
        Format::GuiOdyssey
    }

    /// One item for each annotation file. A damaged split file is an item too: reading it gives
    /// its reject.
    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError> {
        let mut paths = files_of(input, Format::GuiOdyssey, &["json"])?;
        let folders: BTreeSet<PathBuf> = paths.iter().filter_map(|p| split_folder(input, p)).collect();
        let split_files = folders.iter().flat_map(|folder| split_files(folder));
        paths.extend(split_files.filter(|p| read_split(p).is_err()));
        paths.sort();
        paths.dedup();
        Ok(paths.into_iter().map(Item::whole).collect())
    }

    fn reads_along(&self, path: &Path) -> bool {
        is_split_file(path)
    }

    fn read(&self, input: &Input, item: &Item, options: AdapterOptions, sink: &mut dyn FnMut(Record)) {
        let rejecter = Rejecter::of(Format::GuiOdyssey, input, &item.path);
        if is_split_file(&item.path) {
            if let Err(fault) = read_split(&item.path) {
                sink(rejecter.record(Refused::new("", None, fault)));
            }
            return;
        }
        let reader = Reader { input, item, options, splits: self.splits_near(input, &item.path) };
        sink(rejecter.outcome(reader.episode()));
    }
}

impl GuiOdyssey {
    fn splits_near(&self, input: &Input, annotation: &Path) -> Arc<Splits> {
        let Some(folder) = split_folder(input, annotation) else { return Arc::default() };
        // A poisoned lock still guards whole entries: they are inserted ready-made.
        let mut known = self.splits.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(folder).or_insert_with_key(|folder| Arc::new(read_splits(folder))))
    }
}

/// `splits/` beside `annotations/`, or below the annotation's own folder, inside the input.
fn split_folder(input: &Input, annotation: &Path) -> Option<PathBuf> {
    let own = annotation.parent()?;
    let folders = [own.parent().map(|p| p.join("splits")), Some(own.join("splits"))];
    folders.into_iter().flatten().find(|f| f.starts_with(&input.root) && f.is_dir())
}

fn split_files(folder: &Path) -> Vec<PathBuf> {
    let names = ["random", "task", "device", "app"].map(|name| folder.join(format!("{name}_split.json")));
    names.into_iter().filter(|path| path.is_file()).collect()
}

fn is_split_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.parent().is_some_and(|p| p.ends_with("splits")) && name.ends_with("_split.json")
}

/// Annotation file name → part. A damaged file assigns nothing here; it has a reject of its own.
fn read_splits(folder: &Path) -> Splits {
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().replace("_split", "");
    split_files(folder).iter().filter_map(|p| Some((name(p), read_split(p).ok()?))).collect()
}

fn read_split(path: &Path) -> Result<BTreeMap<String, String>, Fault> {
    let value = parse_json(&read_text(path)?)?;
    let fields = Fields::of(&value)?;
    let mut parts = BTreeMap::new();
    for part in fields.0.keys() {
        parts.extend(fields.strings(part)?.into_iter().map(|file| (file.to_owned(), part.clone())));
    }
    Ok(parts)
}

/// Reads one annotation file.
struct Reader<'a> {
    input: &'a Input,
    item: &'a Item,
    options: AdapterOptions,
    splits: Arc<Splits>,
}

impl Reader<'_> {
    fn episode(&self) -> Result<Episode, Refused> {
        let unnamed = |fault| Refused::new("", None, fault);
        let text = read_text(&self.item.path).map_err(unnamed)?;
        let value = parse_json(&text).map_err(unnamed)?;
        let fields = Fields::of(&value).map_err(unnamed)?;
        let id = format!("{}:{}", Format::GuiOdyssey, fields.id("episode_id").map_err(unnamed)?);
        let mut episode = self.header(fields, &id).map_err(|fault| Refused::new("", Some(&id), fault))?;
        let steps = fields.array("steps").map_err(|fault| Refused::new("", Some(&id), fault))?;
        let mut notes = Map::new();
        let size = screen_size(fields).map_err(|fault| Refused::new("", Some(&id), fault))?;
        for (i, step) in steps.iter().enumerate() {
            let key = format!("steps[{i}]");
            let step = self.step(i, step, size, &mut notes).map_err(|f| Refused::new(key, Some(&id), f))?;
            episode.steps.push(step);
        }
        episode.outcome = Outcome::declared_by(&episode.steps);
        episode.extra = Some(self.extra(fields, notes));
        Ok(episode)
    }

    /// Everything but the steps.
    fn header(&self, fields: Fields, id: &str) -> Result<Episode, Fault> {
        let task = fields.object("task_info")?;
        let steps = fields.array("steps")?;
        let length = fields.int("step_length")?;
        if steps.is_empty() {
            return Err(Fault::new(RejectKind::Empty, "`steps` is empty"));
        }
        if length != steps.len() as i64 {
            let reason = format!("`step_length` is {length}, but `steps` has {}", steps.len());
            return Err(Fault::new(RejectKind::OutOfRange, reason));
        }
        Ok(Episode {
            episode_id: id.to_owned(),
            format: Format::GuiOdyssey,
            source: self.input.display(&self.item.path),
            source_key: String::new(),
            platform: Platform::Mobile,
            instruction: task.str("instruction")?.to_owned(),
            apps: task.strings("app")?.into_iter().map(str::to_owned).collect(),
            domain: Some(task.str("category")?.to_owned()),
            outcome: Outcome::Unknown,
            split: self.part_in("random"),
            extra: None,
            steps: Vec::new(),
        })
    }

    fn part_in(&self, split: &str) -> Option<String> {
        let file = self.item.path.file_name()?.to_string_lossy();
        self.splits.get(split)?.get(file.as_ref()).cloned()
    }

    /// The device, the task's templates, the other splits, and the notes of the steps.
    fn extra(&self, fields: Fields, notes: Map<String, Value>) -> String {
        let mut extra = Map::new();
        if let Some(device) = fields.get("device_info") {
            extra.insert("device_info".to_owned(), device.clone());
        }
        for name in ["meta_task", "task"] {
            if let Some(value) = fields.object("task_info").ok().and_then(|task| task.get(name)) {
                extra.insert(name.to_owned(), value.clone());
            }
        }
        let others = self.splits.keys().filter(|name| *name != "random");
        let parts: Map<String, Value> =
            others.filter_map(|name| Some((name.clone(), json!(self.part_in(name)?)))).collect();
        for (name, map) in [("splits", parts), ("ps", notes)] {
            if !map.is_empty() {
                extra.insert(name.to_owned(), Value::Object(map));
            }
        }
        Value::Object(extra).to_string()
    }

    fn step(
        &self,
        i: usize,
        value: &Value,
        size: ScreenSize,
        notes: &mut Map<String, Value>,
    ) -> Result<Step, Fault> {
        let fields = Fields::of(value)?;
        let number = fields.int("step")?;
        if number != i as i64 {
            let reason = format!("step number {number} where {i} is due; steps must be numbered 0, 1, …");
            return Err(Fault::new(RejectKind::OutOfRange, reason));
        }
        let mut step = Step::new(i as u32, format!("steps[{i}]"), action(fields)?);
        let own = self.item.path.parent().unwrap_or(&self.input.root);
        let folders = [own.parent(), Some(own)].into_iter().flatten().map(|p| p.join("screenshots"));
        let folders: Vec<PathBuf> =
            folders.chain([own.to_owned()]).filter(|p| p.starts_with(&self.input.root)).collect();
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        let screenshot = Some(fields.str("screenshot")?);
        step.screen = self.input.step_screen(screenshot, &folders, self.options.require_screenshots)?;
        step.screen.size = Some(size);
        let text = |name| fields.maybe_str(name).map(|t| t.map(str::to_owned));
        step.instruction = text("low_level_instruction")?;
        step.description = text("description")?;
        step.thought = text("intention")?;
        step.context = text("context")?;
        if let Some(note) = fields.get("ps").filter(|v| **v != json!("")) {
            notes.insert(i.to_string(), note.clone());
        }
        Ok(step)
    }
}

fn screen_size(fields: Fields) -> Result<ScreenSize, Fault> {
    let device = fields.object("device_info")?;
    let side = |name| {
        let pixels = device.int(name)?;
        u32::try_from(pixels).ok().filter(|p| *p > 0).ok_or_else(|| {
            Fault::new(
                RejectKind::OutOfRange,
                format!("field `{name}`: {pixels} is not a screen's size in pixels"),
            )
        })
    };
    let size = (|| Ok(ScreenSize { width_px: side("w")?, height_px: side("h")? }))();
    size.map_err(|fault: Fault| fault.at("device_info"))
}

fn action(fields: Fields) -> Result<Action, Fault> {
    let name = fields.str("action")?;
    match name {
        "CLICK" | "LONG_PRESS" => tap(fields, name),
        "SCROLL" => scroll(fields),
        "TEXT" | "TYPE" => {
            let mut action = Action::new(Verb::Type, name);
            action.text = Some(fields.str("info")?.to_owned());
            Ok(action)
        }
        "COMPLETE" => Ok(Action::new(Verb::Complete, name)),
        "INCOMPLETE" => Ok(Action::new(Verb::Impossible, name)),
        other => Err(Fault::new(
            RejectKind::OutOfRange,
            format!("field `action`: unknown action `{other}`; known: {ACTIONS}"),
        )),
    }
}

fn tap(fields: Fields, name: &str) -> Result<Action, Fault> {
    if let Some(key) = fields.opt_str("info") {
        let verb = match key {
            "KEY_HOME" => Verb::Home,
            "KEY_BACK" => Verb::Back,
            "KEY_APPSELECT" => Verb::Recents,
            other => {
                let reason =
                    format!("field `info`: unknown key `{other}`; known: KEY_HOME, KEY_BACK, KEY_APPSELECT");
                return Err(Fault::new(RejectKind::OutOfRange, reason));
            }
        };
        return Ok(Action::new(verb, format!("{name}/{key}")));
    }
    let verb = if name == "CLICK" { Verb::Click } else { Verb::LongPress };
    let mut action = Action::new(verb, name);
    let Some(first) = fields.array("info")?.first() else {
        return Err(Fault::new(RejectKind::MissingField, "field `info` holds no point"));
    };
    action.point = Some(point::<Thousandths>(first, None).map_err(|f| f.at("field `info`"))?);
    match fields.get("sam2_bbox") {
        Some(value) if *value != json!([]) && *value != json!("") => {
            let bounds = bbox::<Thousandths>(value).map_err(|f| f.at("field `sam2_bbox`"))?;
            action.target.boxes.push(bounds);
        }
        _ => {}
    }
    Ok(action)
}

fn scroll(fields: Fields) -> Result<Action, Fault> {
    let [start, end] = fields.array("info")? else {
        return Err(Fault::new(RejectKind::MissingField, "field `info`: a scroll needs start and end"));
    };
    let at = |value| point::<Thousandths>(value, None).map_err(|f| f.at("field `info`"));
    let (start, end) = (at(start)?, at(end)?);
    let finger = Direction::of_displacement(end.x - start.x, end.y - start.y);
    let mut action = Action::new(Verb::Scroll, "SCROLL");
    action.point = Some(start);
    action.end = Some(end);
    action.direction = finger.map(Direction::opposite);
    action.source_direction = finger.map(|d| d.name().to_owned());
    Ok(action)
}

#[cfg(test)]
#[path = "gui_odyssey_tests.rs"]
mod tests;
