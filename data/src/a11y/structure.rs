//! Semantic structuring (section 3.3, appendix D): reading order, and blocks where the gap is wide.

use super::item::Item;
use super::rules::StructureRules;

/// Puts elements in reading order: from top to bottom by rows, in a row from left to right (D.1). Elements whose centres are
/// at most `row_pixels` below the first of a row are of that row; those without a box come last, as they stand.
pub(super) fn reading_order(rules: &StructureRules, items: &[Item<'_>], members: &mut [usize]) {
    let centre = |i: usize| items[i].centre;
    members.sort_by_key(|i| (centre(*i).is_none(), centre(*i).map(|(x, y)| (y, x)), *i));
    let placed = members.iter().take_while(|i| centre(**i).is_some()).count();
    let mut start = 0;
    while start < placed {
        let y = |i: usize| centre(i).map_or(0, |(_, y)| y);
        let first = y(members[start]);
        let row = members[start..placed].partition_point(|i| y(*i) <= first.saturating_add(rules.row_pixels));
        members[start..start + row].sort_by_key(|i| (centre(*i), *i));
        start += row;
    }
}

/// The same, column by column: icons on a desktop (D.4.7).
pub(super) fn grid_order(rules: &StructureRules, items: &[Item<'_>], members: &mut [usize]) {
    let centre = |i: usize| items[i].centre;
    members.sort_by_key(|i| (centre(*i).is_none(), centre(*i), *i));
    let mut start = 0;
    while start < members.len() {
        let x = |i: usize| centre(i).map_or(i32::MAX, |(x, _)| x);
        let first = x(members[start]);
        let column =
            members[start..].partition_point(|i| x(*i) <= first.saturating_add(4 * rules.row_pixels)).max(1);
        members[start..start + column].sort_by_key(|i| (centre(*i).map(|(x, y)| (y, x)), *i));
        start += column;
    }
}

/// The gap, in pixels, beyond which a new block begins (D.5), of the content area's elements in reading order, region by
/// region.
pub(super) fn threshold(rules: &StructureRules, items: &[Item<'_>], regions: &[&[usize]]) -> f64 {
    let mut gaps: Vec<f64> = regions.iter().flat_map(|members| gaps(items, members)).collect();
    gaps.sort_by(f64::total_cmp);
    gaps.truncate(((gaps.len() as f64 * rules.gap_share) as usize).max(usize::from(!gaps.is_empty())));
    let median = match gaps.len() {
        0 => 0.0,
        n => f64::midpoint(gaps[(n - 1) / 2], gaps[n / 2]),
    };
    let base = median.max(rules.gap_least);
    let fits = |n: &&f64| !is_over_segmented(rules, items, regions, base * **n);
    let most = rules.multipliers.last().copied().unwrap_or(1.0);
    base * rules.multipliers.iter().find(fits).copied().unwrap_or(most)
}

/// Vertical distances of neighbours.
fn gaps<'a>(items: &'a [Item<'_>], members: &'a [usize]) -> impl Iterator<Item = f64> + 'a {
    members.windows(2).filter_map(|pair| gap(items, pair[0], pair[1]))
}

fn gap(items: &[Item<'_>], a: usize, b: usize) -> Option<f64> {
    let ((_, above), (_, below)) = (items[a].centre?, items[b].centre?);
    Some((f64::from(below) - f64::from(above)).abs())
}

/// Where blocks begin: positions in `members`, without the first.
pub(super) fn breaks(items: &[Item<'_>], members: &[usize], theta: f64) -> Vec<usize> {
    let wide = |position: &usize| {
        gap(items, members[*position - 1], members[*position]).is_some_and(|distance| distance > theta)
    };
    (1..members.len()).filter(wide).collect()
}

/// D.5.2.
fn is_over_segmented(rules: &StructureRules, items: &[Item<'_>], regions: &[&[usize]], theta: f64) -> bool {
    let (mut blocks, mut singles) = (0, 0);
    for members in regions.iter().filter(|members| !members.is_empty()) {
        let mut edges = vec![0];
        edges.extend(breaks(items, members, theta));
        edges.push(members.len());
        blocks += edges.len() - 1;
        singles += edges.windows(2).filter(|pair| pair[1] - pair[0] == 1).count();
    }
    blocks > rules.most_blocks
        || (blocks > rules.some_blocks && singles as f64 > rules.single_share * blocks as f64)
}

#[cfg(test)]
mod tests {
    use super::super::item::Vocabulary;
    use super::super::rules::Rules;
    use super::super::tree::{Node, Rect, Tree};
    use super::*;

    fn tree(places: &[(i32, i32)]) -> Tree {
        let node = |(x, y): &(i32, i32)| Node {
            role: "label".into(),
            name: format!("{x},{y}"),
            rect: Some(Rect { x: *x, y: *y, width: 0, height: 0 }),
            ..Node::default()
        };
        Tree { nodes: places.iter().map(node).collect(), ..Tree::default() }
    }

    fn ordered(places: &[(i32, i32)]) -> Vec<usize> {
        let (rules, tree) = (Rules::builtin(), tree(places));
        let items = Vocabulary::new(&rules.general.roles).items(&tree);
        let mut members: Vec<usize> = (0..items.len()).collect();
        reading_order(&rules.general.structure, &items, &mut members);
        members
    }

    #[test]
    fn rows_are_read_from_left_to_right() {
        assert_eq!(ordered(&[(500, 12), (10, 10), (300, 18), (0, 19), (5, 100)]), [1, 2, 0, 3, 4]);
        assert_eq!(ordered(&[]), [] as [usize; 0]);
    }

    #[test]
    fn theta_is_the_first_multiple_that_does_not_shatter_the_screen() {
        let rules = Rules::builtin().general.structure;
        let theta = |places: &[(i32, i32)]| {
            let tree = tree(places);
            let vocabulary = Vocabulary::new(&Rules::builtin().general.roles);
            let items = vocabulary.items(&tree);
            let members: Vec<usize> = (0..items.len()).collect();
            threshold(&rules, &items, &[&members])
        };
        // Few elements: the base gap is its least, the strictest multiple holds.
        assert_eq!(theta(&[(0, 0), (0, 20), (0, 200)]), 120.0);
        // Every other gap is 2,000 px (the median of the lower 70 % is 20): blocks of two are fine at any multiple.
        let pairs: Vec<_> = (0..40).map(|i| (0, 2_000 * (i / 2) + 20 * (i % 2))).collect();
        assert_eq!(theta(&pairs), 120.0);
        // Lines 50 px apart but for 200 px after every third: the median is 50, and 150 cuts them into twenty blocks of three.
        let spaced = |count: i32, per: i32, wide: i32| -> Vec<(i32, i32)> {
            (0..count).map(|i| (0, 50 * i + (i / per) * (wide - 50))).collect()
        };
        assert_eq!(theta(&spaced(60, 3, 200)), 150.0);
        // Sixty blocks are too many at 150 and at 200, so the widest multiple joins them.
        assert_eq!(theta(&spaced(180, 3, 390)), 400.0);
    }
}
