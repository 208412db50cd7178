//! What a causal language model is made of: Hugging Face's `config.json`, or the metadata of a GGUF file.

use candle_core::quantized::gguf_file::{Content, Value};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::error::{PolicyError, Result};

/// The families that one implementation covers; they differ in biases and norms only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Llama and what has its shape (`SmolLM2`).
    Llama,
    /// Qwen2 and Qwen2.5: biases on q, k and v.
    Qwen2,
    /// Qwen3: a norm over each head of q and k.
    Qwen3,
}

impl Family {
    /// The class that transformers names in `architectures`.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
        }
    }
}

/// How rotary frequencies are stretched beyond the length a model was trained on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// All frequencies divided by the factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Llama 3: low frequencies are divided, high ones kept, those between blended.
    Llama3 {
        /// The factor.
        factor: f64,
        /// `original / low_freq_factor` is the shortest wavelength that is divided in full.
        low_freq_factor: f64,
        /// `original / high_freq_factor` is the longest wavelength that is kept.
        high_freq_factor: f64,
        /// Positions the model was first trained on.
        original: f64,
    },
}

/// The shape of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The family.
    pub family: Family,
    /// Tokens in the vocabulary.
    pub vocab_size: usize,
    /// Width of the residual stream, d.
    pub hidden_size: usize,
    /// Width inside the feed-forward network.
    pub intermediate_size: usize,
    /// Layers.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Heads of keys and values; each serves `heads / kv_heads` heads of queries.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Added to the mean square in `RMSNorm`.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Their stretching.
    pub rope_scaling: Option<RopeScaling>,
    /// Longest sequence the model knows positions for.
    pub max_positions: usize,
    /// Whether the output layer is the embedding.
    pub tie_embeddings: bool,
    /// Whether q, k and v have biases.
    pub qkv_bias: bool,
    /// Whether the attention's output has one.
    pub output_bias: bool,
}

impl ModelConfig {
    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    /// [`PolicyError::Config`] names the key that is missing, of the wrong kind, or asks for what is not built.
    pub fn from_json(text: &str) -> Result<Self> {
        let json: Json = serde_json::from_str(text)
            .map_err(|e| PolicyError::config("config.json", format!("not JSON: {e}")))?;
        let keys = Keys(&json);
        let family = match keys.text("model_type")? {
            "llama" => Family::Llama,
            "qwen2" => Family::Qwen2,
            "qwen3" => Family::Qwen3,
            other => {
                let reason = format!("`{other}` is not supported: llama, qwen2 and qwen3 are");
                return Err(PolicyError::config("model_type", reason));
            }
        };
        if keys.flag("use_sliding_window")?.unwrap_or(false) {
            return Err(PolicyError::config("use_sliding_window", "sliding windows are not supported"));
        }
        if let Some(act) = json.get("hidden_act").and_then(Json::as_str).filter(|act| *act != "silu") {
            return Err(PolicyError::config("hidden_act", format!("`{act}` is not supported: silu is")));
        }
        if keys.flag("mlp_bias")?.unwrap_or(false) {
            return Err(PolicyError::config(
                "mlp_bias",
                "biases in the feed-forward network are not supported",
            ));
        }
        let (hidden_size, heads) = (keys.size("hidden_size")?, keys.size("num_attention_heads")?);
        let bias = keys.flag("attention_bias")?.unwrap_or(false);
        let (rope_theta, rope_scaling) = keys.rope()?;
        let config = Self {
            family,
            vocab_size: keys.size("vocab_size")?,
            hidden_size,
            intermediate_size: keys.size("intermediate_size")?,
            layers: keys.size("num_hidden_layers")?,
            heads,
            kv_heads: keys.size_or("num_key_value_heads", heads)?,
            head_dim: keys.size_or("head_dim", hidden_size / heads.max(1))?,
            rms_norm_eps: keys.number("rms_norm_eps")?.unwrap_or(1e-6),
            rope_theta,
            rope_scaling,
            max_positions: keys.size_or("max_position_embeddings", 2048)?,
            tie_embeddings: keys.flag("tie_word_embeddings")?.unwrap_or(false),
            qkv_bias: bias || family == Family::Qwen2,
            output_bias: bias,
        };
        config.checked()
    }

    /// Reads a GGUF file's metadata. `tie_embeddings` says that the file has no `output.weight`.
    ///
    /// # Errors
    /// As [`Self::from_json`], for metadata keys.
    pub fn from_gguf(content: &Content) -> Result<Self> {
        let keys = Metadata(content);
        let arch = keys.text("general.architecture")?;
        let family = match arch.as_str() {
            "llama" => Family::Llama,
            "qwen2" => Family::Qwen2,
            "qwen3" => Family::Qwen3,
            other => {
                let reason = format!("`{other}` is not supported: llama, qwen2 and qwen3 are");
                return Err(PolicyError::config("general.architecture", reason));
            }
        };
        let key = |name: &str| format!("{arch}.{name}");
        let kind = key("rope.scaling.type");
        if let Some(kind) =
            content.metadata.get(&kind).and_then(|v| v.to_string().ok()).filter(|k| *k != "none")
        {
            let reason = format!("`{kind}` is not supported in GGUF files: use the Hugging Face folder");
            return Err(PolicyError::config(&key("rope.scaling.type"), reason));
        }
        if content.tensor_infos.contains_key("rope_freqs.weight") {
            let reason =
                "stretched rotary frequencies are not supported in GGUF files: use the Hugging Face folder";
            return Err(PolicyError::config("rope_freqs.weight", reason));
        }
        let (hidden_size, heads) =
            (keys.size(&key("embedding_length"))?, keys.size(&key("attention.head_count"))?);
        let vocab_size = content.tensor_infos.get("token_embd.weight").map(|info| info.shape.dims()[0]);
        let config = Self {
            family,
            vocab_size: vocab_size.ok_or_else(|| PolicyError::missing("token_embd.weight"))?,
            hidden_size,
            intermediate_size: keys.size(&key("feed_forward_length"))?,
            layers: keys.size(&key("block_count"))?,
            heads,
            kv_heads: keys.size_or(&key("attention.head_count_kv"), heads)?,
            head_dim: keys.size_or(&key("attention.key_length"), hidden_size / heads.max(1))?,
            rms_norm_eps: keys.number(&key("attention.layer_norm_rms_epsilon"))?.unwrap_or(1e-6),
            rope_theta: keys.number(&key("rope.freq_base"))?.unwrap_or(10_000.0),
            rope_scaling: None,
            max_positions: keys.size_or(&key("context_length"), 2048)?,
            tie_embeddings: !content.tensor_infos.contains_key("output.weight"),
            qkv_bias: family == Family::Qwen2,
            output_bias: false,
        };
        config.checked()
    }

    fn checked(self) -> Result<Self> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.layers),
            ("num_attention_heads", self.heads),
            ("num_key_value_heads", self.kv_heads),
            ("head_dim", self.head_dim),
        ];
        if let Some((key, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(PolicyError::config(key, "must not be 0"));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let reason = format!("{} heads are not a multiple of {}", self.heads, self.kv_heads);
            return Err(PolicyError::config("num_key_value_heads", reason));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(PolicyError::config("head_dim", "must be even"));
        }
        Ok(self)
    }

    /// Whether q and k are normed, head by head.
    pub fn qk_norm(&self) -> bool {
        self.family == Family::Qwen3
    }

    /// The model as a `config.json` that transformers reads.
    pub fn to_json(&self) -> Json {
        let mut json = serde_json::json!({
            "architectures": [self.family.architecture()],
            "model_type": self.family,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "max_position_embeddings": self.max_positions,
            "tie_word_embeddings": self.tie_embeddings,
            "attention_bias": self.output_bias,
            "torch_dtype": "float32",
        });
        json["rope_scaling"] = match self.rope_scaling {
            None => Json::Null,
            Some(RopeScaling::Linear { factor }) => {
                serde_json::json!({"rope_type": "linear", "factor": factor})
            }
            Some(RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original }) => {
                serde_json::json!({
                    "rope_type": "llama3", "factor": factor, "low_freq_factor": low_freq_factor,
                    "high_freq_factor": high_freq_factor,
                    "original_max_position_embeddings": original as u64,
                })
            }
        };
        json
    }

    /// Rotary frequencies of a head's pairs of dimensions, in radians per position: `theta^(-2i/head_dim)`, stretched.
    pub fn rope_frequencies(&self) -> Vec<f64> {
        let n = self.head_dim as f64;
        let plain = (0..self.head_dim / 2).map(|i| self.rope_theta.powf(-2.0 * i as f64 / n));
        plain.map(|frequency| self.stretched(frequency)).collect()
    }

    fn stretched(&self, frequency: f64) -> f64 {
        match self.rope_scaling {
            None => frequency,
            Some(RopeScaling::Linear { factor }) => frequency / factor,
            Some(RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original }) => {
                let wavelength = 2.0 * std::f64::consts::PI / frequency;
                let keep = (original / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
                let keep = keep.clamp(0.0, 1.0);
                (1.0 - keep) * frequency / factor + keep * frequency
            }
        }
    }

    /// Numbers in the model's weights.
    pub fn parameters(&self) -> usize {
        let d = self.hidden_size;
        let attention = d * self.head_dim * (2 * self.heads + 2 * self.kv_heads);
        let layer = attention + 3 * d * self.intermediate_size + 2 * d;
        let embeddings = self.vocab_size * d * if self.tie_embeddings { 1 } else { 2 };
        self.layers * layer + embeddings + d
    }
}

/// Keys of a `config.json`.
struct Keys<'a>(&'a Json);

impl<'a> Keys<'a> {
    fn at(&self, key: &str) -> Option<&'a Json> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Result<&'a str> {
        self.at(key).and_then(Json::as_str).ok_or_else(|| PolicyError::config(key, "missing, or not a text"))
    }

    fn size(&self, key: &str) -> Result<usize> {
        let number = self.at(key).and_then(Json::as_u64);
        number.map(|n| n as usize).ok_or_else(|| PolicyError::config(key, "missing, or not a whole number"))
    }

    fn size_or(&self, key: &str, default: usize) -> Result<usize> {
        if self.at(key).is_some() { self.size(key) } else { Ok(default) }
    }

    fn number(&self, key: &str) -> Result<Option<f64>> {
        let wrong = || PolicyError::config(key, "not a number");
        self.at(key).map(|value| value.as_f64().ok_or_else(wrong)).transpose()
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        let wrong = || PolicyError::config(key, "neither true nor false");
        self.at(key).map(|value| value.as_bool().ok_or_else(wrong)).transpose()
    }

    /// Base and scaling: in keys of their own, or together in `rope_parameters` (transformers 5).
    fn rope(&self) -> Result<(f64, Option<RopeScaling>)> {
        let own = Json::Null;
        let nested = Keys(self.at("rope_parameters").or_else(|| self.at("rope_scaling")).unwrap_or(&own));
        let theta = match self.number("rope_theta")? {
            Some(theta) => theta,
            None => nested.number("rope_theta")?.unwrap_or(10_000.0),
        };
        let kind = nested.at("rope_type").or_else(|| nested.at("type")).and_then(Json::as_str);
        let need = |key: &str| -> Result<f64> {
            nested.number(key)?.ok_or_else(|| PolicyError::config(&format!("rope_scaling.{key}"), "missing"))
        };
        let scaling = match kind {
            None | Some("default") => None,
            Some("linear") => Some(RopeScaling::Linear { factor: need("factor")? }),
            Some("llama3") => Some(RopeScaling::Llama3 {
                factor: need("factor")?,
                low_freq_factor: need("low_freq_factor")?,
                high_freq_factor: need("high_freq_factor")?,
                original: need("original_max_position_embeddings")?,
            }),
            Some(other) => {
                let reason = format!("`{other}` is not supported: default, linear and llama3 are");
                return Err(PolicyError::config("rope_scaling.rope_type", reason));
            }
        };
        Ok((theta, scaling))
    }
}

/// Keys of a GGUF file.
struct Metadata<'a>(&'a Content);

impl Metadata<'_> {
    fn text(&self, key: &str) -> Result<String> {
        let value = self.0.metadata.get(key).and_then(|v| v.to_string().ok());
        value.cloned().ok_or_else(|| PolicyError::config(key, "missing, or not a text"))
    }

    fn size(&self, key: &str) -> Result<usize> {
        let number = self.0.metadata.get(key).and_then(whole);
        number.ok_or_else(|| PolicyError::config(key, "missing, or not a whole number"))
    }

    fn size_or(&self, key: &str, default: usize) -> Result<usize> {
        if self.0.metadata.contains_key(key) { self.size(key) } else { Ok(default) }
    }

    fn number(&self, key: &str) -> Result<Option<f64>> {
        let wrong = || PolicyError::config(key, "not a number");
        let of =
            |value: &Value| value.to_f32().map(f64::from).or_else(|_| value.to_f64()).map_err(|_| wrong());
        self.0.metadata.get(key).map(of).transpose()
    }
}

fn whole(value: &Value) -> Option<usize> {
    match value {
        Value::U32(n) => Some(*n as usize),
        Value::U64(n) => usize::try_from(*n).ok(),
        Value::I32(n) => usize::try_from(*n).ok(),
        Value::I64(n) => usize::try_from(*n).ok(),
        _ => None,
    }
}
