//! Steps put into words: atomic instructions for data that has none.

use anyhow::{Context, Result};
use minijinja::{Environment, UndefinedBehavior, context};
use serde::Deserialize;
use tracemill_data::prompt::noun;
use tracemill_data::trace::Element;

/// A way to word a step.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phrasing {
    /// Its name in results.
    pub name: String,
    /// Skipped for labels of one word, of which it would use all.
    #[serde(default)]
    unlike_label: bool,
    touch: String,
    r#type: String,
    back: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    phrasing: Vec<Phrasing>,
}

/// A step in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worded {
    /// The instruction.
    pub instruction: String,
    /// The words of the label that it uses; empty for going back.
    pub used: String,
}

/// The gestures that can be worded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gesture<'a> {
    /// An element touched.
    Touch,
    /// Text typed into an element.
    Type(&'a str),
    /// The back key.
    Back,
}

/// The phrasings that are compiled in.
///
/// # Errors
/// When the file is not valid.
pub fn phrasings() -> Result<Vec<Phrasing>> {
    let file: File = toml::from_str(include_str!("phrasings.toml")).context("phrasings.toml")?;
    Ok(file.phrasing)
}

impl Phrasing {
    /// Words a gesture on `target`; `None` when this phrasing does not apply to it: a label without
    /// words, or of one word where a part is asked for.
    ///
    /// # Errors
    /// When the template cannot be rendered.
    pub fn word(&self, gesture: Gesture<'_>, target: &Element) -> Result<Option<Worded>> {
        let label = target.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let words: Vec<&str> = label.split(' ').filter(|w| !w.is_empty()).collect();
        let (part, rest) = words.split_at(words.len().div_ceil(2));
        let nameless = words.is_empty() || (self.unlike_label && rest.is_empty());
        let (template, text) = match gesture {
            Gesture::Touch => (&self.touch, ""),
            Gesture::Type(text) => (&self.r#type, text),
            Gesture::Back => (&self.back, ""),
        };
        if nameless && gesture != Gesture::Back {
            return Ok(None);
        }
        let (part, rest) = (part.join(" "), rest.join(" "));
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let values =
            context! { label => &label, part => &part, rest => &rest, text, noun => noun(&target.role) };
        let instruction = environment.render_str(template, values).with_context(|| self.name.clone())?;
        let uses = |name: &str| template.contains(&format!("{{{{ {name}"));
        let used = if uses("part") {
            part
        } else if uses("rest") {
            rest
        } else if uses("label") {
            label
        } else {
            String::new()
        };
        Ok(Some(Worded { instruction, used }))
    }
}

/// Whether the words that an instruction uses of the label fit other elements as well: another element
/// has just this text, or, where they are not the whole of the target's, holds them.
pub fn is_ambiguous(used: &str, target: &Element, elements: &[Element]) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let used = plain(used);
    let others = || elements.iter().filter(|e| e.id != target.id);
    if used.is_empty() {
        return false;
    }
    if plain(&target.text) == used {
        return others().any(|e| plain(&e.text) == used);
    }
    others().any(|e| plain(&e.text).contains(&used))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(id: &str, role: &str, text: &str) -> Element {
        Element { id: id.to_owned(), role: role.to_owned(), text: text.to_owned(), ..Element::default() }
    }

    #[test]
    fn phrasings_hide_ids_and_use_what_they_say() {
        let target = element("77", "button", "Max reminder duration\n5 minutes");
        let worded: Vec<Worded> = phrasings()
            .expect("valid")
            .iter()
            .filter_map(|p| p.word(Gesture::Touch, &target).expect("renders"))
            .collect();
        assert_eq!(worded.len(), 6);
        assert_eq!(worded[0].instruction, "Tap the \"Max reminder duration 5 minutes\" button.");
        assert_eq!(worded[4].instruction, "Tap Max reminder duration.");
        assert_eq!(worded[5].used, "5 minutes");
        assert!(worded.iter().all(|w| !w.instruction.contains("77")));
    }

    #[test]
    fn labels_of_one_word_have_no_part_and_empty_ones_no_name() {
        let phrasings = phrasings().expect("valid");
        let count = |text: &str, gesture| {
            let target = element("1", "button", text);
            phrasings.iter().filter(|p| p.word(gesture, &target).expect("renders").is_some()).count()
        };
        assert_eq!(count("OK", Gesture::Touch), 4);
        assert_eq!(count(" ", Gesture::Type("x")), 0);
        assert_eq!(count("", Gesture::Back), 6);
    }

    #[test]
    fn ambiguity_depends_on_the_words_used() {
        let screen =
            [element("1", "button", "Timer"), element("2", "p", "New Timer"), element("3", "p", "timer")];
        assert!(is_ambiguous("Timer", &screen[0], &screen));
        assert!(!is_ambiguous("New Timer", &screen[1], &screen));
        assert!(is_ambiguous("Timer", &screen[1], &screen));
        assert!(!is_ambiguous("Timer", &screen[0], &screen[..2]));
    }
}
