//! `explain`: from a skill, a subgroup, a unit, a row of a data set or an episode back to the source records.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use tracemill_data::artifact::{IntentRow, Skill};
use tracemill_data::export::Lineage as Origin;
use tracemill_data::parquet_io::read_batches;
use tracemill_data::trace::{EpisodeRow, StepRow};
use tracemill_data::views::Unit;

use crate::cli::ExplainArgs;
use crate::run::Run;
use crate::table;

/// Members of a skill or subgroup that are walked back; the others are counted.
const SHOWN_MEMBERS: usize = 5;

/// Prints the way from an id back to its source.
///
/// # Errors
/// When no artifact of the run holds the id; says which were searched.
pub fn run(args: &ExplainArgs) -> Result<()> {
    let run = Run::existing(&args.run)?;
    let lineage = Lineage { run: &run, dataset: args.dataset.as_deref() }.of(&args.id)?;
    if args.json {
        table::print(&serde_json::to_string_pretty(&lineage)?);
    } else {
        let mut text = String::new();
        render(&lineage, 0, &mut text);
        table::print(&text);
    }
    Ok(())
}

struct Lineage<'a> {
    run: &'a Run,
    /// A data set outside the run's own.
    dataset: Option<&'a Path>,
}

impl Lineage<'_> {
    fn of(&self, id: &str) -> Result<Value> {
        if let Some(subgroup) = id.strip_prefix("sg") {
            if subgroup.contains('.') {
                return self.skill(id);
            }
            if let Ok(sg) = subgroup.parse::<i32>() {
                return self.subgroup(sg);
            }
        }
        if id.ends_with("/coordinator") || id.ends_with("/state-tracker") {
            return self.dataset_row(id);
        }
        if let [unit] = self.units(&BTreeSet::from([id]))?.as_slice() {
            return self.unit(unit);
        }
        match self.rows::<EpisodeRow>("traces/episodes.parquet", "ingest", |e| e.episode_id == id)?.pop() {
            Some(episode) => self.episode(&episode),
            None => bail!(
                "{id}: no such skill (sg<N>.<rank>), subgroup (sg<N>), unit (<episode>/<first>-<last>), row of a data set (<episode>#<step>/<role>) or episode \
                 in {}",
                self.run.dir().display()
            ),
        }
    }

    /// A row of a data set: its place, what made it, and the step it is made from.
    fn dataset_row(&self, id: &str) -> Result<Value> {
        let folders: Vec<PathBuf> = match self.dataset {
            Some(folder) => vec![folder.to_owned()],
            None => dataset_folders(&self.run.path("datasets")),
        };
        let mut places = Vec::new();
        for folder in &folders {
            for batch in read_batches::<Origin>(&folder.join("lineage.parquet"))? {
                places.extend(batch?.into_iter().filter(|row| row.row_id == id).map(|row| (folder, row)));
            }
        }
        let Some((_, row)) = places.first() else {
            bail!(
                "{id}: in none of {} data sets below {}; name another with --dataset DIR",
                folders.len(),
                self.run.path("datasets").display()
            )
        };
        let step = self.rows("traces/steps.parquet", "ingest", |s: &StepRow| {
            s.episode_id == row.episode_id && (s.step == row.step || s.step == row.screen_step)
        })?;
        let shown = |(folder, row): &(&PathBuf, Origin)| {
            format!("{} › row {} ({})", folder.join(&row.file).display(), row.row + 1, row.split)
        };
        Ok(json!({
            "row": id,
            "in": places.iter().map(shown).collect::<Vec<_>>(),
            "prompt": format!("{}, hash {}", row.prompt, row.prompt_hash),
            "state from": row.state_from,
            "next state from": row.next_state_from,
            "thought from": row.thought_from,
            "instruction from": row.instruction_from,
            "picture": row.image,
            "episode": row.episode_id,
            "source": format!("{} › {}", row.source, row.source_key),
            "step": step.iter().filter(|s| s.step == row.step).map(source_step).collect::<Vec<_>>(),
            "rewarded on": step.iter().filter(|s| row.screen_step != row.step && s.step == row.screen_step).map(source_step).collect::<Vec<_>>(),
        }))
    }

    fn rows<T: for<'de> Deserialize<'de>>(
        &self,
        file: &'static str,
        stage: &str,
        keep: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>> {
        let mut kept = Vec::new();
        for batch in read_batches::<T>(&self.run.require(file, stage)?)? {
            kept.extend(batch?.into_iter().filter(&keep));
        }
        Ok(kept)
    }

    fn units(&self, ids: &BTreeSet<&str>) -> Result<Vec<Unit>> {
        self.rows("units/units.parquet", "label", |u: &Unit| ids.contains(u.unit_id.as_str()))
    }

    fn skill(&self, id: &str) -> Result<Value> {
        let skills: Vec<Skill> =
            self.rows("skills/skills.parquet", "induce", |s: &Skill| s.skill_id == id)?;
        let skill =
            skills.into_iter().next().with_context(|| format!("skill {id}: not in skills/skills.parquet"))?;
        let mut shown: Vec<&str> = vec![skill.medoid_unit_id.as_str()];
        shown.extend(
            skill.representative_unit_ids.iter().map(String::as_str).filter(|u| *u != skill.medoid_unit_id),
        );
        shown.truncate(SHOWN_MEMBERS);
        Ok(json!({
            "skill": skill.skill_id,
            "title": skill.title,
            "made by": format!("medoid of subgroup sg{} (intent group {}) under d_sig; alias map {}", skill.sg, skill.ig, skill.alias_map),
            "support": format!("{} of {} members", skill.support, skill.members),
            "steps": skill.steps.iter().map(step_text).collect::<Vec<_>>(),
            "removed steps": removed_text(&skill),
            "medoid and nearest members": self.members(&shown)?,
        }))
    }

    fn subgroup(&self, sg: i32) -> Result<Value> {
        let members: Vec<IntentRow> =
            self.rows("intents/units.parquet", "cluster", |r: &IntentRow| r.sg == sg)?;
        if members.is_empty() {
            bail!("subgroup sg{sg}: no unit of the run is in it");
        }
        let shown: Vec<&str> = members.iter().take(SHOWN_MEMBERS).map(|m| m.unit_id.as_str()).collect();
        Ok(json!({
            "subgroup": format!("sg{sg}"),
            "intent group": members[0].ig,
            "members": members.len(),
            "made by": "HDBSCAN inside the intent group",
            "first members": self.members(&shown)?,
        }))
    }

    fn members(&self, ids: &[&str]) -> Result<Vec<Value>> {
        let units = self.units(&ids.iter().copied().collect())?;
        let by_id: BTreeMap<&str, &Unit> = units.iter().map(|u| (u.unit_id.as_str(), u)).collect();
        ids.iter().filter_map(|id| by_id.get(id)).map(|unit| self.unit(unit)).collect()
    }

    fn unit(&self, unit: &Unit) -> Result<Value> {
        let episodes =
            self.rows("traces/episodes.parquet", "ingest", |e: &EpisodeRow| e.episode_id == unit.episode_id)?;
        let steps = self.rows("traces/steps.parquet", "ingest", |s: &StepRow| {
            s.episode_id == unit.episode_id && (unit.first_step..=unit.last_step).contains(&s.step)
        })?;
        let episode = episodes
            .first()
            .with_context(|| format!("episode {} is not in traces/episodes.parquet", unit.episode_id))?;
        Ok(json!({
            "unit": unit.unit_id,
            "made by": format!("{}; starts by rule `{}`", unit.labeler, unit.boundary),
            "env": unit.env,
            "description": unit.description,
            "episode": episode.episode_id,
            "task": episode.instruction,
            "source": source_text(episode),
            "steps": steps.iter().map(source_step).collect::<Vec<_>>(),
        }))
    }

    fn episode(&self, episode: &EpisodeRow) -> Result<Value> {
        let steps =
            self.rows("traces/steps.parquet", "ingest", |s: &StepRow| s.episode_id == episode.episode_id)?;
        Ok(json!({
            "episode": episode.episode_id,
            "made by": format!("adapter {}", episode.format),
            "task": episode.instruction,
            "source": source_text(episode),
            "steps": steps.iter().map(source_step).collect::<Vec<_>>(),
        }))
    }
}

/// Folders below `datasets` that hold a data set.
fn dataset_folders(datasets: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(datasets).into_iter().flatten().flatten().map(|e| e.path());
    let mut folders: Vec<PathBuf> = entries.filter(|p| p.join("lineage.parquet").is_file()).collect();
    folders.sort();
    folders
}

fn source_text(episode: &EpisodeRow) -> String {
    match episode.source_key.as_str() {
        "" => episode.source.clone(),
        key => format!("{} › {key}", episode.source),
    }
}

fn source_step(step: &StepRow) -> String {
    let mut text = format!("{} › {}: {}", step.step, step.source_key, step.source_verb);
    for detail in [&step.target_name, &step.text, &step.instruction].into_iter().flatten() {
        text.push_str(" · ");
        text.push_str(detail);
    }
    text
}

fn step_text(step: &tracemill_data::artifact::SkillStep) -> String {
    let shown = |a: &tracemill_data::artifact::SkillArg| {
        format!("{}={}", a.field, a.value.as_ref().unwrap_or(&a.kind))
    };
    let args: Vec<String> = step.args.iter().map(shown).collect();
    format!("{}({})", step.verb, args.join(", "))
}

fn removed_text(skill: &Skill) -> Vec<String> {
    let mut by_rule: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for removed in &skill.removed_steps {
        *by_rule.entry((&removed.rule, &removed.verb)).or_default() += 1;
    }
    by_rule.into_iter().map(|((rule, verb), n)| format!("{verb} × {n} (rule `{rule}`)")).collect()
}

fn is_empty(value: &Value) -> bool {
    value.as_str().is_some_and(str::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// An indented outline of a JSON value, without what is empty.
fn render(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter().filter(|(_, field)| !is_empty(field)) {
                match field {
                    Value::Object(_) | Value::Array(_) => {
                        out.push_str(&format!("{indent}{name}:\n"));
                        render(field, depth + 1, out);
                    }
                    Value::String(text) => out.push_str(&format!("{indent}{name}: {text}\n")),
                    other => out.push_str(&format!("{indent}{name}: {other}\n")),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::Object(_) => {
                        render(item, depth, out);
                        out.push('\n');
                    }
                    Value::String(text) => out.push_str(&format!("{indent}{text}\n")),
                    other => out.push_str(&format!("{indent}{other}\n")),
                }
            }
        }
        other => out.push_str(&format!("{indent}{other}\n")),
    }
}
