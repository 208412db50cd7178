//! Safetensors: the encoder alone, and the whole state of a training run.

use std::collections::{BTreeMap, HashMap};

use candle_core::{Device, Tensor};
use safetensors::SafeTensors;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::optim::AdamW;

use super::config::{EncoderConfig, TrainConfig};
use super::error::{EncoderError, Result};
use super::model::Encoder;

/// The only metadata key: with more, the order in the file would vary from run to run.
const METADATA_KEY: &str = "tracemill";

/// The last epoch that was better than all before it: by its loss, or by its retrieval.
#[derive(Debug, Clone)]
pub struct BestEpoch {
    /// Its number, from 1.
    pub epoch: usize,
    /// The lowest total loss so far, on held-out units, or in training where nothing is held out.
    pub loss: f64,
    /// The best retrieval so far on held-out units.
    pub retrieval: Option<f64>,
    /// The parameters after it.
    pub tensors: BTreeMap<String, Tensor>,
}

/// The state of a training run after an epoch: enough to continue it to the same bytes.
#[derive(Debug)]
pub struct Checkpoint {
    /// The settings of the run.
    pub config: TrainConfig,
    /// The encoder as it is now.
    pub encoder: Encoder,
    /// The optimizer with its moments.
    pub optimizer: AdamW,
    /// Epochs done.
    pub epoch: usize,
    /// Epochs since the best one.
    pub stale: usize,
    /// The best epoch; `None` before the first finite loss.
    pub best: Option<BestEpoch>,
    /// Units of the data it was trained on.
    pub units: usize,
}

#[derive(Serialize, Deserialize)]
struct EncoderHeader {
    encoder: EncoderConfig,
}

#[derive(Serialize, Deserialize)]
struct Header {
    encoder: EncoderConfig,
    train: TrainConfig,
    epoch: usize,
    stale: usize,
    best: Option<(usize, f64, Option<f64>)>,
    units: usize,
    steps: u64,
    updates: BTreeMap<String, u64>,
}

impl Encoder {
    /// The parameters and the configuration as the bytes of a safetensors file, the same for the same
    /// encoder.
    pub fn to_safetensors(&self) -> Result<Vec<u8>> {
        write(&self.tensors()?, &EncoderHeader { encoder: self.config().clone() })
    }

    /// An encoder from such bytes.
    ///
    /// # Errors
    /// [`EncoderError::Checkpoint`] for other bytes, [`EncoderError::MissingTensor`] and
    /// [`EncoderError::Shape`] for an incomplete one.
    pub fn from_safetensors(bytes: &[u8], device: &Device) -> Result<Self> {
        let (header, tensors) = read::<EncoderHeader>(bytes, device)?;
        Self::from_tensors(header.encoder, &tensors)
    }
}

impl Checkpoint {
    /// The state as the bytes of a safetensors file, the same for the same state.
    pub fn to_safetensors(&self) -> Result<Vec<u8>> {
        let (moments, updates) = self.optimizer.state();
        let mut tensors = prefixed("model", self.encoder.tensors()?);
        tensors.extend(prefixed("adamw", moments));
        tensors.extend(self.best.iter().flat_map(|best| prefixed("best", best.tensors.clone())));
        let header = Header {
            encoder: self.encoder.config().clone(),
            train: self.config.clone(),
            epoch: self.epoch,
            stale: self.stale,
            best: self.best.as_ref().map(|best| (best.epoch, best.loss, best.retrieval)),
            units: self.units,
            steps: self.optimizer.steps(),
            updates,
        };
        write(&tensors, &header)
    }

    /// A state from such bytes.
    ///
    /// # Errors
    /// As [`Encoder::from_safetensors`].
    pub fn from_safetensors(bytes: &[u8], device: &Device) -> Result<Self> {
        let (header, tensors) = read::<Header>(bytes, device)?;
        let mut parts: BTreeMap<String, BTreeMap<String, Tensor>> = BTreeMap::new();
        for (name, tensor) in tensors {
            let (part, name) = name.split_once('/').unwrap_or(("", &name));
            parts.entry(part.to_owned()).or_default().insert(name.to_owned(), tensor);
        }
        let mut take = |part: &str| parts.remove(part).unwrap_or_default();
        let encoder = Encoder::from_tensors(header.encoder, &take("model"))?;
        let optimizer =
            AdamW::restore(header.train.optimizer(), header.steps, &header.updates, &mut take("adamw"))?;
        let best = header.best.map(|(epoch, loss, retrieval)| BestEpoch {
            epoch,
            loss,
            retrieval,
            tensors: take("best"),
        });
        let Header { train: config, epoch, stale, units, .. } = header;
        Ok(Self { config, encoder, optimizer, epoch, stale, best, units })
    }

    /// The encoder of the best epoch, or the present one before the first finite loss.
    pub fn best_encoder(&self) -> Result<Encoder> {
        match &self.best {
            Some(best) => Encoder::from_tensors(self.encoder.config().clone(), &best.tensors),
            None => Encoder::from_tensors(self.encoder.config().clone(), &self.encoder.tensors()?),
        }
    }
}

fn prefixed(part: &str, tensors: BTreeMap<String, Tensor>) -> BTreeMap<String, Tensor> {
    tensors.into_iter().map(|(name, tensor)| (format!("{part}/{name}"), tensor)).collect()
}

fn write<H: Serialize>(tensors: &BTreeMap<String, Tensor>, header: &H) -> Result<Vec<u8>> {
    let header = serde_json::to_string(header).map_err(|e| EncoderError::Checkpoint(e.to_string()))?;
    let metadata = HashMap::from([(METADATA_KEY.to_owned(), header)]);
    safetensors::serialize(tensors, Some(metadata)).map_err(|e| EncoderError::Checkpoint(e.to_string()))
}

fn read<H: DeserializeOwned>(bytes: &[u8], device: &Device) -> Result<(H, BTreeMap<String, Tensor>)> {
    let refuse = |reason: String| EncoderError::Checkpoint(reason);
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| refuse(e.to_string()))?;
    let header = metadata.metadata().as_ref().and_then(|all| all.get(METADATA_KEY));
    let header = header.ok_or_else(|| refuse(format!("no `{METADATA_KEY}` metadata")))?;
    let header = serde_json::from_str(header).map_err(|e| refuse(e.to_string()))?;
    Ok((header, candle_core::safetensors::load_buffer(bytes, device)?.into_iter().collect()))
}
