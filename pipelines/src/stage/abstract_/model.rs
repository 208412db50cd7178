//! Abstracted steps by a vision model (`HiSA`, appendix A.4): the changed region before and after, and the action.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use tracemill_data::artifact::{StateStep, StepOutcome};
use tracemill_data::trace::{Element, EpisodeRow, StepRow};
use tracemill_models::state::ElementChange;

use super::asker::{Asker, Form, Question, text_of};
use super::contexts::{label, schema};
use super::screens::Seen;

const FORM: &str =
    r#"{"result": "Succeeded. …", "outcome": "success" or "failure" or "unknown", "evidence": "…"}"#;
/// Elements of each kind that a model is told.
const TOLD: usize = 40;

/// What a model said of a step.
struct Told {
    text: String,
    outcome: StepOutcome,
    evidence: String,
}

/// Labels the steps of a batch whose screens changed. Where nothing changed, or nothing was seen, no model is asked;
/// where it does not answer, the rules' label stays.
///
/// # Errors
/// What has to stop the stage.
pub fn label_steps(
    asker: &mut Asker,
    batch: &[(EpisodeRow, Vec<StepRow>)],
    seen: &mut [Seen],
    crops: &Path,
) -> Result<()> {
    for name in ["state-abstraction", "state-abstraction-text"] {
        let (mut places, mut questions) = (Vec::new(), Vec::new());
        for (at, ((_, steps), seen)) in batch.iter().zip(seen.iter()).enumerate() {
            for i in 0..steps.len() {
                let asked = match name {
                    "state-abstraction" => of_pictures(&seen.steps[i], crops)?,
                    _ => of_elements(steps, seen, i)?,
                };
                if let Some(question) = asked {
                    places.push((at, i));
                    questions.push(question);
                }
            }
        }
        let labeler = label(asker, &questions);
        let answers = asker.ask(&questions, &form(), read)?;
        for ((at, i), told) in places.into_iter().zip(answers) {
            let Some(Told { text, outcome, evidence }) = told else { continue };
            let row = &mut seen[at].steps[i];
            (row.text, row.outcome, row.evidence) = (text, outcome, evidence);
            row.labeler.clone_from(&labeler);
        }
    }
    Ok(())
}

fn of_pictures(row: &StateStep, crops: &Path) -> Result<Option<Question>> {
    let (Some(before), Some(after)) = (&row.crop_before, &row.crop_after) else { return Ok(None) };
    let prompt = Asker::prompt("state-abstraction", BTreeMap::from([("action", row.action.clone())]))?;
    Ok(Some(Question { prompt, images: vec![crops.join(before), crops.join(after)] }))
}

fn of_elements(steps: &[StepRow], seen: &Seen, i: usize) -> Result<Option<Question>> {
    let row = &seen.steps[i];
    let (Some(change), Some(next)) = (&seen.elements[i], steps.get(i + 1)) else { return Ok(None) };
    if row.seen_in != "elements" || change.is_none() {
        return Ok(None);
    }
    let screen = difference(&steps[i].elements, &next.elements, change);
    let values = BTreeMap::from([("action", row.action.clone()), ("screen", screen)]);
    Ok(Some(Question { prompt: Asker::prompt("state-abstraction-text", values)?, images: Vec::new() }))
}

/// The elements that changed, a line for each.
fn difference(before: &[Element], after: &[Element], change: &ElementChange) -> String {
    let name =
        |e: &Element| format!("{} \"{}\" {}", e.role, e.text, e.states.join(" ")).trim_end().to_owned();
    let appeared = change.appeared.iter().map(|&j| format!("appeared: {}", name(&after[j])));
    let changed =
        change.changed.iter().map(|&(i, j)| format!("changed: {} → {}", name(&before[i]), name(&after[j])));
    let gone = change.gone.iter().map(|&i| format!("gone: {}", name(&before[i])));
    let lines = appeared.take(TOLD).chain(changed.take(TOLD)).chain(gone.take(TOLD));
    let mut lines: Vec<String> = lines.collect();
    if change.moved > 0 {
        lines.push(format!("moved: {} elements", change.moved));
    }
    lines.join("\n")
}

fn read(value: &Value) -> Result<Told, String> {
    let outcome: StepOutcome = text_of(value, "outcome")?.to_lowercase().parse()?;
    Ok(Told { text: text_of(value, "result")?, outcome, evidence: text_of(value, "evidence")? })
}

fn form() -> Form<'static> {
    let text = || json!({ "type": "string" });
    let outcome = json!({ "type": "string", "enum": ["success", "failure", "unknown"] });
    Form { example: FORM, schema: schema(&[("result", text()), ("outcome", outcome), ("evidence", text())]) }
}
