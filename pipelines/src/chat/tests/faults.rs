use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::server::{Answer, Call, Server, reply};
use super::*;

/// Seed of the faults.
const SEED: u64 = 11;
/// Time-out of an attempt in the test of faults: far above what an answer takes, also on a busy machine.
const TOTAL_SECS: f64 = 0.8;

/// What the server does to a request, always or for its first attempts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Drop,
    Truncate,
    CutJson,
    WrongJson,
    NoChoices,
    EmptyBody,
    Html,
    EventStream,
    Late,
    Drip,
    Busy,
    Broken,
    Refused,
    Forbidden,
}

const QUICK: [Fault; 12] = [
    Fault::Drop,
    Fault::Truncate,
    Fault::CutJson,
    Fault::WrongJson,
    Fault::NoChoices,
    Fault::EmptyBody,
    Fault::Html,
    Fault::EventStream,
    Fault::Busy,
    Fault::Broken,
    Fault::Refused,
    Fault::Forbidden,
];

impl Fault {
    fn answer(self) -> Answer {
        match self {
            Self::Drop => Answer::Drop,
            Self::Truncate => Answer::Truncate,
            Self::CutJson => {
                let whole = reply("cut").to_string().into_bytes();
                Answer::Raw("application/json", whole[..whole.len() - 2].to_vec())
            }
            Self::WrongJson => Answer::Json(json!({ "choices": "none", "text": "not a reply" })),
            Self::NoChoices => Answer::Json(json!({ "choices": [], "model": "m" })),
            Self::EmptyBody => Answer::Raw("application/json", Vec::new()),
            Self::Html => Answer::Raw("text/html", b"<html>Sign in to the network</html>".to_vec()),
            Self::EventStream => Answer::Raw("text/event-stream", b"data: {\"choices\": []}\n\n".to_vec()),
            Self::Late => {
                let late = Duration::from_secs_f64(4.0 * TOTAL_SECS);
                Answer::After(late, Box::new(Answer::Text("too late".to_owned())))
            }
            Self::Drip => Answer::Drip,
            Self::Busy => Answer::status(429),
            Self::Broken => Answer::status(500),
            Self::Refused => Answer::status(400),
            Self::Forbidden => Answer::status(403),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Drop => "connect",
            Self::Truncate => "truncated",
            Self::CutJson
            | Self::WrongJson
            | Self::NoChoices
            | Self::EmptyBody
            | Self::Html
            | Self::EventStream => "malformed",
            Self::Late | Self::Drip => "timeout",
            Self::Busy | Self::Broken | Self::Refused => "http",
            Self::Forbidden => "unauthorised",
        }
    }

    /// Whether it goes away when the call is made again.
    fn is_passing(self) -> bool {
        !matches!(self, Self::Refused | Self::Forbidden)
    }
}

/// A request's fate: the fault, and for how many attempts it lasts.
fn fate(text: &str) -> Option<(Fault, usize)> {
    let draw = |what: u64| xxh3_64_with_seed(text.as_bytes(), SEED + what);
    let attempts = [1, 2, 3, usize::MAX][draw(1) as usize % 4];
    match draw(0) % 1_000 {
        0..700 => None,
        // Time-outs are rare here only because each costs one.
        700..702 => Some((Fault::Late, attempts)),
        702..704 => Some((Fault::Drip, attempts)),
        _ => Some((QUICK[draw(2) as usize % QUICK.len()], attempts)),
    }
}

fn faulty(call: &Call) -> Answer {
    match fate(call.text()) {
        Some((fault, attempts)) if call.attempt <= attempts => fault.answer(),
        _ => Answer::Text(format!("reply to {}", call.text())),
    }
}

/// How a call has to end, with four attempts.
fn expected(text: &str) -> &'static str {
    match fate(text) {
        Some((fault, attempts)) if attempts >= 4 || !fault.is_passing() => fault.kind(),
        _ => "reply",
    }
}

fn check_faults(count: usize) {
    let server = Server::start(faulty);
    let ledger = tempfile::tempdir().unwrap();
    let mut settings = settings(&[&server], ledger.path());
    settings.timeouts.total_secs = TOTAL_SECS;
    settings.endpoints[0].max_in_flight = 64;
    let requests = asks(count);
    let clock = Instant::now();
    let mut reported = 0;
    let live = BlockingClient::open(&settings)
        .unwrap()
        .call_all(&requests, |done, _| {
            reported += 1;
            assert_eq!(done, reported);
        })
        .unwrap();
    let secs = clock.elapsed().as_secs_f64();
    let calls = server.calls();
    assert_eq!((reported, live.len()), (count, count));
    let mut failed = 0;
    for (i, outcome) in live.iter().enumerate() {
        let text = format!("#{i}");
        match outcome {
            Outcome::Reply(reply) => {
                assert_eq!(expected(&text), "reply", "{text} {:?}: {reply:?}", fate(&text));
                assert_eq!(reply.text, format!("reply to {text}"));
            }
            Outcome::Failed(error) => {
                failed += 1;
                assert_eq!(error.kind(), expected(&text), "{text} {:?}: {error}", fate(&text));
            }
        }
    }
    assert!(failed > count / 20, "the faults are there: {failed}");

    settings.mode = Mode::Strict;
    settings.endpoints.clear();
    let clock = Instant::now();
    let replayed = BlockingClient::open(&settings).unwrap().call_all(&requests, |_, _| ()).unwrap();
    assert_eq!(json(&live), json(&replayed));
    assert_eq!(server.calls(), calls, "a replay makes no call");
    eprintln!(
        "{count} requests, {calls} calls in {secs:.2} s, {failed} failures, none of them a reply; replayed in {:.2} s",
        clock.elapsed().as_secs_f64()
    );
}

#[test]
fn no_fault_becomes_a_reply_and_a_replay_gives_the_same_bytes() {
    check_faults(2_000);
}

#[test]
#[ignore = "10,000 requests take about ten seconds"]
fn no_fault_of_ten_thousand_becomes_a_reply() {
    check_faults(10_000);
}

#[test]
fn a_length_limit_and_an_empty_reply_are_replies() {
    let server = Server::start(|call| {
        let mut body = reply("half a sent");
        body["choices"][0]["finish_reason"] = json!("length");
        if call.text() == "null" {
            body["choices"][0]["message"]["content"] = json!(null);
            body["usage"] = json!(null);
        }
        Answer::Json(body)
    });
    let ledger = tempfile::tempdir().unwrap();
    let client = BlockingClient::open(&settings(&[&server], ledger.path())).unwrap();
    let cut = client.call(&ask("text")).unwrap().into_result().unwrap();
    assert_eq!((cut.text.as_str(), cut.finish_reason.as_deref()), ("half a sent", Some("length")));
    assert_eq!(cut.usage, Some(Usage { prompt_tokens: 7, completion_tokens: 3 }));
    assert_eq!(cut.model, "m-served");
    let empty = client.call(&ask("null")).unwrap().into_result().unwrap();
    assert_eq!((empty.text.as_str(), empty.usage), ("", None));
}

#[test]
fn modes_call_record_and_replay() {
    let server = Server::start(|call| match (call.text(), call.attempt) {
        ("once bad", 1) => Answer::status(400),
        (text, attempt) => Answer::Text(format!("{text} {attempt}")),
    });
    let ledger = tempfile::tempdir().unwrap();
    let base = settings(&[&server], ledger.path());
    let call = |mode, text: &str| {
        BlockingClient::open(&ChatSettings { mode, ..base.clone() }).unwrap().call(&ask(text))
    };
    let text = |outcome: Result<Outcome, ChatError>| outcome.unwrap().into_result().unwrap().text;
    let kind = |outcome: Result<Outcome, ChatError>| outcome.unwrap().into_result().unwrap_err().kind();

    assert_eq!(text(call(Mode::Record, "good")), "good 1");
    assert_eq!(text(call(Mode::Record, "good")), "good 1");
    assert_eq!(text(call(Mode::Live, "good")), "good 2");
    assert_eq!(text(call(Mode::Replay, "good")), "good 2");
    // A recorded failure is asked again, and replayed as it is.
    assert_eq!(kind(call(Mode::Record, "once bad")), "http");
    assert_eq!(kind(call(Mode::Replay, "once bad")), "http");
    assert_eq!(text(call(Mode::Record, "once bad")), "once bad 2");
    assert_eq!(text(call(Mode::Strict, "once bad")), "once bad 2");
    let calls = server.calls();
    assert_eq!(kind(call(Mode::Replay, "never asked")), "miss");
    let error = call(Mode::Strict, "never asked").unwrap_err();
    assert!(matches!(error, ChatError::Miss { .. }), "{error}");
    assert_eq!(server.calls(), calls);
    // Without a folder there is nothing to replay.
    let nowhere =
        ChatSettings { mode: Mode::Replay, ledger: Some(ledger.path().join("none")), ..base.clone() };
    assert!(matches!(BlockingClient::open(&nowhere), Err(ChatError::Ledger(LedgerError::Missing(_)))));
}

#[test]
fn equal_requests_at_the_same_time_are_one_call() {
    let server = Server::start(|call| {
        let answer = Answer::Text(format!("{} {}", call.text(), call.attempt));
        Answer::After(Duration::from_millis(30), Box::new(answer))
    });
    let ledger = tempfile::tempdir().unwrap();
    let base = settings(&[&server], ledger.path());
    let requests: Vec<ChatRequest> = (0..40).map(|i| ask(&format!("#{}", i % 3))).collect();
    let outcomes = BlockingClient::open(&base).unwrap().call_all(&requests, |_, _| ()).unwrap();
    assert_eq!(server.calls(), 3);
    for (i, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome.into_result().unwrap().text, format!("#{} 1", i % 3));
    }
    // Replicas of a request, and requests in mode `live`, are calls of their own.
    let mut replica = ask("#0");
    replica.replica = 1;
    BlockingClient::open(&base).unwrap().call(&replica).unwrap();
    assert_eq!(server.calls(), 4);
    let live = ChatSettings { mode: Mode::Live, ..base };
    BlockingClient::open(&live).unwrap().call_all(&requests, |_, _| ()).unwrap();
    assert_eq!(server.calls(), 44);
}

#[test]
fn a_stage_stops_past_the_share_of_failures() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    let server = Server::start(move |call| {
        counted.fetch_add(1, Ordering::SeqCst);
        let number: usize = call.text()[1..].parse().unwrap();
        if number < 10 { Answer::status(400) } else { Answer::Text("good".to_owned()) }
    });
    let ledger = tempfile::tempdir().unwrap();
    let mut settings = settings(&[&server], ledger.path());
    settings.endpoints[0].max_in_flight = 1;
    let run = |share, count| {
        let settings = ChatSettings { max_error_share: share, ..settings.clone() };
        BlockingClient::open(&settings).unwrap().call_all(asks(count), |_, _| ())
    };
    assert_eq!(run(0.1, 100).unwrap().len(), 100);
    attempts.store(0, Ordering::SeqCst);
    let error = run(0.1, 99).unwrap_err();
    assert!(matches!(error, ChatError::TooManyFailures { failed: 10, calls: 99, .. }), "{error}");
    assert!(attempts.load(Ordering::SeqCst) <= 12, "it stops at once: {attempts:?}");
}

#[test]
fn what_nobody_can_answer_stops_the_stage() {
    let server = Server::echo();
    let ledger = tempfile::tempdir().unwrap();
    let client = BlockingClient::open(&settings(&[&server], ledger.path())).unwrap();
    let other = ChatRequest::new("another", vec![Message::user([Part::text("hello")])]);
    let error = client.call(&other).unwrap_err();
    assert_eq!(error.to_string(), "no endpoint serves model `another`; `endpoints` has: m");
    let mut hot = ask("hello");
    hot.sampling.temperature = f64::INFINITY;
    assert!(matches!(client.call(&hot), Err(ChatError::Request { .. })));
    assert_eq!(server.calls(), 0);
}
