//! The interpreter: plays tasks on a simulated device, screen by screen, with noise on request.

use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::SampleError;
use super::layout::{Canvas, Overlay, Place, Scene, Shown, shown};
use super::world::{App, Bindings, Device, Do, Plan, Role, Template, World, fill};
use crate::action::Direction;

/// What disturbs an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Noise {
    /// A dialog comes up and is dismissed.
    Popup,
    /// A wrong element is taken, then the way back.
    Detour,
    /// The act has no effect and is repeated.
    Retry,
    /// The screen is still loading.
    Wait,
    /// Down and up again, to look around.
    Scroll,
}

impl Noise {
    /// Every kind, in declaration order.
    pub const ALL: [Self; 5] = [Self::Popup, Self::Detour, Self::Retry, Self::Wait, Self::Scroll];

    /// The name in `truth.jsonl`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Popup => "popup",
            Self::Detour => "detour",
            Self::Retry => "retry",
            Self::Wait => "wait",
            Self::Scroll => "scroll",
        }
    }
}

/// Why a move is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// A step of the template; `optional` ones are not in its canonical sequence.
    Task {
        optional: bool,
    },
    /// The application is started.
    Open,
    /// The way from one application to the next.
    Transition,
    Noise(Noise),
    /// The task is declared finished.
    Terminal,
}

/// The device's own acts besides those of [`Do`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Do(Do),
    Home,
    Recents,
    Back,
    Complete,
}

/// One act and the scene it acts on.
#[derive(Debug, Clone)]
pub(super) struct Move<'w> {
    pub scene: Scene,
    pub act: Act,
    pub target: Option<Shown<'w>>,
    /// Typed, copied or pasted text, or the key.
    pub text: Option<String>,
    /// Position in [`Played::segments`].
    pub segment: usize,
    pub why: Why,
    /// Canonical predicate; empty for the terminal move.
    pub verb: &'static str,
}

/// A task of an episode, in the words chosen for it.
#[derive(Debug)]
pub(super) struct Segment<'w> {
    pub template: &'w Template,
    pub app: &'w App,
    pub goal: String,
}

/// An episode, played to its end.
#[derive(Debug)]
pub(super) struct Played<'w> {
    pub bind: Bindings,
    pub segments: Vec<Segment<'w>>,
    pub moves: Vec<Move<'w>>,
}

/// Plays one to three tasks in a row.
pub(super) fn play<'w>(
    world: &'w World,
    canvas: Canvas,
    noisy: bool,
    rng: &mut ChaCha8Rng,
) -> Result<Played<'w>, SampleError> {
    let templates = choose_templates(world, rng);
    let bind = bind(world, rng);
    let noise = if noisy { plan_noise(world, &templates, rng) } else { Vec::new() };
    let mut walker = Walker::new(world, canvas, &bind, rng);
    for (segment, template) in templates.iter().enumerate() {
        walker.segment = segment;
        walker.enter(template.app_index);
        walker.run(template, |step| {
            noise.iter().find(|n| (n.segment, n.step) == (segment, step)).map(|n| n.kind)
        })?;
    }
    walker.push(Act::Complete, None, None, Why::Terminal, "");
    let mut moves = walker.moves;
    if world.device == Device::Desktop {
        moves.retain(|m| m.why != Why::Terminal);
    }
    let segments = templates
        .iter()
        .map(|template| Segment {
            template,
            app: &world.apps[template.app_index],
            goal: template.phrasings.choose(rng).map(|p| fill(p, &bind)).unwrap_or_default(),
        })
        .collect();
    Ok(Played { bind, segments, moves })
}

/// Plays every template alone and without noise: a table whose steps name elements that are not
/// on the screen fails here.
pub(super) fn check(world: &World, canvas: Canvas, rng: &mut ChaCha8Rng) -> Result<(), SampleError> {
    for template in &world.templates {
        let bind = bind(world, rng);
        let mut walker = Walker::new(world, canvas, &bind, rng);
        walker.enter(template.app_index);
        walker.all_steps = true;
        walker.run(template, |_| None)?;
        let commits = |m: &Move| m.target.as_ref().is_some_and(Shown::commits);
        if let Some(early) = walker.moves.iter().rev().skip(1).find(|m| commits(m)) {
            let label = early.target.as_ref().map_or("", |t| t.label.as_str());
            let why = format!("template `{}`: `{label}` finishes the task before its end", template.id);
            return Err(SampleError::world(world.device, why));
        }
    }
    Ok(())
}

/// One value of each pool.
fn bind(world: &World, rng: &mut ChaCha8Rng) -> Bindings {
    let value = |pool: &[String], rng: &mut ChaCha8Rng| pool.choose(rng).cloned().unwrap_or_default();
    world.pool.iter().map(|(name, pool)| (name.clone(), value(pool, rng))).collect()
}

/// One to three different tasks; on the desktop neighbours use different applications, as nothing
/// else in a log would tell where one ends.
fn choose_templates<'w>(world: &'w World, rng: &mut ChaCha8Rng) -> Vec<&'w Template> {
    let wanted = *[1, 1, 2, 2, 2, 3].choose(rng).unwrap_or(&1);
    let mut order: Vec<_> = world.templates.iter().collect();
    order.shuffle(rng);
    let mut chosen: Vec<&Template> = Vec::with_capacity(wanted);
    for template in order {
        let same_app = chosen.last().is_some_and(|last| last.app_index == template.app_index);
        if world.device == Device::Phone || !same_app {
            chosen.push(template);
        }
        if chosen.len() == wanted {
            break;
        }
    }
    chosen
}

/// Noise of `kind` before a step of a segment.
struct Disturbance {
    segment: usize,
    step: usize,
    kind: Noise,
}

fn plan_noise(world: &World, templates: &[&Template], rng: &mut ChaCha8Rng) -> Vec<Disturbance> {
    let count = if rng.random_bool(0.3) { 2 } else { 1 };
    let kinds: &[Noise] = match world.device {
        Device::Phone => &Noise::ALL,
        Device::Desktop => &[Noise::Popup, Noise::Detour, Noise::Retry, Noise::Scroll],
    };
    (0..count)
        .map(|_| {
            let segment = rng.random_range(0..templates.len());
            // An optional step may be left out, and its noise with it.
            let steps: Vec<_> = (0..templates[segment].plan.len())
                .filter(|k| !templates[segment].plan[*k].optional)
                .collect();
            let step = *steps.choose(rng).unwrap_or(&0);
            Disturbance { segment, step, kind: *kinds.choose(rng).unwrap_or(&Noise::Popup) }
        })
        .collect()
}

struct Walker<'w, 'a> {
    world: &'w World,
    canvas: Canvas,
    bind: &'a Bindings,
    rng: &'a mut ChaCha8Rng,
    scene: Scene,
    segment: usize,
    /// Takes every optional step.
    all_steps: bool,
    moves: Vec<Move<'w>>,
}

impl<'w, 'a> Walker<'w, 'a> {
    fn new(world: &'w World, canvas: Canvas, bind: &'a Bindings, rng: &'a mut ChaCha8Rng) -> Self {
        let scene = Scene { place: Place::Home, page: 0, overlay: None, focus: None, values: Vec::new() };
        Self { world, canvas, bind, rng, scene, segment: 0, all_steps: false, moves: Vec::new() }
    }

    fn push(
        &mut self,
        act: Act,
        target: Option<Shown<'w>>,
        text: Option<String>,
        why: Why,
        verb: &'static str,
    ) {
        let scene = self.scene.clone();
        self.moves.push(Move { scene, act, target, text, segment: self.segment, why, verb });
    }

    fn visible(&self) -> (Vec<Shown<'w>>, usize) {
        shown(self.world, &self.scene, self.bind, self.canvas)
    }

    /// Brings the application to its first screen, from the home screen or the recent ones.
    fn enter(&mut self, app: usize) {
        if self.world.device == Device::Phone {
            if self.scene.place != Place::Home {
                let recents = self.rng.random_bool(0.25);
                let act = if recents { Act::Recents } else { Act::Home };
                self.push(act, None, None, Why::Transition, "switch_focus");
                self.scene.place = if recents { Place::Recents { app } } else { Place::Home };
                self.scene.page = 0;
            }
            let name = &self.world.apps[app].name;
            let icon = self.visible().0.into_iter().find(|e| e.label == *name);
            self.push(Act::Do(Do::Tap), icon, None, Why::Open, "open");
        }
        self.scene.values.clear();
        self.go(app, 0);
    }

    fn go(&mut self, app: usize, screen: usize) {
        self.scene.place = Place::App { app, screen };
        self.scene.page = 0;
        self.scene.focus.clone_from(&self.world.apps[app].screens[screen].focus);
    }

    fn run(
        &mut self,
        template: &'w Template,
        noise: impl Fn(usize) -> Option<Noise>,
    ) -> Result<(), SampleError> {
        for (index, plan) in template.plan.iter().enumerate() {
            if plan.optional && !self.all_steps && !self.rng.random_bool(0.25) {
                continue;
            }
            let fail = |why: String| {
                let step = &template.steps[index];
                SampleError::world(self.world.device, format!("template `{}`, `{step}`: {why}", template.id))
            };
            let arg = fill(&plan.arg, self.bind);
            let target = if plan.has_target() { Some(self.find(&arg).map_err(fail)?) } else { None };
            if plan.act == Do::Type && self.focus_target().is_none() {
                return Err(fail("no field has the cursor".to_owned()));
            }
            if let Some(kind) = noise(index) {
                self.disturb(kind, plan, target.as_ref());
            }
            self.step(plan, arg, target);
        }
        Ok(())
    }

    fn find(&self, label: &str) -> Result<Shown<'w>, String> {
        let (all, _) = self.visible();
        let mut found = all.iter().filter(|e| e.label == label && e.role != Role::Text);
        found.next().cloned().ok_or_else(|| {
            let labels: Vec<_> = all.iter().map(|e| e.label.as_str()).collect();
            format!("no element `{label}` on the screen, which shows {}", labels.join(", "))
        })
    }

    fn focus_target(&self) -> Option<Shown<'w>> {
        let focus = self.scene.focus.as_ref()?;
        self.visible().0.into_iter().find(|e| e.label == *focus)
    }

    fn step(&mut self, plan: &Plan, arg: String, target: Option<Shown<'w>>) {
        let why = Why::Task { optional: plan.optional };
        let act = Act::Do(plan.act);
        match plan.act {
            Do::Scroll(direction) => {
                self.push(act, None, None, why, plan.verb());
                self.scroll(direction);
            }
            Do::Type | Do::Copy | Do::Paste | Do::Key => {
                let focus = self.focus_target();
                self.push(act, focus, Some(arg.clone()), why, plan.verb());
                if matches!(plan.act, Do::Type | Do::Paste) {
                    self.write(arg);
                }
            }
            _ => {
                self.push(act, target.clone(), None, why, plan.verb());
                if let Some(target) = target {
                    self.take(plan.act, &target);
                }
            }
        }
    }

    fn scroll(&mut self, direction: Direction) {
        let pages = self.visible().1;
        self.scene.page = match direction {
            Direction::Down => (self.scene.page + 1).min(pages - 1),
            _ => self.scene.page.saturating_sub(1),
        };
    }

    fn write(&mut self, text: String) {
        let (Place::App { screen, .. }, Some(focus)) = (self.scene.place, self.scene.focus.clone()) else {
            return;
        };
        self.scene.values.retain(|(s, label, _)| *s != screen || *label != focus);
        self.scene.values.push((screen, focus, text));
    }

    /// The effect of acting on an element.
    fn take(&mut self, act: Do, target: &Shown<'w>) {
        let Place::App { app, screen } = self.scene.place else { return };
        match target.role {
            Role::Field | Role::Cell => self.scene.focus = Some(target.label.clone()),
            Role::Switch | Role::Check | Role::Radio | Role::Option => {
                let value = "on".to_owned();
                self.scene.values.push((screen, target.label.clone(), value));
            }
            _ => {}
        }
        let hold = matches!(act, Do::Long | Do::Right);
        let to = if hold { target.element.and_then(|e| e.hold.as_deref()) } else { target.to() };
        if let Some(screen) = to.and_then(|id| self.world.apps[app].screen(id)) {
            self.go(app, screen);
        }
    }

    /// Makes the noise, or a pop-up where the wanted kind cannot happen.
    fn disturb(&mut self, kind: Noise, plan: &Plan, target: Option<&Shown<'w>>) {
        let done = match kind {
            Noise::Popup => false,
            Noise::Wait => {
                self.overlay(Overlay::Loading, "Loading", Noise::Wait, "wait");
                true
            }
            Noise::Scroll => {
                self.look_around();
                true
            }
            Noise::Retry => self.retry(plan, target),
            Noise::Detour => target.is_some_and(|t| self.detour(t)),
        };
        if !done {
            let index = self.rng.random_range(0..self.world.popups.len());
            let label = &self.world.popups[index].buttons[0];
            self.overlay(Overlay::Popup(index), label, Noise::Popup, "click");
        }
    }

    fn overlay(&mut self, overlay: Overlay, label: &str, kind: Noise, verb: &'static str) {
        self.scene.overlay = Some(overlay);
        let target = self.visible().0.into_iter().find(|e| e.modal && e.label == label);
        self.push(Act::Do(Do::Tap), target, None, Why::Noise(kind), verb);
        self.scene.overlay = None;
    }

    fn look_around(&mut self) {
        let page = self.scene.page;
        for direction in [Direction::Down, Direction::Up] {
            self.push(Act::Do(Do::Scroll(direction)), None, None, Why::Noise(Noise::Scroll), "scroll");
            self.scroll(direction);
        }
        self.scene.page = page;
    }

    fn retry(&mut self, plan: &Plan, target: Option<&Shown<'w>>) -> bool {
        let Some(target) = target.filter(|t| !t.commits()) else { return false };
        let why = Why::Noise(Noise::Retry);
        self.push(Act::Do(plan.act), Some(target.clone()), None, why, plan.verb());
        true
    }

    /// Takes an element that leads elsewhere, then the way back.
    fn detour(&mut self, right: &Shown<'w>) -> bool {
        let Place::App { app, .. } = self.scene.place else { return false };
        if self.world.device == Device::Desktop && !self.world.apps[app].back {
            return self.misclick(right);
        }
        // Not the other entries of a list: what they lead to would have to be about them.
        let leads_away = |e: &Shown| {
            e.label != right.label
                && e.element.is_some_and(|e| e.to.is_some() && e.list.is_none() && !e.commit)
        };
        let wrong: Vec<_> = self.visible().0.into_iter().filter(leads_away).collect();
        let Some(wrong) = wrong.choose(self.rng).cloned() else { return false };
        let before = self.scene.clone();
        let why = Why::Noise(Noise::Detour);
        self.push(Act::Do(Do::Tap), Some(wrong.clone()), None, why, "click");
        self.take(Do::Tap, &wrong);
        let back = self.visible().0.into_iter().find(|e| e.role == Role::Tool && e.label == "Back");
        self.push(Act::Back, back, None, why, "back");
        self.scene = before;
        true
    }

    /// Takes a neighbour of the same role, without consequences.
    fn misclick(&mut self, right: &Shown<'w>) -> bool {
        let harmless =
            |e: &Shown| e.role == right.role && e.label != right.label && !e.commits() && e.to().is_none();
        let wrong: Vec<_> = self.visible().0.into_iter().filter(harmless).collect();
        let Some(wrong) = wrong.choose(self.rng).cloned() else { return false };
        self.push(Act::Do(Do::Tap), Some(wrong), None, Why::Noise(Noise::Detour), "click");
        true
    }
}
