//! Supervised warm-up (CES, section 5.1 and appendix B.2): the policy learns to answer in the form, from examples.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracemill_data::artifact::AgentRole;
use tracemill_models::optim::Schedule;
use tracemill_models::policy::{Dropout, Grads, Packed, Sampling, TrainPass};
use tracemill_models::rl::Profile;

use super::evaluate::{self, Asking, HeldOut};
use super::journal::{Journal, Transcript};
use super::memory::{self, Plan, free_bytes};
use super::model::{ChatFormat, Loaded, Opened, open, write_adapter};
use super::rows::{TrainRow, TrainSet, Wanted};
use super::settings::{GrpoSection, PolicySection, SftSection};
use super::trainer::{Checkpoints, Micro, Trainer};
use crate::progress;
use crate::reward::Rewarder;
use crate::run::{Draft, write_json};
use crate::settings::Settings;

/// The columns of `metrics.jsonl`.
const COLUMNS: [&str; 13] = [
    "step",
    "epoch",
    "loss",
    "tokens",
    "rows",
    "entropy",
    "grad_norm",
    "lr",
    "held_out_loss",
    "held_out_format",
    "held_out_reward",
    "held_out_executor",
    "held_out_length",
];

/// Where a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Cursor {
    /// Steps of the run that are done.
    step: u64,
    /// The lowest held-out loss so far.
    best: Option<f64>,
}

/// What the command line gives beside the settings.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// Pools to train on.
    pub data: Vec<PathBuf>,
    /// Pools to measure on.
    pub held_out: Vec<PathBuf>,
    /// The role.
    pub role: AgentRole,
}

/// Model and rows, ready to be trained.
pub(super) struct Prepared {
    pub opened: Opened,
    pub set: TrainSet,
    /// What rows must be.
    pub wanted: Wanted,
}

/// Opens the model and reads the rows.
pub(super) fn prepare(settings: &Settings, inputs: &Inputs, kind: &Kind<'_>) -> Result<Prepared> {
    let policy = &settings.policy;
    let source =
        policy.model.as_deref().context("no model: give --model a Hugging Face folder or a .gguf file")?;
    let opened = open(source, &policy.template)?;
    let positions = opened.config.max_positions;
    let (replies, max_tokens, room) = match kind {
        Kind::Sft(section) => (true, section.max_tokens, section.eval_max_tokens),
        Kind::Grpo(section) => {
            (false, section.max_prompt.unwrap_or(8_192), section.max_response.unwrap_or(256))
        }
    };
    let wanted = Wanted { role: inputs.role, replies, max_tokens, room, positions };
    let set = TrainSet::read(&inputs.data, &inputs.held_out, &opened.chat, wanted)?;
    Ok(Prepared { opened, set, wanted })
}

/// How a policy is trained.
pub(super) enum Kind<'a> {
    Sft(&'a SftSection),
    Grpo(&'a GrpoSection),
}

impl Prepared {
    /// The memory a run needs.
    fn needed(&self, settings: &Settings, kind: &Kind<'_>) -> Result<memory::Estimate> {
        let policy = &settings.policy;
        let (_, dtype) = policy.place()?;
        let prompt = self.set.train.iter().map(|row| row.prompt.len()).max().unwrap_or(0);
        let longest = self.set.train.iter().map(TrainRow::tokens).max().unwrap_or(0);
        // Rows and groups are not cut: what is longer than a micro-batch is one by itself.
        let (alone, cached) = match kind {
            Kind::Sft(_) => (longest, 16 * (prompt + self.wanted.room)),
            Kind::Grpo(section) => {
                let outputs = section.rollouts() * self.wanted.room;
                (prompt + outputs, section.prompts() * (prompt + outputs))
            }
        };
        Ok(memory::estimate(Plan {
            model: &self.opened.config,
            lora: &policy.lora,
            bytes: dtype.size_in_bytes() as u64,
            merge: policy.merges(dtype),
            checkpointing: policy.checkpointing,
            tokens: policy.micro_tokens.max(alone) as u64,
            cached: cached as u64,
        }))
    }

    /// Says how much memory the run needs, warns if it is not there, and reads the weights.
    pub fn load(self, settings: &Settings, kind: &Kind<'_>) -> Result<(Loaded, TrainSet)> {
        let policy = &settings.policy;
        let estimate = self.needed(settings, kind)?;
        log::info!("{estimate}");
        if let Some(warning) = estimate.warning(free_bytes(&policy.device)) {
            log::warn!("{warning}");
        }
        let (device, dtype) = policy.place()?;
        Ok((self.opened.load(dtype, &device)?, self.set))
    }
}

/// What `--dry-run` says: the resolved settings, the rows, and the memory. No weight is read for it.
///
/// # Errors
/// A model or rows that cannot be read.
pub fn dry_run(settings: &Settings, inputs: &Inputs, is_grpo: bool) -> Result<String> {
    let grpo = settings.grpo.resolved(inputs.role)?;
    let (section, kind) = if is_grpo {
        (json!({ "grpo": grpo }), Kind::Grpo(&grpo))
    } else {
        (json!({ "sft": settings.sft }), Kind::Sft(&settings.sft))
    };
    let prepared = prepare(settings, inputs, &kind)?;
    let estimate = prepared.needed(settings, &kind)?;
    let set = &prepared.set;
    let resolved = json!({ "policy": settings.policy, "train": section, "reward": settings.reward });
    let longest = set.train.iter().map(TrainRow::tokens).max().unwrap_or(0);
    let mut text = serde_json::to_string_pretty(&resolved)?;
    text += &format!(
        "\n{} rows to train on (the longest has {longest} tokens), {} held out, {} left out\n{estimate}",
        set.train.len(),
        set.held_out.len(),
        set.rejects.len()
    );
    if let Some(warning) = estimate.warning(free_bytes(&settings.policy.device)) {
        text += &format!("\nwarning: {warning}");
    }
    Ok(text)
}

struct Sft<'a> {
    section: &'a SftSection,
    policy: &'a PolicySection,
    seed: u64,
    chat: ChatFormat,
    trainer: Trainer,
    rows: Vec<TrainRow>,
    held_out: Vec<TrainRow>,
    profile: &'static Profile,
    rewarder: Option<Rewarder>,
    journal: Journal,
    checkpoints: Checkpoints,
    cursor: Cursor,
}

/// Trains an adapter on the replies of exported rows.
///
/// # Errors
/// Rows or a model that cannot be used, a gradient that is not finite.
pub fn sft(settings: &Settings, inputs: &Inputs, draft: &mut Draft) -> Result<()> {
    let (section, policy) = (&settings.sft, &settings.policy);
    let kind = Kind::Sft(section);
    let mut prepared = prepare(settings, inputs, &kind)?;
    write_rejects(draft, &prepared.set)?;
    thin(&mut prepared.set.train, section.rows, settings.seed);
    let (mut loaded, set) = prepared.load(settings, &kind)?;
    match &policy.adapter {
        Some(folder) => loaded.adapt(folder)?,
        None => loaded.policy.add_lora(&policy.lora, settings.seed)?,
    }
    let steps = (set.train.len().div_ceil(section.batch_rows.max(1)) * section.epochs) as u64;
    let warmup_steps = (section.warmup * steps as f64).ceil() as u64;
    let schedule = Schedule { warmup_steps, total_steps: steps, decay: section.decay };
    let merges = policy.merges(loaded.policy.dtype());
    let mut trainer =
        Trainer::new(loaded.policy, section.optimizer(), schedule, (merges, policy.checkpointing))?;
    let checkpoints = Checkpoints::new(draft.work_dir(), section.keep);
    let cursor: Cursor = checkpoints.resume(&mut trainer)?.unwrap_or_default();
    draft.count("rows", set.train.len());
    draft.count("held_out_rows", set.held_out.len());
    draft.count("rejected_rows", set.rejects.len());
    draft.count("steps", steps);
    let run = Sft {
        section,
        policy,
        seed: settings.seed,
        chat: loaded.chat,
        trainer,
        rows: set.train,
        held_out: set.held_out,
        profile: Profile::named(&settings.reward.profile).map_err(anyhow::Error::msg)?,
        rewarder: rewarder(settings, inputs.role)?,
        journal: Journal::open(draft, &COLUMNS, cursor.step)?,
        checkpoints,
        cursor,
    };
    run.run(steps, draft)
}

/// Rewards held-out replies, where the settings have all it takes.
fn rewarder(settings: &Settings, role: AgentRole) -> Result<Option<Rewarder>> {
    let reward = &settings.reward;
    let coordinator = !reward.coordinator.endpoints.is_empty() || reward.coordinator_model.model.is_some();
    if role == AgentRole::StateTracker && !coordinator {
        return Ok(None);
    }
    Rewarder::open(reward, None).map(Some)
}

pub(super) fn write_rejects(draft: &Draft, set: &TrainSet) -> Result<()> {
    let lines: Result<String> =
        set.rejects.iter().map(|reject| Ok(serde_json::to_string(reject)? + "\n")).collect();
    std::fs::write(draft.path("rejects.jsonl"), lines?).context("rejects.jsonl")?;
    if let Some(first) = set.rejects.first() {
        log::warn!("{} rows are left out (rejects.jsonl); the first: {}", set.rejects.len(), first.reason);
    }
    Ok(())
}

/// Keeps `most` rows, drawn by the seed, in their order.
fn thin(rows: &mut Vec<TrainRow>, most: usize, seed: u64) {
    if most == 0 || rows.len() <= most {
        return;
    }
    let mut keep: Vec<usize> = (0..rows.len()).collect();
    keep.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    keep.truncate(most);
    let keep: std::collections::BTreeSet<usize> = keep.into_iter().collect();
    let mut index = 0;
    rows.retain(|_| {
        index += 1;
        keep.contains(&(index - 1))
    });
}

/// Held-out rows to look at: at most `most`, spread evenly.
pub(super) fn spread(rows: &[TrainRow], most: usize) -> Vec<&TrainRow> {
    let n = most.min(rows.len());
    (0..n).map(|i| &rows[i * rows.len() / n]).collect()
}

impl Sft<'_> {
    fn run(mut self, steps: u64, draft: &mut Draft) -> Result<()> {
        let bar = progress::bar("sft", "steps", Some(steps));
        bar.set_position(self.cursor.step);
        if self.cursor.step == 0 {
            let held_out = self.evaluate()?;
            self.tell(&[], &[], held_out.as_ref())?;
        }
        let mut last = None;
        while self.cursor.step < steps {
            let started = Instant::now();
            let (values, tokens) = self.step()?;
            self.cursor.step += 1;
            let due = self.section.eval_every > 0
                && self.cursor.step.is_multiple_of(self.section.eval_every as u64);
            let held_out = if due || self.cursor.step == steps { self.evaluate()? } else { None };
            let secs = started.elapsed().as_secs_f64();
            let clock = [("tokens_per_sec", tokens as f64 / secs), ("step_secs", secs)];
            self.tell(&values, &clock, held_out.as_ref())?;
            let loss = values.iter().find(|(name, _)| *name == "loss").and_then(|(_, v)| v.as_f64());
            let speed = tokens as f64 / secs;
            bar.set_message(format!("steps · loss {:.3} · {speed:.0} tokens/s", loss.unwrap_or(f64::NAN)));
            bar.inc(1);
            let better = held_out.as_ref().and_then(|(loss, _)| *loss).is_some_and(|loss| self.is_best(loss));
            if better || self.cursor.step.is_multiple_of(self.section.checkpoint_every.max(1) as u64) {
                self.checkpoints.save(&self.trainer, &self.cursor, better)?;
            }
            last = held_out.filter(|_| self.cursor.step == steps);
        }
        bar.finish_and_clear();
        // Killed after the last checkpoint, the run has only this left to do.
        let last = if last.is_some() { last } else { self.evaluate()? };
        self.finish(last, draft)
    }

    fn is_best(&mut self, loss: f64) -> bool {
        let better = self.cursor.best.is_none_or(|best| loss < best);
        if better {
            self.cursor.best = Some(loss);
        }
        better
    }

    /// One optimizer step.
    fn step(&mut self) -> Result<(Vec<(&'static str, Value)>, usize)> {
        let by_epoch = self.rows.len().div_ceil(self.section.batch_rows.max(1)) as u64;
        let (epoch, at) = (self.cursor.step / by_epoch, (self.cursor.step % by_epoch) as usize);
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(epoch);
        order.shuffle(&mut rng);
        let batch: Vec<&TrainRow> = order
            .chunks(self.section.batch_rows.max(1))
            .nth(at)
            .unwrap_or_default()
            .iter()
            .map(|&i| &self.rows[i])
            .collect();
        let learned: usize = batch.iter().map(|row| row.reply.len()).sum();
        let (mut grads, mut loss, mut entropy) = (Grads::new(), 0.0, 0.0);
        let dump = self.checkpoints.dump_path(self.cursor.step + 1);
        let mut packs: Vec<(Packed, Vec<String>)> = Vec::new();
        for micro in parts(&batch, self.policy.micro_tokens) {
            let mut packed = Packed::default();
            for row in &micro {
                packed.push(&row.prompt, &[&row.reply])?;
            }
            packs.push((packed, micro.iter().map(|row| row.id.clone()).collect()));
        }
        let micros: Vec<Micro<'_>> =
            packs.iter().map(|(packed, ids)| Micro { packed, ids, dump: &dump }).collect();
        // An adapter that was loaded brings its own.
        let p = self.trainer.policy.lora().map_or(0.0, |lora| lora.lora_dropout);
        for (number, micro) in micros.iter().enumerate() {
            let dropout = Dropout { p, seed: self.seed ^ (self.cursor.step << 20) ^ number as u64 };
            let pass = TrainPass { dropout, ..TrainPass::default() };
            self.trainer.accumulate(micro, pass, &mut grads, |stats| {
                loss -= stats.logp.iter().map(|x| f64::from(*x)).sum::<f64>();
                entropy += stats.entropy.iter().map(|x| f64::from(*x)).sum::<f64>();
                Ok(vec![-1.0 / learned as f32; stats.logp.len()])
            })?;
        }
        let report = self.trainer.step(&grads, &micros)?;
        let tokens: usize = batch.iter().map(|row| row.tokens()).sum();
        let values = vec![
            ("epoch", json!(epoch + 1)),
            ("loss", json!(loss / learned as f64)),
            ("tokens", json!(tokens)),
            ("rows", json!(batch.len())),
            ("entropy", json!(entropy / learned as f64)),
            ("grad_norm", json!(report.grad_norm)),
            ("lr", json!(report.lr)),
        ];
        Ok((values, tokens))
    }

    fn evaluate(&self) -> Result<Option<(Option<f64>, HeldOut)>> {
        if self.held_out.is_empty() {
            return Ok(None);
        }
        let policy = &self.trainer.policy;
        let rows = spread(&self.held_out, self.section.eval_rows);
        let loss = evaluate::loss(policy, &rows, self.policy.micro_tokens)?;
        let rows = spread(&self.held_out, self.section.eval_replies);
        let judge = (self.profile, self.rewarder.as_ref());
        let stop = self.chat.stop.clone();
        let sampling = Sampling { max_tokens: self.section.eval_max_tokens, stop, ..Sampling::default() };
        let asking = Asking { sampling, draws: 0 };
        Ok(Some((loss, evaluate::judge(policy, &self.chat, &rows, judge, &asking)?)))
    }

    fn tell(
        &mut self,
        values: &[(&'static str, Value)],
        clock: &[(&str, f64)],
        held_out: Option<&(Option<f64>, HeldOut)>,
    ) -> Result<()> {
        let step = self.cursor.step;
        let mut all = vec![("step", json!(step))];
        all.extend(values.iter().cloned());
        if let Some((loss, judged)) = held_out {
            all.extend([
                ("held_out_loss", json!(loss)),
                ("held_out_format", json!(judged.format())),
                ("held_out_reward", json!(judged.reward())),
                ("held_out_executor", json!(judged.executor())),
                ("held_out_length", json!(judged.length())),
            ]);
            log::info!(
                "step {step}: held-out loss {:.3}, format {:.1} %",
                loss.unwrap_or(f64::NAN),
                100.0 * judged.format().unwrap_or(f64::NAN)
            );
            let texts: Vec<Transcript<'_>> = judged.rows.iter().take(3).map(transcript).collect();
            self.journal.transcript(step, &texts)?;
        }
        self.journal.line(&all, clock)
    }

    fn finish(self, last: Option<(Option<f64>, HeldOut)>, draft: &mut Draft) -> Result<()> {
        let Self { mut trainer, journal, policy, checkpoints, cursor, .. } = self;
        let lora = trainer.policy.lora().context("an adapter is trained")?.clone();
        let base = policy.model.as_deref().unwrap_or(Path::new(""));
        write_adapter(&draft.path("adapter"), &lora, &trainer.policy.lora_tensors()?, base)?;
        if let Some(best) = checkpoints.best::<Cursor>(&mut trainer)?.filter(|best| best.step < cursor.step) {
            write_adapter(&draft.path("best"), &lora, &trainer.policy.lora_tensors()?, base)?;
            draft.count("best_step", best.step);
        }
        if let Some((loss, judged)) = last {
            draft.count("held_out_loss", json!(loss));
            draft.count("held_out_format", json!(judged.format()));
            draft.count("held_out_reward", json!(judged.reward()));
            write_json(&draft.path("held_out.json"), &judged)?;
        }
        journal.finish(draft)
    }
}

pub(super) fn transcript(judged: &evaluate::Judged) -> Transcript<'_> {
    let mut facts = vec![("task", judged.task.clone()), ("form", judged.format.to_string())];
    facts.extend(judged.total.map(|total| ("reward", format!("{total:.2}"))));
    facts.extend(judged.reply.clone().map(|reply| ("executor", reply)));
    Transcript { title: &judged.id, facts, output: &judged.output }
}

/// Rows in parts of at most `most` tokens, sorted by length so that parts are full.
fn parts<'a>(batch: &[&'a TrainRow], most: usize) -> Vec<Vec<&'a TrainRow>> {
    let mut sorted = batch.to_vec();
    sorted.sort_by(|a, b| b.tokens().cmp(&a.tokens()).then_with(|| a.id.cmp(&b.id)));
    let mut parts: Vec<(usize, Vec<&TrainRow>)> = Vec::new();
    for row in sorted {
        match parts.iter_mut().find(|(tokens, _)| tokens + row.tokens() <= most) {
            Some((tokens, part)) => {
                *tokens += row.tokens();
                part.push(row);
            }
            None => parts.push((row.tokens(), vec![row])),
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}
