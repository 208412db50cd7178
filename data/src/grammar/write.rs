//! Actions as text, in the grammar of CES: the inverse of [`parse_action`](super::parse_action).

use std::fmt;

use super::Reply;
use crate::action::{Action, Verb};

/// A coordinate: whole numbers, which most are, without the cost of formatting a fraction.
#[derive(Debug, Clone, Copy)]
pub struct Shown(pub f64);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.fract() == 0.0 && self.0.abs() < 1e9 {
            write!(f, "{}", self.0 as i64)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

/// `click(point='(402, 683)')`. Reading it back gives the action's verb, points, element, direction and
/// text again.
pub fn write_action(action: &Action) -> String {
    let mut call = Writer { text: String::with_capacity(40), first: true };
    let name = match action.verb {
        Verb::Home => "press_home",
        Verb::Back => "press_back",
        Verb::Recents => "press_appselect",
        Verb::Complete => "finished",
        Verb::Impossible => "error",
        verb => verb.name(),
    };
    call.text.push_str(name);
    call.text.push('(');
    if let Some(p) = action.point {
        call.argument("point", &format!("({}, {})", Shown(p.x), Shown(p.y)));
    }
    if let Some(p) = action.end {
        call.argument("end", &format!("({}, {})", Shown(p.x), Shown(p.y)));
    }
    if let Some(element) = &action.target.element {
        call.argument("element", element);
    }
    if let Some(direction) = &action.source_direction {
        call.argument("direction", direction);
    }
    if let Some(text) = &action.text {
        call.argument(text_argument(action.verb), text);
    }
    call.text.push(')');
    call.text
}

fn text_argument(verb: Verb) -> &'static str {
    match verb {
        Verb::OpenApp => "app_name",
        Verb::Press => "key",
        _ => "content",
    }
}

struct Writer {
    text: String,
    first: bool,
}

impl Writer {
    fn argument(&mut self, name: &str, value: &str) {
        if !self.first {
            self.text.push_str(", ");
        }
        self.first = false;
        self.text.push_str(name);
        self.text.push_str("='");
        // A tag inside a value would end the answer that the call is put into, or begin another call.
        let tagged = Reply::is_tagged(value) || value.contains("<tool_call>");
        for c in value.chars() {
            match c {
                '<' if tagged => self.text.push_str("\\x3c"),
                '\\' => self.text.push_str("\\\\"),
                '\'' => self.text.push_str("\\'"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                c => self.text.push(c),
            }
        }
        self.text.push('\'');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parse_action;
    use super::*;
    use crate::action::{FrameName, Position};

    #[test]
    fn actions_are_written_as_ces_writes_them() {
        let mut action = Action::new(Verb::Click, "");
        action.point = Some(Position { x: 402.0, y: 683.5, frame: FrameName::Pixels });
        assert_eq!(write_action(&action), "click(point='(402, 683.5)')");
        let typed = Action { text: Some("it's\n".to_owned()), ..Action::new(Verb::Type, "") };
        assert_eq!(write_action(&typed), "type(content='it\\'s\\n')");
        assert_eq!(write_action(&Action::new(Verb::Recents, "")), "press_appselect()");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            verb in proptest::sample::select(Verb::ALL.to_vec()),
            point in proptest::option::of((0_i32..3000, 0_i32..3000)),
            element in proptest::option::of("[a-z0-9 ']{1,6}"),
            text in proptest::option::of("\\PC{1,12}(</answer>|<tool_call>)?"),
        ) {
            let mut action = Action::new(verb, "");
            let place = |(x, y)| Position { x: f64::from(x), y: f64::from(y), frame: FrameName::Pixels };
            action.point = point.map(place);
            action.target.element = element;
            let word = text.filter(|t| verb != Verb::Press || *t == t.trim().to_lowercase());
            action.text = word.filter(|_| verb != Verb::Scroll);
            if verb == Verb::Scroll {
                action.source_direction = Some("up".to_owned());
            }
            let written = write_action(&action);
            let read = parse_action(&written, FrameName::Pixels).map_err(|e| TestCaseError::fail(e.to_string()))?;
            action.source_verb.clone_from(&read.action.source_verb);
            prop_assert_eq!(read.action, action, "{}", written);
        }
    }
}
