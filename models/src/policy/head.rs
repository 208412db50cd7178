//! The output layer, for the tokens asked for only: log-probabilities and their backward, a block of rows at a time.

use candle_core::{CpuStorage, D, DType, InplaceOp1, Layout, Result, Storage, Tensor, bail};
use rayon::prelude::*;

use crate::kernels::math::exp;
use crate::kernels::{self, numbers, vectorised};

/// Bytes of logits that are held at once.
const BLOCK_BYTES: usize = 256 << 20;

/// What is known of each target's distribution at the sampling temperature.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenStats {
    /// Natural log-probability of the target.
    pub logp: Vec<f32>,
    /// Entropy in nats.
    pub entropy: Vec<f32>,
}

/// Rows of a block over a vocabulary.
pub(super) fn block_rows(vocabulary: usize) -> usize {
    (BLOCK_BYTES / 4 / vocabulary.max(1)).max(1)
}

/// Log-probability of each row's target and the row's entropy.
///
/// # Shapes
/// `logits` `[n, vocabulary]`, already divided by the temperature.
pub(super) fn token_stats(logits: &Tensor, targets: &[u32]) -> Result<TokenStats> {
    if kernels::takes(&[logits]) {
        return on_cpu(
            logits,
            |row, target| {
                let Softmax { most, sum, weighted } = vectorised(
                    #[inline(always)]
                    || Softmax::of(row),
                );
                let normaliser = most + sum.ln();
                (row[target as usize] - normaliser, normaliser - most - weighted / sum)
            },
            targets,
        );
    }
    let logp = candle_nn::ops::log_softmax(&logits.to_dtype(DType::F32)?, D::Minus1)?;
    let entropy = (logp.exp()? * &logp)?.sum(D::Minus1)?.neg()?;
    let index = Tensor::new(targets, logits.device())?.unsqueeze(1)?;
    Ok(TokenStats { logp: logp.gather(&index, 1)?.squeeze(1)?.to_vec1()?, entropy: entropy.to_vec1()? })
}

fn on_cpu(
    logits: &Tensor,
    of: impl Fn(&[f32], u32) -> (f32, f32) + Sync,
    targets: &[u32],
) -> Result<TokenStats> {
    let (storage, layout) = logits.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else { bail!("expected logits on the CPU") };
    let (all, width) = (numbers(storage, layout)?, logits.dim(1)?);
    let pairs: Vec<(f32, f32)> =
        all.par_chunks(width).zip(targets).map(|(row, target)| of(row, *target)).collect();
    let (logp, entropy) = pairs.into_iter().unzip();
    Ok(TokenStats { logp, entropy })
}

/// Sums over `e = exp(x − most)`.
struct Softmax {
    most: f32,
    sum: f32,
    /// `Σ e·(x − most)`
    weighted: f32,
}

impl Softmax {
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "compiled for the vectors of its caller")]
    fn of(row: &[f32]) -> Self {
        let most = most(row);
        // Sixteen partial sums vectorise, and fix the order.
        let (mut sums, mut weighted) = ([0f32; 16], [0f32; 16]);
        for chunk in row.chunks(16) {
            for ((s, w), x) in sums.iter_mut().zip(&mut weighted).zip(chunk) {
                let e = exp(x - most);
                *s += e;
                *w += e * (x - most).max(-1e4);
            }
        }
        Self { most, sum: sums.iter().sum(), weighted: weighted.iter().sum() }
    }
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled for the vectors of its caller")]
fn most(row: &[f32]) -> f32 {
    let mut most = [f32::NEG_INFINITY; 16];
    for chunk in row.chunks(16) {
        for (m, x) in most.iter_mut().zip(chunk) {
            *m = if *x > *m { *x } else { *m };
        }
    }
    most.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// Turns logits into the gradient of logits, for gradients `grad` of the targets' log-probabilities:
/// `grad·(onehot − softmax)`.
pub(super) fn logits_gradient(logits: Tensor, targets: &[u32], grad: &[f32]) -> Result<Tensor> {
    if kernels::takes(&[&logits]) {
        logits.inplace_op1(&Gradient { targets, grad, width: logits.dim(1)? })?;
        return Ok(logits);
    }
    let n = targets.len();
    let p = candle_nn::ops::softmax(&logits.to_dtype(DType::F32)?, D::Minus1)?;
    let scale = Tensor::new(grad, logits.device())?.unsqueeze(1)?;
    let minus = p.broadcast_mul(&scale.neg()?)?;
    let index = Tensor::new(targets, logits.device())?.reshape((n, 1))?;
    minus.scatter_add(&index, &scale, 1)?.to_dtype(logits.dtype())
}

struct Gradient<'a> {
    targets: &'a [u32],
    grad: &'a [f32],
    width: usize,
}

impl InplaceOp1 for Gradient<'_> {
    fn name(&self) -> &'static str {
        "log-probability-backward"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (CpuStorage::F32(all), Some((from, to))) = (storage, layout.contiguous_offsets()) else {
            bail!("expected contiguous f32 logits")
        };
        let rows = all[from..to].par_chunks_mut(self.width);
        rows.zip(self.targets).zip(self.grad).for_each(|((row, target), grad)| {
            vectorised(
                #[inline(always)]
                || row_gradient(row, *target, *grad),
            );
        });
        Ok(())
    }
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled for the vectors of its caller")]
fn row_gradient(row: &mut [f32], target: u32, grad: f32) {
    let most = most(row);
    let mut sums = [0f32; 16];
    for chunk in row.chunks_mut(16) {
        for (s, x) in sums.iter_mut().zip(chunk) {
            *x = exp(*x - most);
            *s += *x;
        }
    }
    let scale = -grad / sums.iter().sum::<f32>();
    row.iter_mut().for_each(|x| *x *= scale);
    row[target as usize] += grad;
}
