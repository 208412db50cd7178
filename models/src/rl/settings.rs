//! Settings of the objective, with the names that verl and TRL give to the same things.

use serde::{Deserialize, Serialize};

use super::advantage::{AdvantageSettings, StdRule};
use super::error::RlError;

/// Which policy loss. The formulas are in [`super::policy_loss`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// Clipped ratio (`DeepSeekMath`, arXiv:2402.03300). verl's `vanilla`, TRL's `grpo`.
    Grpo,
    /// The same without the two biases (arXiv:2503.20783): no standard deviation in the advantage, a
    /// constant for the length.
    DrGrpo,
    /// Clip-higher, every token of equal weight (arXiv:2503.14476).
    Dapo,
    /// One ratio for a sequence (arXiv:2507.18071).
    Gspo,
    /// Clipped importance weights, held constant (arXiv:2506.13585).
    Cispo,
}

/// How the losses of tokens become one number. Only counted tokens and sequences that have any appear
/// in sums and means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// `Σ / tokens`.
    TokenMean,
    /// `1/sequences Σ_i (Σ_t / tokens_i)`.
    SeqMeanTokenMean,
    /// `1/sequences Σ_i Σ_t`.
    SeqMeanTokenSum,
    /// `1/sequences Σ_i (Σ_t / max_tokens)`, the same constant for every batch.
    SeqMeanTokenSumNorm,
}

/// What one importance ratio is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RatioLevel {
    /// A token: `exp(logp_t − old_t)`.
    Token,
    /// A sequence, by its geometric mean: `exp(mean_t(logp_t − old_t))`, as in GSPO.
    Sequence,
    /// A sequence, by the product: `exp(Σ_t(logp_t − old_t))`, as CES writes Eq. 13.
    SequenceProduct,
}

/// The range in which a ratio may move.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// The lower bound is `1 − low`; 1 or more is no bound.
    pub low: f64,
    /// The upper bound is `1 + high`.
    pub high: f64,
    /// Dual clip, verl's `clip_ratio_c` (3.0 there; arXiv:1912.09729): with a negative advantage the
    /// loss is at most `c·|A|`. Absent: off, as in TRL, whose `delta` is the same thing. `gspo` and
    /// `cispo` have none.
    #[serde(default)]
    pub c: Option<f64>,
}

/// Estimators of the KL divergence to the reference, with `x = logp − reference` (Schulman 2020).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KlEstimator {
    /// `x`.
    K1,
    /// `x²/2`.
    K2,
    /// `exp(−x) + x − 1`, verl's `low_var_kl`.
    K3,
}

/// Where the KL term goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KlTerm {
    /// Added to the loss.
    Loss,
    /// Taken off the reward: see [`super::kl_in_reward`].
    Reward,
}

/// The KL term.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KlSettings {
    /// See [`KlEstimator`].
    pub estimator: KlEstimator,
    /// Its weight; 0 is off, and needs no reference.
    pub beta: f64,
    /// See [`KlTerm`].
    pub term: KlTerm,
    /// Largest value of `k3` for a token, beyond which it has no gradient: 10 in verl. 0: no limit, as
    /// in TRL.
    pub cap: f64,
}

impl Default for KlSettings {
    fn default() -> Self {
        Self { estimator: KlEstimator::K3, beta: 0.01, term: KlTerm::Loss, cap: 10.0 }
    }
}

impl KlSettings {
    /// No KL term.
    pub const OFF: Self = Self { estimator: KlEstimator::K3, beta: 0.0, term: KlTerm::Loss, cap: 10.0 };

    /// Whether the reference's log-probabilities are needed.
    pub fn needs_reference(&self) -> bool {
        self.beta != 0.0
    }
}

/// What a weight of truncated importance sampling is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TisLevel {
    /// A token: `exp(old_t − sampler_t)`.
    Token,
    /// A sequence: `exp(Σ_t(old_t − sampler_t))`.
    Sequence,
}

/// Truncated importance sampling: corrects for a sampler whose probabilities are not the trainer's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TisSettings {
    /// Largest weight.
    pub cap: f64,
    /// See [`TisLevel`].
    pub level: TisLevel,
}

impl Default for TisSettings {
    /// verl's.
    fn default() -> Self {
        Self { cap: 2.0, level: TisLevel::Token }
    }
}

/// Everything about the objective. What is absent follows from the loss: see the methods of the same
/// names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossSettings {
    /// See [`LossKind`].
    pub loss: LossKind,
    /// See [`Self::aggregation`].
    pub aggregation: Option<Aggregation>,
    /// See [`Self::ratio`].
    pub ratio: Option<RatioLevel>,
    /// See [`Self::clip`].
    pub clip: Option<Clip>,
    /// The KL term; it does not depend on the loss.
    pub kl: KlSettings,
    /// Truncated importance sampling; absent: off.
    pub tis: Option<TisSettings>,
    /// The constant of [`Aggregation::SeqMeanTokenSumNorm`]: tokens that a completion may have.
    pub max_tokens: Option<usize>,
    /// Group-relative advantages; see [`Self::advantage`].
    pub advantage: AdvantageSettings,
}

impl Default for LossSettings {
    fn default() -> Self {
        Self::paper()
    }
}

impl LossSettings {
    /// CES by our reading of the paper: `grpo` with every output of equal weight (Eq. 8), ratios of
    /// tokens, clip 0.2, `0.01·k3` in the loss, the group's standard deviation.
    pub fn paper() -> Self {
        Self { kl: KlSettings::default(), ..Self::of(LossKind::Grpo) }
    }

    /// CES as released, which is verl's `vanilla` loss: every token of equal weight, clip 0.2 with the
    /// dual clip at 3, no KL term.
    pub fn ces_code() -> Self {
        Self {
            aggregation: Some(Aggregation::TokenMean),
            clip: Some(Clip { low: 0.2, high: 0.2, c: Some(3.0) }),
            ..Self::of(LossKind::Grpo)
        }
    }

    /// A loss with its own defaults and without a KL term.
    pub fn of(loss: LossKind) -> Self {
        Self {
            loss,
            aggregation: None,
            ratio: None,
            clip: None,
            kl: KlSettings::OFF,
            tis: None,
            max_tokens: None,
            advantage: AdvantageSettings::default(),
        }
    }

    /// How losses are aggregated: as set, or `grpo` and `gspo` by `seq-mean-token-mean` (the papers,
    /// TRL), `dapo` and `cispo` by `token-mean`, `dr_grpo` by `seq-mean-token-sum-norm`.
    pub fn aggregation(&self) -> Aggregation {
        self.aggregation.unwrap_or(match self.loss {
            LossKind::Grpo | LossKind::Gspo => Aggregation::SeqMeanTokenMean,
            LossKind::Dapo | LossKind::Cispo => Aggregation::TokenMean,
            LossKind::DrGrpo => Aggregation::SeqMeanTokenSumNorm,
        })
    }

    /// What a ratio is taken over: as set, or `gspo` a sequence and the others a token.
    pub fn ratio(&self) -> RatioLevel {
        self.ratio.unwrap_or(match self.loss {
            LossKind::Gspo => RatioLevel::Sequence,
            _ => RatioLevel::Token,
        })
    }

    /// The range of the ratio: as set, or 0.2 on both sides; `dapo` 0.2 and 0.28; `gspo` 3e-4 and 4e-4;
    /// `cispo` weights up to 5 without a lower bound (TRL's recommendation; verl leaves it at 0.2).
    pub fn clip(&self) -> Clip {
        let (low, high) = match self.loss {
            LossKind::Grpo | LossKind::DrGrpo => (0.2, 0.2),
            LossKind::Dapo => (0.2, 0.28),
            LossKind::Gspo => (3e-4, 4e-4),
            LossKind::Cispo => (1.0, 4.0),
        };
        self.clip.unwrap_or(Clip { low, high, c: None })
    }

    /// The advantages' settings with the rule for the deviation filled in: as set, or `dr_grpo` none and
    /// the others the group's.
    pub fn advantage(&self) -> AdvantageSettings {
        let std = self.advantage.std.unwrap_or(match self.loss {
            LossKind::DrGrpo => StdRule::None,
            _ => StdRule::Group,
        });
        AdvantageSettings { std: Some(std), ..self.advantage }
    }

    /// The same settings with nothing left open, for a manifest.
    pub fn resolved(&self) -> Self {
        Self {
            aggregation: Some(self.aggregation()),
            ratio: Some(self.ratio()),
            clip: Some(self.clip()),
            advantage: self.advantage(),
            ..self.clone()
        }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// [`RlError::Setting`] names the first setting out of range; [`RlError::RatioLevel`] when `gspo` is
    /// to have ratios of tokens.
    pub fn validate(&self) -> Result<(), RlError> {
        let (clip, kl) = (self.clip(), &self.kl);
        let not_negative = |x: f64| x.is_finite() && x >= 0.0;
        check("clip.low", clip.low, not_negative(clip.low), "0 or more")?;
        check("clip.high", clip.high, not_negative(clip.high), "0 or more")?;
        if let Some(c) = clip.c {
            check("clip.c", c, c.is_finite() && c > 1.0, "more than 1")?;
        }
        check("kl.beta", kl.beta, not_negative(kl.beta), "0 or more")?;
        check("kl.cap", kl.cap, not_negative(kl.cap), "0 or more")?;
        if let Some(tis) = &self.tis {
            check("tis.cap", tis.cap, tis.cap.is_finite() && tis.cap > 0.0, "positive")?;
        }
        let max_tokens = self.max_tokens.unwrap_or(0);
        let needed = self.aggregation() == Aggregation::SeqMeanTokenSumNorm || self.max_tokens.is_some();
        check(
            "max_tokens",
            max_tokens as f64,
            !needed || max_tokens > 0,
            "at least 1 (seq-mean-token-sum-norm)",
        )?;
        if self.loss == LossKind::Gspo && self.ratio() == RatioLevel::Token {
            return Err(RlError::RatioLevel { loss: "gspo", ratio: RatioLevel::Token });
        }
        self.advantage.validate()
    }
}

/// # Errors
/// [`RlError::Setting`] unless `holds`.
pub(super) fn check(
    name: &'static str,
    value: f64,
    holds: bool,
    expected: &'static str,
) -> Result<(), RlError> {
    if holds { Ok(()) } else { Err(RlError::Setting { name, value, expected }) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> LossSettings {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn names_are_those_of_the_frameworks() {
        let found = read(json!({
            "loss": "dr_grpo", "aggregation": "seq-mean-token-sum-norm", "ratio": "sequence-product",
            "clip": {"low": 0.2, "high": 0.28}, "kl": {"estimator": "k2", "beta": 0.5, "term": "reward"},
            "tis": {"cap": 3.0, "level": "sequence"}, "max_tokens": 256,
            "advantage": {"std": "batch", "eps": 1e-4, "ddof": 0, "single": "raw"},
        }));
        assert_eq!(found.aggregation(), Aggregation::SeqMeanTokenSumNorm);
        assert_eq!(found.clip(), Clip { low: 0.2, high: 0.28, c: None });
        assert_eq!(
            (found.kl.estimator, found.kl.term, found.kl.cap),
            (KlEstimator::K2, KlTerm::Reward, 10.0)
        );
        assert_eq!(found.advantage().std, Some(StdRule::Batch));
        found.validate().unwrap();
        let back: LossSettings = serde_json::from_value(serde_json::to_value(&found).unwrap()).unwrap();
        assert_eq!(back, found);
    }

    #[test]
    fn what_is_absent_follows_from_the_loss() {
        assert_eq!(read(json!({})), LossSettings::paper());
        let dapo = read(json!({"loss": "dapo", "kl": {"beta": 0.0}})).resolved();
        assert_eq!(dapo.aggregation, Some(Aggregation::TokenMean));
        assert_eq!(read(json!({"loss": "dr_grpo"})).advantage().std, Some(StdRule::None));
        assert_eq!(read(json!({"loss": "gspo"})).ratio(), RatioLevel::Sequence);
        assert!(!dapo.kl.needs_reference());
        for (loss, low, high) in [
            ("grpo", 0.2, 0.2),
            ("dr_grpo", 0.2, 0.2),
            ("dapo", 0.2, 0.28),
            ("gspo", 3e-4, 4e-4),
            ("cispo", 1.0, 4.0),
        ] {
            assert_eq!(read(json!({ "loss": loss })).clip(), Clip { low, high, c: None }, "{loss}");
        }
    }

    #[test]
    fn wrong_settings_are_named() {
        for bad in [json!({"los": "grpo"}), json!({"loss": "dr-grpo"}), json!({"clip": {"low": 0.2}})] {
            assert!(serde_json::from_value::<LossSettings>(bad.clone()).is_err(), "{bad}");
        }
        for (bad, name) in [
            (json!({"clip": {"low": -0.1, "high": 0.2}}), "clip.low"),
            (json!({"clip": {"low": 0.1, "high": 0.2, "c": 1.0}}), "clip.c"),
            (json!({"kl": {"beta": -1.0}}), "kl.beta"),
            (json!({"tis": {"cap": 0.0}}), "tis.cap"),
            (json!({"loss": "dr_grpo"}), "max_tokens"),
            (json!({"max_tokens": 0}), "max_tokens"),
            (json!({"advantage": {"ddof": 2}}), "advantage.ddof"),
            (json!({"advantage": {"eps": -1.0}}), "advantage.eps"),
            (json!({"loss": "gspo", "ratio": "token"}), "gspo"),
        ] {
            let error = read(bad).validate().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn the_presets_are_those_of_the_readings() {
        let (paper, code) = (LossSettings::paper(), LossSettings::ces_code());
        assert_eq!((paper.loss, paper.ratio()), (LossKind::Grpo, RatioLevel::Token));
        assert_eq!((paper.kl.beta, paper.kl.estimator), (0.01, KlEstimator::K3));
        assert!(!code.kl.needs_reference());
        assert_eq!((code.aggregation(), code.clip().c), (Aggregation::TokenMean, Some(3.0)));
        for preset in [paper, code] {
            preset.validate().unwrap();
            assert_eq!((preset.clip().low, preset.clip().high), (0.2, 0.2));
            assert_eq!(
                preset.advantage(),
                AdvantageSettings { std: Some(StdRule::Group), ..Default::default() }
            );
        }
    }
}
