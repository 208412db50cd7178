//! Weights by Hugging Face's names, from safetensors (one file or several) or GGUF.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::Content;
use candle_core::safetensors::MmapedSafetensors;
use candle_core::{DType, Device, Tensor};

use super::config::{Family, ModelConfig};
use super::error::{PolicyError, Result};

/// Where a model's tensors are read from, one by one.
pub enum Weights {
    /// Tensors in memory.
    Memory(BTreeMap<String, Tensor>),
    /// A Hugging Face folder's `model*.safetensors`.
    Safetensors(Box<MmapedSafetensors>),
    /// A GGUF file; quantised tensors are dequantised.
    Gguf(Box<Gguf>),
}

/// An open GGUF file.
pub struct Gguf {
    path: PathBuf,
    content: Content,
    config: ModelConfig,
}

impl Gguf {
    /// Opens a file and reads its metadata.
    ///
    /// # Errors
    /// [`PolicyError::File`] when it is not there or is not GGUF, [`PolicyError::Config`] for unfit metadata.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| PolicyError::file(path, e))?;
        let content = Content::read(&mut BufReader::new(file)).map_err(|e| PolicyError::file(path, e))?;
        let config = ModelConfig::from_gguf(&content)?;
        Ok(Self { path: path.to_owned(), content, config })
    }

    /// The metadata.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// The model's shape.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn tensor(&self, name: &str, device: &Device) -> Result<Tensor> {
        let gguf = gguf_name(name).ok_or_else(|| PolicyError::missing(name))?;
        if !self.content.tensor_infos.contains_key(&gguf) {
            return Err(PolicyError::missing(&gguf));
        }
        let file = File::open(&self.path).map_err(|e| PolicyError::file(&self.path, e))?;
        let tensor = self.content.tensor(&mut BufReader::new(file), &gguf, &Device::Cpu)?;
        let tensor = tensor.dequantize(&Device::Cpu)?;
        let heads = match name.rsplit('.').nth(1) {
            Some("q_proj") => self.config.heads,
            Some("k_proj") => self.config.kv_heads,
            _ => 0,
        };
        let tensor = if self.config.family == Family::Llama && heads > 0 {
            unpermuted(&tensor, heads)?
        } else {
            tensor
        };
        Ok(tensor.to_device(device)?)
    }
}

/// Llama's GGUF keeps the two halves of a head interleaved, for the other form of rotary embeddings; this is the order
/// of Hugging Face's files.
fn unpermuted(weight: &Tensor, heads: usize) -> Result<Tensor> {
    let (shape, rows) = (weight.dims().to_vec(), weight.dim(0)?);
    let rest = weight.elem_count() / rows;
    let halves = weight.reshape((heads, rows / heads / 2, 2, rest))?.transpose(1, 2)?;
    Ok(halves.contiguous()?.reshape(shape)?)
}

/// `model.layers.3.mlp.up_proj.weight` → `blk.3.ffn_up.weight`.
fn gguf_name(name: &str) -> Option<String> {
    let (module, kind) = name.rsplit_once('.')?;
    let fixed = match module {
        "model.embed_tokens" => Some("token_embd"),
        "model.norm" => Some("output_norm"),
        "lm_head" => Some("output"),
        _ => None,
    };
    if let Some(fixed) = fixed {
        return Some(format!("{fixed}.{kind}"));
    }
    let (layer, module) = module.strip_prefix("model.layers.")?.split_once('.')?;
    let module = match module {
        "input_layernorm" => "attn_norm",
        "post_attention_layernorm" => "ffn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        _ => return None,
    };
    Some(format!("blk.{layer}.{module}.{kind}"))
}

impl Weights {
    /// Opens a Hugging Face folder (`config.json`, `model*.safetensors`) or a GGUF file, by its extension.
    ///
    /// # Errors
    /// [`PolicyError::File`] names what is missing or cannot be read, [`PolicyError::Config`] what is not supported.
    pub fn open(source: &Path) -> Result<(ModelConfig, Self)> {
        if source.extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf")) {
            let gguf = Gguf::open(source)?;
            return Ok((gguf.config().clone(), Self::Gguf(Box::new(gguf))));
        }
        let path = source.join("config.json");
        let text = std::fs::read_to_string(&path).map_err(|e| {
            PolicyError::file(
                &path,
                format!("{e}: give a Hugging Face folder with config.json, or a .gguf file"),
            )
        })?;
        Ok((ModelConfig::from_json(&text)?, Self::open_folder(source)?))
    }

    /// Opens the `model.safetensors` of a folder, or the parts that `model.safetensors.index.json` names.
    ///
    /// # Errors
    /// [`PolicyError::File`] names what is missing or cannot be read.
    pub fn open_folder(folder: &Path) -> Result<Self> {
        let index = folder.join("model.safetensors.index.json");
        let files =
            if index.exists() { parts(folder, &index)? } else { vec![folder.join("model.safetensors")] };
        if let Some(missing) = files.iter().find(|file| !file.exists()) {
            return Err(PolicyError::file(missing, "not there"));
        }
        // SAFETY: the files are only read; whoever changes a model's files while it is being loaded gets other weights,
        // as with any reader.
        #[allow(unsafe_code)]
        let mapped = unsafe { MmapedSafetensors::multi(&files) };
        Ok(Self::Safetensors(Box::new(mapped.map_err(|e| PolicyError::file(folder, e))?)))
    }

    /// The first tensor of a layer that is not among those `known`. What stands outside the layers, and tables that can be
    /// computed, do not matter.
    pub(super) fn unknown(&self, known: &BTreeMap<String, Vec<usize>>) -> Option<String> {
        let mut names: Vec<String> = match self {
            Self::Memory(tensors) => tensors.keys().cloned().collect(),
            Self::Safetensors(files) => files.tensors().into_iter().map(|(name, _)| name).collect(),
            Self::Gguf(gguf) => gguf.content.tensor_infos.keys().cloned().collect(),
        };
        names.sort();
        let known: BTreeSet<String> = match self {
            Self::Gguf(_) => known.keys().filter_map(|name| gguf_name(name)).collect(),
            _ => known.keys().cloned().collect(),
        };
        let in_layer = |name: &str| name.starts_with("model.layers.") || name.starts_with("blk.");
        names
            .into_iter()
            .find(|name| in_layer(name) && !known.contains(name) && !name.ends_with("rotary_emb.inv_freq"))
    }

    /// A tensor by its Hugging Face name, of the shape and type asked for.
    ///
    /// # Errors
    /// [`PolicyError::MissingTensor`] and [`PolicyError::Shape`].
    pub fn get(&self, name: &str, shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
        let tensor = match self {
            Self::Memory(tensors) => {
                tensors.get(name).ok_or_else(|| PolicyError::missing(name))?.to_device(device)?
            }
            Self::Safetensors(files) => {
                files.get(name).map_err(|_| PolicyError::missing(name))?;
                files.load(name, device)?
            }
            Self::Gguf(gguf) => gguf.tensor(name, device)?,
        };
        if tensor.dims() != shape {
            let (found, expected) = (tensor.dims().to_vec(), shape.to_vec());
            return Err(PolicyError::Shape { name: name.to_owned(), found, expected });
        }
        Ok(tensor.to_dtype(dtype)?)
    }
}

fn parts(folder: &Path, index: &Path) -> Result<Vec<PathBuf>> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let text = std::fs::read_to_string(index).map_err(|e| PolicyError::file(index, e))?;
    let Index { weight_map } = serde_json::from_str(&text).map_err(|e| PolicyError::file(index, e))?;
    let mut names: Vec<String> = weight_map.into_values().collect();
    names.sort();
    names.dedup();
    if let Some(name) = names.iter().find(|name| name.contains(['/', '\\'])) {
        return Err(PolicyError::file(index, format!("`{name}` is not a file of the folder")));
    }
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}
