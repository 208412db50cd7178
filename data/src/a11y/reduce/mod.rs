//! Redundancy reduction (section 3.2, appendix C): noise goes, two elements that are one become one, long texts are cut to
//! what the instruction is about.

mod merge;
mod paragraph;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::audit::{Fate, Rule};
use super::item::Item;
use super::rules::{General, Noise};
use super::tree::Tree;
#[cfg(test)]
pub(super) use merge::comparisons;
pub(super) use merge::merge;
pub(super) use paragraph::{Keywords, shorten};

/// Marks what is noise: what no rule can be about (nothing to call it by and nothing to do), what lies beyond the screen, and
/// what the rules name. `in_front` says that an application stands before
/// the desktop and its bars.
pub(super) fn drop_noise(
    rules: &General,
    tree: &Tree,
    items: &[Item<'_>],
    in_front: bool,
    fates: &mut [Fate],
) {
    let (width, height) = tree.screen_size();
    for (index, item) in items.iter().enumerate() {
        if fates[index] != Fate::Kept {
            continue;
        }
        let beyond = item
            .node
            .rect
            .is_some_and(|r| r.right() <= 0 || r.bottom() <= 0 || r.x >= width || r.y >= height);
        let named = || rules.reduce.noise.iter().find(|noise| is_noise(noise, item, in_front));
        let rule = if item.node.rect.is_some_and(|r| r.width <= 0 || r.height <= 0) {
            Some(Rule::named("no-area"))
        } else if beyond {
            Some(Rule::named("off-screen"))
        } else if let Some(noise) = named() {
            Some(Rule::named(noise.rule.clone()))
        } else if item.label.is_empty() && !item.is_interactive() {
            Some(Rule::named("nothing-to-say"))
        } else {
            None
        };
        if let Some(rule) = rule {
            fates[index] = Fate::Dropped(rule);
        }
    }
}

fn is_noise(noise: &Noise, item: &Item<'_>, in_front: bool) -> bool {
    (in_front || !noise.only_behind)
        // What a user acts on is no container, whatever it is called.
        && (!noise.unlabelled || item.label.is_empty() && !item.is_interactive())
        && noise.roles.iter().any(|role| *role == item.role)
        && (noise.names.is_empty() || noise.names.contains(&item.low))
}

/// Leaves out what a view's scroll position hides: elements above and below the screen.
pub(super) fn drop_off_screen(tree: &Tree, items: &[Item<'_>], fates: &mut [Fate]) {
    let (_, height) = tree.screen_size();
    for (index, item) in items.iter().enumerate() {
        let outside = item.centre.is_some_and(|(_, y)| y < 0 || y >= height);
        if outside && fates[index] == Fate::Kept {
            fates[index] = Fate::Dropped(Rule::named("off-screen"));
        }
    }
}

/// Writes what is said of an element, its label and what it holds, and tells the rule that shortened it.
pub(super) fn say(rules: &General, keywords: &Keywords, item: &Item<'_>, out: &mut String) -> Option<Rule> {
    let (label, rule) = shortened(rules, keywords, item, &item.label);
    let (value, value_rule) = shortened(rules, keywords, item, &item.value);
    write_text(&label, out);
    if !value.is_empty() {
        *out += ": ";
        write_text(&value, out);
    }
    rule.or(value_rule)
}

/// A text that itself says a place, as the elements of a line do, is quoted: it could be read as another element.
fn write_text(text: &str, out: &mut String) {
    if says_a_place(text) {
        *out += &format!("{text:?}");
    } else {
        *out += text;
    }
}

/// Whether `(12,34)` stands in a text.
fn says_a_place(text: &str) -> bool {
    let number = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    };
    text.split('(').skip(1).any(|rest| {
        let inner = rest.split_once(')').and_then(|(inner, _)| inner.split_once(','));
        inner.is_some_and(|(x, y)| number(x) && number(y))
    })
}

/// A text that is shortened, and by which rule.
fn shortened<'t>(
    rules: &General,
    keywords: &Keywords,
    item: &Item<'t>,
    text: &Cow<'t, str>,
) -> (Cow<'t, str>, Option<Rule>) {
    if !rules.reduce.paragraphs.iter().any(|role| *role == item.role) {
        return match paragraph::both_ends(text, rules.reduce.long) {
            Some(short) => (Cow::Owned(short), Some(Rule::named("long-text"))),
            None => (text.clone(), None),
        };
    }
    match shorten(text, keywords, &rules.reduce) {
        Some((short, rule)) => (Cow::Owned(short), Some(rule)),
        None => (text.clone(), None),
    }
}
