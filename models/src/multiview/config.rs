//! Settings: the encoder's shape and how it is trained.

use serde::{Deserialize, Serialize};

use crate::optim::AdamWSettings;

use super::ablate::LossVariant;
use super::error::{EncoderError, Result};

/// The shape of the encoder. The defaults are appendix A's with MiniLM's input dimension.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EncoderConfig {
    /// Dimension of the input embeddings: 3072 for text-embedding-3-large, 384 for `MiniLM`.
    pub dim_in: usize,
    /// Width of a head's hidden layer.
    pub hidden: usize,
    /// Dimension of the latents.
    pub dim: usize,
    /// Width of a predictor's hidden layer.
    pub predictor_hidden: usize,
    /// Probability of dropping a hidden activation of a head, in training only.
    pub dropout: f64,
    /// Weights of the environment, middle and description slots in the fused latent.
    pub fusion: [f64; 3],
    /// Added to the variance in the heads' `LayerNorm`.
    pub layer_norm_eps: f64,
}

impl Default for EncoderConfig {
    fn default() -> Self {
        Self {
            dim_in: 384,
            hidden: 256,
            dim: 256,
            predictor_hidden: 128,
            dropout: 0.05,
            fusion: [0.4, 0.3, 0.3],
            layer_norm_eps: 1e-5,
        }
    }
}

impl EncoderConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`EncoderError::Setting`] names the first setting out of range.
    pub fn validate(&self) -> Result<()> {
        let sizes = [
            ("dim_in", self.dim_in),
            ("hidden", self.hidden),
            ("dim", self.dim),
            ("predictor_hidden", self.predictor_hidden),
        ];
        for (name, value) in sizes {
            check(name, value as f64, value > 0, "at least 1")?;
        }
        check("dropout", self.dropout, (0.0..1.0).contains(&self.dropout), "in [0, 1)")?;
        for value in self.fusion {
            check("fusion", value, value.is_finite() && value > 0.0, "positive")?;
        }
        check("layer_norm_eps", self.layer_norm_eps, self.layer_norm_eps > 0.0, "positive")
    }
}

/// How the encoder is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainConfig {
    /// Which terms of Eq. 2 are used.
    pub variant: LossVariant,
    /// Learning rate.
    pub lr: f64,
    /// Decoupled weight decay of `AdamW`.
    pub weight_decay: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Largest global norm of the gradients; `None` leaves them as they are.
    pub clip_norm: Option<f64>,
    /// Weight of the prediction loss in Eq. 2.
    pub lambda_pred: f64,
    /// Weight of the reconstruction loss in Eq. 2.
    pub lambda_rec: f64,
    /// Temperature of the contrastive loss.
    pub tau: f64,
    /// Whether the denominator of Eq. 3 includes `j = i` (`InfoNCE`). The paper writes `j ≠ i`.
    pub contrastive_include_self: bool,
    /// Units in a step.
    pub batch_size: usize,
    /// Passes over the training units, at most.
    pub epochs: usize,
    /// Epochs without a better held-out loss or retrieval after which training stops.
    pub patience: usize,
    /// Share of the groups (episodes) that are held out.
    pub holdout: f64,
    /// Seed of the initial weights, the split, the order and the dropout.
    pub seed: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            variant: LossVariant::Full,
            lr: 1e-3,
            weight_decay: 0.01,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            clip_norm: None,
            lambda_pred: 0.1,
            lambda_rec: 0.05,
            tau: 0.1,
            contrastive_include_self: false,
            batch_size: 256,
            epochs: 100,
            patience: 10,
            holdout: 0.1,
            seed: 0,
        }
    }
}

impl TrainConfig {
    /// The optimizer's part.
    pub fn optimizer(&self) -> AdamWSettings {
        let Self { lr, weight_decay, beta1, beta2, eps, clip_norm, .. } = *self;
        AdamWSettings { lr, weight_decay, beta1, beta2, eps, clip_norm }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// [`EncoderError::Setting`] names the first setting out of range.
    pub fn validate(&self) -> Result<()> {
        let unit = 0.0..1.0;
        check("lr", self.lr, self.lr.is_finite() && self.lr > 0.0, "positive")?;
        check("weight_decay", self.weight_decay, self.weight_decay >= 0.0, "at least 0")?;
        check("beta1", self.beta1, unit.contains(&self.beta1), "in [0, 1)")?;
        check("beta2", self.beta2, unit.contains(&self.beta2), "in [0, 1)")?;
        check("eps", self.eps, self.eps > 0.0, "positive")?;
        if let Some(norm) = self.clip_norm {
            check("clip_norm", norm, norm > 0.0, "positive")?;
        }
        check("lambda_pred", self.lambda_pred, self.lambda_pred >= 0.0, "at least 0")?;
        check("lambda_rec", self.lambda_rec, self.lambda_rec >= 0.0, "at least 0")?;
        check("tau", self.tau, self.tau.is_finite() && self.tau > 0.0, "positive")?;
        check("batch_size", self.batch_size as f64, self.batch_size > 0, "at least 1")?;
        check("holdout", self.holdout, unit.contains(&self.holdout), "in [0, 1)")
    }
}

fn check(name: &'static str, value: f64, holds: bool, expected: &'static str) -> Result<()> {
    if holds { Ok(()) } else { Err(EncoderError::Setting { name, value, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_papers_and_valid() {
        let (encoder, train) = (EncoderConfig::default(), TrainConfig::default());
        encoder.validate().unwrap();
        train.validate().unwrap();
        assert_eq!((encoder.hidden, encoder.dim, encoder.predictor_hidden), (256, 256, 128));
        assert_eq!(encoder.fusion, [0.4, 0.3, 0.3]);
        assert_eq!((train.lr, train.lambda_pred, train.lambda_rec, train.tau), (1e-3, 0.1, 0.05, 0.1));
    }

    #[test]
    fn the_setting_out_of_range_is_named() {
        let bad = TrainConfig { tau: 0.0, ..TrainConfig::default() };
        assert!(bad.validate().unwrap_err().to_string().starts_with("tau is 0"));
        let bad = EncoderConfig { dropout: 1.0, ..EncoderConfig::default() };
        assert!(bad.validate().unwrap_err().to_string().starts_with("dropout is 1"));
    }

    #[test]
    fn missing_keys_take_their_defaults() {
        let read: TrainConfig = serde_json::from_str(r#"{"seed": 7, "variant": "info_nce"}"#).unwrap();
        assert_eq!(read, TrainConfig { seed: 7, variant: LossVariant::InfoNce, ..TrainConfig::default() });
    }
}
