//! The share of failures at which a stage stops.

use std::sync::{Mutex, PoisonError};

use super::error::{CallError, ChatError};
use super::reply::Outcome;

/// Counts outcomes and says when too many have failed.
///
/// The share is taken of the calls counted, or of `at_least` if that is more: one bad call at the start stops nothing,
/// and where `at_least` is the number of all calls, whether a stage stops does not depend on the order in which they
/// end.
#[derive(Debug)]
pub struct ErrorGuard {
    max_error_share: f64,
    at_least: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    calls: usize,
    failed: usize,
    first: Option<CallError>,
}

impl ErrorGuard {
    /// A guard that allows failures up to `max_error_share` (0 to 1) of the calls, or of `at_least` calls.
    pub fn new(max_error_share: f64, at_least: usize) -> Self {
        Self { max_error_share, at_least, counts: Mutex::default() }
    }

    /// Counts an outcome.
    ///
    /// # Errors
    /// [`ChatError::TooManyFailures`] once the share is passed.
    pub fn count<T>(&self, outcome: &Outcome<T>) -> Result<(), ChatError> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.calls += 1;
        let Outcome::Failed(error) = outcome else { return Ok(()) };
        counts.failed += 1;
        let first = counts.first.get_or_insert_with(|| error.clone()).clone();
        let calls = counts.calls.max(self.at_least);
        if counts.failed as f64 <= self.max_error_share * calls as f64 {
            return Ok(());
        }
        let (failed, max_error_share) = (counts.failed, self.max_error_share);
        Err(ChatError::TooManyFailures { failed, calls, max_error_share, first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Outcome {
        Outcome::Failed(CallError::Timeout { endpoint: "http://e/v1".to_owned(), limit_secs: 1.0 })
    }

    fn reply() -> Outcome {
        Outcome::Reply(super::super::ChatReply {
            text: String::new(),
            finish_reason: None,
            usage: None,
            model: String::new(),
        })
    }

    #[test]
    fn a_share_is_passed_by_one_more_than_it_allows() {
        let guard = ErrorGuard::new(0.1, 20);
        guard.count(&failure()).unwrap();
        guard.count(&failure()).unwrap();
        let error = guard.count(&failure()).unwrap_err();
        assert!(matches!(error, ChatError::TooManyFailures { failed: 3, calls: 20, .. }), "{error}");
    }

    #[test]
    fn past_the_minimum_the_calls_counted_are_the_base() {
        let guard = ErrorGuard::new(0.5, 2);
        (0..9).for_each(|_| guard.count(&reply()).unwrap());
        (0..9).for_each(|_| guard.count(&failure()).unwrap());
        assert!(guard.count(&failure()).is_err());
    }

    #[test]
    fn zero_allows_nothing_and_one_everything() {
        assert!(ErrorGuard::new(0.0, 1_000).count(&failure()).is_err());
        let all = ErrorGuard::new(1.0, 0);
        (0..100).for_each(|_| all.count(&failure()).unwrap());
    }
}
