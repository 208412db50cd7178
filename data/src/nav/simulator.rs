//! An application made from a recorded graph, to carry out calls on: what the executor sees and does, and a
//! simulator that answers from the graph, with failures put in on purpose.
//!
//! The simulator knows what was recorded and no more. It begins at the first screen. A click on a control shows
//! what the graph says it reveals: in a window of its own where the edge opened one, else on top of what the window
//! shows; what was opened later from the same window goes away, as menus do. Where a click was seen to open one
//! window at one time and another at another time, all of them open, one on another: which one comes is not known. A button named OK, Close or Cancel
//! closes its window; a control without anything behind it closes the menu or pop-up it lies in.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::graph::{Flag, Graph, ROOT};
use super::kind::{Kind, Pattern};

/// A control on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// What the application knows it by; good until the next action.
    pub handle: u32,
    /// Its identity.
    pub id: super::ControlId,
    /// Its name.
    pub name: String,
    /// Whether it is enabled.
    pub enabled: bool,
    /// What can be done with it.
    pub patterns: Vec<Pattern>,
}

/// The topmost window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Its title.
    pub title: String,
    /// Whether it is the application's own, which is never closed.
    pub main: bool,
    /// Its controls, in order.
    pub controls: Vec<Shown>,
}

/// An application that can be looked at and acted on.
pub trait Ui {
    /// The topmost window and everything in it. Looking takes time: what loads slowly may be there the next time.
    fn look(&mut self) -> View;
    /// Clicks a control.
    fn click(&mut self, handle: u32);
    /// Puts text into a control.
    fn input(&mut self, handle: u32, text: &str);
    /// Presses a combination of keys.
    ///
    /// # Errors
    /// What went wrong.
    fn press(&mut self, keys: &str) -> Result<(), String>;
    /// Closes the topmost window without a button (Escape).
    fn dismiss(&mut self);
    /// The text of a control.
    fn text(&mut self, handle: u32) -> String;
    /// Scrolls a control to percentages of its way; gives the position reached.
    fn scroll(&mut self, handle: u32, x_percent: f64, y_percent: f64) -> (f64, f64);
    /// Selects text of a control, in bytes; `None` for nothing.
    fn select_text(&mut self, handle: u32, range: Option<(usize, usize)>);
    /// Selects exactly these controls.
    fn select(&mut self, handles: &[u32]);
}

/// A failure put into the simulator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Injection {
    /// The control has another name (and id) on the screen.
    Renamed(u32, String),
    /// The control is disabled.
    Disabled(u32),
    /// The control appears only after it was looked for this many times.
    Slow(u32, u32),
    /// The control does not appear.
    Absent(u32),
    /// Pressing these keys fails.
    KeyFails(String),
}

/// A failure as the command line writes it: `renamed:14=Go To`, `disabled:14`, `slow:14=2`, `absent:14`,
/// `key-fails:ctrl+s`. Numbers are ids of the forest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectionSpec(pub Injection);

impl FromStr for InjectionSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || {
            format!(
                "`{text}`: expected renamed:ID=NAME, disabled:ID, slow:ID=LOOKS, absent:ID or key-fails:KEYS"
            )
        };
        let (kind, rest) = text.split_once(':').ok_or_else(help)?;
        let id = |text: &str| text.trim().parse::<u32>().map_err(|_| help());
        let pair = || rest.split_once('=').ok_or_else(help);
        Ok(Self(match kind {
            "renamed" => Injection::Renamed(id(pair()?.0)?, pair()?.1.to_owned()),
            "disabled" => Injection::Disabled(id(rest)?),
            "slow" => Injection::Slow(id(pair()?.0)?, id(pair()?.1)?),
            "absent" => Injection::Absent(id(rest)?),
            "key-fails" if !rest.is_empty() => Injection::KeyFails(rest.to_owned()),
            _ => return Err(help()),
        }))
    }
}

/// What was opened by one click.
#[derive(Debug, Clone)]
struct Layer {
    controls: Vec<u32>,
}

#[derive(Debug, Clone)]
struct OpenWindow {
    title: String,
    layers: Vec<Layer>,
}

/// One thing that was done, by the control's number in the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// A click.
    Clicked(u32),
    /// Text put in.
    Input(u32, String),
    /// Keys pressed.
    Pressed(String),
    /// The topmost window dismissed.
    Dismissed(String),
    /// Text selected, in bytes.
    SelectedText(u32, Option<(usize, usize)>),
    /// Controls selected.
    Selected(Vec<u32>),
}

/// An application made from a graph. Handles are the controls' numbers.
#[derive(Debug, Clone)]
pub struct Simulator<'a> {
    graph: &'a Graph,
    /// Edges of each control that are ways forward, by number.
    edges: Vec<Vec<usize>>,
    windows: Vec<OpenWindow>,
    renamed: BTreeMap<u32, String>,
    disabled: Vec<u32>,
    absent: Vec<u32>,
    slow: BTreeMap<u32, u32>,
    failing_keys: Vec<String>,
    texts: BTreeMap<u32, String>,
    positions: BTreeMap<u32, (f64, f64)>,
    /// Everything that was done, in order.
    pub done: Vec<Done>,
}

impl<'a> Simulator<'a> {
    /// The application at its first screen; numbers in `injections` are the controls' numbers in the graph.
    pub fn new(graph: &'a Graph, injections: &[Injection]) -> Self {
        let mut edges = vec![Vec::new(); graph.controls.len()];
        for (i, edge) in graph.edges.iter().enumerate() {
            if !edge.flags.contains(&Flag::Back) {
                edges[edge.from as usize].push(i);
            }
        }
        let mut simulator = Self {
            graph,
            edges,
            windows: Vec::new(),
            renamed: BTreeMap::new(),
            disabled: Vec::new(),
            absent: Vec::new(),
            slow: BTreeMap::new(),
            failing_keys: Vec::new(),
            texts: BTreeMap::new(),
            positions: BTreeMap::new(),
            done: Vec::new(),
        };
        for injection in injections {
            match injection {
                Injection::Renamed(at, name) => drop(simulator.renamed.insert(*at, name.clone())),
                Injection::Disabled(at) => simulator.disabled.push(*at),
                Injection::Slow(at, looks) => drop(simulator.slow.insert(*at, *looks)),
                Injection::Absent(at) => simulator.absent.push(*at),
                Injection::KeyFails(keys) => simulator.failing_keys.push(keys.clone()),
            }
        }
        simulator.restart();
        simulator
    }

    /// Goes back to the first screen. What was put in stays.
    pub fn restart(&mut self) {
        self.windows = vec![OpenWindow { title: self.graph.controls[0].name.clone(), layers: Vec::new() }];
        self.reveal(ROOT);
    }

    /// Shows what acting on `control` reveals.
    fn reveal(&mut self, control: u32) {
        let mut here: Vec<u32> = Vec::new();
        let mut windows: Vec<(String, Vec<u32>)> = Vec::new();
        for &e in &self.edges[control as usize] {
            let edge = &self.graph.edges[e];
            let place = match &edge.window_opened {
                None => &mut here,
                Some(title) => {
                    let at = windows.iter().position(|(known, _)| known == title).unwrap_or_else(|| {
                        windows.push((title.clone(), Vec::new()));
                        windows.len() - 1
                    });
                    &mut windows[at].1
                }
            };
            if !place.contains(&edge.to) {
                place.push(edge.to);
            }
        }
        if !here.is_empty() {
            self.top().layers.push(Layer { controls: here });
        }
        for (title, controls) in windows {
            self.windows.push(OpenWindow { title, layers: vec![Layer { controls }] });
        }
    }

    fn top(&mut self) -> &mut OpenWindow {
        self.windows.last_mut().expect("the application's own window stays open")
    }

    fn close(&mut self) {
        if self.windows.len() > 1 {
            self.windows.pop();
        }
    }

    /// Whether `control` closes the window it lies in.
    fn closes(&self, control: u32) -> bool {
        let control = &self.graph.controls[control as usize];
        Kind::of(&control.id.control_type) == Kind::Button
            && closing_rank(&control.name).is_some()
            && self.windows.len() > 1
    }

    fn name(&self, control: u32) -> &str {
        let own = &self.graph.controls[control as usize].name;
        self.renamed.get(&control).unwrap_or(own)
    }
}

/// How soon a button is taken to close a window: OK, then Close, then Cancel (section 4.3).
pub fn closing_rank(name: &str) -> Option<usize> {
    ["ok", "close", "cancel"].iter().position(|known| name.trim().eq_ignore_ascii_case(known))
}

impl Ui for Simulator<'_> {
    fn look(&mut self) -> View {
        let (title, main) = (self.top().title.clone(), self.windows.len() == 1);
        let all: Vec<u32> = self.top().layers.iter().flat_map(|l| &l.controls).copied().collect();
        let mut controls: Vec<Shown> = Vec::with_capacity(all.len());
        let mut seen = std::collections::HashSet::new();
        for at in all {
            if self.absent.contains(&at) || !seen.insert(at) {
                continue;
            }
            if let Some(looks) = self.slow.get_mut(&at).filter(|looks| **looks > 0) {
                *looks -= 1;
                continue;
            }
            let control = &self.graph.controls[at as usize];
            let mut id = control.id.clone();
            if self.renamed.contains_key(&at) {
                self.name(at).clone_into(&mut id.primary);
            }
            controls.push(Shown {
                handle: at,
                id,
                name: self.name(at).to_owned(),
                enabled: control.enabled && !self.disabled.contains(&at),
                patterns: control.patterns.clone(),
            });
        }
        View { title, main, controls }
    }

    fn click(&mut self, handle: u32) {
        self.done.push(Done::Clicked(handle));
        if let Some(layer) = self.top().layers.iter().rposition(|l| l.controls.contains(&handle)) {
            self.top().layers.truncate(layer + 1);
        }
        let kind = Kind::of(&self.graph.controls[handle as usize].id.control_type);
        if !self.edges[handle as usize].is_empty() {
            self.reveal(handle);
        } else if self.closes(handle) || self.windows.len() > 1 && is_popup(&self.top().title) {
            self.close();
        } else if matches!(kind, Kind::MenuItem | Kind::ListItem) {
            self.top().layers.truncate(1);
        }
    }

    fn input(&mut self, handle: u32, text: &str) {
        self.done.push(Done::Input(handle, text.to_owned()));
        self.texts.insert(handle, text.to_owned());
    }

    fn press(&mut self, keys: &str) -> Result<(), String> {
        self.done.push(Done::Pressed(keys.to_owned()));
        if self.failing_keys.iter().any(|failing| failing == keys) {
            return Err("the application did not take it".to_owned());
        }
        Ok(())
    }

    fn dismiss(&mut self) {
        let title = self.top().title.clone();
        self.done.push(Done::Dismissed(title));
        self.close();
    }

    fn text(&mut self, handle: u32) -> String {
        let name = || self.graph.controls[handle as usize].name.clone();
        self.texts.get(&handle).cloned().unwrap_or_else(name)
    }

    fn scroll(&mut self, handle: u32, x_percent: f64, y_percent: f64) -> (f64, f64) {
        self.positions.insert(handle, (x_percent, y_percent));
        (x_percent, y_percent)
    }

    fn select_text(&mut self, handle: u32, range: Option<(usize, usize)>) {
        self.done.push(Done::SelectedText(handle, range));
    }

    fn select(&mut self, handles: &[u32]) {
        self.done.push(Done::Selected(handles.to_vec()));
    }
}

/// Pop-ups have a role and no title: `window:`, or nothing at all.
fn is_popup(title: &str) -> bool {
    title.is_empty() || title.ends_with(':')
}
