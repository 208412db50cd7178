//! Where the elements of a scene lie on the screen.

use super::world::{Bindings, Device, Element, LIST_LEN, Role, Screen, World, fill, listed};

/// A box in pixels of the canvas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rect {
    pub x: i32,
    pub y: i32,
    pub w: i32,
    pub h: i32,
}

/// Size of the canvas that a device's screens are laid out and drawn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Canvas {
    pub w: i32,
    pub h: i32,
}

/// What lies over a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlay {
    /// A dialog of [`World::popups`].
    Popup(usize),
    /// The sign that the screen is still loading.
    Loading,
}

/// Where the user is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Home,
    /// The list of recent applications, the given one among them.
    Recents {
        app: usize,
    },
    App {
        app: usize,
        screen: usize,
    },
}

/// The state of the device: what determines every element on its screen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scene {
    pub place: Place,
    /// How many screenfuls the content is scrolled.
    pub page: usize,
    pub overlay: Option<Overlay>,
    /// Field that has the cursor.
    pub focus: Option<String>,
    /// Texts in fields and states of switches: screen, label, value.
    pub values: Vec<(usize, String, String)>,
}

/// An element on the screen.
#[derive(Debug, Clone)]
pub(super) struct Shown<'w> {
    pub role: Role,
    pub label: String,
    pub value: Option<String>,
    pub rect: Rect,
    /// Address of a cell: `B3`.
    pub cell: Option<String>,
    /// Part of the dialog on top; what lies below cannot be reached.
    pub modal: bool,
    /// The table's entry, for elements of an application's screen.
    pub element: Option<&'w Element>,
    /// Screen a tap on a tab leads to.
    pub tab_to: Option<&'w str>,
}

impl<'w> Shown<'w> {
    /// Screen that a tap leads to.
    pub fn to(&self) -> Option<&'w str> {
        self.tab_to.or(self.element.and_then(|e| e.to.as_deref()))
    }

    /// True when a tap finishes a task.
    pub fn commits(&self) -> bool {
        self.element.is_some_and(|e| e.commit)
    }
}

/// Lower edge of the content area on the smallest phone; fixed, so that every device scrolls at
/// the same element.
const PHONE_FOLD: i32 = 560;
const PHONE_TOP: i32 = 88;
const DESKTOP_TOP: i32 = 88;
const DESKTOP_FOLD: i32 = 668;

/// Every element on the screen, back to front, and the number of screenfuls.
pub(super) fn shown<'w>(
    world: &'w World,
    scene: &Scene,
    bind: &Bindings,
    canvas: Canvas,
) -> (Vec<Shown<'w>>, usize) {
    let (mut all, pages) = match scene.place {
        Place::Home => (icons(world), 1),
        Place::Recents { app } => (cards(world, app), 1),
        Place::App { app, screen } => app_elements(world, scene, app, screen, bind, canvas),
    };
    match scene.overlay {
        Some(Overlay::Popup(index)) => dialog(world, index, canvas, &mut all),
        Some(Overlay::Loading) => {
            let rect = Rect { x: canvas.w / 2 - 60, y: canvas.h / 2 - 60, w: 120, h: 120 };
            all.push(Shown { modal: true, ..plain(Role::Text, "Loading".to_owned(), rect) });
        }
        None => {}
    }
    (all, pages)
}

fn plain<'w>(role: Role, label: String, rect: Rect) -> Shown<'w> {
    Shown { role, label, value: None, rect, cell: None, modal: false, element: None, tab_to: None }
}

fn icons(world: &World) -> Vec<Shown<'_>> {
    world
        .apps
        .iter()
        .enumerate()
        .map(|(k, app)| {
            let (col, row) = (k as i32 % 4, k as i32 / 4);
            plain(Role::Icon, app.name.clone(), Rect { x: 10 + col * 86, y: 130 + row * 104, w: 82, h: 92 })
        })
        .collect()
}

fn cards(world: &World, app: usize) -> Vec<Shown<'_>> {
    let n = world.apps.len();
    (0..LIST_LEN.min(n))
        .map(|k| {
            let name = world.apps[(app + n + k - 2) % n].name.clone();
            plain(Role::Card, name, Rect { x: 24, y: 96 + 92 * k as i32, w: 312, h: 84 })
        })
        .collect()
}

fn app_elements<'w>(
    world: &'w World,
    scene: &Scene,
    app: usize,
    screen: usize,
    bind: &Bindings,
    canvas: Canvas,
) -> (Vec<Shown<'w>>, usize) {
    let (app, at) = (&world.apps[app], &world.apps[app].screens[screen]);
    let mut all = expand(world, at, bind);
    if at.tabs {
        all.extend(app.tabs.iter().map(|tab| Shown {
            tab_to: Some(&tab.to),
            ..plain(Role::Tab, tab.label.clone(), Rect { x: 0, y: 0, w: 0, h: 0 })
        }));
    }
    if app.back {
        let rect = Rect { x: 0, y: 0, w: 0, h: 0 };
        all.insert(0, plain(Role::Tool, "Back".to_owned(), rect));
    }
    for element in &mut all {
        let found = scene.values.iter().find(|(s, label, _)| *s == screen && *label == element.label);
        element.value = found.map(|(_, _, value)| value.clone());
    }
    match world.device {
        Device::Phone => place_phone(all, scene.page, canvas),
        Device::Desktop => (place_desktop(all, canvas), 1),
    }
}

fn expand<'w>(world: &'w World, screen: &'w Screen, bind: &Bindings) -> Vec<Shown<'w>> {
    let mut all = Vec::new();
    let nowhere = Rect { x: 0, y: 0, w: 0, h: 0 };
    for element in &screen.elements {
        let entry = |label: String, row: usize| Shown {
            element: Some(element),
            cell: (element.role == Role::Cell)
                .then(|| format!("{}{}", element.name.as_deref().unwrap_or("A"), row + 2)),
            ..plain(element.role, label, nowhere)
        };
        let Some(pool) = element.list.as_ref() else {
            all.push(entry(fill(&element.label, bind), 0));
            continue;
        };
        let chosen = bind.get(pool).map_or("", String::as_str);
        let pattern = format!("{{{pool}}}");
        for (row, value) in listed(&world.pool[pool], chosen).enumerate() {
            all.push(entry(fill(&element.label.replace(&pattern, value), bind), row));
        }
    }
    all
}

/// Content from top to bottom, a new screenful where it does not fit; bars are on every one.
fn place_phone(all: Vec<Shown<'_>>, page: usize, canvas: Canvas) -> (Vec<Shown<'_>>, usize) {
    let tabs = all.iter().filter(|e| e.role == Role::Tab).count().max(1) as i32;
    let (mut y, mut last, mut tab, mut action) = (PHONE_TOP, 0, 0, 0);
    let mut out = Vec::with_capacity(all.len());
    for mut element in all {
        let mut on = page;
        element.rect = match element.role {
            Role::Tab => {
                tab += 1;
                Rect { x: (tab - 1) * canvas.w / tabs, y: canvas.h - 76, w: canvas.w / tabs, h: 56 }
            }
            Role::Action => {
                action += 1;
                Rect { x: canvas.w - 48 * action, y: 32, w: 40, h: 40 }
            }
            Role::Fab => Rect { x: canvas.w - 76, y: canvas.h - 152, w: 60, h: 60 },
            role => {
                let (x, h) = phone_block(role);
                if y + h > PHONE_FOLD {
                    (y, last) = (PHONE_TOP, last + 1);
                }
                on = last;
                y += h;
                Rect { x, y: y - h, w: canvas.w - 2 * x, h: h - 4 }
            }
        };
        if on == page {
            out.push(element);
        }
    }
    (out, last + 1)
}

/// Left margin and height of a block of the content column.
fn phone_block(role: Role) -> (i32, i32) {
    match role {
        Role::Text => (16, 28),
        Role::Option => (16, 44),
        Role::Button => (48, 52),
        Role::Field => (16, 56),
        _ => (8, 56),
    }
}

fn place_desktop(mut all: Vec<Shown<'_>>, canvas: Canvas) -> Vec<Shown<'_>> {
    let (mut tool, mut tab, mut side, mut y) = (0, 0, 0, DESKTOP_TOP);
    for element in &mut all {
        element.rect = match element.role {
            Role::Tool | Role::Action => {
                tool += 1;
                Rect { x: 12 + (tool - 1) * 112, y: 44, w: 104, h: 32 }
            }
            Role::Tab => {
                tab += 1;
                Rect { x: 12 + (tab - 1) * 112, y: canvas.h - 76, w: 104, h: 28 }
            }
            Role::Side => {
                side += 1;
                Rect { x: 12, y: DESKTOP_TOP + (side - 1) * 36, w: 180, h: 32 }
            }
            Role::Cell => cell_rect(element.cell.as_deref().unwrap_or("A2")),
            role => {
                let (w, h) = desktop_block(role);
                y += h;
                Rect { x: 220, y: y - h, w, h: (h - 6).min(DESKTOP_FOLD - (y - h)) }
            }
        };
    }
    all
}

fn desktop_block(role: Role) -> (i32, i32) {
    match role {
        Role::Button => (160, 44),
        Role::Field => (520, 46),
        Role::Link | Role::Check | Role::Radio | Role::Text => (420, 32),
        Role::Option | Role::Menu => (260, 32),
        _ => (760, 40),
    }
}

fn cell_rect(address: &str) -> Rect {
    let column = i32::from(address.as_bytes()[0] - b'A');
    let row: i32 = address[1..].parse().unwrap_or(2);
    Rect { x: 48 + column * 200, y: DESKTOP_TOP + row * 28, w: 200, h: 28 }
}

fn dialog(world: &World, index: usize, canvas: Canvas, all: &mut Vec<Shown<'_>>) {
    let popup = &world.popups[index];
    let (w, h) = (320.min(canvas.w - 40), 180);
    let (x, y) = ((canvas.w - w) / 2, (canvas.h - h) / 2);
    let text = |label: &str, dy: i32| Shown {
        modal: true,
        ..plain(Role::Text, label.to_owned(), Rect { x: x + 16, y: y + dy, w: w - 32, h: 28 })
    };
    all.push(text(&popup.title, 14));
    all.push(text(&popup.text, 52));
    for (k, label) in popup.buttons.iter().enumerate() {
        let rect = Rect { x: x + 12 + k as i32 * (w / 2), y: y + h - 56, w: w / 2 - 24, h: 40 };
        all.push(Shown { modal: true, ..plain(Role::Button, label.clone(), rect) });
    }
}
