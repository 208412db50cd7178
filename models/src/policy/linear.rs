//! A linear layer, frozen or trained, with or without a low-rank adapter.

use candle_core::{Tensor, Var};

use super::error::Result;
use super::ops;
use super::random::Dropout;
use crate::kernels;

/// Gradients by the names of parameters.
pub type Grads = std::collections::BTreeMap<String, Tensor>;

/// Adds a gradient to what is there.
pub(super) fn add(grads: &mut Grads, name: &str, grad: Tensor) -> Result<()> {
    let sum = match grads.remove(name) {
        Some(before) => (before + grad)?,
        None => grad,
    };
    grads.insert(name.to_owned(), sum);
    Ok(())
}

/// A low-rank addition to a weight: `s·B·A` (LoRA, Hu et al. 2021).
#[derive(Debug)]
pub(super) struct Lora {
    /// `[r, in]`
    pub a: Var,
    /// `[out, r]`
    pub b: Var,
    /// `alpha/r`, or `alpha/√r` for rsLoRA.
    pub scale: f64,
    /// Names of A and B among the parameters.
    pub names: [String; 2],
    /// `W + s·B·A`, kept by [`Linear::merge`]: then a forward costs one product.
    pub merged: Option<Tensor>,
}

/// `y = x·Wᵀ + b`, and `+ s·(x·Aᵀ)·Bᵀ` with an adapter.
#[derive(Debug)]
pub(super) struct Linear {
    /// The module's name, `model.layers.0.self_attn.q_proj`.
    pub name: String,
    /// `[out, in]`
    pub weight: Tensor,
    /// `[out]`
    pub bias: Option<Tensor>,
    pub lora: Option<Lora>,
    /// Whether weight and bias are trained.
    pub trained: bool,
}

/// `x·wᵀ`.
pub(super) fn times(x: &Tensor, w: &Tensor) -> candle_core::Result<Tensor> {
    match kernels::few_rows(x, w)? {
        Some(y) => Ok(y),
        None => x.matmul(&w.t()?),
    }
}

/// How a pass uses adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adapters {
    /// The policy.
    On,
    /// The model as it was: the reference.
    Off,
}

impl Lora {
    /// A and B in the model's type: the parameters themselves are f32, so that small steps are not rounded away.
    fn matrices(&self, like: &Tensor) -> Result<(Tensor, Tensor)> {
        let of = |var: &Var| var.as_detached_tensor().to_dtype(like.dtype());
        Ok((of(&self.a)?, of(&self.b)?))
    }
}

impl Linear {
    /// # Shapes
    /// `x` `[t, in]`; returns `[t, out]`. `dropout` acts on the adapter's input only, as in PEFT.
    pub fn forward(&self, x: &Tensor, adapters: Adapters, dropout: &Dropout) -> Result<Tensor> {
        let lora = self.lora.as_ref().filter(|_| adapters == Adapters::On);
        let merged = lora.and_then(|lora| lora.merged.as_ref()).filter(|_| dropout.is_off());
        let y = times(x, merged.unwrap_or(&self.weight))?;
        let y = match &self.bias {
            Some(bias) => y.broadcast_add(bias)?,
            None => y,
        };
        match lora {
            Some(lora) if merged.is_none() => {
                let x = dropout.apply(x, &self.name)?;
                let (a, b) = lora.matrices(&x)?;
                let low = x.matmul(&a.t()?)?;
                Ok((y + (low.matmul(&b.t()?)? * lora.scale)?)?)
            }
            _ => Ok(y),
        }
    }

    /// The gradient of `x`; those of the parameters that train are added to `grads`.
    ///
    /// # Shapes
    /// `x` `[t, in]`, `grad` `[t, out]`; returns `[t, in]`.
    pub fn backward(
        &self,
        x: &Tensor,
        grad: &Tensor,
        dropout: &Dropout,
        grads: &mut Grads,
    ) -> Result<Tensor> {
        if self.trained {
            add(grads, &format!("{}.weight", self.name), grad.t()?.matmul(x)?)?;
            if self.bias.is_some() {
                add(grads, &format!("{}.bias", self.name), ops::column_sums(grad)?)?;
            }
        }
        let Some(lora) = &self.lora else { return Ok(grad.matmul(&self.weight)?) };
        let (a, b) = lora.matrices(x)?;
        let dropped = dropout.apply(x, &self.name)?;
        let low = (dropped.matmul(&a.t()?)? * lora.scale)?;
        let low_grad = (grad.matmul(&b)? * lora.scale)?;
        let like = lora.a.dtype();
        add(grads, &lora.names[0], low_grad.t()?.matmul(&dropped)?.to_dtype(like)?)?;
        add(grads, &lora.names[1], grad.t()?.matmul(&low)?.to_dtype(like)?)?;
        if let Some(merged) = lora.merged.as_ref().filter(|_| dropout.is_off()) {
            return Ok(grad.matmul(merged)?);
        }
        let through = dropout.apply(&low_grad.matmul(&a)?, &self.name)?;
        Ok((grad.matmul(&self.weight)? + through)?)
    }

    /// The weight with the adapter in it: `W + s·B·A`.
    pub fn with_adapter(&self) -> Result<Tensor> {
        match &self.lora {
            None => Ok(self.weight.clone()),
            Some(lora) => {
                let added = lora.b.as_detached_tensor().matmul(&lora.a.as_detached_tensor())?;
                let wide = (self.weight.to_dtype(added.dtype())? + (added * lora.scale)?)?;
                Ok(wide.to_dtype(self.weight.dtype())?)
            }
        }
    }

    /// Brings the merged weight up to date, or drops it.
    pub fn merge(&mut self, keep: bool) -> Result<()> {
        let merged = if keep && self.lora.is_some() { Some(self.with_adapter()?) } else { None };
        if let Some(lora) = &mut self.lora {
            lora.merged = merged;
        }
        Ok(())
    }
}
