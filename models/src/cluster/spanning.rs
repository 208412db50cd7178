//! Edges of the mutual reachability graph, their total order, and spanning forests of them.
//!
//! Many edges weigh the same, because the weight is often the core distance of one end. Ties are
//! broken by the smaller and then the larger point, so that there is exactly one minimum spanning
//! tree, whatever order edges are found in.

use std::cmp::Ordering;

use super::distance::Points;

/// An edge of the mutual reachability graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Edge {
    /// Squared mutual reachability.
    pub(super) squared: f64,
    /// The smaller point.
    pub(super) low: u32,
    /// The larger point.
    pub(super) high: u32,
}

impl Edge {
    /// The edge between two points at the given squared distance.
    pub(super) fn new(a: u32, b: u32, squared: f64, core: &[f64]) -> Self {
        let reach = squared.max(core[a as usize]).max(core[b as usize]);
        Self { squared: reach, low: a.min(b), high: a.max(b) }
    }

    /// As [`Edge::new`], with the distance computed from the points.
    pub(super) fn between(a: u32, b: u32, points: &Points<'_>, core: &[f64]) -> Self {
        Self::new(a, b, points.squared(a as usize, b as usize), core)
    }

    /// Weight, then smaller point, then larger point.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.squared.total_cmp(&other.squared).then(self.low.cmp(&other.low)).then(self.high.cmp(&other.high))
    }
}

/// Minimum spanning forest of the edges (Kruskal), sorted by [`Edge::order`].
pub(super) fn forest(len: usize, mut edges: Vec<Edge>) -> Vec<Edge> {
    edges.sort_unstable_by(Edge::order);
    let mut sets = Sets::new(len);
    edges.retain(|edge| sets.unite(edge.low as usize, edge.high as usize).is_some());
    edges
}

/// Disjoint sets, united by size, with path halving.
pub(super) struct Sets {
    parent: Vec<u32>,
    size: Vec<u32>,
}

impl Sets {
    pub(super) fn new(len: usize) -> Self {
        Self { parent: (0..len as u32).collect(), size: vec![1; len] }
    }

    pub(super) fn find(&mut self, mut item: usize) -> usize {
        while self.parent[item] as usize != item {
            self.parent[item] = self.parent[self.parent[item] as usize];
            item = self.parent[item] as usize;
        }
        item
    }

    /// Unites two sets and returns their former roots, the surviving one first; `None` where they
    /// are one set already.
    pub(super) fn unite(&mut self, a: usize, b: usize) -> Option<(usize, usize)> {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return None;
        }
        let (keep, gone) = if self.size[a] >= self.size[b] { (a, b) } else { (b, a) };
        self.parent[gone] = keep as u32;
        self.size[keep] += self.size[gone];
        Some((keep, gone))
    }
}

/// Points in the order of the dendrogram's leaves, larger branches first: points that join at a
/// low weight lie side by side.
pub(super) fn leaf_order(len: usize, tree: &[Edge]) -> Vec<u32> {
    let mut sets = Sets::new(len);
    let mut next = vec![u32::MAX; len];
    let mut last: Vec<u32> = (0..len as u32).collect();
    // The root of a set is its first leaf: the smaller set is appended to the larger one.
    for edge in tree {
        if let Some((keep, gone)) = sets.unite(edge.low as usize, edge.high as usize) {
            next[last[keep] as usize] = gone as u32;
            last[keep] = last[gone];
        }
    }
    let mut order = Vec::with_capacity(len);
    let mut leaf = if len == 0 { u32::MAX } else { sets.find(0) as u32 };
    while leaf != u32::MAX {
        order.push(leaf);
        leaf = next[leaf as usize];
    }
    order
}

/// For each pair of consecutive points, the position in `tree` of the heaviest edge on the path
/// between them. For points further apart in `order` the largest of these positions bounds the
/// heaviest edge on their path, because a path's largest edge is an ultrametric.
pub(super) fn path_maxima(len: usize, tree: &[Edge], order: &[u32]) -> Vec<u32> {
    // Union by size without compression: paths to the root are short and ascend in weight.
    let mut parent: Vec<u32> = (0..len as u32).collect();
    let mut via = vec![u32::MAX; len];
    let mut size = vec![1_u32; len];
    for (rank, edge) in tree.iter().enumerate() {
        let root = |mut item: u32| {
            while parent[item as usize] != item {
                item = parent[item as usize];
            }
            item as usize
        };
        let (a, b) = (root(edge.low), root(edge.high));
        let (keep, gone) = if size[a] >= size[b] { (a, b) } else { (b, a) };
        parent[gone] = keep as u32;
        via[gone] = rank as u32;
        size[keep] += size[gone];
    }
    let heaviest = |pair: &[u32]| {
        let (mut a, mut b) = (pair[0] as usize, pair[1] as usize);
        let mut rank = 0;
        while a != b {
            let lower = if via[a] <= via[b] { &mut a } else { &mut b };
            rank = via[*lower];
            *lower = parent[*lower] as usize;
        }
        rank
    };
    order.windows(2).map(heaviest).collect()
}
