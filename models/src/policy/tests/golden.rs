//! Logits, log-probabilities, gradients and adapters agree with transformers and PEFT.

use candle_core::DType;

use super::super::{Adapters, Dropout, Grads, Packed, Policy, TrainPass, Weights};
use super::{Golden, MODELS, distance, folder, numbers, wide};

#[test]
fn logits_agree_alone_and_packed() {
    for name in MODELS {
        let golden = Golden::of(name);
        let policy = golden.policy(DType::F32);
        for ids in 0..golden.ids.len() {
            let mut packed = Packed::default();
            packed.push_text(&golden.ids[ids]).unwrap();
            packed.push(golden.ids[ids].last_chunk::<1>().unwrap(), &[]).unwrap();
            let logits = numbers(&policy.all_logits(&packed, Adapters::On).unwrap());
            let expected = golden.numbers(&format!("logits.{ids}"));
            // The last position predicts nothing that is asked for, and is not computed.
            let known = expected.len() - golden.config.vocab_size;
            let far = distance(&logits[..known], &expected[..known]);
            assert!(far < 1e-5, "{name}: {far}");
        }
    }
}

#[test]
fn log_probabilities_and_entropies_agree_at_both_temperatures() {
    for (name, dtype) in MODELS.into_iter().flat_map(|name| [(name, DType::F32), (name, DType::F64)]) {
        let golden = Golden::of(name);
        let policy = golden.policy(dtype);
        for temperature in [1.0, 0.7] {
            let stats = policy.token_stats(&golden.packed(), temperature, Adapters::On).unwrap();
            let label = if temperature == 1.0 { "1" } else { "0.7" };
            let far = distance(&wide(&stats.logp), &golden.joined(&format!("logp.t{label}")));
            assert!(far < 1e-5, "{name} {dtype:?} {temperature}: {far}");
            let far = distance(&wide(&stats.entropy), &golden.joined(&format!("entropy.t{label}")));
            assert!(far < 1e-5, "{name} {dtype:?} {temperature}: {far}");
        }
    }
}

fn gradients(golden: &Golden, policy: &Policy, checkpointing: bool) -> Grads {
    let packed = golden.packed();
    let pass = TrainPass { checkpointing, ..TrainPass::default() };
    let forward = policy.forward(&packed, pass).unwrap();
    let coefficients: Vec<f32> = golden.joined("coefficient").into_iter().map(|x| x as f32).collect();
    policy.backward(forward, &coefficients).unwrap()
}

/// In f32 the CPU kernels run, in f64 the operations that also serve the GPU.
#[test]
fn gradients_of_every_weight_agree_with_and_without_checkpointing() {
    for name in MODELS {
        let golden = Golden::of(name);
        for (dtype, checkpointing) in [(DType::F32, false), (DType::F32, true), (DType::F64, false)] {
            let mut policy = golden.policy(dtype);
            policy.train_everything().unwrap();
            let grads = gradients(&golden, &policy, checkpointing);
            assert!(grads.keys().eq(policy.vars().keys()), "{name}");
            for (parameter, grad) in &grads {
                let expected = golden.numbers(&format!("grad.{parameter}"));
                let far = distance(&numbers(grad), &expected);
                assert!(far < 2e-5, "{name} {parameter} {dtype:?}: {far}");
            }
        }
    }
}

#[test]
fn adapters_of_peft_give_its_logits_and_gradients() {
    for (name, adapter) in MODELS.into_iter().flat_map(|n| [(n, "adapter"), (n, "adapter_rslora")]) {
        let golden = Golden::of(name);
        let mut policy = golden.adapted(adapter, DType::F32);
        for merged in [false, true] {
            policy.merge(merged).unwrap();
            let mut packed = Packed::default();
            packed.push_text(&[&golden.ids[2][..], &[1]].concat()).unwrap();
            let logits = numbers(&policy.all_logits(&packed, Adapters::On).unwrap());
            let far = distance(&logits, &golden.numbers(&format!("{adapter}.logits.2")));
            assert!(far < 1e-5, "{name} {adapter}: {far}");
            let plain = numbers(&policy.all_logits(&packed, Adapters::Off).unwrap());
            let far = distance(&plain, &golden.numbers("logits.2"));
            assert!(far < 1e-5, "{name}: the reference policy is the model with the adapter off: {far}");
            let grads = gradients(&golden, &policy, merged);
            assert!(grads.keys().eq(policy.vars().keys()), "{name}");
            for (parameter, grad) in &grads {
                let expected = golden.numbers(&format!("{adapter}.grad.{parameter}"));
                let far = distance(&numbers(grad), &expected);
                assert!(far < 2e-5, "{name} {parameter}: {far}");
            }
        }
        let tensors = policy.merged_tensors().unwrap();
        let whole =
            Policy::new(golden.config.clone(), &Weights::Memory(tensors), DType::F32, policy.device());
        let mut packed = Packed::default();
        packed.push_text(&[&golden.ids[0][..], &[1]].concat()).unwrap();
        let logits = numbers(&whole.unwrap().all_logits(&packed, Adapters::On).unwrap());
        let far = distance(&logits, &golden.numbers(&format!("{adapter}.merged.logits.0")));
        assert!(far < 1e-5, "{name}: {far}");
    }
}

#[test]
fn completions_that_share_a_prompt_are_as_if_alone() {
    let golden = Golden::of("qwen3");
    for dtype in [DType::F32, DType::F64] {
        let mut policy = golden.policy(dtype);
        policy.train_everything().unwrap();
        let (prompt, completions) =
            (&golden.ids[2][..9], [&golden.ids[0][..5], &golden.ids[1][..1], &[], &[7, 7, 3]]);
        let mut shared = Packed::default();
        shared.push(prompt, &completions).unwrap();
        let mut apart = Packed::default();
        completions.iter().for_each(|c| apart.push(prompt, &[c]).unwrap());
        assert!(shared.len() < apart.len());
        let run = |packed: &Packed| {
            let forward =
                policy.forward(packed, TrainPass { temperature: 0.8, ..TrainPass::default() }).unwrap();
            let logp = wide(&forward.stats().logp);
            let coefficients: Vec<f32> = (0..logp.len()).map(|i| 0.3 - 0.1 * i as f32).collect();
            (logp, policy.backward(forward, &coefficients).unwrap())
        };
        let ((a, a_grads), (b, b_grads)) = (run(&shared), run(&apart));
        assert!(distance(&a, &b) < 1e-5);
        for (name, grad) in &a_grads {
            let far = distance(&numbers(grad), &numbers(&b_grads[name]));
            assert!(far < 2e-5, "{name}: {far}");
        }
    }
}

#[test]
fn dropout_acts_on_adapters_alike_in_both_directions() {
    let golden = Golden::of("llama");
    let policy = golden.adapted("adapter", DType::F64);
    let packed = golden.packed();
    let pass = TrainPass { dropout: Dropout { p: 0.3, seed: 5 }, ..TrainPass::default() };
    let loss = || {
        let forward = policy.forward(&packed, pass).unwrap();
        let sum = forward.stats().logp.iter().map(|x| f64::from(*x)).sum::<f64>();
        let ones = vec![1.0; forward.stats().logp.len()];
        (sum, policy.backward(forward, &ones).unwrap())
    };
    let plain = policy.token_stats(&packed, 1.0, Adapters::On).unwrap();
    let (dropped, grads) = loss();
    assert!((plain.logp.iter().map(|x| f64::from(*x)).sum::<f64>() - dropped).abs() > 1e-3);
    for (name, var) in policy.vars().iter().step_by(5) {
        let before = var.as_detached_tensor().copy().unwrap();
        let direction = &grads[name];
        let size = numbers(direction).iter().map(|x| x * x).sum::<f64>();
        let step = 1e-3 / size.sqrt();
        let at = |sign: f64| {
            var.set(&(&before + (direction * (sign * step)).unwrap()).unwrap()).unwrap();
            loss().0
        };
        let slope = (at(1.0) - at(-1.0)) / (2.0 * step);
        var.set(&before).unwrap();
        assert!((slope / size - 1.0).abs() < 2e-2, "{name}: {slope} {size}");
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let golden = Golden::of("qwen2");
    let weights = Weights::open_folder(&folder("qwen2")).unwrap();
    let mut config = golden.config.clone();
    config.layers = 3;
    let missing = Policy::new(config, &weights, DType::F32, &candle_core::Device::Cpu).unwrap_err();
    assert!(missing.to_string().contains("model.layers.2.input_layernorm.weight"), "{missing}");
    let mut config = golden.config.clone();
    config.qkv_bias = false;
    let unknown = Policy::new(config, &weights, DType::F32, &candle_core::Device::Cpu).unwrap_err();
    assert!(unknown.to_string().contains("model.layers.0.self_attn.k_proj.bias"), "{unknown}");
    let mut config = golden.config.clone();
    config.vocab_size = 7;
    let shape = Policy::new(config, &weights, DType::F32, &candle_core::Device::Cpu).unwrap_err();
    assert!(shape.to_string().contains("[96, 32], the configuration says [7, 32]"), "{shape}");
    let mut packed = Packed::default();
    packed.push_text(&[1, 96]).unwrap();
    packed.push_text(&[96, 1]).unwrap();
    let error = golden.policy(DType::F32).all_logits(&packed, Adapters::On).unwrap_err();
    assert_eq!(error.to_string(), "token 96 is outside the vocabulary of 96");
    let mut policy = golden.adapted("adapter", DType::F32);
    assert!(policy.train_everything().is_err());
}
