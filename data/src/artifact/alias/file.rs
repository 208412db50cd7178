//! The alias map's file: its shape, and the checks that turn it into an [`AliasMap`].

use std::collections::{BTreeMap, BTreeSet};

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use toml::Spanned;

use super::{
    AliasField, AliasMap, AliasRule, AliasVerb, ArgRule, Condition, Source, Surface, TERMINAL, ValueType,
};
use crate::action::Verb;

/// Why an alias map was refused.
#[derive(Debug, thiserror::Error)]
pub enum AliasError {
    /// The text is not TOML of the expected shape.
    #[error("alias map: {0}")]
    Syntax(#[source] Box<toml::de::Error>),
    /// A name that is defined nowhere.
    #[error("alias map, line {line}, {place}: unknown {what} `{found}`; did you mean `{nearest}`?")]
    Unknown {
        /// Line of the entry, from 1.
        line: usize,
        /// The entry: ``rule `save` ``.
        place: String,
        /// What kind of name: verb, predicate, field, type, source.
        what: &'static str,
        /// The name found.
        found: String,
        /// The nearest name that is defined.
        nearest: String,
    },
    /// The same name twice.
    #[error("alias map, line {line}: {what} `{name}` is defined twice; rename or remove one")]
    Duplicate {
        /// Line of the second definition, from 1.
        line: usize,
        /// What kind of name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A pattern that is no regular expression.
    #[error("alias map, line {line}, {place}: `{key}` is not a regular expression: {source}")]
    Pattern {
        /// Line of the entry, from 1.
        line: usize,
        /// The entry.
        place: String,
        /// The pattern's key.
        key: &'static str,
        /// What the parser says.
        source: Box<regex::Error>,
    },
    /// A rule that can never decide.
    #[error(
        "alias map, line {line}, rule `{rule}`: never reached for `{verb}`, which rule `{earlier}` takes \
         without a condition; move it before that rule"
    )]
    Unreachable {
        /// Line of the rule, from 1.
        line: usize,
        /// The rule.
        rule: String,
        /// The verb.
        verb: String,
        /// The unconditional rule before it.
        earlier: String,
    },
    /// A fallback rule with a condition: it would no longer be what is left for a verb.
    #[error(
        "alias map, line {line}, rule `{rule}`: a fallback has no `when` and no `unless`; remove one or the other"
    )]
    ConditionalFallback {
        /// Line of the rule, from 1.
        line: usize,
        /// The rule.
        rule: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MapFile {
    version: String,
    verb: Vec<Spanned<AliasVerb>>,
    field: Vec<Spanned<AliasField>>,
    r#type: Vec<TypeEntry>,
    incidental: Incidental,
    rule: Vec<RuleEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TypeEntry {
    name: Spanned<String>,
    // Read by people only; required, so that no type goes unexplained.
    #[serde(rename = "meaning")]
    _meaning: String,
    pattern: Option<String>,
    #[serde(default)]
    strong: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Incidental {
    dismiss_target: Spanned<String>,
    dismiss_phrase: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    name: Spanned<String>,
    verb: Vec<String>,
    #[serde(default)]
    when: Patterns,
    #[serde(default)]
    unless: Patterns,
    to: Option<String>,
    #[serde(default)]
    args: toml::Table,
    #[serde(default)]
    types: BTreeMap<String, String>,
    #[serde(default)]
    fallback: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Patterns {
    phrase: Option<String>,
    target: Option<String>,
    role: Option<String>,
    text: Option<String>,
    direction: Option<String>,
    label: Option<String>,
}

/// Position of a verb in [`Verb::ALL`].
pub(super) fn verb_index(name: &str) -> Option<usize> {
    Verb::ALL.iter().position(|v| v.name() == name)
}

/// Parses and checks a map.
pub(super) fn load(text: &str) -> Result<AliasMap, AliasError> {
    let file: MapFile = toml::from_str(text).map_err(|e| AliasError::Syntax(Box::new(e)))?;
    let types = load_types(text, &file.r#type)?;
    check_names(text, &file, &types)?;
    let place = "incidental steps";
    let incidental = |key, pattern: &Spanned<String>| {
        compile(pattern.as_ref(), key, line_of(text, pattern), place.to_owned())
    };
    let dismiss_target = incidental("dismiss_target", &file.incidental.dismiss_target)?;
    let dismiss_phrase = incidental("dismiss_phrase", &file.incidental.dismiss_phrase)?;
    let (rules, by_verb) = load_rules(text, &file, &types)?;
    let MapFile { version, verb, field, .. } = file;
    let verbs = verb.into_iter().map(Spanned::into_inner).collect();
    let fields = field.into_iter().map(Spanned::into_inner).collect();
    Ok(AliasMap { version, verbs, fields, types, rules, by_verb, dismiss_target, dismiss_phrase })
}

fn load_types(text: &str, entries: &[TypeEntry]) -> Result<Vec<ValueType>, AliasError> {
    let mut seen = BTreeSet::new();
    let load = |entry: &TypeEntry| {
        let (name, line) = (entry.name.as_ref(), line_of(text, &entry.name));
        if !seen.insert(name.clone()) {
            return Err(AliasError::Duplicate { line, what: "type", name: name.clone() });
        }
        let pattern = entry.pattern.as_deref();
        let pattern = pattern.map(|p| compile(p, "pattern", line, format!("type `{name}`"))).transpose()?;
        Ok(ValueType { name: name.clone(), pattern, strong: entry.strong })
    };
    entries.iter().map(load).collect()
}

/// Verbs and fields are defined once, and the fields' types are known.
fn check_names(text: &str, file: &MapFile, types: &[ValueType]) -> Result<(), AliasError> {
    let mut seen = BTreeSet::new();
    let verbs = file.verb.iter().map(|v| ("verb", &v.as_ref().name, line_of(text, v)));
    let fields = file.field.iter().map(|f| ("field", &f.as_ref().name, line_of(text, f)));
    for (what, name, line) in verbs.chain(fields) {
        if !seen.insert((what, name)) {
            return Err(AliasError::Duplicate { line, what, name: name.clone() });
        }
    }
    for field in &file.field {
        let (line, field) = (line_of(text, field), field.as_ref());
        let at = Place { line, name: format!("field `{}`", field.name) };
        at.known("type", &field.kind, types.iter().map(|t| t.name.as_str()))?;
    }
    Ok(())
}

type Rules = (Vec<AliasRule>, Vec<Vec<usize>>);

fn load_rules(text: &str, file: &MapFile, types: &[ValueType]) -> Result<Rules, AliasError> {
    let mut rules: Vec<AliasRule> = Vec::with_capacity(file.rule.len());
    let mut by_verb = vec![Vec::new(); Verb::ALL.len()];
    for entry in &file.rule {
        let (name, line) = (entry.name.as_ref(), line_of(text, &entry.name));
        if rules.iter().any(|r| r.name == *name) {
            return Err(AliasError::Duplicate { line, what: "rule", name: name.clone() });
        }
        let at = Place { line, name: format!("rule `{name}`") };
        for verb in &entry.verb {
            at.known("verb", verb, Verb::ALL.iter().map(|v| v.name()))?;
            let candidates = verb_index(verb).map(|i| &mut by_verb[i]);
            let candidates = candidates.expect("`known` accepts the verbs that have an index");
            if let Some(earlier) =
                candidates.iter().map(|&i: &usize| &rules[i]).find(|r| r.is_unconditional())
            {
                let (rule, earlier) = (name.clone(), earlier.name.clone());
                return Err(AliasError::Unreachable { line, rule, verb: verb.clone(), earlier });
            }
            candidates.push(rules.len());
        }
        rules.push(load_rule(entry, &at, file, types)?);
    }
    Ok((rules, by_verb))
}

fn load_rule(
    entry: &RuleEntry,
    at: &Place,
    file: &MapFile,
    types: &[ValueType],
) -> Result<AliasRule, AliasError> {
    let name = entry.name.as_ref().clone();
    let predicates = || file.verb.iter().map(|v| v.as_ref().name.as_str()).chain([TERMINAL]);
    match &entry.to {
        Some(predicate) => at.known("predicate", predicate, predicates())?,
        None => {
            for verb in &entry.verb {
                at.known("predicate", verb, predicates())?;
            }
        }
    }
    let when = load_conditions(&entry.when, at)?;
    let unless = load_conditions(&entry.unless, at)?;
    if entry.fallback && !(when.is_empty() && unless.is_empty()) {
        return Err(AliasError::ConditionalFallback { line: at.line, rule: name });
    }
    let fields = || file.field.iter().map(|f| f.as_ref().name.as_str());
    for (field, kind) in &entry.types {
        at.known("field", field, entry.args.keys().map(String::as_str))?;
        at.known("type", kind, types.iter().map(|t| t.name.as_str()))?;
    }
    let mut args = Vec::new();
    for (field, value) in &entry.args {
        at.known("field", field, fields())?;
        let sources = load_sources(value, &when, at)?;
        args.push(ArgRule { field: field.clone(), sources, hint: entry.types.get(field).cloned() });
    }
    // A TOML table has no order of its own: the fields' order in the file is the one a person reads.
    args.sort_by_key(|arg| fields().position(|f| f == arg.field));
    Ok(AliasRule { name, predicate: entry.to.clone(), when, unless, args, fallback: entry.fallback })
}

fn load_conditions(patterns: &Patterns, at: &Place) -> Result<Vec<Condition>, AliasError> {
    let keys = [
        ("phrase", Surface::Phrase, &patterns.phrase),
        ("target", Surface::Target, &patterns.target),
        ("role", Surface::Role, &patterns.role),
        ("text", Surface::Text, &patterns.text),
        ("direction", Surface::Direction, &patterns.direction),
        ("label", Surface::Label, &patterns.label),
    ];
    let given = keys.into_iter().filter_map(|(key, surface, p)| Some((key, surface, p.as_deref()?)));
    given
        .map(|(key, surface, p)| {
            Ok(Condition { surface, pattern: compile(p, key, at.line, at.name.clone())? })
        })
        .collect()
}

/// A source, or a list of sources of which the first with a value decides.
fn load_sources(value: &toml::Value, when: &[Condition], at: &Place) -> Result<Vec<Source>, AliasError> {
    match value {
        toml::Value::Array(list) => {
            let nested = list.iter().map(|v| load_sources(v, when, at)).collect::<Result<Vec<_>, _>>()?;
            Ok(nested.into_iter().flatten().collect())
        }
        toml::Value::String(source) => Ok(vec![load_source(source, when, at)?]),
        other => Err(at.unknown("source", &other.to_string(), "target")),
    }
}

fn load_source(source: &str, when: &[Condition], at: &Place) -> Result<Source, AliasError> {
    if let Some(literal) = source.strip_prefix('=') {
        return Ok(Source::Literal(literal.to_owned()));
    }
    if let Some(group) = source.strip_prefix('@') {
        let has = |c: &Condition| c.pattern.capture_names().flatten().any(|name| name == group);
        if let Some(condition) = when.iter().position(has) {
            return Ok(Source::Capture { condition, group: group.to_owned() });
        }
        let groups: Vec<&str> = when.iter().flat_map(|c| c.pattern.capture_names().flatten()).collect();
        return Err(at
            .known("captured group", group, groups.into_iter())
            .expect_err("no pattern captures it"));
    }
    match source {
        "target" => Ok(Source::Target),
        "text" => Ok(Source::Text),
        "direction" => Ok(Source::Direction),
        _ => Err(at
            .known("source", source, ["target", "text", "direction"].into_iter())
            .expect_err("not a source")),
    }
}

/// An entry of the file, for messages.
struct Place {
    line: usize,
    name: String,
}

impl Place {
    /// Errs with the nearest of `names` unless `found` is one of them.
    fn known<'n>(
        &self,
        what: &'static str,
        found: &str,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<(), AliasError> {
        let mut nearest = ("nothing, none is defined", usize::MAX);
        for name in names {
            let distance = strsim::levenshtein(name, found);
            if distance == 0 {
                return Ok(());
            }
            if distance < nearest.1 {
                nearest = (name, distance);
            }
        }
        Err(self.unknown(what, found, nearest.0))
    }

    fn unknown(&self, what: &'static str, found: &str, nearest: &str) -> AliasError {
        AliasError::Unknown {
            line: self.line,
            place: self.name.clone(),
            what,
            found: found.to_owned(),
            nearest: nearest.to_owned(),
        }
    }
}

fn compile(pattern: &str, key: &'static str, line: usize, place: String) -> Result<Regex, AliasError> {
    RegexBuilder::new(pattern).case_insensitive(true).build().map_err(|source| AliasError::Pattern {
        line,
        place,
        key,
        source: Box::new(source),
    })
}

/// Line of a spanned value, from 1.
fn line_of<T>(text: &str, value: &Spanned<T>) -> usize {
    1 + text[..value.span().start].matches('\n').count()
}
