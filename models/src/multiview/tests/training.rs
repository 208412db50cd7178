//! The loop: exact resume, early stopping, the same bytes with any number of threads.

use std::ops::ControlFlow;
use std::process::Command;

use candle_core::{DType, Device, Tensor};
use xxhash_rust::xxh3::xxh3_64;

use super::super::{
    Checkpoint, Encoder, EncoderConfig, EncoderError, Ended, TrainConfig, TrainData, TrainOutcome, ViewBatch,
    train,
};
use super::{data, quick, random_views, small};
use crate::optim::OptimError;

fn run(config: &TrainConfig, resume: Option<Checkpoint>) -> TrainOutcome {
    train(&data(), &small(), config, resume, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

#[test]
fn the_loss_goes_down_and_epochs_are_reported() {
    let mut seen = Vec::new();
    let config = TrainConfig { epochs: 15, patience: 100, ..quick() };
    let outcome = train(&data(), &small(), &config, None, &mut |metrics, state| {
        assert_eq!(metrics.epoch, state.epoch);
        seen.push(metrics.clone());
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!((seen.len(), outcome.ended), (15, Ended::Epochs));
    assert_eq!((outcome.trained_units, outcome.held_out_units), (30, 10));
    assert_eq!((seen[0].train.units, seen[0].held_out.unwrap().units), (30, 10));
    assert!(seen[14].train.total < seen[0].train.total - 0.5, "{seen:?}");
    assert!(seen.iter().all(|m| m.grad_norm > 0.0 && m.train.prediction.is_some()));
    let best = seen.iter().map(|m| m.held_out.unwrap().total).fold(f64::INFINITY, f64::min);
    assert_eq!(outcome.checkpoint.best.unwrap().loss.to_bits(), best.to_bits());
}

#[test]
fn a_resumed_run_ends_with_the_same_bytes() {
    let whole = run(&quick(), None);
    let part = run(&TrainConfig { epochs: 2, ..quick() }, None);
    let bytes = part.checkpoint.to_safetensors().unwrap();
    let back = Checkpoint::from_safetensors(&bytes, &Device::Cpu).unwrap();
    assert_eq!(back.to_safetensors().unwrap(), bytes);
    let rest = run(&quick(), Some(back));
    assert_eq!(rest.checkpoint.to_safetensors().unwrap(), whole.checkpoint.to_safetensors().unwrap());
    assert_eq!(rest.encoder.to_safetensors().unwrap(), whole.encoder.to_safetensors().unwrap());
    assert_ne!(bytes, whole.checkpoint.to_safetensors().unwrap());
}

#[test]
fn another_seed_gives_other_bytes() {
    let one = run(&quick(), None).encoder.to_safetensors().unwrap();
    assert_eq!(one, run(&quick(), None).encoder.to_safetensors().unwrap());
    assert_ne!(one, run(&TrainConfig { seed: 4, ..quick() }, None).encoder.to_safetensors().unwrap());
}

#[test]
fn resuming_with_other_settings_is_refused() {
    let part = || Some(run(&TrainConfig { epochs: 1, ..quick() }, None).checkpoint);
    let other = TrainConfig { lr: 5e-2, ..quick() };
    let result = train(&data(), &small(), &other, part(), &mut |_, _| ControlFlow::Continue(()));
    assert!(matches!(result, Err(EncoderError::Resume { what: "the training settings", .. })));
    let fewer = TrainData::new(data().units.select(&[0, 1, 2]).unwrap(), vec!["a".to_owned(); 3]).unwrap();
    let result = train(&fewer, &small(), &quick(), part(), &mut |_, _| ControlFlow::Continue(()));
    assert!(matches!(result, Err(EncoderError::Resume { what: "the number of units", .. })));
}

#[test]
fn training_stops_when_the_held_out_loss_does_not_improve() {
    let config = TrainConfig { lr: 1.0, epochs: 200, patience: 2, ..quick() };
    let outcome = run(&config, None);
    assert_eq!(outcome.ended, Ended::Patience);
    let best = outcome.checkpoint.best.as_ref().unwrap();
    assert_eq!(outcome.checkpoint.epoch, best.epoch + 2);
    let kept = Encoder::from_tensors(small(), &best.tensors).unwrap();
    assert_eq!(outcome.encoder.to_safetensors().unwrap(), kept.to_safetensors().unwrap());
    assert_ne!(
        outcome.encoder.to_safetensors().unwrap(),
        outcome.checkpoint.encoder.to_safetensors().unwrap()
    );
}

#[test]
fn the_callback_can_end_it_and_resuming_goes_on() {
    let mut stop = |m: &super::super::EpochMetrics, _: &Checkpoint| {
        if m.epoch == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let outcome = train(&data(), &small(), &quick(), None, &mut stop).unwrap();
    assert_eq!((outcome.ended, outcome.checkpoint.epoch), (Ended::Callback, 2));
    let rest = run(&quick(), Some(outcome.checkpoint));
    assert_eq!(rest.encoder.to_safetensors().unwrap(), run(&quick(), None).encoder.to_safetensors().unwrap());
}

#[test]
fn without_a_second_episode_the_training_loss_decides() {
    let units = data().units;
    let groups = vec!["only".to_owned(); units.len()];
    let data = TrainData::new(units, groups).unwrap();
    let outcome = train(&data, &small(), &quick(), None, &mut |metrics, _| {
        assert!(metrics.held_out.is_none());
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!((outcome.trained_units, outcome.held_out_units), (40, 0));
}

#[test]
fn nan_is_an_error_that_names_the_tensor_and_changes_nothing() {
    let [a, b, c] = random_views(4, 12, DType::F32, 1);
    let bad = Tensor::full(f32::NAN, (4, 12), &Device::Cpu).unwrap();
    let units = ViewBatch::new([a, b, (c + bad).unwrap()], vec![[true; 3]; 4]).unwrap();
    let data = TrainData::new(units, vec!["one".to_owned(); 4]).unwrap();
    let error = train(&data, &small(), &quick(), None, &mut |_, _| ControlFlow::Continue(())).unwrap_err();
    assert!(
        matches!(&error, EncoderError::Optimizer(OptimError::NonFiniteGradient { step: 1, .. })),
        "{error}"
    );
}

#[test]
fn clipping_bounds_the_first_update_direction() {
    let encoder = |clip_norm| {
        let config = TrainConfig { epochs: 1, clip_norm, eps: 1.0, weight_decay: 0.0, ..quick() };
        run(&config, None).checkpoint.encoder.tensors().unwrap()["head.env.linear1.weight"]
            .to_vec2::<f32>()
            .unwrap()
    };
    assert_ne!(encoder(None), encoder(Some(1e-3)));
    assert_eq!(encoder(None), encoder(Some(1e9)));
}

/// Large enough for the matrix products and element-wise kernels to split over threads.
fn digest() -> u64 {
    let encoder = EncoderConfig { dim_in: 200, ..EncoderConfig::default() };
    let units = ViewBatch::new(random_views(300, 200, DType::F32, 8), vec![[true; 3]; 300]).unwrap();
    let groups = (0..300).map(|i| (i / 10).to_string()).collect();
    let config = TrainConfig { epochs: 1, batch_size: 128, ..TrainConfig::default() };
    let data = TrainData::new(units, groups).unwrap();
    let outcome = train(&data, &encoder, &config, None, &mut |_, _| ControlFlow::Continue(())).unwrap();
    xxh3_64(&outcome.checkpoint.to_safetensors().unwrap())
}

const DIGEST_TEST: &str = "multiview::tests::training::digest_for_another_process";

/// Not a test of its own: `the_bytes_do_not_depend_on_the_number_of_threads` runs it in processes
/// with a set number of threads.
#[test]
#[ignore = "run by the_bytes_do_not_depend_on_the_number_of_threads"]
#[allow(clippy::print_stdout, reason = "how the parent process reads the digest")]
fn digest_for_another_process() {
    println!("digest={:016x}", digest());
}

#[test]
fn the_bytes_do_not_depend_on_the_number_of_threads() {
    let with = |threads: &str| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", DIGEST_TEST, "--nocapture"])
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let at = text.find("digest=").unwrap_or_else(|| panic!("{text}"));
        text[at + 7..at + 23].to_owned()
    };
    let one = with("1");
    assert_eq!(one, with("2"));
    assert_eq!(one, with("3"));
}
