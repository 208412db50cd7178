//! Size-weighted density separation of subgroups (table 3).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{NOISE, noise_share};

/// Groups smaller than this are left out: pairs inflate the measure (appendix C).
const MIN_SIZE: usize = 3;

/// How far apart groups are against how wide they are, and what was left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Separation {
    /// The measure; `None` when no group is scored.
    pub value: Option<f64>,
    /// Groups scored.
    pub groups: usize,
    /// Points in them.
    pub points: usize,
    /// Groups of fewer than 3 points, left out.
    pub small_groups: usize,
    /// Points in those.
    pub small_points: usize,
    /// Groups of at least 3 identical points, left out: their spread is zero.
    pub zero_spread_groups: usize,
    /// Points in those.
    pub zero_spread_points: usize,
    /// Points in no group.
    pub noise_points: usize,
    /// Their share of all points: variants are compared within 5 points of each other.
    pub noise_share: f64,
}

struct Group {
    centroid: Vec<f64>,
    size: usize,
    spread: f64,
}

/// `Σ n_c·(distance of centroid c to its nearest other centroid / mean distance of members to c) /
/// Σ n_c` over the groups that are not noise, have at least 3 points and a spread above zero. The
/// nearest other centroid may be that of any group that is not noise, also of one left out. Distances
/// are Euclidean; a spread below 1e-7 of the centroid's length is rounding, hence zero.
///
/// # Shapes
/// `vectors`: N·dim, row by row; `labels`: N.
///
/// # Panics
/// When the lengths disagree.
pub fn separation(vectors: &[f32], dim: usize, labels: &[i32]) -> Separation {
    assert_eq!(vectors.len(), labels.len() * dim, "one vector of `dim` numbers for each label");
    let groups = groups(vectors, dim, labels);
    let mut found = Separation {
        value: None,
        groups: 0,
        points: 0,
        small_groups: 0,
        small_points: 0,
        zero_spread_groups: 0,
        zero_spread_points: 0,
        noise_points: labels.iter().filter(|label| **label == NOISE).count(),
        noise_share: noise_share(labels),
    };
    let mut weighted = 0.0;
    for (at, group) in groups.iter().enumerate() {
        if group.size < MIN_SIZE {
            found.small_groups += 1;
            found.small_points += group.size;
        } else if group.spread <= 1e-7 * length(&group.centroid) {
            found.zero_spread_groups += 1;
            found.zero_spread_points += group.size;
        } else if let Some(nearest) = nearest(&groups, at) {
            found.groups += 1;
            found.points += group.size;
            weighted += group.size as f64 * nearest / group.spread;
        }
    }
    found.value = (found.points > 0).then(|| weighted / found.points as f64);
    found
}

fn groups(vectors: &[f32], dim: usize, labels: &[i32]) -> Vec<Group> {
    let mut members: BTreeMap<i32, Vec<&[f32]>> = BTreeMap::new();
    for (at, label) in labels.iter().enumerate().filter(|(_, label)| **label != NOISE) {
        members.entry(*label).or_default().push(&vectors[at * dim..(at + 1) * dim]);
    }
    members.values().map(|rows| group(rows, dim)).collect()
}

fn group(rows: &[&[f32]], dim: usize) -> Group {
    let size = rows.len();
    let mut centroid = vec![0.0; dim];
    for row in rows {
        for (sum, x) in centroid.iter_mut().zip(*row) {
            *sum += f64::from(*x) / size as f64;
        }
    }
    let to_centroid = |row: &&[f32]| {
        row.iter().zip(&centroid).map(|(x, c)| (f64::from(*x) - c).powi(2)).sum::<f64>().sqrt()
    };
    let spread = rows.iter().map(to_centroid).sum::<f64>() / size as f64;
    Group { centroid, size, spread }
}

/// Distance to the nearest other centroid; `None` for the only group.
fn nearest(groups: &[Group], at: usize) -> Option<f64> {
    let apart = |other: &Group| {
        other.centroid.iter().zip(&groups[at].centroid).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    };
    let others = groups.iter().enumerate().filter(|(index, _)| *index != at);
    others.map(|(_, other)| apart(other)).min_by(f64::total_cmp)
}

fn length(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points on a line.
    fn on_line(points: &[f32], labels: &[i32]) -> Separation {
        separation(points, 1, labels)
    }

    #[test]
    fn a_hand_computed_example() {
        // Group 0: 0, 1, 2: centroid 1, spread 2/3. Group 1: 10, 10, 14, 14: centroid 12, spread 2.
        // Apart by 11: (3·11/(2/3) + 4·11/2) / 7 = (49.5 + 22) / 7.
        let found = on_line(&[0.0, 1.0, 2.0, 10.0, 10.0, 14.0, 14.0, 99.0], &[0, 0, 0, 1, 1, 1, 1, -1]);
        assert!((found.value.unwrap() - 71.5 / 7.0).abs() < 1e-9, "{found:?}");
        assert_eq!((found.groups, found.points, found.noise_points), (2, 7, 1));
        assert!((found.noise_share - 0.125).abs() < 1e-12);
    }

    #[test]
    fn small_and_spreadless_groups_are_counted_and_still_neighbours() {
        // Group 0 as above; group 1 a pair at 5; group 2 three times 3.
        let found = on_line(&[0.0, 1.0, 2.0, 5.0, 5.0, 3.0, 3.0, 3.0], &[0, 0, 0, 1, 1, 2, 2, 2]);
        assert!((found.value.unwrap() - 2.0 / (2.0 / 3.0)).abs() < 1e-9, "{found:?}");
        assert_eq!((found.groups, found.small_groups, found.small_points), (1, 1, 2));
        assert_eq!((found.zero_spread_groups, found.zero_spread_points), (1, 3));
    }

    #[test]
    fn one_group_or_none_has_no_separation() {
        assert_eq!(on_line(&[0.0, 1.0, 2.0], &[0, 0, 0]).value, None);
        assert_eq!(on_line(&[0.0, 1.0], &[-1, -1]).value, None);
        assert_eq!(on_line(&[], &[]).value, None);
    }
}
