//! Arguments of `export` and `validate`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tracemill_data::artifact::AgentRole;

use crate::stage::export::Contexts;
use crate::stage::observe::Shown as Observation;

#[derive(Debug, Subcommand)]
pub(super) enum ExportCommand {
    /// Prompts with the replies to learn.
    Sft(ExportArgs),
    /// Prompts with what their replies are rewarded by: the task pool of GRPO.
    Rl(ExportArgs),
    /// Pairs of screens at growing intervals: which came first?
    Temporal(TemporalExportArgs),
}

/// Arguments of `export temporal`.
#[derive(Debug, Args)]
pub struct TemporalExportArgs {
    /// The run folder, with traces.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// Steps between the two screens, several with commas.
    #[arg(long, value_name = "K,…", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16])]
    pub interval: Vec<usize>,
    /// Pairs drawn for each interval.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub pairs: usize,
    /// Seed of the draw, and of which screen is A.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Folder that screenshots are named below [default: where the traces were read from].
    #[arg(long, value_name = "DIR")]
    pub image_root: Option<PathBuf>,
    /// Folder to write [default: R/datasets/temporal].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Arguments of `export sft` and `export rl`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "flags")]
pub struct ExportArgs {
    /// The run folder, with traces.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// Whose rows.
    #[arg(long, value_enum)]
    pub role: RoleName,
    /// llama-factory, verl, trl, ms-swift, openai or tracemill.
    #[arg(long, value_name = "T")]
    pub target: String,
    /// How rows are worded: paper, or ces-code (CES's released rows, byte for byte).
    #[arg(long, value_name = "P", default_value = "paper")]
    pub profile: String,
    /// Every row. This is the default.
    #[arg(long, conflicts_with = "sample")]
    pub all: bool,
    /// Draw N training rows, and test rows in proportion.
    #[arg(long, value_name = "N")]
    pub sample: Option<usize>,
    /// Seed of the splits and the draw.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Share of tasks for the test split, where the source assigns none [default: 0.1; ces-code: 0].
    #[arg(long, value_name = "SHARE")]
    pub test_share: Option<f64>,
    /// Draw the splits anew even where the source assigns them.
    #[arg(long)]
    pub ignore_splits: bool,
    /// Word steps by rule where the source has no low-level instruction.
    #[arg(long)]
    pub worded: bool,
    /// Show screens with elements as text, whether there is a screenshot or not; the same as --observation elements.
    #[arg(long)]
    pub text_screens: bool,
    /// What prompts show of a screen; compressed and linear are those of R/observations.
    #[arg(long, value_enum, default_value = "screenshot", conflicts_with = "text_screens")]
    pub observation: Observation,
    /// Whose contexts rows have; states are those of R/states (`abstract`).
    #[arg(long, value_enum, default_value = "source")]
    pub contexts: Contexts,
    /// `path` or `bytes` [default: bytes for verl, trl and openai].
    #[arg(long, value_name = "FORM")]
    pub images: Option<String>,
    /// Folder that screenshots are named below [default: where the traces were read from].
    #[arg(long, value_name = "DIR")]
    pub image_root: Option<PathBuf>,
    /// Publish without validating.
    #[arg(long)]
    pub no_check: bool,
    /// Folder to write [default: R/datasets/KIND-ROLE-TARGET].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// A data set's folder, or one file of rows (.json, .jsonl, .parquet) of any supported form.
    #[arg(value_name = "PATH")]
    pub input: PathBuf,
    /// Folder that pictures are named below, besides the data set's own.
    #[arg(long, value_name = "DIR")]
    pub images: Option<PathBuf>,
    /// `tokenizer.json`, or the folder of a model that has one.
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,
    /// Most tokens of text that a row may have.
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<usize>,
    /// Where every finding goes, one a line.
    #[arg(long, value_name = "FINDINGS.jsonl")]
    pub out: Option<PathBuf>,
    /// JSON instead of tables.
    #[arg(long)]
    pub json: bool,
}

/// A high-level agent, by its name on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum RoleName {
    /// The planner.
    Coordinator,
    /// Its memory.
    StateTracker,
}

impl RoleName {
    /// The role.
    pub fn role(self) -> AgentRole {
        match self {
            Self::Coordinator => AgentRole::Coordinator,
            Self::StateTracker => AgentRole::StateTracker,
        }
    }
}
