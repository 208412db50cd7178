//! Multimodal-Mind2Web as `UGround`'s blocks rows: one step on each line.
//!
//! The rows of an episode need not be adjacent (five of 177 are not, in the cross-task part) nor
//! in order: they are grouped by `annotation_id` over the whole file and sorted by `step`. Steps
//! are numbered from 0 without gaps in the released files, so a gap rejects the episode; a file
//! that ends before an episode does leaves it shorter than `total_steps`, which is kept and
//! counted in [`Episode::extra`].
//!
//! A row does not name its element, but the next row's `previous_actions` does:
//! `[button]  Reservations -> HOVER`. An operation shown there with another word is kept in
//! [`Action::source_verb`]: `CLICK/HOVER` is a CLICK by the gold label that was a hover when
//! recorded. Boxes are in pixels of the whole page.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Value, json};

use super::detect::files_of;
use super::rows::{for_each_line, some_records};
use super::source::{Fields, Refused, Rejecter, numbers, parse_json};
use super::{Adapter, AdapterError, AdapterOptions, Fault, Input, Item, Record};
use crate::action::{Action, BBox, FrameName, Verb};
use crate::trace::{Episode, Format, Outcome, Platform, RejectKind, Step};

const OPERATIONS: &str = "CLICK, TYPE, SELECT, HOVER, ENTER";

/// Reads `UGround`'s `Mind2Web` rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mind2web;

impl Adapter for Mind2web {
    fn format(&self) -> Format {
        Format::Mind2web
    }

    /// One item for each file: an episode's rows may lie anywhere in it.
    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError> {
        let files = files_of(input, Format::Mind2web, &["jsonl", "json"])?;
        Ok(files.into_iter().map(Item::whole).collect())
    }

    /// Episodes come in the order of their first rows, after the lines that name no episode.
    fn read(&self, input: &Input, item: &Item, _: AdapterOptions, sink: &mut dyn FnMut(Record)) {
        let rejecter = Rejecter::of(Format::Mind2web, input, &item.path);
        let mut groups = Groups::default();
        let mut lines = 0;
        let mut cut_off = false;
        let result = for_each_line(item, |number, line| {
            lines += 1;
            let added = line.and_then(|text| groups.add(number, text));
            cut_off = added.is_err();
            if let Err(fault) = added {
                sink(rejecter.record(Refused::new(format!("line {number}"), None, fault)));
            }
        });
        if let Err(fault) = result.and_then(|()| some_records(lines)) {
            sink(rejecter.record(Refused::new("", None, fault)));
        }
        if cut_off {
            groups.cut_off();
        }
        for group in groups.in_order {
            sink(rejecter.outcome(group.episode(&rejecter.file)));
        }
    }
}

#[derive(Default)]
struct Groups {
    in_order: Vec<Group>,
    by_id: BTreeMap<String, usize>,
}

/// The rows of one `annotation_id`.
struct Group {
    id: String,
    rows: Vec<(u64, Row)>,
    /// The first row that cannot be read: it refuses the episode.
    fault: Option<(u64, Fault)>,
}

/// One row, checked.
#[derive(Debug)]
struct Row {
    task: Task,
    uid: String,
    step: u32,
    action: Action,
    shown: Vec<String>,
}

/// What every row of an episode repeats.
#[derive(Debug, Clone, PartialEq)]
struct Task {
    words: String,
    website: String,
    domain: String,
    subdomain: Option<String>,
    split: Option<String>,
    total_steps: i64,
}

impl Groups {
    /// The last line cannot be read: the episode of the line before it, if it lacks steps, may have lost
    /// them there.
    fn cut_off(&mut self) {
        let last_line = |group: &Group| group.rows.last().map(|(line, _)| *line);
        let Some(group) = self.in_order.iter_mut().max_by_key(|group| last_line(group)) else { return };
        if let Some(line) = last_line(group).filter(|_| group.missing() > 0) {
            let reason = "the file breaks off after this line, and the episode lacks steps";
            group.fault.get_or_insert((line, Fault::new(RejectKind::Malformed, reason)));
        }
    }

    /// Adds a line to its episode; a fault of a row that names its episode becomes the episode's.
    fn add(&mut self, line: u64, text: &str) -> Result<(), Fault> {
        let value = parse_json(text)?;
        let fields = Fields::of(&value)?;
        let id = fields.id("annotation_id")?;
        let place = match self.by_id.entry(id) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let id = format!("{}:{}", Format::Mind2web, new.key());
                self.in_order.push(Group { id, rows: Vec::new(), fault: None });
                *new.insert(self.in_order.len() - 1)
            }
        };
        let group = &mut self.in_order[place];
        match Row::of(fields) {
            Ok(row) => group.rows.push((line, row)),
            Err(fault) => {
                group.fault.get_or_insert((line, fault));
            }
        }
        Ok(())
    }
}

impl Group {
    /// Steps that its rows speak of and that are not there.
    fn missing(&self) -> i64 {
        self.rows.first().map_or(0, |(_, row)| row.task.total_steps - self.rows.len() as i64)
    }
}

impl Row {
    fn of(fields: Fields) -> Result<Self, Fault> {
        let task = Task {
            words: fields.str("task")?.to_owned(),
            website: fields.str("website")?.to_owned(),
            domain: fields.str("domain")?.to_owned(),
            subdomain: fields.maybe_str("subdomain")?.map(str::to_owned),
            split: fields.maybe_str("split")?.map(str::to_owned),
            total_steps: fields.int("total_steps")?,
        };
        let number = fields.int("step")?;
        let step = u32::try_from(number).map_err(|_| {
            Fault::new(RejectKind::OutOfRange, format!("field `step`: {number} is not a step number"))
        })?;
        Ok(Self {
            task,
            uid: fields.id("action_uid")?,
            step,
            action: action(fields)?,
            shown: fields.strings("previous_actions")?.into_iter().map(str::to_owned).collect(),
        })
    }
}

fn action(fields: Fields) -> Result<Action, Fault> {
    let operation = fields.str("operation")?;
    let value = fields.maybe_str("value")?.map(str::to_owned);
    let (verb, text) = match operation {
        "CLICK" => (Verb::Click, value),
        "HOVER" => (Verb::Hover, value),
        "TYPE" => (Verb::Type, Some(value.unwrap_or_default())),
        "SELECT" => (Verb::Select, Some(value.unwrap_or_default())),
        "ENTER" => (Verb::Press, Some("enter".to_owned())),
        other => {
            let reason = format!("field `operation`: unknown operation `{other}`; known: {OPERATIONS}");
            return Err(Fault::new(RejectKind::OutOfRange, reason));
        }
    };
    let boxes = fields.array("bbox")?.iter().map(page_box).collect::<Result<_, _>>();
    let mut action = Action::new(verb, operation);
    action.text = text;
    action.target.boxes = boxes.map_err(|f: Fault| f.at("field `bbox`"))?;
    Ok(action)
}

/// `[x, y, width, height]` in page pixels, as edges.
fn page_box(value: &Value) -> Result<BBox, Fault> {
    let [left, top, width, height] = numbers(value)?;
    if [left, top, width, height].iter().any(|n| *n < 0.0) {
        let reason = format!("box [{left}, {top}, {width}, {height}] has a negative number");
        return Err(Fault::new(RejectKind::OutOfRange, reason));
    }
    Ok(BBox { left, top, right: left + width, bottom: top + height, frame: FrameName::Pixels })
}

impl Group {
    fn episode(mut self, file: &str) -> Result<Episode, Refused> {
        if let Some((line, fault)) = self.fault {
            return Err(Refused::new(format!("line {line}"), Some(&self.id), fault));
        }
        let first_line = self.rows.iter().map(|(line, _)| *line).min().unwrap_or_default();
        let last_line = self.rows.iter().map(|(line, _)| *line).max().unwrap_or_default();
        self.rows.sort_by_key(|(_, row)| row.step);
        check(&self.rows).map_err(|(line, f)| Refused::new(format!("line {line}"), Some(&self.id), f))?;
        // Row `i + 1` shows the action of row `i` as its `i`-th previous action.
        let next = self.rows.iter().skip(1).enumerate();
        let shown: Vec<Option<String>> = next.map(|(i, (_, row))| row.shown.get(i).cloned()).collect();
        let uids: Vec<&str> = self.rows.iter().map(|(_, row)| row.uid.as_str()).collect();
        // `check` refuses an episode without rows, so there is a first one.
        let Some(task) = self.rows.first().map(|(_, row)| row.task.clone()) else {
            return Err(Refused::new("", Some(&self.id), Fault::new(RejectKind::Empty, "no rows")));
        };
        let missing = self.missing();
        let extra = json!({ "action_uids": uids, "total_steps": task.total_steps, "missing_steps": missing });
        let steps = self.rows.into_iter().enumerate().map(|(i, (line, row))| {
            let mut step = Step::new(row.step, format!("line {line}"), row.action);
            if let Some(shown) = shown.get(i).and_then(Option::as_deref) {
                describe(&mut step.action, shown);
            }
            step.site = Some(task.website.clone());
            step
        });
        Ok(Episode {
            episode_id: self.id,
            format: Format::Mind2web,
            source: file.to_owned(),
            source_key: format!("lines {first_line}-{last_line}"),
            platform: Platform::Web,
            instruction: task.words.clone(),
            apps: vec![task.website.clone()],
            domain: Some(match &task.subdomain {
                Some(subdomain) => format!("{}/{subdomain}", task.domain),
                None => task.domain.clone(),
            }),
            outcome: Outcome::Unknown,
            split: task.split.clone(),
            extra: Some(extra.to_string()),
            steps: steps.collect(),
        })
    }
}

/// Rows in order of their steps: numbered 0, 1, …, and of one task.
fn check(rows: &[(u64, Row)]) -> Result<(), (u64, Fault)> {
    let wrong = |line, reason| Err((line, Fault::new(RejectKind::OutOfRange, reason)));
    for (due, (line, row)) in rows.iter().enumerate() {
        let (first_line, first) = &rows[0];
        if row.task != first.task {
            return wrong(
                *line,
                format!("its task, site, domain, split or total differs from line {first_line}"),
            );
        }
        if row.step as usize != due {
            let what = if (row.step as usize) < due { "appears twice" } else { "follows a gap" };
            return wrong(*line, format!("step {} {what}; step {due} was due", row.step));
        }
        if row.task.total_steps <= i64::from(row.step) {
            return wrong(*line, format!("step {} of {} steps", row.step, row.task.total_steps));
        }
    }
    Ok(())
}

/// Adds role, name and value of `[role]  name -> OPERATION: value` to the action it shows.
fn describe(action: &mut Action, shown: &str) {
    let Some((role, rest)) = shown.strip_prefix('[').and_then(|s| s.split_once(']')) else { return };
    // Names and values may hold arrows themselves: an operation follows the one that counts.
    let arrows = rest.match_indices(" -> ").map(|(at, arrow)| (&rest[..at], &rest[at + arrow.len()..]));
    let mut parts = arrows.map(|(name, shown)| (name, shown.split_once(':').unwrap_or((shown, ""))));
    let known = |operation: &str| OPERATIONS.split(", ").any(|known| known == operation.trim());
    let Some((name, (operation, value))) = parts.find(|(_, (operation, _))| known(operation)) else { return };
    let filled = |text: &str| Some(text.trim().to_owned()).filter(|t| !t.is_empty());
    action.target.role = filled(role);
    action.target.name = filled(name);
    if action.text.as_deref().unwrap_or_default().is_empty() {
        action.text = filled(value).or(action.text.take());
    }
    if operation.trim() != action.source_verb {
        action.source_verb = format!("{}/{}", action.source_verb, operation.trim());
    }
}

#[cfg(test)]
#[path = "mind2web_tests.rs"]
mod tests;
