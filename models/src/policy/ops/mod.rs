//! The element-wise parts of a layer, each with its backward.
//!
//! No function here records a graph: the backward is written out, so that no fused operation can lose a gradient. On
//! the CPU in f32 kernels of our own run; everywhere else candle's operations.

mod norm;
mod swiglu;

use candle_core::{Device, Result, Tensor};

pub(super) use norm::{rms_norm, rms_norm_backward};
pub(super) use swiglu::{swiglu, swiglu_backward};

use super::config::ModelConfig;
use crate::kernels;

/// Cosines and sines of the rotary angles of some rows, `[t, d/2]`.
#[derive(Debug, Clone)]
pub(super) struct Rotation {
    cos: Tensor,
    sin: Tensor,
    minus_sin: Tensor,
}

impl Rotation {
    /// Angles are products in f32, as transformers has them: models were trained with their rounding.
    pub fn new(config: &ModelConfig, positions: &[u32], like: &Tensor) -> Result<Self> {
        let frequencies: Vec<f32> = config.rope_frequencies().into_iter().map(|f| f as f32).collect();
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for position in positions {
            for frequency in &frequencies {
                let angle = *position as f32 * frequency;
                cos.push(angle.cos());
                sin.push(angle.sin());
            }
        }
        let shape = (positions.len(), frequencies.len());
        let tensor = |numbers| Tensor::from_vec(numbers, shape, like.device())?.to_dtype(like.dtype());
        let (cos, sin) = (tensor(cos)?, tensor(sin)?);
        Ok(Self { minus_sin: sin.neg()?, cos, sin })
    }

    /// Turns the halves of each head against each other, `[t, heads, d]`.
    pub fn turn(&self, x: &Tensor) -> Result<Tensor> {
        candle_nn::rotary_emb::rope_thd(&x.unsqueeze(0)?, &self.cos, &self.sin)?.squeeze(0)
    }

    /// The inverse, which is also the backward: a rotation's transpose.
    pub fn back(&self, grad: &Tensor) -> Result<Tensor> {
        candle_nn::rotary_emb::rope_thd(&grad.unsqueeze(0)?, &self.cos, &self.minus_sin)?.squeeze(0)
    }
}

/// Sums of the columns, `[t, n]` to `[n]`.
pub(super) fn column_sums(x: &Tensor) -> Result<Tensor> {
    kernels::column_sums(x)
}

/// Adds rows to the rows of `table` that `index` names, in order: the backward of a lookup.
///
/// # Shapes
/// `rows` `[t, n]`; returns `[size, n]`.
pub(super) fn scatter_rows(rows: &Tensor, index: &[u32], size: usize) -> Result<Tensor> {
    let zeros = Tensor::zeros((size, rows.dim(1)?), rows.dtype(), rows.device())?;
    zeros.index_add(&Tensor::new(index, rows.device())?, rows, 0)
}

/// Rows of `x`, in the order asked for.
pub(super) fn pick_rows(x: &Tensor, index: &[u32], device: &Device) -> Result<Tensor> {
    x.index_select(&Tensor::new(index, device)?, 0)
}
