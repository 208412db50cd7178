//! Tests of the encoder as a whole.

mod behaviour;
mod extremes;
mod golden;
mod gradients;
mod kernels;
mod training;

use candle_core::{DType, Device, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::random::uniform;
use super::{Encoder, EncoderConfig, Presence, TrainConfig, TrainData, ViewBatch};

/// Small enough for finite differences of every parameter.
fn small() -> EncoderConfig {
    EncoderConfig { dim_in: 12, hidden: 8, dim: 8, predictor_hidden: 4, ..EncoderConfig::default() }
}

fn encoder(dtype: DType) -> Encoder {
    Encoder::new(small(), 1, dtype, &Device::Cpu).unwrap()
}

/// Every kind of unit: all views, one missing, one only.
fn masked() -> Vec<Presence> {
    [
        [true, true, true],
        [true, false, true],
        [false, true, true],
        [true, true, false],
        [true, false, false],
        [true, true, true],
        [false, false, true],
    ]
    .to_vec()
}

fn random_views(units: usize, width: usize, dtype: DType, seed: u64) -> [Tensor; 3] {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    [0; 3].map(|_| {
        let values = uniform(&mut rng, 1.0, units * width);
        Tensor::from_vec(values, (units, width), &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
    })
}

fn batch(dtype: DType, present: Vec<Presence>) -> ViewBatch {
    ViewBatch::new(random_views(present.len(), 12, dtype, 5), present).unwrap()
}

/// Forty units of eight episodes, some with missing views.
fn data() -> TrainData {
    let present: Vec<Presence> = (0..40).map(|i| masked()[i % 7]).collect();
    let groups = (0..40).map(|i| format!("episode-{}", i / 5)).collect();
    TrainData::new(batch(DType::F32, present), groups).unwrap()
}

fn quick() -> TrainConfig {
    TrainConfig { epochs: 6, batch_size: 8, holdout: 0.25, lr: 1e-2, seed: 3, ..TrainConfig::default() }
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}
