//! Recorded episodes as something that plans can be carried out on: an act has an effect when it is what was recorded
//! next. Whatever else might have worked, a recording cannot tell.

use tracemill_data::artifact::{Bound, Origin};
use tracemill_data::artifact::{PlanArg, PlanStep, TraceStep};
use tracemill_data::trace::Element;

use super::compare::{equal_steps, same_label};
use super::execute::{Deed, Observation, World};

/// A recorded step with the screen it acted on.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedStep {
    /// What was done, after Φ.
    pub step: TraceStep,
    /// What the screen showed; empty where the source does not say.
    pub elements: Vec<Element>,
    /// Application or site in front, where the source says.
    pub place: Option<String>,
}

/// An episode, replayed. Incidental steps are not part of it: pop-ups and waits pass by themselves.
#[derive(Debug, Clone)]
pub struct Replay {
    steps: Vec<RecordedStep>,
    at: usize,
}

impl Replay {
    /// Begins an episode.
    pub fn new(steps: Vec<RecordedStep>) -> Self {
        Self { steps, at: 0 }
    }

    /// Recorded steps that were carried out, and recorded steps in all.
    pub fn progress(&self) -> (usize, usize) {
        (self.at, self.steps.len())
    }

    /// Whether every recorded step was carried out.
    pub fn is_done(&self) -> bool {
        self.at == self.steps.len()
    }
}

impl World for Replay {
    fn observe(&self) -> Observation {
        let Some(now) = self.steps.get(self.at).or(self.steps.last()) else { return Observation::default() };
        let mut elements = now.elements.clone();
        if !elements.is_empty()
            && let Some(target) = now.step.value("target")
            && !elements.iter().any(|e| same_label(&e.text, target))
        {
            // What was acted on was there, however the source writes it.
            elements.push(Element { id: "target".to_owned(), text: target.to_owned(), ..Element::default() });
        }
        Observation {
            // A step that opens something is not yet where it leads.
            place: now.place.clone().filter(|_| !matches!(now.step.verb.as_str(), "open" | "switch_focus")),
            elements: (!elements.is_empty()).then_some(elements),
            focus: None,
            dialog: false,
        }
    }

    fn act(&mut self, deed: &Deed) -> Result<(), String> {
        let Some(now) = self.steps.get(self.at) else { return Err("the recording is over".to_owned()) };
        if equal_steps(&as_step(deed), &now.step) {
            self.at += 1;
            return Ok(());
        }
        let target = deed.value("target");
        // The cursor goes into a field that is typed into next: recordings differ in whether they say so.
        if deed.verb == "click"
            && now.step.verb == "text_input"
            && target.is_some()
            && target == now.step.value("target")
        {
            return Ok(());
        }
        let in_front = |app: &str| now.place.as_deref().is_some_and(|place| same_label(place, app));
        if deed.verb == "open" && deed.value("app").is_some_and(in_front) && now.step.verb != "open" {
            return Ok(());
        }
        Err("not what was recorded here".to_owned())
    }
}

fn as_step(deed: &Deed) -> PlanStep {
    let arg = |(field, value): &(String, String)| PlanArg {
        field: field.clone(),
        kind: String::new(),
        value: Some(value.clone()),
        bound: Bound::Memory,
    };
    let args = deed.args.iter().map(arg).collect();
    PlanStep { verb: deed.verb.clone(), args, from: Origin::Unit, id: String::new() }
}
