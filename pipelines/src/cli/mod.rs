//! The command line: flags resolved into [`Settings`], then handed to a stage.

mod eval;
mod export;
mod feedback;
mod plan;
mod screens;
mod states;
mod topology;
mod train;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tracemill_data::export::Kind;
use tracemill_models::cluster::Engine;

use eval::EvalCommand;
pub use eval::{
    ActionsEvalArgs, CesEvalArgs, EncoderEvalArgs, PlanningEvalArgs, SampleEvalArgs, TemporalEvalArgs,
};
use export::ExportCommand;
pub use export::{ExportArgs, RoleName, TemporalExportArgs, ValidateArgs};
pub use feedback::{
    DoctorArgs, ExplainArgs, RewardArgs, ScoreArgs, ScoreDiffArgs, ServeExecutorArgs, ServeRewardArgs,
};
use feedback::{ScoreCommand, ServeCommand};
pub use plan::{PlanApproveArgs, PlanArgs, PlanCommand, PlanHistoryArgs, PlanRejectArgs};
pub use screens::CompressArgs;
use states::{AbstractArgs, LessonsCommand};
pub use states::{LessonsHistoryArgs, LessonsQueryArgs};
use topology::TopologyCommand;
pub use topology::{TopologyBuildArgs, TopologyShowArgs, TopologyVisitArgs};
use train::TrainCommand;
pub use train::{MergeArgs, TrainArgs};

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
    /// Render the screens of R/traces as compact text into R/observations.
    Observe(StageArgs),
    /// Find what each step changed on the screen, and refine contexts, into R/states.
    Abstract(AbstractArgs),
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
    /// Plan a command with the memory; approve, reject and list plans.
    Plan(PlanArgs),
    /// What trajectories teach: build a store of lessons, query it, see what replaced what.
    Lessons {
        #[command(subcommand)]
        command: LessonsCommand,
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
    /// Train a high-level agent: an adapter of a language model, into R/policies.
    Train {
        #[command(subcommand)]
        command: TrainCommand,
    },
    /// Write a Hugging Face folder of a model with an adapter merged in.
    Merge(MergeArgs),
    /// Write accessibility trees as the compact text that a model is shown.
    Compress(CompressArgs),
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
    /// Which control leads to which: build a navigation topology, show it, resolve calls against it.
    Topology {
        #[command(subcommand)]
        command: TopologyCommand,
    },
    /// Check the endpoints of the settings, and a pool of tasks, before hours are spent on them.
    Doctor(DoctorArgs),
    /// Walk from a skill, a subgroup, a unit, a row or an episode back to its source records.
    Explain(ExplainArgs),
    /// How the intents, skills and lessons of two runs differ, and why.
    Diff(DiffArgs),
    /// Look into a ledger of model calls.
    Ledger(stage::ledger::LedgerArgs),
    /// Write R/report/index.html: one self-contained page.
    Report(StageArgs),
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The run before.
    #[arg(value_name = "RUN_A")]
    pub before: PathBuf,
    /// The run after.
    #[arg(value_name = "RUN_B")]
    pub after: PathBuf,
    /// Folder for diff.html and diff.json.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// JSON instead of tables.
    #[arg(long)]
    pub json: bool,
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
            Command::Observe(args) => one_stage(&args, stage::observe::run),
            Command::Abstract(args) => states::abstract_run(args),
            Command::Label(args) => one_stage(&args, stage::label::run),
            Command::Embed(args) => one_stage(&args, stage::embed::run),
            Command::Encode(args) => one_stage(&args, stage::encode::run),
            Command::Cluster(args) => cluster(args),
            Command::Induce(args) => one_stage(&args, stage::induce::run),
            Command::Memory { command: MemoryCommand::Build(args) } => one_stage(&args, stage::memory::run),
            Command::Memory { command: MemoryCommand::Query(args) } => {
                stage::memory::query(&args.common.settings()?, &args)
            }
            Command::Lessons { command } => states::lessons(command),
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
            Command::Plan(args) => stage::plan::run(&args.common.settings()?, &args),
            Command::Eval { command: EvalCommand::Planning(args) } => {
                stage::eval_planning::run(&args.common.settings()?, &args)
            }
            Command::Eval { command: EvalCommand::Sample(args) } => stage::eval_sample::run(&args),
            Command::Export { command: ExportCommand::Sft(args) } => stage::export::run(&args, Kind::Sft),
            Command::Export { command: ExportCommand::Rl(args) } => stage::export::run(&args, Kind::Rl),
            Command::Export { command: ExportCommand::Temporal(args) } => stage::temporal::export(&args),
            Command::Train { command } => train::train(&command),
            Command::Merge(args) => stage::train::merge(&args.common.settings()?, &args),
            Command::Compress(args) => stage::compress::run(&args),
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
            Command::Serve { command: ServeCommand::Executor(args) } => {
                stage::serve_executor::run(&args.common.settings()?, &args)
            }
            Command::Topology { command: TopologyCommand::Build(args) } => stage::topology::build(&args),
            Command::Topology { command: TopologyCommand::Show(args) } => stage::topology::show(&args),
            Command::Topology { command: TopologyCommand::Visit(args) } => stage::topology_visit::run(&args),
            Command::Explain(args) => stage::explain::run(&args),
            Command::Diff(args) => stage::diff::run(&args),
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
