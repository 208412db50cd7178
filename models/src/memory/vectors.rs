//! Unit vectors in one flat array: the dot product, the checks, and exact search.

use std::cmp::Ordering;

use rayon::prelude::*;

use super::{MemoryError, UnitHit};

/// Independent partial sums of a dot product: enough to fill the vector units of every target.
const LANES: usize = 16;
/// Rows that one task scans: large enough to hide the scheduling, small enough to share out.
const BLOCK_ROWS: usize = 2048;
/// How far from 1 a norm may be: f32 rounding over a few thousand values stays well below.
const NORM_TOLERANCE: f64 = 1e-3;

/// Inner product, in a fixed order of additions: the same bits on every platform and thread count.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (x, y) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    sum(sums) + rest
}

/// Adds the lanes in halves, which leaves them in vector registers.
fn sum(lanes: [f32; LANES]) -> f32 {
    let eight: [f32; 8] = std::array::from_fn(|i| lanes[i] + lanes[i + 8]);
    let four: [f32; 4] = std::array::from_fn(|i| eight[i] + eight[i + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// Nearest first; equal cosines by unit.
pub(super) fn by_cosine(a: &UnitHit, b: &UnitHit) -> Ordering {
    b.cosine.total_cmp(&a.cosine).then(a.unit.cmp(&b.unit))
}

/// Refuses a vector of another width, a value that is not finite, or a norm other than 1. `what` names the vector.
pub(super) fn check(vector: &[f32], dim: usize, what: impl Fn() -> String) -> Result<(), MemoryError> {
    if vector.len() != dim {
        return Err(MemoryError::Width { what: what(), found: vector.len(), expected: dim });
    }
    let norm = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    // Written so that NaN fails.
    if (norm - 1.0).abs() <= NORM_TOLERANCE {
        Ok(())
    } else {
        Err(MemoryError::NotNormalised { what: what(), norm })
    }
}

/// The `k` nearest of all rows, by scanning every one.
///
/// # Shapes
/// `rows` is `n x d`, `query` has `d` values.
pub(super) fn exact_top_k(rows: &[f32], query: &[f32], k: usize) -> Vec<UnitHit> {
    let blocks: Vec<Vec<UnitHit>> = rows
        .par_chunks(BLOCK_ROWS * query.len())
        .enumerate()
        .map(|(block, rows)| {
            let first = block * BLOCK_ROWS;
            let hits = rows.chunks_exact(query.len()).enumerate();
            keep_best(hits.map(|(row, v)| UnitHit { unit: first + row, cosine: dot(v, query) }).collect(), k)
        })
        .collect();
    let mut best = keep_best(blocks.concat(), k);
    best.sort_unstable_by(by_cosine);
    best
}

/// The `k` best, in no order.
fn keep_best(mut hits: Vec<UnitHit>, k: usize) -> Vec<UnitHit> {
    if k == 0 {
        return Vec::new();
    }
    if hits.len() > k {
        hits.select_nth_unstable_by(k - 1, by_cosine);
        hits.truncate(k);
    }
    hits
}
