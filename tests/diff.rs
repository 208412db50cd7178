//! `diff`: two runs of the sample corpus.

use std::path::Path;

use serde_json::Value;

use crate::support::{fails, ok};

fn said(dir: &Path, args: &[&str]) -> String {
    String::from_utf8(ok(dir, args).stdout).expect("UTF-8")
}

/// The stages from ingest to skills over some of the corpus.
fn run(dir: &Path, name: &str, inputs: &[(&str, &str)]) {
    let mut ingest = vec!["ingest", "--run", name];
    for (format, path) in inputs {
        ingest.extend(["--format", format, "--input", path]);
    }
    ok(dir, &ingest);
    ok(dir, &["label", "--run", name]);
    ok(dir, &["embed", "--run", name, "--set", "embed.dim=128"]);
    ok(dir, &["encode", "--run", name, "--set", "encode.train.epochs=8"]);
    for stage in ["cluster", "induce"] {
        ok(dir, &[stage, "--run", name]);
    }
}

#[test]
fn two_runs_differ_by_what_they_were_made_of() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    ok(dir, &["sample", "--out", "corpus", "--episodes", "80", "--seed", "3"]);
    let (phone, desktop) = (("gui-odyssey", "corpus/phone"), ("ui-log", "corpus/desktop"));
    run(dir, "a", &[phone]);
    run(dir, "b", &[phone, desktop]);

    // A run and itself: nothing.
    let same = said(dir, &["diff", "a", "a", "--json"]);
    let same: Value = serde_json::from_str(&same).expect("JSON");
    for list in
        [&same["causes"], &same["intent_groups"]["changes"], &same["subgroups"]["changes"], &same["skills"]]
    {
        assert_eq!(list.as_array().map(Vec::len), Some(0), "{list}");
    }
    assert_eq!(same["subgroups"]["stability"], 1.0);
    assert!(said(dir, &["diff", "a", "a"]).contains("No difference in intents, skills and lessons."));

    // One source more: it is named, all its units are new, and every change has a reason.
    let text = said(dir, &["diff", "a", "b", "--out", "diff"]);
    assert!(text.contains("ui-log corpus/desktop"), "{text}");
    let json = std::fs::read_to_string(dir.join("diff/diff.json")).expect("written");
    let diff: Value = serde_json::from_str(&json).expect("JSON");
    let sources: Vec<&str> = { diff["causes"].as_array().expect("a list").iter() }
        .filter(|cause| cause["kind"] == "source")
        .map(|cause| cause["what"].as_str().expect("text"))
        .collect();
    assert_eq!(sources, ["ui-log corpus/desktop"]);
    assert_eq!(diff["units"]["only_before"], 0);
    let new = &diff["units"]["only_after_by_source"];
    assert_eq!(new.as_object().expect("an object").keys().collect::<Vec<_>>(), ["ui-log"]);
    assert_eq!(new["ui-log"], diff["units"]["only_after"]);
    let changes = diff["subgroups"]["changes"].as_array().expect("a list");
    assert!(changes.iter().any(|change| change["became"] == "added"), "{changes:?}");
    for change in changes {
        let count = |key: &str| change[key].as_u64().expect("a count");
        let members = change["new_members"].as_object().expect("an object").len();
        let moved: u64 = ["from_noise", "from_groups", "to_noise", "to_groups"].map(count).iter().sum();
        let regrouped = ["split", "merged", "regrouped"].iter().any(|word| change["became"] == *word);
        assert!(members > 0 || moved > 0 || regrouped, "a change without a reason: {change}");
    }
    let page = std::fs::read_to_string(dir.join("diff/diff.html")).expect("written");
    assert!(page.contains("ui-log corpus&#x2f;desktop") && page.contains(">added<"), "{page}");

    std::fs::create_dir(dir.join("empty")).expect("a folder");
    let error = fails(dir, &["diff", "a", "empty"]);
    assert!(error.contains("empty"), "{error}");
}
