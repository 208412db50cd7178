//! The whole flow on a small sample corpus.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{contents, fails, ok, tracemill};

/// A demo small enough for tests, in the dev profile.
const SMALL: [&str; 6] =
    ["--set", "sample.episodes=60", "--set", "embed.dim=128", "--set", "encode.train.epochs=12"];

fn demo(run: &str) -> Vec<&str> {
    let mut args = vec!["run", "demo", "--run", run];
    args.extend(SMALL);
    args
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn one_and_two_threads_give_the_same_bytes() {
    let dir = temporary();
    for threads in ["1", "2"] {
        let output = tracemill(dir.path())
            .args(demo(threads))
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let (one, two) = (contents(&dir.path().join("1")), contents(&dir.path().join("2")));
    assert!(one.keys().any(|name| name == "skills/skills.json"));
    for (name, hash) in &one {
        assert_eq!(two.get(name), Some(hash), "{name} differs between 1 and 2 threads");
    }
    assert_eq!(one.len(), two.len());
}

/// Starts the demo and kills it as soon as `reached` exists.
fn kill_when(dir: &Path, run: &str, reached: &str) {
    let program = assert_cmd::cargo::cargo_bin("tracemill");
    let mut child = Command::new(program)
        .args(demo(run))
        .arg("--resume")
        .current_dir(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let deadline = Instant::now() + Duration::from_secs(240);
    while !dir.join(run).join(reached).exists() && Instant::now() < deadline {
        if child.try_wait().expect("a child").is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // On Unix this is SIGKILL: nothing is cleaned up.
    child.kill().ok();
    child.wait().expect("the child ends");
}

#[test]
fn a_killed_run_resumes_to_the_same_bytes() {
    let dir = temporary();
    ok(dir.path(), &demo("whole"));
    let killed_at = [
        ".draft-ingest/steps.parquet",
        ".draft-label",
        ".work-encode/checkpoint.safetensors",
        ".draft-cluster",
        "skills/manifest.json",
    ];
    for reached in killed_at {
        kill_when(dir.path(), "killed", reached);
    }
    let mut resume = demo("killed");
    resume.push("--resume");
    ok(dir.path(), &resume);
    assert_eq!(contents(&dir.path().join("whole")), contents(&dir.path().join("killed")));

    let again = ok(dir.path(), &resume);
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert_eq!(said.matches("up to date").count(), 9, "every stage is skipped:\n{said}");
}

#[test]
fn a_changed_setting_reruns_its_stage_and_those_after_it() {
    let dir = temporary();
    ok(dir.path(), &demo("r"));
    let mut changed = demo("r");
    changed.extend(["--resume", "--set", "cluster.ig_min_cluster_size=6"]);
    let said = String::from_utf8_lossy(&ok(dir.path(), &changed).stdout).into_owned();
    let skipped: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("up to date"))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(skipped, ["sample", "ingest", "label", "embed", "encode"], "{said}");
}

#[test]
fn a_tampered_artifact_is_made_again() {
    let dir = temporary();
    ok(dir.path(), &demo("r"));
    let before = contents(&dir.path().join("r"));
    std::fs::write(dir.path().join("r/skills/skills.json"), "[]").expect("writable");
    let mut again = demo("r");
    again.push("--resume");
    ok(dir.path(), &again);
    assert_eq!(contents(&dir.path().join("r")), before);
}

#[test]
fn the_report_is_one_page_without_network_and_escapes_trace_text() {
    let dir = temporary();
    ok(dir.path(), &["sample", "--out", "corpus", "--episodes", "40", "--format", "gui-odyssey"]);
    let annotations = dir.path().join("corpus/phone/annotations");
    for entry in walkdir::WalkDir::new(annotations) {
        let entry = entry.expect("a readable folder");
        if entry.file_type().is_file() {
            let text = std::fs::read_to_string(entry.path()).expect("readable");
            let text = text.replace("Clock", "Clock<script>alert(1)</script>");
            std::fs::write(entry.path(), text).expect("writable");
        }
    }
    let mut args = vec!["run", "demo", "--run", "r", "--from", "ingest"];
    args.extend(["--set", "ingest.inputs=[{format='gui-odyssey', path='corpus/phone'}]"]);
    args.extend(SMALL);
    ok(dir.path(), &args);
    let page = std::fs::read_to_string(dir.path().join("r/report/index.html")).expect("a page");
    assert!(!page.contains("<script"), "trace text must be escaped");
    assert!(page.contains("&lt;script&gt;"), "the text is shown, escaped");
    for fetches in ["src=", "<link", "@import", "url("] {
        assert!(!page.contains(fetches), "the page fetches something: {fetches}");
    }
}

#[test]
fn errors_name_the_remedy() {
    let dir = temporary();
    let missing = fails(dir.path(), &["label", "--run", "r"]);
    assert!(missing.contains("run `tracemill ingest --run r` first"), "{missing}");
    let key = fails(dir.path(), &["label", "--run", "r", "--set", "label.max_stepz=3"]);
    assert!(key.contains("did you mean `max_steps`?"), "{key}");
    let recipe = fails(dir.path(), &["run", "nope.toml", "--run", "r"]);
    assert!(recipe.contains("no built-in recipe"), "{recipe}");
    let format = fails(dir.path(), &["ingest", "--run", "r", "--format", "nope", "--input", "."]);
    assert!(format.contains("known formats: gui-odyssey"), "{format}");
    let unbalanced = fails(dir.path(), &["ingest", "--run", "r", "--input", "."]);
    assert!(unbalanced.contains("one --format before each --input"), "{unbalanced}");
}

#[test]
fn too_many_rejects_fail_the_stage_and_keep_the_reasons() {
    let dir = temporary();
    ok(dir.path(), &["sample", "--out", "corpus", "--episodes", "20", "--format", "gui-odyssey"]);
    let first = walkdir::WalkDir::new(dir.path().join("corpus/phone/annotations"))
        .into_iter()
        .filter_map(Result::ok)
        .find(|e| e.file_type().is_file())
        .expect("an annotation");
    std::fs::write(first.path(), "{\"episode_id\": ").expect("writable");
    let args = ["ingest", "--run", "r", "--format", "gui-odyssey", "--input", "corpus/phone"];
    ok(dir.path(), &args);
    let counts = std::fs::read_to_string(dir.path().join("r/traces/manifest.json")).expect("a manifest");
    let counts: serde_json::Value = serde_json::from_str(&counts).expect("JSON");
    let counts = &counts["counts"];
    assert_eq!(counts["rejects"], 1);
    assert_eq!(
        counts["episodes_in"].as_u64(),
        Some(counts["episodes"].as_u64().expect("a number") + 1),
        "what goes in comes out or is rejected"
    );
    let refused = fails(dir.path(), &[&args[..], &["--max-rejects", "0.01"]].concat());
    assert!(refused.contains("more than --max-rejects 0.01"), "{refused}");
    let reasons = std::fs::read_to_string(dir.path().join("r/rejects-ingest.jsonl")).expect("the reasons");
    assert!(reasons.contains("cut off"), "{reasons}");
}

#[test]
fn logs_of_the_same_name_are_not_duplicates_but_the_same_log_is() {
    let dir = temporary();
    let header = "timeStamp,userID,targetApp,eventType,tag_value\n";
    for (folder, target) in [("a", "One"), ("b", "Two")] {
        let folder = dir.path().join(folder);
        std::fs::create_dir(&folder).expect("a new folder");
        let row = format!("2021-01-01T10:00:00.000Z,ann,Excel,clickButton,{target}\n");
        std::fs::write(folder.join("log.csv"), format!("{header}{row}")).expect("writable");
    }
    let both = ["--format", "ui-log", "--input", "a", "--format", "ui-log", "--input", "b"];
    ok(dir.path(), &[&["ingest", "--run", "r"], &both[..]].concat());
    let counts = |run: &str| {
        let manifest = std::fs::read_to_string(dir.path().join(run).join("traces/manifest.json"));
        let manifest: serde_json::Value = serde_json::from_str(&manifest.expect("a manifest")).expect("JSON");
        (manifest["counts"]["episodes"].clone(), manifest["counts"]["rejects"].clone())
    };
    assert_eq!(counts("r"), (2.into(), 0.into()));
    ok(dir.path(), &[&["ingest", "--run", "s"], &both[..4], &both[..4]].concat());
    assert_eq!(counts("s"), (1.into(), 1.into()));
}

#[test]
fn a_tiny_corpus_makes_a_whole_run_and_readers_need_a_run() {
    let dir = temporary();
    let set = ["--set", "sample.episodes=1", "--set", "embed.dim=64", "--set", "encode.train.epochs=1"];
    ok(dir.path(), &[&["run", "demo", "--run", "r"], &set[..]].concat());
    let page = std::fs::read_to_string(dir.path().join("r/report/index.html")).expect("a page");
    assert!(page.contains("synthetic"), "figures of the sample are labelled");
    let missing = fails(dir.path(), &["explain", "sg0.0", "--run", "nope"]);
    assert!(missing.contains("no run folder at nope"), "{missing}");
    assert!(!dir.path().join("nope").exists());
    let empty = fails(dir.path(), &["memory", "query", "--run", "r", " "]);
    assert!(empty.contains("the query is empty"), "{empty}");
}
