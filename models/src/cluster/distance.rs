//! Squared Euclidean distances: exact ones for a pair, rigorous lower bounds for whole blocks.
//!
//! A block of inner products costs one matrix product, but `|a|^2 + |b|^2 - 2ab` in f32 loses all
//! digits for points that lie close together. Blocks therefore only say which pairs can be left
//! out; whatever is decided is decided by [`Points::squared`], in f64 from the differences.

use std::ops::Range;

use candle_core::{Device, Tensor};

use super::ClusterError;

/// Distinct points: rows of the caller's matrix.
pub(super) struct Points<'a> {
    data: &'a [f32],
    dim: usize,
    /// Row of `data` of each point, ascending.
    rows: &'a [u32],
}

impl<'a> Points<'a> {
    /// `data` is row-major with `dim` columns; `rows` are the rows to use.
    pub(super) fn new(data: &'a [f32], dim: usize, rows: &'a [u32]) -> Self {
        Self { data, dim, rows }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    fn row(&self, point: usize) -> &[f32] {
        let start = self.rows[point] as usize * self.dim;
        &self.data[start..start + self.dim]
    }

    /// Squared distance, summed in f64 from differences. Symmetric to the last bit.
    pub(super) fn squared(&self, a: usize, b: usize) -> f64 {
        const LANES: usize = 8;
        let (a_chunks, a_rest) = self.row(a).as_chunks::<LANES>();
        let (b_chunks, b_rest) = self.row(b).as_chunks::<LANES>();
        let mut lanes = [0.0_f64; LANES];
        for (x, y) in a_chunks.iter().zip(b_chunks) {
            for lane in 0..LANES {
                let difference = f64::from(x[lane]) - f64::from(y[lane]);
                lanes[lane] += difference * difference;
            }
        }
        let rest: f64 = a_rest.iter().zip(b_rest).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum();
        lanes.iter().sum::<f64>() + rest
    }

    /// Mean of each column and the largest absolute deviation from it.
    fn centre(&self) -> (Vec<f64>, f64) {
        let mut mean = vec![0.0_f64; self.dim];
        for point in 0..self.len() {
            mean.iter_mut().zip(self.row(point)).for_each(|(m, &x)| *m += f64::from(x));
        }
        mean.iter_mut().for_each(|m| *m /= self.len() as f64);
        let mut largest = 0.0_f64;
        for point in 0..self.len() {
            for (&x, m) in self.row(point).iter().zip(&mean) {
                largest = largest.max((f64::from(x) - m).abs());
            }
        }
        (mean, largest)
    }
}

/// A centred and scaled copy of the points, from which lower bounds of squared distances are
/// computed block by block. Centring shortens the vectors and with them the rounding errors;
/// scaling by a power of two keeps squares within the range of f32.
pub(super) struct Bounds {
    rows: Tensor,
    /// Squared norms, reduced by the largest error that the bound of a pair can have.
    reduced: Vec<f32>,
    scale: f64,
}

impl Bounds {
    /// Copies the points in the given order: position `p` holds point `order[p]`.
    pub(super) fn new(points: &Points<'_>, order: &[u32]) -> Result<Self, ClusterError> {
        let (mean, largest) = points.centre();
        let scale = if largest > 0.0 { (-largest.log2().ceil()).exp2() } else { 1.0 };
        let dim = points.dim;
        let mut rows = vec![0.0_f32; order.len() * dim];
        // |fl(x.y) - x.y| <= dim * u * |x| |y| for any order of summation; the remaining terms
        // are the roundings of centring, norms and the final sum.
        let relative = (dim as f64 + 24.0) * f64::from(f32::EPSILON) / 2.0;
        let mut reduced = vec![0.0; order.len()];
        for (position, &point) in order.iter().enumerate() {
            let target = &mut rows[position * dim..(position + 1) * dim];
            let mut norm = 0.0_f64;
            for ((out, &x), m) in target.iter_mut().zip(points.row(point as usize)).zip(&mean) {
                *out = ((f64::from(x) - m) * scale) as f32;
                norm += f64::from(*out) * f64::from(*out);
            }
            reduced[position] = (norm * (1.0 - relative)) as f32;
        }
        let rows = Tensor::from_vec(rows, (order.len(), dim), &Device::Cpu)?;
        Ok(Self { rows, reduced, scale })
    }

    /// A squared distance in the units of the bounds, rounded up.
    pub(super) fn threshold(&self, squared: f64) -> f32 {
        const ROUND_UP: f64 = 1.0 + 1e-6;
        // The constant covers products that underflow.
        (squared * self.scale * self.scale * ROUND_UP + 1e-34) as f32
    }

    /// Square of the factor from distances to the units of the bounds.
    pub(super) fn squared_scale(&self) -> f64 {
        self.scale * self.scale
    }

    /// Share of a position in the lower bound of its pairs: the squared distance of `a` and `b` is
    /// at least `reduced(a) + reduced(b) - 2 product(a, b)`.
    pub(super) fn reduced_norms(&self, positions: Range<usize>) -> &[f32] {
        &self.reduced[positions]
    }

    /// Inner products of two ranges of positions, row-major.
    pub(super) fn products(&self, a: Range<usize>, b: Range<usize>) -> Result<Vec<f32>, ClusterError> {
        let left = self.rows.narrow(0, a.start, a.len())?;
        let right = self.rows.narrow(0, b.start, b.len())?;
        Ok(left.matmul(&right.t()?)?.flatten_all()?.to_vec1()?)
    }

    /// Inner products of two lists of positions, row-major.
    pub(super) fn products_of(&self, a: &[u32], b: &[u32]) -> Result<Vec<f32>, ClusterError> {
        let left = self.gather(a)?;
        let right = self.gather(b)?;
        Ok(left.matmul(&right.t()?)?.flatten_all()?.to_vec1()?)
    }

    fn gather(&self, positions: &[u32]) -> Result<Tensor, ClusterError> {
        let contiguous = positions.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        if let (true, Some(&first)) = (contiguous, positions.first()) {
            return Ok(self.rows.narrow(0, first as usize, positions.len())?);
        }
        let index = Tensor::from_slice(positions, positions.len(), &Device::Cpu)?;
        Ok(self.rows.index_select(&index, 0)?)
    }
}

/// Calls `hit(column, bound)` for each column whose bound `norm + norms[c] - 2 products[c]` is at
/// most the larger of `own` and `thresholds[c]`.
pub(super) fn scan_row(
    norm: f32,
    norms: &[f32],
    products: &[f32],
    own: f32,
    thresholds: &[f32],
    mut hit: impl FnMut(usize, f32),
) {
    const LANES: usize = 16;
    let mut test = |start: usize, n: &[f32], p: &[f32], t: &[f32]| {
        for lane in 0..n.len() {
            let bound = norm + n[lane] - 2.0 * p[lane];
            if bound <= own.max(t[lane]) {
                hit(start + lane, bound);
            }
        }
    };
    let (norm_chunks, norm_rest) = norms.as_chunks::<LANES>();
    let (product_chunks, product_rest) = products.as_chunks::<LANES>();
    let (threshold_chunks, threshold_rest) = thresholds.as_chunks::<LANES>();
    let chunks = norm_chunks.iter().zip(product_chunks).zip(threshold_chunks);
    for (chunk, ((n, p), t)) in chunks.enumerate() {
        // Hits are rare: one branch for each chunk, so that the comparisons become vector code.
        let mut any = false;
        for lane in 0..LANES {
            let limit = if own > t[lane] { own } else { t[lane] };
            any |= norm + n[lane] - 2.0 * p[lane] <= limit;
        }
        if any {
            test(chunk * LANES, n, p, t);
        }
    }
    test(norm_chunks.len() * LANES, norm_rest, product_rest, threshold_rest);
}
