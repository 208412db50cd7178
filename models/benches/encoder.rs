//! Speed of encoder training. The peer of `step` is `scripts/bench/encoder_torch.py`: run both
//! on the same machine, in turns, and compare the ratio.
//!
//! `cargo bench -p tracemill-models --bench encoder`

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::Duration;

use candle_core::{Device, Tensor};
use criterion::{Criterion, criterion_group, criterion_main};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracemill_models::multiview::{Encoder, EncoderConfig, TrainConfig, TrainData, ViewBatch, train};
use tracemill_models::optim::AdamW;

fn units(count: usize, width: usize) -> ViewBatch {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let views = [0; 3].map(|_| {
        let numbers: Vec<f32> = (0..count * width).map(|_| rng.random_range(-1.0..1.0)).collect();
        Tensor::from_vec(numbers, (count, width), &Device::Cpu).expect("the shape fits")
    });
    ViewBatch::new(views, vec![[true; 3]; count]).expect("the shapes agree")
}

/// Forward, backward and update: three views of 3072, batch 512, all losses, dropout on.
fn step(c: &mut Criterion) {
    let (config, batch) = (TrainConfig::default(), units(512, 3072));
    let shape = EncoderConfig { dim_in: 3072, ..EncoderConfig::default() };
    let encoder = Encoder::new(shape, 0, candle_core::DType::F32, &Device::Cpu).expect("valid settings");
    let mut optimizer = AdamW::new(config.optimizer());
    let mut dropout = ChaCha8Rng::seed_from_u64(1);
    c.bench_function("step 3x(512x3072)", |b| {
        b.iter(|| {
            let loss = encoder.losses(&batch, &config, Some(&mut dropout)).expect("finite numbers");
            let grads = loss.loss.backward().expect("every operation has a backward");
            black_box(optimizer.step(encoder.vars(), &grads).expect("finite gradients"))
        });
    });
}

/// An epoch over 4,000 units of three 384-dimensional views, batch 256, 10 % held out.
fn epoch(c: &mut Criterion) {
    let groups = (0..4000).map(|i| (i / 10).to_string()).collect();
    let data = TrainData::new(units(4000, 384), groups).expect("one group for each unit");
    let config = TrainConfig { epochs: 1, ..TrainConfig::default() };
    c.bench_function("epoch 4000x384", |b| {
        b.iter(|| {
            let run =
                train(&data, &EncoderConfig::default(), &config, None, &mut |_, _| ControlFlow::Continue(()));
            black_box(run.expect("finite gradients"))
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).measurement_time(Duration::from_secs(5)).without_plots();
    targets = step, epoch
}
criterion_main!(benches);
