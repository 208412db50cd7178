//! Lessons by a model (`HiSA`, appendices A.6 and A.7), and what of them is verified.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};
use tracemill_data::artifact::{Lesson, LessonKind, StepOutcome};
use tracemill_models::state::{Retrieved, domain_of, literals};

use crate::stage::abstract_::{Abstracted, Asker, Form, Question, done, label, schema, text_of};

const FORM: &str = r#"{"lessons": [{"type": "success" or "failure", "condition": "…", "actions": ["…"], "expected": "…", "lesson": "…", "steps": [3, 4]}]}"#;
const BULLETS_FORM: &str = r#"{"bullets": ["…"]}"#;
/// Attempts that have to fail before a failure is one.
const FAILED_ATTEMPTS: usize = 2;
/// Most bullets.
const BULLETS: usize = 5;

/// A lesson as a model tells it.
struct Told {
    kind: LessonKind,
    condition: String,
    actions: Vec<String>,
    expected: String,
    text: String,
    /// Numbers of its steps, from 1.
    steps: Vec<usize>,
}

/// The verified lessons of each trajectory, and those refused, each with its reason; `None` where the rules answer.
///
/// # Errors
/// What has to stop the stage.
pub fn induce(
    asker: &mut Asker,
    batch: &[Abstracted],
    most: usize,
) -> Result<Vec<Option<(Vec<Lesson>, Vec<Value>)>>> {
    let asked: Vec<usize> = (0..batch.len())
        .filter(|&i| !batch[i].0.instruction.trim().is_empty() && !batch[i].1.is_empty())
        .collect();
    let questions = asked.iter().map(|&i| question(&batch[i], most)).collect::<Result<Vec<_>>>()?;
    let labeler = label(asker, &questions);
    let answers = asker.ask(&questions, &form(), read)?;
    let mut out: Vec<Option<(Vec<Lesson>, Vec<Value>)>> = (0..batch.len()).map(|_| None).collect();
    for (i, told) in asked.into_iter().zip(answers) {
        out[i] = told.map(|told| verify(&batch[i], told, most, &labeler));
    }
    Ok(out)
}

fn question((episode, steps, states): &Abstracted, most: usize) -> Result<Question> {
    let lines = (1..).zip(steps.iter().zip(states)).map(|(number, (step, state))| {
        let told = done(number, step, state).text();
        format!("Step {number}: {} | Result: {}", told.split_once(") ").map_or("", |t| t.1), state.text)
    });
    let values = BTreeMap::from([
        ("task", episode.instruction.clone()),
        ("history", lines.collect::<Vec<_>>().join("\n")),
        ("most", most.to_string()),
    ]);
    Ok(Question { prompt: Asker::prompt("lesson-induction", values)?, images: Vec::new() })
}

fn read(value: &Value) -> Result<Vec<Told>, String> {
    let list = value["lessons"].as_array().ok_or("`lessons` must be a list")?;
    list.iter()
        .map(|one| {
            let kind = match one["type"].as_str() {
                Some("success") => LessonKind::Success,
                Some("failure") => LessonKind::Failure,
                _ => return Err("`type` must be success or failure".to_owned()),
            };
            let steps = one["steps"].as_array().ok_or("`steps` must be a list of numbers")?;
            let strings = |field: &str| {
                let values = one[field].as_array().into_iter().flatten();
                values.filter_map(Value::as_str).map(str::to_owned).collect()
            };
            Ok(Told {
                kind,
                condition: text_of(one, "condition")?,
                actions: strings("actions"),
                expected: text_of(one, "expected")?,
                text: text_of(one, "lesson")?,
                steps: steps.iter().filter_map(Value::as_u64).map(|n| n as usize).collect(),
            })
        })
        .collect()
}

/// Keeps what the abstracted steps bear out and what holds no value of the task.
fn verify(
    (episode, steps, states): &Abstracted,
    told: Vec<Told>,
    most: usize,
    labeler: &str,
) -> (Vec<Lesson>, Vec<Value>) {
    let values = literals(episode, steps);
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    for one in told {
        let outcomes: Option<Vec<StepOutcome>> =
            one.steps.iter().map(|n| Some(states.get(n.checked_sub(1)?)?.outcome)).collect();
        let count = |wanted| outcomes.as_ref().map_or(0, |all| all.iter().filter(|o| **o == wanted).count());
        let lower = one.text.to_lowercase();
        let reason = if outcomes.as_ref().is_none_or(Vec::is_empty) {
            Some("it names no step of the episode as evidence".to_owned())
        } else if one.kind == LessonKind::Failure && count(StepOutcome::Failure) < FAILED_ATTEMPTS {
            Some(format!("a failure needs {FAILED_ATTEMPTS} steps that failed"))
        } else if one.kind == LessonKind::Success && count(StepOutcome::Success) == 0 {
            Some("none of its steps was seen to succeed".to_owned())
        } else if let Some(value) = values.iter().find(|value| lower.contains(value.as_str())) {
            Some(format!("it holds a value of the task: {value}"))
        } else if kept.len() == most {
            Some(format!("more than {most} lessons"))
        } else {
            None
        };
        if let Some(reason) = reason {
            refused.push(json!({ "episode_id": episode.episode_id, "lesson": one.text, "reason": reason }));
            continue;
        }
        kept.push(Lesson {
            lesson_id: format!("{}!{}", episode.episode_id, kept.len() + 1),
            kind: one.kind,
            domain: domain_of(episode),
            condition: one.condition,
            actions: one.actions,
            expected: one.expected,
            text: one.text,
            episode_id: episode.episode_id.clone(),
            evidence_steps: one.steps.iter().map(|n| steps[n - 1].step).collect(),
            made_by: labeler.to_owned(),
        });
    }
    (kept, refused)
}

fn form() -> Form<'static> {
    let text = || json!({ "type": "string" });
    let lesson = schema(&[
        ("type", json!({ "type": "string", "enum": ["success", "failure"] })),
        ("condition", text()),
        ("actions", json!({ "type": "array", "items": text() })),
        ("expected", text()),
        ("lesson", text()),
        ("steps", json!({ "type": "array", "items": { "type": "integer" } })),
    ]);
    Form { example: FORM, schema: schema(&[("lessons", json!({ "type": "array", "items": lesson }))]) }
}

/// Bullets of advice by a model; `None` where there is nothing to tell, or the rules answer.
///
/// # Errors
/// What has to stop the command.
pub fn synthesise(asker: &mut Asker, task: &str, found: &Retrieved) -> Result<Option<Vec<String>>> {
    let required: Vec<String> = found.required.iter().map(|l| format!("- {}", l.text)).collect();
    let of = |kind| {
        let hits = found.hits.iter().filter(move |hit| hit.lesson.kind == kind);
        hits.map(|hit| format!("- {} (similarity: {:.2})", hit.lesson.text, hit.cosine)).collect::<Vec<_>>()
    };
    let sections = [
        ("REQUIREMENTS (MUST FOLLOW)", required),
        ("SUCCESS patterns", of(LessonKind::Success)),
        ("FAILURE patterns", of(LessonKind::Failure)),
    ];
    let told: Vec<String> = sections
        .into_iter()
        .filter(|(_, lines)| !lines.is_empty())
        .map(|(title, lines)| format!("--- {title} ---\n{}", lines.join("\n")))
        .collect();
    if told.is_empty() {
        return Ok(None);
    }
    let values = BTreeMap::from([("task", task.to_owned()), ("lessons", told.join("\n\n"))]);
    let question = Question { prompt: Asker::prompt("lesson-synthesis", values)?, images: Vec::new() };
    let list = json!({ "type": "array", "items": { "type": "string" } });
    let form = Form { example: BULLETS_FORM, schema: schema(&[("bullets", list)]) };
    let read = |value: &Value| {
        let bullets = value["bullets"].as_array().ok_or("`bullets` must be a list of texts")?;
        let texts = bullets.iter().filter_map(Value::as_str).map(str::trim).filter(|b| !b.is_empty());
        Ok(texts.take(BULLETS).map(str::to_owned).collect::<Vec<_>>())
    };
    Ok(asker.ask(&[question], &form, read)?.into_iter().next().flatten())
}
