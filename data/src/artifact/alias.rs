//! Φ, the alias map (`IntentCUA`, section 3.2): surface action → (predicate, typed fields).
//!
//! The map is a versioned TOML file; [`AliasMap::builtin`] is the one this crate ships, and
//! [`AliasMap::parse`] reads a user's own. `alias_map.toml` documents the format at its head.

mod file;
#[cfg(test)]
mod tests;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::views::UnitAction;

pub use file::AliasError;

/// The predicate of a step that ends an episode; no verb of Φ, and never part of a skill.
pub const TERMINAL: &str = "terminal";

/// A canonical predicate of Φ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AliasVerb {
    /// The predicate: `text_input`.
    pub name: String,
    /// One line for a person.
    pub meaning: String,
    /// The default way to carry it out: `double click icon or click taskbar -> type target -> press
    /// enter` (appendix B).
    pub template: String,
}

/// A typed argument field of Φ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AliasField {
    /// The field: `target`.
    pub name: String,
    /// One line for a person.
    pub meaning: String,
    /// Type of its values where neither a pattern nor a rule says more: `<element>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// True when the type is read off the values.
    #[serde(default)]
    pub detect: bool,
}

/// How a step was mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// By a rule that found the fields it needs.
    Rule,
    /// By a rule that knows the verb but has none of its fields.
    Fallback,
    /// By no rule: the step keeps its own verb.
    Unmapped,
}

/// One field of a mapped step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappedArg<'a> {
    /// One of Φ's fields.
    pub field: &'a str,
    /// The literal value, as the step has it.
    pub value: &'a str,
    /// The type the rule gives the value, where it gives one.
    pub hint: Option<&'a str>,
}

/// A step after Φ. Borrows from the map and from the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped<'a> {
    /// One of Φ's verbs, [`TERMINAL`], or the step's own verb where Φ has no rule for it.
    pub predicate: &'a str,
    /// The fields that have a value, in the rule's order.
    pub args: Vec<MappedArg<'a>>,
    /// Name of the deciding rule; empty where there was none.
    pub rule: &'a str,
    /// How it was mapped.
    pub coverage: Coverage,
}

impl<'a> Mapped<'a> {
    /// Value of `field`, where the step has one.
    pub fn value(&self, field: &str) -> Option<&'a str> {
        self.args.iter().find(|a| a.field == field).map(|a| a.value)
    }
}

/// What a pattern of a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Surface {
    Phrase,
    Target,
    Role,
    Text,
    Direction,
    /// The target or the phrase.
    Label,
}

impl Surface {
    /// The texts it stands for, empty ones left out.
    fn texts(self, action: &UnitAction) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Self::Phrase => (&action.phrase, &None),
            Self::Target => (&action.target, &None),
            Self::Role => (&action.role, &None),
            Self::Text => (&action.text, &None),
            Self::Direction => (&action.direction, &None),
            Self::Label => (&action.target, &action.phrase),
        };
        [first, second].into_iter().filter_map(|text| filled(text.as_deref()))
    }
}

/// A pattern and what it looks at.
#[derive(Debug, Clone)]
struct Condition {
    surface: Surface,
    pattern: Regex,
}

impl Condition {
    fn holds(&self, action: &UnitAction) -> bool {
        self.surface.texts(action).any(|text| self.pattern.is_match(text))
    }
}

/// Where the value of a field comes from.
#[derive(Debug, Clone)]
enum Source {
    Target,
    Text,
    Direction,
    Literal(String),
    /// A named group of the rule's condition at this index.
    Capture {
        condition: usize,
        group: String,
    },
}

/// A field of a rule: its sources, the first with a value decides, and the type of that value.
#[derive(Debug, Clone)]
struct ArgRule {
    field: String,
    sources: Vec<Source>,
    hint: Option<String>,
}

/// A rule of Φ.
#[derive(Debug, Clone)]
pub struct AliasRule {
    name: String,
    predicate: Option<String>,
    when: Vec<Condition>,
    unless: Vec<Condition>,
    args: Vec<ArgRule>,
    fallback: bool,
}

impl AliasRule {
    /// The rule's unique name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True for a rule that knows the verb but has none of its fields.
    pub fn is_fallback(&self) -> bool {
        self.fallback
    }

    /// True when it matches every step of its verbs, so that no later rule is reached for them.
    fn is_unconditional(&self) -> bool {
        self.when.is_empty() && self.unless.is_empty()
    }

    fn matches(&self, action: &UnitAction) -> bool {
        self.when.iter().all(|c| c.holds(action)) && !self.unless.iter().any(|c| c.holds(action))
    }

    fn value<'a>(&'a self, source: &'a Source, action: &'a UnitAction) -> Option<&'a str> {
        match source {
            Source::Target => not_blank(action.target.as_deref()),
            Source::Text => not_blank(action.text.as_deref()),
            Source::Direction => not_blank(action.direction.as_deref()),
            Source::Literal(value) => Some(value),
            Source::Capture { condition, group } => {
                let condition = &self.when[*condition];
                condition
                    .surface
                    .texts(action)
                    .find_map(|text| Some(condition.pattern.captures(text)?.name(group)?.as_str()))
            }
        }
    }

    fn apply<'a>(&'a self, action: &'a UnitAction) -> Mapped<'a> {
        let args = self.args.iter().filter_map(|arg| {
            let value = arg.sources.iter().find_map(|source| self.value(source, action))?;
            Some(MappedArg { field: &arg.field, value, hint: arg.hint.as_deref() })
        });
        Mapped {
            predicate: self.predicate.as_deref().unwrap_or(&action.verb),
            args: args.collect(),
            rule: &self.name,
            coverage: if self.fallback { Coverage::Fallback } else { Coverage::Rule },
        }
    }
}

/// A type that values of detected fields can have.
#[derive(Debug, Clone)]
struct ValueType {
    name: String,
    pattern: Option<Regex>,
    strong: bool,
}

/// Φ: rules compiled once, ready to map steps.
#[derive(Debug, Clone)]
pub struct AliasMap {
    version: String,
    verbs: Vec<AliasVerb>,
    fields: Vec<AliasField>,
    types: Vec<ValueType>,
    rules: Vec<AliasRule>,
    /// Indices of the rules that hold for each verb, in file order; parallel to `Verb::ALL`.
    by_verb: Vec<Vec<usize>>,
    dismiss_target: Regex,
    dismiss_phrase: Regex,
}

impl AliasMap {
    /// The map this version ships.
    ///
    /// # Panics
    /// Never: a test parses the same text.
    pub fn builtin() -> Self {
        Self::parse(include_str!("alias_map.toml")).expect("the built-in alias map parses, as a test asserts")
    }

    /// Reads and checks a map.
    ///
    /// # Errors
    /// [`AliasError`] names the line and the rule, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, AliasError> {
        file::load(text)
    }

    /// The version written in the file, recorded in every skill.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The canonical predicates, in file order; 17 in the built-in map.
    pub fn verbs(&self) -> &[AliasVerb] {
        &self.verbs
    }

    /// The typed argument fields, in file order.
    pub fn fields(&self) -> &[AliasField] {
        &self.fields
    }

    /// The rules, in file order.
    pub fn rules(&self) -> &[AliasRule] {
        &self.rules
    }

    /// Maps a step: the first rule that matches decides.
    pub fn map<'a>(&'a self, action: &'a UnitAction) -> Mapped<'a> {
        let candidates =
            file::verb_index(&action.verb).map_or(&[][..], |index| self.by_verb[index].as_slice());
        candidates.iter().map(|&i| &self.rules[i]).find(|rule| rule.matches(action)).map_or_else(
            || Mapped { predicate: &action.verb, args: vec![], rule: "", coverage: Coverage::Unmapped },
            |rule| rule.apply(action),
        )
    }

    /// Type of a value of `field`: by a strong pattern, else the rule's `hint`, else a pattern, else
    /// the field's own type. A field Φ doesn't know is `<text>`.
    pub fn value_type<'a>(&'a self, field: &str, value: &str, hint: Option<&'a str>) -> &'a str {
        let Some(field) = self.fields.iter().find(|f| f.name == field) else { return "<text>" };
        if !field.detect {
            return hint.unwrap_or(&field.kind);
        }
        let value = value.trim();
        let detected = self.types.iter().find(|t| t.pattern.as_ref().is_some_and(|p| p.is_match(value)));
        match (detected, hint) {
            (Some(found), None) => &found.name,
            (Some(found), Some(_)) if found.strong => &found.name,
            (_, Some(hint)) => hint,
            (None, None) => &field.kind,
        }
    }

    /// True when a click on this step's element only dismisses a pop-up.
    pub fn dismisses_popup(&self, action: &UnitAction) -> bool {
        // A named element decides alone: "Close the advertisement" may be the phrase of a click that
        // closes it by opening a menu first.
        match filled(action.target.as_deref()) {
            Some(target) if self.dismiss_target.is_match(target) => true,
            _ => filled(action.phrase.as_deref()).is_some_and(|phrase| self.dismiss_phrase.is_match(phrase)),
        }
    }
}

/// The text as it is, where it holds more than white space.
fn not_blank(text: Option<&str>) -> Option<&str> {
    text.filter(|t| !t.trim().is_empty())
}

/// The text without surrounding white space, where anything is left.
fn filled(text: Option<&str>) -> Option<&str> {
    not_blank(text).map(str::trim)
}
