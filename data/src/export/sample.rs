//! From a step to a row: prompt, reply, truth, and where each of them comes from.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::{Action, FrameName, Position, Verb};
use crate::adapters::FIRST_STATE;
use crate::artifact::{AgentPrompt, AgentRole, RowScreen, ScreenPixels, Truth};
use crate::grammar::write_action;
use crate::prompt::{
    MARKS, PromptError, PromptMessage, Rendered, Role, STEP_WORDS, Shown, registry, step_trace, step_words,
};
use crate::trace::{EpisodeRow, StepRow};

/// What rows are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A prompt and the reply to learn.
    Sft,
    /// A prompt and what its replies are rewarded by.
    Rl,
}

impl Kind {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sft => "sft",
            Self::Rl => "rl",
        }
    }
}

/// How prompts and replies are worded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// CES's appendix C; a Tracker's reply wears the tags; the executor's output is a whole action.
    Paper,
    /// CES's released rows, byte for byte: their prompts, description and intention joined without a
    /// separator, the executor's action as a type alone, a Tracker's reply bare.
    CesCode,
}

impl Form {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::CesCode => "ces-code",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Paper => "",
            Self::CesCode => "ces-",
        }
    }
}

/// Where a row comes from: a row of `lineage.parquet`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// Unique in the data set: `<episode>#<step>/<role>`.
    pub row_id: String,
    /// `train` or `test`.
    pub split: String,
    /// The file it is written to.
    pub file: String,
    /// Its place in that file, from 0.
    pub row: u64,
    /// The agent.
    pub role: String,
    /// The episode of the run.
    pub episode_id: String,
    /// The step of that episode.
    pub step: u32,
    /// The adapter that read it.
    pub format: String,
    /// Application of the step, or the episode's first.
    pub app: String,
    /// The source file.
    pub source: String,
    /// Where the episode and the step stand in it.
    pub source_key: String,
    /// The task as it is compared for splits and leaks; see [`task_key`](super::task_key).
    pub task_key: String,
    /// `name@version` of the prompt's template.
    pub prompt: String,
    /// Hash of the template: training refuses rows that were asked in other words.
    pub prompt_hash: String,
    /// Where the state comes from: `context` (the source's), `first`, `state@1` (by rule), or `states:` and who wrote
    /// it in `R/states`.
    pub state_from: String,
    /// The same of the state that a State Tracker's SFT row has to tell; empty in other rows.
    #[serde(default)]
    pub next_state_from: String,
    /// Where the reply's thought comes from: `source`, or empty where there is none.
    pub thought_from: String,
    /// Where the low-level instruction comes from: `source`, or the rule that worded it.
    pub instruction_from: String,
    /// The picture, as the source names it.
    pub image: String,
    /// The step whose screen and truth the row is about: for a State Tracker's RL row, the one after.
    pub screen_step: u32,
    /// Width of that screen, in pixels.
    pub screen_width_px: Option<u32>,
    /// Its height.
    pub screen_height_px: Option<u32>,
}

/// A row before it takes a framework's form.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// What is asked.
    pub prompt: Rendered,
    /// What is to be learned; `None` for RL.
    pub reply: Option<String>,
    /// Task, state, screen and truth, for rewards. Its screen's `image` is the source's name.
    pub agent: AgentPrompt,
    /// The picture, as the trace names it; `None` for text screens and State Trackers.
    pub image: Option<String>,
    /// The low-level instruction, where the source has one or a rule worded it.
    pub instruction: Option<String>,
    /// The true action in CES's grammar.
    pub action: String,
    /// Where it all comes from.
    pub lineage: Lineage,
}

/// Why a step gives no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skipped {
    /// The episode was released for the other role.
    OtherRole,
    /// The episode has no task: an exploration, or a recording.
    NoTask,
    /// The source has no low-level instruction to learn, and words by rule were not asked for.
    NoInstruction,
    /// Neither a screenshot nor elements: a Coordinator plans from what it sees, and an executor acts on it.
    NoScreen,
    /// The state after the last step is not known.
    NoNextState,
    /// The action is not in the source: it was read from the instruction's words.
    ReadTruth,
    /// Something is missing that a reply would be compared with: a point, a box, a text, a direction.
    NoTruth,
    /// The executor's output says neither why nor on what the action was done: no state can follow from it.
    NothingDone,
    /// A text of the step holds an `<image>` mark or tags that would break the row's form.
    Marked,
}

impl Skipped {
    /// The name in counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::OtherRole => "released for the other role",
            Self::NoTask => "the episode has no task",
            Self::NoInstruction => "no low-level instruction (--worded makes one by rule)",
            Self::NoScreen => "neither screenshot nor elements",
            Self::NoNextState => "no state after the last step",
            Self::ReadTruth => "the action is not in the source, only its words",
            Self::NoTruth => "nothing to reward by: no point, box, text or direction",
            Self::NothingDone => "the executor's output does not say what was done",
            Self::Marked => "a text holds <image> or a tag",
        }
    }
}

/// A state, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The text.
    pub text: String,
    /// `context`, `first`, the template's name, or `states:` and who wrote it.
    pub from: Cow<'static, str>,
}

/// The rule that tells a state from the steps so far.
const RULE_STATE: &str = "state@1";

/// Makes rows of one kind, for one role, in one form.
#[derive(Debug, Clone, Copy)]
pub struct Exporter {
    /// What rows are for.
    pub kind: Kind,
    /// Whose.
    pub role: AgentRole,
    /// How they are worded.
    pub form: Form,
    /// Steps without a low-level instruction are worded by rule.
    pub worded: bool,
    /// Screens with elements are shown as text, whether there is a screenshot or not.
    pub text_screens: bool,
}

impl Exporter {
    /// The row of each step of an episode, or why it gives none.
    ///
    /// # Errors
    /// A template that cannot be rendered.
    pub fn episode(
        self,
        episode: &EpisodeRow,
        steps: &[StepRow],
    ) -> Result<Vec<Result<Sample, Skipped>>, PromptError> {
        let extra: Option<Value> = episode.extra.as_deref().and_then(|e| serde_json::from_str(e).ok());
        let released_for = extra.as_ref().and_then(|e| e["role"].as_str());
        if episode.format == "ces-sft" && released_for.is_some_and(|role| role != self.role.name()) {
            return Ok(steps.iter().map(|_| Err(Skipped::OtherRole)).collect());
        }
        if episode.instruction.trim().is_empty() {
            return Ok(steps.iter().map(|_| Err(Skipped::NoTask)).collect());
        }
        let told = episode.final_state.as_ref();
        let source = || extra.as_ref().and_then(|e| e["final_state"].as_str());
        let last = told.map(|(text, _)| text.as_str()).or_else(source);
        let mut states: Vec<State> = Vec::with_capacity(steps.len() + 1);
        for at in 0..=steps.len() {
            states.push(Self::state(steps, at, last)?);
        }
        if let (Some((_, by)), Some(state)) = (told, states.last_mut()) {
            state.from = by_states(by);
        }
        (0..steps.len()).map(|at| self.row(&Place { episode, steps, states: &states, last, at })).collect()
    }

    /// The state before step `at`: the source's, or told from the steps before it. `at` may be one past the
    /// last step, whose state only some sources (`last`) know.
    ///
    /// # Errors
    /// A template that cannot be rendered.
    pub fn state(steps: &[StepRow], at: usize, last: Option<&str>) -> Result<State, PromptError> {
        let told = steps.get(at).and_then(|s| s.context.as_deref()).or(last.filter(|_| at == steps.len()));
        if let Some(text) = told.filter(|text| !text.trim().is_empty()) {
            let by = steps.get(at).and_then(|s| s.context_from.as_deref());
            return Ok(State { text: text.to_owned(), from: by.map_or(Cow::Borrowed("context"), by_states) });
        }
        if at == 0 {
            return Ok(State { text: FIRST_STATE.to_owned(), from: Cow::Borrowed("first") });
        }
        let done: Vec<String> = steps[..at]
            .iter()
            .map(|step| step.instruction.clone().unwrap_or_else(|| step_trace(step)))
            .collect();
        Ok(State { text: registry().rule_state(&done)?, from: Cow::Borrowed(RULE_STATE) })
    }

    fn row(self, place: &Place<'_>) -> Result<Result<Sample, Skipped>, PromptError> {
        match self.role {
            AgentRole::Coordinator => self.coordinator(place),
            AgentRole::StateTracker => self.tracker(place),
        }
    }

    /// `(q, m, s) → <think>description, intention</think><answer>instruction</answer>` (appendix B.1).
    fn coordinator(self, place: &Place<'_>) -> Result<Result<Sample, Skipped>, PromptError> {
        let step = place.step();
        let Some(shown) = self.shown(step) else { return Ok(Err(Skipped::NoScreen)) };
        let (instruction, instruction_from) = self.instruction(step);
        if self.kind == Kind::Sft && instruction.is_none() {
            return Ok(Err(Skipped::NoInstruction));
        }
        let thought = self.thought(step);
        let reply = instruction.as_deref().filter(|_| self.kind == Kind::Sft).map(|i| tagged(&thought, i));
        let state = &place.states[place.at];
        let values =
            BTreeMap::from([("task", place.episode.instruction.clone()), ("state", state.text.clone())]);
        let Some(prompt) = self.prompt("coordinator", values, shown)? else {
            return Ok(Err(Skipped::Marked));
        };
        let agent = place.agent(self.role, place.at, state, String::new());
        let lineage = Lineage {
            state_from: state.from.to_string(),
            thought_from: if thought.is_empty() { String::new() } else { "source".to_owned() },
            instruction_from: instruction_from.to_owned(),
            ..Lineage::default()
        };
        Ok(self.finish(place, place.at, Parts { prompt, reply, agent, instruction, lineage }))
    }

    /// SFT: `(q, u, m) → the next step's context`. RL: the same prompt (Eq. 15), rewarded by the action on
    /// the next screen, which the row is named after.
    fn tracker(self, place: &Place<'_>) -> Result<Result<Sample, Skipped>, PromptError> {
        let (step, next) = (place.step(), place.at + 1);
        let state = &place.states[place.at];
        let Some(output) = self.executor_output(step) else { return Ok(Err(Skipped::NothingDone)) };
        let values = BTreeMap::from([
            ("task", place.episode.instruction.clone()),
            ("state", state.text.clone()),
            ("executor_output", output.clone()),
        ]);
        let Some(prompt) = self.prompt("state-tracker", values, Shown::Nothing)? else {
            return Ok(Err(Skipped::Marked));
        };
        let after = &place.states[next];
        // A state by rule can be told after the last step too; a source that keeps states has not told it.
        let untold = next == place.steps.len() && place.last.is_none() && step.context.is_some();
        let lineage = Lineage { state_from: state.from.to_string(), ..Lineage::default() };
        if self.kind == Kind::Sft {
            if untold {
                return Ok(Err(Skipped::NoNextState));
            }
            let lineage = Lineage { next_state_from: after.from.to_string(), ..lineage };
            let reply = Some(match self.form {
                Form::Paper => tagged("", &after.text),
                Form::CesCode => after.text.clone(),
            });
            let agent = place.agent(self.role, place.at, state, output);
            return Ok(self.finish(
                place,
                place.at,
                Parts { prompt, reply, agent, instruction: None, lineage },
            ));
        }
        let Some(acted_on) = place.steps.get(next) else { return Ok(Err(Skipped::NoNextState)) };
        if self.shown(acted_on).is_none() {
            return Ok(Err(Skipped::NoScreen));
        }
        let (instruction, from) = self.instruction(acted_on);
        let lineage = Lineage { instruction_from: from.to_owned(), ..lineage };
        let agent = place.agent(self.role, next, state, output);
        Ok(self.finish(place, next, Parts { prompt, reply: None, agent, instruction, lineage }))
    }

    /// What a Coordinator sees of a step: its screenshot, else its elements.
    fn shown(self, step: &StepRow) -> Option<Shown<'_>> {
        if let Some(text) = &step.observation {
            return Some(Shown::Text(text));
        }
        match (&step.screenshot, step.elements.as_slice()) {
            (Some(_), elements) if elements.is_empty() || !self.text_screens => Some(Shown::Picture),
            (_, []) => None,
            (_, elements) => Some(Shown::Elements(elements)),
        }
    }

    fn prompt(
        self,
        role: &str,
        values: BTreeMap<&'static str, String>,
        shown: Shown<'_>,
    ) -> Result<Option<Rendered>, PromptError> {
        // The released form has no words for text screens; a mark in a text cannot be kept as it is.
        let released = self.form == Form::CesCode && !matches!(shown, Shown::Elements(_) | Shown::Text(_));
        if released && values.values().any(|value| MARKS.iter().any(|mark| value.contains(mark))) {
            return Ok(None);
        }
        let prefix = if released { self.form.prefix() } else { "" };
        registry().role(&format!("{prefix}{role}"), values, shown).map(Some)
    }

    /// The low-level instruction and where it comes from.
    fn instruction(self, step: &StepRow) -> (Option<String>, &'static str) {
        match &step.instruction {
            Some(own) if !own.trim().is_empty() => (Some(own.clone()), "source"),
            _ if self.worded => (step_words(step), STEP_WORDS),
            _ => (None, ""),
        }
    }

    fn thought(self, step: &StepRow) -> String {
        let separator = if self.form == Form::Paper { " " } else { "" };
        let parts = [&step.description, &step.thought].into_iter().flatten().filter(|p| !p.is_empty());
        parts.map(String::as_str).collect::<Vec<_>>().join(separator)
    }

    /// The executor's output on a step as a State Tracker reads it: its thought, and the action done. Without a thought
    /// in the source, what the executor was told stands for it; `None` where neither that nor the action says
    /// anything.
    fn executor_output(self, step: &StepRow) -> Option<String> {
        if self.form == Form::CesCode {
            return Some(tagged(&self.thought(step), released_type(step)));
        }
        let thought = self.thought(step);
        let told = || step.instruction.clone().filter(|i| !i.trim().is_empty()).or_else(|| step_words(step));
        let thought = if thought.is_empty() { told()? } else { thought };
        Some(tagged(&thought, &action_text(step)))
    }

    /// Puts a row together; `shown` is the step whose screen and truth it is about.
    fn finish(self, place: &Place<'_>, shown: usize, parts: Parts) -> Result<Sample, Skipped> {
        let Parts { prompt, reply, agent, instruction, lineage } = parts;
        let (episode, step, acted_on) = (place.episode, place.step(), &place.steps[shown]);
        if self.kind == Kind::Rl {
            let read = ["instruction:", "inferred:"].iter().any(|w| acted_on.source_verb.starts_with(w));
            if read {
                return Err(Skipped::ReadTruth);
            }
            if !can_be_rewarded(&agent, self.shown(acted_on)) {
                return Err(Skipped::NoTruth);
            }
        }
        if reply.as_deref().is_some_and(|reply| !well_formed(reply, self.form, self.role)) {
            return Err(Skipped::Marked);
        }
        let image = acted_on.screenshot.clone().filter(|_| prompt.images > 0);
        let between = if episode.source_key.is_empty() || step.source_key.is_empty() { "" } else { " › " };
        let lineage = Lineage {
            row_id: format!("{}#{}/{}", step.episode_id, step.step, self.role.name()),
            role: self.role.name().to_owned(),
            episode_id: step.episode_id.clone(),
            step: step.step,
            format: episode.format.clone(),
            app: step.app.clone().unwrap_or_else(|| episode.app.clone()),
            source: episode.source.clone(),
            source_key: format!("{}{between}{}", episode.source_key, step.source_key),
            task_key: super::task_key(&episode.instruction, &episode.episode_id),
            prompt: prompt.template.clone(),
            prompt_hash: prompt.hash.clone(),
            image: image.clone().unwrap_or_default(),
            screen_step: acted_on.step,
            screen_width_px: acted_on.screen_width_px,
            screen_height_px: acted_on.screen_height_px,
            ..lineage
        };
        let mut agent = AgentPrompt { id: Value::String(lineage.row_id.clone()), ..agent };
        if !matches!(self.shown(acted_on), Some(Shown::Picture)) {
            agent.screen.image = None;
        }
        Ok(Sample { prompt, reply, agent, image, instruction, action: action_text(acted_on), lineage })
    }
}

/// What a row is put together from.
struct Parts {
    prompt: Rendered,
    reply: Option<String>,
    agent: AgentPrompt,
    instruction: Option<String>,
    lineage: Lineage,
}

/// A step in its episode.
struct Place<'a> {
    episode: &'a EpisodeRow,
    steps: &'a [StepRow],
    /// Before each step, and after the last.
    states: &'a [State],
    last: Option<&'a str>,
    at: usize,
}

impl Place<'_> {
    fn step(&self) -> &StepRow {
        &self.steps[self.at]
    }

    fn agent(&self, role: AgentRole, shown: usize, state: &State, executor_output: String) -> AgentPrompt {
        let step = &self.steps[shown];
        AgentPrompt {
            id: Value::Null,
            role,
            task: self.episode.instruction.clone(),
            state: state.text.clone(),
            executor_output,
            screen: RowScreen {
                width: step.screen_width_px.unwrap_or(0),
                height: step.screen_height_px.unwrap_or(0),
                elements: step.elements.clone(),
                image: step.screenshot.clone(),
            },
            truth: rewarded_truth(step),
        }
    }
}

/// A state of `R/states`, by who wrote it.
fn by_states(labeler: &str) -> Cow<'static, str> {
    Cow::Owned(format!("states:{labeler}"))
}

fn tagged(thought: &str, answer: &str) -> String {
    format!("<think>{thought}</think><answer>{answer}</answer>")
}

/// The true action in CES's grammar, in pixels where the screen's size is known.
pub fn action_text(step: &StepRow) -> String {
    let truth = step.truth();
    let place = |[x, y]: [f64; 2]| Position { x: x.round(), y: y.round(), frame: FrameName::Pixels };
    let mut action = Action::new(step.verb().unwrap_or(Verb::Click), "");
    action.point = truth.point.map(place);
    action.end = step.end.and_then(|p| p.to_pixels(step.screen().size)).map(|p| place([p.x, p.y]));
    action.target.element = truth.element;
    action.text = truth.text;
    action.source_direction = truth.direction;
    write_action(&action)
}

/// The action's type in GUI-Odyssey's words.
fn released_type(step: &StepRow) -> &str {
    const WORDS: [&str; 7] = ["CLICK", "LONG_PRESS", "SCROLL", "TEXT", "TYPE", "COMPLETE", "INCOMPLETE"];
    if WORDS.contains(&step.source_verb.as_str()) {
        return &step.source_verb;
    }
    match step.verb() {
        Ok(Verb::LongPress) => "LONG_PRESS",
        Ok(Verb::Scroll) => "SCROLL",
        Ok(Verb::Type) => "TEXT",
        Ok(Verb::Complete) => "COMPLETE",
        Ok(Verb::Impossible) => "INCOMPLETE",
        _ => "CLICK",
    }
}

/// Whether an executor's action could be told right from wrong. An executor that looks at a picture answers with a
/// point: an element's id alone is nothing to compare that with.
fn can_be_rewarded(agent: &AgentPrompt, shown: Option<Shown<'_>>) -> bool {
    let mut truth = agent.truth.clone();
    if matches!(shown, Some(Shown::Picture)) {
        truth.element = None;
    }
    truth.lacks(agent.screen.size().map(ScreenPixels::from)).is_none()
}

/// The truth of a step for rewards: an element's own box where the source gives no other, boxes cut at the edges of
/// the screen, hundredths of pixels.
fn rewarded_truth(step: &StepRow) -> Truth {
    let mut truth = step.truth();
    let size = step.screen().size;
    if truth.boxes.is_empty()
        && let Some(b) =
            truth.element.as_ref().and_then(|id| step.elements.iter().find(|e| e.id == *id)?.bbox)
    {
        let corner = |x, y| Position { x, y, frame: b.frame }.to_pixels(size);
        if let (Some(first), Some(second)) = (corner(b.left, b.top), corner(b.right, b.bottom)) {
            truth.boxes.push([first.x, first.y, second.x, second.y]);
        }
    }
    let hundredths = |n: f64| (n * 100.0).round() / 100.0;
    for b in &mut truth.boxes {
        *b = b.map(hundredths);
        if let Some(size) = size {
            let (width, height) = (f64::from(size.width_px), f64::from(size.height_px));
            *b = [
                b[0].clamp(0.0, width),
                b[1].clamp(0.0, height),
                b[2].clamp(0.0, width),
                b[3].clamp(0.0, height),
            ];
        }
    }
    truth.boxes.retain(|b| b[0] < b[2] && b[1] < b[3]);
    truth.point = truth.point.map(|p| p.map(hundredths));
    truth
}

/// Whether a reply's tags are its own: none inside thought or answer, and no image mark anywhere.
fn well_formed(reply: &str, form: Form, role: AgentRole) -> bool {
    let bare = form == Form::CesCode && role == AgentRole::StateTracker;
    let tags = usize::from(!bare);
    !MARKS.iter().any(|mark| reply.contains(mark))
        && ["<think>", "</think>", "<answer>", "</answer>"].iter().all(|t| reply.matches(t).count() == tags)
}

impl Sample {
    /// System (where there is one) and user, and for SFT the reply.
    pub fn messages(&self) -> Vec<PromptMessage> {
        let reply =
            self.reply.iter().map(|reply| PromptMessage { role: Role::Assistant, content: reply.clone() });
        self.prompt.messages.iter().cloned().chain(reply).collect()
    }
}

#[cfg(test)]
#[path = "sample_tests.rs"]
mod tests;
