//! Makes a spanning tree minimal: one sweep over all pairs of blocks.
//!
//! By the cycle property an edge outside a spanning tree can only be in the minimum one if it is
//! lighter than the heaviest edge on the tree's path between its ends. With the points in the order
//! of the dendrogram's leaves the heaviest edge of a path is the maximum over a range, so that a
//! whole block of pairs is compared with two vectors, and blocks in which nothing can be lighter
//! are never multiplied. The cost is at most that of finding the neighbours, however many clusters
//! there are and however they overlap.

use std::ops::Range;

use rayon::prelude::*;

use super::ClusterError;
use super::distance::{Bounds, Points, scan_row};
use super::neighbours::{Neighbours, blocks};
use super::spanning::{Edge, forest, leaf_order, path_maxima};

/// Pairs of blocks after which the tree, and with it the thresholds, are renewed.
const WAVE: usize = 256;

/// Edges that one pair of blocks may hand on before they are reduced to a forest.
const HANDED_ON: usize = 1024;

/// The minimum spanning tree of the mutual reachability graph, sorted by [`Edge::order`].
pub(super) fn minimum_spanning_tree(
    points: &Points<'_>,
    neighbours: &Neighbours,
    core: &[f64],
    mut tree: Vec<Edge>,
) -> Result<Vec<Edge>, ClusterError> {
    let len = points.len();
    if neighbours.complete {
        return Ok(tree);
    }
    let order = leaf_order(len, &tree);
    let bounds = Bounds::new(points, &order)?;
    let reach: Vec<f32> = order
        .iter()
        .map(|&point| (neighbours.reach(point as usize) * bounds.squared_scale()) as f32)
        .collect();
    let blocks = blocks(len);
    let pairs: Vec<(usize, usize)> =
        (0..blocks.len()).flat_map(|a| (a..blocks.len()).map(move |b| (a, b))).collect();
    for wave in pairs.chunks(WAVE) {
        let sweep = Sweep::new(points, core, &bounds, &order, &reach, &tree);
        let found: Result<Vec<Vec<Edge>>, ClusterError> =
            wave.par_iter().map(|&(a, b)| sweep.lighter_edges(&blocks[a], &blocks[b])).collect();
        let found: Vec<Edge> = found?.into_iter().flatten().collect();
        if !found.is_empty() {
            tree.extend(found);
            tree = forest(len, tree);
        }
    }
    Ok(tree)
}

struct Sweep<'a> {
    points: &'a Points<'a>,
    core: &'a [f64],
    bounds: &'a Bounds,
    order: &'a [u32],
    /// Squared distance of each position's last listed neighbour, in the units of the bounds: all
    /// edges that are not in the lists of both ends are at least this long.
    reach: &'a [f32],
    tree: &'a [Edge],
    /// Weights of the tree's edges in the units of the bounds, rounded up.
    weights: Vec<f32>,
    /// Heaviest edge between each position and the next.
    heaviest: Vec<u32>,
}

/// The heaviest tree edges between the rows and columns of a pair of blocks: the path from row to
/// column has no edge heavier than the larger of the two.
struct Heaviest {
    rows: Vec<u32>,
    columns: Vec<u32>,
}

impl<'a> Sweep<'a> {
    fn new(
        points: &'a Points<'a>,
        core: &'a [f64],
        bounds: &'a Bounds,
        order: &'a [u32],
        reach: &'a [f32],
        tree: &'a [Edge],
    ) -> Self {
        let weights = tree.iter().map(|edge| bounds.threshold(edge.squared)).collect();
        let heaviest = path_maxima(order.len(), tree, order);
        Self { points, core, bounds, order, reach, tree, weights, heaviest }
    }

    /// Edges between two blocks that are lighter than the tree's path between their ends.
    fn lighter_edges(&self, a: &Range<usize>, b: &Range<usize>) -> Result<Vec<Edge>, ClusterError> {
        let heaviest = self.heaviest(a, b);
        let rows = self.open(a, &heaviest.rows, &heaviest.columns);
        let columns = self.open(b, &heaviest.columns, &heaviest.rows);
        if rows.is_empty() || columns.is_empty() {
            return Ok(Vec::new());
        }
        let products = self.bounds.products_of(&rows, &columns)?;
        let norm = |position: u32| self.bounds.reduced_norms(position as usize..position as usize + 1)[0];
        let norms: Vec<f32> = columns.iter().map(|&c| norm(c)).collect();
        let limit = |rank: u32| self.weights[rank as usize];
        let limits: Vec<f32> =
            columns.iter().map(|&c| limit(heaviest.columns[c as usize - b.start])).collect();
        let mut found = Vec::new();
        for (&row, products) in rows.iter().zip(products.chunks_exact(columns.len())) {
            let own = heaviest.rows[row as usize - a.start];
            scan_row(norm(row), &norms, products, limit(own), &limits, |index, _| {
                let column = columns[index];
                if column > row {
                    let rank = own.max(heaviest.columns[column as usize - b.start]);
                    found.extend(self.lighter(row, column, rank));
                }
            });
            if found.len() > HANDED_ON {
                found = self.reduce(found);
            }
        }
        Ok(found)
    }

    /// Running maxima from the end of `a` back to each row and on to each column of `b`. Within one
    /// block both are simply the maximum of the block.
    fn heaviest(&self, a: &Range<usize>, b: &Range<usize>) -> Heaviest {
        if a == b {
            let largest = self.heaviest[a.start..a.end - 1].iter().copied().max().unwrap_or(0);
            return Heaviest { rows: vec![largest; a.len()], columns: vec![largest; a.len()] };
        }
        let mut rows = vec![0; a.len()];
        let mut largest = 0;
        for (row, value) in rows.iter_mut().enumerate().rev().skip(1) {
            largest = largest.max(self.heaviest[a.start + row]);
            *value = largest;
        }
        let mut largest = self.heaviest[a.end - 1..b.start].iter().copied().max().unwrap_or(0);
        let mut columns = Vec::with_capacity(b.len());
        for column in b.clone() {
            columns.push(largest);
            largest = largest.max(self.heaviest.get(column).copied().unwrap_or(0));
        }
        Heaviest { rows, columns }
    }

    /// Positions of a block that can have an edge lighter than a path, given the heaviest edges on
    /// their side and on the other.
    fn open(&self, block: &Range<usize>, own: &[u32], other: &[u32]) -> Vec<u32> {
        let across = other.iter().copied().max().unwrap_or(0);
        let can = |&position: &usize| {
            self.weights[own[position - block.start].max(across) as usize] >= self.reach[position]
        };
        block.clone().filter(can).map(|position| position as u32).collect()
    }

    /// The exact edge, if it is lighter than the tree's edge of the given rank.
    fn lighter(&self, row: u32, column: u32, rank: u32) -> Option<Edge> {
        let (a, b) = (self.order[row as usize], self.order[column as usize]);
        let limit = &self.tree[rank as usize];
        if self.core[a as usize].max(self.core[b as usize]) > limit.squared {
            return None;
        }
        let edge = Edge::between(a, b, self.points, self.core);
        edge.order(limit).is_lt().then_some(edge)
    }

    /// Minimum spanning forest of edges between few of the points.
    fn reduce(&self, edges: Vec<Edge>) -> Vec<Edge> {
        let mut ends: Vec<u32> = edges.iter().flat_map(|edge| [edge.low, edge.high]).collect();
        ends.sort_unstable();
        ends.dedup();
        let local = |point: u32| ends.partition_point(|&end| end < point) as u32;
        let edges = edges.iter().map(|e| Edge { low: local(e.low), high: local(e.high), ..*e }).collect();
        let kept = forest(ends.len(), edges);
        kept.iter().map(|e| Edge { low: ends[e.low as usize], high: ends[e.high as usize], ..*e }).collect()
    }
}
