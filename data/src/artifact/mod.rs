//! On-disk types of what later stages publish.

mod agent;
mod alias;
mod intents;
mod plan;
mod skill;
mod state;
mod truth;

pub use agent::{AgentPrompt, AgentRole, RowScreen};
pub use alias::{
    AliasError, AliasField, AliasMap, AliasRule, AliasVerb, Coverage, Mapped, MappedArg, TERMINAL,
};
pub use intents::{IntentRow, SubgroupRow};
pub use plan::{
    ActCoverage, Bound, NearSubgroup, Origin, Plan, PlanArg, PlanCase, PlanEvent, PlanEventKind, PlanStep,
    PlanUnit, TaskUnit, TraceArg, TraceStep,
};
pub use skill::{RemovedStep, Skill, SkillArg, SkillStep};
pub use state::{Lesson, LessonKind, Replaced, StateContext, StateStep, StateText, StepOutcome};
pub use truth::{ScreenPixels, Truth};
