//! `DroidBot`'s output: `states/state_<tag>.json` (view hierarchies) and `events/event_<tag>.json` (what was done
//! between two of them).
//!
//! A view is a control when it is visible and has a text, or can be acted on; containers without either are counted.
//! Its name is its text, else its content description, else the texts below it; its primary id is the resource id,
//! and its ancestors are the activity and the ancestors that have a resource id. The same id again on one screen is
//! told apart by its order.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

use super::build::{GraphBuilder, Reveal, Sighting};
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
    start_state: String,
    stop_state: String,
}

#[derive(Debug, Deserialize)]
struct EventBody {
    event_type: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    view: Option<EventView>,
}

#[derive(Debug, Deserialize)]
struct EventView {
    temp_id: i64,
}

/// A screen: the controls and the view that each is.
#[derive(Debug, Clone)]
struct Screen {
    app: String,
    controls: Vec<(i64, Sighting)>,
    place: Place,
}

/// Reads states and events, in the order of their files, and puts them together at the end.
#[derive(Debug, Default)]
pub struct DroidbotReader {
    order: Vec<String>,
    screens: HashMap<String, Screen>,
    events: Vec<(EventRow, Place)>,
}

impl DroidbotReader {
    /// Reads the text of a state; one that is none is rejected.
    pub fn state(&mut self, builder: &mut GraphBuilder, file: &str, text: &str) {
        let place = Place::new(file, "");
        match serde_json::from_str::<StateRow>(text) {
            Ok(row) => {
                let (app, controls, dropped) = controls(&row);
                builder.count("views_without_text_or_action", dropped);
                builder.count("screens", 1);
                let screen = Screen { app, controls, place };
                if self.screens.insert(row.state_str.clone(), screen).is_none() {
                    self.order.push(row.state_str);
                }
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
            Ok(row) => self.events.push((row, place)),
            Err(error) => {
                let remedy = "a DroidBot event has `event`, `start_state` and `stop_state`";
                refuse(builder, place, &malformed(&error), remedy);
            }
        }
    }

    /// Puts the graph together: the first screen is that of the first event, else the first state.
    pub fn end(self, builder: &mut GraphBuilder) {
        let first = self
            .events
            .first()
            .map(|(event, _)| &event.start_state)
            .filter(|s| self.screens.contains_key(*s));
        let mut seen: BTreeMap<String, Vec<(i64, u32)>> = BTreeMap::new();
        for state in first.into_iter().chain(&self.order) {
            if seen.contains_key(state) {
                continue;
            }
            let screen = &self.screens[state];
            let app = builder.app(&screen.app);
            let controls = { screen.controls.iter() }
                .map(|(view, s)| (*view, builder.see(app, s.clone(), &screen.app, &screen.place)))
                .collect();
            seen.insert(state.clone(), controls);
        }
        if let Some(first) = first.or(self.order.first()) {
            for (_, to) in &seen[first] {
                let how = Reveal { action: "launch", after: Some(first), ..Reveal::default() };
                builder.reveal(ROOT, *to, &how, &self.screens[first].place);
            }
        }
        let mut way = Way::default();
        for (event, place) in &self.events {
            builder.count("transitions", 1);
            take(builder, event, place, &seen, &mut way);
        }
    }
}

fn refuse(builder: &mut GraphBuilder, place: Place, fault: &Fault, remedy: &str) {
    builder.reject(place, fault.kind, format!("{}; {remedy}", fault.reason));
}

fn take(
    builder: &mut GraphBuilder,
    event: &EventRow,
    place: &Place,
    seen: &BTreeMap<String, Vec<(i64, u32)>>,
    way: &mut Way<String>,
) {
    let (Some(before), Some(after)) = (seen.get(&event.start_state), seen.get(&event.stop_state)) else {
        let reason = format!(
            "no state file for {} or {}; give the folder `states` as well",
            event.start_state, event.stop_state
        );
        builder.reject(place.clone(), RejectKind::MissingField, reason);
        return;
    };
    way.arrive(event.start_state.clone());
    let kind = event.event.event_type.as_str();
    let is_back =
        kind == "key" && event.event.name.as_deref().is_some_and(|key| key.eq_ignore_ascii_case("back"));
    let (from, flags): (u32, &[Flag]) = match &event.event.view {
        Some(view) => {
            let Some((_, control)) = before.iter().find(|(id, _)| *id == view.temp_id) else {
                let reason = format!("view {} of the event is no control of its start state", view.temp_id);
                builder.reject(place.clone(), RejectKind::OutOfRange, reason);
                return;
            };
            builder.clicks.push(way.click(event.start_state.clone(), *control));
            (*control, &[])
        }
        None if is_back => (before.first().map_or(ROOT, |(_, control)| *control), &[Flag::Back]),
        None => {
            *way = Way::default();
            (ROOT, &[Flag::Indirect])
        }
    };
    let known: BTreeSet<u32> = before.iter().map(|(_, control)| *control).collect();
    for to in after.iter().map(|(_, control)| *control).filter(|control| !known.contains(control)) {
        let how = Reveal {
            action: kind,
            window: None,
            flags,
            before: Some(&event.start_state),
            after: Some(&event.stop_state),
        };
        builder.reveal(from, to, &how, place);
    }
}

fn filled(text: &Option<String>) -> Option<&str> {
    text.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

/// The application, the controls of a state, and how many views are none.
fn controls(state: &StateRow) -> (String, Vec<(i64, Sighting)>, u64) {
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
        controls.push((view.temp_id, sighting));
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
