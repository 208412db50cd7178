//! The multi-view encoder of `IntentCUA` (section 3.1, appendix A): three views of an intent unit
//! in, one latent out.
//!
//! * `config`: the shape of the encoder, the settings of a training run
//! * `batch`: units with their three views, absent ones masked
//! * `model`: heads, predictors, decoders, fusion
//! * `losses`: equations 2 to 5 as pure functions
//! * `ops`: the differentiable operations all of these are made of; `fused`: their CPU kernels
//! * `train`: the loop, early stopping, exact resume; `checkpoint`: its state as safetensors
//! * `ablate`: the four loss variants of tables 3 and 4, and the untrained baseline
//!
//! Departures from the paper: the inner product of Eq. 3 is the cosine (`LayerNorm` makes
//! `‖z‖² ≈ 256`, which over τ = 0.1 would be in the thousands); an absent view is left out of every
//! mean instead of being filled with zeros; the middle slot holds A or K, so that appendix A's six
//! predictors are one for each ordered pair of slots.

mod ablate;
mod batch;
mod checkpoint;
mod config;
mod error;
mod fused;
mod losses;
mod model;
mod ops;
mod random;
mod train;

pub use ablate::{LossVariant, raw_concatenated};
pub use batch::{Presence, TrainData, ViewBatch};
pub use checkpoint::{BestEpoch, Checkpoint};
pub use config::{EncoderConfig, TrainConfig};
pub use error::{EncoderError, Result};
pub use losses::{Loss, LossWeights, contrastive, prediction, reconstruction, total};
pub use model::{Encoder, Latents};
pub use train::{Ended, EpochMetrics, LossTerms, TrainOutcome, train};

/// Names of the three view slots, in the order every array of three follows. The middle slot holds
/// the action view of a control unit and the keyword view of a browsing unit.
pub const SLOTS: [&str; 3] = ["env", "middle", "description"];

/// All ordered pairs of slots, `P(V)` of equations 3 and 4: `(from, to)`.
pub const PAIRS: [(usize, usize); 6] = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)];

#[cfg(test)]
mod tests;
