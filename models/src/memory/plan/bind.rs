//! Parameters of a schema bound to values of a command, by type, by shape and by the values they had before.

use std::cmp::Reverse;

use tracemill_data::artifact::AliasMap;

use super::words::{STOP, Token, is_verb, quoted, stem, tokens};

/// A value that is wanted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Param {
    /// `<query>`, `<element>`, …
    pub kind: String,
    /// Values it had in the memory.
    pub examples: Vec<String>,
}

/// Words of a command that may be a value.
#[allow(clippy::struct_excessive_bools, reason = "each is a feature of its own that the score looks at")]
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    /// As the command has them.
    pub text: String,
    start: usize,
    end: usize,
    quoted: bool,
    /// Sides, 0 to 2, on which something other than content stands next to it.
    bounded: u8,
    names: bool,
    /// Follows `search for`, `look up`, `find`.
    searched: bool,
    /// Words that are also words of the schema's own labels, or join others (`in`, `to`).
    common: usize,
    words: usize,
    kind: String,
    /// Stands in the clause itself, not beside it.
    own: bool,
}

/// Longest value without quotes, in words.
const MAX_WORDS: usize = 6;
/// Least score at which a value is bound.
const LEAST: f64 = 2.2;
/// Types that a value's form decides: nothing else will do.
const STRICT: [&str; 5] = ["<email>", "<url>", "<file_path>", "<date>", "<number>"];

/// The values that `text` may hold, of which `clause` is the part that is being planned. `labels` are stems that the schema's labels consist of, which are names of
/// elements rather than values.
pub(super) fn candidates(text: &str, clause: &str, labels: &[String], map: &AliasMap) -> Vec<Candidate> {
    let start = text.find(clause).unwrap_or(0);
    let own = start..start + clause.len();
    let mut out = all_candidates(text, labels, map);
    // A clause begins with what is to be done.
    out.retain(|c| c.quoted || c.start != start);
    let lone: Vec<Candidate> = out.iter().filter(|c| c.words == 1).cloned().collect();
    // `a.txt to b.txt` looks like a path to a pattern that allows spaces.
    out.retain(|c| {
        let inside = |o: &&Candidate| c.start <= o.start && o.end <= c.end && o.kind == c.kind;
        c.quoted || c.kind != "<file_path>" || lone.iter().filter(inside).count() < 2
    });
    out.iter_mut().for_each(|c| c.own = own.contains(&c.start));
    out
}

fn all_candidates(text: &str, labels: &[String], map: &AliasMap) -> Vec<Candidate> {
    let quotes = quoted(text);
    let words = tokens(text);
    let mut out: Vec<Candidate> = quotes
        .iter()
        .map(|range| Candidate {
            quoted: true,
            bounded: 2,
            searched: false,
            ..candidate(text, range.start, range.end, labels, map)
        })
        .collect();
    for first in 0..words.len() {
        for last in first..words.len().min(first + MAX_WORDS) {
            let (a, b) = (&words[first], &words[last]);
            let inside = quotes.iter().any(|q| a.at.start < q.end && q.start < b.at.end);
            let broken = words[first..last].iter().any(|w| w.ends);
            let stops = STOP.contains(&a.lower.as_str()) || STOP.contains(&b.lower.as_str());
            if inside || broken || stops || (first == 0 && is_verb(&a.lower)) {
                continue;
            }
            let mut found = candidate(text, a.at.start, possessive(b), labels, map);
            found.bounded = u8::from(bounds(first.checked_sub(1).map(|i| &words[i])))
                + u8::from(b.ends || b.lower.ends_with("'s") || bounds(words.get(last + 1)));
            found.searched = searched(&words[..first]);
            out.push(found);
        }
    }
    out
}

/// End of a word without its possessive.
fn possessive(word: &Token) -> usize {
    let cut = ["'s", "’s"].iter().find(|s| word.lower.ends_with(**s)).map_or(0, |s| s.len());
    word.at.end - cut
}

fn bounds(neighbour: Option<&Token>) -> bool {
    neighbour.is_none_or(|w| w.ends || STOP.contains(&w.lower.as_str()) || is_verb(&w.lower))
}

fn searched(before: &[Token]) -> bool {
    let last: Vec<&str> = before.iter().rev().take(2).map(|w| w.lower.as_str()).collect();
    matches!(last.as_slice(), ["for", ..] | ["up", "look"])
        && before.iter().any(|w| w.lower.starts_with("search"))
        || matches!(last.first(), Some(&"find" | &"search"))
}

fn candidate(text: &str, start: usize, end: usize, labels: &[String], map: &AliasMap) -> Candidate {
    let value = &text[start..end];
    let words = tokens(value);
    Candidate {
        text: value.to_owned(),
        start,
        end,
        quoted: false,
        bounded: 0,
        names: is_name(value),
        searched: false,
        common: words
            .iter()
            .filter(|w| labels.contains(&stem(&w.lower)) || STOP.contains(&w.lower.as_str()))
            .count(),
        words: words.len(),
        kind: map.value_type("text", value, None).to_owned(),
        own: true,
    }
}

/// The best value for each parameter, no word for two of them; `None` where nothing fits. Of equally good values the
/// earlier one goes to the earlier parameter, as commands and schemas tend to name things in one order.
pub(super) fn bind(params: &[Param], candidates: &[Candidate], map: &AliasMap) -> Vec<Option<String>> {
    let mut pairs: Vec<(i64, Reverse<usize>, Reverse<usize>, usize)> = Vec::new();
    for (p, param) in params.iter().enumerate() {
        let profile = Profile::of(param, map);
        for (c, candidate) in candidates.iter().enumerate() {
            let score = profile.score(candidate);
            if score >= LEAST {
                pairs.push(((score * 1e6) as i64, Reverse(p), Reverse(candidate.start), c));
            }
        }
    }
    pairs.sort_unstable_by(|a, b| b.cmp(a));
    let mut bound: Vec<Option<usize>> = vec![None; params.len()];
    for (_, Reverse(p), _, c) in pairs {
        let taken = |other: &usize| {
            candidates[*other].start < candidates[c].end && candidates[c].start < candidates[*other].end
        };
        if bound[p].is_none() && !bound.iter().flatten().any(taken) {
            bound[p] = Some(c);
        }
    }
    bound.into_iter().map(|c| c.map(|c| candidates[c].text.clone())).collect()
}

/// A parameter with what its examples look like: read off once, since every candidate is compared with them.
struct Profile<'p> {
    param: &'p Param,
    examples: Vec<Example>,
}

struct Example {
    lower: String,
    kind: String,
    shape: String,
    words: usize,
    names: bool,
}

/// Examples looked at: more say nothing new of a form.
const MAX_EXAMPLES: usize = 12;

impl<'p> Profile<'p> {
    fn of(param: &'p Param, map: &AliasMap) -> Self {
        let example = |text: &String| Example {
            lower: text.trim().to_lowercase(),
            kind: map.value_type("text", text, None).to_owned(),
            shape: shape(text),
            words: tokens(text).len(),
            names: is_name(text),
        };
        Self { param, examples: param.examples.iter().take(MAX_EXAMPLES).map(example).collect() }
    }

    /// Mean of a likeness over the examples; 0 without any.
    fn like(&self, likeness: impl Fn(&Example) -> f64) -> f64 {
        let n = self.examples.len().max(1) as f64;
        self.examples.iter().map(likeness).sum::<f64>() / n
    }

    fn score(&self, candidate: &Candidate) -> f64 {
        let kind = self.param.kind.as_str();
        let strict = STRICT.contains(&kind);
        let lower = candidate.text.trim().to_lowercase();
        let seen = self.examples.iter().any(|e| e.lower == lower);
        if strict && candidate.kind != kind && !seen {
            return 0.0;
        }
        let (form, holds) = (shape(&candidate.text), |yes: bool| f64::from(u8::from(yes)));
        let length = |e: &Example| {
            let (a, b) = (e.words.min(candidate.words), e.words.max(candidate.words));
            a as f64 / b.max(1) as f64
        };
        let mut score = 3.0 * holds(seen) + 2.0 * holds(strict);
        score += self.like(|e| holds(e.kind == candidate.kind));
        score += self.like(|e| holds(e.shape == form));
        score += self.like(|e| holds(e.names == candidate.names));
        score += 0.5 * self.like(length);
        score += holds(candidate.quoted && !strict);
        score += 0.5 * holds(candidate.names && self.examples.is_empty());
        score += holds(candidate.searched && kind == "<query>");
        score += 0.4 * (f64::from(candidate.bounded) - 1.0);
        // Longer is better where nothing else decides: `New York` before `York`.
        score += 0.02 * candidate.words as f64;
        score += 0.5 * holds(candidate.own);
        score - 1.5 * candidate.common as f64 / candidate.words.max(1) as f64
    }
}

/// Whether every word begins like a name or a number.
fn is_name(text: &str) -> bool {
    let words = tokens(text);
    let capital = |w: &Token| w.text.chars().next().is_some_and(|c| c.is_uppercase() || c.is_numeric());
    !words.is_empty() && words.iter().all(capital)
}

/// Classes of characters, runs collapsed: `6:15 AM` is `0:0 A`.
fn shape(text: &str) -> String {
    let class = |c: char| match c {
        c if c.is_numeric() => '0',
        c if c.is_uppercase() => 'A',
        c if c.is_alphabetic() => 'a',
        c if c.is_whitespace() => ' ',
        c => c,
    };
    let mut out: Vec<char> = text.trim().chars().map(class).collect();
    out.dedup();
    out.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(command: &str, params: &[(&str, &[&str])]) -> Vec<Option<String>> {
        let map = AliasMap::builtin();
        let param = |(kind, examples): &(&str, &[&str])| Param {
            kind: (*kind).to_owned(),
            examples: examples.iter().map(|e| (*e).to_owned()).collect(),
        };
        let params: Vec<Param> = params.iter().map(param).collect();
        bind(&params, &candidates(command, command, &[], &map), &map)
    }

    fn some(values: &[&str]) -> Vec<Option<String>> {
        values.iter().map(|v| (!v.is_empty()).then(|| (*v).to_owned())).collect()
    }

    #[test]
    fn types_and_shapes_find_their_values() {
        let names: &[&str] = &["Ben Osei", "Grace Liu"];
        let numbers: &[&str] = &["555 0134"];
        assert_eq!(
            bound(
                "create a contact for Anna Keller with the number 555 0177",
                &[("<text>", names), ("<number>", numbers)]
            ),
            some(&["Anna Keller", "555 0177"])
        );
        assert_eq!(bound("set an alarm for 6:15 AM", &[("<date>", &["7:30 AM"])]), some(&["6:15 AM"]));
        assert_eq!(
            bound(
                "email a@b.org about 'Lease' saying 'Dinner is at eight'",
                &[
                    ("<email>", &["x@y.org"]),
                    ("<text>", &["Trip photos"]),
                    ("<text>", &["Call me when you land"]),
                ]
            ),
            some(&["a@b.org", "Lease", "Dinner is at eight"])
        );
    }

    #[test]
    fn a_strict_type_takes_nothing_else_and_nothing_is_made_up() {
        assert_eq!(bound("send the report to Ann", &[("<email>", &["x@y.org"])]), some(&[""]));
        assert_eq!(bound("mute it", &[("<text>", &["Ben Osei"])]), some(&[""]));
    }

    #[test]
    fn a_searched_phrase_is_a_query_and_a_possessive_a_name() {
        assert_eq!(
            bound("search for lasagna recipes", &[("<query>", &["ramen recipe"])]),
            some(&["lasagna recipes"])
        );
        assert_eq!(
            bound("erase Carla Ruiz's contact entry", &[("<text>", &["Ben Osei"])]),
            some(&["Carla Ruiz"])
        );
    }

    #[test]
    fn no_word_is_bound_twice() {
        let found = bound("text Ben Osei", &[("<text>", &["Ann Lee"]), ("<text>", &["Ann Lee"])]);
        assert_eq!(found, some(&["Ben Osei", ""]));
    }
}
