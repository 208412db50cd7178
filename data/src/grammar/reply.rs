//! The action in a model's reply, in any of the grammars that GUI models are trained on.

use super::literal::{Call, Literal, LiteralError, leading_call, leading_value};
use super::vocabulary::{Meaning, Role, vocabulary};
use crate::action::{Action, Direction, FrameName, Position, Verb};

/// The grammar that an action was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grammar {
    /// `click(point='(402, 683)')`: CES, SWIRL, UI-TARS.
    Call,
    /// `[{'action': 'click', 'point': [402, 683], 'input_text': 'no input text'}]`: GUI-R1, UI-R1.
    Dictionary,
    /// `{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [402, 683]}}`: Qwen-VL.
    ToolCall,
    /// `CLICK: (402, 683)`: GUI-Odyssey's evaluation strings.
    Colon,
}

/// An action read from a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The action. Its direction is the reply's own word, in [`Action::source_direction`]: whether it
    /// means the finger or the content depends on who wrote it.
    pub action: Action,
    /// How it was written.
    pub grammar: Grammar,
    /// Text after the action, which was not read.
    pub rest: bool,
}

/// Why a reply holds no action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseFault {
    /// Nothing but white space.
    #[error("the reply is empty")]
    Empty,
    /// Not in any of the grammars.
    #[error("not an action: {0}")]
    NotAnAction(#[from] LiteralError),
    /// Words without the form of an action.
    #[error("not an action: text follows `{0}` without brackets or a colon")]
    Prose(String),
    /// The grammar is right and the dictionary names no action.
    #[error("not an action: no key `action`")]
    NoAction,
    /// A verb that the vocabulary does not have.
    #[error("unknown action `{0}`")]
    UnknownVerb(String),
    /// An argument that is not what its name says.
    #[error("argument `{name}`: {reason}")]
    BadArgument {
        /// The argument's name as written.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// How long a verb may be in a fault: a reply may be anything.
const SHOWN_CHARS: usize = 40;

/// What GUI-R1's prompt asks for where there is no text to enter.
const NO_TEXT: &str = "no input text";

/// Reads the action at the beginning of `content`, the answer of a reply without its tags (see
/// [`Reply::content`](super::Reply::content)). Points are taken to be in `frame`.
///
/// An argument that the verb needs may be missing: the action then has none, and a scorer says so.
///
/// # Errors
/// [`ParseFault`] when no grammar fits, a verb is unknown or an argument is of the wrong kind.
pub fn parse_action(content: &str, frame: FrameName) -> Result<Parsed, ParseFault> {
    let text = unwrapped(content);
    let Some(first) = text.chars().next() else { return Err(ParseFault::Empty) };
    if matches!(first, '{' | '[') {
        let (value, rest) = leading_value(text)?;
        return from_value(value, !rest.trim().is_empty(), frame);
    }
    let (call, rest) = leading_call(text)?;
    let word = call.name.as_str();
    let bare = call.arguments.is_empty();
    if let Some(value) = rest.strip_prefix(':').filter(|_| bare) {
        let action = from_colon(word, value.trim(), frame)?;
        return Ok(Parsed { action, grammar: Grammar::Colon, rest: false });
    }
    // `I` of "I will click" is a name too; brackets or an end must follow a name that means something.
    let bracketed = text[..text.len() - rest.len()].ends_with(')');
    if !bracketed && !rest.trim().is_empty() {
        return Err(ParseFault::Prose(shown(word)));
    }
    Ok(Parsed {
        action: from_call(&call, frame)?,
        grammar: Grammar::Call,
        rest: bracketed && !rest.trim().is_empty(),
    })
}

/// `content` without what models put around an action: a tool-call tag, a code fence, `Action:`.
fn unwrapped(content: &str) -> &str {
    let blank = |c: char| c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}');
    let mut text = content.trim_matches(blank);
    if let Some((_, after)) = text.split_once("<tool_call>") {
        text = after.split_once("</tool_call>").map_or(after, |(call, _)| call).trim();
    }
    if let Some(after) = text.strip_prefix("```") {
        let body = match after.split_once('\n') {
            Some((language, body)) if language.chars().all(|c| c.is_ascii_alphanumeric() || c == '\r') => {
                body
            }
            _ => after,
        };
        text = body.split_once("```").map_or(body, |(code, _)| code).trim();
    }
    // UI-TARS: `Thought: …`, then `Action: …`.
    if let Some((_, after)) = text.starts_with("Thought:").then(|| text.rsplit_once("\nAction:")).flatten() {
        return after.trim_start();
    }
    ["Action:", "action:"].iter().find_map(|prefix| text.strip_prefix(prefix)).map_or(text, str::trim_start)
}

fn from_value(value: Literal, rest: bool, frame: FrameName) -> Result<Parsed, ParseFault> {
    let (value, more) = match value {
        Literal::List(values) => {
            let more = values.len() > 1;
            (values.into_iter().next().ok_or(ParseFault::NoAction)?, more)
        }
        value => (value, false),
    };
    let Literal::Map(pairs) = value else { return Err(ParseFault::NoAction) };
    let is = |name: &'static str| move |(key, _): &&(String, Literal)| key == name;
    let arguments = pairs.iter().find(is("arguments")).map(|(_, value)| value);
    // Some servers hand the arguments on as JSON in a string.
    let inner = match arguments {
        Some(Literal::Text(json)) => Some(leading_value(json.trim())?.0),
        other => other.cloned(),
    };
    let (grammar, pairs) = match &inner {
        Some(Literal::Map(inner)) => (Grammar::ToolCall, inner),
        _ => (Grammar::Dictionary, &pairs),
    };
    let named = |name| pairs.iter().find(is(name)).and_then(|(_, value)| text_of(value));
    let word = named("action").or_else(|| named("action_type")).ok_or(ParseFault::NoAction)?;
    let arguments = pairs.iter().filter(|(key, _)| !matches!(key.as_str(), "action" | "action_type"));
    let action = filled(&word, arguments.map(|(key, value)| (Some(key.as_str()), value)), frame)?;
    Ok(Parsed { action, grammar, rest: rest || more })
}

fn from_call(call: &Call, frame: FrameName) -> Result<Action, ParseFault> {
    filled(&call.name, call.arguments.iter().map(|a| (a.name.as_deref(), &a.value)), frame)
}

fn from_colon(word: &str, value: &str, frame: FrameName) -> Result<Action, ParseFault> {
    let value = Literal::Text(value.to_owned());
    filled(word, std::iter::once((None, &value)), frame)
}

/// The action that `word` names, with its arguments; one without a name is what the verb needs first.
fn filled<'a>(
    word: &str,
    arguments: impl Iterator<Item = (Option<&'a str>, &'a Literal)> + Clone,
    frame: FrameName,
) -> Result<Action, ParseFault> {
    let Meaning { verb, text } = meaning(word, arguments.clone())?;
    let mut action = Action { text: text.map(str::to_owned), ..Action::new(verb, word) };
    let (mut x, mut y) = (None, None);
    for (name, value) in arguments.filter(|(_, value)| **value != Literal::None) {
        let role = match name {
            Some("x") => {
                x = number(value);
                continue;
            }
            Some("y") => {
                y = number(value);
                continue;
            }
            Some(name) => vocabulary().role(name),
            // `click(402, 683)`
            None if first_role(verb) == Role::Point && number(value).is_some() => {
                let slot = if x.is_none() { &mut x } else { &mut y };
                *slot = number(value);
                continue;
            }
            None => Some(first_role(verb)),
        };
        set(&mut action, role, name.unwrap_or("the first"), value, frame)?;
    }
    if let (Some(x), Some(y)) = (x, y) {
        action.point = position(x, y, frame);
    }
    // `enter` is enter, whatever stands in its dictionary's text.
    if let Some(fixed) = text {
        action.text = Some(fixed.to_owned());
    }
    settle_direction(&mut action);
    Ok(action)
}

fn meaning<'a>(
    word: &str,
    mut arguments: impl Iterator<Item = (Option<&'a str>, &'a Literal)>,
) -> Result<Meaning, ParseFault> {
    let mut said = |role| {
        let value = arguments.find(|(name, _)| name.and_then(|n| vocabulary().role(n)) == Some(role));
        value.and_then(|(_, value)| text_of(value))
    };
    let found = match word {
        "system_button" => said(Role::Button).and_then(|name| vocabulary().button(&name)),
        "terminate" => match said(Role::Status) {
            Some(status) => vocabulary().status(&status),
            None => vocabulary().meaning("complete"),
        },
        _ => vocabulary().meaning(word),
    };
    found.ok_or_else(|| ParseFault::UnknownVerb(shown(word)))
}

/// What an argument without a name holds.
fn first_role(verb: Verb) -> Role {
    match verb {
        Verb::Click | Verb::DoubleClick | Verb::RightClick | Verb::LongPress | Verb::Hover | Verb::Drag => {
            Role::Point
        }
        Verb::Scroll => Role::Direction,
        Verb::Press => Role::Key,
        Verb::Wait => Role::Amount,
        _ => Role::Text,
    }
}

fn set(
    action: &mut Action,
    role: Option<Role>,
    name: &str,
    value: &Literal,
    frame: FrameName,
) -> Result<(), ParseFault> {
    let bad = |reason| ParseFault::BadArgument { name: shown(name), reason };
    match role {
        Some(Role::Point) => {
            let (x, y) = point(value).ok_or_else(|| bad("expected a point such as (402, 683)"))?;
            action.point = position(x, y, frame);
        }
        Some(Role::End) => {
            let (x, y) = point(value).ok_or_else(|| bad("expected a point such as (402, 683)"))?;
            action.end = position(x, y, frame);
        }
        Some(Role::Text) => {
            let text = text_of(value).ok_or_else(|| bad("expected text"))?;
            // A later argument without content does not undo an earlier one.
            if text != NO_TEXT && (action.text.is_none() || !text.is_empty()) {
                action.text = Some(text);
            }
        }
        Some(Role::Direction) => {
            action.source_direction = Some(text_of(value).ok_or_else(|| bad("expected a direction"))?);
        }
        Some(Role::Key) => action.text = Some(keys(value).ok_or_else(|| bad("expected a key"))?),
        Some(Role::Element) => {
            action.target.element = Some(text_of(value).ok_or_else(|| bad("expected an element's id"))?);
        }
        Some(Role::Amount) => action.amount = number(value),
        // Used up by `meaning`, or nothing that an action has.
        Some(Role::Button | Role::Status) | None => {}
    }
    Ok(())
}

/// GUI-R1 writes a scroll's direction into the text; a swipe between two points has one too, the
/// finger's.
fn settle_direction(action: &mut Action) {
    if action.verb != Verb::Scroll {
        return;
    }
    if action.source_direction.is_none() {
        action.source_direction = action.text.as_deref().and_then(direction_word);
        if action.source_direction.is_some() {
            action.text = None;
        }
    }
    // Qwen-VL's wheel: pixels above 0 scroll up.
    if let (None, Some(pixels)) = (&action.source_direction, action.amount.filter(|p| *p != 0.0)) {
        let words = if action.source_verb == "hscroll" { ["left", "right"] } else { ["down", "up"] };
        action.source_direction = Some(words[usize::from(pixels > 0.0)].to_owned());
    }
    if let (None, Some(from), Some(to)) = (&action.source_direction, action.point, action.end) {
        let finger = Direction::of_displacement(to.x - from.x, to.y - from.y);
        action.source_direction = finger.map(|d| d.name().to_owned());
    }
    if let Some(direction) = &mut action.source_direction {
        *direction = direction.trim().to_lowercase();
    }
}

/// The direction in a text such as `down` or `scroll down`.
fn direction_word(text: &str) -> Option<String> {
    text.split_whitespace().rev().find_map(|word| word.parse::<Direction>().ok()).map(|d| d.name().to_owned())
}

/// A point in `frame`; none for GUI-R1's `[-100, -100]`, which says that there is none.
fn position(x: f64, y: f64, frame: FrameName) -> Option<Position> {
    (x != -100.0 || y != -100.0).then_some(Position { x, y, frame })
}

fn point(value: &Literal) -> Option<(f64, f64)> {
    match value {
        Literal::List(values) => match values.as_slice() {
            [x, y] => Some((number(x)?, number(y)?)),
            [left, top, right, bottom] => Some((
                f64::midpoint(number(left)?, number(right)?),
                f64::midpoint(number(top)?, number(bottom)?),
            )),
            [one @ (Literal::List(_) | Literal::Text(_))] => point(one),
            _ => None,
        },
        Literal::Map(pairs) => {
            let get = |name: &str| pairs.iter().find(|(key, _)| key == name).and_then(|(_, v)| number(v));
            Some((get("x")?, get("y")?))
        }
        Literal::Text(text) => point_in(text),
        _ => None,
    }
}

/// `(402, 683)`, `[402, 683]`, `402 683`, `<|box_start|>(402,683)<|box_end|>`; of a box, its centre.
fn point_in(text: &str) -> Option<(f64, f64)> {
    let mut numbers = [0.0; 4];
    let mut count = 0;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '<' {
            rest = &rest[rest.find('>')? + 1..];
        } else if c.is_whitespace() || matches!(c, '(' | ')' | '[' | ']' | ',') {
            rest = &rest[c.len_utf8()..];
        } else {
            let end = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')));
            let end = end.unwrap_or(rest.len());
            *numbers.get_mut(count)? = rest[..end].parse().ok().filter(|n: &f64| n.is_finite())?;
            count += 1;
            rest = &rest[end..];
        }
    }
    match count {
        2 => Some((numbers[0], numbers[1])),
        4 => Some((f64::midpoint(numbers[0], numbers[2]), f64::midpoint(numbers[1], numbers[3]))),
        _ => None,
    }
}

fn text_of(value: &Literal) -> Option<String> {
    match value {
        Literal::Text(text) => Some(text.clone()),
        Literal::Number(n) => Some(n.to_string()),
        Literal::Bool(b) => Some(b.to_string()),
        Literal::None | Literal::List(_) | Literal::Map(_) => None,
    }
}

fn keys(value: &Literal) -> Option<String> {
    match value {
        Literal::List(values) => {
            values.iter().map(text_of).collect::<Option<Vec<_>>>().map(|keys| keys.join("+").to_lowercase())
        }
        value => {
            let keys = text_of(value)?.to_lowercase();
            Some(keys.split_whitespace().collect::<Vec<_>>().join("+"))
        }
    }
}

fn number(value: &Literal) -> Option<f64> {
    match value {
        Literal::Number(n) => Some(*n),
        Literal::Text(text) => text.trim().parse().ok().filter(|n: &f64| n.is_finite()),
        _ => None,
    }
}

fn shown(word: &str) -> String {
    word.chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
