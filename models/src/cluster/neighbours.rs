//! Nearest neighbours of every point, and the core distances that follow from them.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use super::ClusterError;
use super::distance::{Bounds, Points, scan_row};

/// Points in one block; a block of 256 x 256 products stays in a core's cache.
pub(super) const BLOCK: usize = 256;

/// Populations up to this size get complete lists: nothing is left to search afterwards.
const COMPLETE: usize = 64;

/// At least this many neighbours are listed, more than most `min_samples` need: the longer the
/// lists, the better the first spanning tree and the less the sweep has to look at.
const LISTED: usize = 15;

/// A neighbour: squared distance and point. Ordered by distance, then by point.
pub(super) type Neighbour = (f64, u32);

/// The nearest neighbours of every point, without the point itself.
pub(super) struct Neighbours {
    per_point: usize,
    lists: Vec<Neighbour>,
    /// Whether each list names all other points.
    pub(super) complete: bool,
}

impl Neighbours {
    /// Finds at least `wanted` neighbours of every point (all of them where there are fewer).
    ///
    /// Every pair of blocks is multiplied once and serves the points of both. The result does not
    /// depend on the order of the blocks: a pair is passed over only when its lower bound exceeds
    /// the current last neighbour of both points.
    pub(super) fn find(points: &Points<'_>, wanted: usize) -> Result<Self, ClusterError> {
        let others = points.len().saturating_sub(1);
        let per_point = if points.len() <= COMPLETE { others } else { wanted.max(LISTED).min(others) };
        if per_point == 0 {
            return Ok(Self { per_point, lists: Vec::new(), complete: true });
        }
        let order: Vec<u32> = (0..points.len() as u32).collect();
        let bounds = Bounds::new(points, &order)?;
        let search = Search::new(points, &bounds, per_point);
        let blocks = blocks(points.len());
        // The diagonal first: it sets the thresholds that let most other pairs be passed over.
        blocks.par_iter().try_for_each(|block| search.visit(block, block))?;
        let pairs: Vec<(usize, usize)> =
            (0..blocks.len()).flat_map(|a| (a + 1..blocks.len()).map(move |b| (a, b))).collect();
        pairs.par_iter().try_for_each(|&(a, b)| search.visit(&blocks[a], &blocks[b]))?;
        Ok(Self { per_point, lists: search.into_lists(), complete: per_point == others })
    }

    /// Neighbours of a point, nearest first.
    pub(super) fn of(&self, point: usize) -> &[Neighbour] {
        &self.lists[point * self.per_point..(point + 1) * self.per_point]
    }

    /// Squared distance below which every other point is in the list.
    pub(super) fn reach(&self, point: usize) -> f64 {
        if self.complete { f64::INFINITY } else { self.of(point).last().map_or(f64::INFINITY, |n| n.0) }
    }

    /// Squared core distances: the distance to the `min_samples`-th nearest unit, where the point
    /// itself and the units that coincide with it count (scikit-learn's convention).
    pub(super) fn core(&self, weights: &[u32], min_samples: usize) -> Vec<f64> {
        let core_of = |point: usize| {
            let mut units = weights[point] as usize;
            let mut core = 0.0;
            for &(squared, other) in self.of(point) {
                if units >= min_samples {
                    break;
                }
                units += weights[other as usize] as usize;
                core = squared;
            }
            core
        };
        (0..weights.len()).map(core_of).collect()
    }
}

/// Consecutive ranges of at most [`BLOCK`] positions.
pub(super) fn blocks(len: usize) -> Vec<Range<usize>> {
    (0..len).step_by(BLOCK).map(|start| start..(start + BLOCK).min(len)).collect()
}

/// The lists while they are being filled, one lock for each block of points.
struct Search<'a> {
    points: &'a Points<'a>,
    bounds: &'a Bounds,
    per_point: usize,
    lists: Vec<Mutex<Vec<Vec<Neighbour>>>>,
    /// Bits of the threshold of each point. They only ever fall, so a stale value is still right.
    limits: Vec<AtomicU32>,
}

/// A pair that may enter a list: the point whose list it is, the other point, the lower bound.
type Hit = (u32, u32, f32);

impl<'a> Search<'a> {
    fn new(points: &'a Points<'a>, bounds: &'a Bounds, per_point: usize) -> Self {
        let lists = blocks(points.len())
            .iter()
            .map(|block| Mutex::new(vec![Vec::with_capacity(per_point + 1); block.len()]))
            .collect();
        let limits = (0..points.len()).map(|_| AtomicU32::new(f32::INFINITY.to_bits())).collect();
        Self { points, bounds, per_point, lists, limits }
    }

    fn limits(&self, block: &Range<usize>) -> Vec<f32> {
        self.limits[block.clone()].iter().map(|bits| f32::from_bits(bits.load(Ordering::Relaxed))).collect()
    }

    /// Offers all pairs of two blocks to the lists of both.
    fn visit(&self, a: &Range<usize>, b: &Range<usize>) -> Result<(), ClusterError> {
        let products = self.bounds.products(a.clone(), b.clone())?;
        let (own, theirs) = (self.limits(a), self.limits(b));
        let (own_norms, norms) = (self.bounds.reduced_norms(a.clone()), self.bounds.reduced_norms(b.clone()));
        let same = a == b;
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for (row, products) in products.chunks_exact(b.len()).enumerate() {
            let (point, limit) = (a.start + row, own[row]);
            scan_row(own_norms[row], norms, products, limit, &theirs, |column, bound| {
                let other = b.start + column;
                if bound <= limit && point != other {
                    left.push((point as u32, other as u32, bound));
                }
                if !same && bound <= theirs[column] {
                    right.push((other as u32, point as u32, bound));
                }
            });
        }
        self.offer(a, left);
        self.offer(b, right);
        Ok(())
    }

    fn offer(&self, block: &Range<usize>, mut hits: Vec<Hit>) {
        hits.sort_unstable_by(|x, y| x.0.cmp(&y.0).then(x.2.total_cmp(&y.2)));
        let mut lists =
            self.lists[block.start / BLOCK].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for hits in hits.chunk_by(|x, y| x.0 == y.0) {
            let point = hits[0].0 as usize;
            self.extend(&mut lists[point - block.start], point, hits);
        }
    }

    /// Enters the hits of one point, sorted by bound, into its list.
    fn extend(&self, list: &mut Vec<Neighbour>, point: usize, hits: &[Hit]) {
        let mut limit = f32::from_bits(self.limits[point].load(Ordering::Relaxed));
        for &(_, other, bound) in hits {
            if bound > limit {
                break;
            }
            let entry = (self.points.squared(point, other as usize), other);
            let place =
                list.partition_point(|have| have.0.total_cmp(&entry.0).then(have.1.cmp(&entry.1)).is_lt());
            if place == self.per_point {
                continue;
            }
            list.truncate(self.per_point - 1);
            list.insert(place, entry);
            if list.len() == self.per_point {
                limit = self.bounds.threshold(list[self.per_point - 1].0);
            }
        }
        self.limits[point].store(limit.to_bits(), Ordering::Relaxed);
    }

    fn into_lists(self) -> Vec<Neighbour> {
        let inner = |list: Mutex<Vec<Vec<Neighbour>>>| {
            list.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
        };
        self.lists.into_iter().flat_map(inner).flatten().collect()
    }
}
