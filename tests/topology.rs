//! Navigation topologies as users meet them: logs in, text and answers out.

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{contents, fails, ok, shared_data, tracemill};

/// A log of the paper's figure 4: control 1 leads to 2, 3 and 4, and so on.
fn figure_4() -> String {
    let button = |n: u32| {
        json!({"id": format!("{n}|button|window"), "name": n.to_string(), "role": "button", "description": "",
               "states": ["enabled"], "actions": ["click"], "window": "window"})
    };
    let buttons = |list: &[u32]| list.iter().map(|&n| button(n)).collect::<Vec<_>>();
    let id = |n: u32| format!("{n}|button|window");
    let row = |path: &[u32], control: Value, action: &str, new: &[u32]| {
        json!({"app": "figure", "path": path.iter().map(|&n| id(n)).collect::<Vec<_>>(), "control": control,
               "action": action, "from_state_id": "a", "to_state_id": "b", "new_controls": buttons(new),
               "window_opened": null})
        .to_string()
    };
    let mut lines = vec![row(&[], Value::Null, "launch", &[1])];
    for (path, control, new) in [
        (&[][..], 1, &[2, 3, 4][..]),
        (&[1], 2, &[5]),
        (&[1], 3, &[6]),
        (&[1], 4, &[6]),
        (&[1, 4], 6, &[7, 8, 9]),
        (&[1, 4, 6], 9, &[10, 11, 12]),
    ] {
        lines.push(row(path, button(control), "click", new));
    }
    lines.join("\n") + "\n"
}

fn built(folder: &Path, more: &[&str]) -> String {
    std::fs::write(folder.join("figure.jsonl"), figure_4()).expect("written");
    let mut args = vec!["topology", "build", "--input", "figure.jsonl", "--out", "t"];
    args.extend(more);
    String::from_utf8(ok(folder, &args).stdout).expect("UTF-8")
}

fn show(folder: &Path, more: &[&str]) -> String {
    let mut args = vec!["topology", "show", "--forest", "t"];
    args.extend(more);
    String::from_utf8(ok(folder, &args).stdout).expect("UTF-8")
}

fn visit(folder: &Path, commands: &str, more: &[&str]) -> Value {
    let mut args = vec!["topology", "visit", "--forest", "t", "--commands", commands];
    args.extend(more);
    serde_json::from_slice(&ok(folder, &args).stdout).expect("JSON")
}

fn names(answer: &Value) -> Vec<&str> {
    let path = answer["tasks"][0]["path"].as_array().expect("a path");
    path.iter().map(|step| step["name"].as_str().expect("a name")).collect()
}

#[test]
fn figure_4_from_log_to_answer() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    insta::assert_snapshot!(built(dir.path(), &["--theta", "6"]));
    let files: Vec<String> = contents(&dir.path().join("t")).into_keys().collect();
    assert_eq!(
        files,
        [
            "core.txt",
            "forest.json",
            "forest.txt",
            "graph.json",
            "manifest.json",
            "rejects.jsonl",
            "stats.json"
        ]
    );
    insta::assert_snapshot!(show(dir.path(), &["--all", "--description-chars", "0"]));
    let answer = visit(dir.path(), r#"[{"id": 14, "entry_ref_id": [7]}]"#, &[]);
    assert_eq!(answer["status"], "ok");
    assert_eq!(names(&answer), ["1", "4", "6", "9", "12"]);
    assert_eq!(answer["steps"].as_array().expect("steps").len(), 5);
    assert!(show(dir.path(), &["--id", "11"]).contains("9(button)_11[\n10(button)_12,"));
    assert!(fails(dir.path(), &["topology", "show", "--forest", "t", "--id", "15"]).contains("from 0 to 14"));
    built(dir.path(), &["--theta", "inf"]);
    assert_eq!(names(&visit(dir.path(), r#"[{"id": "19"}]"#, &[])), ["1", "4", "6", "9", "12"]);
}

#[test]
fn answers_that_are_errors_are_answers() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    built(dir.path(), &["--theta", "6"]);
    insta::assert_json_snapshot!(visit(dir.path(), r#"[{"id": 14}]"#, &[]));
    let query = visit(dir.path(), r#"[{"further_query": ["7"]}]"#, &[]);
    assert!(query["topology"].as_str().expect("text").starts_with("# shared subtrees\n6(button)_8["));
    let all = visit(dir.path(), r#"[{"further_query": [-1]}]"#, &[]);
    assert_eq!(all["topology"].as_str().expect("text").trim_end(), show(dir.path(), &["--all"]).trim_end());
    let disabled = visit(dir.path(), r#"[{"id": 3}]"#, &["--inject", "disabled:3"]);
    assert_eq!((&disabled["status"], &disabled["error"]["code"]), (&json!("error"), &json!("disabled")));
    let slow = visit(dir.path(), r#"[{"id": 3}]"#, &["--inject", "slow:3=2"]);
    assert_eq!(slow["steps"][2]["retries"], 2);
    let late = visit(dir.path(), r#"[{"id": 3}]"#, &["--inject", "slow:3=2", "--retries", "1"]);
    assert_eq!(late["error"]["code"], "absent");
    std::fs::write(dir.path().join("call.json"), "[{\"id\": ").expect("written");
    assert_eq!(visit(dir.path(), "@call.json", &[])["error"]["code"], "malformed");
    let strict = fails(dir.path(), &["topology", "visit", "--forest", "t", "--commands", "[]", "--strict"]);
    assert!(strict.contains("the array is empty"), "{strict}");
    for (args, said) in [
        (["--forest", "t", "--commands", "@none.json"], "none.json"),
        (["--forest", "none", "--commands", "[]"], "tracemill topology build"),
    ] {
        let error = fails(dir.path(), &[&["topology", "visit"][..], &args].concat());
        assert!(error.contains(said), "{error}");
    }
    let error = tracemill(dir.path())
        .args(["topology", "visit", "--forest", "t", "--commands", "[]", "--inject", "disabled:99"])
        .output()
        .expect("the program starts");
    assert!(String::from_utf8_lossy(&error.stderr).contains("from 0 to 14"));
}

#[test]
fn declarations_act_on_the_screen_after_the_turns_before() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    built(dir.path(), &[]);
    let screen = visit(dir.path(), r#"[{"id": 3}]"#, &["--screen"]);
    let labels: Vec<&str> = { screen["screen"]["controls"].as_array().expect("controls").iter() }
        .map(|c| c["label"].as_str().expect("a label"))
        .collect();
    assert_eq!(labels, ["A", "B", "C", "D", "E"], "1 to 5 are on the screen");
    let answer = visit(dir.path(), r#"[{"get_texts": {"labels": ["E"]}}]"#, &["--after", r#"[{"id": 3}]"#]);
    assert_eq!(answer["error"]["code"], "unsupported_pattern", "a button holds no text");
    let answer = visit(dir.path(), r#"[{"get_texts": {"labels": ["E"]}}]"#, &[]);
    assert_eq!(answer["error"]["code"], "unknown_label", "the first screen has one control");
    let answer = visit(dir.path(), r#"[{"id": 3}, {"get_texts": {"labels": ["A"]}}]"#, &[]);
    assert_eq!(answer["error"]["code"], "interfaces_mixed");
}

#[test]
fn the_same_log_gives_the_same_bytes() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    built(dir.path(), &[]);
    let first = contents(&dir.path().join("t"));
    built(dir.path(), &[]);
    assert_eq!(contents(&dir.path().join("t")), first);
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("figure.jsonl"), figure_4()).expect("written");
    let mut inputs = vec!["figure.jsonl".to_owned()];
    if let Some(data) = shared_data() {
        let more = ["desktop-a11y/rip/galculator.jsonl", "droidtask/utgs/calendar", "droidtask/droidbot"];
        inputs.extend(more.map(|name| data.join(name).to_str().expect("UTF-8").to_owned()));
    }
    let build = |threads: &str| {
        let mut command = tracemill(dir.path());
        command.env("RAYON_NUM_THREADS", threads).env("POLARS_MAX_THREADS", threads);
        command.args(["topology", "build", "--out", threads]);
        for input in &inputs {
            command.args(["--input", input]);
        }
        let done = command.output().expect("the program starts");
        assert!(done.status.success(), "{done:?}");
        contents(&dir.path().join(threads))
    };
    let (one, two) = (build("1"), build("2"));
    assert!(one.len() == 7 && one == two, "one and two threads differ in {:?}", one.keys());
}

#[test]
fn droidbots_own_graph_is_read() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let graph = json!({
        "nodes": [
            {"id": "s1", "state_str": "s1", "label": "Main\n<FIRST>", "package": "app", "activity": ".Main"},
            {"id": "s2", "state_str": "s2", "label": "Settings", "package": "app", "activity": ".Settings"},
        ],
        "edges": [
            {"from": "s1", "to": "s2", "events": [{"event_id": 1, "event_type": "touch", "view_images": [],
             "event_str": "TouchEvent(state=s1, view=f00(Main/Button-Settings))"}]},
            {"from": "s2", "to": "s2", "events": [{"event_id": 2, "event_type": "touch", "view_images": [],
             "event_str": "TouchEvent(state=s2, view=ba4(Settings/Switch-Wi-Fi))"}]},
        ],
    });
    std::fs::create_dir(dir.path().join("out")).expect("a folder");
    let text = format!("var utg = \n{}", serde_json::to_string_pretty(&graph).expect("JSON"));
    std::fs::write(dir.path().join("out/utg.js"), text).expect("written");
    ok(dir.path(), &["topology", "build", "--input", "out", "--out", "t"]);
    let text = show(dir.path(), &["--all"]);
    assert!(text.contains("Settings(Button)_1[Wi-Fi(Switch)_2]"), "{text}");
}

#[test]
fn inputs_that_are_none_say_what_is_wrong() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
    let build = |input: &str, more: &[&str]| {
        let mut args = vec!["topology", "build", "--input", input, "--out", "o"];
        args.extend(more);
        fails(dir.path(), &args)
    };
    write("rows.jsonl", "{\"action\": \"launch\", \n");
    let error = build("rows.jsonl", &[]);
    assert!(error.contains("rows.jsonl line 1") && error.contains("cut off"), "{error}");
    write("utg.yaml", "records:\n- Choice: 1\n  Input: 'null\n");
    let error = build("utg.yaml", &[]);
    assert!(error.contains("utg.yaml") && error.contains("line 3"), "{error}");
    std::fs::create_dir(dir.path().join("empty")).expect("a folder");
    write("empty/readme.md", "nothing");
    assert!(build("empty", &[]).contains("nothing to read"));
    assert!(build("none", &[]).contains("--input none"));
    write("figure.jsonl", &figure_4());
    assert!(build("figure.jsonl", &["--theta", "many"]).contains("whole number of nodes, or inf"));
    write("list.txt", "Quit\ntype:\n");
    let error = build("figure.jsonl", &["--blacklist", "list.txt"]);
    assert!(error.contains("list.txt") && error.contains("line 2"), "{error}");
    assert!(!dir.path().join("o").exists(), "nothing is published");
    std::fs::create_dir(dir.path().join("o")).expect("a folder");
    write("o/mine.txt", "mine");
    assert!(build("figure.jsonl", &[]).contains("something else there"));
}

#[test]
fn a_million_lines_with_one_that_is_broken() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let log = figure_4();
    let mut file =
        std::io::BufWriter::new(std::fs::File::create(dir.path().join("long.jsonl")).expect("created"));
    file.write_all(log.as_bytes()).expect("written");
    // Short rows: a known control that reveals nothing new.
    let row = r#"{"app":"figure","action":"click","control":{"id":"5|button|window"},"new_controls":[]}"#;
    for i in 8..=1_000_000 {
        writeln!(file, "{}", if i == 900_000 { "{" } else { row }).expect("written");
    }
    file.flush().expect("written");
    ok(dir.path(), &["topology", "build", "--input", "long.jsonl", "--out", "t"]);
    let rejects = std::fs::read_to_string(dir.path().join("t/rejects.jsonl")).expect("rejects");
    let reject: Value = serde_json::from_str(rejects.trim_end()).expect("one line of JSON");
    assert_eq!((&reject["file"], &reject["key"]), (&json!("long.jsonl"), &json!("line 900000")));
    let stats = std::fs::read_to_string(dir.path().join("t/stats.json")).expect("stats");
    let stats: Value = serde_json::from_str(&stats).expect("JSON");
    assert_eq!(
        (&stats["counts"]["transitions"], &stats["rejects"]["malformed"]),
        (&json!(999_999), &json!(1))
    );
    // The rows have no path: that says nothing of the first screen.
    assert_eq!((&stats["counts"]["controls"], &stats["counts"]["edges"]), (&json!(12), &json!(13)));
    assert_eq!((&stats["merge_nodes"], &stats["controls_unreachable"]), (&json!(1), &json!(0)));
}

#[test]
fn too_many_rejects_publish_nothing() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("log.jsonl"), figure_4() + "{\n").expect("written");
    let args = ["topology", "build", "--input", "log.jsonl", "--out", "o", "--max-rejects"];
    let error = fails(dir.path(), &[&args[..], &["0.1"]].concat());
    assert!(
        error.contains("1 of 8 records were rejected (12.5 %)") && error.contains("log.jsonl line 8"),
        "{error}"
    );
    assert!(!dir.path().join("o").exists());
    ok(dir.path(), &[&args[..], &["0.125"]].concat());
    assert!(fails(dir.path(), &[&args[..], &["2"]].concat()).contains("a share from 0 to 1"));
}

#[test]
fn a_run_has_its_topology_beside_the_traces() {
    let Some(data) = shared_data() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let input = data.join("droidtask/utgs/calendar");
    let input = input.to_str().expect("UTF-8");
    ok(dir.path(), &["ingest", "--run", "r", "--format", "droidtask", "--input", input]);
    ok(dir.path(), &["topology", "build", "--run", "r"]);
    let resumed = ok(dir.path(), &["topology", "build", "--run", "r", "--resume"]);
    assert!(String::from_utf8_lossy(&resumed.stdout).contains("up to date"), "{resumed:?}");
    // From the traces and from the file: the same graph, but for where things were seen.
    ok(dir.path(), &["topology", "build", "--input", input, "--out", "t"]);
    ok(dir.path(), &["topology", "build", "--input", "r", "--out", "u"]);
    let text =
        |folder: &str| std::fs::read_to_string(dir.path().join(folder).join("forest.txt")).expect("text");
    assert_eq!(text("t"), text("u"));
    assert_eq!(text("t"), text("r/topology"));
    assert!(text("t").contains("Change view(button)"));
}

#[test]
fn the_recorded_logs_build_and_cover_each_other() {
    let Some(data) = shared_data() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let rip = |name: &str| data.join("desktop-a11y/rip").join(name).to_str().expect("UTF-8").to_owned();
    let (log, folder) = (rip("mousepad.jsonl"), rip(""));
    ok(dir.path(), &["topology", "build", "--input", &log, "--out", "t", "--against", &log]);
    let stats = |folder: &str| -> Value {
        let text = std::fs::read_to_string(dir.path().join(folder).join("stats.json")).expect("stats");
        serde_json::from_str(&text).expect("JSON")
    };
    let coverage = &stats("t")["coverage"];
    assert_eq!(coverage["sequences"], coverage["sequences_in_forest"]);
    assert!(stats("t")["counts"]["controls_skipped_by_explorer"].as_u64() > Some(0), "from its meta file");
    ok(dir.path(), &["topology", "build", "--input", &folder, "--out", "all"]);
    assert_eq!(stats("all")["counts"]["applications"], 3);
    assert_eq!(stats("all")["files_passed_over"], json!([]));
}
