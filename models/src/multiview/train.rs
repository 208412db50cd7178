//! The training loop: seeded order and dropout, early stopping on held-out episodes, exact resume.

use std::ops::ControlFlow;

use candle_core::DType;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::batch::TrainData;
use super::checkpoint::{BestEpoch, Checkpoint};
use crate::optim::AdamW;

use super::config::{EncoderConfig, TrainConfig};
use super::error::{EncoderError, Result};
use super::losses::Loss;
use super::model::Encoder;
use super::random::{Purpose, stream};
use super::{PAIRS, ops};

/// Losses of Eq. 2, averaged over batches by their number of units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LossTerms {
    /// The weighted sum that is trained on.
    pub total: f64,
    /// `L_con`.
    pub contrastive: f64,
    /// `L_pred`, where the variant has it.
    pub prediction: Option<f64>,
    /// `L_rec`, where the variant has it.
    pub reconstruction: Option<f64>,
    /// Ordered pairs of slots without two units in a batch, summed over the batches: they have no
    /// part in `L_con`.
    pub skipped_pairs: usize,
    /// Units averaged over.
    pub units: usize,
}

impl LossTerms {
    fn add(&mut self, loss: &Loss, units: usize) {
        let value = |name: &str| loss.metrics.get(name).copied();
        let before = self.units as f64;
        self.units += units;
        let now = self.units as f64;
        let mean = |old: f64, new: f64| (old * before + new * units as f64) / now;
        self.total = mean(self.total, value("total").unwrap_or(0.0));
        self.contrastive = mean(self.contrastive, value("contrastive").unwrap_or(0.0));
        self.prediction = value("prediction").map(|new| mean(self.prediction.unwrap_or(0.0), new));
        self.reconstruction =
            value("reconstruction").map(|new| mean(self.reconstruction.unwrap_or(0.0), new));
        self.skipped_pairs += value("skipped_pairs").unwrap_or(0.0) as usize;
    }
}

/// What is recorded of an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpochMetrics {
    /// Its number, from 1.
    pub epoch: usize,
    /// Optimizer steps since the start.
    pub steps: u64,
    /// Losses on the training units, dropout on, each batch before its step.
    pub train: LossTerms,
    /// Losses on the held-out units after the epoch, dropout off.
    pub held_out: Option<LossTerms>,
    /// How well one view of a held-out unit finds another among all held-out units: the mean
    /// reciprocal rank by cosine, over ordered pairs of views. Equal views share the best rank.
    pub held_out_retrieval: Option<f64>,
    /// Global norm of the gradients before clipping, averaged over the steps.
    pub grad_norm: f64,
    /// The best epoch so far, from 1; 0 before the first finite loss.
    pub best_epoch: usize,
    /// Epochs since then.
    pub stale: usize,
}

/// Why training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All epochs are done.
    Epochs,
    /// Neither loss nor retrieval has improved for `patience` epochs.
    Patience,
    /// The callback asked for it.
    Callback,
}

/// A finished training run.
#[derive(Debug)]
pub struct TrainOutcome {
    /// The encoder of the best epoch.
    pub encoder: Encoder,
    /// The last state, from which training can continue.
    pub checkpoint: Checkpoint,
    /// Why it ended.
    pub ended: Ended,
    /// Units trained on.
    pub trained_units: usize,
    /// Units held out.
    pub held_out_units: usize,
}

/// Trains an encoder.
///
/// The same data, settings and seed give the same parameters, bit for bit, on one machine's CPU,
/// with any number of threads, and whether or not the run was cut into several by `resume`.
///
/// `on_epoch` is called after every epoch with its metrics and the state to save; breaking ends the
/// run.
///
/// # Errors
/// [`EncoderError::NoData`]; [`EncoderError::Setting`]; [`EncoderError::Resume`] when the checkpoint
/// is of other settings (epochs and patience may change) or another number of units;
/// [`EncoderError::Optimizer`].
pub fn train(
    data: &TrainData,
    encoder: &EncoderConfig,
    config: &TrainConfig,
    resume: Option<Checkpoint>,
    on_epoch: &mut dyn FnMut(&EpochMetrics, &Checkpoint) -> ControlFlow<()>,
) -> Result<TrainOutcome> {
    config.validate()?;
    if data.units.is_empty() {
        return Err(EncoderError::NoData);
    }
    let mut state = match resume {
        Some(checkpoint) => continued(checkpoint, data, encoder, config)?,
        None => started(data, encoder, config)?,
    };
    let (rows, held) = data.split(config.holdout, config.seed);
    let ended = loop {
        if state.best.is_some() && state.stale >= config.patience {
            break Ended::Patience;
        }
        if state.epoch >= config.epochs {
            break Ended::Epochs;
        }
        let metrics = run_epoch(&mut state, data, &rows, &held)?;
        if on_epoch(&metrics, &state).is_break() {
            break Ended::Callback;
        }
    };
    let encoder = state.best_encoder()?;
    Ok(TrainOutcome {
        encoder,
        checkpoint: state,
        ended,
        trained_units: rows.len(),
        held_out_units: held.len(),
    })
}

fn started(data: &TrainData, encoder: &EncoderConfig, config: &TrainConfig) -> Result<Checkpoint> {
    Ok(Checkpoint {
        config: config.clone(),
        encoder: Encoder::new(encoder.clone(), config.seed, data.dtype(), data.units.x()[0].device())?,
        optimizer: AdamW::new(config.optimizer()),
        epoch: 0,
        stale: 0,
        best: None,
        units: data.units.len(),
    })
}

fn continued(
    mut checkpoint: Checkpoint,
    data: &TrainData,
    encoder: &EncoderConfig,
    config: &TrainConfig,
) -> Result<Checkpoint> {
    let differs = |what, now: String, then: String| Err(EncoderError::Resume { what, now, then });
    if checkpoint.encoder.config() != encoder {
        let then = format!("{:?}", checkpoint.encoder.config());
        return differs("the encoder", format!("{encoder:?}"), then);
    }
    let TrainConfig { epochs, patience, .. } = *config;
    checkpoint.config = TrainConfig { epochs, patience, ..checkpoint.config };
    if checkpoint.config != *config {
        return differs("the training settings", format!("{config:?}"), format!("{:?}", checkpoint.config));
    }
    if checkpoint.units != data.units.len() {
        return differs("the number of units", data.units.len().to_string(), checkpoint.units.to_string());
    }
    Ok(checkpoint)
}

fn run_epoch(state: &mut Checkpoint, data: &TrainData, rows: &[u32], held: &[u32]) -> Result<EpochMetrics> {
    let (config, epoch) = (state.config.clone(), state.epoch);
    let mut order = rows.to_vec();
    order.shuffle(&mut stream(config.seed, Purpose::Order, epoch, 0));
    let (mut train, mut norms) = (LossTerms::default(), 0.0);
    for (batch, rows) in order.chunks(config.batch_size).enumerate() {
        let units = data.units.select(rows)?;
        let mut dropout = stream(config.seed, Purpose::Dropout, epoch, batch);
        let loss = state.encoder.losses(&units, &config, Some(&mut dropout))?;
        norms += state.optimizer.step(state.encoder.vars(), &loss.loss.backward()?)?;
        train.add(&loss, rows.len());
    }
    let held_out = evaluate(state, data, held)?;
    let held_out_retrieval = retrieval(&state.encoder, data, held)?;
    state.epoch += 1;
    keep_best(state, held_out.unwrap_or(train).total, held_out_retrieval)?;
    Ok(EpochMetrics {
        epoch: state.epoch,
        steps: state.optimizer.steps(),
        train,
        held_out,
        held_out_retrieval,
        grad_norm: norms / order.len().div_ceil(config.batch_size) as f64,
        best_epoch: state.best.as_ref().map_or(0, |best| best.epoch),
        stale: state.stale,
    })
}

fn evaluate(state: &Checkpoint, data: &TrainData, held: &[u32]) -> Result<Option<LossTerms>> {
    let mut terms = LossTerms::default();
    for rows in held.chunks(state.config.batch_size) {
        let loss = state.encoder.losses(&data.units.select(rows)?, &state.config, None)?;
        terms.add(&loss, rows.len());
    }
    Ok((!held.is_empty()).then_some(terms))
}

/// Held-out units that are ranked among each other, at most.
const RANKED: usize = 1_024;

/// See [`EpochMetrics::held_out_retrieval`].
fn retrieval(encoder: &Encoder, data: &TrainData, held: &[u32]) -> Result<Option<f64>> {
    let held = &held[..held.len().min(RANKED)];
    if held.is_empty() {
        return Ok(None);
    }
    let units = data.units.select(held)?;
    let z = encoder.views(&units, None)?;
    let unit = [ops::unit_rows(&z[0])?, ops::unit_rows(&z[1])?, ops::unit_rows(&z[2])?];
    let (mut sum, mut ranked) = (0.0, 0_usize);
    for (p, q) in PAIRS {
        let cosines = unit[p].matmul(&unit[q].t()?)?.to_dtype(DType::F32)?.to_vec2::<f32>()?;
        let both: Vec<usize> =
            (0..held.len()).filter(|&i| units.present()[i][p] && units.present()[i][q]).collect();
        for &i in &both {
            let better = both.iter().filter(|&&j| cosines[i][j] > cosines[i][i] + 1e-6).count();
            sum += 1.0 / (better + 1) as f64;
        }
        ranked += both.len();
    }
    Ok((ranked > 0).then(|| sum / ranked as f64))
}

/// Keeps the epoch if its loss or its retrieval is better than ever. The contrastive loss alone would
/// stop too early: on few units it rises with over-confidence long before its latents stop getting
/// better.
fn keep_best(state: &mut Checkpoint, loss: f64, retrieval: Option<f64>) -> Result<()> {
    let lower = loss.is_finite() && state.best.as_ref().is_none_or(|best| loss < best.loss);
    let finds_more = state.best.as_ref().is_some_and(|best| retrieval > best.retrieval);
    if lower || finds_more {
        let (least, most) = match &state.best {
            Some(best) => (best.loss.min(loss), if finds_more { retrieval } else { best.retrieval }),
            None => (loss, retrieval),
        };
        let tensors = state.encoder.tensors()?;
        state.best = Some(BestEpoch { epoch: state.epoch, loss: least, retrieval: most, tensors });
        state.stale = 0;
    } else {
        state.stale += 1;
    }
    Ok(())
}
