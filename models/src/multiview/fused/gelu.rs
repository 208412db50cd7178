//! GELU with dropout.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor};

use super::{by_rows, numbers, storage};
use crate::kernels::math::{normal_cdf, normal_density};

struct Gelu {
    mask: Option<Tensor>,
}

/// The derivative at `x` times the gradient and the mask.
struct GeluBackward<'a> {
    mask: Option<&'a Tensor>,
}

/// See [`super::super::ops::gelu`].
pub(in super::super) fn gelu(x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
    x.apply_op1(Gelu { mask: mask.cloned() })
}

/// Multiplies by the mask, where there is one.
fn masked(out: &mut [f32], mask: Option<&Tensor>) -> Result<()> {
    let Some(mask) = mask else { return Ok(()) };
    let (mask, layout) = mask.storage_and_layout();
    let candle_core::Storage::Cpu(mask) = &*mask else {
        candle_core::bail!("gelu: the mask is not on the CPU")
    };
    let mask = numbers(mask, layout)?;
    by_rows(out, 1, |first, rows| {
        for (y, m) in rows.iter_mut().zip(&mask[first..]) {
            *y *= m;
        }
    });
    Ok(())
}

impl CustomOp1 for Gelu {
    fn name(&self) -> &'static str {
        "gelu-dropout"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = numbers(x, layout)?;
        let mut out = vec![0f32; x.len()];
        by_rows(&mut out, 1, |first, rows| {
            for (y, x) in rows.iter_mut().zip(&x[first..]) {
                *y = x * normal_cdf(*x);
            }
        });
        masked(&mut out, self.mask.as_ref())?;
        Ok(storage(out, layout.shape()))
    }

    fn bwd(&self, x: &Tensor, _out: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let backward = GeluBackward { mask: self.mask.as_ref() };
        Ok(Some(x.apply_op2_no_bwd(&grad.contiguous()?, &backward)?))
    }
}

impl CustomOp2 for GeluBackward<'_> {
    fn name(&self) -> &'static str {
        "gelu-dropout-backward"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        layout: &Layout,
        grad: &CpuStorage,
        grad_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, grad) = (numbers(x, layout)?, numbers(grad, grad_layout)?);
        let mut out = vec![0f32; x.len()];
        by_rows(&mut out, 1, |first, rows| {
            for ((y, x), g) in rows.iter_mut().zip(&x[first..]).zip(&grad[first..]) {
                *y = g * (normal_cdf(*x) + x * normal_density(*x));
            }
        });
        masked(&mut out, self.mask)?;
        Ok(storage(out, layout.shape()))
    }
}
