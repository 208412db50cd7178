//! `AutoDroid`'s screens: one element after another as pseudo-HTML.
//!
//! ```text
//! <input id=0 >Search folders</input>
//! <button id=1 text='Open camera'></button>
//!  <checkbox id=2 checked=True>Last modified</checkbox>
//!  <button id=3>Internal<br>2</button>
//! ```
//!
//! Nothing is escaped in it: labels hold `>`, `<unknown>`, apostrophes and line breaks as they are.
//! So an element ends at the first closing tag of its own name, which only another element or the
//! end may follow; a quote ends a value only where an attribute or the tag's end follows. A screen
//! that can be read in two ways under these rules is a fault.

use std::sync::LazyLock;

use regex::Regex;

use super::super::source::Fault;
use crate::trace::{Element, RejectKind};

/// The start of an element: a label that holds one belongs to an element that was not closed.
static OPENING: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"<\w+ id=\d").expect("the pattern is valid"));

/// The end of a quoted value: a quote, and then another attribute or the end of the tag.
static QUOTE_END: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"'( ?>| \w+=)").expect("the pattern is valid"));

/// The elements of `state`, in its order.
///
/// The tag's name is the role; the attribute `text` (the label for screen readers) and then the
/// content are the text, once where they are equal, `<br>` as a line break; other attributes are
/// the states, `name=value`.
///
/// # Errors
/// [`RejectKind::Malformed`] at the first element that cannot be read, [`RejectKind::Duplicate`]
/// when two elements have the same id.
pub fn elements(state: &str) -> Result<Vec<Element>, Fault> {
    let mut elements: Vec<Element> = Vec::new();
    let mut rest = state.trim_start_matches(['\n', ' ']);
    while !rest.is_empty() {
        let (element, after) = element(rest)?;
        if elements.iter().any(|known| known.id == element.id) {
            let reason = format!("two elements have the id {}", element.id);
            return Err(Fault::new(RejectKind::Duplicate, reason));
        }
        if !after.is_empty() && !after.starts_with('\n') {
            return Err(unreadable("only a new line may follow an element", after));
        }
        elements.push(element);
        rest = after.trim_start_matches(['\n', ' ']);
    }
    Ok(elements)
}

fn unreadable(reason: &str, at: &str) -> Fault {
    let shown: String = at.chars().take(60).collect();
    Fault::new(RejectKind::Malformed, format!("{reason}, found {shown:?}"))
}

/// The element that `text` begins with, and what follows it.
fn element(text: &str) -> Result<(Element, &str), Fault> {
    let (role, mut rest) = { text.strip_prefix('<') }
        .map(word)
        .filter(|(role, _)| !role.is_empty())
        .ok_or_else(|| unreadable("expected an element `<role id=…>`", text))?;
    let mut attributes: Vec<(&str, &str)> = Vec::new();
    let content = loop {
        let trimmed = rest.trim_start_matches(' ');
        if let Some(content) = trimmed.strip_prefix('>') {
            break content;
        }
        let (name, value, after) = attribute(trimmed).filter(|_| rest.starts_with(' ')).ok_or_else(|| {
            unreadable(&format!("expected an attribute or the end of the tag `{role}`"), rest)
        })?;
        if attributes.iter().any(|(known, _)| *known == name) {
            return Err(unreadable(&format!("attribute `{name}` stands twice"), text));
        }
        attributes.push((name, value));
        rest = after;
    };
    let close = format!("</{role}>");
    let (inner, after) =
        content.split_once(&close).ok_or_else(|| unreadable(&format!("`{close}` is missing"), text))?;
    if OPENING.is_match(inner) {
        return Err(unreadable(&format!("`{close}` is missing before the next element"), text));
    }
    let tag = &text[..text.len() - content.len()];
    if tag.contains('\'') && QUOTE_END.is_match(inner) {
        return Err(unreadable("a quoted value may end in several places", text));
    }
    Ok((build(role, &attributes, inner, text)?, after))
}

fn build(role: &str, attributes: &[(&str, &str)], inner: &str, text: &str) -> Result<Element, Fault> {
    let find = |wanted| attributes.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
    let id = find("id").filter(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()));
    let id = id.ok_or_else(|| unreadable("an element without a number as its id", text))?;
    let label = find("text").unwrap_or_default();
    let parts: Vec<&str> = match (label, inner) {
        ("", only) | (only, "") => vec![only],
        (label, inner) if label == inner => vec![inner],
        (label, inner) => vec![label, inner],
    };
    let others = attributes.iter().filter(|(name, _)| !matches!(*name, "id" | "text"));
    Ok(Element {
        id: id.to_owned(),
        role: role.to_owned(),
        text: parts.join("\n").replace("<br>", "\n"),
        states: others.map(|(name, value)| format!("{name}={value}")).collect(),
        bbox: None,
    })
}

/// The word that `text` begins with, and what follows it.
fn word(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len()))
}

/// Name and value of the attribute that `text` begins with, and what follows it; nothing where a
/// value without quotes holds one.
fn attribute(text: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = word(text);
    let rest = rest.strip_prefix('=').filter(|_| !name.is_empty())?;
    if let Some(quoted) = rest.strip_prefix('\'') {
        let end = QUOTE_END.find(quoted)?.start();
        Some((name, &quoted[..end], &quoted[end + 1..]))
    } else {
        let end = rest.find([' ', '>', '\n'])?;
        Some((name, &rest[..end], &rest[end..])).filter(|(_, value, _)| !value.contains('\''))
    }
}
