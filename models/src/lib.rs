//! What learns, estimates or scores. No clock; device and seed come in.

pub mod embed;
pub mod memory;
