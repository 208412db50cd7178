//! `RMSNorm`: `y = w·x / √(mean(x²) + ε)` over the last dimension.

use candle_core::{CpuStorage, CustomOp3, D, DType, Layout, Result, Shape, Tensor};

use super::column_sums;
use crate::kernels::math::dot;
use crate::kernels::{by_rows, numbers, storage, takes};

/// # Shapes
/// `x` `[…, n]`, `weight` `[n]`.
pub(in super::super) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    if x.dtype() == DType::F64 {
        // The fused operation has no f64.
        let root = (x.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?;
        return x.broadcast_div(&root)?.broadcast_mul(weight);
    }
    candle_nn::ops::rms_norm(&x.contiguous()?, weight, eps as f32)
}

/// The gradients of `x` and, if wanted, of `weight`. With `x̂ = x/r` and `h = w·grad`: `(h − x̂·mean(h·x̂))/r`, and the
/// column sums of `grad·x̂`.
pub(in super::super) fn rms_norm_backward(
    x: &Tensor,
    weight: &Tensor,
    grad: &Tensor,
    eps: f64,
    weight_too: bool,
) -> Result<(Tensor, Option<Tensor>)> {
    let grad = grad.contiguous()?;
    let width = x.dim(D::Minus1)?;
    let flat = |t: &Tensor| t.reshape(((), width));
    let scaled = |part: Part| x.apply_op3_no_bwd(weight, &grad, &Backward { eps, part });
    if takes(&[x, weight, &grad]) {
        let weight_grad = if weight_too { Some(column_sums(&flat(&scaled(Part::Weight)?)?)?) } else { None };
        return Ok((scaled(Part::Input)?, weight_grad));
    }
    let wide = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let (x32, grad32, w32) = (x.to_dtype(wide)?, grad.to_dtype(wide)?, weight.to_dtype(wide)?);
    let root = (x32.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?;
    let unit = x32.broadcast_div(&root)?;
    let h = grad32.broadcast_mul(&w32)?;
    let along = (&h * &unit)?.mean_keepdim(D::Minus1)?;
    let input = (h - unit.broadcast_mul(&along)?)?.broadcast_div(&root)?.to_dtype(x.dtype())?;
    let weight_grad =
        if weight_too { Some(column_sums(&flat(&(grad32 * unit)?)?)?.to_dtype(x.dtype())?) } else { None };
    Ok((input, weight_grad))
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Input,
    Weight,
}

struct Backward {
    eps: f64,
    part: Part,
}

impl CustomOp3 for Backward {
    fn name(&self) -> &'static str {
        "rms-norm-backward"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        grad: &CpuStorage,
        grad_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, grad, weight) =
            (numbers(x, layout)?, numbers(grad, grad_layout)?, numbers(weight, weight_layout)?);
        let width = weight.len();
        let mut out = vec![0f32; x.len()];
        by_rows(&mut out, width, |first, rows| {
            let inputs =
                x[first * width..].chunks_exact(width).zip(grad[first * width..].chunks_exact(width));
            for (y, (x, grad)) in rows.chunks_exact_mut(width).zip(inputs) {
                let scale = 1.0 / (dot(x, x) / width as f32 + self.eps as f32).sqrt();
                if self.part == Part::Weight {
                    for ((y, x), g) in y.iter_mut().zip(x).zip(grad) {
                        *y = g * x * scale;
                    }
                    continue;
                }
                for ((y, g), w) in y.iter_mut().zip(grad).zip(weight) {
                    *y = g * w;
                }
                let along = dot(y, x) * scale * scale / width as f32;
                for (y, x) in y.iter_mut().zip(x) {
                    *y = (*y - x * along) * scale;
                }
            }
        });
        Ok(storage(out, layout.shape()))
    }
}
