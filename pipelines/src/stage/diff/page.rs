//! The difference as a page.

use std::path::Path;

use anyhow::{Context, Result};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;

use super::{Change, Difference, Level, told};

const TEMPLATE: &str = include_str!("page.html");

/// A change of groups as the page shows it.
#[derive(Serialize)]
struct Row<'a> {
    became: &'static str,
    why: String,
    #[serde(flatten)]
    change: &'a Change,
}

/// A skill's change as the page shows it.
#[derive(Serialize)]
struct SkillRow<'a> {
    title: &'a str,
    before: &'a Option<String>,
    after: &'a Option<String>,
    what: String,
    told: String,
}

/// Writes the page.
pub(super) fn write(path: &Path, difference: &Difference) -> Result<()> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("page.html", TEMPLATE)?;
    let skills: Vec<SkillRow<'_>> = { difference.skills.iter() }
        .map(|skill| SkillRow {
            title: &skill.title,
            before: &skill.before,
            after: &skill.after,
            what: skill.what(),
            told: skill.told(),
        })
        .collect();
    let page = environment.get_template("page.html")?.render(context! {
        d => Serde(difference),
        changes => difference.changes(),
        intent_groups => Serde(rows(&difference.intent_groups)),
        subgroups => Serde(rows(&difference.subgroups)),
        skills => Serde(skills),
    })?;
    std::fs::write(path, page).with_context(|| path.display().to_string())
}

fn rows(level: &Level) -> Vec<Row<'_>> {
    level.changes.iter().map(Row::of).collect()
}

impl<'a> Row<'a> {
    fn of(change: &'a Change) -> Self {
        Self { became: told::word(change.change.became), why: change.why(), change }
    }
}
