//! The real datasets beside the checkout: counts that were verified independently, and the rule
//! that what goes in comes out or is rejected.

use serde_json::Value;

use crate::support::{ok, shared_data};

#[test]
fn every_record_of_the_real_data_is_an_episode_or_a_reject() {
    let Some(data) = shared_data() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let sources = [
        ("android-control", "android-control"),
        ("ces-sft", "gui-odyssey-ces"),
        ("screenagent", "screenagent"),
        ("mind2web", "mind2web"),
        ("agentnet", "agentnet"),
        ("ui-log", "ui-logs"),
        ("droidtask", "droidtask"),
        ("aitz", "aitz"),
        ("osworld", "desktop-a11y"),
        ("webvoyager", "webvoyager"),
    ];
    let paths: Vec<String> =
        sources.iter().map(|(_, folder)| data.join(folder).to_str().expect("UTF-8").to_owned()).collect();
    let mut args = vec!["ingest", "--run", "r"];
    for ((format, _), path) in sources.iter().zip(&paths) {
        args.extend(["--format", format, "--input", path]);
    }
    ok(dir.path(), &args);
    ok(dir.path(), &["label", "--run", "r"]);
    let manifest = std::fs::read_to_string(dir.path().join("r/traces/manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    let sources = manifest["counts"]["sources"].as_array().expect("sources");
    let episodes = |format: &str| {
        let source = sources.iter().find(|s| s["format"] == format).expect("a source");
        (source["episodes"].as_u64().expect("a number"), source["rejects"].as_u64().expect("a number"))
    };
    // The files' own counts: lines, sessions, distinct annotation ids.
    assert_eq!(episodes("android-control"), (618, 0));
    assert_eq!(episodes("mind2web"), (177, 0));
    assert_eq!(episodes("ui-log"), (1, 0));
    // 51 State Tracker chains and 66 Coordinator screenshot series; one raw recording, one standardised
    // trajectory, three of the benchmark.
    assert_eq!(episodes("ces-sft"), (117, 0));
    assert_eq!(episodes("agentnet"), (5, 0));
    // 112 tasks and the explorations of ten applications; one episode.
    assert_eq!(episodes("droidtask"), (122, 0));
    assert_eq!(episodes("aitz"), (1, 0));
    // Eight explorations, eight chats.
    assert_eq!(episodes("osworld"), (8, 0));
    assert_eq!(episodes("webvoyager"), (8, 0));
    let (sessions, rejected) = episodes("screenagent");
    assert_eq!(sessions + rejected, 49);
}
