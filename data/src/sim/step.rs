//! The simulated applications, one act at a time: a state that takes an act and answers with the new screen.
//!
//! The corpus is written by [`super::walk`], which this module leaves alone; both move through the same scenes. What a
//! task template asks for is known here and nowhere else: [`Simulator::achieved`] tells whether it was done, from the
//! effects of what was done, not from the way that led there.

use std::collections::BTreeMap;

use super::layout::{Canvas, Overlay, Place, Scene, Shown, shown};
use super::odyssey::PHONES;
use super::world::{Bindings, Device, Do, Role, Template, World, fill};
use super::{SampleError, uilog};
use crate::action::{Direction, ScreenSize};
use crate::trace::{Element, Screen};

/// Something done to the simulated device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimAct {
    /// A tap or click on the element of this label.
    Tap(String),
    /// Two clicks.
    Double(String),
    /// The secondary button.
    Right(String),
    /// Tap and hold.
    Long(String),
    /// An option of a list.
    Select(String),
    /// Text into the field that has the cursor.
    Type(String),
    /// The content is scrolled.
    Scroll(Direction),
    /// What was touched last is copied.
    Copy,
    /// This text, or what was copied, into the field that has the cursor.
    Paste(Option<String>),
    /// A key or a combination.
    Key(String),
    /// An application is started by name, or brought to the front.
    Open(String),
    /// The home screen.
    Home,
    /// The list of recent applications.
    Recents,
    /// The screen before.
    Back,
    /// Nothing.
    Wait,
}

/// Why an act had no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No such element on the screen.
    #[error("no element `{0}` on the screen")]
    NoElement(String),
    /// A dialog lies over what was meant.
    #[error("a dialog covers `{0}`")]
    Covered(String),
    /// Text was typed and no field has the cursor.
    #[error("no field has the cursor")]
    NoFocus,
    /// No such application.
    #[error("no application `{0}`")]
    NoApp(String),
    /// Nothing to go back to, nothing to paste.
    #[error("there is nothing to {0}")]
    Nothing(&'static str),
}

/// The two simulated devices.
#[derive(Debug)]
pub struct Simulation {
    phone: World,
    desktop: World,
}

/// What an act changed, as far as a task may ask for it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Effect {
    kind: EffectKind,
    app: usize,
    screen: usize,
    /// Finishes a task.
    commits: bool,
    /// A task that has it in its steps cannot do without.
    essential: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum EffectKind {
    Tapped(String),
    Doubled(String),
    Held(String),
    Set(String),
    Wrote(String, String),
    Copied(String),
    Pressed(String),
    Scrolled,
}

/// One device in use.
#[derive(Debug, Clone)]
pub struct Simulator<'w> {
    world: &'w World,
    canvas: Canvas,
    bind: Bindings,
    scene: Scene,
    history: Vec<Scene>,
    touched: Option<String>,
    clipboard: Option<String>,
    effects: Vec<Effect>,
    acts: usize,
    popups: BTreeMap<usize, usize>,
}

impl Simulation {
    /// Both worlds, from the tables built into the program.
    ///
    /// # Errors
    /// Tables that contradict themselves.
    pub fn load() -> Result<Self, SampleError> {
        Ok(Self { phone: World::load(Device::Phone)?, desktop: World::load(Device::Desktop)? })
    }

    fn world(&self, platform: &str) -> Option<&World> {
        [&self.phone, &self.desktop].into_iter().find(|w| w.device.name() == platform)
    }

    /// A device (`phone` or `desktop`) on its home screen. `params` are the values of the tasks' parameters; what it
    /// leaves out has the first value of its pool.
    pub fn start(&self, platform: &str, params: &BTreeMap<String, String>) -> Option<Simulator<'_>> {
        let world = self.world(platform)?;
        let value = |name: &String, pool: &Vec<String>| params.get(name).or(pool.first()).cloned();
        let bind = world
            .pool
            .iter()
            .map(|(name, pool)| (name.clone(), value(name, pool).unwrap_or_default()))
            .collect();
        let canvas = if world.device == Device::Phone { PHONES[0].canvas } else { uilog::CANVAS };
        Some(Simulator {
            world,
            canvas,
            bind,
            scene: Scene { place: Place::Home, page: 0, overlay: None, focus: None, values: Vec::new() },
            history: Vec::new(),
            touched: None,
            clipboard: None,
            effects: Vec::new(),
            acts: 0,
            popups: BTreeMap::new(),
        })
    }
}

impl<'w> Simulator<'w> {
    /// Lets a dialog come up before the act number `at`, from 0: number `which` of the world's own.
    pub fn popup_before(&mut self, at: usize, which: usize) {
        self.popups.insert(at, which % self.world.popups.len().max(1));
        self.surprise();
    }

    /// The application in front; none on the home screen.
    pub fn app(&self) -> Option<&'w str> {
        match self.scene.place {
            Place::App { app, .. } => Some(self.world.apps[app].name.as_str()),
            _ => None,
        }
    }

    /// Names of all applications.
    pub fn apps(&self) -> impl Iterator<Item = &'w str> {
        self.world.apps.iter().map(|app| app.name.as_str())
    }

    /// Label of the field that has the cursor.
    pub fn focus(&self) -> Option<&str> {
        self.scene.focus.as_deref()
    }

    /// Whether a dialog lies over the screen.
    pub fn is_covered(&self) -> bool {
        self.scene.overlay.is_some()
    }

    /// How often the device has answered to an act so far, refusals included.
    pub fn acts(&self) -> usize {
        self.acts
    }

    /// The screen: what can be reached first to last; of a dialog's screen only the dialog.
    pub fn screen(&self) -> Screen {
        let (all, _) = shown(self.world, &self.scene, &self.bind, self.canvas);
        let reachable = all.iter().filter(|e| e.modal || self.scene.overlay.is_none());
        let element = |(i, e): (usize, &Shown)| Element {
            id: i.to_string(),
            role: role_name(e.role).to_owned(),
            text: e.label.clone(),
            states: e.value.iter().map(|v| format!("value={v}")).collect(),
            bbox: None,
        };
        Screen {
            size: Some(ScreenSize { width_px: self.canvas.w as u32, height_px: self.canvas.h as u32 }),
            elements: reachable.enumerate().map(element).collect(),
            ..Screen::default()
        }
    }

    /// Does something.
    ///
    /// # Errors
    /// [`Refused`] when it has no effect; the state is then as it was.
    pub fn act(&mut self, act: &SimAct) -> Result<(), Refused> {
        self.acts += 1;
        let done = self.carry_out(act);
        self.surprise();
        done
    }

    fn surprise(&mut self) {
        let in_app = matches!(self.scene.place, Place::App { .. });
        if let Some(&which) = self.popups.get(&self.acts).filter(|_| in_app && self.scene.overlay.is_none()) {
            self.scene.overlay = Some(Overlay::Popup(which));
        }
    }

    fn carry_out(&mut self, act: &SimAct) -> Result<(), Refused> {
        match act {
            SimAct::Tap(label) => self.touch(Do::Tap, label),
            SimAct::Double(label) => self.touch(Do::Double, label),
            SimAct::Right(label) => self.touch(Do::Right, label),
            SimAct::Long(label) => self.touch(Do::Long, label),
            SimAct::Select(label) => self.touch(Do::Select, label),
            SimAct::Type(text) => self.write(text.clone()),
            SimAct::Paste(text) => {
                let text = text.clone().or(self.clipboard.clone()).ok_or(Refused::Nothing("paste"))?;
                self.write(text)
            }
            SimAct::Copy => {
                let text = self.touched.clone().ok_or(Refused::Nothing("copy"))?;
                self.clipboard = Some(text.clone());
                self.log(EffectKind::Copied(text), false, true);
                Ok(())
            }
            SimAct::Key(key) => {
                self.uncovered(key)?;
                self.log(EffectKind::Pressed(key.to_lowercase()), false, true);
                Ok(())
            }
            SimAct::Scroll(direction) => {
                self.uncovered("the content")?;
                let pages = shown(self.world, &self.scene, &self.bind, self.canvas).1;
                self.scene.page = match direction {
                    Direction::Down => (self.scene.page + 1).min(pages - 1),
                    Direction::Up => self.scene.page.saturating_sub(1),
                    _ => self.scene.page,
                };
                self.log(EffectKind::Scrolled, false, false);
                Ok(())
            }
            SimAct::Open(name) => {
                let same = |app: &str| app.eq_ignore_ascii_case(name);
                let found = self.world.apps.iter().position(|a| same(&a.name) || same(&a.process));
                let app = found.ok_or_else(|| Refused::NoApp(name.clone()))?;
                self.enter(app);
                Ok(())
            }
            SimAct::Home => {
                self.leave(Place::Home);
                Ok(())
            }
            SimAct::Recents => {
                let app = if let Place::App { app, .. } = self.scene.place { app } else { 0 };
                self.leave(Place::Recents { app });
                Ok(())
            }
            SimAct::Back => {
                let before = self.history.pop().ok_or(Refused::Nothing("go back to"))?;
                let values = std::mem::take(&mut self.scene.values);
                self.scene = Scene { values, overlay: None, ..before };
                Ok(())
            }
            SimAct::Wait => Ok(()),
        }
    }

    fn uncovered(&self, what: &str) -> Result<(), Refused> {
        if self.scene.overlay.is_some() { Err(Refused::Covered(what.to_owned())) } else { Ok(()) }
    }

    fn leave(&mut self, place: Place) {
        self.history.clear();
        self.scene = Scene { place, page: 0, overlay: None, focus: None, values: Vec::new() };
    }

    fn enter(&mut self, app: usize) {
        self.history.clear();
        self.scene.values.clear();
        self.scene.overlay = None;
        self.go(app, 0);
    }

    fn go(&mut self, app: usize, screen: usize) {
        self.scene.place = Place::App { app, screen };
        self.scene.page = 0;
        self.scene.focus.clone_from(&self.world.apps[app].screens[screen].focus);
    }

    fn find(&self, label: &str) -> Result<Shown<'w>, Refused> {
        let (all, _) = shown(self.world, &self.scene, &self.bind, self.canvas);
        let fits = |e: &&Shown| e.role != Role::Text && e.label.trim().eq_ignore_ascii_case(label.trim());
        let mut found: Vec<&Shown> = all.iter().filter(fits).collect();
        found.sort_by_key(|e| e.label != label);
        let covered = self.scene.overlay.is_some();
        match found.iter().find(|e| e.modal || !covered) {
            Some(element) => Ok((*element).clone()),
            None if found.is_empty() => Err(Refused::NoElement(label.to_owned())),
            None => Err(Refused::Covered(label.to_owned())),
        }
    }

    fn touch(&mut self, act: Do, label: &str) -> Result<(), Refused> {
        let target = self.find(label)?;
        if target.modal {
            self.scene.overlay = None;
            return Ok(());
        }
        let Place::App { app, screen } = self.scene.place else {
            let app = self.world.apps.iter().position(|a| a.name == target.label);
            self.enter(app.ok_or_else(|| Refused::NoElement(label.to_owned()))?);
            return Ok(());
        };
        self.touched = Some(target.label.clone());
        let sets = matches!(target.role, Role::Switch | Role::Check | Role::Radio | Role::Option);
        let name = target.label.clone();
        let (kind, essential) = match act {
            Do::Double => (EffectKind::Doubled(name), true),
            Do::Right | Do::Long => (EffectKind::Held(name), true),
            _ if sets => (EffectKind::Set(name), true),
            // Which entry of a list it was, or which value's element: another one is another task.
            _ => (EffectKind::Tapped(name), target.element.is_some_and(|e| e.label.contains('{'))),
        };
        self.log(kind, target.commits(), essential);
        match target.role {
            Role::Field | Role::Cell => self.scene.focus = Some(target.label.clone()),
            _ if sets => self.scene.values.push((screen, target.label.clone(), "on".to_owned())),
            _ => {}
        }
        let holds = matches!(act, Do::Long | Do::Right);
        let to = if holds { target.element.and_then(|e| e.hold.as_deref()) } else { target.to() };
        if let Some(next) = to.and_then(|id| self.world.apps[app].screen(id)) {
            self.history.push(self.scene.clone());
            self.go(app, next);
        }
        Ok(())
    }

    fn write(&mut self, text: String) -> Result<(), Refused> {
        self.uncovered("the field")?;
        let (Place::App { screen, .. }, Some(focus)) = (self.scene.place, self.scene.focus.clone()) else {
            return Err(Refused::NoFocus);
        };
        self.scene.values.retain(|(s, label, _)| *s != screen || *label != focus);
        self.scene.values.push((screen, focus.clone(), text.clone()));
        self.log(EffectKind::Wrote(focus, text), false, true);
        Ok(())
    }

    fn log(&mut self, kind: EffectKind, commits: bool, essential: bool) {
        let (app, screen) = match self.scene.place {
            Place::App { app, screen } => (app, screen),
            _ => (usize::MAX, usize::MAX),
        };
        self.effects.push(Effect { kind, app, screen, commits, essential });
    }

    /// Whether all of these templates (`clock.alarm`) were carried out with the values of this device: everything that
    /// they write, set, hold, copy, press or tap by value was done, then their last step, and no task was finished
    /// that they do not ask for. Optional steps and the way through the screens are left to whoever acts. `None` for
    /// an unknown template.
    pub fn achieved(&self, templates: &[&str]) -> Option<bool> {
        let mut wanted_commits = Vec::new();
        let mut all = true;
        for id in templates {
            let template = self.world.templates.iter().find(|t| t.id == *id)?;
            let reference = self.reference(template);
            all &= self.holds(&reference);
            wanted_commits.extend(reference.into_iter().filter(|e| e.commits));
        }
        let stray = self.effects.iter().filter(|e| e.commits).any(|e| !wanted_commits.contains(e));
        Some(all && !stray)
    }

    /// Effects of a template's own steps, the optional ones left out.
    fn reference(&self, template: &Template) -> Vec<Effect> {
        let mut fresh = Simulator {
            scene: Scene { place: Place::Home, page: 0, overlay: None, focus: None, values: Vec::new() },
            history: Vec::new(),
            touched: None,
            clipboard: None,
            effects: Vec::new(),
            acts: 0,
            popups: BTreeMap::new(),
            ..self.clone()
        };
        fresh.enter(template.app_index);
        for plan in template.plan.iter().filter(|p| !p.optional) {
            let arg = fill(&plan.arg, &self.bind);
            let act = match plan.act {
                Do::Tap => SimAct::Tap(arg),
                Do::Double => SimAct::Double(arg),
                Do::Right => SimAct::Right(arg),
                Do::Long => SimAct::Long(arg),
                Do::Select => SimAct::Select(arg),
                Do::Type => SimAct::Type(arg),
                Do::Scroll(direction) => SimAct::Scroll(direction),
                Do::Copy => SimAct::Copy,
                Do::Paste => SimAct::Paste(Some(arg)),
                Do::Key => SimAct::Key(arg),
            };
            // `check` has played every template: nothing is refused.
            let _ = fresh.act(&act);
        }
        fresh.effects
    }

    fn holds(&self, reference: &[Effect]) -> bool {
        let Some((last, before)) = reference.split_last() else { return true };
        let ends = self.effects.iter().enumerate().filter(|(_, e)| *e == last).map(|(i, _)| i);
        let needed: Vec<&Effect> = before.iter().filter(|e| e.essential).collect();
        ends.into_iter().any(|end| needed.iter().all(|effect| self.effects[..end].contains(effect)))
    }
}

/// What a screen calls an element: roles of the simulated world by their usual names.
fn role_name(role: Role) -> &'static str {
    match role {
        Role::Text => "text",
        Role::Field => "input",
        Role::Switch => "switch",
        Role::Check => "checkbox",
        Role::Radio => "radio",
        Role::Option => "option",
        Role::Tab => "tab",
        Role::Link => "link",
        Role::Cell => "cell",
        Role::Menu => "menu item",
        Role::Icon | Role::Card => "icon",
        Role::Row | Role::Item | Role::Side => "list item",
        Role::Button | Role::Action | Role::Fab | Role::Tool => "button",
    }
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
