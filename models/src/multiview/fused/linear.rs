//! `x·wᵀ + b`.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor, bail};

use super::{by_rows, column_sums, numbers};

struct Linear {
    /// Whether the input's gradient is wanted: embeddings are constants, and their gradient would
    /// be the largest product of the step.
    input_gradient: bool,
}

/// See [`super::super::ops::linear`].
pub(in super::super) fn linear(x: &Tensor, w: &Tensor, b: &Tensor) -> Result<Tensor> {
    x.apply_op3(w, b, Linear { input_gradient: x.track_op() })
}

impl CustomOp3 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        w: &CpuStorage,
        w_layout: &Layout,
        b: &CpuStorage,
        b_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let ((rows, inner), (width, _)) = (x_layout.shape().dims2()?, w_layout.shape().dims2()?);
        let product = x.matmul(w, (1, rows, width, inner), x_layout, &w_layout.transpose(0, 1)?)?;
        let CpuStorage::F32(mut out) = product else { bail!("linear: expected f32") };
        let bias = numbers(b, b_layout)?;
        by_rows(&mut out, width, |_, rows| {
            for row in rows.chunks_exact_mut(width) {
                for (y, b) in row.iter_mut().zip(bias) {
                    *y += b;
                }
            }
        });
        Ok((CpuStorage::F32(out), (rows, width).into()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        _b: &Tensor,
        _out: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let x_grad = if self.input_gradient { Some(grad.matmul(w)?) } else { None };
        Ok((x_grad, Some(grad.t()?.matmul(x)?), Some(column_sums(grad)?)))
    }
}
