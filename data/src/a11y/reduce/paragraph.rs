//! C.2: long texts are cut to what the instruction is about.

use std::collections::BTreeSet;

use super::super::audit::Rule;
use super::super::rules::ReduceRules;

/// The words that an instruction is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Keywords(BTreeSet<String>);

impl Keywords {
    /// Words of at least two characters that are no stop words; digits and letters of any script count.
    pub fn of(instruction: &str, rules: &ReduceRules) -> Self {
        let words = plain_words(instruction).into_iter().map(|(_, word)| word);
        Self(words.filter(|word| word.chars().count() >= 2 && !rules.stop_words.contains(word)).collect())
    }

    /// Whether a word, in lower case, is one of them.
    pub fn has(&self, word: &str) -> bool {
        self.0.contains(word)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The words of a text in lower case, each with the character it begins at.
fn plain_words(text: &str) -> Vec<(usize, String)> {
    let mut words: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (at, c) in text.chars().enumerate() {
        if c.is_alphanumeric() {
            if !open {
                words.push((at, String::new()));
            }
            if let Some((_, word)) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
        }
        open = c.is_alphanumeric();
    }
    words
}

/// The part of a text that is kept, and by which rule it was cut; none where it is short enough.
///
/// Where a keyword stands in it, what is around its first place, by the earliest keyword; else the beginning. No text gets
/// longer by being cut.
pub(in super::super) fn shorten(
    text: &str,
    keywords: &Keywords,
    rules: &ReduceRules,
) -> Option<(String, Rule)> {
    // Bytes are at least as many as characters.
    if text.len() <= rules.default {
        return None;
    }
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= rules.default {
        return None;
    }
    let found = if keywords.is_empty() {
        None
    } else {
        plain_words(text).into_iter().find(|(_, word)| keywords.has(word))
    };
    let (start, end, rule) = match found {
        Some((at, word)) => {
            let end = at + word.chars().count() + rules.window;
            (at.saturating_sub(rules.window), end.min(characters.len()), "keyword-window")
        }
        None => (0, rules.default, "first-characters"),
    };
    let kept: String = characters[start..end].iter().collect();
    let front = if start > 0 { "..." } else { "" };
    let back = if end < characters.len() { "..." } else { "" };
    let short = format!("{front}{}{back}", kept.trim());
    (short.len() < text.len()).then(|| (short, Rule::named(rule)))
}

/// The beginning and the end of a text of more than `long` characters, the last two thirds of what is kept from its end: an
/// editor's title and a terminal's last lines.
pub(super) fn both_ends(text: &str, long: usize) -> Option<String> {
    let characters = if text.len() <= long { 0 } else { text.chars().count() };
    if characters <= long {
        return None;
    }
    let (front, back) = (long / 3, long - long / 3);
    let beginning: String = text.chars().take(front).collect();
    let end: String = text.chars().skip(characters - back).collect();
    Some(format!("{}...{}", beginning.trim_end(), end.trim_start()))
}
