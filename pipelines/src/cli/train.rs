//! Arguments of `train` and `merge`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use tracemill_data::artifact::AgentRole;

use super::{Common, RoleName};
use crate::pipeline;
use crate::run::{Report, Run};
use crate::settings::Settings;
use crate::stage;

#[derive(Debug, Subcommand)]
pub(super) enum TrainCommand {
    /// Supervised warm-up: an adapter learns the replies of exported rows.
    Sft(TrainArgs),
    /// GRPO: an adapter learns from what the frozen executor makes of its outputs.
    Grpo(TrainArgs),
}

/// Arguments of `train sft` and `train grpo`.
#[derive(Debug, Args)]
pub struct TrainArgs {
    /// The run folder: the adapter goes to `R/policies/ROLE/`.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// Who is trained.
    #[arg(long, value_enum)]
    role: RoleName,
    /// Rows: a folder that `export sft|rl --target tracemill` wrote, or its .jsonl; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub data: Vec<PathBuf>,
    /// Rows to measure on [default: the test split of --data]; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub held_out: Vec<PathBuf>,
    /// A Hugging Face folder, or a GGUF file.
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// An adapter (a PEFT folder) to start from: SFT goes on with it, GRPO takes it as reference.
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// cpu, cuda or cuda:N.
    #[arg(long)]
    device: Option<String>,
    /// Seed of the adapter, the order of rows and the sampling.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Go on where a killed run was; skip the stage when its output is still valid.
    #[arg(long)]
    resume: bool,
    /// Print the resolved settings, the rows and the memory it will need, and stop.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// A Hugging Face folder, or a GGUF file.
    #[arg(long, value_name = "MODEL")]
    pub model: PathBuf,
    /// An adapter (a PEFT folder); with none the model is only converted.
    #[arg(long, value_name = "DIR")]
    pub adapter: Option<PathBuf>,
    /// Folder to write.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    #[command(flatten)]
    pub(super) common: Common,
}

impl TrainArgs {
    /// Who is trained.
    pub fn role(&self) -> AgentRole {
        self.role.role()
    }

    fn settings(&self) -> Result<Settings> {
        let mut settings = self.common.settings()?;
        let policy = &mut settings.policy;
        policy.model = self.model.clone().or(policy.model.take());
        policy.adapter = self.adapter.clone().or(policy.adapter.take());
        policy.device = self.device.clone().unwrap_or_else(|| policy.device.clone());
        settings.seed = self.seed.unwrap_or(settings.seed);
        // Models that play along are where the policy is, unless told otherwise.
        for frozen in [&mut settings.reward.model, &mut settings.reward.coordinator_model] {
            if frozen.model.is_some() && frozen.device.is_none() {
                frozen.device = Some(settings.policy.device.clone());
            }
        }
        Ok(settings)
    }
}

pub(super) fn train(command: &TrainCommand) -> Result<()> {
    type Stage = fn(&Settings, &Run, &TrainArgs) -> Result<Report>;
    let (args, body, is_grpo): (&TrainArgs, Stage, bool) = match command {
        TrainCommand::Sft(args) => (args, stage::train::sft, false),
        TrainCommand::Grpo(args) => (args, stage::train::grpo, true),
    };
    let settings = args.settings()?;
    if args.dry_run {
        return stage::train::dry_run(&settings, args, is_grpo);
    }
    let report = body(&settings, &Run::open(&args.run, args.resume)?, args)?;
    pipeline::print_reports(&[report]);
    Ok(())
}
