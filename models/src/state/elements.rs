//! The difference of two screens that are known as elements.

use std::collections::BTreeMap;

use tracemill_data::action::{BBox, Position, ScreenSize};
use tracemill_data::trace::Element;

use super::region::Region;

/// How two screens differ. Ids are left out of the comparison: most sources number elements anew on every screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ElementChange {
    /// Elements of the screen after that were not there before.
    pub appeared: Vec<usize>,
    /// Elements of the screen before that are not there any more.
    pub gone: Vec<usize>,
    /// Elements (before, after) of one role in one place whose text or states differ.
    pub changed: Vec<(usize, usize)>,
    /// Elements that are the same but for their place.
    pub moved: usize,
    /// The smallest box around all of these, where they have boxes.
    pub region: Option<Region>,
}

impl ElementChange {
    /// Whether nothing differs.
    pub fn is_none(&self) -> bool {
        self.appeared.is_empty() && self.gone.is_empty() && self.changed.is_empty() && self.moved == 0
    }
}

/// What a person would call the same element wherever it stands.
fn content(element: &Element) -> (&str, &str, &[String]) {
    (&element.role, &element.text, &element.states)
}

/// Compares two screens as sets of elements, of which several may be alike.
pub fn element_change(before: &[Element], after: &[Element], size: Option<ScreenSize>) -> ElementChange {
    let mut free: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    // Backwards, so that the first of several is taken first.
    for (i, element) in before.iter().enumerate().rev() {
        free.entry(content(element)).or_default().push(i);
    }
    let mut change = ElementChange::default();
    let mut touched: Vec<BBox> = Vec::new();
    for (j, element) in after.iter().enumerate() {
        let Some(same) = free.get_mut(&content(element)).filter(|same| !same.is_empty()) else {
            change.appeared.push(j);
            continue;
        };
        // One in the same place is the same one; otherwise the first has moved.
        let at = same.iter().rposition(|&i| before[i].bbox == element.bbox);
        let i = same.remove(at.unwrap_or(same.len() - 1));
        if at.is_none() {
            change.moved += 1;
            touched.extend([before[i].bbox, element.bbox].into_iter().flatten());
        }
    }
    change.gone = free.into_values().flatten().collect();
    change.gone.sort_unstable();
    pair_changed(&mut change, before, after);
    let pairs = change.changed.iter().flat_map(|&(i, j)| [&before[i], &after[j]]);
    let alone = change.gone.iter().map(|&i| &before[i]).chain(change.appeared.iter().map(|&j| &after[j]));
    touched.extend(pairs.chain(alone).filter_map(|e| e.bbox));
    change.region = touched.iter().filter_map(|b| in_pixels(b, size)).reduce(Region::union);
    change
}

/// What is gone and what appeared in its place, with its role, is one element that changed.
fn pair_changed(change: &mut ElementChange, before: &[Element], after: &[Element]) {
    let mut appeared = std::mem::take(&mut change.appeared);
    change.gone.retain(|&i| {
        let old = &before[i];
        let successor = appeared.iter().position(|&j| {
            let new = &after[j];
            let placed = old.bbox.is_some() && old.bbox == new.bbox;
            old.role == new.role && (placed || (old.bbox.is_none() && !old.id.is_empty() && old.id == new.id))
        });
        if let Some(at) = successor {
            change.changed.push((i, appeared.remove(at)));
        }
        successor.is_none()
    });
    change.appeared = appeared;
}

fn in_pixels(b: &BBox, size: Option<ScreenSize>) -> Option<Region> {
    let corner = |x, y| Position { x, y, frame: b.frame }.to_pixels(size);
    let (first, second) = (corner(b.left, b.top)?, corner(b.right, b.bottom)?);
    // A screen's edge cuts what lies beyond it.
    let (width, height) = size.map_or((u32::MAX, u32::MAX), |s| (s.width_px, s.height_px));
    let clamp = |at: f64, most: u32| at.max(0.0).min(f64::from(most)) as u32;
    let region = Region {
        left_px: clamp(first.x.floor(), width),
        top_px: clamp(first.y.floor(), height),
        right_px: clamp(second.x.ceil(), width),
        bottom_px: clamp(second.y.ceil(), height),
    };
    (region.left_px < region.right_px && region.top_px < region.bottom_px).then_some(region)
}

#[cfg(test)]
mod tests {
    use tracemill_data::action::FrameName;

    use super::*;

    fn element(role: &str, text: &str, left: f64) -> Element {
        let bbox = BBox { left, top: 10.0, right: left + 10.0, bottom: 20.0, frame: FrameName::Pixels };
        Element { role: role.to_owned(), text: text.to_owned(), bbox: Some(bbox), ..Element::default() }
    }

    #[test]
    fn ids_and_order_do_not_matter() {
        let before = vec![element("button", "A", 0.0), element("button", "B", 20.0)];
        let mut after: Vec<Element> = before.iter().rev().cloned().collect();
        after[0].id = "7".to_owned();
        assert!(element_change(&before, &after, None).is_none());
    }

    #[test]
    fn what_appeared_went_changed_and_moved() {
        let before = vec![
            element("button", "Save", 0.0),
            element("label", "one", 20.0),
            element("row", "x", 40.0),
            element("row", "x", 60.0),
            element("tab", "gone", 80.0),
        ];
        let after = vec![
            element("button", "Save", 0.0),
            element("label", "two", 20.0),
            element("row", "x", 60.0),
            element("row", "x", 300.0),
            element("dialog", "Sure?", 120.0),
        ];
        let size = Some(ScreenSize { width_px: 305, height_px: 100 });
        let change = element_change(&before, &after, size);
        assert_eq!(change.changed, [(1, 1)]);
        assert_eq!(
            (change.gone.as_slice(), change.appeared.as_slice(), change.moved),
            (&[4][..], &[4][..], 1)
        );
        let region = Region { left_px: 20, top_px: 10, right_px: 305, bottom_px: 20 };
        assert_eq!(change.region, Some(region), "cut at the screen's edge");
    }
}
