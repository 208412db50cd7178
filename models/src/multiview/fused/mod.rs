//! The encoder's operations as CPU kernels with hand-written backwards (see [`crate::kernels`]).

mod contrast;
mod error;
mod gelu;
mod linear;
mod norm;

use crate::kernels::{PIECE, by_rows, column_sums, for_rows, numbers, storage};

pub(super) use crate::kernels::takes;
pub(super) use contrast::contrast;
pub(super) use error::squared_error;
pub(super) use gelu::gelu;
pub(super) use linear::linear;
pub(super) use norm::{layer_norm, unit_rows};
