//! Carrying out a resolved call (paper, sections 3.4 and 4.3): from whatever is open, along the path, with the
//! fuzzy matcher, retries and structured errors.
//!
//! For each target the executor looks at the topmost window and takes the last control of the path that is there;
//! where there is none, it closes the window, OK before Close before Cancel. One thing is stricter than in the
//! paper: a control that several others reveal does different things depending on which of them opened it, so it is
//! taken as a place to start from only when the executor itself came to it along this path.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::command::{Site, VisitError};
use super::graph::Graph;
use super::id::ControlId;
use super::kind::Kind;
use super::kind::Pattern;
use super::matcher::{DEFAULT_THRESHOLD, Match, find};
use super::resolve::{PathStep, Task};
use super::simulator::{Shown, Ui, View, closing_rank};

/// Names of visible controls that an error shows.
const SHOWN_NAMES: usize = 30;

/// How patient the executor is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ExecuteOptions {
    /// Times it looks again for a control that should be there.
    pub retries: u32,
    /// Least score of the fuzzy matcher.
    pub threshold: f64,
    /// Windows it closes on the way to one target.
    pub max_closed: u32,
}

impl Default for ExecuteOptions {
    fn default() -> Self {
        Self { retries: 3, threshold: DEFAULT_THRESHOLD, max_closed: 16 }
    }
}

/// What closing a window may have done beside closing it (reading 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideEffect {
    /// OK: pending edits take effect.
    Commits,
    /// Close: they may.
    MayCommit,
    /// Cancel or Escape: they are lost.
    Discards,
}

/// How a control was found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// By its id.
    Exact,
    /// By the fuzzy matcher, with this score.
    Fuzzy(f64),
}

/// One thing that was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Step {
    /// A click on the way to a target, or on the target.
    Click {
        /// Index of the command.
        command: usize,
        /// Node of the forest.
        id: u32,
        /// Name on the screen.
        name: String,
        /// How it was found.
        found: Found,
        /// Times it was looked for in vain.
        retries: u32,
        /// Whether it is the target.
        target: bool,
    },
    /// Text put into the target.
    Input {
        /// Index of the command.
        command: usize,
        /// Node of the forest.
        id: u32,
        /// The text.
        text: String,
    },
    /// A shortcut.
    Press {
        /// Index of the command.
        command: usize,
        /// The keys.
        keys: String,
    },
    /// A window closed to get on.
    CloseWindow {
        /// Index of the command.
        command: usize,
        /// Title of the window.
        window: String,
        /// Name of the button; nothing where there was none and Escape did it.
        button: Option<String>,
        /// What that may have done.
        side_effect: SideEffect,
    },
}

/// What was done, as far as it came.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// In order.
    pub steps: Vec<Step>,
    /// The error that stopped it.
    pub error: Option<VisitError>,
}

impl Execution {
    /// Clicks that were made, those on closing buttons not counted.
    pub fn clicks(&self) -> usize {
        self.steps.iter().filter(|s| matches!(s, Step::Click { .. })).count()
    }
}

/// Carries out tasks one after the other; stops at the first that fails.
pub struct Executor<'a, U: Ui> {
    graph: &'a Graph,
    ui: &'a mut U,
    options: ExecuteOptions,
    /// Ways in of each control: more than one, and what it does depends on the way.
    in_degree: Vec<u32>,
    known: HashSet<&'a ControlId>,
    /// The controls clicked one after the other to where the application is now.
    trail: Vec<u32>,
}

impl<'a, U: Ui> Executor<'a, U> {
    /// For an application whose controls the graph knows.
    pub fn new(graph: &'a Graph, ui: &'a mut U, options: ExecuteOptions) -> Self {
        let mut in_degree = vec![0; graph.controls.len()];
        graph.children().iter().flatten().for_each(|&to| in_degree[to as usize] += 1);
        let known = graph.controls.iter().map(|control| &control.id).collect();
        Self { graph, ui, options, in_degree, known, trail: Vec::new() }
    }

    /// The application, once it was brought to another state from outside: where it is now is not known.
    pub fn ui(&mut self) -> &mut U {
        self.trail.clear();
        self.ui
    }

    /// Carries out `tasks`.
    pub fn run(&mut self, tasks: &[Task]) -> Execution {
        let mut execution = Execution::default();
        for task in tasks {
            let done = match task {
                Task::Shortcut { command, keys } => self.press(*command, keys, &mut execution.steps),
                Task::Access { command, path, text, .. } => {
                    self.access(*command, path, text.as_deref(), &mut execution.steps)
                }
            };
            if let Err(error) = done {
                execution.error = Some(error);
                break;
            }
        }
        execution
    }

    /// A shortcut, once: a second time could do something else.
    fn press(&mut self, command: usize, keys: &str, steps: &mut Vec<Step>) -> Result<(), VisitError> {
        let keys = keys.to_owned();
        self.ui.press(&keys).map_err(|reason| VisitError::ShortcutFailed {
            command,
            keys: keys.clone(),
            reason,
        })?;
        // What is open now is anyone's guess.
        self.trail.clear();
        steps.push(Step::Press { command, keys });
        Ok(())
    }

    fn access(
        &mut self,
        command: usize,
        path: &[PathStep],
        text: Option<&str>,
        steps: &mut Vec<Step>,
    ) -> Result<(), VisitError> {
        let start = self.start(command, path, steps)?;
        for (i, step) in path.iter().enumerate().skip(start) {
            let target = i + 1 == path.len();
            let (shown, found, retries) = self.wait_for(command, step, steps)?;
            if target && text.is_some() && !shown.patterns.contains(&Pattern::Value) {
                let window = self.ui.look().title;
                return Err(VisitError::NotEditable { command, site: site(step, window).into() });
            }
            self.ui.click(shown.handle);
            self.trail.truncate(i);
            self.trail.push(step.at);
            let name = shown.name;
            steps.push(Step::Click { command, id: step.id, name, found, retries, target });
            if let (true, Some(text)) = (target, text) {
                self.ui.input(shown.handle, text);
                steps.push(Step::Input { command, id: step.id, text: text.to_owned() });
            }
        }
        // The target was activated: menus are gone, and what else changed cannot be known.
        self.trail.pop();
        Ok(())
    }

    /// Place in `path` to start from, once windows that have none of it are closed.
    fn start(
        &mut self,
        command: usize,
        path: &[PathStep],
        steps: &mut Vec<Step>,
    ) -> Result<usize, VisitError> {
        let mut looks = 0;
        for closed in 0.. {
            let view = loop {
                let view = self.ui.look();
                if let Some(start) = self.last_visible(&view, path) {
                    return Ok(start);
                }
                if !view.main || looks >= self.options.retries {
                    break view;
                }
                looks += 1;
            };
            if view.main {
                // The first control is not there: let it say so.
                return Ok(0);
            }
            if closed >= self.options.max_closed {
                let id = path.last().map_or(0, |step| step.id);
                return Err(VisitError::TooManyWindows { command, id, closed });
            }
            steps.push(self.close(command, &view));
        }
        Ok(0)
    }

    /// The last control of `path` that is on the screen and that leads to the target along this path.
    fn last_visible(&self, view: &View, path: &[PathStep]) -> Option<usize> {
        let came = self.trail.iter().zip(path).take_while(|(at, step)| **at == step.at).count();
        (0..path.len()).rev().find(|&i| {
            // What several controls reveal counts only where this path was taken to it.
            (self.in_degree[path[i].at as usize] <= 1 || i <= came)
                && self.locate(view, &path[i]).index().is_some()
        })
    }

    /// A control on the screen: by its id, else the one most like it among those that the graph does not know. One
    /// that it knows under its own id is another control, not this one renamed.
    fn locate(&self, view: &View, step: &PathStep) -> Match {
        let control = &self.graph.controls[step.at as usize];
        if let Some(i) = view.controls.iter().position(|shown| shown.id == control.id) {
            return Match::Exact(i);
        }
        let unknown: Vec<usize> =
            (0..view.controls.len()).filter(|&i| !self.known.contains(&view.controls[i].id)).collect();
        let candidates = unknown.iter().map(|&i| (&view.controls[i].id, view.controls[i].name.as_str()));
        match find(&control.id, &control.name, candidates, self.options.threshold) {
            Match::Exact(i) => Match::Exact(unknown[i]),
            Match::Fuzzy(i, score) => Match::Fuzzy(unknown[i], score),
            other => other,
        }
    }

    /// Looks for a control until it is there, at most [`ExecuteOptions::retries`] times more. A window on top that
    /// is not the one the control was recorded in (the click before may open one or the other) is closed.
    fn wait_for(
        &mut self,
        command: usize,
        step: &PathStep,
        steps: &mut Vec<Step>,
    ) -> Result<(Shown, Found, u32), VisitError> {
        let (mut retries, mut closed) = (0, 0);
        loop {
            let mut view = self.ui.look();
            let window = view.title.clone();
            let (at, found) = match self.locate(&view, step) {
                Match::Exact(at) => (at, Found::Exact),
                Match::Fuzzy(at, score) => (at, Found::Fuzzy(score)),
                Match::Ambiguous(matches) => {
                    return Err(VisitError::AmbiguousControl {
                        command,
                        site: site(step, window).into(),
                        matches,
                    });
                }
                Match::None if retries < self.options.retries => {
                    retries += 1;
                    continue;
                }
                Match::None if self.is_elsewhere(&view, step) && closed < self.options.max_closed => {
                    let trail = self.trail.clone();
                    steps.push(self.close(command, &view));
                    self.trail = trail;
                    (retries, closed) = (0, closed + 1);
                    continue;
                }
                Match::None => {
                    let visible =
                        view.controls.into_iter().map(|shown| shown.name).take(SHOWN_NAMES).collect();
                    let site = site(step, window).into();
                    return Err(VisitError::Absent { command, site, looks: retries + 1, visible });
                }
            };
            if view.controls[at].enabled {
                return Ok((view.controls.swap_remove(at), found, retries));
            }
            return Err(VisitError::Disabled { command, site: site(step, window).into() });
        }
    }

    /// Whether the window on top is another one than the control was recorded in.
    fn is_elsewhere(&self, view: &View, step: &PathStep) -> bool {
        let recorded = self.graph.controls[step.at as usize].window.as_ref();
        !view.main && recorded.is_some_and(|title| *title != view.title)
    }

    /// Closes the topmost window: OK, else Close, else Cancel, else Escape.
    fn close(&mut self, command: usize, view: &View) -> Step {
        let buttons = view
            .controls
            .iter()
            .filter(|shown| shown.enabled && Kind::of(&shown.id.control_type) == Kind::Button);
        let best = buttons
            .filter_map(|shown| Some((closing_rank(&shown.name)?, shown)))
            .min_by_key(|(rank, _)| *rank);
        self.trail.clear();
        let (button, side_effect) = if let Some((rank, shown)) = best {
            self.ui.click(shown.handle);
            let effects = [SideEffect::Commits, SideEffect::MayCommit, SideEffect::Discards];
            (Some(shown.name.clone()), effects[rank])
        } else {
            self.ui.dismiss();
            (None, SideEffect::Discards)
        };
        Step::CloseWindow { command, window: view.title.clone(), button, side_effect }
    }
}

fn site(step: &PathStep, window: String) -> Site {
    Site {
        id: step.id,
        control: step.control.clone(),
        name: step.name.clone(),
        control_type: step.control_type.clone(),
        window,
    }
}
