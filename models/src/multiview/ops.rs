//! The differentiable operations of the encoder.
//!
//! Each has a form of candle's primitive operations, for every device and precision. candle's own
//! fused softmax and `LayerNorm` have no backward and drop gradients silently, so none is used.

use candle_core::{D, Tensor};

use super::error::Result;

/// Added to the squared norm in [`unit_rows`]; the norm is therefore at least 1e-12, as in PyTorch's
/// `normalize`.
const NORM_SQUARED_EPS: f64 = 1e-24;

/// `x·wᵀ + b`.
///
/// # Shapes
/// `x [N, in]`, `w [out, in]`, `b [out]` to `[N, out]`.
pub(super) fn linear(x: &Tensor, w: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(x.matmul(&w.t()?)?.broadcast_add(b)?)
}

/// GELU in its exact form, `x·Φ(x) = x/2·(1 + erf(x/√2))`, times the dropout mask where there is one.
///
/// # Shapes
/// `x` and `mask` `[N, d]`.
pub(super) fn gelu(x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
    let phi = (x * std::f64::consts::FRAC_1_SQRT_2)?.erf()?.affine(0.5, 0.5)?;
    let y = (x * phi)?;
    Ok(match mask {
        Some(mask) => (y * mask)?,
        None => y,
    })
}

/// `(x − mean)/√(var + eps)·weight + bias` over the last dimension.
///
/// # Shapes
/// `x [N, d]`, `weight` and `bias` `[d]`.
pub(super) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
    let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
    let deviation = (centred.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?;
    Ok(centred.broadcast_div(&deviation)?.broadcast_mul(weight)?.broadcast_add(bias)?)
}

/// Rows divided by their length; a zero row stays zero.
///
/// # Shapes
/// `[N, d]` to `[N, d]`.
pub(super) fn unit_rows(x: &Tensor) -> Result<Tensor> {
    let norm = (x.sqr()?.sum_keepdim(D::Minus1)? + NORM_SQUARED_EPS)?.sqrt()?;
    Ok(x.broadcast_div(&norm)?)
}

/// `Σᵢ wᵢ·‖aᵢ − bᵢ‖²`, a scalar.
///
/// # Shapes
/// `a` and `b` `[N, d]`, `weights [N]`.
pub(super) fn squared_error(a: &Tensor, b: &Tensor, weights: &Tensor) -> Result<Tensor> {
    Ok(((a - b)?.sqr()?.sum(D::Minus1)? * weights)?.sum_all()?)
}

/// `log Σⱼ exp(xᵢⱼ)`, the row's largest value taken out first.
///
/// # Shapes
/// `[N, M]` to `[N]`.
pub(super) fn log_sum_exp(x: &Tensor) -> Result<Tensor> {
    let largest = x.max_keepdim(D::Minus1)?.detach();
    let sum = x.broadcast_sub(&largest)?.exp()?.sum_keepdim(D::Minus1)?;
    Ok((sum.log()? + largest)?.squeeze(D::Minus1)?)
}
