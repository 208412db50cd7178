//! Abstracted steps, refined contexts and lessons, as they lie in `R/states` and `R/lessons`.

use serde::{Deserialize, Serialize};

/// Whether a step did what it was meant to do, as far as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    /// The screen shows that it did.
    Success,
    /// The screen shows that it did not.
    Failure,
    /// Nothing shows either.
    Unknown,
}

impl StepOutcome {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Unknown => "unknown",
        }
    }
}

impl std::str::FromStr for StepOutcome {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        [Self::Success, Self::Failure, Self::Unknown]
            .into_iter()
            .find(|outcome| outcome.name() == s)
            .ok_or_else(|| format!("`{s}` is none of success, failure, unknown"))
    }
}

/// A row of `R/states/steps.parquet`: what a step did to the screen (`HiSA`, section 3.3.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateStep {
    /// The episode.
    pub episode_id: String,
    /// The step.
    pub step: u32,
    /// What was done, in words.
    pub action: String,
    /// `none`, `region`, `resized`, or why no change could be seen: `last`, `same_picture`, `no_screen`,
    /// `unreadable`.
    pub change: String,
    /// What the change was seen in: `pixels`, `elements`, or empty.
    pub seen_in: String,
    /// Left edge of the changed region, in pixels of the screen, margin included.
    pub left_px: Option<u32>,
    /// Top edge.
    pub top_px: Option<u32>,
    /// Right edge, exclusive.
    pub right_px: Option<u32>,
    /// Bottom edge, exclusive.
    pub bottom_px: Option<u32>,
    /// The region's share of the screen, 0 to 1.
    pub share: Option<f64>,
    /// Share of the screen's tiles of 32 × 32 pixels in which anything changed: a clock in a corner stretches the
    /// region, not this. Of elements, the region's share.
    pub changed_share: Option<f64>,
    /// The region before the action: a file of `R/states/crops`.
    pub crop_before: Option<String>,
    /// The region after it.
    pub crop_after: Option<String>,
    /// Content hash of the screen before the action, but for a phone's status bar.
    pub screen_hash: Option<String>,
    /// Width of the screen, in pixels.
    pub width_px: Option<u32>,
    /// Its height.
    pub height_px: Option<u32>,
    /// The abstracted step: what the screen's change says of the action.
    pub text: String,
    /// Whether it did what it was meant to do.
    pub outcome: StepOutcome,
    /// What the outcome rests on.
    pub evidence: String,
    /// Rule or model that wrote text and outcome, with its version.
    pub labeler: String,
}

/// A row of `R/states/contexts.parquet`: a refined context `R_k` (`HiSA`, Eq. 4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateContext {
    /// The episode.
    pub episode_id: String,
    /// Number of steps it covers, from the first: 5, 10, …
    pub after_steps: u32,
    /// The summary, with its suggestion.
    pub text: String,
    /// Rule or model that wrote it, with its version.
    pub labeler: String,
}

/// A row of `R/states/states.parquet`: what a policy is told of the steps before one, that is the refined context and
/// the abstracted steps since (`HiSA`, Eq. 3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateText {
    /// The episode.
    pub episode_id: String,
    /// Steps of the episode that it tells of: that before the first step has 0, the one at the end all of them.
    pub step: u32,
    /// The text.
    pub text: String,
    /// Rules or models that wrote it, with their versions.
    pub labeler: String,
}

/// What a lesson is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LessonKind {
    /// What worked.
    Success,
    /// What did not.
    Failure,
    /// What has to be followed: a standard operating procedure, written by a person.
    Require,
}

impl LessonKind {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Require => "require",
        }
    }
}

/// A row of `R/lessons/lessons.parquet`: an induced pattern (`HiSA`, section 3.3.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lesson {
    /// Unique in a run: `<episode>!<number>`, or `require!<number>`.
    pub lesson_id: String,
    /// What it is about.
    pub kind: LessonKind,
    /// Application or site it was learned in; empty for every one.
    pub domain: String,
    /// When it applies.
    pub condition: String,
    /// What was done, in order.
    pub actions: Vec<String>,
    /// What comes of it.
    pub expected: String,
    /// The lesson as a model is told it; what is embedded.
    pub text: String,
    /// The episode that it was learned from; empty for `require`.
    pub episode_id: String,
    /// Steps of that episode that it rests on.
    pub evidence_steps: Vec<u32>,
    /// Rule, model or file that made it, with its version.
    pub made_by: String,
}

/// A row of `R/lessons/replaced.parquet`: a lesson that a newer one took the place of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replaced {
    /// The older lesson.
    pub lesson_id: String,
    /// Its kind, which is the newer one's too.
    pub kind: LessonKind,
    /// Its domain, which is the newer one's too.
    pub domain: String,
    /// Its text.
    pub text: String,
    /// Its episode.
    pub episode_id: String,
    /// Its evidence.
    pub evidence_steps: Vec<u32>,
    /// Who made it.
    pub made_by: String,
    /// The newer lesson.
    pub replaced_by: String,
    /// Their cosine.
    pub cosine: f32,
}
