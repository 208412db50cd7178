//! Times a policy's training step and decoding; `scripts/bench/policy_trl.py` runs the same tokens through TRL and
//! transformers. `policy_bench MODEL ROWS.jsonl sft|grpo|decode [STEPS] [BATCH]`. Rows hold `prompt_ids` and
//! `completion_ids`; a step of GRPO takes BATCH prompts, 4 outputs to each, of 48 tokens.
#![allow(clippy::print_stdout, reason = "the result is the output")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use candle_core::{DType, Device};
use serde::Deserialize;
use serde_json::json;
use tracemill_models::optim::{AdamW, AdamWSettings};
use tracemill_models::policy::{Adapters, LoraConfig, Packed, Policy, Prompt, Sampling, TrainPass, Weights};
use tracemill_models::rl::{LossSettings, TokenBatch, batch_advantages, policy_loss};

#[derive(Deserialize)]
struct Row {
    prompt_ids: Vec<u32>,
    completion_ids: Vec<u32>,
}

/// The largest resident set so far, in MiB.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

fn sft(
    policy: &mut Policy,
    rows: &[Row],
    steps: usize,
    batch: usize,
) -> Result<serde_json::Value, Box<dyn Error>> {
    policy.add_lora(&LoraConfig::default(), 1)?;
    policy.merge(true)?;
    let mut adamw = AdamW::new(AdamWSettings { lr: 1e-4, clip_norm: Some(1.0), ..AdamWSettings::default() });
    let (mut seconds, mut losses, mut tokens) = (Vec::new(), Vec::new(), 0);
    for step in 0..steps {
        let started = Instant::now();
        let mut packed = Packed::default();
        for i in 0..batch {
            let row = &rows[(step * batch + i) % rows.len()];
            packed.push(&row.prompt_ids, &[&row.completion_ids])?;
            tokens += row.prompt_ids.len() + row.completion_ids.len();
        }
        let forward = policy.forward(&packed, TrainPass::default())?;
        let n = forward.stats().logp.len();
        losses.push(-forward.stats().logp.iter().sum::<f32>() / n as f32);
        let grads = policy.backward(forward, &vec![-1.0 / n as f32; n])?;
        adamw.step(policy.vars(), &grads)?;
        policy.merge(true)?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    Ok(
        json!({ "step_s": seconds, "losses": losses, "tokens_per_step": tokens / steps, "peak_rss_mb": peak_mib() }),
    )
}

/// Outputs to a prompt in GRPO, and tokens of each.
const ROLLOUTS: usize = 4;
const WRITTEN: usize = 48;

/// Sampling, the reference's log-probabilities (the model with the adapter off), a backward and a step of AdamW.
fn grpo(
    policy: &mut Policy,
    rows: &[Row],
    steps: usize,
    batch: usize,
) -> Result<serde_json::Value, Box<dyn Error>> {
    policy.add_lora(&LoraConfig::default(), 1)?;
    policy.merge(true)?;
    let mut adamw = AdamW::new(AdamWSettings { lr: 1e-4, clip_norm: Some(1.0), ..AdamWSettings::default() });
    let sampling = Sampling { max_tokens: WRITTEN, ..Sampling::default() };
    let loss = LossSettings::paper();
    let mut seconds: [Vec<f64>; 4] = Default::default();
    for step in 0..steps {
        let mut clock = vec![Instant::now()];
        let prompts: Vec<Prompt> = (0..batch)
            .map(|i| Prompt {
                tokens: rows[(step * batch + i) % rows.len()].prompt_ids.clone(),
                seeds: (0..ROLLOUTS).map(|k| (step * batch * ROLLOUTS + i * ROLLOUTS + k) as u64).collect(),
            })
            .collect();
        let texts = policy.sample(&prompts, &sampling, Adapters::On, &mut |_, _, _| {})?;
        clock.push(Instant::now());
        let mut packed = Packed::default();
        for (prompt, texts) in prompts.iter().zip(&texts) {
            let completions: Vec<&[u32]> = texts.iter().map(|text| &text.tokens[..]).collect();
            packed.push(&prompt.tokens, &completions)?;
        }
        let reference = policy.token_stats(&packed, 1.0, Adapters::Off)?.logp;
        clock.push(Instant::now());
        // Any rewards do, so long as no group is dead.
        let rewards: Vec<Vec<Option<f64>>> = texts
            .iter()
            .map(|group| {
                group.iter().enumerate().map(|(i, t)| Some(f64::from(t.tokens[0] + i as u32))).collect()
            })
            .collect();
        let advantages: Vec<f64> = batch_advantages(&rewards, &loss.advantage())?
            .into_iter()
            .flat_map(|group| group.advantages.into_iter().flatten())
            .collect();
        let forward = policy.forward(&packed, TrainPass::default())?;
        let logp = &forward.stats().logp;
        let lengths: Vec<usize> = texts.iter().flatten().map(|text| text.tokens.len()).collect();
        let tokens = TokenBatch {
            logp,
            old: logp,
            reference: Some(&reference),
            sampler: None,
            lengths: &lengths,
            advantages: &advantages,
            mask: None,
            whole: None,
        };
        let d_logp = policy_loss(&tokens, &loss)?.d_logp;
        let grads = policy.backward(forward, &d_logp)?;
        adamw.step(policy.vars(), &grads)?;
        policy.merge(true)?;
        clock.push(Instant::now());
        for (part, pair) in seconds.iter_mut().zip(clock.windows(2)) {
            part.push((pair[1] - pair[0]).as_secs_f64());
        }
        seconds[3].push(clock[0].elapsed().as_secs_f64());
    }
    let [generation, reference, train, step] = seconds;
    Ok(json!({
        "step_s": step, "generation_s": generation, "reference_s": reference, "train_s": train,
        "peak_rss_mb": peak_mib(),
    }))
}

fn decode(policy: &Policy, rows: &[Row], batch: usize) -> Result<serde_json::Value, Box<dyn Error>> {
    let prompts: Vec<Prompt> = (0..batch)
        .map(|i| Prompt { tokens: rows[i % rows.len()].prompt_ids.clone(), seeds: vec![i as u64] })
        .collect();
    let timed = |max_tokens: usize| -> Result<f64, Box<dyn Error>> {
        let sampling = Sampling { temperature: 0.0, max_tokens, ..Sampling::default() };
        let started = Instant::now();
        policy.sample(&prompts, &sampling, Adapters::On, &mut |_, _, _| {})?;
        Ok(started.elapsed().as_secs_f64())
    };
    timed(2)?;
    let (first, whole) = (timed(1)?, timed(48)?);
    let written = (batch * 47) as f64;
    Ok(json!({
        "batch": batch, "first_token_s": first, "seconds": whole,
        "tokens_per_s": (batch * 48) as f64 / whole, "tokens_per_s_after_first": written / (whole - first),
        "peak_rss_mb": peak_mib(),
    }))
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, rows, mode, rest @ ..] = &args[..] else {
        return Err("policy_bench MODEL ROWS.jsonl sft|grpo|decode [STEPS] [BATCH]".into());
    };
    let number = |i: usize, default| rest.get(i).map_or(Ok(default), |text: &String| text.parse());
    let (steps, batch) = (number(0, 6)?, number(1, 8)?);
    let text = std::fs::read_to_string(rows)?;
    let rows: Vec<Row> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let (config, weights) = Weights::open(Path::new(model))?;
    let mut policy = Policy::new(config, &weights, DType::F32, &Device::Cpu)?;
    let result = match mode.as_str() {
        "sft" => sft(&mut policy, &rows, steps, batch)?,
        "grpo" => grpo(&mut policy, &rows, steps, batch)?,
        "decode" => decode(&policy, &rows, batch)?,
        other => return Err(format!("mode `{other}`: sft, grpo or decode").into()),
    };
    println!("{result}");
    Ok(())
}
