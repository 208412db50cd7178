//! Refined contexts and states of an episode: every `N` steps the summary so far and the steps since become one
//! (`HiSA`, Eq. 4), before the next decision and once.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};
use tracemill_data::action::Verb;
use tracemill_data::adapters::FIRST_STATE;
use tracemill_data::artifact::{StateContext, StateStep, StateText, StepOutcome};
use tracemill_data::trace::{EpisodeRow, StepRow};
use tracemill_models::state::{Context, Done, REFINER, RefineSettings, clip};

use super::asker::{Asker, Form, Question, text_of};

/// Share of the screen from which a change is a new screen.
const NEW_SCREEN: f64 = 0.5;
/// Characters of an English word with its space, for the bound that a model is told.
const CHARS_PER_WORD: usize = 6;
const FORM: &str = r#"{"summary": "Steps 1~5: … Suggestion: …"}"#;

/// An episode on its way through its refinements.
pub struct Refining<'a> {
    episode: &'a EpisodeRow,
    done: Vec<Done>,
    /// The rules' context, kept up whoever writes the text.
    rules: Context,
    /// The latest summary that is not the rules'.
    written: Option<String>,
    /// Refined contexts so far.
    pub contexts: Vec<StateContext>,
    /// States before each step so far, and after the last.
    pub states: Vec<StateText>,
    settings: RefineSettings,
}

impl<'a> Refining<'a> {
    /// An episode before its first refinement.
    pub fn new(
        episode: &'a EpisodeRow,
        steps: &[StepRow],
        seen: &[StateStep],
        settings: RefineSettings,
    ) -> Self {
        let done = (1..)
            .zip(steps.iter().zip(seen))
            .map(|(number, (step, seen))| done(number, step, seen))
            .collect();
        let (rules, written) = (Context::default(), None);
        let mut refining =
            Self { episode, done, rules, written, contexts: Vec::new(), states: Vec::new(), settings };
        refining.tell();
        refining
    }

    /// The steps that the next refinement takes in; `None` when there is no decision left that would see it.
    pub fn due(&self) -> Option<std::ops::Range<usize>> {
        let from = self.rules.steps as usize;
        let to = from + self.settings.every as usize;
        (to < self.done.len()).then_some(from..to)
    }

    /// Refines once, with the summary that a model wrote, or by rule.
    pub fn refine(&mut self, written: Option<(String, String)>) {
        let Some(due) = self.due() else { return };
        self.rules = self.rules.refine(&self.done[due], self.settings);
        let (text, labeler) = match written {
            Some((text, labeler)) => (clip(&text, self.settings.max_chars), labeler),
            None => (self.rules.text(), REFINER.to_owned()),
        };
        self.written = (labeler != REFINER).then(|| text.clone());
        self.contexts.push(StateContext {
            episode_id: self.episode.episode_id.clone(),
            after_steps: self.rules.steps,
            text,
            labeler,
        });
        self.tell();
    }

    /// The states up to the next refinement.
    fn tell(&mut self) {
        let from = self.rules.steps as usize;
        let until = self.due().map_or(self.done.len() + 1, |due| due.end);
        for step in from..until {
            let since = &self.done[from..step];
            let text = match (&self.written, step) {
                (_, 0) => FIRST_STATE.to_owned(),
                (None, _) => self.rules.state(since),
                (Some(written), _) => with_written(written, since),
            };
            let labeler = self.contexts.last().map_or(REFINER, |context| context.labeler.as_str()).to_owned();
            let episode_id = self.episode.episode_id.clone();
            self.states.push(StateText { episode_id, step: step as u32, text, labeler });
        }
    }

    /// What a model is asked for the refinement that is due.
    fn question(&self) -> Result<Option<Question>> {
        let Some(due) = self.due() else { return Ok(None) };
        let new = self.done[due.clone()].iter().map(Done::text).collect::<Vec<_>>().join("\n");
        let history = match self.contexts.last() {
            None => new,
            Some(previous) => format!(
                "<previous_summary>\n{}\n</previous_summary>\n<new_steps>\n{new}\n</new_steps>",
                previous.text
            ),
        };
        let values = BTreeMap::from([
            ("task", self.episode.instruction.clone()),
            ("first", "1".to_owned()),
            ("last", due.end.to_string()),
            ("history", history),
            ("words", (self.settings.max_chars / CHARS_PER_WORD).to_string()),
        ]);
        Ok(Some(Question { prompt: Asker::prompt("state-refinement", values)?, images: Vec::new() }))
    }
}

/// A summary that a model wrote, without its suggestion, and the steps since.
fn with_written(written: &str, since: &[Done]) -> String {
    let progress = written.split("Suggestion:").next().unwrap_or(written).trim();
    let since: Vec<String> = since.iter().map(Done::text).collect();
    if since.is_empty() {
        progress.to_owned()
    } else {
        format!("{progress} Since then: {}.", since.join("; "))
    }
}

/// Refines all episodes of a batch to their ends. A model is asked for one refinement of each episode at a time, since
/// each needs the one before.
///
/// # Errors
/// What has to stop the stage.
pub fn refine_all(batch: &mut [Refining<'_>], mut asker: Option<&mut Asker>) -> Result<()> {
    loop {
        let due: Vec<usize> = (0..batch.len()).filter(|&i| batch[i].due().is_some()).collect();
        if due.is_empty() {
            return Ok(());
        }
        let mut written: Vec<Option<String>> = vec![None; due.len()];
        let mut labeler = String::new();
        if let Some(asker) = asker.as_deref_mut() {
            let questions = due.iter().filter_map(|&i| batch[i].question().transpose());
            let questions: Vec<Question> = questions.collect::<Result<_>>()?;
            labeler = label(asker, &questions);
            written = asker.ask(&questions, &form(), |value| text_of(value, "summary"))?;
        }
        for (i, text) in due.into_iter().zip(written) {
            batch[i].refine(text.map(|text| (text, labeler.clone())));
        }
    }
}

/// Model and prompt, as artifacts name them.
pub fn label(asker: &Asker, questions: &[Question]) -> String {
    let prompt = questions.first().map_or("", |q| q.prompt.template.as_str());
    format!("{} {prompt}", asker.model())
}

fn form() -> Form<'static> {
    Form { example: FORM, schema: schema(&[("summary", json!({ "type": "string" }))]) }
}

/// The schema of an object that has these fields and no other.
pub fn schema(fields: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = fields.iter().map(|f| f.0).collect();
    let properties: serde_json::Map<String, Value> =
        fields.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone())).collect();
    json!({ "type": "object", "properties": properties, "required": names, "additionalProperties": false })
}

/// A step as summaries tell it.
pub fn done(number: u32, step: &StepRow, seen: &StateStep) -> Done {
    use Verb::{Complete, Impossible, Navigate, OpenApp, Paste, Select, SwitchWindow, Type};
    let moves_on = matches!(
        step.verb(),
        Ok(OpenApp | Navigate | SwitchWindow | Type | Select | Paste | Complete | Impossible)
    );
    let new_screen =
        seen.outcome == StepOutcome::Success && seen.changed_share.is_some_and(|share| share >= NEW_SCREEN);
    let result = match seen.outcome {
        // What a model saw is told; the rules see only that something changed.
        _ if !seen.labeler.starts_with("state-rules") => seen.text.clone(),
        StepOutcome::Failure => seen.evidence.clone(),
        _ => String::new(),
    };
    Done {
        first: number,
        last: number,
        times: 1,
        words: seen.action.clone(),
        outcome: seen.outcome,
        result,
        milestone: moves_on || new_screen,
    }
}
