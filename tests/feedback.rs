//! Execution feedback as users meet it: files of replies in, scores out.

use std::path::Path;

use serde_json::Value;

use crate::support::{fails, ok, root, shared_data};

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a readable file");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn every_line_gives_a_row_and_only_scores_have_numbers() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut input = std::fs::read(root().join("examples/replies.jsonl")).expect("the examples");
    input.extend_from_slice(b"no row\n\n\xff\xfe\n");
    std::fs::write(dir.path().join("in.jsonl"), input).expect("written");
    for (profile, expected) in [
        ("paper", [1.0, 1.0, 0.2, 0.2, 0.2, 0.2, 1.0, 0.0, 0.0]),
        ("ces-code", [1.0, 1.0, 1.0, 0.2, 1.0, 0.2, 1.0, 0.0, 0.0]),
        ("swirl", [1.0, 1.0, 1.0, 0.2, 0.2, 0.2, 1.0, 0.0, 0.0]),
    ] {
        ok(dir.path(), &["score", "--profile", profile, "--input", "in.jsonl", "--out", "out.jsonl"]);
        let rows = lines(&dir.path().join("out.jsonl"));
        assert_eq!(rows.len(), 13, "eleven examples, a line that is no row, one that is no text");
        let executor: Vec<f64> = rows.iter().filter_map(|row| row["executor"].as_f64()).collect();
        assert_eq!(executor, expected, "{profile}");
        let outcomes: Vec<&str> = rows[9..].iter().filter_map(|row| row["outcome"].as_str()).collect();
        assert_eq!(outcomes, ["abstain", "error", "error", "error"]);
        assert!(rows[9..].iter().all(|row| row["total"].is_null() && row["type"].is_null()));
        assert!(rows.iter().all(|row| row["reason"].as_str().is_some_and(|r| !r.is_empty())));
    }
    let error = fails(dir.path(), &["score", "--profile", "peper", "--input", "in.jsonl", "--out", "o"]);
    assert!(error.contains("known profiles: paper"), "{error}");
    let error = fails(dir.path(), &["score", "--input", "absent.jsonl", "--out", "o.jsonl"]);
    assert!(error.contains("absent.jsonl"), "{error}");
}

#[test]
fn scores_do_not_depend_on_threads() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let example = std::fs::read_to_string(root().join("examples/replies.jsonl")).expect("the examples");
    // Several blocks: they are scored in parallel and must come back in order.
    std::fs::write(dir.path().join("in.jsonl"), example.repeat(9_000)).expect("written");
    for threads in ["1", "2"] {
        let out = format!("{threads}.jsonl");
        let mut command = crate::support::tracemill(dir.path());
        command.env("RAYON_NUM_THREADS", threads).args(["score", "--input", "in.jsonl", "--out", &out]);
        assert!(command.output().expect("the program starts").status.success());
    }
    let read = |name: &str| std::fs::read(dir.path().join(name)).expect("scores");
    assert!(read("1.jsonl") == read("2.jsonl"), "one and two threads differ");
}

#[test]
fn the_lexical_executor_grounds_the_real_screens() {
    let Some(data) = shared_data() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let input = data.join("droidtask");
    let input = input.to_str().expect("UTF-8");
    ok(dir.path(), &["ingest", "--run", "r", "--format", "droidtask", "--input", input]);
    ok(dir.path(), &["eval", "actions", "--run", "r", "--phrasings", "--resamples", "10"]);
    let rows = lines(&dir.path().join("r/eval/actions.jsonl"));
    let clear: Vec<&Value> = rows.iter().filter(|row| row["ambiguous"] == false).collect();
    let right = clear.iter().filter(|row| row["param"] == 1.0 && row["element_right"] != false).count();
    assert!(clear.len() > 4_000, "{} rows", clear.len());
    assert!(right as f64 >= 0.98 * clear.len() as f64, "{right} of {} are right", clear.len());
}

#[test]
fn rewards_that_stop_half_way_are_kept_beside_and_leave_what_was_there() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let line = std::fs::read_to_string(root().join("examples/outputs.jsonl")).expect("the examples");
    let mut input = line.lines().next().expect("a row").as_bytes().to_vec();
    input.extend_from_slice(b"\nno row\n\xff\n");
    std::fs::write(dir.path().join("in.jsonl"), &input).expect("written");
    ok(dir.path(), &["reward", "--input", "in.jsonl", "--out", "out.jsonl"]);
    let outcomes: Vec<Value> =
        lines(&dir.path().join("out.jsonl")).iter().map(|r| r["outcome"].clone()).collect();
    assert_eq!(outcomes, ["score", "error", "error"], "a line that is no row costs itself only");
    // Nobody listens there, and no failure is allowed.
    let dead = r#"[{base_url="http://127.0.0.1:9/v1", model="m"}]"#;
    let sets = [
        "reward.executor=endpoint".to_owned(),
        format!("reward.endpoint.endpoints={dead}"),
        "reward.endpoint.ledger=ledger".to_owned(),
        "reward.endpoint.max_error_share=0.0".to_owned(),
        "reward.endpoint.retries.attempts=1".to_owned(),
    ];
    let mut args = vec!["reward", "--input", "in.jsonl", "--out", "out.jsonl"];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    let error = fails(dir.path(), &args);
    assert!(error.contains("stopped after 3 rows") && error.contains("out.jsonl.partial"), "{error}");
    assert!(error.contains("1 of") && error.contains("is the server running"), "{error}");
    assert_eq!(lines(&dir.path().join("out.jsonl"))[0]["outcome"], "score", "the earlier file is untouched");
    assert_eq!(lines(&dir.path().join("out.jsonl.partial"))[0]["outcome"], "error");
}
