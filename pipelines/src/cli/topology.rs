//! Arguments of `topology`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tracemill_data::nav::{DEFAULT_THETA, InjectionSpec, Theta};

#[derive(Debug, Subcommand)]
pub(super) enum TopologyCommand {
    /// Build graph and forest from exploration logs, transition graphs or traces.
    Build(TopologyBuildArgs),
    /// Print the text of the core topology, of what lies below a node, or of everything.
    Show(TopologyShowArgs),
    /// Resolve a call of `visit`, carry it out on the recorded graph and print what came of it as JSON.
    Visit(TopologyVisitArgs),
}

/// Arguments of `topology build`.
#[derive(Debug, Args)]
pub struct TopologyBuildArgs {
    /// An exploration log (.jsonl), a transition graph (utg.yaml, or `DroidBot`'s utg.js), a state or event of
    /// `DroidBot`, a folder of these searched recursively, or a folder with traces. May be repeated.
    #[arg(long, value_name = "PATH", required_unless_present = "run")]
    pub input: Vec<PathBuf>,
    /// Folder to write.
    #[arg(long, value_name = "DIR", required_unless_present = "run")]
    pub out: Option<PathBuf>,
    /// Build R/topology from R/traces instead.
    #[arg(long, value_name = "R", conflicts_with_all = ["input", "out"])]
    pub run: Option<PathBuf>,
    /// Skip the stage when its output is still valid.
    #[arg(long, requires = "run")]
    pub resume: bool,
    /// Cost above which a shared substructure gets a subtree of its own: nodes that cloning it would add, or inf.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_THETA)]
    pub theta: Theta,
    /// Levels of the core topology.
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub core_depth: u32,
    /// Leaves of one type below one node that the core takes for a large enumeration when there are more; of values
    /// (entries of lists, cells, icons) a third is enough.
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub enumeration: usize,
    /// Controls that the core leaves out: one rule a line (a name, or name:, type:, id: and a pattern with *).
    #[arg(long, value_name = "FILE")]
    pub prune: Option<PathBuf>,
    /// Controls that are not followed, in the form of --prune [default: Exit, Quit, Log out and the like].
    #[arg(long, value_name = "FILE")]
    pub blacklist: Option<PathBuf>,
    /// Share of controls by which two screens of traces count as one (0 to 1).
    #[arg(long, value_name = "SHARE", default_value_t = 0.7)]
    pub screen_similarity: f64,
    /// Fail when a larger share of records is rejected (0 to 1).
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub max_rejects: f64,
    /// How tokens are counted: `o200k_base`, `cl100k_base`, or a tokenizer.json.
    #[arg(long, value_name = "T", default_value = "o200k_base")]
    pub tokens: String,
    /// Recordings whose coverage by the graph is measured [default: those it is made from]. May be repeated.
    #[arg(long, value_name = "PATH")]
    pub against: Vec<PathBuf>,
}

/// Arguments of `topology show`.
#[derive(Debug, Args)]
pub struct TopologyShowArgs {
    /// The folder that `topology build` wrote.
    #[arg(long, value_name = "DIR")]
    pub forest: PathBuf,
    /// Show what lies below this node instead of the core (`further_query`). May be repeated.
    #[arg(long, value_name = "N", conflicts_with = "all")]
    pub id: Vec<u32>,
    /// Show the whole forest.
    #[arg(long)]
    pub all: bool,
    /// Levels of the core topology [default: as built].
    #[arg(long, value_name = "N")]
    pub core_depth: Option<u32>,
    /// Longest description, in characters.
    #[arg(long, value_name = "N", default_value_t = tracemill_data::nav::DESCRIPTION_CHARS)]
    pub description_chars: usize,
}

/// Arguments of `topology visit`.
#[derive(Debug, Args)]
pub struct TopologyVisitArgs {
    /// The folder that `topology build` wrote.
    #[arg(long, value_name = "DIR")]
    pub forest: PathBuf,
    /// The call: a JSON array of commands, or @FILE (@- reads standard input).
    #[arg(long, value_name = "JSON|@FILE")]
    pub commands: String,
    /// A turn that went before, in the same form: the call starts where it ended. May be repeated.
    #[arg(long, value_name = "JSON|@FILE")]
    pub after: Vec<String>,
    /// Put in a failure: renamed:ID=NAME, disabled:ID, slow:ID=LOOKS, absent:ID, key-fails:KEYS. May be repeated.
    #[arg(long, value_name = "FAILURE")]
    pub inject: Vec<InjectionSpec>,
    /// Times the executor looks again for a control that should be there.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub retries: u32,
    /// List the controls of the screen after the call, with the labels that declarations take.
    #[arg(long)]
    pub screen: bool,
    /// Exit with an error when the answer is one.
    #[arg(long)]
    pub strict: bool,
}
