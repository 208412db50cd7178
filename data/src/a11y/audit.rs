//! What became of each element, and by which rule.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::compress::Compressed;
use super::tree::{LeftOut, Tree};

/// The name of a rule: `same-place`, `off-screen`, or one of a rules file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rule(pub Cow<'static, str>);

impl Rule {
    pub(super) fn named(name: impl Into<Cow<'static, str>>) -> Self {
        Self(name.into())
    }
}

/// What became of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It has a line of its own.
    Kept,
    /// It is part of the line of another element.
    Merged {
        /// The element it is part of: kept, or written as a table.
        into: usize,
        /// Why.
        rule: Rule,
    },
    /// It is a cell of the table that a sheet is written as.
    Tabled(Rule),
    /// It is not in the output.
    Dropped(Rule),
}

/// An input element in the audit: a row of `audit.parquet`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRow {
    /// The tree: its path below the input.
    pub tree: String,
    /// The element's position in the tree, from 0; those that the reader left out follow after all others.
    pub element: u32,
    /// Its id in the source.
    pub source_id: String,
    /// Role in the source's words.
    pub role: String,
    /// What it is called.
    pub label: String,
    /// Left edge in pixels, where the source gives a box.
    pub x: Option<i32>,
    /// Top edge.
    pub y: Option<i32>,
    /// Width.
    pub width: Option<i32>,
    /// Height.
    pub height: Option<i32>,
    /// Whether a user acts on it.
    pub interactive: bool,
    /// `kept`, `merged`, `tabled` or `dropped`.
    pub fate: String,
    /// The rule that merged or dropped it.
    pub rule: Option<String>,
    /// The element it was merged into.
    pub into: Option<u32>,
    /// The rule that shortened its text.
    pub shortened: Option<String>,
    /// Its region; none of what the reader left out.
    pub region: String,
    /// Whether it is part of the modal.
    pub modal: bool,
}

impl Fate {
    /// `kept`, `merged`, `tabled` or `dropped`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Merged { .. } => "merged",
            Self::Tabled(_) => "tabled",
            Self::Dropped(_) => "dropped",
        }
    }

    /// The rule that decided it.
    pub fn rule(&self) -> Option<&str> {
        match self {
            Self::Kept => None,
            Self::Merged { rule, .. } | Self::Tabled(rule) | Self::Dropped(rule) => Some(&rule.0),
        }
    }
}

impl AuditRow {
    /// The row of an element that the reader left out, before the compressor saw it.
    pub(super) fn left_out(tree: &str, element: usize, left: &LeftOut, interactive: bool) -> Self {
        let node = &left.node;
        Self {
            tree: tree.to_owned(),
            element: element as u32,
            source_id: node.id.clone(),
            role: node.role.clone(),
            label: node.label().to_owned(),
            x: node.rect.map(|r| r.x),
            y: node.rect.map(|r| r.y),
            width: node.rect.map(|r| r.width),
            height: node.rect.map(|r| r.height),
            interactive,
            fate: "dropped".to_owned(),
            rule: Some(left.rule.0.to_string()),
            into: None,
            shortened: None,
            region: String::new(),
            modal: false,
        }
    }
}

/// How many elements of a compressed tree each rule took, by `fate/rule`; with those that the reader left out.
pub fn totals_of(compressed: &Compressed, tree: &Tree) -> BTreeMap<String, usize> {
    let mut totals = totals(&compressed.fates);
    for left in &tree.left_out {
        *totals.entry(format!("dropped/{}", left.rule.0)).or_default() += 1;
    }
    totals
}

/// How many elements each rule took, by `fate/rule`.
pub fn totals<'a>(fates: impl IntoIterator<Item = &'a Fate>) -> BTreeMap<String, usize> {
    let mut totals = BTreeMap::new();
    for fate in fates {
        let name =
            fate.rule().map_or_else(|| fate.word().to_owned(), |rule| format!("{}/{rule}", fate.word()));
        *totals.entry(name).or_default() += 1;
    }
    totals
}
