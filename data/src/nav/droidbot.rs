//! `DroidBot`'s output: `states/state_<tag>.json` (view hierarchies) and `events/event_<tag>.json` (what was done
//! between two of them), or `utg.js` in their place or beside them.
//!
//! A view is a control when it is visible and has a text, or can be acted on; containers without either are counted.
//! Its name is its text, else its content description, else the texts below it; its primary id is the resource id,
//! and its ancestors are the activity and the ancestors that have a resource id. The same id again on one screen is
//! told apart by its order.
//!
//! An event goes to its view; where it names a place instead, or a view that is no control, to the smallest control
//! there. As with traces, a scroll or a key adds to what opened its screen ([`Flag::Indirect`]), what starts an
//! application begins at the root, and the way back is [`Flag::Back`]. An event whose state after is not known is
//! a click that shows nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::Value;

use super::build::{GraphBuilder, Reveal, Sighting};
use super::droidbot_utg::{self, Utg};
use super::graph::{Flag, Place, ROOT};
use super::id::ControlId;
use super::kind::Kind;
use super::screens::Way;
use crate::adapters::Fault;
use crate::adapters::source::malformed;
use crate::trace::RejectKind;

/// Texts below a view that name it when it has none itself.
const NAME_PARTS: usize = 3;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_excessive_bools, reason = "the file's own fields")]
struct ViewRow {
    temp_id: i64,
    parent: i64,
    class: Option<String>,
    resource_id: Option<String>,
    text: Option<String>,
    content_description: Option<String>,
    view_str: Option<String>,
    bounds: Option<Value>,
    visible: bool,
    enabled: bool,
    clickable: bool,
    long_clickable: bool,
    checkable: bool,
    editable: bool,
    scrollable: bool,
    selected: bool,
    children: Vec<i64>,
}

#[derive(Debug, Deserialize)]
struct StateRow {
    state_str: String,
    #[serde(default)]
    foreground_activity: Option<String>,
    views: Vec<ViewRow>,
}

#[derive(Debug, Deserialize)]
struct EventRow {
    event: EventBody,
    #[serde(default)]
    start_state: Option<String>,
    #[serde(default)]
    stop_state: Option<String>,
    #[serde(default)]
    event_str: Option<String>,
}

#[derive(Debug, Deserialize)]
struct EventBody {
    event_type: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    view: Option<EventView>,
    #[serde(default)]
    x: Option<f64>,
    #[serde(default)]
    y: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EventView {
    temp_id: Option<i64>,
    view_str: Option<String>,
    bounds: Option<Value>,
}

/// One event, from whichever file.
#[derive(Debug, Clone, Default)]
pub(super) struct Event {
    /// Its type: `touch`, `key`, `intent`.
    pub kind: String,
    /// The key.
    pub key: Option<String>,
    /// The state before.
    pub start: Option<String>,
    /// The state after.
    pub stop: Option<String>,
    /// The view it was sent to, by its number in the state.
    pub temp_id: Option<i64>,
    /// The same by its hash.
    pub view_str: Option<String>,
    /// Where it was sent, or the middle of its view, in pixels.
    pub point: Option<(f64, f64)>,
    /// How `DroidBot` writes it.
    pub line: String,
    /// Where it stands.
    pub place: Place,
}

impl Event {
    fn of(row: EventRow, place: Place) -> Self {
        let body = row.event;
        let middle = |view: &EventView| {
            let [left, top, right, bottom] = corners(view.bounds.as_ref()?)?;
            Some((left.midpoint(right), top.midpoint(bottom)))
        };
        Self {
            kind: body.event_type,
            key: body.name,
            start: row.start_state,
            stop: row.stop_state,
            point: body.view.as_ref().map_or_else(|| body.x.zip(body.y), middle),
            temp_id: body.view.as_ref().and_then(|view| view.temp_id),
            view_str: body.view.and_then(|view| view.view_str),
            line: row.event_str.unwrap_or_default(),
            place,
        }
    }

    fn is_key(&self, names: &[&str]) -> bool {
        let known = |key: &String| names.iter().any(|name| key.eq_ignore_ascii_case(name));
        self.kind == "key" && self.key.as_ref().is_some_and(known)
    }

    /// Whether it goes to what lies at its point.
    fn is_touch(&self) -> bool {
        matches!(self.kind.as_str(), "touch" | "long_touch" | "set_text" | "select" | "unselect")
    }
}

/// Left, top, right and bottom of `[[x1, y1], [x2, y2]]`.
fn corners(bounds: &Value) -> Option<[f64; 4]> {
    let at = |corner: usize, axis: usize| bounds.get(corner)?.get(axis)?.as_f64();
    Some([at(0, 0)?, at(0, 1)?, at(1, 0)?, at(1, 1)?])
}

/// A control of a screen, and the view that it is.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// Its number in the state.
    pub temp_id: Option<i64>,
    /// `DroidBot`'s hash of it.
    pub view_str: Option<String>,
    /// Left, top, right, bottom in pixels.
    pub bounds: Option<[f64; 4]>,
    /// The control.
    pub sighting: Sighting,
}

/// A screen: the controls and the view that each is.
#[derive(Debug, Clone)]
pub(super) struct Screen {
    /// The package.
    pub app: String,
    /// The controls.
    pub views: Vec<View>,
    /// Where it stands.
    pub place: Place,
}

/// Reads states and events, in the order of their files, and puts them together at the end.
#[derive(Debug, Default)]
pub struct DroidbotReader {
    order: Vec<String>,
    screens: HashMap<String, Screen>,
    events: Vec<Event>,
    utg: Vec<(String, Utg)>,
}

impl DroidbotReader {
    /// Reads the text of a state; one that is none is rejected.
    pub fn state(&mut self, builder: &mut GraphBuilder, file: &str, text: &str) {
        let place = Place::new(file, "");
        match serde_json::from_str::<StateRow>(text) {
            Ok(row) => {
                let (app, views, dropped) = controls(&row);
                builder.count("views_without_text_or_action", dropped);
                builder.count("screens", 1);
                builder.count("records", 1);
                self.screen(row.state_str, Screen { app, views, place });
            }
            Err(error) => {
                let remedy = "a DroidBot state has `state_str` and `views`";
                refuse(builder, place, &malformed(&error), remedy);
            }
        }
    }

    /// Reads the text of an event; one that is none is rejected.
    pub fn event(&mut self, builder: &mut GraphBuilder, file: &str, text: &str) {
        let place = Place::new(file, "");
        match serde_json::from_str::<EventRow>(text) {
            Ok(row) => {
                builder.count("records", 1);
                self.events.push(Event::of(row, place));
            }
            Err(error) => {
                let remedy = "a DroidBot event has `event`, `start_state` and `stop_state`";
                refuse(builder, place, &malformed(&error), remedy);
            }
        }
    }

    /// Reads the text of `utg.js`; what is none in it is rejected.
    pub fn utg(&mut self, builder: &mut GraphBuilder, file: &str, text: &str) {
        let before = builder.rejects().len();
        let utg = droidbot_utg::read(builder, file, text);
        if builder.rejects().len() == before {
            droidbot_utg::refuse_empty(builder, file, &utg);
        }
        builder.count("records", (utg.states.len() + utg.events.len()) as u64);
        self.utg.push((file.to_owned(), utg));
    }

    fn screen(&mut self, state: String, screen: Screen) {
        if self.screens.insert(state.clone(), screen).is_none() {
            self.order.push(state);
        }
    }

    /// Puts the graph together: the first screen is that of the first event, else the one that `utg.js` marks, else
    /// the first state.
    pub fn end(mut self, builder: &mut GraphBuilder) {
        self.take_utg(builder);
        let known = |state: &&String| self.screens.contains_key(*state);
        let of_event = self.events.first().and_then(|event| event.start.as_ref()).filter(known);
        let marked = self.utg.iter().find_map(|(_, utg)| utg.first.as_ref()).filter(known);
        let first = of_event.or(marked).or(self.order.first());
        let mut seen = Seen::default();
        for state in first.into_iter().chain(&self.order) {
            if seen.controls.contains_key(state.as_str()) {
                continue;
            }
            let screen = &self.screens[state];
            let app = builder.app(&screen.app);
            let controls = { screen.views.iter() }
                .map(|view| (view, builder.see(app, view.sighting.clone(), &screen.app, &screen.place)))
                .collect();
            seen.controls.insert(state, controls);
        }
        if let Some(first) = first {
            seen.opener.insert(first, ROOT);
            for (_, to) in &seen.controls[first.as_str()] {
                let how = Reveal { action: "launch", after: Some(first), ..Reveal::default() };
                builder.reveal(ROOT, *to, &how, &self.screens[first].place);
            }
        }
        for event in &self.events {
            builder.count("transitions", 1);
            seen.take(builder, event);
        }
    }

    /// Events of `utg.js` that no file of their own tells, and states that have none.
    fn take_utg(&mut self, builder: &mut GraphBuilder) {
        let key = |event: &Event| (event.start.clone(), event.stop.clone(), event.line.clone());
        let told: BTreeSet<_> = self.events.iter().map(key).collect();
        for (file, utg) in std::mem::take(&mut self.utg) {
            for (state, screen) in utg.screens(&file, |state| self.screens.contains_key(state)) {
                builder.count("screens_known_by_events_only", 1);
                self.screen(state, screen);
            }
            let new = utg.events.iter().map(|(_, event)| event).filter(|event| !told.contains(&key(event)));
            self.events.extend(new.cloned());
            self.utg.push((file, utg));
        }
    }
}

fn refuse(builder: &mut GraphBuilder, place: Place, fault: &Fault, remedy: &str) {
    builder.reject(place, fault.kind, format!("{}; {remedy}", fault.reason));
}

/// The screens while events are gone through.
#[derive(Default)]
struct Seen<'a> {
    controls: BTreeMap<&'a str, Vec<(&'a View, u32)>>,
    /// The control that first opened each screen.
    opener: BTreeMap<&'a str, u32>,
    way: Way<&'a str>,
}

impl<'a> Seen<'a> {
    fn take(&mut self, builder: &mut GraphBuilder, event: &'a Event) {
        let missing = [&event.start, &event.stop].into_iter().flatten();
        let missing: Vec<&str> =
            missing.map(String::as_str).filter(|state| !self.controls.contains_key(state)).collect();
        if !missing.is_empty() {
            let reason =
                format!("no state file for {}; give the folder `states` as well", missing.join(" or "));
            builder.reject(event.place.clone(), RejectKind::MissingField, reason);
            return;
        }
        let (start, stop) = (event.start.as_deref(), event.stop.as_deref());
        start.into_iter().for_each(|start| self.way.arrive(start));
        let Some((from, flags)) = self.acted_on(builder, event) else { return };
        let Some(stop) = stop else {
            builder.count("events_without_state_after", 1);
            return;
        };
        if !flags.contains(&Flag::Back) {
            self.opener.entry(stop).or_insert(from);
        }
        let before = start.and_then(|start| self.controls.get(start)).into_iter().flatten();
        let known: BTreeSet<u32> = before.map(|(_, control)| *control).collect();
        for to in self.controls[stop].iter().map(|(_, control)| *control).filter(|c| !known.contains(c)) {
            let how = Reveal { action: &event.kind, window: None, flags, before: start, after: Some(stop) };
            builder.reveal(from, to, &how, &event.place);
        }
    }

    /// What an event acted on, and what its edges are to be taken with; nothing for a view that is not there.
    fn acted_on(&mut self, builder: &mut GraphBuilder, event: &'a Event) -> Option<(u32, &'static [Flag])> {
        let Some(start) = event.start.as_deref() else {
            builder.count("events_without_state_before", 1);
            self.way = Way::default();
            return Some((ROOT, &[Flag::Indirect]));
        };
        let names_a_view = event.temp_id.is_some() || event.view_str.is_some();
        if names_a_view || (event.is_touch() && event.point.is_some()) {
            if let Some(control) = target(event, &self.controls[start]) {
                builder.clicks.push(self.way.click(start, control));
                return Some((control, &[]));
            }
            if names_a_view {
                let view = event
                    .temp_id
                    .map_or_else(|| event.view_str.clone().unwrap_or_default(), |n| n.to_string());
                let reason = format!("view {view} of the event is no control of its start state");
                builder.reject(event.place.clone(), RejectKind::OutOfRange, reason);
                return None;
            }
        }
        if event.kind == "intent" || event.is_key(&["home"]) {
            self.way = Way::default();
            return Some((ROOT, &[]));
        }
        let opener = self.opener.get(start).copied().unwrap_or(ROOT);
        let is_back = event.is_key(&["back"]);
        Some((opener, if is_back { &[Flag::Back] } else { &[Flag::Indirect] }))
    }
}

/// The control that an event was sent to: its view, else the smallest one at its point.
fn target(event: &Event, controls: &[(&View, u32)]) -> Option<u32> {
    let by_number = |(view, _): &&(&View, u32)| event.temp_id.is_some() && view.temp_id == event.temp_id;
    let by_hash = |(view, _): &&(&View, u32)| event.view_str.is_some() && view.view_str == event.view_str;
    let named = controls.iter().find(by_number).or_else(|| controls.iter().find(by_hash));
    let at_point = || {
        let (x, y) = event.point?;
        let area = |&(view, control): &(&View, u32)| {
            let [left, top, right, bottom] = view.bounds?;
            let holds = (left..=right).contains(&x) && (top..=bottom).contains(&y);
            holds.then_some(((right - left) * (bottom - top), control))
        };
        controls.iter().filter_map(area).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, control)| control)
    };
    named.map(|(_, control)| *control).or_else(at_point)
}

fn filled(text: &Option<String>) -> Option<&str> {
    text.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

/// The application, the controls of a state, and how many views are none.
fn controls(state: &StateRow) -> (String, Vec<View>, u64) {
    let activity = state.foreground_activity.clone().unwrap_or_default();
    let (app, activity) = activity.split_once('/').unwrap_or(("", &activity));
    let at: HashMap<i64, &ViewRow> = state.views.iter().map(|view| (view.temp_id, view)).collect();
    let mut times: HashMap<ControlId, u32> = HashMap::new();
    let (mut controls, mut dropped) = (Vec::new(), 0);
    for view in &state.views {
        let acts =
            view.clickable || view.long_clickable || view.checkable || view.editable || view.scrollable;
        let own = filled(&view.text).or(filled(&view.content_description));
        if !view.visible || (own.is_none() && !acts) {
            dropped += 1;
            continue;
        }
        let name = own.map_or_else(|| texts_below(view, &at), str::to_owned);
        let class = view.class.clone().unwrap_or_default();
        let primary = filled(&view.resource_id).map_or_else(|| name.clone(), str::to_owned);
        let id = ControlId::new(primary, &class, ancestors(view, activity, &at));
        let time = times.entry(id.clone()).or_default();
        *time += 1;
        let mut id = id;
        if let (n @ 2.., Some(last)) = (*time, id.ancestors.last_mut()) {
            last.push_str(&format!("#{n}"));
        }
        let says = |word: &str| match word {
            "clickable" => view.clickable,
            "checkable" => view.checkable,
            "editable" => view.editable,
            "scrollable" => view.scrollable,
            _ => false,
        };
        let sighting = Sighting {
            id,
            name,
            description: filled(&view.content_description).unwrap_or_default().to_owned(),
            patterns: Kind::of(&class).patterns(says),
            enabled: view.enabled,
            selected: view.selected,
            window: None,
            id_only: false,
        };
        controls.push(View {
            temp_id: Some(view.temp_id),
            view_str: view.view_str.clone(),
            bounds: view.bounds.as_ref().and_then(corners),
            sighting,
        });
    }
    (app.to_owned(), controls, dropped)
}

/// The activity, and the resource ids above a view. A file whose parents go in a circle ends at the first repeat.
fn ancestors(view: &ViewRow, activity: &str, at: &HashMap<i64, &ViewRow>) -> Vec<String> {
    let mut path = Vec::new();
    let mut visited = BTreeSet::from([view.temp_id]);
    let mut parent = view.parent;
    while let Some(above) = at.get(&parent) {
        if !visited.insert(parent) {
            break;
        }
        path.extend(filled(&above.resource_id).map(str::to_owned));
        parent = above.parent;
    }
    path.push(activity.to_owned());
    path.reverse();
    path
}

fn texts_below(view: &ViewRow, at: &HashMap<i64, &ViewRow>) -> String {
    let mut texts = Vec::new();
    let mut visited = BTreeSet::from([view.temp_id]);
    let mut stack: Vec<i64> = view.children.iter().rev().copied().collect();
    while let Some(id) = stack.pop() {
        let Some(below) = at.get(&id).filter(|_| visited.insert(id)) else { continue };
        if below.clickable {
            continue;
        }
        texts.extend(filled(&below.text).or(filled(&below.content_description)));
        if texts.len() >= NAME_PARTS {
            break;
        }
        stack.extend(below.children.iter().rev());
    }
    texts.truncate(NAME_PARTS);
    texts.join(" ")
}
