//! The encoder's input: for every unit the vectors of its three slots, and the tags it is judged
//! by.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use candle_core::{Device, Tensor};
use tracemill_data::parquet_io::{read_batches, read_vectors};
use tracemill_data::views::{Unit, View};
use tracemill_models::multiview::{Encoder, Presence, TrainData, ViewBatch};

use crate::run::{Run, StageInput};

/// Units encoded at a time: bounds the hidden activations, not the result.
const ENCODE_ROWS: usize = 8_192;

/// What the encoder reads of a run.
pub const INPUTS: [StageInput; 5] = [
    StageInput::FromStage("units/units.parquet", "label"),
    StageInput::FromStage("embeddings/env.parquet", "embed"),
    StageInput::FromStage("embeddings/action.parquet", "embed"),
    StageInput::FromStage("embeddings/keyword.parquet", "embed"),
    StageInput::FromStage("embeddings/description.parquet", "embed"),
];

/// Units with at least one view, in file order.
pub struct UnitViews {
    /// Ids.
    pub unit_ids: Vec<String>,
    /// The episode of each: what a held-out split keeps whole.
    pub episode_ids: Vec<String>,
    /// Application or site of each, empty when the source names none.
    pub env_tags: Vec<String>,
    /// Canonical verb sequence of each.
    pub act_tags: Vec<String>,
    /// Units that have no view and are left out.
    pub without_views: usize,
    /// Dimension of a view's vector.
    pub dim: usize,
    present: Vec<Presence>,
    slots: [Vec<f32>; 3],
}

impl UnitViews {
    /// Reads units and embeddings.
    ///
    /// # Errors
    /// When a file is missing, or a view's dimension differs from the others'.
    pub fn load(run: &Run) -> Result<Self> {
        let (vectors, dim) = load_vectors(run)?;
        let mut out = Self {
            unit_ids: Vec::new(),
            episode_ids: Vec::new(),
            env_tags: Vec::new(),
            act_tags: Vec::new(),
            without_views: 0,
            dim,
            present: Vec::new(),
            slots: Default::default(),
        };
        for batch in read_batches::<Unit>(&run.require("units/units.parquet", "label")?)? {
            for unit in batch? {
                out.push(unit, &vectors);
            }
        }
        if out.unit_ids.is_empty() {
            bail!("no unit has a view: nothing to encode");
        }
        Ok(out)
    }

    fn push(&mut self, unit: Unit, vectors: &HashMap<(usize, String), Vec<f32>>) {
        let views = [View::Env, unit.middle(), View::Description];
        let rows = views.map(|view| vectors.get(&(view as usize, unit.unit_id.clone())));
        if rows.iter().all(Option::is_none) {
            self.without_views += 1;
            return;
        }
        for (slot, row) in self.slots.iter_mut().zip(rows) {
            match row {
                Some(row) => slot.extend(row),
                None => slot.resize(slot.len() + self.dim, 0.0),
            }
        }
        self.present.push(rows.map(|row| row.is_some()));
        self.unit_ids.push(unit.unit_id);
        self.episode_ids.push(unit.episode_id);
        self.env_tags.push(unit.env_tag);
        self.act_tags.push(unit.act_tag);
    }

    /// Number of units.
    pub fn len(&self) -> usize {
        self.unit_ids.len()
    }

    /// True when there is none; [`UnitViews::load`] refuses that.
    pub fn is_empty(&self) -> bool {
        self.unit_ids.is_empty()
    }

    /// The three slots as tensors `[N, dim]` with their mask.
    ///
    /// # Errors
    /// Those of the device.
    pub fn batch(&self, device: &Device) -> Result<ViewBatch> {
        let tensor = |slot: usize| Tensor::from_slice(&self.slots[slot], (self.len(), self.dim), device);
        Ok(ViewBatch::new([tensor(0)?, tensor(1)?, tensor(2)?], self.present.clone())?)
    }

    /// The batch with the episodes that the split keeps whole.
    ///
    /// # Errors
    /// Those of the device.
    pub fn train_data(&self, device: &Device) -> Result<TrainData> {
        Ok(TrainData::new(self.batch(device)?, self.episode_ids.clone())?)
    }

    /// Raw embeddings without an encoder: views concatenated, rows of length 1. `slots` chooses the
    /// views; a missing one leaves zeros. Row-major `N × (3·dim)`.
    pub fn raw(&self, slots: &[usize]) -> Vec<f32> {
        let mut out = Vec::with_capacity(self.len() * slots.len() * self.dim);
        for i in 0..self.len() {
            let start = out.len();
            for &slot in slots {
                out.extend(&self.slots[slot][i * self.dim..(i + 1) * self.dim]);
            }
            let norm = out[start..].iter().map(|v| v * v).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            out[start..].iter_mut().for_each(|v| *v /= norm);
        }
        out
    }
}

type Keyed = HashMap<(usize, String), Vec<f32>>;

fn load_vectors(run: &Run) -> Result<(Keyed, usize)> {
    let mut keyed = Keyed::new();
    let mut dim = 0;
    for view in View::ALL {
        let path = run.require(&format!("embeddings/{}.parquet", view.name()), "embed")?;
        let vectors = read_vectors(&path, &["unit_id"])?;
        if vectors.is_empty() {
            continue;
        }
        if dim != 0 && dim != vectors.dim {
            bail!(
                "{}: {} values a vector, the other views {dim}; run `embed` again",
                path.display(),
                vectors.dim
            );
        }
        dim = vectors.dim;
        for (i, id) in vectors.ids.iter().enumerate() {
            keyed.insert((view as usize, id.clone()), vectors.row(i).to_vec());
        }
    }
    if dim == 0 {
        bail!("every view is empty: nothing to encode");
    }
    Ok((keyed, dim))
}

/// Latents of all units: fused and of the subgroup space, both of length 1, row-major.
pub struct UnitLatents {
    /// What intent groups are clustered on, and what retrieval compares.
    pub fused: Vec<f32>,
    /// What subgroups are clustered on.
    pub subgroup: Vec<f32>,
    /// Width of both.
    pub dim: usize,
}

/// Encodes every unit, a block at a time.
///
/// # Errors
/// Those of the encoder.
pub fn encode(encoder: &Encoder, batch: &ViewBatch) -> Result<UnitLatents> {
    let dim = encoder.config().dim;
    let mut out = UnitLatents { fused: Vec::new(), subgroup: Vec::new(), dim };
    let rows: Vec<u32> = (0..batch.len() as u32).collect();
    for block in rows.chunks(ENCODE_ROWS) {
        let latents = encoder.encode(&batch.select(block)?).context("encoding units")?;
        out.fused.extend(latents.fused_unit.flatten_all()?.to_vec1::<f32>()?);
        out.subgroup.extend(latents.subgroup_unit.flatten_all()?.to_vec1::<f32>()?);
    }
    Ok(out)
}
