//! Units and their views as tensors.

use candle_core::{DType, Tensor};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::SLOTS;
use super::error::{EncoderError, Result};

/// For each unit, which of its three views are there, in the order of [`SLOTS`].
pub type Presence = [bool; 3];

/// Units with their three views. An absent view's row may hold anything: it is never read.
#[derive(Debug, Clone)]
pub struct ViewBatch {
    x: [Tensor; 3],
    present: Vec<Presence>,
}

impl ViewBatch {
    /// Puts views together.
    ///
    /// # Shapes
    /// `x`: three of `[N, d_in]`; `present`: N.
    ///
    /// # Errors
    /// [`EncoderError::Shape`] when they disagree, [`EncoderError::NoView`] for a unit without any
    /// view.
    pub fn new(x: [Tensor; 3], present: Vec<Presence>) -> Result<Self> {
        let (_, width) = x[0].dims2()?;
        for (slot, view) in SLOTS.iter().zip(&x) {
            if view.dims() != [present.len(), width] {
                let (found, expected) = (view.dims().to_vec(), vec![present.len(), width]);
                return Err(EncoderError::Shape { what: format!("view `{slot}`"), found, expected });
            }
        }
        if let Some(row) = present.iter().position(|p| !p.contains(&true)) {
            return Err(EncoderError::NoView { row });
        }
        let x = [clear(&x[0], &present, 0)?, clear(&x[1], &present, 1)?, clear(&x[2], &present, 2)?];
        Ok(Self { x, present })
    }

    /// The views, absent rows zero: `[N, d_in]` each.
    pub fn x(&self) -> &[Tensor; 3] {
        &self.x
    }

    /// Which views are there.
    pub fn present(&self) -> &[Presence] {
        &self.present
    }

    /// Number of units.
    pub fn len(&self) -> usize {
        self.present.len()
    }

    /// Whether there are no units.
    pub fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    /// The units at `rows`, in that order.
    pub fn select(&self, rows: &[u32]) -> Result<Self> {
        let index = Tensor::new(rows, self.x[0].device())?;
        let pick = |view: &Tensor| view.index_select(&index, 0);
        let x = [pick(&self.x[0])?, pick(&self.x[1])?, pick(&self.x[2])?];
        let present = rows.iter().map(|row| self.present[*row as usize]).collect();
        Ok(Self { x, present })
    }
}

/// Zeroes the rows whose view is absent. Whatever stood there, NaN included, then cannot reach a
/// weight's gradient, where it would be multiplied by zero.
fn clear(view: &Tensor, present: &[Presence], slot: usize) -> Result<Tensor> {
    if present.iter().all(|p| p[slot]) {
        return Ok(view.clone());
    }
    let keep: Vec<u8> = present.iter().map(|p| u8::from(p[slot])).collect();
    let keep = Tensor::new(keep, view.device())?.unsqueeze(1)?.broadcast_as(view.shape())?;
    Ok(keep.where_cond(view, &view.zeros_like()?)?)
}

/// One number for each unit as a tensor `[N]` beside `like`.
pub(super) fn column(values: &[f64], like: &Tensor) -> Result<Tensor> {
    Ok(Tensor::new(values, &candle_core::Device::Cpu)?.to_dtype(like.dtype())?.to_device(like.device())?)
}

/// What the encoder is trained on.
#[derive(Debug, Clone)]
pub struct TrainData {
    /// The units.
    pub units: ViewBatch,
    /// The episode of each unit. Units of one episode are near duplicates, so the held-out split
    /// never separates them.
    pub groups: Vec<String>,
}

impl TrainData {
    /// Puts units and their groups together.
    ///
    /// # Errors
    /// [`EncoderError::Shape`] when there is not one group for each unit.
    pub fn new(units: ViewBatch, groups: Vec<String>) -> Result<Self> {
        if groups.len() != units.len() {
            let (found, expected) = (vec![groups.len()], vec![units.len()]);
            return Err(EncoderError::Shape { what: "groups".to_owned(), found, expected });
        }
        Ok(Self { units, groups })
    }

    /// Rows to train on and rows held out, each in ascending order.
    ///
    /// Groups are ranked by a seeded hash of their name and the first `share` of them held out: at
    /// least one where `share > 0`, at most all but one. With a single group nothing is held out.
    pub fn split(&self, share: f64, seed: u64) -> (Vec<u32>, Vec<u32>) {
        let rank = |group: &'_ String| (xxh3_64_with_seed(group.as_bytes(), seed), group.clone());
        let mut ranked: Vec<_> = self.groups.iter().map(rank).collect();
        ranked.sort_unstable();
        ranked.dedup();
        let most = ranked.len().saturating_sub(1);
        let held = if share > 0.0 { ((ranked.len() as f64 * share).round() as usize).max(1) } else { 0 };
        let held = &ranked[..held.min(most)];
        let rows = 0..self.groups.len() as u32;
        rows.partition(|row| held.binary_search(&rank(&self.groups[*row as usize])).is_err())
    }

    /// Precision of the views.
    pub fn dtype(&self) -> DType {
        self.units.x[0].dtype()
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;
    use proptest::prelude::*;

    use super::*;

    fn zeros(rows: usize) -> [Tensor; 3] {
        [0; 3].map(|_| Tensor::zeros((rows, 2), DType::F32, &Device::Cpu).unwrap())
    }

    #[test]
    fn a_unit_without_views_is_refused_by_row() {
        let present = vec![[true; 3], [false; 3]];
        let error = ViewBatch::new(zeros(2), present).unwrap_err();
        assert!(matches!(error, EncoderError::NoView { row: 1 }), "{error}");
    }

    #[test]
    fn views_of_other_shapes_are_refused_by_name() {
        let [a, b, _] = zeros(2);
        let wide = Tensor::zeros((2, 3), DType::F32, &Device::Cpu).unwrap();
        let error = ViewBatch::new([a, b, wide], vec![[true; 3]; 2]).unwrap_err();
        assert!(error.to_string().contains("view `description` has shape [2, 3]"), "{error}");
    }

    #[test]
    fn absent_rows_are_cleared_even_of_nan() {
        let bad = Tensor::new(&[[1f32, 2.0], [f32::NAN, f32::INFINITY]], &Device::Cpu).unwrap();
        let [a, b, _] = zeros(2);
        let batch = ViewBatch::new([a, b, bad], vec![[true; 3], [true, true, false]]).unwrap();
        assert_eq!(batch.x()[2].to_vec2::<f32>().unwrap(), [[1.0, 2.0], [0.0, 0.0]]);
        let picked = batch.select(&[1, 0, 1]).unwrap();
        assert_eq!(picked.present(), [[true, true, false], [true; 3], [true, true, false]]);
    }

    proptest! {
        #[test]
        fn a_split_keeps_groups_whole(groups in prop::collection::vec("[a-f]", 1..40), share in 0.0..0.9f64, seed: u64) {
            let units = ViewBatch::new(zeros(groups.len()), vec![[true; 3]; groups.len()]).unwrap();
            let data = TrainData::new(units, groups.clone()).unwrap();
            let (train, held) = data.split(share, seed);
            prop_assert!(!train.is_empty());
            prop_assert_eq!(train.len() + held.len(), groups.len());
            for row in &held {
                prop_assert!(train.iter().all(|other| groups[*other as usize] != groups[*row as usize]));
            }
            let several = groups.iter().any(|group| group != &groups[0]);
            prop_assert_eq!(!held.is_empty(), several && share > 0.0);
        }
    }
}
