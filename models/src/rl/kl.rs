//! Estimators of the KL divergence to the reference policy, and the penalty in the reward.

use serde::Serialize;

use super::batch::{check_values, ranges, same_length, total};
use super::error::RlError;
use super::importance::MAX_LOG_RATIO;
use super::settings::{KlEstimator, KlSettings};

/// The estimate at one token and its derivative with respect to `logp`.
///
/// With `x = logp − reference`: `k1 = x`, `k2 = x²/2`, `k3 = exp(−x) + x − 1` (Schulman 2020). As in
/// verl, `x` of `k3` is held within ±20 and `k3` at [`KlSettings::cap`]; where it is held there is no
/// gradient.
pub fn kl_estimate(logp: f64, reference: f64, settings: &KlSettings) -> (f64, f64) {
    let x = logp - reference;
    match settings.estimator {
        KlEstimator::K1 => (x, 1.0),
        KlEstimator::K2 => (0.5 * x * x, x),
        KlEstimator::K3 => {
            let held = x.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO);
            let (value, slope) = ((-held).exp_m1() + held, -(-held).exp_m1());
            if settings.cap > 0.0 && value > settings.cap {
                (settings.cap, 0.0)
            } else {
                (value, if held == x { slope } else { 0.0 })
            }
        }
    }
}

/// A KL penalty, to be taken off the rewards.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KlPenalty {
    /// `[T]`, `β·k_t`; 0 where the token does not count.
    pub tokens: Vec<f64>,
    /// `[B]`, `β·Σ_t k_t`: what GRPO takes off the reward of a sequence before it makes advantages.
    pub sequences: Vec<f64>,
    /// Mean of `k` over the tokens that count; 0 without any.
    pub mean: f64,
}

/// The KL penalty of rewards, `β·k_t` for each token (verl's `use_kl_in_reward`), between the policy that
/// sampled and the reference. It has no gradient. [`KlSettings::term`] is for the caller to heed.
///
/// # Shapes
/// `old`, `reference`, `mask`: `[T]`; `lengths`: `[B]`, of sum `T`.
///
/// # Errors
/// [`RlError::Length`], [`RlError::NonFinite`].
pub fn kl_in_reward(
    old: &[f32],
    reference: &[f32],
    lengths: &[usize],
    mask: Option<&[bool]>,
    settings: &KlSettings,
) -> Result<KlPenalty, RlError> {
    let all = total(lengths);
    if let Some(mask) = mask {
        same_length("mask", mask.len(), all)?;
    }
    check_values("old", old, mask, all)?;
    check_values("reference", reference, mask, all)?;
    let counts = |t: usize| mask.is_none_or(|mask| mask[t]);
    let estimate = |t: usize| kl_estimate(f64::from(old[t]), f64::from(reference[t]), settings).0;
    let values: Vec<f64> = (0..all).map(|t| if counts(t) { estimate(t) } else { 0.0 }).collect();
    let counted = (0..all).filter(|t| counts(*t)).count();
    Ok(KlPenalty {
        mean: values.iter().sum::<f64>() / counted.max(1) as f64,
        sequences: ranges(lengths).map(|r| settings.beta * values[r].iter().sum::<f64>()).collect(),
        tokens: values.into_iter().map(|k| settings.beta * k).collect(),
    })
}
