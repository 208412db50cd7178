//! What the user's turn says: the task, the screen's elements, and errors.
//!
//! ```text
//! Now given a task: <task>  Please interact with <address> and get the answer. Observation: please analyze the …
//! [0]: <button> "Menu", "Main menu";    [1]: "Home";    [4]: <input> "";
//! ```
//!
//! Elements are divided by `;` and a tab. The tag is given for `button`, `input` and `textarea`; what has none
//! (links, list items, options, whatever can be clicked) has the role `element`. The label may be followed by
//! another for screen readers (`aria-label`), which is the second line of the text. Quotes are not escaped:
//! labels are divided at the first `", "`.

use std::sync::LazyLock;

use regex::Regex;

use super::super::source::Fault;
use crate::trace::{Element, RejectKind};

/// Role of an element without a tag.
const UNTAGGED: &str = "element";
/// What stands before an observation; a turn without it that tells no task is an error.
const OBSERVATION: &str = "Observation:";

/// The task, and the address that it starts on.
static TASK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?s)^\s*Now given a task:(.*?)Please interact with (\S+) and get the answer\.")
        .expect("the pattern is valid")
});

/// The number of an element, at the start of a line or behind the end of another.
static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|\n|;\t)\[(\d+)\]: ").expect("the pattern is valid"));

/// An element behind its number.
static LABELS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?s)^(?:<([\w-]+)> )?"(.*)"$"#).expect("the pattern is valid"));

/// The harness's own sentences, which say nothing of the screen.
const SENTENCES: [&str; 8] = [
    "I've provided the tag name of each element and the text it contains (if text exists). Note that <textarea> or \
     <input> may be textbox, but not exactly. Please focus more on the screenshot and then refer to the textual \
     information.",
    "please analyze the attached screenshot and give the Thought and Action.",
    "please analyze the accessibility tree and give the Thought and Action.",
    "Please analyze the response given by Assistant, then consider whether to continue iterating or not.",
    "The screenshot of the current page is also attached, give the Thought and Action.",
    "The accessibility tree of the current page is also given, give the Thought and Action.",
    "A screenshot and some texts. (Omitted in context.)",
    "An accessibility tree. (Omitted in context.)",
];

/// A user's turn taken apart.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Observation {
    /// Task and address.
    pub(super) told: Option<(String, String)>,
    /// The elements of the screen, none where they are left out; nothing where the turn observes none.
    pub(super) elements: Option<Vec<Element>>,
    /// What else it says: an error, a warning.
    pub(super) remark: Option<String>,
}

impl Observation {
    /// Takes the turn in `text` apart.
    ///
    /// # Errors
    /// [`RejectKind::Malformed`] at an element that cannot be read, [`RejectKind::Duplicate`] where two have
    /// the same number.
    pub(super) fn of(text: &str) -> Result<Self, Fault> {
        let task = TASK.captures(text);
        let rest = task.as_ref().and_then(|found| found.get(0)).map_or(text, |whole| &text[whole.end()..]);
        let told = task.map(|found| (found[1].trim().to_owned(), found[2].to_owned()));
        let Some((before, observed)) = rest.split_once(OBSERVATION) else {
            let elements = told.is_some().then(Vec::new);
            return Ok(Self { told, elements, remark: remark(rest) });
        };
        let start = NUMBER.find(observed).map_or(observed.len(), |found| found.start());
        let elements = elements(&observed[start..])?;
        let remark = remark(&format!("{before}{}", &observed[..start]));
        Ok(Self { told, elements: Some(elements), remark })
    }
}

fn remark(text: &str) -> Option<String> {
    let left = SENTENCES.iter().fold(text.to_owned(), |text, sentence| text.replace(sentence, ""));
    Some(left.trim().to_owned()).filter(|left| !left.is_empty())
}

fn elements(text: &str) -> Result<Vec<Element>, Fault> {
    let starts: Vec<_> = NUMBER.captures_iter(text).filter_map(|c| Some((c.get(0)?, c.get(1)?))).collect();
    let mut elements = Vec::with_capacity(starts.len());
    let mut known = std::collections::BTreeSet::new();
    for (i, (whole, number)) in starts.iter().enumerate() {
        let end = starts.get(i + 1).map_or(text.len(), |(next, _)| next.start());
        let id = number.as_str();
        if !known.insert(id) {
            return Err(Fault::new(RejectKind::Duplicate, format!("two elements have the number {id}")));
        }
        elements.push(element(id, text[whole.end()..end].trim())?);
    }
    Ok(elements)
}

fn element(id: &str, text: &str) -> Result<Element, Fault> {
    let Some(found) = LABELS.captures(text.strip_suffix(';').unwrap_or(text)) else {
        let shown: String = text.chars().take(60).collect();
        let reason = format!("element [{id}]: expected a label in quotes, found {shown:?}");
        return Err(Fault::new(RejectKind::Malformed, reason));
    };
    let labels = found[2].replacen("\", \"", "\n", 1);
    Ok(Element {
        id: id.to_owned(),
        role: found.get(1).map_or(UNTAGGED, |tag| tag.as_str()).to_owned(),
        text: labels.trim().to_owned(),
        ..Element::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(text: &str) -> Vec<(String, String, String)> {
        let found = Observation::of(text).expect("reads").elements.expect("an observation");
        found.into_iter().map(|e| (e.id, e.role, e.text)).collect()
    }

    #[test]
    fn elements_have_numbers_tags_and_labels() {
        let text = "Observation: x\n[0]: <button> \"Menu\", \"Main menu\";\t[3]: \"say \"hi\"; now\";\t[4]: <input> \"\";";
        let of = |id: &str, role: &str, text: &str| (id.to_owned(), role.to_owned(), text.to_owned());
        assert_eq!(
            flat(text),
            [
                of("0", "button", "Menu\nMain menu"),
                of("3", "element", "say \"hi\"; now"),
                of("4", "input", "")
            ]
        );
        assert_eq!(flat("Observation: A screenshot and some texts. (Omitted in context.)"), []);
    }

    #[test]
    fn the_task_and_what_went_wrong_are_told_apart() {
        let first = "Now given a task: Find [3]: it.  Please interact with https://a.org/x and get the answer. \n\
                     Observation: please analyze the attached screenshot and give the Thought and Action. \n[1]: \"a\";";
        let found = Observation::of(first).expect("reads");
        assert_eq!(found.told, Some(("Find [3]: it.".to_owned(), "https://a.org/x".to_owned())));
        assert_eq!((found.elements.map(|e| e.len()), found.remark), (Some(1), None));
        let error = Observation::of("The action you have chosen cannot be exected.").expect("reads");
        assert_eq!((error.elements, error.told), (None, None));
        assert_eq!(error.remark.as_deref(), Some("The action you have chosen cannot be exected."));
        let warned = "Observation:note: no textbox. please analyze the attached screenshot and give the Thought and Action. ";
        let warned = Observation::of(warned).expect("reads");
        assert_eq!((warned.elements, warned.remark.as_deref()), (Some(vec![]), Some("note: no textbox.")));
    }

    #[test]
    fn what_cannot_be_read_names_the_element() {
        let fault = Observation::of("Observation:\n[1]: <b> no quotes;").expect_err("refused");
        assert_eq!(fault.kind, RejectKind::Malformed);
        assert!(fault.reason.starts_with("element [1]: expected a label"), "{}", fault.reason);
        let fault = Observation::of("Observation:\n[1]: \"a\";\t[1]: \"b\";").expect_err("refused");
        assert_eq!(fault.kind, RejectKind::Duplicate);
    }
}
