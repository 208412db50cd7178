//! Arguments of `plan`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Common;

/// Arguments of `plan`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct PlanArgs {
    /// The run folder.
    #[arg(long, value_name = "R", required = true)]
    pub run: Option<PathBuf>,
    /// What is to be done, in words.
    #[arg(required = true)]
    pub text: Option<String>,
    /// Store the plan as approved: it may be reused from now on.
    #[arg(long)]
    pub approve: bool,
    /// Use no stored plan and no skill, or less: no-traces, greedy, intent, plan-memory, without-intent or full.
    #[arg(long, value_name = "VARIANT", default_value = "full")]
    pub variant: String,
    /// JSON instead of tables.
    #[arg(long)]
    pub json: bool,
    /// What else is done with plans.
    #[command(subcommand)]
    pub command: Option<PlanCommand>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// What else is done with plans.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Store a plan as approved: one that `plan --json` printed, edited if need be.
    Approve(PlanApproveArgs),
    /// Reject a plan: it is not reused any more.
    Reject(PlanRejectArgs),
    /// Everything that was approved and rejected, in order.
    History(PlanHistoryArgs),
}

/// Arguments of `plan approve`.
#[derive(Debug, Args)]
pub struct PlanApproveArgs {
    /// The run folder.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// The plan, as JSON.
    #[arg(value_name = "PLAN.json")]
    pub plan: PathBuf,
    /// A remark for the history.
    #[arg(long)]
    pub note: Option<String>,
}

/// Arguments of `plan reject`.
#[derive(Debug, Args)]
pub struct PlanRejectArgs {
    /// The run folder.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// The plan's id.
    #[arg(value_name = "PLAN")]
    pub plan_id: String,
    /// A remark for the history.
    #[arg(long)]
    pub note: Option<String>,
}

/// Arguments of `plan history`.
#[derive(Debug, Args)]
pub struct PlanHistoryArgs {
    /// The run folder.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// JSON lines instead of a table.
    #[arg(long)]
    pub json: bool,
}
