//! Execution feedback: rewards of the high-level agents (CES, section 4.3 and appendix A.2).

mod profile;
mod reward;

pub use profile::{FormatRule, PointRule, Profile, TextRule};
pub use reward::{AgentReward, Outcome, Score, agent_reward, score_action, score_reply};
