//! From a command to task units: clauses, their ENV and their ACT (appendix B), by rules.
//!
//! A command is cut into parts (`then`, `;`, a full stop), a part into clauses (`and` or a comma before a verb); what
//! stands in quotes or parentheses is never cut. A part's application or site holds for all of its clauses. The ACT is
//! the clause's verb and what it is done to, without values.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use tracemill_data::artifact::TaskUnit;

use super::words::{PRONOUNS, STOP, is_verb, padded, quoted, stem, tokens, verb_class};

/// A slot of the intent prototype: one ACT, with the words it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The clause.
    pub clause: String,
    /// The whole part of the command that the clause stands in: values may be named beside the clause.
    pub context: String,
    /// Number of that part.
    pub part: usize,
    /// Application or site, as the memory's sources write it; none where the command names none.
    pub env: Option<String>,
    /// The ACT.
    pub act: Act,
}

/// What is to be done: a verb, and the words of what it is done to, without values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// The verb as the command has it.
    pub verb: String,
    /// Content words, in order.
    pub object: Vec<String>,
}

impl Act {
    /// `set alarm`.
    pub fn text(&self) -> String {
        let mut words = vec![self.verb.as_str()];
        words.extend(self.object.iter().map(String::as_str));
        words.join(" ")
    }

    /// Reads what [`Act::text`] wrote.
    pub fn read(text: &str) -> Self {
        let mut words = text.split_whitespace().map(str::to_owned);
        Self { verb: words.next().unwrap_or_default(), object: words.collect() }
    }

    fn objects(&self) -> Vec<String> {
        self.object.iter().map(|word| stem(word)).collect()
    }

    /// Whether two ACTs ask for the same by their words: verbs of one class, and a word of the object in common (or
    /// no object in both).
    pub fn same(&self, other: &Self) -> bool {
        let (a, b) = (self.objects(), other.objects());
        verb_class(&self.verb) == verb_class(&other.verb)
            && ((a.is_empty() && b.is_empty()) || a.iter().any(|word| b.contains(word)))
    }

    /// Whether two ACTs have a verb of one class or a word of the object in common.
    pub fn akin(&self, other: &Self) -> bool {
        let theirs = other.objects();
        verb_class(&self.verb) == verb_class(&other.verb) || self.objects().iter().any(|w| theirs.contains(w))
    }
}

/// Takes commands apart. The rules are [`RuleDecomposer`]; a language model can stand behind the same trait.
pub trait Decompose {
    /// Name and version, for plans that depend on it.
    fn name(&self) -> String;

    /// The slots of a command, in order. `environments` are the applications and sites that the memory knows.
    ///
    /// # Errors
    /// In words, when the command cannot be taken apart: it is empty, or a service failed.
    fn decompose(&self, command: &str, environments: &BTreeMap<String, String>) -> Result<Vec<Slot>, String>;
}

/// The rules.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleDecomposer;

impl Decompose for RuleDecomposer {
    fn name(&self) -> String {
        "rules-1".to_owned()
    }

    fn decompose(&self, command: &str, environments: &BTreeMap<String, String>) -> Result<Vec<Slot>, String> {
        let mut slots: Vec<Slot> = Vec::new();
        for (part, context) in parts(command).into_iter().enumerate() {
            let named = named_environment(context, environments);
            for clause in clauses(context) {
                let env = named_environment(clause, environments).or_else(|| named.clone());
                let act = act(clause, env.as_deref());
                slots.push(Slot { clause: clause.to_owned(), context: context.to_owned(), part, env, act });
            }
        }
        if slots.is_empty() { Err("the command holds no words".to_owned()) } else { Ok(slots) }
    }
}

/// The slots by part: what a plan shows of how the command was read.
pub fn task_units(slots: &[Slot]) -> Vec<TaskUnit> {
    let mut units: Vec<TaskUnit> = Vec::new();
    let mut last = None;
    for slot in slots {
        if last != Some(slot.part) {
            units.push(TaskUnit { env: vec![], act: vec![], description: slot.context.clone() });
            last = Some(slot.part);
        }
        let unit = units.last_mut().expect("one was pushed for the first slot");
        unit.env.extend(slot.env.clone().filter(|env| !unit.env.contains(env)));
        unit.act.push(slot.act.text());
    }
    units
}

static PART: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\s*;\s*|\.\s+|[\r\n]+|(?:,\s*|\s+)(?:and\s+)?(?:then|afterwards?|after that|next|finally),?\s+",
    )
    .expect("a valid pattern")
});
static CLAUSE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i),?\s+(?:and|&)\s+|,\s+").expect("a valid pattern"));
static LEAD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)^(?:(?:first(?:ly)?|then|next|finally|please|kindly|now|and|i(?: would|'d)? (?:want|like|need) (?:you )?to|(?:can|could|would) you(?: please)?|help me(?: to)?|let me|try to|go ahead and),?\s+)+",
    )
    .expect("a valid pattern")
});

/// Quotes and parentheses of a text: nothing is cut inside.
fn closed(text: &str) -> Vec<Range<usize>> {
    let mut out = quoted(text);
    let parentheses = text.match_indices('(').filter_map(|(i, _)| Some(i..i + text[i..].find(')')?));
    out.extend(parentheses);
    out
}

/// Cuts `text` at the matches of `pattern` outside quotes for which `cuts` holds of what comes before and after.
fn cut<'t>(text: &'t str, pattern: &Regex, cuts: impl Fn(&str, &str) -> bool) -> Vec<&'t str> {
    let closed = closed(text);
    let mut out = Vec::new();
    let mut start = 0;
    for found in pattern.find_iter(text) {
        let outside = !closed.iter().any(|r| r.start <= found.start() && found.start() < r.end);
        if outside && found.start() > start && cuts(&text[start..found.start()], &text[found.end()..]) {
            out.push(&text[start..found.start()]);
            start = found.end();
        }
    }
    out.push(&text[start..]);
    out.into_iter().map(tidy).filter(|piece| !tokens(piece).is_empty()).collect()
}

fn tidy(piece: &str) -> &str {
    let piece = piece.trim().trim_end_matches(['.', ',', ';', '!', '?']).trim_end();
    LEAD.find(piece).map_or(piece, |lead| piece[lead.end()..].trim_start())
}

fn parts(command: &str) -> Vec<&str> {
    cut(command, &PART, |_, after| !after.trim().is_empty())
}

/// A clause begins with a verb and has an object of its own: `set the timer and start it` is one.
fn clauses(part: &str) -> Vec<&str> {
    cut(part, &CLAUSE, |before, after| {
        let words = tokens(after);
        let Some(first) = words.first() else { return false };
        let own = words.iter().skip(1).take_while(|w| !is_clause_word(&w.lower));
        let mut object =
            own.filter(|w| !STOP.contains(&w.lower.as_str()) || PRONOUNS.contains(&w.lower.as_str()));
        let says_what = object.next().is_some_and(|w| !PRONOUNS.contains(&w.lower.as_str()));
        tokens(before).len() > 1 && is_verb(&first.lower) && says_what
    })
}

fn is_clause_word(word: &str) -> bool {
    matches!(word, "and" | "then")
}

/// The longest known application or site that the text names as words of its own.
pub fn named_environment(text: &str, environments: &BTreeMap<String, String>) -> Option<String> {
    let outside = without(text, &quoted(text));
    let words = padded(&outside);
    let named = environments.keys().filter(|tag| words.contains(&padded(tag)) && !tag.trim().is_empty());
    named.max_by_key(|tag| tag.len()).cloned()
}

/// The text with these ranges blanked out.
fn without(text: &str, ranges: &[Range<usize>]) -> String {
    let keep = |(i, c): (usize, char)| if ranges.iter().any(|r| r.contains(&i)) { ' ' } else { c };
    text.char_indices().map(keep).collect()
}

/// Most content words of an ACT's object.
const OBJECT_WORDS: usize = 4;

fn act(clause: &str, env: Option<&str>) -> Act {
    let outside = without(clause, &quoted(clause));
    let words = tokens(&outside);
    let env: Vec<String> = env.map(|e| tokens(e).into_iter().map(|t| t.lower).collect()).unwrap_or_default();
    let verb = words.first().map(|w| w.lower.clone()).unwrap_or_default();
    let is_value = |i: usize| {
        let word = &words[i];
        let name = i > 0 && word.text.chars().next().is_some_and(char::is_uppercase);
        name || word.text.chars().any(|c| c.is_ascii_digit() || "@#/_=".contains(c))
    };
    let object = (1..words.len())
        .filter(|&i| {
            !is_value(i) && !STOP.contains(&words[i].lower.as_str()) && !env.contains(&words[i].lower)
        })
        .map(|i| words[i].lower.trim_end_matches("'s").to_owned())
        .take(OBJECT_WORDS);
    Act { verb, object: object.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environments() -> BTreeMap<String, String> {
        ["Clock", "Messages", "App Store", "Contacts"].iter().map(|e| ((*e).into(), (*e).into())).collect()
    }

    fn read(command: &str) -> Vec<(String, String, String)> {
        let slots = RuleDecomposer.decompose(command, &environments()).expect("words");
        let shown = |s: &Slot| (s.clause.clone(), s.env.clone().unwrap_or_default(), s.act.text());
        slots.iter().map(shown).collect()
    }

    fn triple(clause: &str, env: &str, act: &str) -> (String, String, String) {
        (clause.to_owned(), env.to_owned(), act.to_owned())
    }

    #[test]
    fn commands_are_cut_at_parts_and_clauses_and_never_inside_quotes() {
        assert_eq!(
            read(
                "First set an alarm for 6:15 AM in Clock, and then text Ben: 'Stop, and then go' in Messages."
            ),
            [
                triple("set an alarm for 6:15 AM in Clock", "Clock", "set alarm"),
                triple("text Ben: 'Stop, and then go' in Messages", "Messages", "text"),
            ]
        );
        assert_eq!(
            read("find Ann Lee and tap the favorite star in Contacts"),
            [
                triple("find Ann Lee", "Contacts", "find"),
                triple("tap the favorite star in Contacts", "Contacts", "tap favorite star"),
            ]
        );
    }

    #[test]
    fn a_pronoun_is_no_object_of_its_own() {
        assert_eq!(read("set the timer to 5 minutes and start it").len(), 1);
        assert_eq!(read("set the timer to 5 minutes and start the music").len(), 2);
        assert_eq!(read("buy oat milk, bread and butter").len(), 1);
    }

    #[test]
    fn the_longest_environment_counts_outside_of_quotes() {
        assert_eq!(
            named_environment("get it from the App Store", &environments()).as_deref(),
            Some("App Store")
        );
        assert_eq!(named_environment("write 'Clock' down", &environments()), None);
        assert_eq!(named_environment("clockwork", &environments()), None);
    }

    #[test]
    fn acts_compare_by_class_and_object() {
        let same = |a: &str, b: &str| Act::read(a).same(&Act::read(b));
        assert!(same("create alarm", "make wake-up alarm") && same("delete contact", "remove contact entry"));
        assert!(!same("delete contact", "create contact") && !same("set alarm", "set timer"));
        assert!(same("text", "message") && !same("text", "message friend"));
    }

    #[test]
    fn nothing_to_do_is_an_error() {
        assert!(RuleDecomposer.decompose(" … ,", &environments()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken_apart_without_loss_of_order(text in "\\PC{0,120}") {
            if let Ok(slots) = RuleDecomposer.decompose(&text, &environments()) {
                proptest::prop_assert!(slots.windows(2).all(|w| w[0].part <= w[1].part));
                proptest::prop_assert!(slots.iter().all(|s| text.contains(&s.clause)));
            }
        }
    }
}
