//! Which application is in front, and which region of it an element lies in (appendix D).

use super::item::{Item, all_labels};
use super::rules::{App, Bound, Clue, Region, Rules, Split};
use super::tree::Tree;

/// An application that was told, and how its screen is cut.
#[derive(Debug, Clone)]
pub(super) struct Layout<'r> {
    pub app: &'r App,
    /// The regions of the desktop's bars, then those of the application or of the view that is open.
    pub regions: Vec<&'r Region>,
    /// Whether the desktop's bars are around the application.
    pub in_shell: bool,
    /// Whether elements above and below the screen are left out.
    pub simplify_off_screen: bool,
    /// For each element, the position of its region; none where no region takes it.
    pub of: Vec<Option<usize>>,
}

impl Layout<'_> {
    /// Whether the element moves with its region's content (A.2).
    pub fn is_dynamic(&self, index: usize) -> bool {
        self.of[index].is_none_or(|region| self.regions[region].dynamic)
    }

    /// The name of an element's region.
    pub fn name(&self, index: usize) -> &str {
        self.of[index].map_or("CONTENT", |region| &self.regions[region].name)
    }
}

/// Tells the application and assigns regions.
pub(super) fn lay_out<'r>(rules: &'r Rules, tree: &Tree, items: &[Item<'_>]) -> Layout<'r> {
    let shell = &rules.general.shell;
    let tells = |item: &Item<'_>| {
        shell.names.contains(&item.low) && shell.roles.iter().any(|role| *role == item.role)
    };
    let bars = if items.iter().any(tells) { &shell.regions[..] } else { &[] };
    let screen = tree.screen_size();
    let app = detect(rules, tree, items, &|item| {
        item.role.ends_with("button") && bars.iter().any(|bar| fits(bar, item, screen, None))
    });
    let has = |name: &String| items.iter().any(|item| item.low == *name);
    let view = app.views.iter().find(|view| view.names.iter().filter(|name| has(name)).count() >= view.least);
    let own = view.map_or(&app.regions[..], |view| &view.regions);
    // The desktop's rules have its bars.
    let bars = if app.desktop { &[] } else { bars };
    let regions: Vec<&Region> = bars.iter().chain(own).collect();
    let split = app.split.as_ref().map(|split| boundary(split, screen.0, items));
    let of = items
        .iter()
        .map(|item| regions.iter().position(|region| fits(region, item, screen, split)))
        .collect();
    let simplify_off_screen = view.is_some_and(|view| view.simplify_off_screen);
    Layout { app, in_shell: !bars.is_empty(), regions, simplify_off_screen, of }
}

/// The application with the most weight of clues; the desktop where no other is told. What `launches` applications tells of
/// the desktop only. Where the source says which application's window is in front, only what belongs to it counts.
fn detect<'r>(
    rules: &'r Rules,
    tree: &Tree,
    items: &[Item<'_>],
    launches: &dyn Fn(&Item<'_>) -> bool,
) -> &'r App {
    let active = tree.windows.iter().find(|window| window.active).map(|window| &window.application);
    let active = active.filter(|name| !name.is_empty());
    let in_front = |name: &str| active.is_none_or(|active| active == name);
    let windows = tree.windows.iter().filter(|window| in_front(&window.application));
    let titles: Vec<String> = windows
        .map(|window| window.title.as_str())
        .chain(tree.applications.iter().map(String::as_str).filter(|name| in_front(name)))
        .map(str::to_lowercase)
        .collect();
    let text = all_labels(items);
    let of_active = |item: &Item<'_>| {
        let window = item.node.window.and_then(|window| tree.windows.get(window as usize));
        window.is_none_or(|window| in_front(&window.application))
    };
    let counts: Vec<bool> = items.iter().map(|item| of_active(item) && !launches(item)).collect();
    let weight = |app: &App| -> u32 {
        let counts = |index: usize| app.desktop || counts[index];
        let holds = |clue: &&Clue| holds(clue, &titles, items, &text, &counts);
        app.clues.iter().filter(holds).map(|clue| clue.weight).sum()
    };
    let mut best: Option<(&App, u32)> = None;
    for app in &rules.apps {
        let weight = weight(app);
        let stronger = best.is_none_or(|(known, most)| {
            (known.desktop && !app.desktop) || (known.desktop == app.desktop && weight > most)
        });
        if weight >= rules.general.structure.least_weight && stronger {
            best = Some((app, weight));
        }
    }
    best.map_or(&rules.generic, |(app, _)| app)
}

fn holds(
    clue: &Clue,
    titles: &[String],
    items: &[Item<'_>],
    text: &str,
    counts: &dyn Fn(usize) -> bool,
) -> bool {
    if !clue.windows.is_empty() {
        return titles.iter().any(|title| clue.windows.iter().any(|part| title.contains(part.as_str())));
    }
    if !clue.names.is_empty() && !named(&clue.names, text, false) {
        return false;
    }
    items.iter().enumerate().any(|(index, item)| {
        (clue.roles.is_empty() || clue.roles.iter().any(|role| *role == item.role))
            && (clue.names.is_empty() || named(&clue.names, &item.low, clue.exact))
            && counts(index)
    })
}

fn named(names: &[String], label: &str, exact: bool) -> bool {
    names.iter().any(|name| if exact { name == label } else { label.contains(name.as_str()) })
}

fn fits(region: &Region, item: &Item<'_>, screen: (i32, i32), split: Option<f64>) -> bool {
    let bounded = [region.x_min, region.x_max, region.y_min, region.y_max].iter().any(Option::is_some);
    if bounded {
        let Some((x, y)) = item.centre else { return false };
        let at = |bound: Bound, size: i32| match bound {
            Bound::Pixels(pixels) => pixels,
            Bound::Share(share) => share * f64::from(size),
            Bound::Split => split.unwrap_or(f64::from(size)),
        };
        let within = |value: i32, min: Option<Bound>, max: Option<Bound>, size: i32| {
            let value = f64::from(value);
            min.is_none_or(|min| value >= at(min, size)) && max.is_none_or(|max| value < at(max, size))
        };
        if !within(x, region.x_min, region.x_max, screen.0)
            || !within(y, region.y_min, region.y_max, screen.1)
        {
            return false;
        }
    }
    (region.roles.is_empty() && region.names.is_empty())
        || region.roles.iter().any(|role| *role == item.role)
        || named(&region.names, &item.low, false)
}

/// Where a list ends and what it shows begins: the widest gap between left edges that many elements share, inside the bounds;
/// the default where there is none.
fn boundary(split: &Split, width: i32, items: &[Item<'_>]) -> f64 {
    let pixels = |bound: Bound| match bound {
        Bound::Pixels(pixels) => pixels,
        Bound::Share(share) => share * f64::from(width),
        Bound::Split => f64::from(width),
    };
    let (min, max, default) = (pixels(split.min), pixels(split.max), pixels(split.default));
    let mut edges: Vec<i32> = items.iter().filter_map(|item| item.node.rect).map(|rect| rect.x).collect();
    edges.sort_unstable();
    // A gutter: no element begins in it, and what begins after it stands below one another.
    let shared = |x: i32| edges.partition_point(|e| *e <= x + 2) - edges.partition_point(|e| *e < x - 2) >= 3;
    let mut best: Option<(i32, i32)> = None;
    for pair in edges.windows(2) {
        let (gap, start) = (pair[1].saturating_sub(pair[0]), pair[1]);
        let inside = f64::from(start) >= min && f64::from(start) <= max;
        if inside && shared(start) && best.is_none_or(|(widest, _)| gap > widest) {
            best = Some((gap, start));
        }
    }
    best.map_or(default, |(_, start)| f64::from(start))
}
