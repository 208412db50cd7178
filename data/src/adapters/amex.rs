//! AMEX: what a person did in an application, and the elements of the screens.
//!
//! ```text
//! instruction_anno/<name>.json   {episode_id, instruction, steps: [{step_id, action, image_path, touch_coord,
//!                                lift_coord, type_text, device_dim, package_name, …}]}
//! element_anno/<image>.json      {clickable_elements, scrollable_elements: [{bbox, xml_desc, functionality}],
//!                                page_caption}
//! screenshot/<image>.png
//! ```
//!
//! The format is known from programs that read it, not from its authors: what they agree on is
//! read, the rest is refused. Released archives unpack to `screenshot/screenshot/` and so on, which is
//! looked through as well. Coordinates are pixels, `(x, y)`, of a screen of `device_dim`, or of the
//! screenshot where a step does not give it; where both are known they must agree.
//!
//! An element's id is its number, clickable ones first; its role is `clickable` or `scrollable`, its
//! text the lines of `xml_desc`, and what it is for a state, `functionality=…`. A tap's element is
//! the smallest clickable one around the touch, named by its text or else by its function. A
//! swipe is vertical if `|dy|/height > |dx|/width`; [`Action::source_direction`] is the finger's,
//! [`Action::direction`] the content's.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::detect::files_of;
use super::elements::{screen_of, screenshot_size, smallest_around};
use super::source::{Fields, Refused, Rejecter, bbox, parse_json, read_text};
use super::{Adapter, AdapterError, AdapterOptions, Fault, Input, Item, Record};
use crate::action::{Action, Direction, Pixels, Position, ScreenSize, Verb};
use crate::trace::{Element, Episode, Format, Outcome, Platform, RejectKind, Step};

const ACTIONS: &str = "TAP, SWIPE, TYPE, PRESS_BACK, PRESS_HOME, PRESS_ENTER, TASK_COMPLETE, TASK_IMPOSSIBLE";
const CLICKABLE: &str = "clickable";
const SCROLLABLE: &str = "scrollable";
const FUNCTION: &str = "functionality=";
/// How many times as long as the other a displacement in pixels must be to have one direction on
/// any screen: no phone's sides differ by more.
const CERTAIN_RATIO: f64 = 2.5;

/// Reads AMEX annotations.
#[derive(Debug, Clone, Copy, Default)]
pub struct Amex;

impl Adapter for Amex {
    fn format(&self) -> Format {
        Format::Amex
    }

    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError> {
        let files = files_of(input, Format::Amex, &["json"])?;
        Ok(files.into_iter().map(Item::whole).collect())
    }

    fn reads_along(&self, path: &Path) -> bool {
        path.parent().is_some_and(|folder| folder.ends_with("element_anno"))
    }

    fn read(&self, input: &Input, item: &Item, options: AdapterOptions, sink: &mut dyn FnMut(Record)) {
        let reader = Reader {
            input,
            path: &item.path,
            screenshots: folders(input, &item.path, &["screenshot", "screenshots"]),
            annotations: folders(input, &item.path, &["element_anno"]),
            options,
        };
        sink(Rejecter::of(Format::Amex, input, &item.path).outcome(reader.episode()));
    }
}

/// Folders called one of `names` (or twice so, one in the other) in the folder of `file` or one of
/// the two above it, inside the input.
fn folders(input: &Input, file: &Path, names: &[&str]) -> Vec<PathBuf> {
    let bases = file.ancestors().skip(1).take(3).filter(|base| base.starts_with(&input.root));
    let named = bases.flat_map(|base| names.iter().map(move |name| (base.join(name), *name)));
    let all = named.flat_map(|(folder, name)| [folder.join(name), folder]);
    all.filter(|folder| folder.is_dir()).collect()
}

struct Reader<'a> {
    input: &'a Input,
    path: &'a Path,
    screenshots: Vec<PathBuf>,
    annotations: Vec<PathBuf>,
    options: AdapterOptions,
}

impl Reader<'_> {
    fn episode(&self) -> Result<Episode, Refused> {
        let unnamed = |fault| Refused::new("", None, fault);
        let value = read_text(self.path).and_then(|text| parse_json(&text)).map_err(unnamed)?;
        let fields = Fields::of(&value).map_err(unnamed)?;
        let id = format!("{}:{}", Format::Amex, fields.id("episode_id").map_err(unnamed)?);
        let refused = |fault| Refused::new("", Some(&id), fault);
        let instruction = fields.str("instruction").map_err(refused)?;
        let values = fields.array("steps").map_err(refused)?;
        if values.is_empty() {
            return Err(refused(Fault::new(RejectKind::Empty, "`steps` is empty")));
        }
        let mut steps: Vec<Step> = Vec::with_capacity(values.len());
        let mut first = None;
        for (i, value) in values.iter().enumerate() {
            let place = format!("steps[{i}]");
            let step = self.step(i, &place, value, &mut first);
            steps.push(step.map_err(|fault| Refused::new(place, Some(&id), fault))?);
        }
        let mut apps: Vec<String> = Vec::new();
        for app in steps.iter().filter_map(|step| step.app.as_ref()) {
            if !apps.contains(app) {
                apps.push(app.clone());
            }
        }
        Ok(Episode {
            episode_id: id,
            format: Format::Amex,
            source: self.input.display(self.path),
            source_key: String::new(),
            platform: Platform::Mobile,
            instruction: instruction.to_owned(),
            apps,
            domain: None,
            outcome: Outcome::declared_by(&steps),
            split: None,
            extra: None,
            steps,
        })
    }

    /// Step `i`. `first` is the number of step 0, from which the others count on.
    fn step(&self, i: usize, place: &str, value: &Value, first: &mut Option<i64>) -> Result<Step, Fault> {
        let fields = Fields::of(value)?;
        if fields.get("step_id").is_some() {
            let number = fields.int("step_id")?;
            let due = first.get_or_insert(number.saturating_sub(i as i64)).saturating_add(i as i64);
            if number != due {
                let reason = format!("`step_id` {number} where {due} is due; a step is missing or doubled");
                return Err(Fault::new(RejectKind::OutOfRange, reason));
            }
        }
        let path = fields.str("image_path")?;
        let folders: Vec<&Path> = self.screenshots.iter().map(PathBuf::as_path).collect();
        let mut screen = screen_of(self.input, path, &folders, self.options.require_screenshots)?;
        screen.size = agreed(device_size(fields)?, screenshot_size(self.input, &screen)?)?;
        let (elements, caption) = self.annotation(path)?;
        screen.elements = elements;
        let mut step = Step::new(i as u32, place, action(fields, screen.size)?);
        step.screen = screen;
        step.app = fields.maybe_str("package_name")?.map(str::to_owned);
        step.description = caption;
        aim(&mut step);
        Ok(step)
    }

    /// Elements and caption of the screen in the picture `path`, where it is annotated.
    fn annotation(&self, path: &str) -> Result<(Vec<Element>, Option<String>), Fault> {
        let Some(stem) = Path::new(path).file_stem() else { return Ok((Vec::new(), None)) };
        let name = format!("{}.json", stem.to_string_lossy());
        for folder in &self.annotations {
            let file = self.input.inside(folder, &name);
            let file = file.map_err(|reason| Fault::new(RejectKind::UnsafePath, reason))?;
            if file.is_file() {
                return annotation(&file).map_err(|fault| fault.at(&self.input.display(&file)));
            }
        }
        Ok((Vec::new(), None))
    }
}

/// Elements and caption in the annotation `file`.
fn annotation(file: &Path) -> Result<(Vec<Element>, Option<String>), Fault> {
    let value = parse_json(&read_text(file)?)?;
    let fields = Fields::of(&value)?;
    let mut elements = Vec::new();
    for role in [CLICKABLE, SCROLLABLE] {
        let list = format!("{role}_elements");
        for (i, value) in fields.array(&list)?.iter().enumerate() {
            let element = element(elements.len(), role, value);
            elements.push(element.map_err(|fault| fault.at(&format!("{list}[{i}]")))?);
        }
    }
    Ok((elements, fields.maybe_str("page_caption")?.map(str::to_owned)))
}

fn element(number: usize, role: &str, value: &Value) -> Result<Element, Fault> {
    let fields = Fields::of(value)?;
    let bounds = bbox::<Pixels>(fields.require("bbox")?).map_err(|fault| fault.at("field `bbox`"))?;
    let lines = if fields.get("xml_desc").is_some() { fields.strings("xml_desc")? } else { Vec::new() };
    let function = fields.maybe_str("functionality")?;
    Ok(Element {
        id: number.to_string(),
        role: role.to_owned(),
        text: lines.join("\n"),
        states: function.map(|text| format!("{FUNCTION}{}", text.trim())).into_iter().collect(),
        bbox: Some(bounds),
    })
}

/// The step's `device_dim`, `[width, height]` in pixels.
fn device_size(fields: Fields) -> Result<Option<ScreenSize>, Fault> {
    let Some(value) = fields.get("device_dim") else { return Ok(None) };
    let side = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
    let sides: Option<Vec<u32>> = value.as_array().and_then(|sides| sides.iter().map(side).collect());
    let Some([width_px, height_px]) = sides.as_deref() else {
        let reason = format!("field `device_dim`: {value} is not a screen's width and height in pixels");
        return Err(Fault::new(RejectKind::OutOfRange, reason));
    };
    Ok(Some(ScreenSize { width_px: *width_px, height_px: *height_px }))
}

fn agreed(device: Option<ScreenSize>, picture: Option<ScreenSize>) -> Result<Option<ScreenSize>, Fault> {
    match (device, picture) {
        (Some(device), Some(picture)) if device != picture => {
            let reason = format!(
                "`device_dim` is {} × {}, but the screenshot has {} × {} pixels; use the original screenshots",
                device.width_px, device.height_px, picture.width_px, picture.height_px
            );
            Err(Fault::new(RejectKind::OutOfRange, reason))
        }
        _ => Ok(device.or(picture)),
    }
}

fn action(fields: Fields, size: Option<ScreenSize>) -> Result<Action, Fault> {
    let name = fields.str("action")?;
    let verb = match name {
        "TAP" => Verb::Click,
        "SWIPE" => Verb::Scroll,
        "TYPE" => Verb::Type,
        "PRESS_BACK" => Verb::Back,
        "PRESS_HOME" => Verb::Home,
        "PRESS_ENTER" => Verb::Press,
        "TASK_COMPLETE" => Verb::Complete,
        "TASK_IMPOSSIBLE" => Verb::Impossible,
        other => {
            let reason = format!("field `action`: unknown action `{other}`; known: {ACTIONS}");
            return Err(Fault::new(RejectKind::OutOfRange, reason));
        }
    };
    let mut action = Action::new(verb, name);
    match verb {
        Verb::Click => action.point = Some(fields.point::<Pixels>("touch_coord", size)?),
        Verb::Scroll => {
            let touch = fields.point::<Pixels>("touch_coord", size)?;
            let lift = fields.point::<Pixels>("lift_coord", size)?;
            let finger = finger(touch, lift, size)?;
            action.point = Some(touch);
            action.end = Some(lift);
            action.direction = Some(finger.opposite());
            action.source_direction = Some(finger.name().to_owned());
        }
        Verb::Type => action.text = Some(fields.str("type_text")?.to_owned()),
        Verb::Press => action.text = Some("enter".to_owned()),
        _ => {}
    }
    Ok(action)
}

/// Where the finger went. On a screen of unknown size only a displacement that is much longer on
/// one side has a direction.
fn finger(touch: Position, lift: Position, size: Option<ScreenSize>) -> Result<Direction, Fault> {
    let (dx, dy) = (lift.x - touch.x, lift.y - touch.y);
    let vertical = match size {
        Some(size) => Some(dy.abs() / f64::from(size.height_px) > dx.abs() / f64::from(size.width_px)),
        None if dy.abs() >= CERTAIN_RATIO * dx.abs() => Some(true),
        None if dx.abs() >= CERTAIN_RATIO * dy.abs() => Some(false),
        None => None,
    };
    let Some(vertical) = vertical else {
        let reason = format!(
            "a swipe by ({dx}, {dy}) pixels has no certain direction on a screen of unknown size; add \
             the screenshots or `device_dim`"
        );
        return Err(Fault::new(RejectKind::MissingScreenshot, reason));
    };
    let (dx, dy) = if vertical { (0.0, dy) } else { (dx, 0.0) };
    Direction::of_displacement(dx, dy).ok_or_else(|| {
        let reason = "a swipe whose `touch_coord` and `lift_coord` are the same";
        Fault::new(RejectKind::OutOfRange, reason)
    })
}

/// Fills the target of a tap.
fn aim(step: &mut Step) {
    let Some(touch) = step.action.point.filter(|_| step.action.verb == Verb::Click) else { return };
    let clickable = step.screen.elements.iter().filter(|element| element.role == CLICKABLE);
    let Some(element) = smallest_around(clickable, touch.x, touch.y) else { return };
    let text = element.text.lines().map(str::trim).find(|line| !line.is_empty());
    let function = element.states.iter().find_map(|state| state.strip_prefix(FUNCTION));
    let target = &mut step.action.target;
    target.element = Some(element.id.clone());
    target.role = Some(element.role.clone());
    target.boxes.extend(element.bbox);
    target.name = text.or(function).map(str::to_owned);
}

#[cfg(test)]
#[path = "amex_tests.rs"]
mod tests;
