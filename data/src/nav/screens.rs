//! Traces as a source of the graph: differences between the screens before and after each action.
//!
//! A control's ancestors are its screen's name. Screens with the same name, or with enough controls in common
//! (Jaccard, [`BuildOptions::screen_similarity`](super::BuildOptions)), are one group, which keeps the name of its
//! first screen: the window's title, the site, or else the text of its first label (its first text where it has no
//! label), with digits as `#`. What an action reveals are the controls of the screen after it that were not on the
//! screen before. The screen after is the next step's, since a trace says nothing else ([`Flag::BySequence`]).
//!
//! Actions without a control: a scroll or a key adds to what opened its screen ([`Flag::Indirect`]); home, an
//! application or an address opened begin at the root; the way back is [`Flag::Back`].

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::build::{GraphBuilder, Reveal, Sighting};
use super::graph::{Clicks, Flag, Place, ROOT, ScreenGroup};
use super::id::ControlId;
use super::kind::Kind;
use crate::action::{Action, BBox, Position, Verb};
use crate::trace::{Element, Episode, EpisodeRow, RejectKind, StepRow};

/// Characters of a screen's name.
const NAME_CHARS: usize = 40;

/// One step as the graph sees it.
#[derive(Debug, Clone)]
pub struct TraceStep {
    /// Where it stands in its source.
    pub key: String,
    /// What was done.
    pub action: Action,
    /// What the screen before it shows.
    pub elements: Vec<Element>,
    /// Application in front.
    pub app: Option<String>,
    /// Title of the window in front, or the site.
    pub window: Option<String>,
}

/// Reads traces into a graph.
#[derive(Debug, Default)]
pub struct TraceReader {
    /// Groups by application and name.
    named: HashMap<(u32, String), usize>,
    /// Groups that have a control, by application, role and name.
    holding: HashMap<(u32, String, String), Vec<usize>>,
    sizes: Vec<usize>,
    /// Screens by their exact content.
    variants: HashMap<(u32, String), usize>,
    /// The control that first opened each group.
    opener: HashMap<usize, u32>,
}

/// The clicks that led from the first screen to the present one. A screen that comes again ends what was clicked
/// since it was there.
#[derive(Debug)]
pub(super) struct Way<S>(Vec<(S, u32)>);

impl<S> Default for Way<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: PartialEq> Way<S> {
    /// The present screen is `screen`.
    pub(super) fn arrive(&mut self, screen: S) {
        if let Some(at) = self.0.iter().position(|(left, _)| *left == screen) {
            self.0.truncate(at);
        }
    }

    /// `control` of `screen` was clicked; the way to it and the click.
    pub(super) fn click(&mut self, screen: S, control: u32) -> Clicks {
        self.0.push((screen, control));
        self.0.iter().map(|(_, control)| *control).collect()
    }
}

/// A screen as the graph has it.
#[derive(Debug, Clone)]
struct Seen {
    group: usize,
    state: String,
    /// Element ids of the source → control.
    controls: Vec<(usize, u32)>,
}

impl TraceReader {
    /// Reads an episode.
    pub fn episode(&mut self, builder: &mut GraphBuilder, episode: &Episode) {
        let app = episode.apps.first().cloned();
        let steps: Vec<TraceStep> = { episode.steps.iter() }
            .map(|step| TraceStep {
                key: step.source_key.clone(),
                action: step.action.clone(),
                elements: step.screen.elements.clone(),
                app: step.app.clone().or_else(|| app.clone()),
                window: step.window.clone().or_else(|| step.site.clone()),
            })
            .collect();
        self.steps(builder, &episode.source, &episode.source_key, &steps);
    }

    /// Reads an episode as it lies in a run's traces.
    pub fn rows(&mut self, builder: &mut GraphBuilder, episode: &EpisodeRow, rows: &[StepRow]) {
        let mut steps = Vec::with_capacity(rows.len());
        for row in rows {
            let place = Place::new(&episode.source, row.source_key.clone());
            let verb = match row.verb() {
                Ok(verb) => verb,
                Err(reason) => {
                    let reason = format!("{reason}; run `ingest` again with this version");
                    builder.reject(place, RejectKind::OutOfRange, reason);
                    continue;
                }
            };
            let mut action = Action::new(verb, row.source_verb.clone());
            action.point = row.point;
            action.target.name.clone_from(&row.target_name);
            action.target.role.clone_from(&row.target_role);
            action.target.element.clone_from(&row.target_element);
            steps.push(TraceStep {
                key: row.source_key.clone(),
                action,
                elements: row.elements.clone(),
                app: row.app.clone().or_else(|| Some(episode.app.clone()).filter(|a| !a.is_empty())),
                window: row.window.clone().or_else(|| row.site.clone()),
            });
        }
        self.steps(builder, &episode.source, &episode.source_key, &steps);
    }

    fn steps(&mut self, builder: &mut GraphBuilder, file: &str, key: &str, steps: &[TraceStep]) {
        builder.count("episodes", 1);
        let blank = steps.iter().filter(|s| s.elements.is_empty() && !s.action.verb.is_terminal()).count();
        if blank > 0 {
            builder.count("steps_without_elements", blank as u64);
            let reason = format!(
                "{blank} of {} steps have screens without elements; only screens with elements show what an action reveals",
                steps.len()
            );
            builder.reject(Place::new(file, key), RejectKind::MissingField, reason);
        }
        let place = |step: &TraceStep| match key {
            "" => Place::new(file, step.key.clone()),
            key => Place::new(file, format!("{key} {}", step.key).trim_end()),
        };
        let seen: Vec<Option<Seen>> =
            steps.iter().map(|step| self.screen(builder, step, &place(step))).collect();
        let first = seen.iter().zip(steps).find_map(|(seen, step)| Some((seen.as_ref()?, step)));
        if let Some((screen, step)) = first {
            self.opener.entry(screen.group).or_insert(ROOT);
            for (_, to) in &screen.controls {
                let how = Reveal { action: "launch", after: Some(&screen.state), ..Reveal::default() };
                builder.reveal(ROOT, *to, &how, &place(step));
            }
        }
        let mut way = Way::default();
        for (i, step) in steps.iter().enumerate() {
            builder.count("steps", 1);
            builder.count("records", 1);
            if let Some(before) = &seen[i] {
                way.arrive(before.group);
                let after = seen.get(i + 1).and_then(Option::as_ref);
                self.act(builder, step, before, after, &place(step), &mut way);
            }
        }
    }

    /// One action: what it reveals on the screen after it.
    fn act(
        &mut self,
        builder: &mut GraphBuilder,
        step: &TraceStep,
        before: &Seen,
        after: Option<&Seen>,
        place: &Place,
        way: &mut Way<usize>,
    ) {
        let (from, flags): (u32, &[Flag]) = match step.action.verb {
            verb if verb.is_terminal() || verb == Verb::Wait => return,
            Verb::Home | Verb::Recents | Verb::OpenApp | Verb::SwitchWindow | Verb::Navigate => {
                *way = Way::default();
                (ROOT, &[Flag::BySequence])
            }
            Verb::Back => {
                let from = self.target(builder, step, before);
                (from.unwrap_or(self.opened_by(before)), &[Flag::Back, Flag::BySequence])
            }
            verb => match self.target(builder, step, before) {
                Some(from) => {
                    builder.clicks.push(way.click(before.group, from));
                    (from, &[Flag::BySequence])
                }
                None if names_a_control(verb) => {
                    builder.count("steps_without_target", 1);
                    let reason = "the control acted on is not among the screen's elements; what it revealed has no start";
                    builder.reject(place.clone(), RejectKind::OutOfRange, reason);
                    return;
                }
                None => (self.opened_by(before), &[Flag::BySequence, Flag::Indirect]),
            },
        };
        let Some(after) = after else { return };
        if !flags.contains(&Flag::Back) {
            self.opener.entry(after.group).or_insert(from);
        }
        let known: BTreeSet<u32> = before.controls.iter().map(|(_, control)| *control).collect();
        for to in after.controls.iter().map(|(_, control)| *control).filter(|c| !known.contains(c)) {
            let how = Reveal {
                action: step.action.verb.name(),
                window: None,
                flags,
                before: Some(&before.state),
                after: Some(&after.state),
            };
            builder.reveal(from, to, &how, place);
        }
    }

    fn opened_by(&self, screen: &Seen) -> u32 {
        self.opener.get(&screen.group).copied().unwrap_or(ROOT)
    }

    /// The control that a step acted on: by the element's id, else by name and role, else by the point.
    fn target(&self, builder: &mut GraphBuilder, step: &TraceStep, screen: &Seen) -> Option<u32> {
        let control = |at: usize| screen.controls.iter().find(|(element, _)| *element == at).map(|(_, c)| *c);
        let target = &step.action.target;
        if let Some(id) = &target.element
            && let Some(at) = step.elements.iter().position(|e| e.id == *id)
        {
            return control(at);
        }
        if let Some(name) = &target.name {
            let fits = |e: &Element| {
                name_of(e).0 == name.trim() && target.role.as_ref().is_none_or(|role| *role == e.role)
            };
            let mut places = step.elements.iter().enumerate().filter(|(_, e)| fits(e)).map(|(i, _)| i);
            if let (Some(at), None) = (places.next(), places.next()) {
                builder.count("targets_by_name", 1);
                return control(at);
            }
        }
        let at = under(step.action.point?, &step.elements)?;
        builder.count("targets_by_point", 1);
        control(at)
    }

    /// Notes a screen and its controls.
    fn screen(&mut self, builder: &mut GraphBuilder, step: &TraceStep, place: &Place) -> Option<Seen> {
        if step.elements.is_empty() {
            return None;
        }
        let app_name = step.app.as_deref().unwrap_or_default();
        let app = builder.app(app_name);
        let mut keys = BTreeSet::new();
        for element in &step.elements {
            keys.insert((element.role.clone(), name_of(element).0));
        }
        let state = state_of(&step.elements);
        let group = self.group(builder, app, step, &keys, &state, place);
        let name = builder.screens[group].name.clone();
        let mut times: BTreeMap<ControlId, u32> = BTreeMap::new();
        let mut controls = Vec::with_capacity(step.elements.len());
        for (at, element) in step.elements.iter().enumerate() {
            let (label, rest) = name_of(element);
            let id = ControlId::new(&label, &element.role, [&name]);
            // The same name and role again: told apart by their order, as the exploration logs do.
            let time = times.entry(id.clone()).or_default();
            *time += 1;
            let id = match *time {
                1 => id,
                n => ControlId::new(&label, &element.role, [format!("{name}#{n}")]),
            };
            let says = |word: &str| {
                element.states.iter().any(|s| {
                    s.eq_ignore_ascii_case(word)
                        || s.split_once('=').is_some_and(|(state, value)| {
                            state.eq_ignore_ascii_case(word) && value.eq_ignore_ascii_case("true")
                        })
                })
            };
            let disabled = element.states.iter().any(|s| {
                let s = s.to_lowercase();
                s == "disabled" || s == "enabled=false"
            });
            let sighting = Sighting {
                id,
                name: label,
                description: rest,
                patterns: Kind::of(&element.role).patterns(says),
                enabled: !disabled,
                selected: says("selected"),
                window: step.window.clone(),
                id_only: false,
            };
            controls.push((at, builder.see(app, sighting, app_name, place)));
        }
        Some(Seen { group, state, controls })
    }

    /// The group that a screen belongs to, made if there is none.
    fn group(
        &mut self,
        builder: &mut GraphBuilder,
        app: u32,
        step: &TraceStep,
        keys: &BTreeSet<(String, String)>,
        state: &str,
        place: &Place,
    ) -> usize {
        builder.count("screens", 1);
        if let Some(&group) = self.variants.get(&(app, state.to_owned())) {
            builder.screens[group].count += 1;
            return group;
        }
        let name = screen_name(step);
        let found = { self.named.get(&(app, name.clone())).copied() }
            .or_else(|| self.similar(app, keys, builder.options.screen_similarity));
        let group = found.unwrap_or_else(|| {
            builder.screens.push(ScreenGroup {
                name: name.clone(),
                app: step.app.clone().unwrap_or_default(),
                count: 0,
                variants: 0,
                first_seen: place.clone(),
            });
            let group = builder.screens.len() - 1;
            self.sizes.push(keys.len());
            self.named.insert((app, name), group);
            for (role, label) in keys {
                self.holding.entry((app, role.clone(), label.clone())).or_default().push(group);
            }
            group
        });
        builder.screens[group].count += 1;
        builder.screens[group].variants += 1;
        self.variants.insert((app, state.to_owned()), group);
        group
    }

    /// The group whose first screen has most in common with `keys`, if that is enough; the first of equals.
    fn similar(&self, app: u32, keys: &BTreeSet<(String, String)>, least: f64) -> Option<usize> {
        let mut common: BTreeMap<usize, usize> = BTreeMap::new();
        for (role, label) in keys {
            for &group in self.holding.get(&(app, role.clone(), label.clone())).into_iter().flatten() {
                *common.entry(group).or_default() += 1;
            }
        }
        let mut best: Option<(usize, f64)> = None;
        for (group, n) in common {
            let alike = n as f64 / (keys.len() + self.sizes[group] - n) as f64;
            if alike >= least && best.is_none_or(|(_, top)| alike > top) {
                best = Some((group, alike));
            }
        }
        best.map(|(group, _)| group)
    }
}

/// Whether an action of this kind is done to a control.
fn names_a_control(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::Click | Verb::DoubleClick | Verb::RightClick | Verb::LongPress | Verb::Select | Verb::Drag
    )
}

/// The first line of an element's text, which names it, and the other lines.
fn name_of(element: &Element) -> (String, String) {
    let mut lines = element.text.lines().map(str::trim).filter(|line| !line.is_empty());
    let name = lines.next().unwrap_or_default().to_owned();
    (name, lines.collect::<Vec<_>>().join(" "))
}

fn screen_name(step: &TraceStep) -> String {
    let label = || {
        let named = |e: &&Element| !name_of(e).0.is_empty();
        let is_label = |e: &&Element| Kind::of(&e.role) == Kind::Label && named(e);
        let first = step.elements.iter().find(is_label).or_else(|| step.elements.iter().find(named));
        first.map(|e| name_of(e).0)
    };
    let name = step.window.clone().filter(|w| !w.trim().is_empty()).or_else(label).unwrap_or_default();
    let mut out = String::new();
    for c in name.trim().chars().take(NAME_CHARS) {
        let c = if c.is_ascii_digit() { '#' } else { c };
        if !(c == '#' && out.ends_with('#')) {
            out.push(c);
        }
    }
    out
}

/// A screen's content as 16 hexadecimal digits: roles, texts and states, in order.
fn state_of(elements: &[Element]) -> String {
    let mut text = String::new();
    for element in elements {
        text.push_str(&format!(
            "{}\u{1f}{}\u{1f}{}\u{1e}",
            element.role,
            element.text,
            element.states.join("\u{1f}")
        ));
    }
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

/// The smallest element that holds a point of its own frame.
fn under(point: Position, elements: &[Element]) -> Option<usize> {
    let area = |b: &BBox| (b.right - b.left) * (b.bottom - b.top);
    let holds = |b: &BBox| {
        b.frame == point.frame
            && (b.left..=b.right).contains(&point.x)
            && (b.top..=b.bottom).contains(&point.y)
    };
    let inside =
        elements.iter().enumerate().filter_map(|(i, e)| Some((i, e.bbox.as_ref().filter(|b| holds(b))?)));
    inside.min_by(|a, b| area(a.1).total_cmp(&area(b.1))).map(|(i, _)| i)
}
