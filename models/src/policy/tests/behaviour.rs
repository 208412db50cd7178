//! What training does: a tiny model learns, every parameter moves, memory is bounded.

use candle_core::{DType, Device};

use super::super::{Adapters, LoraConfig, Packed, Policy, TrainPass};
use super::{distance, numbers, tiny, wide};
use crate::optim::{AdamW, AdamWSettings};

fn loss_gradient(n: usize) -> Vec<f32> {
    vec![-1.0 / n as f32; n]
}

/// Makes a text likelier by some steps; returns the mean log-probability before and after.
fn learn(policy: &mut Policy, merged: bool) -> (f64, f64) {
    let mut packed = Packed::default();
    packed.push(&[5, 6, 7], &[&[10, 20, 30, 40, 50]]).unwrap();
    packed.push(&[8, 9], &[&[11, 21, 31]]).unwrap();
    let mean = |policy: &Policy| {
        let stats = policy.token_stats(&packed, 1.0, Adapters::On).unwrap();
        wide(&stats.logp).iter().sum::<f64>() / 8.0
    };
    policy.merge(merged).unwrap();
    let before = mean(policy);
    let mut adamw = AdamW::new(AdamWSettings { lr: 0.02, clip_norm: Some(1.0), ..AdamWSettings::default() });
    for _ in 0..40 {
        let forward = policy.forward(&packed, TrainPass::default()).unwrap();
        let grads = policy.backward(forward, &loss_gradient(8)).unwrap();
        adamw.step(policy.vars(), &grads).unwrap();
        policy.merge(merged).unwrap();
    }
    (before, mean(policy))
}

#[test]
fn an_adapter_learns_a_text_and_every_matrix_of_it_moves() {
    let mut outcomes = Vec::new();
    for merged in [false, true] {
        let mut policy = Policy::random(tiny(), 1, DType::F32, &Device::Cpu).unwrap();
        policy.add_lora(&LoraConfig { r: 4, ..LoraConfig::default() }, 2).unwrap();
        let start = policy.lora_tensors().unwrap();
        let copies: Vec<_> = start.iter().map(|(name, t)| (name.clone(), t.copy().unwrap())).collect();
        let (before, after) = learn(&mut policy, merged);
        assert!(before < -3.0 && after > -0.5, "{before} {after}");
        for (name, then) in copies {
            assert!(distance(&numbers(&policy.vars()[&name]), &numbers(&then)) > 1e-3, "{name} did not move");
        }
        outcomes.push(after);
    }
    assert!((outcomes[0] - outcomes[1]).abs() < 1e-3, "{outcomes:?}");
}

#[test]
fn a_fresh_adapter_changes_nothing_and_a_trained_one_survives_its_file() {
    let mut policy = Policy::random(tiny(), 1, DType::F32, &Device::Cpu).unwrap();
    let mut packed = Packed::default();
    packed.push_text(&[1, 2, 3, 4, 5]).unwrap();
    let plain = policy.token_stats(&packed, 1.0, Adapters::On).unwrap();
    let config = LoraConfig {
        target_modules: ["q_proj".to_owned(), "down_proj".to_owned()].into(),
        ..LoraConfig::default()
    };
    policy.add_lora(&config, 2).unwrap();
    assert_eq!(policy.vars().len(), 2 * 2 * tiny().layers);
    assert_eq!(policy.token_stats(&packed, 1.0, Adapters::On).unwrap(), plain);
    learn(&mut policy, false);
    let peft = config.to_peft("base").to_string();
    let mut again = Policy::random(tiny(), 1, DType::F32, &Device::Cpu).unwrap();
    again.load_lora(&LoraConfig::from_peft(&peft).unwrap(), &policy.lora_tensors().unwrap()).unwrap();
    let learned = policy.token_stats(&packed, 1.0, Adapters::On).unwrap();
    assert_eq!(again.token_stats(&packed, 1.0, Adapters::On).unwrap(), learned);
    assert_ne!(learned, plain);
}

#[test]
fn all_weights_of_a_random_model_learn() {
    let mut policy = Policy::random(tiny(), 3, DType::F32, &Device::Cpu).unwrap();
    policy.train_everything().unwrap();
    let (before, after) = learn(&mut policy, false);
    assert!(before < -3.0 && after > -0.1, "{before} {after}");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let mut policy = Policy::random(tiny(), 1, DType::F32, &Device::Cpu).unwrap();
    let refused =
        |policy: &mut Policy, config: LoraConfig| policy.add_lora(&config, 1).unwrap_err().to_string();
    let modules = ["query".to_owned()].into();
    let message = refused(&mut policy, LoraConfig { target_modules: modules, ..LoraConfig::default() });
    assert!(message.contains("`query`; there are q_proj"), "{message}");
    assert!(refused(&mut policy, LoraConfig { r: 0, ..LoraConfig::default() }).contains("r is 0"));
    let dora =
        r#"{"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"], "use_dora": true}"#;
    assert!(LoraConfig::from_peft(dora).unwrap_err().to_string().contains("`use_dora` is set to true"));
}
