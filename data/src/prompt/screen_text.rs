//! A screen as text, for prompts.

use std::fmt::Write;

use crate::trace::Element;

/// One line for each element, in the screen's order: `3 button "New Timer" checked=False`. Line ends
/// inside a label become ` / `.
pub fn screen_text(elements: &[Element]) -> String {
    let mut out = String::new();
    for (i, Element { id, role, text, states, bbox: _ }) in elements.iter().enumerate() {
        let separator = if i == 0 { "" } else { "\n" };
        let label = text.replace('\n', " / ");
        write!(out, "{separator}{id} {role} \"{label}\"").expect("a string takes all text");
        states.iter().for_each(|state| out.extend([" ", state.as_str()]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_is_a_line() {
        let element = |id: &str, role: &str, text: &str, states: &[&str]| Element {
            id: id.to_owned(),
            role: role.to_owned(),
            text: text.to_owned(),
            states: states.iter().map(|s| (*s).to_owned()).collect(),
            bbox: None,
        };
        let elements = [
            element("0", "button", "Snooze time\n10 minutes", &[]),
            element("7", "checkbox", "OK", &["checked=True"]),
        ];
        assert_eq!(
            screen_text(&elements),
            "0 button \"Snooze time / 10 minutes\"\n7 checkbox \"OK\" checked=True"
        );
        assert_eq!(screen_text(&[]), "");
    }
}
