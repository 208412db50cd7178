//! Lessons by rule (pattern induction, `HiSA`, section 3.3.3 and appendix A.6): repeated failed attempts and what
//! worked instead, ways that were gone back, and sequences that worked more than once.
//!
//! Precision before recall: a rule looks only at changes of the screen that were seen, a failure needs an alternative
//! that worked, and a lesson whose two sides read alike when their literal values are gone says nothing and is left
//! out. How an episode ended is not looked at.

use std::collections::BTreeMap;

use tracemill_data::action::{BBox, Verb};
use tracemill_data::artifact::{Lesson, LessonKind, StateStep, StepOutcome};
use tracemill_data::prompt::noun;
use tracemill_data::trace::{Element, EpisodeRow, StepRow};

/// Name and version of the rules, for artifacts that depend on them.
pub const INDUCER: &str = "lesson-rules@1";

/// Points nearer than this are one place, in pixels.
const SAME_PLACE_PX: f64 = 24.0;
/// Longest sequence that is looked for.
const SEQUENCE: usize = 4;
/// What stands for something that no source names.
const NAMELESS: &str = "an element";
/// Roles whose names belong to the application rather than to the user's data.
const CONTROLS: [&str; 13] = [
    "button",
    "tab",
    "menu",
    "menuitem",
    "menu-item",
    "checkbox",
    "check-box",
    "switch",
    "toggle",
    "radio",
    "icon",
    "combobox",
    "field",
];
/// Keys that take the last change back.
const UNDO: [&str; 4] = ["ctrl+z", "cmd+z", "command+z", "escape"];

/// An episode with what became of its steps.
#[derive(Debug, Clone, Copy)]
pub struct Trajectory<'a> {
    /// The episode.
    pub episode: &'a EpisodeRow,
    /// Its steps.
    pub steps: &'a [StepRow],
    /// Their abstracted steps, one for each.
    pub states: &'a [StateStep],
}

/// A lesson before it has its id.
struct Found {
    kind: LessonKind,
    condition: String,
    actions: Vec<String>,
    expected: String,
    text: String,
    evidence: Vec<usize>,
    rule: &'static str,
}

/// The lessons of an episode, at most `most`: failures first, then what worked.
pub fn induce(trajectory: Trajectory<'_>, most: usize) -> Vec<Lesson> {
    // Without a task nothing was attempted: an exploration tries everything, and goes back from all of it.
    if trajectory.episode.instruction.trim().is_empty() {
        return Vec::new();
    }
    let rules =
        [Trajectory::repeats, Trajectory::other_gestures, Trajectory::ways_back, Trajectory::sequences];
    let mut found: Vec<Found> = Vec::new();
    for one in rules.iter().flat_map(|rule| rule(&trajectory)) {
        if found.iter().all(|f| f.text != one.text) {
            found.push(one);
        }
    }
    found.truncate(most);
    let id = &trajectory.episode.episode_id;
    let lesson = |(number, f): (usize, Found)| Lesson {
        lesson_id: format!("{id}!{number}"),
        kind: f.kind,
        domain: trajectory.domain(),
        condition: f.condition,
        actions: f.actions,
        expected: f.expected,
        text: f.text,
        episode_id: id.clone(),
        evidence_steps: f.evidence.iter().map(|&i| trajectory.steps[i].step).collect(),
        made_by: format!("{INDUCER}:{}", f.rule),
    };
    (1..).zip(found).map(lesson).collect()
}

/// Where lessons of an episode belong: its application, else its domain, else the source's format.
pub fn domain_of(episode: &EpisodeRow) -> String {
    let domain = episode.domain.as_deref().unwrap_or_default();
    let named =
        [episode.app.as_str(), domain, &episode.format].into_iter().find(|name| !name.trim().is_empty());
    named.unwrap_or_default().to_owned()
}

/// Values of the task that a lesson must not hold: what was typed, chosen or opened, and what the task quotes.
pub fn literals(episode: &EpisodeRow, steps: &[StepRow]) -> Vec<String> {
    let entered = steps
        .iter()
        .filter(|s| matches!(s.verb(), Ok(Verb::Type | Verb::Select | Verb::Navigate | Verb::Paste)));
    let mut values: Vec<String> = entered.filter_map(|s| s.text.clone()).collect();
    let quotes = |c| matches!(c, '"' | '“' | '”' | '\'' | '‘' | '’' | '`');
    values.extend(episode.instruction.split(quotes).skip(1).step_by(2).map(str::to_owned));
    let with_digits = |word: &&str| word.chars().any(|c| c.is_ascii_digit());
    values.extend(episode.instruction.split_whitespace().filter(with_digits).map(str::to_owned));
    let mut values: Vec<String> =
        values.iter().map(|v| v.trim().to_lowercase()).filter(|v| v.chars().count() > 2).collect();
    values.sort_unstable();
    values.dedup();
    values
}

impl Trajectory<'_> {
    fn domain(&self) -> String {
        domain_of(self.episode)
    }

    fn outcome(&self, i: usize) -> StepOutcome {
        self.states[i].outcome
    }

    /// A step that was seen to change nothing.
    fn had_no_effect(&self, i: usize) -> bool {
        self.outcome(i) == StepOutcome::Failure && self.states[i].change == "none"
    }

    fn worked(&self, i: usize) -> bool {
        self.outcome(i) == StepOutcome::Success
    }

    /// The next step after `i` that does something.
    fn next(&self, i: usize) -> Option<usize> {
        (i + 1..self.steps.len()).find(|&k| self.steps[k].verb() != Ok(Verb::Wait))
    }

    /// The same attempt made twice or more without effect, and another one, on the same screen, that worked.
    fn repeats(&self) -> Vec<Found> {
        let (mut found, mut i) = (Vec::new(), 0);
        while i < self.steps.len() {
            let first = i;
            i += 1;
            if !self.had_no_effect(first) {
                continue;
            }
            let mut attempts = vec![first];
            let mut next = self.next(first);
            while let Some(k) =
                next.filter(|&k| self.had_no_effect(k) && is_same(&self.steps[first], &self.steps[k]))
            {
                attempts.push(k);
                next = self.next(k);
            }
            i = attempts[attempts.len() - 1] + 1;
            let Some(k) = next.filter(|&k| attempts.len() > 1 && self.worked(k)) else { continue };
            if !is_same(&self.steps[first], &self.steps[k]) {
                found.extend(self.repeat(attempts, k));
            }
        }
        found
    }

    fn repeat(&self, attempts: Vec<usize>, alternative: usize) -> Option<Found> {
        let (tried, worked) = (self.method(attempts[0]), self.method(alternative));
        if tried == worked {
            return None;
        }
        let (place, times) = (self.place(), attempts.len());
        Some(Found {
            kind: LessonKind::Failure,
            condition: format!("{tried} does not change the screen"),
            actions: vec![tried.clone(), worked.clone()],
            expected: format!("{worked} changes the screen, {tried} does not"),
            text: format!(
                "{place}DON'T keep {tried} when the screen does not change: tried {times} times in a row without effect. {} worked instead.",
                capital(&worked)
            ),
            evidence: attempts.into_iter().chain([alternative]).collect(),
            rule: "repeat",
        })
    }

    /// One gesture had no effect on a place where another one had.
    fn other_gestures(&self) -> Vec<Found> {
        let pairs = (0..self.steps.len()).filter(|&i| self.had_no_effect(i)).filter_map(|i| {
            let k = self.next(i).filter(|&k| self.worked(k))?;
            let (tried, other) = (&self.steps[i], &self.steps[k]);
            (is_same_place(tried, other)
                && tried.action != other.action
                && is_gesture(tried)
                && is_gesture(other))
            .then_some((i, k))
        });
        pairs
            .map(|(i, k)| {
                let (tried, worked) = (self.method(i), self.method(k));
                Found {
                    kind: LessonKind::Success,
                    condition: format!("{tried} has no effect"),
                    actions: vec![worked.clone()],
                    expected: "the screen changes".to_owned(),
                    text: format!("{}{} worked where {tried} had no effect.", self.place(), capital(&worked)),
                    evidence: vec![i, k],
                    rule: "other-gesture",
                }
            })
            .collect()
    }

    /// A step that led elsewhere and was taken back to the very screen it began on, from which another one went on.
    fn ways_back(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for i in 0..self.steps.len() {
            let Some(back) = self.next(i).filter(|&k| k == i + 1 && is_way_back(&self.steps[k])) else {
                continue;
            };
            let Some(k) = self.next(back) else { continue };
            let screen = |i: usize| self.states[i].screen_hash.as_deref();
            let returned = screen(i).is_some() && screen(i) == screen(k) && screen(i) != screen(back);
            let undone = |i: usize| self.next(i).is_some_and(|k| is_way_back(&self.steps[k]));
            let (tried, worked) = (self.method(i), self.method(k));
            let apart = !is_same(&self.steps[i], &self.steps[k]) && tried != worked;
            if !returned || !apart || !self.worked(i) || !self.worked(k) || undone(k) {
                continue;
            }
            found.push(Found {
                kind: LessonKind::Failure,
                condition: "the screen offers several ways to go on".to_owned(),
                actions: vec![tried.clone(), worked.clone()],
                expected: format!("{tried} has to be taken back, {worked} goes on"),
                text: format!(
                    "{}{} led away from the task and was taken back; {worked} on the same screen went on.",
                    self.place(),
                    capital(&tried)
                ),
                evidence: vec![i, back, k],
                rule: "way-back",
            });
        }
        found
    }

    /// A sequence of different actions that worked twice or more with other values or in other places.
    fn sequences(&self) -> Vec<Found> {
        let methods: Vec<Option<String>> =
            (0..self.steps.len()).map(|i| self.worked(i).then(|| self.method(i))).collect();
        for length in (2..=SEQUENCE).rev() {
            let mut places: BTreeMap<&[Option<String>], Vec<usize>> = BTreeMap::new();
            for (at, window) in methods.windows(length).enumerate() {
                let starts = places.entry(window).or_default();
                // Runs of one sequence do not overlap.
                if starts.last().is_none_or(|&last| last + length <= at) {
                    starts.push(at);
                }
            }
            let best = places
                .into_iter()
                .filter(|(window, starts)| starts.len() > 1 && self.is_method(window, starts))
                .max_by_key(|(_, starts)| (starts.len(), std::cmp::Reverse(starts[0])));
            if let Some((window, starts)) = best {
                return vec![self.sequence(window, &starts)];
            }
        }
        Vec::new()
    }

    /// Whether a repeated sequence is a method: all of it seen to work, of several kinds of actions with something
    /// entered, and not the very same steps again.
    fn is_method(&self, window: &[Option<String>], starts: &[usize]) -> bool {
        let verbs: std::collections::BTreeSet<&str> =
            (starts[0]..starts[0] + window.len()).map(|i| self.steps[i].action.as_str()).collect();
        let enters = verbs.iter().any(|v| ["type", "select", "paste"].contains(v));
        let again =
            (0..window.len()).all(|i| is_same(&self.steps[starts[0] + i], &self.steps[starts[1] + i]));
        // "Tapping an element, then typing" is true of everything.
        let told = window.iter().all(|method| method.as_ref().is_some_and(|m| !m.contains(NAMELESS)));
        told && verbs.len() > 1 && enters && !again
    }

    fn sequence(&self, window: &[Option<String>], starts: &[usize]) -> Found {
        let actions: Vec<String> = window.iter().flatten().cloned().collect();
        Found {
            kind: LessonKind::Success,
            condition: "several values have to be entered one after the other".to_owned(),
            expected: "each step changes the screen where it acts".to_owned(),
            text: format!(
                "{}{} worked {} times.",
                self.place(),
                capital(&actions.join(", then ")),
                starts.len()
            ),
            evidence: starts.iter().flat_map(|&at| at..at + window.len()).collect(),
            rule: "sequence",
            actions,
        }
    }

    fn place(&self) -> String {
        format!("In {}: ", self.domain())
    }

    /// What a step does, without its values: `tapping the "Timer" tab`, `typing a text into a field`.
    fn method(&self, i: usize) -> String {
        let step = &self.steps[i];
        let verb = step.verb().unwrap_or(Verb::Wait);
        let thing = || self.thing(step);
        let click = if self.episode.platform == "mobile" { "tapping" } else { "clicking" };
        match verb {
            Verb::Click => format!("{click} {}", thing()),
            Verb::DoubleClick => format!("double-clicking {}", thing()),
            Verb::RightClick => format!("right-clicking {}", thing()),
            Verb::LongPress => format!("long-pressing {}", thing()),
            Verb::Drag => format!("dragging {}", thing()),
            Verb::Hover => format!("hovering over {}", thing()),
            Verb::Scroll => {
                format!("scrolling {}", step.direction.as_deref().unwrap_or_default()).trim_end().to_owned()
            }
            Verb::Type => "typing the text".to_owned(),
            Verb::Press => format!("pressing {}", step.text.as_deref().unwrap_or("a key")),
            Verb::Home => "going to the home screen".to_owned(),
            Verb::Back => "going back".to_owned(),
            Verb::Recents => "opening the list of recent applications".to_owned(),
            Verb::OpenApp => "opening the application".to_owned(),
            Verb::SwitchWindow => "switching the window".to_owned(),
            Verb::Navigate => "opening the address directly".to_owned(),
            Verb::Select => format!("selecting the option in {}", thing()),
            Verb::Copy => "copying".to_owned(),
            Verb::Paste => "pasting".to_owned(),
            Verb::Wait => "waiting".to_owned(),
            Verb::Complete | Verb::Impossible => "ending the task".to_owned(),
        }
    }

    /// What a step acts on: the name only of a control of the application that the task does not name itself.
    fn thing(&self, step: &StepRow) -> String {
        let named = step.target_element.as_ref().and_then(|id| step.elements.iter().find(|e| e.id == *id));
        let element = named.or_else(|| at_point(step));
        let role = step.target_role.as_deref().or(element.map(|e| e.role.as_str())).unwrap_or_default();
        let role = noun(role).to_lowercase();
        let name =
            step.target_name.as_deref().or(element.map(|e| e.text.as_str())).unwrap_or_default().trim();
        let is_control = CONTROLS.iter().any(|c| role.ends_with(c));
        let plain = name.chars().all(|c| c.is_alphabetic() || c == ' ' || c == '-');
        let short = (1..=4).contains(&name.split_whitespace().count()) && name.chars().count() <= 30;
        let lower = name.to_lowercase();
        let told = self.episode.instruction.to_lowercase().contains(&lower)
            || literals(self.episode, self.steps)
                .iter()
                .any(|l| l.contains(&lower) || lower.contains(l.as_str()));
        match role.as_str() {
            role if is_control && plain && short && !told => format!("the \"{name}\" {role}"),
            "" => NAMELESS.to_owned(),
            role if role.starts_with(['a', 'e', 'i', 'o', 'u']) => format!("an {role}"),
            role => format!("a {role}"),
        }
    }
}

/// The smallest element at the place of an action, where the source names none.
fn at_point(step: &StepRow) -> Option<&Element> {
    let point = step.point?;
    let area = |b: &BBox| (b.right - b.left) * (b.bottom - b.top);
    let there = step.elements.iter().filter_map(|e| Some((e, e.bbox.filter(|b| b.frame == point.frame)?)));
    let holding = there.filter(|(_, b)| b.contains(point.x, point.y));
    holding.min_by(|(_, a), (_, b)| area(a).total_cmp(&area(b))).map(|(e, _)| e)
}

fn is_gesture(step: &StepRow) -> bool {
    use Verb::{Click, DoubleClick, Drag, Hover, LongPress, RightClick};
    matches!(step.verb(), Ok(Click | DoubleClick | RightClick | LongPress | Drag | Hover))
}

fn is_way_back(step: &StepRow) -> bool {
    match step.verb() {
        Ok(Verb::Back) => true,
        Ok(Verb::Press) => UNDO.contains(&step.text.as_deref().unwrap_or_default().to_lowercase().as_str()),
        _ => false,
    }
}

/// Whether two steps act on the same place; steps that act on none do not.
fn is_same_place(a: &StepRow, b: &StepRow) -> bool {
    if let (Some(a), Some(b)) = (&a.target_element, &b.target_element) {
        return a == b;
    }
    match (a.truth().point, b.truth().point) {
        (Some([ax, ay]), Some([bx, by])) => (ax - bx).hypot(ay - by) <= SAME_PLACE_PX,
        _ => a.target_name.is_some() && a.target_name == b.target_name,
    }
}

/// Whether two steps are the same attempt: the same verb with the same values in the same place.
fn is_same(a: &StepRow, b: &StepRow) -> bool {
    let placeless = |s: &StepRow| s.target_element.is_none() && s.point.is_none() && s.target_name.is_none();
    (&a.action, &a.text, &a.direction) == (&b.action, &b.text, &b.direction)
        && (is_same_place(a, b) || (placeless(a) && placeless(b)))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
#[path = "lesson_tests.rs"]
mod tests;
