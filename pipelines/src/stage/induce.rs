//! `induce`: units and intents → `R/skills/skills.{json,parquet}`, with the alias map's coverage.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result};
use serde_json::json;
use tracemill_data::artifact::{AliasMap, IntentRow, Skill};
use tracemill_data::parquet_io::{read_batches, read_table, write_table};
use tracemill_data::views::Unit;
use tracemill_models::skill::{AliasCoverage, Subgroup, SubgroupSkills, induce_all, to_pretty_json};

use crate::run::{Draft, Report, Run, StageInput, StageSpec, write_json};
use crate::settings::{InduceSection, Settings};

/// Induces the skills of every subgroup.
///
/// # Errors
/// When units or intents are missing, or the alias map is not valid.
pub fn run(settings: &Settings, run: &Run) -> Result<Report> {
    let map = alias_map(&settings.induce)?;
    let mut inputs = vec![
        StageInput::FromStage("units/units.parquet", "label"),
        StageInput::FromStage("intents/units.parquet", "cluster"),
    ];
    if let Some(path) = &settings.induce.alias_map {
        inputs.push(StageInput::External(path.clone(), path.display().to_string()));
    }
    let spec = StageSpec {
        name: "induce",
        folder: "skills",
        settings: json!({ "induce": settings.induce, "alias_map": map.version() }),
        seed: settings.seed,
        inputs,
    };
    run.stage(&spec, |draft| induce(settings, run, &map, draft))
}

/// The alias map Φ that the settings name.
///
/// # Errors
/// A file that cannot be read, or is no valid map.
pub fn alias_map(section: &InduceSection) -> Result<AliasMap> {
    let Some(path) = &section.alias_map else { return Ok(AliasMap::builtin()) };
    let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    AliasMap::parse(&text).with_context(|| format!("{}", path.display()))
}

fn induce(settings: &Settings, run: &Run, map: &AliasMap, draft: &mut Draft) -> Result<()> {
    let intents: Vec<IntentRow> = read_table(&run.path("intents/units.parquet"))?;
    let place: HashMap<&str, (i32, i32)> =
        intents.iter().map(|row| (row.unit_id.as_str(), (row.sg, row.ig))).collect();
    let mut units: Vec<Unit> = Vec::new();
    for batch in read_batches::<Unit>(&run.path("units/units.parquet"))? {
        units.extend(batch?);
    }
    let mut members: BTreeMap<(i32, i32), Vec<&Unit>> = BTreeMap::new();
    for unit in &units {
        // A unit without any view has no latent and no group: it counts as noise.
        let (sg, ig) = place.get(unit.unit_id.as_str()).copied().unwrap_or((-1, -1));
        // Noise is counted in the coverage as one set, whatever its group.
        members.entry((sg, if sg < 0 { -1 } else { ig })).or_default().push(unit);
    }
    let subgroups: Vec<Subgroup> =
        members.into_iter().map(|((sg, ig), units)| Subgroup { ig, sg, units }).collect();
    let induced = induce_all(&subgroups, map, &settings.induce.skills);
    let coverage = total_coverage(&induced);
    let skills: Vec<Skill> = induced.iter().flat_map(|s| s.skills.iter().cloned()).collect();

    write_table(&draft.path("skills.parquet"), &skills)?;
    std::fs::write(draft.path("skills.json"), to_pretty_json(&skills)).context("skills.json")?;
    write_json(&draft.path("coverage.json"), &coverage)?;
    draft.count("skills", skills.len());
    draft.count("subgroups", subgroups.iter().filter(|s| s.sg >= 0).count());
    draft.count("steps_mapped_by_rule", share(coverage.mapped_by_rule, coverage.total()));
    draft.count("removed_steps", induced.iter().map(|s| s.removed.len()).sum::<usize>());
    draft.count("alias_map", map.version());
    Ok(())
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn total_coverage(induced: &[SubgroupSkills]) -> AliasCoverage {
    let mut total = AliasCoverage::default();
    for subgroup in induced {
        total.merge(&subgroup.coverage);
    }
    total
}
