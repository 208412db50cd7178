//! Seeded random streams, drawn on the host: the device generators cannot be seeded alike.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What a stream is for: streams of different purposes never overlap.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Weights = 1,
    Order = 2,
    Dropout = 3,
}

/// The stream of one purpose in one batch of one epoch. Each batch has its own, so that a resumed
/// run draws what the uninterrupted one drew.
pub(super) fn stream(seed: u64, purpose: Purpose, epoch: usize, batch: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(
        (purpose as u64) << 56 | ((epoch as u64) & 0xFFF_FFFF) << 28 | (batch as u64 & 0xFFF_FFFF),
    );
    rng
}

/// `len` draws from U(-bound, bound).
pub(super) fn uniform(rng: &mut ChaCha8Rng, bound: f32, len: usize) -> Vec<f32> {
    (0..len).map(|_| rng.random_range(-bound..bound)).collect()
}

/// A dropout mask: 0 with probability `p`, else `1/(1-p)`. Sixteen random bits decide an entry,
/// which rounds `p` to a multiple of 2⁻¹⁶.
pub(super) fn dropout_mask(rng: &mut ChaCha8Rng, p: f64, len: usize) -> Vec<f32> {
    let threshold = (p * 65_536.0).round() as u64;
    let keep = (1.0 / (1.0 - p)) as f32;
    let mut mask = Vec::with_capacity(len + 3);
    while mask.len() < len {
        let bits = rng.random::<u64>();
        mask.extend([0, 16, 32, 48].map(|at| if (bits >> at) & 0xFFFF < threshold { 0.0 } else { keep }));
    }
    mask.truncate(len);
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_drop_the_stated_share_and_keep_the_mean() {
        let mask = dropout_mask(&mut stream(3, Purpose::Dropout, 0, 0), 0.05, 100_001);
        assert_eq!(mask.len(), 100_001);
        let dropped = mask.iter().filter(|m| **m == 0.0).count() as f64 / mask.len() as f64;
        assert!((dropped - 0.05).abs() < 0.003, "{dropped}");
        let mean = mask.iter().sum::<f32>() / mask.len() as f32;
        assert!((mean - 1.0).abs() < 0.005, "{mean}");
    }

    #[test]
    fn streams_differ_by_purpose_epoch_and_batch() {
        let draw = |purpose, epoch, batch| stream(1, purpose, epoch, batch).random::<u64>();
        let draws = [
            draw(Purpose::Weights, 0, 0),
            draw(Purpose::Order, 0, 0),
            draw(Purpose::Dropout, 0, 0),
            draw(Purpose::Dropout, 1, 0),
            draw(Purpose::Dropout, 0, 1),
        ];
        for (i, a) in draws.iter().enumerate() {
            assert!(!draws[..i].contains(a));
        }
        assert_eq!(draw(Purpose::Dropout, 1, 2), draw(Purpose::Dropout, 1, 2));
    }
}
