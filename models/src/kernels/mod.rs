//! What hand-written CPU kernels in f32 share: candle's element-wise operations run on one thread and its backward
//! of a broadcast sums along strides, which together cost more than the matrix products.
//!
//! Work is cut into pieces of fixed size, so results do not depend on the number of threads.

mod few;
pub(crate) mod math;
mod product;
mod update;

use candle_core::{CpuStorage, DType, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

pub(crate) use few::few_rows;
pub(crate) use product::{View, product};
pub(crate) use update::{Moment, Parameter, sum_of_squares};

/// Numbers a task works on, about a quarter of a core's cache.
pub(crate) const PIECE: usize = 16_384;

/// Runs a loop compiled for the widest vectors that this machine has. What it calls must be inlined to profit.
#[inline]
pub(crate) fn vectorised<T>(work: impl FnOnce() -> T) -> T {
    struct Work<F>(F);
    impl<T, F: FnOnce() -> T> pulp::NullaryFnOnce for Work<F> {
        type Output = T;

        #[inline(always)]
        #[allow(clippy::inline_always, reason = "what is not inlined is not compiled for the vectors")]
        fn call(self) -> T {
            (self.0)()
        }
    }
    pulp::Arch::new().dispatch(Work(work))
}

/// Whether the kernels take these tensors.
pub(crate) fn takes(tensors: &[&Tensor]) -> bool {
    tensors
        .iter()
        .all(|t| t.device().is_cpu() && t.dtype() == DType::F32 && t.is_contiguous() && t.elem_count() > 0)
}

/// The numbers of a contiguous f32 storage.
pub(crate) fn numbers<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(all), Some((from, to))) => Ok(&all[from..to]),
        _ => bail!("expected contiguous f32 numbers"),
    }
}

/// Writes `out` row by row, several rows to a task. `task(first, rows)` gets the number of the first
/// row and the rows' numbers.
pub(crate) fn by_rows(out: &mut [f32], width: usize, task: impl Fn(usize, &mut [f32]) + Sync) {
    let rows = (PIECE / width).max(1);
    out.par_chunks_mut(rows * width).enumerate().for_each(|(piece, chunk)| task(piece * rows, chunk));
}

/// One f64 for each row, in parallel; summed by the caller in row order.
pub(crate) fn for_rows(rows: usize, of: impl Fn(usize) -> f64 + Sync + Send) -> Vec<f64> {
    (0..rows).into_par_iter().with_min_len(16).map(of).collect()
}

/// Sums of the columns, as a product with ones: a matrix product is the fastest reduction there is.
pub(crate) fn column_sums(x: &Tensor) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    Tensor::ones((1, rows), x.dtype(), x.device())?.matmul(x)?.reshape(width)
}

pub(crate) fn storage(numbers: Vec<f32>, shape: &Shape) -> (CpuStorage, Shape) {
    (CpuStorage::F32(numbers), shape.clone())
}
