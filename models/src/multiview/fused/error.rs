//! Weighted squared error.

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor};

use super::{by_rows, for_rows, numbers, storage};

struct SquaredError {
    /// Whether the second argument's gradient is wanted.
    target_gradient: bool,
}

/// `2·w·(a − b)`, row by row.
struct SquaredErrorBackward;

/// See [`super::super::ops::squared_error`].
pub(in super::super) fn squared_error(a: &Tensor, b: &Tensor, weights: &Tensor) -> Result<Tensor> {
    a.apply_op3(b, weights, SquaredError { target_gradient: b.track_op() })
}

impl CustomOp3 for SquaredError {
    fn name(&self) -> &'static str {
        "weighted-squared-error"
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        a_layout: &Layout,
        b: &CpuStorage,
        b_layout: &Layout,
        weights: &CpuStorage,
        weights_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (a, b, weights) =
            (numbers(a, a_layout)?, numbers(b, b_layout)?, numbers(weights, weights_layout)?);
        let width = a.len() / weights.len();
        let rows = for_rows(weights.len(), |row| {
            let at = row * width..(row + 1) * width;
            f64::from(weights[row]) * f64::from(distance(&a[at.clone()], &b[at]))
        });
        Ok((CpuStorage::F32(vec![rows.iter().sum::<f64>() as f32]), Shape::from(())))
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        weights: &Tensor,
        _out: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let weights = weights.broadcast_mul(&(grad * 2.0)?)?;
        let a_grad = a.apply_op3_no_bwd(b, &weights, &SquaredErrorBackward)?;
        let b_grad = if self.target_gradient { Some(a_grad.neg()?) } else { None };
        Ok((Some(a_grad), b_grad, None))
    }
}

impl CustomOp3 for SquaredErrorBackward {
    fn name(&self) -> &'static str {
        "weighted-squared-error-backward"
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        a_layout: &Layout,
        b: &CpuStorage,
        b_layout: &Layout,
        weights: &CpuStorage,
        weights_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (a, b, weights) =
            (numbers(a, a_layout)?, numbers(b, b_layout)?, numbers(weights, weights_layout)?);
        let width = a.len() / weights.len();
        let mut out = vec![0f32; a.len()];
        by_rows(&mut out, width, |first, rows| {
            for (at, y) in rows.chunks_exact_mut(width).enumerate() {
                let (row, weight) = (first + at, weights[first + at]);
                let (a, b) = (&a[row * width..], &b[row * width..]);
                for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
                    *y = weight * (a - b);
                }
            }
        });
        Ok(storage(out, a_layout.shape()))
    }
}

/// Squared distance with eight partial sums: vectorises, and the order is fixed.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a8.remainder().iter().zip(b8.remainder()).map(|(x, y)| (x - y) * (x - y)).sum();
    for (x, y) in a8.zip(b8) {
        for k in 0..8 {
            sums[k] += (x[k] - y[k]) * (x[k] - y[k]);
        }
    }
    sums.iter().sum::<f32>() + rest
}
