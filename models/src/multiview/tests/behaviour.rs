//! Masks, dropout, fusion, imputation, bytes.

use candle_core::{DType, Device, Tensor};

use super::super::random::{Purpose, stream};
use super::super::{Encoder, EncoderConfig, EncoderError, TrainConfig, ViewBatch};
use super::{batch, encoder, masked, random_views, small, values};

fn outputs(encoder: &Encoder, batch: &ViewBatch) -> Vec<Vec<f64>> {
    let latents = encoder.encode(batch).unwrap();
    let loss = encoder.losses(batch, &TrainConfig::default(), None).unwrap().loss;
    let grads = loss.backward().unwrap();
    let mut all = vec![values(&latents.fused), values(&latents.fused_unit), values(&latents.subgroup_unit)];
    all.extend(encoder.impute(batch).unwrap().iter().map(values));
    all.push(values(&loss));
    all.extend(encoder.vars().values().map(|var| values(grads.get(var).unwrap())));
    all
}

#[test]
fn what_stands_in_a_masked_view_changes_nothing() {
    let encoder = encoder(DType::F32);
    let expected = outputs(&encoder, &batch(DType::F32, masked()));
    for filler in [0.0, 7.0, f32::NAN, f32::INFINITY] {
        let other = random_views(7, 12, DType::F32, 5).map(|view| view.to_vec2::<f32>().unwrap());
        let mut views = other;
        for (row, present) in masked().iter().enumerate() {
            for slot in (0..3).filter(|slot| !present[*slot]) {
                views[slot][row].fill(filler);
            }
        }
        let views = views.map(|view| Tensor::new(view, &Device::Cpu).unwrap());
        let found = outputs(&encoder, &ViewBatch::new(views, masked()).unwrap());
        assert_eq!(found, expected, "filler {filler}");
    }
}

#[test]
fn a_present_view_does_change_the_latent() {
    let encoder = encoder(DType::F32);
    let [a, b, c] = random_views(7, 12, DType::F32, 5);
    let changed = ViewBatch::new([a, b, (c * 2.0).unwrap()], masked()).unwrap();
    assert_ne!(outputs(&encoder, &changed), outputs(&encoder, &batch(DType::F32, masked())));
}

#[test]
fn dropout_is_active_in_training_only() {
    let config = EncoderConfig { dropout: 0.5, ..small() };
    let encoder = Encoder::new(config, 1, DType::F32, &Device::Cpu).unwrap();
    let batch = batch(DType::F32, masked());
    let eval = |_: usize| values(&encoder.encode(&batch).unwrap().fused);
    assert_eq!(eval(0), eval(1));
    let train =
        |at: usize| values(&encoder.views(&batch, Some(&mut stream(0, Purpose::Dropout, 0, at))).unwrap()[0]);
    assert_eq!(train(0), train(0));
    assert_ne!(train(0), train(1));
    assert_ne!(train(0), values(&encoder.views(&batch, None).unwrap()[0]));
}

#[test]
fn fusion_weights_are_shared_among_the_views_present() {
    let latents = encoder(DType::F64).encode(&batch(DType::F64, masked())).unwrap();
    let rows = |t: &Tensor| t.to_vec2::<f64>().unwrap();
    let (z, fused, unit) =
        (latents.views.each_ref().map(rows), rows(&latents.fused), rows(&latents.fused_unit));
    let expect = |row: usize, weights: [f64; 3]| {
        for (at, found) in fused[row].iter().enumerate() {
            let expected: f64 = (0..3).map(|v| weights[v] * z[v][row][at]).sum();
            assert!((found - expected).abs() < 1e-12);
        }
        assert!((unit[row].iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-12);
    };
    expect(0, [0.4, 0.3, 0.3]);
    expect(1, [4.0 / 7.0, 0.0, 3.0 / 7.0]);
    expect(2, [0.0, 0.5, 0.5]);
    expect(4, [1.0, 0.0, 0.0]);
    // Row 4 has neither middle nor description.
    assert!(rows(&latents.subgroup_unit)[4].iter().all(|x| *x == 0.0));
}

#[test]
fn only_absent_views_are_imputed() {
    let encoder = encoder(DType::F64);
    let batch = batch(DType::F64, masked());
    let views = encoder.views(&batch, None).unwrap();
    let unit = [0, 1, 2].map(|v| super::super::ops::unit_rows(&views[v]).unwrap().to_vec2::<f64>().unwrap());
    let predicted = encoder
        .predict(&[0, 1, 2].map(|v| super::super::ops::unit_rows(&views[v]).unwrap()))
        .unwrap()
        .map(|t| t.to_vec2::<f64>().unwrap());
    let imputed = encoder.impute(&batch).unwrap().map(|t| t.to_vec2::<f64>().unwrap());
    let near = |a: &[f64], b: &[f64]| {
        let length = b.iter().map(|x| x * x).sum::<f64>().sqrt();
        a.iter().zip(b).all(|(x, y)| (x - y / length).abs() < 1e-12)
    };
    for (row, present) in masked().iter().enumerate() {
        for slot in (0..3).filter(|slot| present[*slot]) {
            assert!(near(&imputed[slot][row], &unit[slot][row]));
        }
    }
    // Row 1 lacks the middle view: predicted from environment (pair 0) and description (pair 5).
    let sum: Vec<f64> = predicted[0][1].iter().zip(&predicted[5][1]).map(|(a, b)| a + b).collect();
    assert!(near(&imputed[1][1], &sum));
    // Row 6 has only a description: the environment is predicted from it alone (pair 4).
    assert!(near(&imputed[0][6], &predicted[4][6]));
}

#[test]
fn initial_weights_follow_the_seed_and_the_bound() {
    let make = |seed| Encoder::new(small(), seed, DType::F32, &Device::Cpu).unwrap();
    let first = make(1).vars()["head.env.linear1.weight"].to_vec2::<f32>().unwrap();
    assert_eq!(first, make(1).vars()["head.env.linear1.weight"].to_vec2::<f32>().unwrap());
    assert_ne!(first, make(2).vars()["head.env.linear1.weight"].to_vec2::<f32>().unwrap());
    let largest = first.iter().flatten().fold(0f32, |most, w| most.max(w.abs()));
    let bound = 1.0 / 12f32.sqrt();
    assert!(largest <= bound && largest > 0.9 * bound, "{largest} {bound}");
}

#[test]
fn an_encoder_survives_its_bytes() {
    let encoder = encoder(DType::F32);
    let bytes = encoder.to_safetensors().unwrap();
    assert_eq!(bytes, encoder.to_safetensors().unwrap());
    let back = Encoder::from_safetensors(&bytes, &Device::Cpu).unwrap();
    assert_eq!(back.config(), encoder.config());
    let batch = batch(DType::F32, masked());
    assert_eq!(outputs(&back, &batch), outputs(&encoder, &batch));
    assert!(Encoder::from_safetensors(&bytes[..bytes.len() / 2], &Device::Cpu).is_err());
}

#[test]
fn a_missing_or_misshapen_parameter_is_named() {
    let mut tensors = encoder(DType::F32).tensors().unwrap();
    let taken = tensors.remove("decoder.env.bias").unwrap();
    let error = Encoder::from_tensors(small(), &tensors).unwrap_err();
    assert!(matches!(&error, EncoderError::MissingTensor { name } if name == "decoder.env.bias"), "{error}");
    tensors.insert("decoder.env.bias".to_owned(), taken.narrow(0, 0, 3).unwrap());
    let error = Encoder::from_tensors(small(), &tensors).unwrap_err();
    assert_eq!(error.to_string(), "decoder.env.bias has shape [3], expected [12]");
}

#[test]
fn views_of_another_width_are_refused() {
    let batch = ViewBatch::new(random_views(7, 5, DType::F32, 1), masked()).unwrap();
    assert!(matches!(encoder(DType::F32).encode(&batch), Err(EncoderError::Shape { .. })));
}
