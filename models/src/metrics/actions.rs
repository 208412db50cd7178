//! Step-wise evaluation of actions: Type, GR and SR of CES, section 5.1, with bootstrap intervals.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;

/// One scored step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepScore {
    /// Episode it belongs to: what the bootstrap draws.
    pub episode: String,
    /// The predicted type is right.
    pub type_right: bool,
    /// Type and parameter are right.
    pub right: bool,
    /// The true action is a click or a long press: the step counts for grounding.
    pub grounds: bool,
}

/// A share with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// Share of the steps, 0 to 1; `None` without steps.
    pub rate: Option<f64>,
    /// Lower end of the 95 % interval.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval.
    pub high: Option<f64>,
    /// Steps it is a share of.
    pub steps: u64,
}

/// The three measures over one group of steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ActionMetrics {
    /// Episodes with such steps.
    pub episodes: u64,
    /// The predicted type is right.
    #[serde(rename = "type")]
    pub type_rate: Rate,
    /// Over true clicks and long presses: the point (or element) is right; a wrong type is a miss.
    pub gr: Rate,
    /// Type and parameter are right.
    pub sr: Rate,
}

/// Counts over one episode: steps and hits of each measure.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    steps: u64,
    types: u64,
    right: u64,
    grounding: u64,
    grounded: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.types += other.types;
        self.right += other.right;
        self.grounding += other.grounding;
        self.grounded += other.grounded;
    }

    fn rates(&self) -> [Option<f64>; 3] {
        let share = |hits: u64, of: u64| (of > 0).then(|| hits as f64 / of as f64);
        [share(self.types, self.steps), share(self.grounded, self.grounding), share(self.right, self.steps)]
    }
}

/// Type, GR and SR over `steps`, with percentile intervals from `resamples` bootstraps over episodes
/// (steps of one episode are not independent). The same seed gives the same intervals.
pub fn action_metrics<'a>(
    steps: impl IntoIterator<Item = &'a StepScore>,
    resamples: u32,
    seed: u64,
) -> ActionMetrics {
    let mut by_episode: BTreeMap<&str, Counts> = BTreeMap::new();
    for step in steps {
        by_episode.entry(&step.episode).or_default().add(&Counts {
            steps: 1,
            types: step.type_right.into(),
            right: step.right.into(),
            grounding: step.grounds.into(),
            grounded: (step.grounds && step.right).into(),
        });
    }
    let episodes: Vec<Counts> = by_episode.into_values().collect();
    let mut total = Counts::default();
    episodes.iter().for_each(|e| total.add(e));
    let drawn: Vec<[Option<f64>; 3]> =
        (0..u64::from(resamples)).into_par_iter().map(|i| resample(&episodes, seed, i)).collect();
    let rate = |which: usize, steps: u64| {
        let mut values: Vec<f64> = drawn.iter().filter_map(|rates| rates[which]).collect();
        values.sort_by(f64::total_cmp);
        let at = |q: f64| {
            let last = values.len().checked_sub(1)?;
            values.get((q * last as f64).round() as usize).copied()
        };
        Rate { rate: total.rates()[which], low: at(0.025), high: at(0.975), steps }
    };
    ActionMetrics {
        episodes: episodes.len() as u64,
        type_rate: rate(0, total.steps),
        gr: rate(1, total.grounding),
        sr: rate(2, total.steps),
    }
}

/// One bootstrap: as many episodes as there are, drawn with replacement. Each has a generator of its own,
/// so that threads do not matter.
fn resample(episodes: &[Counts], seed: u64, index: u64) -> [Option<f64>; 3] {
    if episodes.is_empty() {
        return [None; 3];
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(index);
    let mut total = Counts::default();
    for _ in 0..episodes.len() {
        total.add(&episodes[rng.random_range(0..episodes.len())]);
    }
    total.rates()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(episode: &str, type_right: bool, right: bool, grounds: bool) -> StepScore {
        StepScore { episode: episode.to_owned(), type_right, right, grounds }
    }

    #[test]
    fn rates_are_shares_of_the_right_steps() {
        let steps = [
            step("a", true, true, true),
            step("a", true, false, true),
            step("b", false, false, true),
            step("b", true, true, false),
        ];
        let found = action_metrics(&steps, 200, 7);
        assert_eq!((found.episodes, found.type_rate.steps, found.gr.steps), (2, 4, 3));
        assert_eq!(found.type_rate.rate, Some(0.75));
        assert_eq!(found.gr.rate, Some(1.0 / 3.0), "a wrong type is a miss");
        assert_eq!(found.sr.rate, Some(0.5));
        assert_eq!((found.type_rate.low, found.type_rate.high), (Some(0.5), Some(1.0)));
    }

    #[test]
    fn one_episode_has_no_spread_and_none_no_rate() {
        let one = action_metrics(&[step("a", true, true, false)], 50, 1);
        assert_eq!((one.sr.low, one.sr.rate, one.sr.high), (Some(1.0), Some(1.0), Some(1.0)));
        assert_eq!(one.gr, Rate { rate: None, low: None, high: None, steps: 0 });
        let none = action_metrics(&[], 50, 1);
        assert_eq!((none.episodes, none.sr.rate), (0, None));
    }

    #[test]
    fn the_interval_narrows_with_episodes_and_covers_the_rate() {
        let steps: Vec<StepScore> =
            (0..400).map(|i| step(&i.to_string(), i % 4 != 0, i % 2 == 0, false)).collect();
        let wide = action_metrics(&steps[..40], 500, 3).sr;
        let narrow = action_metrics(&steps, 500, 3).sr;
        let width = |r: Rate| r.high.unwrap_or(1.0) - r.low.unwrap_or(0.0);
        assert!(width(narrow) < width(wide) / 2.0, "{narrow:?} {wide:?}");
        assert!(narrow.low < Some(0.5) && narrow.high > Some(0.5));
        assert_eq!(narrow, action_metrics(&steps, 500, 3).sr, "the same seed, the same interval");
    }
}
