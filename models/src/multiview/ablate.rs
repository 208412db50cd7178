//! What tables 3 and 4 compare: four variants of the loss, and embeddings without any training.

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::batch::ViewBatch;
use super::config::TrainConfig;
use super::error::Result;
use super::ops::unit_rows;

/// Which terms of Eq. 2 are trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossVariant {
    /// `L_con` only.
    InfoNce,
    /// `L_con` and `L_pred`.
    InfoNcePrediction,
    /// `L_con` and `L_rec`.
    InfoNceReconstruction,
    /// All three.
    #[default]
    Full,
}

impl LossVariant {
    /// The variants in the order of tables 3 and 4.
    pub const ALL: [Self; 4] =
        [Self::InfoNce, Self::InfoNcePrediction, Self::InfoNceReconstruction, Self::Full];

    /// The name in tables 3 and 4.
    pub fn title(self) -> &'static str {
        match self {
            Self::InfoNce => "InfoNCE only",
            Self::InfoNcePrediction => "InfoNCE + Prediction",
            Self::InfoNceReconstruction => "InfoNCE + Reconstruction",
            Self::Full => "Full (Con + Pred + Rec)",
        }
    }

    /// Whether `L_pred` is part of it. Where it is not, the predictors keep their initial weights.
    pub fn predicts(self) -> bool {
        matches!(self, Self::InfoNcePrediction | Self::Full)
    }

    /// Whether `L_rec` is part of it. Where it is not, the decoders keep their initial weights.
    pub fn reconstructs(self) -> bool {
        matches!(self, Self::InfoNceReconstruction | Self::Full)
    }

    /// `base` with this variant: everything else equal, the seed included.
    pub fn preset(self, base: &TrainConfig) -> TrainConfig {
        TrainConfig { variant: self, ..base.clone() }
    }
}

/// The baseline without an encoder: the L2-normalised views side by side, the row L2-normalised. An
/// absent view leaves its columns at zero, since concatenation has no other place for it.
///
/// # Shapes
/// `[N, 3·d_in]`.
pub fn raw_concatenated(batch: &ViewBatch) -> Result<Tensor> {
    let [a, b, c] = batch.x();
    unit_rows(&Tensor::cat(&[unit_rows(a)?, unit_rows(b)?, unit_rows(c)?], 1)?)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn variants_differ_from_the_base_in_their_terms_only() {
        let base = TrainConfig { seed: 9, lr: 0.5, ..TrainConfig::default() };
        let terms = LossVariant::ALL.map(|v| (v.predicts(), v.reconstructs()));
        assert_eq!(terms, [(false, false), (true, false), (false, true), (true, true)]);
        for variant in LossVariant::ALL {
            assert_eq!(TrainConfig { variant: base.variant, ..variant.preset(&base) }, base);
        }
    }

    #[test]
    fn the_baseline_has_rows_of_length_one_whatever_is_absent() {
        let x = [1f32, 2.0, 3.0].map(|k| Tensor::new(&[[k, 0.0], [0.0, k]], &Device::Cpu).unwrap());
        let batch = ViewBatch::new(x, vec![[true; 3], [true, false, false]]).unwrap();
        let rows = raw_concatenated(&batch).unwrap().to_vec2::<f32>().unwrap();
        let third = 1.0 / 3f32.sqrt();
        for (found, expected) in rows[0].iter().zip([third, 0.0, third, 0.0, third, 0.0]) {
            assert!((found - expected).abs() < 1e-6);
        }
        assert_eq!(rows[1], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
