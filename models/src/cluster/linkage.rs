//! The single-linkage hierarchy of a minimum spanning tree.

use super::prim::Step;
use super::spanning::Sets;

/// A union of two nodes. Node `i` below the number of points is a point, node `points + m` the
/// result of merge `m`; merges are in ascending order of distance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge {
    pub(super) left: usize,
    pub(super) right: usize,
    /// Mutual reachability, not squared.
    pub(super) distance: f64,
}

/// The hierarchy, with the weight of every node.
#[derive(Debug)]
pub(super) struct Hierarchy {
    pub(super) merges: Vec<Merge>,
    /// Units below each node, points first.
    pub(super) weights: Vec<u64>,
}

impl Hierarchy {
    /// Builds the hierarchy from links that span the points, lightest first; distances below
    /// `resolution` count as `resolution`.
    pub(super) fn new(links: &[Step], weights: &[u32], resolution: f64) -> Self {
        let points = weights.len();
        let mut sets = Sets::new(points);
        let mut node: Vec<usize> = (0..points).collect();
        let mut hierarchy = Self {
            merges: Vec::with_capacity(links.len()),
            weights: weights.iter().map(|&w| u64::from(w)).collect(),
        };
        for link in links {
            let (from, to) = (sets.find(link.from as usize), sets.find(link.to as usize));
            let (left, right) = (node[from], node[to]);
            if let Some((root, _)) = sets.unite(from, to) {
                node[root] = points + hierarchy.merges.len();
            }
            hierarchy.weights.push(hierarchy.weights[left] + hierarchy.weights[right]);
            hierarchy.merges.push(Merge { left, right, distance: link.squared.sqrt().max(resolution) });
        }
        hierarchy
    }

    /// Number of points.
    pub(super) fn points(&self) -> usize {
        self.merges.len() + 1
    }

    /// The points below a node.
    pub(super) fn leaves(&self, node: usize) -> Vec<usize> {
        let mut leaves = Vec::new();
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            if let Some(merge) = node.checked_sub(self.points()).map(|m| self.merges[m]) {
                open.extend([merge.left, merge.right]);
            } else {
                leaves.push(node);
            }
        }
        leaves
    }
}
