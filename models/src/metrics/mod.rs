//! Measures of clusterings: separation (table 3) and purity (table 4) of `IntentCUA`, agreement of
//! two labelings, noise.
//!
//! Labels are those of the clustering: -1 is noise, anything else a group.

mod actions;
mod agreement;
mod matching;
mod means;
mod purity;
mod separation;

pub use actions::{ActionMetrics, Rate, StepScore, action_metrics};
pub use agreement::adjusted_rand_index;
pub use matching::{Became, GroupChange, match_groups, stability};
pub use means::{Mean, mean_over_tasks};
pub use purity::{Purity, purity};
pub use separation::{Separation, separation};

/// The label of points that belong to no group.
pub const NOISE: i32 = -1;

/// Share of the points that belong to no group; 0 without points.
pub fn noise_share(labels: &[i32]) -> f64 {
    if labels.is_empty() {
        return 0.0;
    }
    labels.iter().filter(|label| **label == NOISE).count() as f64 / labels.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_share_counts_minus_one() {
        assert!((noise_share(&[0, -1, 2, -1, -1]) - 0.6).abs() < 1e-12);
        assert!(noise_share(&[]).abs() < 1e-12);
    }
}
