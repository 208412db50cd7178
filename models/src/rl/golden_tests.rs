//! Values of verl and TRL themselves (`scripts/reference/rl_golden.py`): advantages, losses and gradients.

use serde::Deserialize;
use serde_json::Value;

use super::super::{
    AdvantageSettings, Counts, KlSettings, LossMetrics, LossSettings, TokenBatch, batch_advantages,
    kl_in_reward, policy_loss,
};

const VERL: &str = include_str!("../../../tests/golden/rl/verl.json");
const TRL: &str = include_str!("../../../tests/golden/rl/trl.json");

#[derive(Deserialize)]
struct Golden {
    batches: std::collections::BTreeMap<String, Batch>,
    advantages: Vec<Advantages>,
    losses: Vec<Case>,
    #[serde(default)]
    kl_in_reward: Vec<KlCase>,
}

#[derive(Deserialize)]
struct Batch {
    logp: Vec<f32>,
    old: Vec<f32>,
    reference: Vec<f32>,
    sampler: Vec<f32>,
    lengths: Vec<usize>,
    advantages: Vec<f64>,
    mask: Option<Vec<bool>>,
}

#[derive(Deserialize)]
struct Advantages {
    rewards: Vec<Vec<Option<f64>>>,
    settings: AdvantageSettings,
    advantages: Vec<f64>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    batch: String,
    settings: LossSettings,
    loss: Option<f64>,
    d_logp: Vec<Option<f64>>,
    metrics: std::collections::BTreeMap<String, f64>,
    whole: Option<Whole>,
    differs: Option<String>,
}

#[derive(Deserialize)]
struct Whole {
    tokens: usize,
    sequences: usize,
}

#[derive(Deserialize)]
struct KlCase {
    batch: String,
    settings: KlSettings,
    rewards: Vec<f64>,
    sequences: Vec<f64>,
}

impl Batch {
    fn tokens(&self) -> TokenBatch<'_> {
        TokenBatch {
            logp: &self.logp,
            old: &self.old,
            reference: Some(&self.reference),
            sampler: Some(&self.sampler),
            lengths: &self.lengths,
            advantages: &self.advantages,
            mask: self.mask.as_deref(),
            whole: None,
        }
    }
}

fn load(text: &str) -> Golden {
    serde_json::from_str(text).unwrap()
}

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-6 * expected.abs().max(1e-3)
}

/// The metrics of a framework beside ours. verl holds log-ratios in its divergence, which shows on `far`.
fn check_metrics(case: &Case, ours: &LossMetrics) {
    let pairs = [
        ("actor/pg_clipfrac", ours.clip_low + ours.clip_high),
        ("actor/pg_clipfrac_lower", ours.clip_dual),
        ("actor/ppo_kl", ours.kl_old),
        // TRL does not count apart what its `delta` bounds.
        ("clip_ratio/low_mean", ours.clip_low),
        ("clip_ratio/high_mean", ours.clip_high),
        ("kl", ours.kl_reference.unwrap()),
    ];
    for (name, found) in pairs {
        let Some(expected) = case.metrics.get(name) else { continue };
        if case.batch != "far" || name != "actor/ppo_kl" {
            assert!(close(found, *expected), "{}: {name} {found} for {expected}", case.name);
        }
    }
}

fn check_losses(golden: &Golden) {
    assert!(golden.losses.len() >= 70);
    for case in &golden.losses {
        let batch = &golden.batches[&case.batch];
        let whole = case.whole.as_ref().map(|w| Counts { tokens: w.tokens, sequences: w.sequences });
        let found = policy_loss(&TokenBatch { whole, ..batch.tokens() }, &case.settings).unwrap();
        // Where nothing counts verl's 0/0 is NaN; ours is 0.
        let expected: Vec<f64> = case.d_logp.iter().map(|d| d.unwrap_or(0.0)).collect();
        let same_loss = close(found.loss, case.loss.unwrap_or(0.0));
        assert_eq!(found.d_logp.len(), expected.len(), "{}", case.name);
        let wrong = found.d_logp.iter().zip(&expected).find(|(f, e)| !close(f64::from(**f), **e));
        if let Some(why) = &case.differs {
            assert!(!same_loss || wrong.is_some(), "{}: does not differ, though {why}", case.name);
            continue;
        }
        assert!(same_loss, "{}: loss {} for {:?}", case.name, found.loss, case.loss);
        assert!(wrong.is_none(), "{}: gradient {:?} for {expected:?}", case.name, found.d_logp);
        check_metrics(case, &found.metrics);
    }
}

fn check_advantages(golden: &Golden) {
    for case in &golden.advantages {
        let groups = batch_advantages(&case.rewards, &case.settings).unwrap();
        let found: Vec<_> = groups.iter().flat_map(|g| &g.advantages).collect();
        let rewards: Vec<_> = case.rewards.iter().flatten().collect();
        assert_eq!(found.len(), case.advantages.len());
        for ((found, expected), reward) in found.iter().zip(&case.advantages).zip(rewards) {
            // TRL gives 0 to a sample without a reward; here it has no advantage.
            assert_eq!(found.is_none(), reward.is_none());
            assert!(close(found.unwrap_or(0.0), *expected), "{:?}: {found:?} for {expected}", case.rewards);
        }
    }
}

#[test]
fn losses_and_gradients_are_those_of_verl() {
    check_losses(&load(VERL));
}

#[test]
fn losses_and_gradients_are_those_of_trl() {
    check_losses(&load(TRL));
}

#[test]
fn advantages_are_those_of_both() {
    check_advantages(&load(VERL));
    check_advantages(&load(TRL));
}

#[test]
fn the_penalty_in_the_reward_is_that_of_verl() {
    let golden = load(VERL);
    assert!(!golden.kl_in_reward.is_empty());
    for case in &golden.kl_in_reward {
        let batch = &golden.batches[&case.batch];
        let (lengths, mask) = (&batch.lengths, batch.mask.as_deref());
        let found = kl_in_reward(&batch.old, &batch.reference, lengths, mask, &case.settings).unwrap();
        for (found, expected) in found.tokens.iter().zip(&case.rewards) {
            assert!(close(-found, *expected), "{}: {found} for {expected}", case.batch);
        }
        for (found, expected) in found.sequences.iter().zip(&case.sequences) {
            assert!(close(-found, *expected), "{}: {found} for {expected}", case.batch);
        }
    }
}

#[test]
fn both_name_their_versions_and_share_their_inputs() {
    let (verl, trl): (Value, Value) =
        (serde_json::from_str(VERL).unwrap(), serde_json::from_str(TRL).unwrap());
    assert!(verl["source"].as_str().unwrap().starts_with("verl 0.9.1"));
    assert!(trl["source"].as_str().unwrap().starts_with("trl 1.16.0"));
    assert_eq!(verl["batches"], trl["batches"]);
}
