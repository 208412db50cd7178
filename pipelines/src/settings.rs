//! The settings of every stage, with their defaults. A recipe overlays them.

use std::path::PathBuf;

use anyhow::{Result, bail};
use candle_core::Device;
use serde::{Deserialize, Serialize};
use tracemill_data::a11y::Phases;
use tracemill_data::adapters::AdapterOptions;
use tracemill_data::artifact::AgentRole;
use tracemill_data::views::SegmentSettings;
use tracemill_models::cluster::Engine;
use tracemill_models::memory::plan::PlanSettings;
use tracemill_models::multiview::{EncoderConfig, TrainConfig};
use tracemill_models::skill::SkillSettings;

use crate::chat::{ChatSettings, OpenAiSettings};
use crate::config::InputSetting;
use crate::executor::Coordinates;
use crate::stage::abstract_::{AbstractSection, LessonsSection};
use crate::train::{GrpoSection, LocalModelSection, PolicySection, SftSection};

/// Everything a run depends on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Seed of everything random.
    pub seed: u64,
    /// Stages that `run` carries out.
    pub stages: Vec<String>,
    /// The sample corpus.
    pub sample: SampleSection,
    /// Sources.
    pub ingest: IngestSection,
    /// Screens as text.
    #[serde(default)]
    pub observe: ObserveSection,
    /// Changed regions, abstracted steps, refined contexts.
    #[serde(default, rename = "abstract")]
    pub abstraction: AbstractSection,
    /// Lessons.
    #[serde(default)]
    pub lessons: LessonsSection,
    /// Segmentation into intent units.
    pub label: SegmentSettings,
    /// Text embedder.
    pub embed: EmbedSection,
    /// Multi-view encoder.
    pub encode: EncodeSection,
    /// Intent groups and subgroups.
    pub cluster: ClusterSection,
    /// Skills.
    pub induce: InduceSection,
    /// Plan memory.
    pub memory: MemorySection,
    /// Planning with memory.
    #[serde(default)]
    pub plan: PlanSettings,
    /// The page.
    pub report: ReportSection,
    /// Execution feedback. Runs made before there was any have no such section.
    #[serde(default)]
    pub reward: RewardSection,
    /// The roles of `eval ces`.
    #[serde(default)]
    pub ces: CesSection,
    /// Who is asked by `eval temporal`.
    #[serde(default)]
    pub temporal: TemporalSection,
    /// The model that is trained.
    #[serde(default)]
    pub policy: PolicySection,
    /// Supervised warm-up.
    #[serde(default)]
    pub sft: SftSection,
    /// GRPO from execution feedback.
    #[serde(default)]
    pub grpo: GrpoSection,
}

/// `[sample]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleSection {
    /// Number of episodes.
    pub episodes: u64,
    /// `gui-odyssey` (the phone), `ui-log` (the desktop) or `all`.
    pub format: String,
    /// Render screens as PNG.
    pub screens: bool,
}

impl Default for SampleSection {
    fn default() -> Self {
        Self { episodes: 1_000, format: "all".to_owned(), screens: false }
    }
}

/// `[ingest]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IngestSection {
    /// What to read.
    pub inputs: Vec<InputSetting>,
    /// Largest share of rejected records that is accepted.
    pub max_rejects: f64,
    /// Refuse an episode whose screenshot is not under the input folder.
    pub require_screenshots: bool,
}

impl Default for IngestSection {
    fn default() -> Self {
        Self { inputs: Vec::new(), max_rejects: 1.0, require_screenshots: false }
    }
}

impl IngestSection {
    /// The options that adapters take.
    pub fn adapter_options(&self) -> AdapterOptions {
        AdapterOptions { require_screenshots: self.require_screenshots }
    }
}

/// `[embed]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmbedSection {
    /// `hash` (built in), `minilm` or `openai` (a server).
    pub model: String,
    /// Dimension of `hash`.
    pub dim: usize,
    /// Folder of the `minilm` weights; by default where `scripts/fetch-models.sh` puts them.
    pub model_dir: Option<PathBuf>,
    /// Tokens of a text that `minilm` reads; the rest is cut off.
    pub max_tokens: usize,
    /// Keep vectors in the user's cache folder, keyed by model and text.
    pub cache: bool,
    /// The server of `openai`. Runs made before there was one have no such section.
    #[serde(default)]
    pub openai: OpenAiSettings,
}

impl Default for EmbedSection {
    fn default() -> Self {
        Self {
            model: "hash".to_owned(),
            dim: 1_024,
            model_dir: None,
            max_tokens: 256,
            cache: false,
            openai: OpenAiSettings::default(),
        }
    }
}

/// `[reward]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RewardSection {
    /// The rules: `paper`, `ces-code`, `swirl`, `gui-r1` or `odyssey`.
    pub profile: String,
    /// `lexical` (built in, for screens with elements), `endpoint` or `model` (a policy in this process).
    pub executor: String,
    /// What an endpoint's coordinates are: `px`, `norm`, `thousandths`, or `resized` (Qwen2.5-VL: pixels of the
    /// picture that the model saw).
    pub coordinates: Coordinates,
    /// Longest reply of the executor and of the Coordinator, in tokens (CES, table 4).
    pub max_tokens: u32,
    /// Hold an endpoint's replies on text screens to a JSON schema of actions and of the screen's elements, for
    /// models that do not keep to the form by themselves. The server must know `response_format` (see `doctor`).
    pub structured: bool,
    /// The server of `endpoint`.
    pub endpoint: ChatSettings,
    /// The model of the executor `model`.
    pub model: LocalModelSection,
    /// The frozen Coordinator of a State Tracker's reward, behind a server.
    pub coordinator: ChatSettings,
    /// The same in this process.
    pub coordinator_model: LocalModelSection,
}

impl Default for RewardSection {
    fn default() -> Self {
        Self {
            profile: "paper".to_owned(),
            executor: "lexical".to_owned(),
            coordinates: Coordinates::Px,
            max_tokens: 256,
            structured: false,
            endpoint: ChatSettings::default(),
            model: LocalModelSection::default(),
            coordinator: ChatSettings::default(),
            coordinator_model: LocalModelSection::default(),
        }
    }
}

/// `[ces]`: who plays Coordinator and State Tracker in `eval ces`. The executor is that of `[reward]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CesSection {
    /// Models that were not trained for their roles (CES-P, table 2).
    pub prompted: RolesSection,
    /// Models that were.
    pub trained: RolesSection,
}

/// `[temporal]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TemporalSection {
    /// The server.
    pub endpoint: ChatSettings,
    /// Longest reply, in tokens.
    pub max_tokens: u32,
}

impl Default for TemporalSection {
    fn default() -> Self {
        Self { endpoint: ChatSettings::default(), max_tokens: 512 }
    }
}

/// `[ces.prompted]` and `[ces.trained]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RolesSection {
    /// The Coordinator's server.
    pub coordinator: ChatSettings,
    /// The State Tracker's server; the Coordinator's where it has no endpoints.
    pub state_tracker: ChatSettings,
}

impl RolesSection {
    /// The server of a role.
    pub fn chat(&self, role: AgentRole) -> &ChatSettings {
        match role {
            AgentRole::Coordinator => &self.coordinator,
            AgentRole::StateTracker => &self.state_tracker,
        }
    }
}

/// `[encode]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EncodeSection {
    /// `cpu`, or `cuda` in a build with that feature.
    pub device: String,
    /// Shape of the encoder; `dim_in` is taken from the embeddings.
    pub model: EncoderConfig,
    /// Training; `seed` is taken from the run.
    pub train: TrainConfig,
}

impl Default for EncodeSection {
    fn default() -> Self {
        Self { device: "cpu".to_owned(), model: EncoderConfig::default(), train: TrainConfig::default() }
    }
}

/// `[cluster]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterSection {
    /// `exact`, or `crate` (the `hdbscan` crate, for comparison).
    pub engine: Engine,
    /// Smallest intent group.
    pub ig_min_cluster_size: usize,
    /// Smallest subgroup.
    pub sg_min_cluster_size: usize,
    /// A group stays whole unless its parts are denser than the gaps between them by more than about
    /// `2 - 1 / sg_root_extent`: 1 splits most readily.
    pub sg_root_extent: f64,
    /// Latents nearer than this count as equally near, so that copies do not outweigh the rest.
    pub ig_resolution: f64,
    /// The same within a group.
    pub sg_resolution: f64,
    /// Least of it, as a share of the group's radius.
    pub sg_resolution_share: f64,
    /// Representative units kept for each subgroup.
    pub representatives: usize,
}

impl Default for ClusterSection {
    fn default() -> Self {
        Self {
            engine: Engine::Exact,
            ig_min_cluster_size: 5,
            sg_min_cluster_size: 3,
            sg_root_extent: 1.5,
            ig_resolution: 0.05,
            sg_resolution: 0.02,
            sg_resolution_share: 0.8,
            representatives: 10,
        }
    }
}

/// `[induce]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InduceSection {
    /// File with an alias map of one's own; the built-in one by default.
    pub alias_map: Option<PathBuf>,
    /// Medoids, support and examples.
    pub skills: SkillSettings,
}

/// `[observe]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ObserveSection {
    /// A folder of rules beside the program's own: general.toml, and a file for each application.
    pub rules: Option<PathBuf>,
    /// Phases of the compressor.
    pub phases: Phases,
    /// How tokens are counted: `o200k_base`, `cl100k_base`, or the path of a tokenizer.json.
    pub tokens: String,
    /// Write what became of every element.
    pub audit: bool,
}

impl Default for ObserveSection {
    fn default() -> Self {
        Self { rules: None, phases: Phases::default(), tokens: "o200k_base".to_owned(), audit: false }
    }
}

/// `[memory]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySection {
    /// Intent groups that pass the gate of a query.
    pub gates: usize,
    /// Traces returned for each subgroup.
    pub traces: usize,
}

impl Default for MemorySection {
    fn default() -> Self {
        Self { gates: 3, traces: 2 }
    }
}

/// `[report]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportSection {
    /// Skills shown.
    pub top_skills: usize,
    /// Points on the map.
    pub map_points: usize,
}

impl Default for ReportSection {
    fn default() -> Self {
        Self { top_skills: 20, map_points: 4_000 }
    }
}

/// The device of a name.
///
/// # Errors
/// An unknown name, or `cuda` in a build without it or on a machine without a GPU.
pub fn device(name: &str) -> Result<Device> {
    match name {
        "cpu" => Ok(Device::Cpu),
        name if name == "cuda" || name.starts_with("cuda:") => {
            let number = name.strip_prefix("cuda:").unwrap_or("0");
            let Ok(number) = number.parse() else {
                bail!("unknown device `{name}`; known: cpu, cuda, cuda:N")
            };
            if !cfg!(feature = "cuda") {
                bail!("this build has no CUDA: see README, section GPU (scripts/build-cuda.sh)");
            }
            Ok(Device::new_cuda(number)?)
        }
        other => bail!("unknown device `{other}`; known: cpu, cuda, cuda:N"),
    }
}

/// The user's cache folder of the project: `$TRACEMILL_CACHE`, or `tracemill` in
/// `$XDG_CACHE_HOME` or `~/.cache`. `None` when none of these is set.
pub fn cache_dir() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("TRACEMILL_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|d| d.join("tracemill")))
        .or_else(|| set("HOME").map(|d| d.join(".cache/tracemill")))
}
