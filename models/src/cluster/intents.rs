//! Intent groups and subgroups (IntentCUA, section 3.2): HDBSCAN twice.
//!
//! Groups (IG) are plain HDBSCAN clusters of the fused latents. Within each group, subgroups (SG)
//! are HDBSCAN clusters of the action-or-keyword and description part. Left to itself HDBSCAN tears
//! homogeneous groups apart or loses them, because with no split worth the name the random
//! fluctuations are the most persistent structure there is. Hence, for subgroups:
//!
//! * a single cluster is allowed, and a group that stays single is one subgroup with all its units
//!   (HDBSCAN would keep only the densest and call the rest noise);
//! * it stays single unless its parts are clearly denser than the gap between them
//!   ([`HdbscanSettings::root_extent`]);
//! * identical units are one point that keeps its weight, and distances below
//!   [`HdbscanSettings::resolution`] do not count as smaller, so that a few copies of one unit,
//!   infinitely dense, do not outweigh everything around them.

use serde::{Deserialize, Serialize};

use super::{ClusterError, Clustering, Engine, HdbscanSettings, check_matrix, hdbscan};

/// Settings of [`intent_groups`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntentSettings {
    /// Clustering of all units into groups.
    pub ig: HdbscanSettings,
    /// Clustering of one group's units into subgroups.
    pub sg: HdbscanSettings,
    /// A run in which every latent has at least this cosine to the mean latent may be one
    /// environment: then the groups, too, may be a single one.
    pub one_environment: f64,
}

impl Default for IntentSettings {
    /// Groups from 5 units on, subgroups from 3.
    fn default() -> Self {
        let sg = HdbscanSettings {
            allow_single_cluster: true,
            root_extent: Some(2.0),
            resolution: 0.1,
            ..HdbscanSettings::new(3)
        };
        Self { ig: HdbscanSettings::new(5), sg, one_environment: 0.9 }
    }
}

impl IntentSettings {
    /// The same settings for another engine. The crate knows neither `root_extent` nor
    /// `resolution`: they fall back to plain HDBSCAN.
    pub fn with_engine(mut self, engine: Engine) -> Self {
        for settings in [&mut self.ig, &mut self.sg] {
            settings.engine = engine;
            if engine == Engine::Crate {
                settings.root_extent = None;
                settings.resolution = 0.0;
            }
        }
        self
    }
}

/// Group and subgroup of every unit. Both are numbered by their first unit, `sg` across the whole
/// run; -1 is noise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IntentAssignment {
    /// Intent group.
    pub ig: Vec<i32>,
    /// Subgroup; -1 also for units without a group.
    pub sg: Vec<i32>,
    /// Strength of membership in the group, in \[0, 1\].
    pub ig_probability: Vec<f64>,
    /// Strength of membership in the subgroup, in \[0, 1\].
    pub sg_probability: Vec<f64>,
}

/// Two-level clustering of units into groups and, within them, subgroups.
///
/// `z` holds the fused latents, units x `dim`, of length 1; `sub` the renormalised
/// `0.5 (A or K) + 0.5 D` part, units x `sub_dim`. Fewer units than `ig.min_cluster_size` are all
/// noise.
///
/// # Errors
///
/// Where the matrices do not describe the same units, or [`hdbscan`] fails.
pub fn intent_groups(
    z: &[f32],
    dim: usize,
    sub: &[f32],
    sub_dim: usize,
    settings: &IntentSettings,
) -> Result<IntentAssignment, ClusterError> {
    let units = check_matrix(z, dim)?;
    let subs = check_matrix(sub, sub_dim)?;
    if units != subs {
        return Err(ClusterError::Units { latents: units, subs });
    }
    let mut ig = settings.ig.clone();
    ig.allow_single_cluster |= is_one_environment(z, dim, settings.one_environment);
    let (ig, ig_probability) = whole_if_single(hdbscan(z, dim, &ig)?);

    let mut subgroup: Vec<Option<(i32, i32)>> = vec![None; units];
    let mut sg_probability = vec![0.0; units];
    for group in 0..ig.iter().max().map_or(0, |&last| last + 1) {
        let members: Vec<usize> = (0..units).filter(|&unit| ig[unit] == group).collect();
        let rows: Vec<f32> =
            members.iter().flat_map(|&unit| &sub[unit * sub_dim..(unit + 1) * sub_dim]).copied().collect();
        let mut clustering = hdbscan(&rows, sub_dim, &settings.sg)?;
        clustering.single_cluster |= clustering.clusters() == 0;
        let (labels, probabilities) = whole_if_single(clustering);
        for ((&unit, label), probability) in members.iter().zip(labels).zip(probabilities) {
            subgroup[unit] = (label >= 0).then_some((group, label));
            sg_probability[unit] = probability;
        }
    }
    Ok(IntentAssignment { ig, sg: super::number(subgroup.into_iter()), ig_probability, sg_probability })
}

/// Labels and probabilities, where a single cluster takes in all rows: the probability of a row is
/// then its density relative to the highest one (1 minus GLOSH).
fn whole_if_single(clustering: Clustering) -> (Vec<i32>, Vec<f64>) {
    if !clustering.single_cluster {
        return (clustering.labels, clustering.probabilities);
    }
    let probability = |score: f64| if score.is_nan() { 1.0 } else { 1.0 - score };
    let rows = clustering.labels.len();
    (vec![0; rows], clustering.outlier_scores.into_iter().map(probability).collect())
}

/// Whether every row has at least the given cosine to the mean of the rows.
fn is_one_environment(z: &[f32], dim: usize, cosine: f64) -> bool {
    let mut mean = vec![0.0_f64; dim];
    for row in z.chunks_exact(dim) {
        mean.iter_mut().zip(row).for_each(|(m, &x)| *m += f64::from(x));
    }
    let norm = |squares: f64| squares.sqrt().max(f64::MIN_POSITIVE);
    let length = norm(mean.iter().map(|m| m * m).sum());
    z.chunks_exact(dim).all(|row| {
        let product: f64 = row.iter().zip(&mean).map(|(&x, m)| f64::from(x) * m).sum();
        let squares: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        product >= cosine * norm(squares) * length
    })
}
