//! Modal detection (section 3.1): what lies in front of the rest, and blocks it.
//!
//! What says so itself is a modal. Else, where the state before shows the same screen, what is new is weighed
//! (`temporal`, appendix A); a modal that was found there and is still shown stays one. Else words and places tell
//! (`keyword`, appendix B).

mod keyword;
mod temporal;
#[cfg(test)]
mod tests;

use super::item::Item;
use super::region::Layout;
use super::rules::ModalRules;
use super::tree::{Rect, Tree};
pub use temporal::Seen;

/// How a modal was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// A window says that it is one, or an alert or dialog asks for a decision.
    Declared,
    /// It is new on the same screen.
    Temporal,
    /// It was there in the state before.
    Persistent,
    /// Its words and its place.
    Keyword,
}

impl Found {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Temporal => "temporal",
            Self::Persistent => "persistent",
            Self::Keyword => "keyword",
        }
    }
}

/// The elements of the modal.
#[derive(Debug, Clone, Default)]
pub(super) struct Modal {
    /// By which evidence; none where there is no modal.
    pub found: Option<Found>,
    /// For each element, whether it is part of it.
    pub of: Vec<bool>,
}

/// How often an element is looked at, on average, as part of an alert or dialog: a handful on any screen. A hundred thousand
/// alerts in one place would take quadratic time.
const MOST_LOOKED: usize = 64;

/// What says itself that it is in front: elements of windows that are modal, and of the boxes of alerts and dialogs that ask
/// for a decision.
fn declared(rules: &ModalRules, tree: &Tree, items: &[Item<'_>]) -> Vec<bool> {
    let of_window = |item: &Item<'_>| {
        item.node.window.is_some_and(|w| tree.windows.get(w as usize).is_some_and(|w| w.modal))
    };
    let widest = rules.declared_width * f64::from(tree.screen_size().0);
    let mut declared: Vec<bool> = items.iter().map(of_window).collect();
    // The outermost box looked at last: what lies in it and in its run asks for nothing that it did not ask for.
    let mut outer: Option<(Rect, usize)> = None;
    let mut looked_at = 0;
    for (index, item) in items.iter().enumerate() {
        let asks = rules.declared_tags.iter().any(|tag| *tag == item.role);
        let Some(rect) = item.node.rect.filter(|rect| asks && f64::from(rect.width) < widest) else {
            continue;
        };
        if outer.is_some_and(|(around, end)| index < end && around.encloses(rect)) {
            continue;
        }
        // What is in it follows it; what lies behind it stands elsewhere in the document.
        let inside =
            items[index..].iter().take_while(|item| item.centre.is_some_and(|at| rect.contains(at))).count();
        let members = index..index + inside;
        looked_at += inside;
        if looked_at > MOST_LOOKED * items.len() {
            break;
        }
        outer = Some((rect, members.end));
        let decides = |item: &Item<'_>| item.role.ends_with("button") && keyword::closes(rules, &item.low);
        if items[members.clone()].iter().any(decides) {
            declared[members].fill(true);
        }
    }
    declared
}

pub(super) fn detect(
    rules: &ModalRules,
    tree: &Tree,
    items: &[Item<'_>],
    layout: &Layout<'_>,
    before: Option<&Seen>,
) -> Modal {
    let modal = |found, of: Vec<bool>| Modal { found: of.contains(&true).then_some(found), of };
    let declared = declared(rules, tree, items);
    if declared.contains(&true) {
        return modal(Found::Declared, declared);
    }
    match before.map(|before| temporal::compare(rules, before, items, layout)) {
        Some(temporal::Compared::Modal(found, of)) => modal(found, of),
        Some(temporal::Compared::SameScreen) => Modal { found: None, of: vec![false; items.len()] },
        Some(temporal::Compared::OtherScreen) | None => {
            modal(Found::Keyword, keyword::detect(rules, tree.screen_size(), items, layout))
        }
    }
}
