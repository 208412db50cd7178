//! `AdamW` with a state that can be saved: candle's keeps its moments private.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor, Var};
use serde::{Deserialize, Serialize};

use super::{Gradients, OptimError, Result};
use crate::kernels as fused;

/// Settings of [`AdamW`], with PyTorch's names and defaults but for the decay, which is 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamWSettings {
    /// Learning rate of the first step; [`AdamW::set_lr`] follows a schedule.
    pub lr: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Gradients are scaled so that their global norm is at most this.
    pub clip_norm: Option<f64>,
}

impl Default for AdamWSettings {
    fn default() -> Self {
        Self { lr: 1e-3, weight_decay: 0.0, beta1: 0.9, beta2: 0.999, eps: 1e-8, clip_norm: None }
    }
}

/// Adam with decoupled weight decay, as PyTorch computes it. For each parameter with gradient `g`:
///
/// `p ← p·(1 − lr·decay)`, `m ← β₁m + (1−β₁)g`, `v ← β₂v + (1−β₂)g²`,
/// `p ← p − lr/(1−β₁ᵗ) · m / (√v/√(1−β₂ᵗ) + ε)`
///
/// A parameter without a gradient is left alone, decay included. Moments are f32, or f64 for f64
/// parameters.
#[derive(Debug)]
pub struct AdamW {
    settings: AdamWSettings,
    /// Steps taken, those that left some parameters alone included.
    steps: u64,
    moments: BTreeMap<String, Moments>,
}

#[derive(Debug)]
struct Moments {
    /// Updates this parameter has had: `t`.
    updates: u64,
    first: Tensor,
    second: Tensor,
}

impl AdamW {
    /// An optimizer that has taken no step.
    pub fn new(settings: AdamWSettings) -> Self {
        Self { settings, steps: 0, moments: BTreeMap::new() }
    }

    /// The learning rate of the steps to come.
    pub fn set_lr(&mut self, lr: f64) {
        self.settings.lr = lr;
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Updates the parameters in place and returns the global norm of the gradients before clipping.
    ///
    /// # Errors
    /// [`OptimError::NonFiniteGradient`] names the first tensor whose gradient is NaN or infinite;
    /// nothing is updated then.
    pub fn step(&mut self, vars: &BTreeMap<String, Var>, grads: &impl Gradients) -> Result<f64> {
        let mut sum_of_squares = 0.0;
        for (name, var) in vars {
            let Some(grad) = grads.of(name, var) else { continue };
            let squares = if fused::takes(&[grad]) {
                fused::sum_of_squares(grad)?
            } else {
                grad.to_dtype(DType::F64)?.sqr()?.sum_all()?.to_scalar::<f64>()?
            };
            if !squares.is_finite() {
                return Err(OptimError::NonFiniteGradient { tensor: name.clone(), step: self.steps + 1 });
            }
            sum_of_squares += squares;
        }
        let norm = sum_of_squares.sqrt();
        let scale = match self.settings.clip_norm {
            Some(most) if norm > most => most / norm,
            _ => 1.0,
        };
        for (name, var) in vars {
            let Some(grad) = grads.of(name, var) else { continue };
            self.update(name, var, grad, scale)?;
        }
        self.steps += 1;
        Ok(norm)
    }

    fn update(&mut self, name: &str, var: &Var, grad: &Tensor, scale: f64) -> Result<()> {
        let dtype = moment_dtype(var.dtype());
        if !self.moments.contains_key(name) {
            let zeros = || Tensor::zeros(var.shape(), dtype, var.device());
            self.moments.insert(name.to_owned(), Moments { updates: 0, first: zeros()?, second: zeros()? });
        }
        let moments = self.moments.get_mut(name).expect("inserted above");
        moments.updates += 1;
        if fused::takes(&[var, grad]) {
            self.update_in_place(name, var, grad, scale)
        } else {
            self.update_by_tensors(name, var, grad, scale)
        }
    }

    fn update_in_place(&self, name: &str, var: &Var, grad: &Tensor, scale: f64) -> Result<()> {
        let Moments { updates, first, second } = &self.moments[name];
        let (beta1, beta2, scale) = (self.settings.beta1 as f32, self.settings.beta2 as f32, scale as f32);
        first.inplace_op2(grad, &fused::Moment::First { beta: beta1, scale })?;
        second.inplace_op2(grad, &fused::Moment::Second { beta: beta2, scale })?;
        let (rate, root) = self.rate_and_root(*updates);
        let keep = (1.0 - self.settings.lr * self.settings.weight_decay) as f32;
        let (rate, root, eps) = (rate as f32, root as f32, self.settings.eps as f32);
        var.inplace_op3(first, second, &fused::Parameter { keep, rate, root, eps })?;
        Ok(())
    }

    fn update_by_tensors(&mut self, name: &str, var: &Var, grad: &Tensor, scale: f64) -> Result<()> {
        let dtype = moment_dtype(var.dtype());
        let moments = self.moments.get_mut(name).expect("`update` inserts it");
        let grad = (grad.to_dtype(dtype)? * scale)?;
        moments.first = ((&moments.first * self.settings.beta1)? + (&grad * (1.0 - self.settings.beta1))?)?;
        moments.second =
            ((&moments.second * self.settings.beta2)? + (grad.sqr()? * (1.0 - self.settings.beta2))?)?;
        let (root, first) = (moments.second.sqrt()?, moments.first.clone());
        let (rate, correction) = self.rate_and_root(self.moments[name].updates);
        let change = ((first / ((root / correction)? + self.settings.eps)?)? * rate)?;
        let decayed =
            (var.as_tensor().to_dtype(dtype)? * (1.0 - self.settings.lr * self.settings.weight_decay))?;
        var.set(&(decayed - change)?.to_dtype(var.dtype())?)?;
        Ok(())
    }

    /// `lr/(1 − β₁ᵗ)` and `√(1 − β₂ᵗ)`.
    fn rate_and_root(&self, updates: u64) -> (f64, f64) {
        let t = updates as f64;
        (self.settings.lr / (1.0 - self.settings.beta1.powf(t)), (1.0 - self.settings.beta2.powf(t)).sqrt())
    }

    /// Moments as tensors, `first.<parameter>` and `second.<parameter>`, and the number of updates
    /// of each parameter.
    pub fn state(&self) -> (BTreeMap<String, Tensor>, BTreeMap<String, u64>) {
        let mut tensors = BTreeMap::new();
        for (name, moments) in &self.moments {
            tensors.insert(format!("first.{name}"), moments.first.clone());
            tensors.insert(format!("second.{name}"), moments.second.clone());
        }
        (tensors, self.moments.iter().map(|(name, m)| (name.clone(), m.updates)).collect())
    }

    /// Puts a saved state back, so that the next step is the one the saved run would have taken.
    pub fn restore(
        settings: AdamWSettings,
        steps: u64,
        updates: &BTreeMap<String, u64>,
        tensors: &mut BTreeMap<String, Tensor>,
    ) -> Result<Self> {
        let mut take = |name: String| tensors.remove(&name).ok_or(OptimError::MissingTensor { name });
        let mut moments = BTreeMap::new();
        for (name, updates) in updates {
            let (first, second) = (take(format!("first.{name}"))?, take(format!("second.{name}"))?);
            moments.insert(name.clone(), Moments { updates: *updates, first, second });
        }
        Ok(Self { steps, moments, ..Self::new(settings) })
    }
}

fn moment_dtype(parameter: DType) -> DType {
    if parameter == DType::F64 { DType::F64 } else { DType::F32 }
}
