use proptest::prelude::*;

use super::super::{KlEstimator, KlSettings, TisLevel, TisSettings, ratio_gate};
use super::*;

/// A batch that owns its values.
#[derive(Debug, Clone, Default)]
struct Owned {
    logp: Vec<f32>,
    old: Vec<f32>,
    reference: Vec<f32>,
    sampler: Vec<f32>,
    lengths: Vec<usize>,
    advantages: Vec<f64>,
    mask: Vec<bool>,
}

impl Owned {
    fn batch(&self) -> TokenBatch<'_> {
        TokenBatch {
            logp: &self.logp,
            old: &self.old,
            reference: Some(&self.reference),
            sampler: Some(&self.sampler),
            lengths: &self.lengths,
            advantages: &self.advantages,
            mask: Some(&self.mask),
            whole: None,
        }
    }

    fn loss(&self, settings: &LossSettings) -> PolicyLoss {
        policy_loss(&self.batch(), settings).unwrap()
    }

    /// The sequences in another order.
    fn permuted(&self, order: &[usize]) -> Self {
        let ranges: Vec<_> = self.batch().sequences().collect();
        let mut made = Self::default();
        for i in order {
            let range = ranges[*i].clone();
            made.logp.extend(&self.logp[range.clone()]);
            made.old.extend(&self.old[range.clone()]);
            made.reference.extend(&self.reference[range.clone()]);
            made.sampler.extend(&self.sampler[range.clone()]);
            made.mask.extend(&self.mask[range]);
            made.lengths.push(self.lengths[*i]);
            made.advantages.push(self.advantages[*i]);
        }
        made
    }
}

/// Batches whose log-probabilities lie on a grid of `step`, `spread` steps around the old ones.
fn batches(step: f32, spread: i16) -> impl Strategy<Value = Owned> {
    let token = (8..200_i16, -spread..=spread, -spread..=spread, -spread..=spread, prop::bool::weighted(0.8));
    let sequence = (prop::collection::vec(token, 0..5), -2.0..2.0_f64);
    prop::collection::vec(sequence, 1..5).prop_map(move |sequences| {
        let mut made = Owned::default();
        for (tokens, advantage) in sequences {
            made.lengths.push(tokens.len());
            made.advantages.push(advantage);
            for (old, now, reference, sampler, counts) in tokens {
                let old = -f32::from(old) * step - step / 4.0;
                made.logp.push(old + f32::from(now) * step);
                made.old.push(old);
                made.reference.push(old + f32::from(reference) * step);
                made.sampler.push(old + f32::from(sampler) * step);
                made.mask.push(counts);
            }
        }
        made
    })
}

fn settings() -> impl Strategy<Value = LossSettings> {
    use {Aggregation as A, KlEstimator as K, RatioLevel as R};
    let kinds = [LossKind::Grpo, LossKind::DrGrpo, LossKind::Dapo, LossKind::Gspo, LossKind::Cispo];
    let aggregations =
        [A::TokenMean, A::SeqMeanTokenMean, A::SeqMeanTokenSum, A::SeqMeanTokenSumNorm].map(Some);
    let levels = prop::sample::select(vec![None, Some(R::Sequence), Some(R::SequenceProduct)]);
    let kl = (prop::sample::select(vec![K::K1, K::K2, K::K3]), 0.0..1.0_f64, prop::bool::ANY);
    let clip = (0.05..0.4_f64, 0.05..0.4_f64, prop::option::of(1.5..4.0_f64));
    let tis = prop::option::of((1.0..3.0_f64, prop::bool::ANY));
    (
        prop::sample::select(kinds.to_vec()),
        prop::option::of(prop::sample::select(aggregations.to_vec())),
        levels,
        kl,
        clip,
        tis,
    )
        .prop_map(|(loss, aggregation, ratio, (estimator, beta, cap), (low, high, c), tis)| {
            LossSettings {
                aggregation: aggregation.flatten(),
                ratio,
                clip: Some(Clip { low, high, c }),
                kl: KlSettings { estimator, beta, cap: if cap { 10.0 } else { 0.0 }, ..KlSettings::OFF },
                tis: tis.map(|(cap, sequence)| TisSettings {
                    cap,
                    level: if sequence { TisLevel::Sequence } else { TisLevel::Token },
                }),
                max_tokens: Some(16),
                ..LossSettings::of(loss)
            }
        })
}

/// Central differences of the loss. For `cispo`, whose ratio is held constant, the old policy and the
/// sampler move along, so that ratio and weight do stay.
fn differences(batch: &Owned, settings: &LossSettings, h: f32) -> Vec<f64> {
    let held = settings.loss == LossKind::Cispo;
    let moved = |t: usize, by: f32| {
        let mut batch = batch.clone();
        batch.logp[t] += by;
        if held {
            batch.old[t] += by;
            batch.sampler[t] += by;
        }
        let step = f64::from(batch.logp[t]);
        (batch.loss(settings).loss, step)
    };
    (0..batch.logp.len())
        .map(|t| {
            let ((up, at_up), (down, at_down)) = (moved(t, h), moved(t, -h));
            (up - down) / (at_up - at_down)
        })
        .collect()
}

/// Whether no ratio or weight is within `margin` (of its logarithm) of a border where the loss bends.
fn away_from_borders(batch: &Owned, settings: &LossSettings, margin: f64) -> bool {
    let clip = settings.clip();
    let bends: Vec<f64> = [1.0 - clip.low, 1.0 + clip.high].into_iter().chain(clip.c).map(f64::ln).collect();
    let tokens = batch.batch();
    let all = tokens.sequences().flat_map(|range| ratios(&tokens, &range, settings.ratio()));
    all.map(|r| r.value.ln()).all(|x| bends.iter().all(|bend| (x - bend).abs() > margin))
}

proptest! {
    #[test]
    fn gradients_are_finite_differences(batch in batches(1.0 / 64.0, 32), settings in settings()) {
        let mut settings = settings;
        if settings.ratio() == RatioLevel::Sequence && let Some(tis) = &mut settings.tis {
            // With weights of their own, tokens of a sequence follow verl: see `policy_loss`.
            tis.level = TisLevel::Sequence;
        }
        let h = 1.0 / 1024.0;
        prop_assume!(away_from_borders(&batch, &settings, 2.0 * f64::from(h)));
        let found = batch.loss(&settings);
        for (t, expected) in differences(&batch, &settings, h).into_iter().enumerate() {
            let found = f64::from(found.d_logp[t]);
            // The error of a central difference is h²/6 times the third derivative.
            let bound = 2e-5 * (1.0 + expected.abs());
            prop_assert!((found - expected).abs() < bound, "{t}: {found} for {expected}");
        }
    }

    #[test]
    fn permuted_sequences_have_permuted_gradients(
        (batch, order) in batches(1.0 / 64.0, 40).prop_flat_map(|batch| {
            let order: Vec<usize> = (0..batch.lengths.len()).collect();
            (Just(batch), Just(order).prop_shuffle())
        }),
        settings in settings(),
    ) {
        let (found, other) = (batch.loss(&settings), batch.permuted(&order).loss(&settings));
        prop_assert!((found.loss - other.loss).abs() <= 1e-9 * (1.0 + found.loss.abs()));
        let ranges: Vec<_> = batch.batch().sequences().collect();
        let expected = order.iter().flat_map(|i| &found.d_logp[ranges[*i].clone()]).copied();
        prop_assert_eq!(other.d_logp, expected.collect::<Vec<_>>());
    }

    #[test]
    fn anything_finite_gives_something_finite(
        values in prop::collection::vec(
            prop::array::uniform4(prop_oneof![
                prop::num::f32::NORMAL,
                Just(0.0),
                Just(f32::MAX),
                Just(f32::MIN),
                -50.0..0.0_f32,
            ]),
            4,
        ),
        advantages in prop::array::uniform2(-1e9..1e9_f64),
        mask in prop::collection::vec(prop::bool::ANY, 4),
        settings in settings(),
    ) {
        let column = |i: usize| values.iter().map(|v| v[i]).collect::<Vec<_>>();
        let batch = Owned {
            logp: column(0),
            old: column(1),
            reference: column(2),
            sampler: column(3),
            lengths: vec![3, 1],
            advantages: advantages.to_vec(),
            mask,
        };
        let found = batch.loss(&settings);
        prop_assert!(found.loss.is_finite(), "{found:?}");
        prop_assert!(found.d_logp.iter().all(|d| d.is_finite()), "{found:?}");
        let m = found.metrics;
        let means = [m.ratio, m.kl_old, m.kl_reference.unwrap(), m.tis.unwrap_or(0.0)];
        prop_assert!(means.iter().all(|x| x.is_finite()), "{m:?}");
    }

    /// Gradient accumulation: the parts of a step add up to the whole.
    #[test]
    fn parts_add_up(batch in batches(1.0 / 64.0, 40), settings in settings()) {
        let whole = Counts::of(&batch.lengths, Some(&batch.mask)).unwrap();
        let all = batch.loss(&settings);
        let parts: Vec<_> = (0..batch.lengths.len())
            .map(|i| {
                let part = batch.permuted(&[i]);
                policy_loss(&TokenBatch { whole: Some(whole), ..part.batch() }, &settings).unwrap()
            })
            .collect();
        let sum: f64 = parts.iter().map(|p| p.loss).sum();
        prop_assert!((sum - all.loss).abs() <= 1e-9 * (1.0 + sum.abs()));
        let d_logp: Vec<f32> = parts.into_iter().flat_map(|p| p.d_logp).collect();
        prop_assert_eq!(d_logp, all.d_logp);
    }
}

fn two() -> Owned {
    Owned {
        logp: vec![-1.0, -2.0, -1.5],
        old: vec![-1.25, -1.75, -1.5],
        reference: vec![-1.0, -2.5, -1.0],
        sampler: vec![-1.25, -1.5, -1.5],
        lengths: vec![2, 1],
        advantages: vec![1.0, -1.0],
        mask: vec![true; 3],
    }
}

/// The worked example: ρ = e^0.25 with A = 1 is clipped, e^-0.25 and 1 are not.
#[test]
fn the_clipped_loss_by_hand() {
    let settings =
        LossSettings { aggregation: Some(Aggregation::TokenMean), ..LossSettings::of(LossKind::Grpo) };
    let found = two().loss(&settings);
    let low = (-0.25_f64).exp();
    assert!((found.loss - (-1.2 - low + 1.0) / 3.0).abs() < 1e-12);
    assert_eq!(found.d_logp, [0.0, (-low / 3.0) as f32, (1.0 / 3.0) as f32]);
    assert!((found.metrics.ratio - (0.25_f64.exp() + low + 1.0) / 3.0).abs() < 1e-12);
    assert!((found.metrics.clip_high - 1.0 / 3.0).abs() < 1e-12 && found.metrics.clip_low == 0.0);
    assert_eq!((found.metrics.kl_old, found.metrics.counts), (0.0, Counts { tokens: 3, sequences: 2 }));
}

/// Eq. 13 as written: one ratio for a sequence, the product over its tokens.
#[test]
fn the_product_over_a_sequence_by_hand() {
    let settings = LossSettings {
        ratio: Some(RatioLevel::SequenceProduct),
        aggregation: Some(Aggregation::SeqMeanTokenMean),
        ..LossSettings::of(LossKind::Grpo)
    };
    let mut batch = two();
    batch.logp[1] = -1.875;
    let ratio = 0.125_f64.exp();
    let found = batch.loss(&settings);
    assert!((found.loss - (1.0 - ratio) / 2.0).abs() < 1e-12);
    assert_eq!(found.d_logp, [(-ratio / 2.0) as f32, (-ratio / 2.0) as f32, 0.5]);
}

#[test]
fn nothing_that_counts_is_zero_everywhere() {
    let masked = Owned { mask: vec![false; 3], logp: vec![f32::NAN; 3], ..two() };
    let empty = Owned { lengths: vec![0, 0], advantages: vec![1.0, 1.0], ..Owned::default() };
    let all = Owned::default();
    for kind in [LossKind::Grpo, LossKind::DrGrpo, LossKind::Dapo, LossKind::Gspo, LossKind::Cispo] {
        let settings =
            LossSettings { max_tokens: Some(4), kl: KlSettings::default(), ..LossSettings::of(kind) };
        for batch in [&masked, &empty, &all] {
            let found = batch.loss(&settings);
            assert_eq!((found.loss, found.d_logp), (0.0, vec![0.0; batch.logp.len()]));
            let none = LossMetrics { kl_reference: Some(0.0), ..LossMetrics::default() };
            assert_eq!(found.metrics, none);
        }
    }
}

#[test]
fn what_is_wrong_is_named() {
    let paper = LossSettings::paper();
    let error = |batch: TokenBatch<'_>, settings: &LossSettings| policy_loss(&batch, settings).unwrap_err();
    let owned = two();
    let batch = owned.batch();
    let missing = error(TokenBatch { reference: None, ..batch }, &paper);
    assert_eq!(missing, RlError::Missing { what: "reference", setting: "kl.beta" });
    let tis = LossSettings { tis: Some(TisSettings::default()), ..LossSettings::ces_code() };
    let missing = error(TokenBatch { sampler: None, ..batch }, &tis);
    assert_eq!(missing, RlError::Missing { what: "sampler", setting: "tis" });
    let short = error(TokenBatch { old: &owned.old[1..], ..batch }, &paper);
    assert_eq!(short, RlError::Length { what: "old", found: 2, expected: 3 });
    let short = error(TokenBatch { advantages: &[1.0], ..batch }, &paper);
    assert_eq!(short, RlError::Length { what: "advantages", found: 1, expected: 2 });
    let infinite = error(TokenBatch { logp: &[-1.0, f32::NEG_INFINITY, -1.0], ..batch }, &paper);
    assert!(infinite.to_string().starts_with("logp[1] is -inf"), "{infinite}");
    let whole = error(TokenBatch { whole: Some(Counts { tokens: 2, sequences: 2 }), ..batch }, &paper);
    assert_eq!(whole, RlError::Whole { what: "tokens", whole: 2, part: 3 });
    let dr = error(batch, &LossSettings::of(LossKind::DrGrpo));
    assert!(dr.to_string().contains("max_tokens"), "{dr}");
    // Nothing that is switched off is needed.
    let bare = TokenBatch { reference: None, sampler: None, ..batch };
    assert_eq!(policy_loss(&bare, &LossSettings::ces_code()).unwrap().metrics.kl_reference, None);
}

/// Without a cap, `k3` is held at ±20 all the same.
#[test]
fn estimates_by_hand() {
    let of = |estimator, x: f64, cap| {
        kl_estimate(-1.0, -1.0 - x, &KlSettings { estimator, cap, ..KlSettings::OFF })
    };
    assert_eq!(of(KlEstimator::K1, -0.5, 10.0), (-0.5, 1.0));
    assert_eq!(of(KlEstimator::K2, -0.5, 10.0), (0.125, -0.5));
    let e = 0.5_f64.exp();
    let (value, slope) = of(KlEstimator::K3, -0.5, 10.0);
    assert!((value - (e - 1.5)).abs() < 1e-12 && (slope - (1.0 - e)).abs() < 1e-12);
    for x in [-3.0, 12.0] {
        assert_eq!(of(KlEstimator::K3, x, 10.0), (10.0, 0.0), "{x}");
        assert!(of(KlEstimator::K3, x, 0.0).0 > 10.0 && of(KlEstimator::K3, x, 0.0).1 != 0.0, "{x}");
    }
    assert_eq!(of(KlEstimator::K3, 30.0, 0.0), ((-20.0_f64).exp_m1() + 20.0, 0.0));
    assert_eq!(of(KlEstimator::K3, -30.0, 0.0), (20.0_f64.exp_m1() - 20.0, 0.0));
    assert_eq!(of(KlEstimator::K3, 0.0, 10.0), (0.0, 0.0));
}

#[test]
fn a_penalty_in_the_reward_is_not_in_the_loss() {
    let with =
        |term| LossSettings { kl: KlSettings { term, ..KlSettings::default() }, ..LossSettings::paper() };
    let off = LossSettings { kl: KlSettings::OFF, ..LossSettings::paper() };
    let (reward, off, loss) =
        (two().loss(&with(KlTerm::Reward)), two().loss(&off), two().loss(&with(KlTerm::Loss)));
    assert_eq!((reward.loss, &reward.d_logp), (off.loss, &off.d_logp));
    assert_eq!(reward.metrics.kl_reference, loss.metrics.kl_reference);
    assert!(loss.loss > off.loss);
}

#[test]
fn truncated_weights_are_counted() {
    let settings = LossSettings {
        tis: Some(TisSettings { cap: 0.9, ..TisSettings::default() }),
        ..LossSettings::ces_code()
    };
    let metrics = two().loss(&settings).metrics;
    assert_eq!(metrics.tis_truncated, Some(2.0 / 3.0));
    assert!((metrics.tis.unwrap() - (0.9 + (-0.25_f64).exp() + 0.9) / 3.0).abs() < 1e-12);
    let unbounded = LossSettings {
        tis: Some(TisSettings { cap: 1e12, level: TisLevel::Sequence }),
        ..LossSettings::ces_code()
    };
    let far = Owned { sampler: vec![-1.25, -99.0, -1.5], ..two() };
    let metrics = far.loss(&unbounded).metrics;
    assert!((metrics.tis.unwrap() - (2.0 * 20.0_f64.exp() + 1.0) / 3.0).abs() < 1e-3, "held at ±20");
    assert_eq!(metrics.tis_truncated, Some(0.0));
}

#[test]
fn the_gate_lets_only_a_ratio_of_one_pass() {
    let old = [-1.0, -2.0, -3.0];
    assert_eq!(ratio_gate(&old, &old, None, 0.0), Ok(0.0));
    assert_eq!(ratio_gate(&[], &[], None, 0.0), Ok(0.0));
    let off = [-1.0, -2.5, f32::NAN];
    let mask = [true, false, false];
    assert_eq!(ratio_gate(&off, &old, Some(&mask), 1e-6), Ok(0.0));
    let error = ratio_gate(&off, &old, Some(&[true, true, false]), 1e-3).unwrap_err();
    let expected = RlError::RatioNotOne { index: 1, logp: -2.5, old: -2.0, difference: 0.5, tolerance: 1e-3 };
    assert_eq!(error, expected);
    assert!(matches!(
        ratio_gate(&off, &old, None, 1.0),
        Err(RlError::NonFinite { what: "logp", index: 2, .. })
    ));
    assert!(matches!(ratio_gate(&off, &old[1..], None, 1.0), Err(RlError::Length { what: "old", .. })));
    assert_eq!(ratio_gate(&[-1.25], &[-1.0], None, 0.25), Ok(0.25));
}
