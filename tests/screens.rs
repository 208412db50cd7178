//! Screens as users meet them: trees in, compact text, audit and summary out.

use std::io::Write;
use std::path::Path;

use serde_json::Value;
use tracemill_data::a11y::AuditRow;
use tracemill_data::parquet_io::read_table;

use crate::support::{contents, fails, ok, shared_data, tracemill};

const HEADER: &str = "tag\tname\ttext\tclass\tdescription\tposition (top-left x&y)\tsize (w&h)";

fn tree(rows: &[String]) -> String {
    format!("{HEADER}\n{}\n", rows.join("\n"))
}

fn page() -> Vec<String> {
    (0..16).map(|i| format!("paragraph\t\tline {i}\t\t\t(300, {})\t(400, 20)", 120 + 40 * i)).collect()
}

/// A folder of a session: two states, the second with a dialog, and what is no tree.
fn session(folder: &Path) {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    write("in/app/9.tsv", &tree(&page()));
    let mut rows = page();
    let long = format!("{} shipping {}", "word ".repeat(30), "more ".repeat(30));
    rows.push(format!("paragraph\t\t{long}\t\t\t(900, 300)\t(400, 20)"));
    rows.push("push-button\tCancel\t\"\"\t\t\t(820, 560)\t(80, 30)".to_owned());
    rows.push("push-button\tDelete\tDelete\t\t\t(920, 560)\t(80, 30)".to_owned());
    rows.push("static\tDelete\tDelete\t\t\t(930, 565)\t(60, 20)".to_owned());
    write("in/app/10.tsv", &tree(&rows));
    write("in/app/instruction.txt", "What does shipping cost?\n");
    write("in/notes.txt", "no tree");
    write("in/broken/1.tsv", &format!("{HEADER}\nmenu\tFile"));
    // Packed and cut before anything can be unpacked.
    std::fs::write(folder.join("in/broken/2.tsv.gz"), b"\x1f\x8b\x08\x00").expect("written");
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
}

#[test]
fn a_session_is_compressed_state_by_state_whatever_the_threads() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    session(dir.path());
    let args =
        ["compress", "--format", "osworld-tsv", "--input", "in", "--instruction", "auto", "--audit", "--out"];
    let run = |out: &str, threads: &str| {
        let all: Vec<&str> = args.iter().copied().chain([out]).collect();
        let output =
            tracemill(dir.path()).args(all).env("RAYON_NUM_THREADS", threads).output().expect("started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = run("one", "1");
    run("two", "2");
    assert_eq!(contents(&dir.path().join("one")), contents(&dir.path().join("two")));
    let text = std::fs::read_to_string(dir.path().join("one/app/10.txt")).expect("the text");
    let modal = "[MODAL]\nparagraph ...word word word word word word word word word word shipping more more more more more \
                 more more more more more... (1100,310)\n[BLOCK]\npush-button Cancel (860,575); Delete (960,575)\n";
    assert!(text.starts_with(&format!("APP: unknown application\n{modal}[CONTENT]\n")), "{text}");
    let summary = json(&dir.path().join("one/summary.json"));
    assert_eq!(summary["pooled"]["elements_in"], 36);
    assert_eq!(summary["pooled"]["elements_out"], 35);
    assert_eq!(summary["trees"][1]["tree"], "app/10");
    assert_eq!(summary["trees"][1]["modal"], "temporal");
    assert_eq!(summary["skipped"], serde_json::json!(["app/instruction.txt", "notes.txt"]));
    let (before, after) = (&summary["pooled"]["tokens_in"], &summary["pooled"]["tokens_out"]);
    assert!(after.as_u64() > Some(0) && after.as_u64() < before.as_u64(), "{before} {after}");
    assert!(told.contains("broken/1.tsv: record 0: no position and size"), "{told}");
    let rejects = std::fs::read_to_string(dir.path().join("one/rejects.jsonl")).expect("rejects");
    assert_eq!(rejects.lines().count(), 2);
    assert!(rejects.contains("broken/2.tsv.gz"), "{rejects}");
    assert!(
        rejects.contains(r#""what":"tree","place":"record 0","reason":"no position and size"#),
        "{rejects}"
    );
    // Two of four trees.
    let refused = fails(dir.path(), &[&args[..], &["three", "--max-rejects", "0.49"]].concat());
    assert!(
        refused.contains("2 of 4 trees cannot be read (50.0 %), more than --max-rejects 0.49"),
        "{refused}"
    );
    assert!(!dir.path().join("three").exists());
    ok(dir.path(), &[&args[..], &["three", "--max-rejects", "0.5"]].concat());
    let page = std::fs::read_to_string(dir.path().join("one/audit.html")).expect("the page");
    assert!(page.contains("same-name into 18") && page.contains("push-button Cancel"), "the rule is named");
    // Switched off, phase by phase.
    ok(
        dir.path(),
        &[
            "compress",
            "--format",
            "osworld-tsv",
            "--input",
            "in/app/10.tsv",
            "--out",
            "raw",
            "--no-modal",
            "--no-reduce",
            "--no-structure",
        ],
    );
    let raw = std::fs::read_to_string(dir.path().join("raw/10.txt")).expect("the text");
    assert_eq!(raw.lines().count(), 20);
    assert!(raw.starts_with("paragraph\t\tline 0\t\t\t(300, 120)\t(400, 20)\n"), "{raw}");
}

#[test]
fn rules_of_the_users_own_name_an_application() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    session(dir.path());
    std::fs::create_dir(dir.path().join("rules")).expect("made");
    let rules = "key = \"shop\"\nname = \"The shop\"\n[[clue]]\nnames = [\"line 3\"]\nweight = 3\n[[region]]\nname = \"LEFT\"\n\
                 x_max = \"50%\"\n[[region]]\nname = \"REST\"\n";
    std::fs::write(dir.path().join("rules/shop.toml"), rules).expect("written");
    let args = [
        "compress",
        "--format",
        "osworld-tsv",
        "--input",
        "in/app/9.tsv",
        "--out",
        "out",
        "--rules",
        "rules",
    ];
    ok(dir.path(), &args);
    let text = std::fs::read_to_string(dir.path().join("out/9.txt")).expect("the text");
    assert!(text.starts_with("APP: The shop\n[LEFT]\nparagraph line 0 (500,130)\n"), "{text}");
    std::fs::write(dir.path().join("rules/shop.toml"), rules.replace("x_max", "xmax")).expect("written");
    let error = fails(dir.path(), &args);
    assert!(error.contains("shop.toml") && error.contains("xmax"), "{error}");
}

#[test]
fn trees_come_gzipped_and_as_json() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let dump = "<desktop-frame><application name=\"Writer\"><push-button name=\"OK\" st:showing=\"true\" st:visible=\"true\" \
                st:enabled=\"true\" cp:screencoord=\"(10, 20)\" cp:size=\"(30, 40)\"/></application></desktop-frame>";
    let file = std::fs::File::create(dir.path().join("1.xml.gz")).expect("made");
    let mut gz = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    gz.write_all(dump.as_bytes()).expect("written");
    gz.finish().expect("written");
    ok(
        dir.path(),
        &[
            "compress",
            "--format",
            "atspi-xml",
            "--input",
            "1.xml.gz",
            "--out",
            "a",
            "--tokens",
            "cl100k_base",
        ],
    );
    let text = std::fs::read_to_string(dir.path().join("a/1.txt")).expect("the text");
    assert_eq!(text, "APP: Writer\n[TOOLBAR]\npush-button OK (25,40)\n");
    let line = "{\"axtree\": {\"Name\": \"OK\", \"ControlType\": \"ButtonControl\", \"BoundingRectangle\": {\"left\": 0, \"top\": 700, \"right\": 20, \"bottom\": 720}}}";
    std::fs::write(dir.path().join("a11y.jsonl"), format!("{line}\n{line}\n")).expect("written");
    ok(
        dir.path(),
        &["compress", "--format", "uia-json", "--input", "a11y.jsonl", "--out", "b", "--screen", "1366x768"],
    );
    let text = std::fs::read_to_string(dir.path().join("b/a11y/000002.txt")).expect("the second line's text");
    assert_eq!(text, "APP: unknown application\n[CONTENT]\nbutton OK (10,710)\n");
}

#[test]
fn what_can_be_read_is_and_the_rest_is_counted() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let good = r#"{"axtree": {"Name": "OK", "ControlType": "ButtonControl"}}"#;
    let bad = r#"{"axtree": {"ControlType": "PaneControl", "Children": [{"Name": "x"}, {"Name": "y", "ControlType": "EditControl"}]}}"#;
    let lines = [good, r#"{"axtree": null}"#, bad, &good[..30], good].join("\n");
    std::fs::write(dir.path().join("a11y.jsonl"), lines).expect("written");
    let args = ["compress", "--format", "uia-json", "--input", "a11y.jsonl", "--out", "a", "--linear"];
    ok(dir.path(), &args);
    let summary = json(&dir.path().join("a/summary.json"));
    let figures = ["refused", "refused_elements", "empty", "cut"].map(|key| summary[key].as_u64());
    assert_eq!(figures, [Some(2), Some(1), Some(0), Some(0)]);
    assert_eq!(summary["pooled"]["screens"], 3);
    let rejects = std::fs::read_to_string(dir.path().join("a/rejects.jsonl")).expect("rejects");
    let places: Vec<String> = rejects
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|line| format!("{} {}", line["what"], line["place"]))
        .collect();
    assert_eq!(places, [r#""tree" "line 2""#, r#""tree" "line 4""#, r#""element" "line 3: 0/0""#]);
    let linear = std::fs::read_to_string(dir.path().join("a/a11y/000001.tsv")).expect("the linear form");
    assert_eq!(linear, format!("{HEADER}\nButtonControl\tOK\t\"\"\t\t\t(0, 0)\t(0, 0)"));
    let refused = fails(dir.path(), &[&args[..], &["--max-rejects", "0.3"]].concat());
    assert!(refused.contains("2 of 5 trees"), "{refused}");
    // A tree that was cut, and one of which nothing is on the screen.
    std::fs::create_dir(dir.path().join("in")).expect("made");
    let cut = format!("{HEADER}\n{}\npush-but[...]\n", page().join("\n"));
    std::fs::write(dir.path().join("in/cut.tsv"), cut).expect("written");
    ok(dir.path(), &["compress", "--format", "osworld-tsv", "--input", "in", "--out", "b"]);
    let summary = json(&dir.path().join("b/summary.json"));
    assert_eq!((&summary["cut"], &summary["rules"]["dropped/cut-off"]), (&1.into(), &1.into()));
    let dump = "<desktop-frame><frame name=\"a\" st:showing=\"true\"/></desktop-frame>";
    std::fs::write(dir.path().join("in/none.xml"), dump).expect("written");
    let args = ["compress", "--format", "atspi-xml", "--input", "in/none.xml", "--out", "c"];
    let told = tracemill(dir.path()).args(args).output().expect("started");
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("1 screens have elements of which none is shown"), "{told}");
    assert_eq!(json(&dir.path().join("c/summary.json"))["empty"], 1);
}

/// The row that a merged element is part of.
fn survivor<'r>(rows: &[&'r AuditRow], row: &'r AuditRow) -> &'r AuditRow {
    let into = row.into.and_then(|into| rows.iter().find(|row| row.element == into));
    into.map_or(row, |into| survivor(rows, into))
}

#[test]
fn real_dumps_become_the_recorded_linear_form_and_no_target_is_lost() {
    let Some(data) = shared_data() else { return };
    let data = data.join("desktop-a11y");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let input = data.to_str().expect("UTF-8");
    ok(
        dir.path(),
        &["compress", "--format", "atspi-xml", "--input", input, "--out", "out", "--linear", "--audit"],
    );
    let summary = json(&dir.path().join("out/summary.json"));
    let (mut same, mut other) = (0, Vec::new());
    for tree in summary["trees"].as_array().expect("trees") {
        let name = tree["tree"].as_str().expect("a name");
        let recorded = std::fs::read(data.join(format!("{name}.tsv"))).expect("the recorded form");
        if recorded == std::fs::read(dir.path().join(format!("out/{name}.tsv"))).expect("ours") {
            same += 1;
        } else {
            other.push(name);
        }
    }
    // The recordings' own note: line ends in this one's names did not outlive the XML.
    assert!(
        same >= 100 && other.iter().all(|name| *name == "chromium/025"),
        "{same} are the same, not {other:?}"
    );
    let rows: Vec<AuditRow> = read_table(&dir.path().join("out/audit.parquet")).expect("the audit");
    let (mut targets, mut lost) = (0, Vec::new());
    for app in ["calc", "chromium", "galculator", "gedit", "gimp", "mousepad", "writer"] {
        for line in std::fs::read_to_string(data.join(app).join("steps.jsonl")).expect("steps").lines() {
            let step: Value = serde_json::from_str(line).expect("JSON");
            let control = &step["action"]["control"];
            let (Some(name), Some(before)) = (control["name"].as_str(), step["before"].as_str()) else {
                continue;
            };
            let tree = format!("{app}/{before}");
            let rows: Vec<&AuditRow> = rows.iter().filter(|row| row.tree == tree).collect();
            if rows.is_empty() {
                continue;
            }
            let bbox = step["action"]["bbox"].as_array().into_iter().flatten();
            let sides: Vec<i32> = bbox.filter_map(Value::as_i64).map(|side| side as i32).collect();
            let box_of = |row: &AuditRow| [row.x, row.y, row.width, row.height];
            let is_target = |row: &&&AuditRow| {
                row.label.trim() == name.trim() && box_of(row).iter().flatten().eq(sides.iter())
            };
            let is_there = |row: &&AuditRow| {
                let row = survivor(&rows, row);
                let [x, y, width, height] = box_of(row).map(|side| side.unwrap_or(i32::MIN / 4));
                let (x, y) = (x + width / 2 - sides[0], y + height / 2 - sides[1]);
                row.fate != "dropped" && (0..sides[2]).contains(&x) && (0..sides[3]).contains(&y)
            };
            targets += 1;
            // What is nowhere in the audit is lost too.
            if !rows.iter().filter(is_target).any(is_there) {
                lost.push(format!("{tree}: {} {name}", control["role"]));
            }
        }
    }
    assert!(targets >= 35, "{targets} targets");
    assert!(1_000 * lost.len() <= 5 * targets, "{} of {targets} targets: {lost:?}", lost.len());
}

#[test]
fn what_cannot_be_compressed_is_said() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    session(dir.path());
    for (args, part) in [
        (vec!["--format", "tsv", "--input", "in"], "known forms: osworld-tsv"),
        (vec!["--format", "osworld-tsv", "--input", "absent"], "absent"),
        (vec!["--format", "uia-json", "--input", "in"], "no tree of uia-json could be read"),
        (vec!["--format", "osworld-tsv", "--input", "in/broken"], "record 0: no position and size"),
        (vec!["--format", "osworld-tsv", "--input", "in", "--tokens", "gpt2"], "`gpt2`"),
        (vec!["--format", "osworld-tsv", "--input", "in", "--screen", "wide"], "write 1366x768"),
        (vec!["--format", "osworld-tsv", "--input", "in", "--instruction", "@absent.txt"], "@absent.txt"),
    ] {
        let all: Vec<&str> = ["compress", "--out", "out"].into_iter().chain(args).collect();
        let error = fails(dir.path(), &all);
        assert!(error.contains(part), "{error}");
        assert!(!dir.path().join("out").exists(), "nothing is left of a failed run");
    }
}

#[test]
fn real_desktops_are_compressed_to_a_third_and_less() {
    let Some(data) = shared_data() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let input = data.join("desktop-a11y");
    let input = input.to_str().expect("UTF-8");
    ok(dir.path(), &["compress", "--format", "osworld-tsv", "--input", input, "--out", "out"]);
    let summary = json(&dir.path().join("out/summary.json"));
    let ratio = summary["pooled"]["ratio"].as_f64().expect("a ratio");
    assert!(ratio <= 0.30, "{ratio}");
    for (app, sum) in summary["apps"].as_object().expect("applications") {
        assert!(sum["tokens_out_mean"].as_f64() <= Some(3_500.0), "{app}: {sum}");
    }
}

/// A task of two screens, the second scrolled into view by a click.
const PROFILE: &str = r#"{"gallery": {"h1": {"task": "Sort the pictures by name", "step_num": 2, "profile": [
    {"label": [1, "null"], "history": "", "state": "<input id=0 >Search folders</input>\n<button id=1 text='More options'></button>", "state_str": "a"},
    {"label": [-1, "null"], "history": "- TapOn: More options", "state": "<button id=0>Sort by</button>\n<button id=1>Sort by</button>", "state_str": "b"}]}}}"#;

#[test]
fn prompts_are_built_from_observations() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(dir.path().join("in")).expect("made");
    std::fs::write(dir.path().join("in/profile.json"), PROFILE).expect("written");
    ok(dir.path(), &["ingest", "--run", "r", "--format", "droidtask", "--input", "in"]);
    let export = |shown: &str, out: &str| {
        [
            "export",
            "rl",
            "--run",
            "r",
            "--role",
            "coordinator",
            "--target",
            "tracemill",
            "--test-share",
            "0",
            "--observation",
            shown,
            "--out",
            out,
        ]
        .map(str::to_owned)
    };
    let as_str = |args: &[String]| fails(dir.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
    let error = as_str(&export("compressed", "early"));
    assert!(error.contains("tracemill observe"), "{error}");
    ok(dir.path(), &["observe", "--run", "r", "--set", "observe.audit=true"]);
    let manifest = json(&dir.path().join("r/observations/manifest.json"));
    assert_eq!(
        (&manifest["counts"]["screens"], &manifest["counts"]["steps_without_elements"]),
        (&2.into(), &0.into())
    );
    for (shown, part) in [
        (
            "compressed",
            "Screen:\nAPP: gallery\n[CONTENT]\ninput Search folders\nbutton More options\nHigh-level task",
        ),
        (
            "linear",
            "Screen:\ntag\tname\ttext\tclass\tdescription\tposition (top-left x&y)\tsize (w&h)\ninput\tSearch folders\t",
        ),
        ("elements", "Screen:\n0 input \"Search folders\"\n1 button \"More options\"\n"),
    ] {
        let args = export(shown, shown);
        ok(dir.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
        let rows = std::fs::read_to_string(dir.path().join(shown).join("train.jsonl")).expect("rows");
        let first: Value = serde_json::from_str(rows.lines().next().expect("a row")).expect("JSON");
        let content = first["messages"][1]["content"].as_str().expect("a prompt");
        assert!(content.contains(part), "{shown}: {content}");
        // The executor still acts on elements.
        assert_eq!(first["screen"]["elements"][1]["text"], "More options");
    }
}
