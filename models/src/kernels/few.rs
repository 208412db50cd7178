//! `x·wᵀ` for a few rows: decoding, where the weights are read once and everything else is small.
//!
//! A general product packs the weights first, which costs more than the product itself.

#![allow(clippy::inline_always, reason = "what is not inlined is not compiled for the vectors of its caller")]

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{numbers, takes};

/// Rows up to which the weights are not worth packing.
const FEW: usize = 32;
/// Rows of weights to a task.
const TASK: usize = 64;
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
        let arch = Arch::new();
        let mut across = vec![0f32; n * m];
        across.par_chunks_mut(TASK * m).zip(w.par_chunks(TASK * k)).for_each(|(out, w)| {
            arch.dispatch(Columns { out, w, x, m, k });
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

/// Products of some rows of `w` with all rows of `x`: `out` is `[rows of w, m]`.
struct Columns<'a> {
    out: &'a mut [f32],
    w: &'a [f32],
    x: &'a [f32],
    m: usize,
    k: usize,
}

impl WithSimd for Columns<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { out, w, x, m, k } = self;
        let at = |i: usize| &x[i * k..][..k];
        if m == 1 {
            // What the memory gives is all: four rows at once keep more reads under way.
            let (out4, out_rest) = out.as_chunks_mut::<4>();
            let (w4, w_rest) = w.split_at(out4.len() * 4 * k);
            for (out, w) in out4.iter_mut().zip(w4.chunks_exact(4 * k)) {
                *out = four_by_one(simd, [&w[..k], &w[k..2 * k], &w[2 * k..3 * k], &w[3 * k..]], x);
            }
            for (out, w) in out_rest.iter_mut().zip(w_rest.chunks_exact(k)) {
                *out = one(simd, w, x);
            }
            return;
        }
        for (out, w) in out.chunks_mut(2 * m).zip(w.chunks(2 * k)) {
            let (w0, w1) = w.split_at(k);
            let (out0, out1) = out.split_at_mut(m);
            let mut i = 0;
            while i + 4 <= m && !w1.is_empty() {
                let [a, b] = two_by_four(simd, [w0, w1], [at(i), at(i + 1), at(i + 2), at(i + 3)]);
                out0[i..i + 4].copy_from_slice(&a);
                out1[i..i + 4].copy_from_slice(&b);
                i += 4;
            }
            for i in i..m {
                out0[i] = one(simd, w0, at(i));
                if !w1.is_empty() {
                    out1[i] = one(simd, w1, at(i));
                }
            }
        }
    }
}

/// Eight products that share six reads.
#[inline(always)]
fn two_by_four<S: Simd>(simd: S, w: [&[f32]; 2], x: [&[f32]; 4]) -> [[f32; 4]; 2] {
    let [(w0, w0_rest), (w1, w1_rest)] = w.map(S::as_simd_f32s);
    let [(x0, r0), (x1, r1), (x2, r2), (x3, r3)] = x.map(S::as_simd_f32s);
    let zero = simd.splat_f32s(0.0);
    let (mut a0, mut a1, mut a2, mut a3) = (zero, zero, zero, zero);
    let (mut b0, mut b1, mut b2, mut b3) = (zero, zero, zero, zero);
    for (((((w0, w1), x0), x1), x2), x3) in w0.iter().zip(w1).zip(x0).zip(x1).zip(x2).zip(x3) {
        a0 = simd.mul_add_f32s(*w0, *x0, a0);
        a1 = simd.mul_add_f32s(*w0, *x1, a1);
        a2 = simd.mul_add_f32s(*w0, *x2, a2);
        a3 = simd.mul_add_f32s(*w0, *x3, a3);
        b0 = simd.mul_add_f32s(*w1, *x0, b0);
        b1 = simd.mul_add_f32s(*w1, *x1, b1);
        b2 = simd.mul_add_f32s(*w1, *x2, b2);
        b3 = simd.mul_add_f32s(*w1, *x3, b3);
    }
    let sum = |vector, w: &[f32], x: &[f32]| simd.reduce_sum_f32s(vector) + scalar(w, x);
    [
        [sum(a0, w0_rest, r0), sum(a1, w0_rest, r1), sum(a2, w0_rest, r2), sum(a3, w0_rest, r3)],
        [sum(b0, w1_rest, r0), sum(b1, w1_rest, r1), sum(b2, w1_rest, r2), sum(b3, w1_rest, r3)],
    ]
}

/// Four products with one row.
#[inline(always)]
fn four_by_one<S: Simd>(simd: S, w: [&[f32]; 4], x: &[f32]) -> [f32; 4] {
    let ((x, x_rest), [(w0, r0), (w1, r1), (w2, r2), (w3, r3)]) =
        (S::as_simd_f32s(x), w.map(S::as_simd_f32s));
    let zero = simd.splat_f32s(0.0);
    let (mut a0, mut a1, mut a2, mut a3) = (zero, zero, zero, zero);
    for ((((x, w0), w1), w2), w3) in x.iter().zip(w0).zip(w1).zip(w2).zip(w3) {
        a0 = simd.mul_add_f32s(*w0, *x, a0);
        a1 = simd.mul_add_f32s(*w1, *x, a1);
        a2 = simd.mul_add_f32s(*w2, *x, a2);
        a3 = simd.mul_add_f32s(*w3, *x, a3);
    }
    let sum = |vector, w: &[f32]| simd.reduce_sum_f32s(vector) + scalar(w, x_rest);
    [sum(a0, r0), sum(a1, r1), sum(a2, r2), sum(a3, r3)]
}

#[inline(always)]
fn one<S: Simd>(simd: S, w: &[f32], x: &[f32]) -> f32 {
    let ((w, w_rest), (x, x_rest)) = (S::as_simd_f32s(w), S::as_simd_f32s(x));
    let zero = simd.splat_f32s(0.0);
    let (mut even, mut odd) = (zero, zero);
    let ((w_pairs, w_last), (x_pairs, x_last)) = (w.as_chunks::<2>(), x.as_chunks::<2>());
    for (w, x) in w_pairs.iter().zip(x_pairs) {
        even = simd.mul_add_f32s(w[0], x[0], even);
        odd = simd.mul_add_f32s(w[1], x[1], odd);
    }
    for (w, x) in w_last.iter().zip(x_last) {
        even = simd.mul_add_f32s(*w, *x, even);
    }
    simd.reduce_sum_f32s(simd.add_f32s(even, odd)) + scalar(w_rest, x_rest)
}

#[inline(always)]
fn scalar(w: &[f32], x: &[f32]) -> f32 {
    w.iter().zip(x).map(|(w, x)| w * x).sum()
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn few_rows_agree_with_the_general_product() {
        for (m, n, k) in [(1, 3, 5), (1, 139, 70), (4, 70, 16), (7, 130, 33), (32, 64, 64)] {
            let tensor = |rows: usize, seed: f32| {
                let numbers: Vec<f32> = (0..rows * k).map(|i| ((i as f32 + seed) * 0.37).sin()).collect();
                Tensor::from_vec(numbers, (rows, k), &Device::Cpu).unwrap()
            };
            let (x, w) = (tensor(m, 0.1), tensor(n, 0.7));
            let fast = few_rows(&x, &w).unwrap().unwrap();
            let slow = x.matmul(&w.t().unwrap()).unwrap();
            let far = (fast - slow).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
            assert!(far < 5e-5, "{m} {n} {k}: {far}");
        }
        let many = Tensor::zeros((33, 4), candle_core::DType::F32, &Device::Cpu).unwrap();
        assert!(few_rows(&many, &many).unwrap().is_none());
    }
}
