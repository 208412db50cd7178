//! Heads, predictors, decoders and fusion (section 3.1, appendix A).

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};
use rand_chacha::ChaCha8Rng;

use super::batch::{Presence, ViewBatch, column};
use super::config::{EncoderConfig, TrainConfig};
use super::error::{EncoderError, Result};
use super::losses::{self, Loss, LossWeights};
use super::random::{Purpose, dropout_mask, stream, uniform};
use super::{PAIRS, SLOTS, ops};

/// Weights of the middle and description slots in the latent that splits intent groups into
/// subgroups.
const SUBGROUP_FUSION: [f64; 3] = [0.0, 0.5, 0.5];

/// The multi-view encoder with its training-only predictors and decoders.
///
/// Parameters, by name: `head.<slot>.{linear1,linear2,norm}.{weight,bias}`,
/// `predictor.<from>_to_<to>.{linear1,linear2}.{weight,bias}`, `decoder.<slot>.{weight,bias}`.
#[derive(Debug)]
pub struct Encoder {
    config: EncoderConfig,
    vars: BTreeMap<String, Var>,
}

/// What the encoder makes of a batch.
#[derive(Debug, Clone)]
pub struct Latents {
    /// Latent of each slot, `[N, dim]`; the row of an absent view has no meaning.
    pub views: [Tensor; 3],
    /// Weighted sum of the views present, their weights renormalised to 1: `[N, dim]`.
    pub fused: Tensor,
    /// `fused` with rows of length 1: what intent groups are clustered on.
    pub fused_unit: Tensor,
    /// 0.5·middle + 0.5·description over those present, rows of length 1: what subgroups are
    /// clustered on. A zero row where a unit has neither.
    pub subgroup_unit: Tensor,
    /// Which views were there.
    pub present: Vec<Presence>,
}

impl Encoder {
    /// A fresh encoder. Weights and biases of linear layers follow PyTorch's default,
    /// `U(-1/√fan_in, 1/√fan_in)`, drawn on the host from `seed`; `LayerNorm` starts at 1 and 0.
    ///
    /// # Errors
    /// [`EncoderError::Setting`] for a configuration out of range.
    pub fn new(config: EncoderConfig, seed: u64, dtype: DType, device: &Device) -> Result<Self> {
        config.validate()?;
        let mut rng = stream(seed, Purpose::Weights, 0, 0);
        let mut vars = BTreeMap::new();
        for (name, shape, init) in layout(&config) {
            let len = shape.iter().product();
            let values = match init {
                Init::Constant(value) => vec![value; len],
                Init::Uniform { fan_in } => uniform(&mut rng, 1.0 / (fan_in as f32).sqrt(), len),
            };
            let tensor = Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?;
            vars.insert(name, Var::from_tensor(&tensor.to_device(device)?)?);
        }
        Ok(Self { config, vars })
    }

    /// An encoder with the given parameters, copied.
    ///
    /// # Errors
    /// [`EncoderError::MissingTensor`] or [`EncoderError::Shape`] names the parameter.
    pub fn from_tensors(config: EncoderConfig, tensors: &BTreeMap<String, Tensor>) -> Result<Self> {
        config.validate()?;
        let mut vars = BTreeMap::new();
        for (name, shape, _) in layout(&config) {
            let Some(tensor) = tensors.get(&name) else { return Err(EncoderError::MissingTensor { name }) };
            if tensor.dims() != shape {
                return Err(EncoderError::Shape {
                    what: name,
                    found: tensor.dims().to_vec(),
                    expected: shape,
                });
            }
            vars.insert(name, Var::from_tensor(&tensor.copy()?)?);
        }
        Ok(Self { config, vars })
    }

    /// Its shape.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Its parameters by name.
    pub fn vars(&self) -> &BTreeMap<String, Var> {
        &self.vars
    }

    /// A copy of the parameters by name.
    pub fn tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        self.vars.iter().map(|(name, var)| Ok((name.clone(), var.as_tensor().copy()?.detach()))).collect()
    }

    /// Latents of a batch. Dropout is off.
    pub fn encode(&self, batch: &ViewBatch) -> Result<Latents> {
        let views = self.views(batch, None)?;
        let views = [views[0].detach(), views[1].detach(), views[2].detach()];
        let present = batch.present().to_vec();
        let fused = fuse(&views, &present, self.config.fusion)?;
        let fused_unit = ops::unit_rows(&fused)?;
        let subgroup_unit = ops::unit_rows(&fuse(&views, &present, SUBGROUP_FUSION)?)?;
        Ok(Latents { views, fused, fused_unit, subgroup_unit, present })
    }

    /// Latent of each slot; with a generator, dropout is on.
    ///
    /// # Shapes
    /// `[N, d_in]` views to `[N, dim]` latents.
    ///
    /// # Errors
    /// [`EncoderError::Shape`] when the views are not `d_in` wide.
    pub fn views(&self, batch: &ViewBatch, mut dropout: Option<&mut ChaCha8Rng>) -> Result<[Tensor; 3]> {
        let expected = vec![batch.len(), self.config.dim_in];
        let found = batch.x()[0].dims().to_vec();
        if found != expected {
            return Err(EncoderError::Shape { what: "view embeddings".to_owned(), found, expected });
        }
        let mut head = |slot: usize| self.head(slot, &batch.x()[slot], dropout.as_deref_mut());
        Ok([head(0)?, head(1)?, head(2)?])
    }

    fn head(&self, slot: usize, x: &Tensor, dropout: Option<&mut ChaCha8Rng>) -> Result<Tensor> {
        let name = format!("head.{}", SLOTS[slot]);
        let hidden = self.linear(&format!("{name}.linear1"), x)?;
        let mask = match dropout {
            Some(rng) if self.config.dropout > 0.0 => {
                let mask = dropout_mask(rng, self.config.dropout, hidden.elem_count());
                let mask = Tensor::from_vec(mask, hidden.shape(), &Device::Cpu)?;
                Some(mask.to_dtype(hidden.dtype())?.to_device(hidden.device())?)
            }
            _ => None,
        };
        let out = self.linear(&format!("{name}.linear2"), &ops::gelu(&hidden, mask.as_ref())?)?;
        let (weight, bias) =
            (self.get(&format!("{name}.norm.weight")), self.get(&format!("{name}.norm.bias")));
        ops::layer_norm(&out, weight, bias, self.config.layer_norm_eps)
    }

    /// `G_(p→q)` of each ordered pair.
    ///
    /// # Shapes
    /// `unit`: three of `[N, dim]`, L2-normalised; out: `[N, dim]` for each of [`PAIRS`].
    pub fn predict(&self, unit: &[Tensor; 3]) -> Result<[Tensor; 6]> {
        let one = |(p, q): (usize, usize)| -> Result<Tensor> {
            let name = predictor(p, q);
            let hidden = self.linear(&format!("{name}.linear1"), &unit[p])?;
            self.linear(&format!("{name}.linear2"), &ops::gelu(&hidden, None)?)
        };
        let [a, b, c, d, e, f] = PAIRS;
        Ok([one(a)?, one(b)?, one(c)?, one(d)?, one(e)?, one(f)?])
    }

    /// Each view's embedding from its latent.
    ///
    /// # Shapes
    /// `z`: three of `[N, dim]`; out: three of `[N, d_in]`.
    pub fn decode(&self, z: &[Tensor; 3]) -> Result<[Tensor; 3]> {
        let one = |slot: usize| self.linear(&format!("decoder.{}", SLOTS[slot]), &z[slot]);
        Ok([one(0)?, one(1)?, one(2)?])
    }

    /// L2-normalised latents of all three slots, an absent view's being the mean of what the
    /// predictors of the views present make of it, normalised. Dropout is off.
    ///
    /// # Shapes
    /// Three of `[N, dim]`.
    pub fn impute(&self, batch: &ViewBatch) -> Result<[Tensor; 3]> {
        let views = self.views(batch, None)?;
        let unit = [ops::unit_rows(&views[0])?, ops::unit_rows(&views[1])?, ops::unit_rows(&views[2])?];
        let predicted = self.predict(&unit)?;
        let fill = |q: usize| -> Result<Tensor> {
            let own = weights(batch.present(), |v| f64::from(v[q]), &unit[q])?;
            let mut sum = unit[q].broadcast_mul(&own)?;
            for ((p, _), made) in PAIRS.into_iter().zip(&predicted).filter(|(pair, _)| pair.1 == q) {
                let gap = weights(batch.present(), |v| f64::from(!v[q] && v[p]), made)?;
                sum = (sum + made.broadcast_mul(&gap)?)?;
            }
            Ok(ops::unit_rows(&sum)?.detach())
        };
        Ok([fill(0)?, fill(1)?, fill(2)?])
    }

    /// The losses of Eq. 2 on a batch, under the variant and weights of `config`; with a generator,
    /// dropout is on.
    ///
    /// Metrics: those of [`losses::total`].
    pub fn losses(
        &self,
        batch: &ViewBatch,
        config: &TrainConfig,
        dropout: Option<&mut ChaCha8Rng>,
    ) -> Result<Loss> {
        let z = self.views(batch, dropout)?;
        let present = batch.present();
        let contrastive = losses::contrastive(&z, present, config.tau, config.contrastive_include_self)?;
        let prediction = if config.variant.predicts() {
            let unit = [ops::unit_rows(&z[0])?, ops::unit_rows(&z[1])?, ops::unit_rows(&z[2])?];
            Some(losses::prediction(&unit, &self.predict(&unit)?, present)?)
        } else {
            None
        };
        let reconstruction = if config.variant.reconstructs() {
            Some(losses::reconstruction(&self.decode(&z)?, batch.x(), present)?)
        } else {
            None
        };
        let weights = LossWeights { prediction: config.lambda_pred, reconstruction: config.lambda_rec };
        losses::total(&contrastive, prediction.as_ref(), reconstruction.as_ref(), weights)
    }

    fn linear(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        ops::linear(x, self.get(&format!("{name}.weight")), self.get(&format!("{name}.bias")))
    }

    fn get(&self, name: &str) -> &Tensor {
        self.vars.get(name).expect("every constructor fills the whole layout").as_tensor()
    }
}

fn predictor(p: usize, q: usize) -> String {
    format!("predictor.{}_to_{}", SLOTS[p], SLOTS[q])
}

/// How a parameter starts.
enum Init {
    Constant(f32),
    Uniform { fan_in: usize },
}

/// Name, shape and start of every parameter.
fn layout(config: &EncoderConfig) -> Vec<(String, Vec<usize>, Init)> {
    let mut all = Vec::new();
    let mut linear = |name: String, fan_in: usize, out: usize| {
        all.push((format!("{name}.weight"), vec![out, fan_in], Init::Uniform { fan_in }));
        all.push((format!("{name}.bias"), vec![out], Init::Uniform { fan_in }));
    };
    for slot in SLOTS {
        linear(format!("head.{slot}.linear1"), config.dim_in, config.hidden);
        linear(format!("head.{slot}.linear2"), config.hidden, config.dim);
        linear(format!("decoder.{slot}"), config.dim, config.dim_in);
    }
    for (p, q) in PAIRS {
        linear(format!("{}.linear1", predictor(p, q)), config.dim, config.predictor_hidden);
        linear(format!("{}.linear2", predictor(p, q)), config.predictor_hidden, config.dim);
    }
    for slot in SLOTS {
        all.push((format!("head.{slot}.norm.weight"), vec![config.dim], Init::Constant(1.0)));
        all.push((format!("head.{slot}.norm.bias"), vec![config.dim], Init::Constant(0.0)));
    }
    all
}

/// One weight for each unit as `[N, 1]`.
fn weights(present: &[Presence], of: impl Fn(&Presence) -> f64, like: &Tensor) -> Result<Tensor> {
    Ok(column(&present.iter().map(of).collect::<Vec<_>>(), like)?.unsqueeze(1)?)
}

/// Weighted sum of the views present, the weights renormalised over them; zero where all weights
/// are.
fn fuse(views: &[Tensor; 3], present: &[Presence], fusion: [f64; 3]) -> Result<Tensor> {
    let share = |v: &Presence, slot: usize| {
        let sum: f64 = (0..3).filter(|s| v[*s]).map(|s| fusion[s]).sum();
        if v[slot] && sum > 0.0 { fusion[slot] / sum } else { 0.0 }
    };
    let part = |slot: usize| -> Result<Tensor> {
        Ok(views[slot].broadcast_mul(&weights(present, |v| share(v, slot), &views[slot])?)?)
    };
    Ok(((part(0)? + part(1)?)? + part(2)?)?)
}
