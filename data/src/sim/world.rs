//! The simulated world as data: applications, screens, elements, task templates and value pools.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::SampleError;
use crate::action::Direction;

/// Which of the two simulated devices a world describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Device {
    #[default]
    Phone,
    Desktop,
}

impl Device {
    /// The folder below the output, and the name in `truth.jsonl`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Phone => "phone",
            Self::Desktop => "desktop",
        }
    }
}

/// What an element is: decides how it is laid out, drawn, worded and logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    Text,
    Row,
    Field,
    Switch,
    Option,
    Button,
    Action,
    Fab,
    Tab,
    /// Launcher icon of the home screen; only the interpreter makes them.
    Icon,
    /// Card of the list of recent applications; only the interpreter makes them.
    Card,
    Tool,
    Side,
    Item,
    Link,
    Check,
    Radio,
    Menu,
    Cell,
}

/// An element of a screen, or a run of them when it repeats over a pool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Element {
    pub role: Role,
    pub label: String,
    /// Name in HTML, or the column letter of a cell.
    pub name: Option<String>,
    /// Screen a tap leads to.
    pub to: Option<String>,
    /// Screen a long press or a right click leads to.
    pub hold: Option<String>,
    /// Pool the element repeats over, the episode's own value among the others.
    pub list: Option<String>,
    /// True for the act that finishes a task: noise never touches it.
    #[serde(default)]
    pub commit: bool,
}

/// One entry of an application's tab bar.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tab {
    pub label: String,
    pub to: String,
}

/// A screen of an application.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Screen {
    pub id: String,
    pub title: String,
    /// What the screen shows, as a noun phrase.
    pub about: String,
    /// Field that has the cursor when the screen comes up.
    pub focus: Option<String>,
    /// Path of the page, below the application's `url`.
    pub url: Option<String>,
    /// Sheet of the workbook.
    pub sheet: Option<String>,
    /// True when the application's tab bar is shown.
    #[serde(default)]
    pub tabs: bool,
    pub elements: Vec<Element>,
}

/// An application; its first screen is where it starts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct App {
    pub id: String,
    pub name: String,
    /// GUI-Odyssey's task category.
    #[serde(default)]
    pub category: String,
    /// The UI log's `targetApp`.
    #[serde(default)]
    pub process: String,
    pub url: Option<String>,
    pub workbook: Option<String>,
    /// True when the window has a back button.
    #[serde(default)]
    pub back: bool,
    #[serde(default)]
    pub tabs: Vec<Tab>,
    #[serde(rename = "screen")]
    pub screens: Vec<Screen>,
}

/// A dialog that comes up unasked; its first button dismisses it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Popup {
    pub title: String,
    pub text: String,
    pub buttons: Vec<String>,
}

/// What a template's step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Do {
    Tap,
    Double,
    Right,
    Long,
    Select,
    Type,
    Scroll(Direction),
    Copy,
    Paste,
    Key,
}

/// A parsed step of a template.
#[derive(Debug)]
pub(super) struct Plan {
    pub act: Do,
    /// Label of the element, or the text.
    pub arg: String,
    /// Taken in a quarter of the episodes; not part of the canonical sequence.
    pub optional: bool,
}

/// A task with parameters: one intent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Template {
    pub id: String,
    pub app: String,
    /// What the task is about, for phrases such as "Save the {noun}.".
    pub noun: String,
    pub params: Vec<String>,
    /// The task's result, in the past.
    pub done: String,
    /// The task as a command, in at least five ways.
    pub phrasings: Vec<String>,
    pub steps: Vec<String>,
    #[serde(skip)]
    pub plan: Vec<Plan>,
    #[serde(skip)]
    pub app_index: usize,
}

/// One of the two simulated devices.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct World {
    #[serde(skip)]
    pub device: Device,
    pub pool: BTreeMap<String, Vec<String>>,
    #[serde(rename = "popup")]
    pub popups: Vec<Popup>,
    #[serde(rename = "app")]
    pub apps: Vec<App>,
    #[serde(rename = "template")]
    pub templates: Vec<Template>,
}

/// The values of an episode: one for each pool.
pub(super) type Bindings = BTreeMap<String, String>;

impl World {
    /// The world of a device, from the tables built into the program.
    ///
    /// # Errors
    /// A table that does not parse, or names what it does not define.
    pub fn load(device: Device) -> Result<Self, SampleError> {
        match device {
            Device::Phone => Self::parse(device, include_str!("phone.toml")),
            Device::Desktop => Self::parse(device, include_str!("desktop.toml")),
        }
    }

    /// A world from the text of its table.
    pub fn parse(device: Device, text: &str) -> Result<Self, SampleError> {
        let mut world: Self = toml::from_str(text).map_err(|e| SampleError::world(device, e.to_string()))?;
        world.device = device;
        for template in &mut world.templates {
            template.app_index = world.apps.iter().position(|a| a.id == template.app).ok_or_else(|| {
                let why = format!("template `{}`: no application `{}`", template.id, template.app);
                SampleError::world(device, why)
            })?;
            template.plan =
                template.steps.iter().map(|s| parse_step(s)).collect::<Result<_, _>>().map_err(|why| {
                    SampleError::world(device, format!("template `{}`: {why}", template.id))
                })?;
        }
        world.check_links()?;
        Ok(world)
    }

    fn check_links(&self) -> Result<(), SampleError> {
        let fail = |why: String| Err(SampleError::world(self.device, why));
        for app in &self.apps {
            let targets =
                app.screens.iter().flat_map(|s| &s.elements).flat_map(|e| [&e.to, &e.hold]).flatten();
            for to in targets.chain(app.tabs.iter().map(|t| &t.to)) {
                if app.screen(to).is_none() {
                    return fail(format!("application `{}`: no screen `{to}`", app.id));
                }
            }
            for list in app.screens.iter().flat_map(|s| &s.elements).filter_map(|e| e.list.as_ref()) {
                if self.pool.get(list).is_none_or(|p| p.len() < LIST_LEN) {
                    return fail(format!("application `{}`: pool `{list}` needs {LIST_LEN} values", app.id));
                }
            }
        }
        for template in &self.templates {
            if let Some(param) = template.params.iter().find(|p| !self.pool.contains_key(*p)) {
                return fail(format!("template `{}`: no pool `{param}`", template.id));
            }
        }
        Ok(())
    }
}

impl App {
    /// Position of the screen `id`.
    pub fn screen(&self, id: &str) -> Option<usize> {
        self.screens.iter().position(|s| s.id == id)
    }
}

/// Elements that a `list` shows.
pub(super) const LIST_LEN: usize = 5;

/// The `LIST_LEN` values of a list: neighbours of `chosen` in the pool, `chosen` at a place that
/// depends on it alone.
pub(super) fn listed<'w>(pool: &'w [String], chosen: &str) -> impl Iterator<Item = &'w str> {
    let at = pool.iter().position(|v| v == chosen).unwrap_or(0);
    let place = xxhash_rust::xxh3::xxh3_64(chosen.as_bytes()) as usize % LIST_LEN;
    let start = at + pool.len() - place % pool.len();
    (0..LIST_LEN.min(pool.len())).map(move |k| pool[(start + k) % pool.len()].as_str())
}

/// Puts the values into `{name}` places; a name without a value stays as it is.
pub(super) fn fill(pattern: &str, bind: &Bindings) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(open) = rest.find('{') {
        let Some(close) = rest[open..].find('}').map(|c| open + c) else { break };
        out.push_str(&rest[..open]);
        match bind.get(&rest[open + 1..close]) {
            Some(value) => out.push_str(value),
            None => out.push_str(&rest[open..=close]),
        }
        rest = &rest[close + 1..];
    }
    out.push_str(rest);
    out
}

fn parse_step(text: &str) -> Result<Plan, String> {
    let (verb, arg) = text.split_once(' ').ok_or_else(|| format!("step `{text}` has no argument"))?;
    let optional = verb.ends_with('?');
    let act = match verb.trim_end_matches('?') {
        "tap" | "click" => Do::Tap,
        "double" => Do::Double,
        "right" => Do::Right,
        "long" => Do::Long,
        "select" => Do::Select,
        "type" => Do::Type,
        "scroll" => Do::Scroll(arg.parse()?),
        "copy" => Do::Copy,
        "paste" => Do::Paste,
        "key" => Do::Key,
        other => return Err(format!("step `{text}`: unknown verb `{other}`")),
    };
    Ok(Plan { act, arg: arg.to_owned(), optional })
}

impl Plan {
    /// The canonical predicate of the step, one of the 17 verbs of the alias map. Buttons named
    /// after a verb of their own (`Save`, `Save copy`) count as that verb.
    pub fn verb(&self) -> &'static str {
        match self.act {
            Do::Tap if self.arg == "Save" || self.arg.starts_with("Save ") => "save",
            Do::Tap => "click",
            Do::Double => "double_click",
            Do::Right => "right_click",
            Do::Long => "long_press",
            Do::Select => "select",
            Do::Type => "text_input",
            Do::Scroll(_) => "scroll",
            Do::Copy => "copy",
            Do::Paste => "paste",
            Do::Key => "press",
        }
    }

    /// True when the step points at an element.
    pub fn has_target(&self) -> bool {
        matches!(self.act, Do::Tap | Do::Double | Do::Right | Do::Long | Do::Select)
    }
}

impl Template {
    /// Canonical predicates, without noise, optional steps and the opening of the application.
    pub fn canonical(&self) -> Vec<&'static str> {
        self.plan.iter().filter(|p| !p.optional).map(Plan::verb).collect()
    }
}
