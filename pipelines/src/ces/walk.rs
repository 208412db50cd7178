//! Walking episodes step by step, all of them side by side, so that several endpoints have work.

use std::collections::BTreeMap;

use serde::Serialize;
use tracemill_data::adapters::FIRST_STATE;
use tracemill_data::prompt::{Shown, registry};
use tracemill_models::metrics::StepScore;
use tracemill_models::rl::Outcome;

use super::failures::Class;
use super::roles::{Planned, Setup, Tracker};
use super::tasks::{EvalStep, Task};
use crate::chat::{ChatError, Outcome as Called};
use crate::executor::{Command, ask};
use crate::reward::Rewarder;

/// What became of a step.
#[derive(Debug, Clone, Serialize)]
pub struct StepResult {
    /// `<episode>#<step>`.
    pub id: String,
    /// Index of the task.
    #[serde(skip)]
    pub task: usize,
    /// Index of the step among the task's evaluated ones.
    #[serde(skip)]
    pub at: usize,
    /// The task's key.
    pub task_key: String,
    /// The application in front.
    pub app: String,
    /// The true action's verb.
    pub action: String,
    /// The state that was planned from.
    pub state: String,
    /// The Coordinator's whole reply.
    pub coordinator: Option<String>,
    /// The instruction that the executor got.
    pub instruction: Option<String>,
    /// The executor's reply.
    pub reply: Option<String>,
    /// Why it failed, where it did.
    pub class: Option<Class>,
    /// The score.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl StepResult {
    /// Whether type and parameter are right; `None` without a score.
    pub fn right(&self) -> Option<bool> {
        self.outcome.score().map(|s| s.type_term > 0.0 && s.param > 0.0)
    }

    /// As the metrics count it, with intervals over tasks.
    pub fn metric(&self) -> Option<StepScore> {
        let score = self.outcome.score()?;
        Some(StepScore {
            episode: self.task_key.clone(),
            type_right: score.type_term > 0.0,
            right: self.right()?,
            grounds: matches!(self.action.as_str(), "click" | "long_press"),
        })
    }
}

/// What an episode remembers.
#[derive(Debug, Clone)]
struct Memory {
    state: String,
    /// Instructions carried out so far.
    done: Vec<String>,
    /// Actions so far, as the executor wrote them.
    actions: Vec<String>,
}

/// The loop.
pub struct Loop<'a> {
    /// Executor and scorer.
    pub rewarder: &'a Rewarder,
    /// Longest reply of the roles, in tokens.
    pub max_tokens: u32,
}

impl Loop<'_> {
    /// Walks all tasks in one setup; results in the order of tasks and steps.
    ///
    /// # Errors
    /// What has to stop the evaluation: a ledger that fails, a miss in mode `strict`, too many failed calls.
    pub fn walk(
        &self,
        setup: &Setup,
        tasks: &[Task],
        mut advance: impl FnMut(u64),
    ) -> anyhow::Result<Vec<StepResult>> {
        let first = Memory { state: FIRST_STATE.to_owned(), done: Vec::new(), actions: Vec::new() };
        let mut memories = vec![first; tasks.len()];
        let mut results: Vec<Vec<StepResult>> = vec![Vec::new(); tasks.len()];
        let longest = tasks.iter().map(|t| t.steps.len()).max().unwrap_or(0);
        for at in 0..longest {
            let active: Vec<usize> = (0..tasks.len()).filter(|&i| at < tasks[i].steps.len()).collect();
            let places: Vec<(&Task, &EvalStep)> =
                active.iter().map(|&i| (&tasks[i], &tasks[i].steps[at])).collect();
            let states: Vec<String> = active
                .iter()
                .zip(&places)
                .map(|(&i, (_, step))| self.state(setup, &memories[i], step))
                .collect::<Result<_, _>>()?;
            let shown: Vec<&str> = states.iter().map(String::as_str).collect();
            let planned =
                setup.coordinator.plan(&places, &shown, self.rewarder.profile(), self.max_tokens)?;
            let done = self.execute(&places, &planned)?;
            self.remember(setup, &places, &active, &planned, &done, &mut memories)?;
            self.rewarder.check_failures()?;
            for (((&task, state), planned), (outcome, reply)) in
                active.iter().zip(states).zip(planned).zip(done)
            {
                results[task].push(result(&tasks[task], task, at, state, planned, outcome, reply));
            }
            advance(active.len() as u64);
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// The state that a step is planned from.
    fn state(&self, setup: &Setup, memory: &Memory, step: &EvalStep) -> anyhow::Result<String> {
        Ok(match &setup.tracker {
            Tracker::Gold => step.state.clone(),
            Tracker::Nobody | Tracker::Model(_) => memory.state.clone(),
            Tracker::Rules => registry().rule_state(&memory.done)?,
            Tracker::LastFour => {
                let from = memory.actions.len().saturating_sub(4);
                registry().state_of("last-actions", &memory.actions[from..])?
            }
        })
    }

    /// Has the executor carry out what was planned; what was not planned earns nothing, what failed has no
    /// score.
    pub(super) fn execute(
        &self,
        places: &[(&Task, &EvalStep)],
        planned: &[Planned],
    ) -> Result<Vec<(Outcome, Option<String>)>, ChatError> {
        let ready: Vec<usize> = (0..places.len()).filter(|&i| planned[i].instruction.is_some()).collect();
        let command = |&i: &usize| Command {
            instruction: planned[i].instruction.as_deref().unwrap_or_default(),
            screen: &places[i].1.screen,
            image: places[i].1.image.as_ref(),
        };
        let commands: Vec<Command<'_>> = ready.iter().map(command).collect();
        let truths: Vec<_> = ready.iter().map(|&i| places[i].1.truth.clone()).collect();
        let mut acted = self.rewarder.act(&commands, &truths)?.into_iter();
        let one =
            |(place, planned): (&(&Task, &EvalStep), &Planned)| match (&planned.failed, &planned.instruction)
            {
                (Some(reason), _) => (Outcome::Error { reason: reason.clone() }, None),
                (None, Some(_)) => {
                    let (outcome, reply) = acted.next().unwrap_or((no_outcome(), None));
                    (outcome, reply.map(|r| r.text))
                }
                (None, None) => (self.rewarder.nothing_said(&place.1.truth, place.1.screen.size), None),
            };
        Ok(places.iter().zip(planned).map(one).collect())
    }

    /// Tells the State Tracker what was done.
    fn remember(
        &self,
        setup: &Setup,
        places: &[(&Task, &EvalStep)],
        active: &[usize],
        planned: &[Planned],
        done: &[(Outcome, Option<String>)],
        memories: &mut [Memory],
    ) -> Result<(), ChatError> {
        for (i, &task) in active.iter().enumerate() {
            memories[task].done.extend(planned[i].instruction.clone());
            let action = done[i].0.score().and_then(|s| s.parsed.clone());
            memories[task].actions.extend(action);
        }
        let Tracker::Model(client) = &setup.tracker else { return Ok(()) };
        let told: Vec<usize> = (0..active.len()).filter(|&i| done[i].1.is_some()).collect();
        let mut requests = Vec::with_capacity(told.len());
        for &i in &told {
            let values = BTreeMap::from([
                ("task", places[i].0.instruction.clone()),
                ("executor_output", done[i].1.clone().unwrap_or_default()),
                ("state", memories[active[i]].state.clone()),
            ]);
            requests.push(ask(client, "state-tracker", values, Shown::Nothing, None, self.max_tokens)?);
        }
        let outcomes = client.call_all(&requests, |_, _| {})?;
        for (i, outcome) in told.into_iter().zip(outcomes) {
            // A failed call leaves the state as it was: the next step is planned from what is known.
            if let Called::Reply(reply) = outcome {
                memories[active[i]].state = self.rewarder.state_of(&reply.text);
            }
        }
        Ok(())
    }
}

/// Never seen: every command has an outcome.
fn no_outcome() -> Outcome {
    Outcome::Error { reason: "the executor gave no outcome".to_owned() }
}

fn result(
    task: &Task,
    index: usize,
    at: usize,
    state: String,
    planned: Planned,
    outcome: Outcome,
    reply: Option<String>,
) -> StepResult {
    let step = &task.steps[at];
    StepResult {
        id: format!("{}#{}", task.episode_id, step.step),
        task: index,
        at,
        task_key: task.key.clone(),
        app: step.app.clone(),
        action: step.truth.action.clone(),
        state,
        coordinator: planned.reply,
        instruction: planned.instruction,
        reply,
        class: None,
        outcome,
    }
}
