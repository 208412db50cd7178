//! `memory build`: intents and skills → `R/memory/`, and `memory query`: from a text to skills and
//! representative traces.
//!
//! A query reads only prototypes, centroids and representative traces, whose number does not grow
//! with the number of units. The ungated baseline (`--greedy`) compares every unit.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracemill_data::artifact::{AliasMap, IntentRow, Skill, SubgroupRow, TraceStep};
use tracemill_data::parquet_io::{read_batches, read_table, write_table};
use tracemill_data::views::Unit;
use tracemill_models::memory::plan::{EncoderPrototypes, PlanMemory, PlanTrace, Prototypes, trace_steps};
use tracemill_models::memory::{
    GroupEntry, IndexSettings, IntentIndex, QuerySettings, SubgroupEntry, SubgroupHit, UnitHit, UnitIndex,
};

use super::{embed, encode, induce};
use crate::cli::QueryArgs;
use crate::manifest;
use crate::run::{Draft, Report, Run, StageInput, StageSpec, write_json};
use crate::settings::{EmbedSection, Settings};
use crate::table;

/// A row of `R/memory/groups.parquet`: an intent group's prototype.
#[derive(Debug, Serialize, Deserialize)]
struct GroupRow {
    ig: i32,
    prototype: Vec<f32>,
}

/// A row of `R/memory/subgroups.parquet`.
#[derive(Debug, Serialize, Deserialize)]
struct MemoryRow {
    ig: i32,
    sg: i32,
    centroid: Vec<f32>,
    size: u32,
    /// Members that support the subgroup's best schema.
    support: u32,
    representative_unit_ids: Vec<String>,
}

/// A row of `R/memory/traces.parquet`: a representative unit, ready to be shown.
#[derive(Debug, Serialize, Deserialize)]
struct TraceRow {
    unit_id: String,
    z: Vec<f32>,
    env: String,
    description: String,
    action: String,
    /// Application or site; empty when the source names none.
    env_tag: String,
    /// Its steps after Φ, without incidental ones: what plans are made from.
    steps: Vec<TraceStep>,
}

/// Builds the plan memory.
///
/// # Errors
/// When intents or skills are missing, or do not belong together.
pub fn run(settings: &Settings, run: &Run) -> Result<Report> {
    let map = induce::alias_map(&settings.induce)?;
    let mut inputs = vec![
        StageInput::FromStage("units/units.parquet", "label"),
        StageInput::FromStage("intents/units.parquet", "cluster"),
        StageInput::FromStage("intents/subgroups.parquet", "cluster"),
        StageInput::FromStage("skills/skills.parquet", "induce"),
    ];
    if let Some(path) = &settings.induce.alias_map {
        inputs.push(StageInput::External(path.clone(), path.display().to_string()));
    }
    let spec = StageSpec {
        name: "memory",
        folder: "memory",
        settings: json!({ "memory": settings.memory, "alias_map": map.version() }),
        seed: settings.seed,
        inputs,
    };
    run.stage(&spec, |draft| build(run, &map, draft))
}

fn build(run: &Run, map: &AliasMap, draft: &mut Draft) -> Result<()> {
    let units: Vec<IntentRow> = read_table(&run.path("intents/units.parquet"))?;
    let subgroups: Vec<SubgroupRow> = read_table(&run.path("intents/subgroups.parquet"))?;
    let skills: Vec<Skill> = read_table(&run.path("skills/skills.parquet"))?;
    let support: BTreeMap<i32, usize> =
        skills.iter().filter(|s| s.rank == 0).map(|s| (s.sg, s.support as usize)).collect();
    let index = IntentIndex::build(&units, &subgroups, &support)?;

    let groups: Vec<GroupRow> =
        index.groups.into_iter().map(|g| GroupRow { ig: g.ig, prototype: g.centroid }).collect();
    let rows: Vec<MemoryRow> = index
        .subgroups
        .into_iter()
        .map(|entry| MemoryRow {
            ig: entry.ig,
            sg: entry.sg,
            centroid: entry.centroid,
            size: entry.size as u32,
            support: entry.support as u32,
            representative_unit_ids: entry
                .representatives
                .iter()
                .map(|&r| units[r].unit_id.clone())
                .collect(),
        })
        .collect();
    let traces = traces(run, map, &units, &rows, &skills)?;
    write_table(&draft.path("groups.parquet"), &groups)?;
    write_table(&draft.path("subgroups.parquet"), &rows)?;
    write_table(&draft.path("traces.parquet"), &traces)?;
    write_json(&draft.path("environments.json"), &environments(run)?)?;
    draft.count("intent_groups", groups.len());
    draft.count("subgroups", rows.len());
    draft.count("traces", traces.len());
    Ok(())
}

/// The representative units of subgroups and skills with their latents, texts and steps, in unit order.
fn traces(
    run: &Run,
    map: &AliasMap,
    units: &[IntentRow],
    rows: &[MemoryRow],
    skills: &[Skill],
) -> Result<Vec<TraceRow>> {
    let of_skills = skills.iter().flat_map(|s| &s.representative_unit_ids);
    let wanted: std::collections::HashSet<&str> =
        rows.iter().flat_map(|r| &r.representative_unit_ids).chain(of_skills).map(String::as_str).collect();
    let latents: HashMap<&str, &Vec<f32>> = units
        .iter()
        .filter(|u| wanted.contains(u.unit_id.as_str()))
        .map(|u| (u.unit_id.as_str(), &u.z))
        .collect();
    let mut traces = Vec::new();
    for batch in read_batches::<Unit>(&run.path("units/units.parquet"))? {
        for unit in batch? {
            if let Some(z) = latents.get(unit.unit_id.as_str()) {
                traces.push(TraceRow {
                    z: (*z).clone(),
                    steps: trace_steps(&unit, map),
                    env_tag: unit.env_tag.clone(),
                    unit_id: unit.unit_id,
                    env: unit.env,
                    description: unit.description,
                    action: unit.action,
                });
            }
        }
    }
    Ok(traces)
}

/// [`EnvironmentTexts`] of a run's units.
fn environments(run: &Run) -> Result<BTreeMap<String, String>> {
    let mut texts = EnvironmentTexts::default();
    for batch in read_batches::<Unit>(&run.path("units/units.parquet"))? {
        batch?.iter().for_each(|unit| texts.add(unit));
    }
    Ok(texts.most_frequent())
}

/// For every application or site that the sources name, its most frequent environment text: what a
/// query that mentions the name is taken to mean.
#[derive(Default)]
pub struct EnvironmentTexts(BTreeMap<String, BTreeMap<String, usize>>);

impl EnvironmentTexts {
    /// Counts a unit.
    pub fn add(&mut self, unit: &Unit) {
        if !unit.env_tag.is_empty() {
            let texts = self.0.entry(unit.env_tag.clone()).or_default();
            *texts.entry(unit.env.clone()).or_default() += 1;
        }
    }

    /// The text of each name; ties go to the first in the alphabet.
    pub fn most_frequent(self) -> BTreeMap<String, String> {
        let most = |counts: BTreeMap<String, usize>| {
            counts.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0))).map(|(text, _)| text)
        };
        self.0.into_iter().filter_map(|(tag, counts)| Some((tag, most(counts)?))).collect()
    }
}

/// A plan memory, loaded.
struct Memory {
    index: IntentIndex,
    traces: Vec<TraceRow>,
    vectors: UnitIndex,
    skills: Vec<Skill>,
    environments: BTreeMap<String, String>,
}

impl Memory {
    fn load(run: &Run) -> Result<Self> {
        let groups: Vec<GroupRow> = read_table(&run.require("memory/groups.parquet", "memory")?)?;
        let rows: Vec<MemoryRow> = read_table(&run.require("memory/subgroups.parquet", "memory")?)?;
        let path = run.require("memory/traces.parquet", "memory")?;
        let traces: Vec<TraceRow> = read_table(&path).with_context(|| {
            format!("{}: run `tracemill memory build` again if an older version made it", path.display())
        })?;
        let names = std::fs::read_to_string(run.require("memory/environments.json", "memory")?)?;
        let place: HashMap<&str, usize> =
            traces.iter().enumerate().map(|(i, t)| (t.unit_id.as_str(), i)).collect();
        let subgroups = rows
            .into_iter()
            .map(|row| SubgroupEntry {
                ig: row.ig,
                sg: row.sg,
                centroid: row.centroid,
                size: row.size as usize,
                support: row.support as usize,
                representatives: row
                    .representative_unit_ids
                    .iter()
                    .filter_map(|id| place.get(id.as_str()).copied())
                    .collect(),
            })
            .collect();
        let groups = groups.into_iter().map(|g| GroupEntry { ig: g.ig, centroid: g.prototype }).collect();
        let dim = traces.first().map_or(1, |t| t.z.len());
        let flat = traces.iter().flat_map(|t| &t.z).copied().collect();
        Ok(Self {
            index: IntentIndex { subgroups, groups },
            vectors: UnitIndex::build(flat, dim, IndexSettings::default())?,
            traces,
            skills: read_table(&run.require("skills/skills.parquet", "induce")?)?,
            environments: serde_json::from_str(&names).context("memory/environments.json")?,
        })
    }

    /// The longest known application or site that the text names as a word of its own.
    fn named_environment(&self, text: &str) -> Option<&str> {
        let padded = |s: &str| {
            let words: String =
                s.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
            format!(" {} ", words.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let text = padded(text);
        let named = self.environments.iter().filter(|(tag, _)| text.contains(&padded(tag)));
        named.max_by_key(|(tag, _)| tag.len()).map(|(_, env)| env.as_str())
    }
}

/// A run's plan memory as planners use it, without plans.
///
/// # Errors
/// When the run has none, or an older version built it.
pub fn for_planning(run: &Run) -> Result<PlanMemory> {
    let memory = Memory::load(run)?;
    let trace = |t: TraceRow| PlanTrace {
        unit_id: t.unit_id,
        env_tag: t.env_tag,
        description: t.description,
        steps: t.steps,
    };
    let traces = memory.traces.into_iter().map(trace).collect();
    Ok(PlanMemory::new(memory.index, memory.vectors, traces, memory.skills, memory.environments)?)
}

/// Answers a query on standard output.
///
/// # Errors
/// When the run has no plan memory, or the embedder of its embeddings cannot be loaded.
pub fn query(settings: &Settings, args: &QueryArgs) -> Result<()> {
    if args.text.trim().is_empty() {
        bail!("the query is empty: give a text to look for");
    }
    if args.top == 0 {
        bail!("--top is 0: ask for 1 or more");
    }
    let run = Run::existing(&args.run)?;
    let memory = Memory::load(&run)?;
    let embedder = embed::open(&embedder_of(&run)?, "cpu")?;
    let encoder = encode::load(&run, "cpu")?;
    let env = memory.named_environment(&args.text);
    let prototypes = EncoderPrototypes { embedder: embedder.as_ref(), encoder: &encoder };
    let z = prototypes.encode(&[(env, args.text.as_str())])?.swap_remove(0);
    let answer = if args.greedy {
        greedy(&run, &z, args.top)?
    } else {
        let query = QuerySettings {
            top_k: args.top,
            gates: settings.memory.gates,
            units_per_subgroup: settings.memory.traces,
        };
        let hits = memory.index.query(&memory.vectors, &z, query)?;
        hits.iter().map(|hit| hit_json(&memory, hit)).collect()
    };
    if args.json {
        table::print(&serde_json::to_string_pretty(
            &json!({ "query": args.text, "environment": env, "results": answer }),
        )?);
    } else {
        print_answer(&answer, args.greedy);
    }
    Ok(())
}

/// The embedder that made the run's embeddings, from their manifest: a query embedded by another
/// one would be compared with vectors of another space.
///
/// # Errors
/// When the run has no embeddings.
pub fn embedder_of(run: &Run) -> Result<EmbedSection> {
    let path = run.require("embeddings/manifest.json", "embed")?;
    let manifest = manifest::read(&path)?.with_context(|| format!("{}", path.display()))?;
    serde_json::from_value(manifest.settings["embed"].clone()).with_context(|| format!("{}", path.display()))
}

fn hit_json(memory: &Memory, hit: &SubgroupHit) -> Value {
    let skills: Vec<&Skill> = memory.skills.iter().filter(|s| s.sg == hit.sg).collect();
    let traces: Vec<Value> =
        hit.units.iter().map(|unit| trace_json(&memory.traces[unit.unit], unit)).collect();
    json!({
        "ig": hit.ig, "sg": hit.sg, "score": hit.score, "gate_score": hit.gate_score, "support": hit.support,
        "skills": skills, "traces": traces,
    })
}

fn trace_json(trace: &TraceRow, hit: &UnitHit) -> Value {
    json!({
        "unit_id": trace.unit_id, "score": hit.cosine, "env": trace.env, "description": trace.description,
        "action": trace.action,
    })
}

/// The ungated baseline: the most similar units of all, whatever their group.
fn greedy(run: &Run, z: &[f32], top: usize) -> Result<Vec<Value>> {
    let units: Vec<IntentRow> = read_table(&run.require("intents/units.parquet", "cluster")?)?;
    let flat = units.iter().flat_map(|u| &u.z).copied().collect();
    // One query: comparing every unit is faster than building graphs, and exact at any size.
    let exact = IndexSettings { exact_below: usize::MAX, ..IndexSettings::default() };
    let hits = UnitIndex::build(flat, z.len(), exact)?.top_k(z, top)?;
    let wanted: HashMap<&str, &UnitHit> = hits.iter().map(|h| (units[h.unit].unit_id.as_str(), h)).collect();
    let mut texts: HashMap<String, Unit> = HashMap::new();
    for batch in read_batches::<Unit>(&run.require("units/units.parquet", "label")?)? {
        texts.extend(
            batch?
                .into_iter()
                .filter(|u| wanted.contains_key(u.unit_id.as_str()))
                .map(|u| (u.unit_id.clone(), u)),
        );
    }
    let row = |hit: &UnitHit| {
        let (intent, unit) = (&units[hit.unit], texts.get(&units[hit.unit].unit_id)?);
        Some(json!({
            "ig": intent.ig, "sg": intent.sg, "score": hit.cosine, "skills": [],
            "traces": [{ "unit_id": unit.unit_id, "score": hit.cosine, "env": unit.env,
                         "description": unit.description, "action": unit.action }],
        }))
    };
    Ok(hits.iter().filter_map(row).collect())
}

fn print_answer(results: &[Value], greedy: bool) {
    let mut rows = table::Table::new(&["score", "ig", "sg", "skill (support)", "nearest trace"]);
    for result in results {
        let skill = &result["skills"][0];
        let title = match skill["title"].as_str() {
            Some(title) => format!("{title} ({} of {})", skill["support"], skill["members"]),
            None if greedy => "–".to_owned(),
            None => "no skill".to_owned(),
        };
        let trace = &result["traces"][0];
        rows.row(&[
            &format!("{:.3}", result["score"].as_f64().unwrap_or_default()),
            &result["ig"].to_string(),
            &result["sg"].to_string(),
            &title,
            &format!(
                "{}: {}",
                trace["env"].as_str().unwrap_or("–"),
                trace["description"].as_str().unwrap_or_default()
            ),
        ]);
    }
    table::print(&rows.to_string());
}
