//! Gradients over micro-batches, optimizer steps, and checkpoints that resume exactly.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Tensor};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracemill_models::optim::{AdamW, AdamWSettings, OptimError, Schedule};
use tracemill_models::policy::{Grads, Packed, Policy, TokenStats, TrainPass};

use crate::run::{write_atomically, write_json};

/// A policy with its optimizer.
pub struct Trainer {
    /// What learns.
    pub policy: Policy,
    adamw: AdamW,
    settings: AdamWSettings,
    schedule: Schedule,
    merges: bool,
    checkpointing: bool,
}

/// What a step did.
#[derive(Debug, Clone, Copy)]
pub struct StepReport {
    /// Global norm of the gradients before clipping.
    pub grad_norm: f64,
    /// Learning rate.
    pub lr: f64,
}

/// Sequences that are in work at once.
pub struct Micro<'a> {
    /// Their tokens.
    pub packed: &'a Packed,
    /// Which sequences they are, in order.
    pub ids: &'a [String],
    /// Where they are dumped if they give nothing finite.
    pub dump: &'a Path,
}

impl Micro<'_> {
    /// The sequence that a target belongs to.
    fn id_of(&self, target: usize) -> &str {
        let targets = self.packed.targets();
        let wanted = targets.get(target).map(|t| t.sequence);
        wanted.and_then(|s| self.ids.get(s)).map_or("a batch", String::as_str)
    }
}

/// Writes a batch that gives nothing finite: ids, tokens, and the tokens that were to be learned.
fn dump<'a>(micros: &[Micro<'a>]) -> Result<&'a Path> {
    let path = micros.first().map_or(Path::new("batch.json"), |micro| micro.dump);
    let batch: Vec<_> = micros
        .iter()
        .map(|micro| {
            let targets: Vec<u32> = micro.packed.targets().iter().map(|target| target.token).collect();
            json!({ "ids": micro.ids, "tokens": micro.packed.tokens(), "learned": targets })
        })
        .collect();
    write_json(path, &batch)?;
    Ok(path)
}

impl Trainer {
    /// A trainer that has taken no step.
    ///
    /// # Errors
    /// When the merged weights cannot be made.
    pub fn new(
        mut policy: Policy,
        settings: AdamWSettings,
        schedule: Schedule,
        (merges, checkpointing): (bool, bool),
    ) -> Result<Self> {
        policy.merge(merges)?;
        let adamw = AdamW::new(settings.clone());
        Ok(Self { policy, adamw, settings, schedule, merges, checkpointing })
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.adamw.steps()
    }

    /// Forward and backward of one micro-batch: `loss` turns log-probabilities of its targets into their gradients.
    /// Gradients are added to `grads`.
    ///
    /// # Errors
    /// Those of the policy and of `loss`.
    pub fn accumulate(
        &self,
        micro: &Micro<'_>,
        pass: TrainPass,
        grads: &mut Grads,
        loss: impl FnOnce(&TokenStats) -> Result<Vec<f32>>,
    ) -> Result<()> {
        let pass = TrainPass { checkpointing: self.checkpointing, ..pass };
        let forward = self.policy.forward(micro.packed, pass)?;
        if let Some(at) = forward.stats().logp.iter().position(|x| !x.is_finite()) {
            let path = dump(std::slice::from_ref(micro))?;
            let tensor = match self.first_bad_weight()? {
                Some(name) => format!("`{name}` is the first tensor that is not finite"),
                None => "every trained tensor is finite: look at the model's own weights".to_owned(),
            };
            bail!(
                "a log-probability of {} is not finite; {tensor}; the batch is in {}",
                micro.id_of(at),
                path.display()
            );
        }
        let d_logp = loss(forward.stats())?;
        for (name, grad) in self.policy.backward(forward, &d_logp)? {
            let sum = match grads.remove(&name) {
                Some(before) => (before + grad)?,
                None => grad,
            };
            grads.insert(name, sum);
        }
        Ok(())
    }

    fn first_bad_weight(&self) -> Result<Option<&str>> {
        for (name, var) in self.policy.vars() {
            // A sum of finite numbers of this size is finite.
            let sum = var.as_detached_tensor().to_dtype(DType::F64)?.abs()?.sum_all()?.to_scalar::<f64>()?;
            if !sum.is_finite() {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// An optimizer step. A gradient that is not finite stops the run, and the batch is dumped.
    ///
    /// # Errors
    /// The first tensor whose gradient is not finite.
    pub fn step(&mut self, grads: &Grads, batch: &[Micro<'_>]) -> Result<StepReport> {
        let lr = self.settings.lr * self.schedule.factor(self.adamw.steps());
        self.adamw.set_lr(lr);
        let grad_norm = match self.adamw.step(self.policy.vars(), grads) {
            Ok(norm) => norm,
            Err(error @ OptimError::NonFiniteGradient { .. }) => {
                let path = dump(batch)?;
                bail!("{error}; the batch is in {}", path.display());
            }
            Err(error) => return Err(error.into()),
        };
        self.policy.merge(self.merges)?;
        Ok(StepReport { grad_norm, lr })
    }
}

/// The only metadata key of a checkpoint: with more, the order in the file would vary.
const METADATA_KEY: &str = "tracemill";

#[derive(Serialize, Deserialize)]
struct Header<C> {
    steps: u64,
    updates: BTreeMap<String, u64>,
    cursor: C,
}

/// Checkpoints of a run: the last few, and the best.
pub struct Checkpoints {
    folder: PathBuf,
    keep: usize,
}

impl Checkpoints {
    /// Checkpoints in `folder`, of which the last `keep` stay.
    pub fn new(folder: &Path, keep: usize) -> Self {
        Self { folder: folder.to_owned(), keep: keep.max(1) }
    }

    /// Where the batch of a step that cannot be taken is dumped.
    pub fn dump_path(&self, step: u64) -> PathBuf {
        self.folder.join(format!("batch-{step:08}.json"))
    }

    /// Writes the state after a step, and removes the oldest. The file appears only when it is whole.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save<C: Serialize>(&self, trainer: &Trainer, cursor: &C, best: bool) -> Result<()> {
        let bytes = trainer.to_bytes(cursor)?;
        let name = format!("step-{:08}.safetensors", trainer.steps());
        // The best first: killed in between, the run does the step again and writes it again.
        if best {
            write_atomically(&self.folder.join("best.safetensors"), &bytes)?;
        }
        write_atomically(&self.folder.join(&name), &bytes)?;
        let steps = self.steps()?;
        for (_, path) in &steps[..steps.len().saturating_sub(self.keep)] {
            std::fs::remove_file(path).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    fn steps(&self) -> Result<Vec<(u64, PathBuf)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.folder).with_context(|| self.folder.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            let step = name.strip_prefix("step-").and_then(|n| n.strip_suffix(".safetensors"));
            if let Some(step) = step.and_then(|n| n.parse().ok()) {
                found.push((step, path));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Puts the last state back; returns where the run was.
    ///
    /// # Errors
    /// When a checkpoint cannot be read, or is of another model.
    pub fn resume<C: DeserializeOwned>(&self, trainer: &mut Trainer) -> Result<Option<C>> {
        let Some((_, path)) = self.steps()?.pop() else { return Ok(None) };
        self.restore(&path, trainer).map(Some)
    }

    /// Puts the best state back, if there is one.
    ///
    /// # Errors
    /// As [`Self::resume`].
    pub fn best<C: DeserializeOwned>(&self, trainer: &mut Trainer) -> Result<Option<C>> {
        let path = self.folder.join("best.safetensors");
        if path.is_file() { self.restore(&path, trainer).map(Some) } else { Ok(None) }
    }

    fn restore<C: DeserializeOwned>(&self, path: &Path, trainer: &mut Trainer) -> Result<C> {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        trainer.restore(&bytes).with_context(|| format!("checkpoint {}", path.display()))
    }
}

impl Trainer {
    fn to_bytes<C: Serialize>(&self, cursor: &C) -> Result<Vec<u8>> {
        let (moments, updates) = self.adamw.state();
        let header = serde_json::to_string(&Header { steps: self.adamw.steps(), updates, cursor })?;
        let mut tensors: BTreeMap<String, Tensor> =
            moments.into_iter().map(|(name, t)| (format!("adamw/{name}"), t)).collect();
        let vars = self.policy.vars().iter();
        tensors.extend(vars.map(|(name, var)| (format!("policy/{name}"), var.as_detached_tensor())));
        let tensors: BTreeMap<String, Tensor> = tensors
            .into_iter()
            .map(|(name, t)| Ok((name, t.to_device(&Device::Cpu)?.contiguous()?)))
            .collect::<Result<_>>()?;
        let metadata = HashMap::from([(METADATA_KEY.to_owned(), header)]);
        Ok(safetensors::serialize(&tensors, Some(metadata))?)
    }

    fn restore<C: DeserializeOwned>(&mut self, bytes: &[u8]) -> Result<C> {
        let (_, metadata) = safetensors::SafeTensors::read_metadata(bytes)?;
        let header = metadata.metadata().as_ref().and_then(|all| all.get(METADATA_KEY));
        let header: Header<C> = serde_json::from_str(header.context("it has no state of a run")?)?;
        let tensors = candle_core::safetensors::load_buffer(bytes, self.policy.device())?;
        let mut moments = BTreeMap::new();
        let mut weights = BTreeMap::new();
        for (name, tensor) in tensors {
            match name.split_once('/') {
                Some(("adamw", name)) => moments.insert(name.to_owned(), tensor),
                Some((_, name)) => weights.insert(name.to_owned(), tensor),
                None => bail!("it has a tensor `{name}` that is neither the policy's nor the optimizer's"),
            };
        }
        for (name, var) in self.policy.vars() {
            let tensor = weights.get(name).with_context(|| format!("it has no tensor `{name}`"))?;
            var.set(tensor)?;
        }
        self.adamw = AdamW::restore(self.settings.clone(), header.steps, &header.updates, &mut moments)?;
        self.policy.merge(self.merges)?;
        Ok(header.cursor)
    }
}
