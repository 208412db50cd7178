//! The optimizer's element-wise work, in place.

use candle_core::{CpuStorage, InplaceOp2, InplaceOp3, Layout, Result, Tensor, bail};
use rayon::prelude::*;

use super::math::dot;
use super::{PIECE, numbers};

/// The update of a moment of `AdamW` from the gradient `g`, in place.
pub(crate) enum Moment {
    /// `m ← β·m + (1−β)·scale·g`
    First { beta: f32, scale: f32 },
    /// `v ← β·v + (1−β)·(scale·g)²`
    Second { beta: f32, scale: f32 },
}

/// The update of a parameter from its moments, in place:
/// `p ← p·keep − rate·m/(√v/root + eps)`
pub(crate) struct Parameter {
    pub keep: f32,
    pub rate: f32,
    pub root: f32,
    pub eps: f32,
}

fn numbers_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> Result<&'a mut [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(all), Some((from, to))) => Ok(&mut all[from..to]),
        _ => bail!("expected contiguous f32 numbers"),
    }
}

impl InplaceOp2 for Moment {
    fn name(&self) -> &'static str {
        "adamw-moment"
    }

    fn cpu_fwd(
        &self,
        moment: &mut CpuStorage,
        layout: &Layout,
        grad: &CpuStorage,
        grad_layout: &Layout,
    ) -> Result<()> {
        let (moment, grad) = (numbers_mut(moment, layout)?, numbers(grad, grad_layout)?);
        let pieces = moment.par_chunks_mut(PIECE).zip(grad.par_chunks(PIECE));
        match *self {
            Self::First { beta, scale } => pieces.for_each(|(m, g)| {
                for (m, g) in m.iter_mut().zip(g) {
                    *m = beta * *m + (1.0 - beta) * (scale * g);
                }
            }),
            Self::Second { beta, scale } => pieces.for_each(|(v, g)| {
                for (v, g) in v.iter_mut().zip(g) {
                    *v = beta * *v + (1.0 - beta) * (scale * g) * (scale * g);
                }
            }),
        }
        Ok(())
    }
}

impl InplaceOp3 for Parameter {
    fn name(&self) -> &'static str {
        "adamw-parameter"
    }

    fn cpu_fwd(
        &self,
        parameter: &mut CpuStorage,
        layout: &Layout,
        first: &CpuStorage,
        first_layout: &Layout,
        second: &CpuStorage,
        second_layout: &Layout,
    ) -> Result<()> {
        let Self { keep, rate, root, eps } = *self;
        let (first, second) = (numbers(first, first_layout)?, numbers(second, second_layout)?);
        let pieces = numbers_mut(parameter, layout)?.par_chunks_mut(PIECE);
        pieces.zip(first.par_chunks(PIECE)).zip(second.par_chunks(PIECE)).for_each(|((p, m), v)| {
            for ((p, m), v) in p.iter_mut().zip(m).zip(v) {
                *p = *p * keep - rate * m / (v.sqrt() / root + eps);
            }
        });
        Ok(())
    }
}

/// `Σ x²`.
pub(crate) fn sum_of_squares(x: &Tensor) -> Result<f64> {
    let (storage, layout) = x.storage_and_layout();
    let candle_core::Storage::Cpu(storage) = &*storage else { bail!("expected a tensor on the CPU") };
    let pieces = numbers(storage, layout)?.par_chunks(PIECE);
    Ok(pieces.map(|piece| f64::from(dot(piece, piece))).collect::<Vec<_>>().iter().sum())
}
