//! `DroidBot`'s `utg.js`: `var utg = {"nodes": […], "edges": […]}`, states and the events between them.
//!
//! An event is told by a line such as `TouchEvent(state=…, view=<view_str>(Activity/Button-Save))` or
//! `TouchEvent(state=…, x=10, y=20)`. A state whose view hierarchy is not given has the controls that events were
//! sent to, with the class and the first ten characters of the text that those lines tell.

use std::collections::BTreeMap;

use serde_json::Value;

use super::build::{GraphBuilder, Sighting};
use super::droidbot::{Event, Screen, View};
use super::graph::Place;
use super::id::ControlId;
use super::kind::Kind;
use crate::adapters::Fault;
use crate::adapters::source::{Fields, parse_json};
use crate::trace::RejectKind;

/// What stands before the object.
const HEAD: &str = "var utg";

/// A transition graph, read.
#[derive(Debug, Default)]
pub(super) struct Utg {
    /// The state that `DroidBot` marks as the first.
    pub first: Option<String>,
    /// States and what each is: package, activity.
    pub states: BTreeMap<String, (String, String)>,
    /// Events by their number.
    pub events: Vec<(i64, Event)>,
}

/// The view that an event was sent to, as its line tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signature {
    /// `DroidBot`'s hash of it.
    pub view_str: String,
    /// Its class, without the package.
    class: String,
    /// The first characters of its text.
    text: String,
}

/// Takes a node or an edge, which stands at a place.
type Take = fn(&mut Utg, Fields, &Place) -> Result<(), Fault>;

/// Reads `utg.js`; parts that are none are rejected one by one.
pub(super) fn read(builder: &mut GraphBuilder, file: &str, text: &str) -> Utg {
    let mut utg = Utg::default();
    let remedy = "expected DroidBot's `var utg = {…}` with `nodes` and `edges`";
    let body = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    let body = body.strip_prefix(HEAD).map_or(body, |rest| rest.trim_start().trim_start_matches('='));
    let body = body.trim().trim_end_matches(';');
    let mut refuse = |key: String, fault: &Fault| {
        builder.reject(Place::new(file, key), fault.kind, format!("{}; {remedy}", fault.reason));
    };
    let value = match parse_json(body) {
        Ok(value) => value,
        Err(fault) => {
            refuse(String::new(), &fault);
            return utg;
        }
    };
    let parts: [(&str, Take); 2] = [("nodes", Utg::node), ("edges", Utg::edge)];
    for (name, take) in parts {
        let list = Fields::of(&value).and_then(|fields| fields.array(name));
        let list = list.unwrap_or_else(|fault| {
            refuse(String::new(), &fault);
            &[]
        });
        for (i, item) in list.iter().enumerate() {
            let key = format!("{name}[{i}]");
            let taken = Fields::of(item).and_then(|fields| take(&mut utg, fields, &Place::new(file, &key)));
            if let Err(fault) = taken {
                refuse(key, &fault);
            }
        }
    }
    utg.events.sort_by_key(|(number, _)| *number);
    utg
}

impl Utg {
    fn node(&mut self, node: Fields, _: &Place) -> Result<(), Fault> {
        let state = node.opt_str("state_str").map_or_else(|| node.str("id"), Ok)?;
        if node.opt_str("label").is_some_and(|label| label.contains("<FIRST>")) {
            self.first.get_or_insert(state.to_owned());
        }
        let text = |name| node.opt_str(name).unwrap_or_default().to_owned();
        self.states.insert(state.to_owned(), (text("package"), text("activity")));
        Ok(())
    }

    fn edge(&mut self, edge: Fields, place: &Place) -> Result<(), Fault> {
        let (start, stop) = (edge.str("from")?, edge.str("to")?);
        let mut events = Vec::new();
        for (i, event) in edge.array("events")?.iter().enumerate() {
            let at = |fault: Fault| fault.at(&format!("events[{i}]"));
            let fields = Fields::of(event).map_err(at)?;
            let line = fields.str("event_str").map_err(at)?;
            let kind = match fields.opt_str("event_type") {
                Some(kind) => kind.to_owned(),
                None => line.split("Event(").next().unwrap_or_default().to_lowercase(),
            };
            let number = |name: &str| part(line, name)?.parse::<f64>().ok();
            let view = signature(line);
            let event = Event {
                kind,
                key: part(line, "name").map(str::to_owned),
                start: Some(start.to_owned()),
                stop: Some(stop.to_owned()),
                view_str: view.as_ref().map(|view| view.view_str.clone()),
                temp_id: None,
                point: number("x").zip(number("y")),
                line: line.to_owned(),
                place: Place::new(&place.file, format!("{} events[{i}]", place.key)),
            };
            events.push((fields.get("event_id").and_then(Value::as_i64).unwrap_or(i64::MAX), event));
        }
        self.events.extend(events);
        Ok(())
    }

    /// A screen for every state that `known` does not hold, with the controls that its events were sent to.
    pub(super) fn screens(&self, file: &str, known: impl Fn(&str) -> bool) -> Vec<(String, Screen)> {
        let mut screens: BTreeMap<&str, Screen> = BTreeMap::new();
        for (state, (package, _)) in self.states.iter().filter(|(state, _)| !known(state)) {
            let place = Place::new(file, state.clone());
            screens.insert(state, Screen { app: package.clone(), views: Vec::new(), place });
        }
        for (_, event) in &self.events {
            let Some(state) = event.start.as_deref() else { continue };
            let (Some(screen), Some(view)) = (screens.get_mut(state), signature(&event.line)) else {
                continue;
            };
            if screen.views.iter().any(|known| known.view_str.as_ref() == Some(&view.view_str)) {
                continue;
            }
            let primary = if view.text.is_empty() { &view.view_str } else { &view.text };
            let id = ControlId::new(primary, &view.class, [&self.states[state].1]);
            let sighting = Sighting {
                id,
                name: view.text,
                patterns: Kind::of(&view.class)
                    .patterns(|word| word == "clickable" && event.kind.ends_with("touch")),
                enabled: true,
                ..Sighting::default()
            };
            screen.views.push(View { temp_id: None, view_str: Some(view.view_str), bounds: None, sighting });
        }
        screens.into_iter().map(|(state, screen)| (state.to_owned(), screen)).collect()
    }
}

/// The value of `name=` in an event's line.
fn part<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let at = [", ", "("].iter().find_map(|before| {
        let start = format!("{before}{name}=");
        line.find(&start).map(|at| at + start.len())
    })?;
    line[at..].split([',', ')']).next().map(str::trim)
}

/// The view in an event's line.
fn signature(line: &str) -> Option<Signature> {
    let (_, rest) = line.split_once("view=")?;
    let end = rest.find(['(', ',', ')']).unwrap_or(rest.len());
    let (view_str, rest) = rest.split_at(end);
    // What is told of the view ends before a further field, or with the event.
    let told = rest.strip_prefix('(').map_or("", |rest| {
        let ends = ["), direction=", "), text=", "))"].map(|end| rest.find(end).unwrap_or(rest.len()));
        &rest[..ends.into_iter().min().unwrap_or(rest.len())]
    });
    let (_, told) = told.split_once('/').unwrap_or(("", told));
    let (class, text) = told.split_once('-').unwrap_or((told, ""));
    (!view_str.is_empty()).then(|| Signature {
        view_str: view_str.to_owned(),
        class: class.to_owned(),
        text: text.trim().to_owned(),
    })
}

/// A graph that names nothing is told.
pub(super) fn refuse_empty(builder: &mut GraphBuilder, file: &str, utg: &Utg) {
    if utg.states.is_empty() && utg.events.is_empty() {
        let reason = "the transition graph has no states; give the one that a finished run of DroidBot wrote";
        builder.reject(Place::new(file, ""), RejectKind::Empty, reason);
    }
}
