//! Traces: episodes of steps, each step an action on a screen, as they lie in `R/traces/`.

mod model;
mod read;

pub use model::{
    Element, Episode, EpisodeRow, Format, Outcome, Platform, Reject, RejectKind, Screen, Step, StepRow,
    partition_of,
};
pub use read::{Episodes, read_episodes};
