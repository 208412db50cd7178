//! Plans: what `plan` prints, and what `R/plans/` keeps of those that were approved (`IntentCUA`, section 4.1 and
//! appendix B).

use serde::{Deserialize, Serialize};

/// A task unit of a command: `ENV[…] ACT[…]` and a short description (appendix B).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskUnit {
    /// Applications or sites it happens in, as the command names them and the memory knows them.
    pub env: Vec<String>,
    /// What is to be done, in order: a verb and what it is done to.
    pub act: Vec<String>,
    /// The words of the command that it was read from.
    pub description: String,
}

/// Where the value of an argument comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// From the words of the command.
    Command,
    /// From the memory: a literal that traces have in common.
    Memory,
    /// Not bound: the value is open, and its type says what is wanted.
    Open,
}

/// A typed argument of a planned step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanArg {
    /// One of Φ's fields: `target`, `text`, `app`, …
    pub field: String,
    /// Its type: `<query>`, `<element>`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The value; none where it is open.
    pub value: Option<String>,
    /// Where the value comes from.
    pub bound: Bound,
}

/// What a step was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A stored plan.
    Plan,
    /// A skill of a subgroup.
    Skill,
    /// A recorded unit.
    Unit,
    /// A default action template: no memory was near.
    Template,
}

/// A step of a plan: one of the vocabulary's verbs with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// One of Φ's 17 predicates.
    pub verb: String,
    /// Its arguments, in Φ's order.
    pub args: Vec<PlanArg>,
    /// What it was taken from.
    pub from: Origin,
    /// Id of the plan, skill or unit; of a template, the verb.
    pub id: String,
}

/// A contiguous block of steps that achieves one subgoal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanUnit {
    /// The words of the command that it serves.
    pub description: String,
    /// Application or site; empty when neither command nor memory says.
    pub env: String,
    /// The ACTs that it covers.
    pub acts: Vec<String>,
    /// Nearest subgroup of the memory it was made with; none when nothing was near.
    pub sg: Option<i32>,
    /// The steps, in order.
    pub steps: Vec<PlanStep>,
}

/// The three ways to a plan (figure 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanCase {
    /// Case 1: synthesised from units of the nearest subgroups.
    Synthesise,
    /// Case 2: a stored plan covers every ACT.
    Reuse,
    /// Case 3: a stored plan misses at most two ACTs, which skills fill.
    Fill,
}

impl PlanCase {
    /// The paper's number.
    pub fn number(self) -> u8 {
        match self {
            Self::Synthesise => 1,
            Self::Reuse => 2,
            Self::Fill => 3,
        }
    }

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Synthesise => "synthesise",
            Self::Reuse => "reuse",
            Self::Fill => "fill",
        }
    }
}

/// The ACTs of a command against those of the nearest stored plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActCoverage {
    /// What the command asks for.
    pub required: Vec<String>,
    /// What the stored plan has of it.
    pub covered: Vec<String>,
    /// What it lacks.
    pub missing: Vec<String>,
}

/// A subgroup near an ACT of the command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NearSubgroup {
    /// The ACT.
    pub act: String,
    /// Intent group.
    pub ig: i32,
    /// Subgroup.
    pub sg: i32,
    /// Application or site of most of its representative units; empty when they are of many.
    pub env: String,
    /// Cosine of the ACT's prototype and the subgroup's centroid.
    pub cosine: f32,
    /// Share of the ACT's words, weighted by rarity, that the subgroup's traces and skills have.
    pub words: f32,
}

/// A plan, and why it is this one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `plan-<hash of the content>`.
    pub plan_id: String,
    /// The command as it was given.
    pub command: String,
    /// Which way it was made.
    pub case: PlanCase,
    /// One sentence: why this case.
    pub why: String,
    /// The command, taken apart.
    pub task_units: Vec<TaskUnit>,
    /// The ACTs against the nearest stored plan.
    pub coverage: ActCoverage,
    /// The stored plan it builds on.
    pub stored_plan: Option<String>,
    /// Units of the stored plan that the command does not ask for: left out.
    pub left_out: Vec<String>,
    /// The nearest subgroups of each ACT, best first.
    pub nearest: Vec<NearSubgroup>,
    /// The plan itself.
    pub units: Vec<PlanUnit>,
    /// Who took the command apart and filled the slots: name and version.
    pub planner: String,
}

impl Plan {
    /// Every step, in order.
    pub fn steps(&self) -> impl Iterator<Item = &PlanStep> {
        self.units.iter().flat_map(|unit| &unit.steps)
    }

    /// Arguments that nothing in the command could be bound to.
    pub fn open(&self) -> impl Iterator<Item = &PlanArg> {
        self.steps().flat_map(|step| &step.args).filter(|arg| arg.bound == Bound::Open)
    }
}

impl PlanStep {
    /// Value of `field`, where it has one.
    pub fn value(&self, field: &str) -> Option<&str> {
        self.args.iter().find(|a| a.field == field).and_then(|a| a.value.as_deref())
    }

    /// The step in words, types in place of open values: `text_input "Oslo" in Search for a city`.
    pub fn words(&self) -> String {
        let shown = |field: &str| {
            self.args.iter().find(|a| a.field == field).map(|a| a.value.clone().unwrap_or(a.kind.clone()))
        };
        let mut text = self.verb.clone();
        if let Some(typed) = shown("text").or_else(|| shown("option")) {
            text.push_str(&format!(" \"{typed}\""));
        }
        for field in ["target", "key", "app", "url", "direction"] {
            if let Some(value) = shown(field) {
                let link = if field == "target" && text.contains('"') { " in " } else { " " };
                text.push_str(link);
                text.push_str(&value);
            }
        }
        text
    }
}

/// An argument of a recorded step after Φ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceArg {
    /// One of Φ's fields.
    pub field: String,
    /// Type of the value.
    #[serde(rename = "type")]
    pub kind: String,
    /// The value, as recorded.
    pub value: String,
}

/// A recorded step after Φ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStep {
    /// Its number in the episode.
    pub step: u32,
    /// Canonical predicate.
    pub verb: String,
    /// Its arguments, in Φ's order.
    pub args: Vec<TraceArg>,
}

impl TraceStep {
    /// Value of `field`, where it has one.
    pub fn value(&self, field: &str) -> Option<&str> {
        self.args.iter().find(|a| a.field == field).map(|a| a.value.as_str())
    }
}

/// What happened to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanEventKind {
    /// It may be reused.
    Approved,
    /// It was judged unfit, and is not kept; or an approved one no longer counts.
    Rejected,
}

/// A line of `R/plans/history.jsonl`: the file only ever grows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanEvent {
    /// 1, 2, …, without a gap.
    pub number: u64,
    /// What happened.
    pub event: PlanEventKind,
    /// To which plan.
    pub plan_id: String,
    /// The command it answers.
    pub command: String,
    /// The user's remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The plan, where it was approved. A rejected plan's steps are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}
