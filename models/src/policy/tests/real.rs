//! The real small policies against transformers on the same dequantised weights
//! (`scripts/reference/smollm2_logits.py`). Skipped where the weights were not fetched.

use candle_core::{DType, Device};
use serde::Deserialize;

use super::super::tokenizer::tests::fetched_file;
use super::super::{Adapters, Packed, Policy, Prompt, Sampling, TextTokenizer, Weights};
use super::{json, numbers};

/// Largest difference of a logit, in f32 against the reference's f64.
const TOLERANCE: f64 = 1e-3;

#[derive(Deserialize)]
struct Reference {
    file: String,
    chosen_ids: Vec<usize>,
    prompts: Vec<Text>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    ids: Vec<u32>,
    positions: Vec<Position>,
    greedy: Vec<u32>,
}

#[derive(Deserialize)]
struct Position {
    position: usize,
    top_ids: Vec<usize>,
    top_logits: Vec<f64>,
    logits: Vec<f64>,
    logsumexp: f64,
}

impl Position {
    /// The likeliest tokens are the reference's, and no number is off by more than the tolerance.
    fn check(&self, row: &[f64], chosen: &[usize], name: &str) {
        let expected = self.top_ids.iter().zip(&self.top_logits).chain(chosen.iter().zip(&self.logits));
        for (id, logit) in expected {
            assert!((row[*id] - logit).abs() < TOLERANCE, "{name} token {id}: {} is not {logit}", row[*id]);
        }
        let above = row.iter().filter(|x| **x > self.top_logits[self.top_logits.len() - 1] + TOLERANCE);
        assert!(above.count() < self.top_ids.len(), "{name}: other tokens are likelier");
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum = most + row.iter().map(|x| (x - most).exp()).sum::<f64>().ln();
        assert!((sum - self.logsumexp).abs() < TOLERANCE, "{name}: {sum} is not {}", self.logsumexp);
    }
}

/// Prompts of different lengths in one batch; then the greedy continuation through the cache.
fn agrees(folder: &str, golden: &str) {
    let Reference { file, chosen_ids, prompts } = serde_json::from_value(json(golden)).unwrap();
    let Some(path) = fetched_file(folder, &file) else { return };
    let (config, weights) = Weights::open(&path).unwrap();
    let Weights::Gguf(gguf) = &weights else { panic!("{} is GGUF", path.display()) };
    let tokenizer = TextTokenizer::from_gguf(gguf.content()).unwrap();
    let vocabulary = config.vocab_size;
    let policy = Policy::new(config, &weights, DType::F32, &Device::Cpu).unwrap();

    let mut packed = Packed::default();
    prompts.iter().for_each(|prompt| packed.push(&prompt.ids, &[]).unwrap());
    let logits = numbers(&policy.all_logits(&packed, Adapters::On).unwrap());
    let mut start = 0;
    for prompt in &prompts {
        assert_eq!(tokenizer.encode(&prompt.text, false).unwrap(), prompt.ids);
        for position in &prompt.positions {
            let row = &logits[(start + position.position) * vocabulary..][..vocabulary];
            position.check(row, &chosen_ids, &format!("{folder} {:?} at {}", prompt.text, position.position));
        }
        start += prompt.ids.len();
    }

    let sampling = Sampling { temperature: 0.0, max_tokens: prompts[0].greedy.len(), ..Sampling::default() };
    let asked: Vec<Prompt> =
        prompts.iter().map(|prompt| Prompt { tokens: prompt.ids.clone(), seeds: vec![0] }).collect();
    let texts = policy.sample(&asked, &sampling, Adapters::On, &mut |_, _, _| {}).unwrap();
    let mut whole = Packed::default();
    for (prompt, text) in prompts.iter().zip(&texts) {
        assert_eq!(text[0].tokens, prompt.greedy, "{folder} {:?}", prompt.text);
        let last = prompt.positions.last().unwrap();
        let expected = last.top_logits[0] - last.logsumexp;
        assert!((f64::from(text[0].logp[0]) - expected).abs() < TOLERANCE, "{folder} {:?}", prompt.text);
        whole.push(&prompt.ids, &[&prompt.greedy]).unwrap();
    }
    // What the cache gave for every token is what a pass without one gives.
    let stats = policy.token_stats(&whole, 1.0, Adapters::On).unwrap();
    for (cached, plain) in texts.iter().flat_map(|text| &text[0].logp).zip(&stats.logp) {
        assert!(
            f64::from(cached - plain).abs() < TOLERANCE,
            "{folder}: {cached} with the cache, {plain} without"
        );
    }
}

#[test]
fn smollm2_agrees_with_transformers() {
    agrees("SmolLM2-135M-Instruct", "smollm2_logits.json");
}

#[test]
fn qwen2_5_coder_agrees_with_transformers() {
    agrees("Qwen2.5-Coder-0.5B-Instruct", "qwen2.5_logits.json");
}
