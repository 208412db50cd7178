//! The page's tables.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use polars::prelude::*;
use serde::Serialize;
use tracemill_data::artifact::Skill;
use tracemill_data::trace::Reject;

/// Rejects of one class in one format.
#[derive(Debug, Serialize)]
pub struct RejectGroup {
    format: String,
    kind: &'static str,
    count: usize,
    /// The first few, to look at.
    examples: Vec<Reject>,
}

/// Groups the lines of `rejects.jsonl`.
pub fn rejects(jsonl: &str) -> Result<Vec<RejectGroup>> {
    let mut groups: BTreeMap<(String, &'static str), RejectGroup> = BTreeMap::new();
    for line in jsonl.lines() {
        let reject: Reject = serde_json::from_str(line).context("traces/rejects.jsonl")?;
        let key = (reject.format.name().to_owned(), reject.kind.name());
        let group = groups.entry(key.clone()).or_insert_with(|| RejectGroup {
            format: key.0,
            kind: key.1,
            count: 0,
            examples: Vec::new(),
        });
        group.count += 1;
        if group.examples.len() < 5 {
            group.examples.push(reject);
        }
    }
    Ok(groups.into_values().collect())
}

/// The most frequent values of a text column of a Parquet file, with their counts; ties in
/// alphabetical order.
pub fn value_counts(path: &Path, column: &str, top: u32) -> Result<Vec<(String, u64)>> {
    let order = SortMultipleOptions::default().with_order_descending_multi([true, false]);
    let path = PlRefPath::try_from_path(path)?;
    let counts = LazyFrame::scan_parquet(path, ScanArgsParquet::default())?
        .group_by([col(column)])
        .agg([len().cast(DataType::UInt64).alias("rows")])
        .sort_by_exprs([col("rows"), col(column)], order)
        .limit(top)
        .collect()?;
    let names = counts.column(column)?.str()?;
    let rows = counts.column("rows")?.u64()?;
    Ok(names
        .iter()
        .zip(rows.iter())
        .map(|(name, rows)| {
            (name.filter(|n| !n.is_empty()).unwrap_or("(none)").to_owned(), rows.unwrap_or_default())
        })
        .collect())
}

/// Screens of an application, as text.
#[derive(Debug, Clone, Serialize)]
pub struct ScreenRow {
    /// The application.
    pub app: String,
    /// Screens.
    pub screens: u32,
    /// Mean elements of a screen.
    pub elements: f64,
    /// Mean tokens in the linear form.
    pub linear: f64,
    /// Mean tokens compressed.
    pub compressed: f64,
    /// Compressed tokens over linear ones, of all its screens.
    pub ratio: f64,
    /// Screens with something in front.
    pub modals: u32,
}

/// Token statistics by application (A11y-Compressor, figure 3), the application with the longest screens first.
pub fn screens(path: &Path) -> Result<Vec<ScreenRow>> {
    let sum = |name: &str| col(name).cast(DataType::Float64).sum().alias(name);
    let sums = LazyFrame::scan_parquet(PlRefPath::try_from_path(path)?, ScanArgsParquet::default())?
        .group_by([col("application")])
        .agg([
            len().cast(DataType::UInt32).alias("screens"),
            sum("elements"),
            sum("linear_tokens"),
            sum("compressed_tokens"),
            col("modal").is_not_null().cast(DataType::UInt32).sum().alias("modals"),
        ])
        .collect()?;
    let (apps, screens) = (sums.column("application")?.str()?, sums.column("screens")?.u32()?);
    let modals = sums.column("modals")?.u32()?;
    let number = |name: &str| -> PolarsResult<_> { Ok(sums.column(name)?.f64()?.clone()) };
    let (elements, linear, compressed) =
        (number("elements")?, number("linear_tokens")?, number("compressed_tokens")?);
    let mut rows: Vec<ScreenRow> = (0..sums.height())
        .map(|i| {
            let count = screens.get(i).unwrap_or(0);
            let mean = |values: &Float64Chunked| values.get(i).unwrap_or(0.0) / f64::from(count.max(1));
            let (linear, compressed) = (mean(&linear), mean(&compressed));
            ScreenRow {
                app: apps.get(i).filter(|app| !app.is_empty()).unwrap_or("(not named)").to_owned(),
                screens: count,
                elements: mean(&elements),
                linear,
                compressed,
                ratio: if linear > 0.0 { compressed / linear } else { 1.0 },
                modals: modals.get(i).unwrap_or(0),
            }
        })
        .collect();
    rows.sort_by(|a, b| b.linear.total_cmp(&a.linear).then_with(|| a.app.cmp(&b.app)));
    Ok(rows)
}

/// A skill as the page shows it.
#[derive(Debug, Serialize)]
pub struct SkillCard {
    skill_id: String,
    title: String,
    support: u32,
    members: u32,
    steps: Vec<StepCard>,
    removed: BTreeMap<String, usize>,
    medoid_unit_id: String,
}

#[derive(Debug, Serialize)]
struct StepCard {
    verb: String,
    args: Vec<ArgCard>,
}

#[derive(Debug, Serialize)]
struct ArgCard {
    field: String,
    kind: String,
    typed: bool,
    examples: String,
}

/// The best supported skills.
pub fn top_skills(skills: &[Skill], top: usize) -> Vec<SkillCard> {
    let mut order: Vec<&Skill> = skills.iter().filter(|s| !s.steps.is_empty()).collect();
    order.sort_by(|a, b| {
        b.support.cmp(&a.support).then_with(|| a.sg.cmp(&b.sg)).then_with(|| a.rank.cmp(&b.rank))
    });
    order.into_iter().take(top).map(card).collect()
}

fn card(skill: &Skill) -> SkillCard {
    let mut removed = BTreeMap::new();
    for step in &skill.removed_steps {
        *removed.entry(step.rule.clone()).or_insert(0) += 1;
    }
    let arg = |a: &tracemill_data::artifact::SkillArg| ArgCard {
        field: a.field.clone(),
        typed: a.value.is_none(),
        kind: a.value.clone().unwrap_or_else(|| a.kind.clone()),
        examples: a.examples.iter().take(3).cloned().collect::<Vec<_>>().join(" · "),
    };
    SkillCard {
        skill_id: skill.skill_id.clone(),
        title: skill.title.clone(),
        support: skill.support,
        members: skill.members,
        steps: skill
            .steps
            .iter()
            .map(|s| StepCard { verb: s.verb.clone(), args: s.args.iter().map(arg).collect() })
            .collect(),
        removed,
        medoid_unit_id: skill.medoid_unit_id.clone(),
    }
}
