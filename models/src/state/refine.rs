//! Refined contexts by rule (`HiSA`, section 3.3.2 and Eq. 4): every `N` steps the summary so far and the steps since
//! become one summary, which never grows past its bound.
//!
//! Milestones, failures and coordinates stay longest: steps alike are told once with their number, routine steps go
//! first, then the oldest milestones, then the oldest failures. What is left out is counted.

use serde::{Deserialize, Serialize};
use tracemill_data::artifact::StepOutcome;

/// Name and version of the rules, for artifacts that depend on them.
pub const REFINER: &str = "refine-rules@1";

/// How `step_trace` words a step on something without a name.
const NAMELESS: &str = "something without a name";
/// Longest wording of one step, in characters.
const WORDS: usize = 160;
/// Attempts without effect, one after the other, that make a loop.
const LOOP: u32 = 3;

/// How contexts are refined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefineSettings {
    /// Steps between two refinements (`N`).
    pub every: u32,
    /// Longest summary, in characters.
    pub max_chars: usize,
}

impl Default for RefineSettings {
    fn default() -> Self {
        Self { every: 5, max_chars: 1_200 }
    }
}

/// A step as a summary tells it, or several alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Number of the first of them, from 1.
    pub first: u32,
    /// Number of the last.
    pub last: u32,
    /// How many they are.
    pub times: u32,
    /// What was done, in words, with its coordinates.
    pub words: String,
    /// How it went.
    pub outcome: StepOutcome,
    /// What was seen of it: why it failed, or what a model says of its effect; may be empty.
    pub result: String,
    /// Whether the task moved on by it: an application opened, something entered, a new screen.
    pub milestone: bool,
}

/// A refined context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// Steps that it covers, from the first.
    pub steps: u32,
    /// What it tells, in order.
    pub done: Vec<Done>,
    /// Steps that it no longer tells.
    pub left_out: u32,
    /// How many of these had failed.
    pub left_out_failed: u32,
}

impl Done {
    /// `3-4) Tap "OK" [click(10,20)], 2 times – failed (no change of the screen)`.
    pub fn text(&self) -> String {
        let number = if self.first == self.last {
            self.first.to_string()
        } else {
            format!("{}-{}", self.first, self.last)
        };
        let times = if self.times > 1 { format!(", {} times", self.times) } else { String::new() };
        let word = match self.outcome {
            StepOutcome::Success => " – done",
            StepOutcome::Failure => " – failed",
            StepOutcome::Unknown => "",
        };
        let result = clip(self.result.trim_end_matches('.'), WORDS / 2);
        let went = if result.is_empty() { word.to_owned() } else { format!("{word} ({result})") };
        format!("{number}) {}{times}{went}", clip(self.words.trim_end_matches('.'), WORDS))
    }

    /// Whether two steps are told as one.
    fn is_like(&self, other: &Self) -> bool {
        // What nothing names need not be the same thing twice.
        !self.words.contains(NAMELESS)
            && (&self.words, self.outcome, &self.result) == (&other.words, other.outcome, &other.result)
    }
}

impl Context {
    /// The next context: this one and the steps since, in at most `max_chars` characters (Eq. 4).
    pub fn refine(&self, since: &[Done], settings: RefineSettings) -> Self {
        let mut next = self.clone();
        next.steps = since.last().map_or(self.steps, |done| done.last);
        for done in since {
            match next.done.last_mut() {
                Some(last) if last.is_like(done) => {
                    last.last = done.last;
                    last.times += done.times;
                }
                _ => next.done.push(done.clone()),
            }
        }
        while next.text().chars().count() > settings.max_chars && next.done.len() > 1 {
            let gone = next.done.remove(next.least());
            next.left_out += gone.times;
            next.left_out_failed += if gone.outcome == StepOutcome::Failure { gone.times } else { 0 };
        }
        next
    }

    /// What is left out next; the last step never is.
    fn least(&self) -> usize {
        let before_last = &self.done[..self.done.len() - 1];
        let rank = |done: &Done| match (done.outcome, done.milestone) {
            (StepOutcome::Failure, _) => 2,
            (_, true) => 1,
            _ => 0,
        };
        (0..before_last.len()).min_by_key(|&i| (rank(&before_last[i]), i)).unwrap_or(0)
    }

    /// `Steps 1~10: 1) … 2) … Suggestion: …`, as in the paper's appendix A.5.
    pub fn text(&self) -> String {
        format!("{} Suggestion: {}", self.progress(), self.suggestion())
    }

    /// The summary without its suggestion.
    pub fn progress(&self) -> String {
        let told: Vec<String> = self.done.iter().map(Done::text).collect();
        let left_out = match (self.left_out, self.left_out_failed) {
            (0, _) => String::new(),
            (n, 0) => format!(" ({n} steps left out)"),
            (n, failed) => format!(" ({n} steps left out, {failed} of them failed)"),
        };
        format!("Steps 1~{}{left_out}: {}.", self.steps, told.join("; "))
    }

    /// What a policy is told: the summary, then the steps since (Eq. 3).
    pub fn state(&self, since: &[Done]) -> String {
        let since: Vec<String> = since.iter().map(Done::text).collect();
        match (self.steps, since.is_empty()) {
            (0, _) => format!("So far: {}.", since.join("; ")),
            (_, true) => self.progress(),
            (_, false) => format!("{} Since then: {}.", self.progress(), since.join("; ")),
        }
    }

    fn suggestion(&self) -> &'static str {
        match self.done.last() {
            Some(last) if last.outcome == StepOutcome::Failure && last.times >= LOOP => {
                "this is not working; try another way, or give up."
            }
            Some(last) if last.outcome == StepOutcome::Failure => {
                "the last step had no effect; look again before going on."
            }
            _ => "Continue.",
        }
    }
}

/// The first characters of a text, with a mark where it goes on.
pub fn clip(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some(_) => text.chars().take(chars.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn done(number: u32, words: &str, outcome: StepOutcome, milestone: bool) -> Done {
        let result = if outcome == StepOutcome::Failure { "no change of the screen" } else { "" };
        Done {
            first: number,
            last: number,
            times: 1,
            words: words.to_owned(),
            outcome,
            result: result.to_owned(),
            milestone,
        }
    }

    #[test]
    fn routine_goes_first_then_milestones_then_failures() {
        let steps = [
            done(1, "Open the \"Clock\" app.", StepOutcome::Success, true),
            done(2, "Scroll down.", StepOutcome::Success, false),
            done(3, "Tap \"Timer\" at click(10,20).", StepOutcome::Failure, false),
            done(4, "Tap \"Timer\" at click(10,20).", StepOutcome::Failure, false),
            done(5, "Type \"5\".", StepOutcome::Success, true),
        ];
        let refined =
            |max_chars| Context::default().refine(&steps, RefineSettings { every: 5, max_chars }).text();
        insta::assert_snapshot!([600, 225, 200, 165, 10].map(refined).join("\n"), @r#"
        Steps 1~5: 1) Open the "Clock" app – done; 2) Scroll down – done; 3-4) Tap "Timer" at click(10,20), 2 times – failed (no change of the screen); 5) Type "5" – done. Suggestion: Continue.
        Steps 1~5: 1) Open the "Clock" app – done; 2) Scroll down – done; 3-4) Tap "Timer" at click(10,20), 2 times – failed (no change of the screen); 5) Type "5" – done. Suggestion: Continue.
        Steps 1~5: 1) Open the "Clock" app – done; 2) Scroll down – done; 3-4) Tap "Timer" at click(10,20), 2 times – failed (no change of the screen); 5) Type "5" – done. Suggestion: Continue.
        Steps 1~5 (2 steps left out): 3-4) Tap "Timer" at click(10,20), 2 times – failed (no change of the screen); 5) Type "5" – done. Suggestion: Continue.
        Steps 1~5 (4 steps left out, 2 of them failed): 5) Type "5" – done. Suggestion: Continue.
        "#);
    }

    #[test]
    fn a_loop_is_told_once_and_called_one() {
        let again: Vec<Done> = (1..=5).map(|n| done(n, "Tap \"OK\".", StepOutcome::Failure, false)).collect();
        let context = Context::default().refine(&again, RefineSettings::default());
        assert_eq!(
            context.text(),
            "Steps 1~5: 1-5) Tap \"OK\", 5 times – failed (no change of the screen). Suggestion: this is not working; try another way, or give up."
        );
    }

    proptest! {
        /// However long the episode and its steps' words: bounded, every step told or counted, the last one told.
        #[test]
        fn contexts_are_bounded_and_lose_no_count(
            steps in prop::collection::vec((".{0,400}", 0..3_usize, any::<bool>()), 1..80),
            every in 1..10_usize,
        ) {
            let outcomes = [StepOutcome::Success, StepOutcome::Failure, StepOutcome::Unknown];
            let settings = RefineSettings { every: every as u32, max_chars: 600 };
            let steps: Vec<Done> =
                steps.iter().enumerate().map(|(i, (w, o, m))| done(i as u32 + 1, w, outcomes[*o], *m)).collect();
            let mut context = Context::default();
            for since in steps.chunks(every) {
                context = context.refine(since, settings);
                prop_assert!(context.text().chars().count() <= settings.max_chars);
                prop_assert_eq!(context.done.iter().map(|d| d.times).sum::<u32>() + context.left_out, context.steps);
            }
            prop_assert_eq!(context.steps as usize, steps.len());
        }
    }
}
