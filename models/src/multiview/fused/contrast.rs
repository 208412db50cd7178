//! Both directions of the contrastive loss of one pair of slots.

use std::sync::OnceLock;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp2, Device, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use super::by_rows;
use crate::kernels::math::exp;

/// Columns a task reduces.
const COLUMNS: usize = 64;

struct Contrast {
    tau: f64,
    include_self: bool,
    /// The loss's gradient in the cosines, `[N, N]`: the forward has all its parts at hand.
    gradient: OnceLock<Tensor>,
}

/// See [`super::super::ops::contrast`].
pub(in super::super) fn contrast(a: &Tensor, b: &Tensor, tau: f64, include_self: bool) -> Result<Tensor> {
    a.apply_op2(b, Contrast { tau, include_self, gradient: OnceLock::new() })
}

impl CustomOp2 for Contrast {
    fn name(&self) -> &'static str {
        "contrast"
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        a_layout: &Layout,
        b: &CpuStorage,
        b_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (n, inner) = a_layout.shape().dims2()?;
        let product = a.matmul(b, (1, n, n, inner), a_layout, &b_layout.transpose(0, 1)?)?;
        let CpuStorage::F32(mut logits) = product else { bail!("contrast: expected f32") };
        let scale = (1.0 / self.tau) as f32;
        logits.par_iter_mut().with_min_len(super::PIECE).for_each(|x| *x *= scale);
        let positives: Vec<f32> = logits.iter().step_by(n + 1).copied().collect();
        if !self.include_self {
            logits.iter_mut().step_by(n + 1).for_each(|x| *x = f32::NEG_INFINITY);
        }
        let (rows, columns) = (row_log_sums(&logits, n), column_log_sums(&logits, n));
        let sums = rows.iter().zip(&columns).zip(&positives);
        let loss = sums.map(|((r, c), p)| f64::from(r + c - 2.0 * p)).sum::<f64>() / n as f64;
        to_gradient(&mut logits, &rows, &columns, scale / n as f32);
        // A second forward of the same operation would compute the same gradient.
        let _ = self.gradient.set(Tensor::from_vec(logits, (n, n), &Device::Cpu)?);
        Ok((CpuStorage::F32(vec![loss as f32]), Shape::from(())))
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        _out: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let Some(gradient) = self.gradient.get() else { bail!("contrast: backward before forward") };
        let a_grad = gradient.matmul(b)?.broadcast_mul(grad)?;
        let b_grad = gradient.t()?.matmul(a)?.broadcast_mul(grad)?;
        Ok((Some(a_grad), Some(b_grad)))
    }
}

fn row_log_sums(logits: &[f32], n: usize) -> Vec<f32> {
    let log_sum = |row: &[f32]| {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        largest + row.iter().map(|x| exp(x - largest)).sum::<f32>().ln()
    };
    logits.par_chunks_exact(n).with_min_len(16).map(log_sum).collect()
}

/// Walks the rows once for the largest values and once for the sums, several columns at a time.
fn column_log_sums(logits: &[f32], n: usize) -> Vec<f32> {
    let mut out = vec![0f32; n];
    out.par_chunks_mut(COLUMNS).enumerate().for_each(|(piece, out)| {
        let (from, width) = (piece * COLUMNS, out.len());
        let mut largest = [f32::NEG_INFINITY; COLUMNS];
        for row in logits.chunks_exact(n) {
            for (most, x) in largest.iter_mut().zip(&row[from..from + width]) {
                *most = most.max(*x);
            }
        }
        for row in logits.chunks_exact(n) {
            for ((sum, x), most) in out.iter_mut().zip(&row[from..]).zip(&largest) {
                *sum += exp(x - most);
            }
        }
        for (sum, most) in out.iter_mut().zip(&largest) {
            *sum = most + sum.ln();
        }
    });
    out
}

/// Both directions' softmax minus the positives, times `scale`.
fn to_gradient(logits: &mut [f32], rows: &[f32], columns: &[f32], scale: f32) {
    let n = rows.len();
    by_rows(logits, n, |first, chunk| {
        for (at, row) in chunk.chunks_exact_mut(n).enumerate() {
            let i = first + at;
            for (x, column) in row.iter_mut().zip(columns) {
                *x = scale * (exp(*x - rows[i]) + exp(*x - column));
            }
            row[i] -= 2.0 * scale;
        }
    });
}
