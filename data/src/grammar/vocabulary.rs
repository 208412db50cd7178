//! The mapping table from words to canonical verbs and arguments, a versioned data file.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use crate::action::Verb;

/// Lookups by short words, several for each reply; the hash is not exposed to hostile keys, which are the
/// table's own.
type HashMap<K, V> = std::collections::HashMap<K, V, Xxh3DefaultBuilder>;

/// What an action word stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// The canonical verb.
    pub verb: Verb,
    /// The text that the word fixes: the key of `press_enter`.
    pub text: Option<&'static str>,
}

/// What an argument holds, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Where: the first point.
    Point,
    /// Where a gesture ends.
    End,
    /// Typed text, application, URL, option.
    Text,
    /// A direction's word.
    Direction,
    /// A key, or the keys of a combination.
    Key,
    /// The id of an element on the screen.
    Element,
    /// Seconds, or the pixels of a scroll.
    Amount,
    /// A system button.
    Button,
    /// How a task ended.
    Status,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    verbs: BTreeMap<String, Vec<String>>,
    keys: BTreeMap<String, Vec<String>>,
    buttons: BTreeMap<String, String>,
    statuses: BTreeMap<String, String>,
    arguments: BTreeMap<String, Vec<String>>,
}

/// The table, ready to be asked.
#[derive(Debug)]
pub struct Vocabulary {
    /// Version of the data file, for artifacts that depend on it.
    pub version: u32,
    words: HashMap<String, Meaning>,
    roles: HashMap<String, Role>,
    buttons: HashMap<String, Meaning>,
    statuses: HashMap<String, Meaning>,
}

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
    Vocabulary::parse(include_str!("vocabulary.toml")).expect("the vocabulary that is compiled in is valid")
});

/// The vocabulary that is compiled in.
pub fn vocabulary() -> &'static Vocabulary {
    &VOCABULARY
}

impl Vocabulary {
    fn parse(toml: &str) -> Result<Self, String> {
        let file: File = toml::from_str(toml).map_err(|e| e.to_string())?;
        let mut words = HashMap::default();
        for (verb, names) in file.verbs {
            let verb = verb.parse()?;
            words.extend(names.into_iter().map(|name| (name, Meaning { verb, text: None })));
        }
        for (key, names) in file.keys {
            let text = Some(&*key.leak());
            words.extend(names.into_iter().map(|name| (name, Meaning { verb: Verb::Press, text })));
        }
        let pointed = |table: BTreeMap<String, String>| {
            table
                .into_iter()
                .map(|(name, word)| {
                    let meaning = words.get(&word).copied();
                    meaning.map(|m| (name, m)).ok_or_else(|| format!("unknown word `{word}`"))
                })
                .collect::<Result<_, _>>()
        };
        let (buttons, statuses) = (pointed(file.buttons)?, pointed(file.statuses)?);
        let mut roles = HashMap::default();
        for (role, names) in file.arguments {
            let role = serde_json::from_value::<Role>(role.into()).map_err(|e| e.to_string())?;
            roles.extend(names.into_iter().map(|name| (name, role)));
        }
        Ok(Self { version: file.version, words, roles, buttons, statuses })
    }

    /// What an action word stands for; `None` when no grammar knows it.
    pub fn meaning(&self, word: &str) -> Option<Meaning> {
        self.words.get(&*normal(word)).copied()
    }

    /// What an argument of this name holds.
    pub fn role(&self, name: &str) -> Option<Role> {
        self.roles.get(&*normal(name)).copied()
    }

    /// What a press of this system button stands for.
    pub fn button(&self, name: &str) -> Option<Meaning> {
        self.buttons.get(&*normal(name)).copied()
    }

    /// What the end of a task with this status stands for.
    pub fn status(&self, name: &str) -> Option<Meaning> {
        self.statuses.get(&*normal(name)).copied()
    }
}

/// Lower case, with underscores for spaces and hyphens. Borrowed when nothing changes, as in most replies.
fn normal(word: &str) -> std::borrow::Cow<'_, str> {
    let word = word.trim();
    if word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
        return word.into();
    }
    word.to_lowercase().replace([' ', '-'], "_").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_however_they_are_written() {
        let verb = |word| vocabulary().meaning(word).map(|m| (m.verb, m.text));
        assert_eq!(verb("CLICK"), Some((Verb::Click, None)));
        assert_eq!(verb(" press home "), Some((Verb::Home, None)));
        assert_eq!(verb("press-enter"), Some((Verb::Press, Some("enter"))));
        assert_eq!(verb("teleport"), None);
        assert_eq!(vocabulary().button("Menu").map(|m| m.verb), Some(Verb::Recents));
        assert_eq!(vocabulary().role("start_box"), Some(Role::Point));
    }

    #[test]
    fn every_canonical_verb_is_a_word_for_itself() {
        for verb in Verb::ALL {
            assert_eq!(vocabulary().meaning(verb.name()).map(|m| m.verb), Some(verb), "{verb}");
        }
    }

    #[test]
    fn a_file_that_contradicts_itself_is_refused() {
        let tables = "keys = {}\nbuttons = {}\nstatuses = {}\narguments = {}\n";
        assert!(Vocabulary::parse(&format!("version = 1\nverbs = {{ fly = [\"fly\"] }}\n{tables}")).is_err());
        let buttons = tables.replace("buttons = {}", "buttons = { back = \"fly\" }");
        assert!(Vocabulary::parse(&format!("version = 1\nverbs = {{}}\n{buttons}")).is_err());
    }
}
