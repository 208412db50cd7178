//! `DroidTask`, the tasks and the explorations of `AutoDroid`.
//!
//! Two forms, whose screens are text ([`state`]) and whose actions name an element of it:
//!
//! - Task profiles (`profile*.json`): application → hash → task. One episode a task.
//! - Explorations (`utg.yaml`): the screens an explorer went through in one application. One episode
//!   a file, told apart by `"form": "exploration"` in [`Episode::extra`]. `task_name` stays there as
//!   well: it is a placeholder (`utg`, `explore`) or a task that the records do not carry out, so
//!   the episode has no instruction. `step_num` is kept and not compared: it disagrees with the
//!   number of records in the released files.
//!
//! A choice of -1 ends the task, an input other than `null` is typed into the element, and the
//! element `go back`, which every screen has, stands for the back key. [`Action::source_verb`] is
//! the word that the source's histories use: `TapOn`, `Check`, `Uncheck`, `InputText`; they hold no
//! word for `go back` and -1, which stand as they are. The hashes of the screens (`state_str`)
//! are kept in [`Episode::extra`], one entry a step.

mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::detect::{YAML, files_of};
use super::json::parse_yaml;
use super::rows::{read_json, some_records};
use super::source::{Fields, Refused, Rejecter, parse_json, read_text};
use super::{Adapter, AdapterError, AdapterOptions, Fault, Input, Item, Record, has_extension};
use crate::action::{Action, Verb};
use crate::trace::{Element, Episode, Format, Outcome, Platform, RejectKind, Screen, Step};

/// The choice that ends a task.
const DONE: i64 = -1;
/// The input of a step that types nothing.
const NO_INPUT: &str = "null";
/// Text of the element that stands for the back key.
const BACK: &str = "go back";

/// Reads `DroidTask`'s profiles and explorations.
#[derive(Debug, Clone, Copy, Default)]
pub struct Droidtask;

impl Adapter for Droidtask {
    fn format(&self) -> Format {
        Format::Droidtask
    }

    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError> {
        let files = files_of(input, Format::Droidtask, &["json", "yaml", "yml"])?;
        Ok(files.into_iter().map(Item::whole).collect())
    }

    fn read(&self, input: &Input, item: &Item, _: AdapterOptions, sink: &mut dyn FnMut(Record)) {
        let rejecter = Rejecter::of(Format::Droidtask, input, &item.path);
        if has_extension(&item.path, YAML) {
            sink(rejecter.outcome(exploration(&item.path, &rejecter.file)));
        } else if let Err(fault) = read_profile(&item.path, &rejecter, sink) {
            sink(rejecter.record(Refused::new("", None, fault)));
        }
    }
}

/// Hands on every task of a profile; when the file is damaged or cut off, those before that place.
fn read_profile(path: &Path, rejecter: &Rejecter, sink: &mut dyn FnMut(Record)) -> Result<(), Fault> {
    let bytes = std::fs::read(path).map_err(|e| Fault::new(RejectKind::Unreadable, e.to_string()))?;
    let mut seen = BTreeSet::new();
    let mut tasks = 0;
    read_json(&bytes, |deserializer| {
        deserializer.deserialize_map(Apps(&mut |app, hash, text| {
            tasks += 1;
            let key = format!("{app}/{hash}");
            let read = if seen.insert(key.clone()) {
                task(app, &key, text, &rejecter.file)
            } else {
                let fault = Fault::new(RejectKind::Duplicate, "the task stands twice; the first one is kept");
                Err(Refused::new(key.as_str(), Some(&id_of(&key)), fault))
            };
            sink(rejecter.outcome(read));
        }))
    })?;
    some_records(tasks)
}

fn id_of(key: &str) -> String {
    format!("{}:{key}", Format::Droidtask)
}

/// The task in `text`, which stands at `key`: `application/hash`.
fn task(app: &str, key: &str, text: &str, file: &str) -> Result<Episode, Refused> {
    let id = id_of(key);
    let refused = |fault| Refused::new(key, Some(&id), fault);
    let value = parse_json(text).map_err(refused)?;
    let fields = Fields::of(&value).map_err(refused)?;
    let instruction = fields.str("task").map_err(refused)?;
    let rows = fields.array("profile").map_err(refused)?;
    let length = fields.int("step_num").map_err(refused)?;
    if length != rows.len() as i64 {
        let reason = format!("`step_num` is {length}, but `profile` has {}", rows.len());
        return Err(refused(Fault::new(RejectKind::OutOfRange, reason)));
    }
    let place = |i| (format!("profile[{i}]"), format!("{key} profile[{i}]"));
    let (steps, states) = steps_of(rows, &id, app, place, |fields| {
        let [choice, typed] = fields.array("label")? else {
            let reason = "field `label`: expected an element's id and the text typed into it";
            return Err(Fault::new(RejectKind::MissingField, reason));
        };
        Ok(Row { state: fields.str("state")?, choice, typed, history: fields.maybe_str("history")? })
    })?;
    let early = |step: &Step| step.action.verb == Verb::Complete && step.step as usize + 1 < steps.len();
    if let Some(step) = steps.iter().find(|step| early(step)) {
        let fault = Fault::new(RejectKind::OutOfRange, "the task is done (label -1) before its last step");
        return Err(Refused::new(format!("{key} {}", step.source_key), Some(&id), fault));
    }
    Ok(Episode {
        instruction: instruction.to_owned(),
        outcome: Outcome::declared_by(&steps),
        extra: Some(json!({"form": "task", "states": states}).to_string()),
        ..episode(&id, file, key, app, steps)
    })
}

fn exploration(path: &Path, file: &str) -> Result<Episode, Refused> {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let id = id_of(&format!("utg/{folder}"));
    let refused = |fault| Refused::new("", Some(&id), fault);
    let value = read_text(path).and_then(|text| parse_yaml(&text)).map_err(refused)?;
    let fields = Fields::of(&value).map_err(refused)?;
    let rows = fields.array("records").map_err(refused)?;
    let place = |i| (format!("records[{i}]"), format!("records[{i}]"));
    let (steps, states) = steps_of(rows, &id, &folder, place, |fields| {
        let (choice, typed) = (fields.require("Choice")?, fields.require("Input")?);
        Ok(Row { state: fields.str("State")?, choice, typed, history: None })
    })?;
    let tail = |fault: Fault| refused(fault.at("after the records, where a cut-off file ends"));
    let name = fields.str("task_name").map_err(tail)?;
    let length = fields.int("step_num").map_err(tail)?;
    let next: Result<Vec<Value>, Refused> = { rows.iter().enumerate() }
        .map(|(i, row)| {
            let ids = Fields::of(row).and_then(|fields| state_ids(fields, "new_state_str"));
            ids.map_err(|fault| Refused::new(format!("records[{i}]"), Some(&id), fault))
        })
        .collect();
    let extra = json!({
        "form": "exploration", "task_name": name, "step_num": length, "states": states, "new_states": next?,
    });
    Ok(Episode { extra: Some(extra.to_string()), ..episode(&id, file, "", &folder, steps) })
}

fn episode(id: &str, file: &str, key: &str, app: &str, steps: Vec<Step>) -> Episode {
    Episode {
        episode_id: id.to_owned(),
        format: Format::Droidtask,
        source: file.to_owned(),
        source_key: key.to_owned(),
        platform: Platform::Mobile,
        instruction: String::new(),
        apps: vec![app.to_owned()],
        domain: None,
        outcome: Outcome::Unknown,
        split: None,
        extra: None,
        steps,
    }
}

/// What both forms say of a step.
struct Row<'a> {
    state: &'a str,
    choice: &'a Value,
    typed: &'a Value,
    history: Option<&'a str>,
}

/// The steps in `rows`, and the hashes of their screens. `place` names row `i` in the episode and
/// in the file; `read` takes a row's fields apart.
fn steps_of<'a>(
    rows: &'a [Value],
    id: &str,
    app: &str,
    place: impl Fn(usize) -> (String, String),
    read: impl Fn(Fields<'a>) -> Result<Row<'a>, Fault>,
) -> Result<(Vec<Step>, Vec<Value>), Refused> {
    if rows.is_empty() {
        let fault = Fault::new(RejectKind::Empty, "the task holds no step");
        return Err(Refused::new(place(0).1, Some(id), fault));
    }
    let (mut steps, mut states) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for (i, value) in rows.iter().enumerate() {
        let (in_episode, in_file) = place(i);
        let parts = Fields::of(value).and_then(|fields| {
            let row = read(fields)?;
            let elements = state::elements(row.state).map_err(|fault| fault.at("the screen"))?;
            let mut step = Step::new(i as u32, in_episode, action(&elements, &row)?);
            step.screen = Screen { elements, ..Screen::default() };
            step.context = row.history.map(|text| text.trim().to_owned());
            step.app = Some(app.to_owned());
            Ok((step, state_ids(fields, "state_str")?))
        });
        let (step, ids) = parts.map_err(|fault| Refused::new(in_file, Some(id), fault))?;
        steps.push(step);
        states.push(ids);
    }
    Ok((steps, states))
}

/// The hash of a screen, or several where the source merged screens; null where it gives none.
fn state_ids(fields: Fields, name: &str) -> Result<Value, Fault> {
    match fields.get(name) {
        None => Ok(Value::Null),
        Some(Value::Array(_)) => Ok(json!(fields.strings(name)?)),
        Some(_) => Ok(json!(fields.str(name)?)),
    }
}

fn action(elements: &[Element], row: &Row) -> Result<Action, Fault> {
    let choice = row.choice.as_i64().ok_or_else(|| {
        Fault::new(RejectKind::MissingField, "the chosen element: expected a whole number, -1 for done")
    })?;
    let typed = row.typed.as_str().ok_or_else(|| {
        Fault::new(RejectKind::MissingField, "the text typed: expected a string, `null` for none")
    })?;
    let typed = Some(typed).filter(|text| !text.is_empty() && *text != NO_INPUT);
    if choice == DONE && typed.is_none() {
        return Ok(Action::new(Verb::Complete, DONE.to_string()));
    }
    let id = choice.to_string();
    let Some(element) = elements.iter().find(|element| element.id == id) else {
        let reason = format!("the chosen element {id} is not among the {} on the screen", elements.len());
        return Err(Fault::new(RejectKind::OutOfRange, reason));
    };
    let checked = element.states.iter().any(|state| state == "checked=True");
    let (verb, word) = match (typed, element.role.as_str()) {
        (Some(_), _) => (Verb::Type, "InputText"),
        (None, "button") if element.text == BACK => (Verb::Back, BACK),
        (None, "checkbox") if checked => (Verb::Click, "Uncheck"),
        (None, "checkbox") => (Verb::Click, "Check"),
        _ => (Verb::Click, "TapOn"),
    };
    let mut action = Action::new(verb, word);
    action.text = typed.map(str::to_owned);
    action.target.name = element.text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
    action.target.role = Some(element.role.clone());
    action.target.element = Some(id);
    Ok(action)
}

/// Called with application, hash and JSON text of each task.
type Visit<'a> = &'a mut dyn FnMut(&str, &str, &str);

struct Apps<'a>(Visit<'a>);

impl<'de> Visitor<'de> for Apps<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of applications")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(app) = map.next_key::<String>()? {
            map.next_value_seed(Tasks { app: &app, visit: &mut *self.0 })?;
        }
        Ok(())
    }
}

struct Tasks<'a> {
    app: &'a str,
    visit: Visit<'a>,
}

impl<'de> DeserializeSeed<'de> for Tasks<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Tasks<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tasks of `{}`: an object of hashes", self.app)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(hash) = map.next_key::<String>()? {
            let task: &RawValue = map.next_value()?;
            (self.visit)(self.app, &hash, task.get());
        }
        Ok(())
    }
}
