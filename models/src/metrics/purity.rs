//! Purity of subgroups with regard to a tag (table 4).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::NOISE;

/// How uniform the groups are in a tag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Purity {
    /// Unweighted mean over the groups of the share of the group's commonest tag; `None` without a
    /// tagged group.
    pub mean: Option<f64>,
    /// Standard deviation over the groups, divisor n (`ddof = 0`): they are all there are, not a
    /// sample.
    pub std: Option<f64>,
    /// Groups averaged over.
    pub groups: usize,
    /// Tagged points in them.
    pub points: usize,
    /// Points in no group.
    pub noise_points: usize,
    /// Points of a group that have no tag: not counted in its shares.
    pub untagged_points: usize,
    /// Groups without any tagged point: left out.
    pub untagged_groups: usize,
}

/// Majority-tag share of each group that is not noise, averaged without weights (table 4). An empty
/// tag is no tag.
///
/// # Shapes
/// `labels` and `tags`: N; the longer one is cut.
pub fn purity<T: AsRef<str>>(labels: &[i32], tags: &[T]) -> Purity {
    debug_assert_eq!(labels.len(), tags.len(), "one tag for each label");
    let mut groups: BTreeMap<i32, BTreeMap<&str, usize>> = BTreeMap::new();
    let (mut noise_points, mut untagged_points) = (0, 0);
    for (label, tag) in labels.iter().zip(tags) {
        if *label == NOISE {
            noise_points += 1;
            continue;
        }
        let counts = groups.entry(*label).or_default();
        match tag.as_ref() {
            "" => untagged_points += 1,
            tag => *counts.entry(tag).or_default() += 1,
        }
    }
    let all = groups.len();
    let sizes: Vec<(usize, usize)> =
        groups.values().filter_map(|counts| Some((*counts.values().max()?, counts.values().sum()))).collect();
    let shares: Vec<f64> = sizes.iter().map(|(most, size)| *most as f64 / *size as f64).collect();
    let n = shares.len() as f64;
    let mean = (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / n);
    let std = mean.map(|mean| (shares.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / n).sqrt());
    Purity {
        mean,
        std,
        groups: shares.len(),
        points: sizes.iter().map(|(_, size)| size).sum(),
        noise_points,
        untagged_points,
        untagged_groups: all - shares.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_count_alike_whatever_their_size() {
        // Group 0: 3 of 4; group 1: 2 of 2; noise is not looked at.
        let labels = [0, 0, 0, 0, 1, 1, -1];
        let found = purity(&labels, &["a", "a", "a", "b", "c", "c", "z"]);
        assert!((found.mean.unwrap() - 0.875).abs() < 1e-12);
        assert!((found.std.unwrap() - 0.125).abs() < 1e-12);
        assert_eq!((found.groups, found.points, found.noise_points), (2, 6, 1));
    }

    #[test]
    fn untagged_points_and_groups_are_counted_not_scored() {
        let found = purity(&[0, 0, 0, 5, 5], &["a", "", "b", "", ""]);
        assert!((found.mean.unwrap() - 0.5).abs() < 1e-12);
        assert_eq!((found.groups, found.untagged_points, found.untagged_groups), (1, 3, 1));
    }

    #[test]
    fn all_noise_has_no_purity() {
        let found = purity(&[-1, -1], &["a", "b"]);
        assert_eq!((found.mean, found.std, found.groups, found.noise_points), (None, None, 0, 2));
    }
}
