//! The types of a trace and the flat rows they are stored as.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::action::{Action, BBox, Position, ScreenSize, Verb};
use crate::artifact::Truth;

/// A source format: the adapter's name on the command line and in every artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// GUI-Odyssey v2 annotation JSON.
    GuiOdyssey,
    /// CES's released SFT rows (LLaMA-Factory sharegpt), Coordinator or State Tracker.
    CesSft,
    /// AndroidControl as UI-S1's standardised JSON lines.
    AndroidControl,
    /// ScreenAgent session folders.
    Screenagent,
    /// Multimodal-Mind2Web steps as `UGround`'s blocks rows.
    Mind2web,
    /// Apromore-style UI logs (CSV).
    UiLog,
    /// AgentNet: raw recordings, the standardised form, AgentNetBench.
    Agentnet,
    /// `AutoDroid`'s `DroidTask`: task profiles and the explorations (`utg.yaml`) of its applications.
    Droidtask,
    /// Android in the Zoo: AITW episodes with screen elements and chains of thought.
    Aitz,
    /// AMEX: instruction and element annotations.
    Amex,
    /// OSWorld trajectories, and explorations with OSWorld's accessibility trees.
    Osworld,
    /// WebVoyager trajectories: chats of an agent with a browser.
    Webvoyager,
}

impl Format {
    /// Whether its episodes have no ids of their own and are named after their files or their tasks, of which
    /// there may be several attempts.
    pub fn names_after_files(self) -> bool {
        matches!(self, Self::Screenagent | Self::UiLog | Self::Osworld | Self::Webvoyager)
    }

    /// Every format with an adapter, in declaration order.
    pub const ALL: [Self; 12] = [
        Self::GuiOdyssey,
        Self::CesSft,
        Self::AndroidControl,
        Self::Screenagent,
        Self::Mind2web,
        Self::UiLog,
        Self::Agentnet,
        Self::Droidtask,
        Self::Aitz,
        Self::Amex,
        Self::Osworld,
        Self::Webvoyager,
    ];

    /// The name on the command line: `gui-odyssey`.
    pub fn name(self) -> &'static str {
        match self {
            Self::GuiOdyssey => "gui-odyssey",
            Self::CesSft => "ces-sft",
            Self::AndroidControl => "android-control",
            Self::Screenagent => "screenagent",
            Self::Mind2web => "mind2web",
            Self::UiLog => "ui-log",
            Self::Agentnet => "agentnet",
            Self::Droidtask => "droidtask",
            Self::Aitz => "aitz",
            Self::Amex => "amex",
            Self::Osworld => "osworld",
            Self::Webvoyager => "webvoyager",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|f| f.name() == s).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|f| f.name()).collect();
            format!("unknown format `{s}`; known formats: {}", names.join(", "))
        })
    }
}

/// Where an episode was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Platform {
    /// Phone or tablet.
    Mobile,
    /// A browser.
    Web,
    /// A desktop operating system.
    Desktop,
}

/// How an episode ended, as far as the source says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The source says that the task was done.
    Success,
    /// The source says that it was not, or could not be.
    Failure,
    /// The source does not say.
    Unknown,
}

/// The screen a step acted on (before the action).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Screen {
    /// Screenshot: path relative to the input, or the source's own absolute path or URL, unread.
    pub screenshot: Option<String>,
    /// True when the screenshot was found under the input folder.
    pub screenshot_found: bool,
    /// Size in pixels, where the source gives it.
    pub size: Option<ScreenSize>,
    /// File with the accessibility tree, relative to the input, or `file#line`.
    pub tree: Option<String>,
    /// What the screen shows, where the source says it as text: in the source's order. A screen with
    /// elements needs no pixels.
    pub elements: Vec<Element>,
}

/// One element of a screen: what can be seen, touched or typed into.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Element {
    /// The source's own id, unique on its screen; what a model is shown and may answer with.
    pub id: String,
    /// Role in the source's words: `button`, `checkbox`, `ICON_HOME`, `EditControl`.
    pub role: String,
    /// Label or content; several lines where the source has several.
    pub text: String,
    /// States that are set, in the source's words and order: `checked=True`, `focused`.
    pub states: Vec<String>,
    /// Where it is, where the source says so.
    pub bbox: Option<BBox>,
}

/// One step: an action, the screen it acted on, and the texts that came with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Position in the episode, from 0, as the source numbers it or in file order.
    pub step: u32,
    /// Where in [`Episode::source`] this step stands: `line 12`, `steps[3]`, a file name.
    pub source_key: String,
    /// What was done.
    pub action: Action,
    /// On what screen.
    pub screen: Screen,
    /// Application in front.
    pub app: Option<String>,
    /// Title of the window in front.
    pub window: Option<String>,
    /// Address of the page, or the site's name.
    pub site: Option<String>,
    /// Seconds since the episode's first step.
    pub time_secs: Option<f64>,
    /// Low-level instruction of this step.
    pub instruction: Option<String>,
    /// What the screen shows, in words.
    pub description: Option<String>,
    /// Why the action was taken (intention or thought).
    pub thought: Option<String>,
    /// Summary of progress before this step (GUI-Odyssey's `context`, CES's previous state).
    pub context: Option<String>,
    /// The sub-task this step belongs to, where the source marks sub-tasks.
    pub subtask: Option<String>,
}

impl Step {
    /// A step with nothing but its number, its place in the source and its action.
    pub fn new(step: u32, source_key: impl Into<String>, action: Action) -> Self {
        Self {
            step,
            source_key: source_key.into(),
            action,
            screen: Screen::default(),
            app: None,
            window: None,
            site: None,
            time_secs: None,
            instruction: None,
            description: None,
            thought: None,
            context: None,
            subtask: None,
        }
    }
}

/// One episode: a task carried out step by step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// Unique in a run: `<format>:<the source's own id>`.
    pub episode_id: String,
    /// The adapter that read it.
    pub format: Format,
    /// File (or folder) it was read from, relative to the input path's parent.
    pub source: String,
    /// Where in that file: `line 12`, `rows 3-9`, or empty when the file is the episode.
    pub source_key: String,
    /// Where it was recorded.
    pub platform: Platform,
    /// The task in words; empty when the source has none.
    pub instruction: String,
    /// Applications or sites the source lists for the whole episode.
    pub apps: Vec<String>,
    /// The source's own grouping: GUI-Odyssey's category, `Mind2Web`'s domain.
    pub domain: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Split (`train`, `test`, …) where the source assigns one.
    pub split: Option<String>,
    /// Whatever else the source says of the episode, as a JSON object.
    pub extra: Option<String>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// Why a record was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectKind {
    /// Not valid JSON or CSV, or cut off.
    Malformed,
    /// Not valid UTF-8.
    NotUtf8,
    /// A field that the format requires is absent or of the wrong type.
    MissingField,
    /// A value outside what the format allows: coordinates, verbs, step numbers.
    OutOfRange,
    /// An episode id seen before.
    Duplicate,
    /// A screenshot that must exist does not.
    MissingScreenshot,
    /// A path that leaves the input folder.
    UnsafePath,
    /// The record holds no step.
    Empty,
    /// The file could not be opened or read.
    Unreadable,
}

/// A record that was refused; one line of `rejects.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reject {
    /// The adapter.
    pub format: Format,
    /// File, relative to the input path's parent.
    pub file: String,
    /// Line or key inside it; empty when the whole file is meant.
    pub key: String,
    /// Id of the episode, as far as it could be read.
    pub episode_id: Option<String>,
    /// Class of the reason, for counting.
    pub kind: RejectKind,
    /// The reason and the remedy, for a person.
    pub reason: String,
}

/// A row of `R/traces/episodes.parquet`: an [`Episode`] without its steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpisodeRow {
    /// See [`Episode::episode_id`].
    pub episode_id: String,
    /// See [`Episode::format`].
    pub format: String,
    /// See [`Episode::source`].
    pub source: String,
    /// See [`Episode::source_key`].
    pub source_key: String,
    /// See [`Episode::platform`].
    pub platform: String,
    /// See [`Episode::instruction`].
    pub instruction: String,
    /// The first of `apps`, for grouping; empty when there is none.
    pub app: String,
    /// See [`Episode::apps`].
    pub apps: Vec<String>,
    /// See [`Episode::domain`].
    pub domain: Option<String>,
    /// See [`Episode::outcome`].
    pub outcome: String,
    /// See [`Episode::split`].
    pub split: Option<String>,
    /// Number of steps.
    pub steps: u32,
    /// See [`Episode::extra`].
    pub extra: Option<String>,
    /// The state after the last step and who told it, from `R/states`; no column of the traces.
    #[serde(skip)]
    pub final_state: Option<(String, String)>,
}

/// A row of `R/traces/steps.parquet`: a [`Step`] with its action's fields side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each field is documented on Step and Action")]
pub struct StepRow {
    pub episode_id: String,
    pub step: u32,
    pub source_key: String,
    /// The canonical verb's name.
    pub action: String,
    pub source_verb: String,
    pub point: Option<Position>,
    pub end: Option<Position>,
    pub text: Option<String>,
    pub direction: Option<String>,
    pub source_direction: Option<String>,
    pub target_name: Option<String>,
    pub target_role: Option<String>,
    pub target_boxes: Vec<BBox>,
    pub target_element: Option<String>,
    pub amount: Option<f64>,
    pub screenshot: Option<String>,
    pub screenshot_found: bool,
    pub screen_width_px: Option<u32>,
    pub screen_height_px: Option<u32>,
    pub tree: Option<String>,
    pub elements: Vec<Element>,
    pub app: Option<String>,
    pub window: Option<String>,
    pub site: Option<String>,
    pub time_secs: Option<f64>,
    pub instruction: Option<String>,
    pub description: Option<String>,
    pub thought: Option<String>,
    pub context: Option<String>,
    pub subtask: Option<String>,
    /// The screen as prompts show it, from `R/observations`; no column of the traces.
    #[serde(skip)]
    pub observation: Option<String>,
    /// Who told `context`, where it is from `R/states`; no column of the traces.
    #[serde(skip)]
    pub context_from: Option<String>,
}

/// The partition, of `partitions`, that an episode belongs to: `xxh3(episode_id) mod partitions`.
pub fn partition_of(episode_id: &str, partitions: u32) -> u32 {
    (xxhash_rust::xxh3::xxh3_64(episode_id.as_bytes()) % u64::from(partitions.max(1))) as u32
}

impl Platform {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mobile => "mobile",
            Self::Web => "web",
            Self::Desktop => "desktop",
        }
    }
}

impl Outcome {
    /// What the last of `steps` declares: success, failure, or nothing.
    pub fn declared_by(steps: &[Step]) -> Self {
        match steps.last().map(|step| step.action.verb) {
            Some(Verb::Complete) => Self::Success,
            Some(Verb::Impossible) => Self::Failure,
            _ => Self::Unknown,
        }
    }

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Unknown => "unknown",
        }
    }
}

impl RejectKind {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::NotUtf8 => "not_utf8",
            Self::MissingField => "missing_field",
            Self::OutOfRange => "out_of_range",
            Self::Duplicate => "duplicate",
            Self::MissingScreenshot => "missing_screenshot",
            Self::UnsafePath => "unsafe_path",
            Self::Empty => "empty",
            Self::Unreadable => "unreadable",
        }
    }
}

impl Episode {
    /// The row of `episodes.parquet` and the rows of `steps.parquet`.
    pub fn into_rows(self) -> (EpisodeRow, Vec<StepRow>) {
        let steps: Vec<_> = self.steps.into_iter().map(|s| StepRow::new(&self.episode_id, s)).collect();
        let row = EpisodeRow {
            episode_id: self.episode_id,
            format: self.format.name().to_owned(),
            source: self.source,
            source_key: self.source_key,
            platform: self.platform.name().to_owned(),
            instruction: self.instruction,
            app: self.apps.first().cloned().unwrap_or_default(),
            apps: self.apps,
            domain: self.domain,
            outcome: self.outcome.name().to_owned(),
            split: self.split,
            steps: steps.len() as u32,
            extra: self.extra,
            final_state: None,
        };
        (row, steps)
    }
}

impl StepRow {
    fn new(episode_id: &str, step: Step) -> Self {
        let Step { action, screen, .. } = step;
        Self {
            episode_id: episode_id.to_owned(),
            step: step.step,
            source_key: step.source_key,
            action: action.verb.name().to_owned(),
            source_verb: action.source_verb,
            point: action.point,
            end: action.end,
            text: action.text,
            direction: action.direction.map(|d| d.name().to_owned()),
            source_direction: action.source_direction,
            target_name: action.target.name,
            target_role: action.target.role,
            target_boxes: action.target.boxes,
            target_element: action.target.element,
            amount: action.amount,
            screenshot: screen.screenshot,
            screenshot_found: screen.screenshot_found,
            screen_width_px: screen.size.map(|s| s.width_px),
            screen_height_px: screen.size.map(|s| s.height_px),
            tree: screen.tree,
            elements: screen.elements,
            app: step.app,
            window: step.window,
            site: step.site,
            time_secs: step.time_secs,
            instruction: step.instruction,
            description: step.description,
            thought: step.thought,
            context: step.context,
            subtask: step.subtask,
            observation: None,
            context_from: None,
        }
    }

    /// The screen that the step acted on.
    pub fn screen(&self) -> Screen {
        let size = self.screen_width_px.zip(self.screen_height_px);
        Screen {
            screenshot: self.screenshot.clone(),
            screenshot_found: self.screenshot_found,
            size: size.map(|(width_px, height_px)| ScreenSize { width_px, height_px }),
            tree: self.tree.clone(),
            elements: self.elements.clone(),
        }
    }

    /// What a reward compares with: coordinates in pixels, where the screen's size is known or the source
    /// gives them so; a scroll's direction is the content's.
    pub fn truth(&self) -> Truth {
        let size = self.screen().size;
        let pixels = |p: Position| p.to_pixels(size).map(|p| [p.x, p.y]);
        let corner = |x, y, frame| pixels(Position { x, y, frame });
        let boxes = self.target_boxes.iter().filter_map(|b| {
            let ([left, top], [right, bottom]) =
                (corner(b.left, b.top, b.frame)?, corner(b.right, b.bottom, b.frame)?);
            Some([left, top, right, bottom])
        });
        Truth {
            action: self.action.clone(),
            point: self.point.and_then(pixels),
            boxes: boxes.collect(),
            text: self.text.clone(),
            direction: self.direction.clone(),
            element: self.target_element.clone(),
        }
    }

    /// The canonical verb.
    ///
    /// # Errors
    /// When the column holds a verb this version does not know.
    pub fn verb(&self) -> Result<Verb, String> {
        self.action.parse()
    }
}
