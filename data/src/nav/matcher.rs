//! Finding a control again: the fuzzy matcher of section 3.4, and lists of controls to leave alone.

use super::id::ControlId;

/// Share of the name in [`score`]; the ancestors have the rest.
const NAME_SHARE: f64 = 0.6;
/// Scores that differ by no more than this count as equal.
const TIE: f64 = 1e-9;
/// Least [`score`] at which two controls are taken for the same one.
pub const DEFAULT_THRESHOLD: f64 = 0.7;

/// Outcome of a search among candidates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Match {
    /// The id is among them.
    Exact(usize),
    /// The one most like it, with its score.
    Fuzzy(usize, f64),
    /// Several are equally like it: their number.
    Ambiguous(usize),
    /// None reaches the threshold.
    None,
}

impl Match {
    /// The index found.
    pub fn index(self) -> Option<usize> {
        match self {
            Self::Exact(i) | Self::Fuzzy(i, _) => Some(i),
            Self::Ambiguous(_) | Self::None => None,
        }
    }
}

/// A name as it is compared: lower case, single spaces, without the dots that promise a dialog.
fn comparable(name: &str) -> String {
    let words: Vec<&str> = name.split_whitespace().collect();
    words.join(" ").trim_end_matches(['.', '…', ':']).to_lowercase()
}

/// How alike two controls are, from 0 to 1; nothing when their types differ.
///
/// `0.6 · name + 0.4 · ancestors`. Name: normalised Damerau-Levenshtein similarity of the names in lower case,
/// with single spaces and without trailing dots. Ancestors: twice the longest common subsequence over the sum of
/// both lengths, 1 where neither has any.
pub fn score(a: &ControlId, a_name: &str, b: &ControlId, b_name: &str) -> Option<f64> {
    if !a.control_type.eq_ignore_ascii_case(&b.control_type) {
        return None;
    }
    let name = strsim::normalized_damerau_levenshtein(&comparable(a_name), &comparable(b_name));
    Some(NAME_SHARE * name + (1.0 - NAME_SHARE) * ancestors_alike(&a.ancestors, &b.ancestors))
}

fn ancestors_alike(a: &[String], b: &[String]) -> f64 {
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let mut row = vec![0_usize; b.len() + 1];
    for x in a {
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if x == y { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    2.0 * row[b.len()] as f64 / (a.len() + b.len()) as f64
}

/// The control `wanted` among `candidates`: the same id, else the one with the best [`score`] of at least
/// `threshold`. Two that share the best score are ambiguous, and neither is taken.
pub fn find<'a>(
    wanted: &ControlId,
    name: &str,
    candidates: impl Iterator<Item = (&'a ControlId, &'a str)> + Clone,
    threshold: f64,
) -> Match {
    if let Some(i) = candidates.clone().position(|(id, _)| id == wanted) {
        return Match::Exact(i);
    }
    let mut best: Option<(usize, f64)> = None;
    let mut equals = 0;
    for (i, (id, candidate)) in candidates.enumerate() {
        let Some(score) = score(wanted, name, id, candidate).filter(|s| *s >= threshold) else { continue };
        match best {
            Some((_, top)) if score > top + TIE => (best, equals) = (Some((i, score)), 1),
            Some((_, top)) if score >= top - TIE => equals += 1,
            Some(_) => {}
            None => (best, equals) = (Some((i, score)), 1),
        }
    }
    match best {
        None => Match::None,
        Some((i, score)) if equals == 1 => Match::Fuzzy(i, score),
        Some(_) => Match::Ambiguous(equals),
    }
}

/// Controls to leave alone, as data (section 4.1): one rule a line, `#` begins a comment.
///
/// ```text
/// Quit                 a name
/// name:Send *          a name, * for anything
/// type:page tab        a control type
/// id:*|menu|*/Help     a whole control id
/// ```
///
/// Upper and lower case are the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControlList {
    rules: Vec<(Field, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Type,
    Id,
}

/// The default blacklist: controls that leave the application or the session. What they lead to belongs to
/// another program.
pub const DEFAULT_BLACKLIST: &str = "\
Exit
Quit
Log out
Log off
Sign out
Shut down
Restart
Restart now
";

/// A line of a [`ControlList`] that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: `{text}` names nothing; write a name, or name:, type: or id: and a pattern")]
pub struct ListError {
    /// The line, from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
}

impl ControlList {
    /// Reads the rules of `text`.
    ///
    /// # Errors
    /// A line with a prefix and nothing after it.
    pub fn parse(text: &str) -> Result<Self, ListError> {
        let mut rules = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (field, pattern) = match line.split_once(':') {
                Some(("name", rest)) => (Field::Name, rest),
                Some(("type", rest)) => (Field::Type, rest),
                Some(("id", rest)) => (Field::Id, rest),
                _ => (Field::Name, line),
            };
            let pattern = pattern.trim().to_lowercase();
            if pattern.is_empty() {
                return Err(ListError { line: i + 1, text: line.to_owned() });
            }
            rules.push((field, pattern));
        }
        Ok(Self { rules })
    }

    /// Whether a rule names this control.
    pub fn holds(&self, id: &ControlId, name: &str) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let (name, kind) = (name.trim().to_lowercase(), id.control_type.to_lowercase());
        let whole = std::cell::OnceCell::new();
        self.rules.iter().any(|(field, pattern)| match field {
            Field::Name => fits(pattern, &name),
            Field::Type => fits(pattern, &kind),
            Field::Id => fits(pattern, whole.get_or_init(|| id.to_string().to_lowercase())),
        })
    }
}

/// Whether `text` has the form `pattern`, in which `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        // The first place is as good as any: what follows is `*`.
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str, kind: &str, path: &[&str]) -> ControlId {
        ControlId::new(name, kind, path.iter().copied())
    }

    fn found(wanted: &ControlId, among: &[ControlId]) -> Match {
        let candidates = among.iter().map(|c| (c, c.primary.as_str()));
        find(wanted, &wanted.primary, candidates, DEFAULT_THRESHOLD)
    }

    #[test]
    fn a_renamed_control_is_found_among_its_neighbours() {
        let wanted = id("Go To", "button", &["Find and Replace", "Go"]);
        let next = id("Next", "button", &["Find and Replace", "Go"]);
        assert_eq!(found(&wanted, &[next.clone(), id("Go To", "edit", &["Find and Replace"])]), Match::None);
        let renamed = id("Go to...", "button", &["Find and Replace", "Go"]);
        assert_eq!(found(&wanted, &[next, renamed]), Match::Fuzzy(1, 1.0));
        // 6 letters of which one differs, and 2 of 3 ancestors: 0.6 * 5/6 + 0.4 * 4/5.
        let moved = id("Color1", "button", &["A", "B"]);
        let at = id("Colour", "button", &["A", "X", "B"]);
        let Match::Fuzzy(0, score) = found(&at, &[moved]) else { panic!("found") };
        let name = strsim::normalized_damerau_levenshtein("colour", "color1");
        assert!((score - (0.6 * name + 0.4 * 0.8)).abs() < 1e-12, "{score}");
    }

    #[test]
    fn equals_are_ambiguous_and_an_exact_id_wins() {
        let (a, b) = (id("Item 1", "cell", &["t"]), id("Item 2", "cell", &["t"]));
        assert_eq!(found(&id("Item 3", "cell", &["t"]), &[a.clone(), b.clone()]), Match::Ambiguous(2));
        assert_eq!(found(&b, &[a, b.clone()]), Match::Exact(1));
    }

    #[test]
    fn lists_name_controls() {
        let list =
            ControlList::parse("# leave\nQuit\nname:Send *by*\ntype:page tab\nid:*/help\n").expect("a list");
        assert!(list.holds(&id("QUIT ", "menu item", &[]), "QUIT "));
        assert!(list.holds(&id("x", "menu", &[]), "send it by mail"));
        assert!(!list.holds(&id("x", "menu", &[]), "Sender by"));
        assert!(list.holds(&id("x", "Page Tab", &[]), "x"));
        assert!(list.holds(&id("x", "menu", &["w", "Help"]), "x"));
        assert!(!list.holds(&id("Quit now", "menu", &[]), "Quit now"));
        assert_eq!(ControlList::parse("a\nname: \n").expect_err("empty").line, 2);
        assert!(ControlList::parse(DEFAULT_BLACKLIST).is_ok());
        assert!(fits("*ab*b", "abab") && !fits("ab*ba", "aba") && fits("a**", "a"));
    }
}
