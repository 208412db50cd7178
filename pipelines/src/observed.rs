//! Screens as `R/observations` has them, in place of a step's own: for evaluations of what a shorter screen costs.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tracemill_data::prompt::screen_text;
use tracemill_data::trace::{Element, StepRow};

use crate::run::Run;
use crate::stage::observe::{Observation, Said, Shown, observations};
use crate::tokens::Counter;

/// The observed screens of a run.
pub struct Observed {
    shown: Shown,
    rows: BTreeMap<(String, u32), Row>,
    /// Counts what is not in `R/observations`: elements one by one.
    counter: Option<Counter>,
}

#[derive(Debug)]
struct Row {
    text: String,
    tokens: u32,
    said: Vec<Said>,
}

/// What showing screens so comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// What is shown of a screen.
    pub shown: Option<Shown>,
    /// Screens shown.
    pub screens: u64,
    /// Tokens of their texts.
    pub tokens: u64,
    /// Steps whose true element is known.
    pub targets: u64,
    /// Those whose true element, or one that it was merged into, is shown.
    pub targets_shown: u64,
}

impl Cost {
    fn target(&mut self, step: &StepRow) {
        if let Some(target) = &step.target_element {
            self.targets += 1;
            self.targets_shown += u64::from(step.elements.iter().any(|e| e.id == *target));
        }
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { shown: _, screens, tokens, targets, targets_shown } = self;
        let mean = *tokens as f64 / (*screens).max(1) as f64;
        write!(f, "Screens as text: {mean:.1} tokens on average over {screens} screens; ")?;
        write!(f, "the true element is among what is shown in {targets_shown} of {targets} steps.")
    }
}

impl Observed {
    /// Reads the screens as `shown` has them; none where a step's own are shown.
    ///
    /// # Errors
    /// Missing observations, with the stage that makes them.
    pub fn read(run: &Run, shown: Shown) -> Result<Option<Self>> {
        if matches!(shown, Shown::Screenshot | Shown::Elements) {
            return Ok(None);
        }
        let mut rows = BTreeMap::new();
        observations(run, |row: Observation| {
            let Observation {
                episode_id,
                step,
                compressed,
                linear,
                compressed_tokens,
                linear_tokens,
                said,
                ..
            } = row;
            let row = match shown {
                Shown::Linear => Row { text: linear, tokens: linear_tokens, said: Vec::new() },
                _ => Row { text: compressed, tokens: compressed_tokens, said },
            };
            rows.insert((episode_id, step), row);
        })?;
        Ok(Some(Self { shown, rows, counter: None }))
    }

    /// What an evaluation is asked to show; `pictures` says whether there are screenshots and roles that look, `tokens` by
    /// which vocabulary elements are counted.
    ///
    /// # Errors
    /// Screenshots without pictures, and those of [`Self::read`].
    pub fn asked(run: &Run, shown: Shown, pictures: bool, tokens: &str) -> Result<Option<Self>> {
        if shown == Shown::Screenshot && !pictures {
            bail!(
                "--observation screenshot needs --images DIR and an executor that looks (reward.executor = \"endpoint\")"
            );
        }
        if shown == Shown::Elements {
            let counter = Some(Counter::named(tokens).context("observe.tokens")?);
            return Ok(Some(Self { shown, rows: BTreeMap::new(), counter }));
        }
        Self::read(run, shown)
    }

    /// The text of a step's screen; none for a step without elements.
    pub fn text(&self, step: &StepRow) -> Option<&str> {
        Some(&self.rows.get(&(step.episode_id.clone(), step.step))?.text)
    }

    /// The step as it is shown: its text, and of its elements those that the text says, in the text's words. The true
    /// element is the one that it was merged into. Steps without elements stay as they are.
    ///
    /// # Errors
    /// A step with elements that has no observation.
    pub fn shown(&self, step: &StepRow, cost: &mut Cost) -> Result<StepRow> {
        let mut step = step.clone();
        if step.elements.is_empty() {
            return Ok(step);
        }
        cost.shown = Some(self.shown);
        cost.screens += 1;
        if let Some(counter) = &self.counter {
            cost.tokens += counter.count(&screen_text(&step.elements)) as u64;
            cost.target(&step);
            return Ok(step);
        }
        let Some(row) = self.rows.get(&(step.episode_id.clone(), step.step)) else {
            bail!("{}#{} has no observation: run `tracemill observe` again", step.episode_id, step.step);
        };
        cost.tokens += u64::from(row.tokens);
        if self.shown == Shown::Compressed {
            let whole: BTreeMap<String, Element> =
                std::mem::take(&mut step.elements).into_iter().map(|e| (e.id.clone(), e)).collect();
            let owner = |id: &String| row.said.iter().find(|said| said.id == *id || said.merged.contains(id));
            step.target_element = step.target_element.map(|id| owner(&id).map_or(id, |said| said.id.clone()));
            step.elements = { row.said.iter() }
                .map(|said| {
                    let whole = whole
                        .get(&said.id)
                        .context("an observation of other traces: run `tracemill observe` again")?;
                    Ok(Element { role: said.role.clone(), text: said.text.clone(), ..whole.clone() })
                })
                .collect::<Result<_>>()?;
        }
        cost.target(&step);
        step.observation = Some(row.text.clone());
        Ok(step)
    }
}
