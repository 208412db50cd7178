//! A trajectory: one row of `traj.jsonl` for each action.
//!
//! `{step_num, action_timestamp, action, reward, done, info, screenshot_file, response?}`, where `action` is
//! `PyAutoGUI` code or one of WAIT, DONE and FAIL. Rows of one model turn share their `step_num`, and each is
//! a step; code of several calls is several steps. Pauses between the calls of a row are no steps (they are
//! counted in [`Episode::extra`]); a row that only sleeps is a wait. The picture of a row is taken after its
//! action, so a step's screen is the row's before, and `step_0*.png` for the first. A row `{"Error": …}`, which
//! a run that broke off ends in, is no step; it is kept in [`Episode::extra`], with rewards other than 0 and
//! infos.
//!
//! The outcome is what `result.txt` says: 1 is success, 0 failure, anything between neither. What the agent
//! itself declares (DONE, FAIL) decides nothing.

use serde_json::{Value, json};

use super::super::pyautogui::{actions_of_code, join_moves, pixels};
use super::super::source::{Fault, Fields, read_text};
use super::response::Said;
use super::task::{Task, domain};
use super::{Context, Row, aim, few, key};
use crate::action::{Action, ScreenSize, Verb};
use crate::adapters::elements::smallest_around;
use crate::trace::{Episode, Format, Outcome, Platform, RejectKind, Step};

/// How an `action_timestamp` is written; what follows are digits of a second.
const STAMP: &str = "%Y%m%d@%H%M%S";
/// Characters of a timestamp in whole seconds.
const STAMP_LENGTH: usize = 15;

/// The episode in `rows`.
///
/// # Errors
/// The first row that cannot be read, by its line; no key where a file beside it is at fault.
pub(super) fn episode(context: &Context, id: String, rows: Vec<Row>) -> Result<Episode, (String, Fault)> {
    let whole = |fault| (String::new(), fault);
    let mut trajectory = Trajectory::new(context, first_picture(context).map_err(whole)?);
    for (line, row) in &rows {
        trajectory.add(*line, row).map_err(|fault| (key(*line), fault))?;
    }
    let Trajectory { steps, before, turns, notes, errors, pauses, .. } = trajectory;
    if steps.is_empty() {
        return Err(whole(Fault::new(RejectKind::Empty, "no row holds an action")));
    }
    let result = result(context).map_err(|fault| whole(fault.at("result.txt")))?;
    let task = Task::find(context).map_err(whole)?;
    let extra = json!({
        "form": "trajectory", "result": result, "task_file": task.file, "snapshot": task.snapshot,
        "task_source": task.source, "step_nums": turns, "rows": notes, "errors": errors, "pauses": pauses,
        "final_screenshot": before,
    });
    Ok(Episode {
        episode_id: id,
        format: Format::Osworld,
        source: context.input.display(context.file),
        source_key: String::new(),
        platform: Platform::Desktop,
        instruction: task.instruction,
        apps: task.apps,
        domain: domain(context),
        outcome: match result {
            Some(1.0) => Outcome::Success,
            Some(0.0) => Outcome::Failure,
            _ => Outcome::Unknown,
        },
        split: None,
        extra: Some(extra.to_string()),
        steps,
    })
}

/// The picture taken before the first action: `step_0.png`, `step_0_<stamp>.png`.
fn first_picture(context: &Context) -> Result<Option<String>, Fault> {
    let unreadable = |e: std::io::Error| Fault::new(RejectKind::Unreadable, e.to_string());
    let mut found: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(context.folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        let stem = name.strip_suffix(".png").unwrap_or_default();
        if stem == "step_0" || stem.starts_with("step_0_") {
            found.push(name);
        }
    }
    Ok(found.into_iter().min())
}

/// The number in `result.txt`, where there is one.
fn result(context: &Context) -> Result<Option<f64>, Fault> {
    let file = context.input.inside(context.folder, "result.txt");
    let file = file.map_err(|reason| Fault::new(RejectKind::UnsafePath, reason))?;
    if !file.is_file() {
        return Ok(None);
    }
    let text = read_text(&file)?;
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Some(number)),
        _ => {
            let shown: String = text.trim().chars().take(40).collect();
            let reason = format!(
                "expected a number from 0 to 1, found {shown:?}; take the file away if there is none"
            );
            Err(Fault::new(RejectKind::Malformed, reason))
        }
    }
}

/// The episode while its rows are read.
struct Trajectory<'a> {
    context: &'a Context<'a>,
    steps: Vec<Step>,
    /// The picture of the screen as it is now.
    before: Option<String>,
    /// `step_num` of each step.
    turns: Vec<i64>,
    /// Rewards and infos of rows that have any.
    notes: Vec<Value>,
    errors: Vec<Value>,
    pauses: u32,
    first_time: Option<f64>,
    /// `step_num` of the row before.
    turn: i64,
}

impl<'a> Trajectory<'a> {
    fn new(context: &'a Context<'a>, before: Option<String>) -> Self {
        Self {
            context,
            steps: Vec::new(),
            before,
            turns: Vec::new(),
            notes: Vec::new(),
            errors: Vec::new(),
            pauses: 0,
            first_time: None,
            turn: 1,
        }
    }

    fn add(&mut self, line: u64, row: &Value) -> Result<(), Fault> {
        let fields = Fields::of(row)?;
        if let (None, Some(error)) = (fields.get("action"), fields.get("Error")) {
            self.errors.push(json!({ "line": line, "error": error }));
            return Ok(());
        }
        self.count(fields)?;
        self.note(line, fields)?;
        let code = code(fields)?;
        let screen = self.context.screen(self.before.as_deref())?;
        let found = self.actions(code, screen.size)?;
        let said = said(fields, code);
        let time = fields.maybe_str("action_timestamp")?.and_then(seconds);
        let time_secs = time.map(|now| now - *self.first_time.get_or_insert(now));
        let several = found.len() > 1;
        for (i, mut action) in found.into_iter().enumerate() {
            let key = if several { format!("{}.code[{i}]", key(line)) } else { key(line) };
            let clicks = matches!(action.verb, Verb::Click | Verb::DoubleClick | Verb::RightClick);
            let at = action.point.filter(|_| clicks);
            if let Some(element) = at.and_then(|p| smallest_around(&screen.elements, p.x, p.y)) {
                aim(&mut action, element);
            }
            self.turns.push(self.turn);
            self.steps.push(Step {
                screen: screen.clone(),
                time_secs,
                thought: said.thought.clone(),
                description: said.observation.clone(),
                ..Step::new(self.steps.len() as u32, key, action)
            });
        }
        self.before = fields.maybe_str("screenshot_file")?.map(str::to_owned);
        Ok(())
    }

    /// Turns are numbered from 1. One without an action has no row; a number that falls is another run's.
    fn count(&mut self, fields: Fields) -> Result<(), Fault> {
        let number = fields.int("step_num")?;
        if number < self.turn {
            let reason = format!(
                "`step_num` {number} where {} or more is due; the file holds several runs, keep one",
                self.turn
            );
            return Err(Fault::new(RejectKind::OutOfRange, reason));
        }
        self.turn = number;
        Ok(())
    }

    fn note(&mut self, line: u64, fields: Fields) -> Result<(), Fault> {
        let reward = if fields.get("reward").is_some() { fields.f64("reward")? } else { 0.0 };
        let info = fields.get("info").filter(|info| info.as_object().is_none_or(|info| !info.is_empty()));
        if reward != 0.0 || info.is_some() {
            let done = fields.get("done").cloned().unwrap_or_default();
            self.notes.push(json!({ "line": line, "reward": reward, "done": done, "info": info }));
        }
        Ok(())
    }

    fn actions(&mut self, code: &str, size: Option<ScreenSize>) -> Result<Vec<Action>, Fault> {
        let command = match code.trim() {
            "WAIT" => Some(Verb::Wait),
            "DONE" => Some(Verb::Complete),
            "FAIL" => Some(Verb::Impossible),
            _ => None,
        };
        if let Some(verb) = command {
            return Ok(vec![Action::new(verb, code.trim())]);
        }
        let mut found = actions_of_code(code, &pixels(size)).map_err(|fault| fault.at("field `action`"))?;
        if found.iter().any(|action| action.verb != Verb::Wait) {
            let all = found.len();
            found.retain(|action| action.verb != Verb::Wait);
            self.pauses += (all - found.len()) as u32;
        }
        if found.is_empty() {
            let reason = "field `action` holds no call and is none of WAIT, DONE, FAIL";
            return Err(Fault::new(RejectKind::Empty, reason));
        }
        few(join_moves(found)).map_err(|fault| fault.at("field `action`"))
    }
}

/// The code of a row. The other action space of OSWorld, whose actions are objects, is not read.
fn code(fields: Fields<'_>) -> Result<&str, Fault> {
    let remedy = "only the action space `pyautogui` is read";
    fields.str("action").map_err(|fault| Fault { reason: format!("{}; {remedy}", fault.reason), ..fault })
}

/// What the model said: in `response`, or else before the code.
fn said(fields: Fields, code: &str) -> Said {
    match fields.get("response") {
        Some(Value::String(text)) if !text.trim().is_empty() => Said::of(text),
        None | Some(Value::String(_)) => Said::before(code),
        Some(parts) => Said { thought: Some(parts.to_string()), observation: None },
    }
}

/// The seconds of a timestamp; nothing where it is written otherwise.
fn seconds(stamp: &str) -> Option<f64> {
    let (whole, fraction) = (stamp.get(..STAMP_LENGTH)?, stamp.get(STAMP_LENGTH..)?);
    let time = jiff::civil::DateTime::strptime(STAMP, whole).ok()?;
    let whole = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
    let digits = fraction.bytes().all(|b| b.is_ascii_digit());
    let fraction = if digits && !fraction.is_empty() { format!("0.{fraction}").parse().ok()? } else { 0.0 };
    Some(whole as f64 + fraction)
}
