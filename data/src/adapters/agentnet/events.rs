//! Reduced events of a raw recording as canonical actions.
//!
//! The complete file has the event's kind and coordinates. The visible file, which the annotator
//! edited, has neither: its kind is read from `description` ("Single left Click"), and its
//! `action` may be the annotator's own words ("Click on Keep changes").

use serde_json::{Map, Value};

use crate::action::{Action, Direction, Pixels, Point, Position, ScreenSize, Target, Verb};
use crate::adapters::screenagent::combination;
use crate::adapters::source::{Fault, Fields};
use crate::trace::RejectKind;

const KNOWN: &str = "click, drag, mouse_press, scroll, type, press, long_press, move";

/// An event, and what a step takes from it.
pub(super) struct Event<'a> {
    pub(super) action: Action,
    /// Seconds on the recording's clock.
    pub(super) time: f64,
    /// The accessibility tree before the event.
    pub(super) tree: Option<&'a Map<String, Value>>,
    pub(super) instruction: Option<String>,
}

/// The event of a line of the complete file. A key held while other things were done is an event,
/// and each visible thing done is another.
///
/// # Errors
/// An unknown kind, a field absent or mistyped, a coordinate outside the screen.
pub(super) fn complete_events(fields: Fields<'_>, size: Option<ScreenSize>) -> Result<Vec<Event<'_>>, Fault> {
    let mut events = vec![event(fields, complete_action(fields, size)?)?];
    if fields.str("action")? == "long_press" {
        for child in children(fields) {
            if child.get("vis").and_then(Value::as_bool) == Some(false) {
                continue;
            }
            let action = complete_action(child, size).map_err(|fault| fault.at("children"))?;
            events.push(Event { tree: tree(fields), ..event(child, action)? });
        }
    }
    Ok(events)
}

/// The event of a line of the visible file.
///
/// # Errors
/// A description of no known kind, or a field absent or mistyped.
pub(super) fn visible_event(fields: Fields<'_>) -> Result<Event<'_>, Fault> {
    let description = fields.str("description")?.trim();
    let action = described(description)
        .ok_or_else(|| {
            let reason = format!("field `description`: `{description}` is of no known kind; known: {KNOWN}");
            Fault::new(RejectKind::OutOfRange, reason)
        })
        .map(|action| Action { target: target(fields), ..action })?;
    let kinds = ["click", "drag", "scroll", "type", "press", "long_press", "mouse_press"];
    let label = fields.opt_str("action").map(str::trim).filter(|l| !kinds.contains(l));
    Ok(Event { instruction: label.map(str::to_owned), ..event(fields, action)? })
}

fn event(fields: Fields<'_>, action: Action) -> Result<Event<'_>, Fault> {
    Ok(Event { action, time: fields.f64("start_time")?, tree: tree(fields), instruction: None })
}

fn tree(fields: Fields<'_>) -> Option<&Map<String, Value>> {
    fields.get("axtree").and_then(Value::as_object)
}

fn children(fields: Fields<'_>) -> Vec<Fields<'_>> {
    let children = fields.get("children").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    children.iter().filter_map(Value::as_object).map(Fields).collect()
}

fn target(fields: Fields<'_>) -> Target {
    let Some(target) = fields.get("target").and_then(Value::as_object).map(Fields) else {
        return Target::default();
    };
    let text = |name| target.opt_str(name).map(str::to_owned);
    Target { name: text("title"), role: text("control_type"), ..Target::default() }
}

fn complete_action(fields: Fields<'_>, size: Option<ScreenSize>) -> Result<Action, Fault> {
    let kind = fields.str("action")?;
    let new = |verb| Action { target: target(fields), ..Action::new(verb, kind) };
    match kind {
        "click" => {
            let point = Some(coordinate(fields, size)?);
            Ok(Action { point, ..new(click(fields)?) })
        }
        "mouse_press" => Ok(Action { point: Some(coordinate(fields, size)?), ..new(Verb::LongPress) }),
        "drag" => {
            let point = Some(coordinate(fields, size)?);
            Ok(Action { point, end: drag_end(fields, size)?, ..new(Verb::Drag) })
        }
        "scroll" => scroll(fields, size, new(Verb::Scroll)),
        "type" => Ok(typed(&key_names(fields)?, new)),
        "press" => Ok(Action { text: Some(combination(pressed(fields)?)), ..new(Verb::Press) }),
        "long_press" => Ok(Action { text: Some(combination([fields.str("key_name")?])), ..new(Verb::Press) }),
        "move" => Ok(Action { point: last_of(fields, "trace", size)?, ..new(Verb::Hover) }),
        other => {
            let reason = format!("field `action`: unknown value `{other}`; known: {KNOWN}");
            Err(Fault::new(RejectKind::OutOfRange, reason))
        }
    }
}

fn checked(x: f64, y: f64, size: Option<ScreenSize>) -> Result<Position, Fault> {
    let point = Point::<Pixels>::checked(x, y, size);
    point.map(Into::into).map_err(|e| Fault::new(RejectKind::OutOfRange, e.to_string()))
}

fn coordinate(fields: Fields<'_>, size: Option<ScreenSize>) -> Result<Position, Fault> {
    let at = fields.object("coordinate")?;
    checked(at.f64("x")?, at.f64("y")?, size)
}

fn click(fields: Fields<'_>) -> Result<Verb, Fault> {
    let clicks = fields.get("click_type").map_or(Ok(1), |_| fields.int("click_type"))?;
    // A middle button has no verb of its own; three clicks are two and one more.
    match (fields.get("button").map_or(Ok("left"), |_| fields.str("button"))?, clicks) {
        ("right", _) => Ok(Verb::RightClick),
        (_, 2..) => Ok(Verb::DoubleClick),
        ("left" | "middle", _) => Ok(Verb::Click),
        (other, _) => {
            let reason = format!("field `button`: unknown value `{other}`; known: left, right, middle");
            Err(Fault::new(RejectKind::OutOfRange, reason))
        }
    }
}

/// The last point of a trace of `[x, y]` pairs.
fn last_of(fields: Fields<'_>, trace: &str, size: Option<ScreenSize>) -> Result<Option<Position>, Fault> {
    let Some(last) = fields.get(trace).and_then(Value::as_array).and_then(|points| points.last()) else {
        return Ok(None);
    };
    let pair = last.as_array().map(Vec::as_slice).unwrap_or_default();
    let [Some(x), Some(y)] = [0, 1].map(|i| pair.get(i).and_then(Value::as_f64)) else {
        let reason = format!("field `{trace}`: expected points [x, y]");
        return Err(Fault::new(RejectKind::MissingField, reason));
    };
    checked(x, y, size).map(Some)
}

fn drag_end(fields: Fields<'_>, size: Option<ScreenSize>) -> Result<Option<Position>, Fault> {
    if let Some(end) = last_of(fields, "drag_trace", size)? {
        return Ok(Some(end));
    }
    for child in children(fields).iter().rev() {
        if let Some(end) = last_of(*child, "trace", size)? {
            return Ok(Some(end));
        }
    }
    let described = fields.opt_str("description").and_then(drag_points);
    let missing =
        || Fault::new(RejectKind::MissingField, "field `drag_trace` is missing: the drag has no end");
    let (_, (x, y)) = described.ok_or_else(missing)?;
    checked(x, y, size).map(Some)
}

/// Sums the notches. The recorder's `dy` is positive upwards, its `dx` positive leftwards.
fn scroll(fields: Fields<'_>, size: Option<ScreenSize>, action: Action) -> Result<Action, Fault> {
    let (mut dx, mut dy, mut start) = (0.0, 0.0, None);
    for value in fields.array("trace")? {
        let notch = Fields::of(value)?;
        dx += notch.f64("dx")?;
        dy += notch.f64("dy")?;
        if start.is_none() {
            start = Some(checked(notch.f64("x")?, notch.f64("y")?, size)?);
        }
    }
    let arrows = fields.opt_str("description").and_then(|d| d.trim().strip_prefix("Scroll"));
    Ok(Action {
        point: start,
        direction: Direction::of_displacement(-dx, -dy),
        source_direction: arrows.map(|a| a.trim().to_owned()),
        amount: Some(f64::max(dx.abs(), dy.abs())),
        ..action
    })
}

fn key_names(fields: Fields<'_>) -> Result<Vec<&str>, Fault> {
    let wrong = || Fault::new(RejectKind::MissingField, "field `key_names`: expected names of keys");
    let names = fields.array("key_names")?;
    let names: Vec<&str> = names.iter().map(Value::as_str).collect::<Option<_>>().ok_or_else(wrong)?;
    if names.is_empty() { Err(wrong()) } else { Ok(names) }
}

/// Keys held together: the event's own, then those pressed while it was held.
fn pressed(fields: Fields<'_>) -> Result<Vec<&str>, Fault> {
    let mut keys = vec![fields.str("key_name")?];
    for child in children(fields) {
        match child.opt_str("action") {
            Some("type") => keys.extend(key_names(child)?),
            Some("press") => keys.extend(pressed(child)?),
            _ => {}
        }
    }
    Ok(keys)
}

/// Keys pressed one after the other: text, or one key that is none.
fn typed(keys: &[&str], new: impl Fn(Verb) -> Action) -> Action {
    if let [key] = keys
        && key.chars().count() > 1
        && *key != "space"
    {
        return Action { text: Some(combination([*key])), ..new(Verb::Press) };
    }
    let mut text = String::new();
    for key in keys {
        match *key {
            "space" => text.push(' '),
            "enter" | "return" => text.push('\n'),
            "tab" => text.push('\t'),
            "backspace" if !text.is_empty() => drop(text.pop()),
            one if one.chars().count() == 1 => text.push_str(one),
            // As the recorder's own descriptions write a key that is no character.
            other => text.extend(["$", other, "$"]),
        }
    }
    Action { text: Some(text), ..new(Verb::Type) }
}

/// The action that a description of the visible file tells of.
fn described(description: &str) -> Option<Action> {
    if let Some((start, end)) = drag_points(description) {
        let at = |(x, y)| checked(x, y, None).ok();
        return Some(Action { point: at(start), end: at(end), ..Action::new(Verb::Drag, "drag") });
    }
    if let Some(click) = description.strip_suffix(" Click") {
        let verb = match click.split_once(' ')? {
            (_, "right") => Verb::RightClick,
            ("Double" | "Triple", _) => Verb::DoubleClick,
            ("Single", _) => Verb::Click,
            _ => return None,
        };
        return Some(Action::new(verb, "click"));
    }
    if description.starts_with("Mouse long press") {
        return Some(Action::new(Verb::LongPress, "mouse_press"));
    }
    if let Some(arrows) = description.strip_prefix("Scroll") {
        return Some(described_scroll(arrows.trim()));
    }
    let keys = description.trim_start_matches(['⌨', '\u{fe0f}', ' ']);
    if let Some(text) = keys.strip_prefix("Type: ") {
        return Some(Action { text: Some(text.to_owned()), ..Action::new(Verb::Type, "type") });
    }
    let (kind, keys) = match keys.strip_prefix("Long Press: ") {
        Some(keys) => ("long_press", keys),
        None => ("press", keys.strip_prefix("Press: ")?),
    };
    let keys = keys.split(" + ").map(|k| if k.len() > 2 { k.trim_matches('$') } else { k });
    Some(Action { text: Some(combination(keys)), ..Action::new(Verb::Press, kind) })
}

fn described_scroll(arrows: &str) -> Action {
    let direction = match arrows.chars().next() {
        Some('⬆') => Some(Direction::Up),
        Some('⬇') => Some(Direction::Down),
        Some('⬅') => Some(Direction::Left),
        Some('➡') => Some(Direction::Right),
        _ => None,
    };
    let count = arrows.split('×').nth(1).and_then(|n| n.split_whitespace().next()?.parse().ok());
    Action {
        direction,
        source_direction: Some(arrows.to_owned()),
        amount: count,
        ..Action::new(Verb::Scroll, "scroll")
    }
}

/// Start and end of `Drag from (621, 206) to (561, 213)`.
fn drag_points(description: &str) -> Option<((f64, f64), (f64, f64))> {
    let (start, end) = description.trim().strip_prefix("Drag from ")?.split_once(" to ")?;
    let point = |text: &str| {
        let (x, y) = text.trim().strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
        Some((x.trim().parse().ok()?, y.trim().parse().ok()?))
    };
    Some((point(start)?, point(end)?))
}
