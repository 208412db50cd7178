//! How the groups of one clustering became those of another, by the members that both have.

use std::collections::{BTreeMap, BTreeSet};

use super::NOISE;

/// What became of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Became {
    /// One group with the same members.
    Same,
    /// One group, with other members too, or fewer.
    Changed,
    /// Several groups of one.
    Split,
    /// One group of several.
    Merged,
    /// Several groups of several.
    Regrouped,
    /// Nothing: its members are noise now, are scattered over other groups, or are gone.
    Removed,
    /// A group out of nothing: its members were noise or scattered, or are new.
    Added,
}

/// Groups that belong together.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct GroupChange {
    /// What became of them.
    pub became: Became,
    /// Groups of the first clustering.
    pub before: Vec<i32>,
    /// Groups of the second.
    pub after: Vec<i32>,
    /// Common members that are in one of `before` and in one of `after`.
    pub kept: usize,
    /// Common members of `before` that are in none of `after`.
    pub left: usize,
    /// Common members of `after` that are in none of `before`.
    pub joined: usize,
    /// Jaccard index of the common members of `before` and of `after`: 1 when all stayed together; 0 where one side is
    /// empty.
    pub stability: f64,
}

/// Matches the groups of two clusterings of the same members: `before[i]` and `after[i]` are the labels of member i, -1 for
/// noise. `all_before` and `all_after` are the labels of every group, also of those without a common member.
///
/// Two groups belong together when half of the common members of either lie in the other; what hangs together that way is one
/// change. The order is that of the groups of the first clustering, then of the second.
pub fn match_groups(
    before: &[i32],
    after: &[i32],
    all_before: &BTreeSet<i32>,
    all_after: &BTreeSet<i32>,
) -> Vec<GroupChange> {
    let both = overlaps(before, after);
    let (sizes_before, sizes_after) = (sizes(before), sizes(after));
    let strong = |(&(a, b), &n): (&(i32, i32), &usize)| {
        let half = |size: usize| 2 * n >= size;
        (half(sizes_before[&a]) || half(sizes_after[&b])).then_some((a, b))
    };
    let links: BTreeSet<(i32, i32)> = both.iter().filter_map(strong).collect();
    let mut changes = Vec::new();
    let (mut done_before, mut done_after) = (BTreeSet::new(), BTreeSet::new());
    let starts =
        all_before.iter().map(|a| (Some(*a), None)).chain(all_after.iter().map(|b| (None, Some(*b))));
    for (a, b) in starts {
        if a.is_some_and(|a| done_before.contains(&a)) || b.is_some_and(|b| done_after.contains(&b)) {
            continue;
        }
        let (mut of_before, mut of_after) = (BTreeSet::from_iter(a), BTreeSet::from_iter(b));
        loop {
            let count = of_before.len() + of_after.len();
            for (a, b) in &links {
                if of_before.contains(a) || of_after.contains(b) {
                    of_before.insert(*a);
                    of_after.insert(*b);
                }
            }
            if of_before.len() + of_after.len() == count {
                break;
            }
        }
        done_before.extend(of_before.iter().copied());
        done_after.extend(of_after.iter().copied());
        changes.push(change(before, after, &of_before, &of_after));
    }
    changes
}

fn overlaps(before: &[i32], after: &[i32]) -> BTreeMap<(i32, i32), usize> {
    let mut both = BTreeMap::new();
    for (a, b) in before.iter().zip(after).filter(|(a, b)| **a != NOISE && **b != NOISE) {
        *both.entry((*a, *b)).or_insert(0) += 1;
    }
    both
}

fn sizes(labels: &[i32]) -> BTreeMap<i32, usize> {
    let mut sizes = BTreeMap::new();
    labels.iter().for_each(|label| *sizes.entry(*label).or_insert(0) += 1);
    sizes
}

fn change(before: &[i32], after: &[i32], of_before: &BTreeSet<i32>, of_after: &BTreeSet<i32>) -> GroupChange {
    let (mut kept, mut left, mut joined) = (0, 0, 0);
    for (a, b) in before.iter().zip(after) {
        match (of_before.contains(a), of_after.contains(b)) {
            (true, true) => kept += 1,
            (true, false) => left += 1,
            (false, true) => joined += 1,
            (false, false) => {}
        }
    }
    let became = match (of_before.len(), of_after.len()) {
        (_, 0) => Became::Removed,
        (0, _) => Became::Added,
        (1, 1) if left + joined == 0 => Became::Same,
        (1, 1) => Became::Changed,
        (1, _) => Became::Split,
        (_, 1) => Became::Merged,
        _ => Became::Regrouped,
    };
    let all = kept + left + joined;
    let stability =
        if all == 0 || of_before.is_empty() || of_after.is_empty() { 0.0 } else { kept as f64 / all as f64 };
    GroupChange {
        became,
        before: of_before.iter().copied().collect(),
        after: of_after.iter().copied().collect(),
        kept,
        left,
        joined,
        stability,
    }
}

/// How stable the groups of `before` are, weighted by their size: the mean over members in a group of the Jaccard index of
/// their group and the group of `after` that is most like it. `None` without a member in a group.
pub fn stability(before: &[i32], after: &[i32]) -> Option<f64> {
    let both = overlaps(before, after);
    let (sizes_before, sizes_after) = (sizes(before), sizes(after));
    let mut best: BTreeMap<i32, f64> = BTreeMap::new();
    for ((a, b), n) in &both {
        let union = sizes_before[a] + sizes_after[b] - n;
        let jaccard = *n as f64 / union as f64;
        best.entry(*a).and_modify(|known| *known = known.max(jaccard)).or_insert(jaccard);
    }
    let grouped: usize = sizes_before.iter().filter(|(label, _)| **label != NOISE).map(|(_, n)| n).sum();
    let sum: f64 = best.iter().map(|(a, jaccard)| jaccard * sizes_before[a] as f64).sum();
    (grouped > 0).then(|| sum / grouped as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(of: &[i32]) -> BTreeSet<i32> {
        of.iter().copied().filter(|label| *label != NOISE).collect()
    }

    fn matched(before: &[i32], after: &[i32]) -> Vec<GroupChange> {
        match_groups(before, after, &labels(before), &labels(after))
    }

    #[test]
    fn groups_that_are_numbered_anew_are_the_same() {
        let changes = matched(&[0, 0, 1, 1, -1], &[7, 7, 3, 3, -1]);
        assert!(changes.iter().all(|c| c.became == Became::Same && (c.stability - 1.0).abs() < 1e-12));
        assert_eq!((changes[0].before.as_slice(), changes[0].after.as_slice()), (&[0][..], &[7][..]));
    }

    #[test]
    fn every_kind_of_change_has_its_name() {
        let became = |before: &[i32], after: &[i32]| {
            matched(before, after).into_iter().map(|c| c.became).collect::<Vec<_>>()
        };
        assert_eq!(became(&[0, 0, 0, 0], &[1, 1, 2, 2]), [Became::Split]);
        assert_eq!(became(&[0, 0, 1, 1], &[5, 5, 5, 5]), [Became::Merged]);
        assert_eq!(became(&[0, 0, 0], &[1, 1, -1]), [Became::Changed]);
        assert_eq!(became(&[0, 0], &[-1, -1]), [Became::Removed]);
        assert_eq!(became(&[-1, -1], &[4, 4]), [Became::Added]);
        // A third of the members goes over: the groups are still two.
        assert_eq!(
            became(&[0, 0, 0, 1, 1, 1, 1], &[0, 0, 1, 1, 1, 1, 1]),
            [Became::Changed, Became::Changed]
        );
        // A group without a common member is removed or added all the same.
        let none: Vec<GroupChange> = match_groups(&[], &[], &BTreeSet::from([3]), &BTreeSet::from([4]));
        assert_eq!(none.iter().map(|c| c.became).collect::<Vec<_>>(), [Became::Removed, Became::Added]);
    }

    #[test]
    fn stability_is_the_weighted_jaccard_index() {
        // Group 0 (3 members) keeps 2 of them, group 1 (1 member) all, beside one that came.
        let value = stability(&[0, 0, 0, 1, -1], &[8, 8, 9, 9, 8]).unwrap();
        let expected = (3.0 * (2.0 / 4.0) + 1.0 / 2.0) / 4.0;
        assert!((value - expected).abs() < 1e-12, "{value}");
        assert_eq!(stability(&[-1], &[0]), None);
    }

    proptest! {
        #[test]
        fn every_group_is_in_one_change_and_members_are_counted_once(
            pairs in prop::collection::vec((-1..5_i32, -1..5_i32), 0..60),
        ) {
            let (before, after): (Vec<i32>, Vec<i32>) = pairs.into_iter().unzip();
            let changes = matched(&before, &after);
            let all = |side: fn(&GroupChange) -> &Vec<i32>| {
                let mut groups: Vec<i32> = changes.iter().flat_map(|c| side(c).clone()).collect();
                groups.sort_unstable();
                groups
            };
            prop_assert_eq!(all(|c| &c.before), labels(&before).into_iter().collect::<Vec<_>>());
            prop_assert_eq!(all(|c| &c.after), labels(&after).into_iter().collect::<Vec<_>>());
            let grouped = before.iter().filter(|label| **label != NOISE).count();
            prop_assert_eq!(changes.iter().map(|c| c.kept + c.left).sum::<usize>(), grouped);
            for change in matched(&before, &before) {
                prop_assert_eq!(change.became, Became::Same);
            }
        }
    }
}
