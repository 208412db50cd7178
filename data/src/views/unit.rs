//! The unit as it lies in `R/units/units.parquet`.

use serde::{Deserialize, Serialize};

/// Which middle view a unit has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitKind {
    /// Operating an application: `[E, A, D]`.
    Control,
    /// Searching and reading: `[E, K, D]`.
    Browse,
}

/// A view of a unit. `A` and `K` share the encoder's middle slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// E: application, window, site.
    Env,
    /// A: verbs and targets.
    Action,
    /// K: what was typed and searched.
    Keyword,
    /// D: what it was for.
    Description,
}

impl View {
    /// The four views, in the paper's order.
    pub const ALL: [Self; 4] = [Self::Env, Self::Action, Self::Keyword, Self::Description];

    /// The name in files: `R/embeddings/<name>.parquet`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::Action => "action",
            Self::Keyword => "keyword",
            Self::Description => "description",
        }
    }
}

/// One step of a unit, as the alias map Φ reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitAction {
    /// The step's number in its episode.
    pub step: u32,
    /// Canonical verb's name ([`crate::action::Verb::name`]).
    pub verb: String,
    /// The source's own verb.
    pub source_verb: String,
    /// Label of the element acted on, where the source or the step's text gives one.
    pub target: Option<String>,
    /// Role of that element, in the source's words.
    pub role: Option<String>,
    /// Typed text, key combination, application, URL, option.
    pub text: Option<String>,
    /// Content direction of a scroll.
    pub direction: Option<String>,
    /// Low-level instruction of the step: the surface phrase that Φ maps where the verb alone
    /// says too little ("focus the URL bar").
    pub phrase: Option<String>,
}

/// An intent unit: consecutive steps of one episode that serve one intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// `<episode_id>/<first_step>-<last_step>`.
    pub unit_id: String,
    /// The episode it is cut from.
    pub episode_id: String,
    /// Number of its first step.
    pub first_step: u32,
    /// Number of its last step, inclusive.
    pub last_step: u32,
    /// Which middle view it has.
    pub kind: UnitKind,
    /// View E as text; empty when the source has nothing to say.
    pub env: String,
    /// View A as text.
    pub action: String,
    /// View K as text.
    pub keyword: String,
    /// View D as text.
    pub description: String,
    /// Application or site from the source's own fields: the ENV tag of table 4. Empty when the
    /// source names none.
    pub env_tag: String,
    /// Canonical verb sequence, space separated: the ACT tag of table 4.
    pub act_tag: String,
    /// The rule that started the unit ([`super::Boundary`]).
    pub boundary: String,
    /// Labeler and version that wrote the views.
    pub labeler: String,
    /// The steps, in order.
    pub actions: Vec<UnitAction>,
}

impl Unit {
    /// Text of a view.
    pub fn text(&self, view: View) -> &str {
        match view {
            View::Env => &self.env,
            View::Action => &self.action,
            View::Keyword => &self.keyword,
            View::Description => &self.description,
        }
    }

    /// The view in the middle slot: A for a control unit, K for a browsing unit.
    pub fn middle(&self) -> View {
        match self.kind {
            UnitKind::Control => View::Action,
            UnitKind::Browse => View::Keyword,
        }
    }
}
