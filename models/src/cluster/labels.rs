//! Labels, membership probabilities and outlier scores of the points.

use super::condense::Condensed;

/// What is known of one point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Membership {
    /// The selected cluster of the condensed tree that holds the point, if any.
    pub(super) cluster: Option<usize>,
    /// 0 for noise.
    pub(super) probability: f64,
    /// GLOSH.
    pub(super) outlier_score: f64,
}

/// Assigns every point to the selected cluster above it.
///
/// Where the root is selected, a point belongs to it only if it stays until the root splits or ends
/// (scikit-learn's rule).
pub(super) fn memberships(tree: &Condensed, selected: &[bool]) -> Vec<Membership> {
    let mut holder: Vec<Option<usize>> = vec![None; tree.clusters.len()];
    for (id, cluster) in tree.clusters.iter().enumerate() {
        holder[id] = if selected[id] { Some(id) } else { cluster.parent.and_then(|parent| holder[parent]) };
    }
    let deaths = tree.deaths();
    let mut last = deaths.clone();
    for (id, cluster) in tree.clusters.iter().enumerate().rev() {
        if let Some(parent) = cluster.parent {
            last[parent] = last[parent].max(last[id]);
        }
    }
    let membership = |exit: &super::condense::Exit| {
        let cluster = holder[exit.cluster].filter(|&id| id != 0 || exit.density >= deaths[0]);
        let probability = cluster.map_or(0.0, |id| probability(exit.density, deaths[id]));
        Membership { cluster, probability, outlier_score: outlier_score(exit.density, last[exit.cluster]) }
    };
    tree.exits.iter().map(membership).collect()
}

/// Density at which a member leaves relative to the cluster's last; 1 for coincident units.
fn probability(density: f64, death: f64) -> f64 {
    if death == 0.0 || density.is_infinite() { 1.0 } else { density.min(death) / death }
}

/// GLOSH: how far the density of a point lies below the highest one in its part of the tree. In a
/// part that ends in coincident units (infinite density) all other points score 1.
fn outlier_score(density: f64, highest: f64) -> f64 {
    if highest == 0.0 || density.is_infinite() {
        0.0
    } else if highest.is_infinite() {
        1.0
    } else {
        (highest - density) / highest
    }
}
