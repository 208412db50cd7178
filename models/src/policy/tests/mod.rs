//! Policies against transformers, PEFT and PyTorch, on tiny random models (`scripts/reference/policy_golden.py`).

mod behaviour;
mod golden;
mod optimizer;
mod real;
mod sampling;

use std::collections::BTreeMap;
use std::path::PathBuf;

use candle_core::{DType, Device, Tensor};
use serde_json::Value;

use super::{LoraConfig, ModelConfig, Packed, Policy, Weights};

const MODELS: [&str; 3] = ["llama", "qwen2", "qwen3"];

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/policy").join(name)
}

fn json(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder(path)).unwrap()).unwrap()
}

/// A reference model and what it computed.
struct Golden {
    name: &'static str,
    config: ModelConfig,
    ids: Vec<Vec<u32>>,
    starts: Vec<usize>,
    greedy: Vec<Vec<u32>>,
    tensors: BTreeMap<String, Tensor>,
}

impl Golden {
    fn of(name: &'static str) -> Self {
        let text = std::fs::read_to_string(folder(name).join("config.json")).unwrap();
        let json = json(&format!("{name}/golden.json"));
        let file = folder(name).join("golden.safetensors");
        let tensors = candle_core::safetensors::load(file, &Device::Cpu).unwrap().into_iter().collect();
        let of = |key: &str| serde_json::from_value(json[key].clone()).unwrap();
        Self {
            name,
            config: ModelConfig::from_json(&text).unwrap(),
            ids: of("ids"),
            starts: serde_json::from_value(json["completion_start"].clone()).unwrap(),
            greedy: of("greedy"),
            tensors,
        }
    }

    fn policy(&self, dtype: DType) -> Policy {
        // One of the three comes in parts.
        let sharded = folder(self.name).join("sharded");
        let weights =
            Weights::open_folder(if sharded.exists() { &sharded } else { sharded.parent().unwrap() });
        Policy::new(self.config.clone(), &weights.unwrap(), dtype, &Device::Cpu).unwrap()
    }

    fn adapted(&self, adapter: &str, dtype: DType) -> Policy {
        let mut policy = self.policy(dtype);
        let folder = folder(self.name).join(adapter);
        let config = std::fs::read_to_string(folder.join("adapter_config.json")).unwrap();
        let tensors = candle_core::safetensors::load(folder.join("adapter_model.safetensors"), &Device::Cpu);
        let config = LoraConfig::from_peft(&config).unwrap();
        policy.load_lora(&config, &tensors.unwrap().into_iter().collect()).unwrap();
        policy
    }

    fn prompt_and_completion(&self, i: usize) -> (&[u32], &[u32]) {
        self.ids[i].split_at(self.starts[i])
    }

    /// All sequences, with their completions as targets.
    fn packed(&self) -> Packed {
        let mut packed = Packed::default();
        for i in 0..self.ids.len() {
            let (prompt, completion) = self.prompt_and_completion(i);
            packed.push(prompt, &[completion]).unwrap();
        }
        packed
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        numbers(self.tensors.get(name).unwrap_or_else(|| panic!("no golden tensor {name}")))
    }

    /// Values of all sequences, one after the other.
    fn joined(&self, name: &str) -> Vec<f64> {
        (0..self.ids.len()).flat_map(|i| self.numbers(&format!("{name}.{i}"))).collect()
    }
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// The largest difference, relative to the largest value expected.
fn distance(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let most = expected.iter().fold(1e-12f64, |most, x| most.max(x.abs()));
    found.iter().zip(expected).fold(0f64, |worst, (a, b)| worst.max((a - b).abs())) / most
}

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|x| f64::from(*x)).collect()
}

/// A small model for tests of behaviour.
fn tiny() -> ModelConfig {
    let text = std::fs::read_to_string(folder("qwen3").join("config.json")).unwrap();
    ModelConfig::from_json(&text).unwrap()
}
