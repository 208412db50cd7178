//! Learning rates over a run: linear warm-up, then constant, linear or cosine decay, as transformers defines them.

use serde::{Deserialize, Serialize};

/// What follows the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decay {
    /// The rate stays.
    Constant,
    /// To zero in a straight line.
    Linear,
    /// To zero along half a cosine.
    #[default]
    Cosine,
}

/// The factor on the learning rate at each step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Steps over which the factor rises from 0 to 1.
    pub warmup_steps: u64,
    /// Steps of the whole run.
    pub total_steps: u64,
    /// What follows the warm-up.
    pub decay: Decay,
}

impl Schedule {
    /// The factor for the step after `done` steps: `done / warmup` in the warm-up, then by the decay over
    /// `x = (done − warmup) / (total − warmup)`: 1, `1 − x`, or `(1 + cos πx) / 2`.
    pub fn factor(&self, done: u64) -> f64 {
        let Self { warmup_steps, total_steps, decay } = *self;
        if done < warmup_steps {
            return done as f64 / warmup_steps.max(1) as f64;
        }
        let x = (done - warmup_steps) as f64 / total_steps.saturating_sub(warmup_steps).max(1) as f64;
        match decay {
            Decay::Constant => 1.0,
            Decay::Linear => (1.0 - x).max(0.0),
            Decay::Cosine => (0.5 * (1.0 + (std::f64::consts::PI * x.min(1.0)).cos())).max(0.0),
        }
    }
}
