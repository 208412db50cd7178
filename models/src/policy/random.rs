//! Seeded random numbers of a policy, drawn on the host: the device generators cannot be seeded alike.

use candle_core::Tensor;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::error::Result;

/// The stream of a name under a seed: names that differ have streams that have nothing in common.
pub(super) fn stream(seed: u64, name: &str) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(xxh3_64_with_seed(name.as_bytes(), seed));
    rng
}

/// Dropout on the inputs of adapters. The mask of a module is a function of seed and name, so that the backward draws
/// the forward's again instead of keeping it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dropout {
    /// Share of numbers that become 0; the others grow by `1/(1−p)`.
    pub p: f64,
    /// Another for every batch.
    pub seed: u64,
}

impl Dropout {
    /// None at all.
    pub fn off() -> Self {
        Self::default()
    }

    pub(super) fn is_off(&self) -> bool {
        self.p <= 0.0
    }

    pub(super) fn apply(&self, x: &Tensor, module: &str) -> Result<Tensor> {
        if self.is_off() {
            return Ok(x.clone());
        }
        let (keep, mut rng) = ((1.0 / (1.0 - self.p)) as f32, stream(self.seed, module));
        let mask: Vec<f32> =
            (0..x.elem_count()).map(|_| if rng.random::<f64>() < self.p { 0.0 } else { keep }).collect();
        let mask = Tensor::from_vec(mask, x.shape(), x.device())?.to_dtype(x.dtype())?;
        Ok((x * mask)?)
    }
}
