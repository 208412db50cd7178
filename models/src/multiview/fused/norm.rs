//! `LayerNorm` and rows of length one.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor};

use super::{by_rows, column_sums, numbers, storage};
use crate::kernels::math::dot;

struct LayerNorm {
    eps: f64,
}

/// The gradient of the input, or with `weight_gradient` the gradient times the normalised input,
/// whose column sums are the weight's gradient.
struct LayerNormBackward {
    eps: f64,
    weight_gradient: bool,
}

/// See [`super::super::ops::layer_norm`].
pub(in super::super) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
    x.apply_op3(weight, bias, LayerNorm { eps })
}

/// Mean and 1/√(variance + eps) of a row.
fn statistics(row: &[f32], eps: f64) -> (f32, f32) {
    let n = row.len() as f64;
    let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
    let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
    (mean as f32, (1.0 / (variance + eps).sqrt()) as f32)
}

impl CustomOp3 for LayerNorm {
    fn name(&self) -> &'static str {
        "layer-norm-with-backward"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let x = numbers(x, layout)?;
        let (weight, bias) = (numbers(weight, weight_layout)?, numbers(bias, bias_layout)?);
        let width = weight.len();
        let mut out = vec![0f32; x.len()];
        by_rows(&mut out, width, |first, rows| {
            for (y, x) in rows.chunks_exact_mut(width).zip(x[first * width..].chunks_exact(width)) {
                let (mean, scale) = statistics(x, self.eps);
                for (((y, x), w), b) in y.iter_mut().zip(x).zip(weight).zip(bias) {
                    *y = (x - mean) * scale * w + b;
                }
            }
        });
        Ok(storage(out, layout.shape()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _bias: &Tensor,
        _out: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let grad = grad.contiguous()?;
        let part = |weight_gradient| {
            x.apply_op3_no_bwd(weight, &grad, &LayerNormBackward { eps: self.eps, weight_gradient })
        };
        Ok((Some(part(false)?), Some(column_sums(&part(true)?)?), Some(column_sums(&grad)?)))
    }
}

impl CustomOp3 for LayerNormBackward {
    fn name(&self) -> &'static str {
        "layer-norm-backward"
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
        let (x, grad) = (numbers(x, layout)?, numbers(grad, grad_layout)?);
        let weight = numbers(weight, weight_layout)?;
        let width = weight.len();
        let mut out = vec![0f32; x.len()];
        by_rows(&mut out, width, |first, rows| {
            let inputs =
                x[first * width..].chunks_exact(width).zip(grad[first * width..].chunks_exact(width));
            for (y, (x, grad)) in rows.chunks_exact_mut(width).zip(inputs) {
                let (mean, scale) = statistics(x, self.eps);
                if self.weight_gradient {
                    for ((y, x), g) in y.iter_mut().zip(x).zip(grad) {
                        *y = g * (x - mean) * scale;
                    }
                } else {
                    input_gradient(y, x, grad, weight, mean, scale);
                }
            }
        });
        Ok(storage(out, layout.shape()))
    }
}

/// `scale·(h − mean(h) − x̂·mean(h·x̂))` with `h = grad·weight`.
fn input_gradient(out: &mut [f32], x: &[f32], grad: &[f32], weight: &[f32], mean: f32, scale: f32) {
    let n = x.len() as f32;
    let h_mean = dot(grad, weight) / n;
    for ((y, g), w) in out.iter_mut().zip(grad).zip(weight) {
        *y = g * w;
    }
    let along = x.iter().zip(&*out).map(|(x, h)| f64::from((x - mean) * scale * h)).sum::<f64>() as f32 / n;
    for (y, x) in out.iter_mut().zip(x) {
        *y = scale * (*y - h_mean - (x - mean) * scale * along);
    }
}

struct UnitRows {
    eps: f64,
}

struct UnitRowsBackward {
    eps: f64,
}

/// See [`super::super::ops::unit_rows`]; `eps` is added to the squared norm.
pub(in super::super) fn unit_rows(x: &Tensor, eps: f64) -> Result<Tensor> {
    x.apply_op1(UnitRows { eps })
}

fn inverse_norm(row: &[f32], eps: f64) -> f32 {
    (1.0 / (f64::from(dot(row, row)) + eps).sqrt()) as f32
}

impl CustomOp1 for UnitRows {
    fn name(&self) -> &'static str {
        "unit-rows"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (x, (_, width)) = (numbers(x, layout)?, layout.shape().dims2()?);
        let mut out = vec![0f32; x.len()];
        by_rows(&mut out, width, |first, rows| {
            for (y, x) in rows.chunks_exact_mut(width).zip(x[first * width..].chunks_exact(width)) {
                let scale = inverse_norm(x, self.eps);
                for (y, x) in y.iter_mut().zip(x) {
                    *y = x * scale;
                }
            }
        });
        Ok(storage(out, layout.shape()))
    }

    fn bwd(&self, x: &Tensor, _out: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(x.apply_op2_no_bwd(&grad.contiguous()?, &UnitRowsBackward { eps: self.eps })?))
    }
}

impl CustomOp2 for UnitRowsBackward {
    fn name(&self) -> &'static str {
        "unit-rows-backward"
    }

    /// `(grad − y·(y·grad))/norm` with `y = x/norm`.
    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        layout: &Layout,
        grad: &CpuStorage,
        grad_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, grad, (_, width)) =
            (numbers(x, layout)?, numbers(grad, grad_layout)?, layout.shape().dims2()?);
        let mut out = vec![0f32; x.len()];
        by_rows(&mut out, width, |first, rows| {
            let inputs =
                x[first * width..].chunks_exact(width).zip(grad[first * width..].chunks_exact(width));
            for (y, (x, grad)) in rows.chunks_exact_mut(width).zip(inputs) {
                let scale = inverse_norm(x, self.eps);
                let along = dot(x, grad) * scale * scale;
                for ((y, x), g) in y.iter_mut().zip(x).zip(grad) {
                    *y = (g - x * along) * scale;
                }
            }
        });
        Ok(storage(out, layout.shape()))
    }
}
