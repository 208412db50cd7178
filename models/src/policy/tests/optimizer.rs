//! `AdamW`, clipping and schedules agree with PyTorch and transformers.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};
use serde_json::Value;

use super::{distance, json, numbers};
use crate::optim::{AdamW, AdamWSettings, Decay, Schedule};

fn tensors(values: &Value, shapes: &Value) -> BTreeMap<String, Tensor> {
    let of = |(name, numbers): (&String, &Value)| {
        let numbers: Vec<f64> = serde_json::from_value(numbers.clone()).unwrap();
        let shape: Vec<usize> = serde_json::from_value(shapes[name].clone()).unwrap();
        (name.clone(), Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap().to_dtype(DType::F32).unwrap())
    };
    values.as_object().unwrap().iter().map(of).collect()
}

#[test]
fn steps_are_those_of_pytorch_also_after_save_and_restore() {
    for case in json("optimizer.json")["adamw"].as_array().unwrap() {
        let number = |key: &str| case[key].as_f64().unwrap();
        let settings = AdamWSettings {
            lr: number("lr"),
            weight_decay: number("weight_decay"),
            beta1: case["betas"][0].as_f64().unwrap(),
            beta2: case["betas"][1].as_f64().unwrap(),
            eps: number("eps"),
            clip_norm: case["max_grad_norm"].as_f64(),
        };
        let vars: BTreeMap<String, Var> = tensors(&case["initial"], &case["shapes"])
            .into_iter()
            .map(|(name, tensor)| (name, Var::from_tensor(&tensor).unwrap()))
            .collect();
        let mut adamw = AdamW::new(settings.clone());
        for step in case["steps"].as_array().unwrap() {
            let (mut saved, updates) = adamw.state();
            let steps = adamw.steps();
            adamw = AdamW::restore(settings.clone(), steps, &updates, &mut saved).unwrap();
            let norm = adamw.step(&vars, &tensors(&step["grad"], &case["shapes"])).unwrap();
            assert!((norm - step["norm"].as_f64().unwrap()).abs() < 1e-6);
            for (name, expected) in tensors(&step["parameters"], &case["shapes"]) {
                let far = distance(&numbers(&vars[&name]), &numbers(&expected));
                assert!(far < 1e-6, "{name}: {far}");
            }
        }
    }
}

#[test]
fn schedules_are_those_of_transformers() {
    let golden = json("optimizer.json");
    for (name, decay) in
        [("constant_with_warmup", Decay::Constant), ("linear", Decay::Linear), ("cosine", Decay::Cosine)]
    {
        let expected: Vec<f64> = serde_json::from_value(golden["schedules"][name].clone()).unwrap();
        let schedule = Schedule { warmup_steps: 3, total_steps: expected.len() as u64, decay };
        let found: Vec<f64> = (0..expected.len()).map(|step| schedule.factor(step as u64)).collect();
        assert!(distance(&found, &expected) < 1e-9, "{name}: {found:?}");
    }
}
