//! Plan memory's retrieval: which past units and subgroups are nearest to an intent prototype (`IntentCUA`, sections
//! 3.2 and 4.1).
//!
//! [`UnitIndex`] finds the nearest units among all, without gating; [`IntentIndex`] gates by intent group and ranks
//! subgroups by their centroids.

mod graph;
mod index;
pub mod plan;
mod retrieve;
mod vectors;

pub(crate) use vectors::dot;

use thiserror::Error;

pub use index::{Backend, IndexSettings, Recall, UnitHit, UnitIndex};
pub use retrieve::{GroupEntry, IntentIndex, QuerySettings, SubgroupEntry, SubgroupHit};

/// Why an index cannot be built or asked.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// A vector has another width than the index.
    #[error("{what}: {found} values, expected {expected}")]
    Width {
        /// Which vectors.
        what: String,
        /// Values found.
        found: usize,
        /// Values expected.
        expected: usize,
    },
    /// A vector is not finite or not of norm 1.
    #[error("{what}: norm {norm}, expected 1: normalise the vectors before indexing them")]
    NotNormalised {
        /// Which vector.
        what: String,
        /// Its norm; NaN or infinite when a value is.
        norm: f64,
    },
    /// A setting cannot be used.
    #[error("setting `{key}` = {value}: must be at least {least}")]
    Setting {
        /// The setting's name.
        key: &'static str,
        /// Its value.
        value: usize,
        /// The least value allowed.
        least: usize,
    },
    /// A subgroup names something that is not among the units.
    #[error("subgroup {sg}: {reason}: the files in the run's intents folder do not belong together")]
    Subgroup {
        /// The subgroup.
        sg: i32,
        /// What does not fit.
        reason: String,
    },
}
