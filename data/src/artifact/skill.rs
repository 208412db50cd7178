//! `R/skills/`: parameterised skill schemas ("skill hints", IntentCUA section 3.2).

use serde::{Deserialize, Serialize};

/// A typed argument of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillArg {
    /// What the argument is for: `target`, `text`, `key`, `app`, `direction`.
    pub field: String,
    /// Its type, `<query>`, `<url>`, …, or the literal value all supporting members share.
    #[serde(rename = "type")]
    pub kind: String,
    /// Values it replaced, most frequent first.
    pub examples: Vec<String>,
}

/// A step of a schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillStep {
    /// Canonical predicate, one of Φ's verbs.
    pub verb: String,
    /// Its typed arguments.
    pub args: Vec<SkillArg>,
}

/// A step that members had and the schema has not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedStep {
    /// The unit it was removed from.
    pub unit_id: String,
    /// The step's number in its episode.
    pub step: u32,
    /// Canonical predicate of the step.
    pub verb: String,
    /// The rule that removed it: `repeat`, `undo_pair`, `wait`, `dismissed_popup`, `terminal`.
    pub rule: String,
}

/// A parameterised schema of a subgroup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skill {
    /// `sg<sg>.<rank>`.
    pub skill_id: String,
    /// Intent group.
    pub ig: i32,
    /// Subgroup.
    pub sg: i32,
    /// 0 for the best supported schema of its subgroup.
    pub rank: u32,
    /// One line for a person: environment and what is done there.
    pub title: String,
    /// The steps, in order.
    pub steps: Vec<SkillStep>,
    /// Members of the subgroup whose sequence is within the threshold of the schema's.
    pub support: u32,
    /// Members of the subgroup.
    pub members: u32,
    /// The member that is the medoid.
    pub medoid_unit_id: String,
    /// Supporting members, in unit order.
    pub member_unit_ids: Vec<String>,
    /// The nearest supporting members under `d_sig`, best first: concrete exemplars.
    pub representative_unit_ids: Vec<String>,
    /// Incidental steps left out, with the rule that removed each.
    pub removed_steps: Vec<RemovedStep>,
    /// Version of Φ.
    pub alias_map: String,
}
