//! `diff`: how the memories of two runs differ, and why: intents matched by the members that both runs have, skills, lessons.

mod page;
mod side;
mod skills;
mod told;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};
use tracemill_models::metrics::{Became, GroupChange, NOISE, adjusted_rand_index, match_groups, stability};

use crate::cli::DiffArgs;
use crate::publish::Folder;
use crate::run::write_json;
use crate::table;
use side::Side;
use skills::SkillChange;

/// Compares two runs.
///
/// # Errors
/// A run without units, intents or skills; artifacts that cannot be read.
pub fn run(args: &DiffArgs) -> Result<()> {
    let (before, after) = (Side::read(&args.before)?, Side::read(&args.after)?);
    let difference = Difference::of(&before, &after);
    if let Some(out) = &args.out {
        let folder = Folder::begin(out, "diff")?;
        write_json(&folder.dir().join("diff.json"), &difference)?;
        page::write(&folder.dir().join("diff.html"), &difference)?;
        let inputs: Vec<_> = before.files("a").into_iter().chain(after.files("b")).collect();
        let counts = BTreeMap::from([("changes".to_owned(), json!(difference.changes()))]);
        folder.publish(Value::Null, 0, &inputs, counts)?;
    }
    if args.json {
        table::print(&serde_json::to_string_pretty(&difference)?);
    } else {
        table::print(&told::told(&difference, args.out.as_deref()));
    }
    Ok(())
}

/// Everything that two runs differ in.
#[derive(Debug, Serialize)]
struct Difference {
    before: String,
    after: String,
    /// What the runs were made of and how, where it is not the same.
    causes: Vec<Cause>,
    units: Units,
    intent_groups: Level,
    subgroups: Level,
    skills: Vec<SkillChange>,
    skills_same: usize,
    lessons: side::LessonChanges,
}

/// A reason why artifacts differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Cause {
    /// `source`, `setting`, `seed` or `program`.
    kind: &'static str,
    /// Which.
    what: String,
    /// In the first run; none where it has no such thing.
    before: Option<String>,
    /// In the second.
    after: Option<String>,
}

/// Which units the runs have.
#[derive(Debug, Serialize)]
struct Units {
    common: usize,
    only_before: usize,
    only_after: usize,
    /// Common units whose views are not the same.
    relabelled: usize,
    /// Units of one run only, by the format of their source.
    only_before_by_source: BTreeMap<String, usize>,
    only_after_by_source: BTreeMap<String, usize>,
}

/// Intent groups, or subgroups.
#[derive(Debug, Serialize)]
struct Level {
    before: usize,
    after: usize,
    same: usize,
    /// Weighted mean Jaccard index of the first run's groups; none without a common unit in one.
    stability: Option<f64>,
    /// Adjusted Rand index over the common units, noise as one group.
    adjusted_rand_index: Option<f64>,
    /// Common units that are noise in the first run only, and in the second only.
    noise_before_only: usize,
    noise_after_only: usize,
    changes: Vec<Change>,
}

/// A change of groups, with what explains it.
#[derive(Debug, Serialize)]
struct Change {
    #[serde(flatten)]
    change: GroupChange,
    /// What the groups are about.
    title: String,
    /// Members that only the second run has, by the format of their source.
    new_members: BTreeMap<String, usize>,
    /// Members that only the first run has.
    gone_members: BTreeMap<String, usize>,
    /// Common members that came from noise, and from other groups.
    from_noise: usize,
    from_groups: usize,
    /// Common members that went to noise, and to other groups.
    to_noise: usize,
    to_groups: usize,
}

impl Change {
    /// Whether anything at all is not as it was.
    fn is_one(&self) -> bool {
        self.change.became != Became::Same || !self.new_members.is_empty() || !self.gone_members.is_empty()
    }

    /// Why, in words.
    fn why(&self) -> String {
        let by_source = |members: &BTreeMap<String, usize>| {
            members.iter().map(|(source, n)| format!("{n} of {source}")).collect::<Vec<_>>().join(", ")
        };
        let mut parts = Vec::new();
        if !self.new_members.is_empty() {
            parts.push(format!("new units: {}", by_source(&self.new_members)));
        }
        if !self.gone_members.is_empty() {
            parts.push(format!("units gone: {}", by_source(&self.gone_members)));
        }
        let moved = [
            (self.from_noise, "from noise"),
            (self.from_groups, "from other groups"),
            (self.to_noise, "to noise"),
            (self.to_groups, "to other groups"),
        ];
        parts.extend(moved.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
        if parts.is_empty() {
            parts.push("the same units, grouped otherwise".to_owned());
        }
        parts.join("; ")
    }
}

impl Difference {
    fn of(before: &Side, after: &Side) -> Self {
        let common: Vec<&str> =
            before.units.keys().filter(|id| after.units.contains_key(*id)).map(String::as_str).collect();
        let subgroups = level(before, after, &common, |unit| unit.sg);
        let skills = skills::compare(before, after, &subgroups);
        Self {
            before: before.name.clone(),
            after: after.name.clone(),
            causes: side::causes(before, after),
            units: Units {
                common: common.len(),
                only_before: before.units.len() - common.len(),
                only_after: after.units.len() - common.len(),
                relabelled: common
                    .iter()
                    .filter(|id| before.units[**id].views != after.units[**id].views)
                    .count(),
                only_before_by_source: by_source(
                    before,
                    before.units.keys().filter(|id| !after.units.contains_key(*id)),
                ),
                only_after_by_source: by_source(
                    after,
                    after.units.keys().filter(|id| !before.units.contains_key(*id)),
                ),
            },
            intent_groups: level(before, after, &common, |unit| unit.ig),
            skills_same: skills.iter().filter(|skill| !skill.is_one()).count(),
            skills: skills.into_iter().filter(SkillChange::is_one).collect(),
            subgroups,
            lessons: side::lessons(before, after),
        }
    }

    /// How many things differ.
    fn changes(&self) -> usize {
        let groups = |level: &Level| level.changes.len();
        groups(&self.intent_groups) + groups(&self.subgroups) + self.skills.len() + self.lessons.changes()
    }
}

fn by_source<'a>(side: &Side, ids: impl Iterator<Item = &'a String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    ids.for_each(|id| *counts.entry(side.units[id].source.clone()).or_insert(0) += 1);
    counts
}

fn level(before: &Side, after: &Side, common: &[&str], label: fn(&side::Member) -> i32) -> Level {
    let labels = |side: &Side| common.iter().map(|id| label(&side.units[*id])).collect::<Vec<i32>>();
    let groups = |side: &Side| -> BTreeSet<i32> {
        side.units.values().map(label).filter(|group| *group != NOISE).collect()
    };
    let (a, b) = (labels(before), labels(after));
    let (all_a, all_b) = (groups(before), groups(after));
    let matched = match_groups(&a, &b, &all_a, &all_b);
    let only = |side: &Side, other: &Side, wanted: &[i32]| {
        let in_groups = |id: &&String| wanted.contains(&label(&side.units[*id]));
        by_source(side, side.units.keys().filter(|id| !other.units.contains_key(*id)).filter(in_groups))
    };
    let changes: Vec<Change> = matched
        .into_iter()
        .map(|change| {
            let count = |stays: &[i32], goes: &dyn Fn(i32) -> bool, from: &[i32], to: &[i32]| {
                from.iter().zip(to).filter(|(from, to)| stays.contains(from) && goes(**to)).count()
            };
            let other = |groups: &[i32], group: i32| group != NOISE && !groups.contains(&group);
            Change {
                title: title(before, after, &change, label),
                new_members: only(after, before, &change.after),
                gone_members: only(before, after, &change.before),
                from_noise: count(&change.after, &|from| from == NOISE, &b, &a),
                from_groups: count(&change.after, &|from| other(&change.before, from), &b, &a),
                to_noise: count(&change.before, &|to| to == NOISE, &a, &b),
                to_groups: count(&change.before, &|to| other(&change.after, to), &a, &b),
                change,
            }
        })
        .collect();
    let noise = |here: &[i32], there: &[i32]| {
        here.iter().zip(there).filter(|(here, there)| **here == NOISE && **there != NOISE).count()
    };
    Level {
        before: all_a.len(),
        after: all_b.len(),
        same: changes.iter().filter(|change| !change.is_one()).count(),
        stability: stability(&a, &b),
        adjusted_rand_index: adjusted_rand_index(&a, &b),
        noise_before_only: noise(&a, &b),
        noise_after_only: noise(&b, &a),
        changes: changes.into_iter().filter(Change::is_one).collect(),
    }
}

/// What a change is about: the most frequent description of the members.
fn title(before: &Side, after: &Side, change: &GroupChange, label: fn(&side::Member) -> i32) -> String {
    let (side, groups) =
        if change.after.is_empty() { (before, &change.before) } else { (after, &change.after) };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let members = side.units.values().filter(|member| groups.contains(&label(member)));
    members.for_each(|member| *counts.entry(&member.title).or_insert(0) += 1);
    let most = counts.into_iter().max_by_key(|(text, n)| (*n, std::cmp::Reverse(*text)));
    most.map(|(text, _)| text.to_owned()).unwrap_or_default()
}
