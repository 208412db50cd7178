//! What learns, estimates or scores: embedders, the multi-view encoder, clustering, skills, plan
//! memory, metrics.

pub mod cluster;
