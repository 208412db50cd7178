//! Identical rows, zero vectors, one unit, huge values: finite, or a defined error.

use candle_core::{DType, Device, Tensor, Var};

use super::super::losses::scalar;
use super::super::{Encoder, EncoderError, TrainConfig, ViewBatch, contrastive, prediction, reconstruction};
use super::{small, values};

fn finite(views: [Tensor; 3], rows: usize) -> f64 {
    let encoder = Encoder::new(small(), 1, DType::F32, &Device::Cpu).unwrap();
    let batch = ViewBatch::new(views, vec![[true; 3]; rows]).unwrap();
    let loss = encoder.losses(&batch, &TrainConfig::default(), None).unwrap();
    let grads = loss.loss.backward().unwrap();
    for (name, var) in encoder.vars() {
        if let Some(grad) = grads.get(var) {
            assert!(values(grad).iter().all(|g| g.is_finite()), "{name}");
        }
    }
    assert!(loss.metrics.values().all(|m| m.is_finite()), "{:?}", loss.metrics);
    let latents = encoder.encode(&batch).unwrap();
    assert!(values(&latents.fused_unit).iter().all(|z| z.is_finite()));
    loss.metrics["contrastive"]
}

fn filled(value: f32, rows: usize) -> [Tensor; 3] {
    [0; 3].map(|_| Tensor::full(value, (rows, 12), &Device::Cpu).unwrap())
}

#[test]
fn identical_rows_cannot_be_told_apart() {
    // All cosines of a pair are equal, so each log-ratio is log(1/(N-1)), negated.
    let loss = finite(filled(0.3, 5), 5);
    assert!((loss - 4f64.ln()).abs() < 1e-4, "{loss}");
}

#[test]
fn zero_and_huge_and_tiny_inputs_stay_finite() {
    for value in [0.0, 1e15, 1e-30] {
        finite(filled(value, 3), 3);
    }
}

#[test]
fn one_unit_has_no_contrast() {
    assert!(finite(filled(0.5, 1), 1).abs() < 1e-12);
    let z = filled(0.5, 1);
    let loss = contrastive(&z, &[[true; 3]], 0.1, false).unwrap();
    assert!(scalar(&loss.loss).unwrap().abs() < 1e-12);
    assert_eq!((loss.metrics["pairs"], loss.metrics["skipped_pairs"]), (0.0, 6.0));
}

#[test]
fn zero_latents_have_finite_gradients() {
    let var = Var::from_tensor(&Tensor::zeros((3, 4), DType::F32, &Device::Cpu).unwrap()).unwrap();
    let z = [0; 3].map(|_| var.as_tensor().clone());
    let present = [[true; 3]; 3];
    let one = contrastive(&z, &present, 0.1, false).unwrap().loss;
    let other = reconstruction(&z, &z, &present).unwrap().loss;
    let grads = (one + other).unwrap().backward().unwrap();
    assert!(values(grads.get(&var).unwrap()).iter().all(|g| g.is_finite()));
}

#[test]
fn a_small_temperature_does_not_overflow() {
    let rows = [[1f32, 0.0], [0.0, 1.0], [-1.0, 0.0]];
    let z = [0; 3].map(|_| Tensor::new(&rows, &Device::Cpu).unwrap());
    let loss = scalar(&contrastive(&z, &[[true; 3]; 3], 1e-4, true).unwrap().loss).unwrap();
    assert!(loss.abs() < 1e-6, "{loss}");
    let error = contrastive(&z, &[[true; 3]; 3], 0.0, true).unwrap_err();
    assert!(matches!(error, EncoderError::Setting { name: "tau", .. }));
}

#[test]
fn a_hand_computed_contrast_and_the_pairs_it_skips() {
    // Two units, cosines 1 on the diagonal and 0 off it, τ = 0.5: −log(e² / e⁰) = −2.
    let rows = [[2f32, 0.0], [0.0, 3.0]];
    let z = [0; 3].map(|_| Tensor::new(&rows, &Device::Cpu).unwrap());
    let present = [[true, true, true], [true, true, false]];
    let loss = contrastive(&z, &present, 0.5, false).unwrap();
    assert!((scalar(&loss.loss).unwrap() + 2.0).abs() < 1e-6);
    assert_eq!((loss.metrics["pairs"], loss.metrics["terms"]), (2.0, 4.0));
}

#[test]
fn means_run_over_the_units_that_have_the_views() {
    let zero = Tensor::zeros((2, 2), DType::F32, &Device::Cpu).unwrap();
    let made = Tensor::new(&[[1f32, 1.0], [3.0, 0.0]], &Device::Cpu).unwrap();
    let z = [0; 3].map(|_| zero.clone());
    let predicted = [0; 6].map(|_| made.clone());
    // Pairs of environment and middle: both units, (2 + 9)/2; the other four: the first unit, 2.
    let present = [[true, true, true], [true, true, false]];
    let loss = scalar(&prediction(&z, &predicted, &present).unwrap().loss).unwrap();
    assert!((loss - (2.0 * 5.5 + 4.0 * 2.0) / 6.0).abs() < 1e-6, "{loss}");
    // Views: (2 + 9)/2 twice and 2 once.
    let decoded = [0; 3].map(|_| made.clone());
    let loss = scalar(&reconstruction(&decoded, &z, &present).unwrap().loss).unwrap();
    assert!((loss - 13.0 / 3.0).abs() < 1e-6, "{loss}");
}
