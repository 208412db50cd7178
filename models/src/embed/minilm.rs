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

/// Texts in one forward pass. Sorted texts fill small batches as well as large ones. On two cores, batches of 16 in
/// parallel were a fifth faster than one batch after the other with candle's own threads, and faster than batches of
/// 2 or 32. Part of what the last bits of a vector depend on.
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
        if let Some(index) = encodings.iter().position(Encoding::is_empty) {
            return Err(EmbedError::EmptyText { index });
        }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use candle_nn::VarMap;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use serde::Deserialize;

    use super::*;

    const CONFIG: &str = r#"{"model_type": "bert", "vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 16, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
        "max_position_embeddings": 24, "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12,
        "pad_token_id": 0}"#;
    /// Asks for padding to 6 and a cut at 4, which the embedder must not follow.
    const TOKENIZER: &str = r#"{"version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null,
        "decoder": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 6}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "[PAD]"},
        "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"[PAD]": 0, "[UNK]": 1, "a": 2, "b": 3,
            "c": 4, "d": 5, "e": 6, "f": 7, "g": 8, "h": 9, "i": 10, "j": 11}}}"#;

    /// A model folder with small random weights.
    fn tiny_folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), CONFIG).unwrap();
        fs::write(folder.path().join("tokenizer.json"), TOKENIZER).unwrap();
        let vars = VarMap::new();
        let config = serde_json::from_str(CONFIG).unwrap();
        BertModel::load(VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu), &config).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let named: BTreeMap<_, _> = vars.data().lock().unwrap().clone().into_iter().collect();
        for var in named.values() {
            let values: Vec<f32> = (0..var.elem_count()).map(|_| rng.random_range(-1.5..1.5)).collect();
            var.set(&Tensor::from_vec(values, var.shape(), &Device::Cpu).unwrap()).unwrap();
        }
        vars.save(folder.path().join("model.safetensors")).unwrap();
        folder
    }

    fn tiny() -> BertEmbedder {
        BertEmbedder::load(tiny_folder().path(), BertSettings { max_tokens: 20 }, &Device::Cpu).unwrap()
    }

    /// Texts of 1 to 20 tokens, unsorted.
    fn texts(n: usize) -> Vec<String> {
        let word = |i: usize| char::from(b'a' + (i % 10) as u8).to_string();
        (0..n)
            .map(|i| (0..=(i * 7) % 20).map(|j| word(i + j * (1 + i / 10))).collect::<Vec<_>>().join(" "))
            .collect()
    }

    fn refs(texts: &[String]) -> Vec<&str> {
        texts.iter().map(String::as_str).collect()
    }

    fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
    }

    fn check_batches(embedder: &BertEmbedder, texts: &[&str]) {
        let together = embedder.embed(texts).unwrap();
        for (row, text) in together.chunks_exact(embedder.dim()).zip(texts) {
            let alone = embedder.embed(&[text]).unwrap();
            assert!(largest_difference(row, &alone) < 1e-5, "{text}");
            let norm: f32 = row.iter().map(|x| x * x).sum();
            assert!((norm - 1.0).abs() < 1e-5);
        }
        for threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| embedder.embed(texts).unwrap()), together, "{threads} threads");
        }
    }

    #[test]
    fn neither_batch_nor_threads_change_a_vector() {
        check_batches(&tiny(), &refs(&texts(50)));
    }

    #[test]
    fn the_tokenizers_own_cut_and_padding_are_reset() {
        let embedder = tiny();
        let v = embedder.embed(&["a b c d", "a b c d e", "a b c d [PAD] [PAD]"]).unwrap();
        let (cut, padded) = (largest_difference(&v[..8], &v[8..16]), largest_difference(&v[..8], &v[16..]));
        assert!(cut > 1e-3 && padded > 1e-3, "{cut} {padded}");
        let long = "a b c d e f g h i j ".repeat(3);
        let cut = long.split_inclusive(' ').take(20).collect::<String>();
        let v = embedder.embed(&[&long, &cut]).unwrap();
        assert_eq!(v[..8], v[8..]);
    }

    #[test]
    fn the_name_holds_weights_and_cut() {
        let folder = tiny_folder();
        let name = |max_tokens| {
            BertEmbedder::load(folder.path(), BertSettings { max_tokens }, &Device::Cpu).unwrap().name()
        };
        let first = name(20);
        assert!(first.starts_with("minilm:") && first.ends_with(":max20"), "{first}");
        assert_ne!(first, name(19));
        fs::write(folder.path().join("tokenizer.json"), TOKENIZER.replace("\"j\": 11", "\"k\": 11")).unwrap();
        assert_ne!(first, name(20));
    }

    #[test]
    fn unfit_folders_are_named_with_the_remedy() {
        let fails = |change: &dyn Fn(&Path)| {
            let folder = tiny_folder();
            change(folder.path());
            let result = BertEmbedder::load(folder.path(), BertSettings { max_tokens: 20 }, &Device::Cpu);
            let message = result.err().expect("the folder is unfit").to_string();
            assert!(message.contains(&folder.path().display().to_string()), "{message}");
            assert!(message.contains("scripts/fetch-models.sh minilm"), "{message}");
            message
        };
        for file in ["config.json", "tokenizer.json", "model.safetensors"] {
            assert!(fails(&|p| fs::remove_file(p.join(file)).unwrap()).contains(file));
            assert!(fails(&|p| fs::write(p.join(file), "{").unwrap()).contains(file));
        }
        let other = CONFIG.replace("\"bert\"", "\"mpnet\"");
        assert!(fails(&|p| fs::write(p.join("config.json"), &other).unwrap()).contains("mpnet"));
        let cls = |p: &Path| {
            fs::create_dir(p.join("1_Pooling")).unwrap();
            fs::write(p.join("1_Pooling/config.json"), r#"{"pooling_mode_cls_token": true}"#).unwrap();
        };
        assert!(fails(&cls).contains("mean pooling"));
        let folder = tiny_folder();
        for max_tokens in [2, 25] {
            let result = BertEmbedder::load(folder.path(), BertSettings { max_tokens }, &Device::Cpu);
            assert!(matches!(result, Err(EmbedError::Setting { .. })), "{max_tokens}");
        }
    }

    #[test]
    fn empty_texts_are_errors() {
        let embedder = tiny();
        assert!(matches!(embedder.embed(&["a", ""]), Err(EmbedError::EmptyText { index: 1 })));
        assert_eq!(embedder.embed(&[]).unwrap(), Vec::<f32>::new());
    }

    #[derive(Deserialize)]
    struct Golden {
        max_tokens: usize,
        cases: Vec<Case>,
    }

    #[derive(Deserialize)]
    struct Case {
        text: String,
        vector: Vec<f32>,
    }

    /// The folder `scripts/fetch-models.sh` fills, where it is there.
    fn fetched() -> Option<PathBuf> {
        let of = |key: &str| std::env::var_os(key).map(PathBuf::from);
        let cache = of("TRACEMILL_CACHE")
            .or_else(|| of("XDG_CACHE_HOME").map(|p| p.join("tracemill")))
            .or_else(|| of("HOME").map(|p| p.join(".cache/tracemill")))?;
        let folder = cache.join("models/all-MiniLM-L6-v2");
        folder.exists().then_some(folder)
    }

    /// Against `scripts/reference/minilm_golden.py`.
    #[test]
    fn minilm_equals_the_reference() {
        let Some(folder) = fetched() else {
            eprintln!("skipped: no weights; run scripts/fetch-models.sh minilm");
            return;
        };
        let golden: Golden =
            serde_json::from_str(include_str!("../../../tests/golden/embed/minilm.json")).unwrap();
        let settings = BertSettings { max_tokens: golden.max_tokens };
        let embedder = BertEmbedder::load(&folder, settings, &Device::Cpu).unwrap();
        let texts: Vec<&str> = golden.cases.iter().map(|case| case.text.as_str()).collect();
        let found = embedder.embed(&texts).unwrap();
        for (row, case) in found.chunks_exact(384).zip(&golden.cases) {
            let difference = largest_difference(row, &case.vector);
            assert!(difference < 1e-4, "{difference} for {:?}", case.text);
        }
        let short: Vec<&str> = texts.into_iter().filter(|text| text.len() < 100).collect();
        check_batches(&embedder, &short);
    }
}
