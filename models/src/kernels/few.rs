//! `x·wᵀ` for a few rows: decoding, where the weights are read once and everything else is small.
//!
//! A general product packs the weights first, which costs more than the product itself.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::{numbers, takes, vectorised};

/// Rows up to which the weights are not worth packing.
const FEW: usize = 32;
/// Rows of weights to a task.
const TASK: usize = 64;
/// Partial sums, as many as the widest vector has numbers.
const LANES: usize = 16;
/// Rows of `x` that share a read of the weights.
const TOGETHER: usize = 4;

/// `x·wᵀ`, or nothing when a general product is the better one.
///
/// # Shapes
/// `x` `[m, k]`, `w` `[n, k]`; returns `[m, n]`.
pub(crate) fn few_rows(x: &Tensor, w: &Tensor) -> Result<Option<Tensor>> {
    if x.dim(0)? > FEW || !takes(&[x, w]) {
        return Ok(None);
    }
    x.apply_op2_no_bwd(w, &FewRows).map(Some)
}

struct FewRows;

impl CustomOp2 for FewRows {
    fn name(&self) -> &'static str {
        "few-rows"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        w: &CpuStorage,
        w_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let ((m, k), (n, _)) = (x_layout.shape().dims2()?, w_layout.shape().dims2()?);
        let (x, w) = (numbers(x, x_layout)?, numbers(w, w_layout)?);
        let mut across = vec![0f32; n * m];
        across.par_chunks_mut(TASK * m).zip(w.par_chunks(TASK * k)).for_each(|(out, w)| {
            vectorised(
                #[inline(always)]
                || {
                    for (out, w) in out.chunks_exact_mut(m).zip(w.chunks_exact(k)) {
                        row(out, w, x, k);
                    }
                },
            );
        });
        let mut out = vec![0f32; m * n];
        for (j, column) in across.chunks_exact(m).enumerate() {
            for (i, y) in column.iter().enumerate() {
                out[i * n + j] = *y;
            }
        }
        Ok((CpuStorage::F32(out), (m, n).into()))
    }
}

/// One row of weights against all rows of `x`.
#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled for the vectors of its caller")]
fn row(out: &mut [f32], w: &[f32], x: &[f32], k: usize) {
    for (out, x) in out.chunks_mut(TOGETHER).zip(x.chunks(TOGETHER * k)) {
        if let ([a, b, c, d], 4) = (&mut *out, x.len() / k) {
            let (x0, rest) = x.split_at(k);
            let (x1, rest) = rest.split_at(k);
            let (x2, x3) = rest.split_at(k);
            let sums = four(w, [x0, x1, x2, x3]);
            [*a, *b, *c, *d] = sums;
        } else {
            for (y, x) in out.iter_mut().zip(x.chunks_exact(k)) {
                *y = four(w, [x, x, x, x])[0];
            }
        }
    }
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled for the vectors of its caller")]
fn four(w: &[f32], x: [&[f32]; TOGETHER]) -> [f32; TOGETHER] {
    let mut sums = [[0f32; LANES]; TOGETHER];
    let whole = w.len() / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        let w = &w[at..at + LANES];
        for (sums, x) in sums.iter_mut().zip(x) {
            let x = &x[at..at + LANES];
            for lane in 0..LANES {
                sums[lane] = w[lane].mul_add(x[lane], sums[lane]);
            }
        }
    }
    let mut out = [0f32; TOGETHER];
    for ((out, sums), x) in out.iter_mut().zip(sums).zip(x) {
        let rest: f32 = w[whole..].iter().zip(&x[whole..]).map(|(w, x)| w * x).sum();
        *out = sums.iter().sum::<f32>() + rest;
    }
    out
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn few_rows_agree_with_the_general_product() {
        for (m, n, k) in [(1, 3, 5), (4, 70, 16), (7, 130, 33), (32, 64, 64)] {
            let tensor = |rows: usize, seed: f32| {
                let numbers: Vec<f32> = (0..rows * k).map(|i| ((i as f32 + seed) * 0.37).sin()).collect();
                Tensor::from_vec(numbers, (rows, k), &Device::Cpu).unwrap()
            };
            let (x, w) = (tensor(m, 0.1), tensor(n, 0.7));
            let fast = few_rows(&x, &w).unwrap().unwrap();
            let slow = x.matmul(&w.t().unwrap()).unwrap();
            let far = (fast - slow).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
            assert!(far < 1e-5, "{m} {n} {k}: {far}");
        }
        let many = Tensor::zeros((33, 4), candle_core::DType::F32, &Device::Cpu).unwrap();
        assert!(few_rows(&many, &many).unwrap().is_none());
    }
}
