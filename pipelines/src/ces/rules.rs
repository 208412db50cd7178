//! A Coordinator by rules, for text screens: what a planner without a model can do. It names the element
//! whose words the task holds most of and the state does not mention yet. It is a floor to compare with,
//! not a planner.

use std::collections::BTreeSet;

use tracemill_data::prompt::noun;
use tracemill_data::trace::{Element, Screen};

/// Words that say nothing of what is meant.
const COMMON: &[&str] = &[
    "a", "all", "an", "and", "app", "as", "at", "by", "for", "from", "go", "in", "into", "is", "it", "my",
    "of", "on", "or", "screen", "set", "that", "the", "then", "this", "to", "up", "use", "with", "your",
];

/// A Coordinator's output: `<think>…</think><answer>instruction</answer>`.
pub fn plan(task: &str, state: &str, screen: &Screen) -> String {
    let (why, instruction) = decide(task, state, &screen.elements);
    // A label or a task may hold anything.
    let plain = |text: String| text.replace('<', "‹");
    format!("<think>{}</think><answer>{}</answer>", plain(why), plain(instruction))
}

fn decide(task: &str, state: &str, elements: &[Element]) -> (String, String) {
    let (wanted, done) = (words(task), state.to_lowercase());
    if let Some((text, field)) = typed(task, &done, elements) {
        let label = label(field);
        return (
            format!("The task quotes \"{text}\", which has not been typed yet."),
            format!("Type \"{text}\" into the \"{label}\" field."),
        );
    }
    let mut best: Option<(f64, usize, &Element)> = None;
    for element in elements {
        let name = label(element);
        let own = words(&name);
        let shared = own.intersection(&wanted).count();
        if shared == 0 || done.contains(&name.to_lowercase()) {
            continue;
        }
        // Share of the label's words that the task holds; more of them decide between equals.
        let rank = (shared as f64 / own.len() as f64, shared);
        if best.is_none_or(|(share, count, _)| rank > (share, count)) {
            best = Some((rank.0, rank.1, element));
        }
    }
    match best {
        Some((_, _, element)) => {
            let name = label(element);
            (
                format!("The task speaks of \"{name}\"."),
                format!("Tap the \"{name}\" {}.", noun(&element.role)),
            )
        }
        None => menu(&done, elements),
    }
}

/// Nothing on the screen is spoken of: look behind its menu once, then take the task for done.
fn menu(done: &str, elements: &[Element]) -> (String, String) {
    let is_menu = |e: &&Element| {
        ["more options", "menu", "settings", "navigate up"].contains(&label(e).to_lowercase().as_str())
    };
    match elements.iter().filter(|e| !done.contains(&label(e).to_lowercase())).find(is_menu) {
        Some(element) => {
            let name = label(element);
            (
                "Nothing here is spoken of; the menu may hold it.".to_owned(),
                format!("Tap the \"{name}\" {}.", noun(&element.role)),
            )
        }
        None => ("Nothing here is left to do.".to_owned(), "The task is finished.".to_owned()),
    }
}

/// A quoted text of the task that the state does not mention, and an empty field to type it into.
fn typed<'a, 'e>(task: &'a str, done: &str, elements: &'e [Element]) -> Option<(&'a str, &'e Element)> {
    let field =
        elements.iter().find(|e| matches!(e.role.as_str(), "input" | "EditText" | "textbox" | "entry"))?;
    let quoted = quotations(task).into_iter().find(|text| !done.contains(&text.to_lowercase()))?;
    Some((quoted, field))
}

fn quotations(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    for quote in ['"', '\''] {
        // Apostrophes inside words are no quotes.
        let mut marks = text.char_indices().filter(|&(i, c)| {
            let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            c == quote
                && !(letter(text[..i].chars().next_back()) && letter(text[i + c.len_utf8()..].chars().next()))
        });
        while let (Some((start, _)), Some((end, _))) = (marks.next(), marks.next()) {
            out.push(text[start + 1..end].trim());
        }
    }
    out.retain(|quoted| !quoted.is_empty());
    out
}

fn label(element: &Element) -> String {
    element.text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Words that mean something, without the ending that tells several from one.
fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .filter(|w| !w.is_empty() && !COMMON.contains(&w.as_str()))
        .map(|w| if w.len() > 3 { w.strip_suffix('s').unwrap_or(&w).to_owned() } else { w })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(elements: &[(&str, &str)]) -> Screen {
        let element = |(i, (role, text)): (usize, &(&str, &str))| Element {
            id: i.to_string(),
            role: (*role).to_owned(),
            text: (*text).to_owned(),
            ..Element::default()
        };
        Screen { elements: elements.iter().enumerate().map(element).collect(), ..Screen::default() }
    }

    fn answer(task: &str, state: &str, elements: &[(&str, &str)]) -> String {
        let reply = plan(task, state, &screen(elements));
        tracemill_data::grammar::strict_answer(&reply).expect("well formed").to_owned()
    }

    #[test]
    fn the_element_that_the_task_speaks_of_is_named_once() {
        let here = [
            ("button", "Search folders"),
            ("button", "Show all folders content"),
            ("button", "More options"),
        ];
        let task = "Show all contents in all folders";
        assert_eq!(answer(task, "", &here), "Tap the \"Show all folders content\" button.");
        let state = "So far: 1. Tap the \"Show all folders content\" button.";
        assert_eq!(answer(task, state, &here), "Tap the \"Search folders\" button.");
        assert_eq!(answer("Call Ann", "", &here[2..]), "Tap the \"More options\" button.");
        assert_eq!(answer("Call Ann", "more options", &here[2..]), "The task is finished.");
    }

    #[test]
    fn what_is_quoted_is_typed() {
        let here = [("input", "Title"), ("button", "Save")];
        assert_eq!(answer("Save 'Ann's tea' now", "", &here), "Type \"Ann's tea\" into the \"Title\" field.");
        assert_eq!(answer("Save 'tea' now", "typed \"tea\"", &here), "Tap the \"Save\" button.");
        assert_eq!(answer("</answer> <image>", "", &[]), "The task is finished.");
    }
}
