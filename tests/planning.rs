//! `plan`, its store, and `eval planning` on a small sample run and on real recordings.

use std::path::Path;

use serde_json::Value;

use crate::support::{contents, fails, ok, shared_data, tracemill};

/// A run of the phone's sample corpus, small enough for tests.
fn sample_run(dir: &Path) {
    ok(
        dir,
        &[
            "run",
            "demo",
            "--run",
            "r",
            "--set",
            "sample.episodes=60",
            "--set",
            "sample.format='gui-odyssey'",
            "--set",
            "embed.dim=128",
            "--set",
            "encode.train.epochs=6",
        ],
    );
}

fn planned(dir: &Path, args: &[&str]) -> Value {
    let output = ok(dir, &[&["plan", "--run", "r", "--json"], args].concat());
    serde_json::from_slice(&output.stdout).expect("a plan as JSON")
}

const ALARM: &str = "set an alarm for 6:15 AM in Clock";

#[test]
fn plans_are_approved_reused_and_rejected_and_survive_a_rebuilt_memory() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    sample_run(dir.path());
    let first = planned(dir.path(), &[ALARM]);
    assert_eq!(first["case"], "synthesise");
    assert!(!dir.path().join("r/plans").exists(), "nothing is stored without approval");
    assert_eq!(planned(dir.path(), &[ALARM]), first, "the same command, the same plan");

    planned(dir.path(), &[ALARM, "--approve"]);
    ok(dir.path(), &["memory", "build", "--run", "r"]);
    let again = planned(dir.path(), &["set an alarm for 8:05 AM in Clock"]);
    assert_eq!((again["case"].as_str(), &again["stored_plan"]), (Some("reuse"), &first["plan_id"]));
    let text = again["units"].to_string();
    assert!(text.contains("8:05 AM") && !text.contains("6:15 AM"), "{text}");

    let id = first["plan_id"].as_str().expect("an id");
    ok(dir.path(), &["plan", "reject", "--run", "r", id, "--note", "wrong sound"]);
    assert_eq!(planned(dir.path(), &[ALARM])["case"], "synthesise");
    let history = ok(dir.path(), &["plan", "history", "--run", "r"]);
    let history = String::from_utf8_lossy(&history.stdout).into_owned();
    assert!(history.contains("approved") && history.contains("wrong sound"), "{history}");

    // An edited plan is approved from its file.
    std::fs::write(dir.path().join("edited.json"), first.to_string()).expect("writable");
    ok(dir.path(), &["plan", "approve", "--run", "r", "edited.json"]);
    assert_eq!(planned(dir.path(), &[ALARM])["case"], "reuse");
}

#[test]
fn incomplete_runs_and_unknown_plans_name_the_remedy() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let none = fails(dir.path(), &["plan", "--run", "r", ALARM]);
    assert!(none.contains("no run folder at r"), "{none}");
    std::fs::create_dir(dir.path().join("r")).expect("a new folder");
    let empty = fails(dir.path(), &["plan", "--run", "r", ALARM]);
    assert!(empty.contains("run `tracemill memory build --run r` first"), "{empty}");
    sample_run(dir.path());
    let encoder = dir.path().join("r/encoder/model.safetensors");
    std::fs::remove_file(encoder).expect("an encoder");
    let without = fails(dir.path(), &["plan", "--run", "r", ALARM]);
    assert!(without.contains("run `tracemill encode --run r` first"), "{without}");
    let nothing = fails(dir.path(), &["plan", "reject", "--run", "r", "plan-0"]);
    assert!(nothing.contains("no approved plan `plan-0`"), "{nothing}");
    let variant = fails(dir.path(), &["plan", "--run", "r", "x", "--variant", "best"]);
    assert!(variant.contains("known variants: no-traces, greedy"), "{variant}");
}

/// The table without its last column, times.
fn without_times(text: &str) -> String {
    let cut = |line: &str| {
        let end = line.trim_end().rfind("  ").filter(|_| line.contains('/') || line.contains("cases"));
        end.map_or(line.to_owned(), |end| line[..end].trim_end().to_owned())
    };
    text.lines().map(cut).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_table_of_a_small_sample_run() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    sample_run(dir.path());
    let args = ["eval", "planning", "--run", "r", "--bootstraps", "2", "--resamples", "100"];
    let table = |threads: &str| {
        let output =
            tracemill(dir.path()).args(args).env("RAYON_NUM_THREADS", threads).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let first = table("1");
    let before = contents(&dir.path().join("r/eval"));
    table("2");
    let kept = |name: &&String| !name.contains("timing");
    let after = contents(&dir.path().join("r/eval"));
    let same = before.iter().filter(|(name, _)| kept(name)).all(|(name, hash)| after.get(name) == Some(hash));
    assert!(same, "one and two threads give the same rows");
    insta::assert_snapshot!("planning_table", without_times(&first));
}

#[test]
fn real_recordings_are_held_out_and_replayed() {
    let Some(data) = shared_data() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = data.join("droidtask").to_str().expect("UTF-8").to_owned();
    ok(dir.path(), &["ingest", "--run", "r", "--format", "droidtask", "--input", &path]);
    for stage in ["label", "embed", "encode"] {
        let set = ["--set", "embed.dim=64", "--set", "encode.train.epochs=2"];
        ok(dir.path(), &[&[stage, "--run", "r"], &set[..]].concat());
    }
    let args =
        ["eval", "planning", "--run", "r", "--bootstraps", "0", "--resamples", "50", "--retrain", "--json"];
    let set = ["--set", "encode.train.epochs=2"];
    let output = ok(dir.path(), &[&args[..], &set[..]].concat());
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(result["leakage"]["same_task"], 0);
    assert_eq!(result["leakage"]["encoder_saw_held_out"], false);
    assert_eq!(result["simulated_tasks"], 0);
    let tasks = result["tasks"].as_u64().expect("a number");
    let rows = std::fs::read_to_string(dir.path().join("r/eval/planning.jsonl")).expect("rows");
    assert_eq!(rows.lines().count() as u64, 6 * tasks, "a row for each task and variant");
    let full = &result["variants"][5];
    assert_eq!(full["variant"], "full");
    assert!(full["completion"]["mean"].as_f64() > Some(0.0), "{full}");
}
