//! Optimisation: `AdamW` with a state that can be saved, and learning-rate schedules.

mod adamw;
mod schedule;

use std::collections::BTreeMap;

use candle_core::backprop::GradStore;
use candle_core::{Tensor, Var};

pub use adamw::{AdamW, AdamWSettings};
pub use schedule::{Decay, Schedule};

/// Result of the optimizer's functions.
pub type Result<T> = std::result::Result<T, OptimError>;

/// What stops an optimizer.
#[derive(Debug, thiserror::Error)]
pub enum OptimError {
    /// A tensor operation failed.
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
    /// A gradient is NaN or infinite; the parameters were left as they were.
    #[error(
        "the gradient of `{tensor}` is not finite at optimizer step {step}; lower the learning rate, \
         set clip_norm, or look for NaN in the data"
    )]
    NonFiniteGradient {
        /// Name of the first such tensor, in name order.
        tensor: String,
        /// The optimizer step, from 1.
        step: u64,
    },
    /// A moment is missing from a saved state.
    #[error("the optimizer's saved state has no tensor `{name}`")]
    MissingTensor {
        /// Its name.
        name: String,
    },
}

/// Where gradients come from: candle's backward, or one written by hand.
pub trait Gradients {
    /// The gradient of a parameter, if it has one.
    fn of(&self, name: &str, var: &Var) -> Option<&Tensor>;
}

impl Gradients for GradStore {
    fn of(&self, _name: &str, var: &Var) -> Option<&Tensor> {
        self.get(var)
    }
}

impl Gradients for BTreeMap<String, Tensor> {
    fn of(&self, name: &str, _var: &Var) -> Option<&Tensor> {
        self.get(name)
    }
}
