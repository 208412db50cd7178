//! `[policy]`, `[sft]` and `[grpo]`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracemill_data::artifact::AgentRole;
use tracemill_models::optim::{AdamWSettings, Decay};
use tracemill_models::policy::LoraConfig;
use tracemill_models::rl::{LossKind, LossSettings};

use crate::config::overlay;
use crate::settings::device;

/// The type of a model's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Number {
    /// bf16 on a GPU, f32 on the CPU.
    #[default]
    Auto,
    /// 32 bits.
    F32,
    /// Brain float, on a GPU. Adapters and their optimizer stay in f32.
    Bf16,
}

/// `[policy]`: the model that is trained, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicySection {
    /// A Hugging Face folder, or a GGUF file.
    pub model: Option<PathBuf>,
    /// An adapter (a PEFT folder) to start from. SFT goes on training it; GRPO folds it into the weights, so that the
    /// reference is the model with it.
    pub adapter: Option<PathBuf>,
    /// `cpu`, `cuda` or `cuda:N`.
    pub device: String,
    /// Type of the weights.
    pub dtype: Number,
    /// The adapter to train.
    pub lora: LoraConfig,
    /// Keep only the inputs of layers, and run each layer again in the backward.
    pub checkpointing: bool,
    /// Keep `W + s·B·A` beside the weights, so that adapters cost no time: for f32 without dropout.
    pub merge: bool,
    /// Tokens that are in work at once; larger batches are cut into parts whose gradients are added up.
    pub micro_tokens: usize,
    /// Variables of the chat template, such as `enable_thinking = false`.
    pub template: serde_json::Map<String, Value>,
}

impl Default for PolicySection {
    fn default() -> Self {
        Self {
            model: None,
            adapter: None,
            device: "cpu".to_owned(),
            dtype: Number::Auto,
            lora: LoraConfig::default(),
            checkpointing: false,
            merge: true,
            micro_tokens: 4_096,
            template: serde_json::Map::new(),
        }
    }
}

impl PolicySection {
    /// Device and type.
    ///
    /// # Errors
    /// An unknown device, or a type that it has no arithmetic for.
    pub fn place(&self) -> Result<(Device, DType)> {
        let device = device(&self.device)?;
        let dtype = match (self.dtype, device.is_cpu()) {
            (Number::F32, _) | (Number::Auto, true) => DType::F32,
            (Number::Bf16, true) => {
                bail!("policy.dtype is `bf16`: on the CPU it is slower than `f32`, use that")
            }
            (Number::Bf16 | Number::Auto, false) => DType::BF16,
        };
        Ok((device, dtype))
    }

    /// Whether merged weights are kept: they would round small steps away in bf16, and dropout needs the adapter apart.
    pub fn merges(&self, dtype: DType) -> bool {
        self.merge && dtype == DType::F32 && self.lora.lora_dropout == 0.0
    }
}

/// A model that plays a frozen role in this process: `[reward.model]`, `[reward.coordinator_model]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LocalModelSection {
    /// A Hugging Face folder, or a GGUF file.
    pub model: Option<PathBuf>,
    /// A PEFT folder on top of it.
    pub adapter: Option<PathBuf>,
    /// `cpu`, `cuda` or `cuda:N`; by default where the policy that is trained is, else `cpu`.
    pub device: Option<String>,
    /// Variables of the chat template.
    pub template: serde_json::Map<String, Value>,
}

/// `[sft]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SftSection {
    /// Passes over the rows (CES, appendix B.2: 1).
    pub epochs: usize,
    /// Largest learning rate (CES, appendix B.2: 5e-5).
    pub lr: f64,
    /// Rows to an optimizer step.
    pub batch_rows: usize,
    /// How the rate falls.
    pub decay: Decay,
    /// Share of the steps over which it rises.
    pub warmup: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Largest global norm of the gradients; 0 for no limit.
    pub clip_norm: f64,
    /// Rows with more tokens are left out, and counted.
    pub max_tokens: usize,
    /// Steps between two evaluations; 0 for one at the start and one at the end.
    pub eval_every: usize,
    /// Held-out rows whose loss is taken.
    pub eval_rows: usize,
    /// Held-out rows that are answered greedily, for format accuracy.
    pub eval_replies: usize,
    /// Tokens of such an answer.
    pub eval_max_tokens: usize,
    /// Steps between two checkpoints.
    pub checkpoint_every: usize,
    /// Checkpoints that are kept beside the best.
    pub keep: usize,
    /// Rows to train on at most, drawn by the seed; 0 for all.
    pub rows: usize,
}

impl Default for SftSection {
    fn default() -> Self {
        Self {
            epochs: 1,
            lr: 5e-5,
            batch_rows: 16,
            decay: Decay::Cosine,
            warmup: 0.03,
            weight_decay: 0.0,
            clip_norm: 1.0,
            max_tokens: 4_096,
            eval_every: 0,
            eval_rows: 64,
            eval_replies: 32,
            eval_max_tokens: 256,
            checkpoint_every: 20,
            keep: 2,
            rows: 0,
        }
    }
}

impl SftSection {
    /// The optimizer's settings.
    pub fn optimizer(&self) -> AdamWSettings {
        let Self { lr, weight_decay, clip_norm, .. } = *self;
        let clip_norm = Some(clip_norm).filter(|most| *most > 0.0);
        AdamWSettings { lr, weight_decay, clip_norm, ..AdamWSettings::default() }
    }
}

/// `[grpo]`. What is left open follows from preset and role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GrpoSection {
    /// `paper` (CES, table 4) or `ces-code` (as released).
    pub preset: String,
    /// Passes over the prompts: 10 for the Coordinator, 5 for the State Tracker.
    pub epochs: Option<usize>,
    /// Steps at most; 0 for no limit.
    pub max_steps: usize,
    /// Learning rate: 1e-6.
    pub lr: Option<f64>,
    /// How it falls.
    pub decay: Decay,
    /// Share of the steps over which it rises.
    pub warmup: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Largest global norm of the gradients; 0 for no limit.
    pub clip_norm: f64,
    /// Prompts to a step: 32.
    pub prompts: Option<usize>,
    /// Outputs for each prompt: 4, with `ces-code` 8.
    pub rollouts: Option<usize>,
    /// Prompts with more tokens are left out, and counted: 8192.
    pub max_prompt: Option<usize>,
    /// Tokens of an output: 256 for the Coordinator and 512 for the State Tracker; with `ces-code` 512 and 256.
    pub max_response: Option<usize>,
    /// Of sampling.
    pub temperature: f64,
    /// Of sampling.
    pub top_p: f64,
    /// Of sampling; 0 keeps all tokens.
    pub top_k: usize,
    /// What of the objective is not the preset's; see [`Self::objective`].
    pub loss: serde_json::Map<String, Value>,
    /// Optimizer steps on the same outputs, each on an equal part of the prompts.
    pub minibatches: usize,
    /// Passes over the same outputs.
    pub inner_epochs: usize,
    /// How often a step draws further prompts in place of those whose outputs all earn the same (DAPO's dynamic
    /// sampling); 0 for never.
    pub resample: usize,
    /// Largest share of outputs that may fail for reasons of infrastructure before the run stops.
    pub max_failed: f64,
    /// Largest difference between the sampler's log-probabilities and the trainer's on the first step.
    pub ratio_tolerance: f64,
    /// Steps between two evaluations; 0 for one at the start and one at the end.
    pub eval_every: usize,
    /// Held-out rows that are answered greedily and rewarded.
    pub eval_rows: usize,
    /// Replies that are drawn as in training for each of them, to measure the objective itself; 0 for greedy ones alone.
    pub eval_draws: usize,
    /// Steps between two checkpoints.
    pub checkpoint_every: usize,
    /// Checkpoints that are kept beside the best.
    pub keep: usize,
    /// Steps between two transcripts.
    pub transcript_every: usize,
}

impl Default for GrpoSection {
    fn default() -> Self {
        Self {
            preset: "paper".to_owned(),
            epochs: None,
            max_steps: 0,
            lr: None,
            decay: Decay::Constant,
            warmup: 0.0,
            weight_decay: 0.0,
            clip_norm: 1.0,
            prompts: None,
            rollouts: None,
            max_prompt: None,
            max_response: None,
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            loss: serde_json::Map::new(),
            minibatches: 1,
            inner_epochs: 1,
            resample: 0,
            max_failed: 0.5,
            ratio_tolerance: 0.0,
            eval_every: 0,
            eval_rows: 64,
            eval_draws: 0,
            checkpoint_every: 10,
            keep: 2,
            transcript_every: 5,
        }
    }
}

impl GrpoSection {
    /// The same settings with nothing left open.
    ///
    /// # Errors
    /// An unknown preset, or a setting out of range.
    pub fn resolved(&self, role: AgentRole) -> Result<Self> {
        let coordinator = role == AgentRole::Coordinator;
        let is_paper = self.is_paper()?;
        let (rollouts, response) = match (is_paper, coordinator) {
            (true, true) => (4, 256),
            (true, false) => (4, 512),
            (false, true) => (8, 512),
            (false, false) => (8, 256),
        };
        let mut resolved = self.clone();
        resolved.epochs.get_or_insert(if coordinator { 10 } else { 5 });
        resolved.lr.get_or_insert(1e-6);
        resolved.prompts.get_or_insert(32);
        resolved.rollouts.get_or_insert(rollouts);
        resolved.max_prompt.get_or_insert(8_192);
        let response = *resolved.max_response.get_or_insert(response);
        let mut loss = self.objective()?;
        // The constant that `dr_grpo` divides by is the longest output.
        loss.max_tokens = loss.max_tokens.or(Some(response));
        loss = loss.resolved();
        loss.validate()?;
        let Value::Object(loss) = serde_json::to_value(loss)? else { unreachable!("a struct is an object") };
        resolved.loss = loss;
        for (key, value) in [
            ("prompts", resolved.prompts()),
            ("rollouts", resolved.rollouts()),
            ("minibatches", self.minibatches),
            ("inner_epochs", self.inner_epochs),
        ] {
            if value == 0 {
                bail!("grpo.{key} is 0, expected at least 1");
            }
        }
        if !resolved.prompts().is_multiple_of(self.minibatches) {
            bail!(
                "grpo.minibatches is {}: {} prompts cannot be cut so",
                self.minibatches,
                resolved.prompts()
            );
        }
        Ok(resolved)
    }

    fn is_paper(&self) -> Result<bool> {
        match self.preset.as_str() {
            "paper" => Ok(true),
            "ces-code" => Ok(false),
            other => bail!("grpo.preset is `{other}`: give `paper` or `ces-code`"),
        }
    }

    /// The objective: the preset's, or where `loss` names another kind of loss that loss with its own defaults, and on top
    /// of it what else is set.
    ///
    /// # Errors
    /// An unknown preset, and a key or value that is none of the objective.
    pub fn objective(&self) -> Result<LossSettings> {
        let preset = if self.is_paper()? { LossSettings::paper() } else { LossSettings::ces_code() };
        let wrong = "grpo.loss";
        let base = match self.loss.get("loss") {
            None => preset,
            Some(kind) => match LossKind::deserialize(kind).context(wrong)? {
                kind if kind == preset.loss => preset,
                kind => LossSettings::of(kind),
            },
        };
        // Resolved, so that a single bound of the clip can be set.
        let mut all = serde_json::to_value(base.resolved())?;
        overlay(&mut all, Value::Object(self.loss.clone()), wrong, &[])?;
        serde_json::from_value(all).context(wrong)
    }

    /// Prompts to a step.
    pub fn prompts(&self) -> usize {
        self.prompts.unwrap_or(32)
    }

    /// Outputs for each prompt.
    pub fn rollouts(&self) -> usize {
        self.rollouts.unwrap_or(4)
    }

    /// The optimizer's settings.
    pub fn optimizer(&self) -> AdamWSettings {
        AdamWSettings {
            lr: self.lr.unwrap_or(1e-6),
            weight_decay: self.weight_decay,
            clip_norm: Some(self.clip_norm).filter(|most| *most > 0.0),
            ..AdamWSettings::default()
        }
    }

    /// Whether outputs are trained on more than once, so that the policy moves away from the one that wrote them.
    pub fn is_off_policy(&self) -> bool {
        self.minibatches > 1 || self.inner_epochs > 1
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tracemill_models::rl::{Aggregation, Clip, LossKind};

    use super::*;

    fn grpo(value: Value) -> GrpoSection {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_objective_is_the_presets_but_for_what_is_set() {
        let code = grpo(json!({ "preset": "ces-code", "loss": { "kl": { "beta": 0.02 } } }));
        let code = code.resolved(AgentRole::Coordinator).unwrap();
        let loss = code.objective().unwrap();
        assert_eq!((loss.aggregation(), loss.clip().c), (Aggregation::TokenMean, Some(3.0)));
        assert_eq!((loss.kl.beta, code.rollouts(), loss.max_tokens), (0.02, 8, Some(512)));
        assert_eq!(code.resolved(AgentRole::Coordinator).unwrap(), code, "resolved twice is resolved");
        let paper = grpo(json!({ "loss": { "loss": "grpo", "clip": { "high": 0.3 } } })).objective().unwrap();
        assert_eq!((paper.clip(), paper.kl.beta), (Clip { low: 0.2, high: 0.3, c: None }, 0.01));
    }

    #[test]
    fn a_loss_that_is_named_brings_its_own_defaults() {
        for (name, kind) in [
            ("dr_grpo", LossKind::DrGrpo),
            ("dapo", LossKind::Dapo),
            ("gspo", LossKind::Gspo),
            ("cispo", LossKind::Cispo),
        ] {
            let section =
                grpo(json!({ "loss": { "loss": name } })).resolved(AgentRole::StateTracker).unwrap();
            let (found, own) = (section.objective().unwrap(), LossSettings::of(kind));
            assert_eq!(
                (found.clip(), found.aggregation(), found.ratio()),
                (own.clip(), own.aggregation(), own.ratio())
            );
            assert_eq!((found.advantage(), found.kl.beta), (own.advantage(), 0.0), "{name}");
        }
    }

    #[test]
    fn what_is_no_objective_is_named() {
        for (bad, part) in [
            (json!({ "los": 1 }), "los"),
            (json!({ "loss": "ppo" }), "ppo"),
            (json!({ "kl": { "bet": 1 } }), "bet"),
        ] {
            let error = grpo(json!({ "loss": bad })).resolved(AgentRole::Coordinator).unwrap_err();
            assert!(
                format!("{error:#}").contains("grpo.loss") && format!("{error:#}").contains(part),
                "{error:#}"
            );
        }
    }
}
