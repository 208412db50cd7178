//! Which element of a screen an instruction means: by the words it shares with the labels, the role it
//! names and the place it gives.

use std::collections::HashMap;

use tracemill_data::action::Verb;
use tracemill_data::adapters::ParsedPhrase;
use tracemill_data::trace::Element;

/// Scores closer than this are equal: the instruction does not tell the elements apart.
const TIE: f64 = 1e-6;
/// An element that scores less is not meant: fewer than a third of the words agree.
const LEAST: f64 = 0.34;
/// From this score on, a label stands in the instruction as a whole.
const WHOLE: f64 = 0.88;
/// Similarity from which two words count as the same word misspelt or inflected.
const SAME_WORD: f64 = 0.8;

/// An element that an instruction may mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Index of the element.
    pub element: usize,
    /// How well it fits, from 0; 1 is the whole label and nothing but the label.
    pub score: f64,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Grounding {
    /// The elements that fit best, equally well, in the screen's order; never empty.
    pub best: Vec<Candidate>,
}

/// Nouns that name a role, and what roles in the sources' words begin or end with.
const ROLES: &[(&[&str], &[&str])] = &[
    (&["button", "icon", "key"], &["button", "icon", "imagebutton"]),
    (&["checkbox", "check box", "toggle", "switch", "option"], &["checkbox", "switch", "toggle", "radio"]),
    (
        &["field", "input", "text box", "textbox", "box", "bar"],
        &["input", "edit", "textbox", "entry", "search"],
    ),
    (&["text", "label", "heading", "title"], &["p", "text", "label", "heading"]),
    (&["tab"], &["tab"]),
    (&["link"], &["link", "hyperlink", "a"]),
    (&["image", "picture", "photo"], &["image", "img"]),
];

/// Words that carry no name.
const STOP: &[&str] = &[
    "the", "a", "an", "on", "in", "into", "to", "of", "at", "for", "and", "with", "this", "that", "it",
    "its", "is", "from", "by", "your", "you", "please", "now", "then", "app", "screen", "page", "current",
    "labeled", "labelled", "called", "named", "says", "reads", "reading", "showing", "whose", "which",
];

/// The element of `elements` that `instruction` means; `parsed` is what it says as a phrase. `None` when
/// none fits.
pub fn ground(instruction: &str, parsed: &ParsedPhrase, elements: &[Element]) -> Option<Grounding> {
    let lower = instruction.to_lowercase();
    let labels: Vec<Label> = elements.iter().map(Label::of).collect();
    let weights = weights(&labels);
    let whole = Query::new(instruction, &lower, parsed);
    let scored = |query: &Query| -> Vec<Candidate> {
        let score = |(element, label)| Candidate { element, score: query.score(label, &weights) };
        labels.iter().enumerate().map(score).collect()
    };
    let candidates = scored(&whole);
    let top = |candidates: &[Candidate]| candidates.iter().map(|c| c.score).fold(0.0, f64::max);
    // A label may hold `below` itself: a landmark is looked for where no label stands in the instruction.
    if top(&candidates) < WHOLE
        && let Some((said, landmark, side)) = split_landmark(&lower)
        && let Some(at) = landmark_at(&words(landmark), elements)
    {
        let query = Query::new(instruction, said, parsed);
        return query.beside(at, side, scored(&query), elements);
    }
    if top(&candidates) >= LEAST {
        return Some(whole.choose(candidates, elements));
    }
    // The name may have been cut at a word such as `to`: all words are tried.
    let uncut = Query::new(instruction, &lower, &ParsedPhrase { target: None, ..parsed.clone() });
    let candidates = scored(&uncut);
    if top(&candidates) >= LEAST {
        return Some(uncut.choose(candidates, elements));
    }
    whole.by_role_alone(elements)
}

/// An element's words: of its whole label, and of each line of it.
struct Label {
    variants: Vec<Vec<String>>,
}

impl Label {
    fn of(element: &Element) -> Self {
        let whole = words(&element.text);
        let mut variants: Vec<Vec<String>> =
            element.text.lines().map(words).filter(|line| !line.is_empty() && *line != whole).collect();
        if !whole.is_empty() {
            variants.insert(0, whole);
        }
        Self { variants }
    }
}

/// Lower-case words of letters and digits, and single signs that may be labels themselves (`+`, `5%`).
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if matches!(c, '+' | '-' | '×' | '÷' | '=' | '*' | '/' | '%' | '#') && !text_is_long(text) {
            words.push(c.to_string());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// In a sentence a sign is punctuation; on a key it is the label.
fn text_is_long(text: &str) -> bool {
    text.chars().count() > 3
}

/// How much each word tells: rare on the screen is much, on every element little.
fn weights(labels: &[Label]) -> HashMap<String, f64> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for label in labels {
        let mut seen: Vec<&str> = label.variants.iter().flatten().map(String::as_str).collect();
        seen.sort_unstable();
        seen.dedup();
        seen.into_iter().for_each(|word| *counts.entry(word).or_default() += 1);
    }
    let total = labels.len() as f64;
    counts.into_iter().map(|(word, n)| (word.to_owned(), (1.0 + total / n as f64).ln())).collect()
}

/// What an instruction says of its target.
struct Query {
    /// All its words, in order.
    words: Vec<String>,
    /// The words of the name it gives, without those that carry none.
    target: Vec<String>,
    /// Whether the name stood in quotes, which makes it the label's own words.
    quoted: bool,
    /// Index into [`ROLES`].
    role: Option<usize>,
    /// Whether it wants something that is off turned on, or the reverse.
    wants_checked: Option<bool>,
    /// The ordinal's word, and the n-th of equals that it means, from 0; `usize::MAX` is the last.
    ordinal: Option<(&'static str, usize)>,
    /// A place on the screen.
    place: Option<Place>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Bottom,
    Left,
    Right,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    After,
    Before,
}

impl Query {
    /// `said` is the instruction in lower case, without its landmark.
    fn new(instruction: &str, said: &str, parsed: &ParsedPhrase) -> Self {
        let all = words(said);
        let named = parsed.target.as_deref().map(words).unwrap_or_default();
        let quoted = parsed.target.as_deref().is_some_and(|t| is_quoted(instruction, t));
        let in_quotes = if quoted { named.as_slice() } else { &[] };
        let role = role_of(&all, in_quotes);
        Self {
            role,
            target: Self::target(&all, &named, quoted, parsed, role),
            quoted,
            wants_checked: wants_checked(said),
            ordinal: ordinal(&all, in_quotes),
            place: place(&all, in_quotes),
            words: all,
        }
    }

    /// The words that name the target: the quoted name as it is; otherwise the words of the instruction
    /// without the verb that opens it, the typed text, the role and what carries no name.
    fn target(
        all: &[String],
        named: &[String],
        quoted: bool,
        parsed: &ParsedPhrase,
        role: Option<usize>,
    ) -> Vec<String> {
        if quoted {
            return named.to_vec();
        }
        let typed = match parsed.verb {
            Some(Verb::Type) => parsed.text.as_deref().map(words).unwrap_or_default(),
            _ => Vec::new(),
        };
        let is_role = |word: &String| role.is_some_and(|r| ROLES[r].0.contains(&word.as_str()));
        let from = if named.is_empty() { &all[all.len().min(1)..] } else { named };
        let carries = |w: &&String| !STOP.contains(&w.as_str()) && !typed.contains(w);
        let named: Vec<String> = from.iter().filter(carries).cloned().collect();
        let kept: Vec<String> = named.iter().filter(|w| !is_role(w)).cloned().collect();
        // A name that is nothing but a noun for a role may be the label: `Photo`, `Title`.
        if kept.is_empty() { named } else { kept }
    }

    /// How well a label fits: the mean of how much of the label the instruction says and of how much of
    /// the name the label says, words weighted by what they tell; more when the label stands in the
    /// instruction word for word.
    fn score(&self, label: &Label, weights: &HashMap<String, f64>) -> f64 {
        // A line of a label is a little less than the label.
        let less = |i: usize| if i > 0 { 0.02 } else { 0.0 };
        let scores = label.variants.iter().enumerate();
        scores.map(|(i, variant)| self.score_variant(variant, weights) - less(i)).fold(0.0, f64::max)
    }

    fn score_variant(&self, variant: &[String], weights: &HashMap<String, f64>) -> f64 {
        let weight = |word: &String| weights.get(word).copied().unwrap_or(1.0);
        let share = |of: &[String], found_in: &[String]| {
            let total: f64 = of.iter().map(weight).sum();
            let found: f64 = of.iter().map(|w| weight(w) * agreement(w, found_in)).sum();
            if total > 0.0 { found / total } else { 0.0 }
        };
        let said = if self.quoted { &self.target } else { &self.words };
        let of_label = share(variant, said);
        let of_name = share(&self.target, variant);
        if of_label == 0.0 || of_name == 0.0 {
            return 0.0;
        }
        let label_in_words = if contains_run(said, variant) { 0.1 } else { 0.0 };
        let name_in_label = if contains_run(variant, &self.target) { 0.1 } else { 0.0 };
        // A quoted name is the label's own words; others have words beside the name.
        let (label_share, name_share) = if self.quoted { (0.3, 0.5) } else { (0.4, 0.4) };
        label_share * of_label + name_share * of_name + label_in_words + name_in_label
    }

    /// The candidates that fit best, told apart as far as the instruction does.
    fn choose(&self, candidates: Vec<Candidate>, elements: &[Element]) -> Grounding {
        let top = candidates.iter().map(|c| c.score).fold(0.0, f64::max);
        let best = candidates.into_iter().filter(|c| top - c.score < TIE).collect();
        Grounding { best: self.by_place(best, elements) }
    }

    /// The element nearest to the landmark, on the meant side of it in the screen's order, that the name
    /// or else the role fits.
    fn beside(
        &self,
        at: usize,
        side: Side,
        candidates: Vec<Candidate>,
        elements: &[Element],
    ) -> Option<Grounding> {
        let beside: Vec<Candidate> = match side {
            Side::After => candidates.into_iter().filter(|c| c.element > at).collect(),
            Side::Before => candidates.into_iter().filter(|c| c.element < at).rev().collect(),
        };
        let fits = |c: &&Candidate| c.score >= LEAST;
        let of_role = |c: &&Candidate| self.role.is_some_and(|r| is_of_role(&elements[c.element], r));
        let found = beside.iter().find(fits).or_else(|| beside.iter().find(of_role))?;
        Some(Grounding { best: vec![*found] })
    }

    /// Where no name fits: the only element of the role named, or the n-th of them.
    fn by_role_alone(&self, elements: &[Element]) -> Option<Grounding> {
        let role = self.role?;
        let of_role: Vec<Candidate> = (0..elements.len())
            .filter(|&i| is_of_role(&elements[i], role))
            .map(|element| Candidate { element, score: LEAST })
            .collect();
        let named = self.target.iter().any(|w| !ORDINALS.iter().any(|(o, _)| o == w));
        if of_role.is_empty() || (of_role.len() > 1 && (named || self.ordinal.is_none())) {
            return None;
        }
        Some(Grounding { best: self.by_place(of_role, elements) })
    }

    /// Tells equals apart by role, state, ordinal and place; what none of them tells apart stays several.
    fn by_place(&self, mut best: Vec<Candidate>, elements: &[Element]) -> Vec<Candidate> {
        let mut narrow = |keep: &dyn Fn(&Element) -> bool| {
            if best.iter().any(|c| keep(&elements[c.element])) {
                best.retain(|c| keep(&elements[c.element]));
            }
        };
        if let Some(role) = self.role {
            narrow(&|e| is_of_role(e, role));
        }
        if let Some(wanted) = self.wants_checked {
            narrow(&|e| e.states.iter().any(|s| is_checked(s) == Some(!wanted)));
        }
        // `Last name` is a label: an ordinal that stands in the label tells nothing apart.
        let in_label =
            |word: &str| best.iter().any(|c| words(&elements[c.element].text).iter().any(|w| w == word));
        match self.ordinal.filter(|(word, _)| !in_label(word)) {
            Some((_, usize::MAX)) => best = best.pop().into_iter().collect(),
            Some((_, n)) if n < best.len() => best = vec![best[n]],
            _ => {}
        }
        if let Some(place) = self.place.filter(|_| best.len() > 1) {
            let key = |c: &Candidate| at_place(&elements[c.element], c.element, place);
            let least = best.iter().map(key).fold(f64::INFINITY, f64::min);
            best.retain(|c| key(c) <= least);
        }
        best
    }
}

/// How far an element is from the named edge, in its own units; the order stands in for a place that is
/// not known.
fn at_place(element: &Element, index: usize, place: Place) -> f64 {
    match (element.bbox, place) {
        (Some(b), Place::Top) => b.top,
        (Some(b), Place::Bottom) => -b.bottom,
        (Some(b), Place::Left) => b.left,
        (Some(b), Place::Right) => -b.right,
        (None, Place::Top | Place::Left) => index as f64,
        (None, Place::Bottom | Place::Right) => -(index as f64),
    }
}

fn is_of_role(element: &Element, role: usize) -> bool {
    let name = element.role.to_lowercase();
    ROLES[role].1.iter().any(|r| name == *r || (r.len() > 2 && (name.starts_with(r) || name.ends_with(r))))
}

fn is_checked(state: &str) -> Option<bool> {
    match state.to_ascii_lowercase().as_str() {
        "checked" | "checked=true" | "selected=true" => Some(true),
        "checked=false" | "selected=false" => Some(false),
        _ => None,
    }
}

/// 1 for a word that is there, less for one that is nearly there.
fn agreement(word: &str, among: &[String]) -> f64 {
    if among.iter().any(|w| w == word) {
        return 1.0;
    }
    // Short words have too many neighbours.
    if word.chars().count() < 4 {
        return 0.0;
    }
    let like = |w: &String| if w.chars().count() < 4 { 0.0 } else { strsim::normalized_levenshtein(w, word) };
    let best = among.iter().map(like).fold(0.0, f64::max);
    if best >= SAME_WORD { 0.8 } else { 0.0 }
}

fn contains_run(words: &[String], run: &[String]) -> bool {
    !run.is_empty() && words.windows(run.len()).any(|w| w == run)
}

fn is_quoted(instruction: &str, name: &str) -> bool {
    let quotes = [('\'', '\''), ('"', '"'), ('`', '`'), ('“', '”'), ('‘', '’')];
    quotes.iter().any(|(open, close)| instruction.contains(&format!("{open}{name}{close}")))
}

/// The role that an instruction names outside the quoted name.
fn role_of(all: &[String], quoted: &[String]) -> Option<usize> {
    let joined = format!(" {} ", all.join(" "));
    let name = format!(" {} ", quoted.join(" "));
    let outside = if quoted.is_empty() { joined } else { joined.replacen(&name, " ", 1) };
    ROLES.iter().position(|(nouns, _)| nouns.iter().any(|n| outside.contains(&format!(" {n} "))))
}

fn wants_checked(lower: &str) -> Option<bool> {
    let starts = |words: &[&str]| words.iter().any(|w| lower.starts_with(w));
    if starts(&["uncheck", "turn off", "disable", "switch off", "deselect", "untick"]) {
        Some(false)
    } else if starts(&["check ", "turn on", "enable", "switch on", "tick "]) {
        Some(true)
    } else {
        None
    }
}

const ORDINALS: &[(&str, usize)] = &[
    ("first", 0),
    ("1st", 0),
    ("second", 1),
    ("2nd", 1),
    ("third", 2),
    ("3rd", 2),
    ("fourth", 3),
    ("4th", 3),
    ("last", usize::MAX),
];

/// The ordinal of an instruction, unless it stands in the quoted name.
fn ordinal(all: &[String], quoted: &[String]) -> Option<(&'static str, usize)> {
    let said = |word: &str| all.iter().any(|w| w == word) && !quoted.iter().any(|w| w == word);
    ORDINALS.iter().copied().find(|(word, _)| said(word))
}

/// The place that an instruction names in whole words, outside the quoted name.
fn place(all: &[String], quoted: &[String]) -> Option<Place> {
    let outside: Vec<&str> = all.iter().filter(|w| !quoted.contains(w)).map(String::as_str).collect();
    let text = format!(" {} ", outside.join(" "));
    let says = |phrases: &[&str]| phrases.iter().any(|p| text.contains(&format!(" {p} ")));
    if says(&["at the top", "on top", "topmost", "upper"]) {
        Some(Place::Top)
    } else if says(&["at the bottom", "bottommost", "lower"]) {
        Some(Place::Bottom)
    } else if says(&["on the left", "leftmost", "left side", "left hand"]) {
        Some(Place::Left)
    } else if says(&["on the right", "rightmost", "right side", "right hand"]) {
        Some(Place::Right)
    } else {
        None
    }
}

/// An instruction without the words of its landmark, the landmark, and the side of it that is meant:
/// `… below 'Today'`.
fn split_landmark(lower: &str) -> Option<(&str, &str, Side)> {
    let marks = [
        (" below ", Side::After),
        (" under ", Side::After),
        (" underneath ", Side::After),
        (" after ", Side::After),
        (" next to ", Side::After),
        (" above ", Side::Before),
        (" before ", Side::Before),
    ];
    marks.into_iter().find_map(|(mark, side)| {
        let (said, landmark) = lower.split_once(mark)?;
        // Inside a quoted name it is no landmark.
        let outside = said.matches('"').count().is_multiple_of(2);
        (outside && !landmark.trim().is_empty()).then_some((said, landmark, side))
    })
}

/// The element that a landmark names: one with just this label, or else the first that holds it.
fn landmark_at(name: &[String], elements: &[Element]) -> Option<usize> {
    let name: Vec<String> = name.iter().filter(|w| !STOP.contains(&w.as_str())).cloned().collect();
    let label = |e: &Element| words(&e.text);
    let exact = elements.iter().position(|e| label(e) == name);
    exact.or_else(|| elements.iter().position(|e| contains_run(&label(e), &name)))
}
