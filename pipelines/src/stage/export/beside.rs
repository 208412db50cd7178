//! What `R/observations` and `R/states` say beside the traces.

use anyhow::Result;
use tracemill_data::trace::{EpisodeRow, StepRow};

use crate::observed::Observed;
use crate::run::Run;
use crate::stage::abstract_::{States, states};
use crate::stage::observe::Shown;

/// What other stages say of the traces' steps.
pub(super) struct Beside {
    /// Screens of `R/observations`, where prompts show those.
    pub observed: Option<Observed>,
    pub contexts: Contexts,
    /// States of `R/states`, where rows are to have those.
    pub states: Option<States>,
}

/// Whose contexts rows have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Contexts {
    /// The source's; where it has none, the steps so far, told by a template.
    Source,
    /// Those of `R/states`.
    States,
    /// The source's, and those of `R/states` for episodes whose source has none.
    SourceOrStates,
}

impl Beside {
    /// Reads what the settings ask for.
    ///
    /// # Errors
    /// Missing observations or states, with the stage that makes them.
    pub fn of(run: &Run, shown: Shown, contexts: Contexts) -> Result<Self> {
        let states = (contexts != Contexts::Source).then(|| states(run)).transpose()?;
        Ok(Self { observed: Observed::read(run, shown)?, contexts, states })
    }

    /// Puts the texts of an episode's steps where the exporter looks for them.
    pub fn attach(&self, episode: &mut EpisodeRow, steps: &mut [StepRow]) {
        if let Some(observed) = &self.observed {
            for step in &mut *steps {
                step.observation = observed.text(step).map(str::to_owned);
            }
        }
        let told = steps.iter().any(|s| s.context.as_deref().is_some_and(|c| !c.trim().is_empty()));
        let Some(states) = self.states.as_ref().filter(|_| !told || self.contexts == Contexts::States) else {
            return;
        };
        // States are numbered by their place in the episode, steps as their source numbers them.
        let at = |place: usize| states.get(&(episode.episode_id.clone(), place as u32)).cloned();
        for (place, step) in steps.iter_mut().enumerate() {
            // The first state is the same everywhere, and says so itself.
            let state = at(place).filter(|_| place > 0);
            (step.context, step.context_from) = state.unzip();
        }
        episode.final_state = at(steps.len());
    }
}
