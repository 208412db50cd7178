//! Equation 6: the medoid of predicate sequences under `d_sig`.

use std::cmp::Ordering;

use rayon::prelude::*;

/// A verb signature: the predicates of a trace, in order.
pub type Signature<'a> = Vec<&'a str>;

/// Costs that differ by no more than this share are a tie: sums of the same fractions in another order
/// differ in their last bits.
const TIE: f64 = 1e-9;

/// Distinct sequences up to which every one is a candidate; above, the most frequent ones are.
const MAX_CANDIDATES: usize = 2_000;

/// Dissimilarity of two predicate sequences, 0 to 1: Levenshtein distance divided by the longer length.
///
/// ```text
/// d_sig(a, b) = lev(a, b) / max(|a|, |b|), and 0 for two empty sequences
/// ```
pub fn d_sig<T: PartialEq>(a: &[T], b: &[T]) -> f64 {
    let longer = a.len().max(b.len());
    if longer == 0 { 0.0 } else { edits(a, b) as f64 / longer as f64 }
}

/// Borrowed slices as the collections that `strsim` wants.
struct Sequence<'s, T>(&'s [T]);

impl<'a, T> IntoIterator for &'a Sequence<'_, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

fn edits<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    strsim::generic_levenshtein(&Sequence(a), &Sequence(b))
}

/// The medoid of a weighted set of distinct sequences.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Medoid {
    /// Position of the medoid among the sequences given.
    pub index: usize,
    /// Weighted sum of `d_sig` from the medoid to every sequence.
    pub cost: f64,
    /// False when only the most frequent sequences were candidates (more than 2,000 distinct ones).
    pub exact: bool,
}

/// Medoid (equation 6) of distinct `sequences` with the number of members that have each.
///
/// Ties: the shorter, then the lexicographically smaller sequence. Empty sequences count in the cost and
/// are no candidates, for a schema without steps says nothing. `None` when no candidate is left.
///
/// Quadratic in the number of distinct sequences up to 2,000; beyond, the 2,000 most frequent (ties as
/// above) are the candidates, each still compared with every sequence.
pub fn medoid<T: Ord + Sync>(sequences: &[(&[T], usize)]) -> Option<Medoid> {
    medoid_of(sequences, MAX_CANDIDATES)
}

fn medoid_of<T: Ord + Sync>(sequences: &[(&[T], usize)], max_candidates: usize) -> Option<Medoid> {
    let order = |&a: &usize, &b: &usize| shorter_then_smaller(sequences[a].0, sequences[b].0);
    let mut candidates: Vec<usize> = (0..sequences.len()).filter(|&i| !sequences[i].0.is_empty()).collect();
    let exact = candidates.len() <= max_candidates;
    if !exact {
        candidates.sort_by(|a, b| sequences[*b].1.cmp(&sequences[*a].1).then_with(|| order(a, b)));
        candidates.truncate(max_candidates);
    }
    let cost = |&i: &usize| -> f64 {
        sequences.iter().map(|(other, weight)| *weight as f64 * d_sig(sequences[i].0, other)).sum()
    };
    let costs: Vec<f64> = candidates.par_iter().map(cost).collect();
    let least = costs.iter().copied().min_by(f64::total_cmp)?;
    let tied = candidates.into_iter().zip(costs).filter(|(_, c)| *c <= least + TIE * least.max(1.0));
    tied.min_by(|(a, _), (b, _)| order(a, b)).map(|(index, cost)| Medoid { index, cost, exact })
}

fn shorter_then_smaller<T: Ord>(a: &[T], b: &[T]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn d_sig_divides_by_the_longer_length() {
        assert!((d_sig(&["click", "save"], &["click", "scroll", "save"]) - 1.0 / 3.0).abs() < 1e-12);
        assert!(d_sig::<u8>(&[], &[]).abs() < 1e-12);
        assert!((d_sig(&[1], &[]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn weights_decide_and_ties_go_to_the_shorter_then_smaller() {
        let heavy = medoid(&[(&[1, 2, 3][..], 1), (&[1, 2][..], 5)]).expect("candidates");
        assert_eq!(heavy.index, 1);
        assert!((heavy.cost - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(medoid(&[(&[1, 2, 3][..], 1), (&[1, 2][..], 1)]).map(|m| m.index), Some(1));
        assert_eq!(medoid(&[(&[2][..], 1), (&[1][..], 1)]).map(|m| m.index), Some(1));
        assert_eq!(medoid::<u8>(&[(&[][..], 9)]), None);
    }

    #[test]
    fn above_the_cap_the_most_frequent_are_candidates_and_that_is_said() {
        let sequences = [(&[1, 1, 1][..], 2), (&[2, 2, 2][..], 3), (&[3][..], 1)];
        let capped = medoid_of(&sequences, 2).expect("candidates");
        assert_eq!((capped.index, capped.exact), (1, false));
        assert!(medoid_of(&sequences, 3).is_some_and(|m| m.exact));
    }

    fn sequence() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0..4_u8, 0..8)
    }

    proptest! {
        #[test]
        fn d_sig_is_a_normalised_symmetric_dissimilarity(a in sequence(), b in sequence()) {
            let d = d_sig(&a, &b);
            prop_assert!((0.0..=1.0).contains(&d));
            prop_assert!((d - d_sig(&b, &a)).abs() < 1e-12);
            prop_assert_eq!(d == 0.0, a == b);
        }

        #[test]
        fn the_medoid_is_a_member_of_least_cost(
            set in prop::collection::btree_map(sequence(), 1..5_usize, 1..12)
        ) {
            let pairs: Vec<(&[u8], usize)> = set.iter().map(|(s, w)| (s.as_slice(), *w)).collect();
            let cost = |i: usize| -> f64 {
                pairs.iter().map(|(s, w)| *w as f64 * d_sig(pairs[i].0, s)).sum()
            };
            if let Some(found) = medoid(&pairs) {
                prop_assert!(!pairs[found.index].0.is_empty());
                for i in (0..pairs.len()).filter(|i| !pairs[*i].0.is_empty()) {
                    prop_assert!(found.cost <= cost(i) + 1e-6);
                }
            } else {
                prop_assert!(pairs.iter().all(|(s, _)| s.is_empty()));
            }
        }
    }
}
