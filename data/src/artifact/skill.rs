//! `R/skills/`: parameterised skill schemas ("skill hints", `IntentCUA` section 3.2).

use serde::{Deserialize, Serialize};

/// A typed argument of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillArg {
    /// What the argument is for, one of Φ's fields: `target`, `text`, `key`, `app`, `direction`, …
    pub field: String,
    /// Its type: `<query>`, `<url>`, `<element>`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The literal that nearly all supporting members share; none for a parameter, which is bound when
    /// the skill is used.
    pub value: Option<String>,
    /// Values the members had, exactly as they had them, most frequent first.
    pub examples: Vec<String>,
    /// Number of further distinct values that `examples` does not show; none when it shows all.
    pub more: Option<u32>,
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
    /// The rule that removed it: `repeat`, `undo_pair`, `wait`, `dismissed_popup`,
    /// `transition`, `terminal`.
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
    /// Incidental steps of the supporting members, left out, with the rule that removed each.
    pub removed_steps: Vec<RemovedStep>,
    /// Version of Φ.
    pub alias_map: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet_io::{read_table, write_table};

    #[test]
    fn skills_round_trip_through_parquet() {
        let skill = Skill {
            skill_id: "sg4.0".into(),
            ig: 1,
            sg: 4,
            rank: 0,
            title: "Clock · save".into(),
            steps: vec![SkillStep {
                verb: "save".into(),
                args: vec![
                    SkillArg {
                        field: "target".into(),
                        kind: "<element>".into(),
                        value: Some("Save".into()),
                        examples: vec!["Save".into()],
                        more: None,
                    },
                    SkillArg {
                        field: "text".into(),
                        kind: "<query>".into(),
                        value: None,
                        examples: vec!["a".into(), "b".into()],
                        more: Some(7),
                    },
                ],
            }],
            support: 2,
            members: 3,
            medoid_unit_id: "e/0-1".into(),
            member_unit_ids: vec!["e/0-1".into(), "f/0-1".into()],
            representative_unit_ids: vec!["e/0-1".into()],
            removed_steps: vec![],
            alias_map: "1.0.0".into(),
        };
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("skills.parquet");
        let rows = [skill];
        write_table(&path, &rows).expect("writes");
        assert_eq!(read_table::<Skill>(&path).expect("reads"), rows);
    }
}
