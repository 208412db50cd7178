//! Arguments of `score`, `reward`, `serve`, `doctor` and `explain`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Common;

/// Arguments of `score`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ScoreArgs {
    #[command(subcommand)]
    pub(super) command: Option<ScoreCommand>,
    /// The rules: paper, ces-code, swirl, gui-r1 or odyssey.
    #[arg(long, value_name = "P", default_value = "paper")]
    pub profile: String,
    /// Rows (JSON lines): id, prediction, truth, screen.
    #[arg(long, value_name = "ROWS.jsonl")]
    pub input: Option<PathBuf>,
    /// Where scores go, a line for each line of the input.
    #[arg(long, value_name = "SCORED.jsonl")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum ScoreCommand {
    /// Re-score stored replies under another profile and show where the two disagree.
    Diff(ScoreDiffArgs),
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// A pool (JSON lines): role, task, screen, truth, and the `outputs` of a group, or what `export rl
    /// --target tracemill` writes.
    #[arg(long, value_name = "POOL.jsonl")]
    pub input: Option<PathBuf>,
    /// An exported data set: its rows, splits and origins, and tasks it shares; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub dataset: Vec<PathBuf>,
    /// The run whose traces were mined: test tasks among them are leaks.
    #[arg(long, value_name = "R", requires = "dataset")]
    pub run: Option<PathBuf>,
    /// Outputs drawn for a prompt of the pool that has none.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub outputs: u32,
    /// How many prompts of the pool are tried.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub prompts: usize,
    /// Folder that the rows' screenshots lie in.
    #[arg(long, value_name = "DIR")]
    pub images: Option<PathBuf>,
    /// JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Arguments of `reward`.
#[derive(Debug, Args)]
pub struct RewardArgs {
    /// Outputs (JSON lines): id, role, output, task, screen, truth.
    #[arg(long, value_name = "OUTPUTS.jsonl")]
    pub input: PathBuf,
    /// Where rewards go, a line for each output.
    #[arg(long, value_name = "REWARDS.jsonl")]
    pub out: PathBuf,
    /// Folder that the rows' screenshots lie in.
    #[arg(long, value_name = "DIR")]
    pub images: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Subcommand)]
pub(super) enum ServeCommand {
    /// POST /reward and /score, each with a batch of rows; GET /health.
    Reward(ServeRewardArgs),
    /// A policy of one's own behind OpenAI's chat completions, with log-probabilities.
    Executor(ServeExecutorArgs),
}

/// Arguments of `serve executor`.
#[derive(Debug, Args)]
pub struct ServeExecutorArgs {
    /// Address to listen at.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8766")]
    pub addr: std::net::SocketAddr,
    /// A Hugging Face folder, or a GGUF file [default: the setting `reward.model.model`].
    #[arg(long, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// An adapter (a PEFT folder) on top of it.
    #[arg(long, value_name = "DIR")]
    pub adapter: Option<PathBuf>,
    /// cpu, cuda or cuda:N.
    #[arg(long)]
    pub device: Option<String>,
    /// The model's name in replies [default: its files].
    #[arg(long)]
    pub name: Option<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Arguments of `serve reward`.
#[derive(Debug, Args)]
pub struct ServeRewardArgs {
    /// Address to listen at.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8765")]
    pub addr: std::net::SocketAddr,
    /// The rules, instead of the setting `reward.profile`.
    #[arg(long, value_name = "P")]
    pub profile: Option<String>,
    /// Folder that the rows' screenshots lie in.
    #[arg(long, value_name = "DIR")]
    pub images: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Arguments of `score diff`.
#[derive(Debug, Args)]
pub struct ScoreDiffArgs {
    /// Rows (JSON lines): id, prediction, truth, screen.
    #[arg(long, value_name = "ROWS.jsonl")]
    pub input: PathBuf,
    /// One profile.
    #[arg(long, value_name = "P", default_value = "paper")]
    pub profile: String,
    /// The other.
    #[arg(long, value_name = "P")]
    pub against: String,
    /// How many disagreements to show.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub show: usize,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A skill (`sg12.0`), a subgroup (`sg12`), a unit, a row of a data set
    /// (`<episode>#<step>/coordinator`) or an episode.
    pub id: String,
    /// A data set outside R/datasets.
    #[arg(long, value_name = "DIR")]
    pub dataset: Option<PathBuf>,
    /// The run folder.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// JSON instead of text.
    #[arg(long)]
    pub json: bool,
}
