//! An exploration: one row of `steps.jsonl` for each state of an application.
//!
//! `{app, step, action, before, after, instruction, windows}`: `before` and `after` name the states by their
//! files (`001.png`, `001.xml.gz`, `001.tsv`), so that a step's screen is `before`. The first row is the state
//! at the start, without an action. `action` is one of
//!
//! ```text
//! {type: "click", button, double?, x, y, control: {role, name, …} | null, bbox: [x, y, width, height]}
//! {type: "key", key}        keys one after the other, divided by spaces: "ctrl+Home Right Right"
//! {type: "type", text}
//! {type: "scroll", x, y, scroll}        notches, downwards where positive
//! ```
//!
//! A key pressed several times in a row is one step; different keys are several steps. A click names its
//! control, so its element is the one with that role, name and box, and none where the linear form leaves the
//! control out; a click on bare coordinates is on the smallest element around them. The window in front is the
//! active one of the row before.

use serde_json::{Value, json};

use super::super::screenagent::combination;
use super::super::source::{Fault, Fields, numbers};
use super::{Context, Row, aim, few, key, trimmed};
use crate::action::{Action, BBox, Direction, FrameName, Pixels, Point, Position, Verb};
use crate::adapters::elements::smallest_around;
use crate::trace::{Element, Episode, Format, Outcome, Platform, RejectKind, Screen, Step};

const KNOWN: &str = "click, key, type, scroll";

/// The episode in `rows`.
///
/// # Errors
/// The first row that cannot be read, by its line.
pub(super) fn episode(context: &Context, id: String, rows: Vec<Row>) -> Result<Episode, (String, Fault)> {
    let mut exploration =
        Exploration { context, steps: Vec::new(), apps: Vec::new(), now: None, window: None };
    for (line, row) in &rows {
        exploration.add(*line, row).map_err(|fault| (key(*line), fault))?;
    }
    let Exploration { steps, apps, now, .. } = exploration;
    if steps.is_empty() {
        return Err((String::new(), Fault::new(RejectKind::Empty, "no row holds an action")));
    }
    let extra = json!({ "form": "exploration", "final_state": now });
    Ok(Episode {
        episode_id: id,
        format: Format::Osworld,
        source: context.input.display(context.file),
        source_key: String::new(),
        platform: Platform::Desktop,
        instruction: String::new(),
        apps,
        domain: None,
        outcome: Outcome::Unknown,
        split: None,
        extra: Some(extra.to_string()),
        steps,
    })
}

/// The episode while its rows are read.
struct Exploration<'a> {
    context: &'a Context<'a>,
    steps: Vec<Step>,
    apps: Vec<String>,
    /// The state as it is now.
    now: Option<String>,
    /// Title of the window in front now.
    window: Option<String>,
}

impl Exploration<'_> {
    fn add(&mut self, line: u64, row: &Value) -> Result<(), Fault> {
        let fields = Fields::of(row)?;
        let app = fields.str("app")?;
        if !self.apps.iter().any(|known| known == app) {
            self.apps.push(app.to_owned());
        }
        match (&self.now, fields.get("action")) {
            (None, None) => {}
            (Some(now), Some(_)) if fields.str("before")? != now => {
                let reason = format!(
                    "`before` is `{}`, but the row before ends in `{now}`; a row is missing or doubled",
                    fields.str("before")?
                );
                return Err(Fault::new(RejectKind::OutOfRange, reason));
            }
            (_, Some(_)) => self.add_steps(line, app, fields)?,
            (Some(_), None) => return Err(Fault::new(RejectKind::MissingField, "field `action` is missing")),
        }
        self.now = Some(fields.str("after")?.to_owned());
        self.window = window(fields)?;
        Ok(())
    }

    fn add_steps(&mut self, line: u64, app: &str, fields: Fields) -> Result<(), Fault> {
        let screen = self.context.screen(Some(&format!("{}.png", fields.str("before")?)))?;
        let instruction = trimmed(fields, "instruction")?;
        let found = actions(fields.object("action")?, &screen).map_err(|fault| fault.at("field `action`"))?;
        let several = found.len() > 1;
        for (i, action) in found.into_iter().enumerate() {
            let key = if several { format!("{}.key[{i}]", key(line)) } else { key(line) };
            self.steps.push(Step {
                screen: screen.clone(),
                app: Some(app.to_owned()),
                window: self.window.clone(),
                instruction: instruction.clone(),
                ..Step::new(self.steps.len() as u32, key, action)
            });
        }
        Ok(())
    }
}

/// The title of the active window in `windows`: `[role, title, modal, active]` each.
fn window(fields: Fields) -> Result<Option<String>, Fault> {
    let Some(windows) = fields.get("windows") else { return Ok(None) };
    let wrong = || {
        let reason = "field `windows`: expected windows of role, title, modal and active";
        Fault::new(RejectKind::MissingField, reason)
    };
    for window in windows.as_array().ok_or_else(wrong)? {
        let Some([_, Value::String(title), _, Value::Bool(active)]) = window.as_array().map(Vec::as_slice)
        else {
            return Err(wrong());
        };
        if *active && !title.trim().is_empty() {
            return Ok(Some(title.clone()));
        }
    }
    Ok(None)
}

fn actions(fields: Fields, screen: &Screen) -> Result<Vec<Action>, Fault> {
    let kind = fields.str("type")?;
    let new = |verb| Action::new(verb, kind);
    match kind {
        "click" => Ok(vec![click(fields, screen)?]),
        "key" => keys(fields.str("key")?),
        "type" => Ok(vec![Action { text: Some(fields.str("text")?.to_owned()), ..new(Verb::Type) }]),
        "scroll" => {
            let notches = fields.f64("scroll")?;
            let direction = match notches {
                n if n > 0.0 => Some(Direction::Down),
                n if n < 0.0 => Some(Direction::Up),
                _ => None,
            };
            let point = Some(at(fields, screen)?);
            Ok(vec![Action { point, direction, amount: Some(notches.abs()), ..new(Verb::Scroll) }])
        }
        other => {
            let reason = format!("unknown type `{other}`; known: {KNOWN}");
            Err(Fault::new(RejectKind::OutOfRange, reason))
        }
    }
}

fn at(fields: Fields, screen: &Screen) -> Result<Position, Fault> {
    let point = Point::<Pixels>::checked(fields.f64("x")?, fields.f64("y")?, screen.size);
    point.map(Into::into).map_err(|e| Fault::new(RejectKind::OutOfRange, e.to_string()))
}

/// Keys one after the other; one that is repeated is one action.
fn keys(text: &str) -> Result<Vec<Action>, Fault> {
    let mut found: Vec<(String, f64)> = Vec::new();
    for key in text.split_whitespace() {
        let pressed = combination(key.split('+'));
        match found.last_mut() {
            Some((last, times)) if *last == pressed => *times += 1.0,
            _ => found.push((pressed, 1.0)),
        }
    }
    if found.is_empty() {
        return Err(Fault::new(RejectKind::MissingField, "field `key` names no key"));
    }
    let press = |(text, times): (String, f64)| Action {
        text: Some(text),
        amount: Some(times).filter(|times| *times > 1.0),
        ..Action::new(Verb::Press, "key")
    };
    few(found.into_iter().map(press).collect())
}

fn click(fields: Fields, screen: &Screen) -> Result<Action, Fault> {
    let double = fields.get("double").and_then(Value::as_bool).unwrap_or_default();
    let verb = match (fields.str("button")?, double) {
        ("right", _) => Verb::RightClick,
        ("left" | "middle", true) => Verb::DoubleClick,
        ("left" | "middle", false) => Verb::Click,
        (other, _) => {
            let reason = format!("field `button`: unknown value `{other}`; known: left, right, middle");
            return Err(Fault::new(RejectKind::OutOfRange, reason));
        }
    };
    let point = at(fields, screen)?;
    let mut action = Action { point: Some(point), ..Action::new(verb, "click") };
    let element = if fields.get("control").is_some() {
        let control = fields.object("control")?;
        action.target.name = trimmed(control, "name")?;
        action.target.role = trimmed(control, "role")?;
        let bounds = bounds(fields)?;
        action.target.boxes.extend(bounds);
        screen.elements.iter().find(|element| is_control(element, &action, bounds))
    } else {
        smallest_around(&screen.elements, point.x, point.y)
    };
    if let Some(element) = element {
        aim(&mut action, element);
    }
    Ok(action)
}

/// The control's box; its source gives width and height.
fn bounds(fields: Fields) -> Result<Option<BBox>, Fault> {
    let Some(value) = fields.get("bbox") else { return Ok(None) };
    let [left, top, width, height] = numbers(value).map_err(|fault| fault.at("field `bbox`"))?;
    if width < 0.0 || height < 0.0 {
        let reason = format!("field `bbox`: [{left}, {top}, {width}, {height}] has a negative size");
        return Err(Fault::new(RejectKind::OutOfRange, reason));
    }
    Ok(Some(BBox { left, top, right: left + width, bottom: top + height, frame: FrameName::Pixels }))
}

/// Whether the element is the control that `action` names. Roles of trees have hyphens for spaces.
fn is_control(element: &Element, action: &Action, bounds: Option<BBox>) -> bool {
    let role = action.target.role.as_deref().unwrap_or_default().replace(' ', "-");
    let name = action.target.name.as_deref().unwrap_or_default();
    element.role == role && element.text.starts_with(name) && element.bbox.is_some() && element.bbox == bounds
}
