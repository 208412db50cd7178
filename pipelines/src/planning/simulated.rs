//! The simulated applications of `sample` as a world: tasks from the corpus's hidden truth, acts from a plan's.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use tracemill_data::action::Direction;
use tracemill_data::sim::{SimAct, Simulator};
use tracemill_models::memory::plan::{Deed, Observation, World};

/// What a simulated episode was about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimTask {
    /// `phone` or `desktop`.
    pub platform: String,
    /// Task templates, in order.
    pub templates: Vec<String>,
    /// Values of their parameters.
    pub params: BTreeMap<String, String>,
}

/// A line of `truth.jsonl`, as far as it is needed.
#[derive(Deserialize)]
struct TruthRow {
    episode_id: String,
    platform: String,
    intent: String,
    segment: usize,
    params: BTreeMap<String, String>,
}

/// The tasks of a sample corpus by episode; none where there is no corpus. Only the evaluation reads them.
///
/// # Errors
/// A truth that cannot be read.
pub fn sim_tasks(corpus: &Path) -> Result<BTreeMap<String, SimTask>> {
    let path = corpus.join("truth.jsonl");
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut tasks: BTreeMap<String, SimTask> = BTreeMap::new();
    let mut segments: BTreeMap<String, usize> = BTreeMap::new();
    for (i, line) in text.lines().enumerate() {
        let row: TruthRow =
            serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), i + 1))?;
        let task = tasks.entry(row.episode_id.clone()).or_default();
        task.platform = row.platform;
        if segments.insert(row.episode_id, row.segment) != Some(row.segment) {
            task.templates.push(row.intent);
        }
        task.params.extend(row.params);
    }
    Ok(tasks)
}

impl SimTask {
    /// Whether the command says every value that the task needs.
    pub fn is_told_by(&self, command: &str) -> bool {
        let command = command.to_lowercase();
        self.params.values().all(|value| command.contains(&value.to_lowercase()))
    }
}

/// A simulated device as a plan's world.
pub struct Simulated<'w> {
    /// The device.
    pub device: Simulator<'w>,
}

impl World for Simulated<'_> {
    fn observe(&self) -> Observation {
        Observation {
            place: Some(self.device.app().unwrap_or_default().to_owned()),
            elements: Some(self.device.screen().elements),
            focus: Some(self.device.focus().unwrap_or_default().to_owned()),
            dialog: self.device.is_covered(),
        }
    }

    fn act(&mut self, deed: &Deed) -> Result<(), String> {
        let act = self.as_act(deed)?;
        self.device.act(&act).map_err(|refused| refused.to_string())
    }
}

impl Simulated<'_> {
    fn as_act(&self, deed: &Deed) -> Result<SimAct, String> {
        let value = |field: &str| deed.value(field).map(str::to_owned);
        let need =
            |field: &'static str| value(field).ok_or_else(|| format!("{} without a {field}", deed.verb));
        Ok(match deed.verb.as_str() {
            "click" | "hover" => SimAct::Tap(need("target")?),
            "double_click" => SimAct::Double(need("target")?),
            "right_click" => SimAct::Right(need("target")?),
            "long_press" => SimAct::Long(need("target")?),
            "select" => SimAct::Select(value("option").map_or_else(|| need("target"), Ok)?),
            "save" => SimAct::Tap(value("target").map_or_else(|| self.saving(), Ok)?),
            "text_input" => SimAct::Type(need("text")?),
            "copy" => SimAct::Copy,
            "paste" => SimAct::Paste(value("text")),
            "press" => SimAct::Key(need("key")?),
            "open" => SimAct::Open(value("app").map_or_else(|| need("url"), Ok)?),
            "switch_focus" => match need("target")?.as_str() {
                "home_screen" => SimAct::Home,
                "recent_apps" => SimAct::Recents,
                app => SimAct::Open(app.to_owned()),
            },
            "back" => SimAct::Back,
            "wait" => SimAct::Wait,
            "scroll" => {
                let direction = value("direction").unwrap_or_else(|| Direction::Down.name().to_owned());
                SimAct::Scroll(direction.parse()?)
            }
            other => return Err(format!("the simulated device knows no {other}")),
        })
    }

    /// The element that saves, where the step does not name it.
    fn saving(&self) -> Result<String, String> {
        let elements = self.device.screen().elements;
        let saves = |text: &str| text == "Save" || text.starts_with("Save ");
        let found = elements.into_iter().map(|e| e.text).find(|text| saves(text));
        found.ok_or_else(|| "nothing on the screen saves".to_owned())
    }
}
