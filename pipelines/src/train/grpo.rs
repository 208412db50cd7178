//! GRPO from execution feedback (CES, section 4.3): outputs of the policy are carried out by the frozen executor, and what
//! they earn against the others of their group is learned. Stage 1 trains the Coordinator on ground-truth states, stage 2
//! the State Tracker through the frozen trained Coordinator; the rewarder is what differs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use candle_core::Tensor;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracemill_models::optim::Schedule;
use tracemill_models::policy::{Adapters, Dropout, Finish, Grads, LoraConfig, Packed, Sampling, TrainPass};
use tracemill_models::rl::{
    Counts, GroupAdvantages, KlTerm, LossSettings, Profile, TokenBatch, batch_advantages, kl_in_reward,
    policy_loss, ratio_gate,
};

use super::evaluate::{self, Asking, HeldOut, difference};
use super::journal::{Journal, Transcript};
use super::model::{ChatFormat, combine, read_adapter, write_adapter};
use super::rollout::{Group, roll, seed_of};
use super::rows::TrainRow;
use super::settings::{GrpoSection, PolicySection};
use super::sft::{Inputs, Kind, prepare, spread, transcript, write_rejects};
use super::tally::{Tally, Values};
use super::trainer::{Checkpoints, Micro, Trainer};
use crate::progress;
use crate::reward::Rewarder;
use crate::run::{Draft, write_json};
use crate::settings::Settings;

/// The columns of `metrics.jsonl`.
const COLUMNS: [&str; 32] = [
    "step",
    "epoch",
    "loss",
    "reward",
    "reward_std",
    "format",
    "executor",
    "groups",
    "dead_groups",
    "resampled_groups",
    "outputs",
    "failed_outputs",
    "tokens",
    "length",
    "cut_off",
    "entropy",
    "ratio",
    "ratio_gate",
    "clip_low",
    "clip_high",
    "clip_dual",
    "kl_old",
    "kl_reference",
    "tis",
    "grad_norm",
    "lr",
    "held_out_reward",
    "held_out_drawn_reward",
    "held_out_executor",
    "held_out_format",
    "held_out_length",
    "held_out_rows",
];

/// Where a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Cursor {
    /// Steps of the run that are done.
    step: u64,
    /// Prompts that were drawn; their order is a function of seed and epoch.
    drawn: u64,
    /// The best held-out reward so far.
    best: Option<f64>,
}

struct Grpo<'a> {
    section: GrpoSection,
    loss: LossSettings,
    policy: &'a PolicySection,
    seed: u64,
    chat: ChatFormat,
    trainer: Trainer,
    rows: Vec<TrainRow>,
    held_out: Vec<TrainRow>,
    rewarder: Rewarder,
    profile: &'static Profile,
    journal: Journal,
    checkpoints: Checkpoints,
    cursor: Cursor,
    /// Steps since the process began: the gate is for the first.
    fresh: bool,
}

/// The adapter that the run starts from.
type Start = Option<(LoraConfig, BTreeMap<String, Tensor>)>;

/// Trains an adapter by GRPO.
///
/// # Errors
/// Rows, a model or executors that cannot be used, too many failed outputs, a gradient that is not finite, a ratio that is
/// not 1 on the first step.
pub fn grpo(settings: &Settings, inputs: &Inputs, draft: &mut Draft) -> Result<()> {
    let section = settings.grpo.resolved(inputs.role)?;
    let policy = &settings.policy;
    let kind = Kind::Grpo(&section);
    let prepared = prepare(settings, inputs, &kind)?;
    write_rejects(draft, &prepared.set)?;
    let (mut loaded, set) = prepared.load(settings, &kind)?;
    let start = policy.adapter.as_deref().map(read_adapter).transpose()?;
    if let Some(folder) = &policy.adapter {
        loaded.adapt(folder)?;
        loaded.policy.fold_adapter()?;
    }
    loaded.policy.add_lora(&policy.lora, settings.seed)?;
    let steps = steps_of(&section, set.train.len());
    let updates = steps * (section.minibatches * section.inner_epochs) as u64;
    let warmup_steps = (section.warmup * updates as f64).ceil() as u64;
    let schedule = Schedule { warmup_steps, total_steps: updates, decay: section.decay };
    let merges = policy.merges(loaded.policy.dtype());
    let mut trainer =
        Trainer::new(loaded.policy, section.optimizer(), schedule, (merges, policy.checkpointing))?;
    let checkpoints = Checkpoints::new(draft.work_dir(), section.keep);
    let cursor: Cursor = checkpoints.resume(&mut trainer)?.unwrap_or_default();
    let rewarder = Rewarder::open(&settings.reward, None)?;
    for (name, count) in [("rows", set.train.len()), ("held_out_rows", set.held_out.len())] {
        draft.count(name, count);
    }
    draft.count("rejected_rows", set.rejects.len());
    draft.count("steps", steps);
    draft.count("executor", rewarder.executor_name());
    let run = Grpo {
        loss: section.objective()?,
        section,
        policy,
        seed: settings.seed,
        chat: loaded.chat,
        trainer,
        rows: set.train,
        held_out: set.held_out,
        profile: rewarder.profile(),
        rewarder,
        journal: Journal::open(draft, &COLUMNS, cursor.step)?,
        checkpoints,
        cursor,
        fresh: true,
    };
    run.run(steps, start, draft)
}

fn steps_of(section: &GrpoSection, rows: usize) -> u64 {
    let steps = (section.epochs.unwrap_or(1) * rows).div_ceil(section.prompts()) as u64;
    if section.max_steps == 0 { steps } else { steps.min(section.max_steps as u64) }
}

/// Groups with their advantages.
struct Batch<'r> {
    groups: Vec<Group<'r>>,
    advantages: Vec<GroupAdvantages>,
    resampled: usize,
}

/// The outputs of a micro-batch, flat.
#[derive(Default)]
struct Flat {
    packed: Packed,
    lengths: Vec<usize>,
    advantages: Vec<f64>,
    sampled: Vec<f32>,
    ids: Vec<String>,
    /// Every advantage is 0.
    idle: bool,
    /// Log-probabilities before the first of several updates.
    old: Option<Vec<f32>>,
    reference: Option<Vec<f32>>,
}

impl Grpo<'_> {
    fn run(mut self, steps: u64, start: Start, draft: &mut Draft) -> Result<()> {
        let bar = progress::bar("grpo", "steps", Some(steps));
        bar.set_position(self.cursor.step);
        let before = self.evaluate_first(draft)?;
        let mut last = None;
        while self.cursor.step < steps {
            let started = Instant::now();
            let values = self.step()?;
            self.cursor.step += 1;
            let step = self.cursor.step;
            let due = self.section.eval_every > 0 && step.is_multiple_of(self.section.eval_every as u64);
            let held_out = if due || step == steps { self.evaluate()? } else { None };
            let figure = |name: &str| values.iter().find(|(n, _)| *n == name).and_then(|(_, v)| v.as_f64());
            let secs = started.elapsed().as_secs_f64();
            let clock = [("step_secs", secs), ("tokens_per_sec", figure("tokens").unwrap_or(0.0) / secs)];
            bar.set_message(format!(
                "steps · reward {:.3} · kl {:.4} · entropy {:.2} · length {:.0} · dead {:.0} · {:.0} tokens/s",
                figure("reward").unwrap_or(f64::NAN),
                figure("kl_reference").unwrap_or(0.0),
                figure("entropy").unwrap_or(f64::NAN),
                figure("length").unwrap_or(f64::NAN),
                figure("dead_groups").unwrap_or(f64::NAN),
                clock[1].1,
            ));
            bar.inc(1);
            self.tell(&values, &clock, held_out.as_ref())?;
            let better =
                held_out.as_ref().and_then(HeldOut::reward).is_some_and(|reward| self.is_best(reward));
            if better || step.is_multiple_of(self.section.checkpoint_every.max(1) as u64) {
                self.checkpoints.save(&self.trainer, &self.cursor, better)?;
            }
            last = held_out.filter(|_| step == steps);
        }
        bar.finish_and_clear();
        // Killed after the last checkpoint, the run has only this left to do.
        let last = if last.is_some() { last } else { self.evaluate()? };
        self.finish((before, last), start, draft)
    }

    /// The evaluation before the first step; a resumed run reads it back.
    fn evaluate_first(&mut self, draft: &Draft) -> Result<Option<HeldOut>> {
        let path = draft.work_dir().join("before.json");
        if self.cursor.step > 0 {
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            return Ok(serde_json::from_str(&text)?);
        }
        let before = self.evaluate()?;
        write_json(&path, &before)?;
        self.tell(&[], &[], before.as_ref())?;
        Ok(before)
    }

    fn is_best(&mut self, reward: f64) -> bool {
        let better = self.cursor.best.is_none_or(|best| reward > best);
        if better {
            self.cursor.best = Some(reward);
        }
        better
    }

    /// The next prompts, each with the number of its draw; each epoch has an order of its own.
    fn draw<'r>(&mut self, rows: &'r [TrainRow], count: usize) -> Vec<(u64, &'r TrainRow)> {
        let n = rows.len() as u64;
        let mut drawn = Vec::with_capacity(count);
        let mut order: (u64, Vec<usize>) = (u64::MAX, Vec::new());
        for at in self.cursor.drawn..self.cursor.drawn + count as u64 {
            if order.0 != at / n {
                let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
                rng.set_stream(at / n);
                order = (at / n, (0..rows.len()).collect());
                order.1.shuffle(&mut rng);
            }
            drawn.push((at, &rows[order.1[(at % n) as usize]]));
        }
        self.cursor.drawn += count as u64;
        drawn
    }

    fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.section.temperature,
            top_p: self.section.top_p,
            top_k: self.section.top_k,
            max_tokens: self.section.max_response.unwrap_or(256),
            stop: self.chat.stop.clone(),
        }
    }

    /// Outputs and rewards for some rows.
    fn roll<'r>(&self, drawn: Vec<(u64, &'r TrainRow)>) -> Result<Vec<Group<'r>>> {
        let seeds = |draw| (0..self.section.rollouts()).map(|k| seed_of(self.seed, draw, k)).collect();
        let asked = drawn.into_iter().map(|(draw, row)| (row, seeds(draw))).collect();
        let groups = roll(&self.trainer.policy, &self.chat, asked, &self.sampling(), &self.rewarder)?;
        self.rewarder.check_failures()?;
        Ok(groups)
    }

    fn advantages(&self, groups: &[Group<'_>]) -> Result<Vec<GroupAdvantages>> {
        let mut rewards: Vec<Vec<Option<f64>>> = groups.iter().map(Group::rewards).collect();
        if self.loss.kl.needs_reference() && self.loss.kl.term == KlTerm::Reward {
            for (group, rewards) in groups.iter().zip(&mut rewards) {
                let flat = self.flat(&[(group, None)])?;
                if flat.lengths.is_empty() {
                    continue;
                }
                let temperature = self.sampling().logp_temperature();
                let reference = self.trainer.policy.token_stats(&flat.packed, temperature, Adapters::Off)?;
                let penalty =
                    kl_in_reward(&flat.sampled, &reference.logp, &flat.lengths, None, &self.loss.kl)?;
                let mut penalties = penalty.sequences.into_iter();
                rewards.iter_mut().flatten().for_each(|r| *r -= penalties.next().unwrap_or(0.0));
            }
        }
        Ok(batch_advantages(&rewards, &self.loss.advantage())?)
    }

    /// The groups of a step. Dead ones are replaced by others, as often as the settings say.
    fn batch<'r>(&mut self, rows: &'r [TrainRow]) -> Result<Batch<'r>> {
        let wanted = self.section.prompts();
        let first = self.draw(rows, wanted);
        let mut groups = self.roll(first)?;
        let mut resampled = 0;
        for _ in 0..self.section.resample {
            let dead: Vec<usize> = self
                .advantages(&groups)?
                .iter()
                .enumerate()
                .filter_map(|(i, a)| a.dead.then_some(i))
                .collect();
            if dead.is_empty() {
                break;
            }
            let others = self.draw(rows, dead.len());
            resampled += dead.len();
            for (i, group) in dead.into_iter().zip(self.roll(others)?) {
                groups[i] = group;
            }
        }
        let advantages = self.advantages(&groups)?;
        Ok(Batch { groups, advantages, resampled })
    }

    /// Groups end to end; outputs without a reward are left out.
    fn flat(&self, groups: &[(&Group<'_>, Option<&GroupAdvantages>)]) -> Result<Flat> {
        let mut flat = Flat { idle: true, ..Flat::default() };
        for (group, advantages) in groups {
            let scored = (0..group.texts.len()).filter(|&i| group.rewarded[i].reward.is_some());
            let mut texts: Vec<&[u32]> = Vec::new();
            for i in scored {
                let text = &group.texts[i];
                let advantage = advantages.and_then(|a| a.advantages[i]).unwrap_or(0.0);
                flat.idle &= advantage == 0.0;
                flat.advantages.push(advantage);
                flat.lengths.push(text.tokens.len());
                flat.sampled.extend(&text.logp);
                flat.ids.push(format!("{} output {i}", group.row.id));
                texts.push(&text.tokens);
            }
            if !texts.is_empty() {
                flat.packed.push(&group.row.prompt, &texts)?;
            }
        }
        Ok(flat)
    }

    /// Groups in parts of at most `policy.micro_tokens` tokens.
    fn micro_batches(&self, groups: &[(&Group<'_>, Option<&GroupAdvantages>)]) -> Result<Vec<Flat>> {
        let tokens = |group: &Group<'_>| {
            group.row.prompt.len() + group.texts.iter().map(|text| text.tokens.len()).sum::<usize>()
        };
        let (mut parts, mut part, mut size) = (Vec::new(), Vec::new(), 0);
        for pair in groups {
            if size > 0 && size + tokens(pair.0) > self.policy.micro_tokens {
                parts.push(self.flat(&std::mem::take(&mut part))?);
                size = 0;
            }
            size += tokens(pair.0);
            part.push(*pair);
        }
        if !part.is_empty() {
            parts.push(self.flat(&part)?);
        }
        parts.retain(|flat| !flat.lengths.is_empty());
        Ok(parts)
    }

    fn step(&mut self) -> Result<Values> {
        let rows = std::mem::take(&mut self.rows);
        let values = self.step_on(&rows);
        self.rows = rows;
        values
    }

    fn step_on(&mut self, rows: &[TrainRow]) -> Result<Values> {
        let batch = self.batch(rows)?;
        let mut values = self.describe(&batch, rows.len())?;
        let pairs: Vec<_> = batch.groups.iter().zip(batch.advantages.iter().map(Some)).collect();
        let mut parts: Vec<Vec<Flat>> = pairs
            .chunks(self.section.prompts() / self.section.minibatches)
            .map(|minibatch| self.micro_batches(minibatch))
            .collect::<Result<_>>()?;
        let learned: usize = parts.iter().flatten().map(|flat| flat.lengths.len()).sum();
        if learned == 0 {
            bail!(
                "none of the outputs of step {} could be rewarded: see the executor's errors",
                self.cursor.step + 1
            );
        }
        self.fill_in(&mut parts)?;
        let mut tally = Tally { first: self.cursor.step == 0, ..Tally::default() };
        for _ in 0..self.section.inner_epochs {
            for minibatch in &parts {
                self.update(minibatch, &mut tally)?;
            }
        }
        // A first step in which nothing was learned leaves the gate for the next.
        self.fresh &= tally.gate.is_none();
        values.extend(tally.values(self.kl_in_loss()));
        self.tell_outputs(&batch)?;
        Ok(values)
    }

    /// Log-probabilities that stay as they are while the policy moves: of the policy itself, and of the reference, which
    /// is the model with the adapter off.
    fn fill_in(&self, parts: &mut [Vec<Flat>]) -> Result<()> {
        let temperature = self.sampling().logp_temperature();
        let policy = &self.trainer.policy;
        let reference = self.kl_in_loss();
        for flat in parts.iter_mut().flatten() {
            if self.section.is_off_policy() {
                flat.old = Some(policy.token_stats(&flat.packed, temperature, Adapters::On)?.logp);
            }
            if reference {
                flat.reference = Some(policy.token_stats(&flat.packed, temperature, Adapters::Off)?.logp);
            }
        }
        Ok(())
    }

    /// One optimizer step on the micro-batches of a minibatch.
    fn update(&mut self, parts: &[Flat], tally: &mut Tally) -> Result<()> {
        let lengths: Vec<usize> = parts.iter().flat_map(|flat| flat.lengths.iter().copied()).collect();
        let whole = Counts::of(&lengths, None)?;
        let mut grads = Grads::new();
        let dump = self.checkpoints.dump_path(self.cursor.step + 1);
        let pass = TrainPass {
            temperature: self.sampling().logp_temperature(),
            dropout: Dropout::off(),
            ..TrainPass::default()
        };
        for flat in parts {
            // Nothing to learn, and nothing to hold back.
            if flat.idle && flat.reference.is_none() {
                tally.idle += flat.sampled.len();
                continue;
            }
            let gate = self.fresh && tally.updates == 0;
            let micro = Micro { packed: &flat.packed, ids: &flat.ids, dump: &dump };
            self.trainer.accumulate(&micro, pass, &mut grads, |stats| {
                if gate {
                    let far = ratio_gate(&stats.logp, &flat.sampled, None, self.ratio_tolerance())?;
                    tally.gate = Some(tally.gate.unwrap_or(0.0).max(far));
                }
                let loss = policy_loss(
                    &TokenBatch {
                        logp: &stats.logp,
                        old: flat.old.as_deref().unwrap_or(&stats.logp),
                        reference: flat.reference.as_deref(),
                        sampler: self.loss.tis.is_some().then_some(&flat.sampled[..]),
                        lengths: &flat.lengths,
                        advantages: &flat.advantages,
                        mask: None,
                        whole: Some(whole),
                    },
                    &self.loss,
                )?;
                tally.add(loss.loss, &loss.metrics, &stats.entropy);
                Ok(loss.d_logp)
            })?;
        }
        tally.updates += 1;
        if grads.is_empty() {
            return Ok(());
        }
        let micros: Vec<Micro<'_>> =
            parts.iter().map(|flat| Micro { packed: &flat.packed, ids: &flat.ids, dump: &dump }).collect();
        let report = self.trainer.step(&grads, &micros)?;
        tally.grad_norm = Some(report.grad_norm);
        tally.lr = Some(report.lr);
        Ok(())
    }

    /// Whether the loss has the KL term; one in the reward gives no column.
    fn kl_in_loss(&self) -> bool {
        self.loss.kl.needs_reference() && self.loss.kl.term == KlTerm::Loss
    }

    fn ratio_tolerance(&self) -> f64 {
        match self.section.ratio_tolerance {
            0.0 if self.trainer.policy.dtype() == candle_core::DType::F32 => 2e-3,
            0.0 => 0.5,
            set => set,
        }
    }

    /// What can be said of outputs and rewards.
    fn describe(&self, batch: &Batch<'_>, rows: usize) -> Result<Values> {
        let rewarded = || batch.groups.iter().flat_map(|group| &group.rewarded);
        let texts = || batch.groups.iter().flat_map(|group| &group.texts);
        let outputs = texts().count();
        let rewards: Vec<f64> = rewarded().filter_map(|r| r.reward.as_ref().map(|r| r.total)).collect();
        let failed = outputs - rewards.len();
        if failed as f64 > self.section.max_failed * outputs as f64 {
            let reason = rewarded().find(|r| r.reward.is_none()).map(|r| format!("{:?}", r.executed));
            bail!(
                "{failed} of {outputs} outputs could not be rewarded (grpo.max_failed = {}); the first: {}",
                self.section.max_failed,
                reason.unwrap_or_default()
            );
        }
        let mean = |of: &dyn Fn(&tracemill_models::rl::AgentReward) -> f64| {
            let values: Vec<f64> = rewarded().filter_map(|r| r.reward.as_ref().map(of)).collect();
            values.iter().sum::<f64>() / values.len().max(1) as f64
        };
        let average = mean(&|r| r.total);
        let variance =
            rewards.iter().map(|r| (r - average).powi(2)).sum::<f64>() / rewards.len().max(1) as f64;
        let tokens: usize = texts().map(|text| text.tokens.len()).sum();
        let cut = texts().filter(|text| text.finish == Finish::Length).count();
        Ok(vec![
            ("epoch", json!(self.cursor.drawn.saturating_sub(1) / rows as u64 + 1)),
            ("reward", json!(average)),
            ("reward_std", json!(variance.sqrt())),
            ("format", json!(mean(&|r| r.format))),
            ("executor", json!(mean(&|r| r.executor))),
            ("groups", json!(batch.groups.len())),
            ("dead_groups", json!(batch.advantages.iter().filter(|a| a.dead).count())),
            ("resampled_groups", json!(batch.resampled)),
            ("outputs", json!(outputs)),
            ("failed_outputs", json!(failed)),
            ("tokens", json!(tokens)),
            ("length", json!(tokens as f64 / outputs.max(1) as f64)),
            ("cut_off", json!(cut as f64 / outputs.max(1) as f64)),
        ])
    }

    fn tell_outputs(&mut self, batch: &Batch<'_>) -> Result<()> {
        let step = self.cursor.step + 1;
        if self.section.transcript_every == 0 || !step.is_multiple_of(self.section.transcript_every as u64) {
            return Ok(());
        }
        let Some((group, advantages)) = batch.groups.iter().zip(&batch.advantages).find(|(_, a)| !a.dead)
        else {
            return Ok(());
        };
        let texts: Vec<Transcript<'_>> = (0..group.outputs.len())
            .map(|i| {
                let rewarded = &group.rewarded[i];
                let mut facts = vec![("task", group.row.agent.task.clone())];
                facts.push(("state", group.row.agent.state.clone()));
                facts.extend(rewarded.coordinator.clone().map(|said| ("Coordinator", said)));
                facts.extend(rewarded.instruction.clone().map(|said| ("instruction", said)));
                facts.extend(rewarded.reply.clone().map(|said| ("executor", said)));
                facts.extend(rewarded.reward.as_ref().map(|r| ("reward", format!("{:.2}", r.total))));
                facts.extend(advantages.advantages[i].map(|a| ("advantage", format!("{a:.2}"))));
                Transcript { title: &group.row.id, facts, output: &group.outputs[i] }
            })
            .collect();
        self.journal.transcript(step, &texts)
    }

    fn evaluate(&self) -> Result<Option<HeldOut>> {
        if self.held_out.is_empty() {
            return Ok(None);
        }
        let rows = spread(&self.held_out, self.section.eval_rows);
        let judge = (self.profile, Some(&self.rewarder));
        let asking = Asking { sampling: self.sampling(), draws: self.section.eval_draws };
        evaluate::judge(&self.trainer.policy, &self.chat, &rows, judge, &asking).map(Some)
    }

    fn tell(
        &mut self,
        values: &[(&'static str, Value)],
        clock: &[(&str, f64)],
        held_out: Option<&HeldOut>,
    ) -> Result<()> {
        let step = self.cursor.step;
        let mut all = vec![("step", json!(step))];
        all.extend(values.iter().cloned());
        if let Some(judged) = held_out {
            all.extend([
                ("held_out_reward", json!(judged.reward())),
                ("held_out_drawn_reward", json!(judged.drawn())),
                ("held_out_executor", json!(judged.executor())),
                ("held_out_format", json!(judged.format())),
                ("held_out_length", json!(judged.length())),
                ("held_out_rows", json!(judged.rows.len())),
            ]);
            log::info!(
                "step {step}: held-out reward {:.3}, format {:.1} %",
                judged.reward().unwrap_or(f64::NAN),
                100.0 * judged.format().unwrap_or(f64::NAN)
            );
            let texts: Vec<Transcript<'_>> = judged.rows.iter().take(3).map(transcript).collect();
            self.journal.transcript(step, &texts)?;
        }
        self.journal.line(&all, clock)
    }

    /// Publishes the adapter, of the model that was given: where the run began with one, the two as one.
    fn finish(
        self,
        held_out: (Option<HeldOut>, Option<HeldOut>),
        start: Start,
        draft: &mut Draft,
    ) -> Result<()> {
        let Self { mut trainer, journal, policy, seed, checkpoints, cursor, .. } = self;
        let lora = trainer.policy.lora().context("an adapter is trained")?.clone();
        let base = policy.model.as_deref().unwrap_or(Path::new(""));
        let write = |trainer: &Trainer, folder: &str| -> Result<()> {
            let tensors = trainer.policy.lora_tensors()?;
            let (config, tensors) = match &start {
                Some((config, before)) => combine((config, before), (&lora, &tensors))?,
                None => (lora.clone(), tensors),
            };
            write_adapter(&draft.path(folder), &config, &tensors, base)
        };
        write(&trainer, "adapter")?;
        let best = checkpoints.best::<Cursor>(&mut trainer)?.filter(|best| best.step < cursor.step);
        if best.is_some() {
            write(&trainer, "best")?;
        }
        draft.count("best_step", best.map_or(cursor.step, |best| best.step));
        if let (Some(before), Some(after)) = held_out {
            draft.count("held_out_reward_before", json!(before.reward()));
            draft.count("held_out_reward", json!(after.reward()));
            draft.count("held_out_difference", json!(difference((&before, &after), |row| row.total, seed)));
            if after.drawn().is_some() {
                draft.count("held_out_drawn_reward_before", json!(before.drawn()));
                draft.count("held_out_drawn_reward", json!(after.drawn()));
                let drawn = difference((&before, &after), |row| row.drawn, seed);
                draft.count("held_out_drawn_difference", json!(drawn));
            }
            write_json(&draft.path("held_out.json"), &json!({ "before": before, "after": after }))?;
        }
        journal.finish(draft)
    }
}
