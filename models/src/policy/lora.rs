//! Low-rank adapters (LoRA) in PEFT's format.

use std::collections::{BTreeMap, BTreeSet};

use candle_core::{DType, Tensor, Var};
use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::{PolicyError, Result};
use super::linear::Lora;
use super::model::Policy;
use super::random::stream;

/// The modules that can be adapted.
pub const TARGET_MODULES: [&str; 7] =
    ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

/// What an adapter is made of. The names are PEFT's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoraConfig {
    /// Rank.
    pub r: usize,
    /// Its product with `1/r` (or `1/√r`) scales the adapter.
    pub lora_alpha: f64,
    /// Dropout on the adapter's input, in training.
    pub lora_dropout: f64,
    /// Names of the adapted modules, without their path.
    pub target_modules: BTreeSet<String>,
    /// Scale by `1/√r` (rank-stabilised LoRA).
    pub use_rslora: bool,
}

impl Default for LoraConfig {
    /// Rank 8 and alpha 16 (CES, appendix B.2) on every linear module, as LLaMA-Factory does by default.
    fn default() -> Self {
        let target_modules = TARGET_MODULES.iter().map(|&name| name.to_owned()).collect();
        Self { r: 8, lora_alpha: 16.0, lora_dropout: 0.0, target_modules, use_rslora: false }
    }
}

impl LoraConfig {
    /// What `B·A` is multiplied by.
    pub fn scale(&self) -> f64 {
        let r = self.r as f64;
        if self.use_rslora { self.lora_alpha / r.sqrt() } else { self.lora_alpha / r }
    }

    fn check(&self) -> Result<()> {
        let refuse = |reason: String| Err(PolicyError::Adapter(reason));
        if self.r == 0 {
            return refuse("r is 0: a rank is at least 1".to_owned());
        }
        if !(0.0..1.0).contains(&self.lora_dropout) {
            return refuse(format!("lora_dropout is {}, expected in [0, 1)", self.lora_dropout));
        }
        if self.target_modules.is_empty() {
            return refuse("target_modules is empty".to_owned());
        }
        match self.target_modules.iter().find(|name| !TARGET_MODULES.contains(&name.as_str())) {
            Some(name) => {
                refuse(format!("target_modules names `{name}`; there are {}", TARGET_MODULES.join(", ")))
            }
            None => Ok(()),
        }
    }

    /// The `adapter_config.json` that PEFT reads.
    pub fn to_peft(&self, base_model: &str) -> Value {
        serde_json::json!({
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": base_model,
            "r": self.r,
            "lora_alpha": self.lora_alpha,
            "lora_dropout": self.lora_dropout,
            "target_modules": self.target_modules,
            "use_rslora": self.use_rslora,
            "use_dora": false,
            "bias": "none",
            "fan_in_fan_out": false,
            "inference_mode": true,
            "init_lora_weights": true,
            "modules_to_save": null,
            "rank_pattern": {},
            "alpha_pattern": {},
        })
    }

    /// Reads an `adapter_config.json`.
    ///
    /// # Errors
    /// [`PolicyError::Adapter`] names the key that is missing or asks for what is not built.
    pub fn from_peft(text: &str) -> Result<Self> {
        let refuse = |reason: String| PolicyError::Adapter(format!("adapter_config.json: {reason}"));
        let json: Value = serde_json::from_str(text).map_err(|e| refuse(format!("not JSON: {e}")))?;
        let kind = json["peft_type"].as_str().unwrap_or_default();
        if kind != "LORA" {
            return Err(refuse(format!("peft_type is `{kind}`, LORA is supported")));
        }
        let unset = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::String(text) => text == "none",
            _ => false,
        };
        for key in [
            "use_dora",
            "modules_to_save",
            "rank_pattern",
            "alpha_pattern",
            "bias",
            "fan_in_fan_out",
            "layers_to_transform",
            "trainable_token_indices",
        ] {
            if !unset(&json[key]) {
                return Err(refuse(format!("`{key}` is set to {}, which is not supported", json[key])));
            }
        }
        let number = |key: &str| json[key].as_f64().ok_or_else(|| refuse(format!("`{key}` is missing")));
        let modules = match &json["target_modules"] {
            Value::Array(names) => names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            Value::String(all) if all == "all-linear" => Self::default().target_modules,
            other => return Err(refuse(format!("target_modules is {other}: a list of names is expected"))),
        };
        // PEFT also takes paths; their last part names the module.
        let last = |name: String| name.rsplit('.').next().unwrap_or_default().to_owned();
        let config = Self {
            r: number("r")? as usize,
            lora_alpha: number("lora_alpha")?,
            lora_dropout: json["lora_dropout"].as_f64().unwrap_or(0.0),
            target_modules: BTreeSet::into_iter(modules).map(last).collect(),
            use_rslora: json["use_rslora"].as_bool().unwrap_or(false),
        };
        config.check()?;
        Ok(config)
    }
}

/// The name of a module's matrix in PEFT's files.
fn peft_name(module: &str, matrix: &str) -> String {
    format!("base_model.model.{module}.lora_{matrix}.weight")
}

impl Policy {
    /// Adds a fresh adapter: A uniform in ±1/√in (PEFT's Kaiming with a = √5), B zero, so that nothing changes yet.
    ///
    /// # Errors
    /// [`PolicyError::Adapter`] for unfit settings, or when the model trains otherwise.
    pub fn add_lora(&mut self, config: &LoraConfig, seed: u64) -> Result<()> {
        let device = self.device().clone();
        self.adapt(config, |name, shape| {
            let numbers = if name.ends_with("lora_A.weight") {
                let (bound, mut rng) = (1.0 / (shape.1 as f32).sqrt(), stream(seed, name));
                (0..shape.0 * shape.1).map(|_| rng.random_range(-bound..bound)).collect()
            } else {
                vec![0f32; shape.0 * shape.1]
            };
            Ok(Tensor::from_vec(numbers, shape, &device)?)
        })
    }

    /// Adds the adapter of a PEFT folder: its settings, and the tensors of `adapter_model.safetensors`.
    ///
    /// # Errors
    /// [`PolicyError::Adapter`] when tensors are missing, left over, or of another shape.
    pub fn load_lora(&mut self, config: &LoraConfig, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
        let device = self.device().clone();
        self.adapt(config, |name, shape| {
            let tensor = tensors.get(name);
            let tensor = tensor.ok_or_else(|| PolicyError::Adapter(format!("it has no tensor `{name}`")))?;
            if tensor.dims() != [shape.0, shape.1] {
                let found = tensor.dims();
                return Err(PolicyError::Adapter(format!(
                    "`{name}` has shape {found:?}, expected {shape:?}"
                )));
            }
            Ok(tensor.to_device(&device)?)
        })?;
        if let Some(name) = tensors.keys().find(|name| !self.vars.contains_key(*name)) {
            let reason = format!("it has a tensor `{name}` that no module of this model takes");
            return Err(PolicyError::Adapter(reason));
        }
        Ok(())
    }

    fn adapt(
        &mut self,
        config: &LoraConfig,
        mut tensor: impl FnMut(&str, (usize, usize)) -> Result<Tensor>,
    ) -> Result<()> {
        config.check()?;
        if !self.vars.is_empty() {
            return Err(PolicyError::Adapter("the model already trains something".to_owned()));
        }
        let dtype = if self.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let (scale, mut vars) = (config.scale(), BTreeMap::new());
        for linear in self.layers.iter_mut().flat_map(super::layer::Layer::linears_mut) {
            let module = linear.name.rsplit('.').next().unwrap_or_default();
            if !config.target_modules.contains(module) {
                continue;
            }
            let (out, inner) = linear.weight.dims2()?;
            let names = [peft_name(&linear.name, "A"), peft_name(&linear.name, "B")];
            let mut make = |name: &str, shape| -> Result<Var> {
                let var = Var::from_tensor(&tensor(name, shape)?.to_dtype(dtype)?)?;
                vars.insert(name.to_owned(), var.clone());
                Ok(var)
            };
            let (a, b) = (make(&names[0], (config.r, inner))?, make(&names[1], (out, config.r))?);
            linear.lora = Some(Lora { a, b, scale, names, merged: None });
        }
        self.vars = vars;
        self.lora = Some(config.clone());
        Ok(())
    }

    /// Makes the adapter part of the weights for good: the model with it is the new base, and can be adapted again.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn fold_adapter(&mut self) -> Result<()> {
        for linear in self.layers.iter_mut().flat_map(super::layer::Layer::linears_mut) {
            linear.weight = linear.with_adapter()?;
            linear.lora = None;
        }
        self.vars = BTreeMap::new();
        self.lora = None;
        Ok(())
    }

    /// The adapter's tensors by PEFT's names, in f32: the content of `adapter_model.safetensors`.
    ///
    /// # Errors
    /// [`PolicyError::Adapter`] without an adapter.
    pub fn lora_tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        if self.lora.is_none() {
            return Err(PolicyError::Adapter("the model has none".to_owned()));
        }
        let f32 = |var: &Var| var.as_detached_tensor().to_dtype(DType::F32);
        self.vars.iter().map(|(name, var)| Ok((name.clone(), f32(var)?))).collect()
    }
}
