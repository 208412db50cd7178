//! AITZ (Android in the Zoo): AITW episodes with the elements of each screen and a chain of thought.
//!
//! A file `<SUBSET>-<episode_id>.json` is one episode, a list of steps; its screenshots lie beside
//! it. The subset is the [`Episode::domain`] and, as in the file's name, a part of the episode's id.
//!
//! Touch and lift are shares of the screen, `[y, x]`, written as JSON in a string. `ui_positions`
//! are `[y, x, height, width]` in pixels of the screenshot as it is released: in the example the
//! boxes lie around the texts and icons of the 270 × 600 pixels, and the authors' evaluation compares
//! them with the touch times the size of the picture. So the element under a tap is found with the
//! picture's real size; without the picture boxes and touch have no common frame, and a tap has
//! no element. A box that begins outside the picture shows that the two do not belong together.
//!
//! A gesture is a tap when touch and lift are at most 0.04 apart (AITW), else a scroll, vertical if
//! `|dy| ≥ 0.9 |dx|` (AITZ). [`Action::source_direction`] is the finger's, as in `coat_action_desc`;
//! [`Action::direction`] is the content's, the opposite. `coat_screen_desc`, `coat_action_think` and
//! `coat_action_desc` become description, thought and instruction of the step; `coat_action_result`,
//! which tells of the next screen, is kept in [`Episode::extra`], one entry a step.

use std::path::Path;

use serde_json::{Value, json};

use super::detect::files_of;
use super::elements::{screen_of, screenshot_size, smallest_around};
use super::phrase::parse_instruction;
use super::source::{Fields, Refused, Rejecter, numbers, parse_json, read_text};
use super::{Adapter, AdapterError, AdapterOptions, Fault, Input, Item, Record};
use crate::action::{Action, BBox, Direction, FrameName, Normalized, Point, Position, ScreenSize, Verb};
use crate::trace::{Element, Episode, Format, Outcome, Platform, RejectKind, Step};

/// Share of the screen's sides up to which a gesture is a tap (AITW's `action_matching.py`).
const TAP_DISTANCE: f64 = 0.04;
/// A scroll is vertical if `|dy|` is at least this share of `|dx|` (AITZ's `action_utils.py`).
const VERTICAL_SHARE: f64 = 0.9;
const ACTION_TYPES: &str = "3 type, 4 dual point, 5 back, 6 home, 7 enter, 10 complete, 11 impossible";

/// Reads AITZ episodes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Aitz;

impl Adapter for Aitz {
    fn format(&self) -> Format {
        Format::Aitz
    }

    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError> {
        let files = files_of(input, Format::Aitz, &["json"])?;
        Ok(files.into_iter().map(Item::whole).collect())
    }

    fn read(&self, input: &Input, item: &Item, options: AdapterOptions, sink: &mut dyn FnMut(Record)) {
        let folder = item.path.parent().unwrap_or(&input.root);
        let reader = Reader { input, path: &item.path, folder, options };
        sink(Rejecter::of(Format::Aitz, input, &item.path).outcome(reader.episode()));
    }
}

struct Reader<'a> {
    input: &'a Input,
    path: &'a Path,
    folder: &'a Path,
    options: AdapterOptions,
}

/// What every step repeats of its episode.
#[derive(PartialEq)]
struct Header<'a> {
    id: String,
    length: i64,
    instruction: &'a str,
}

impl<'a> Header<'a> {
    fn of(fields: Fields<'a>) -> Result<Self, Fault> {
        Ok(Self {
            id: fields.id("episode_id")?,
            length: fields.int("episode_length")?,
            instruction: fields.str("instruction")?,
        })
    }
}

impl Reader<'_> {
    fn episode(&self) -> Result<Episode, Refused> {
        let unnamed = |fault| Refused::new("", None, fault);
        let value = read_text(self.path).and_then(|text| parse_json(&text)).map_err(unnamed)?;
        let values = value.as_array().filter(|values| !values.is_empty()).ok_or_else(|| {
            unnamed(Fault::new(RejectKind::Empty, "expected a JSON array of steps, with at least one"))
        })?;
        let header = { Fields::of(&values[0]).and_then(Header::of) }
            .map_err(|fault| Refused::new("steps[0]", None, fault))?;
        let domain = self.subset(&header.id);
        let name =
            domain.iter().map(String::as_str).chain([header.id.as_str()]).collect::<Vec<_>>().join("-");
        let id = format!("{}:{name}", Format::Aitz);
        let (mut steps, mut results) = (Vec::new(), Vec::new());
        for (number, (place, fields)) in in_order(values, &header, &id)?.into_iter().enumerate() {
            let refused = |fault| Refused::new(place.as_str(), Some(&id), fault);
            results.push(fields.maybe_str("coat_action_result").map_err(refused)?);
            steps.push(self.step(number as u32, &place, fields).map_err(refused)?);
        }
        let told = results.iter().any(Option::is_some);
        Ok(Episode {
            episode_id: id,
            format: Format::Aitz,
            source: self.input.display(self.path),
            source_key: String::new(),
            platform: Platform::Mobile,
            instruction: header.instruction.to_owned(),
            apps: Vec::new(),
            domain,
            outcome: Outcome::declared_by(&steps),
            split: self.split(),
            extra: told.then(|| json!({"coat_action_result": results}).to_string()),
            steps,
        })
    }

    /// `GOOGLE_APPS`, where the file or its folder is named `GOOGLE_APPS-<episode_id>`.
    fn subset(&self, id: &str) -> Option<String> {
        let names = [self.path.file_stem(), self.folder.file_name()].into_iter().flatten();
        let subset = |name: &str| Some(name.strip_suffix(id)?.strip_suffix('-')?.to_owned());
        names.filter_map(|name| subset(&name.to_string_lossy())).find(|subset| !subset.is_empty())
    }

    /// `train` or `test`: the folder of the layout `{train,test}/<subset>/<episode>/<file>`.
    fn split(&self) -> Option<String> {
        let folder = self.path.ancestors().nth(3)?.file_name()?.to_string_lossy().into_owned();
        Some(folder).filter(|name| matches!(name.as_str(), "train" | "test"))
    }

    fn step(&self, number: u32, place: &str, fields: Fields) -> Result<Step, Fault> {
        let text = |name| fields.maybe_str(name).map(|text| text.map(str::to_owned));
        let mut step = Step::new(number, place, action(fields)?);
        let path = fields.str("image_path")?;
        step.screen = screen_of(self.input, path, &[self.folder], self.options.require_screenshots)?;
        step.screen.size = screenshot_size(self.input, &step.screen)?;
        step.screen.elements = elements(fields, step.screen.size)?;
        step.instruction = text("coat_action_desc")?;
        step.description = text("coat_screen_desc")?;
        step.thought = text("coat_action_think")?;
        if step.action.verb == Verb::Click {
            aim(&mut step);
        }
        Ok(step)
    }
}

/// Places and fields of the steps, in the order of their `step_id`, which must be 0, 1, …
fn in_order<'a>(
    values: &'a [Value],
    header: &Header,
    id: &str,
) -> Result<Vec<(String, Fields<'a>)>, Refused> {
    let mut steps = Vec::with_capacity(values.len());
    for (i, value) in values.iter().enumerate() {
        let place = format!("steps[{i}]");
        let refused = |fault| Refused::new(place.as_str(), Some(id), fault);
        let fields = Fields::of(value).map_err(refused)?;
        if Header::of(fields).map_err(refused)? != *header {
            let reason = "episode_id, episode_length or instruction differs from the first step's; \
                          a file must hold one episode";
            return Err(refused(Fault::new(RejectKind::OutOfRange, reason)));
        }
        steps.push((fields.int("step_id").map_err(refused)?, place, fields));
    }
    if header.length != values.len() as i64 {
        let reason =
            format!("`episode_length` is {}, but the file has {} steps", header.length, values.len());
        return Err(Refused::new("", Some(id), Fault::new(RejectKind::OutOfRange, reason)));
    }
    steps.sort_by_key(|(number, ..)| *number);
    for (due, (number, place, _)) in steps.iter().enumerate() {
        if *number != due as i64 {
            let reason = format!("`step_id` {number} where {due} is due; a step is missing or doubled");
            return Err(Refused::new(place.as_str(), Some(id), Fault::new(RejectKind::OutOfRange, reason)));
        }
    }
    Ok(steps.into_iter().map(|(_, place, fields)| (place, fields)).collect())
}

fn action(fields: Fields) -> Result<Action, Fault> {
    match fields.int("result_action_type")? {
        3 => {
            let mut action = Action::new(Verb::Type, "TYPE");
            action.text = Some(fields.str("result_action_text")?.to_owned());
            Ok(action)
        }
        4 => gesture(fields),
        5 => Ok(Action::new(Verb::Back, "PRESS_BACK")),
        6 => Ok(Action::new(Verb::Home, "PRESS_HOME")),
        7 => {
            let mut action = Action::new(Verb::Press, "PRESS_ENTER");
            action.text = Some("enter".to_owned());
            Ok(action)
        }
        10 => Ok(Action::new(Verb::Complete, "STATUS_TASK_COMPLETE")),
        11 => Ok(Action::new(Verb::Impossible, "STATUS_TASK_IMPOSSIBLE")),
        other => {
            let reason = format!("field `result_action_type`: unknown type {other}; known: {ACTION_TYPES}");
            Err(Fault::new(RejectKind::OutOfRange, reason))
        }
    }
}

fn gesture(fields: Fields) -> Result<Action, Fault> {
    let (touch, lift) = (place(fields, "result_touch_yx")?, place(fields, "result_lift_yx")?);
    let (dx, dy) = (lift.x - touch.x, lift.y - touch.y);
    if dx.hypot(dy) <= TAP_DISTANCE {
        let mut action = Action::new(Verb::Click, "DUAL_POINT/CLICK");
        action.point = Some(touch);
        return Ok(action);
    }
    let vertical = dy.abs() >= VERTICAL_SHARE * dx.abs();
    let finger =
        if vertical { Direction::of_displacement(0.0, dy) } else { Direction::of_displacement(dx, 0.0) };
    let mut action = Action::new(Verb::Scroll, "DUAL_POINT/SCROLL");
    action.point = Some(touch);
    action.end = Some(lift);
    action.direction = finger.map(Direction::opposite);
    action.source_direction = finger.map(|direction| direction.name().to_owned());
    Ok(action)
}

/// A point that the source writes as `"[y, x]"`.
fn place(fields: Fields, name: &str) -> Result<Position, Fault> {
    let at = |fault: Fault| fault.at(&format!("field `{name}`"));
    let [y, x] = numbers(&nested(fields, name)?).map_err(at)?;
    let point = Point::<Normalized>::checked(x, y, None);
    point.map(Position::from).map_err(|e| at(Fault::new(RejectKind::OutOfRange, e.to_string())))
}

/// The JSON that a field holds as a string, or as it is.
fn nested(fields: Fields, name: &str) -> Result<Value, Fault> {
    match fields.require(name)? {
        Value::String(text) => parse_json(text).map_err(|fault| fault.at(&format!("field `{name}`"))),
        value => Ok(value.clone()),
    }
}

/// The screen's elements; the number of an element in the source's lists is its id.
fn elements(fields: Fields, size: Option<ScreenSize>) -> Result<Vec<Element>, Fault> {
    let lists = ["ui_positions", "ui_text", "ui_types"].map(|name| {
        let list = nested(fields, name)?;
        list.as_array()
            .cloned()
            .ok_or_else(|| Fault::new(RejectKind::MissingField, format!("field `{name}`: expected an array")))
    });
    let [boxes, texts, types] = lists;
    let (boxes, texts, types) = (boxes?, texts?, types?);
    if boxes.len() != texts.len() || boxes.len() != types.len() {
        let (b, t, k) = (boxes.len(), texts.len(), types.len());
        let reason = format!("{b} ui_positions, {t} ui_text and {k} ui_types do not go together");
        return Err(Fault::new(RejectKind::OutOfRange, reason));
    }
    let shares = |value: &Value| numbers::<4>(value).is_ok_and(|n| n.iter().all(|n| *n <= 1.0));
    if !boxes.is_empty() && boxes.iter().all(shares) {
        let reason = "field `ui_positions`: shares of the screen, not pixels; give the original AITZ files";
        return Err(Fault::new(RejectKind::OutOfRange, reason));
    }
    let word = |name: &str, i: usize, value: &Value| {
        value.as_str().map(str::to_owned).ok_or_else(|| {
            Fault::new(RejectKind::MissingField, format!("field `{name}`: [{i}] is not a string"))
        })
    };
    let mut elements = Vec::with_capacity(boxes.len());
    for (i, value) in boxes.iter().enumerate() {
        let bbox = bbox(value, size).map_err(|fault| fault.at(&format!("field `ui_positions`: [{i}]")))?;
        elements.push(Element {
            id: i.to_string(),
            role: word("ui_types", i, &types[i])?,
            text: word("ui_text", i, &texts[i])?,
            states: Vec::new(),
            bbox: Some(bbox),
        });
    }
    Ok(elements)
}

/// A box `[y, x, height, width]` in pixels, which begins on the screen where its size is known. It may
/// stick out: the boxes are a detector's.
fn bbox(value: &Value, size: Option<ScreenSize>) -> Result<BBox, Fault> {
    let [top, left, height, width] = numbers(value)?;
    if height < 0.0 || width < 0.0 {
        let reason = format!("a box of {width} × {height} pixels");
        return Err(Fault::new(RejectKind::OutOfRange, reason));
    }
    let outside = |size: ScreenSize| top > f64::from(size.height_px) || left > f64::from(size.width_px);
    if let Some(size) = size.filter(|size| outside(*size)) {
        let reason = format!(
            "a box begins at ({left}, {top}), outside the screenshot of {} × {} pixels; use the \
             screenshots that the annotation was made for",
            size.width_px, size.height_px
        );
        return Err(Fault::new(RejectKind::OutOfRange, reason));
    }
    let (right, bottom) = (left + width, top + height);
    Ok(BBox { left, top, right, bottom, frame: FrameName::Pixels })
}

/// Fills the target of a tap: the element under it, named by its text or else by the instruction.
fn aim(step: &mut Step) {
    let size = step.screen.size;
    let touch = size.and_then(|size| step.action.point?.to_pixels(Some(size)));
    let touched = touch.and_then(|at| smallest_around(&step.screen.elements, at.x, at.y));
    let target = &mut step.action.target;
    if let Some(element) = touched {
        target.element = Some(element.id.clone());
        target.role = Some(element.role.clone());
        target.boxes.extend(element.bbox);
        target.name = Some(element.text.trim().to_owned()).filter(|text| !text.is_empty());
    }
    if target.name.is_none() {
        target.name = step.instruction.as_deref().and_then(|text| parse_instruction(text).target);
    }
}

#[cfg(test)]
#[path = "aitz_tests.rs"]
mod tests;
