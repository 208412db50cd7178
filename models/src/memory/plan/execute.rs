//! Algorithm 1: the Plan-Optimizer makes acts of steps, the Critic looks at the screen, and what is retryable is
//! adjusted on the spot.
//!
//! The Critic checks window focus, component availability and compatibility with the next expected step (appendix B),
//! each only where the screen says enough to tell. Its verdict on a screen is that on the step before, and decides
//! what becomes of the next one. When it says retryable, or an act had no effect, the Plan-Optimizer tries, in this
//! order and each once for a step (twice for scrolling): dismiss the dialog in front; bring the unit's application to
//! the front; click the field before typing; scroll down; a label that hints have for the same step and the screen
//! shows; leave the step out, if the next one fits the screen. With nothing left to try the plan is blocked.

use serde::Serialize;
use tracemill_data::artifact::{AliasMap, Bound, Plan, PlanStep, PlanUnit};
use tracemill_data::trace::Element;
use tracemill_data::views::UnitAction;

use super::compare::same_label;
use super::memory::PlanMemory;
use super::words::padded;

/// What can be told of the screen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// Application or site in front; none where it is not known.
    pub place: Option<String>,
    /// What the screen shows; none where it is not known.
    pub elements: Option<Vec<Element>>,
    /// The field that has the cursor: none where it is not known, empty where no field has it.
    pub focus: Option<String>,
    /// Whether a dialog lies in front.
    pub dialog: bool,
}

/// An act on the screen: a step with its target resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    /// One of Φ's predicates.
    pub verb: String,
    /// Its values by field.
    pub args: Vec<(String, String)>,
}

impl Deed {
    fn new(verb: &str, field: &str, value: &str) -> Self {
        Self { verb: verb.to_owned(), args: vec![(field.to_owned(), value.to_owned())] }
    }

    /// Value of `field`, where it has one.
    pub fn value(&self, field: &str) -> Option<&str> {
        self.args.iter().find(|(f, _)| f == field).map(|(_, v)| v.as_str())
    }

    fn words(&self) -> String {
        let values: Vec<&str> = self.args.iter().map(|(_, v)| v.as_str()).collect();
        format!("{} {}", self.verb, values.join(" · ")).trim().to_owned()
    }
}

/// Something that a plan can be carried out on.
pub trait World {
    /// The screen as it is.
    fn observe(&self) -> Observation;

    /// Does something.
    ///
    /// # Errors
    /// In words, when it has no effect.
    fn act(&mut self, deed: &Deed) -> Result<(), String>;
}

/// What the Critic says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As expected.
    Success,
    /// Not as expected; something is left to try.
    Retryable,
    /// Nothing is left to try.
    Blocked,
}

/// One turn of the loop.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attempt {
    /// Unit of the plan, from 0.
    pub unit: usize,
    /// Step of the unit, from 0.
    pub step: usize,
    /// What was done; empty where the Critic kept it from being done.
    pub did: String,
    /// The Critic's verdict.
    pub verdict: Verdict,
    /// What it saw.
    pub observation: String,
}

/// What became of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Execution {
    /// Success or blocked, as the loop ends.
    pub outcome: Verdict,
    /// Steps of the plan.
    pub planned: usize,
    /// Steps carried out.
    pub executed: usize,
    /// Steps left out since the next one fitted the screen.
    pub skipped: usize,
    /// Acts in all.
    pub acts: usize,
    /// Acts that had an effect and were part of a planned step.
    pub useful: usize,
    /// Every turn, in order.
    pub attempts: Vec<Attempt>,
}

impl Execution {
    /// Executed ÷ planned steps (table 1); 0 for a plan without steps.
    pub fn completion(&self) -> f64 {
        if self.planned == 0 { 0.0 } else { self.executed as f64 / self.planned as f64 }
    }

    /// Useful ÷ all acts (figure 6); none where nothing was done.
    pub fn efficiency(&self) -> Option<f64> {
        (self.acts > 0).then(|| self.useful as f64 / self.acts as f64)
    }
}

/// Limits of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutorSettings {
    /// Adjustments of one step.
    pub retries: usize,
    /// Steps left out in a row.
    pub skips: usize,
}

impl Default for ExecutorSettings {
    fn default() -> Self {
        Self { retries: 5, skips: 2 }
    }
}

/// What was tried for a step.
#[derive(Default)]
struct Tried {
    adjustments: usize,
    dialogs: usize,
    opened: bool,
    focused: bool,
    scrolled: usize,
    alternatives: usize,
}

enum Adjustment {
    /// Do this, then look again.
    Act(Deed),
    /// Do this in place of the step.
    Instead(Deed),
    /// Leave the step out.
    Skip,
}

/// Carries out a plan (algorithm 1).
pub fn execute(
    plan: &Plan,
    world: &mut dyn World,
    memory: Option<&PlanMemory>,
    map: &AliasMap,
    settings: ExecutorSettings,
) -> Execution {
    let mut run = Loop { world, map, settings, skips: 0, result: Execution::empty(plan.steps().count()) };
    for (u, unit) in plan.units.iter().enumerate() {
        let hints = memory.map(|m| hints(m, unit)).unwrap_or_default();
        for (s, step) in unit.steps.iter().enumerate() {
            let next = unit.steps.get(s + 1).or_else(|| plan.units.get(u + 1).and_then(|n| n.steps.first()));
            let alternatives = hints.get(s).map_or(&[][..], Vec::as_slice);
            if !run.step(&Turn { u, s, unit, step, next, alternatives }) {
                run.result.outcome = Verdict::Blocked;
                return run.result;
            }
        }
    }
    if run.result.planned == 0 {
        run.result.outcome = Verdict::Blocked;
    }
    run.result
}

impl Execution {
    fn empty(planned: usize) -> Self {
        let outcome = Verdict::Success;
        Self { outcome, planned, executed: 0, skipped: 0, acts: 0, useful: 0, attempts: Vec::new() }
    }
}

/// INJECTHINT: for each step of a unit, the labels that the traces of its subgroup have at the same place.
fn hints(memory: &PlanMemory, unit: &PlanUnit) -> Vec<Vec<String>> {
    let representatives = unit
        .sg
        .and_then(|sg| memory.index.subgroups.iter().find(|entry| entry.sg == sg))
        .map_or(&[][..], |entry| entry.representatives.as_slice());
    let same_way: Vec<_> = representatives
        .iter()
        .map(|&row| &memory.traces[row])
        .filter(|t| t.steps.iter().map(|s| &s.verb).eq(unit.steps.iter().map(|s| &s.verb)))
        .collect();
    let labels = |(i, step): (usize, &PlanStep)| {
        let mut found: Vec<String> = Vec::new();
        // What the command says is not for the memory to change.
        let from_memory = step.args.iter().any(|a| a.field == "target" && a.bound == Bound::Memory);
        for label in same_way.iter().filter(|_| from_memory).filter_map(|t| t.steps[i].value("target")) {
            if step.value("target") != Some(label) && !found.iter().any(|l| l == label) {
                found.push(label.to_owned());
            }
        }
        found
    };
    unit.steps.iter().enumerate().map(labels).collect()
}

/// A step in its place.
struct Turn<'p> {
    u: usize,
    s: usize,
    unit: &'p PlanUnit,
    step: &'p PlanStep,
    next: Option<&'p PlanStep>,
    alternatives: &'p [String],
}

struct Loop<'w> {
    world: &'w mut dyn World,
    map: &'w AliasMap,
    settings: ExecutorSettings,
    skips: usize,
    result: Execution,
}

impl Loop<'_> {
    /// One step until it is done, left out (true) or blocked (false).
    fn step(&mut self, turn: &Turn) -> bool {
        let mut tried = Tried::default();
        if let Some(open) = turn.step.args.iter().find(|a| a.bound == Bound::Open) {
            let why = format!("`{}` is open: the command does not say it", open.kind);
            if self.leaves_out(turn, &self.world.observe()) {
                self.note(turn, "", Verdict::Retryable, &format!("{why}; left out"));
                return true;
            }
            self.note(turn, "", Verdict::Blocked, &why);
            return false;
        }
        loop {
            let screen = self.world.observe();
            let (verdict, mut observation) = critic(turn.unit, turn.step, &screen);
            if verdict == Verdict::Success {
                match self.carry_out(turn, &screen) {
                    Ok(()) => {
                        self.skips = 0;
                        self.result.executed += 1;
                        return true;
                    }
                    Err(why) => observation = why,
                }
            } else {
                self.note(turn, "", verdict, &observation);
            }
            let screen = self.world.observe();
            match self.adjust(turn, &screen, &mut tried) {
                Some(Adjustment::Act(deed)) => {
                    let done = self.act(turn, &deed);
                    // A recovery that has no effect is only one thing less to try.
                    self.result.useful -= usize::from(done.is_ok());
                }
                Some(Adjustment::Instead(deed)) => {
                    if self.act(turn, &deed).is_ok() {
                        self.skips = 0;
                        self.result.executed += 1;
                        return true;
                    }
                }
                Some(Adjustment::Skip) => {
                    self.note(turn, "", Verdict::Retryable, "left out: the next step fits the screen");
                    return true;
                }
                None => {
                    self.note(turn, "", Verdict::Blocked, &observation);
                    return false;
                }
            }
        }
    }

    /// The step by its default template: text goes into a field that has the cursor.
    fn carry_out(&mut self, turn: &Turn, screen: &Observation) -> Result<(), String> {
        if turn.step.verb == "text_input"
            && let (Some(target), Some(focus)) = (turn.step.value("target"), &screen.focus)
            && !same_label(focus, target)
        {
            self.act(turn, &Deed::new("click", "target", &resolved(target, screen)))?;
        }
        self.act(turn, &deed(turn.step, screen))
    }

    fn act(&mut self, turn: &Turn, deed: &Deed) -> Result<(), String> {
        self.result.acts += 1;
        let done = self.world.act(deed);
        match &done {
            Ok(()) => {
                self.result.useful += 1;
                self.note(turn, &deed.words(), Verdict::Success, "");
            }
            Err(why) => self.note(turn, &deed.words(), Verdict::Retryable, why),
        }
        done
    }

    fn adjust(&mut self, turn: &Turn, screen: &Observation, tried: &mut Tried) -> Option<Adjustment> {
        tried.adjustments += 1;
        if tried.adjustments > self.settings.retries {
            return None;
        }
        if screen.dialog && tried.dialogs == 0 {
            tried.dialogs += 1;
            if let Some(label) = self.dismissal(screen) {
                return Some(Adjustment::Act(Deed::new("click", "target", &label)));
            }
        }
        let env = &turn.unit.env;
        let elsewhere = screen.place.as_ref().is_some_and(|p| !env.is_empty() && !same_label(p, env));
        if elsewhere && !tried.opened && turn.step.verb != "open" {
            tried.opened = true;
            return Some(Adjustment::Act(Deed::new("open", "app", env)));
        }
        if turn.step.verb == "text_input" && !tried.focused {
            tried.focused = true;
            if let Some(target) = turn.step.value("target") {
                return Some(Adjustment::Act(Deed::new("click", "target", &resolved(target, screen))));
            }
        }
        let missing = is_missing(turn.step, screen);
        if missing && tried.scrolled < 2 {
            tried.scrolled += 1;
            return Some(Adjustment::Act(Deed::new("scroll", "direction", "down")));
        }
        let shown = |label: &&String| find(label, screen).is_some();
        if let Some(label) = turn.alternatives.iter().filter(shown).nth(tried.alternatives) {
            tried.alternatives += 1;
            let mut instead = deed(turn.step, screen);
            instead.args.iter_mut().filter(|(f, _)| f == "target").for_each(|(_, v)| v.clone_from(label));
            return Some(Adjustment::Instead(instead));
        }
        self.leaves_out(turn, screen).then_some(Adjustment::Skip)
    }

    /// Whether the step may be left out: the next one fits what the screen shows, and not too many in a row were.
    fn leaves_out(&mut self, turn: &Turn, screen: &Observation) -> bool {
        let fits = turn.next.is_some_and(|next| {
            let settled = next.args.iter().all(|a| a.bound != Bound::Open);
            settled && critic(turn.unit, next, screen).0 == Verdict::Success
        });
        if fits && self.skips < self.settings.skips {
            self.skips += 1;
            self.result.skipped += 1;
            return true;
        }
        false
    }

    /// The label that closes the dialog: one that Φ knows to, else the first button.
    fn dismissal(&self, screen: &Observation) -> Option<String> {
        let elements = screen.elements.as_ref()?;
        let closes = |e: &&Element| {
            let target = Some(e.text.clone());
            self.map.dismisses_popup(&UnitAction {
                verb: "click".to_owned(),
                target,
                ..UnitAction::default()
            })
        };
        let button = |e: &&Element| e.role.to_lowercase().contains("button");
        elements.iter().find(closes).or_else(|| elements.iter().find(button)).map(|e| e.text.clone())
    }

    fn note(&mut self, turn: &Turn, did: &str, verdict: Verdict, observation: &str) {
        let (did, observation) = (did.to_owned(), observation.to_owned());
        self.result.attempts.push(Attempt { unit: turn.u, step: turn.s, did, verdict, observation });
    }
}

/// Whether a screen is what the next expected step needs: the right window in front, its component there, and of a
/// kind that the step can act on. Never blocked: that nothing is left to try, the Plan-Optimizer finds out.
fn critic(unit: &PlanUnit, next: &PlanStep, screen: &Observation) -> (Verdict, String) {
    let retry = |why: String| (Verdict::Retryable, why);
    if screen.dialog {
        return retry("a dialog lies in front".to_owned());
    }
    let leads = matches!(next.verb.as_str(), "open" | "switch_focus" | "back" | "wait");
    if let Some(place) =
        screen.place.as_ref().filter(|p| !leads && !unit.env.is_empty() && !same_label(p, &unit.env))
    {
        let wanted = &unit.env;
        let place = if place.is_empty() { "the home screen" } else { place };
        return retry(format!("window focus: {place} is in front, not {wanted}"));
    }
    if is_missing(next, screen) {
        let target = next.value("target").or(next.value("option")).unwrap_or_default();
        return retry(format!("component: no `{target}` on the screen"));
    }
    if next.verb == "text_input" && next.value("target").is_none() && screen.focus.as_deref() == Some("") {
        return retry("compatibility: no field has the cursor".to_owned());
    }
    (Verdict::Success, String::new())
}

fn is_missing(step: &PlanStep, screen: &Observation) -> bool {
    // The address bar and the like are known by role, not by label.
    let named = step.value("target").filter(|t| !t.contains('_')).or(step.value("option"));
    let pointed = !matches!(step.verb.as_str(), "switch_focus" | "scroll" | "press" | "copy" | "paste");
    screen.elements.is_some() && pointed && named.is_some_and(|label| find(label, screen).is_none())
}

/// The element of a label: its very label, the same words, or the only one that holds them all.
fn find<'s>(label: &str, screen: &'s Observation) -> Option<&'s Element> {
    let elements = screen.elements.as_ref()?;
    let exact = elements.iter().find(|e| e.text.trim().eq_ignore_ascii_case(label.trim()));
    let same = || elements.iter().find(|e| same_label(&e.text, label));
    let words = padded(label);
    let mut holding =
        elements.iter().filter(|e| !words.trim().is_empty() && padded(&e.text).contains(&words));
    // `Contacts icon` is the element `Contacts`.
    let bare = label.strip_suffix(" icon").or_else(|| label.strip_suffix(" button")).unwrap_or(label);
    let named = || elements.iter().find(|e| e.text.trim().eq_ignore_ascii_case(bare.trim()));
    let only = || holding.next().filter(|_| holding.next().is_none());
    exact.or_else(same).or_else(named).or_else(only)
}

fn resolved(label: &str, screen: &Observation) -> String {
    find(label, screen).map_or(label.to_owned(), |e| e.text.clone())
}

/// The step as an act, its labels as the screen writes them.
fn deed(step: &PlanStep, screen: &Observation) -> Deed {
    let arg = |a: &tracemill_data::artifact::PlanArg| {
        let value = a.value.clone()?;
        let label = matches!(a.field.as_str(), "target" | "option") && step.verb != "switch_focus";
        Some((a.field.clone(), if label { resolved(&value, screen) } else { value }))
    };
    Deed { verb: step.verb.clone(), args: step.args.iter().filter_map(arg).collect() }
}
