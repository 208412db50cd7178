//! Arguments of `abstract` and `lessons`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use super::{Common, StageArgs, one_stage};
use crate::pipeline;
use crate::run::Run;
use crate::stage;

/// Arguments of `abstract`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct AbstractArgs {
    #[command(subcommand)]
    command: Option<AbstractCommand>,
    /// The run folder.
    #[arg(long, value_name = "R")]
    run: Option<PathBuf>,
    /// Skip the stage when its output is still valid.
    #[arg(long)]
    resume: bool,
    /// Fail when a larger share of pictures is missing or unreadable (0 to 1).
    #[arg(long, value_name = "SHARE")]
    max_rejects: Option<f64>,
    /// Most questions put to the model; the rules answer the rest.
    #[arg(long, value_name = "N")]
    max_calls: Option<u64>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum AbstractCommand {
    /// Count what policies read under full history, a sliding window and `HiSA`, into R/tokens.
    Tokens(StageArgs),
}

pub(super) fn abstract_run(args: AbstractArgs) -> Result<()> {
    let AbstractArgs { command, run, resume, max_rejects, max_calls, common } = args;
    if let Some(AbstractCommand::Tokens(args)) = command {
        return one_stage(&args, stage::abstract_::tokens::run);
    }
    let run = run.context("give --run R")?;
    let mut settings = common.settings()?;
    settings.abstraction.max_rejects = max_rejects.unwrap_or(settings.abstraction.max_rejects);
    settings.abstraction.max_calls = max_calls.or(settings.abstraction.max_calls);
    let report = stage::abstract_::run(&settings, &Run::open(&run, resume)?)?;
    pipeline::print_reports(&[report]);
    Ok(())
}

#[derive(Debug, Subcommand)]
pub(super) enum LessonsCommand {
    /// Induce lessons from R/states into R/lessons.
    Build(LessonsBuildArgs),
    /// Find lessons for a task, and sum them up in at most five bullets.
    Query(LessonsQueryArgs),
    /// Show which lessons newer ones took the place of.
    History(LessonsHistoryArgs),
}

/// Arguments of `lessons build`.
#[derive(Debug, Args)]
pub(super) struct LessonsBuildArgs {
    #[command(flatten)]
    stage: StageArgs,
    /// Standard operating procedures (TOML: `[[require]]` with `domain` and `text`).
    #[arg(long, value_name = "FILE")]
    require: Option<PathBuf>,
    /// Most questions put to the model; the rules answer the rest.
    #[arg(long, value_name = "N")]
    max_calls: Option<u64>,
}

/// Arguments of `lessons query`.
#[derive(Debug, Args)]
pub struct LessonsQueryArgs {
    /// The run folder.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// The task, in words.
    pub text: String,
    /// Application or site whose lessons are looked at [default: all].
    #[arg(long, value_name = "D")]
    pub domain: Option<String>,
    /// Most lessons to return [default: lessons.store.top].
    #[arg(long, value_name = "K")]
    pub top: Option<usize>,
    /// JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `lessons history`.
#[derive(Debug, Args)]
pub struct LessonsHistoryArgs {
    /// The run folder.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

pub(super) fn lessons(command: LessonsCommand) -> Result<()> {
    match command {
        LessonsCommand::Build(LessonsBuildArgs { stage: args, require, max_calls }) => {
            let mut settings = args.common.settings()?;
            settings.lessons.require = require.or(settings.lessons.require);
            settings.lessons.max_calls = max_calls.or(settings.lessons.max_calls);
            let report = stage::lessons::build(&settings, &Run::open(&args.run, args.resume)?)?;
            pipeline::print_reports(&[report]);
            Ok(())
        }
        LessonsCommand::Query(args) => stage::lessons::query(&args.common.settings()?, &args),
        LessonsCommand::History(args) => stage::lessons::history(&args),
    }
}
