//! Writes what a policy computes, for `scripts/reference/check_adapter.py` to compare with transformers and PEFT:
//! `policy_logits MODEL ROWS.jsonl ADAPTER|- [ROWS] > logits.json`. Rows hold `prompt_ids` and `completion_ids`. Written are
//! the logits after every completion token's predecessor and at the first and the middle position.
#![allow(clippy::print_stdout, reason = "the result is the output")]

use std::error::Error;
use std::path::Path;

use candle_core::{DType, Device};
use serde::Deserialize;
use serde_json::json;
use tracemill_models::policy::{Adapters, LoraConfig, Packed, Policy, Weights};

#[derive(Deserialize)]
struct Row {
    prompt_ids: Vec<u32>,
    completion_ids: Vec<u32>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, rows, adapter, rest @ ..] = &args[..] else {
        return Err("policy_logits MODEL ROWS.jsonl ADAPTER|- [ROWS]".into());
    };
    let count = rest.first().map_or(Ok(4), |text| text.parse())?;
    let (config, weights) = Weights::open(Path::new(model))?;
    let mut policy = Policy::new(config, &weights, DType::F32, &Device::Cpu)?;
    if adapter != "-" {
        let folder = Path::new(adapter);
        let config = LoraConfig::from_peft(&std::fs::read_to_string(folder.join("adapter_config.json"))?)?;
        let tensors = candle_core::safetensors::load(folder.join("adapter_model.safetensors"), &Device::Cpu)?;
        policy.load_lora(&config, &tensors.into_iter().collect())?;
    }
    let (mut ids, mut positions, mut logits) = (Vec::new(), Vec::new(), Vec::new());
    for line in std::fs::read_to_string(rows)?.lines().take(count) {
        let Row { prompt_ids, completion_ids } = serde_json::from_str(line)?;
        let whole = [&prompt_ids[..], &completion_ids].concat();
        let mut at = vec![0, prompt_ids.len() / 2];
        at.extend(prompt_ids.len() - 1..whole.len());
        at.dedup();
        let mut packed = Packed::default();
        packed.push(&whole, &[])?;
        let all: Vec<Vec<f32>> = policy.all_logits(&packed, Adapters::On)?.to_vec2()?;
        logits.push(at.iter().map(|&i| all[i].clone()).collect::<Vec<_>>());
        ids.push(whole);
        positions.push(at);
    }
    println!("{}", json!({ "ids": ids, "positions": positions, "logits": logits }));
    Ok(())
}
