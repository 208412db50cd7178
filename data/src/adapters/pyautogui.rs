//! `PyAutoGUI` code as canonical actions. It is parsed, never run.

mod held;

use super::screenagent::combination;
use super::source::Fault;
use crate::action::{Action, Direction, Normalized, OutOfRange, Pixels, Point, Position, ScreenSize, Verb};
use crate::grammar::literal::{Call, Literal, python_calls};
use crate::trace::RejectKind;

const KNOWN: &str = "click, leftClick, rightClick, middleClick, doubleClick, tripleClick, moveTo, dragTo, \
                     scroll, vscroll, hscroll, write, typewrite, press, hotkey, copy, wait, sleep, terminate, \
                     keyDown, keyUp, mouseDown, mouseUp";

/// A point from the numbers in the code, in the source's frame.
pub(super) type Place<'a> = &'a dyn Fn(f64, f64) -> Result<Position, OutOfRange>;

/// Numbers that are shares of the screen.
///
/// # Errors
/// When they are outside 0..1.
pub(super) fn shares(x: f64, y: f64) -> Result<Position, OutOfRange> {
    Point::<Normalized>::checked(x, y, None).map(Into::into)
}

/// Numbers that are pixels of a screen, inside it where its size is known.
pub(super) fn pixels(size: Option<ScreenSize>) -> impl Fn(f64, f64) -> Result<Position, OutOfRange> {
    move |x, y| Point::<Pixels>::checked(x, y, size).map(Into::into)
}

/// The calls of a step's code.
///
/// # Errors
/// [`RejectKind::Malformed`] where the code stops being calls.
pub(super) fn calls(code: &str) -> Result<Vec<Call>, Fault> {
    python_calls(code).map_err(|e| {
        let reason = format!("code: {e}; only calls with literal arguments are read");
        Fault::new(RejectKind::Malformed, reason)
    })
}

/// The actions of a step's code, moves of the pointer by themselves (see [`join_moves`]). Keys and buttons
/// held down and let go are one action.
///
/// # Errors
/// As [`calls`] and [`actions`]; a key or button that is let go without being held, or stays held.
pub(super) fn actions_of_code(code: &str, place: Place) -> Result<Vec<Action>, Fault> {
    let mut hands = held::Hands::default();
    for call in calls(code)? {
        hands.take(&call, place)?;
    }
    hands.finish()
}

/// The name of the function that a call names, without its module, in lower case.
fn function(call: &Call) -> String {
    call.name.rsplit('.').next().unwrap_or_default().replace('_', "").to_lowercase()
}

/// The actions of a call: one, except for `press` with several keys.
///
/// # Errors
/// An unknown function, an argument absent or of the wrong type, a coordinate outside its frame.
pub(super) fn actions(call: &Call, place: Place) -> Result<Vec<Action>, Fault> {
    let new = |verb| Action::new(verb, call.name.clone());
    let action = match function(call).as_str() {
        "click" => Action { point: position(call, 0, place)?, ..new(click_verb(call)?) },
        "leftclick" | "middleclick" => Action { point: position(call, 0, place)?, ..new(Verb::Click) },
        "rightclick" => Action { point: position(call, 0, place)?, ..new(Verb::RightClick) },
        // There is no verb for a third click; the source's verb keeps it.
        "doubleclick" | "tripleclick" => {
            Action { point: position(call, 0, place)?, ..new(Verb::DoubleClick) }
        }
        "moveto" => Action { point: Some(required_position(call, place)?), ..new(Verb::Hover) },
        "dragto" => Action { end: Some(required_position(call, place)?), ..new(Verb::Drag) },
        "scroll" | "vscroll" => scroll(call, [Direction::Up, Direction::Down], place)?,
        "hscroll" => scroll(call, [Direction::Right, Direction::Left], place)?,
        "write" | "typewrite" => Action { text: Some(message(call, "message")?), ..new(Verb::Type) },
        "press" => return presses(call),
        "hotkey" => Action { text: Some(hotkey(call)?), ..new(Verb::Press) },
        "copy" => Action { text: Some(message(call, "text")?), ..new(Verb::Copy) },
        "wait" | "sleep" => Action { amount: seconds(call)?, ..new(Verb::Wait) },
        "terminate" => terminate(call)?,
        _ => {
            let reason = format!("unknown call `{}`; known: {KNOWN}", call.name);
            return Err(Fault::new(RejectKind::OutOfRange, reason));
        }
    };
    Ok(vec![action])
}

/// Joins a move of the pointer with the action after it that happens where the pointer is. The
/// joined action has the move's point and boxes.
pub(super) fn join_moves(actions: Vec<Action>) -> Vec<Action> {
    let mut joined: Vec<Action> = Vec::with_capacity(actions.len());
    for mut action in actions {
        let here = |last: &Action| action.point.is_none() || action.point == last.point;
        let takes_point = matches!(
            action.verb,
            Verb::Drag | Verb::Scroll | Verb::Click | Verb::DoubleClick | Verb::RightClick
        );
        let is_move = |last: &Action| last.verb == Verb::Hover && takes_point && here(last);
        if let Some(last) = joined.pop_if(|last| is_move(last)) {
            action.point = last.point;
            if !last.target.boxes.is_empty() {
                action.target.boxes = last.target.boxes;
            }
        }
        joined.push(action);
    }
    joined
}

fn wrong(call: &Call, argument: &str, expected: &str) -> Fault {
    let reason = format!("`{}`: argument `{argument}`: expected {expected}", call.name);
    Fault::new(RejectKind::MissingField, reason)
}

fn number(call: &Call, index: usize, name: &str) -> Result<Option<f64>, Fault> {
    match call.argument(index, name) {
        None => Ok(None),
        Some(Literal::Number(n)) => Ok(Some(*n)),
        Some(_) => Err(wrong(call, name, "a number")),
    }
}

fn text<'a>(call: &'a Call, index: usize, name: &str) -> Result<Option<&'a str>, Fault> {
    match call.argument(index, name) {
        None => Ok(None),
        Some(Literal::Text(s)) => Ok(Some(s)),
        Some(_) => Err(wrong(call, name, "a string")),
    }
}

/// `x` and `y`, of which `x` stands at `index` when passed without a name; both may stand there as a pair.
fn position(call: &Call, index: usize, place: Place) -> Result<Option<Position>, Fault> {
    let placed = |x, y| {
        let point = place(x, y);
        point.map(Some).map_err(|e| Fault::new(RejectKind::OutOfRange, format!("`{}`: {e}", call.name)))
    };
    if let Some(Literal::List(pair)) = call.argument(index, "x") {
        return match pair.as_slice() {
            [Literal::Number(x), Literal::Number(y)] => placed(*x, *y),
            _ => Err(wrong(call, "x", "a number, or a point of two")),
        };
    }
    match (number(call, index, "x")?, number(call, index + 1, "y")?) {
        (Some(x), Some(y)) => placed(x, y),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(wrong(call, "x", "a number beside `y`")),
        (Some(_), None) => Err(wrong(call, "y", "a number beside `x`")),
    }
}

fn required_position(call: &Call, place: Place) -> Result<Position, Fault> {
    position(call, 0, place)?.ok_or_else(|| wrong(call, "x", "a number"))
}

fn click_verb(call: &Call) -> Result<Verb, Fault> {
    let clicks = number(call, 2, "clicks")?.unwrap_or(1.0);
    match text(call, 4, "button")?.unwrap_or("left") {
        "right" | "secondary" => Ok(Verb::RightClick),
        "left" | "middle" | "primary" if clicks > 1.0 => Ok(Verb::DoubleClick),
        "left" | "middle" | "primary" => Ok(Verb::Click),
        _ => Err(wrong(call, "button", "left, right or middle")),
    }
}

/// `PyAutoGUI` scrolls up, and right, by a positive number of notches.
fn scroll(call: &Call, [positive, negative]: [Direction; 2], place: Place) -> Result<Action, Fault> {
    let notches = number(call, 0, "clicks")?.ok_or_else(|| wrong(call, "clicks", "a number"))?;
    let direction = match notches {
        n if n > 0.0 => Some(positive),
        n if n < 0.0 => Some(negative),
        _ => None,
    };
    Ok(Action {
        point: position(call, 1, place)?,
        direction,
        amount: Some(notches.abs()),
        ..Action::new(Verb::Scroll, call.name.clone())
    })
}

fn message(call: &Call, argument: &str) -> Result<String, Fault> {
    let message = text(call, 0, argument)?;
    message.map(str::to_owned).ok_or_else(|| wrong(call, argument, "a string"))
}

/// Strings among `values`, lists flattened.
fn strings<'a>(call: &Call, values: impl Iterator<Item = &'a Literal>) -> Result<Vec<&'a str>, Fault> {
    let mut keys = Vec::new();
    for value in values {
        match value {
            Literal::Text(key) => keys.push(key.as_str()),
            Literal::List(list) => keys.extend(strings(call, list.iter())?),
            _ => return Err(wrong(call, "keys", "names of keys")),
        }
    }
    Ok(keys)
}

/// `press` presses its keys one after the other, `presses` times each.
fn presses(call: &Call) -> Result<Vec<Action>, Fault> {
    let keys = strings(call, call.argument(0, "keys").into_iter())?;
    let amount = number(call, 1, "presses")?.filter(|n| *n > 1.0);
    if keys.is_empty() {
        return Err(wrong(call, "keys", "names of keys"));
    }
    let press = |key| {
        let text = Some(combination([key]));
        Action { text, amount, ..Action::new(Verb::Press, call.name.clone()) }
    };
    Ok(keys.into_iter().map(press).collect())
}

/// `hotkey` holds its keys together; they are separate arguments or one list.
fn hotkey(call: &Call) -> Result<String, Fault> {
    let values = call.arguments.iter().filter(|a| matches!(a.name.as_deref(), None | Some("keys")));
    let keys = strings(call, values.map(|a| &a.value))?;
    if keys.is_empty() { Err(wrong(call, "keys", "names of keys")) } else { Ok(combination(keys)) }
}

fn seconds(call: &Call) -> Result<Option<f64>, Fault> {
    let secs = number(call, 0, "seconds")?.or(number(call, 0, "duration")?);
    match secs {
        Some(s) if s < 0.0 => Err(wrong(call, "seconds", "0 or more")),
        other => Ok(other),
    }
}

fn terminate(call: &Call) -> Result<Action, Fault> {
    let verb = match text(call, 0, "status")? {
        Some("success") => Verb::Complete,
        Some("failure" | "fail" | "infeasible") => Verb::Impossible,
        _ => return Err(wrong(call, "status", "success or failure")),
    };
    Ok(Action::new(verb, call.name.clone()))
}
