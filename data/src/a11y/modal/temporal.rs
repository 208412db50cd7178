//! Appendix A: what is new on a screen that is otherwise the same.

use std::collections::HashMap;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::super::item::Item;
use super::super::region::Layout;
use super::super::rules::ModalRules;
use super::Found;

/// What is kept of a state, to compare the next with.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    elements: Vec<SeenElement>,
}

#[derive(Debug, Clone, Copy)]
struct SeenElement {
    /// Tag, name, text, class and description.
    content: u64,
    /// Tag and box.
    place: Option<u64>,
    centre: (i32, i32),
    dynamic: bool,
    modal: bool,
}

impl Seen {
    pub(in super::super) fn of(items: &[Item<'_>], layout: &Layout<'_>, modal: &[bool]) -> Self {
        let element = |(index, item): (usize, &Item<'_>)| SeenElement {
            content: content(item),
            place: place(item),
            centre: item.node.centre(),
            dynamic: layout.is_dynamic(index),
            modal: modal[index],
        };
        Self { elements: items.iter().enumerate().map(element).collect() }
    }
}

/// A hash of what an element is, whatever its place.
fn content(item: &Item<'_>) -> u64 {
    let node = item.node;
    let parts = [&node.role, &node.name, &node.text, &node.class, &node.description];
    // Parts of fixed places: no two elements run together to the same bytes.
    parts.iter().fold(0, |hash: u64, part| xxh3_64_with_seed(part.as_bytes(), hash.wrapping_add(1)))
}

fn place(item: &Item<'_>) -> Option<u64> {
    let rect = item.node.rect?;
    let sides = [rect.x, rect.y, rect.width, rect.height].map(i32::to_le_bytes);
    Some(xxh3_64_with_seed(&sides.concat(), xxh3_64(item.node.role.as_bytes())))
}

/// What the comparison says.
pub(super) enum Compared {
    /// Another screen.
    OtherScreen,
    /// The same, without a modal.
    SameScreen,
    /// The same, with these elements in front.
    Modal(Found, Vec<bool>),
}

/// Compares the elements with those of the state before.
pub(super) fn compare(
    rules: &ModalRules,
    before: &Seen,
    items: &[Item<'_>],
    layout: &Layout<'_>,
) -> Compared {
    if items.is_empty() {
        return Compared::OtherScreen;
    }
    let now: Vec<(u64, (i32, i32))> = items.iter().map(|item| (content(item), item.node.centre())).collect();
    let dynamic = |index: usize| layout.is_dynamic(index);
    let shift = global_shift(rules, before, &now, &dynamic);
    let still = Grid::new(rules.epsilon_sta, before.elements.iter().filter(|e| !e.dynamic), (0, 0));
    let moved = Grid::new(rules.epsilon_dyn, before.elements.iter().filter(|e| e.dynamic), shift);
    // What has another text in the same box has changed; it has not appeared (a cell that is typed into).
    let mut places: HashMap<u64, SeenElement> = HashMap::new();
    for element in &before.elements {
        if let Some(place) = element.place {
            places.entry(place).or_insert(*element);
        }
    }
    let changed = |item: &Item<'_>| places.get(&place(item)?).copied();
    let matched: Vec<Option<SeenElement>> = { now.iter().zip(items) }
        .map(|((content, at), item)| {
            moved.find(*content, *at).or_else(|| still.find(*content, *at)).or_else(|| changed(item))
        })
        .collect();
    let sparse = items.len().min(before.elements.len()) < rules.sparse_screen;
    let background = before.elements.iter().filter(|e| !e.modal).count().max(1);
    let same = if sparse {
        remaining(rules, before, &now, shift, |e| !e.modal) as f64 >= rules.sparse_ratio * background as f64
    } else {
        is_same_screen(rules, before, &now, shift, &dynamic)
    };
    if !same {
        return Compared::OtherScreen;
    }
    let new: Vec<usize> = (0..items.len()).filter(|i| matched[*i].is_none()).collect();
    let stays: Vec<usize> = (0..items.len()).filter(|i| matched[*i].is_some_and(|e| e.modal)).collect();
    // Toolbars and bars of other static regions come and go with what is in front, and stay longer: by themselves they are no
    // modal.
    let was = before.elements.iter().filter(|e| e.modal && e.dynamic).count();
    let still_there = stays.iter().filter(|i| dynamic(**i)).count();
    // What only counted as a modal for its number is one no longer when it is not new.
    let persists = was > 0
        && still_there as f64 >= rules.persistence * was as f64
        && evidence(rules, items, &stays) >= rules.t_modal;
    // Something must be behind a modal: a screen of nothing known is another screen.
    let appears = new.len() < items.len()
        && new.iter().any(|i| dynamic(*i))
        && score(rules, items, &new) >= rules.t_modal;
    let mark = |parts: &[&[usize]]| {
        let mut of = vec![false; items.len()];
        parts.iter().flat_map(|part| part.iter()).for_each(|i| of[*i] = true);
        of
    };
    match (appears, persists) {
        (true, true) => Compared::Modal(Found::Temporal, mark(&[&stays, &new])),
        (true, false) => Compared::Modal(Found::Temporal, mark(&[&new])),
        (false, true) => Compared::Modal(Found::Persistent, mark(&[&stays])),
        (false, false) => Compared::SameScreen,
    }
}

/// Elements of a state by content and place, so that those near a point are found at once.
struct Grid {
    size: f64,
    cells: HashMap<(u64, i64, i64), Vec<(SeenElement, (f64, f64))>>,
}

impl Grid {
    fn new<'a>(size: f64, elements: impl Iterator<Item = &'a SeenElement>, shift: (i32, i32)) -> Self {
        let mut grid = Self { size: size.max(1.0), cells: HashMap::new() };
        for element in elements {
            let at = (
                f64::from(element.centre.0) + f64::from(shift.0),
                f64::from(element.centre.1) + f64::from(shift.1),
            );
            let cell = (element.content, grid.index(at.0), grid.index(at.1));
            let here = grid.cells.entry(cell).or_default();
            // Copies at one place match as well as one does.
            if here.iter().all(|(known, place)| *place != at || known.modal != element.modal) {
                here.push((*element, at));
            }
        }
        grid
    }

    fn index(&self, value: f64) -> i64 {
        (value / self.size).floor() as i64
    }

    /// An element of this content at most `size` away; the first that the state lists among those of the nearest cells.
    fn find(&self, content: u64, (x, y): (i32, i32)) -> Option<SeenElement> {
        let (x, y) = (f64::from(x), f64::from(y));
        for dx in [0, -1, 1] {
            for dy in [0, -1, 1] {
                let cell = (content, self.index(x) + dx, self.index(y) + dy);
                let near = self.cells.get(&cell).into_iter().flatten();
                let near = near.filter(|(_, at)| (at.0 - x).hypot(at.1 - y) <= self.size);
                if let Some((element, _)) = near.min_by_key(|(element, _)| !element.modal) {
                    return Some(*element);
                }
            }
        }
        None
    }
}

/// Eq. 8: the median displacement of dynamic elements; none where the pairs are few or disagree (readings).
fn global_shift(
    rules: &ModalRules,
    before: &Seen,
    now: &[(u64, (i32, i32))],
    dynamic: &dyn Fn(usize) -> bool,
) -> (i32, i32) {
    // What stands several times has no one displacement.
    let mut first: HashMap<u64, Option<(i32, i32)>> = HashMap::new();
    for element in before.elements.iter().filter(|e| e.dynamic) {
        first.entry(element.content).and_modify(|at| *at = None).or_insert(Some(element.centre));
    }
    let mut times: HashMap<u64, usize> = HashMap::new();
    for (content, _) in now {
        *times.entry(*content).or_default() += 1;
    }
    let pairs: Vec<(i32, i32)> = now
        .iter()
        .enumerate()
        .filter(|(i, (content, _))| dynamic(*i) && times.get(content) == Some(&1))
        .filter_map(|(_, (content, at))| {
            let from = (*first.get(content)?)?;
            Some((at.0.checked_sub(from.0)?, at.1.checked_sub(from.1)?))
        })
        .filter(|(dx, dy)| f64::from(*dx).hypot(f64::from(*dy)) <= rules.shift_longest)
        .collect();
    if pairs.len() < rules.shift_pairs.max(1) {
        return (0, 0);
    }
    let median = |mut values: Vec<i32>| {
        values.sort_unstable();
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        low.midpoint(high)
    };
    let shift = (median(pairs.iter().map(|p| p.0).collect()), median(pairs.iter().map(|p| p.1).collect()));
    let far = |p: &(i32, i32)| f64::from(p.0 - shift.0).hypot(f64::from(p.1 - shift.1));
    let agree = pairs.iter().filter(|p| far(p) <= rules.shift_spread).count();
    if agree as f64 >= rules.shift_agreement * pairs.len() as f64 { shift } else { (0, 0) }
}

/// Eq. 10: whether enough of the dynamic elements of the state before are still there.
fn is_same_screen(
    rules: &ModalRules,
    before: &Seen,
    now: &[(u64, (i32, i32))],
    shift: (i32, i32),
    dynamic: &dyn Fn(usize) -> bool,
) -> bool {
    let now: Vec<_> = now.iter().enumerate().filter(|(i, _)| dynamic(*i)).map(|(_, pair)| *pair).collect();
    let matches = remaining(rules, before, &now, shift, |e| e.dynamic);
    let earlier = before.elements.iter().filter(|e| e.dynamic).count();
    matches > rules.large_modal_matches || matches as f64 > rules.matching_ratio * earlier as f64
}

/// How many of `which` elements of the state before are among those of `now`. One that matches several counts once.
fn remaining(
    rules: &ModalRules,
    before: &Seen,
    now: &[(u64, (i32, i32))],
    shift: (i32, i32),
    which: impl Fn(&SeenElement) -> bool,
) -> usize {
    let element = |(content, centre): (u64, (i32, i32))| SeenElement {
        content,
        place: None,
        centre,
        dynamic: true,
        modal: false,
    };
    let present: Vec<SeenElement> = now.iter().map(|pair| element(*pair)).collect();
    let grid = Grid::new(rules.epsilon_dyn, present.iter(), (0, 0));
    let at = |e: &SeenElement| (e.centre.0.saturating_add(shift.0), e.centre.1.saturating_add(shift.1));
    let earlier = before.elements.iter().filter(|e| which(e));
    earlier.filter(|e| grid.find(e.content, at(e)).is_some()).count()
}

/// Eq. 12: what the candidates are, and how many.
pub(super) fn score(rules: &ModalRules, items: &[Item<'_>], candidates: &[usize]) -> f64 {
    let plain = |i: &usize| tag(rules, &items[*i]) <= 0.0;
    let count = if candidates.is_empty() {
        0.0
    } else if candidates.len() < rules.few && candidates.iter().all(plain) {
        rules.few_penalty
    } else if candidates.len() >= rules.many {
        rules.many_bonus
    } else {
        0.0
    };
    evidence(rules, items, candidates) + count
}

/// The sum of Eq. 12 without the correction for their number. Decoration counts against a candidate only so far: a dialog
/// full of labels is still one.
fn evidence(rules: &ModalRules, items: &[Item<'_>], candidates: &[usize]) -> f64 {
    let tags = candidates.iter().map(|i| tag(rules, &items[*i]));
    let against: f64 = tags.clone().filter(|tag| *tag < 0.0).sum();
    let names: f64 = candidates.iter().map(|i| name(rules, &items[*i])).sum();
    tags.filter(|tag| *tag > 0.0).sum::<f64>() + against.max(rules.decorative_floor) + names
}

/// Eq. 13.
fn tag(rules: &ModalRules, item: &Item<'_>) -> f64 {
    let has = |names: &[String]| names.iter().any(|name| *name == item.role);
    if has(&rules.interactive_tags) {
        rules.tag_interactive
    } else if has(&rules.decorative_tags) {
        rules.tag_decorative
    } else {
        0.0
    }
}

/// Eq. 14.
fn name(rules: &ModalRules, item: &Item<'_>) -> f64 {
    let says = |keys: &[String]| words(&item.low).any(|word| keys.iter().any(|key| key == word));
    match item.is_interactive() {
        true if says(&rules.decide) => rules.w_decide,
        true if says(&rules.func) => rules.w_func,
        _ => 0.0,
    }
}

/// The words of a label in lower case.
pub(super) fn words(label: &str) -> impl Iterator<Item = &str> {
    label.split(|c: char| !c.is_alphanumeric() && c != '×').filter(|word| !word.is_empty())
}
