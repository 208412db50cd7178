//! Desktop sessions as Apromore-style UI logs, and the element trees of their windows.

use std::fmt::Write as _;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::layout::{Canvas, Overlay, Place, Rect, Scene, Shown, shown};
use super::walk::{Act, Move, Played};
use super::world::{Bindings, Do, Role, World, fill};

/// The columns of the logger, in its order.
pub(super) const HEADER: [&str; 20] = [
    "timeStamp",
    "userID",
    "targetApp",
    "eventType",
    "url",
    "content",
    "target.workbookName",
    "target.sheetName",
    "target.id",
    "target.className",
    "target.tagName",
    "target.type",
    "target.name",
    "target.value",
    "target.innerText",
    "target.checked",
    "target.href",
    "target.option",
    "target.title",
    "target.innerHTML",
];

/// The desktop's screen.
pub(super) const CANVAS: Canvas = Canvas { w: 1280, h: 720 };

/// Monday, 4 March 2024, 08:30 UTC, in milliseconds: the first log starts here, each later one a
/// day after the one before.
const FIRST_DAY_MS: i64 = 1_709_541_000_000;
const DAY_MS: i64 = 86_400_000;

const USERS: [&str; 6] = ["adavis", "bkumar", "clopez", "dmeyer", "enovak", "fsato"];

/// A log being written.
pub(super) struct Log {
    /// File stem: `log_0003`.
    pub stem: String,
    /// The CSV so far.
    pub csv: String,
    /// `a11y.jsonl` so far.
    pub trees: String,
    /// Rows so far, the header not counted.
    pub rows: usize,
    /// Who works in this log.
    pub user: &'static str,
    now_ms: i64,
    last: Option<(Scene, Bindings)>,
}

impl Log {
    /// The empty log number `index`.
    pub fn new(index: u64) -> Self {
        let header: Vec<_> = HEADER.iter().map(|h| format!("\"{h}\"")).collect();
        Self {
            stem: format!("log_{index:04}"),
            csv: header.join(",") + "\n",
            trees: String::new(),
            rows: 0,
            user: USERS[index as usize % USERS.len()],
            now_ms: FIRST_DAY_MS + index as i64 * DAY_MS,
            last: None,
        }
    }

    /// Appends a session, after a pause of minutes.
    pub fn session(&mut self, world: &World, played: &Played<'_>, rng: &mut ChaCha8Rng) {
        self.now_ms += rng.random_range(240_000..900_000);
        for m in &played.moves {
            let slow = rng.random_bool(0.05);
            self.now_ms += if slow { rng.random_range(12_000..30_000) } else { rng.random_range(400..5_000) };
            self.tree(world, m, &played.bind);
            let row = self.event(world, m, &played.bind);
            let cells: Vec<_> = row
                .iter()
                .map(|cell| {
                    if cell.is_empty() { String::new() } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
                })
                .collect();
            self.csv.push_str(&cells.join(","));
            self.csv.push('\n');
            self.rows += 1;
        }
    }

    /// Appends the window's tree when it is not the one written last.
    fn tree(&mut self, world: &World, m: &Move<'_>, bind: &Bindings) {
        // Values and the cursor are not in the tree: they must not write it again.
        let scene = Scene { values: Vec::new(), focus: None, ..m.scene.clone() };
        if self.last.as_ref().is_some_and(|(last, values)| *last == scene && values == bind) {
            return;
        }
        let line =
            json!({ "time_stamp": self.now_ms as f64 / 1000.0, "axtree": axtree(world, &scene, bind) });
        let _ = writeln!(self.trees, "{line}");
        self.last = Some((scene, bind.clone()));
    }

    fn event(&self, world: &World, m: &Move<'_>, bind: &Bindings) -> [String; 20] {
        let mut row: [String; 20] = Default::default();
        let (event, clipboard) = event_type(m);
        let text = m.text.clone().unwrap_or_default();
        row[0] = iso(self.now_ms);
        event.clone_into(&mut row[3]);
        let Place::App { app, screen } = m.scene.place else { return row };
        let (app, screen) = (&world.apps[app], &world.apps[app].screens[screen]);
        if clipboard {
            "OS-Clipboard".clone_into(&mut row[2]);
            row[5] = text;
            return row;
        }
        self.user.clone_into(&mut row[1]);
        row[2].clone_from(&app.process);
        if let (Some(url), Some(path)) = (&app.url, &screen.url) {
            row[4] = format!("{url}{path}");
        }
        if let Some(workbook) = &app.workbook {
            row[6].clone_from(workbook);
            // A click on a sheet's tab is logged in the sheet it brings up.
            let tab = m.target.as_ref().and_then(|t| t.tab_to).and_then(|id| app.screen(id));
            let sheet = tab.map_or(screen, |index| &app.screens[index]).sheet.as_ref();
            row[7] = sheet.cloned().unwrap_or_default();
        } else if app.url.is_none() {
            row[18] = fill(&screen.title, bind);
        }
        match m.act {
            Act::Do(Do::Paste | Do::Key) => row[5].clone_from(&text),
            Act::Do(Do::Scroll(direction)) => direction.name().clone_into(&mut row[5]),
            _ => {}
        }
        if let Some(target) = &m.target {
            describe(&mut row, target, m, &text);
        }
        row
    }
}

/// The logger's name of an event, and whether the clipboard reports it rather than the window.
fn event_type(m: &Move<'_>) -> (&'static str, bool) {
    let role = m.target.as_ref().map(|t| t.role);
    let Act::Do(act) = m.act else { return ("clickButton", false) };
    let event = match (act, role) {
        (Do::Copy, _) => return ("copy", true),
        (Do::Tap | Do::Long, Some(Role::Cell)) => "getCell",
        (Do::Tap | Do::Long, Some(Role::Field)) => "clickTextField",
        (Do::Tap | Do::Long, Some(Role::Check)) => "clickCheckbox",
        (Do::Tap | Do::Long, Some(Role::Radio)) => "clickRadioButton",
        (Do::Tap | Do::Long, Some(Role::Link)) => "clickLink",
        (Do::Tap | Do::Long, _) => "clickButton",
        (Do::Double, _) => "doubleClick",
        (Do::Right, _) => "rightClick",
        (Do::Select, _) => "selectOptions",
        (Do::Type, Some(Role::Cell)) => "editCell",
        (Do::Type, _) => "editField",
        (Do::Paste, _) => "paste",
        (Do::Key, _) => "hotkey",
        (Do::Scroll(_), _) => "scroll",
    };
    (event, false)
}

/// Fills the columns of the element.
fn describe(row: &mut [String; 20], target: &Shown<'_>, m: &Move<'_>, text: &str) {
    let typed = m.act == Act::Do(Do::Type);
    if let Some(cell) = &target.cell {
        row[8].clone_from(cell);
        let column_a = target.element.is_some_and(|e| e.name.as_deref() == Some("A"));
        let held = if column_a { target.label.clone() } else { target.value.clone().unwrap_or_default() };
        row[13] = if typed { text.to_owned() } else { held };
        return;
    }
    let (tag, kind) = match target.role {
        Role::Field => ("INPUT", "text"),
        Role::Check => ("INPUT", "checkbox"),
        Role::Radio => ("INPUT", "radio"),
        Role::Option => ("SELECT", "select-one"),
        Role::Link => ("A", ""),
        _ if target.commits() => ("BUTTON", "submit"),
        _ => ("BUTTON", "button"),
    };
    if !row[4].is_empty() {
        (row[10], row[11]) = (tag.to_owned(), kind.to_owned());
    }
    row[12] = target.element.and_then(|e| e.name.clone()).unwrap_or_else(|| target.label.clone());
    match target.role {
        Role::Field => {
            row[13] = if typed { text.to_owned() } else { target.value.clone().unwrap_or_default() }
        }
        Role::Check | Role::Radio => {
            "on".clone_into(&mut row[13]);
            "true".clone_into(&mut row[15]);
        }
        Role::Option => row[17].clone_from(&target.label),
        Role::Link => {
            row[14].clone_from(&target.label);
            row[16] = target.to().map(|to| format!("/{to}")).unwrap_or_default();
        }
        _ => row[14].clone_from(&target.label),
    }
}

fn iso(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map(|t| t.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
        .unwrap_or_default()
}

/// The title of the window of a scene.
pub(super) fn window_title(world: &World, scene: &Scene, bind: &Bindings) -> String {
    let Place::App { app, screen } = scene.place else { return "Desktop".to_owned() };
    let title = fill(&world.apps[app].screens[screen].title, bind);
    if world.apps[app].url.is_some() { format!("{title} - Google Chrome") } else { title }
}

/// The window as a UI Automation tree: window, panes for dialogs, elements.
fn axtree(world: &World, scene: &Scene, bind: &Bindings) -> Value {
    let (all, _) = shown(world, scene, bind, CANVAS);
    let leaf = |e: &Shown, depth: u32| node(&e.label, control_type(e.role), e.rect, depth, &[]);
    let mut children: Vec<_> = all.iter().filter(|e| !e.modal).map(|e| leaf(e, 1)).collect();
    let modal: Vec<_> = all.iter().filter(|e| e.modal).collect();
    if let (Some(Overlay::Popup(k)), Some(first), Some(last)) = (scene.overlay, modal.first(), modal.last()) {
        let (x, y) = (first.rect.x - 16, first.rect.y - 14);
        let rect = Rect { x, y, w: 320, h: last.rect.y + last.rect.h + 16 - y };
        let inside: Vec<_> = modal.iter().map(|e| leaf(e, 2)).collect();
        children.push(node(&world.popups[k].title, "WindowControl", rect, 1, &inside));
    }
    let whole = Rect { x: 0, y: 0, w: CANVAS.w, h: CANVAS.h - 40 };
    node(&window_title(world, scene, bind), "WindowControl", whole, 0, &children)
}

fn node(name: &str, control_type: &str, rect: Rect, depth: u32, children: &[Value]) -> Value {
    let bounds =
        json!({ "left": rect.x, "top": rect.y, "right": rect.x + rect.w, "bottom": rect.y + rect.h });
    json!({
        "Name": name,
        "ControlType": control_type,
        "BoundingRectangle": bounds,
        "Depth": depth,
        "Children": children,
    })
}

fn control_type(role: Role) -> &'static str {
    match role {
        Role::Text => "TextControl",
        Role::Field => "EditControl",
        Role::Check | Role::Switch => "CheckBoxControl",
        Role::Radio => "RadioButtonControl",
        Role::Link => "HyperlinkControl",
        Role::Cell => "DataItemControl",
        Role::Tab => "TabItemControl",
        Role::Menu => "MenuItemControl",
        Role::Row | Role::Item | Role::Option | Role::Card => "ListItemControl",
        Role::Side => "TreeItemControl",
        Role::Button | Role::Action | Role::Fab | Role::Icon | Role::Tool => "ButtonControl",
    }
}
