//! The standardised form: JSON lines of trajectories in `PyAutoGUI` code.

use std::path::Path;

use serde_json::{Value, json};

use super::{Context, text_of};
use crate::adapters::pyautogui::{actions_of_code, join_moves, shares};
use crate::adapters::source::{Fault, Fields, Refused};
use crate::trace::{Episode, Format, Outcome, Platform, RejectKind, Screen, Step};

/// The trajectory of one line.
pub(super) fn episode(
    context: Context<'_>,
    file: &Path,
    key: &str,
    value: &Value,
) -> Result<Episode, Refused> {
    let id = Fields::of(value).and_then(|f| f.id("task_id"));
    let id = id.map_err(|fault| Refused::new(key, None, fault))?;
    let episode_id = format!("{}:{id}", Format::Agentnet);
    let refused = |fault| Refused::new(key, Some(&episode_id), fault);
    let fields = Fields::of(value).map_err(refused)?;
    let steps = steps(context, file, key, fields).map_err(refused)?;
    let instruction = fields.str("instruction").map_err(refused)?.to_owned();
    Ok(Episode {
        outcome: outcome(fields, &steps),
        episode_id,
        format: Format::Agentnet,
        source: context.input.display(file),
        source_key: key.to_owned(),
        platform: Platform::Desktop,
        instruction,
        apps: Vec::new(),
        domain: text_of(fields, "domain"),
        split: None,
        extra: Some(json!({ "form": "standardised" }).to_string()),
        steps,
    })
}

/// What the trajectory's own `task_completed` says, else how it was terminated.
fn outcome(fields: Fields<'_>, steps: &[Step]) -> Outcome {
    match fields.get("task_completed").and_then(Value::as_bool) {
        Some(true) => Outcome::Success,
        Some(false) => Outcome::Failure,
        None => Outcome::declared_by(steps),
    }
}

fn steps(context: Context<'_>, file: &Path, key: &str, fields: Fields<'_>) -> Result<Vec<Step>, Fault> {
    let mut steps = Vec::new();
    for (i, value) in fields.array("traj")?.iter().enumerate() {
        let place = format!("traj[{i}]");
        let added = add_steps(context, file, &format!("{key} {place}"), value, &mut steps);
        added.map_err(|fault| fault.at(&place))?;
    }
    if steps.is_empty() {
        return Err(Fault::new(RejectKind::Empty, "field `traj` holds no step"));
    }
    Ok(steps)
}

fn add_steps(
    context: Context<'_>,
    file: &Path,
    key: &str,
    value: &Value,
    steps: &mut Vec<Step>,
) -> Result<(), Fault> {
    let fields = Fields::of(value)?;
    let said = fields.object("value")?;
    let screen = screen(context, file, fields)?;
    let found = actions_of_code(said.str("code")?, &shares)?;
    if found.is_empty() {
        return Err(Fault::new(RejectKind::Empty, "field `code` holds no call"));
    }
    let found = join_moves(found);
    let several = found.len() > 1;
    for (k, action) in found.into_iter().enumerate() {
        let key = if several { format!("{key}.code[{k}]") } else { key.to_owned() };
        steps.push(Step {
            screen: screen.clone(),
            instruction: text_of(said, "action"),
            description: text_of(said, "observation"),
            thought: text_of(said, "thought"),
            ..Step::new(steps.len() as u32, key, action)
        });
    }
    Ok(())
}

/// The screen of a step, whose `image` lies beside the file or in `images/`.
pub(super) fn screen(context: Context<'_>, file: &Path, fields: Fields<'_>) -> Result<Screen, Fault> {
    let Some(image) = fields.get("image").map(|_| fields.str("image")).transpose()? else {
        return Ok(Screen::default());
    };
    let folder = file.parent().unwrap_or(file);
    let required = context.options.require_screenshots;
    context.input.step_screen(Some(image), &[&folder.join("images"), folder], required)
}
