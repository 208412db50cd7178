//! What learns, estimates or scores. No files, no clock; device and seed come in.

pub mod metrics;
pub mod multiview;
