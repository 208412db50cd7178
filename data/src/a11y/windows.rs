//! Windows on a desktop (D.4.7): told by the buttons of their title bars where the source has no windows.

use std::collections::BTreeMap;

use super::item::Item;
use super::tree::{Rect, Tree};

/// Windows and the elements in them.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// For each window the name of its region: `WINDOW Files`.
    pub titles: Vec<String>,
    /// Elements to windows.
    pub of: BTreeMap<usize, usize>,
}

/// Pixels between the buttons of one title bar.
const BETWEEN_BUTTONS: i32 = 150;
/// Pixels in height that a title bar's parts differ by.
const BAR: i32 = 20;

pub(super) fn find(tree: &Tree, items: &[Item<'_>], members: &[usize]) -> Windows {
    let declared = declared(tree, items, members);
    if declared.titles.is_empty() { by_title_bars(items, members) } else { declared }
}

/// Windows of the source that do not fill the screen.
fn declared(tree: &Tree, items: &[Item<'_>], members: &[usize]) -> Windows {
    let (width, height) = tree.screen_size();
    let mut windows = Windows::default();
    let mut known: BTreeMap<u32, usize> = BTreeMap::new();
    for index in members {
        let Some(number) = items[*index].node.window else { continue };
        let Some(window) = tree.windows.get(number as usize) else { continue };
        let fills = window.rect.is_none_or(|r| r.width >= width && r.height >= height);
        if fills || window.title.is_empty() {
            continue;
        }
        let position = *known.entry(number).or_insert_with(|| {
            windows.titles.push(region_name(&window.title));
            windows.titles.len() - 1
        });
        windows.of.insert(*index, position);
    }
    windows
}

fn region_name(title: &str) -> String {
    format!("WINDOW {}", super::item::on_one_line(title))
}

/// A `Close` button with `Minimise` or `Maximise` beside it ends a title bar; the window reaches from the bar down, and from
/// the left edge of what begins in the bar to the button.
fn by_title_bars(items: &[Item<'_>], members: &[usize]) -> Windows {
    let button = |i: usize, names: &[&str]| {
        items[i].role.ends_with("button") && names.contains(&items[i].low.as_str())
    };
    let mut frames: Vec<(Rect, String)> = Vec::new();
    for close in members.iter().copied().filter(|i| button(*i, &["close"])) {
        let (Some(rect), Some((x, y))) = (items[close].node.rect, items[close].centre) else { continue };
        let in_bar = |i: &usize| {
            items[*i].centre.is_some_and(|(ix, iy)| (iy - y).abs() <= BAR && ix <= x && i != &close)
        };
        let beside = members.iter().copied().filter(in_bar).any(|i| {
            let near = items[i].centre.is_some_and(|(ix, _)| x - ix <= BETWEEN_BUTTONS);
            near && button(i, &["minimise", "minimize", "maximise", "maximize", "restore"])
        });
        if !beside {
            continue;
        }
        let bar: Vec<usize> = members.iter().copied().filter(in_bar).collect();
        let left = bar.iter().filter_map(|i| items[*i].node.rect).map(|r| r.x).min().unwrap_or(rect.x);
        let title = bar.iter().find(|i| matches!(items[**i].role.as_ref(), "label" | "heading" | "static"));
        let name = title.map_or_else(|| "WINDOW".to_owned(), |i| region_name(&items[*i].label));
        let bottom = i32::MAX;
        let frame = Rect { x: left, y: rect.y, width: rect.right().saturating_sub(left), height: bottom };
        frames.push((frame, name));
    }
    let mut windows = Windows::default();
    for (position, (frame, name)) in frames.iter().enumerate() {
        windows.titles.push(name.clone());
        let inside = members.iter().filter(|i| items[**i].centre.is_some_and(|at| frame.contains(at)));
        for index in inside {
            // Of two windows around an element the one whose bar is nearer above it.
            let nearer = windows.of.get(index).is_none_or(|known| frames[*known].0.y <= frame.y);
            if nearer {
                windows.of.insert(*index, position);
            }
        }
    }
    windows
}
