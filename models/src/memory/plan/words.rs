//! Words of commands: tokens with their places, quotes, the small lists that the rules need.

use std::ops::Range;

/// Words that carry no content of their own.
pub(super) const STOP: &[&str] = &[
    "a",
    "about",
    "again",
    "also",
    "an",
    "and",
    "any",
    "app",
    "application",
    "as",
    "at",
    "be",
    "by",
    "called",
    "for",
    "from",
    "has",
    "how",
    "i",
    "in",
    "inside",
    "into",
    "is",
    "it",
    "its",
    "lets",
    "me",
    "my",
    "named",
    "of",
    "off",
    "on",
    "onto",
    "or",
    "out",
    "over",
    "please",
    "saying",
    "so",
    "some",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "this",
    "those",
    "titled",
    "to",
    "under",
    "up",
    "using",
    "via",
    "what",
    "when",
    "where",
    "which",
    "who",
    "why",
    "will",
    "with",
    "within",
    "words",
    "you",
    "your",
];

/// Words that stand for what was named before.
pub(super) const PRONOUNS: &[&str] = &["it", "them", "this", "that", "one", "there", "him", "her"];

/// Verbs that begin a clause of their own after `and` or a comma, by what they ask for. The first of a row names the
/// row: ACTs compare by it.
const VERBS: &[&[&str]] = &[
    &["open", "launch", "visit", "go", "navigate", "access", "enter"],
    &[
        "create", "make", "add", "schedule", "plan", "arrange", "compose", "register", "enrol", "book",
        "write", "jot",
    ],
    &["delete", "remove", "erase", "clear", "wipe", "cancel", "discard", "trash"],
    &["search", "find", "look", "locate", "query"],
    &["show", "view", "see", "check", "read", "display", "browse", "list", "watch"],
    &["send", "text", "message", "email", "mail", "forward", "share", "reply", "answer", "respond"],
    &["change", "update", "edit", "adjust", "modify", "correct", "rename", "switch"],
    &["set", "configure", "choose", "select", "pick", "filter", "sort"],
    &["enable", "activate", "unmute", "unblock"],
    &["disable", "deactivate", "mute", "silence", "block", "stop"],
    &[
        "save", "keep", "store", "bookmark", "archive", "record", "note", "download", "export", "submit",
        "confirm",
    ],
    &["copy", "duplicate"],
    &["paste", "insert"],
    &["install", "get", "fetch"],
    &["uninstall"],
    &["play", "listen", "start", "begin", "run", "resume"],
    &["call", "dial", "phone", "ring"],
    &["take", "capture", "shoot"],
    &["click", "tap", "press", "hit", "touch"],
    &["type", "input", "fill", "put"],
    &["scroll", "swipe"],
    &["connect", "join", "log", "sign"],
    &["mark", "star", "favourite", "favorite", "flag", "like", "rate", "follow"],
    &["buy", "order", "purchase", "pay", "rent", "reserve"],
    &["move", "drag", "back", "approve", "return", "turn", "close", "give", "use", "apply"],
];

/// The row of a verb, by its first entry; the verb itself where no row has it.
pub(super) fn verb_class(verb: &str) -> &str {
    let row = VERBS.iter().find(|row| row.contains(&verb));
    row.map_or(verb, |row| row[0])
}

/// Whether a word may begin a clause.
pub(super) fn is_verb(word: &str) -> bool {
    VERBS.iter().any(|row| row.contains(&word))
}

/// A word and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Without surrounding punctuation.
    pub text: String,
    /// In lower case.
    pub lower: String,
    /// Byte range of `text`.
    pub at: Range<usize>,
    /// Whether punctuation or a quote stands between it and the next.
    pub ends: bool,
}

/// The words of a text, split at white space and stripped of punctuation at their ends.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut start = 0;
    for piece in text.split_inclusive(char::is_whitespace) {
        let raw = piece.trim_end();
        let inner = raw.trim_matches(is_edge);
        if inner.chars().any(char::is_alphanumeric) {
            let from = start + raw.find(inner).unwrap_or(0);
            let mut at = from..from + inner.len();
            // `=SUM(B2:B7)` ends with what it has opened.
            if inner.contains('(') && text[at.end..].starts_with(')') {
                at.end += 1;
            }
            let inner = &text[at.clone()];
            let ends = at.end < start + raw.len();
            out.push(Token { text: inner.to_owned(), lower: inner.to_lowercase(), at, ends });
        }
        start += piece.len();
    }
    out
}

fn is_edge(c: char) -> bool {
    matches!(
        c,
        ',' | '.' | ';' | ':' | '!' | '?' | '(' | ')' | '[' | ']' | '"' | '\'' | '“' | '”' | '‘' | '’'
    )
}

/// The text with what stands in quotes as `…`: values are no part of an intent, and the views of units leave them out in
/// the same way.
pub(super) fn without_values(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for range in quoted(text) {
        out.push_str(text[from..range.start].trim_end_matches(['\'', '"', '“', '‘']));
        out.push('…');
        let closing = text[range.end..].chars().next().map_or(0, char::len_utf8);
        from = range.end + closing;
    }
    out.push_str(&text[from..]);
    out
}

/// Byte ranges of what stands in quotes, without the quotes. An apostrophe inside a word is none.
pub(super) fn quoted(text: &str) -> Vec<Range<usize>> {
    const PAIRS: [(char, char); 4] = [('"', '"'), ('“', '”'), ('‘', '’'), ('\'', '\'')];
    let mut out = Vec::new();
    let mut rest = 0;
    while let Some((at, open)) = text[rest..].char_indices().find(|(_, c)| PAIRS.iter().any(|p| p.0 == *c)) {
        let at = rest + at;
        let after = at + open.len_utf8();
        rest = after;
        let opens = text[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || "([:,".contains(c));
        let close = PAIRS.iter().find(|p| p.0 == open).map_or(open, |p| p.1);
        let ends =
            |end: usize| text[end + close.len_utf8()..].chars().next().is_none_or(|c| !c.is_alphanumeric());
        let end = text[after..].match_indices(close).map(|(i, _)| after + i).find(|&end| ends(end));
        if let Some(end) = end.filter(|&end| opens && end > after) {
            out.push(after..end);
            rest = end + close.len_utf8();
        }
    }
    out
}

/// What words are compared by: the first letters, so that `notifications` and `notify` may meet.
pub(super) fn stem(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).take(5).collect()
}

/// Stems of the content words of a text, sorted, each once.
pub(super) fn stems(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    let mut out: Vec<String> =
        words.filter(|w| w.len() > 1 && !STOP.contains(&w.as_str())).map(|w| stem(&w)).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Lower-cased words joined by single spaces, with one before and one after: for whole-word search.
pub(super) fn padded(text: &str) -> String {
    let words: String =
        text.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    format!(" {} ", words.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_no_apostrophes() {
        let text = "record Ann's number, text Ben: 'I'm late, it's me' and \"go\"";
        let found: Vec<&str> = quoted(text).into_iter().map(|r| &text[r]).collect();
        assert_eq!(found, ["I'm late, it's me", "go"]);
        assert!(quoted("the students' sheet").is_empty());
        assert_eq!(quoted("''"), Vec::<Range<usize>>::new());
    }

    #[test]
    fn quoted_values_are_no_part_of_an_intent() {
        assert_eq!(without_values("text Ben: 'I am late' now"), "text Ben: … now");
        assert_eq!(without_values("plain"), "plain");
    }

    #[test]
    fn tokens_know_their_place() {
        let text = "set (it) to 6:15 AM, now";
        for token in tokens(text) {
            assert_eq!(&text[token.at.clone()], token.text);
        }
        let ends: Vec<String> = tokens(text).into_iter().filter(|t| t.ends).map(|t| t.text).collect();
        assert_eq!(ends, ["it", "AM"]);
    }
}
