//! Models from files: weights, tokenizer, chat template; adapters and merged folders.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Tensor};
use tracemill_models::policy::{
    ChatTemplate, LoraConfig, Message, ModelConfig, Policy, TemplateOptions, TextTokenizer, Weights,
    encode_chat, end_of_turn, stop_ids,
};

use crate::run::write_json;

/// A language model, and how it is spoken to.
pub struct Loaded {
    /// The weights.
    pub policy: Policy,
    /// Messages to tokens and back.
    pub chat: ChatFormat,
}

/// What turns messages into tokens, and tokens into text.
pub struct ChatFormat {
    /// Text to tokens.
    pub tokenizer: TextTokenizer,
    /// Messages to text.
    pub template: ChatTemplate,
    /// What the template is rendered with.
    pub options: TemplateOptions,
    /// Tokens that end a reply.
    pub stop: Vec<u32>,
    /// The token that ends a turn, which a reply is to learn.
    pub end: u32,
    /// Where it came from.
    pub source: PathBuf,
}

/// A model whose weights are still on the disk.
pub struct Opened {
    /// Its shape.
    pub config: ModelConfig,
    /// Messages to tokens and back.
    pub chat: ChatFormat,
    weights: Weights,
}

/// Opens a Hugging Face folder (`config.json`, `model*.safetensors`, `tokenizer.json`, chat template) or a GGUF file.
///
/// # Errors
/// What is not there or does not fit, by file or key, and the remedy.
pub fn open(source: &Path, variables: &serde_json::Map<String, serde_json::Value>) -> Result<Opened> {
    let shown = || format!("model {}", source.display());
    if !source.exists() {
        bail!("no model at {}: give a Hugging Face folder or a .gguf file", source.display());
    }
    let (config, weights) = Weights::open(source).with_context(shown)?;
    let (tokenizer, template) = if let Weights::Gguf(gguf) = &weights {
        let tokenizer = TextTokenizer::from_gguf(gguf.content()).with_context(shown)?;
        let template = ChatTemplate::from_gguf(gguf.content(), &tokenizer).with_context(shown)?;
        (tokenizer, template)
    } else {
        (TextTokenizer::from_folder(source)?, ChatTemplate::from_folder(source)?)
    };
    let options = TemplateOptions { extra: variables.clone(), ..TemplateOptions::default() };
    let stop = stop_ids(&tokenizer, &template, &options)?;
    let end = end_of_turn(&tokenizer, &template, &options)?;
    let chat = ChatFormat { tokenizer, template, options, stop, end, source: source.to_owned() };
    Ok(Opened { config, chat, weights })
}

impl Opened {
    /// Reads the weights.
    ///
    /// # Errors
    /// When they are not the model's.
    pub fn load(self, dtype: DType, device: &Device) -> Result<Loaded> {
        let Self { config, chat, weights } = self;
        let policy = Policy::new(config, &weights, dtype, device);
        Ok(Loaded { policy: policy.with_context(|| format!("model {}", chat.source.display()))?, chat })
    }
}

/// Opens and loads.
///
/// # Errors
/// What is not there or does not fit, by file or key, and the remedy.
pub fn load(
    source: &Path,
    dtype: DType,
    device: &Device,
    variables: &serde_json::Map<String, serde_json::Value>,
) -> Result<Loaded> {
    open(source, variables)?.load(dtype, device)
}

impl ChatFormat {
    /// The tokens of a conversation, up to where the assistant is to speak.
    ///
    /// # Errors
    /// When the template refuses the messages.
    pub fn prompt(&self, messages: &[Message]) -> Result<Vec<u32>> {
        Ok(encode_chat(&self.tokenizer, &self.template, messages, &self.options)?.ids)
    }

    /// The tokens of a reply, the end of the turn included: encoded by itself, as a policy writes it.
    ///
    /// # Errors
    /// When the reply holds a token that ends a turn.
    pub fn reply(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = self.tokenizer.encode(text, false)?;
        if let Some(id) = ids.iter().find(|id| self.stop.contains(id)) {
            let token = self.tokenizer.token_of(*id).unwrap_or_default();
            bail!("the reply contains {token}, which ends a turn");
        }
        ids.push(self.end);
        Ok(ids)
    }

    /// The text of a reply, without control tokens: what one agent writes must not open or end turns of another's prompt.
    ///
    /// # Errors
    /// When the tokens are not of this vocabulary.
    pub fn text(&self, tokens: &[u32]) -> Result<String> {
        let tokens = match tokens.split_last() {
            Some((last, rest)) if self.stop.contains(last) => rest,
            _ => tokens,
        };
        Ok(self.tokenizer.decode(tokens, true)?)
    }
}

impl Loaded {
    /// Adds the adapter of a PEFT folder.
    ///
    /// # Errors
    /// When its files are not there or do not fit the model.
    pub fn adapt(&mut self, folder: &Path) -> Result<()> {
        let (config, tensors) = read_adapter(folder)?;
        self.policy.load_lora(&config, &tensors).with_context(|| format!("adapter {}", folder.display()))
    }
}

/// Reads a PEFT folder.
///
/// # Errors
/// When a file is not there, or asks for what is not supported.
pub fn read_adapter(folder: &Path) -> Result<(LoraConfig, BTreeMap<String, Tensor>)> {
    let path = folder.join("adapter_config.json");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("{}: give a folder that PEFT or `tracemill train` wrote", path.display()))?;
    let config = LoraConfig::from_peft(&text).with_context(|| path.display().to_string())?;
    let path = folder.join("adapter_model.safetensors");
    let tensors = candle_core::safetensors::load(&path, &Device::Cpu);
    let tensors = tensors.with_context(|| path.display().to_string())?;
    Ok((config, tensors.into_iter().collect()))
}

/// Writes a PEFT folder.
///
/// # Errors
/// Those of the file system.
pub fn write_adapter(
    folder: &Path,
    config: &LoraConfig,
    tensors: &BTreeMap<String, Tensor>,
    base: &Path,
) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    write_json(&folder.join("adapter_config.json"), &config.to_peft(&base.display().to_string()))?;
    save(&folder.join("adapter_model.safetensors"), tensors)
}

/// Safetensors in name order, with the mark that transformers looks for.
fn save(path: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
    let metadata = std::collections::HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let on_cpu: BTreeMap<&str, Tensor> = tensors
        .iter()
        .map(|(name, tensor)| Ok((name.as_str(), tensor.to_device(&Device::Cpu)?.contiguous()?)))
        .collect::<Result<_>>()?;
    let shown = || path.display().to_string();
    // The library leaves a file that only its owner can read; it is to be like any other.
    let permissions =
        std::fs::File::create(path).and_then(|file| file.metadata()).with_context(shown)?.permissions();
    safetensors::serialize_to_file(on_cpu, Some(metadata), path).with_context(shown)?;
    std::fs::set_permissions(path, permissions).with_context(shown)
}

/// Bytes of a file of merged weights, after which the next begins.
const SHARD_BYTES: usize = 4 << 30;

/// Writes a Hugging Face folder with adapters merged in, for transformers, vLLM and whoever reads such folders:
/// weights in parts of 4 GiB at most, `config.json`, and the tokenizer's files where the source is a folder.
///
/// # Errors
/// Those of the file system.
pub fn write_merged(policy: &Policy, chat: &ChatFormat, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut shards: Vec<(usize, BTreeMap<String, Tensor>)> = vec![(0, BTreeMap::new())];
    for (name, tensor) in policy.merged_tensors()? {
        let bytes = tensor.elem_count() * tensor.dtype().size_in_bytes();
        if shards.last().is_some_and(|(size, _)| *size > 0 && size + bytes > SHARD_BYTES) {
            shards.push((0, BTreeMap::new()));
        }
        let (size, shard) = shards.last_mut().expect("starts with one");
        *size += bytes;
        shard.insert(name, tensor);
    }
    let count = shards.len();
    let (mut map, mut total) = (BTreeMap::new(), 0);
    for (index, (size, shard)) in shards.iter().enumerate() {
        let file = if count == 1 {
            "model.safetensors".to_owned()
        } else {
            format!("model-{:05}-of-{count:05}.safetensors", index + 1)
        };
        save(&folder.join(&file), shard)?;
        map.extend(shard.keys().map(|name| (name.clone(), file.clone())));
        total += size;
    }
    if count > 1 {
        let index = serde_json::json!({"metadata": {"total_size": total}, "weight_map": map});
        write_json(&folder.join("model.safetensors.index.json"), &index)?;
    }
    let mut config = policy.config().to_json();
    config["eos_token_id"] = serde_json::json!(chat.stop);
    config["torch_dtype"] = if policy.dtype() == DType::BF16 { "bfloat16" } else { "float32" }.into();
    write_json(&folder.join("config.json"), &config)?;
    write_json(&folder.join("generation_config.json"), &serde_json::json!({"eos_token_id": chat.stop}))?;
    std::fs::write(folder.join("chat_template.jinja"), chat.template.source())?;
    std::fs::write(folder.join("tokenizer.json"), chat.tokenizer.to_json()?)?;
    copy_tokenizer_config(chat, folder)
}

fn copy_tokenizer_config(chat: &ChatFormat, folder: &Path) -> Result<()> {
    let source = chat.source.join("tokenizer_config.json");
    if source.is_file() {
        std::fs::copy(&source, folder.join("tokenizer_config.json"))
            .with_context(|| source.display().to_string())?;
        return Ok(());
    }
    let mut config = serde_json::json!({ "tokenizer_class": "PreTrainedTokenizerFast" });
    for (name, token) in chat.tokenizer.special_tokens() {
        config[name] = serde_json::json!(token);
    }
    write_json(&folder.join("tokenizer_config.json"), &config)
}

/// Two adapters, one trained on top of the other, as one of the sum of their ranks: `s₁B₁A₁ + s₂B₂A₂ = [s₁B₁ s₂B₂]·[A₁; A₂]`.
/// So what GRPO learned on top of SFT is an adapter of the model that SFT began with.
///
/// # Errors
/// When tensors of the same module do not fit together.
pub fn combine(
    first: (&LoraConfig, &BTreeMap<String, Tensor>),
    second: (&LoraConfig, &BTreeMap<String, Tensor>),
) -> Result<(LoraConfig, BTreeMap<String, Tensor>)> {
    let names: BTreeSet<&String> = first.1.keys().chain(second.1.keys()).collect();
    let mut tensors = BTreeMap::new();
    for name in names {
        let is_a = name.ends_with("lora_A.weight");
        let part =
            |(config, tensors): (&LoraConfig, &BTreeMap<String, Tensor>), like: &Tensor| -> Result<Tensor> {
                match tensors.get(name) {
                    // A module that only the other adapter has gets zeros.
                    None if is_a => Ok(Tensor::zeros((config.r, like.dim(1)?), like.dtype(), like.device())?),
                    None => Ok(Tensor::zeros((like.dim(0)?, config.r), like.dtype(), like.device())?),
                    Some(tensor) if is_a => Ok(tensor.clone()),
                    Some(tensor) => Ok((tensor * config.scale())?),
                }
            };
        let like = first.1.get(name).or_else(|| second.1.get(name)).context("a name of one of them")?;
        let like = like.to_device(&Device::Cpu)?;
        let parts =
            [part(first, &like)?.to_device(&Device::Cpu)?, part(second, &like)?.to_device(&Device::Cpu)?];
        tensors.insert(name.clone(), Tensor::cat(&parts, usize::from(!is_a))?);
    }
    let r = first.0.r + second.0.r;
    let target_modules = first.0.target_modules.union(&second.0.target_modules).cloned().collect();
    let config = LoraConfig { r, lora_alpha: r as f64, lora_dropout: 0.0, target_modules, use_rslora: false };
    Ok((config, tensors))
}
