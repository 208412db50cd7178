//! One layer: attention and feed-forward network, each behind a norm and beside the residual stream.

use candle_core::Tensor;

use super::attention::{attention, attention_backward};
use super::batch::Segment;
use super::error::Result;
use super::linear::{Adapters, Grads, Linear, add};
use super::ops::{self, Rotation};
use super::random::Dropout;

/// `RMSNorm` with its weight, `[n]`.
#[derive(Debug)]
pub(super) struct Norm {
    pub name: String,
    pub weight: Tensor,
    pub eps: f64,
    pub trained: bool,
}

impl Norm {
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(ops::rms_norm(x, &self.weight, self.eps)?)
    }

    pub fn backward(&self, x: &Tensor, grad: &Tensor, grads: &mut Grads) -> Result<Tensor> {
        let (input, weight) = ops::rms_norm_backward(x, &self.weight, grad, self.eps, self.trained)?;
        if let Some(weight) = weight {
            add(grads, &format!("{}.weight", self.name), weight)?;
        }
        Ok(input)
    }
}

/// The modules of a layer.
#[derive(Debug)]
pub(super) struct Layer {
    pub input_norm: Norm,
    pub q: Linear,
    pub k: Linear,
    pub v: Linear,
    pub o: Linear,
    /// Over each head of q and k (Qwen3).
    pub head_norms: Option<(Norm, Norm)>,
    pub middle_norm: Norm,
    pub gate: Linear,
    pub up: Linear,
    pub down: Linear,
    pub head_dim: usize,
}

/// What a pass is made with.
#[derive(Clone, Copy)]
pub(super) struct Pass<'a> {
    pub rotation: &'a Rotation,
    pub segments: &'a [Segment],
    pub adapters: Adapters,
    pub dropout: &'a Dropout,
}

/// Queries, keys and values, `[t, heads, d]`, as attention takes them; and q and k before their norms.
pub(super) struct Qkv {
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
    unnormed: Option<(Tensor, Tensor)>,
}

/// What the backward needs of the forward.
pub(super) struct Saved {
    x: Tensor,
    normed: Tensor,
    qkv: Qkv,
    attended: Tensor,
    middle: Tensor,
    middle_normed: Tensor,
    gate: Tensor,
    up: Tensor,
}

impl Saved {
    /// What a cache keeps.
    pub fn keys_and_values(self) -> (Tensor, Tensor) {
        (self.qkv.k, self.qkv.v)
    }
}

impl Layer {
    /// Its linear modules by name.
    pub fn linears_mut(&mut self) -> [&mut Linear; 7] {
        [&mut self.q, &mut self.k, &mut self.v, &mut self.o, &mut self.gate, &mut self.up, &mut self.down]
    }

    /// The same, to look at.
    pub fn linears(&self) -> [&Linear; 7] {
        [&self.q, &self.k, &self.v, &self.o, &self.gate, &self.up, &self.down]
    }

    /// # Shapes
    /// `normed` `[t, hidden]`.
    pub fn qkv(&self, normed: &Tensor, pass: Pass<'_>) -> Result<Qkv> {
        let project = |linear: &Linear| -> Result<Tensor> {
            let y = linear.forward(normed, pass.adapters, pass.dropout)?;
            let (t, width) = y.dims2()?;
            Ok(y.reshape((t, width / self.head_dim, self.head_dim))?)
        };
        let (q, k, v) = (project(&self.q)?, project(&self.k)?, project(&self.v)?);
        let (q, k, unnormed) = match &self.head_norms {
            Some((q_norm, k_norm)) => (q_norm.forward(&q)?, k_norm.forward(&k)?, Some((q, k))),
            None => (q, k, None),
        };
        Ok(Qkv { q: pass.rotation.turn(&q)?, k: pass.rotation.turn(&k)?, v, unnormed })
    }

    /// # Shapes
    /// `x` `[t, hidden]`; returns the same shape.
    pub fn forward(&self, x: &Tensor, pass: Pass<'_>) -> Result<(Tensor, Saved)> {
        let normed = self.input_norm.forward(x)?;
        let qkv = self.qkv(&normed, pass)?;
        let attended = attention(&qkv.q, &qkv.k, &qkv.v, pass.segments)?;
        let middle = (x + self.o.forward(&attended, pass.adapters, pass.dropout)?)?;
        let (y, [middle_normed, gate, up]) = self.feed_forward(&middle, pass)?;
        let saved = Saved { x: x.clone(), normed, qkv, attended, middle, middle_normed, gate, up };
        Ok((y, saved))
    }

    /// The part behind attention, and what its backward needs.
    pub fn feed_forward(&self, middle: &Tensor, pass: Pass<'_>) -> Result<(Tensor, [Tensor; 3])> {
        let normed = self.middle_norm.forward(middle)?;
        let gate = self.gate.forward(&normed, pass.adapters, pass.dropout)?;
        let up = self.up.forward(&normed, pass.adapters, pass.dropout)?;
        let down = self.down.forward(&ops::swiglu(&gate, &up)?, pass.adapters, pass.dropout)?;
        Ok(((middle + down)?, [normed, gate, up]))
    }

    /// The gradient of `x` for that of the output.
    pub fn backward(&self, saved: Saved, grad: &Tensor, pass: Pass<'_>, grads: &mut Grads) -> Result<Tensor> {
        let Saved { x, normed, qkv, attended, middle, middle_normed, gate, up } = saved;
        let dropout = pass.dropout;
        let hidden_grad = self.down.backward(&ops::swiglu(&gate, &up)?, grad, dropout, grads)?;
        let (gate_grad, up_grad) = ops::swiglu_backward(&gate, &up, &hidden_grad)?;
        let normed_grad = (self.gate.backward(&middle_normed, &gate_grad, dropout, grads)?
            + self.up.backward(&middle_normed, &up_grad, dropout, grads)?)?;
        let middle_grad = (grad + self.middle_norm.backward(&middle, &normed_grad, grads)?)?;
        let attended_grad = self.o.backward(&attended, &middle_grad, dropout, grads)?;
        let normed_grad = self.attention_backward(qkv, &normed, &attended_grad, pass, grads)?;
        Ok((middle_grad + self.input_norm.backward(&x, &normed_grad, grads)?)?)
    }

    fn attention_backward(
        &self,
        qkv: Qkv,
        normed: &Tensor,
        grad: &Tensor,
        pass: Pass<'_>,
        grads: &mut Grads,
    ) -> Result<Tensor> {
        let inner = attention_backward(&qkv.q, &qkv.k, &qkv.v, grad, pass.segments)?;
        let (mut q, mut k) = (pass.rotation.back(&inner.q)?, pass.rotation.back(&inner.k)?);
        if let (Some((q_norm, k_norm)), Some((raw_q, raw_k))) = (&self.head_norms, &qkv.unnormed) {
            q = q_norm.backward(raw_q, &q, grads)?;
            k = k_norm.backward(raw_k, &k, grads)?;
        }
        let mut back = |linear: &Linear, grad: &Tensor| -> Result<Tensor> {
            let rows = grad.dim(0)?;
            linear.backward(normed, &grad.reshape((rows, ()))?, pass.dropout, grads)
        };
        Ok(((back(&self.q, &q)? + back(&self.k, &k)?)? + back(&self.v, &inner.v)?)?)
    }
}
