//! CES's released SFT rows: a JSON array of sharegpt conversations, for either role.
//!
//! **State Tracker** rows hold no image and no id. Rows follow each other: a row whose
//! `Previous Task State` is the previous row's output continues its episode, the state
//! "Task just started, nothing has been done." starts one. The action is a type without
//! coordinates. The episode's id is a hash of its instruction and first thought, with an ordinal
//! among equals, so that it does not depend on where in the file it stands; the last row's output
//! is kept as `final_state` in [`Episode::extra`].
//!
//! **Coordinator** rows name episode and step in their image, `<episode>_<step>.png`. They hold no
//! action: its verb is read from the low-level instruction by the rules of
//! [`parse_instruction`], and [`Action::source_verb`] is then `instruction:<word>`. An instruction
//! that names no gesture ("Send the message.") is taken for a click, which is what remains of
//! GUI-Odyssey's actions once the others are ruled out; it is marked `inferred:<word>`, so that
//! the share can be counted.
//!
//! Description and intention are joined in the source without a separator and stay one thought.
//! Every text is kept as written, so that the rows can be made again from the episodes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::android_control::follow_apps;
use super::detect::files_of;
use super::phrase::parse_instruction;
use super::rows::{for_each_element, some_records};
use super::source::{Fields, Refused, Rejecter};
use super::{Adapter, AdapterError, AdapterOptions, Fault, Input, Item, Record};
use crate::action::{Action, Verb};
use crate::trace::{Episode, Format, Outcome, Platform, RejectKind, Screen, Step};

/// The state before the first step, in the released rows.
pub const FIRST_STATE: &str = "Task just started, nothing has been done.";

const ACTIONS: &str = "CLICK, LONG_PRESS, SCROLL, TEXT, TYPE, COMPLETE, INCOMPLETE";

/// Reads CES's SFT rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct CesSft;

impl Adapter for CesSft {
    fn format(&self) -> Format {
        Format::CesSft
    }

    /// One item for each file: a Tracker's episode is a run of its rows.
    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError> {
        let files = files_of(input, Format::CesSft, &["json"])?;
        Ok(files.into_iter().map(Item::whole).collect())
    }

    /// Rows that cannot be read come first, then the episodes in the order of their first rows.
    fn read(&self, input: &Input, item: &Item, options: AdapterOptions, sink: &mut dyn FnMut(Record)) {
        let rejecter = Rejecter::of(Format::CesSft, input, &item.path);
        let folder = item.path.parent().unwrap_or(&input.root);
        let mut groups = Groups::default();
        let result = std::fs::read(&item.path)
            .map_err(|e| Fault::new(RejectKind::Unreadable, e.to_string()))
            .and_then(|bytes| {
                for_each_element(&bytes, |i, value| {
                    let screen =
                        |shot: &str| input.step_screen(Some(shot), &[folder], options.require_screenshots);
                    if let Err(fault) = groups.add(i, &value, &screen) {
                        sink(rejecter.record(Refused::new(row_key(i), None, fault)));
                    }
                })
            });
        if let Err(fault) = result.and_then(|()| some_records(groups.rows_seen)) {
            let after = groups.rows_seen.checked_sub(1);
            let after = after.map_or_else(String::new, |last| format!("after {}", row_key(last)));
            groups.cut_off();
            sink(rejecter.record(Refused::new(after, None, fault)));
        }
        for group in groups.in_order {
            sink(rejecter.outcome(group.episode(&rejecter.file)));
        }
    }
}

fn row_key(index: usize) -> String {
    format!("row {}", index + 1)
}

/// Episodes under construction.
#[derive(Default)]
struct Groups {
    in_order: Vec<Group>,
    coordinators: BTreeMap<String, usize>,
    /// How many Tracker episodes have begun with the same instruction and thought.
    trackers: BTreeMap<u64, usize>,
    /// The Tracker episode that the next row may continue, and the state it must start from.
    open: Option<(usize, String)>,
    /// The episode of the row before.
    last: Option<usize>,
    rows_seen: usize,
}

struct Group {
    id: String,
    role: &'static str,
    instruction: String,
    steps: Vec<(usize, Step)>,
    final_state: Option<String>,
    /// The first row that cannot be used: it refuses the episode.
    fault: Option<(usize, Fault)>,
}

impl Groups {
    /// The file breaks off here: the episode of its last row may go on behind that.
    fn cut_off(&mut self) {
        if let Some(place) = self.last {
            let row = self.rows_seen.saturating_sub(1);
            let reason = "the file breaks off after this row, and the episode may go on there";
            self.in_order[place].fault.get_or_insert((row, Fault::new(RejectKind::Malformed, reason)));
        }
    }

    /// Adds a row to its episode.
    ///
    /// A fault is returned only when the row does not say which episode it belongs to.
    fn add(
        &mut self,
        index: usize,
        value: &Value,
        screen: &dyn Fn(&str) -> Result<Screen, Fault>,
    ) -> Result<(), Fault> {
        self.rows_seen = index + 1;
        let fields = Fields::of(value)?;
        let (prompt, reply) = conversation(fields)?;
        if let Some(tracker) = TrackerPrompt::of(prompt) {
            self.add_tracker(index, &tracker, reply);
            return Ok(());
        }
        let Some(coordinator) = CoordinatorPrompt::of(prompt) else {
            let reason = "the prompt is neither a State Tracker's (`High-level user instruction: …`) nor a \
                          Coordinator's (`Screenshot: <image> …`)";
            return Err(Fault::new(RejectKind::Malformed, reason));
        };
        let image = match fields.strings("images")?.as_slice() {
            [image] => *image,
            images => {
                let reason = format!("field `images`: expected one image, found {}", images.len());
                return Err(Fault::new(RejectKind::MissingField, reason));
            }
        };
        let (episode, number) = image_name(image)?;
        let step = screen(image).and_then(|screen| coordinator.step(index, number, reply, screen));
        self.add_coordinator(index, episode, coordinator.instruction, step);
        Ok(())
    }

    fn add_tracker(&mut self, index: usize, prompt: &TrackerPrompt, reply: &str) {
        let first = prompt.state == FIRST_STATE;
        let open = self
            .open
            .take()
            .filter(|(place, _)| !first && self.in_order[*place].instruction == prompt.instruction);
        let (place, continues) = match open {
            Some((place, due)) => (place, due == prompt.state),
            None => (self.begin_tracker(prompt), first),
        };
        self.last = Some(place);
        let group = &mut self.in_order[place];
        if !continues {
            let reason = "`Previous Task State` is neither the first state nor the output of the row before";
            group.fault.get_or_insert((index, Fault::new(RejectKind::OutOfRange, reason)));
        }
        match prompt.step(index, group.steps.len()) {
            Ok(step) => group.steps.push((index, step)),
            Err(fault) => {
                group.fault.get_or_insert((index, fault));
            }
        }
        group.final_state = Some(reply.to_owned());
        self.open = Some((place, reply.to_owned()));
    }

    fn begin_tracker(&mut self, prompt: &TrackerPrompt) -> usize {
        let hash = xxh3_64(format!("{}\0{}", prompt.instruction, prompt.thought).as_bytes());
        let ordinal = self.trackers.entry(hash).or_default();
        let id = format!("{}:tracker-{hash:016x}-{ordinal}", Format::CesSft);
        *ordinal += 1;
        self.begin(id, "state-tracker", prompt.instruction)
    }

    fn begin(&mut self, id: String, role: &'static str, instruction: &str) -> usize {
        let instruction = instruction.to_owned();
        self.in_order.push(Group {
            id,
            role,
            instruction,
            steps: Vec::new(),
            final_state: None,
            fault: None,
        });
        self.in_order.len() - 1
    }

    fn add_coordinator(&mut self, index: usize, episode: &str, instruction: &str, step: Result<Step, Fault>) {
        let place = match self.coordinators.entry(episode.to_owned()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(_) => {
                let id = format!("{}:coordinator-{episode}", Format::CesSft);
                let place = self.begin(id, "coordinator", instruction);
                self.coordinators.insert(episode.to_owned(), place);
                place
            }
        };
        self.last = Some(place);
        let group = &mut self.in_order[place];
        let other =
            || Fault::new(RejectKind::OutOfRange, "its instruction is not that of the episode's first row");
        match step {
            Ok(step) if group.instruction == instruction => group.steps.push((index, step)),
            Ok(_) => {
                group.fault.get_or_insert_with(|| (index, other()));
            }
            Err(fault) => {
                group.fault.get_or_insert((index, fault));
            }
        }
    }
}

/// The human's and the model's turn of a row.
fn conversation<'a>(fields: Fields<'a>) -> Result<(&'a str, &'a str), Fault> {
    let [human, reply] = fields.array("conversations")? else {
        return Err(Fault::new(RejectKind::MissingField, "field `conversations`: expected two turns"));
    };
    let turn = |value: &'a Value, from: &str| {
        let turn = Fields::of(value)?;
        match turn.str("from")? {
            found if found == from => turn.str("value"),
            found => {
                let reason = format!("field `from`: expected `{from}`, found `{found}`");
                Err(Fault::new(RejectKind::OutOfRange, reason))
            }
        }
    };
    let turns = (|| Ok((turn(human, "human")?, turn(reply, "gpt")?)))();
    turns.map_err(|fault: Fault| fault.at("conversations"))
}

/// Episode and step of `…/<episode>_<step>.png`.
fn image_name(image: &str) -> Result<(&str, u32), Fault> {
    let stem = Path::new(image).file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    let parts = stem.rsplit_once('_').filter(|(episode, _)| !episode.is_empty());
    parts.and_then(|(episode, step)| Some((episode, step.parse().ok()?))).ok_or_else(|| {
        let reason = format!("field `images`: `{image}` is not named <episode>_<step>.png");
        Fault::new(RejectKind::MissingField, reason)
    })
}

/// `<think>a</think><answer>b</answer>` as `(a, b)`.
fn think_and_answer(text: &str) -> Option<(&str, &str)> {
    let (thought, answer) = text.strip_prefix("<think>")?.split_once("</think><answer>")?;
    Some((thought, answer.strip_suffix("</answer>")?))
}

struct TrackerPrompt<'a> {
    instruction: &'a str,
    thought: &'a str,
    action: &'a str,
    state: &'a str,
}

impl<'a> TrackerPrompt<'a> {
    fn of(prompt: &'a str) -> Option<Self> {
        let (instruction, rest) = prompt
            .strip_prefix("High-level user instruction: ")?
            .split_once("\nLatest output of executor agent: ")?;
        let (output, state) = rest.split_once("\nPrevious Task State: ")?;
        let (thought, action) = think_and_answer(output)?;
        Some(Self { instruction, thought, action, state })
    }

    fn step(&self, index: usize, number: usize) -> Result<Step, Fault> {
        let verb = match self.action {
            "CLICK" => Verb::Click,
            "LONG_PRESS" => Verb::LongPress,
            "SCROLL" => Verb::Scroll,
            "TEXT" | "TYPE" => Verb::Type,
            "COMPLETE" => Verb::Complete,
            "INCOMPLETE" => Verb::Impossible,
            other => {
                let reason = format!("unknown action type `{other}`; known: {ACTIONS}");
                return Err(Fault::new(RejectKind::OutOfRange, reason));
            }
        };
        let mut step = Step::new(number as u32, row_key(index), Action::new(verb, self.action));
        step.thought = Some(self.thought.to_owned());
        step.context = Some(self.state.to_owned());
        Ok(step)
    }
}

struct CoordinatorPrompt<'a> {
    instruction: &'a str,
    state: &'a str,
}

impl<'a> CoordinatorPrompt<'a> {
    fn of(prompt: &'a str) -> Option<Self> {
        let (_, task) = prompt.strip_prefix("Screenshot: <image>")?.split_once("\nHigh-level task: ")?;
        let (instruction, rest) = task.split_once("\nCurrent_state: ")?;
        let (state, _) = rest.rsplit_once("\nFirst, think ")?;
        Some(Self { instruction, state })
    }

    fn step(&self, index: usize, number: u32, reply: &str, screen: Screen) -> Result<Step, Fault> {
        let (thought, instruction) = think_and_answer(reply).ok_or_else(|| {
            let reason = "the reply is not <think>…</think><answer>…</answer>";
            Fault::new(RejectKind::Malformed, reason)
        })?;
        let mut step = Step::new(number, row_key(index), action_of(instruction));
        step.screen = screen;
        step.instruction = Some(instruction.to_owned());
        step.thought = Some(thought.to_owned());
        step.context = Some(self.state.to_owned());
        Ok(step)
    }
}

/// The action that a low-level instruction names; a click where it names none.
fn action_of(instruction: &str) -> Action {
    let phrase = parse_instruction(instruction);
    let origin = if phrase.verb.is_some() { "instruction" } else { "inferred" };
    let mut action = Action::new(phrase.verb.unwrap_or(Verb::Click), format!("{origin}:{}", phrase.word));
    action.text = phrase.text;
    action.direction = phrase.direction;
    action.source_direction = phrase.source_direction;
    action.target.name = phrase.target;
    action
}

impl Group {
    fn episode(mut self, file: &str) -> Result<Episode, Refused> {
        let refused = |id: &str, (index, fault)| Refused::new(row_key(index), Some(id), fault);
        if let Some(fault) = self.fault {
            return Err(refused(&self.id, fault));
        }
        self.steps.sort_by_key(|(_, step)| step.step);
        for (due, (index, step)) in self.steps.iter().enumerate() {
            if step.step as usize != due {
                let reason =
                    format!("step {} where step {due} is due; a row is missing or doubled", step.step);
                return Err(refused(&self.id, (*index, Fault::new(RejectKind::OutOfRange, reason))));
            }
        }
        let first = self.steps.iter().map(|(index, _)| *index).min().unwrap_or_default();
        let last = self.steps.iter().map(|(index, _)| *index).max().unwrap_or_default();
        let mut steps: Vec<Step> = self.steps.into_iter().map(|(_, step)| step).collect();
        let outcome = Outcome::declared_by(&steps);
        let mut extra = json!({ "role": self.role });
        if let Some(state) = self.final_state {
            extra["final_state"] = Value::String(state);
        }
        Ok(Episode {
            episode_id: self.id,
            format: Format::CesSft,
            source: file.to_owned(),
            source_key: format!("rows {}-{}", first + 1, last + 1),
            platform: Platform::Mobile,
            instruction: self.instruction,
            apps: follow_apps(&mut steps),
            domain: None,
            outcome,
            split: None,
            extra: Some(extra.to_string()),
            steps,
        })
    }
}

#[cfg(test)]
#[path = "ces_sft_tests.rs"]
mod tests;
