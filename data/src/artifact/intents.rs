//! `R/intents/`: which group and subgroup each unit belongs to.

use serde::{Deserialize, Serialize};

/// A row of `R/intents/units.parquet`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntentRow {
    /// The unit.
    pub unit_id: String,
    /// L2-normalised fused latent.
    pub z: Vec<f32>,
    /// Intent group, -1 for noise.
    pub ig: i32,
    /// Subgroup, unique across the run, -1 for noise.
    pub sg: i32,
    /// Strength of membership in the group, 0 to 1.
    pub ig_probability: f64,
    /// Strength of membership in the subgroup, 0 to 1.
    pub sg_probability: f64,
}

/// A row of `R/intents/subgroups.parquet`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubgroupRow {
    /// Intent group it lies in.
    pub ig: i32,
    /// Subgroup, unique across the run.
    pub sg: i32,
    /// Mean of the members' latents, L2-normalised.
    pub centroid: Vec<f32>,
    /// Number of members.
    pub size: u32,
    /// Members nearest to the centroid by cosine, best first.
    pub representative_unit_ids: Vec<String>,
}
