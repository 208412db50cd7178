//! Agreement of two labelings.

use std::collections::BTreeMap;

/// The Rand index corrected for chance (Hubert and Arabie): 1 for the same partition, 0 on average
/// for independent ones. Noise counts as one group like any other, as in scikit-learn. Two labelings
/// that are both trivial (one group, or all singletons) agree fully.
///
/// # Errors
/// `None` when the labelings differ in length.
pub fn adjusted_rand_index<A: Ord, B: Ord>(a: &[A], b: &[B]) -> Option<f64> {
    if a.len() != b.len() {
        return None;
    }
    let (mut both, mut rows, mut columns) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (x, y) in a.iter().zip(b) {
        *both.entry((x, y)).or_insert(0u64) += 1;
        *rows.entry(x).or_insert(0u64) += 1;
        *columns.entry(y).or_insert(0u64) += 1;
    }
    let pairs = |n: u64| n as f64 * (n as f64 - 1.0) / 2.0;
    let together: f64 = both.values().copied().map(pairs).sum();
    let in_a: f64 = rows.values().copied().map(pairs).sum();
    let in_b: f64 = columns.values().copied().map(pairs).sum();
    let all = pairs(a.len() as u64);
    if all <= 0.0 {
        return Some(1.0);
    }
    let (expected, most) = (in_a * in_b / all, f64::midpoint(in_a, in_b));
    Some(if (most - expected).abs() < f64::EPSILON * most.max(1.0) {
        1.0
    } else {
        (together - expected) / (most - expected)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_worked_example_of_scikit_learn() {
        let ari = |a: &[i32], b: &[i32]| adjusted_rand_index(a, b).unwrap();
        assert!((ari(&[0, 0, 1, 2], &[0, 0, 1, 1]) - 0.571_428_571_428_571_4).abs() < 1e-12);
        assert!((ari(&[0, 0, 1, 1], &[0, 1, 0, 1]) + 0.5).abs() < 1e-12);
        assert!((ari(&[0, 0, 0, 0], &[0, 1, 2, 3])).abs() < 1e-12);
    }

    #[test]
    fn names_do_not_matter_and_lengths_do() {
        assert_eq!(adjusted_rand_index(&["a", "a", "b"], &[7, 7, -1]), Some(1.0));
        assert_eq!(adjusted_rand_index(&[0, 1], &[0]), None);
        assert_eq!(adjusted_rand_index::<i32, i32>(&[], &[]), Some(1.0));
    }

    proptest! {
        #[test]
        fn it_is_symmetric_and_at_most_one(pairs in prop::collection::vec((0..4i32, 0..4i32), 1..50)) {
            let (a, b): (Vec<i32>, Vec<i32>) = pairs.into_iter().unzip();
            let (ab, ba) = (adjusted_rand_index(&a, &b).unwrap(), adjusted_rand_index(&b, &a).unwrap());
            prop_assert!((ab - ba).abs() < 1e-12);
            prop_assert!(ab <= 1.0 + 1e-12);
            prop_assert!((adjusted_rand_index(&a, &a).unwrap() - 1.0).abs() < 1e-12);
        }
    }
}
