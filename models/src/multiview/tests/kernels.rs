//! The f32 kernels against the primitive operations in f64: values and gradients.

use candle_core::{Tensor, Var};

use super::super::error::Result;
use super::super::{fused, ops};
use super::{random_views, values};

use candle_core::DType::{F32, F64};

fn var(rows: usize, width: usize, seed: u64) -> Tensor {
    random_views(rows, width, F32, seed)[0].clone()
}

/// Applies both forms to the same numbers, weighs their output with fixed numbers and compares it
/// and every input's gradient, to 2e-6 of the largest value.
fn same(
    inputs: &[Tensor],
    form: impl Fn(&[Tensor]) -> Result<Tensor>,
    reference: impl Fn(&[Tensor]) -> Result<Tensor>,
) {
    let run = |dtype, form: &dyn Fn(&[Tensor]) -> Result<Tensor>| {
        let vars: Vec<Var> =
            inputs.iter().map(|x| Var::from_tensor(&x.to_dtype(dtype).unwrap()).unwrap()).collect();
        let tensors: Vec<Tensor> = vars.iter().map(|v| v.as_tensor().clone()).collect();
        let out = form(&tensors).unwrap();
        let scale = var(1, out.elem_count(), 99).reshape(out.shape()).unwrap().to_dtype(dtype).unwrap();
        let grads = (&out * scale).unwrap().sum_all().unwrap().backward().unwrap();
        let mut all = vec![values(&out)];
        all.extend(vars.iter().map(|v| grads.get(v).map(values).unwrap_or_default()));
        all
    };
    let (found, expected) = (run(F32, &form), run(F64, &reference));
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "output or input {at}");
        let largest = expected.iter().fold(0f64, |most, x| most.max(x.abs()));
        for (f, e) in found.iter().zip(expected) {
            assert!((f - e).abs() <= 2e-6 * largest, "output or input {at}: {f} for {e}, largest {largest}");
        }
    }
}

/// A row or number as a tensor of one dimension.
fn row(width: usize, seed: u64) -> Tensor {
    var(1, width, seed).squeeze(0).unwrap()
}

#[test]
fn linear_is_the_primitive_one() {
    let inputs = [var(37, 21, 1), var(13, 21, 2), row(13, 3)];
    same(
        &inputs,
        |t| Ok(fused::linear(&t[0], &t[1], &t[2])?),
        |t| ops::primitive::linear(&t[0], &t[1], &t[2]),
    );
}

#[test]
fn linear_leaves_a_constant_input_without_gradient() {
    let (x, w, b) = (var(5, 4, 1), Var::from_tensor(&var(3, 4, 2)).unwrap(), row(3, 3));
    let grads = fused::linear(&x, w.as_tensor(), &b).unwrap().sum_all().unwrap().backward().unwrap();
    assert!(grads.get(&w).is_some() && grads.get(&x).is_none());
}

#[test]
fn gelu_is_the_primitive_one() {
    let x = (var(300, 70, 1) * 6.0).unwrap();
    same(std::slice::from_ref(&x), |t| Ok(fused::gelu(&t[0], None)?), |t| ops::primitive::gelu(&t[0], None));
    let mask = var(300, 70, 2).gt(0f64).unwrap();
    let of = |t: &Tensor| (mask.to_dtype(t.dtype()).unwrap() * 2.0).unwrap();
    same(
        &[x],
        |t| Ok(fused::gelu(&t[0], Some(&of(&t[0])))?),
        |t| ops::primitive::gelu(&t[0], Some(&of(&t[0]))),
    );
}

#[test]
fn layer_norm_is_the_primitive_one() {
    let inputs = [(var(90, 33, 1) + 3.0).unwrap(), row(33, 2), row(33, 3)];
    same(
        &inputs,
        |t| Ok(fused::layer_norm(&t[0], &t[1], &t[2], 1e-5)?),
        |t| ops::primitive::layer_norm(&t[0], &t[1], &t[2], 1e-5),
    );
}

#[test]
fn unit_rows_are_the_primitive_ones() {
    same(&[var(90, 33, 1)], |t| Ok(fused::unit_rows(&t[0], 1e-24)?), |t| ops::primitive::unit_rows(&t[0]));
}

#[test]
fn squared_error_is_the_primitive_one() {
    let weights = row(40, 3);
    let of = |t: &Tensor| weights.to_dtype(t.dtype()).unwrap();
    same(
        &[var(40, 19, 1), var(40, 19, 2)],
        |t| Ok(fused::squared_error(&t[0], &t[1], &of(&t[0]))?),
        |t| ops::primitive::squared_error(&t[0], &t[1], &of(&t[0])),
    );
}

#[test]
fn contrast_is_the_primitive_one() {
    for (n, include_self) in [(2, false), (2, true), (150, false), (150, true)] {
        let inputs = [1, 2].map(|seed| ops::unit_rows(&var(n, 16, seed)).unwrap().detach());
        for tau in [0.1, 0.01] {
            same(
                &inputs,
                |t| Ok(fused::contrast(&t[0], &t[1], tau, include_self)?),
                |t| ops::primitive::contrast(&t[0], &t[1], tau, include_self),
            );
        }
    }
}
