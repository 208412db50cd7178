//! What a planner knows: subgroups, units with their steps, skills, applications, approved plans.

use std::collections::{BTreeMap, HashMap, HashSet};

use candle_core::{Device, Tensor};
use tracemill_data::artifact::{AliasMap, Bound, Plan, PlanStep, Skill, TERMINAL, TraceArg, TraceStep};
use tracemill_data::views::{Unit, clean};

use super::PlanError;
use super::words::{stem, stems, tokens, verb_class, without_values};
use crate::embed::Embedder;
use crate::memory::vectors::dot;
use crate::memory::{IntentIndex, MemoryError, UnitIndex};
use crate::multiview::{Encoder, ViewBatch};

/// A unit as a planner uses it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanTrace {
    /// The unit.
    pub unit_id: String,
    /// Application or site; empty when the source names none.
    pub env_tag: String,
    /// View D.
    pub description: String,
    /// Its steps after Φ, without incidental ones.
    pub steps: Vec<TraceStep>,
}

impl PlanTrace {
    /// A unit, mapped by Φ and cleaned.
    pub fn of(unit: &Unit, map: &AliasMap) -> Self {
        Self {
            unit_id: unit.unit_id.clone(),
            env_tag: unit.env_tag.clone(),
            description: unit.description.clone(),
            steps: trace_steps(unit, map),
        }
    }
}

/// Whether a click on this label starts the application: its icon, called like it.
pub(super) fn is_icon_of(label: &str, app: &str) -> bool {
    let label = label.trim().to_lowercase();
    let bare = label.strip_suffix(" icon").or_else(|| label.strip_suffix(" app icon")).unwrap_or(&label);
    !app.is_empty() && bare == app.trim().to_lowercase()
}

/// The steps of a unit that serve its intent, after Φ. A click on the icon of the unit's application opens it, as Φ
/// says where the step's words do.
pub fn trace_steps(unit: &Unit, map: &AliasMap) -> Vec<TraceStep> {
    let cleaned = clean(&[unit], map).swap_remove(0);
    let serving = cleaned.kept.iter().filter(|&&i| cleaned.mapped[i].predicate != TERMINAL);
    let step = |&i: &usize| {
        let mapped = &cleaned.mapped[i];
        let arg = |a: &tracemill_data::artifact::MappedArg| TraceArg {
            field: a.field.to_owned(),
            kind: map.value_type(a.field, a.value, a.hint).to_owned(),
            value: a.value.to_owned(),
        };
        if mapped.predicate == "click" && mapped.value("target").is_some_and(|t| is_icon_of(t, &unit.env_tag))
        {
            let app = TraceArg { field: "app".into(), kind: "<app>".into(), value: unit.env_tag.clone() };
            return TraceStep { step: unit.actions[i].step, verb: "open".into(), args: vec![app] };
        }
        TraceStep {
            step: unit.actions[i].step,
            verb: mapped.predicate.to_owned(),
            args: mapped.args.iter().map(arg).collect(),
        }
    };
    serving.map(step).collect()
}

/// An approved plan, ready to be compared with a command.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPlan {
    /// The plan's id.
    pub plan_id: String,
    /// The command it answered.
    pub command: String,
    /// Its units, in order.
    pub units: Vec<StoredUnit>,
}

/// A unit of an approved plan.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredUnit {
    /// The words it served.
    pub description: String,
    /// Application or site; empty when unknown.
    pub env: String,
    /// Its ACTs.
    pub acts: Vec<String>,
    /// Its prototype, of norm 1.
    pub z: Vec<f32>,
    /// Subgroups it belongs to.
    pub subgroups: Vec<i32>,
    /// Its steps; arguments bound from the command are bound anew.
    pub steps: Vec<PlanStep>,
}

/// Intent prototypes of texts.
pub trait Prototypes {
    /// One vector of norm 1 for each pair of environment text (none: absent) and description.
    ///
    /// # Errors
    /// Those of embedder and encoder.
    fn encode(&self, texts: &[(Option<&str>, &str)]) -> Result<Vec<Vec<f32>>, PlanError>;
}

/// Prototypes by the run's own embedder and encoder: the description slot holds the text, the environment slot the
/// application or site it names; the middle slot is absent.
pub struct EncoderPrototypes<'a> {
    /// What embedded the run's views.
    pub embedder: &'a dyn Embedder,
    /// What encoded its units.
    pub encoder: &'a Encoder,
}

impl Prototypes for EncoderPrototypes<'_> {
    fn encode(&self, texts: &[(Option<&str>, &str)]) -> Result<Vec<Vec<f32>>, PlanError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let (rows, dim) = (texts.len(), self.embedder.dim());
        let encode = |e: &dyn std::fmt::Display| PlanError::Encode(e.to_string());
        let descriptions: Vec<String> = texts.iter().map(|(_, d)| without_values(d)).collect();
        let descriptions: Vec<&str> = descriptions.iter().map(String::as_str).collect();
        let environments: Vec<&str> = texts.iter().filter_map(|(e, _)| *e).collect();
        let embedded = self.embedder.embed(&environments)?;
        let mut environment = vec![0.0; rows * dim];
        let named = texts.iter().enumerate().filter(|(_, (e, _))| e.is_some());
        for ((row, _), vector) in named.zip(embedded.chunks_exact(dim)) {
            environment[row * dim..(row + 1) * dim].copy_from_slice(vector);
        }
        let tensor = |values: Vec<f32>| Tensor::from_vec(values, (rows, dim), &Device::Cpu);
        let views = [
            tensor(environment).map_err(|e| encode(&e))?,
            tensor(vec![0.0; rows * dim]).map_err(|e| encode(&e))?,
            tensor(self.embedder.embed(&descriptions)?).map_err(|e| encode(&e))?,
        ];
        let present = texts.iter().map(|(e, _)| [e.is_some(), false, true]).collect();
        let batch = ViewBatch::new(views, present).map_err(|e| encode(&e))?;
        let latents = self.encoder.encode(&batch).map_err(|e| encode(&e))?;
        latents.fused_unit.to_vec2().map_err(|e| encode(&e))
    }
}

/// A subgroup near a prototype.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Near {
    /// Position in [`IntentIndex::subgroups`].
    pub at: usize,
    pub cosine: f32,
    /// Share of the clause's words that the subgroup knows, weighted by rarity.
    pub words: f32,
}

/// What a planner knows.
pub struct PlanMemory {
    pub(super) index: IntentIndex,
    pub(super) vectors: UnitIndex,
    pub(super) traces: Vec<PlanTrace>,
    /// Skills of each subgroup, best supported first.
    pub(super) skills: BTreeMap<i32, Vec<Skill>>,
    /// The skill that a unit supports.
    pub(super) skill_of_unit: HashMap<String, (i32, usize)>,
    pub(super) place: HashMap<String, usize>,
    /// Application or site → what the environment view says of it.
    pub(super) environments: BTreeMap<String, String>,
    /// Application or site of each subgroup, parallel to [`IntentIndex::subgroups`].
    pub(super) subgroup_env: Vec<String>,
    /// For each stem, the subgroups that have it, ascending.
    stems: HashMap<String, Vec<u32>>,
    /// Stems of the words in which commands were put, values left out: what is said, rather than what is meant.
    phrases: HashSet<String>,
    pub(super) plans: Vec<StoredPlan>,
}

impl PlanMemory {
    /// Puts a memory together.
    ///
    /// `vectors` holds the latents of `traces`, in the same order; representatives of `index` are rows of both.
    ///
    /// # Errors
    /// [`MemoryError`] when vectors and traces do not agree in number.
    pub fn new(
        index: IntentIndex,
        vectors: UnitIndex,
        traces: Vec<PlanTrace>,
        skills: Vec<Skill>,
        environments: BTreeMap<String, String>,
    ) -> Result<Self, MemoryError> {
        if vectors.len() != traces.len() {
            return Err(MemoryError::Width {
                what: "traces of the memory".to_owned(),
                found: traces.len(),
                expected: vectors.len(),
            });
        }
        let mut by_subgroup: BTreeMap<i32, Vec<Skill>> = BTreeMap::new();
        for skill in skills {
            by_subgroup.entry(skill.sg).or_default().push(skill);
        }
        by_subgroup.values_mut().for_each(|skills| skills.sort_by_key(|s| s.rank));
        let mut skill_of_unit = HashMap::new();
        for (sg, skills) in &by_subgroup {
            for (at, skill) in skills.iter().enumerate() {
                for unit in &skill.member_unit_ids {
                    skill_of_unit.entry(unit.clone()).or_insert((*sg, at));
                }
            }
        }
        let place = traces.iter().enumerate().map(|(i, t)| (t.unit_id.clone(), i)).collect();
        let subgroup_env =
            index.subgroups.iter().map(|s| majority(s.representatives.iter(), &traces)).collect();
        let mut memory = Self {
            index,
            vectors,
            traces,
            skills: by_subgroup,
            skill_of_unit,
            place,
            environments,
            subgroup_env,
            stems: HashMap::new(),
            phrases: HashSet::new(),
            plans: Vec::new(),
        };
        memory.learn_words();
        Ok(memory)
    }

    /// Applications and sites that are known, with what the environment view says of them.
    pub fn environments(&self) -> &BTreeMap<String, String> {
        &self.environments
    }

    /// Number of plans that can be reused.
    pub fn plans(&self) -> usize {
        self.plans.len()
    }

    /// Forgets every plan.
    pub fn clear_plans(&mut self) {
        self.plans.clear();
        self.phrases.clear();
    }

    /// Adds a plan as it is.
    pub fn store(&mut self, plan: StoredPlan) {
        for unit in &plan.units {
            let told = unit.steps.iter().flat_map(|s| &s.args).filter(|a| a.bound == Bound::Command);
            let values: Vec<String> = told.filter_map(|a| a.value.as_deref()).flat_map(stems).collect();
            let said = tokens(&without_values(&unit.description)).into_iter();
            // Names and numbers are values even where no step has them.
            let said = said.filter(|t| t.text == t.lower && !t.text.contains(|c: char| c.is_ascii_digit()));
            self.phrases.extend(said.map(|t| stem(&t.lower)).filter(|s| !values.contains(s)));
        }
        self.plans.push(plan);
    }

    /// Stems of the words in which commands were put.
    pub(super) fn phrases(&self) -> impl Iterator<Item = &String> {
        self.phrases.iter()
    }

    /// Adds approved plans: prototypes and subgroups are found anew, since a memory that was rebuilt has others.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn approve(
        &mut self,
        plans: &[Plan],
        prototypes: &dyn Prototypes,
        gates: usize,
    ) -> Result<(), PlanError> {
        for plan in plans {
            let texts: Vec<(Option<&str>, &str)> = plan
                .units
                .iter()
                .map(|u| (self.environments.get(&u.env).map(String::as_str), u.description.as_str()))
                .collect();
            let encoded = prototypes.encode(&texts)?;
            let units = plan.units.iter().zip(encoded).map(|(unit, z)| {
                let env = (!unit.env.is_empty()).then_some(unit.env.as_str());
                let best = self.rank(&z, &unit.description, env, gates, 1, 0.5).first().copied();
                StoredUnit {
                    description: unit.description.clone(),
                    env: unit.env.clone(),
                    acts: unit.acts.clone(),
                    subgroups: best.map(|near| self.index.subgroups[near.at].sg).into_iter().collect(),
                    z,
                    steps: unit.steps.clone(),
                }
            });
            let units = units.collect();
            self.store(StoredPlan { plan_id: plan.plan_id.clone(), command: plan.command.clone(), units });
        }
        Ok(())
    }

    /// For each stem the subgroups whose skills or representative traces have it.
    fn learn_words(&mut self) {
        for (at, subgroup) in self.index.subgroups.iter().enumerate() {
            let mut text = String::new();
            for skill in self.skills.get(&subgroup.sg).into_iter().flatten() {
                text.push_str(&skill.title);
                text.push(' ');
            }
            for &row in &subgroup.representatives {
                text.push_str(&self.traces[row].description);
                text.push(' ');
            }
            for stem in stems(&text) {
                self.stems.entry(stem).or_default().push(at as u32);
            }
        }
    }

    /// The subgroups nearest to a prototype, best first, `count` at most.
    ///
    /// ENV gates first: where the clause names an application that has subgroups, only those are looked at; else those
    /// of the `gates` nearest intent groups, and those that know half of the clause's words. Of the candidates, the order is cosine plus `weight` times the share of
    /// words in common.
    pub(super) fn rank(
        &self,
        z: &[f32],
        clause: &str,
        env: Option<&str>,
        gates: usize,
        count: usize,
        weight: f32,
    ) -> Vec<Near> {
        let known = env.is_some_and(|env| self.subgroup_env.iter().any(|e| e == env));
        let open = self.index.open_gates(z, gates);
        let words = self.words_in_common(clause, env);
        let said = |at: usize| words.get(&(at as u32)).is_some_and(|share| *share >= 0.5);
        let passes = |at: usize| {
            if known {
                Some(self.subgroup_env[at].as_str()) == env
            } else {
                open.contains_key(&self.index.subgroups[at].ig) || said(at)
            }
        };
        let mut near: Vec<Near> = (0..self.index.subgroups.len())
            .filter(|&at| passes(at))
            .map(|at| Near {
                at,
                cosine: dot(&self.index.subgroups[at].centroid, z),
                words: words.get(&(at as u32)).copied().unwrap_or(0.0),
            })
            .collect();
        let key = |n: &Near| n.cosine + weight * n.words;
        let support = |n: &Near| self.index.subgroups[n.at].support;
        near.sort_by(|a, b| {
            key(b).total_cmp(&key(a)).then(support(b).cmp(&support(a))).then(a.at.cmp(&b.at))
        });
        near.truncate(count);
        near
    }

    /// For each subgroup that shares a word with the clause: the share of the clause's known words, each weighted by
    /// `ln(1 + subgroups / subgroups with the word)`. Words of the environment's own name do not count.
    fn words_in_common(&self, clause: &str, env: Option<&str>) -> HashMap<u32, f32> {
        let named = env.map(stems).unwrap_or_default();
        let total = self.index.subgroups.len() as f32;
        let mut shares: HashMap<u32, f32> = HashMap::new();
        let mut whole = 0.0;
        let mut said = stems(&without_values(clause));
        // The verb counts by what it asks for, in whatever word the clause has it.
        said.extend(
            tokens(clause).first().map(|verb| stem(verb_class(&verb.lower))).filter(|s| !said.contains(s)),
        );
        for stem in said.iter().filter(|s| !named.contains(s)) {
            let Some(with) = self.stems.get(stem) else { continue };
            let weight = (1.0 + total / with.len() as f32).ln();
            whole += weight;
            for at in with {
                *shares.entry(*at).or_default() += weight;
            }
        }
        shares.values_mut().for_each(|share| *share /= whole);
        shares
    }

    /// The skill of a subgroup that is seen most often, with its representative traces that follow it step by step.
    pub(super) fn best_skill(&self, sg: i32) -> Option<&Skill> {
        self.skills.get(&sg).and_then(|skills| skills.first()).filter(|s| !s.steps.is_empty())
    }

    /// The trace of a unit.
    pub(super) fn trace(&self, unit_id: &str) -> Option<&PlanTrace> {
        self.place.get(unit_id).map(|&row| &self.traces[row])
    }
}

/// The environment tag that more than half of these rows have; empty when none has.
fn majority<'r>(rows: impl Iterator<Item = &'r usize>, traces: &[PlanTrace]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut total = 0;
    for &row in rows {
        *counts.entry(traces[row].env_tag.as_str()).or_default() += 1;
        total += 1;
    }
    counts.into_iter().find(|(_, n)| 2 * n > total).map_or(String::new(), |(tag, _)| tag.to_owned())
}
