//! A first spanning tree: the forest of the neighbour lists, joined by Borůvka rounds.

use rayon::prelude::*;

use super::ClusterError;
use super::distance::{Bounds, Points};
use super::neighbours::Neighbours;
use super::spanning::{Edge, Sets, forest};

/// Representatives looked at in a round, shared between the components.
const REPRESENTATIVES: usize = 256;

/// Columns multiplied at a time.
const COLUMNS: usize = 4096;

/// A spanning tree whose edges inside the neighbour lists are as light as these lists allow, and
/// whose remaining edges are the lightest at some representatives of each component. It bounds the
/// minimum spanning tree from above; [`super::sweep`] makes it minimal.
pub(super) fn spanning_tree(
    points: &Points<'_>,
    neighbours: &Neighbours,
    core: &[f64],
) -> Result<Vec<Edge>, ClusterError> {
    let len = points.len();
    let listed = |point: usize| {
        neighbours
            .of(point)
            .iter()
            .map(move |&(squared, other)| Edge::new(point as u32, other, squared, core))
    };
    let mut tree = forest(len, (0..len).flat_map(listed).collect());
    if tree.len() + 1 >= len {
        return Ok(tree);
    }
    let order: Vec<u32> = (0..len as u32).collect();
    let bounds = Bounds::new(points, &order)?;
    while tree.len() + 1 < len {
        let component = components(len, &tree);
        let chosen = representatives(&component, core);
        let found: Result<Vec<Vec<Edge>>, ClusterError> = chosen
            .par_chunks(REPRESENTATIVES)
            .map(|chunk| lightest_outgoing(points, &bounds, core, &component, chunk))
            .collect();
        tree.extend(found?.into_iter().flatten());
        tree = forest(len, tree);
    }
    Ok(tree)
}

/// The root of each point's component.
fn components(len: usize, tree: &[Edge]) -> Vec<u32> {
    let mut sets = Sets::new(len);
    for edge in tree {
        sets.unite(edge.low as usize, edge.high as usize);
    }
    (0..len).map(|point| sets.find(point) as u32).collect()
}

/// The densest points of each component: at least one, more where there are few components.
fn representatives(component: &[u32], core: &[f64]) -> Vec<u32> {
    let mut members: Vec<u32> = (0..component.len() as u32).collect();
    let of = |point: u32| component[point as usize];
    let dense = |a: u32, b: u32| core[a as usize].total_cmp(&core[b as usize]).then(a.cmp(&b));
    members.sort_unstable_by(|&a, &b| of(a).cmp(&of(b)).then(dense(a, b)));
    let groups: Vec<&[u32]> = members.chunk_by(|&a, &b| of(a) == of(b)).collect();
    let each = (REPRESENTATIVES / groups.len()).max(1);
    groups.iter().flat_map(|group| group.iter().take(each).copied()).collect()
}

/// For each chosen point an edge to (nearly) the closest point of another component.
fn lightest_outgoing(
    points: &Points<'_>,
    bounds: &Bounds,
    core: &[f64],
    component: &[u32],
    chosen: &[u32],
) -> Result<Vec<Edge>, ClusterError> {
    let mut best = vec![(f32::INFINITY, u32::MAX); chosen.len()];
    for start in (0..component.len()).step_by(COLUMNS) {
        let range = start..(start + COLUMNS).min(component.len());
        let columns: Vec<u32> = range.clone().map(|column| column as u32).collect();
        let products = bounds.products_of(chosen, &columns)?;
        let norms = bounds.reduced_norms(range.clone());
        for ((row, &point), best) in products.chunks_exact(range.len()).zip(chosen).zip(&mut best) {
            for ((&product, &norm), other) in row.iter().zip(norms).zip(range.clone()) {
                let key = norm - 2.0 * product;
                if key < best.0 && component[other] != component[point as usize] {
                    *best = (key, other as u32);
                }
            }
        }
    }
    let edges = chosen.iter().zip(best).filter(|(_, (_, other))| *other != u32::MAX);
    Ok(edges.map(|(&point, (_, other))| Edge::between(point, other, points, core)).collect())
}
