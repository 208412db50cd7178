//! When an endpoint rests, and when it is tried again. Pure: the time comes in.

use std::time::{Duration, Instant};

use super::settings::HealthSettings;

/// What is known of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Failures in a row.
    failures: u32,
    rest: Option<Rest>,
}

/// A time without calls.
#[derive(Debug)]
struct Rest {
    /// When the endpoint was last in service.
    since: Instant,
    until: Instant,
    /// Rests in a row that failures caused, this one included.
    trips: u32,
    /// One call is under way that decides whether the rest is over.
    probing: bool,
    reason: String,
}

/// Whether an endpoint can take a call.
#[derive(Debug, PartialEq)]
pub(super) enum Readiness {
    /// It is in service.
    Ready,
    /// Its rest is over: one call may try it.
    ProbeDue,
    /// It rests since then; until then, unless a call is trying it now.
    Resting {
        /// When it was last in service.
        since: Instant,
        /// When it may be tried.
        until: Option<Instant>,
    },
}

/// What an attempt says about its endpoint.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It works, whether or not it liked the request.
    Healthy,
    /// It does not.
    Failed(String),
    /// It asks to be left alone for a while.
    Wait(Duration, String),
}

impl Health {
    pub(super) fn readiness(&self, now: Instant) -> Readiness {
        match &self.rest {
            None => Readiness::Ready,
            Some(rest) if rest.probing => Readiness::Resting { since: rest.since, until: None },
            Some(rest) if rest.until <= now => Readiness::ProbeDue,
            Some(rest) => Readiness::Resting { since: rest.since, until: Some(rest.until) },
        }
    }

    /// The failure that began the rest.
    pub(super) fn reason(&self) -> &str {
        self.rest.as_ref().map_or("", |rest| &rest.reason)
    }

    /// A call begins that decides whether the rest is over.
    pub(super) fn begin_probe(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.probing = true;
        }
    }

    /// That call was given up without an answer.
    pub(super) fn abandon_probe(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.probing = false;
        }
    }

    /// Takes in what a call showed. Returns how long the endpoint rests from now on, if it begins or goes on resting.
    ///
    /// Calls that began before a rest neither end nor lengthen it: sixteen of them that time out together are one
    /// event, and a late answer says little about now.
    pub(super) fn settle(
        &mut self,
        verdict: Verdict,
        probe: bool,
        now: Instant,
        settings: &HealthSettings,
    ) -> Option<Duration> {
        match (verdict, &mut self.rest) {
            (Verdict::Healthy, rest) => {
                self.failures = 0;
                if probe {
                    *rest = None;
                }
                None
            }
            (Verdict::Wait(wait, _), Some(rest)) => {
                rest.until = rest.until.max(now + wait);
                rest.probing &= !probe;
                Some(wait)
            }
            (Verdict::Wait(wait, reason), rest @ None) => {
                *rest = Some(Rest { since: now, until: now + wait, trips: 0, probing: false, reason });
                Some(wait)
            }
            (Verdict::Failed(reason), Some(rest)) if probe => {
                let wait = rest_after(rest.trips, settings);
                *rest = Rest {
                    until: now + wait,
                    trips: rest.trips + 1,
                    probing: false,
                    reason,
                    since: rest.since,
                };
                Some(wait)
            }
            (Verdict::Failed(_), Some(_)) => None,
            (Verdict::Failed(reason), rest @ None) => {
                self.failures += 1;
                if self.failures < settings.failures {
                    return None;
                }
                let wait = rest_after(0, settings);
                *rest = Some(Rest { since: now, until: now + wait, trips: 1, probing: false, reason });
                Some(wait)
            }
        }
    }
}

/// The rest after `trips` earlier ones in a row.
fn rest_after(trips: u32, settings: &HealthSettings) -> Duration {
    let secs = settings.rest_secs * 2f64.powi(trips.min(30) as i32);
    Duration::from_secs_f64(secs.min(settings.longest_rest_secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: HealthSettings =
        HealthSettings { failures: 3, rest_secs: 2.0, longest_rest_secs: 5.0, give_up_secs: 60.0 };

    fn failed() -> Verdict {
        Verdict::Failed("down".to_owned())
    }

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// An endpoint that began to rest at the returned moment.
    fn tripped() -> (Health, Instant) {
        let (mut health, now) = (Health::default(), Instant::now());
        assert_eq!(health.settle(failed(), false, now, &SETTINGS), None);
        assert_eq!(health.settle(failed(), false, now, &SETTINGS), None);
        assert_eq!(health.settle(failed(), false, now, &SETTINGS), Some(secs(2)));
        (health, now)
    }

    #[test]
    fn failures_in_a_row_make_it_rest_and_a_good_call_between_does_not() {
        let (mut health, now) = (Health::default(), Instant::now());
        for verdict in [failed(), failed(), Verdict::Healthy, failed(), failed()] {
            assert_eq!(health.settle(verdict, false, now, &SETTINGS), None);
        }
        assert_eq!(health.readiness(now), Readiness::Ready);
        let (health, now) = tripped();
        assert_eq!(
            health.readiness(now + secs(1)),
            Readiness::Resting { since: now, until: Some(now + secs(2)) }
        );
        assert_eq!(health.reason(), "down");
    }

    #[test]
    fn one_call_decides_and_rests_double_up_to_the_longest() {
        let (mut health, start) = tripped();
        let mut now = start + secs(2);
        for wait in [4, 5, 5] {
            assert_eq!(health.readiness(now), Readiness::ProbeDue);
            health.begin_probe();
            assert_eq!(health.readiness(now), Readiness::Resting { since: start, until: None });
            assert_eq!(health.settle(failed(), true, now, &SETTINGS), Some(secs(wait)));
            now += secs(wait);
        }
        health.begin_probe();
        health.settle(Verdict::Healthy, true, now, &SETTINGS);
        assert_eq!(health.readiness(now), Readiness::Ready);
    }

    #[test]
    fn calls_from_before_the_rest_change_nothing() {
        let (mut health, now) = tripped();
        let resting = Readiness::Resting { since: now, until: Some(now + secs(2)) };
        assert_eq!(health.settle(failed(), false, now + secs(1), &SETTINGS), None);
        assert_eq!(health.readiness(now), resting);
        health.settle(Verdict::Healthy, false, now + secs(1), &SETTINGS);
        assert_eq!(health.readiness(now), resting);
    }

    #[test]
    fn an_abandoned_probe_makes_room_for_the_next() {
        let (mut health, now) = tripped();
        health.begin_probe();
        health.abandon_probe();
        assert_eq!(health.readiness(now + secs(2)), Readiness::ProbeDue);
    }

    #[test]
    fn a_request_to_wait_is_heeded_at_once_and_never_shortens_a_rest() {
        let (mut health, now) = (Health::default(), Instant::now());
        let wait = |n| Verdict::Wait(secs(n), "429".to_owned());
        assert_eq!(health.settle(wait(7), false, now, &SETTINGS), Some(secs(7)));
        health.settle(wait(1), false, now, &SETTINGS);
        assert_eq!(health.readiness(now), Readiness::Resting { since: now, until: Some(now + secs(7)) });
        health.begin_probe();
        health.settle(wait(1), true, now + secs(7), &SETTINGS);
        assert_eq!(health.readiness(now + secs(8)), Readiness::ProbeDue);
    }
}
