use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use super::*;

fn reply(text: &str) -> Outcome<Reply> {
    Outcome::Reply(Reply::Chat(ChatReply {
        text: text.to_owned(),
        finish_reason: Some("stop".to_owned()),
        usage: None,
        model: "m".to_owned(),
    }))
}

fn failure() -> Outcome<Reply> {
    Outcome::Failed(CallError::Timeout { endpoint: "http://e/v1".to_owned(), limit_secs: 0.1 })
}

fn record(question: &str, outcome: Outcome<Reply>) -> Record {
    let request = Request::Chat(ask(question));
    let timing = Timing { started_unix_ms: 1, secs: 0.25 };
    Record { key: request.key(), request, outcome, attempts: 1, timing }
}

fn key(question: &str) -> Key {
    Request::Chat(ask(question)).key()
}

fn outcome(ledger: &Ledger, question: &str) -> Option<Outcome<Reply>> {
    ledger.get(key(question)).unwrap().map(|record| record.outcome)
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn the_last_record_counts_but_no_failure_replaces_a_reply() {
    let dir = tempfile::tempdir().unwrap();
    // Each opening writes a segment of its own, which comes after the earlier ones.
    let histories = [
        ("a", vec![reply("1"), reply("2")], reply("2")),
        ("b", vec![failure(), reply("1")], reply("1")),
        ("c", vec![reply("1"), failure()], reply("1")),
        ("d", vec![failure(), reply("1"), failure(), reply("2"), failure()], reply("2")),
        ("e", vec![failure(), failure()], failure()),
    ];
    for turn in 0..5 {
        let ledger = Ledger::create(dir.path()).unwrap();
        for (question, outcomes, _) in &histories {
            if let Some(outcome) = outcomes.get(turn) {
                ledger.append(&record(question, outcome.clone())).unwrap();
            }
        }
    }
    assert_eq!(segments(dir.path()).len(), 5);
    let ledger = Ledger::open(dir.path()).unwrap();
    assert_eq!((ledger.len(), ledger.damage()), (5, &[][..]));
    for (question, _, last) in &histories {
        assert_eq!(outcome(&ledger, question).as_ref(), Some(last), "{question}");
    }
    assert_eq!(outcome(&ledger, "never"), None);
}

#[test]
fn what_is_open_answers_as_what_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    assert!(segments(dir.path()).is_empty(), "no record, no segment");
    for outcome in [failure(), reply("1"), failure()] {
        ledger.append(&record("a", outcome)).unwrap();
    }
    let again = Ledger::open(dir.path()).unwrap();
    assert_eq!(ledger.get(key("a")).unwrap(), again.get(key("a")).unwrap());
    assert_eq!(again.get(key("a")).unwrap().unwrap(), record("a", reply("1")));
}

#[test]
fn a_segment_cut_anywhere_in_its_last_line_loses_that_line_alone() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    for question in ["a", "b", "c"] {
        ledger.append(&record(question, reply("é \"quoted\" \n line"))).unwrap();
    }
    let path = segments(dir.path()).remove(0);
    let whole = std::fs::read(&path).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    for cut in last..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        assert_eq!(ledger.len(), 2, "cut at {cut}");
        assert_eq!(outcome(&ledger, "c"), None);
        let torn = [Damage {
            segment: path.file_name().unwrap().to_str().unwrap().to_owned(),
            line: 3,
            problem: Problem::Torn,
        }];
        let expected: &[Damage] = if cut == last { &[] } else { &torn };
        assert_eq!(ledger.damage(), expected);
        assert_eq!(ledger.verify().unwrap(), (2, expected.to_vec()));
    }
    // What was lost is asked and recorded again, in another segment.
    let ledger = Ledger::create(dir.path()).unwrap();
    ledger.append(&record("c", reply("again"))).unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    assert_eq!((ledger.len(), outcome(&ledger, "c")), (3, Some(reply("again"))));
}

#[test]
fn a_changed_byte_is_noticed_anywhere_and_costs_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    for question in ["a", "b", "c"] {
        ledger.append(&record(question, reply("yes"))).unwrap();
    }
    let path = segments(dir.path()).remove(0);
    let whole = std::fs::read(&path).unwrap();
    let line = whole.len() / 3;
    for at in line..2 * line - 1 {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        assert_eq!((ledger.len(), ledger.damage().len()), (2, 1), "changed at {at}");
        assert_eq!(ledger.damage()[0].line, 2);
        assert!(matches!(ledger.damage()[0].problem, Problem::Corrupt(_)));
        assert_eq!(outcome(&ledger, "c"), Some(reply("yes")));
    }
    let mut bytes = whole;
    bytes.splice(line..line, b"not json\n\n".iter().copied());
    std::fs::write(&path, &bytes).unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    assert_eq!((ledger.len(), ledger.damage().len()), (3, 2));
    assert!(ledger.damage()[0].to_string().contains(".jsonl:2: damaged"), "{}", ledger.damage()[0]);
}

#[test]
fn verify_derives_keys_again() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    ledger.append(&record("a", reply("1"))).unwrap();
    ledger.append(&Record { key: key("another"), ..record("b", reply("2")) }).unwrap();
    let (records, damage) = ledger.verify().unwrap();
    assert_eq!(records, 2);
    assert_eq!(damage.len(), 1);
    assert_eq!((damage[0].line, &damage[0].problem), (2, &Problem::WrongKey { derived: key("b") }));
}

#[test]
fn threads_and_processes_that_write_at_once_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let children: Vec<_> = ["p", "q"]
        .map(|name| {
            Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "chat::tests::ledger::writes_as_another_process",
                    "--ignored",
                    "--nocapture",
                ])
                .env("LEDGER_TEST_DIR", dir.path())
                .env("LEDGER_TEST_NAME", name)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .into();
    // Two ledgers in this process, four threads on each.
    let ledgers = [(); 2].map(|()| Ledger::create(dir.path()).unwrap());
    std::thread::scope(|scope| {
        for (l, ledger) in ledgers.iter().enumerate() {
            for t in 0..4 {
                scope.spawn(move || write_some(ledger, &format!("{l}.{t}")));
            }
        }
    });
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let ledger = Ledger::open(dir.path()).unwrap();
    assert_eq!((ledger.len(), ledger.damage()), (10 * RECORDS, &[][..]));
    assert_eq!(segments(dir.path()).len(), 4, "one for each writer");
    for writer in ["p", "q", "0.0", "1.3"] {
        for n in 0..RECORDS {
            assert_eq!(outcome(&ledger, &format!("{writer} {n}")), Some(reply(writer)));
        }
    }
}

const RECORDS: usize = 100;

fn write_some(ledger: &Ledger, name: &str) {
    for n in 0..RECORDS {
        ledger.append(&record(&format!("{name} {n}"), reply(name))).unwrap();
    }
}

#[test]
#[ignore = "the other process of the test above"]
fn writes_as_another_process() {
    let Ok(dir) = std::env::var("LEDGER_TEST_DIR") else { return };
    let name = std::env::var("LEDGER_TEST_NAME").unwrap();
    write_some(&Ledger::create(Path::new(&dir)).unwrap(), &name);
}

#[test]
fn segments_come_in_order_though_the_clock_was_set_back() {
    let dir = tempfile::tempdir().unwrap();
    let future = dir.path().join("9000000000000-1-0.jsonl");
    let old = Ledger::create(dir.path()).unwrap();
    old.append(&record("a", reply("old"))).unwrap();
    std::fs::rename(segments(dir.path()).remove(0), &future).unwrap();
    let new = Ledger::create(dir.path()).unwrap();
    new.append(&record("a", reply("new"))).unwrap();
    assert_eq!(outcome(&Ledger::open(dir.path()).unwrap(), "a"), Some(reply("new")));
    // Other files are none of ours.
    writeln!(std::fs::File::create(dir.path().join("notes.txt")).unwrap(), "hello").unwrap();
    assert_eq!(Ledger::open(dir.path()).unwrap().damage(), []);
}
