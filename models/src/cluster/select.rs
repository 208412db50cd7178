//! Which clusters of the condensed tree are the result.

use super::condense::Condensed;
use super::{HdbscanSettings, Selection};

/// Marks the selected clusters; none contains another.
pub(super) fn select(tree: &Condensed, weights: &[u32], settings: &HdbscanSettings) -> Vec<bool> {
    match settings.selection {
        Selection::Eom => excess_of_mass(tree, weights, settings),
        Selection::Leaf => leaves(tree),
    }
}

/// The clusters without children, except the root: a tree without a split has no leaf.
fn leaves(tree: &Condensed) -> Vec<bool> {
    let mut leaf = vec![true; tree.clusters.len()];
    leaf[0] = false;
    for parent in tree.clusters.iter().filter_map(|cluster| cluster.parent) {
        leaf[parent] = false;
    }
    leaf
}

/// Excess of mass: a cluster stays unless its children together are more stable. The root takes
/// part only if a single cluster is allowed.
fn excess_of_mass(tree: &Condensed, weights: &[u32], settings: &HdbscanSettings) -> Vec<bool> {
    let birth = settings.root_extent.zip(tree.root_split()).map_or(0.0, |(extent, split)| split / extent);
    let mut stability = tree.stabilities(weights, birth);
    let mut below = vec![0.0; tree.clusters.len()];
    let mut selected = vec![false; tree.clusters.len()];
    for (id, cluster) in tree.clusters.iter().enumerate().rev() {
        if below[id] > stability[id] {
            stability[id] = below[id];
        } else {
            selected[id] = id != 0 || settings.allow_single_cluster;
        }
        if let Some(parent) = cluster.parent {
            below[parent] += stability[id];
        }
    }
    let mut covered = vec![false; tree.clusters.len()];
    for (id, cluster) in tree.clusters.iter().enumerate() {
        covered[id] = cluster.parent.is_some_and(|parent| covered[parent] || selected[parent]);
        selected[id] &= !covered[id];
    }
    selected
}
