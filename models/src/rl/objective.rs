//! The policy loss of GRPO and its relatives, with its derivative with respect to each log-probability.

use std::ops::Range;

use serde::Serialize;

use super::batch::{Counts, TokenBatch};
use super::error::RlError;
use super::importance::{Ratio, ratios, tis_weights};
use super::kl::kl_estimate;
use super::settings::{Aggregation, Clip, KlTerm, LossKind, LossSettings, RatioLevel};

/// A loss, its derivative, and what is worth recording about it.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyLoss {
    /// The value to be minimised.
    pub loss: f64,
    /// `[T]`, `∂loss/∂logp_t`; 0 where a token does not count.
    pub d_logp: Vec<f32>,
    /// See [`LossMetrics`].
    pub metrics: LossMetrics,
}

/// Means are over the tokens that count, of this batch alone; without any they are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LossMetrics {
    /// Tokens and sequences that count.
    #[serde(flatten)]
    pub counts: Counts,
    /// Mean ratio.
    pub ratio: f64,
    /// Share of tokens whose loss is that of the lower bound (negative advantages; in `cispo`, ratios
    /// below it).
    pub clip_low: f64,
    /// Share of tokens whose loss is that of the upper bound (positive advantages; in `cispo`, ratios
    /// above it).
    pub clip_high: f64,
    /// Share of tokens at the dual clip.
    pub clip_dual: f64,
    /// Mean of `old − logp`: the divergence of the policy from the one that sampled (`k1`).
    pub kl_old: f64,
    /// Mean of the KL estimate to the reference, without its weight; absent without a reference.
    pub kl_reference: Option<f64>,
    /// Mean weight of truncated importance sampling; absent when it is off.
    pub tis: Option<f64>,
    /// Share of tokens whose weight was truncated; absent when it is off.
    pub tis_truncated: Option<f64>,
}

/// Where a token's ratio lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Within,
    Low,
    High,
    Dual,
}

/// A token's policy term and its derivative with respect to its own log-probability.
struct Term {
    value: f64,
    slope: f64,
    side: Side,
}

/// The policy loss. With the ratio `ρ` at the level set, `A` the sequence's advantage, `w` the weight of
/// truncated importance sampling (1 when off) and `agg` the aggregation:
///
/// * `grpo`, `dr_grpo`, `dapo`, `gspo`: `agg( w·max(−ρ·A, −clip(ρ, 1−low, 1+high)·A) + β·k )`, where for
///   `A < 0` dual clip bounds the maximum by `−c·A`
/// * `cispo`: `agg( −w·sg(clip(ρ, 1−low, 1+high))·A·logp + β·k )`, `sg` being held constant
///
/// `β·k` is there when [`KlTerm::Loss`] is set. The variants of the first line differ in the defaults of
/// [`LossSettings`], and `gspo` takes no dual clip.
///
/// At the border of a clip the gradient is the inner one. The ratio of a sequence passes its gradient to
/// each token as if the token's own loss were alone (verl's `gspo`, `∂ρ/∂logp_t = ρ` times the token's
/// share); this is the exact derivative unless tokens of a sequence have different `w`, where it follows
/// verl and not TRL. The product over a sequence has the exact derivative.
///
/// Log-ratios are held before `exp` and then have no gradient: token and product within ±20, the mean of
/// a sequence at most 10 (verl). The gradient saturates at the range of `f32`. No token that counts: loss
/// and gradient are 0.
///
/// # Shapes
/// Those of [`TokenBatch`]; `d_logp`: `[T]`.
///
/// # Errors
/// [`RlError`] names a setting, length or value that is wrong, or log-probabilities that are missing.
pub fn policy_loss(batch: &TokenBatch<'_>, settings: &LossSettings) -> Result<PolicyLoss, RlError> {
    settings.validate()?;
    let counts = batch.check()?;
    if settings.kl.needs_reference() && settings.kl.term == KlTerm::Loss && batch.reference.is_none() {
        return Err(RlError::Missing { what: "reference", setting: "kl.beta" });
    }
    if settings.tis.is_some() && batch.sampler.is_none() {
        return Err(RlError::Missing { what: "sampler", setting: "tis" });
    }
    let mut run = Run {
        batch,
        settings,
        clip: settings.clip(),
        level: settings.ratio(),
        whole: batch.whole(counts)?,
        loss: 0.0,
        d_logp: vec![0.0; batch.logp.len()],
        sums: LossMetrics::default(),
    };
    for (tokens, advantage) in batch.sequences().zip(batch.advantages) {
        run.sequence(tokens, *advantage);
    }
    let d_logp = run.d_logp.iter().map(|d| narrow(*d)).collect();
    Ok(PolicyLoss { loss: run.loss, d_logp, metrics: means(run.sums, counts, batch, settings) })
}

/// The sums while sequences are added.
struct Run<'a> {
    batch: &'a TokenBatch<'a>,
    settings: &'a LossSettings,
    clip: Clip,
    level: RatioLevel,
    whole: Counts,
    loss: f64,
    d_logp: Vec<f64>,
    sums: LossMetrics,
}

impl Run<'_> {
    fn sequence(&mut self, tokens: Range<usize>, advantage: f64) {
        let counted = tokens.clone().filter(|t| self.batch.counts(*t)).count();
        if counted == 0 {
            return;
        }
        let weight = self.weight(counted);
        let ratios = ratios(self.batch, &tokens, self.level);
        let tis = tis_weights(self.batch, &tokens, self.settings.tis.as_ref());
        let start = tokens.start;
        let mut sum = 0.0;
        for t in tokens.clone().filter(|t| self.batch.counts(*t)) {
            let ratio = ratios[t - start];
            let term = self.term(ratio, advantage, f64::from(self.batch.logp[t]));
            let weight = weight * self.add_tis(tis.as_ref().map(|tis| tis[t - start]));
            self.loss += weight * term.value;
            self.d_logp[t] = weight * term.slope;
            sum += weight * term.slope;
            self.record(t, ratio, term.side);
        }
        let shared = self.level == RatioLevel::SequenceProduct && self.settings.loss != LossKind::Cispo;
        for t in tokens.filter(|t| self.batch.counts(*t)) {
            if shared {
                self.d_logp[t] = sum;
            }
            self.add_kl(t, weight);
        }
    }

    /// What a token's loss is multiplied by, in a sequence of which `counted` tokens count.
    fn weight(&self, counted: usize) -> f64 {
        let sequence = 1.0 / self.whole.sequences as f64;
        match self.settings.aggregation() {
            Aggregation::TokenMean => 1.0 / self.whole.tokens as f64,
            Aggregation::SeqMeanTokenMean => sequence / counted as f64,
            Aggregation::SeqMeanTokenSum => sequence,
            Aggregation::SeqMeanTokenSumNorm => sequence / self.settings.max_tokens.unwrap_or(1) as f64,
        }
    }

    fn term(&self, ratio: Ratio, advantage: f64, logp: f64) -> Term {
        match self.settings.loss {
            LossKind::Cispo => held_weight(ratio, advantage, logp, self.clip),
            LossKind::Gspo => clipped(ratio, advantage, Clip { c: None, ..self.clip }),
            _ => clipped(ratio, advantage, self.clip),
        }
    }

    /// The weight of truncated importance sampling, recorded; 1 when it is off.
    fn add_tis(&mut self, tis: Option<(f64, bool)>) -> f64 {
        let Some((weight, truncated)) = tis else { return 1.0 };
        *self.sums.tis.get_or_insert(0.0) += weight;
        *self.sums.tis_truncated.get_or_insert(0.0) += f64::from(u8::from(truncated));
        weight
    }

    fn add_kl(&mut self, t: usize, weight: f64) {
        let Some(reference) = self.batch.reference else { return };
        let kl = &self.settings.kl;
        let (value, slope) = kl_estimate(f64::from(self.batch.logp[t]), f64::from(reference[t]), kl);
        *self.sums.kl_reference.get_or_insert(0.0) += value;
        if kl.term == KlTerm::Loss {
            self.loss += weight * kl.beta * value;
            self.d_logp[t] += weight * kl.beta * slope;
        }
    }

    fn record(&mut self, t: usize, ratio: Ratio, side: Side) {
        self.sums.ratio += ratio.value;
        self.sums.kl_old += f64::from(self.batch.old[t]) - f64::from(self.batch.logp[t]);
        match side {
            Side::Within => {}
            Side::Low => self.sums.clip_low += 1.0,
            Side::High => self.sums.clip_high += 1.0,
            Side::Dual => self.sums.clip_dual += 1.0,
        }
    }
}

/// `max(−ρA, −clip(ρ)A)`, and for `A < 0` at most `−cA`.
fn clipped(ratio: Ratio, advantage: f64, clip: Clip) -> Term {
    let free = -advantage * ratio.value;
    let bound = -advantage * ratio.value.clamp(1.0 - clip.low, 1.0 + clip.high);
    let dual = clip.c.filter(|_| advantage < 0.0).map(|c| -advantage * c);
    match dual {
        Some(dual) if free.max(bound) > dual => Term { value: dual, slope: 0.0, side: Side::Dual },
        _ if bound > free => {
            let side = if advantage < 0.0 { Side::Low } else { Side::High };
            Term { value: bound, slope: 0.0, side }
        }
        _ => Term { value: free, slope: if ratio.moves { free } else { 0.0 }, side: Side::Within },
    }
}

/// `−clip(ρ)·A·logp`, the first factor held constant.
fn held_weight(ratio: Ratio, advantage: f64, logp: f64, clip: Clip) -> Term {
    let (low, high) = (1.0 - clip.low, 1.0 + clip.high);
    let slope = -ratio.value.clamp(low, high) * advantage;
    let side = match ratio.value {
        r if r < low => Side::Low,
        r if r > high => Side::High,
        _ => Side::Within,
    };
    Term { value: slope * logp, slope, side }
}

/// Sums over the tokens that count, as means; what is switched on is there even without any token.
fn means(sums: LossMetrics, counts: Counts, batch: &TokenBatch<'_>, settings: &LossSettings) -> LossMetrics {
    let mean = |sum: f64| sum / counts.tokens.max(1) as f64;
    let mean_if = |on: bool, sum: Option<f64>| on.then(|| mean(sum.unwrap_or(0.0)));
    LossMetrics {
        counts,
        ratio: mean(sums.ratio),
        clip_low: mean(sums.clip_low),
        clip_high: mean(sums.clip_high),
        clip_dual: mean(sums.clip_dual),
        kl_old: mean(sums.kl_old),
        kl_reference: mean_if(batch.reference.is_some(), sums.kl_reference),
        tis: mean_if(settings.tis.is_some(), sums.tis),
        tis_truncated: mean_if(settings.tis.is_some(), sums.tis_truncated),
    }
}

/// To `f32`, at most its largest value.
fn narrow(x: f64) -> f32 {
    x.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
}

#[cfg(test)]
#[path = "objective_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "golden_tests.rs"]
mod golden;
