//! Tasks held out of the memory, and the memory mined from what is left.
//!
//! A task is on one side with all of its episodes (task key). Mining is real: units of held-in episodes only are
//! clustered, become skills and representatives, and their episodes the stored plans. The encoder is the run's, which
//! saw the held-out units too (without their tasks' words, where steps have instructions), unless one is trained
//! on the held-in units; either way the result says which.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use anyhow::{Context, Result, bail};
use candle_core::Device;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tracemill_data::artifact::AliasMap;
use tracemill_data::export::{Split, Splitter, task_key};
use tracemill_data::parquet_io::{Vectors, read_batches};
use tracemill_data::trace::{EpisodeRow, StepRow, read_episodes};
use tracemill_data::views::Unit;
use tracemill_models::cluster::intent_groups;
use tracemill_models::embed::Embedder;
use tracemill_models::memory::plan::{
    EncoderPrototypes, PlanError, PlanMemory, PlanSettings, PlanTrace, Planner, Prototypes, RecordedStep,
    RuleDecomposer, StoredPlan, Variant, trace_steps,
};
use tracemill_models::memory::{IndexSettings, IntentIndex, UnitIndex};
use tracemill_models::multiview::{Encoder, EncoderConfig, TrainConfig, TrainData, ViewBatch, train};
use tracemill_models::skill::{Subgroup, induce_all};

use crate::run::Run;
use crate::settings::Settings;
use crate::stage::cluster::{intent_rows, subgroup_rows};
use crate::stage::eval::intent_settings;
use crate::stage::memory::EnvironmentTexts;
use crate::unit_views::{UnitViews, encode};

/// A held-out episode: a command, and what was done for it.
#[derive(Debug, Clone)]
pub struct TestTask {
    /// The episode.
    pub episode_id: String,
    /// The task as splits and intervals count it.
    pub key: String,
    /// The instruction.
    pub command: String,
    /// The recorded steps that serve it, with their screens.
    pub recorded: Vec<RecordedStep>,
}

/// What is known of a run, split into held-out tasks and the rest.
pub struct HeldOut {
    /// Tasks to plan.
    pub tasks: Vec<TestTask>,
    /// Held-in episodes with a command: id, command.
    pub commands: Vec<(String, String)>,
    /// Episodes that are mined, with or without a command.
    pub mined: BTreeSet<String>,
    /// Episodes without an instruction: mined, never held out.
    pub without_command: usize,
    /// Held-out episodes none of whose steps serves the task.
    pub without_steps: usize,
    /// Episodes that say they failed: neither mined as a plan nor held out.
    pub failed: usize,
}

/// Whether held-out tasks leak into what was mined.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Leakage {
    /// Held-out tasks whose key is that of a mined episode; 0 by construction, and checked.
    pub same_task: usize,
    /// Held-out tasks of which a mined command has at least 80 % of the words (of both together).
    pub near_duplicates: usize,
    /// Whether the encoder was trained on units of held-out episodes too.
    pub encoder_saw_held_out: bool,
    /// Held-out tasks with an application or site, and those of them whose place no mined unit has.
    pub unseen_places: (usize, usize),
}

/// Reads a run and draws its held-out tasks.
///
/// # Errors
/// Missing traces or units, or nothing to hold out.
pub fn read_held_out(run: &Run, share: f64, seed: u64, limit: Option<usize>) -> Result<HeldOut> {
    if !(share > 0.0 && share < 1.0) {
        bail!("--hold-out {share}: a share of the tasks above 0 and below 1");
    }
    run.require("traces/steps.parquet", "ingest")?;
    let units = units_by_episode(run)?;
    let splitter = Splitter { seed, test_share: share, keep_source: false };
    let map = AliasMap::builtin();
    let mut out = HeldOut {
        tasks: Vec::new(),
        commands: Vec::new(),
        mined: BTreeSet::new(),
        without_command: 0,
        without_steps: 0,
        failed: 0,
    };
    for episode in read_episodes(&run.path("traces"))? {
        let (episode, steps) = episode?;
        let id = episode.episode_id.clone();
        if episode.instruction.trim().is_empty() {
            out.without_command += 1;
            out.mined.insert(id);
            continue;
        }
        let key = task_key(&episode.instruction, &id);
        if splitter.of(&key, None) == Split::Train {
            out.mined.insert(id.clone());
            if episode.outcome == "failure" {
                out.failed += 1;
            } else {
                out.commands.push((id, episode.instruction));
            }
            continue;
        }
        if episode.outcome == "failure" {
            out.failed += 1;
            continue;
        }
        let recorded = recorded(&episode, &steps, units.get(&id).map_or(&[][..], Vec::as_slice), &map);
        if recorded.is_empty() {
            out.without_steps += 1;
        } else if limit.is_none_or(|limit| out.tasks.len() < limit) {
            out.tasks.push(TestTask { episode_id: id, key, command: episode.instruction, recorded });
        }
    }
    if out.tasks.is_empty() || out.mined.is_empty() {
        bail!(
            "{} tasks to hold out and {} episodes to mine: tasks are episodes with an instruction ({} have none); give \
             another --hold-out",
            out.tasks.len(),
            out.mined.len(),
            out.without_command
        );
    }
    Ok(out)
}

fn units_by_episode(run: &Run) -> Result<HashMap<String, Vec<Unit>>> {
    let mut units: HashMap<String, Vec<Unit>> = HashMap::new();
    for batch in read_batches::<Unit>(&run.require("units/units.parquet", "label")?)? {
        for unit in batch? {
            units.entry(unit.episode_id.clone()).or_default().push(unit);
        }
    }
    Ok(units)
}

/// The steps of an episode that serve its task, with the screens they acted on.
fn recorded(episode: &EpisodeRow, steps: &[StepRow], units: &[Unit], map: &AliasMap) -> Vec<RecordedStep> {
    let of_step: HashMap<u32, &StepRow> = steps.iter().map(|s| (s.step, s)).collect();
    let only = (episode.apps.len() == 1).then(|| episode.app.clone());
    let mut out = Vec::new();
    for unit in units {
        for step in trace_steps(unit, map) {
            let row = of_step.get(&step.step);
            let own = row.and_then(|r| r.app.clone()).or_else(|| only.clone());
            let place = own.or_else(|| (!unit.env_tag.is_empty()).then(|| unit.env_tag.clone()));
            let elements = row.map(|r| r.elements.clone()).unwrap_or_default();
            out.push(RecordedStep { step, elements, place });
        }
    }
    out
}

impl HeldOut {
    /// Draws mined episodes with replacement; one that is drawn twice counts once.
    pub fn bootstrap(&self, seed: u64, index: u64) -> BTreeSet<String> {
        let all: Vec<&String> = self.mined.iter().collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(index + 1);
        (0..all.len()).map(|_| all[rng.random_range(0..all.len())].clone()).collect()
    }

    /// What leaks, as far as it can be told.
    pub fn leakage(&self, memory: &PlanMemory, encoder_saw_held_out: bool) -> Leakage {
        let keys: BTreeSet<String> = self.commands.iter().map(|(id, c)| task_key(c, id)).collect();
        let words = |text: &str| -> BTreeSet<String> { text.split(' ').map(str::to_owned).collect() };
        let mined: Vec<BTreeSet<String>> = keys.iter().map(|k| words(k)).collect();
        let near = |task: &&TestTask| {
            let own = words(&task.key);
            mined.iter().any(|other| {
                let common = own.intersection(other).count();
                5 * common >= 4 * (own.len() + other.len() - common)
            })
        };
        let places: Vec<&str> =
            self.tasks.iter().filter_map(|t| t.recorded.iter().find_map(|s| s.place.as_deref())).collect();
        let unseen = places.iter().filter(|p| !memory.environments().contains_key(**p)).count();
        Leakage {
            same_task: self.tasks.iter().filter(|t| keys.contains(&t.key)).count(),
            near_duplicates: self.tasks.iter().filter(near).count(),
            encoder_saw_held_out,
            unseen_places: (places.len(), unseen),
        }
    }
}

/// Units, embeddings and encoder that memories are mined with.
pub struct Mined<'a> {
    settings: &'a Settings,
    map: &'a AliasMap,
    embedder: &'a dyn Embedder,
    views: UnitViews,
    batch: ViewBatch,
    units: HashMap<String, Unit>,
    /// What encodes them.
    pub encoder: Encoder,
}

/// The same memory in two spaces.
pub struct MinedSpaces {
    /// Latents of the encoder, with groups and subgroups.
    pub intent: PlanMemory,
    /// Raw embeddings, without groups.
    pub raw: PlanMemory,
    /// Units mined.
    pub units: usize,
}

impl<'a> Mined<'a> {
    /// Reads units and embeddings; the encoder is the run's, or one trained on the `held_in` episodes.
    ///
    /// # Errors
    /// When units, embeddings or the encoder are missing, or training fails.
    pub fn open(
        run: &Run,
        settings: &'a Settings,
        map: &'a AliasMap,
        embedder: &'a dyn Embedder,
        retrain_on: Option<&BTreeSet<String>>,
    ) -> Result<Self> {
        let views = UnitViews::load(run)?;
        let batch = views.batch(&Device::Cpu)?;
        let encoder = match retrain_on {
            None => crate::stage::encode::load(run, "cpu")?,
            Some(held_in) => retrained(settings, &views, &batch, held_in)?,
        };
        let units = units_by_episode(run)?.into_values().flatten().map(|u| (u.unit_id.clone(), u)).collect();
        Ok(Self { settings, map, embedder, views, batch, units, encoder })
    }

    /// Clusters the units of these episodes, induces their skills and stores their plans.
    ///
    /// # Errors
    /// No unit, or those of clustering and encoding.
    pub fn mine(&self, episodes: &BTreeSet<String>, commands: &[(String, String)]) -> Result<MinedSpaces> {
        let rows: Vec<u32> = (0..self.views.len())
            .filter(|&i| episodes.contains(&self.views.episode_ids[i]))
            .map(|i| i as u32)
            .collect();
        if rows.is_empty() {
            bail!("no unit of the episodes that are left has a view: nothing to mine");
        }
        let latents = encode(&self.encoder, &self.batch.select(&rows)?)?;
        let (dim, settings) = (latents.dim, intent_settings(self.settings));
        let found = intent_groups(&latents.fused, dim, &latents.subgroup, dim, &settings)?;
        let ids: Vec<String> = rows.iter().map(|&r| self.views.unit_ids[r as usize].clone()).collect();
        let units: Vec<&Unit> =
            ids.iter().map(|id| self.units.get(id).context("a unit without a row")).collect::<Result<_>>()?;
        let fused = Vectors { ids, dim, data: latents.fused.clone() };
        let subgroups = subgroup_rows(&fused, &found, self.settings.cluster.representatives);

        let mut members: BTreeMap<(i32, i32), Vec<&Unit>> = BTreeMap::new();
        for (i, unit) in units.iter().enumerate() {
            let (ig, sg) = (found.ig[i], found.sg[i]);
            members.entry((sg, if sg < 0 { -1 } else { ig })).or_default().push(unit);
        }
        let grouped: Vec<Subgroup> =
            members.into_iter().map(|((sg, ig), units)| Subgroup { ig, sg, units }).collect();
        let induced = induce_all(&grouped, self.map, &self.settings.induce.skills);
        let skills: Vec<_> = induced.into_iter().flat_map(|s| s.skills).collect();
        let support = skills.iter().filter(|s| s.rank == 0).map(|s| (s.sg, s.support as usize)).collect();
        let index = IntentIndex::build(&intent_rows(&fused, &found), &subgroups, &support)?;

        let mut environments = EnvironmentTexts::default();
        units.iter().for_each(|unit| environments.add(unit));
        let environments = environments.most_frequent();
        let traces: Vec<PlanTrace> = units.iter().map(|unit| PlanTrace::of(unit, self.map)).collect();
        let exact = IndexSettings { exact_below: usize::MAX, ..IndexSettings::default() };
        let raw = self.views.raw(&[0, 1, 2]);
        let width = 3 * self.views.dim;
        let raw: Vec<f32> =
            rows.iter().flat_map(|&r| &raw[r as usize * width..(r as usize + 1) * width]).copied().collect();
        let none = IntentIndex { subgroups: Vec::new(), groups: Vec::new() };
        let in_raw = UnitIndex::build(raw, width, exact)?;
        let in_latents = UnitIndex::build(latents.fused, dim, exact)?;
        let mut spaces = MinedSpaces {
            intent: PlanMemory::new(index, in_latents, traces.clone(), skills.clone(), environments.clone())?,
            raw: PlanMemory::new(none, in_raw, traces, skills, environments)?,
            units: units.len(),
        };
        let own = |(id, _): &&(String, String)| episodes.contains(id);
        let commands: Vec<&(String, String)> = commands.iter().filter(own).collect();
        self.store_plans(&mut spaces.intent, &self.prototypes(), &commands, &units, &found.sg)?;
        self.store_plans(&mut spaces.raw, &self.raw_prototypes(), &commands, &units, &vec![-1; units.len()])?;
        Ok(spaces)
    }

    /// Every command of a mined episode with its units, as if a user had approved what was recorded.
    fn store_plans(
        &self,
        memory: &mut PlanMemory,
        prototypes: &dyn Prototypes,
        commands: &[&(String, String)],
        units: &[&Unit],
        subgroups: &[i32],
    ) -> Result<()> {
        let mut of_episode: HashMap<&str, Vec<(usize, i32)>> = HashMap::new();
        for (row, unit) in units.iter().enumerate() {
            of_episode.entry(&unit.episode_id).or_default().push((row, subgroups[row]));
        }
        let settings = PlanSettings::default();
        let mut plans = Vec::new();
        for (id, command) in commands {
            let Some(rows) = of_episode.get(id.as_str()) else { continue };
            let planner = Planner {
                memory,
                map: self.map,
                decomposer: &RuleDecomposer,
                prototypes,
                settings: &settings,
                variant: Variant::Full,
            };
            match StoredPlan::of_episode(&format!("plan of {id}"), command, rows, &planner) {
                Ok(plan) => plans.push(plan),
                // A command without words is no plan; the episode's units are mined all the same.
                Err(PlanError::Command(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        plans.into_iter().for_each(|plan| memory.store(plan));
        Ok(())
    }

    /// Prototypes in the latent space.
    pub fn prototypes(&self) -> EncoderPrototypes<'_> {
        EncoderPrototypes { embedder: self.embedder, encoder: &self.encoder }
    }

    /// Prototypes in the space of raw embeddings.
    pub fn raw_prototypes(&self) -> RawPrototypes<'_> {
        RawPrototypes(self.embedder)
    }
}

fn retrained(
    settings: &Settings,
    views: &UnitViews,
    batch: &ViewBatch,
    held_in: &BTreeSet<String>,
) -> Result<Encoder> {
    let rows: Vec<u32> =
        (0..views.len()).filter(|&i| held_in.contains(&views.episode_ids[i])).map(|i| i as u32).collect();
    let groups = rows.iter().map(|&r| views.episode_ids[r as usize].clone()).collect();
    let data = TrainData::new(batch.select(&rows)?, groups)?;
    let model = EncoderConfig { dim_in: views.dim, ..settings.encode.model.clone() };
    let config = TrainConfig { seed: settings.seed, ..settings.encode.train.clone() };
    Ok(train(&data, &model, &config, None, &mut |_, _| ControlFlow::Continue(()))?.encoder)
}

/// Embeddings of environment and description side by side, as [`UnitViews::raw`] puts units.
pub struct RawPrototypes<'a>(&'a dyn Embedder);

impl Prototypes for RawPrototypes<'_> {
    fn encode(&self, texts: &[(Option<&str>, &str)]) -> Result<Vec<Vec<f32>>, PlanError> {
        let dim = self.0.dim();
        let mut out = Vec::with_capacity(texts.len());
        for (environment, description) in texts {
            let mut row = match environment {
                Some(text) => self.0.embed(&[text])?,
                None => vec![0.0; dim],
            };
            row.resize(2 * dim, 0.0);
            row.extend(self.0.embed(&[description])?);
            let norm = row.iter().map(|v| v * v).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            row.iter_mut().for_each(|v| *v /= norm);
            out.push(row);
        }
        Ok(out)
    }
}
