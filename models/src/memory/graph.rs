//! Approximate search: navigable small-world graphs (Malkov and Yashunin, "HNSW") over the distinct vectors.
//!
//! The graphs are those of `hnsw_rs`. Three things are added, each for a reason:
//!
//! * **Shards.** `hnsw_rs` draws levels from a generator of fixed seed, so inserting the same rows in the same order
//!   gives the same graph, but its parallel insertion depends on the threads' timing. Rows are therefore cut into
//!   shards of fixed size, each built serially, the shards in parallel: the result is the same for any number of
//!   threads, and every shard is searched for every query.
//! * **Distinct vectors.** Repeated routines give identical vectors; more of them than a node has links would form an
//!   island that no search reaches. A vector is inserted once and stands for all units that share it.
//! * **Exact scores.** Candidates are scored again with the exact product, so ties are broken by unit as in the exact
//!   search.

use std::collections::HashMap;

use hnsw_rs::prelude::{Distance, Hnsw};
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_128;

use super::vectors::{by_cosine, dot};
use super::{IndexSettings, UnitHit};

/// Levels above this are never drawn at the sizes of a shard.
const MAX_LAYERS: usize = 16;

/// Distance of unit vectors: 1 − cosine, never negative.
struct UnitDistance;

impl Distance<f32> for UnitDistance {
    fn eval(&self, a: &[f32], b: &[f32]) -> f32 {
        (1.0 - dot(a, b)).max(0.0)
    }
}

/// One graph for each shard, and which units share a vector.
pub(super) struct Graphs {
    shards: Vec<Hnsw<'static, f32, UnitDistance>>,
    /// Units of each distinct vector, ascending; ordered by their first unit.
    units: Vec<Vec<usize>>,
    ef_search: usize,
}

impl Graphs {
    /// Builds the graphs of `n x dim` unit vectors.
    pub(super) fn build(rows: &[f32], dim: usize, settings: IndexSettings) -> Self {
        let units = group_equal(rows, dim);
        let shards = units
            .par_chunks(settings.shard_rows)
            .enumerate()
            .map(|(shard, groups)| {
                let graph = Hnsw::new(
                    settings.links,
                    groups.len(),
                    MAX_LAYERS,
                    settings.ef_construction,
                    UnitDistance,
                );
                for (position, group) in groups.iter().enumerate() {
                    let row = group[0];
                    let vector = &rows[row * dim..(row + 1) * dim];
                    graph.insert((vector, shard * settings.shard_rows + position));
                }
                graph
            })
            .collect();
        Self { shards, units, ef_search: settings.ef_search }
    }

    /// Nearly the `k` nearest units of `rows`, the array the graphs were built from.
    pub(super) fn top_k(&self, rows: &[f32], query: &[f32], k: usize) -> Vec<UnitHit> {
        let width = self.ef_search.max(k);
        let found: Vec<Vec<usize>> = self
            .shards
            .par_iter()
            .map(|graph| graph.search(query, k, width).iter().map(|hit| hit.d_id).collect())
            .collect();
        let mut hits: Vec<UnitHit> = found
            .iter()
            .flatten()
            .flat_map(|group| {
                let units = &self.units[*group];
                let row = units[0] * query.len();
                let cosine = dot(&rows[row..row + query.len()], query);
                units.iter().take(k).map(move |unit| UnitHit { unit: *unit, cosine })
            })
            .collect();
        hits.sort_unstable_by(by_cosine);
        hits.truncate(k);
        hits
    }
}

/// Groups the rows that are equal bit for bit.
fn group_equal(rows: &[f32], dim: usize) -> Vec<Vec<usize>> {
    let keys: Vec<u128> = rows
        .par_chunks_exact(dim)
        .map(|row| {
            let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
            xxh3_128(&bytes)
        })
        .collect();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut group_of: HashMap<u128, usize> = HashMap::with_capacity(keys.len());
    for (row, key) in keys.into_iter().enumerate() {
        let group = *group_of.entry(key).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::with_capacity(1));
        }
        groups[group].push(row);
    }
    groups
}
