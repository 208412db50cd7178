use std::sync::Mutex;

use super::server::{Answer, Server};
use super::*;

const KEY: &str = "sk-0123456789-very-secret";

/// Everything logged by anybody, down to the bytes on the wire.
static LOGGED: Mutex<String> = Mutex::new(String::new());

struct Capture;

impl log::Log for Capture {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }
    fn log(&self, record: &log::Record) {
        LOGGED.lock().unwrap().push_str(&format!("{}\n", record.args()));
    }
    fn flush(&self) {}
}

#[test]
fn a_key_is_sent_and_shown_nowhere() {
    log::set_logger(&Capture).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    // The worst server: whatever goes wrong, it repeats the headers.
    let server = Server::start(|call| {
        let header = call.headers["authorization"].to_str().unwrap().to_owned();
        match call.text() {
            "right" if header == format!("Bearer {KEY}") => Answer::Text("yes".to_owned()),
            "401" => Answer::Status(401, header, None),
            "400" => Answer::Status(400, format!("{}{header}", "x".repeat(290)), None),
            "malformed" => Answer::Json(serde_json::json!({ "choices": header })),
            "drop" => Answer::Drop,
            _ => Answer::Status(500, header, None),
        }
    });
    let ledger = tempfile::tempdir().unwrap();
    let mut settings = settings(&[&server], ledger.path());
    settings.endpoints[0].api_key_env = Some("SOME_KEY".to_owned());
    settings.health = HealthSettings { failures: 2, rest_secs: 0.0, ..HealthSettings::default() };
    let client =
        ChatClient::open_with(&settings, &|name| (name == "SOME_KEY").then(|| KEY.to_owned())).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut shown = format!("{client:?}{:?}{}", settings, serde_json::to_string(&settings).unwrap());
    for (text, kind) in [
        ("right", "reply"),
        ("401", "unauthorised"),
        ("400", "http"),
        ("malformed", "malformed"),
        ("drop", "connect"),
        ("500", "http"),
    ] {
        let outcome = runtime.block_on(client.call(&ask(text))).unwrap();
        shown.push_str(&format!("{outcome:?}{}", serde_json::to_string(&outcome).unwrap()));
        let found = match &outcome {
            Outcome::Reply(_) => "reply",
            Outcome::Failed(error) => {
                shown.push_str(&error.to_string());
                error.kind()
            }
        };
        assert_eq!(found, kind);
    }
    shown.push_str(&format!("{client:?}"));
    for key in client.ledger().keys() {
        shown.push_str(&format!("{:?}", client.ledger().get(key).unwrap()));
    }
    for entry in std::fs::read_dir(ledger.path()).unwrap() {
        shown.push_str(&std::fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    let logged = LOGGED.lock().unwrap();
    assert!(logged.contains("rests for"), "the log was captured");
    // Half of it is as bad: an excerpt must not cut through it.
    for secret in [KEY, &KEY[..12]] {
        assert!(!shown.contains(secret));
        assert!(!logged.contains(secret), "{}", logged.lines().find(|l| l.contains(secret)).unwrap());
    }
}

#[test]
fn a_variable_without_a_key_is_named() {
    let server = Server::echo();
    let ledger = tempfile::tempdir().unwrap();
    let mut settings = settings(&[&server], ledger.path());
    settings.endpoints[0].api_key_env = Some("SOME_KEY".to_owned());
    for value in [None, Some(String::new()), Some("two\nlines".to_owned())] {
        let error = ChatClient::open_with(&settings, &|_| value.clone()).unwrap_err().to_string();
        assert!(error.contains("endpoints[0].api_key_env") && error.contains("SOME_KEY"), "{error}");
        assert!(!error.contains("two"), "{error}");
    }
    // A replay calls nobody and needs no key.
    let replay = ChatSettings { mode: Mode::Replay, ..settings };
    assert!(ChatClient::open_with(&replay, &|_| None).is_ok());
}
