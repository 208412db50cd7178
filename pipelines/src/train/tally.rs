//! Figures of a GRPO step, added up over its updates.

use serde_json::{Value, json};
use tracemill_models::rl::LossMetrics;

/// Columns of `metrics.jsonl` with their values.
pub(super) type Values = Vec<(&'static str, Value)>;

/// Figures of a step's updates, weighted by tokens.
#[derive(Default)]
pub(super) struct Tally {
    pub loss: f64,
    pub tokens: f64,
    pub entropy: f64,
    pub ratio: f64,
    pub clip: [f64; 3],
    pub kl_old: f64,
    pub kl_reference: f64,
    pub tis: Option<f64>,
    pub gate: Option<f64>,
    /// The run's first step, whose gate is told; a resumed run's is only watched, so that both tell the same.
    pub first: bool,
    pub grad_norm: Option<f64>,
    pub lr: Option<f64>,
    pub updates: usize,
    /// Tokens of groups that had nothing to teach.
    pub idle: usize,
}

impl Tally {
    pub fn add(&mut self, loss: f64, metrics: &LossMetrics, entropy: &[f32]) {
        let n = entropy.len() as f64;
        self.loss += loss;
        self.tokens += n;
        self.entropy += entropy.iter().map(|x| f64::from(*x)).sum::<f64>();
        self.ratio += n * metrics.ratio;
        for (sum, share) in self.clip.iter_mut().zip([metrics.clip_low, metrics.clip_high, metrics.clip_dual])
        {
            *sum += n * share;
        }
        self.kl_old += n * metrics.kl_old;
        self.kl_reference += n * metrics.kl_reference.unwrap_or(0.0);
        self.tis = metrics.tis.map(|tis| self.tis.unwrap_or(0.0) + n * tis);
    }

    pub fn values(&self, reference: bool) -> Values {
        let mean = |sum: f64| if self.tokens > 0.0 { json!(sum / self.tokens) } else { Value::Null };
        vec![
            ("loss", json!(self.loss / self.updates.max(1) as f64)),
            ("entropy", mean(self.entropy)),
            ("ratio", mean(self.ratio)),
            ("ratio_gate", json!(self.gate.filter(|_| self.first))),
            ("clip_low", mean(self.clip[0])),
            ("clip_high", mean(self.clip[1])),
            ("clip_dual", mean(self.clip[2])),
            ("kl_old", mean(self.kl_old)),
            ("kl_reference", if reference { mean(self.kl_reference) } else { Value::Null }),
            ("tis", self.tis.map_or(Value::Null, mean)),
            ("grad_norm", json!(self.grad_norm)),
            ("lr", json!(self.lr)),
        ]
    }
}
