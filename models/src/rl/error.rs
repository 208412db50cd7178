//! What can go wrong in the objective.

use super::settings::RatioLevel;

/// An error of the policy objective, with what is needed to find its cause.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RlError {
    /// A setting outside its range.
    #[error("{name} is {value}, expected {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What it should be.
        expected: &'static str,
    },
    /// Two inputs that must be of one length are not.
    #[error("{what} has {found} values, expected {expected}")]
    Length {
        /// Which input.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The length it should have.
        expected: usize,
    },
    /// The settings need an input that is not there.
    #[error("no {what} log-probabilities, which {setting} needs")]
    Missing {
        /// Which log-probabilities.
        what: &'static str,
        /// The setting that needs them.
        setting: &'static str,
    },
    /// A value that counts is NaN or infinite; the first such one is named.
    #[error("{what}[{index}] is {value}; it counts in the loss, and must be finite")]
    NonFinite {
        /// Which input.
        what: &'static str,
        /// Position in it.
        index: usize,
        /// The value.
        value: f64,
    },
    /// The totals of the whole step are smaller than what one part of it holds.
    #[error("the whole step has {whole} {what}, this part of it has {part}")]
    Whole {
        /// Tokens or sequences.
        what: &'static str,
        /// The total given.
        whole: usize,
        /// The count found.
        part: usize,
    },
    /// The ratio is not 1 where the current policy is the one that sampled.
    #[error(
        "on the first on-policy step the ratio must be 1, but token {index} has logp {logp} now and {old} \
         when it was sampled: they differ by {difference}, more than {tolerance}; dropout, another precision, \
         another adapter or re-tokenised text would do that"
    )]
    RatioNotOne {
        /// Position of the token that differs most.
        index: usize,
        /// Its log-probability under the current policy.
        logp: f32,
        /// Its log-probability when it was sampled.
        old: f32,
        /// `|logp - old|`.
        difference: f64,
        /// What would have passed.
        tolerance: f64,
    },
    /// A ratio that has no meaning for this loss.
    #[error("the ratio of {loss} is one of a sequence, not {ratio:?}")]
    RatioLevel {
        /// Name of the loss.
        loss: &'static str,
        /// The level asked for.
        ratio: RatioLevel,
    },
}
