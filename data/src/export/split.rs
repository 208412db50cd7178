//! Which rows there are: split by task, and drawn by a seed.

use std::collections::BinaryHeap;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Train or test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Split {
    /// To be learned from.
    Train,
    /// To be measured on.
    Test,
}

impl Split {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Test => "test",
        }
    }
}

/// A task as it is compared: lower-cased words of the instruction, so that a repeated task with other
/// punctuation is the same task. An episode without an instruction is a task of its own.
pub fn task_key(instruction: &str, episode_id: &str) -> String {
    let words: Vec<String> = instruction
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .map(str::to_lowercase)
        .collect();
    if words.is_empty() { episode_id.to_owned() } else { words.join(" ") }
}

/// Assigns splits to tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Splitter {
    /// Seed of the draw.
    pub seed: u64,
    /// Share of tasks that go to the test split.
    pub test_share: f64,
    /// Whether a split that the source assigns is kept.
    pub keep_source: bool,
}

impl Splitter {
    /// The split of a task. All rows of a task are on one side, whatever episode they are of: the source's
    /// own split counts only as long as no other episode says otherwise, which the caller reports.
    pub fn of(&self, task_key: &str, source_split: Option<&str>) -> Split {
        match source_split.filter(|_| self.keep_source) {
            Some(split) if split.starts_with("test") || split.starts_with("val") => return Split::Test,
            Some(split) if split.starts_with("train") => return Split::Train,
            _ => {}
        }
        let drawn = xxh3_64_with_seed(task_key.as_bytes(), self.seed) as f64 / u64::MAX as f64;
        if drawn < self.test_share { Split::Test } else { Split::Train }
    }
}

/// Draws `n` of the rows it is shown, in one pass and in memory of `n`: those with the smallest hashes.
#[derive(Debug, Clone)]
pub struct Choice {
    n: Option<usize>,
    seed: u64,
    smallest: BinaryHeap<u64>,
}

impl Choice {
    /// `None` keeps every row.
    pub fn new(n: Option<usize>, seed: u64) -> Self {
        Self { n, seed, smallest: BinaryHeap::new() }
    }

    fn rank(&self, row_id: &str) -> u64 {
        // Another seed than that of the splits, or a test share would bias the draw.
        xxh3_64_with_seed(row_id.as_bytes(), self.seed ^ 0x5EED_0F0A_77AC_E5D1)
    }

    /// Shows a row.
    pub fn see(&mut self, row_id: &str) {
        let Some(n) = self.n else { return };
        let rank = self.rank(row_id);
        if self.smallest.len() < n {
            self.smallest.push(rank);
        } else if let Some(mut largest) = self.smallest.peek_mut()
            && rank < *largest
        {
            *largest = rank;
        }
    }

    /// Whether a row that was shown is drawn.
    pub fn holds(&self, row_id: &str) -> bool {
        match self.n {
            None => true,
            Some(_) => self.smallest.peek().is_some_and(|largest| self.rank(row_id) <= *largest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_task_is_its_words() {
        assert_eq!(task_key("Set a timer, NOW!", "e"), task_key("set  a timer now", "f"));
        assert_eq!(task_key("…", "droidtask:1"), "droidtask:1");
        assert_eq!(task_key("闹钟 7点", ""), "闹钟 7点");
    }

    #[test]
    fn the_sources_split_counts_unless_it_is_not_wanted() {
        let splitter = Splitter { seed: 1, test_share: 0.0, keep_source: true };
        assert_eq!(splitter.of("a", Some("test_task")), Split::Test);
        assert_eq!(splitter.of("a", Some("train")), Split::Train);
        assert_eq!(splitter.of("a", Some("random")), Split::Train);
        assert_eq!(Splitter { keep_source: false, ..splitter }.of("a", Some("test")), Split::Train);
        assert_eq!(Splitter { test_share: 1.0, ..splitter }.of("a", None), Split::Test);
    }

    proptest! {
        #[test]
        fn as_many_are_drawn_as_asked_and_order_does_not_matter(
            ids in proptest::collection::hash_set("[a-z]{1,6}", 0..60), n in 0_usize..70, seed in any::<u64>(),
        ) {
            let mut ids: Vec<String> = ids.into_iter().collect();
            let draw = |ids: &[String]| {
                let mut choice = Choice::new(Some(n), seed);
                ids.iter().for_each(|id| choice.see(id));
                let mut held: Vec<String> = ids.iter().filter(|id| choice.holds(id)).cloned().collect();
                held.sort();
                held
            };
            let first = draw(&ids);
            prop_assert_eq!(first.len(), n.min(ids.len()));
            ids.reverse();
            prop_assert_eq!(first, draw(&ids));
        }
    }
}
