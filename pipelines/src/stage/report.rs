//! `report`: one self-contained HTML page, without network. Text from traces is escaped by the
//! template engine; charts are SVG.

mod charts;
mod tables;

use anyhow::{Context, Result};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};
use serde_json::Value;
use tracemill_data::artifact::{IntentRow, Skill};
use tracemill_data::parquet_io::read_table;

use crate::manifest;
use crate::run::{Draft, Report, Run, StageInput, StageSpec};
use crate::settings::Settings;

/// What `observe` publishes, where it has run.
const OBSERVATIONS: &str = "observations/observations.parquet";
const TEMPLATE: &str = include_str!("report/page.html");

/// Writes `R/report/index.html`.
///
/// # Errors
/// When a stage before it has not run.
pub fn run(settings: &Settings, run: &Run) -> Result<Report> {
    let mut inputs = vec![
        StageInput::FromStage("traces/manifest.json", "ingest"),
        StageInput::FromStage("traces/rejects.jsonl", "ingest"),
        StageInput::FromStage("units/units.parquet", "label"),
        StageInput::FromStage("encoder/metrics.jsonl", "encode"),
        StageInput::FromStage("intents/units.parquet", "cluster"),
        StageInput::FromStage("intents/quality.json", "cluster"),
        StageInput::FromStage("skills/skills.json", "induce"),
    ];
    if run.path(OBSERVATIONS).exists() {
        inputs.push(StageInput::FromStage(OBSERVATIONS, "observe"));
    }
    let spec = StageSpec {
        name: "report",
        folder: "report",
        settings: serde_json::to_value(&settings.report)?,
        seed: settings.seed,
        inputs,
    };
    run.stage(&spec, |draft| page(settings, run, draft))
}

/// A measure with so many decimals; a dash where it is not defined.
fn rounded(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.decimals$}"))
}

fn page(settings: &Settings, run: &Run, draft: &mut Draft) -> Result<()> {
    let text = |name: &str| std::fs::read_to_string(run.path(name)).with_context(|| name.to_owned());
    let skills: Vec<Skill> =
        serde_json::from_str(&text("skills/skills.json")?).context("skills/skills.json")?;
    let intents: Vec<IntentRow> = read_table(&run.path("intents/units.parquet"))?;
    let quality: Value = serde_json::from_str(&text("intents/quality.json")?)?;
    let counts = stage_counts(run)?;
    let sources = counts["traces"]["sources"].as_array().cloned().unwrap_or_default();
    let synthetic = sources.iter().any(|s| s["synthetic"] == true);

    let observations = run.path(OBSERVATIONS);
    let screens = if observations.exists() { tables::screens(&observations)? } else { Vec::new() };

    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_function("rounded", rounded);
    environment.add_template("page", TEMPLATE)?;
    let page = environment.get_template("page")?.render(context! {
        tool => manifest::tool(),
        synthetic,
        counts => Serde(counts),
        sources => Serde(sources),
        rejects => Serde(tables::rejects(&text("traces/rejects.jsonl")?)?),
        verbs => charts::bars(&tables::value_counts(&run.path("traces/steps.parquet"), "action", 12)?)?,
        environments => charts::bars(&tables::value_counts(&run.path("units/units.parquet"), "env_tag", 12)?)?,
        screen_tokens => charts::screen_tokens(&screens)?,
        screens => Serde(screens),
        losses => charts::losses(&text("encoder/metrics.jsonl")?)?,
        map => charts::latent_map(&intents, settings.report.map_points)?,
        map_points => intents.len().min(settings.report.map_points),
        quality => Serde(quality),
        skills => Serde(tables::top_skills(&skills, settings.report.top_skills)),
        skill_count => skills.len(),
    })?;
    std::fs::write(draft.path("index.html"), &page)?;
    draft.count("bytes", page.len());
    Ok(())
}

/// The counts of every stage's manifest, by folder.
fn stage_counts(run: &Run) -> Result<Value> {
    let mut counts = serde_json::Map::new();
    for folder in ["traces", "units", "embeddings", "encoder", "intents", "skills", "memory"] {
        if let Some(manifest) = manifest::read(&run.path(folder).join("manifest.json"))? {
            counts.insert(folder.to_owned(), serde_json::to_value(manifest.counts)?);
        }
    }
    Ok(Value::Object(counts))
}
