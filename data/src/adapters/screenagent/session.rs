//! The state of a session while its gold files are read one after the other.

use std::path::Path;

use serde_json::Value;

use super::{combination, name};
use crate::action::{Action, Direction, Pixels, Point, Position, ScreenSize, Verb};
use crate::adapters::source::{Fault, Fields, parse_json, read_text};
use crate::adapters::{AdapterOptions, Input};
use crate::trace::{RejectKind, Screen, Step};

/// A fault and its place inside the gold file.
type Located = (String, Fault);

/// How the evaluations of a session went.
#[derive(Debug, Default)]
pub(super) struct Evaluations {
    pub(super) success: u32,
    pub(super) retry: u32,
    pub(super) reformulate: u32,
    /// True when the last evaluation said that its sub-task was done.
    pub(super) last_succeeded: bool,
}

/// An element of the plan in the language of the recording and, where given, in English.
#[derive(Debug)]
struct PlanElement {
    original: String,
    english: Option<String>,
}

impl PlanElement {
    fn text(&self) -> &str {
        self.english.as_deref().unwrap_or(&self.original)
    }
}

/// A mouse button held down, until its `up` makes a step of both.
#[derive(Debug)]
struct Pressed {
    key: String,
    point: Option<Position>,
    button: Button,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Button {
    Left,
    Right,
    Middle,
}

/// What the actions of one gold file share.
struct Shared {
    file: String,
    size: ScreenSize,
    screen: Screen,
    time_micros: Option<i64>,
    thought: Option<String>,
    subtask: Option<String>,
}

/// A session so far.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) instruction: String,
    pub(super) steps: Vec<Step>,
    pub(super) evaluations: Evaluations,
    plan: Vec<PlanElement>,
    /// Where the last action that named a position left the pointer: a drag starts there.
    pointer: Option<Position>,
    pressed: Option<Pressed>,
    first_step_micros: Option<i64>,
}

impl Session {
    /// Adds the actions of a gold file.
    ///
    /// # Errors
    /// The first fault, and where in the file it is.
    pub(super) fn add_file(
        &mut self,
        input: &Input,
        folder: &Path,
        file: &Path,
        options: AdapterOptions,
    ) -> Result<(), Located> {
        let top = |fault| (String::new(), fault);
        let value = read_text(file).and_then(|text| parse_json(&text)).map_err(top)?;
        let fields = Fields::of(&value).map_err(top)?;
        let shared = self.shared(input, folder, &name(file), fields, options).map_err(top)?;
        let actions = fields.array("actions").map_err(top)?;
        self.replace_plan(fields, actions).map_err(|fault| ("actions".to_owned(), fault))?;
        for (i, action) in actions.iter().enumerate() {
            let key = format!("actions[{i}]");
            self.add_action(&shared, &key, action).map_err(|fault| (key, fault))?;
        }
        Ok(())
    }

    /// Checks what can only be checked at the end.
    ///
    /// # Errors
    /// A mouse button never released, or a session without a step.
    pub(super) fn finish(&self) -> Result<(), Fault> {
        if let Some(pressed) = &self.pressed {
            let reason = format!("the mouse button pressed at {} is never released", pressed.key);
            return Err(Fault::new(RejectKind::OutOfRange, reason));
        }
        if self.steps.is_empty() {
            return Err(Fault::new(RejectKind::Empty, "no mouse, keyboard or wait action in the session"));
        }
        Ok(())
    }

    /// The plan last set, in English where the source has it.
    pub(super) fn plan(&self) -> Vec<&str> {
        self.plan.iter().map(PlanElement::text).collect()
    }

    fn shared(
        &mut self,
        input: &Input,
        folder: &Path,
        file: &str,
        fields: Fields<'_>,
        options: AdapterOptions,
    ) -> Result<Shared, Fault> {
        let size =
            ScreenSize { width_px: edge(fields, "video_width")?, height_px: edge(fields, "video_height")? };
        let prompt = fields.opt_str("task_prompt_en").map_or_else(|| fields.str("task_prompt"), Ok)?;
        if self.instruction.is_empty() {
            prompt.clone_into(&mut self.instruction);
        }
        let image = format!("images/{}", fields.str("saved_image_name")?);
        let screen = input.step_screen(Some(&image), &[folder], options.require_screenshots)?;
        Ok(Shared {
            file: file.to_owned(),
            size,
            screen: Screen { size: Some(size), ..screen },
            time_micros: timestamp(file),
            thought: thought(fields),
            subtask: self.subtask(fields),
        })
    }

    /// A file with plan elements sets the plan anew: the source reformulates it as a whole.
    fn replace_plan(&mut self, fields: Fields<'_>, actions: &[Value]) -> Result<(), Fault> {
        let mut plan = Vec::new();
        for action in actions.iter().filter(|a| action_type(a) == Some("PlanAction")) {
            plan.push(Fields::of(action)?.str("element")?.to_owned());
        }
        if plan.is_empty() {
            return Ok(());
        }
        let english = english_plan(fields).filter(|e| e.len() == plan.len()).unwrap_or_default();
        let mut english = english.into_iter();
        self.plan =
            plan.into_iter().map(|original| PlanElement { original, english: english.next() }).collect();
        Ok(())
    }

    /// The sub-task of a file: its `current_task` field, else the plan element that the prompt
    /// names. In the plan's English where it has one, so that one sub-task has one wording
    /// although each prompt was translated by itself.
    fn subtask(&self, fields: Fields<'_>) -> Option<String> {
        if let Some(english) = fields.opt_str("current_task_en") {
            return Some(english.to_owned());
        }
        let named = fields.opt_str("current_task");
        let element = match named {
            Some(task) => self.plan.iter().find(|e| e.original == task),
            None => prompted(fields).and_then(|rest| {
                let starts = |e: &&PlanElement| !e.original.is_empty() && rest.starts_with(&e.original);
                self.plan.iter().filter(starts).max_by_key(|e| e.original.len())
            }),
        };
        element.map(PlanElement::text).or(named).map(str::to_owned)
    }

    fn add_action(&mut self, shared: &Shared, key: &str, value: &Value) -> Result<(), Fault> {
        let fields = Fields::of(value)?;
        match fields.str("action_type")? {
            "PlanAction" => {}
            "EvaluateSubTaskAction" => self.evaluate(fields.str("situation")?)?,
            "MouseAction" => {
                if let Some((action, key)) = self.mouse(fields, key, shared)? {
                    self.push(shared, &key, action);
                }
            }
            "KeyboardAction" => self.push(shared, key, keyboard(fields)?),
            "WaitAction" => self.push(shared, key, wait(fields)?),
            other => {
                let known = "MouseAction, KeyboardAction, WaitAction, PlanAction, EvaluateSubTaskAction";
                return Err(unknown("action_type", other, known));
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, situation: &str) -> Result<(), Fault> {
        let evaluations = &mut self.evaluations;
        let count = match situation {
            "sub_task_success" => &mut evaluations.success,
            "need_retry" => &mut evaluations.retry,
            "need_reformulate" => &mut evaluations.reformulate,
            other => {
                return Err(unknown("situation", other, "sub_task_success, need_retry, need_reformulate"));
            }
        };
        *count += 1;
        evaluations.last_succeeded = situation == "sub_task_success";
        Ok(())
    }

    fn push(&mut self, shared: &Shared, key: &str, action: Action) {
        let since = |t: i64| (t - *self.first_step_micros.get_or_insert(t)) as f64 / 1e6;
        let time_secs = shared.time_micros.map(since);
        self.steps.push(Step {
            screen: shared.screen.clone(),
            time_secs,
            thought: shared.thought.clone(),
            subtask: shared.subtask.clone(),
            ..Step::new(self.steps.len() as u32, format!("{}#{key}", shared.file), action)
        });
    }

    /// The action, and its key; `None` for a button pressed, which waits for its release.
    fn mouse(
        &mut self,
        fields: Fields<'_>,
        key: &str,
        shared: &Shared,
    ) -> Result<Option<(Action, String)>, Fault> {
        let kind = fields.str("mouse_action_type")?;
        let before = self.pointer;
        let own = position(fields, shared.size)?;
        let at = own.or(before);
        let button = button(fields)?;
        let source_verb = format!("MouseAction/{kind}");
        let action = |verb| Action { point: at, ..Action::new(verb, source_verb.clone()) };
        let result = match kind {
            "click" if button == Button::Right => action(Verb::RightClick),
            "click" => action(Verb::Click),
            "double_click" => action(Verb::DoubleClick),
            "move" | "drag" if own.is_none() => {
                fields.object("mouse_position").map(|_| action(Verb::Hover))?
            }
            // A move with the button held is part of the drag that the release completes.
            "move" if self.pressed.is_some() => {
                self.pointer = own;
                return Ok(None);
            }
            "move" => action(Verb::Hover),
            "drag" => Action { point: before, end: own, ..action(Verb::Drag) },
            "scroll_up" => scroll(fields, own, Direction::Up)?,
            "scroll_down" => scroll(fields, own, Direction::Down)?,
            "down" => {
                let key = format!("{}#{key}", shared.file);
                let pressed = Pressed { key, point: at, button };
                self.pointer = at;
                return match self.pressed.replace(pressed) {
                    Some(_) => Err(Fault::new(RejectKind::OutOfRange, "mouse button pressed twice")),
                    None => Ok(None),
                };
            }
            "up" => self.release(at)?,
            other => {
                let known = "click, double_click, move, drag, scroll_up, scroll_down, down, up";
                return Err(unknown("mouse_action_type", other, known));
            }
        };
        self.pointer = at;
        Ok(Some((result, key.to_owned())))
    }

    /// A press and its release are a drag when the pointer moved between them, else a click.
    fn release(&mut self, end: Option<Position>) -> Result<Action, Fault> {
        let Some(Pressed { point, button, .. }) = self.pressed.take() else {
            return Err(Fault::new(RejectKind::OutOfRange, "mouse button released but not pressed before"));
        };
        let moved = point != end && end.is_some();
        let verb = match button {
            _ if moved => Verb::Drag,
            Button::Right => Verb::RightClick,
            Button::Left | Button::Middle => Verb::Click,
        };
        let end = end.filter(|_| moved);
        Ok(Action { point, end, ..Action::new(verb, "MouseAction/down+up") })
    }
}

fn edge(fields: Fields<'_>, field: &str) -> Result<u32, Fault> {
    let value = fields.int(field)?;
    u32::try_from(value)
        .ok()
        .filter(|v| *v > 0)
        .ok_or_else(|| Fault::new(RejectKind::OutOfRange, format!("field `{field}`: {value} is not a size")))
}

fn position(fields: Fields<'_>, size: ScreenSize) -> Result<Option<Position>, Fault> {
    if fields.get("mouse_position").is_none() {
        return Ok(None);
    }
    let at = fields.object("mouse_position")?;
    let point = Point::<Pixels>::checked(at.f64("width")?, at.f64("height")?, Some(size));
    point.map(|p| Some(p.into())).map_err(|e| Fault::new(RejectKind::OutOfRange, e.to_string()))
}

fn button(fields: Fields<'_>) -> Result<Button, Fault> {
    match fields.get("mouse_button").map(|_| fields.str("mouse_button")).transpose()? {
        None | Some("left") => Ok(Button::Left),
        Some("right") => Ok(Button::Right),
        Some("middle") => Ok(Button::Middle),
        Some(other) => Err(unknown("mouse_button", other, "left, right, middle")),
    }
}

fn scroll(fields: Fields<'_>, point: Option<Position>, direction: Direction) -> Result<Action, Fault> {
    // One notch where the source gives no count, as its own client does.
    let amount = fields.get("scroll_repeat").map_or(Ok(1.0), |_| fields.f64("scroll_repeat"))?;
    let word = format!("scroll_{}", direction.name());
    Ok(Action {
        point,
        direction: Some(direction),
        amount: Some(amount),
        ..Action::new(Verb::Scroll, format!("MouseAction/{word}"))
    })
}

fn keyboard(fields: Fields<'_>) -> Result<Action, Fault> {
    let kind = fields.str("keyboard_action_type")?;
    let (verb, text) = match kind {
        "text" | "input" => (Verb::Type, fields.str("keyboard_text")?.to_owned()),
        "press" => (Verb::Press, pressed_keys(fields)?),
        other => return Err(unknown("keyboard_action_type", other, "press, text")),
    };
    Ok(Action { text: Some(text), ..Action::new(verb, format!("KeyboardAction/{kind}")) })
}

/// `keyboard_key` is one key, a combination written `Ctrl+S`, or a list of keys held together.
fn pressed_keys(fields: Fields<'_>) -> Result<String, Fault> {
    let keys: Vec<&str> = if let Some(Value::Array(keys)) = fields.get("keyboard_key") {
        keys.iter().map(|k| k.as_str().unwrap_or_default()).collect()
    } else {
        let key = fields.str("keyboard_key")?;
        // The plus key itself is not a combination of nothing.
        if key.trim().len() > 1 { key.split('+').collect() } else { vec![key] }
    };
    if keys.is_empty() || keys.iter().any(|k| k.is_empty()) {
        let reason = "field `keyboard_key`: expected a key or a list of keys";
        return Err(Fault::new(RejectKind::MissingField, reason));
    }
    Ok(combination(keys))
}

fn wait(fields: Fields<'_>) -> Result<Action, Fault> {
    let secs = match fields.get("wait_time") {
        Some(Value::String(s)) => s.trim().parse().unwrap_or(f64::NAN),
        _ => fields.f64("wait_time")?,
    };
    if !(secs.is_finite() && secs >= 0.0) {
        let reason = "field `wait_time`: expected seconds, 0 or more";
        return Err(Fault::new(RejectKind::OutOfRange, reason));
    }
    Ok(Action { amount: Some(secs), ..Action::new(Verb::Wait, "WaitAction") })
}

fn unknown(field: &str, found: &str, known: &str) -> Fault {
    Fault::new(RejectKind::OutOfRange, format!("field `{field}`: unknown value `{found}`; known: {known}"))
}

fn action_type(value: &Value) -> Option<&str> {
    value.get("action_type").and_then(Value::as_str)
}

/// The plan elements of the English answer, whose JSON block repeats `actions`.
fn english_plan(fields: Fields<'_>) -> Option<Vec<String>> {
    let (_, rest) = fields.opt_str("LLM_response_editer_en")?.split_once("```")?;
    let (block, _) = rest.split_once("```")?;
    let block = block.trim_start().strip_prefix("json").unwrap_or(block);
    let value: Value = serde_json::from_str(block).ok()?;
    value.as_array()?.iter().map(|e| Some(e.get("element")?.as_str()?.to_owned())).collect()
}

/// What the prompt says after "the current sub-task is", without the opening quote.
fn prompted(fields: Fields<'_>) -> Option<&str> {
    let prompt = fields.opt_str("send_prompt")?;
    let rest = ["现在的子任务是", "current subtask is"].iter().find_map(|m| prompt.split_once(m))?.1;
    let rest = rest.trim_start_matches([':', '：', ' ']);
    Some(rest.strip_prefix(['"', '“', '\'']).unwrap_or(rest))
}

/// The reasoning: the corrected answer up to its JSON block.
fn thought(fields: Fields<'_>) -> Option<String> {
    let answer =
        fields.opt_str("LLM_response_editer_en").or_else(|| fields.opt_str("LLM_response_editer"))?;
    let text = answer.split("```").next().unwrap_or_default().trim();
    // An answer without a fence may be bare JSON, which is no reasoning.
    (!text.is_empty() && !text.starts_with(['[', '{'])).then(|| text.to_owned())
}

/// Microseconds of a file named `2023-12-18_00-18-04-338902_translate.json`, from 1970.
fn timestamp(file: &str) -> Option<i64> {
    let stamp = file.split("_translate").next()?;
    let (whole, fraction) = stamp.rsplit_once('-')?;
    let time = jiff::civil::DateTime::strptime("%Y-%m-%d_%H-%M-%S", whole).ok()?;
    let secs = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
    let digits = |c: char| c.is_ascii_digit();
    (fraction.len() == 6 && fraction.chars().all(digits)).then_some(())?;
    Some(secs * 1_000_000 + fraction.parse::<i64>().ok()?)
}
