//! The command line: flags resolved into [`Settings`], then handed to a stage.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tracemill_data::artifact::AgentRole;
use tracemill_data::export::Kind;
use tracemill_models::cluster::Engine;

use crate::config::{InputSetting, resolve};
use crate::pipeline;
use crate::run::{Report, Run};
use crate::settings::Settings;
use crate::stage;

/// GUI interaction traces into intents, skills and plan memory.
#[derive(Debug, Parser)]
#[command(name = "tracemill", version, about, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the stages of a recipe, one after the other.
    Run(RunArgs),
    /// Generate the sample corpus: a simulated phone and desktop with known intents (synthetic).
    Sample(SampleArgs),
    /// Read source datasets into R/traces.
    Ingest(IngestArgs),
    /// Cut episodes into intent units and write their views to R/units.
    Label(StageArgs),
    /// Embed the views into R/embeddings.
    Embed(StageArgs),
    /// Train the multi-view encoder into R/encoder.
    Encode(StageArgs),
    /// Cluster latents into intent groups and subgroups (R/intents), or plain vectors.
    Cluster(ClusterArgs),
    /// Induce skills from the subgroups into R/skills.
    Induce(StageArgs),
    /// Build the plan memory, or query it.
    Memory {
        #[command(subcommand)]
        command: MemoryCommand,
    },
    /// Measure what a run has found.
    Eval {
        #[command(subcommand)]
        command: EvalCommand,
    },
    /// Write SFT and RL data sets for training frameworks.
    Export {
        #[command(subcommand)]
        command: ExportCommand,
    },
    /// Check a data set: what a training framework would drop, misread or choke on.
    Validate(ValidateArgs),
    /// Score stored replies of an executor by a profile, or compare two profiles.
    Score(ScoreArgs),
    /// Reward outputs of a Coordinator or State Tracker through the frozen Executor.
    Reward(RewardArgs),
    /// Serve scores and rewards over HTTP.
    Serve {
        #[command(subcommand)]
        command: ServeCommand,
    },
    /// Check the endpoints of the settings, and a pool of tasks, before hours are spent on them.
    Doctor(DoctorArgs),
    /// Walk from a skill, a subgroup, a unit, a row or an episode back to its source records.
    Explain(ExplainArgs),
    /// Look into a ledger of model calls.
    Ledger(stage::ledger::LedgerArgs),
    /// Write R/report/index.html: one self-contained page.
    Report(StageArgs),
}

#[derive(Debug, Args)]
struct Common {
    /// Settings (TOML); with none the defaults apply.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Override one setting: `--set encode.train.epochs=10`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Common {
    fn settings(&self) -> Result<Settings> {
        resolve(self.config.as_deref(), &self.set)
    }
}

#[derive(Debug, Args)]
struct StageArgs {
    /// The run folder.
    #[arg(long, value_name = "R")]
    run: PathBuf,
    /// Skip the stage when its output is still valid.
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// A recipe file, or the name of a built-in one: demo, intents.
    recipe: PathBuf,
    /// The run folder.
    #[arg(long, value_name = "R")]
    run: PathBuf,
    /// Skip stages whose output is still valid.
    #[arg(long)]
    resume: bool,
    /// Start at this stage of the recipe.
    #[arg(long, value_name = "STAGE")]
    from: Option<String>,
    /// Run only this stage of the recipe.
    #[arg(long, value_name = "STAGE", conflicts_with = "from")]
    only: Option<String>,
    /// Override one setting. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the resolved settings and the stages, and stop.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct SampleArgs {
    /// Folder to write; it must be empty or absent.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of episodes.
    #[arg(long, value_name = "N")]
    episodes: Option<u64>,
    /// Seed.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// gui-odyssey (the phone), ui-log (the desktop) or all.
    #[arg(long)]
    format: Option<String>,
    /// Render the screens as PNG files too.
    #[arg(long)]
    screens: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct IngestArgs {
    #[command(flatten)]
    stage: StageArgs,
    /// Format of the --input at the same position.
    #[arg(long, value_name = "F")]
    format: Vec<String>,
    /// A file, or a folder searched recursively.
    #[arg(long, value_name = "PATH")]
    input: Vec<PathBuf>,
    /// Fail when a larger share of records is rejected (0 to 1).
    #[arg(long, value_name = "SHARE")]
    max_rejects: Option<f64>,
}

#[derive(Debug, Args)]
struct ClusterArgs {
    /// The run folder.
    #[arg(long, value_name = "R", required_unless_present = "vectors")]
    run: Option<PathBuf>,
    /// Cluster these vectors instead (Parquet: id, vector).
    #[arg(long, value_name = "V.parquet", requires = "out", conflicts_with = "run")]
    vectors: Option<PathBuf>,
    /// Where labels go (Parquet: id, label, probability, `outlier_score`).
    #[arg(long, value_name = "L.parquet", requires = "vectors")]
    out: Option<PathBuf>,
    /// Smallest cluster.
    #[arg(long, value_name = "N", requires = "vectors")]
    min_cluster_size: Option<usize>,
    /// Neighbours that make a point a core point, itself counted [default: --min-cluster-size].
    #[arg(long, value_name = "M", requires = "vectors")]
    min_samples: Option<usize>,
    /// The program's own, or the `hdbscan` crate [default: exact].
    #[arg(long, requires = "vectors", value_enum)]
    engine: Option<EngineName>,
    /// Skip the stage when its output is still valid.
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    common: Common,
}

/// An implementation of HDBSCAN, by its name on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum EngineName {
    Exact,
    Crate,
}

impl EngineName {
    fn engine(self) -> Engine {
        match self {
            Self::Exact => Engine::Exact,
            Self::Crate => Engine::Crate,
        }
    }
}

#[derive(Debug, Subcommand)]
enum MemoryCommand {
    /// Build R/memory.
    Build(StageArgs),
    /// Find skills and traces for a text.
    Query(QueryArgs),
}

/// Arguments of `memory query`.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// The run folder.
    #[arg(long, value_name = "R")]
    pub run: PathBuf,
    /// What is wanted, in words.
    pub text: String,
    /// Number of subgroups to return.
    #[arg(long, value_name = "K", default_value_t = 5)]
    pub top: usize,
    /// The ungated baseline: the most similar units, whatever their group.
    #[arg(long)]
    pub greedy: bool,
    /// JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum EvalCommand {
    /// Separation and purity of the latents; with --ablate for the four loss variants.
    Encoder(EncoderEvalArgs),
    /// Type, GR and SR of an executor: of stored replies, or of the built-in one on a run's steps.
    Actions(ActionsEvalArgs),
    /// The whole loop of Coordinator, Executor and State Tracker over a run's episodes, in several setups.
    Ces(CesEvalArgs),
    /// How often the endpoint of `[temporal]` puts two screens in order, by interval.
    Temporal(TemporalEvalArgs),
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
    common: Common,
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
    common: Common,
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
    common: Common,
}

#[derive(Debug, Subcommand)]
enum ExportCommand {
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
    /// Folder to write [default: R/datasets/temporal].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
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
    common: Common,
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
    /// `path` or `bytes` [default: bytes for verl, trl and openai].
    #[arg(long, value_name = "FORM")]
    pub images: Option<String>,
    /// Folder that screenshots are named below [default: where the traces were read from].
    #[arg(long, value_name = "DIR")]
    pub image_root: Option<PathBuf>,
    /// Publish without validating.
    #[arg(long)]
    pub no_check: bool,
    /// Folder to write [default: R/datasets/<kind>-<role>-<target>].
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

/// Arguments of `score`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ScoreArgs {
    #[command(subcommand)]
    command: Option<ScoreCommand>,
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
enum ScoreCommand {
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
    common: Common,
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
    common: Common,
}

#[derive(Debug, Subcommand)]
enum ServeCommand {
    /// POST /reward and /score, each with a batch of rows; GET /health.
    Reward(ServeRewardArgs),
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
    common: Common,
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

impl Cli {
    /// Does what the command line asks for.
    ///
    /// # Errors
    /// Those of the stage, with what to do about them.
    pub fn execute(self) -> Result<()> {
        match self.command {
            Command::Run(args) => run_recipe(args),
            Command::Sample(args) => sample(args),
            Command::Ingest(args) => ingest(args),
            Command::Label(args) => one_stage(&args, stage::label::run),
            Command::Embed(args) => one_stage(&args, stage::embed::run),
            Command::Encode(args) => one_stage(&args, stage::encode::run),
            Command::Cluster(args) => cluster(args),
            Command::Induce(args) => one_stage(&args, stage::induce::run),
            Command::Memory { command: MemoryCommand::Build(args) } => one_stage(&args, stage::memory::run),
            Command::Memory { command: MemoryCommand::Query(args) } => {
                stage::memory::query(&args.common.settings()?, &args)
            }
            Command::Eval { command: EvalCommand::Encoder(args) } => {
                stage::eval::encoder(&args.common.settings()?, &args)
            }
            Command::Eval { command: EvalCommand::Actions(args) } => {
                stage::eval_actions::run(&args.common.settings()?, &args)
            }
            Command::Eval { command: EvalCommand::Ces(args) } => {
                stage::eval_ces::run(&args.common.settings()?, &args)
            }
            Command::Eval { command: EvalCommand::Temporal(args) } => {
                stage::temporal::eval(&args.common.settings()?, &args)
            }
            Command::Eval { command: EvalCommand::Sample(args) } => stage::eval_sample::run(&args),
            Command::Export { command: ExportCommand::Sft(args) } => stage::export::run(&args, Kind::Sft),
            Command::Export { command: ExportCommand::Rl(args) } => stage::export::run(&args, Kind::Rl),
            Command::Export { command: ExportCommand::Temporal(args) } => stage::temporal::export(&args),
            Command::Validate(args) => stage::validate::run(&args),
            Command::Score(ScoreArgs { command: Some(ScoreCommand::Diff(args)), .. }) => {
                stage::score::diff(&args)
            }
            Command::Score(args) => stage::score::run(&args),
            Command::Doctor(args) => stage::doctor::run(&args.common.settings()?, &args),
            Command::Reward(args) => stage::reward::run(&args.common.settings()?, &args),
            Command::Serve { command: ServeCommand::Reward(args) } => {
                stage::serve::reward(&args.common.settings()?, &args)
            }
            Command::Explain(args) => stage::explain::run(&args),
            Command::Ledger(args) => stage::ledger::run(&args),
            Command::Report(args) => one_stage(&args, stage::report::run),
        }
    }
}

fn one_stage(args: &StageArgs, body: fn(&Settings, &Run) -> Result<Report>) -> Result<()> {
    let report = body(&args.common.settings()?, &Run::open(&args.run, args.resume)?)?;
    pipeline::print_reports(&[report]);
    Ok(())
}

fn run_recipe(args: RunArgs) -> Result<()> {
    let RunArgs { recipe, run, resume, from, only, set, dry_run } = args;
    let settings = pipeline::load_recipe(&recipe, &set)?;
    let stages = pipeline::plan(&settings, from.as_deref(), only.as_deref())?;
    if dry_run {
        return pipeline::print_plan(&settings, &stages);
    }
    let reports = pipeline::execute(&settings, &Run::open(&run, resume)?, &stages)?;
    pipeline::print_reports(&reports);
    pipeline::print_next_steps(&run);
    Ok(())
}

fn sample(args: SampleArgs) -> Result<()> {
    let SampleArgs { out, episodes, seed, format, screens, common } = args;
    let mut settings = common.settings()?;
    settings.sample.episodes = episodes.unwrap_or(settings.sample.episodes);
    settings.seed = seed.unwrap_or(settings.seed);
    settings.sample.format = format.unwrap_or(settings.sample.format);
    settings.sample.screens |= screens;
    stage::sample::standalone(&settings, &out)
}

fn ingest(args: IngestArgs) -> Result<()> {
    let IngestArgs { stage, format, input, max_rejects } = args;
    let mut settings = stage.common.settings()?;
    if format.len() != input.len() {
        bail!("{} --format and {} --input: give one --format before each --input", format.len(), input.len());
    }
    if !input.is_empty() {
        settings.ingest.inputs = format
            .into_iter()
            .zip(input)
            .map(|(format, path)| {
                let path = path.to_str().context("--input: the path is not UTF-8")?.to_owned();
                Ok(InputSetting { format, path, optional: false })
            })
            .collect::<Result<_>>()?;
    }
    settings.ingest.max_rejects = max_rejects.unwrap_or(settings.ingest.max_rejects);
    let report = stage::ingest::run(&settings, &Run::open(&stage.run, stage.resume)?)?;
    pipeline::print_reports(&[report]);
    Ok(())
}

fn cluster(args: ClusterArgs) -> Result<()> {
    let ClusterArgs { run, vectors, out, min_cluster_size, min_samples, engine, resume, common } = args;
    let settings = common.settings()?;
    if let (Some(vectors), Some(out)) = (vectors, out) {
        let min_cluster_size = min_cluster_size.unwrap_or(settings.cluster.ig_min_cluster_size);
        let engine = engine.map_or(settings.cluster.engine, EngineName::engine);
        return stage::cluster::vectors(&vectors, &out, min_cluster_size, min_samples, engine);
    }
    let run = run.context("give --run R, or --vectors V.parquet --out L.parquet")?;
    let report = stage::cluster::run(&settings, &Run::open(&run, resume)?)?;
    pipeline::print_reports(&[report]);
    Ok(())
}
