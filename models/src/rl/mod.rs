//! Execution feedback (CES, section 4.3 and appendix A.2): rewards of the high-level agents, and the
//! objective that learns from them.
//!
//! * `profile`: scorer profiles; `reward`: replies, actions and agents scored by them
//! * `settings`: the objective's settings and presets
//! * `advantage`: rewards of a group against each other
//! * `batch`: completion tokens, and what counts among them
//! * `importance`: ratios, truncated importance sampling, the gate of the first step
//! * `kl`: estimators of the divergence to the reference; the penalty in the reward
//! * `objective`: policy losses with their derivatives

mod advantage;
mod batch;
mod error;
mod importance;
mod kl;
mod objective;
mod profile;
mod reward;
mod settings;

pub use advantage::{
    AdvantageSettings, GroupAdvantages, SingleRule, StdRule, batch_advantages, group_advantages,
};
pub use batch::{Counts, TokenBatch};
pub use error::RlError;
pub use importance::ratio_gate;
pub use kl::{KlPenalty, kl_estimate, kl_in_reward};
pub use objective::{LossMetrics, PolicyLoss, policy_loss};
pub use profile::{FormatRule, PointRule, Profile, TextRule};
pub use reward::{AgentReward, Outcome, Score, agent_reward, score_action, score_reply};
pub use settings::{
    Aggregation, Clip, KlEstimator, KlSettings, KlTerm, LossKind, LossSettings, RatioLevel, TisLevel,
    TisSettings,
};
