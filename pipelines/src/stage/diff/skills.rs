//! Skills of two runs, matched inside the subgroups that belong together.

use std::collections::BTreeSet;

use serde::Serialize;
use tracemill_data::artifact::{Skill, SkillStep};

use super::Level;
use super::side::Side;

/// What became of a skill.
#[derive(Debug, Default, Serialize)]
pub(super) struct SkillChange {
    /// Its id in the first run; none where it is new.
    pub before: Option<String>,
    /// Its id in the second; none where it is gone.
    pub after: Option<String>,
    /// What it does.
    pub title: String,
    /// The medoid is another member: which before, which now.
    pub medoid: Option<[String; 2]>,
    /// The verbs are others: which before, which now.
    pub steps: Option<[String; 2]>,
    /// Slots that are others, each with its place.
    pub slots: Vec<String>,
    /// Supporting members before and now, where they differ.
    pub support: Option<[u32; 2]>,
}

impl SkillChange {
    /// Whether anything is not as it was; ids may be numbered anew.
    pub fn is_one(&self) -> bool {
        self.before.is_none()
            || self.after.is_none()
            || self.medoid.is_some()
            || self.steps.is_some()
            || !self.slots.is_empty()
            || self.support.is_some()
    }

    /// `added`, `removed`, or what changed.
    pub fn what(&self) -> String {
        match (&self.before, &self.after) {
            (None, _) => return "added".to_owned(),
            (_, None) => return "removed".to_owned(),
            _ => {}
        }
        let parts = [
            (self.medoid.is_some(), "re-medoided"),
            (self.steps.is_some(), "steps"),
            (!self.slots.is_empty(), "slots"),
            (self.support.is_some(), "support"),
        ];
        parts.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect::<Vec<_>>().join(", ")
    }

    /// The particulars, in words.
    pub fn told(&self) -> String {
        let mut parts = Vec::new();
        if let Some([a, b]) = &self.steps {
            parts.push(format!("{a} → {b}"));
        }
        parts.extend(self.slots.iter().cloned());
        if let Some([a, b]) = &self.medoid {
            parts.push(format!("medoid {a} → {b}"));
        }
        if let Some([a, b]) = self.support {
            parts.push(format!("support {a} → {b}"));
        }
        parts.join("; ")
    }
}

/// Matches skills: of subgroups that belong together, first those with the same verbs, then those that share most members.
pub(super) fn compare(before: &Side, after: &Side, subgroups: &Level) -> Vec<SkillChange> {
    let mut pairs: Vec<(BTreeSet<i32>, BTreeSet<i32>)> = { subgroups.changes.iter() }
        .map(|c| (c.change.before.iter().copied().collect(), c.change.after.iter().copied().collect()))
        .collect();
    // What is the same is not among the changes: those groups have the same members.
    let changed: BTreeSet<i32> = pairs.iter().flat_map(|(a, _)| a.iter().copied()).collect();
    let sgs: BTreeSet<i32> = before.skills.iter().map(|s| s.sg).filter(|sg| !changed.contains(sg)).collect();
    for sg in sgs {
        let member = before.units.iter().find(|(_, unit)| unit.sg == sg).map(|(id, _)| id);
        let there = member.and_then(|id| after.units.get(id)).map(|unit| unit.sg);
        pairs.push((BTreeSet::from([sg]), BTreeSet::from_iter(there)));
    }
    let mut changes = Vec::new();
    for (a, b) in pairs {
        let of = |side: &'_ Side, groups: &BTreeSet<i32>| -> Vec<Skill> {
            side.skills.iter().filter(|skill| groups.contains(&skill.sg)).cloned().collect()
        };
        matched(of(before, &a), of(after, &b), &mut changes);
    }
    changes
}

fn verbs(skill: &Skill) -> Vec<&str> {
    skill.steps.iter().map(|step| step.verb.as_str()).collect()
}

fn shared(a: &Skill, b: &Skill) -> usize {
    let members: BTreeSet<&String> = a.member_unit_ids.iter().collect();
    b.member_unit_ids.iter().filter(|id| members.contains(id)).count()
}

fn matched(before: Vec<Skill>, mut after: Vec<Skill>, out: &mut Vec<SkillChange>) {
    let mut open = Vec::new();
    for a in before {
        let same_verbs = after.iter().enumerate().filter(|(_, b)| verbs(&a) == verbs(b));
        match same_verbs.max_by_key(|(i, b)| (shared(&a, b), std::cmp::Reverse(*i))).map(|(i, _)| i) {
            Some(i) => out.push(pair(&a, &after.remove(i))),
            None => open.push(a),
        }
    }
    for a in open {
        let sharing = after.iter().enumerate().filter(|(_, b)| shared(&a, b) > 0);
        match sharing.max_by_key(|(i, b)| (shared(&a, b), std::cmp::Reverse(*i))).map(|(i, _)| i) {
            Some(i) => out.push(pair(&a, &after.remove(i))),
            None => {
                out.push(SkillChange { before: Some(a.skill_id), title: a.title, ..SkillChange::default() });
            }
        }
    }
    out.extend(after.into_iter().map(|b| SkillChange {
        after: Some(b.skill_id),
        title: b.title,
        ..SkillChange::default()
    }));
}

fn pair(a: &Skill, b: &Skill) -> SkillChange {
    let other = |a: &str, b: &str| (a != b).then(|| [a.to_owned(), b.to_owned()]);
    let said = |skill: &Skill| verbs(skill).join(" ");
    let steps = other(&said(a), &said(b));
    SkillChange {
        before: Some(a.skill_id.clone()),
        after: Some(b.skill_id.clone()),
        title: b.title.clone(),
        medoid: other(&a.medoid_unit_id, &b.medoid_unit_id),
        slots: if steps.is_none() { slots(&a.steps, &b.steps) } else { Vec::new() },
        steps,
        support: (a.support != b.support).then_some([a.support, b.support]),
    }
}

/// Slots of the same steps that have another type, are fixed or free now, or are there in one of them only.
fn slots(a: &[SkillStep], b: &[SkillStep]) -> Vec<String> {
    let mut told = Vec::new();
    for (number, (a, b)) in a.iter().zip(b).enumerate() {
        let slot = |step: &SkillStep, field: &str| {
            let arg = step.args.iter().find(|arg| arg.field == field);
            arg.map(|arg| arg.value.clone().unwrap_or_else(|| arg.kind.clone()))
        };
        let fields: BTreeSet<&str> = a.args.iter().chain(&b.args).map(|arg| arg.field.as_str()).collect();
        for field in fields {
            let (was, is) = (slot(a, field), slot(b, field));
            if was != is {
                let word = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
                told.push(format!("step {} {} {field}: {} → {}", number + 1, b.verb, word(was), word(is)));
            }
        }
    }
    told
}
