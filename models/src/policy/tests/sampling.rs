//! Sampling: the distribution is transformers', the cache changes nothing, seeds decide.

use candle_core::DType;
use serde_json::Value;

use super::super::{Adapters, Finish, Packed, Prompt, Sampling};
use super::{Golden, MODELS, distance, json, wide};

#[test]
fn distributions_are_those_of_transformers_warpers() {
    let golden = json("sampling.json");
    for case in golden["cases"].as_array().unwrap() {
        let floats = |key: &str| -> Vec<f64> { serde_json::from_value(case[key].clone()).unwrap() };
        let sampling = Sampling {
            temperature: case["temperature"].as_f64().unwrap_or(1.0),
            top_p: case["top_p"].as_f64().unwrap_or(1.0),
            top_k: case["top_k"].as_u64().unwrap_or(0) as usize,
            ..Sampling::default()
        };
        let logits: Vec<f32> = floats("logits").into_iter().map(|x| x as f32).collect();
        let (mut found, mut expected) = (wide(&sampling.distribution(&logits)), floats("probabilities"));
        if case["order_free"] == Value::Bool(true) {
            // Which of equal tokens stay is the sort's affair.
            found.sort_by(f64::total_cmp);
            expected.sort_by(f64::total_cmp);
        }
        assert!(distance(&found, &expected) < 1e-5, "{sampling:?}: {found:?} {expected:?}");
    }
}

/// The cache has room for 64 tokens at first; texts that go on get more, whatever was written before.
#[test]
fn long_texts_outgrow_the_cache_and_stay_as_they_are() {
    let golden = Golden::of("qwen3");
    for dtype in [DType::F32, DType::F64] {
        let policy = golden.policy(dtype);
        let prompts: Vec<Prompt> =
            golden.ids.iter().map(|ids| Prompt { tokens: ids[..4].to_vec(), seeds: vec![1, 2] }).collect();
        let texts = policy
            .sample(
                &prompts,
                &Sampling { max_tokens: 150, ..Sampling::default() },
                Adapters::On,
                &mut |_, _, _| {},
            )
            .unwrap();
        for (prompt, texts) in prompts.iter().zip(&texts) {
            let mut packed = Packed::default();
            let completions: Vec<&[u32]> = texts.iter().map(|text| &text.tokens[..]).collect();
            packed.push(&prompt.tokens, &completions).unwrap();
            let stats = policy.token_stats(&packed, 1.0, Adapters::On).unwrap();
            let sampled: Vec<f64> = texts.iter().flat_map(|text| wide(&text.logp)).collect();
            assert_eq!(sampled.len(), 300);
            assert!(distance(&wide(&stats.logp), &sampled) < 1e-5);
        }
    }
}

fn greedy(max_tokens: usize) -> Sampling {
    Sampling { temperature: 0.0, max_tokens, ..Sampling::default() }
}

#[test]
fn the_greedy_continuation_is_that_of_transformers_in_one_batch() {
    for (name, dtype) in MODELS.into_iter().flat_map(|name| [(name, DType::F32), (name, DType::F64)]) {
        let golden = Golden::of(name);
        let policy = golden.policy(dtype);
        let prompts: Vec<Prompt> =
            golden.ids.iter().map(|ids| Prompt { tokens: ids.clone(), seeds: vec![0] }).collect();
        let texts = policy.sample(&prompts, &greedy(8), Adapters::On, &mut |_, _, _| {}).unwrap();
        for (text, expected) in texts.iter().zip(&golden.greedy) {
            assert_eq!(&text[0].tokens, expected, "{name}");
            assert_eq!(text[0].finish, Finish::Length);
        }
    }
}

#[test]
fn log_probabilities_of_sampling_are_those_of_training() {
    for (name, dtype) in MODELS.into_iter().flat_map(|name| [(name, DType::F32), (name, DType::F64)]) {
        let golden = Golden::of(name);
        let policy = golden.adapted("adapter", dtype);
        let prompts: Vec<Prompt> = golden
            .ids
            .iter()
            .enumerate()
            .map(|(i, ids)| Prompt {
                tokens: ids.clone(),
                seeds: (0..4).map(|k| 10 * i as u64 + k).collect(),
            })
            .collect();
        let sampling =
            Sampling { temperature: 0.8, max_tokens: 12, stop: (0..20).collect(), ..Sampling::default() };
        let mut ended = 0;
        let texts = policy.sample(&prompts, &sampling, Adapters::On, &mut |_, _, _| ended += 1).unwrap();
        assert_eq!(ended, 12);
        let lengths: Vec<usize> = texts.iter().flatten().map(|t| t.tokens.len()).collect();
        assert!(lengths.iter().any(|n| *n < 12) && lengths.iter().any(|n| *n != lengths[0]), "{lengths:?}");
        for (prompt, texts) in prompts.iter().zip(&texts) {
            let mut packed = Packed::default();
            let completions: Vec<&[u32]> = texts.iter().map(|text| &text.tokens[..]).collect();
            packed.push(&prompt.tokens, &completions).unwrap();
            let stats = policy.token_stats(&packed, 0.8, Adapters::On).unwrap();
            let sampled: Vec<f64> = texts.iter().flat_map(|text| wide(&text.logp)).collect();
            assert!(distance(&wide(&stats.logp), &sampled) < 1e-5);
            for text in texts {
                let stops = text.tokens.iter().filter(|token| **token < 20).count();
                assert_eq!(stops, usize::from(text.finish == Finish::Stop));
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_text_whatever_else_is_in_the_batch() {
    let golden = Golden::of("llama");
    let policy = golden.policy(DType::F32);
    let sampling =
        Sampling { max_tokens: 10, stop: vec![3, 4, 5], top_p: 0.9, top_k: 40, ..Sampling::default() };
    let run =
        |prompts: &[Prompt]| policy.sample(prompts, &sampling, Adapters::On, &mut |_, _, _| {}).unwrap();
    let prompt = |i: usize, seeds: &[u64]| Prompt { tokens: golden.ids[i].clone(), seeds: seeds.to_vec() };
    let many = run(&[prompt(0, &[1, 2, 3]), prompt(1, &[1]), prompt(2, &[])]);
    let alone = run(&[prompt(0, &[2])]);
    assert_eq!(many[0][1].tokens, alone[0][0].tokens);
    assert!(many[0][0].tokens != many[0][1].tokens);
    assert!(many[2].is_empty());
    let empty = policy.sample(
        &[Prompt { tokens: vec![], seeds: vec![1] }],
        &sampling,
        Adapters::On,
        &mut |_, _, _| {},
    );
    assert!(empty.unwrap_err().to_string().contains("a prompt has no tokens"));
}
