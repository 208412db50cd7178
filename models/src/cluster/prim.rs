//! The order in which equally heavy edges merge.
//!
//! Ties in mutual reachability are the rule, not the exception: the weight of an edge is often the
//! core distance of one end, and then it is the weight of several. Minimum spanning trees are
//! therefore not unique, and which points leave a cluster before it splits can depend on the choice.
//! So the choice is scikit-learn's: Prim's algorithm from the first point, always on to the nearest
//! point, among equally near ones to the first of them. Consecutive points of that walk are linked by
//! the weight at which the walk went on. Equal weights merge by the smaller, then the larger end: the
//! order that scikit-learn's unstable sort leaves to chance.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::neighbours::Neighbours;
use super::spanning::{Edge, Sets};

/// A step of the walk: from the point before it to the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Squared mutual reachability.
    pub(super) squared: f64,
}

/// The links of Prim's walk, lightest first. They have the weights of the minimum spanning tree and
/// cut at any weight they leave the same components.
pub(super) fn links(len: usize, tree: &[Edge], neighbours: &Neighbours, core: &[f64]) -> Vec<Step> {
    let mut steps = walk(len, &alternatives(len, tree, neighbours, core));
    let ends = |step: &Step| (step.from.min(step.to), step.from.max(step.to));
    steps.sort_by(|a, b| a.squared.total_cmp(&b.squared).then_with(|| ends(a).cmp(&ends(b))));
    steps
}

/// All edges of the tree and the neighbour lists that are in some minimum spanning tree: those whose
/// ends lighter edges do not connect. Only such edges can be the lightest out of a set of points.
fn alternatives(len: usize, tree: &[Edge], neighbours: &Neighbours, core: &[f64]) -> Vec<Edge> {
    let heaviest = tree.last().map_or(0.0, |edge| edge.squared);
    let listed = (0..len).flat_map(|point| {
        neighbours
            .of(point)
            .iter()
            .map(move |&(squared, other)| Edge::new(point as u32, other, squared, core))
    });
    let mut edges: Vec<Edge> =
        listed.filter(|edge| edge.squared <= heaviest).chain(tree.iter().copied()).collect();
    edges.sort_unstable_by(Edge::order);
    edges.dedup();
    let mut sets = Sets::new(len);
    let mut kept: Vec<Edge> = Vec::with_capacity(len);
    for equal in edges.chunk_by(|a, b| a.squared.total_cmp(&b.squared).is_eq()) {
        let start = kept.len();
        for edge in equal {
            if sets.find(edge.low as usize) != sets.find(edge.high as usize) {
                kept.push(*edge);
            }
        }
        for edge in &kept[start..] {
            sets.unite(edge.low as usize, edge.high as usize);
        }
    }
    kept
}

/// Prim's algorithm from point 0 on a connected graph. Weights are squares and thus not negative,
/// so that their bits sort as they do.
fn walk(len: usize, edges: &[Edge]) -> Vec<Step> {
    let mut ends: Vec<(u32, u32, u64)> = edges
        .iter()
        .flat_map(|edge| {
            let bits = edge.squared.to_bits();
            [(edge.low, edge.high, bits), (edge.high, edge.low, bits)]
        })
        .collect();
    ends.sort_unstable();
    let first = |point: u32| ends.partition_point(|end| end.0 < point);
    let mut visited = vec![false; len];
    let mut steps = Vec::with_capacity(len.saturating_sub(1));
    let mut heap = BinaryHeap::new();
    let mut last = 0;
    loop {
        visited[last as usize] = true;
        let out = ends[first(last)..].iter().take_while(|end| end.0 == last);
        heap.extend(out.filter(|end| !visited[end.1 as usize]).map(|end| Reverse((end.2, end.1))));
        while heap.peek().is_some_and(|Reverse((_, point))| visited[*point as usize]) {
            heap.pop();
        }
        let Some(Reverse((bits, next))) = heap.pop() else { break };
        steps.push(Step { from: last, to: next, squared: f64::from_bits(bits) });
        last = next;
    }
    steps
}
