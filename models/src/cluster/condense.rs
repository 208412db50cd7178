//! The condensed tree: the hierarchy with all branches below `min_cluster_size` read as points
//! that leave a cluster.

use super::linkage::Hierarchy;

/// Density at a distance: its inverse, infinite at 0.
fn density(distance: f64) -> f64 {
    if distance > 0.0 { distance.recip() } else { f64::INFINITY }
}

/// A cluster of the condensed tree. The root is cluster 0, and parents come before children.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cluster {
    pub(super) parent: Option<usize>,
    /// Density at which it splits off its parent; 0 for the root.
    pub(super) birth: f64,
    /// Units it holds at its birth.
    pub(super) weight: u64,
}

/// How a point leaves the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exit {
    /// The cluster that it is last in.
    pub(super) cluster: usize,
    /// Density at which it leaves that cluster.
    pub(super) density: f64,
}

/// The condensed tree.
#[derive(Debug)]
pub(super) struct Condensed {
    pub(super) clusters: Vec<Cluster>,
    pub(super) exits: Vec<Exit>,
}

impl Condensed {
    /// Condenses a hierarchy. A point of at least `min_cluster_size` coincident units is a cluster
    /// by itself, which dissolves at its core distance as the units would.
    pub(super) fn new(hierarchy: &Hierarchy, core: &[f64], min_cluster_size: u64, resolution: f64) -> Self {
        let points = hierarchy.points();
        let root = Cluster {
            parent: None,
            birth: 0.0,
            weight: hierarchy.weights[points + hierarchy.merges.len() - 1],
        };
        let mut tree = Self { clusters: vec![root], exits: vec![Exit::default(); points] };
        let mut open = vec![(points + hierarchy.merges.len() - 1, 0)];
        while let Some((node, cluster)) = open.pop() {
            let Some(merge) = node.checked_sub(points).map(|m| hierarchy.merges[m]) else {
                tree.exits[node] = Exit { cluster, density: density(core[node].sqrt().max(resolution)) };
                continue;
            };
            let at = density(merge.distance);
            let large = |node: usize| hierarchy.weights[node] >= min_cluster_size;
            let split = large(merge.left) && large(merge.right);
            for side in [merge.left, merge.right] {
                if split {
                    let weight = hierarchy.weights[side];
                    open.push((side, tree.clusters.len()));
                    tree.clusters.push(Cluster { parent: Some(cluster), birth: at, weight });
                } else if large(side) {
                    open.push((side, cluster));
                } else {
                    for leaf in hierarchy.leaves(side) {
                        tree.exits[leaf] = Exit { cluster, density: at };
                    }
                }
            }
        }
        tree
    }

    /// The density at which the root splits; `None` where it never does.
    pub(super) fn root_split(&self) -> Option<f64> {
        self.clusters.get(1).map(|child| child.birth)
    }

    /// Stability of each cluster: the time its units spend in it, on the scale of density. Units
    /// that are born and leave at infinite density spend none. The root is born at `root_birth`.
    pub(super) fn stabilities(&self, weights: &[u32], root_birth: f64) -> Vec<f64> {
        let spent = |cluster: usize, until: f64, units: f64| {
            let birth = if cluster == 0 { root_birth } else { self.clusters[cluster].birth };
            if birth.is_infinite() { 0.0 } else { (until - birth).max(0.0) * units }
        };
        let mut stability = vec![0.0; self.clusters.len()];
        for (exit, &weight) in self.exits.iter().zip(weights) {
            stability[exit.cluster] += spent(exit.cluster, exit.density, f64::from(weight));
        }
        for child in &self.clusters {
            if let Some(parent) = child.parent {
                stability[parent] += spent(parent, child.birth, child.weight as f64);
            }
        }
        stability
    }

    /// The density at which the last unit leaves each cluster, be it alone or with a child.
    pub(super) fn deaths(&self) -> Vec<f64> {
        let mut deaths = vec![0.0_f64; self.clusters.len()];
        for exit in &self.exits {
            deaths[exit.cluster] = deaths[exit.cluster].max(exit.density);
        }
        for child in &self.clusters {
            if let Some(parent) = child.parent {
                deaths[parent] = deaths[parent].max(child.birth);
            }
        }
        deaths
    }
}
