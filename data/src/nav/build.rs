//! Building a navigation graph: sightings of controls and of what reveals them, merged.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::assumed::Assumed;
use super::graph::{
    APPLICATION_TYPE, Clicks, Control, EVIDENCE_KEPT, Edge, Evidence, Flag, Graph, Place, ROOT, ScreenGroup,
    Window,
};
use super::id::ControlId;
use super::kind::{Kind, Pattern};
use super::matcher::{ControlList, DEFAULT_BLACKLIST};
use crate::trace::RejectKind;

/// How a graph is built.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// Controls that are not followed; what they reveal is left out and counted.
    pub blacklist: ControlList,
    /// Share of controls that two screens of traces must have in common to count as one (Jaccard).
    pub screen_similarity: f64,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self { blacklist: ControlList::parse(DEFAULT_BLACKLIST).unwrap_or_default(), screen_similarity: 0.7 }
    }
}

/// A record that was refused; one line of `rejects.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Where it stands.
    #[serde(flatten)]
    pub place: Place,
    /// Class of the reason, for counting.
    pub kind: RejectKind,
    /// The reason and the remedy, for a person.
    pub reason: String,
}

/// A control as one record shows it.
#[derive(Debug, Clone, Default)]
pub struct Sighting {
    /// Its identity.
    pub id: ControlId,
    /// Its name; empty where it has none.
    pub name: String,
    /// Its description.
    pub description: String,
    /// What can be done with it.
    pub patterns: BTreeSet<Pattern>,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Whether it is selected.
    pub selected: bool,
    /// Top-level window it lies in.
    pub window: Option<String>,
    /// The record says no more than the id.
    pub id_only: bool,
}

/// What revealed a control, and where that was seen.
#[derive(Debug, Clone, Default)]
pub struct Reveal<'a> {
    /// The action.
    pub action: &'a str,
    /// Title of the window that the action opened and the control lies in.
    pub window: Option<&'a str>,
    /// What the edge is to be taken with.
    pub flags: &'a [Flag],
    /// State before.
    pub before: Option<&'a str>,
    /// State after.
    pub after: Option<&'a str>,
}

/// What a build came to.
#[derive(Debug, Clone, Default)]
pub struct Built {
    /// The graph.
    pub graph: Graph,
    /// Records that were refused, in the order of reading.
    pub rejects: Vec<Rejected>,
    /// The sequences of controls that the recordings went through, in the order of reading.
    pub clicks: Vec<Clicks>,
}

/// Puts a navigation graph together. What is read first is discovered first.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    pub(super) options: BuildOptions,
    apps: Vec<String>,
    app_of: Vec<u32>,
    pub(super) controls: Vec<Control>,
    known: HashMap<(u32, ControlId), u32>,
    pub(super) edges: Vec<Edge>,
    edge_at: HashMap<(u32, u32, String), usize>,
    pub(super) assumed: Assumed,
    windows: BTreeMap<String, (Window, BTreeSet<u32>)>,
    skipped: BTreeMap<(String, String), String>,
    pub(super) screens: Vec<ScreenGroup>,
    pub(super) clicks: Vec<Clicks>,
    rejects: Vec<Rejected>,
    counts: BTreeMap<String, u64>,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new(options: BuildOptions) -> Self {
        Self { options, controls: vec![Control::root("")], app_of: vec![u32::MAX], ..Self::default() }
    }

    /// The number of an application, which its controls are told apart by.
    pub fn app(&mut self, name: &str) -> u32 {
        let at = self.apps.iter().position(|known| known == name).unwrap_or_else(|| {
            self.apps.push(name.to_owned());
            self.apps.len() - 1
        });
        at as u32
    }

    /// Counts something under `name`.
    pub fn count(&mut self, name: &str, n: u64) {
        *self.counts.entry(name.to_owned()).or_default() += n;
    }

    /// Notes a record that was refused.
    pub fn reject(&mut self, place: Place, kind: RejectKind, reason: impl Into<String>) {
        self.rejects.push(Rejected { place, kind, reason: reason.into() });
    }

    /// What was refused so far.
    pub(super) fn rejects(&self) -> &[Rejected] {
        &self.rejects
    }

    /// A control was seen; returns its index. What several sightings say is merged: the first name and
    /// description that are not empty, every pattern and context, enabled if it ever was.
    pub fn see(&mut self, app: u32, seen: Sighting, context: &str, place: &Place) -> u32 {
        let key = (app, seen.id);
        let at = if let Some(&at) = self.known.get(&key) {
            at
        } else {
            let at = self.controls.len() as u32;
            let mut control = Control::bare(key.1.clone(), place.clone());
            control.enabled = false;
            control.selected = seen.selected;
            control.name = String::new();
            self.controls.push(control);
            self.app_of.push(app);
            self.known.insert(key, at);
            at
        };
        let control = &mut self.controls[at as usize];
        control.count += 1;
        if let Err(to) = control.contexts.binary_search_by(|known| known.as_str().cmp(context))
            && !context.is_empty()
        {
            control.contexts.insert(to, context.to_owned());
        }
        if seen.id_only {
            return at;
        }
        control.id_only = false;
        control.enabled |= seen.enabled;
        for pattern in seen.patterns {
            if let Err(to) = control.patterns.binary_search(&pattern) {
                control.patterns.insert(to, pattern);
            }
        }
        for (have, new) in [(&mut control.name, seen.name), (&mut control.description, seen.description)] {
            if have.is_empty() {
                new.trim().clone_into(have);
            }
        }
        control.window = control.window.take().or(seen.window);
        at
    }

    /// Whether the blacklist names the control at `at`.
    fn is_blacklisted(&self, at: u32) -> bool {
        let control = &self.controls[at as usize];
        at != ROOT && self.options.blacklist.holds(&control.id, &control.name)
    }

    /// Acting on `from` revealed `to`. What a blacklisted control reveals is counted and left out.
    pub fn reveal(&mut self, from: u32, to: u32, how: &Reveal, place: &Place) {
        if self.is_blacklisted(from) {
            self.count("edges_skipped_blacklist", 1);
            self.shown_elsewhere(to);
            return;
        }
        let key = (from, to, how.action.to_owned());
        let at = *self.edge_at.entry(key).or_insert_with(|| {
            self.edges.push(Edge {
                from,
                to,
                action: how.action.to_owned(),
                window_opened: how.window.map(str::to_owned),
                count: 0,
                flags: how.flags.to_vec(),
                evidence: Vec::new(),
            });
            self.edges.len() - 1
        });
        let edge = &mut self.edges[at];
        edge.count += 1;
        // A flag holds for an edge as long as every observation has it.
        edge.flags.retain(|flag| how.flags.contains(flag));
        edge.window_opened = edge.window_opened.take().or(how.window.map(str::to_owned));
        if edge.evidence.len() < EVIDENCE_KEPT {
            edge.evidence.push(Evidence {
                place: place.clone(),
                before: how.before.map(str::to_owned),
                after: how.after.map(str::to_owned),
            });
        }
    }

    /// Acting on `by` opened a window.
    pub(super) fn window(&mut self, title: &str, by: u32, closed_by: Option<String>) {
        let (window, openers) = self.windows.entry(title.to_owned()).or_default();
        window.count += 1;
        openers.insert(by);
        if let Some(how) = closed_by {
            *window.closed_by.entry(how).or_default() += 1;
        }
    }

    /// The explorer of `app` did not follow the control with this id, for `reason`.
    pub fn skipped(&mut self, app: &str, id: &str, reason: &str) {
        self.skipped.insert((app.to_owned(), id.to_owned()), reason.to_owned());
    }

    /// The graph, with what was refused and what was clicked.
    pub fn finish(mut self) -> Built {
        self.add_assumed();
        self.attach_to_active_tab();
        self.mark_unexplored();
        if self.apps.len() > 1 {
            self.tell_applications_apart();
        }
        self.controls[0].name = match self.apps.as_slice() {
            [only] => only.clone(),
            _ => "applications".to_owned(),
        };
        self.edges.iter_mut().for_each(|edge| edge.flags.sort_unstable());
        self.edges.sort_by_key(|edge| edge.from);
        self.count_what_is_there();
        let ids = |at: &BTreeSet<u32>| {
            let mut ids: Vec<_> = at.iter().map(|&i| self.controls[i as usize].id.to_string()).collect();
            ids.sort_unstable();
            ids
        };
        let windows = self.windows.iter().map(|(title, (window, openers))| Window {
            title: title.clone(),
            opened_by: ids(openers),
            ..window.clone()
        });
        let windows = windows.collect();
        let graph = Graph {
            controls: self.controls,
            edges: self.edges,
            windows,
            screens: self.screens,
            counts: self.counts,
        };
        Built { graph, rejects: self.rejects, clicks: self.clicks }
    }

    /// Section 4.1 and reading 7: where the first screen has several tabs and one is active, what has no scope of
    /// its own belongs to that tab. Tabs, menus and what another control reveals have one; what lies below a tab's
    /// name belongs to that tab.
    fn attach_to_active_tab(&mut self) {
        for app in 0..self.apps.len() as u32 {
            let first: Vec<usize> = (0..self.edges.len())
                .filter(|&e| self.edges[e].from == ROOT && self.app_of[self.edges[e].to as usize] == app)
                .collect();
            let kind =
                |this: &Self, e: usize| Kind::of(&this.controls[this.edges[e].to as usize].id.control_type);
            let tabs: Vec<u32> = { first.iter() }
                .filter(|&&e| kind(self, e) == Kind::Tab)
                .map(|&e| self.edges[e].to)
                .collect();
            let active = tabs.iter().copied().find(|&t| self.controls[t as usize].selected);
            let (Some(active), true) = (active, tabs.len() > 1) else { continue };
            let scoped: BTreeSet<u32> = self.edges.iter().filter(|e| e.from != ROOT).map(|e| e.to).collect();
            for e in first {
                let to = self.edges[e].to;
                let own = matches!(kind(self, e), Kind::Tab | Kind::Menu | Kind::MenuItem);
                if own || scoped.contains(&to) {
                    continue;
                }
                let below = tabs.iter().copied().find(|&t| self.lies_below(to, t));
                self.edges[e].from = below.unwrap_or(active);
                self.edges[e].flags.push(Flag::ActiveTab);
                self.count("controls_of_active_tab", 1);
            }
        }
    }

    /// Whether the ancestors of `control` begin with those of `tab` and its name.
    fn lies_below(&self, control: u32, tab: u32) -> bool {
        let (control, tab) = (&self.controls[control as usize], &self.controls[tab as usize]);
        let path = &control.id.ancestors;
        path.starts_with(&tab.id.ancestors) && path.get(tab.id.ancestors.len()) == Some(&tab.id.primary)
    }

    fn mark_unexplored(&mut self) {
        for at in 1..self.controls.len() {
            if self.is_blacklisted(at as u32) {
                self.controls[at].unexplored = Some("blacklist".to_owned());
                self.count("controls_blacklisted", 1);
            }
        }
        for ((app, id), reason) in std::mem::take(&mut self.skipped) {
            let app = self.app(&app);
            if let Some(&at) = self.known.get(&(app, ControlId::from_log(&id, None))) {
                self.controls[at as usize].unexplored.get_or_insert(reason);
                self.count("controls_skipped_by_explorer", 1);
            } else {
                self.count("controls_skipped_by_explorer_and_never_seen", 1);
            }
        }
    }

    /// Puts a node for each application between the root and its first screen, and its name before the ancestors.
    fn tell_applications_apart(&mut self) {
        for control in 1..self.controls.len() {
            let id = std::mem::take(&mut self.controls[control].id);
            self.controls[control].id = id.below(&self.apps[self.app_of[control] as usize]);
        }
        let base = self.controls.len() as u32;
        for app in &self.apps {
            let id = ControlId::new(app, APPLICATION_TYPE, [""; 0]);
            let place = Place::default();
            self.controls.push(Control {
                id_only: false,
                contexts: vec![app.clone()],
                ..Control::bare(id, place)
            });
        }
        let mut launches = Vec::new();
        for app in 0..self.apps.len() as u32 {
            launches.push(Edge {
                from: ROOT,
                to: base + app,
                action: "launch".to_owned(),
                window_opened: None,
                count: 0,
                flags: Vec::new(),
                evidence: Vec::new(),
            });
        }
        for edge in self.edges.iter_mut().filter(|e| e.from == ROOT) {
            let app = self.app_of[edge.to as usize];
            edge.from = base + app;
            launches[app as usize].count += edge.count;
        }
        self.edges.extend(launches);
        self.count("applications", u64::from(self.controls.len() as u32 - base));
        for clicks in &mut self.clicks {
            if let Some(&first) = clicks.first() {
                clicks.insert(0, base + self.app_of[first as usize]);
            }
        }
    }

    fn count_what_is_there(&mut self) {
        let id_only = self.controls.iter().filter(|c| c.id_only).count() as u64;
        let pairs: BTreeSet<(u32, u32)> = self.edges.iter().map(|e| (e.from, e.to)).collect();
        let parallel = (self.edges.len() - pairs.len()) as u64;
        let back = self.edges.iter().filter(|e| e.flags.contains(&Flag::Back)).count() as u64;
        for (name, n) in [
            ("controls", self.controls.len() as u64 - 1),
            ("edges", self.edges.len() as u64),
            ("edges_parallel", parallel),
            ("edges_way_back", back),
            ("controls_known_by_id_only", id_only),
            ("windows", self.windows.len() as u64),
            ("rejects", self.rejects.len() as u64),
        ] {
            self.counts.insert(name.to_owned(), n);
        }
    }
}
