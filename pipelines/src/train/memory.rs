//! What a run will need, before it starts.

use std::fmt;

use tracemill_models::policy::{LoraConfig, ModelConfig, TARGET_MODULES};

/// Bytes that a training step holds, by what holds them. An estimate: kernels' scratch space and the allocator's gaps are
/// a tenth on top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Estimate {
    /// The model.
    pub weights: u64,
    /// Merged weights beside it.
    pub merged: u64,
    /// The adapter, its gradients and its two moments.
    pub adapter: u64,
    /// What the forward keeps for the backward.
    pub activations: u64,
    /// Logits of the tokens that are learned, or of one block of them.
    pub logits: u64,
    /// Keys and values of what is being written.
    pub cache: u64,
}

/// What an estimate depends on.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The model.
    pub model: &'a ModelConfig,
    /// The adapter.
    pub lora: &'a LoraConfig,
    /// Bytes of a weight.
    pub bytes: u64,
    /// Whether merged weights are kept.
    pub merge: bool,
    /// Whether layers keep their inputs only.
    pub checkpointing: bool,
    /// Tokens in work at once.
    pub tokens: u64,
    /// Tokens whose keys and values are held while texts are written, at most.
    pub cached: u64,
}

/// Numbers that a layer keeps for each token: both norms' inputs and outputs, q, k, v, what was attended, gate and up.
fn kept_by_layer(model: &ModelConfig) -> u64 {
    let (q, kv) = (model.heads * model.head_dim, model.kv_heads * model.head_dim);
    let normed = if model.qk_norm() { q + kv } else { 0 };
    (4 * model.hidden_size + 2 * q + 2 * kv + normed + 2 * model.intermediate_size) as u64
}

/// The estimate of a plan.
pub fn estimate(plan: Plan<'_>) -> Estimate {
    let Plan { model, lora, bytes, merge, checkpointing, tokens, cached } = plan;
    let (d, f) = (model.hidden_size as u64, model.intermediate_size as u64);
    let (q, kv) = ((model.heads * model.head_dim) as u64, (model.kv_heads * model.head_dim) as u64);
    let shapes = [(q, d), (kv, d), (kv, d), (d, q), (f, d), (f, d), (d, f)];
    let adapted = TARGET_MODULES.iter().zip(shapes).filter(|(name, _)| lora.target_modules.contains(**name));
    let (mut adapter, mut merged) = (0, 0);
    for (_, (out, inner)) in adapted {
        adapter += (out + inner) * lora.r as u64;
        merged += out * inner;
    }
    let layers = model.layers as u64;
    let by_layer = kept_by_layer(model) * tokens * bytes;
    let kept = if checkpointing { layers * d * tokens * bytes + by_layer } else { layers * by_layer };
    // The backward of a layer holds as much again as the layer kept.
    let activations = kept + by_layer;
    let block = (256 << 20) / 4;
    let logits = (tokens * model.vocab_size as u64).min(block.max(model.vocab_size as u64)) * 4;
    Estimate {
        weights: model.parameters() as u64 * bytes,
        merged: if merge { merged * layers * bytes } else { 0 },
        adapter: adapter * layers * 4 * 4,
        activations,
        logits,
        cache: layers * 2 * kv * cached * bytes,
    }
}

impl Estimate {
    /// What is held at once at most: the cache is gone before a backward begins.
    pub fn total(&self) -> u64 {
        let Self { weights, merged, adapter, activations, logits, cache } = *self;
        (weights + merged + adapter + (activations + logits).max(cache)) * 11 / 10
    }

    /// A warning when it is more than `free` bytes.
    pub fn warning(&self, free: Option<u64>) -> Option<String> {
        let free = free.filter(|free| self.total() > *free)?;
        Some(format!(
            "this run needs about {} and {} are free: set policy.checkpointing = true, or a smaller \
             policy.micro_tokens; for GRPO also fewer prompts, rollouts or max_response",
            gib(self.total()),
            gib(free)
        ))
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

impl fmt::Display for Estimate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "about {} of memory: weights {}, merged {}, adapter and optimizer {}; in training activations {} and logits {}, \
             in writing keys and values {}",
            gib(self.total()),
            gib(self.weights),
            gib(self.merged),
            gib(self.adapter),
            gib(self.activations),
            gib(self.logits),
            gib(self.cache)
        )
    }
}

/// Bytes that are free: the system's memory, or the GPU's as `nvidia-smi` says. `None` when nobody says.
pub fn free_bytes(device: &str) -> Option<u64> {
    if device == "cpu" {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        return line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10);
    }
    let index = device.strip_prefix("cuda:").unwrap_or("0");
    let query = ["--query-gpu=memory.free", "--format=csv,noheader,nounits", "-i", index];
    let output = std::process::Command::new("nvidia-smi").args(query).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse::<u64>().ok().map(|mib| mib << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracemill_models::policy::ModelConfig;

    fn qwen3_4b() -> ModelConfig {
        let text = r#"{"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 2560, "intermediate_size": 9728,
            "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "tie_word_embeddings": true, "max_position_embeddings": 40960, "rope_theta": 1000000.0}"#;
        ModelConfig::from_json(text).unwrap()
    }

    #[test]
    fn a_long_sequence_beside_a_large_model_needs_checkpointing() {
        let (model, lora) = (qwen3_4b(), LoraConfig::default());
        let plan = Plan {
            model: &model,
            lora: &lora,
            bytes: 2,
            merge: false,
            checkpointing: false,
            tokens: 16_384,
            cached: 0,
        };
        let (whole, thrifty) = (estimate(plan), estimate(Plan { checkpointing: true, ..plan }));
        assert!((whole.weights as f64 / 2.0 / 4.02e9 - 1.0).abs() < 0.01, "{}", whole.weights);
        assert!(thrifty.total() < 80 << 30, "{thrifty}");
        assert!(whole.total() > thrifty.total() && whole.merged == 0);
        assert!(whole.warning(Some(16 << 30)).unwrap().contains("policy.checkpointing"));
        assert_eq!(whole.warning(None), None);
        // 32 prompts of 8,192 tokens: 36 layers, 8 heads of keys and of values, 128 numbers each, 2 bytes.
        let writing = estimate(Plan { cached: 32 * 8_192, checkpointing: true, ..plan });
        assert_eq!(writing.cache, 36 * 2 * 8 * 128 * 2 * 32 * 8_192);
        assert!(writing.total() > thrifty.total());
    }
}
