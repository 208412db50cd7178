//! Data sets as users meet them: exported, validated, explained, evaluated on.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::support::{contents, fails, ok, root, shared_data, tracemill};

const TARGETS: [&str; 6] = ["llama-factory", "verl", "trl", "ms-swift", "openai", "tracemill"];

/// A run on the sample's phone, with pictures: `r`, and the corpus beside it.
fn sample_run(dir: &Path, episodes: &str) {
    let sample = ["sample", "--out", "corpus", "--episodes", episodes, "--seed", "5", "--screens"];
    ok(dir, &[&sample[..], &["--format", "gui-odyssey"]].concat());
    ok(dir, &["ingest", "--run", "r", "--format", "gui-odyssey", "--input", "corpus"]);
}

fn export(dir: &Path, kind: &str, role: &str, target: &str, more: &[&str]) -> PathBuf {
    let out = format!("{kind}-{role}-{target}");
    let args = ["export", kind, "--run", "r", "--role", role, "--target", target, "--out", &out];
    ok(dir, &[&args[..], more].concat());
    dir.join(out)
}

/// The validator's report on a data set, whatever it says of it.
fn findings(folder: &Path) -> Value {
    findings_with(folder, &[])
}

fn findings_with(folder: &Path, more: &[&str]) -> Value {
    let path = folder.to_str().expect("UTF-8");
    let output = tracemill(folder).args(["validate", path, "--json"]).args(more).output().expect("starts");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn the_released_rows_come_out_byte_for_byte() {
    let Some(data) = shared_data() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let source = data.join("gui-odyssey-ces");
    let input = source.to_str().expect("UTF-8");
    ok(dir.path(), &["ingest", "--run", "r", "--format", "ces-sft", "--input", input]);
    for (role, file) in [("coordinator", "planner_vl_sft.json"), ("state-tracker", "memory_sft.json")] {
        let out = export(dir.path(), "sft", role, "llama-factory", &["--profile", "ces-code", "--all"]);
        let (made, released) = (std::fs::read(out.join("train.json")), std::fs::read(source.join(file)));
        assert!(made.expect("rows") == released.expect("rows"), "{role}");
    }
}

#[test]
fn every_export_of_the_sample_is_clean_and_explained() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    sample_run(dir.path(), "4");
    for kind in ["sft", "rl"] {
        for role in ["coordinator", "state-tracker"] {
            for target in TARGETS {
                let out = export(dir.path(), kind, role, target, &["--ignore-splits", "--test-share", "0.5"]);
                let found = findings(&out);
                assert_eq!(found["findings"], json!([]), "{kind} {role} {target}");
                let rows = found["rows"].as_object().expect("rows by file");
                assert_eq!(rows.len(), 2, "train and test: {rows:?}");
                let pictures = found["pictures"].as_u64();
                assert_eq!(pictures > Some(0), role == "coordinator", "{kind} {target}: {pictures:?}");
            }
        }
    }
    let id = lines(&dir.path().join("rl-coordinator-tracemill/train.jsonl"))[3]["id"].clone();
    let id = id.as_str().expect("an id");
    let told =
        ok(dir.path(), &["explain", id, "--run", "r", "--dataset", "rl-coordinator-tracemill", "--json"]);
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert!(told["in"][0].as_str().is_some_and(|at| at.ends_with("train.jsonl › row 4 (train)")), "{told}");
    assert!(told["source"].as_str().is_some_and(|s| s.contains("annotations/")), "{told}");
    assert!(told["prompt"].as_str().is_some_and(|s| s.starts_with("coordinator@1, hash ")), "{told}");
}

#[test]
fn splits_keep_tasks_apart_and_draws_are_seeded() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    sample_run(dir.path(), "10");
    let draw = |name: &str, seed: &str, threads: &str| {
        let args = ["export", "sft", "--run", "r", "--role", "coordinator", "--target", "tracemill"];
        let more =
            ["--sample", "30", "--seed", seed, "--images", "path", "--ignore-splits", "--test-share", "0.4"];
        let mut command = tracemill(dir.path());
        command.env("RAYON_NUM_THREADS", threads).args(args).args(more).args(["--out", name]);
        assert!(command.output().expect("starts").status.success());
        dir.path().join(name)
    };
    let (one, two, other) = (draw("a", "1", "1"), draw("b", "1", "2"), draw("c", "2", "2"));
    assert_eq!(contents(&one), contents(&two), "the same seed gives the same bytes on any number of threads");
    assert_ne!(contents(&one), contents(&other));
    let tasks = |folder: &Path, split: &str| -> BTreeSet<String> {
        let rows = lines(&folder.join(format!("{split}.jsonl")));
        rows.iter().map(|row| row["task"].as_str().expect("a task").to_owned()).collect()
    };
    assert_eq!(lines(&one.join("train.jsonl")).len(), 30);
    assert!(!lines(&one.join("test.jsonl")).is_empty());
    assert!(tasks(&one, "train").is_disjoint(&tasks(&one, "test")));
    // What lies there already is replaced only when it is an export.
    std::fs::create_dir(dir.path().join("mine")).expect("a folder");
    std::fs::write(dir.path().join("mine/thesis.txt"), "x").expect("written");
    let args = ["export", "sft", "--run", "r", "--role", "coordinator", "--target", "verl", "--out", "mine"];
    assert!(fails(dir.path(), &args).contains("something else there"));
    assert!(dir.path().join("mine/thesis.txt").exists());
}

/// Changes one row of a file of JSON lines.
fn change(path: &Path, row: usize, edit: impl Fn(&mut Value)) {
    let mut rows = lines(path);
    edit(&mut rows[row]);
    write(path, &rows);
}

fn write(path: &Path, rows: &[Value]) {
    let text = rows.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    std::fs::write(path, text).expect("written");
}

fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from) {
        let entry = entry.expect("readable");
        let place = to.join(entry.path().strip_prefix(from).expect("below"));
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(place).expect("a folder");
        } else {
            std::fs::copy(entry.path(), place).expect("copied");
        }
    }
}

type Plant = (&'static str, fn(&Path));

/// Defects of an SFT export for ms-swift, with the rule that must find each.
const SFT_DEFECTS: &[Plant] = &[
    ("image-count", |d| change(&d.join("train.jsonl"), 2, |r| r["images"] = json!([]))),
    ("image-count", |d| {
        change(&d.join("train.jsonl"), 2, |r| r["messages"][1]["content"] = json!("no mark"));
    }),
    ("image-missing", |d| change(&d.join("train.jsonl"), 2, |r| r["images"] = json!(["gone.png"]))),
    ("image-unreadable", |d| {
        std::fs::write(d.join("cut.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").expect("written");
        change(&d.join("train.jsonl"), 2, |r| r["images"] = json!(["cut.png"]));
    }),
    ("image-size", |d| {
        let small = image::RgbImage::new(10, 20);
        small.save(d.join("small.png")).expect("a picture");
        change(&d.join("train.jsonl"), 2, |r| r["images"] = json!(["small.png"]));
    }),
    ("role-order", |d| change(&d.join("train.jsonl"), 2, |r| r["messages"][1]["role"] = json!("assistant"))),
    ("unknown-role", |d| change(&d.join("train.jsonl"), 2, |r| r["messages"][2]["role"] = json!("robot"))),
    ("empty-answer", |d| change(&d.join("train.jsonl"), 2, |r| r["messages"][2]["content"] = json!(" "))),
    ("empty-answer", |d| {
        change(&d.join("train.jsonl"), 2, |r| {
            r["messages"][2]["content"] = json!("<think>x</think><answer></answer>");
        });
    }),
    ("empty-answer", |d| {
        change(&d.join("train.jsonl"), 2, |r| {
            r["messages"].as_array_mut().expect("messages").truncate(2);
        });
    }),
    ("empty-prompt", |d| {
        change(&d.join("train.jsonl"), 2, |r| r["messages"][1]["content"] = json!("<image> \n"));
    }),
    ("answer-form", |d| {
        change(&d.join("train.jsonl"), 2, |r| {
            r["messages"][2]["content"] = json!("<think>x</think><answer>Tap it.");
        });
    }),
    ("mark-in-reply", |d| {
        change(&d.join("train.jsonl"), 2, |r| {
            r["messages"][2]["content"] = json!("<think>x</think><answer>Tap <image>.</answer>");
        });
    }),
    ("stray-mark", |d| {
        change(&d.join("train.jsonl"), 2, |r| {
            r["messages"][2]["content"] = json!("<think>x</think><answer>Play the <video>.</answer>");
        });
    }),
    ("damaged-text", |d| {
        change(&d.join("train.jsonl"), 2, |r| {
            r["messages"][2]["content"] = json!("<think>x</think><answer>Tap Caf\u{fffd}.</answer>");
        });
    }),
    ("duplicate-prompt", |d| {
        let path = d.join("train.jsonl");
        let mut rows = lines(&path);
        let mut again = rows[1].clone();
        again["id"] = json!("another#1/coordinator");
        rows.push(again);
        write(&path, &rows);
    }),
    ("duplicate-id", |d| {
        let id = lines(&d.join("train.jsonl"))[0]["id"].clone();
        change(&d.join("train.jsonl"), 2, |r| r["id"] = id.clone());
    }),
    ("task-overlap", |d| {
        let row = lines(&d.join("train.jsonl"))[1].clone();
        change(&d.join("test.jsonl"), 0, |r| *r = row.clone());
    }),
    ("prompt-words", |d| {
        change(&d.join("train.jsonl"), 2, |r| r["messages"][0]["content"] = json!("You are kind."));
    }),
    ("prompt-words", |d| change(&d.join("train.jsonl"), 2, |r| r["prompt_hash"] = json!("0123"))),
    ("no-messages", |d| change(&d.join("train.jsonl"), 2, |r| *r = json!({"text": "x"}))),
    ("unreadable-row", |d| {
        let path = d.join("train.jsonl");
        let text = std::fs::read_to_string(&path).expect("rows");
        std::fs::write(&path, &text[..text.len() - 20]).expect("written");
    }),
    ("unreadable-row", |d| {
        let path = d.join("train.jsonl");
        let mut bytes = std::fs::read(&path).expect("rows");
        bytes[40] = 0xFF;
        std::fs::write(&path, bytes).expect("written");
    }),
    ("unreadable-file", |d| std::fs::write(d.join("test.jsonl"), "").expect("written")),
    ("manifest", |d| std::fs::remove_file(d.join("test.jsonl")).expect("removed")),
    ("manifest", |d| {
        let rows = lines(&d.join("train.jsonl"));
        write(&d.join("train.jsonl"), &rows[..5]);
    }),
    ("prompt-words", |d| {
        change(&d.join("train.jsonl"), 2, |r| {
            let text = r["messages"][1]["content"].as_str().expect("text").replace("step-by-step", "hard");
            r["messages"][1]["content"] = json!(text);
        });
    }),
    ("special-token", |d| {
        change(&d.join("train.jsonl"), 2, |r| {
            r["messages"][2]["content"] = json!("<think>x</think><answer>Tap it.<|im_end|></answer>");
        });
    }),
    ("answer-form", |d| {
        change(&d.join("train.jsonl"), 2, |r| r["messages"][2]["content"] = json!("Tap it."));
    }),
];

/// The same for an RL export for verl's reward, in the program's own form.
const RL_DEFECTS: &[Plant] = &[
    ("outside-screen", |d| {
        change(&d.join("train.jsonl"), row_of(d, "click"), |r| r["truth"]["point"] = json!([9000, 10]));
    }),
    ("outside-screen", |d| {
        change(&d.join("train.jsonl"), row_of(d, "click"), |r| {
            r["truth"]["bbox"] = json!([10, 10, 20, 99999]);
        });
    }),
    ("bad-box", |d| {
        change(&d.join("train.jsonl"), row_of(d, "click"), |r| r["truth"]["bbox"] = json!([30, 10, 20, 40]));
    }),
    ("unknown-action", |d| change(&d.join("train.jsonl"), 2, |r| r["truth"]["action"] = json!("teleport"))),
    ("no-truth", |d| change(&d.join("train.jsonl"), 2, |r| r["truth"] = json!({"action": ""}))),
    ("no-truth", |d| change(&d.join("train.jsonl"), 2, |r| r["truth"] = json!("click"))),
    ("no-element", |d| {
        change(&d.join("train.jsonl"), 2, |r| {
            r["screen"]["elements"] =
                json!([{"id": "1", "role": "button", "text": "OK", "states": [], "bbox": null}]);
            r["truth"] = json!({"action": "click", "element": "7"});
        });
    }),
    ("no-truth", |d| {
        change(&d.join("train.jsonl"), 2, |r| r["truth"] = json!({"action": "type", "point": [5, 5]}));
    }),
    ("no-truth", |d| {
        change(&d.join("train.jsonl"), 2, |r| r["truth"] = json!({"action": "click"}));
    }),
    ("unknown-action", |d| change(&d.join("train.jsonl"), 2, |r| r["truth"]["action"] = json!("kick"))),
    ("unknown-direction", |d| {
        change(&d.join("train.jsonl"), 2, |r| {
            r["truth"] = json!({"action": "scroll", "direction": "sideways"});
        });
    }),
    ("outside-box", |d| {
        change(&d.join("train.jsonl"), row_of(d, "click"), |r| r["truth"]["point"] = json!([0.4, 0.6]));
    }),
    ("contradiction", |d| change(&d.join("train.jsonl"), 2, |r| r["state"] = json!("Another state."))),
    ("image-missing", |d| change(&d.join("train.jsonl"), 2, |r| r["screen"]["image"] = json!("gone.png"))),
    ("no-task", |d| change(&d.join("train.jsonl"), 2, |r| r["task"] = json!(""))),
];

fn row_of(folder: &Path, action: &str) -> usize {
    let rows = lines(&folder.join("train.jsonl"));
    rows.iter().position(|r| r["truth"]["action"] == action).expect("such a row")
}

#[test]
fn planted_defects_are_found_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    sample_run(dir.path(), "4");
    let clean = [
        (
            export(dir.path(), "sft", "coordinator", "ms-swift", &["--ignore-splits", "--test-share", "0.5"]),
            SFT_DEFECTS,
        ),
        (
            export(dir.path(), "rl", "coordinator", "tracemill", &["--ignore-splits", "--test-share", "0.5"]),
            RL_DEFECTS,
        ),
    ];
    for (folder, defects) in clean {
        // A few rows will do: every picture is decoded each time.
        for (file, rows) in [("train.jsonl", 8), ("test.jsonl", 2)] {
            let kept = lines(&folder.join(file)).into_iter().take(rows).collect::<Vec<_>>();
            write(&folder.join(file), &kept);
        }
        let kind = if folder.ends_with("sft-coordinator-ms-swift") { "sft" } else { "rl" };
        let manifest = json!({
            "settings": {"kind": kind}, "counts": {"rows": {"train": 8, "test": 2}},
            "outputs": [{"path": "train.jsonl"}, {"path": "test.jsonl"}],
        });
        std::fs::write(folder.join("manifest.json"), manifest.to_string()).expect("written");
        // Screenshots that rows are rewarded on are named below the corpus.
        let corpus = dir.path().join("corpus");
        let images = ["--images", corpus.to_str().expect("UTF-8")];
        assert_eq!(findings_with(&folder, &images)["findings"], json!([]), "{}", folder.display());
        for (i, (rule, plant)) in defects.iter().enumerate() {
            let planted = dir.path().join(format!("planted-{i}"));
            copy(&folder, &planted);
            plant(&planted);
            let found = findings_with(&planted, &images);
            let by_rule = found["findings_by_rule"].as_object().expect("rules");
            assert!(by_rule.contains_key(*rule), "defect {i}, {rule}: {by_rule:?}");
            // A defect may show twice, but never in other rows.
            let rows: BTreeSet<u64> = found["findings"]
                .as_array()
                .expect("findings")
                .iter()
                .filter_map(|f| f["row"].as_u64())
                .collect();
            assert!(rows.len() <= 1, "defect {i}, {rule}: {rows:?}");
            assert!(found["findings"][0]["remedy"].as_str().is_some_and(|r| !r.is_empty()));
            std::fs::remove_dir_all(&planted).expect("removed");
        }
    }
}

#[test]
fn verl_and_llama_factory_defects_are_found() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let verl = |index: Value, image: Value| {
        json!({
            "data_source": "planner", "ability": "gui", "images": [image],
            "prompt": [{"role": "user", "content": "<image> Do it."}],
            "reward_model": {"style": "rule", "ground_truth": "42"},
            "extra_info": {"index": index},
        })
    };
    let path = dir.path().join("train.jsonl");
    write(&path, &[verl(json!(0), json!({"bytes": null})), verl(Value::Null, json!({"bytes": null}))]);
    let rules = |path: &Path| findings(path)["findings_by_rule"].clone();
    let found = rules(dir.path());
    assert!(found["image-missing"] == 2 && found["no-index"] == 1, "{found}");
    let mut twice = verl(json!(0), json!({"bytes": null}));
    twice["prompt"][0]["content"] = json!("<image> Do that.");
    write(&path, &[verl(json!(0), json!({"bytes": null})), twice]);
    assert_eq!(rules(dir.path())["duplicate-index"], 1);
    std::fs::remove_file(path).expect("removed");

    sample_run(dir.path(), "4");
    let out = export(dir.path(), "sft", "state-tracker", "llama-factory", &["--test-share", "0.3"]);
    std::fs::write(out.join("dataset_info.json"), r#"{"x": {"file_name": "gone.json"}}"#).expect("written");
    let found = rules(&out);
    assert!(found["dataset-info"].as_u64() >= Some(2), "{found}");
    let out = export(dir.path(), "sft", "coordinator", "llama-factory", &[]);
    let info = std::fs::read_to_string(out.join("dataset_info.json")).expect("read");
    for (named, instead) in [
        ("\"images\": \"images\"", "\"x\": \"y\""),
        ("\"system\": \"system\"", "\"x\": \"y\""),
        ("sharegpt", "alpaca"),
    ] {
        std::fs::write(out.join("dataset_info.json"), info.replace(named, instead)).expect("written");
        let found = rules(&out);
        assert!(found["dataset-info"].as_u64() >= Some(1), "{named}: {found}");
    }
    std::fs::write(out.join("dataset_info.json"), info).expect("written");
    assert_eq!(rules(&out), json!({}), "as it was");
    let rows = std::fs::read_to_string(out.join("train.json")).expect("read");
    std::fs::write(out.join("train.json"), rows.replacen("Tap", "Tip", 1)).expect("written");
    assert_eq!(rules(&out), json!({"changed-file": 1}), "only the hash can tell");

    // OpenAI's rows have no ids: they are told by their places.
    let out = export(dir.path(), "sft", "coordinator", "openai", &[]);
    let mut png = std::io::Cursor::new(Vec::new());
    image::RgbImage::new(10, 20).write_to(&mut png, image::ImageFormat::Png).expect("a picture");
    let url = format!(
        "data:image/png;base64,{}",
        base64::engine::general_purpose::STANDARD.encode(png.into_inner())
    );
    change(&out.join("train.jsonl"), 2, |r| r["messages"][1]["content"][1]["image_url"]["url"] = json!(url));
    assert_eq!(rules(&out)["image-size"], 1);

    let out = export(dir.path(), "sft", "state-tracker", "llama-factory", &["--test-share", "0.3"]);
    std::fs::write(out.join("train.json"), "[{\"conversations\": [").expect("written");
    assert_eq!(rules(&out)["unreadable-file"], 1);
    let error = fails(dir.path(), &["validate", "nowhere"]);
    assert!(error.contains("nowhere"), "{error}");
    let error = fails(dir.path(), &["validate", "corpus", "--max-tokens", "10"]);
    assert!(error.contains("--tokenizer"), "{error}");
}

#[test]
fn the_loop_is_evaluated_on_real_screens_and_can_be_frozen() {
    let Some(data) = shared_data() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let input = data.join("droidtask");
    ok(
        dir.path(),
        &["ingest", "--run", "r", "--format", "droidtask", "--input", input.to_str().expect("UTF-8")],
    );
    ok(dir.path(), &["eval", "ces", "--run", "r", "--freeze", "frozen.json"]);
    let result: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("r/eval/ces/ces.json")).expect("figures"))
            .expect("JSON");
    let rate = |setup: &str| {
        let found = result["setups"].as_array().expect("setups").iter().find(|s| s["setup"] == setup);
        found.unwrap_or_else(|| panic!("{setup}"))["metrics"]["sr"]["rate"].as_f64().expect("a rate")
    };
    // The order that must hold whatever the rules are: gold above planned, planned above nobody.
    assert!(
        rate("gold") > rate("gold-state")
            && rate("gold-state") >= rate("rules")
            && rate("rules") > rate("baseline")
    );
    let rows = lines(&dir.path().join("r/eval/ces/rules.jsonl"));
    assert_eq!(rows.len(), 487);
    let wrong = |r: &&Value| r["outcome"] == "score" && (r["param"] == 0.0 || r["type"] == 0.0);
    assert!(rows.iter().filter(wrong).all(|r| r["class"].is_string()), "each wrong step has a class");
    assert!(rows.iter().filter(|r| !wrong(r)).all(|r| r["class"].is_null()));

    ok(dir.path(), &["eval", "ces", "--run", "r", "--frozen", "frozen.json", "--setup", "gold"]);
    let mut frozen: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("frozen.json")).expect("read")).expect("JSON");
    frozen["episodes"][3]["blake3"] = json!("00");
    std::fs::write(dir.path().join("frozen.json"), frozen.to_string()).expect("written");
    let error = fails(dir.path(), &["eval", "ces", "--run", "r", "--frozen", "frozen.json"]);
    assert!(error.contains("is not what was frozen"), "{error}");
    let error = fails(dir.path(), &["eval", "ces", "--run", "r", "--setup", "trained"]);
    assert!(error.contains("ces.trained.coordinator has no endpoints"), "{error}");
}

#[test]
fn pairs_of_screens_are_exported_and_leaks_are_reported() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    sample_run(dir.path(), "12");
    ok(
        dir.path(),
        &["export", "temporal", "--run", "r", "--interval", "1,3", "--pairs", "20", "--out", "pairs"],
    );
    let rows = lines(&dir.path().join("pairs/test.jsonl"));
    assert_eq!(rows.iter().filter(|r| r["interval"] == 3).count(), 20);
    assert!(rows.iter().all(|r| r["images"].as_array().is_some_and(|i| i.len() == 2)));
    let answers: BTreeSet<&str> = rows.iter().filter_map(|r| r["answer"].as_str()).collect();
    assert_eq!(answers, BTreeSet::from(["A", "B"]));
    let error = fails(dir.path(), &["eval", "temporal", "--input", "pairs"]);
    assert!(error.contains("temporal.endpoint"), "{error}");

    // Two draws of other splits share tasks, and so do the traces that skills are mined from.
    ok(dir.path(), &["label", "--run", "r"]);
    let more = |seed| ["--ignore-splits", "--test-share", "0.5", "--images", "path", "--seed", seed];
    let first = export(dir.path(), "sft", "coordinator", "tracemill", &more("1"));
    let second = export(dir.path(), "rl", "coordinator", "tracemill", &more("2"));
    let (first, second) = (first.to_str().expect("UTF-8"), second.to_str().expect("UTF-8"));
    let args = ["doctor", "--dataset", first, "--dataset", second, "--run", "r", "--json"];
    let output = tracemill(dir.path()).args(args).output().expect("starts");
    assert!(!output.status.success(), "leaks are bad");
    let checks: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let leaks: Vec<&Value> =
        checks.iter().filter(|c| c["check"].as_str().is_some_and(|n| n.starts_with("leaks"))).collect();
    assert_eq!(leaks.len(), 4);
    assert!(leaks.iter().all(|c| c["verdict"] == "bad"), "{leaks:?}");
    assert!(
        checks.iter().any(|c| c["check"] == "sft-coordinator-tracemill: splits" && c["verdict"] == "good")
    );
}

/// A server on loopback that answers every chat with the same text; returns settings that name it.
fn serve(dir: &Path, text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream, text));
        }
    });
    let mut config = String::new();
    for section in ["ces.prompted.coordinator", "ces.prompted.state_tracker", "temporal.endpoint"] {
        config.push_str(&format!(
            "[{section}]\nmode = \"record\"\nledger = \"ledger\"\n[[{section}.endpoints]]\n\
             base_url = \"http://{address}/v1\"\nmodel = \"m\"\nrevision = \"r\"\n"
        ));
    }
    std::fs::write(dir.join("roles.toml"), config).expect("written");
    "roles.toml".to_owned()
}

fn answer(stream: TcpStream, text: &str) {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let reply = json!({
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1}, "model": "m",
    });
    let reply = reply.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        reply.len()
    );
    reader.get_mut().write_all(format!("{head}{reply}").as_bytes()).expect("answered");
}

#[test]
fn endpoints_play_roles_are_asked_for_order_and_drawn_from() {
    let Some(data) = shared_data() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let input = data.join("droidtask");
    ok(
        dir.path(),
        &["ingest", "--run", "r", "--format", "droidtask", "--input", input.to_str().expect("UTF-8")],
    );
    let config = serve(dir.path(), "<think>A or B?</think><answer>A</answer>");
    let config = ["--config", config.as_str()];

    ok(
        dir.path(),
        &["export", "temporal", "--run", "r", "--interval", "2", "--pairs", "40", "--out", "pairs"],
    );
    let args = ["eval", "temporal", "--input", "pairs", "--out", "order", "--json"];
    let told = ok(dir.path(), &[&args[..], &config[..]].concat());
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let rows = lines(&dir.path().join("pairs/test.jsonl"));
    let right = rows.iter().filter(|r| r["answer"] == "A").count() as f64 / rows.len() as f64;
    assert_eq!(told["intervals"][0]["accuracy"]["rate"], right, "who always says A is right where it is A");

    let args = ["eval", "ces", "--run", "r", "--limit", "6", "--setup", "prompted", "--setup", "gold-state"];
    ok(dir.path(), &[&args[..], &config[..]].concat());
    let rows = lines(&dir.path().join("r/eval/ces/prompted.jsonl"));
    assert!(rows.iter().all(|r| r["instruction"] == "A"));
    assert!(rows.iter().skip(1).any(|r| r["state"] == "A"), "the State Tracker's answer is the next state");

    let pool = ["--role", "coordinator", "--target", "tracemill", "--sample", "5", "--out", "pool"];
    ok(dir.path(), &[&["export", "rl", "--run", "r"], &pool[..]].concat());
    let args = ["doctor", "--input", "pool/train.jsonl", "--outputs", "3", "--json"];
    let output = tracemill(dir.path()).args(args).args(config).output().expect("starts");
    let checks: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let of = |name: &str| checks.iter().find(|c| c["check"] == name).expect("the check").clone();
    assert_eq!(of("coordinator outputs")["found"], "15 outputs drawn for 5 prompts, 0 calls failed");
    assert_eq!(of("dead groups")["verdict"], "bad", "equal outputs earn the same");
    let error = fails(dir.path(), &["doctor", "--input", "pool/train.jsonl"]);
    assert!(error.contains("checks are bad"), "{error}");
}

#[test]
fn companions_hold_what_the_frameworks_are_told() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    sample_run(dir.path(), "4");
    let out = export(dir.path(), "rl", "state-tracker", "verl", &[]);
    let config = std::fs::read_to_string(out.join("grpo.yaml")).expect("a configuration");
    for line in ["max_response_length: 512", "total_epochs: 5", "path: Qwen/Qwen3-4B", "n: 4", "lr: 1.0e-6"] {
        assert!(config.contains(line), "{line}\n{config}");
    }
    assert!(!config.contains("{{"), "{config}");
    let reward = std::fs::read_to_string(out.join("tracemill_reward.py")).expect("a reward function");
    assert!(reward.contains("def compute_score("));
    let script = std::fs::read_to_string(root().join("scripts/check-exports.py")).expect("the script");
    assert!(script.contains("llamafactory"));
}
