//! Arguments of `eval`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Common;
use crate::stage::observe::Shown as Observation;

#[derive(Debug, Subcommand)]
pub(super) enum EvalCommand {
    /// Separation and purity of the latents; with --ablate for the four loss variants.
    Encoder(EncoderEvalArgs),
    /// Type, GR and SR of an executor: of stored replies, or of the built-in one on a run's steps.
    Actions(ActionsEvalArgs),
    /// The whole loop of Coordinator, Executor and State Tracker over a run's episodes, in several setups.
    Ces(CesEvalArgs),
    /// How often the endpoint of `[temporal]` puts two screens in order, by interval.
    Temporal(TemporalEvalArgs),
    /// Plans for held-out tasks, by what the planner may use (table 1 of `IntentCUA`).
    Planning(PlanningEvalArgs),
    /// Subgroups and skills of a run on the sample corpus against its hidden truth (synthetic).
    Sample(SampleEvalArgs),
}

/// Arguments of `eval actions`.
#[derive(Debug, Args)]
pub struct ActionsEvalArgs {
    /// A run with traces: the executor of the settings (`lexical` by default) acts on its steps.
    #[arg(long, value_name = "R", conflicts_with = "input")]
    pub run: Option<PathBuf>,
    /// Stored replies (JSON lines): rows as `score` reads them, with `episode` and `app`.
    #[arg(long, value_name = "ROWS.jsonl")]
    pub input: Option<PathBuf>,
    /// Where rows and metrics go [default: R/eval; nowhere for --input].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Word each step in several ways, for sources without low-level instructions.
    #[arg(long, requires = "run")]
    pub phrasings: bool,
    /// The rules: paper, ces-code, swirl, gui-r1 or odyssey.
    #[arg(long, value_name = "P", default_value = "paper")]
    pub profile: String,
    /// Folder of the run's screenshots, for an executor that looks.
    #[arg(long, value_name = "DIR", requires = "run")]
    pub images: Option<PathBuf>,
    /// What of a screen with elements is shown; compressed and linear are those of R/observations, and of a compressed screen
    /// the executor gets the elements that it says [default: the picture with --images, else the elements].
    #[arg(long, value_enum, value_name = "SHOWN", requires = "run")]
    pub observation: Option<Observation>,
    /// Bootstrap resamples over episodes.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub resamples: u32,
    /// Seed of the bootstrap.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// JSON instead of tables.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Arguments of `eval ces`.
#[derive(Debug, Args)]
pub struct CesEvalArgs {
    /// A run with traces.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// baseline, rules, prompted, trained, no-coordinator, no-state-tracker, gold-state or gold; may be
    /// repeated [default: every one that the settings allow].
    #[arg(long, value_name = "NAME")]
    pub setup: Vec<String>,
    /// The rules: paper, ces-code, swirl, gui-r1 or odyssey.
    #[arg(long, value_name = "P", default_value = "paper")]
    pub profile: String,
    /// Folder of the run's screenshots, for roles that look.
    #[arg(long, value_name = "DIR")]
    pub images: Option<PathBuf>,
    /// What of a screen with elements is shown; compressed and linear are those of R/observations, and of a compressed screen
    /// the executor gets the elements that it says [default: the picture with --images, else the elements].
    #[arg(long, value_enum, value_name = "SHOWN")]
    pub observation: Option<Observation>,
    /// The exported data set that the roles were trained on: its test episodes are evaluated, and
    /// applications that it does not train on are told apart.
    #[arg(long, value_name = "DIR")]
    pub dataset: Option<PathBuf>,
    /// At most so many episodes, the first ones.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Write what is evaluated, with hashes, so that it can be evaluated again unchanged.
    #[arg(long, value_name = "FILE")]
    pub freeze: Option<PathBuf>,
    /// Evaluate what was frozen, and fail where anything is not as it was.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["limit", "dataset"])]
    pub frozen: Option<PathBuf>,
    /// Where rows and metrics go [default: R/eval/ces].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Bootstrap resamples over tasks.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub resamples: u32,
    /// Seed of the bootstrap.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// JSON instead of tables.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Arguments of `eval sample`.
#[derive(Debug, Args)]
pub struct SampleEvalArgs {
    /// The run folder, with `sample`, units, intents and skills.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// The sample corpus, where it is not in the run folder.
    #[arg(long, value_name = "S")]
    pub sample: Option<PathBuf>,
}

/// Arguments of `eval encoder`.
#[derive(Debug, Args)]
pub struct EncoderEvalArgs {
    /// The run folder, with units and embeddings.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// Train the four loss variants (tables 3 and 4), and compare with raw embeddings.
    #[arg(long)]
    pub ablate: bool,
    /// Seeds to train with.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub seeds: u64,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Arguments of `eval temporal`.
#[derive(Debug, Args)]
pub struct TemporalEvalArgs {
    /// What `export temporal` wrote.
    #[arg(long, value_name = "DIR")]
    pub input: PathBuf,
    /// Folder of the screenshots.
    #[arg(long, value_name = "DIR")]
    pub images: Option<PathBuf>,
    /// Where rows and figures go.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Bootstrap resamples over tasks.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub resamples: u32,
    /// Seed of the bootstrap.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Arguments of `eval planning`.
#[derive(Debug, Args)]
pub struct PlanningEvalArgs {
    /// The run folder, with traces, units, embeddings and encoder.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// Share of the tasks that is held out of the memory and planned.
    #[arg(long, value_name = "SHARE", default_value_t = 0.2)]
    pub hold_out: f64,
    /// Train an encoder on the held-in units alone, in place of the run's, which saw every unit.
    #[arg(long)]
    pub retrain: bool,
    /// Bootstraps of the held-in episodes that step consistency is measured over (table 5); 0 leaves it out.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub bootstraps: u64,
    /// At most so many tasks, the first ones.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Share of the simulated tasks in which a dialog comes up.
    #[arg(long, value_name = "SHARE", default_value_t = 0.4)]
    pub popups: f64,
    /// The sample corpus, where it is not in the run folder.
    #[arg(long, value_name = "S")]
    pub sample: Option<PathBuf>,
    /// Bootstrap resamples over tasks.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub resamples: u32,
    /// Seed of the held-out draw, the bootstraps and the resamples.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// JSON instead of tables.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub(super) common: Common,
}
