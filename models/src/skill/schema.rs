//! Induction: a subgroup's members become parameterised schemas, ranked by support.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tracemill_data::artifact::{AliasMap, Mapped, RemovedStep, Skill, SkillArg, SkillStep};
use tracemill_data::views::{CleanUnit, Unit, clean};

use super::align::align;
use super::coverage::AliasCoverage;
use super::medoid::{Signature, d_sig, medoid};
use super::params::Values;
use super::render::title;

/// Allows for the rounding of `1 − d_sig` at the threshold itself.
const ROUNDING: f64 = 1e-9;

/// Options of skill induction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkillSettings {
    /// Least `1 − d_sig` at which a member supports a schema, 0 to 1.
    pub support_threshold: f64,
    /// Most schemas of one subgroup.
    pub max_schemas: usize,
    /// Least support of every schema but the first of its subgroup.
    pub min_support: u32,
    /// Most example values of one argument.
    pub examples: usize,
    /// Most representative traces of one schema.
    pub representatives: usize,
}

impl Default for SkillSettings {
    fn default() -> Self {
        Self { support_threshold: 0.7, max_schemas: 3, min_support: 2, examples: 5, representatives: 5 }
    }
}

/// The members of one subgroup.
#[derive(Debug, Clone)]
pub struct Subgroup<'a> {
    /// Intent group.
    pub ig: i32,
    /// Subgroup; -1, noise, is counted in the coverage and becomes no skill.
    pub sg: i32,
    /// Its members, in any order.
    pub units: Vec<&'a Unit>,
}

/// What was induced from one subgroup.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SubgroupSkills {
    /// Intent group.
    pub ig: i32,
    /// Subgroup.
    pub sg: i32,
    /// Its schemas, best supported first.
    pub skills: Vec<Skill>,
    /// The incidental steps of all members, whether or not they support a schema, in unit order.
    pub removed: Vec<RemovedStep>,
    /// How Φ mapped the members' steps.
    pub coverage: AliasCoverage,
    /// Distinct predicate sequences among the members.
    pub distinct_sequences: usize,
    /// False when a medoid was searched among the most frequent sequences only.
    pub exact: bool,
}

/// Induces the schemas of every subgroup, in parallel; sorted by subgroup, then by intent group.
pub fn induce_all(subgroups: &[Subgroup], map: &AliasMap, settings: &SkillSettings) -> Vec<SubgroupSkills> {
    let mut induced: Vec<SubgroupSkills> =
        subgroups.par_iter().map(|subgroup| induce(subgroup, map, settings)).collect();
    induced.sort_by_key(|s| (s.sg, s.ig));
    induced
}

/// Induces the schemas of one subgroup (equation 6 and the parameterisation after it).
///
/// The first schema is the medoid of the members' cleaned predicate sequences, each further one the
/// medoid of the members that no earlier one explains; their rank follows the number of members, of the
/// whole subgroup, that support them. Members are taken in the order of their episode and first step, so
/// the result does not depend on the order given.
pub fn induce(subgroup: &Subgroup, map: &AliasMap, settings: &SkillSettings) -> SubgroupSkills {
    let mut units = subgroup.units.clone();
    units.sort_by_key(|u| (&u.episode_id, u.first_step, u.last_step, &u.unit_id));
    let mut result = SubgroupSkills {
        ig: subgroup.ig,
        sg: subgroup.sg,
        skills: vec![],
        removed: vec![],
        coverage: AliasCoverage::default(),
        distinct_sequences: 0,
        exact: true,
    };
    let members = clean(&units, map);
    for member in &members {
        for (mapped, action) in member.mapped.iter().zip(&member.unit.actions) {
            result.coverage.add(mapped, &action.source_verb);
        }
    }
    if subgroup.sg < 0 {
        return result;
    }
    result.removed = members.iter().flat_map(removed_steps).collect();
    let sequences = Sequences::of(&members);
    result.distinct_sequences = sequences.distinct.len();
    let (schemas, exact) = sequences.schemas(settings);
    result.exact = exact;
    let skill = |(rank, schema): (usize, &Schema)| {
        let builder = SkillBuilder { subgroup, map, settings, members: &members, sequences: &sequences };
        builder.build(rank as u32, schema)
    };
    result.skills = schemas.iter().enumerate().map(skill).collect();
    result
}

fn removed_steps<'a>(member: &'a CleanUnit) -> impl Iterator<Item = RemovedStep> + 'a {
    member.removed.iter().map(|&(i, rule)| RemovedStep {
        unit_id: member.unit.unit_id.clone(),
        step: member.unit.actions[i].step,
        verb: member.mapped[i].predicate.to_owned(),
        rule: rule.to_owned(),
    })
}

/// The distinct predicate sequences of a subgroup, in lexicographic order, with their members.
struct Sequences<'a> {
    distinct: Vec<(Signature<'a>, Vec<usize>)>,
}

/// A schema: its sequence and those that support it.
struct Schema {
    /// Index of its sequence.
    medoid: usize,
    /// Indices of the supporting sequences, with their `d_sig` to the medoid.
    supporting: Vec<(usize, f64)>,
    /// Members that support it.
    support: usize,
}

impl<'a> Sequences<'a> {
    fn of(members: &'a [CleanUnit]) -> Self {
        let mut distinct: BTreeMap<Signature<'a>, Vec<usize>> = BTreeMap::new();
        for (i, member) in members.iter().enumerate() {
            distinct.entry(member.signature()).or_default().push(i);
        }
        Self { distinct: distinct.into_iter().collect() }
    }

    /// The schemas, best supported first, and whether every medoid was an exact one.
    fn schemas(&self, settings: &SkillSettings) -> (Vec<Schema>, bool) {
        let mut schemas: Vec<Schema> = vec![];
        let mut exact = true;
        let mut left: Vec<usize> = (0..self.distinct.len()).collect();
        while schemas.len() < settings.max_schemas {
            let weighted = |&i: &usize| (self.distinct[i].0.as_slice(), self.distinct[i].1.len());
            let candidates: Vec<(&[&str], usize)> = left.iter().map(weighted).collect();
            let Some(found) = medoid(&candidates) else { break };
            let schema = self.schema(left[found.index], settings.support_threshold);
            if !schemas.is_empty() && schema.support < settings.min_support as usize {
                break;
            }
            exact &= found.exact;
            let explained: BTreeSet<usize> = schema.supporting.iter().map(|(i, _)| *i).collect();
            left.retain(|i| !explained.contains(i));
            schemas.push(schema);
        }
        // Stable: of two schemas with equal support, the one found first stays first.
        schemas.sort_by_key(|s| std::cmp::Reverse(s.support));
        (schemas, exact)
    }

    fn schema(&self, medoid: usize, threshold: f64) -> Schema {
        let distance = |(i, (sequence, _)): (usize, &(Signature, Vec<usize>))| {
            (i, d_sig(&self.distinct[medoid].0, sequence))
        };
        let near = |(i, d): &(usize, f64)| *i == medoid || 1.0 - d >= threshold - ROUNDING;
        let supporting: Vec<(usize, f64)> =
            self.distinct.iter().enumerate().map(distance).filter(near).collect();
        let support = supporting.iter().map(|(i, _)| self.distinct[*i].1.len()).sum();
        Schema { medoid, supporting, support }
    }
}

/// What a schema's skill is made from.
struct SkillBuilder<'s, 'a> {
    subgroup: &'s Subgroup<'a>,
    map: &'s AliasMap,
    settings: &'s SkillSettings,
    members: &'s [CleanUnit<'a>],
    sequences: &'s Sequences<'s>,
}

impl SkillBuilder<'_, '_> {
    fn build(&self, rank: u32, schema: &Schema) -> Skill {
        // By distance, then in unit order; `d_sig` is never negative, so its bits sort as it does.
        let mut nearest: Vec<(u64, usize)> = vec![];
        for (sequence, distance) in &schema.supporting {
            let members = &self.sequences.distinct[*sequence].1;
            nearest.extend(members.iter().map(|&m| (distance.to_bits(), m)));
        }
        nearest.sort_unstable();
        let mut supporting: Vec<usize> = nearest.iter().map(|(_, m)| *m).collect();
        let representatives = supporting.iter().take(self.settings.representatives);
        let representative_unit_ids = representatives.map(|&m| self.unit_id(m)).collect();
        supporting.sort_unstable();
        let medoid = self.sequences.distinct[schema.medoid].1[0];
        let steps = self.steps(medoid, &supporting);
        Skill {
            skill_id: format!("sg{}.{rank}", self.subgroup.sg),
            ig: self.subgroup.ig,
            sg: self.subgroup.sg,
            rank,
            title: title(self.environment(&supporting), &steps),
            steps,
            support: schema.support as u32,
            members: self.members.len() as u32,
            medoid_unit_id: self.unit_id(medoid),
            member_unit_ids: supporting.iter().map(|&m| self.unit_id(m)).collect(),
            representative_unit_ids,
            removed_steps: supporting.iter().flat_map(|&m| removed_steps(&self.members[m])).collect(),
            alias_map: self.map.version().to_owned(),
        }
    }

    fn unit_id(&self, member: usize) -> String {
        self.members[member].unit.unit_id.clone()
    }

    /// The environment tag that more than half of the members have; empty where they are of many.
    fn environment(&self, members: &[usize]) -> &str {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for &m in members {
            *counts.entry(&self.members[m].unit.env_tag).or_default() += 1;
        }
        counts.into_iter().find(|(_, n)| 2 * n > members.len()).map_or("", |(tag, _)| tag)
    }

    /// The medoid's steps, with the values that the supporting members have in the aligned ones.
    fn steps(&self, medoid: usize, supporting: &[usize]) -> Vec<SkillStep> {
        let kept = |m: usize| -> Vec<&Mapped> {
            self.members[m].kept.iter().map(|&i| &self.members[m].mapped[i]).collect()
        };
        let schema = kept(medoid);
        let mut values: Vec<StepValues> = schema.iter().map(|_| StepValues::default()).collect();
        for &m in supporting {
            let member = kept(m);
            for (step, aligned) in values.iter_mut().zip(align_fast(&schema, &member)) {
                if let Some(at) = aligned {
                    step.add(member[at]);
                }
            }
        }
        let step = |(mapped, values): (&&Mapped, StepValues)| SkillStep {
            verb: mapped.predicate.to_owned(),
            args: values.to_args(self.map, self.settings.examples),
        };
        schema.iter().zip(values).map(step).collect()
    }
}

/// [`align`], which members that have the schema's own sequence do not need.
fn align_fast(schema: &[&Mapped], member: &[&Mapped]) -> Vec<Option<usize>> {
    if schema.iter().map(|s| s.predicate).eq(member.iter().map(|s| s.predicate)) {
        (0..schema.len()).map(Some).collect()
    } else {
        align(schema, member)
    }
}

/// The values of one step of a schema, by field.
#[derive(Default)]
struct StepValues<'a> {
    members: u32,
    fields: BTreeMap<&'a str, Values<'a>>,
}

impl<'a> StepValues<'a> {
    fn add(&mut self, step: &Mapped<'a>) {
        self.members += 1;
        for arg in &step.args {
            self.fields.entry(arg.field).or_default().add(arg);
        }
    }

    /// The fields that at least half of the members have, in Φ's order.
    fn to_args(&self, map: &AliasMap, examples: usize) -> Vec<SkillArg> {
        let fields = map.fields().iter().filter_map(|f| self.fields.get_key_value(f.name.as_str()));
        let usual = fields.filter(|(_, values)| 2 * values.total() >= self.members);
        usual.map(|(field, values)| values.to_arg(field, map, examples)).collect()
    }
}
