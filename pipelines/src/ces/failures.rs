//! Why a step failed, by putting the gold in place of one role after the other (CES, section 5.3, figure 5).

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Serialize;

use super::roles::{Planned, Setup};
use super::tasks::{EvalStep, Task};
use super::walk::{Loop, StepResult};

/// The class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// With the gold state the same roles get it right.
    StateLoss,
    /// With the gold instruction the executor gets it right.
    Planning,
    /// Even with the gold instruction the executor misses, with the right type.
    Perception,
    /// Even with the gold instruction the executor chooses another type.
    WrongType,
    /// The executor's own failure, on an application that was not in training.
    Generalisation,
    /// The source has no gold instruction, or a call failed.
    Unclassified,
}

impl Class {
    /// Every class, in the order of the table.
    pub const ALL: [Self; 6] = [
        Self::StateLoss,
        Self::Planning,
        Self::Perception,
        Self::WrongType,
        Self::Generalisation,
        Self::Unclassified,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::StateLoss => "state loss",
            Self::Planning => "planning",
            Self::Perception => "perception",
            Self::WrongType => "wrong type",
            Self::Generalisation => "generalisation",
            Self::Unclassified => "unclassified",
        }
    }
}

/// Classes every wrong step of `results`. Applications outside `trained_apps`, where it is given, were not in
/// training.
///
/// # Errors
/// Those of [`Loop::walk`].
pub fn classify(
    looping: &Loop<'_>,
    setup: &Setup,
    tasks: &[Task],
    results: &mut [StepResult],
    trained_apps: Option<&BTreeSet<String>>,
) -> Result<()> {
    let wrong: Vec<usize> = (0..results.len()).filter(|&i| results[i].right() == Some(false)).collect();
    let place = |i: usize| (&tasks[results[i].task], &tasks[results[i].task].steps[results[i].at]);
    let places: Vec<(&Task, &EvalStep)> = wrong.iter().map(|&i| place(i)).collect();
    let states: Vec<&str> = places.iter().map(|(_, step)| step.state.as_str()).collect();
    let profile = looping.rewarder.profile();
    let planned = setup.coordinator.plan(&places, &states, profile, looping.max_tokens)?;
    let with_state = looping.execute(&places, &planned)?;
    let gold: Vec<Planned> = places
        .iter()
        .map(|(_, step)| Planned { instruction: step.instruction.clone(), ..Planned::default() })
        .collect();
    let with_instruction = looping.execute(&places, &gold)?;
    looping.rewarder.check_failures()?;
    for (n, &i) in wrong.iter().enumerate() {
        let right = |outcome: &tracemill_models::rl::Outcome| {
            outcome.score().map(|s| (s.type_term > 0.0 && s.param > 0.0, s.type_term > 0.0))
        };
        let unseen = trained_apps.is_some_and(|apps| !apps.contains(&results[i].app));
        let no_gold = places[n].1.instruction.is_none();
        results[i].class = Some(match (right(&with_state[n].0), right(&with_instruction[n].0)) {
            (Some((true, _)), _) => Class::StateLoss,
            _ if no_gold => Class::Unclassified,
            (_, Some((true, _))) => Class::Planning,
            (_, Some((false, _))) if unseen => Class::Generalisation,
            (_, Some((false, true))) => Class::Perception,
            (_, Some((false, false))) => Class::WrongType,
            (_, None) => Class::Unclassified,
        });
    }
    Ok(())
}
