//! Importance ratios: of the policy to the one that sampled, and of the trainer to the sampler.

use std::ops::Range;

use super::batch::{TokenBatch, check_values, same_length};
use super::error::RlError;
use super::settings::{RatioLevel, TisLevel, TisSettings};

/// A log-ratio is held within this before `exp`, as in verl; beyond it a ratio has no gradient.
pub(super) const MAX_LOG_RATIO: f64 = 20.0;

/// The same for the geometric mean of a sequence, from above only (verl's `gspo`).
const MAX_SEQUENCE_LOG_RATIO: f64 = 10.0;

/// A ratio at one token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ratio {
    /// `ρ`.
    pub value: f64,
    /// Whether it moves with the log-probability, that is, was not held.
    pub moves: bool,
}

impl Ratio {
    fn of(log: f64, low: f64, high: f64) -> Self {
        Self { value: log.clamp(low, high).exp(), moves: (low..=high).contains(&log) }
    }
}

/// The ratios of one sequence's tokens.
pub(super) fn ratios(batch: &TokenBatch<'_>, tokens: &Range<usize>, level: RatioLevel) -> Vec<Ratio> {
    let log = |t: usize| f64::from(batch.logp[t]) - f64::from(batch.old[t]);
    let counted = tokens.clone().filter(|t| batch.counts(*t));
    let whole = match level {
        RatioLevel::Token => {
            return tokens.clone().map(|t| Ratio::of(log(t), -MAX_LOG_RATIO, MAX_LOG_RATIO)).collect();
        }
        RatioLevel::Sequence => {
            let n = counted.clone().count().max(1) as f64;
            Ratio::of(counted.map(log).sum::<f64>() / n, f64::NEG_INFINITY, MAX_SEQUENCE_LOG_RATIO)
        }
        RatioLevel::SequenceProduct => {
            Ratio::of(counted.map(log).sum::<f64>(), -MAX_LOG_RATIO, MAX_LOG_RATIO)
        }
    };
    vec![whole; tokens.len()]
}

/// Weights of truncated importance sampling for one sequence's tokens, and whether each was truncated:
/// `min(exp(old − sampler), cap)`, held constant; of the sum over counted tokens at the level of a
/// sequence. `None` when it is off.
pub(super) fn tis_weights(
    batch: &TokenBatch<'_>,
    tokens: &Range<usize>,
    settings: Option<&TisSettings>,
) -> Option<Vec<(f64, bool)>> {
    let (settings, sampler) = (settings?, batch.sampler?);
    let log = |t: usize| f64::from(batch.old[t]) - f64::from(sampler[t]);
    let weight = |log: f64| {
        let raw = log.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp();
        (raw.min(settings.cap), raw > settings.cap)
    };
    Some(match settings.level {
        TisLevel::Token => tokens.clone().map(|t| weight(log(t))).collect(),
        TisLevel::Sequence => {
            let sum = tokens.clone().filter(|t| batch.counts(*t)).map(log).sum::<f64>();
            vec![weight(sum); tokens.len()]
        }
    })
}

/// Checks that the ratio is 1 before the first update: where the policy that is trained is still the one
/// that sampled, `max |logp − old|` over the tokens that count must be next to nothing. Returns it.
///
/// # Shapes
/// `logp`, `old`, `mask`: `[T]`.
///
/// # Errors
/// [`RlError::RatioNotOne`] names the token that differs most; [`RlError::Length`] and
/// [`RlError::NonFinite`] name inputs that cannot be compared.
pub fn ratio_gate(logp: &[f32], old: &[f32], mask: Option<&[bool]>, tolerance: f64) -> Result<f64, RlError> {
    same_length("old", old.len(), logp.len())?;
    if let Some(mask) = mask {
        same_length("mask", mask.len(), logp.len())?;
    }
    check_values("logp", logp, mask, logp.len())?;
    check_values("old", old, mask, logp.len())?;
    let differences = logp.iter().zip(old).enumerate().filter(|(t, _)| mask.is_none_or(|mask| mask[*t]));
    let worst = differences.map(|(t, (a, b))| (t, (f64::from(*a) - f64::from(*b)).abs()));
    let Some((index, difference)) = worst.max_by(|a, b| a.1.total_cmp(&b.1)) else { return Ok(0.0) };
    if difference <= tolerance {
        return Ok(difference);
    }
    Err(RlError::RatioNotOne { index, logp: logp[index], old: old[index], difference, tolerance })
}
