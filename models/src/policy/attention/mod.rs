//! Causal attention over packed sequences, forward and backward, without ever holding all scores.
//!
//! Two implementations of one function: `cpu`, f32 slices with one task for each segment and head, and `tensor`, candle's
//! operations for any device and type. Scores are computed for a block of queries at a time and again in the backward,
//! so that memory grows with the length, not with its square.

mod cpu;
mod tensor;

use candle_core::{Result, Tensor};

use super::batch::Segment;
use crate::kernels;

/// Gradients of queries, keys and values.
pub(super) struct Gradients {
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
}

/// `softmax(q·kᵀ/√d)·v` for each head, with the mask that the segments say.
///
/// # Shapes
/// `q` `[t, heads, d]`, `k` and `v` `[t, kv_heads, d]`; returns `[t, heads·d]`.
pub(super) fn attention(q: &Tensor, k: &Tensor, v: &Tensor, segments: &[Segment]) -> Result<Tensor> {
    if kernels::takes(&[q, k, v]) {
        cpu::forward(q, k, v, segments)
    } else {
        tensor::forward(q, k, v, segments)
    }
}

/// The gradients for that of the output, `[t, heads·d]`.
pub(super) fn attention_backward(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    grad: &Tensor,
    segments: &[Segment],
) -> Result<Gradients> {
    if kernels::takes(&[q, k, v, grad]) {
        cpu::backward(q, k, v, grad, segments)
    } else {
        tensor::backward(q, k, v, grad, segments)
    }
}

/// One token of each sequence against the keys and values before it.
///
/// # Shapes
/// `q` `[b, heads, d]`; see [`super::cache::LayerCache`] for the rest; returns `[b, heads·d]`.
pub(super) fn attend_cached(
    q: &Tensor,
    cache: &super::cache::LayerCache,
    held: &super::cache::Held,
    gathered: Option<&super::cache::Gathered>,
) -> Result<Tensor> {
    match gathered {
        None => cpu::cached(q, cache, held),
        Some(gathered) => tensor::cached(q, cache, held, gathered),
    }
}

/// What all layers of a step share, where [`attend_cached`] needs it.
///
/// # Shapes
/// `like` is any of the step's activations.
pub(super) fn gather(held: &super::cache::Held, like: &Tensor) -> Result<Option<super::cache::Gathered>> {
    if kernels::takes(&[like]) { Ok(None) } else { held.gathered(like).map(Some) }
}

/// Queries whose scores are held at once, for `keys` keys: about 4 M scores for each head.
fn block(keys: usize) -> usize {
    ((4 << 20) / keys.max(1)).clamp(16, 1024)
}

#[cfg(test)]
mod tests;
