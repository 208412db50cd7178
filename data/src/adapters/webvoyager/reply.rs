//! What the agent's turn says: `Thought: … Action: …`.
//!
//! ```text
//! Click [4]    Type [4]; text    Scroll [4 | WINDOW]; up | down    Wait    GoBack    Google    ANSWER; text
//! ```
//!
//! Numbers name marked elements; brackets may be missing, or stand around a text. The harness empties a field
//! before it types, and presses enter after it. It scrolls the content in the direction named.

use std::sync::LazyLock;

use regex::Regex;

use super::super::source::Fault;
use crate::action::{Action, Verb};
use crate::trace::RejectKind;

const KNOWN: &str =
    "Click [n], Type [n]; text, Scroll [n or WINDOW]; up or down, Wait, GoBack, Google, ANSWER; text";
/// What is scrolled where no element is.
const WINDOW: &str = "WINDOW";
/// Where the harness goes for `Google`.
const GOOGLE: &str = "https://www.google.com/";

/// The words before the parts of a turn.
static PART: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(Thought|Action|Observation):").expect("the pattern is valid"));

/// Name, and what follows it.
static ACTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?s)^(Click|Type|Scroll|Wait|GoBack|Google|ANSWER)\b(.*)$").expect("the pattern is valid")
});

/// A number or WINDOW, in brackets or not, and what follows.
static PLACE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?s)^[\s;]*\[?(\d+|WINDOW)\]?(?:[;\s]+(.*)|)$").expect("the pattern is valid")
});

/// A turn taken apart.
#[derive(Debug, PartialEq)]
pub(super) struct Reply {
    pub(super) thought: Option<String>,
    pub(super) action: Action,
    /// Text that is neither.
    pub(super) remark: Option<String>,
}

impl Reply {
    /// Takes the turn in `text` apart; its first thought and action count.
    ///
    /// # Errors
    /// When there is no action, or it cannot be read.
    pub(super) fn of(text: &str) -> Result<Self, Fault> {
        let marks: Vec<_> = PART.captures_iter(text).filter_map(|c| Some((c.get(0)?, c.get(1)?))).collect();
        let part = |i: usize| {
            let end = marks.get(i + 1).map_or(text.len(), |(next, _)| next.start());
            text[marks[i].0.end()..end].trim()
        };
        let first = |wanted: &str| marks.iter().position(|(_, word)| word.as_str() == wanted);
        let Some(acted) = first("Action") else {
            return Err(Fault::new(RejectKind::MissingField, "the agent's turn has no `Action:`"));
        };
        let thought = first("Thought");
        let (action, behind) = action(part(acted))?;
        let start = marks.first().map_or(0, |(whole, _)| whole.start());
        let mut others = vec![text[..start].trim(), behind];
        others.extend((0..marks.len()).filter(|i| *i != acted && Some(*i) != thought).map(part));
        others.retain(|other| !other.is_empty());
        let thought = thought.map(|i| part(i).to_owned()).filter(|thought| !thought.is_empty());
        Ok(Self { thought, action, remark: Some(others.join("\n")).filter(|text| !text.is_empty()) })
    }
}

/// The action in `text`, and what stands behind it.
fn action(text: &str) -> Result<(Action, &str), Fault> {
    let found = ACTION.captures(text).and_then(|found| {
        let (name, rest) = (found.get(1)?.as_str(), found.get(2)?.as_str());
        match name {
            "Click" | "Type" | "Scroll" => placed(name, rest),
            "ANSWER" => {
                let answer = filled(unbracketed(rest.trim_start_matches([';', ' '])));
                Some((Action { text: answer, ..Action::new(Verb::Complete, name) }, ""))
            }
            "Google" => {
                let address = Some(GOOGLE.to_owned());
                Some((Action { text: address, ..Action::new(Verb::Navigate, name) }, rest.trim()))
            }
            "GoBack" => Some((Action::new(Verb::Back, name), rest.trim())),
            _ => Some((Action::new(Verb::Wait, name), rest.trim())),
        }
    });
    found.ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        let reason = format!("the action {shown:?} cannot be read; known: {KNOWN}");
        Fault::new(RejectKind::OutOfRange, reason)
    })
}

/// An action on an element, or a scroll of the window; nothing where it cannot be read.
fn placed<'a>(name: &str, rest: &'a str) -> Option<(Action, &'a str)> {
    let found = PLACE.captures(rest)?;
    let number = Some(found.get(1)?.as_str()).filter(|place| *place != WINDOW);
    let rest = found.get(2).map_or("", |rest| rest.as_str());
    let mut action = Action::new(Verb::Scroll, name);
    action.target.element = number.map(str::to_owned);
    if name == "Scroll" {
        let (direction, behind) = word(rest);
        action.direction = Some(direction).filter(|word| matches!(*word, "up" | "down"))?.parse().ok();
        action.source_direction = Some(direction.to_owned());
        return Some((action, behind));
    }
    number?;
    if name == "Click" {
        return Some((Action { verb: Verb::Click, ..action }, rest.trim()));
    }
    Some((Action { verb: Verb::Type, text: Some(filled(unbracketed(rest))?), ..action }, ""))
}

fn filled(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// The text, without the brackets around all of it.
fn unbracketed(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.filter(|inner| !inner.contains(['[', ']'])).unwrap_or(text).trim()
}

/// The word that `text` begins with, in brackets or not, and what follows it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start().trim_start_matches('[');
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (word, behind) = text.split_at(end);
    (word, behind.trim_start_matches(']').trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Direction;

    fn act(text: &str) -> Action {
        Reply::of(&format!("Thought: t\n\nAction: {text}")).expect("reads").action
    }

    #[test]
    fn each_action_is_read_with_and_without_brackets() {
        for (text, verb, element, said) in [
            ("Click [12]", Verb::Click, Some("12"), None),
            ("Click 12", Verb::Click, Some("12"), None),
            ("Type [3]; Athens, Greece\n", Verb::Type, Some("3"), Some("Athens, Greece")),
            ("Type 3; [a [b] c]", Verb::Type, Some("3"), Some("[a [b] c]")),
            ("Type [3]; [a b]", Verb::Type, Some("3"), Some("a b")),
            ("Scroll [WINDOW]; up", Verb::Scroll, None, None),
            ("Scroll [7]; [down]", Verb::Scroll, Some("7"), None),
            ("Wait", Verb::Wait, None, None),
            ("GoBack", Verb::Back, None, None),
            ("Google", Verb::Navigate, None, Some(GOOGLE)),
            ("ANSWER; It is \"-----\"; [3] left.", Verb::Complete, None, Some("It is \"-----\"; [3] left.")),
            ("ANSWER; [two]", Verb::Complete, None, Some("two")),
        ] {
            let found = act(text);
            assert_eq!((found.verb, found.target.element.as_deref()), (verb, element), "{text}");
            assert_eq!(found.text.as_deref(), said, "{text}");
        }
        let scroll = act("Scroll [WINDOW]; down");
        assert_eq!(
            (scroll.direction, scroll.source_direction.as_deref()),
            (Some(Direction::Down), Some("down"))
        );
    }

    #[test]
    fn what_is_neither_thought_nor_action_is_a_remark() {
        let reply = Reply::of("Well. Thought: t\nAction: Click [1] to open\nObservation: o").expect("reads");
        assert_eq!(reply.thought.as_deref(), Some("t"));
        assert_eq!(reply.remark.as_deref(), Some("Well.\nto open\no"));
        let bare = Reply::of("Action: GoBack").expect("reads");
        assert_eq!((bare.thought, bare.remark), (None, None));
    }

    #[test]
    fn a_turn_without_a_readable_action_is_refused() {
        for (text, kind) in [
            ("Thought: only", RejectKind::MissingField),
            ("", RejectKind::MissingField),
            ("Thought: t Action: Hover [3]", RejectKind::OutOfRange),
            ("Thought: t Action: Click [WINDOW]", RejectKind::OutOfRange),
            ("Thought: t Action: Click the button", RejectKind::OutOfRange),
            ("Thought: t Action: Type [3]", RejectKind::OutOfRange),
            ("Thought: t Action: Scroll [3]; left", RejectKind::OutOfRange),
            ("Thought: t Action: Click [3a]", RejectKind::OutOfRange),
        ] {
            assert_eq!(Reply::of(text).expect_err(text).kind, kind, "{text}");
        }
    }
}
