//! Every parameter gets a gradient, and it is the derivative.

use candle_core::{DType, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::super::losses::scalar;
use super::super::ops::unit_rows;
use super::super::random::{Purpose, stream, uniform};
use super::super::{Encoder, LossVariant, TrainConfig, ViewBatch, contrastive, prediction, reconstruction};
use super::{batch, encoder, masked, values};

#[test]
fn every_parameter_gets_a_gradient() {
    let encoder = encoder(DType::F32);
    let config = TrainConfig::default();
    let mut dropout = stream(0, Purpose::Dropout, 0, 0);
    let loss = encoder.losses(&batch(DType::F32, masked()), &config, Some(&mut dropout)).unwrap();
    let grads = loss.loss.backward().unwrap();
    assert_eq!(encoder.vars().len(), 3 * 6 + 6 * 4 + 3 * 2);
    for (name, var) in encoder.vars() {
        let grad = values(grads.get(var).unwrap_or_else(|| panic!("{name} has no gradient")));
        assert!(grad.iter().all(|g| g.is_finite()), "{name}");
        assert!(grad.iter().any(|g| *g != 0.0), "{name} has a zero gradient");
    }
}

#[test]
fn a_variant_trains_its_own_parts_only() {
    for variant in LossVariant::ALL {
        let encoder = encoder(DType::F32);
        let config = TrainConfig { variant, ..TrainConfig::default() };
        let loss = encoder.losses(&batch(DType::F32, masked()), &config, None).unwrap();
        let grads = loss.loss.backward().unwrap();
        for (name, var) in encoder.vars() {
            let trained = match name.split('.').next().unwrap() {
                "predictor" => variant.predicts(),
                "decoder" => variant.reconstructs(),
                _ => true,
            };
            assert_eq!(grads.get(var).is_some(), trained, "{variant:?} {name}");
        }
        assert_eq!(loss.metrics.contains_key("prediction"), variant.predicts());
        assert_eq!(loss.metrics.contains_key("reconstruction"), variant.reconstructs());
    }
}

/// Compares the gradient of each parameter with the central difference along two random directions.
fn check(loss: impl Fn(&Encoder, &ViewBatch) -> Tensor) {
    const STEP: f64 = 1e-5;
    let encoder = encoder(DType::F64);
    let batch = batch(DType::F64, masked());
    let grads = loss(&encoder, &batch).backward().unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut checked = 0;
    for (name, var) in encoder.vars() {
        let Some(grad) = grads.get(var) else { continue };
        let start = var.as_tensor().copy().unwrap();
        for _ in 0..2 {
            let direction = uniform(&mut rng, 1.0, start.elem_count());
            let direction = Tensor::from_vec(direction, start.shape(), start.device()).unwrap();
            let direction = direction.to_dtype(DType::F64).unwrap();
            let at = |step: f64| {
                var.set(&(&start + (&direction * step).unwrap()).unwrap()).unwrap();
                scalar(&loss(&encoder, &batch)).unwrap()
            };
            let difference = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            let along = scalar(&(grad * &direction).unwrap().sum_all().unwrap()).unwrap();
            let tolerance = 1e-7 * along.abs().max(1.0);
            assert!((difference - along).abs() < tolerance, "{name}: {difference} against {along}");
        }
        var.set(&start).unwrap();
        checked += 1;
    }
    assert!(checked >= 18, "{checked}");
}

#[test]
fn contrastive_agrees_with_finite_differences() {
    for include_self in [false, true] {
        check(|encoder, batch| {
            let z = encoder.views(batch, None).unwrap();
            contrastive(&z, batch.present(), 0.1, include_self).unwrap().loss
        });
    }
}

#[test]
fn prediction_agrees_with_finite_differences() {
    check(|encoder, batch| {
        let z = encoder.views(batch, None).unwrap();
        let unit = [0, 1, 2].map(|v| unit_rows(&z[v]).unwrap());
        prediction(&unit, &encoder.predict(&unit).unwrap(), batch.present()).unwrap().loss
    });
}

#[test]
fn reconstruction_agrees_with_finite_differences() {
    check(|encoder, batch| {
        let z = encoder.views(batch, None).unwrap();
        reconstruction(&encoder.decode(&z).unwrap(), batch.x(), batch.present()).unwrap().loss
    });
}

#[test]
fn the_total_with_dropout_agrees_with_finite_differences() {
    check(|encoder, batch| {
        let mut dropout = stream(4, Purpose::Dropout, 0, 0);
        encoder.losses(batch, &TrainConfig::default(), Some(&mut dropout)).unwrap().loss
    });
}
