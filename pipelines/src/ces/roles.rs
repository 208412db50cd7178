//! Who plays Coordinator and State Tracker: models behind endpoints, rules, the gold, or nobody.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tracemill_data::prompt::Shown;
use tracemill_models::rl::Profile;

use super::rules;
use super::tasks::{EvalStep, Task};
use crate::chat::{BlockingClient, ChatError, ChatSettings, Outcome as Called};
use crate::executor::ask;
use crate::settings::{CesSection, RolesSection};

/// Who plans.
#[derive(Debug)]
pub enum Coordinator {
    /// The executor gets the task itself.
    Nobody,
    /// The executor gets the task and the state.
    TaskAndState,
    /// The gold instruction.
    Gold,
    /// The built-in rules.
    Rules,
    /// A model.
    Model(Arc<BlockingClient>),
}

/// Who remembers.
#[derive(Debug)]
pub enum Tracker {
    /// Nobody: the state stays at the first.
    Nobody,
    /// The gold state.
    Gold,
    /// The instructions so far, told by a template.
    Rules,
    /// The last four actions (CES, section 5.3).
    LastFour,
    /// A model.
    Model(Arc<BlockingClient>),
}

/// A row of the tables: who plays what.
#[derive(Debug)]
pub struct Setup {
    /// Its name.
    pub name: String,
    /// Who plans.
    pub coordinator: Coordinator,
    /// Who remembers.
    pub tracker: Tracker,
}

/// A kind of roles, by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Roles {
    /// The built-in rules.
    Rules,
    /// Models that were not trained for it (`[ces.prompted]`).
    Prompted,
    /// Models that were (`[ces.trained]`).
    Trained,
}

impl Roles {
    fn section(self, settings: &CesSection) -> Option<&RolesSection> {
        match self {
            Self::Rules => None,
            Self::Prompted => Some(&settings.prompted),
            Self::Trained => Some(&settings.trained),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Rules => "rules",
            Self::Prompted => "prompted",
            Self::Trained => "trained",
        }
    }

    fn is_set(self, settings: &CesSection) -> bool {
        self.section(settings).is_none_or(|section| !section.coordinator.endpoints.is_empty())
    }
}

/// The clients of an evaluation, each opened once: two on one ledger would not see each other's new records, and
/// ask the same question twice.
struct Clients<'a> {
    settings: &'a CesSection,
    open: BTreeMap<String, Arc<BlockingClient>>,
}

impl Clients<'_> {
    fn open(&mut self, key: String, chat: &ChatSettings) -> Result<Arc<BlockingClient>> {
        if let Some(client) = self.open.get(&key) {
            return Ok(client.clone());
        }
        let client = Arc::new(BlockingClient::open(chat).with_context(|| key.clone())?);
        self.open.insert(key, client.clone());
        Ok(client)
    }

    fn coordinator(&mut self, roles: Roles) -> Result<Coordinator> {
        let Some(section) = roles.section(self.settings) else { return Ok(Coordinator::Rules) };
        let key = format!("ces.{}.coordinator", roles.name());
        if section.coordinator.endpoints.is_empty() {
            bail!("{key} has no endpoints: set them, or choose other roles");
        }
        Ok(Coordinator::Model(self.open(key, &section.coordinator)?))
    }

    /// A State Tracker without an endpoint of its own is played by the Coordinator's.
    fn tracker(&mut self, roles: Roles) -> Result<Tracker> {
        let Some(section) = roles.section(self.settings) else { return Ok(Tracker::Rules) };
        let own = !section.state_tracker.endpoints.is_empty();
        let (role, chat) = if own {
            ("state_tracker", &section.state_tracker)
        } else {
            ("coordinator", &section.coordinator)
        };
        if chat.endpoints.is_empty() {
            bail!("ces.{}.coordinator has no endpoints: set them, or choose other roles", roles.name());
        }
        Ok(Tracker::Model(self.open(format!("ces.{}.{role}", roles.name()), chat)?))
    }

    fn both(&mut self, roles: Roles) -> Result<(Coordinator, Tracker)> {
        Ok((self.coordinator(roles)?, self.tracker(roles)?))
    }
}

/// The names of all setups.
const SETUPS: &str = "baseline, rules, prompted, trained, no-coordinator, no-state-tracker, gold-state, gold";

/// The setups of `names`; with none, every one that the settings allow. The ablations take their other role
/// from the best roles there are: trained, else prompted, else rules.
///
/// # Errors
/// An unknown name, and roles without endpoints.
pub fn setups(settings: &CesSection, names: &[String]) -> Result<Vec<Setup>> {
    let ranked = [Roles::Trained, Roles::Prompted, Roles::Rules];
    let best = ranked.into_iter().find(|r| r.is_set(settings)).unwrap_or(Roles::Rules);
    let all: Vec<&str> = SETUPS
        .split(", ")
        .filter(|name| match *name {
            "prompted" => Roles::Prompted.is_set(settings),
            "trained" => Roles::Trained.is_set(settings),
            _ => true,
        })
        .collect();
    let names: Vec<&str> = if names.is_empty() { all } else { names.iter().map(String::as_str).collect() };
    let mut clients = Clients { settings, open: BTreeMap::new() };
    let mut seen = std::collections::BTreeSet::new();
    names
        .into_iter()
        .filter(|name| seen.insert(*name))
        .map(|name| {
            let (coordinator, tracker) = match name {
                "baseline" => (Coordinator::Nobody, Tracker::Nobody),
                "rules" => clients.both(Roles::Rules)?,
                "prompted" => clients.both(Roles::Prompted)?,
                "trained" => clients.both(Roles::Trained)?,
                "no-coordinator" => (Coordinator::TaskAndState, clients.tracker(best)?),
                "no-state-tracker" => (clients.coordinator(best)?, Tracker::LastFour),
                "gold-state" => (clients.coordinator(best)?, Tracker::Gold),
                "gold" => (Coordinator::Gold, Tracker::Gold),
                other => bail!("unknown setup `{other}`; known: {SETUPS}"),
            };
            Ok(Setup { name: name.to_owned(), coordinator, tracker })
        })
        .collect()
}

/// What a Coordinator said.
#[derive(Debug, Clone, Default)]
pub struct Planned {
    /// Its whole reply, where it is a model or a rule.
    pub reply: Option<String>,
    /// The instruction in it; `None` where there is none to be read.
    pub instruction: Option<String>,
    /// Why it said nothing.
    pub failed: Option<String>,
}

impl Coordinator {
    /// Plans one step of each of `places`, given the states before them.
    ///
    /// # Errors
    /// What has to stop the evaluation: a ledger that fails, too many failed calls.
    pub fn plan(
        &self,
        places: &[(&Task, &EvalStep)],
        states: &[&str],
        profile: &Profile,
        max_tokens: u32,
    ) -> Result<Vec<Planned>, ChatError> {
        let given = |instruction: String| Planned { instruction: Some(instruction), ..Planned::default() };
        let each = places.iter().zip(states);
        Ok(match self {
            Self::Nobody => places.iter().map(|(task, _)| given(task.instruction.clone())).collect(),
            Self::TaskAndState => each
                .map(|((task, _), state)| given(format!("{}\nProgress so far: {state}", task.instruction)))
                .collect(),
            Self::Gold => places
                .iter()
                .map(|(_, step)| Planned { instruction: step.instruction.clone(), ..Planned::default() })
                .collect(),
            Self::Rules => each
                .map(|((task, step), state)| {
                    read(rules::plan(&task.instruction, state, &step.screen), profile)
                })
                .collect(),
            Self::Model(client) => {
                let mut requests = Vec::with_capacity(places.len());
                for ((task, step), state) in each {
                    let values =
                        BTreeMap::from([("task", task.instruction.clone()), ("state", (*state).to_owned())]);
                    let shown = step.shown();
                    let image = step.image.as_ref().filter(|_| shown == Shown::Picture);
                    requests.push(ask(client, "coordinator", values, shown, image, max_tokens)?);
                }
                let outcomes = client.call_all(&requests, |_, _| {})?;
                outcomes
                    .into_iter()
                    .map(|outcome| match outcome {
                        Called::Reply(reply) => read(reply.text, profile),
                        Called::Failed(error) => {
                            Planned { failed: Some(format!("Coordinator: {error}")), ..Planned::default() }
                        }
                    })
                    .collect()
            }
        })
    }
}

fn read(reply: String, profile: &Profile) -> Planned {
    let content = profile.read(&reply).1.map(|i| i.trim().to_owned()).filter(|i| !i.is_empty());
    Planned { instruction: content, reply: Some(reply), failed: None }
}
