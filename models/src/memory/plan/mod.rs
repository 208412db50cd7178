//! Planning with memory (`IntentCUA`, section 4, appendices B and E): a command becomes task units and an intent
//! prototype, the prototype a plan, the plan acts on screens.
//!
//! * [`Decompose`]: command → slots, each one ACT with its ENV; by rules, or by what else implements the trait.
//! * [`PlanMemory`]: subgroups, units, skills and approved plans, ready to be asked.
//! * [`Planner`]: the three cases. Case 2: a stored plan covers every ACT and is bound anew. Case 3: at most two ACTs
//!   are missing; each is filled by the best supported skill of its nearest subgroup. Case 1: each slot is synthesised
//!   from the two nearest units of its nearest subgroup. Where nothing is near, default action templates remain.
//! * [`execute`](fn@execute): algorithm 1, Plan-Optimizer and Critic, on whatever implements [`World`].
//! * [`Replay`]: recorded episodes as such a world.
//!
//! Where the paper asks a language model, rules stand in: which of the retrieved subgroups is meant is decided by the
//! cosine and by the words that the clause shares with the subgroup's traces ([`PlanSettings::word_weight`]); steps
//! are those of one exemplar, with parameters where exemplars differ. No step names anything that is in neither the
//! command nor the memory: what cannot be bound stays open, as its type.

mod bind;
mod compare;
mod decompose;
mod execute;
mod fill;
mod memory;
mod planner;
mod replay;
mod stored;
#[cfg(test)]
mod tests;
mod words;

use thiserror::Error;

pub use compare::{Agreement, Wanted, agreement, equal_steps, step_consistency};
pub use decompose::{Act, Decompose, RuleDecomposer, Slot, named_environment, task_units};
pub use execute::{Attempt, Deed, Execution, ExecutorSettings, Observation, Verdict, World, execute};
pub use memory::{EncoderPrototypes, PlanMemory, PlanTrace, Prototypes, StoredPlan, StoredUnit, trace_steps};
pub use planner::{PlanSettings, Planner, Variant};
pub use replay::{RecordedStep, Replay};

use super::MemoryError;

/// Why there is no plan.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The command cannot be taken apart.
    #[error("the command cannot be read: {0}")]
    Command(String),
    /// The memory contradicts itself.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The embedder failed.
    #[error("embedding the command: {0}")]
    Embed(#[from] crate::embed::EmbedError),
    /// The encoder failed.
    #[error("encoding the command: {0}")]
    Encode(String),
}
