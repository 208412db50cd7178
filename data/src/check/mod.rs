//! Validation of data sets: what a training framework would drop, misread or choke on, found beforehand.
//!
//! Files may come from anywhere: each row of LLaMA-Factory's, verl's, TRL's, ms-swift's or OpenAI's form is
//! read into one shape, and every finding names file, row and remedy.

mod across;
mod folder;
mod loose;
mod picture;
mod row;
mod rules;

use serde::Serialize;

pub use folder::{CheckError, Checked, Options, check};
pub use loose::Loose;
pub use row::{ImageRef, Row, Turn};
pub use rules::Budget;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Training fails, or learns something wrong.
    Error,
    /// Training works and is worth less.
    Warning,
    /// Something that could not be checked.
    Note,
}

/// What is wrong with a row, or with a data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the rule: `image-count`.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The file, relative to the data set's folder.
    pub file: String,
    /// The row, from 1 as in an editor; `None` for the whole file.
    pub row: Option<u64>,
    /// The row's own id, where it has one.
    pub id: Option<String>,
    /// What is there.
    pub found: String,
    /// What to do about it.
    pub remedy: &'static str,
}

/// A finding before its place is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    rule: &'static str,
    severity: Severity,
    found: String,
    remedy: &'static str,
}

impl Fault {
    fn error(rule: &'static str, found: impl Into<String>, remedy: &'static str) -> Self {
        Self { rule, severity: Severity::Error, found: found.into(), remedy }
    }

    fn note(rule: &'static str, found: impl Into<String>, remedy: &'static str) -> Self {
        Self { severity: Severity::Note, ..Self::error(rule, found, remedy) }
    }

    fn warning(rule: &'static str, found: impl Into<String>, remedy: &'static str) -> Self {
        Self { severity: Severity::Warning, ..Self::error(rule, found, remedy) }
    }
}
