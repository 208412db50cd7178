//! `train sft|grpo`, `merge`: a tiny random model learns a toy task of the built-in executor.

#![allow(clippy::unwrap_used, reason = "tests and their helpers say what they expect by unwrapping")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use candle_core::{DType, Device};
use serde_json::{Value, json};
use tracemill_data::prompt::{Shown, registry};
use tracemill_data::trace::Element;
use tracemill_models::policy::{ModelConfig, Policy};

use crate::support::{contents, fails, ok, root};

const WORDS: [&str; 14] = [
    "<unk>",
    "<|end|>",
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    "Tap",
    "Save",
    "Cancel",
    "Delete",
    "Share",
    "note",
    "picture",
    "the",
];

/// A model folder as the Hugging Face libraries write it: random weights, and a tokenizer of a few words.
pub fn model(folder: &Path) -> PathBuf {
    let model = folder.join("model");
    std::fs::create_dir_all(&model).unwrap();
    let config = json!({
        "model_type": "qwen3", "vocab_size": WORDS.len(), "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "max_position_embeddings": 2048, "tie_word_embeddings": true, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    });
    let shape = ModelConfig::from_json(&config.to_string()).unwrap();
    let policy = Policy::random(shape, 7, DType::F32, &Device::Cpu).unwrap();
    let tensors = policy.merged_tensors().unwrap();
    safetensors::serialize_to_file(tensors, None, &model.join("model.safetensors")).unwrap();
    let vocab: serde_json::Map<String, Value> =
        WORDS.iter().enumerate().map(|(id, word)| ((*word).to_owned(), json!(id))).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "decoder": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "added_tokens": [{"id": 1, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
                          "normalized": false, "special": true}],
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"},
    });
    let template = "{% for m in messages %}{{ m.content }} {% if m.role == 'assistant' %}<|end|> {% endif %}\
                    {% endfor %}";
    let files = [
        ("config.json", config),
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", json!({"eos_token": "<|end|>", "chat_template": template})),
    ];
    for (name, value) in files {
        std::fs::write(model.join(name), value.to_string()).unwrap();
    }
    model
}

/// A pool: whatever is asked, Save is to be tapped. With `reply` the rows are for SFT.
fn pool(path: &Path, tasks: &[&str], reply: bool) {
    let mut lines = String::new();
    for (i, task) in tasks.iter().enumerate() {
        let names = ["Save", "Archive", "Rename", "Help"];
        let element = |k: usize| Element {
            id: k.to_string(),
            role: "button".to_owned(),
            text: names[(k + i) % 4].to_owned(),
            states: Vec::new(),
            bbox: None,
        };
        let elements: Vec<Element> = (0..4).map(element).collect();
        let values = BTreeMap::from([("task", (*task).to_owned()), ("state", "Nothing yet.".to_owned())]);
        let prompt = registry().role("coordinator", values, Shown::Elements(&elements)).unwrap();
        let mut row = json!({
            "split": "train", "messages": prompt.messages, "prompt": prompt.template, "prompt_hash": prompt.hash,
            "id": format!("toy:{task}#0/coordinator"), "role": "coordinator", "task": task, "state": "Nothing yet.",
            "screen": {"width": 0, "height": 0, "elements": elements},
            "truth": {"action": "click", "element": ((4 - i % 4) % 4).to_string()},
        });
        if reply {
            row["reply"] = json!("<think> </think> <answer> Tap the Save </answer>");
        }
        lines += &format!("{row}\n");
    }
    std::fs::create_dir_all(path).unwrap();
    std::fs::write(path.join("train.jsonl"), lines).unwrap();
}

const SETTINGS: &str = r#"
[sft]
batch_rows = 4
epochs = 30
lr = 2e-2
eval_max_tokens = 10
checkpoint_every = 3

[grpo]
prompts = 4
rollouts = 16
max_response = 8
epochs = 30
lr = 5e-3
checkpoint_every = 3
loss = { loss = "grpo", kl = { beta = 0.0 } }
"#;

/// Model, pools and settings of a toy task; returns the model's path.
fn toy(dir: &Path) -> String {
    for (name, reply) in [("sft", true), ("rl", false)] {
        pool(&dir.join(name), &["the note", "note", "picture the", "the the picture"], reply);
    }
    pool(&dir.join("held"), &["picture", "the picture", "picture note", "the note picture"], true);
    std::fs::write(dir.join("settings.toml"), SETTINGS).unwrap();
    model(dir).to_str().unwrap().to_owned()
}

fn train<'a>(kind: &'a str, run: &'a str, data: &'a str, model: &'a str) -> Vec<&'a str> {
    let role = "coordinator";
    let settings = "settings.toml";
    vec![
        "train",
        kind,
        "--run",
        run,
        "--role",
        role,
        "--data",
        data,
        "--held-out",
        "held",
        "--model",
        model,
        "--config",
        settings,
        "--seed",
        "3",
    ]
}

fn counts(run: &Path, kind: &str) -> Value {
    let path = run.join(format!("policies/coordinator/{kind}/manifest.json"));
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    manifest["counts"].clone()
}

#[test]
fn the_reward_of_a_random_model_goes_up() {
    let dir = tempfile::tempdir().unwrap();
    let model = toy(dir.path());
    ok(dir.path(), &train("grpo", "run", "rl", &model));
    let counts = counts(&dir.path().join("run"), "grpo");
    let (before, after) =
        (counts["held_out_reward_before"].as_f64().unwrap(), counts["held_out_reward"].as_f64().unwrap());
    assert!(after > before + 0.3, "{before} {after}");
    let folder = dir.path().join("run/policies/coordinator/grpo");
    for file in ["adapter/adapter_config.json", "adapter/adapter_model.safetensors", "transcripts.md"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    let metrics = std::fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    let lines: Vec<Value> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 31);
    let columns = |row: &Value| row.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert!(lines.iter().all(|line| columns(line) == columns(&lines[0])));
    // The first step is on policy: what was sampled is what is trained.
    assert!(lines[1]["ratio_gate"].as_f64().unwrap() < 1e-3, "{}", lines[1]);
    assert!((lines[1]["ratio"].as_f64().unwrap() - 1.0).abs() < 1e-6);
}

#[test]
fn examples_teach_the_form_and_grpo_goes_on_from_them() {
    let dir = tempfile::tempdir().unwrap();
    let model = toy(dir.path());
    ok(dir.path(), &train("sft", "run", "sft", &model));
    let sft = counts(&dir.path().join("run"), "sft");
    assert_eq!(sft["held_out_format"], json!(1.0), "{sft}");
    assert!(sft["held_out_reward"].as_f64().unwrap() > 0.9, "{sft}");
    let adapter = "run/policies/coordinator/sft/adapter";
    let mut args = train("grpo", "run", "rl", &model);
    args.extend(["--adapter", adapter, "--set", "grpo.max_steps=1", "--set", "grpo.loss.kl.beta=0.01"]);
    ok(dir.path(), &args);
    // The start of GRPO is the end of SFT, and its adapter is one of the model that was given.
    let grpo = counts(&dir.path().join("run"), "grpo");
    assert_eq!(grpo["held_out_reward_before"], sft["held_out_reward"]);
    let config = dir.path().join("run/policies/coordinator/grpo/adapter/adapter_config.json");
    let config: Value = serde_json::from_str(&std::fs::read_to_string(config).unwrap()).unwrap();
    assert_eq!((&config["r"], &config["lora_alpha"]), (&json!(16), &json!(16.0)));
    ok(dir.path(), &["merge", "--model", &model, "--adapter", adapter, "--out", "merged"]);
    let mut args = train("grpo", "again", "rl", "merged");
    args.extend(["--set", "grpo.max_steps=1"]);
    ok(dir.path(), &args);
    let again = counts(&dir.path().join("again"), "grpo");
    assert_eq!(
        again["held_out_reward_before"], sft["held_out_reward"],
        "the merged folder is the same model"
    );
}

/// Whether a folder holds a file whose name begins so.
fn holds(work: &Path, prefix: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(work) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
}

/// Starts training and kills it as soon as its work folder holds such a file.
fn kill_when(dir: &Path, args: &[&str], work: &str, prefix: &str) {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("tracemill"))
        .args(args)
        .current_dir(dir)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !holds(&dir.join(work), prefix) && child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < Duration::from_secs(60), "no {prefix} came in {work}");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().ok();
    child.wait().unwrap();
}

#[test]
fn a_killed_run_resumes_to_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let model = toy(dir.path());
    for (kind, data) in [("sft", "sft"), ("grpo", "rl")] {
        ok(dir.path(), &train(kind, "whole", data, &model));
        // Before the first checkpoint, between two, and after the last, when only publishing is left (or done).
        for (run, reached) in [("early", "metrics"), ("cut", "step-"), ("late", "step-00000030")] {
            let args = train(kind, run, data, &model);
            kill_when(dir.path(), &args, &format!("{run}/.work-train-{kind}-coordinator"), reached);
            let published = dir.path().join(run).join("policies/coordinator").join(kind);
            assert!(run == "late" || !published.exists(), "{kind} was not killed");
            let mut args = args;
            args.push("--resume");
            ok(dir.path(), &args);
            assert_eq!(
                contents(&dir.path().join("whole/policies/coordinator").join(kind)),
                contents(&published)
            );
        }
    }
}

/// A process that is killed when the test ends.
pub struct Served(std::process::Child);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Starts `serve executor`; returns its base URL once it listens.
pub fn serve(dir: &Path, args: &[&str]) -> (Served, String) {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("tracemill"))
        .args(args)
        .current_dir(dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    (Served(child), url)
}

#[test]
fn a_served_model_is_the_executor_that_it_is_in_process() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path()).to_str().unwrap().to_owned();
    let input = root().join("examples/outputs.jsonl");
    let replies = |out: &str, sets: &[String]| -> Vec<Value> {
        let mut args = vec!["reward", "--input", input.to_str().unwrap(), "--out", out];
        args.extend(["--set", "reward.max_tokens=12"]);
        sets.iter().for_each(|set| args.extend(["--set", set]));
        ok(dir.path(), &args);
        let text = std::fs::read_to_string(dir.path().join(out)).unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["reply"].clone()).collect()
    };
    let inside =
        replies("in.jsonl", &["reward.executor=model".to_owned(), format!("reward.model.model={model}")]);
    let args = ["serve", "executor", "--model", &model, "--addr", "127.0.0.1:0", "--name", "toy"];
    let (_served, url) = serve(dir.path(), &args);
    let endpoints = format!(r#"reward.endpoint.endpoints=[{{base_url="{url}", model="toy"}}]"#);
    let sets = ["reward.executor=endpoint".to_owned(), endpoints, "reward.endpoint.ledger=ledger".to_owned()];
    assert_eq!(replies("out.jsonl", &sets), inside);
    assert!(inside.iter().any(|reply| reply.as_str().is_some_and(|text| !text.is_empty())), "{inside:?}");
}

#[test]
fn what_cannot_be_trained_on_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let model = toy(dir.path());
    let no_reply = fails(dir.path(), &train("sft", "run", "rl", &model));
    assert!(no_reply.contains("rl/train.jsonl line 1") && no_reply.contains("no reply"), "{no_reply}");
    let missing = fails(dir.path(), &train("sft", "run", "sft", "nowhere"));
    assert!(missing.contains("nowhere"), "{missing}");
    let mut wrong_role = train("sft", "run", "sft", &model);
    wrong_role[5] = "state-tracker";
    let wrong_role = fails(dir.path(), &wrong_role);
    assert!(wrong_role.contains("a row of a coordinator, and a state-tracker is trained"), "{wrong_role}");
    let path = dir.path().join("sft/train.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let hash = registry().templates().find(|(name, _)| *name == "coordinator-text").unwrap().1.hash();
    std::fs::write(&path, text.replacen(&hash, "0123456789abcdef0123456789abcdef", 1)).unwrap();
    let stale = fails(dir.path(), &train("sft", "run", "sft", &model));
    assert!(stale.contains("0123456789abcdef") && stale.contains("export the rows again"), "{stale}");
    let mut leak = train("grpo", "run", "rl", &model);
    leak[9] = "rl";
    leak.push("--dry-run");
    let said = ok(dir.path(), &leak);
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("4 rows to train on") && said.contains("0 held out, 4 left out"), "{said}");
    let mut long = train("grpo", "run", "rl", &model);
    long.extend(["--set", "grpo.max_response=2040"]);
    let long = fails(dir.path(), &long);
    assert!(long.contains("8 were left out") && long.contains("2048 positions"), "{long}");
    // Rows of SFT are learned, not answered: only those held out need the room.
    let mut long = train("sft", "room", "held", &model);
    long[9] = "held-too";
    long.extend(["--set", "sft.eval_max_tokens=2040", "--dry-run"]);
    pool(&dir.path().join("held-too"), &["share the note"], true);
    let said = String::from_utf8(ok(dir.path(), &long).stdout).unwrap();
    assert!(said.contains("4 rows to train on") && said.contains("0 held out, 1 left out"), "{said}");
}
