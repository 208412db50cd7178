//! C.1: two elements that are one.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

use super::super::audit::{Fate, Rule};
use super::super::item::Item;
use super::super::rules::ReduceRules;

/// Merges elements that stand at one place and say the same into the one that is rather acted on.
///
/// Elements are taken by priority (table 4), then the longer label, then document order; each is merged into the first of
/// those already kept that it duplicates. So nothing is merged into what is merged itself, and the outcome does not depend on
/// the order of comparison. Interactive elements are merged only if they are called the same and their boxes touch: `Save` and
/// `Save as`, one below the other, are two, and so are two spin buttons at 0. What holds a value of its own is no duplicate.
pub(in super::super) fn merge(
    rules: &ReduceRules,
    items: &[Item<'_>],
    together: &dyn Fn(usize, usize) -> bool,
    fates: &mut [Fate],
) {
    let mut order: Vec<usize> = (0..items.len())
        .filter(|i| fates[*i] == Fate::Kept && items[*i].centre.is_some() && !items[*i].label.is_empty())
        .collect();
    let names: Vec<Cow<'_, str>> = items.iter().map(|item| without_blanks(&item.low)).collect();
    order.sort_by_key(|i| (items[*i].score, Reverse(names[*i].len()), *i));
    let mut kept = Kept::new(rules);
    for index in order {
        let duplicate = |other: usize| {
            let (a, b) = ((&items[index], &names[index][..]), (&items[other], &names[other][..]));
            if together(index, other) { is_duplicate(rules, a, b) } else { None }
        };
        match kept.find(&items[index], &names[index], duplicate) {
            Some((into, rule)) => fates[index] = Fate::Merged { into, rule },
            None => kept.add(index, &items[index], &names[index]),
        }
    }
}

fn without_blanks(label: &str) -> Cow<'_, str> {
    if label.contains(' ') { Cow::Owned(label.replace(' ', "")) } else { Cow::Borrowed(label) }
}

/// Elements that are remembered of one place, of one name at a place and of one name in a row. No screen has more, and
/// comparing all of them would take quadratic time.
const CROWD: usize = 256;

/// Elements that stay, by place and by name.
struct Kept<'a> {
    rules: &'a ReduceRules,
    near: HashMap<(i64, i64), Vec<usize>>,
    /// By place and the hash of the name without blanks.
    same: HashMap<(i64, i64, u64), Vec<usize>>,
    /// By the label's hash: what collides is compared and found to be another.
    named: HashMap<(u64, i64), Vec<usize>>,
}

impl<'a> Kept<'a> {
    fn new(rules: &'a ReduceRules) -> Self {
        Self { rules, near: HashMap::new(), same: HashMap::new(), named: HashMap::new() }
    }

    fn cell(&self, at: (i32, i32)) -> (i64, i64) {
        let size = self.rules.distance.max(1.0);
        ((f64::from(at.0) / size).floor() as i64, (f64::from(at.1) / size).floor() as i64)
    }

    fn band(&self, y: i32) -> i64 {
        i64::from(y).div_euclid(i64::from(self.rules.same_name_dy.max(1)))
    }

    fn add(&mut self, index: usize, item: &Item<'_>, name: &str) {
        let at = item.node.centre();
        let cell = self.cell(at);
        let band = (xxh3_64(item.label.as_bytes()), self.band(at.1));
        let lists = [
            self.near.entry(cell).or_default(),
            self.same.entry((cell.0, cell.1, xxh3_64(name.as_bytes()))).or_default(),
            self.named.entry(band).or_default(),
        ];
        for list in lists {
            if list.len() < CROWD {
                list.push(index);
            }
        }
    }

    /// The first element, in the order of keeping, that `duplicate` accepts.
    fn find(
        &self,
        item: &Item<'_>,
        name: &str,
        duplicate: impl Fn(usize) -> Option<&'static str>,
    ) -> Option<(usize, Rule)> {
        let at = item.node.centre();
        let (cx, cy) = self.cell(at);
        let cells = (-1..=1).flat_map(|dx| (-1..=1).map(move |dy| (cx + dx, cy + dy)));
        let hash = xxh3_64(name.as_bytes());
        let near = cells.flat_map(|cell| {
            let crowd = self.near.get(&cell).into_iter().flatten();
            crowd.chain(self.same.get(&(cell.0, cell.1, hash)).into_iter().flatten())
        });
        let band = self.band(at.1);
        let label = xxh3_64(item.label.as_bytes());
        let named = (band - 1..=band + 1).filter_map(|band| self.named.get(&(label, band)));
        let mut found: Option<(usize, &'static str)> = None;
        for index in near.chain(named.flatten()).copied() {
            if found.is_none_or(|(known, _)| index < known)
                && let Some(rule) = duplicate(index)
            {
                found = Some((index, rule));
            }
        }
        found.map(|(index, rule)| (index, Rule::named(rule)))
    }
}

#[cfg(test)]
thread_local! {
    static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Pairs of elements that this thread has compared so far: what merging costs, told without a clock.
#[cfg(test)]
pub(in super::super) fn comparisons() -> usize {
    COMPARED.get()
}

/// The rule by which two elements are one, if they are.
fn is_duplicate(
    rules: &ReduceRules,
    (a, a_name): (&Item<'_>, &str),
    (b, b_name): (&Item<'_>, &str),
) -> Option<&'static str> {
    #[cfg(test)]
    COMPARED.set(COMPARED.get() + 1);
    let ((ax, ay), (bx, by)) = (a.node.centre(), b.node.centre());
    let (dx, dy) = (f64::from(ax) - f64::from(bx), f64::from(ay) - f64::from(by));
    let close = dx.hypot(dy) <= rules.distance;
    let both_act = a.is_interactive() && b.is_interactive();
    // Side by side or below one another, two that can be acted on are two, and two of one tag, as in a table.
    if (both_act || a.role == b.role) && apart(a, b) {
        return None;
    }
    // What is merged is not said: a value must not go with it.
    let lost = |item: &Item<'_>, by: &Item<'_>| {
        !item.value.is_empty() && item.value != by.value && item.value != by.label
    };
    if lost(a, b) {
        return None;
    }
    if a.label == b.label && dy.abs() <= f64::from(rules.same_name_dy) {
        let width = |item: &Item<'_>| item.node.rect.map_or(0, |rect| rect.width);
        let reach = f64::from(width(a).min(width(b)));
        // One element said by several tags; its name is a name, not what it happens to hold.
        let named = |item: &Item<'_>| !item.node.name.is_empty() || !item.is_interactive();
        if close || (!both_act && named(a) && named(b)) || (both_act && dx.abs() <= reach) {
            return Some("same-name");
        }
    }
    if !close {
        return None;
    }
    if a_name == b_name {
        return Some("same-place");
    }
    let (short, long) = if a_name.len() <= b_name.len() { (a_name, b_name) } else { (b_name, a_name) };
    let lengths = (short.chars().count() as f64, long.chars().count() as f64);
    let is_number = short.bytes().all(|b| !b.is_ascii_alphabetic() && b.is_ascii());
    let alike = !is_number && long.contains(short) && lengths.1 <= rules.length_ratio * lengths.0;
    (alike && !both_act).then_some("same-place")
}

/// Whether two boxes share no pixel.
fn apart(a: &Item<'_>, b: &Item<'_>) -> bool {
    let (Some(a), Some(b)) = (a.node.rect, b.node.rect) else { return false };
    a.x >= b.right() || b.x >= a.right() || a.y >= b.bottom() || b.y >= a.bottom()
}
