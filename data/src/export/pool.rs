//! The program's own rows: the pool that `doctor`, `reward` and training read, and the ground truth that
//! the other forms carry as text.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Sample;
use super::target::Written;
use crate::artifact::{AgentPrompt, AgentRole};
use crate::prompt::{PromptMessage, Template, registry};

/// A row of the pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolRow {
    /// `train` or `test`.
    pub split: String,
    /// What the agent is asked.
    pub messages: Vec<PromptMessage>,
    /// Pictures that the messages have marks for, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// `name@version` of the template.
    pub prompt: String,
    /// Its hash.
    pub prompt_hash: String,
    /// What is to be learned, for SFT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// Task, state, screen and truth.
    #[serde(flatten)]
    pub agent: AgentPrompt,
    /// The templates of the frozen roles behind it, with their hashes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<Link>,
}

/// A frozen role that an output goes through before it is rewarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The role.
    pub role: String,
    /// `name@version` of its template.
    pub prompt: String,
    /// Its hash.
    pub prompt_hash: String,
}

pub(super) fn row(row: &Written) -> Value {
    let sample = &row.sample;
    let out = PoolRow {
        split: row.split.name().to_owned(),
        messages: sample.prompt.messages.clone(),
        images: row.picture.iter().map(|picture| picture.path.clone()).collect(),
        prompt: sample.prompt.template.clone(),
        prompt_hash: sample.prompt.hash.clone(),
        reply: sample.reply.clone(),
        agent: sample.agent.clone(),
        chain: if sample.reply.is_none() { chain(sample) } else { Vec::new() },
    };
    json!(out)
}

/// Coordinator and Executor for a State Tracker's output, the Executor for a Coordinator's.
pub(super) fn chain(sample: &Sample) -> Vec<Link> {
    let roles: &[&str] = if sample.agent.role == AgentRole::StateTracker {
        &["coordinator", "executor"]
    } else {
        &["executor"]
    };
    let link = |role: &&str| {
        let (name, template) = template(sample, role)?;
        let prompt = format!("{name}@{}", template.version);
        Some(Link { role: (*role).to_owned(), prompt, prompt_hash: template.hash() })
    };
    roles.iter().filter_map(link).collect()
}

/// The template by which a frozen role is asked about the row's screen.
pub(super) fn template(sample: &Sample, role: &str) -> Option<(&'static str, &'static Template)> {
    let text = sample.agent.screen.image.is_none();
    let name = if text { format!("{role}-text") } else { role.to_owned() };
    registry().templates().find(|(known, _)| *known == name)
}

/// What `serve reward` needs besides the output, as text: frameworks carry strings.
pub(super) fn ground_truth(sample: &Sample) -> String {
    serde_json::to_string(&sample.agent).unwrap_or_default()
}
