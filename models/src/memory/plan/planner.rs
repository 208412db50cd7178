//! Cache-first planning: the three cases of figure 3.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tracemill_data::artifact::{
    ActCoverage, AliasMap, NearSubgroup, Plan, PlanCase, PlanStep, PlanUnit, Skill,
};
use xxhash_rust::xxh3::xxh3_64;

use super::PlanError;
use super::decompose::{Act, Decompose, Slot, task_units};
use super::fill::Filler;
use super::memory::{Near, PlanMemory, PlanTrace, Prototypes, StoredPlan, StoredUnit};
use super::words::stems;
use crate::memory::vectors::dot;

/// Settings of planning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlanSettings {
    /// ACTs that a stored plan may lack and still be built on (appendix B: 2).
    pub max_missing: usize,
    /// Units that a slot is synthesised from (section 4.1: 2).
    pub exemplars: usize,
    /// Units of the greedy baseline (section 5.2: 3).
    pub greedy: usize,
    /// Intent groups that pass the gate of a slot that names no application.
    pub gates: usize,
    /// What a word in common weighs beside the cosine, where the paper's language model would choose among the
    /// subgroups retrieved.
    pub word_weight: f32,
    /// Least cosine of a subgroup that counts as near.
    pub near: f32,
    /// Subgroups named for each ACT in the answer.
    pub shown: usize,
}

impl Default for PlanSettings {
    fn default() -> Self {
        Self { max_missing: 2, exemplars: 2, greedy: 3, gates: 3, word_weight: 0.5, near: 0.3, shown: 3 }
    }
}

/// What the planner may use: the variants of table 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The command alone, by default action templates.
    NoTraces,
    /// The most similar units, ungated.
    Greedy,
    /// IG/SG gating; every slot is synthesised from its nearest subgroup.
    Intent,
    /// The same, and approved plans are reused; what one lacks is synthesised.
    PlanMemory,
    /// The whole: what an approved plan lacks is filled by skills.
    Full,
    /// Approved plans and skills, found by raw embeddings: no encoder, no groups.
    WithoutIntent,
}

impl Variant {
    /// In the order of table 1.
    pub const ALL: [Self; 6] =
        [Self::NoTraces, Self::Greedy, Self::Intent, Self::WithoutIntent, Self::PlanMemory, Self::Full];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoTraces => "no-traces",
            Self::Greedy => "greedy",
            Self::Intent => "intent",
            Self::WithoutIntent => "without-intent",
            Self::PlanMemory => "plan-memory",
            Self::Full => "full",
        }
    }

    fn gates(self) -> bool {
        matches!(self, Self::Intent | Self::PlanMemory | Self::Full)
    }

    fn reuses(self) -> bool {
        matches!(self, Self::PlanMemory | Self::Full | Self::WithoutIntent)
    }

    fn has_skills(self) -> bool {
        matches!(self, Self::Full | Self::WithoutIntent)
    }
}

/// Makes plans from a memory. The same memory, settings and command give the same plan.
pub struct Planner<'a> {
    /// What is known.
    pub memory: &'a PlanMemory,
    /// Φ: types of values, gestures.
    pub map: &'a AliasMap,
    /// Who takes commands apart.
    pub decomposer: &'a dyn Decompose,
    /// Who embeds them.
    pub prototypes: &'a dyn Prototypes,
    /// The settings.
    pub settings: &'a PlanSettings,
    /// What may be used.
    pub variant: Variant,
}

/// A slot with its prototype and what lies near it.
struct Intended {
    slot: Slot,
    z: Vec<f32>,
    /// Subgroups, best first; empty when ungated.
    ranked: Vec<Near>,
    /// The nearest subgroup, where it is near enough to be meant.
    near: Option<Near>,
}

/// A stored plan against the slots.
struct Match<'m> {
    plan: &'m StoredPlan,
    /// For each slot, the unit that covers it.
    units: Vec<Option<usize>>,
    covered: usize,
    /// Units that no slot asks for.
    extra: usize,
    similarity: f32,
}

/// What a slot's steps were made from: slots in a row that come to the same are one unit of the plan.
#[derive(PartialEq, Eq)]
enum Source {
    Stored(usize),
    Subgroup(i32),
    Unit(String),
    Slot(usize),
}

struct Filled {
    source: Source,
    env: String,
    sg: Option<i32>,
    steps: Vec<PlanStep>,
}

impl Planner<'_> {
    /// Plans a command.
    ///
    /// # Errors
    /// [`PlanError`] when the command holds nothing to do, or embedder or encoder fail.
    pub fn plan(&self, command: &str) -> Result<Plan, PlanError> {
        let command = command.trim();
        let slots =
            self.decomposer.decompose(command, &self.memory.environments).map_err(PlanError::Command)?;
        let task_units = task_units(&slots);
        let intended = self.intend(slots)?;
        let found = self.best_match(&intended);
        let missing = |m: &Match| intended.len() - m.covered;
        let found = found.filter(|m| missing(m) <= self.settings.max_missing && m.covered > 0);
        let case = match &found {
            Some(m) if missing(m) == 0 => PlanCase::Reuse,
            Some(_) => PlanCase::Fill,
            None => PlanCase::Synthesise,
        };
        let filled: Vec<Filled> = intended
            .iter()
            .enumerate()
            .map(|(i, slot)| self.fill(i, slot, found.as_ref()))
            .collect::<Result<_, _>>()?;
        let coverage = self.coverage(&intended, found.as_ref());
        let units = self.joined(&intended, filled);
        let mut plan = Plan {
            plan_id: String::new(),
            command: command.to_owned(),
            case,
            why: self.why(case, &coverage, found.as_ref(), &intended),
            task_units,
            coverage,
            stored_plan: found.as_ref().map(|m| m.plan.plan_id.clone()),
            left_out: found.as_ref().map(Match::left_out).unwrap_or_default(),
            nearest: intended.iter().flat_map(|slot| self.nearest(slot)).collect(),
            units,
            planner: format!("{} {}", self.decomposer.name(), self.variant.name()),
        };
        plan.plan_id = plan_id(&plan);
        Ok(plan)
    }

    /// The intent prototype: each slot embedded and, with gating, its subgroups ranked.
    fn intend(&self, slots: Vec<Slot>) -> Result<Vec<Intended>, PlanError> {
        if self.variant == Variant::NoTraces {
            let empty = |slot| Intended { slot, z: vec![], ranked: vec![], near: None };
            return Ok(slots.into_iter().map(empty).collect());
        }
        let texts: Vec<(Option<&str>, &str)> =
            slots.iter().map(|s| (self.environment_text(s.env.as_deref()), s.clause.as_str())).collect();
        let encoded = self.prototypes.encode(&texts)?;
        let settings = self.settings;
        let intend = |(slot, z): (Slot, Vec<f32>)| {
            let mut ranked = Vec::new();
            if self.variant.gates() {
                let (env, count) = (slot.env.as_deref(), settings.shown.max(1));
                ranked = self.memory.rank(&z, &slot.clause, env, settings.gates, count, settings.word_weight);
            }
            // Cosines say how alike, not whether: a subgroup is meant only if the command also names its application
            // or says one of its words.
            let in_env = |n: &Near| slot.env.as_deref() == Some(self.memory.subgroup_env[n.at].as_str());
            let near =
                ranked.first().copied().filter(|n| n.cosine >= settings.near && (n.words > 0.0 || in_env(n)));
            Intended { slot, z, ranked, near }
        };
        Ok(slots.into_iter().zip(encoded).map(intend).collect())
    }

    pub(super) fn environment_text(&self, env: Option<&str>) -> Option<&str> {
        self.memory.environments.get(env?).map(String::as_str).filter(|text| !text.trim().is_empty())
    }

    /// The stored plan that covers most: then the one that lacks least, has least beside it, and is nearest.
    fn best_match(&self, intended: &[Intended]) -> Option<Match<'_>> {
        if !self.variant.reuses() {
            return None;
        }
        let candidates = self.memory.plans.iter().map(|plan| self.compare(plan, intended));
        let better = |a: &Match, b: &Match| {
            (a.covered.cmp(&b.covered))
                .then(b.extra.cmp(&a.extra))
                .then(a.similarity.total_cmp(&b.similarity))
                .then(b.plan.plan_id.cmp(&a.plan.plan_id))
        };
        candidates.filter(|m| m.covered > 0).max_by(better)
    }

    /// Which unit of the plan covers which slot. A unit may cover several slots in a row, units are taken in their
    /// order, and a slot is covered by a unit of its application and either of its subgroup or of the same ACT.
    fn compare<'m>(&self, plan: &'m StoredPlan, intended: &[Intended]) -> Match<'m> {
        let mut units = Vec::with_capacity(intended.len());
        let mut at = 0;
        let mut similarity = 0.0;
        for slot in intended {
            let fits = |unit: &usize| self.covers(&plan.units[*unit], slot);
            let best = (at..plan.units.len()).filter(fits).max_by(|a, b| {
                let score = |u: usize| self.likeness(&plan.units[u], slot);
                score(*a).total_cmp(&score(*b)).then(b.cmp(a))
            });
            if let Some(unit) = best {
                similarity += self.likeness(&plan.units[unit], slot);
                at = unit;
            }
            units.push(best);
        }
        let used: BTreeSet<usize> = units.iter().flatten().copied().collect();
        let covered = units.iter().flatten().count();
        Match { plan, units, covered, extra: plan.units.len() - used.len(), similarity }
    }

    fn likeness(&self, unit: &StoredUnit, slot: &Intended) -> f32 {
        let own = stems(&slot.slot.clause);
        let theirs = stems(&unit.description);
        let common = own.iter().filter(|w| theirs.contains(w)).count() as f32;
        let share = common / own.len().max(1) as f32;
        let cosine = if slot.z.len() == unit.z.len() { dot(&slot.z, &unit.z) } else { 0.0 };
        cosine + self.settings.word_weight * share
    }

    fn covers(&self, unit: &StoredUnit, slot: &Intended) -> bool {
        let elsewhere = slot
            .slot
            .env
            .as_ref()
            .is_some_and(|env| !unit.env.is_empty() && !unit.env.eq_ignore_ascii_case(env));
        if elsewhere {
            return false;
        }
        let subgroup = slot.near.map(|near| self.memory.index.subgroups[near.at].sg);
        let same_subgroup = subgroup.is_some_and(|sg| unit.subgroups.contains(&sg));
        // A subgroup of a small memory holds more than one task: its ACTs must at least be akin.
        let akin = |act: &Act| act.akin(&slot.slot.act);
        let same = |act: &Act| act.same(&slot.slot.act) && !act.object.is_empty();
        unit.acts.iter().map(|act| Act::read(act)).any(|act| same(&act) || (same_subgroup && akin(&act)))
    }

    fn fill(&self, number: usize, slot: &Intended, found: Option<&Match>) -> Result<Filled, PlanError> {
        let filler = Filler { map: self.map, memory: self.memory };
        if let Some((m, unit)) = found.and_then(|m| Some((m, m.units[number]?))) {
            let stored = &m.plan.units[unit];
            return Ok(Filled {
                source: Source::Stored(unit),
                env: slot.slot.env.clone().unwrap_or(stored.env.clone()),
                sg: slot
                    .near
                    .map(|n| self.memory.index.subgroups[n.at].sg)
                    .or(stored.subgroups.first().copied()),
                steps: filler.stored(&slot.slot, &m.plan.plan_id, &m.plan.command, stored),
            });
        }
        // Only gaps of a stored plan are filled by skills (Case 3).
        let skills = self.variant.has_skills() && found.is_some();
        let filled = if self.variant.gates() { self.by_subgroup(&filler, slot, skills) } else { None };
        match filled {
            Some(filled) => Ok(filled),
            None if matches!(self.variant, Variant::Greedy | Variant::WithoutIntent) => {
                Ok(self.ungated(&filler, number, slot, skills)?)
            }
            None => Ok(self.by_template(&filler, number, slot)),
        }
    }

    fn by_template(&self, filler: &Filler, number: usize, slot: &Intended) -> Filled {
        let env = slot.slot.env.clone().unwrap_or_default();
        Filled { source: Source::Slot(number), env, sg: None, steps: filler.template(&slot.slot, true) }
    }

    fn by_subgroup(&self, filler: &Filler, slot: &Intended, skills: bool) -> Option<Filled> {
        let near = slot.near?;
        let entry = &self.memory.index.subgroups[near.at];
        let env = slot.slot.env.clone().unwrap_or(self.memory.subgroup_env[near.at].clone());
        let filled = |steps| Filled { source: Source::Subgroup(entry.sg), env, sg: Some(entry.sg), steps };
        if let Some(skill) = self.memory.best_skill(entry.sg).filter(|_| skills) {
            return Some(filled(filler.skill(&slot.slot, skill)));
        }
        let base = *self
            .ranked_units(entry.representatives.iter().copied(), slot, self.settings.exemplars)
            .first()?;
        // What varies among the representative traces is a parameter, even if the exemplars happen to agree.
        let rows = entry.representatives.iter().map(|&row| &self.memory.traces[row]);
        let others: Vec<&PlanTrace> = rows.filter(|t| t.unit_id != base.unit_id).collect();
        Some(filled(filler.exemplars(&slot.slot, base, &others)))
    }

    /// Units by their similarity to the slot, those that serve it best first. The order of an exemplar that is taken
    /// as it is counts, so words in common decide here as they do among subgroups.
    fn ranked_units(
        &self,
        rows: impl Iterator<Item = usize>,
        slot: &Intended,
        count: usize,
    ) -> Vec<&PlanTrace> {
        let own = stems(&slot.slot.clause);
        let usable = rows.filter(|&row| !self.memory.traces[row].steps.is_empty());
        let mut scored: Vec<(f32, usize)> = usable
            .map(|row| (self.memory.vectors.vector(row).map_or(-1.0, |v| dot(v, &slot.z)), row))
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.truncate(count);
        let words = |row: usize| {
            let theirs = stems(&self.memory.traces[row].description);
            own.iter().filter(|w| theirs.contains(w)).count() as f32 / own.len().max(1) as f32
        };
        let key = |(cosine, row): &(f32, usize)| cosine + self.settings.word_weight * words(*row);
        scored.sort_by(|a, b| key(b).total_cmp(&key(a)).then(a.1.cmp(&b.1)));
        scored.into_iter().map(|(_, row)| &self.memory.traces[row]).collect()
    }

    /// The greedy baseline: the most similar of all units; without the intent level a gap takes the skill that the
    /// most similar unit supports.
    fn ungated(
        &self,
        filler: &Filler,
        number: usize,
        slot: &Intended,
        skills: bool,
    ) -> Result<Filled, PlanError> {
        let hits = self.memory.vectors.top_k(&slot.z, self.settings.greedy)?;
        let nearest = self.ranked_units(hits.iter().map(|h| h.unit), slot, self.settings.greedy);
        let Some((base, others)) = nearest.split_first() else {
            return Ok(self.by_template(filler, number, slot));
        };
        let skill = skills.then(|| self.skill_of(base)).flatten();
        let steps = match skill {
            Some(skill) => filler.skill(&slot.slot, skill),
            None => filler.exemplars(&slot.slot, base, others),
        };
        let env = slot.slot.env.clone().unwrap_or(base.env_tag.clone());
        Ok(Filled { source: Source::Unit(base.unit_id.clone()), env, sg: None, steps })
    }

    fn skill_of(&self, trace: &PlanTrace) -> Option<&Skill> {
        let (sg, at) = self.memory.skill_of_unit.get(&trace.unit_id)?;
        self.memory.skills[sg].get(*at).filter(|s| !s.steps.is_empty())
    }

    /// Slots into units: slots in a row that came to the same source are one, and an application that nothing opens is
    /// opened.
    fn joined(&self, intended: &[Intended], filled: Vec<Filled>) -> Vec<PlanUnit> {
        let filler = Filler { map: self.map, memory: self.memory };
        let mut units: Vec<PlanUnit> = Vec::new();
        let mut last: Option<(Source, usize)> = None;
        for (slot, part) in intended.iter().zip(filled) {
            let act = slot.slot.act.text();
            let same = last.as_ref().is_some_and(|(source, at)| {
                *source == part.source && *at == slot.slot.part && !matches!(part.source, Source::Slot(_))
            });
            if let Some(unit) = units.last_mut().filter(|_| same) {
                unit.description.clone_from(&slot.slot.context);
                unit.acts.push(act);
                keep_better_bound(&mut unit.steps, part.steps);
                continue;
            }
            let mut steps = part.steps;
            let before = units.last().map_or("", |u| u.env.as_str());
            let opens = steps.iter().any(|s| matches!(s.verb.as_str(), "open" | "switch_focus"));
            let known = self.memory.environments.contains_key(&part.env);
            if known && !opens && !part.env.eq_ignore_ascii_case(before) && self.variant != Variant::NoTraces
            {
                steps.insert(0, filler.opening(&part.env, slot.slot.env.is_some()));
            }
            units.push(PlanUnit {
                description: slot.slot.clause.clone(),
                env: part.env,
                acts: vec![act],
                sg: part.sg,
                steps,
            });
            last = Some((part.source, slot.slot.part));
        }
        units
    }

    fn coverage(&self, intended: &[Intended], found: Option<&Match>) -> ActCoverage {
        let mut coverage = ActCoverage::default();
        for (i, slot) in intended.iter().enumerate() {
            let act = slot.slot.act.text();
            coverage.required.push(act.clone());
            let covered = found.is_some_and(|m| m.units[i].is_some());
            if covered { coverage.covered.push(act) } else { coverage.missing.push(act) }
        }
        coverage
    }

    fn nearest(&self, slot: &Intended) -> Vec<NearSubgroup> {
        let entry = |near: &Near| {
            let subgroup = &self.memory.index.subgroups[near.at];
            NearSubgroup {
                act: slot.slot.act.text(),
                ig: subgroup.ig,
                sg: subgroup.sg,
                env: self.memory.subgroup_env[near.at].clone(),
                cosine: near.cosine,
                words: near.words,
            }
        };
        slot.ranked.iter().map(entry).collect()
    }

    fn why(
        &self,
        case: PlanCase,
        coverage: &ActCoverage,
        found: Option<&Match>,
        slots: &[Intended],
    ) -> String {
        let total = coverage.required.len();
        let alone = slots.iter().filter(|s| s.near.is_none()).count();
        let far = if alone > 0 && self.variant.gates() {
            format!("; nothing in the memory is near {alone} of {total} ACTs")
        } else {
            String::new()
        };
        match (case, found) {
            (PlanCase::Reuse, Some(m)) => format!("{} covers all {total} ACTs", m.plan.plan_id),
            (PlanCase::Fill, Some(m)) => format!(
                "{} covers {} of {total} ACTs, {} missing (at most {}): {}{far}",
                m.plan.plan_id,
                m.covered,
                coverage.missing.len(),
                self.settings.max_missing,
                coverage.missing.join(", "),
            ),
            _ if !self.variant.reuses() => format!("stored plans are not used{far}"),
            _ if self.memory.plans.is_empty() => format!("no plan is stored{far}"),
            _ => match self.best_match(slots) {
                Some(m) => format!(
                    "the best of {} stored plans lacks {} of {total} ACTs (at most {} may be missing){far}",
                    self.memory.plans.len(),
                    total - m.covered,
                    self.settings.max_missing,
                ),
                None => format!(
                    "none of {} stored plans has any of the {total} ACTs{far}",
                    self.memory.plans.len()
                ),
            },
        }
    }
}

impl Match<'_> {
    fn left_out(&self) -> Vec<String> {
        let extra = (0..self.plan.units.len()).filter(|u| !self.units.contains(&Some(*u)));
        extra.map(|u| self.plan.units[u].description.clone()).collect()
    }
}

/// Of two fillings of the same source, arguments that only the second could bind are taken from it.
fn keep_better_bound(steps: &mut [PlanStep], other: Vec<PlanStep>) {
    let args = |steps: &mut [PlanStep]| steps.iter().map(|s| s.args.len()).collect::<Vec<_>>();
    let mut other = other;
    if args(steps) != args(&mut other) {
        return;
    }
    for (step, theirs) in steps.iter_mut().zip(other) {
        for (arg, their) in step.args.iter_mut().zip(theirs.args) {
            if arg.value.is_none() && their.value.is_some() {
                *arg = their;
            }
        }
    }
}

/// Content decides the id, so that the same plan has the same id.
fn plan_id(plan: &Plan) -> String {
    let steps: Vec<String> =
        plan.steps().map(|s| format!("{}\u{1f}{:?}\u{1f}{}", s.words(), s.from, s.id)).collect();
    let content = format!("{}\u{1e}{}", plan.command, steps.join("\u{1e}"));
    format!("plan-{:016x}", xxh3_64(content.as_bytes()))
}
