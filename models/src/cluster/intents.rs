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
    /// Least resolution of a group's subgroups, as a share of the group's radius (root mean square
    /// distance of its units to their mean): what counts as near depends on how wide the group is.
    pub sg_resolution_share: f64,
    /// A run in which every latent has at least this cosine to the mean latent may be one
    /// environment: then the groups, too, may be a single one, and follow the rules of subgroups.
    pub one_environment: f64,
}

impl Default for IntentSettings {
    /// Groups from 5 units on, subgroups from 3.
    fn default() -> Self {
        let sg = HdbscanSettings {
            allow_single_cluster: true,
            root_extent: Some(1.5),
            resolution: 0.02,
            ..HdbscanSettings::new(3)
        };
        let ig = HdbscanSettings { resolution: 0.05, ..HdbscanSettings::new(5) };
        Self { ig, sg, sg_resolution_share: 0.8, one_environment: 0.9 }
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

impl IntentSettings {
    /// The settings within a group of these rows.
    fn within(&self, rows: &[f32], dim: usize) -> HdbscanSettings {
        let mut settings = self.sg.clone();
        if settings.engine == Engine::Exact {
            settings.resolution = settings.resolution.max(self.sg_resolution_share * radius(rows, dim));
        }
        settings
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
/// Where the matrices do not describe the same units, or [`hdbscan()`] fails.
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
    if is_one_environment(z, dim, settings.one_environment) {
        ig = HdbscanSettings { min_cluster_size: ig.min_cluster_size, ..settings.within(z, dim) };
    }
    let (ig, ig_probability) = whole_if_single(hdbscan(z, dim, &ig)?);

    let mut subgroup: Vec<Option<(i32, i32)>> = vec![None; units];
    let mut sg_probability = vec![0.0; units];
    for group in 0..ig.iter().max().map_or(0, |&last| last + 1) {
        let members: Vec<usize> = (0..units).filter(|&unit| ig[unit] == group).collect();
        let rows: Vec<f32> =
            members.iter().flat_map(|&unit| &sub[unit * sub_dim..(unit + 1) * sub_dim]).copied().collect();
        let mut clustering = hdbscan(&rows, sub_dim, &settings.within(&rows, sub_dim))?;
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

/// Root mean square distance of rows to their mean.
fn radius(rows: &[f32], dim: usize) -> f64 {
    let count = (rows.len() / dim).max(1) as f64;
    let mut mean = vec![0.0_f64; dim];
    for row in rows.chunks_exact(dim) {
        mean.iter_mut().zip(row).for_each(|(m, &x)| *m += f64::from(x) / count);
    }
    let squares: f64 = rows
        .chunks_exact(dim)
        .map(|row| row.iter().zip(&mean).map(|(&x, m)| (f64::from(x) - m).powi(2)).sum::<f64>())
        .sum();
    (squares / count).sqrt()
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

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::StandardNormal;

    use super::*;

    const DIM: usize = 32;

    /// Unit vectors: `sizes[g]` copies of axis `g`, with normal noise of about the given length.
    fn groups(seed: u64, sizes: &[usize], noise: f32) -> Vec<f32> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut rows = Vec::new();
        for (axis, &size) in sizes.iter().enumerate() {
            for _ in 0..size {
                let mut row: Vec<f32> = (0..DIM)
                    .map(|i| {
                        let shift: f32 = random.sample(StandardNormal);
                        f32::from(i == axis) + shift * noise / (DIM as f32).sqrt()
                    })
                    .collect();
                let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
                row.iter_mut().for_each(|x| *x /= length);
                rows.append(&mut row);
            }
        }
        rows
    }

    fn assign(z: &[f32], sub: &[f32]) -> IntentAssignment {
        intent_groups(z, DIM, sub, DIM, &IntentSettings::default()).unwrap()
    }

    #[test]
    fn forty_tight_units_are_one_subgroup() {
        for seed in 0..20 {
            for noise in [0.001, 0.05, 0.2, 0.3] {
                let units = groups(seed, &[40], noise);
                let found = assign(&units, &units);
                assert_eq!((found.ig, found.sg), (vec![0; 40], vec![0; 40]), "seed {seed}, noise {noise}");
                assert!(found.sg_probability.iter().all(|p| *p > 0.0 && *p <= 1.0));
            }
        }
    }

    #[test]
    fn plain_hdbscan_tears_forty_tight_units() {
        let torn = |seed: &u64| {
            let found = hdbscan(&groups(*seed, &[40], 0.2), DIM, &HdbscanSettings::new(3)).unwrap();
            found.clusters() != 1 || found.labels.contains(&-1)
        };
        assert_eq!((0..20).filter(torn).count(), 20, "the rules for subgroups would be idle");
    }

    #[test]
    fn identical_units_are_one_subgroup() {
        let units = groups(0, &[20], 0.0);
        let found = assign(&units, &units);
        assert_eq!((found.ig, found.sg, found.sg_probability), (vec![0; 20], vec![0; 20], vec![1.0; 20]));
    }

    #[test]
    fn identical_units_are_a_group_among_others() {
        let mut units = groups(1, &[30, 30], 0.4);
        units.extend(&groups(0, &[0, 0, 20], 0.0));
        let found = assign(&units, &units);
        assert_eq!(found.ig[60..], [found.ig[60]; 20]);
        assert_eq!(found.sg[60..], [found.sg[60]; 20]);
        assert!(found.ig[60] >= 0 && found.sg[60] >= 0);
        assert!(!found.ig[..60].contains(&found.ig[60]));
    }

    #[test]
    fn a_few_copies_do_not_tear_a_homogeneous_group() {
        for seed in 0..20 {
            let mut units = groups(seed, &[40], 0.2);
            units.extend_from_within(..DIM);
            units.extend_from_within(..DIM);
            units.extend_from_within(..DIM);
            units.extend_from_within(..DIM);
            let found = assign(&units, &units);
            assert_eq!((found.ig, found.sg), (vec![0; 44], vec![0; 44]), "seed {seed}");
        }
    }

    #[test]
    fn groups_with_several_modes_split() {
        // Two groups; the first has three kinds of action, the second one.
        let z = groups(2, &[36, 30], 0.3);
        let mut sub = groups(3, &[12, 12, 12], 0.4);
        sub.extend(groups(4, &[0, 0, 0, 30], 0.4));
        let found = assign(&z, &sub);
        assert_eq!(found.ig, [vec![0; 36], vec![1; 30]].concat());
        assert_eq!(found.sg, [vec![0; 12], vec![1; 12], vec![2; 12], vec![3; 30]].concat());
    }

    #[test]
    fn two_sets_of_copies_split() {
        let found = assign(&groups(0, &[20], 0.0), &groups(0, &[10, 10], 0.0));
        assert_eq!(found.ig, vec![0; 20]);
        assert_eq!(found.sg, [vec![0; 10], vec![1; 10]].concat());
    }

    #[test]
    fn noise_of_the_groups_has_no_subgroup() {
        let mut z = groups(5, &[20, 20], 0.1);
        z.extend(groups(0, &[0, 0, 1, 1], 0.0));
        let found = assign(&z, &z);
        assert_eq!((&found.ig[40..], &found.sg[40..]), (&[-1, -1][..], &[-1, -1][..]));
        assert_eq!(found.sg_probability[40..], [0.0, 0.0]);
    }

    #[test]
    fn few_units_are_noise() {
        let z = groups(0, &[4], 0.1);
        assert_eq!(assign(&z, &z).sg, [-1; 4]);
        assert_eq!(assign(&[], &[]), IntentAssignment::default());
    }

    #[test]
    fn the_crate_can_assign_too() {
        let z = groups(6, &[20, 20], 0.1);
        let settings = IntentSettings::default().with_engine(Engine::Crate);
        let found = intent_groups(&z, DIM, &z, DIM, &settings).unwrap();
        assert_eq!(found.ig, assign(&z, &z).ig);
    }

    #[test]
    fn matrices_must_describe_the_same_units() {
        let result = intent_groups(&[1.0; 4], 2, &[1.0; 3], 1, &IntentSettings::default());
        assert!(matches!(result, Err(ClusterError::Units { latents: 2, subs: 3 })));
    }
}
