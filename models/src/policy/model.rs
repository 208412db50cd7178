//! A causal language model of the Llama kind: Llama, Qwen2 and Qwen3 in one implementation.
//!
//! The backward is written by hand, layer by layer: nothing depends on candle's graph, whose fused operations lose
//! gradients silently, and training runs the same kernels as sampling. What is frozen costs no gradient.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};
use rand_distr::{Distribution, Normal};

use super::batch::Packed;
use super::config::ModelConfig;
use super::error::{PolicyError, Result};
use super::head::{TokenStats, block_rows, logits_gradient, token_stats};
use super::layer::{Layer, Norm, Pass, Saved};
use super::linear::{Adapters, Grads, Linear, add, times};
use super::lora::LoraConfig;
use super::ops::{self, Rotation};
use super::random::{Dropout, stream};
use super::weights::Weights;

/// The name of the embedding.
const EMBEDDING: &str = "model.embed_tokens.weight";
/// The name of the output layer where it is not the embedding.
const HEAD: &str = "lm_head.weight";

/// A language model whose text is an agent's policy.
#[derive(Debug)]
pub struct Policy {
    config: ModelConfig,
    device: Device,
    dtype: DType,
    pub(super) embedding: Tensor,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Norm,
    pub(super) head: Option<Tensor>,
    /// What trains, by name.
    pub(super) vars: BTreeMap<String, Var>,
    pub(super) lora: Option<LoraConfig>,
    everything: bool,
}

/// How a pass that is followed by a backward is made.
#[derive(Debug, Clone, Copy)]
pub struct TrainPass {
    /// Logits are divided by it, as in sampling.
    pub temperature: f64,
    /// Only the inputs of layers are kept, and each layer runs again in the backward: memory for time.
    pub checkpointing: bool,
    /// Dropout of the adapters.
    pub dropout: Dropout,
}

impl Default for TrainPass {
    fn default() -> Self {
        Self { temperature: 1.0, checkpointing: false, dropout: Dropout::off() }
    }
}

/// A layer's part of a forward that a backward follows.
enum Kept {
    Input(Tensor),
    All(Box<Saved>),
}

/// A forward, with what its backward needs.
pub struct Forward<'a> {
    packed: &'a Packed,
    pass: TrainPass,
    rotation: Rotation,
    kept: Vec<Kept>,
    /// Before the last norm, `[t, hidden]`.
    last: Tensor,
    /// The rows behind targets, after the last norm, `[targets, hidden]`.
    rows: Tensor,
    /// Logits of all targets, where they are few.
    logits: Option<Tensor>,
    stats: TokenStats,
}

impl Forward<'_> {
    /// Log-probabilities and entropies of the targets, in their order.
    pub fn stats(&self) -> &TokenStats {
        &self.stats
    }
}

impl Policy {
    /// Loads a model of this shape, frozen.
    ///
    /// # Errors
    /// [`PolicyError::MissingTensor`], [`PolicyError::UnknownTensor`] and [`PolicyError::Shape`].
    pub fn new(config: ModelConfig, weights: &Weights, dtype: DType, device: &Device) -> Result<Self> {
        let d = config.hidden_size;
        if let Some(name) = weights.unknown(&shapes(&config)) {
            return Err(PolicyError::UnknownTensor { name });
        }
        let get = |name: &str, shape: &[usize]| weights.get(name, shape, dtype, device);
        let vocabulary = [config.vocab_size, d];
        let embedding = get(EMBEDDING, &vocabulary)?;
        let head = if config.tie_embeddings { None } else { Some(get(HEAD, &vocabulary)?) };
        let norm = norm(&get, &config, "model.norm", d)?;
        let layers = (0..config.layers).map(|index| layer(&get, &config, index)).collect::<Result<_>>()?;
        let (device, vars) = (device.clone(), BTreeMap::new());
        Ok(Self { config, device, dtype, embedding, layers, norm, head, vars, lora: None, everything: false })
    }

    /// A model with random weights, for tests: normal numbers of deviation `0.5/√in`, the output layer's larger.
    ///
    /// # Errors
    /// When tensors cannot be made on the device.
    pub fn random(config: ModelConfig, seed: u64, dtype: DType, device: &Device) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        for (name, shape) in shapes(&config) {
            let count = shape.iter().product();
            let numbers: Vec<f32> = if name.ends_with("norm.weight") || name.ends_with("layernorm.weight") {
                vec![1.0; count]
            } else if shape.len() == 1 {
                vec![0.0; count]
            } else {
                let deviation = 1.0 / (shape[1] as f32).sqrt();
                let normal = Normal::new(0.0, deviation).expect("a positive deviation");
                let mut rng = stream(seed, &name);
                (0..count).map(|_| normal.sample(&mut rng)).collect()
            };
            tensors.insert(name, Tensor::from_vec(numbers, shape, &Device::Cpu)?);
        }
        Self::new(config, &Weights::Memory(tensors), dtype, device)
    }

    /// The shape of the model.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Where it lies.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The type of its numbers.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The parameters that train, by name: LoRA's, or all.
    pub fn vars(&self) -> &BTreeMap<String, Var> {
        &self.vars
    }

    /// The settings of its adapter.
    pub fn lora(&self) -> Option<&LoraConfig> {
        self.lora.as_ref()
    }

    /// Makes every weight train. For models small enough, and for tests.
    ///
    /// # Errors
    /// [`PolicyError::Adapter`] when the model has an adapter: one or the other.
    pub fn train_everything(&mut self) -> Result<()> {
        if self.lora.is_some() {
            return Err(PolicyError::Adapter("a model with an adapter trains the adapter only".to_owned()));
        }
        self.everything = true;
        let mut vars = BTreeMap::new();
        let mut own = |name: String, tensor: &mut Tensor| -> Result<()> {
            let var = Var::from_tensor(tensor)?;
            *tensor = var.as_detached_tensor();
            vars.insert(name, var);
            Ok(())
        };
        own(EMBEDDING.to_owned(), &mut self.embedding)?;
        if let Some(head) = &mut self.head {
            own(HEAD.to_owned(), head)?;
        }
        let mut norms = vec![&mut self.norm];
        let mut linears = Vec::new();
        for layer in &mut self.layers {
            let Layer { input_norm, middle_norm, head_norms, q, k, v, o, gate, up, down, .. } = layer;
            norms.extend([input_norm, middle_norm]);
            norms.extend(head_norms.iter_mut().flat_map(|(q, k)| [q, k]));
            linears.extend([q, k, v, o, gate, up, down]);
        }
        for norm in norms {
            norm.trained = true;
            own(format!("{}.weight", norm.name), &mut norm.weight)?;
        }
        for linear in linears {
            linear.trained = true;
            own(format!("{}.weight", linear.name), &mut linear.weight)?;
            if let Some(bias) = &mut linear.bias {
                own(format!("{}.bias", linear.name), bias)?;
            }
        }
        self.vars = vars;
        Ok(())
    }

    /// Brings the merged weights up to date after a step of the optimizer, or drops them. With merged weights a pass
    /// costs no more than the base model's; they take as much memory as the adapted modules.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn merge(&mut self, keep: bool) -> Result<()> {
        for layer in &mut self.layers {
            for linear in layer.linears_mut() {
                linear.merge(keep)?;
            }
        }
        Ok(())
    }

    pub(super) fn embed(&self, tokens: &[u32]) -> Result<Tensor> {
        let vocabulary = self.config.vocab_size;
        if let Some(token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
            return Err(PolicyError::Input(format!(
                "token {token} is outside the vocabulary of {vocabulary}"
            )));
        }
        Ok(ops::pick_rows(&self.embedding, tokens, &self.device)?)
    }

    /// # Shapes
    /// `rows` `[n, hidden]`, after the last norm; returns `[n, vocabulary]`.
    pub(super) fn logits(&self, rows: &Tensor, temperature: f64) -> Result<Tensor> {
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        // Scaling the rows is cheaper than scaling the logits.
        let rows = if temperature == 1.0 { rows.clone() } else { (rows / temperature)? };
        Ok(times(&rows, head)?.to_dtype(logit_dtype(self.dtype))?)
    }

    /// Logits of every row, for tests and for comparison with other implementations.
    ///
    /// # Shapes
    /// Returns `[t, vocabulary]`.
    ///
    /// # Errors
    /// [`PolicyError::Input`] for tokens outside the vocabulary and sequences that are too long.
    pub fn all_logits(&self, packed: &Packed, adapters: Adapters) -> Result<Tensor> {
        self.logits(&self.norm.forward(&self.run(packed, adapters)?)?, 1.0)
    }

    /// Log-probabilities and entropies of the targets, without a backward.
    ///
    /// # Errors
    /// As [`Self::all_logits`].
    pub fn token_stats(&self, packed: &Packed, temperature: f64, adapters: Adapters) -> Result<TokenStats> {
        let rows = self.target_rows(&self.run(packed, adapters)?, packed)?;
        Ok(self.head_forward(&rows, packed, temperature, false)?.0)
    }

    fn run(&self, packed: &Packed, adapters: Adapters) -> Result<Tensor> {
        let (mut x, rotation) = self.begin(packed)?;
        let dropout = Dropout::off();
        let pass = Pass { rotation: &rotation, segments: packed.segments(), adapters, dropout: &dropout };
        for layer in &self.layers {
            x = layer.forward(&x, pass)?.0;
        }
        Ok(x)
    }

    fn begin(&self, packed: &Packed) -> Result<(Tensor, Rotation)> {
        let longest = packed.positions().iter().max().map_or(0, |p| *p as usize + 1);
        if longest > self.config.max_positions {
            let most = self.config.max_positions;
            return Err(PolicyError::Input(format!(
                "a sequence has {longest} tokens, the model's limit is {most}"
            )));
        }
        let x = self.embed(packed.tokens())?;
        let rotation = Rotation::new(&self.config, packed.positions(), &x)?;
        Ok((x, rotation))
    }

    fn target_rows(&self, last: &Tensor, packed: &Packed) -> Result<Tensor> {
        let index: Vec<u32> = packed.targets().iter().map(|target| target.row as u32).collect();
        self.norm.forward(&ops::pick_rows(last, &index, &self.device)?)
    }

    /// Statistics of all targets, and their logits where they are few and `keep` is set.
    fn head_forward(
        &self,
        rows: &Tensor,
        packed: &Packed,
        temperature: f64,
        keep: bool,
    ) -> Result<(TokenStats, Option<Tensor>)> {
        let (most, all) = (block_rows(self.config.vocab_size), packed.targets());
        let (mut stats, mut kept) = (TokenStats::default(), None);
        for (block, targets) in all.chunks(most).enumerate() {
            let logits = self.logits(&rows.narrow(0, block * most, targets.len())?, temperature)?;
            let tokens: Vec<u32> = targets.iter().map(|target| target.token).collect();
            let part = token_stats(&logits, &tokens)?;
            stats.logp.extend(part.logp);
            stats.entropy.extend(part.entropy);
            kept = (keep && all.len() <= most).then_some(logits);
        }
        Ok((stats, kept))
    }

    /// A forward that a backward follows, adapters on.
    ///
    /// # Errors
    /// As [`Self::all_logits`].
    pub fn forward<'a>(&self, packed: &'a Packed, train: TrainPass) -> Result<Forward<'a>> {
        let (mut x, rotation) = self.begin(packed)?;
        let mut kept = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let (y, saved) = layer.forward(&x, self.pass(packed, &rotation, &train))?;
            kept.push(if train.checkpointing { Kept::Input(x) } else { Kept::All(Box::new(saved)) });
            x = y;
        }
        let rows = self.target_rows(&x, packed)?;
        let (stats, logits) = self.head_forward(&rows, packed, train.temperature, true)?;
        Ok(Forward { packed, pass: train, rotation, kept, last: x, rows, logits, stats })
    }

    fn pass<'a>(&self, packed: &'a Packed, rotation: &'a Rotation, train: &'a TrainPass) -> Pass<'a> {
        Pass { rotation, segments: packed.segments(), adapters: Adapters::On, dropout: &train.dropout }
    }

    /// Gradients of what trains, for gradients `d_logp` of the targets' log-probabilities: of a loss that is any
    /// function of them.
    ///
    /// # Errors
    /// [`PolicyError::Input`] when `d_logp` has another length than the targets.
    pub fn backward(&self, forward: Forward<'_>, d_logp: &[f32]) -> Result<Grads> {
        let Forward { packed, pass: train, rotation, kept, last, rows, logits, .. } = forward;
        let targets = packed.targets();
        if d_logp.len() != targets.len() {
            let (n, m) = (d_logp.len(), targets.len());
            return Err(PolicyError::Input(format!("{n} gradients for {m} tokens")));
        }
        let mut grads = Grads::new();
        let row_grads = self.head_backward(&rows, logits, packed, train.temperature, d_logp, &mut grads)?;
        let index: Vec<u32> = targets.iter().map(|target| target.row as u32).collect();
        let normed = ops::pick_rows(&last, &index, &self.device)?;
        let picked = self.norm.backward(&normed, &row_grads, &mut grads)?;
        let mut grad = ops::scatter_rows(&picked, &index, packed.len())?;
        let pass = self.pass(packed, &rotation, &train);
        for (layer, kept) in self.layers.iter().zip(kept).rev() {
            let saved = match kept {
                Kept::All(saved) => *saved,
                Kept::Input(x) => layer.forward(&x, pass)?.1,
            };
            grad = layer.backward(saved, &grad, pass, &mut grads)?;
        }
        if self.everything {
            let embedding = ops::scatter_rows(&grad, packed.tokens(), self.config.vocab_size)?;
            add(&mut grads, EMBEDDING, embedding)?;
        }
        Ok(grads)
    }

    fn head_backward(
        &self,
        rows: &Tensor,
        mut logits: Option<Tensor>,
        packed: &Packed,
        temperature: f64,
        d_logp: &[f32],
        grads: &mut Grads,
    ) -> Result<Tensor> {
        let most = block_rows(self.config.vocab_size);
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        let name = if self.head.is_some() { HEAD } else { EMBEDDING };
        let mut parts = Vec::new();
        for (block, (targets, grad)) in packed.targets().chunks(most).zip(d_logp.chunks(most)).enumerate() {
            let inputs = rows.narrow(0, block * most, targets.len())?;
            let logits = match logits.take() {
                Some(kept) => kept,
                None => self.logits(&inputs, temperature)?,
            };
            let tokens: Vec<u32> = targets.iter().map(|target| target.token).collect();
            let gradient = logits_gradient(logits, &tokens, grad)?.to_dtype(self.dtype)?;
            let gradient = if temperature == 1.0 { gradient } else { (gradient / temperature)? };
            parts.push(gradient.matmul(head)?);
            if self.everything {
                add(grads, name, gradient.t()?.matmul(&inputs)?)?;
            }
        }
        if parts.is_empty() {
            return Ok(rows.zeros_like()?);
        }
        Ok(Tensor::cat(&parts, 0)?)
    }
}

fn logit_dtype(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

type Get<'a> = dyn Fn(&str, &[usize]) -> Result<Tensor> + 'a;

fn norm(get: &Get<'_>, config: &ModelConfig, name: &str, width: usize) -> Result<Norm> {
    let weight = get(&format!("{name}.weight"), &[width])?;
    Ok(Norm { name: name.to_owned(), weight, eps: config.rms_norm_eps, trained: false })
}

fn layer(get: &Get<'_>, config: &ModelConfig, index: usize) -> Result<Layer> {
    let name = |module: &str| format!("model.layers.{index}.{module}");
    let linear = |module: &str, out: usize, inner: usize, bias: bool| -> Result<Linear> {
        let name = name(module);
        let weight = get(&format!("{name}.weight"), &[out, inner])?;
        let bias = if bias { Some(get(&format!("{name}.bias"), &[out])?) } else { None };
        Ok(Linear { name, weight, bias, lora: None, trained: false })
    };
    let ModelConfig { hidden_size: d, intermediate_size: f, head_dim, qkv_bias, output_bias, .. } = *config;
    let (q, kv) = (config.heads * head_dim, config.kv_heads * head_dim);
    let head_norm = |module: &str| norm(get, config, &name(module), head_dim);
    Ok(Layer {
        input_norm: norm(get, config, &name("input_layernorm"), d)?,
        q: linear("self_attn.q_proj", q, d, qkv_bias)?,
        k: linear("self_attn.k_proj", kv, d, qkv_bias)?,
        v: linear("self_attn.v_proj", kv, d, qkv_bias)?,
        o: linear("self_attn.o_proj", d, q, output_bias)?,
        head_norms: if config.qk_norm() {
            Some((head_norm("self_attn.q_norm")?, head_norm("self_attn.k_norm")?))
        } else {
            None
        },
        middle_norm: norm(get, config, &name("post_attention_layernorm"), d)?,
        gate: linear("mlp.gate_proj", f, d, false)?,
        up: linear("mlp.up_proj", f, d, false)?,
        down: linear("mlp.down_proj", d, f, false)?,
        head_dim,
    })
}

/// The tensors of a model by name: what [`Policy::new`] asks for.
fn shapes(config: &ModelConfig) -> BTreeMap<String, Vec<usize>> {
    let asked = std::cell::RefCell::new(BTreeMap::new());
    let get = |name: &str, shape: &[usize]| -> Result<Tensor> {
        asked.borrow_mut().insert(name.to_owned(), shape.to_vec());
        Ok(Tensor::zeros(1, DType::F32, &Device::Cpu)?)
    };
    let vocabulary = [config.vocab_size, config.hidden_size];
    let all = || -> Result<()> {
        get(EMBEDDING, &vocabulary)?;
        if !config.tie_embeddings {
            get(HEAD, &vocabulary)?;
        }
        norm(&get, config, "model.norm", config.hidden_size)?;
        (0..config.layers).try_for_each(|index| layer(&get, config, index).map(|_| ()))
    };
    all().expect("small tensors on the CPU can be made");
    asked.into_inner()
}

impl Policy {
    /// Every weight by its Hugging Face name, adapters merged in: what a Hugging Face folder holds.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn merged_tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut tensors = BTreeMap::from([(EMBEDDING.to_owned(), self.embedding.clone())]);
        tensors.extend(self.head.iter().map(|head| (HEAD.to_owned(), head.clone())));
        let mut norms = vec![&self.norm];
        for layer in &self.layers {
            norms.extend([&layer.input_norm, &layer.middle_norm]);
            norms.extend(layer.head_norms.iter().flat_map(|(q, k)| [q, k]));
            for linear in layer.linears() {
                tensors.insert(format!("{}.weight", linear.name), linear.with_adapter()?);
                tensors.extend(linear.bias.iter().map(|b| (format!("{}.bias", linear.name), b.clone())));
            }
        }
        tensors.extend(norms.into_iter().map(|norm| (format!("{}.weight", norm.name), norm.weight.clone())));
        Ok(tensors)
    }
}
