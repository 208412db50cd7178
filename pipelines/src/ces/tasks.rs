//! The episodes of an evaluation, with the gold of every step.

use std::collections::BTreeSet;

use anyhow::Result;
use tracemill_data::artifact::Truth;
use tracemill_data::export::{Exporter, task_key};
use tracemill_data::prompt::{Shown, step_words};
use tracemill_data::trace::{EpisodeRow, Screen, StepRow, read_episodes};

use crate::chat::Image;
use crate::observed::{Cost, Observed};
use crate::reward::Rewarder;
use crate::run::Run;

/// An episode to be evaluated.
#[derive(Debug, Clone)]
pub struct Task {
    /// The episode.
    pub episode_id: String,
    /// The task as intervals count it: several episodes may have the same.
    pub key: String,
    /// The high-level instruction (q).
    pub instruction: String,
    /// Its steps.
    pub steps: Vec<EvalStep>,
    /// Hash of everything above, of all of its steps, and of the pictures looked at.
    pub hash: String,
    /// Gold instructions worded by rule.
    pub worded: u64,
}

/// A step with what it should be.
#[derive(Debug, Clone)]
pub struct EvalStep {
    /// Its number in the episode.
    pub step: u32,
    /// The application in front.
    pub app: String,
    /// What is shown.
    pub screen: Screen,
    /// Its picture, for roles that look.
    pub image: Option<Image>,
    /// It as a text of `R/observations`, where the Coordinator is shown that.
    pub text: Option<String>,
    /// What should be done.
    pub truth: Truth,
    /// The gold state before it.
    pub state: String,
    /// The gold instruction: the source's, or worded by rule.
    pub instruction: Option<String>,
}

/// Which episodes.
#[derive(Default)]
pub struct Selection {
    /// Only these episodes, where given.
    pub only: Option<BTreeSet<String>>,
    /// At most so many, the first ones.
    pub limit: Option<usize>,
    /// Screenshots are looked at.
    pub pictures: bool,
    /// Texts in place of the screens.
    pub observed: Option<Observed>,
}

impl EvalStep {
    /// What a role is shown: the text, else the picture, else the elements.
    pub fn shown(&self) -> Shown<'_> {
        self.text
            .as_deref()
            .map_or_else(|| Shown::of(self.image.is_some(), &self.screen.elements), Shown::Text)
    }
}

/// Episodes left out, by reason.
#[derive(Debug, Default, Clone, serde::Serialize)]
pub struct LeftOut {
    /// Episodes without an instruction.
    pub without_task: u64,
    /// Episodes none of whose steps shows anything.
    pub without_screens: u64,
    /// Steps that show nothing: they are not evaluated.
    pub steps_without_screen: u64,
    /// Gold instructions that the source does not have: they are worded by rule.
    pub worded: u64,
    /// What it costs to show the screens so, where they are shown as `R/observations` has them.
    pub observations: Option<Cost>,
}

/// The episodes of a run that have a task and something to see.
///
/// # Errors
/// Missing traces, pictures that cannot be read.
pub fn read_tasks(run: &Run, rewarder: &Rewarder, selection: &Selection) -> Result<(Vec<Task>, LeftOut)> {
    run.require("traces/steps.parquet", "ingest")?;
    let (mut tasks, mut out, mut cost) = (Vec::new(), LeftOut::default(), Cost::default());
    for episode in read_episodes(&run.path("traces"))? {
        let (episode, steps) = episode?;
        let wanted = selection.only.as_ref().is_none_or(|only| only.contains(&episode.episode_id));
        if !wanted || selection.limit.is_some_and(|limit| tasks.len() >= limit) {
            continue;
        }
        if episode.instruction.trim().is_empty() {
            out.without_task += 1;
            continue;
        }
        let task = task(&episode, &steps, rewarder, (selection, &mut cost))?;
        if task.steps.is_empty() {
            out.without_screens += 1;
            continue;
        }
        out.worded += task.worded;
        out.steps_without_screen += (steps.len() - task.steps.len()) as u64;
        tasks.push(task);
    }
    out.observations = selection.observed.is_some().then_some(cost);
    Ok((tasks, out))
}

fn task(
    episode: &EpisodeRow,
    steps: &[StepRow],
    rewarder: &Rewarder,
    (selection, cost): (&Selection, &mut Cost),
) -> Result<Task> {
    let mut evaluated = Vec::new();
    let mut worded = 0;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&serde_json::to_vec(&(episode, steps))?);
    for (at, step) in steps.iter().enumerate() {
        let screen = step.screen();
        let shown = screen.screenshot.as_deref().filter(|_| selection.pictures && screen.screenshot_found);
        let image = shown.map(|path| rewarder.picture(path)).transpose()?;
        if screen.elements.is_empty() && image.is_none() {
            continue;
        }
        let own = step.instruction.clone().filter(|i| !i.trim().is_empty());
        worded += u64::from(own.is_none());
        if let Some(image) = &image {
            hasher.update(image.blake3().as_bytes());
        }
        let instruction = own.or_else(|| step_words(step));
        let observed = selection.observed.as_ref().map(|o| o.shown(step, cost)).transpose()?;
        let seen = observed.as_ref().unwrap_or(step);
        if let Some(text) = &seen.observation {
            hasher.update(text.as_bytes());
        }
        evaluated.push(EvalStep {
            step: step.step,
            app: step.app.clone().unwrap_or_else(|| episode.app.clone()),
            screen: seen.screen(),
            image,
            text: seen.observation.clone(),
            truth: seen.truth(),
            state: Exporter::state(steps, at, None)?.text,
            instruction,
        });
    }
    Ok(Task {
        episode_id: episode.episode_id.clone(),
        key: task_key(&episode.instruction, &episode.episode_id),
        instruction: episode.instruction.clone(),
        steps: evaluated,
        hash: hasher.finalize().to_hex().to_string(),
        worded,
    })
}
