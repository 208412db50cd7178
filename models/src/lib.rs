//! What learns, estimates or scores.
//!
//! This crate knows no run folder and no clock: device, seed, settings and bytes come in, tensors,
//! labels and bytes go out. (Embedders read their weights from a folder the caller names.)

pub mod cluster;
pub mod embed;
mod kernels;
pub mod memory;
pub mod metrics;
pub mod multiview;
pub mod optim;
pub mod policy;
pub mod rl;
pub mod skill;
pub mod state;
