//! Elements as the compressor works on them: roles of one vocabulary, labels of one spelling.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::rules::Roles;
use super::tree::{Node, Rect, Tree};

/// An element, ready to be compared.
#[derive(Debug, Clone)]
pub(super) struct Item<'t> {
    /// What it was made of.
    pub node: &'t Node,
    /// Its role, in the words of the linear form.
    pub role: Cow<'t, str>,
    /// Table 4: the lower, the rather it stays.
    pub score: u8,
    /// Its name, else its text; on one line.
    pub label: Cow<'t, str>,
    /// Its text, where it says more than its name; on one line.
    pub value: Cow<'t, str>,
    /// The label in lower case.
    pub low: String,
    /// Its centre, where it has a box.
    pub centre: Option<(i32, i32)>,
}

impl Item<'_> {
    /// Whether a user acts on it (table 4: highest and high).
    pub fn is_interactive(&self) -> bool {
        self.score <= HIGH
    }
}

pub(super) const HIGHEST: u8 = 0;
pub(super) const HIGH: u8 = 10;
const MEDIUM: u8 = 20;
const LOW: u8 = 30;

/// Roles to their priorities.
#[derive(Debug, Clone)]
pub(super) struct Vocabulary {
    scores: BTreeMap<String, u8>,
    alias: BTreeMap<String, String>,
    valued: BTreeSet<String>,
    fields: BTreeSet<String>,
}

impl Vocabulary {
    pub fn new(roles: &Roles) -> Self {
        let scored =
            |names: &[String], score: u8| names.iter().map(move |n| (n.clone(), score)).collect::<Vec<_>>();
        let all = [scored(&roles.medium, MEDIUM), scored(&roles.high, HIGH), scored(&roles.highest, HIGHEST)];
        Self {
            scores: all.into_iter().flatten().collect(),
            alias: roles.alias.clone(),
            valued: roles.valued.iter().cloned().collect(),
            fields: roles.fields.iter().cloned().collect(),
        }
    }

    /// A role in the words of the linear form, and its score.
    pub fn role<'t>(&self, role: &'t str) -> (Cow<'t, str>, u8) {
        let plain = if role.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') {
            Cow::Borrowed(role)
        } else {
            Cow::Owned(plain_role(role))
        };
        let role = match self.alias.get(plain.as_ref()) {
            Some(word) => Cow::Owned(word.clone()),
            None => plain,
        };
        let score = self.scores.get(role.as_ref()).copied().unwrap_or(LOW);
        (role, score)
    }

    /// A node's role in the words of the linear form, and its score.
    fn scored<'t>(&self, node: &'t Node) -> (Cow<'t, str>, u8) {
        let (role, score) = self.role(&node.role);
        // Android says of any view whether it can be touched.
        let acts =
            ["clickable", "long_clickable", "checkable", "editable"].iter().any(|state| node.is(state));
        (role, if acts || self.fields.contains(&node.role) { score.min(HIGH) } else { score })
    }

    /// Whether a user acts on a node (table 4: highest and high).
    pub fn is_interactive(&self, node: &Node) -> bool {
        self.scored(node).1 <= HIGH
    }

    /// The elements of a tree.
    pub fn items<'t>(&self, tree: &'t Tree) -> Vec<Item<'t>> {
        tree.nodes
            .iter()
            .map(|node| {
                let (role, score) = self.scored(node);
                // AT-SPI gives buttons and cells a value too, which says nothing.
                let has_value = self.valued.contains(role.as_ref());
                let value = if has_value { on_one_line(&node.value) } else { Cow::Borrowed("") };
                let (name, text) = (on_one_line(&node.name), on_one_line(&node.text));
                let description = on_one_line(&node.description);
                let mut said = [name, text, value].into_iter().filter(|part| !part.is_empty());
                let label = said.next().unwrap_or(description);
                let value = said.find(|part| *part != label).unwrap_or_default();
                let low = label.to_lowercase();
                Item { node, role, score, label, value, low, centre: node.rect.map(Rect::centre) }
            })
            .collect()
    }
}

/// Every label in lower case, one a line: to see at once whether a word stands anywhere.
pub(super) fn all_labels(items: &[Item<'_>]) -> String {
    let mut text = String::with_capacity(items.iter().map(|item| item.low.len() + 1).sum());
    for item in items {
        text += &item.low;
        text.push('\n');
    }
    text
}

/// `ButtonControl`, `android.widget.ImageButton`, `push button` as `button`, `image-button`, `push-button`.
fn plain_role(role: &str) -> String {
    let last = role.rsplit('.').next().unwrap_or(role);
    let word = last.strip_suffix("Control").filter(|rest| !rest.is_empty()).unwrap_or(last);
    let mut plain = String::with_capacity(word.len() + 4);
    let mut before_lower = false;
    for c in word.chars() {
        let part = c.is_alphanumeric();
        if (c.is_uppercase() && before_lower || !part) && !plain.is_empty() && !plain.ends_with('-') {
            plain.push('-');
        }
        if part {
            plain.extend(c.to_lowercase());
        }
        before_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    plain.truncate(plain.trim_end_matches('-').len());
    plain
}

/// Runs of blanks and line ends as one blank (appendix C, string normalisation).
pub(super) fn on_one_line(text: &str) -> Cow<'_, str> {
    let plain = |b: u8| !b.is_ascii_whitespace() && !b.is_ascii_control();
    let mut before_blank = true;
    let is_plain = text.is_ascii()
        && text.bytes().all(|b| {
            let fine = if b == b' ' { !before_blank } else { plain(b) };
            before_blank = b == b' ';
            fine
        });
    if is_plain && !text.ends_with(' ') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        out += word;
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::super::rules::Rules;
    use super::*;

    #[test]
    fn roles_of_other_toolkits_become_the_linear_forms() {
        let words = Vocabulary::new(&Rules::builtin().general.roles);
        for (role, plain, score) in [
            ("push-button", "push-button", HIGH),
            ("ButtonControl", "button", HIGH),
            ("EditControl", "entry", HIGHEST),
            ("android.widget.ImageButton", "image-button", HIGH),
            ("android.widget.EditText", "entry", HIGHEST),
            ("push button", "push-button", HIGH),
            ("Heading 2", "heading-2", LOW),
            ("ICON_HOME", "icon-home", LOW),
            ("[MODAL]", "modal", LOW),
            ("", "", LOW),
        ] {
            assert_eq!(words.role(role), (Cow::Borrowed(plain), score), "{role}");
        }
    }

    #[test]
    fn labels_are_one_line() {
        for (text, line) in
            [("a b", "a b"), (" a\n\tb ", "a b"), ("a  b", "a b"), ("\u{a0}é\r\n", "é"), ("", "")]
        {
            assert_eq!(on_one_line(text), line);
        }
        assert!(matches!(on_one_line("Save as"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_text_that_says_more_than_the_name_is_kept_beside_it() {
        let words = Vocabulary::new(&Rules::builtin().general.roles);
        let node = |name: &str, text: &str, value: &str| Node {
            role: "entry".into(),
            name: name.into(),
            text: text.into(),
            value: value.into(),
            ..Node::default()
        };
        let nodes = vec![
            node("Search", "milk", ""),
            node("OK", "OK ", "OK"),
            node("", "note", ""),
            node("n", "", "5"),
        ];
        let tree = Tree { nodes, ..Tree::default() };
        let found: Vec<_> =
            words.items(&tree).iter().map(|i| (i.label.to_string(), i.value.to_string())).collect();
        let expected = [("Search", "milk"), ("OK", ""), ("note", ""), ("n", "5")];
        assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
