//! A raw recording: reduced events, and beside them windows, trees, machine and task.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::events::{Event, complete_events, visible_event};
use super::{COMPLETE, Context, VISIBLE, text_of};
use crate::action::{BBox, FrameName, ScreenSize};
use crate::adapters::elements::smallest_around;
use crate::adapters::rows::some_records;
use crate::adapters::screenagent::name;
use crate::adapters::source::{Fault, Fields, Refused, Rejecter, parse_json, read_text};
use crate::adapters::{Item, Record, for_each_line};
use crate::trace::{Element, Episode, Format, Outcome, Platform, RejectKind, Screen, Step};

/// Reads the recording in `folder`.
///
/// A faulty event, machine or task file refuses the episode. A faulty line of `top_window.jsonl`,
/// `a11y.jsonl` or of the labels is a reject of its own: it only costs what it would have added.
pub(super) fn read(context: Context<'_>, folder: &Path, sink: &mut dyn FnMut(Record)) {
    let input = context.input;
    let episode_id = format!("{}:{}", Format::Agentnet, name(folder));
    let mut refuse = |file: &Path, key: String, fault| {
        let refused = Refused::new(key, Some(&episode_id), fault);
        sink(Rejecter::of(Format::Agentnet, input, file).record(refused));
    };
    let complete = folder.join(COMPLETE);
    let has_complete = complete.is_file();
    let file = if has_complete { complete } else { folder.join(VISIBLE) };
    let about = match About::read(folder) {
        Ok(about) => about,
        Err((file, fault)) => return refuse(&file, String::new(), fault),
    };
    let side = Side::read(folder, has_complete, &mut refuse);
    let tree = folder.join("a11y.jsonl");
    let tree = tree.strip_prefix(&input.root).unwrap_or(&tree).to_string_lossy().replace('\\', "/");
    let mut recording = Recording {
        about: &about,
        side: &side,
        tree,
        has_complete,
        hidden: 0,
        first_time: None,
        steps: Vec::new(),
    };
    let mut failed = None;
    let result = for_each_line(&Item::whole(file.clone()), |number, line| {
        if failed.is_none() {
            let added = line.and_then(|text| recording.add_line(number, text));
            failed = added.err().map(|fault| (format!("line {number}"), fault));
        }
    });
    let (steps, hidden) = (recording.steps, recording.hidden);
    let whole = |fault| (String::new(), fault);
    let read = result.map_err(whole).and_then(|()| failed.map_or(Ok(()), Err));
    if let Err((key, fault)) = read.and_then(|()| some_records(steps.len()).map_err(whole)) {
        return refuse(&file, key, fault);
    }
    let episode = episode(episode_id, input.display(folder), &about, steps, hidden);
    sink(Record::Episode(Box::new(episode)));
}

fn episode(id: String, source: String, about: &About, steps: Vec<Step>, hidden: u32) -> Episode {
    let mut apps: Vec<String> = Vec::new();
    for app in steps.iter().filter_map(|s| s.app.as_ref()) {
        if !apps.contains(app) {
            apps.push(app.clone());
        }
    }
    let extra = json!({
        "form": "recording",
        "system": about.system,
        "start_time": about.start_time,
        "description": about.description,
        "hidden_events": hidden,
    });
    Episode {
        episode_id: id,
        format: Format::Agentnet,
        source,
        source_key: String::new(),
        platform: Platform::Desktop,
        instruction: about.task.clone(),
        apps,
        domain: None,
        outcome: Outcome::Unknown,
        split: None,
        extra: Some(extra.to_string()),
        steps,
    }
}

/// The machine (`metadata.json`) and the task (`task_name.json`); both files may be absent.
#[derive(Default)]
struct About {
    size: Option<ScreenSize>,
    system: Option<String>,
    start_time: Option<String>,
    task: String,
    description: Option<String>,
}

impl About {
    fn read(folder: &Path) -> Result<Self, (std::path::PathBuf, Fault)> {
        let mut about = Self::default();
        let read = |file: &str, set: &mut dyn FnMut(Fields<'_>) -> Result<(), Fault>| {
            let path = folder.join(file);
            if !path.is_file() {
                return Ok(());
            }
            let value = read_text(&path).and_then(|text| parse_json(&text));
            value.and_then(|v| set(Fields::of(&v)?)).map_err(|fault| (path, fault))
        };
        read("metadata.json", &mut |fields| {
            about.size = size(fields)?;
            let parts: Vec<_> = ["system", "release"].iter().filter_map(|n| text_of(fields, n)).collect();
            about.system = (!parts.is_empty()).then(|| parts.join(" "));
            about.start_time = text_of(fields, "start_time");
            Ok(())
        })?;
        read("task_name.json", &mut |fields| {
            fields.str("task_name")?.trim().clone_into(&mut about.task);
            about.description = text_of(fields, "description");
            Ok(())
        })?;
        Ok(about)
    }
}

fn size(fields: Fields<'_>) -> Result<Option<ScreenSize>, Fault> {
    if fields.get("screen_width").is_none() && fields.get("screen_height").is_none() {
        return Ok(None);
    }
    let edge = |name: &str| {
        let value = fields.int(name)?;
        let edge = u32::try_from(value).ok().filter(|v| *v > 0);
        edge.ok_or_else(|| {
            Fault::new(RejectKind::OutOfRange, format!("field `{name}`: {value} is not a size"))
        })
    };
    Ok(Some(ScreenSize { width_px: edge("screen_width")?, height_px: edge("screen_height")? }))
}

#[derive(Deserialize)]
struct WindowLine {
    time_stamp: f64,
    top_window_name: Option<String>,
}

#[derive(Deserialize)]
struct TreeLine {
    time_stamp: f64,
}

/// What the files beside the events say of a moment or of an event.
#[derive(Default)]
struct Side {
    /// Time, and the name of the process whose window came to the front.
    windows: Vec<(f64, Option<String>)>,
    /// Time, and the line of the tree.
    trees: Vec<(f64, u64)>,
    /// The annotator's words for an event, by the event's id.
    labels: Map<String, Value>,
}

impl Side {
    fn read(folder: &Path, with_labels: bool, refuse: &mut dyn FnMut(&Path, String, Fault)) -> Self {
        let mut side = Self::default();
        lines(&folder.join("top_window.jsonl"), refuse, &mut |_, text| {
            let line: WindowLine = parse_line(text)?;
            side.windows.push((line.time_stamp, line.top_window_name.filter(|n| !n.trim().is_empty())));
            Ok(())
        });
        lines(&folder.join("a11y.jsonl"), refuse, &mut |number, text| {
            let line: TreeLine = parse_line(text)?;
            side.trees.push((line.time_stamp, number));
            Ok(())
        });
        if with_labels {
            lines(&folder.join(VISIBLE), refuse, &mut |_, text| {
                let value = parse_json(text)?;
                let fields = Fields::of(&value)?;
                if let (Ok(id), Some(label)) = (fields.id("id"), fields.get("action")) {
                    side.labels.insert(id, label.clone());
                }
                Ok(())
            });
        }
        side
    }

    fn app(&self, time: f64) -> Option<&str> {
        latest(&self.windows, time).and_then(|name| name.as_deref())
    }

    fn tree(&self, time: f64) -> Option<u64> {
        latest(&self.trees, time).copied()
    }
}

/// The entry with the latest time that is not after `time`.
fn latest<T>(entries: &[(f64, T)], time: f64) -> Option<&T> {
    let before = entries.iter().filter(|(t, _)| *t <= time);
    before.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, entry)| entry)
}

fn parse_line<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|e| {
        let kind = if e.is_data() { RejectKind::MissingField } else { RejectKind::Malformed };
        Fault::new(kind, e.to_string())
    })
}

fn lines(
    file: &Path,
    refuse: &mut dyn FnMut(&Path, String, Fault),
    each: &mut dyn FnMut(u64, &str) -> Result<(), Fault>,
) {
    if !file.is_file() {
        return;
    }
    let result = for_each_line(&Item::whole(file.to_owned()), |number, line| {
        if let Err(fault) = line.and_then(|text| each(number, text)) {
            refuse(file, format!("line {number}"), fault);
        }
    });
    if let Err(fault) = result {
        refuse(file, String::new(), fault);
    }
}

/// The episode while its events are read.
struct Recording<'a> {
    about: &'a About,
    side: &'a Side,
    tree: String,
    has_complete: bool,
    hidden: u32,
    first_time: Option<f64>,
    steps: Vec<Step>,
}

impl Recording<'_> {
    fn add_line(&mut self, number: u64, text: &str) -> Result<(), Fault> {
        let value = parse_json(text)?;
        let fields = Fields::of(&value)?;
        // Releases and moves that the reducer kept for itself.
        if fields.get("vis").and_then(Value::as_bool) == Some(false) {
            self.hidden += 1;
            return Ok(());
        }
        let key = format!("line {number}");
        if !self.has_complete {
            self.push(visible_event(fields)?, key);
            return Ok(());
        }
        let label = fields.id("id").ok().and_then(|id| self.side.labels.get(&id)?.as_str());
        let kind = fields.str("action")?;
        let label = label.filter(|l| !l.trim().is_empty() && *l != kind);
        for (i, mut event) in complete_events(fields, self.about.size)?.into_iter().enumerate() {
            event.instruction = label.map(|l| l.trim().to_owned());
            let key = if i == 0 { key.clone() } else { format!("{key} children[{}]", i - 1) };
            self.push(event, key);
        }
        Ok(())
    }

    fn push(&mut self, event: Event<'_>, key: String) {
        let Event { mut action, time, tree, instruction } = event;
        let first = *self.first_time.get_or_insert(time);
        let tree = tree.map(Fields);
        let elements = tree.map(elements).unwrap_or_default();
        let target = &mut action.target;
        let is_it =
            |e: &&Element| target.name.as_ref() == Some(&e.text) && target.role.as_ref() == Some(&e.role);
        let touched = action.point.and_then(|p| smallest_around(elements.iter().filter(is_it), p.x, p.y));
        if let Some(Element { id, bbox, .. }) = touched {
            target.boxes = bbox.iter().copied().collect();
            target.element = Some(id.clone());
        }
        let step = Step {
            screen: Screen {
                size: self.about.size,
                tree: self.side.tree(time).map(|line| format!("{}#{line}", self.tree)),
                elements,
                ..Screen::default()
            },
            app: self.side.app(time).map(str::to_owned),
            window: tree.and_then(|t| text_of(t, "Name")),
            time_secs: Some(time - first),
            instruction,
            ..Step::new(self.steps.len() as u32, key, action)
        };
        self.steps.push(step);
    }
}

/// The nodes of a UIA tree that have a name and an area, in the tree's order; an element's id is its place
/// among all nodes. The whole tree stays where [`Screen::tree`] says.
fn elements(tree: Fields<'_>) -> Vec<Element> {
    let mut found = Vec::new();
    let mut nodes = vec![tree];
    let mut place = 0_usize;
    while let Some(node) = nodes.pop() {
        let bbox = rectangle(node).filter(|b| b.right > b.left && b.bottom > b.top);
        if let (Some(name), Some(_)) = (node.opt_str("Name"), bbox) {
            found.push(Element {
                id: place.to_string(),
                role: node.opt_str("ControlType").unwrap_or_default().to_owned(),
                text: name.to_owned(),
                states: Vec::new(),
                bbox,
            });
        }
        place += 1;
        let children = node.get("Children").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        nodes.extend(children.iter().rev().filter_map(Value::as_object).map(Fields));
    }
    found
}

fn rectangle(node: Fields<'_>) -> Option<BBox> {
    let edges = node.get("BoundingRectangle")?.as_object().map(Fields)?;
    let edge = |name| edges.f64(name).ok();
    Some(BBox {
        left: edge("left")?,
        top: edge("top")?,
        right: edge("right")?,
        bottom: edge("bottom")?,
        frame: FrameName::Pixels,
    })
}
