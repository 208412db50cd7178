//! What a high-level agent is asked and what should come of it: the rows that training pools, rewards and
//! evaluations share.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Truth;
use crate::action::ScreenSize;
use crate::trace::Element;

/// Which of the two high-level agents (CES, section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentRole {
    /// Its output is an atomic instruction.
    Coordinator,
    /// Its output is the state after the last step.
    StateTracker,
}

impl AgentRole {
    /// The name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::StateTracker => "state-tracker",
        }
    }
}

/// What an agent was asked, and what should have been done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentPrompt {
    /// Comes back with the reward.
    #[serde(default)]
    pub id: Value,
    /// Whose output it is.
    pub role: AgentRole,
    /// The high-level instruction (q).
    #[serde(default)]
    pub task: String,
    /// The state before the output: what the Coordinator plans from, and the State Tracker continues.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// The executor's latest output (u), which a State Tracker reads.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub executor_output: String,
    /// The screen on which the action is to be carried out.
    #[serde(default)]
    pub screen: RowScreen,
    /// What should have been done on it.
    pub truth: Truth,
}

/// A screen as a row gives it: with elements, a picture, or both.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RowScreen {
    /// In pixels; 0 when not known.
    pub width: u32,
    /// In pixels; 0 when not known.
    pub height: u32,
    /// What it shows, as text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elements: Vec<Element>,
    /// The picture: a data URL, or a path below the folder given with `--images`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

impl RowScreen {
    /// Its size, where it is known.
    pub fn size(&self) -> Option<ScreenSize> {
        (self.width > 0 && self.height > 0)
            .then_some(ScreenSize { width_px: self.width, height_px: self.height })
    }
}
