//! `SwiGLU`: `silu(gate)·up`, with `silu(x) = x·σ(x)`.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor};

use crate::kernels::math::exp;
use crate::kernels::{by_rows, numbers, storage, takes, vectorised};

/// Numbers a task works on.
const WIDTH: usize = 1024;

/// # Shapes
/// Both the same.
pub(in super::super) fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    if takes(&[gate, up]) { gate.apply_op2_no_bwd(up, &Forward) } else { candle_nn::ops::silu(gate)? * up }
}

/// Gradients of gate and up: `grad·up·σ(gate)·(1 + gate·(1 − σ(gate)))` and `grad·silu(gate)`.
pub(in super::super) fn swiglu_backward(
    gate: &Tensor,
    up: &Tensor,
    grad: &Tensor,
) -> Result<(Tensor, Tensor)> {
    if takes(&[gate, up, grad]) {
        let of = |side| gate.apply_op3_no_bwd(up, grad, &Backward { side });
        return Ok((of(Side::Gate)?, of(Side::Up)?));
    }
    let sigmoid = candle_nn::ops::sigmoid(gate)?;
    let slope = (&sigmoid * ((gate * (1.0 - &sigmoid)?)? + 1.0)?)?;
    Ok((((grad * up)? * slope)?, (grad * (gate * sigmoid)?)?))
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled for the vectors of its caller")]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

struct Forward;

impl CustomOp2 for Forward {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn cpu_fwd(
        &self,
        gate: &CpuStorage,
        layout: &Layout,
        up: &CpuStorage,
        up_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (gate, up) = (numbers(gate, layout)?, numbers(up, up_layout)?);
        let mut out = vec![0f32; gate.len()];
        by_rows(&mut out, WIDTH, |first, piece| {
            let from = first * WIDTH;
            vectorised(
                #[inline(always)]
                || {
                    for ((y, g), u) in piece.iter_mut().zip(&gate[from..]).zip(&up[from..]) {
                        *y = g * sigmoid(*g) * u;
                    }
                },
            );
        });
        Ok(storage(out, layout.shape()))
    }
}

#[derive(Clone, Copy)]
enum Side {
    Gate,
    Up,
}

struct Backward {
    side: Side,
}

impl CustomOp3 for Backward {
    fn name(&self) -> &'static str {
        "swiglu-backward"
    }

    fn cpu_fwd(
        &self,
        gate: &CpuStorage,
        layout: &Layout,
        up: &CpuStorage,
        up_layout: &Layout,
        grad: &CpuStorage,
        grad_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (gate, up, grad) = (numbers(gate, layout)?, numbers(up, up_layout)?, numbers(grad, grad_layout)?);
        let mut out = vec![0f32; gate.len()];
        by_rows(&mut out, WIDTH, |first, piece| {
            let from = first * WIDTH;
            let inputs = gate[from..].iter().zip(&up[from..]).zip(&grad[from..]);
            vectorised(
                #[inline(always)]
                || match self.side {
                    Side::Gate => {
                        for (y, ((g, u), d)) in piece.iter_mut().zip(inputs) {
                            let s = sigmoid(*g);
                            *y = d * u * s * (1.0 + g * (1.0 - s));
                        }
                    }
                    Side::Up => {
                        for (y, ((g, _), d)) in piece.iter_mut().zip(inputs) {
                            *y = d * g * sigmoid(*g);
                        }
                    }
                },
            );
        });
        Ok(storage(out, layout.shape()))
    }
}
