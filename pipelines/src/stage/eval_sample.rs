//! `eval sample`: what a run on the sample corpus found, against the truth that no stage reads.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tracemill_data::artifact::{IntentRow, Skill};
use tracemill_data::parquet_io::{read_batches, read_table};
use tracemill_data::views::Unit;
use tracemill_models::metrics::adjusted_rand_index;

use crate::cli::SampleEvalArgs;
use crate::run::{Run, write_json};
use crate::table::{self, Table};

/// A line of `truth.jsonl`.
#[derive(Deserialize)]
struct TruthRow {
    episode_id: String,
    step: u32,
    intent: String,
    noise: Option<String>,
}

/// A task template of `templates.json`.
#[derive(Deserialize)]
struct Template {
    id: String,
    /// Predicates of the task itself.
    canonical: Vec<String>,
    /// The same after the step that opens the application.
    canonical_with_open: Vec<String>,
}

/// What `R/eval/sample.json` holds.
#[derive(Serialize)]
struct Comparison {
    units: usize,
    noise_units: usize,
    /// Adjusted Rand index over all units, each noise unit a group of its own.
    subgroup_ari: Option<f64>,
    group_ari: Option<f64>,
    templates: Vec<TemplateResult>,
}

#[derive(Serialize)]
struct TemplateResult {
    template: String,
    units: usize,
    /// The subgroup that holds most of the template's units.
    skill: Option<String>,
    /// Share of the template's units in that subgroup.
    share: f64,
    expected: Vec<String>,
    induced: Vec<String>,
    equal: bool,
}

/// Compares and prints; writes `R/eval/sample.json`.
///
/// # Errors
/// When the corpus, units, intents or skills are missing, or no unit belongs to the corpus.
pub fn run(args: &SampleEvalArgs) -> Result<()> {
    let run = Run::existing(&args.run)?;
    let sample = args.sample.clone().unwrap_or_else(|| run.path("sample"));
    let truth = truth(&sample.join("truth.jsonl"))?;
    let templates = sample.join("templates.json");
    let text = std::fs::read_to_string(&templates).with_context(|| format!("{}", templates.display()))?;
    let templates: Vec<Template> =
        serde_json::from_str(&text).with_context(|| format!("{}", templates.display()))?;
    let groups: BTreeMap<String, (i32, i32)> = read_table::<IntentRow>(&run.path("intents/units.parquet"))?
        .into_iter()
        .map(|row| (row.unit_id, (row.ig, row.sg)))
        .collect();
    let skills: Vec<Skill> = read_table(&run.path("skills/skills.parquet"))?;

    let mut units: Vec<Placed> = Vec::new();
    for batch in read_batches::<Unit>(&run.path("units/units.parquet"))? {
        for unit in batch? {
            let (ig, sg) = groups.get(&unit.unit_id).copied().unwrap_or((-1, -1));
            units.extend(intent_of(&unit, &truth).map(|intent| Placed { intent, ig, sg }));
        }
    }
    if units.is_empty() {
        bail!("no unit of {} belongs to the corpus in {}", args.run.display(), sample.display());
    }
    let comparison = Comparison {
        units: units.len(),
        noise_units: units.iter().filter(|u| u.sg < 0).count(),
        subgroup_ari: ari(&units, |u| u.sg),
        group_ari: ari(&units, |u| u.ig),
        templates: templates.iter().map(|t| of_template(t, &units, &skills)).collect(),
    };
    std::fs::create_dir_all(run.path("eval"))?;
    write_json(&run.path("eval/sample.json"), &comparison)?;
    print(&comparison);
    Ok(())
}

/// A unit with its hidden intent and the groups it was put into.
struct Placed {
    intent: String,
    ig: i32,
    sg: i32,
}

/// Intent of each step that serves one, by episode and step number.
fn truth(path: &Path) -> Result<BTreeMap<(String, u32), String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    let mut truth = BTreeMap::new();
    for (i, line) in text.lines().enumerate() {
        let row: TruthRow =
            serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), i + 1))?;
        if row.noise.is_none() {
            truth.insert((row.episode_id, row.step), row.intent);
        }
    }
    Ok(truth)
}

/// The intent that most of the unit's steps serve; ties go to the first in the alphabet. `None` for a
/// unit of noise, or of another source.
fn intent_of(unit: &Unit, truth: &BTreeMap<(String, u32), String>) -> Option<String> {
    let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
    for step in unit.first_step..=unit.last_step {
        if let Some(intent) = truth.get(&(unit.episode_id.clone(), step)) {
            *votes.entry(intent).or_default() += 1;
        }
    }
    let most = *votes.values().max()?;
    votes.into_iter().find(|(_, votes)| *votes == most).map(|(intent, _)| intent.to_owned())
}

/// Agreement of a grouping with the intents; units without a group are groups of their own.
fn ari(units: &[Placed], group: impl Fn(&Placed) -> i32) -> Option<f64> {
    let found: Vec<i64> = (0_i64..)
        .zip(units)
        .map(|(i, unit)| if group(unit) < 0 { -1 - i } else { i64::from(group(unit)) })
        .collect();
    let intents: Vec<&str> = units.iter().map(|unit| unit.intent.as_str()).collect();
    adjusted_rand_index(&found, &intents)
}

fn of_template(template: &Template, units: &[Placed], skills: &[Skill]) -> TemplateResult {
    let own: Vec<&Placed> = units.iter().filter(|unit| unit.intent == template.id).collect();
    let mut sizes: BTreeMap<i32, usize> = BTreeMap::new();
    for unit in own.iter().filter(|unit| unit.sg >= 0) {
        *sizes.entry(unit.sg).or_default() += 1;
    }
    let most = sizes.values().copied().max().unwrap_or(0);
    let subgroup = sizes.into_iter().find(|(_, size)| *size == most).map(|(sg, _)| sg);
    let skill = skills.iter().find(|skill| Some(skill.sg) == subgroup && skill.rank == 0);
    let induced: Vec<String> =
        skill.map(|skill| skill.steps.iter().map(|step| step.verb.clone()).collect()).unwrap_or_default();
    TemplateResult {
        template: template.id.clone(),
        units: own.len(),
        skill: skill.map(|skill| skill.skill_id.clone()),
        share: most as f64 / own.len().max(1) as f64,
        equal: induced == template.canonical || induced == template.canonical_with_open,
        expected: template.canonical.clone(),
        induced,
    }
}

fn print(comparison: &Comparison) {
    let mut table = Table::new(&["template", "units", "skill", "share of units", "schema"]);
    for result in &comparison.templates {
        let schema = match (result.equal, &result.skill) {
            (true, _) => "equal".to_owned(),
            (false, None) => "none".to_owned(),
            (false, Some(_)) => format!("{} ≠ {}", result.induced.join(" "), result.expected.join(" ")),
        };
        let skill = result.skill.as_deref().unwrap_or("–");
        let share = format!("{:.2}", result.share);
        table.row(&[&result.template, &result.units.to_string(), skill, &share, &schema]);
    }
    table::print(&table.to_string());
    let shown = |value: Option<f64>| value.map_or("undefined".to_owned(), |v| format!("{v:.3}"));
    table::print(&format!(
        "synthetic: {} units, {} of them noise; ARI with the truth: subgroups {}, groups {}; schemas equal to their \
         template: {} of {}",
        comparison.units,
        comparison.noise_units,
        shown(comparison.subgroup_ari),
        shown(comparison.group_ari),
        comparison.templates.iter().filter(|t| t.equal).count(),
        comparison.templates.len(),
    ));
}
