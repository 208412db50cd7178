//! OSWorld: what agents did on a desktop, in two forms.
//!
//! - A trajectory ([`trajectory`]): `<result>/<domain>/<task id>/` with `traj.jsonl`, screenshots and
//!   `result.txt`. One episode a folder, named after the task; the task itself (`<task id>.json`) is looked
//!   for beside the folder and in `examples/<domain>/` or `evaluation_examples/examples/<domain>/` of a folder
//!   above it, inside the input. Without it the episode has no instruction.
//! - An exploration ([`exploration`]): `steps.jsonl` with numbered screenshots and trees of one application.
//!   One episode a folder, named after it.
//!
//! A picture's accessibility tree lies beside it under the same name: `.xml.gz` or `.xml` is the whole tree,
//! which [`Screen::tree`] names and which is not read here; `.tsv` is its linear form ([`linear`]), which gives
//! the elements (and is named where it is the only one). Points are pixels of the screenshot.

mod exploration;
mod linear;
mod response;
mod task;
#[cfg(test)]
mod tests;
mod trajectory;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::detect::{Look, look};
use super::elements::screenshot_size;
use super::rows::{for_each_line, some_records};
use super::source::{Fault, Fields, Refused, Rejecter, parse_json, read_text};
use super::{Adapter, AdapterError, AdapterOptions, Input, Item, Record, has_extension, nothing};
use crate::action::Action;
use crate::trace::{Element, Episode, Format, RejectKind, Screen};

/// The file of a trajectory.
pub(super) const TRAJECTORY: &str = "traj.jsonl";
/// The file of an exploration.
const EXPLORATION: &str = "steps.jsonl";
/// What a tree beside a picture ends in, the whole ones first.
const TREES: [&str; 3] = ["xml.gz", "xml", "tsv"];
/// More actions than this are in no row: each has the row's screen with all its elements.
const MAX_ACTIONS: usize = 256;

/// Reads OSWorld trajectories, and explorations with OSWorld's trees.
#[derive(Debug, Clone, Copy, Default)]
pub struct Osworld;

impl Adapter for Osworld {
    fn format(&self) -> Format {
        Format::Osworld
    }

    /// One item for each folder with a trajectory or an exploration, or the one file given.
    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError> {
        let files = input.files(|path| has_extension(path, &["jsonl"]) && is_ours(input, path))?;
        let folders = files.iter().filter_map(|file| file.parent()).map(Path::to_owned);
        let paths: BTreeSet<PathBuf> = match &input.only {
            Some(_) => files.into_iter().collect(),
            None => folders.collect(),
        };
        if paths.is_empty() {
            return Err(nothing(input, self.format()));
        }
        Ok(paths.into_iter().map(Item::whole).collect())
    }

    fn reads_along(&self, path: &Path) -> bool {
        task::is_task(path)
    }

    fn read(&self, input: &Input, item: &Item, options: AdapterOptions, sink: &mut dyn FnMut(Record)) {
        let files = if item.path.is_dir() {
            let both = [TRAJECTORY, EXPLORATION].map(|name| item.path.join(name));
            both.into_iter().filter(|file| file.is_file() && is_ours(input, file)).collect()
        } else {
            vec![item.path.clone()]
        };
        for file in files {
            let folder = file.parent().unwrap_or(&file);
            let context = Context { input, folder, file: &file, options };
            sink(Rejecter::of(Format::Osworld, input, &file).outcome(context.episode()));
        }
    }
}

/// Whether a file of lines is read: it looks like ours, or it is damaged and has our name or was given itself.
fn is_ours(input: &Input, path: &Path) -> bool {
    let named = path.ends_with(TRAJECTORY) || path.ends_with(EXPLORATION);
    match look(path) {
        Look::Is(format) => format == Format::Osworld && (named || input.only.is_some()),
        Look::Unclear => named || input.only.is_some(),
        Look::Foreign => false,
    }
}

/// What every reader of a form needs.
struct Context<'a> {
    input: &'a Input,
    folder: &'a Path,
    file: &'a Path,
    options: AdapterOptions,
}

/// A row of a file, and its line.
type Row = (u64, Value);

impl Context<'_> {
    fn episode(&self) -> Result<Episode, Refused> {
        let id = format!("{}:{}", Format::Osworld, self.name());
        let rows = self.rows().map_err(|(key, fault)| Refused::new(key, Some(&id), fault))?;
        // An exploration's rows name the screen after the action by its number; a trajectory's do not.
        let explored = rows.first().is_some_and(|(_, row)| row.get("after").is_some());
        let read = if explored {
            exploration::episode(self, id.clone(), rows)
        } else {
            trajectory::episode(self, id.clone(), rows)
        };
        read.map_err(|(key, fault)| Refused::new(key, Some(&id), fault))
    }

    /// The name of the folder.
    fn name(&self) -> String {
        super::screenagent::name(self.folder)
    }

    /// Every row of the file; the first that cannot be read is the fault.
    fn rows(&self) -> Result<Vec<Row>, (String, Fault)> {
        let mut rows = Vec::new();
        let mut failed = None;
        let result = for_each_line(&Item::whole(self.file.to_owned()), |number, line| {
            if failed.is_some() {
                return;
            }
            match line.and_then(parse_json) {
                Ok(row) => rows.push((number, row)),
                Err(fault) => failed = Some((key(number), fault)),
            }
        });
        if let Some(failed) = failed {
            return Err(failed);
        }
        let whole = |fault| (String::new(), fault);
        result.and_then(|()| some_records(rows.len())).map_err(whole)?;
        Ok(rows)
    }

    /// The screen in `picture` of the folder, with its tree; no screen where there is no picture.
    fn screen(&self, picture: Option<&str>) -> Result<Screen, Fault> {
        let required = self.options.require_screenshots;
        let mut screen = self.input.step_screen(picture, &[self.folder], required)?;
        screen.size = screenshot_size(self.input, &screen)?;
        let Some(picture) = picture.filter(|p| !Path::new(p).is_absolute() && !p.contains("://")) else {
            return Ok(screen);
        };
        for ending in TREES {
            let name = Path::new(picture).with_extension(ending).to_string_lossy().into_owned();
            let file = self.input.inside(self.folder, &name);
            let file = file.map_err(|reason| Fault::new(RejectKind::UnsafePath, reason))?;
            if !file.is_file() {
                continue;
            }
            if ending == "tsv" {
                let elements = read_text(&file).and_then(|text| linear::elements(&text));
                screen.elements = elements.map_err(|fault| fault.at(&self.input.display(&file)))?;
            }
            let shown =
                file.strip_prefix(&self.input.root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
            screen.tree.get_or_insert(shown);
        }
        Ok(screen)
    }
}

/// The check that a row does not hold an absurd number of actions.
///
/// # Errors
/// [`RejectKind::OutOfRange`] when it does.
fn few(actions: Vec<Action>) -> Result<Vec<Action>, Fault> {
    if actions.len() <= MAX_ACTIONS {
        return Ok(actions);
    }
    let reason = format!("{} actions in one row, more than {MAX_ACTIONS}; split the row", actions.len());
    Err(Fault::new(RejectKind::OutOfRange, reason))
}

/// How rejects and steps name a line.
fn key(line: u64) -> String {
    format!("line {line}")
}

/// Names `element` as what `action` was applied to.
fn aim(action: &mut Action, element: &Element) {
    let text = element.text.lines().map(str::trim).find(|line| !line.is_empty());
    let target = &mut action.target;
    target.element = Some(element.id.clone());
    target.role.get_or_insert_with(|| element.role.clone());
    if target.boxes.is_empty() {
        target.boxes.extend(element.bbox);
    }
    if target.name.is_none() {
        target.name = text.map(str::to_owned);
    }
}

/// Text of a field, trimmed; no text where it is absent or blank.
///
/// # Errors
/// When it is of another type.
fn trimmed(fields: Fields, name: &str) -> Result<Option<String>, Fault> {
    Ok(fields.maybe_str(name)?.map(|text| text.trim().to_owned()))
}
