//! Recipes: which stages, in which order, with which settings.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::config::resolve;
use crate::run::{Report, Run};
use crate::settings::Settings;
use crate::{stage, table};

type StageFn = fn(&Settings, &Run) -> Result<Report>;

/// Every stage that a recipe may name, in the order of the flow.
const STAGES: [(&str, StageFn); 12] = [
    ("sample", stage::sample::run),
    ("ingest", stage::ingest::run),
    ("observe", stage::observe::run),
    ("abstract", stage::abstract_::run),
    ("label", stage::label::run),
    ("embed", stage::embed::run),
    ("encode", stage::encode::run),
    ("cluster", stage::cluster::run),
    ("induce", stage::induce::run),
    ("memory", stage::memory::run),
    ("lessons", stage::lessons::build),
    ("report", stage::report::run),
];

const BUILT_IN: [(&str, &str); 2] =
    [("demo", include_str!("../recipes/demo.toml")), ("intents", include_str!("../recipes/intents.toml"))];

/// Reads a recipe: a file, or a built-in one by name.
///
/// # Errors
/// A file that is neither there nor built in, and the errors of [`resolve`].
pub fn load_recipe(recipe: &Path, overrides: &[String]) -> Result<Settings> {
    if recipe.exists() {
        return resolve(Some(recipe), overrides);
    }
    let name = recipe.to_string_lossy();
    let text = BUILT_IN.iter().find(|(built_in, _)| *built_in == name.trim_end_matches(".toml"));
    let Some((_, text)) = text else {
        bail!("recipe {name}: no such file, and no built-in recipe of that name (demo, intents)");
    };
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), text)?;
    resolve(Some(file.path()), overrides)
}

/// The stages to run, in the order of the flow.
///
/// # Errors
/// A recipe without stages, or a stage that does not exist or is not in the recipe.
pub fn plan(settings: &Settings, from: Option<&str>, only: Option<&str>) -> Result<Vec<&'static str>> {
    let known: Vec<&'static str> = STAGES.iter().map(|(name, _)| *name).collect();
    let mut stages = Vec::new();
    for name in &settings.stages {
        let found = known.iter().find(|k| *k == name);
        stages.push(
            *found.with_context(|| format!("unknown stage `{name}`; known stages: {}", known.join(", ")))?,
        );
    }
    if stages.is_empty() {
        bail!("the recipe names no stage: add `stages = [\"ingest\", …]`");
    }
    stages.sort_by_key(|name| known.iter().position(|k| k == name));
    let place = |name: &str| {
        stages
            .iter()
            .position(|s| *s == name)
            .with_context(|| format!("stage `{name}` is not in the recipe ({})", stages.join(", ")))
    };
    match (from, only) {
        (Some(from), _) => Ok(stages[place(from)?..].to_vec()),
        (None, Some(only)) => Ok(vec![stages[place(only)?]]),
        (None, None) => Ok(stages),
    }
}

/// Runs stages one after the other.
///
/// # Errors
/// That of the first stage that fails; the ones before it stay published.
pub fn execute(settings: &Settings, run: &Run, stages: &[&str]) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for (name, body) in STAGES {
        if stages.contains(&name) {
            log::info!("{name}");
            reports.push(body(settings, run)?);
        }
    }
    Ok(reports)
}

/// Prints the resolved settings (JSON) and the stages, for `--dry-run`.
///
/// # Errors
/// None in practice: settings always serialise.
pub fn print_plan(settings: &Settings, stages: &[&str]) -> Result<()> {
    table::print(&serde_json::to_string_pretty(settings)?);
    table::print(&format!("stages: {}", stages.join(" → ")));
    Ok(())
}

/// Prints what each stage did: one line of figures each.
pub fn print_reports(reports: &[Report]) {
    let mut rows = table::Table::new(&["stage", "time", "result"]);
    for report in reports {
        let time = if report.skipped { "up to date".to_owned() } else { format!("{:.1} s", report.secs) };
        rows.row(&[report.stage, &time, &summary(report)]);
    }
    table::print(&rows.to_string());
    for report in reports {
        if let Some(Value::Array(sources)) = report.counts.get("sources") {
            table::print(&source_table(sources));
        }
    }
}

fn summary(report: &Report) -> String {
    let figures = report.counts.iter().filter_map(|(name, value)| match value {
        Value::Number(n) => Some(format!("{} {}", table::number(n), name.replace('_', " "))),
        Value::String(s) => Some(format!("{} {s}", name.replace('_', " "))),
        _ => None,
    });
    figures.collect::<Vec<_>>().join(" · ")
}

fn source_table(sources: &[Value]) -> String {
    let mut rows = table::Table::new(&["source", "format", "episodes in", "episodes", "rejects", "steps"]);
    for source in sources {
        let count = |name: &str| source[name].as_u64().unwrap_or_default();
        rows.row(&[
            source["path"].as_str().unwrap_or_default(),
            source["format"].as_str().unwrap_or_default(),
            &(count("episodes") + count("rejects")).to_string(),
            &count("episodes").to_string(),
            &count("rejects").to_string(),
            &count("steps").to_string(),
        ]);
    }
    rows.to_string()
}

/// Says where to look next.
pub fn print_next_steps(run: &Path) {
    let run = run.display();
    table::print(&format!(
        "page    {run}/report/index.html\nskills  {run}/skills/skills.json\nquery   tracemill memory query --run {run} \"set an alarm\""
    ));
}
