//! `AgentNetBench`: one JSON file for each task.

use std::path::Path;

use serde_json::{Value, json};

use super::standard::screen;
use super::{Context, text_of};
use crate::action::{Action, BBox, FrameName, ScreenSize};
use crate::adapters::pyautogui::{actions, join_moves, shares};
use crate::adapters::source::{Fault, Fields, Refused};
use crate::grammar::literal::{Argument, Call, Literal};
use crate::trace::{Episode, Format, Outcome, Platform, RejectKind, Screen, Step};

/// The task of a file.
///
/// `ground_truth_actions` is a sequence (`moveTo` then `dragTo`), all of which one step does;
/// what might be done instead stands in `alternative_options` and is counted in `extra`.
pub(super) fn episode(context: Context<'_>, file: &Path, value: &Value) -> Result<Episode, Refused> {
    let id = Fields::of(value).and_then(|f| f.id("task_id"));
    let id = id.map_err(|fault| Refused::new("", None, fault))?;
    let episode_id = format!("{}:{id}", Format::Agentnet);
    read(context, file, value, &episode_id).map_err(|fault| Refused::new("", Some(&episode_id), fault))
}

fn read(context: Context<'_>, file: &Path, value: &Value, episode_id: &str) -> Result<Episode, Fault> {
    let fields = Fields::of(value)?;
    let instruction = match fields.opt_str("user_task_description") {
        Some(text) => text,
        None => fields.str("high_level_task_description")?,
    };
    let about = fields.get("meta_info").map(Fields::of).transpose()?;
    let size = about.map(size).transpose()?.flatten();
    let (mut steps, mut alternatives) = (Vec::new(), 0);
    for (i, value) in fields.array("steps")?.iter().enumerate() {
        let added = add_steps(context, file, size, value, &mut steps);
        alternatives += added.map_err(|fault| fault.at(&format!("steps[{i}]")))?;
    }
    if steps.is_empty() {
        return Err(Fault::new(RejectKind::Empty, "field `steps` holds no step"));
    }
    let said = |name: &str| about.and_then(|a| text_of(a, name));
    let extra = json!({
        "form": "agentnetbench",
        "alternatives": alternatives,
        "high_level_task_description": fields.opt_str("high_level_task_description"),
        "system": said("system"),
        "sub_domain": said("sub_domain"),
    });
    Ok(Episode {
        episode_id: episode_id.to_owned(),
        format: Format::Agentnet,
        source: context.input.display(file),
        source_key: String::new(),
        platform: Platform::Desktop,
        instruction: instruction.trim().to_owned(),
        apps: about.map(|a| names(a, &["applications", "websites"])).unwrap_or_default(),
        domain: said("domain"),
        outcome: Outcome::declared_by(&steps),
        split: None,
        extra: Some(extra.to_string()),
        steps,
    })
}

fn names(about: Fields<'_>, lists: &[&str]) -> Vec<String> {
    let values = lists.iter().filter_map(|list| about.get(list)?.as_array()).flatten();
    values.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn size(about: Fields<'_>) -> Result<Option<ScreenSize>, Fault> {
    if about.get("screen_resolution").is_none() {
        return Ok(None);
    }
    let resolution = about.object("screen_resolution")?;
    let edge = |name: &str| {
        let value = resolution.int(name)?;
        let edge = u32::try_from(value).ok().filter(|v| *v > 0);
        edge.ok_or_else(|| {
            Fault::new(RejectKind::OutOfRange, format!("field `{name}`: {value} is not a size"))
        })
    };
    Ok(Some(ScreenSize { width_px: edge("width")?, height_px: edge("height")? }))
}

/// Adds the actions of a step; returns the number of its alternatives.
fn add_steps(
    context: Context<'_>,
    file: &Path,
    size: Option<ScreenSize>,
    value: &Value,
    steps: &mut Vec<Step>,
) -> Result<usize, Fault> {
    let fields = Fields::of(value)?;
    let number = fields.int("step_num")?;
    let screen = Screen { size, ..screen(context, file, fields)? };
    let monologue = fields.get("inner_monologue").map(Fields::of).transpose()?;
    let said = |name: &str| monologue.and_then(|m| text_of(m, name));
    let mut found = Vec::new();
    for (k, truth) in fields.array("ground_truth_actions")?.iter().enumerate() {
        let place = format!("ground_truth_actions[{k}]");
        found.extend(truth_actions(truth).map_err(|fault| fault.at(&place))?);
    }
    if found.is_empty() {
        return Err(Fault::new(RejectKind::Empty, "field `ground_truth_actions` holds no action"));
    }
    let found = join_moves(found);
    let several = found.len() > 1;
    for (k, action) in found.into_iter().enumerate() {
        let part = if several { format!(".{k}") } else { String::new() };
        steps.push(Step {
            screen: screen.clone(),
            instruction: said("low_level_instruction"),
            description: said("observation"),
            thought: said("thought"),
            ..Step::new(steps.len() as u32, format!("step_num {number}{part}"), action)
        });
    }
    Ok(fields.get("alternative_options").and_then(Value::as_array).map_or(0, Vec::len))
}

fn truth_actions(truth: &Value) -> Result<Vec<Action>, Fault> {
    let fields = Fields::of(truth)?;
    let call = Call { name: fields.str("type")?.to_owned(), arguments: arguments(fields.object("params")?)? };
    let boxes = fields.get("metadata").map(Fields::of).transpose()?.map(boxes).transpose()?;
    let mut actions = actions(&call, &shares)?;
    if let (Some(action), Some(boxes)) = (actions.first_mut(), boxes) {
        action.target.boxes = boxes;
    }
    Ok(actions)
}

/// The parameters, under the names that the calls have for them.
fn arguments(params: Fields<'_>) -> Result<Vec<Argument>, Fault> {
    let mut arguments = Vec::new();
    let mut add = |name: &str, value: Option<&Value>| {
        if let Some(value) = value {
            arguments.push(Argument { name: Some(name.to_owned()), value: literal(value) });
        }
    };
    if params.get("position").is_some() {
        let position = params.object("position")?;
        add("x", position.get("x"));
        add("y", position.get("y"));
    }
    add("message", params.get("text").or(params.get("content")));
    add("clicks", params.get("amount").or(params.get("pixels")).or(params.get("clicks")));
    for name in ["keys", "presses", "status", "button", "seconds", "duration"] {
        add(name, params.get(name));
    }
    Ok(arguments)
}

fn literal(value: &Value) -> Literal {
    match value {
        Value::Number(n) => n.as_f64().map_or(Literal::None, Literal::Number),
        Value::String(s) => Literal::Text(s.clone()),
        Value::Bool(b) => Literal::Bool(*b),
        Value::Array(values) => Literal::List(values.iter().map(literal).collect()),
        // No parameter is an object; the call says what it expects instead.
        Value::Null | Value::Object(_) => Literal::None,
    }
}

/// Gold boxes: `rel_bbox` is `[x, y, width, height]` in shares of the screen. An element may
/// reach over the screen's edge, but not lie beyond it.
fn boxes(metadata: Fields<'_>) -> Result<Vec<BBox>, Fault> {
    let Some(values) = metadata.get("bboxes") else { return Ok(Vec::new()) };
    let values = values.as_array().map(Vec::as_slice).unwrap_or_default();
    values.iter().map(bbox).collect()
}

fn bbox(value: &Value) -> Result<BBox, Fault> {
    let numbers: Option<Vec<f64>> = Fields::of(value)?.array("rel_bbox")?.iter().map(Value::as_f64).collect();
    let Some([x, y, w, h]) = numbers.as_deref().and_then(|n| <[f64; 4]>::try_from(n).ok()) else {
        return Err(Fault::new(RejectKind::MissingField, "field `rel_bbox`: expected 4 numbers"));
    };
    if w < 0.0 || h < 0.0 || x > 1.0 || y > 1.0 || x + w < 0.0 || y + h < 0.0 {
        let reason = format!("field `rel_bbox`: [{x}, {y}, {w}, {h}] lies outside the screen");
        return Err(Fault::new(RejectKind::OutOfRange, reason));
    }
    Ok(BBox { left: x, top: y, right: x + w, bottom: y + h, frame: FrameName::Normalized })
}
