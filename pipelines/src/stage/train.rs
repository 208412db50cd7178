//! `train sft|grpo`: the high-level agents → `R/policies/<role>/{sft,grpo}/`. `merge`: an adapter into a whole model.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tracemill_data::artifact::AgentRole;

use crate::cli::{MergeArgs, TrainArgs};
use crate::publish::Folder;
use crate::run::{Report, Run, StageInput, StageSpec};
use crate::settings::Settings;
use crate::table;
use crate::train::{self, Inputs};

/// Supervised warm-up.
///
/// # Errors
/// See [`train::sft`].
pub fn sft(settings: &Settings, run: &Run, args: &TrainArgs) -> Result<Report> {
    let (name, folder) = match args.role() {
        AgentRole::Coordinator => ("train-sft-coordinator", "policies/coordinator/sft"),
        AgentRole::StateTracker => ("train-sft-state-tracker", "policies/state-tracker/sft"),
    };
    let spec = spec(settings, args, name, folder, json!({ "sft": settings.sft }))?;
    run.stage(&spec, |draft| train::sft(settings, &inputs(args), draft))
}

/// GRPO from execution feedback.
///
/// # Errors
/// See [`train::grpo`].
pub fn grpo(settings: &Settings, run: &Run, args: &TrainArgs) -> Result<Report> {
    let (name, folder) = match args.role() {
        AgentRole::Coordinator => ("train-grpo-coordinator", "policies/coordinator/grpo"),
        AgentRole::StateTracker => ("train-grpo-state-tracker", "policies/state-tracker/grpo"),
    };
    let resolved = settings.grpo.resolved(args.role())?;
    let spec = spec(settings, args, name, folder, json!({ "grpo": resolved }))?;
    run.stage(&spec, |draft| train::grpo(settings, &inputs(args), draft))
}

fn inputs(args: &TrainArgs) -> Inputs {
    Inputs { data: args.data.clone(), held_out: args.held_out.clone(), role: args.role() }
}

fn spec(
    settings: &Settings,
    args: &TrainArgs,
    name: &'static str,
    folder: &'static str,
    section: Value,
) -> Result<StageSpec> {
    let policy = &settings.policy;
    let model =
        policy.model.as_ref().context("no model: give --model a Hugging Face folder or a .gguf file")?;
    if args.data.is_empty() {
        bail!("no rows: give --data a folder that `tracemill export sft|rl --target tracemill` wrote");
    }
    let mut files = vec![("model", model)];
    files.extend(policy.adapter.iter().map(|path| ("adapter", path)));
    files.extend(settings.reward.model.model.iter().map(|path| ("executor", path)));
    files.extend(settings.reward.model.adapter.iter().map(|path| ("executor-adapter", path)));
    files.extend(settings.reward.coordinator_model.model.iter().map(|path| ("coordinator", path)));
    files.extend(settings.reward.coordinator_model.adapter.iter().map(|path| ("coordinator-adapter", path)));
    let mut inputs = Vec::new();
    let numbered = |kind: &str, paths: &[std::path::PathBuf]| -> Vec<StageInput> {
        let input = |(i, path): (usize, &std::path::PathBuf)| {
            StageInput::External(path.clone(), format!("{kind}-{i}"))
        };
        paths.iter().enumerate().map(input).collect()
    };
    for (kind, path) in files {
        if !path.exists() {
            bail!("{} ({kind}) is not there", path.display());
        }
        inputs.push(StageInput::External(path.clone(), kind.to_owned()));
    }
    inputs.extend(numbered("data", &args.data));
    inputs.extend(numbered("held-out", &args.held_out));
    let reward = &settings.reward;
    let depends = json!({ "policy": policy, "train": section, "reward": reward, "role": args.role() });
    Ok(StageSpec { name, folder, settings: depends, seed: settings.seed, inputs })
}

/// What `--dry-run` prints: the resolved settings, the rows, and the memory a run will need.
///
/// # Errors
/// A model or rows that cannot be read.
pub fn dry_run(settings: &Settings, args: &TrainArgs, is_grpo: bool) -> Result<()> {
    let text = train::dry_run(settings, &inputs(args), is_grpo)?;
    table::print(&text);
    Ok(())
}

/// Writes a Hugging Face folder with an adapter merged in.
///
/// # Errors
/// Files that are not there or do not fit.
pub fn merge(settings: &Settings, args: &MergeArgs) -> Result<()> {
    let (device, dtype) = settings.policy.place()?;
    let mut loaded = train::load(&args.model, dtype, &device, &settings.policy.template)?;
    if let Some(adapter) = &args.adapter {
        loaded.adapt(adapter)?;
    }
    let out = Folder::begin(&args.out, "merge")?;
    train::write_merged(&loaded.policy, &loaded.chat, out.dir())?;
    let depends = json!({ "model": args.model, "adapter": args.adapter });
    out.publish(depends, settings.seed, &[], std::collections::BTreeMap::new())?;
    table::print(&format!("{} holds the model, adapter and all", args.out.display()));
    Ok(())
}
