//! `AndroidControl` as UI-S1's standardised JSON lines: one episode on each line.
//!
//! Coordinates are pixels of a screen whose size the source does not give. A swipe's
//! `check_options.direction` is `AndroidControl`'s own: where the content moves, the opposite of
//! the finger. Rows without it (UI-S1's training form) get the opposite of the finger's
//! displacement. Rows without `episode_id` take it from their screenshots, `<id>_<step>.png`.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::detect::files_of;
use super::phrase::parse_instruction;
use super::rows::{CHUNK_BYTES, for_each_line, line_items, some_records};
use super::source::{Fields, Refused, Rejecter, bbox, parse_json};
use super::{Adapter, AdapterError, AdapterOptions, Fault, Input, Item, Record};
use crate::action::{Action, Direction, Pixels, Verb};
use crate::trace::{Episode, Format, Outcome, Platform, RejectKind, Step};

const ACTIONS: &str = "click, long_press, swipe, type, open, wait, system_button, terminate";
const BUTTONS: &str = "Back, Home, Enter, Menu";

/// `Open the Artsy app`, at most five words long.
static OPENED_APP: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\bopen (?:up )?(?:the )?((?:[^\s,]+ ){0,4}[^\s,]+) app(?:lication)?\b")
        .expect("the pattern is valid")
});

/// Reads UI-S1's `AndroidControl` files.
#[derive(Debug, Clone, Copy, Default)]
pub struct AndroidControl;

impl Adapter for AndroidControl {
    fn format(&self) -> Format {
        Format::AndroidControl
    }

    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError> {
        let files = files_of(input, Format::AndroidControl, &["jsonl", "json"])?;
        Ok(files.iter().flat_map(|path| line_items(path, CHUNK_BYTES)).collect())
    }

    fn read(&self, input: &Input, item: &Item, options: AdapterOptions, sink: &mut dyn FnMut(Record)) {
        let rejecter = Rejecter::of(Format::AndroidControl, input, &item.path);
        let reader = Reader { input, folder: item.path.parent().unwrap_or(&input.root), options };
        let mut lines = 0;
        let result = for_each_line(item, |number, line| {
            lines += 1;
            let key = format!("line {number}");
            let read = match line {
                Ok(text) => reader.episode(text, &key, &rejecter.file),
                Err(fault) => Err(Refused::new(key, None, fault)),
            };
            sink(rejecter.outcome(read));
        });
        if let Err(fault) = result.and_then(|()| some_records(lines)) {
            sink(rejecter.record(Refused::new("", None, fault)));
        }
    }
}

struct Reader<'a> {
    input: &'a Input,
    folder: &'a Path,
    options: AdapterOptions,
}

impl Reader<'_> {
    fn episode(&self, line: &str, key: &str, file: &str) -> Result<Episode, Refused> {
        let unnamed = |fault| Refused::new(key, None, fault);
        let value = parse_json(line).map_err(unnamed)?;
        let fields = Fields::of(&value).map_err(unnamed)?;
        let id = format!("{}:{}", Format::AndroidControl, episode_id(fields).map_err(unnamed)?);
        let refused = |fault| Refused::new(key, Some(&id), fault);
        let goal = fields.str("goal").map_err(refused)?;
        let outcome = outcome(fields).map_err(refused)?;
        let values = fields.array("steps").map_err(refused)?;
        if values.is_empty() {
            return Err(refused(Fault::new(RejectKind::Empty, "`steps` is empty")));
        }
        let mut steps = Vec::with_capacity(values.len());
        for (i, value) in values.iter().enumerate() {
            let step = self.step(i, value);
            steps.push(step.map_err(|f| Refused::new(format!("{key} steps[{i}]"), Some(&id), f))?);
        }
        let mut apps = follow_apps(&mut steps);
        if apps.is_empty() {
            apps.extend(app_in_goal(goal));
        }
        Ok(Episode {
            episode_id: id,
            format: Format::AndroidControl,
            source: file.to_owned(),
            source_key: key.to_owned(),
            platform: Platform::Mobile,
            instruction: goal.to_owned(),
            apps,
            domain: None,
            outcome,
            split: None,
            extra: None,
            steps,
        })
    }

    fn step(&self, i: usize, value: &Value) -> Result<Step, Fault> {
        let fields = Fields::of(value)?;
        let content = fields.object("action_content")?;
        let check = fields.get("check_options").map(Fields::of).transpose();
        let check = check.map_err(|f| f.at("check_options"))?;
        let instruction = fields.maybe_str("step_instruction")?;
        let mut action = action(content, check).map_err(|f| f.at("action_content"))?;
        action.target.boxes = boxes(content, check)?;
        action.target.name = instruction.and_then(|text| target_name(action.verb, text));
        let mut step = Step::new(i as u32, format!("steps[{i}]"), action);
        let screenshot = fields.maybe_str("screenshot")?;
        step.screen = self.input.step_screen(screenshot, &[self.folder], self.options.require_screenshots)?;
        step.instruction = instruction.map(str::to_owned);
        Ok(step)
    }
}

/// The row's id, or else the one that its first screenshot is named after.
fn episode_id(fields: Fields) -> Result<String, Fault> {
    if fields.get("episode_id").is_some() {
        return fields.id("episode_id");
    }
    let first = fields.array("steps").ok().and_then(|steps| steps.first());
    let shot = first.and_then(|step| step.get("screenshot")).and_then(Value::as_str);
    let stem = shot.and_then(|s| Path::new(s).file_stem()).map(|s| s.to_string_lossy().into_owned());
    let id = stem.and_then(|s| s.rsplit_once('_').map(|(id, _)| id.to_owned())).filter(|id| !id.is_empty());
    id.ok_or_else(|| {
        let reason = "field `episode_id` is missing, and no screenshot `<id>_<step>.png` names it";
        Fault::new(RejectKind::MissingField, reason)
    })
}

fn outcome(fields: Fields) -> Result<Outcome, Fault> {
    match fields.get("is_successful") {
        None => Ok(Outcome::Unknown),
        Some(Value::Bool(true)) => Ok(Outcome::Success),
        Some(Value::Bool(false)) => Ok(Outcome::Failure),
        Some(_) => Err(Fault::new(RejectKind::MissingField, "field `is_successful`: expected a boolean")),
    }
}

fn action(content: Fields, check: Option<Fields>) -> Result<Action, Fault> {
    let name = content.str("action")?;
    let verb = match name {
        "click" => Verb::Click,
        "long_press" => Verb::LongPress,
        "swipe" => Verb::Scroll,
        "type" => Verb::Type,
        "open" => Verb::OpenApp,
        "wait" => Verb::Wait,
        "system_button" => return system_button(content),
        "terminate" => return terminate(content),
        other => return Err(unknown("action", other, ACTIONS)),
    };
    let mut action = Action::new(verb, name);
    match verb {
        Verb::Click | Verb::LongPress => action.point = Some(content.point::<Pixels>("coordinate", None)?),
        Verb::Scroll => swipe(&mut action, content, check)?,
        Verb::Type | Verb::OpenApp => action.text = Some(content.str("text")?.to_owned()),
        _ => {}
    }
    if matches!(verb, Verb::Wait | Verb::LongPress) {
        action.amount = content.get("time").map(|_| content.f64("time")).transpose()?;
    }
    Ok(action)
}

fn unknown(field: &str, found: &str, known: &str) -> Fault {
    let reason = format!("field `{field}`: unknown value `{found}`; known: {known}");
    Fault::new(RejectKind::OutOfRange, reason)
}

fn system_button(content: Fields) -> Result<Action, Fault> {
    let button = content.str("button")?;
    let source_verb = format!("system_button/{button}");
    let pressed =
        |key: &str| Action { text: Some(key.to_owned()), ..Action::new(Verb::Press, &*source_verb) };
    match button.to_ascii_lowercase().as_str() {
        "back" => Ok(Action::new(Verb::Back, source_verb)),
        "home" => Ok(Action::new(Verb::Home, source_verb)),
        key @ ("enter" | "menu") => Ok(pressed(key)),
        _ => Err(unknown("button", button, BUTTONS)),
    }
}

fn terminate(content: Fields) -> Result<Action, Fault> {
    match content.str("status")? {
        "success" => Ok(Action::new(Verb::Complete, "terminate/success")),
        "failure" => Ok(Action::new(Verb::Impossible, "terminate/failure")),
        other => Err(unknown("status", other, "success, failure")),
    }
}

fn swipe(action: &mut Action, content: Fields, check: Option<Fields>) -> Result<(), Fault> {
    let start = content.point::<Pixels>("coordinate", None)?;
    let end = content.point::<Pixels>("coordinate2", None)?;
    let said = check.map(|c| c.maybe_str("direction")).transpose()?.flatten();
    if let Some(word) = said {
        let direction = word.parse().map_err(|_| unknown("direction", word, "up, down, left, right"))?;
        action.direction = Some(direction);
        action.source_direction = Some(word.to_owned());
    } else {
        let finger = Direction::of_displacement(end.x - start.x, end.y - start.y);
        action.direction = finger.map(Direction::opposite);
        action.source_direction = finger.map(|d| d.name().to_owned());
    }
    action.point = Some(start);
    action.end = Some(end);
    Ok(())
}

/// Gold boxes: the standardised form lists candidates, the training form has one `bbox`.
fn boxes(content: Fields, check: Option<Fields>) -> Result<Vec<crate::action::BBox>, Fault> {
    let candidates = match check {
        Some(check) if check.get("candidate_bbox").is_some() => check.array("candidate_bbox")?,
        _ => &[],
    };
    let boxes = candidates.iter().chain(content.get("bbox")).map(bbox::<Pixels>);
    boxes.collect::<Result<_, _>>().map_err(|fault| fault.at("gold box"))
}

/// The element that the step's instruction names, where the instruction is about this action: an
/// instruction that spans several actions is repeated for its waits and swipes.
fn target_name(verb: Verb, instruction: &str) -> Option<String> {
    let phrase = parse_instruction(instruction);
    match (verb, phrase.verb?) {
        (Verb::Click | Verb::LongPress, Verb::Click | Verb::LongPress | Verb::DoubleClick)
        | (Verb::Type, Verb::Type) => phrase.target,
        (Verb::Click, Verb::OpenApp) => phrase.text,
        _ => None,
    }
}

/// Fills [`Step::app`] of the steps after an application was opened, until another screen is
/// asked for, and returns the applications in the order in which they were first opened.
pub(super) fn follow_apps(steps: &mut [Step]) -> Vec<String> {
    let mut apps: Vec<String> = Vec::new();
    let mut front: Option<String> = None;
    for step in steps {
        step.app.clone_from(&front);
        match step.action.verb {
            Verb::OpenApp => {
                front.clone_from(&step.action.text);
                apps.extend(front.clone().filter(|name| !apps.contains(name)));
            }
            Verb::Home | Verb::Recents => front = None,
            _ => {}
        }
    }
    apps
}

/// The application that the goal says to open; nothing where the words could be a longer phrase.
fn app_in_goal(goal: &str) -> Option<String> {
    let name = OPENED_APP.captures(goal)?.get(1)?.as_str().trim();
    let phrase = [" in ", " on ", " and ", " from "].iter().any(|word| name.contains(word));
    (!phrase && !name.starts_with("and ")).then(|| name.to_owned())
}

#[cfg(test)]
#[path = "android_control_tests.rs"]
mod tests;
