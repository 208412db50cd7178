use std::path::Path;

use serde_json::{Value, json};
use tracemill::chat::{
    CallError, ChatReply, ChatRequest, Image, Ledger, Message, Outcome, Part, Record, Reply, Request, Timing,
    Usage,
};

use crate::support::{fails, ok};

/// A ledger of two replies and a failure.
fn ledger(dir: &Path) {
    let reply = |text: &str| {
        Outcome::Reply(Reply::Chat(ChatReply {
            text: text.to_owned(),
            finish_reason: Some("stop".to_owned()),
            usage: Some(Usage { prompt_tokens: 1_000, completion_tokens: 20 }),
            model: "m".to_owned(),
        }))
    };
    let failure = CallError::Timeout { endpoint: "http://localhost:8000/v1".to_owned(), limit_secs: 120.0 };
    let ledger = Ledger::create(dir).expect("a writable folder");
    for (text, outcome, attempts) in
        [("first", reply("one"), 1), ("second", reply("two"), 2), ("third", Outcome::Failed(failure), 5)]
    {
        let image = Part::Image(Image::new(vec![1, 2, 3], "image/png"));
        let request = Request::Chat(ChatRequest::new("m", vec![Message::user([Part::text(text), image])]));
        let timing = Timing { started_unix_ms: 0, secs: 0.5 };
        let record = Record { key: request.key(), request, outcome, attempts, timing };
        ledger.append(&record).expect("a writable folder");
    }
}

fn json_of(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_slice(&ok(folder, args).stdout).expect("JSON")
}

#[test]
fn a_ledger_can_be_listed_counted_and_shown() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    ledger(&folder.path().join("l"));
    let list = json_of(folder.path(), &["ledger", "list", "--ledger", "l", "--json"]);
    let records = list["records"].as_array().expect("records");
    let outcomes: Vec<_> = records.iter().map(|r| r["outcome"].as_str().expect("text")).collect();
    assert_eq!((outcomes.len(), outcomes.iter().filter(|o| **o == "reply").count()), (3, 2));
    let key = records.iter().find(|r| r["outcome"] == "timeout").expect("the failure")["key"].as_str();

    let stats = json_of(folder.path(), &["ledger", "stats", "--ledger", "l", "--json"]);
    let replies = json!({ "requests": 2, "attempts": 3, "prompt_tokens": 2_000, "completion_tokens": 40 });
    assert_eq!((&stats["requests"], &stats["models"]["m"]["reply"]), (&json!(3), &replies));

    let shown = ok(folder.path(), &["ledger", "show", &key.expect("text")[..10], "--ledger", "l"]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    for part in ["third", "Image(image/png b177ec1b", "no complete answer within 120 s", "5 attempts"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    for command in ["list", "stats"] {
        let text = String::from_utf8(ok(folder.path(), &["ledger", command, "--ledger", "l"]).stdout);
        assert!(text.expect("text").contains("timeout"));
    }
    assert!(fails(folder.path(), &["ledger", "show", "", "--ledger", "l"]).contains("give more digits"));
    assert!(fails(folder.path(), &["ledger", "show", "xyz", "--ledger", "l"]).contains("no record xyz"));
    assert!(fails(folder.path(), &["ledger", "list", "--ledger", "m"]).contains("no ledger at m"));
}

#[test]
fn verify_names_damage_and_fails() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().join("l");
    ledger(&dir);
    let whole = ok(folder.path(), &["ledger", "verify", "--ledger", "l"]);
    assert!(String::from_utf8_lossy(&whole.stdout).contains("3 records of 3 requests; 0 damaged lines"));
    let segment = std::fs::read_dir(&dir).expect("the folder").next().expect("a segment").expect("readable");
    let text = std::fs::read_to_string(segment.path()).expect("text");
    let damaged = text.replacen("second", "sacond", 1);
    std::fs::write(segment.path(), &damaged[..damaged.len() - 9]).expect("a writable file");
    let error = fails(folder.path(), &["ledger", "verify", "--ledger", "l"]);
    assert!(error.contains("2 damaged lines"), "{error}");
    let report = crate::support::tracemill(folder.path())
        .args(["ledger", "verify", "--ledger", "l", "--json"])
        .output()
        .expect("the program starts");
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["records"], 1);
    assert_eq!((&report["damage"][0]["line"], &report["damage"][1]["line"]), (&json!(2), &json!(3)));
    assert_eq!(report["damage"][1]["problem"], "torn");
}

#[test]
fn the_openai_embedder_says_what_it_lacks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let embed = |sets: &[&str]| {
        let mut args = vec!["embed", "--run", "r", "--set", "embed.model=openai"];
        sets.iter().for_each(|set| args.extend(["--set", set]));
        fails(folder.path(), &args)
    };
    assert!(embed(&[]).contains("embed.openai: setting `service.endpoints`: is empty"));
    let endpoint = |fields: &str| {
        format!(
            "embed.openai.service.endpoints=[{{base_url=\"http://localhost:9/v1\", model=\"m\"{fields}}}]"
        )
    };
    let keyed = endpoint(", api_key_env=\"TRACEMILL_TEST_NO_SUCH_VARIABLE\"");
    assert!(
        embed(&[&keyed, "embed.openai.service.ledger=l"])
            .contains("TRACEMILL_TEST_NO_SUCH_VARIABLE is not set")
    );
    assert!(embed(&[&endpoint(", max_inflight=3")]).contains("unknown field `max_inflight`"));
    assert!(embed(&[&endpoint(""), "embed.openai.service.mod=live"]).contains("did you mean `mode`?"));
    let strict = [&*endpoint(""), "embed.openai.service.mode=strict", "embed.openai.service.ledger=none"];
    assert!(embed(&strict).contains("no ledger at none"));
}
