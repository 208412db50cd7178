//! Small matrix products on slices, for kernels that run many at once.

use gemm::{Parallelism, gemm};

/// A matrix inside a slice: element `(i, j)` is at `offset + i·row + j·col`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub numbers: &'a [f32],
    pub offset: usize,
    pub row: usize,
    pub col: usize,
}

impl<'a> View<'a> {
    /// Rows of `row` numbers each, from `offset` on.
    pub fn rows(numbers: &'a [f32], offset: usize, row: usize) -> Self {
        Self { numbers, offset, row, col: 1 }
    }

    /// The transpose.
    pub fn t(self) -> Self {
        Self { row: self.col, col: self.row, ..self }
    }

    fn holds(&self, rows: usize, cols: usize) -> bool {
        rows == 0
            || cols == 0
            || self.offset + (rows - 1) * self.row + (cols - 1) * self.col < self.numbers.len()
    }
}

/// `out ← keep·out + scale·a·b` on this thread, with `a` of `m × k`, `b` of `k × n`, and `out` of `m × n` in rows of
/// `out_row` numbers.
///
/// # Panics
/// When a matrix reaches beyond its slice.
pub(crate) fn product(
    out: &mut [f32],
    out_row: usize,
    keep: bool,
    (m, k, n): (usize, usize, usize),
    scale: f32,
    a: View<'_>,
    b: View<'_>,
) {
    if m == 0 || n == 0 {
        return;
    }
    assert!(a.holds(m, k) && b.holds(k, n) && (m - 1) * out_row + n <= out.len() && n <= out_row);
    let beta = scale;
    // SAFETY: every element of the three matrices lies inside its slice (asserted above), `out` is borrowed mutably and
    // its rows do not overlap.
    #[allow(unsafe_code)]
    unsafe {
        gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            out_row as isize,
            keep,
            a.numbers.as_ptr().add(a.offset.min(a.numbers.len())),
            a.col as isize,
            a.row as isize,
            b.numbers.as_ptr().add(b.offset.min(b.numbers.len())),
            b.col as isize,
            b.row as isize,
            1.0,
            beta,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_accumulate_scale_and_transpose() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, -1.0, 0.5, 2.0, 0.0, 1.0]);
        let mut out = [10.0; 5];
        // a: 2 x 3, b: 3 x 2, out in rows of 3.
        product(&mut out, 3, true, (2, 3, 2), 2.0, View::rows(&a, 0, 3), View::rows(&b, 0, 2));
        assert_eq!(out, [14.0, 22.0, 10.0, 23.0, 34.0]);
        product(&mut out, 3, false, (2, 2, 2), 1.0, View::rows(&a, 0, 3), View::rows(&b, 0, 2).t());
        assert_eq!(out, [-1.0, 4.5, 10.0, -1.0, 12.0]);
    }
}
