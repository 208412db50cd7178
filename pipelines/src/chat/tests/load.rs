use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::server::{Answer, Server};
use super::*;

#[test]
fn four_endpoints_of_different_speed_stay_busy_and_within_their_bounds() {
    const SLOTS: usize = 4;
    let latencies = [10, 20, 30, 60];
    let servers: Vec<Server> = latencies
        .map(|ms| {
            Server::start(move |call| {
                let answer = match (call.text().len() + call.attempt) % 11 {
                    0 => Answer::status(500),
                    1 => Answer::Truncate,
                    _ => Answer::Text(call.text().to_owned()),
                };
                Answer::After(Duration::from_millis(ms), Box::new(answer))
            })
        })
        .into();
    let ledger = tempfile::tempdir().unwrap();
    let mut settings = settings(&servers.iter().collect::<Vec<_>>(), ledger.path());
    settings.endpoints.iter_mut().for_each(|e| e.max_in_flight = SLOTS);
    let client = BlockingClient::open(&settings).unwrap();
    let clock = Instant::now();
    let outcomes = client.call_all(asks(600), |_, _| ()).unwrap();
    let wall = clock.elapsed().as_secs_f64();
    assert!(outcomes.iter().all(Outcome::is_reply));
    for (server, ms) in servers.iter().zip(latencies) {
        let peak = server.seen.peak.load(Ordering::SeqCst);
        assert_eq!(peak, SLOTS, "as many at a time as allowed, and no more");
        eprintln!(
            "{ms} ms: {} calls, busy {:.0} % of {SLOTS} places over {wall:.2} s",
            server.calls(),
            100.0 * server.seen.busy_secs() / (wall * SLOTS as f64)
        );
    }
    // The loads are far apart, so the order holds on any machine.
    assert!(servers[0].calls() > servers[3].calls());
}

#[test]
fn outcomes_come_in_the_order_of_requests_whatever_ends_first() {
    let server = Server::start(|call| {
        let number: u64 = call.text()[1..].parse().unwrap();
        let delay = Duration::from_millis((7 * number) % 23);
        Answer::After(delay, Box::new(Answer::Text(call.text().to_owned())))
    });
    let ledger = tempfile::tempdir().unwrap();
    let client = BlockingClient::open(&settings(&[&server], ledger.path())).unwrap();
    let outcomes = client.call_all(asks(100), |_, _| ()).unwrap();
    for (i, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome.into_result().unwrap().text, format!("#{i}"));
    }
}

#[test]
fn a_dead_endpoint_costs_retries_and_no_replies() {
    let good = Server::echo();
    let dead = Server::start(|_| Answer::Drop);
    let ledger = tempfile::tempdir().unwrap();
    let mut settings = settings(&[&dead, &good], ledger.path());
    settings.health = HealthSettings { failures: 3, rest_secs: 30.0, ..HealthSettings::default() };
    let client = BlockingClient::open(&settings).unwrap();
    let outcomes = client.call_all(asks(200), |_, _| ()).unwrap();
    assert!(outcomes.iter().all(Outcome::is_reply));
    // The calls that were under way when it began to rest, and no more.
    assert!(dead.calls() <= 3 + 16, "{} calls", dead.calls());
}

#[test]
fn a_resting_endpoint_is_tried_by_one_call_and_taken_back() {
    let broken = Arc::new(AtomicBool::new(true));
    let state = broken.clone();
    let server = Server::start(move |call| {
        if state.load(Ordering::SeqCst) { Answer::status(503) } else { Answer::Text(call.text().to_owned()) }
    });
    let ledger = tempfile::tempdir().unwrap();
    let mut settings = settings(&[&server], ledger.path());
    settings.health =
        HealthSettings { failures: 2, rest_secs: 0.05, longest_rest_secs: 0.1, give_up_secs: 20.0 };
    settings.retries.attempts = 50;
    settings.endpoints[0].max_in_flight = 8;
    let client = BlockingClient::open(&settings).unwrap();
    let outcomes = std::thread::scope(|scope| {
        let calls = scope.spawn(|| client.call_all(asks(20), |_, _| ()).unwrap());
        std::thread::sleep(Duration::from_millis(500));
        let tried = server.calls();
        // Eight at first; then one for each rest of 0.05 and 0.1 s.
        assert!((9..=8 + 11).contains(&tried), "{tried} calls while it was broken");
        broken.store(false, Ordering::SeqCst);
        calls.join().unwrap()
    });
    assert!(outcomes.iter().all(Outcome::is_reply));
}

#[test]
fn when_all_endpoints_are_out_calls_fail_soon_and_say_why() {
    let server = Server::start(|_| Answer::status(500));
    let ledger = tempfile::tempdir().unwrap();
    let mut settings = settings(&[&server], ledger.path());
    settings.health =
        HealthSettings { failures: 2, rest_secs: 0.05, longest_rest_secs: 0.05, give_up_secs: 0.2 };
    let client = BlockingClient::open(&settings).unwrap();
    let clock = Instant::now();
    let outcomes = client.call_all(asks(300), |_, _| ()).unwrap();
    assert!(clock.elapsed() < Duration::from_secs(10), "{:?}", clock.elapsed());
    let last = outcomes.into_iter().next_back().unwrap().into_result().unwrap_err();
    assert_eq!(last.kind(), "unavailable");
    assert!(last.to_string().contains("HTTP 500"), "{last}");
    assert!(server.calls() < 100, "{} calls", server.calls());
}

#[test]
fn nobody_listens() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::echo();
    let ledger = tempfile::tempdir().unwrap();
    let mut settings = settings(&[&server], ledger.path());
    settings.endpoints[0].base_url = format!("http://127.0.0.1:{port}/v1");
    let error = BlockingClient::open(&settings).unwrap().call(&ask("a")).unwrap().into_result().unwrap_err();
    assert_eq!(error.kind(), "connect");
    assert!(error.to_string().contains("is the server running"), "{error}");
}

#[test]
fn retry_after_is_heeded_and_the_call_goes_to_another_endpoint_meanwhile() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = times.clone();
    let limited = Server::start(move |call| {
        seen.lock().unwrap().push(Instant::now());
        match call.attempt {
            1 => Answer::Status(429, "slow down".to_owned(), Some("0.4")),
            _ => Answer::Text("limited".to_owned()),
        }
    });
    let ledger = tempfile::tempdir().unwrap();
    let alone = settings(&[&limited], ledger.path());
    let reply = BlockingClient::open(&alone).unwrap().call(&ask("a")).unwrap().into_result().unwrap();
    assert_eq!(reply.text, "limited");
    let times = times.lock().unwrap().clone();
    let waited = times[1] - times[0];
    assert!(waited >= Duration::from_millis(400), "{waited:?}");

    let other = Server::echo();
    let both = settings(&[&limited, &other], ledger.path());
    let client = BlockingClient::open(&both).unwrap();
    let outcomes = client.call_all(asks(8), |_, _| ()).unwrap();
    assert!(outcomes.iter().all(Outcome::is_reply));
}

#[test]
fn a_wait_beyond_patience_fails_at_once_with_the_reason() {
    let server = Server::start(|_| Answer::Status(429, "quota".to_owned(), Some("3600")));
    let ledger = tempfile::tempdir().unwrap();
    let client = BlockingClient::open(&settings(&[&server], ledger.path())).unwrap();
    let clock = Instant::now();
    let error = client.call(&ask("a")).unwrap().into_result().unwrap_err();
    assert!(clock.elapsed() < Duration::from_secs(5));
    assert_eq!(error.kind(), "unavailable");
    assert!(error.to_string().contains("quota"), "{error}");
}
