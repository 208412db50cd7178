//! The differentiable operations of the encoder.
//!
//! Each has a form of candle's primitive operations, for every device and precision (`primitive`),
//! and a kernel for f32 on the CPU (`fused`). candle's own fused softmax and `LayerNorm` have no
//! backward and drop gradients silently, so none is used.

use candle_core::Tensor;

use super::error::Result;
use super::fused;

/// Added to the squared norm in [`unit_rows`]; the norm is therefore at least 1e-12, as in PyTorch's
/// `normalize`.
const NORM_SQUARED_EPS: f64 = 1e-24;

/// `x·wᵀ + b`.
///
/// # Shapes
/// `x [N, in]`, `w [out, in]`, `b [out]` to `[N, out]`.
pub(super) fn linear(x: &Tensor, w: &Tensor, b: &Tensor) -> Result<Tensor> {
    if fused::takes(&[x, w, b]) { Ok(fused::linear(x, w, b)?) } else { primitive::linear(x, w, b) }
}

/// GELU in its exact form, `x·Φ(x) = x/2·(1 + erf(x/√2))`, times the dropout mask where there is one.
///
/// # Shapes
/// `x` and `mask` `[N, d]`.
pub(super) fn gelu(x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
    let fits = fused::takes(&[x]) && mask.is_none_or(|mask| fused::takes(&[mask]));
    if fits { Ok(fused::gelu(x, mask)?) } else { primitive::gelu(x, mask) }
}

/// `(x − mean)/√(var + eps)·weight + bias` over the last dimension.
///
/// # Shapes
/// `x [N, d]`, `weight` and `bias` `[d]`.
pub(super) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
    if fused::takes(&[x, weight, bias]) {
        Ok(fused::layer_norm(x, weight, bias, eps)?)
    } else {
        primitive::layer_norm(x, weight, bias, eps)
    }
}

/// Rows divided by their length; a zero row stays zero.
///
/// # Shapes
/// `[N, d]` to `[N, d]`.
pub(super) fn unit_rows(x: &Tensor) -> Result<Tensor> {
    if fused::takes(&[x]) { Ok(fused::unit_rows(x, NORM_SQUARED_EPS)?) } else { primitive::unit_rows(x) }
}

/// `Σᵢ wᵢ·‖aᵢ − bᵢ‖²`, a scalar. The weights get no gradient.
///
/// # Shapes
/// `a` and `b` `[N, d]`, `weights [N]`.
pub(super) fn squared_error(a: &Tensor, b: &Tensor, weights: &Tensor) -> Result<Tensor> {
    if fused::takes(&[a, b, weights]) {
        Ok(fused::squared_error(a, b, weights)?)
    } else {
        primitive::squared_error(a, b, weights)
    }
}

/// Both directions of the contrastive loss of a pair of slots, `f(a, b) + f(b, a)` with
///
/// `f(a, b) = 1/N Σᵢ ( log Σ_(j≠i) exp(aᵢ·bⱼ/τ) − aᵢ·bᵢ/τ )`
///
/// or all `j` with `include_self`. The directions read the same products, one by rows and the other
/// by columns.
///
/// # Shapes
/// `a` and `b` `[N, d]`, rows of length one, N ≥ 2; a scalar out.
pub(super) fn contrast(a: &Tensor, b: &Tensor, tau: f64, include_self: bool) -> Result<Tensor> {
    if fused::takes(&[a, b]) {
        Ok(fused::contrast(a, b, tau, include_self)?)
    } else {
        primitive::contrast(a, b, tau, include_self)
    }
}

/// The same in candle's primitive operations.
pub(super) mod primitive {
    use candle_core::{D, Tensor};

    use super::super::error::Result;
    use super::NORM_SQUARED_EPS;

    pub fn linear(x: &Tensor, w: &Tensor, b: &Tensor) -> Result<Tensor> {
        Ok(x.matmul(&w.t()?)?.broadcast_add(b)?)
    }

    pub fn gelu(x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let phi = (x * std::f64::consts::FRAC_1_SQRT_2)?.erf()?.affine(0.5, 0.5)?;
        let y = (x * phi)?;
        Ok(match mask {
            Some(mask) => (y * mask)?,
            None => y,
        })
    }

    pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let deviation = (centred.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?;
        Ok(centred.broadcast_div(&deviation)?.broadcast_mul(weight)?.broadcast_add(bias)?)
    }

    pub fn unit_rows(x: &Tensor) -> Result<Tensor> {
        let norm = (x.sqr()?.sum_keepdim(D::Minus1)? + NORM_SQUARED_EPS)?.sqrt()?;
        Ok(x.broadcast_div(&norm)?)
    }

    pub fn squared_error(a: &Tensor, b: &Tensor, weights: &Tensor) -> Result<Tensor> {
        Ok(((a - b)?.sqr()?.sum(D::Minus1)? * weights)?.sum_all()?)
    }

    pub fn contrast(a: &Tensor, b: &Tensor, tau: f64, include_self: bool) -> Result<Tensor> {
        let logits = (a.matmul(&b.t()?)? / tau)?;
        let positives = ((a * b)?.sum(1)? / tau)?;
        // Finite instead of -inf, which times a zero gradient would be NaN.
        let own = (Tensor::eye(a.dim(0)?, a.dtype(), a.device())? * -1e30)?;
        let logits = if include_self { logits } else { (logits + own)? };
        let forward = (log_sum_exp(&logits)? - &positives)?;
        let backward = (log_sum_exp(&logits.t()?.contiguous()?)? - &positives)?;
        Ok((forward + backward)?.mean_all()?)
    }

    /// `log Σⱼ exp(xᵢⱼ)` of each row, its largest value taken out first.
    fn log_sum_exp(x: &Tensor) -> Result<Tensor> {
        let largest = x.max_keepdim(D::Minus1)?.detach();
        let sum = x.broadcast_sub(&largest)?.exp()?.sum_keepdim(D::Minus1)?;
        Ok((sum.log()? + largest)?.squeeze(D::Minus1)?)
    }
}
