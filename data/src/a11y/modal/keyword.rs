//! Appendix B: banners, logins and pop-ups of an initial state, told by their words and their place.

use super::super::item::{HIGHEST, Item, all_labels};
use super::super::region::Layout;
use super::super::rules::ModalRules;
use super::super::tree::Rect;
use super::temporal::words;

/// Anchors that are clustered; a screen has a handful.
const MOST_ANCHORS: usize = 512;

/// A candidate region (B.2).
struct Candidate {
    /// Its anchors, by their positions.
    anchors: Vec<usize>,
    /// The smallest box around them.
    rect: Rect,
}

pub(super) fn detect(
    rules: &ModalRules,
    screen: (i32, i32),
    items: &[Item<'_>],
    layout: &Layout<'_>,
) -> Vec<bool> {
    let mut of = vec![false; items.len()];
    // Most keywords stand nowhere on a screen.
    let text = all_labels(items);
    let keys = rules.content_keywords.iter().chain(&rules.action_keywords);
    let keys: Vec<&String> = keys.filter(|key| text.contains(key.as_str())).collect();
    if keys.is_empty() {
        return of;
    }
    let searched: Vec<usize> = (0..items.len()).filter(|i| is_searched(layout, *i)).collect();
    let anchors: Vec<usize> = { searched.iter().copied() }
        .filter(|i| items[*i].node.rect.is_some() && keys.iter().any(|key| holds(&items[*i].low, key)))
        .take(MOST_ANCHORS)
        .collect();
    let candidates = cluster(rules, screen, items, &anchors);
    // What is behind a banner lies in its box too, but elsewhere in the document.
    let inside = |c: &Candidate| -> Vec<usize> {
        let (first, last) = (c.anchors[0], c.anchors[c.anchors.len() - 1]);
        let between = searched.iter().copied().filter(|i| (first..=last).contains(i));
        between.filter(|i| items[*i].centre.is_some_and(|at| c.rect.contains(at))).collect()
    };
    let scored: Vec<(f64, Vec<usize>, &Candidate)> = candidates
        .iter()
        .map(|c| {
            let members = inside(c);
            let score = if is_banner(rules, screen, c.rect) {
                f64::INFINITY
            } else {
                score(rules, screen, items, c, &members)
            };
            (score, members, c)
        })
        .collect();
    let best = scored.iter().map(|(s, ..)| *s).filter(|s| s.is_finite()).fold(0.0, f64::max);
    for (score, members, candidate) in &scored {
        let fits = score.is_infinite() || (*score >= rules.accept && *score >= rules.accept_share * best);
        if fits && !is_rejected(rules, screen, items, candidate, members) {
            members.iter().for_each(|i| of[*i] = true);
        }
    }
    of
}

/// B.1: the search region of the application: those it names, else all whose content moves.
fn is_searched(layout: &Layout<'_>, index: usize) -> bool {
    if layout.app.modal_regions.is_empty() {
        layout.is_dynamic(index)
    } else {
        layout.app.modal_regions.iter().any(|name| name == layout.name(index))
    }
}

/// Whether a label holds a keyword as a word, or as the beginning of one: `settings` holds `setting`, `book` no `ok`.
fn holds(label: &str, key: &str) -> bool {
    if key.contains(' ') {
        return label.contains(key);
    }
    words(label).any(|word| word == key || (key.len() > 3 && word.starts_with(key)))
}

/// Whether a label says that something is decided or closed by it.
pub(super) fn closes(rules: &ModalRules, label: &str) -> bool {
    rules.closing.iter().any(|word| holds(label, word))
}

/// B.2: anchors closer than δ hang together. The distance is that of their boxes: the sentence of a banner is as wide as the
/// screen, and its centre far from the buttons below it.
fn cluster(rules: &ModalRules, screen: (i32, i32), items: &[Item<'_>], anchors: &[usize]) -> Vec<Candidate> {
    let delta = rules.delta * f64::from(screen.0.min(screen.1));
    let mut group: Vec<usize> = (0..anchors.len()).collect();
    for a in 0..anchors.len() {
        for b in 0..a {
            if gap(items, anchors[a], anchors[b]) < delta && group[a] != group[b] {
                let (keep, drop) = (group[a].min(group[b]), group[a].max(group[b]));
                group.iter_mut().filter(|g| **g == drop).for_each(|g| *g = keep);
            }
        }
    }
    let mut candidates: Vec<(usize, Candidate)> = Vec::new();
    for (position, index) in anchors.iter().enumerate() {
        let Some(rect) = items[*index].node.rect else { continue };
        match candidates.iter_mut().find(|(id, _)| *id == group[position]) {
            Some((_, candidate)) => {
                candidate.anchors.push(*index);
                candidate.rect = candidate.rect.around(rect);
            }
            None => candidates.push((group[position], Candidate { anchors: vec![*index], rect })),
        }
    }
    candidates.into_iter().map(|(_, candidate)| candidate).collect()
}

fn gap(items: &[Item<'_>], a: usize, b: usize) -> f64 {
    let (Some(a), Some(b)) = (items[a].node.rect, items[b].node.rect) else { return f64::INFINITY };
    let between = |start: i32, end: i32, other_start: i32, other_end: i32| {
        (f64::from(other_start) - f64::from(end)).max(f64::from(start) - f64::from(other_end)).max(0.0)
    };
    between(a.x, a.right(), b.x, b.right()).hypot(between(a.y, a.bottom(), b.y, b.bottom()))
}

/// B.3.
fn is_banner(rules: &ModalRules, (_, height): (i32, i32), rect: Rect) -> bool {
    let y = f64::from(rect.centre().1);
    let at_edge = y > rules.banner_bottom * f64::from(height) || y < rules.banner_top * f64::from(height);
    at_edge && rect.height > 0 && f64::from(rect.width) / f64::from(rect.height) > rules.banner_aspect
}

/// B.4.
fn score(
    rules: &ModalRules,
    (width, height): (i32, i32),
    items: &[Item<'_>],
    candidate: &Candidate,
    members: &[usize],
) -> f64 {
    let (x, y) = candidate.rect.centre();
    let middle = (f64::from(width) / 2.0, f64::from(height) / 2.0);
    let distance = (f64::from(x) - middle.0).hypot(f64::from(y) - middle.1);
    let centrality = rules.centrality * (1.0 - distance / middle.0.hypot(middle.1)).max(0.0);
    let any = |of: &dyn Fn(&Item<'_>) -> bool| members.iter().any(|i| of(&items[*i]));
    let is_toggle = |item: &Item<'_>| matches!(item.role.as_ref(), "toggle-button" | "check-box" | "switch");
    let kinds = [
        (any(&|item| item.role.ends_with("button") && !is_toggle(item)), rules.structure_button),
        (any(&|item| item.score == HIGHEST && !is_toggle(item)), rules.structure_input),
        (
            any(&|item| is_toggle(item) || holds(&item.low, "close") || item.low == "×"),
            rules.structure_toggle,
        ),
    ];
    let present = kinds.iter().filter(|(there, _)| *there).count();
    let structure: f64 = kinds.iter().filter(|(there, _)| *there).map(|(_, points)| points).sum();
    let mixed = if present >= 2 { rules.structure_mixed } else { 0.0 };
    candidate.anchors.len().min(rules.anchors_capped) as f64 + centrality + structure + mixed
}

/// B.6.
fn is_rejected(
    rules: &ModalRules,
    (width, height): (i32, i32),
    items: &[Item<'_>],
    candidate: &Candidate,
    members: &[usize],
) -> bool {
    let area = f64::from(candidate.rect.width) * f64::from(candidate.rect.height);
    let share = area / (f64::from(width) * f64::from(height));
    let few = candidate.anchors.len() < rules.least_anchors;
    let small = share < rules.least_area && members.len() < 3;
    let whole = share > rules.most_area;
    let closes = members.iter().any(|i| {
        let item = &items[*i];
        item.is_interactive() && closes(rules, &item.low)
    });
    few || small || whole || !closes || is_navigation(rules, items, candidate, members)
}

/// A row of links, or a field with the button that searches.
fn is_navigation(rules: &ModalRules, items: &[Item<'_>], candidate: &Candidate, members: &[usize]) -> bool {
    let speaks_of_consent =
        candidate.anchors.iter().any(|i| rules.content_keywords.iter().any(|key| holds(&items[*i].low, key)));
    if speaks_of_consent {
        return false;
    }
    let of_role = |role: &str| members.iter().filter(|i| items[**i].role == role).count();
    let links = of_role("link") + of_role("menu") + of_role("menu-item");
    let searches = members.iter().any(|i| holds(&items[*i].low, "search"));
    links * 2 > members.len() || searches
}
