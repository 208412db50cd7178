//! Means over tasks, with bootstrap intervals.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;

/// A mean with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mean {
    /// Mean of the values; none without any.
    pub mean: Option<f64>,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Values.
    pub values: u64,
    /// Distinct tasks.
    pub tasks: u64,
}

/// Mean of the values of all episodes, with a percentile interval from `resamples` bootstraps over tasks: episodes of
/// one task are drawn together. The same seed gives the same interval, whatever the number of threads.
pub fn mean_over_tasks<'a>(
    values: impl IntoIterator<Item = (&'a str, f64)>,
    resamples: u32,
    seed: u64,
) -> Mean {
    let mut by_task: BTreeMap<&str, (f64, u64)> = BTreeMap::new();
    for (task, value) in values {
        let (sum, count) = by_task.entry(task).or_default();
        *sum += value;
        *count += 1;
    }
    let tasks: Vec<(f64, u64)> = by_task.into_values().collect();
    let mean = |(sum, count): (f64, u64)| (count > 0).then(|| sum / count as f64);
    let total = tasks.iter().fold((0.0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let draw = |index: u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(index);
        let drawn = (0..tasks.len()).map(|_| tasks[rng.random_range(0..tasks.len())]);
        mean(drawn.fold((0.0, 0), |a, b| (a.0 + b.0, a.1 + b.1)))
    };
    let mut drawn: Vec<f64> = (0..u64::from(resamples)).into_par_iter().filter_map(draw).collect();
    drawn.sort_by(f64::total_cmp);
    let at = |q: f64| Some(drawn[(q * drawn.len().checked_sub(1)? as f64).round() as usize]);
    Mean { mean: mean(total), low: at(0.025), high: at(0.975), values: total.1, tasks: tasks.len() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn episodes_of_one_task_are_drawn_together() {
        let one = mean_over_tasks([("a", 0.0), ("a", 1.0)], 100, 3);
        assert_eq!(
            (one.mean, one.low, one.high, one.values, one.tasks),
            (Some(0.5), Some(0.5), Some(0.5), 2, 1)
        );
        let two = mean_over_tasks([("a", 0.0), ("b", 1.0)], 100, 3);
        assert_eq!((two.mean, two.low, two.high), (Some(0.5), Some(0.0), Some(1.0)));
        assert_eq!(two, mean_over_tasks([("a", 0.0), ("b", 1.0)], 100, 3));
        let none = mean_over_tasks([], 100, 3);
        assert_eq!((none.mean, none.low, none.tasks), (None, None, 0));
    }
}
