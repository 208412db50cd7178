//! Sentence embeddings by a BERT encoder: all-MiniLM-L6-v2, or any folder of its kind.

use std::fs;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use rayon::prelude::*;
use tokenizers::{Encoding, Tokenizer, TruncationParams};
use xxhash_rust::xxh3::Xxh3;

use super::{EmbedError, Embedder, check_not_empty, normalise};

/// Texts in one forward pass. Sorted texts make small batches as well filled as large ones, and small ones stay in
/// the processor's cache.
const BATCH: usize = 16;

/// Settings of [`BertEmbedder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BertSettings {
    /// Longer texts are cut to this many tokens, the two special ones included.
    pub max_tokens: usize,
}

impl Default for BertSettings {
    fn default() -> Self {
        Self { max_tokens: 256 }
    }
}

/// The `minilm` embedder: BERT, the mean of the last hidden states under the mask, scaled to norm 1 (the recipe of
/// sentence-transformers). Dropout is off, so the same text gives the same vector.
pub struct BertEmbedder {
    name: String,
    dim: usize,
    tokenizer: Tokenizer,
    model: BertModel,
    device: Device,
}

impl BertEmbedder {
    /// Loads `config.json`, `tokenizer.json` and `model.safetensors` of `folder` onto `device`.
    ///
    /// # Errors
    /// [`EmbedError::ModelFile`] names the file that is absent or unfit, and the remedy; [`EmbedError::Setting`] when
    /// `max_tokens` is below 3 or above the model's positions.
    pub fn load(folder: &Path, settings: BertSettings, device: &Device) -> Result<Self, EmbedError> {
        let BertSettings { max_tokens } = settings;
        let model_folder = ModelFolder(folder);
        let config = model_folder.config()?;
        if max_tokens < 3 || max_tokens > config.max_position_embeddings {
            let reason = "must lie between 3 and the model's max_position_embeddings";
            return Err(EmbedError::Setting { key: "max_tokens", value: max_tokens, reason });
        }
        model_folder.check_pooling()?;
        let tokenizer_json = model_folder.read("tokenizer.json")?;
        let tokenizer = model_folder.tokenizer(&tokenizer_json, max_tokens)?;
        let weights = model_folder.read("model.safetensors")?;
        let mut revision = Xxh3::new();
        revision.update(&weights);
        revision.update(&tokenizer_json);
        let model = VarBuilder::from_buffered_safetensors(weights, DType::F32, device)
            .and_then(|vars| BertModel::load(vars, &config))
            .map_err(|e| model_folder.error("model.safetensors", &e))?;
        Ok(Self {
            name: format!("minilm:{:016x}:max{max_tokens}", revision.digest()),
            dim: config.hidden_size,
            tokenizer,
            model,
            device: device.clone(),
        })
    }

    /// Embeds texts whose tokens are given.
    ///
    /// # Shapes
    /// Ids and mask `[b, t]`, hidden states `[b, t, d]`; returns `b x d`.
    fn forward(&self, batch: &[&Encoding]) -> Result<Vec<f32>, EmbedError> {
        let longest = batch.iter().map(|encoding| encoding.len()).max().unwrap_or(0);
        let shape = (batch.len(), longest);
        let mut ids = vec![0u32; batch.len() * longest];
        let mut mask = vec![0f32; batch.len() * longest];
        for (row, encoding) in batch.iter().enumerate() {
            let start = row * longest;
            ids[start..start + encoding.len()].copy_from_slice(encoding.get_ids());
            mask[start..start + encoding.len()].fill(1.0);
        }
        let ids = Tensor::from_vec(ids, shape, &self.device)?;
        let mask = Tensor::from_vec(mask, shape, &self.device)?;
        let hidden = self.model.forward(&ids, &ids.zeros_like()?, Some(&mask))?;
        // A sum under the mask is a matrix product, [b, 1, t] x [b, t, d]; the division by the count is left out
        // because the row is scaled to norm 1 right after.
        let sums = mask.unsqueeze(1)?.matmul(&hidden)?.squeeze(1)?;
        let mut rows = sums.flatten_all()?.to_vec1::<f32>()?;
        rows.chunks_mut(self.dim).for_each(normalise);
        Ok(rows)
    }
}

impl Embedder for BertEmbedder {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<f32>, EmbedError> {
        check_not_empty(texts)?;
        let encodings = self
            .tokenizer
            .encode_batch_fast(texts.to_vec(), true)
            .map_err(|e| EmbedError::Tokenizer(e.to_string()))?;
        // Sorted by length, a batch needs little padding. The order, and so every batch, is fixed by the texts alone:
        // the bytes cannot depend on the number of threads.
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|index| encodings[*index].len());
        let batches: Vec<Vec<f32>> = order
            .par_chunks(BATCH)
            .map(|batch| {
                let batch: Vec<&Encoding> = batch.iter().map(|index| &encodings[*index]).collect();
                self.forward(&batch)
            })
            .collect::<Result<_, _>>()?;
        let mut out = vec![0.0; texts.len() * self.dim];
        for (row, index) in batches.iter().flat_map(|batch| batch.chunks(self.dim)).zip(&order) {
            out[index * self.dim..(index + 1) * self.dim].copy_from_slice(row);
        }
        Ok(out)
    }
}

/// A model folder, as a source of errors that name it.
struct ModelFolder<'a>(&'a Path);

impl ModelFolder<'_> {
    fn error(&self, file: &'static str, reason: &dyn std::fmt::Display) -> EmbedError {
        EmbedError::ModelFile { folder: self.0.display().to_string(), file, reason: reason.to_string() }
    }

    fn read(&self, file: &'static str) -> Result<Vec<u8>, EmbedError> {
        fs::read(self.0.join(file)).map_err(|e| self.error(file, &e))
    }

    fn config(&self) -> Result<Config, EmbedError> {
        let file = "config.json";
        let config: Config = serde_json::from_slice(&self.read(file)?).map_err(|e| self.error(file, &e))?;
        match config.model_type.as_deref() {
            Some("bert") | None => Ok(config),
            Some(other) => {
                Err(self.error(file, &format!("model_type is `{other}`, only `bert` is supported")))
            }
        }
    }

    fn tokenizer(&self, json: &[u8], max_tokens: usize) -> Result<Tokenizer, EmbedError> {
        let file = "tokenizer.json";
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(|e| self.error(file, &e))?;
        // The file of all-MiniLM-L6-v2 pads and cuts every text to 128 tokens: both are ours to decide.
        let truncation = TruncationParams { max_length: max_tokens, ..TruncationParams::default() };
        tokenizer.with_padding(None).with_truncation(Some(truncation)).map_err(|e| self.error(file, &e))?;
        Ok(tokenizer)
    }

    /// Refuses a folder that says it wants another pooling than the mean; most folders say nothing.
    fn check_pooling(&self) -> Result<(), EmbedError> {
        let file = "1_Pooling/config.json";
        if !self.0.join(file).exists() {
            return Ok(());
        }
        let pooling: serde_json::Value =
            serde_json::from_slice(&self.read(file)?).map_err(|e| self.error(file, &e))?;
        if pooling["pooling_mode_mean_tokens"] == serde_json::Value::Bool(true) {
            return Ok(());
        }
        Err(self.error(file, &"only mean pooling is supported"))
    }
}
