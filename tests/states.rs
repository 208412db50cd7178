//! State abstraction as users meet it: regions, contexts, lessons, tokens; rules and models; kills, threads, exports.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use image::{Rgb, RgbImage};
use serde_json::{Value, json};
use tracemill_data::artifact::{Lesson, LessonKind, StateContext, StateStep, StateText, StepOutcome};
use tracemill_data::parquet_io::read_table;

use crate::support::{contents, fails, ok, shared_data, tracemill};

const WIDTH: u32 = 320;
const HEIGHT: u32 = 200;

/// A screen with a square for each of `squares` (column of 16 pixels).
fn screen(squares: &[u32]) -> RgbImage {
    let mut image = RgbImage::from_pixel(WIDTH, HEIGHT, Rgb([240, 240, 240]));
    for square in squares {
        for (x, y) in (0..12).flat_map(|x| (0..12).map(move |y| (x, y))) {
            image.put_pixel(square * 16 % 304 + x, square * 16 / 304 * 16 % 176 + y, Rgb([30, 90, 160]));
        }
    }
    image
}

/// Writes a trajectory in AgentNet's standard form: each step a click at the place that changes on the next screen.
fn trajectory(dir: &Path, id: &str, task: &str, steps: &[(&str, RgbImage)]) {
    let images = dir.join("images");
    std::fs::create_dir_all(&images).expect("made");
    let traj: Vec<Value> = steps
        .iter()
        .enumerate()
        .map(|(i, (code, image))| {
            let name = format!("{id}-{i}.png");
            image.save(images.join(&name)).expect("written");
            json!({ "index": i, "image": name, "value": { "code": code, "thought": "One more." } })
        })
        .collect();
    let row = json!({ "task_id": id, "instruction": task, "traj": traj });
    let mut file =
        std::fs::OpenOptions::new().create(true).append(true).open(dir.join("tasks.jsonl")).expect("opened");
    writeln!(file, "{row}").expect("written");
}

/// A trajectory of `n` steps, each of which adds a square where it clicks.
fn growing(dir: &Path, id: &str, n: u32) {
    let codes: Vec<String> = (0..n)
        .map(|i| {
            let (x, y) = (i * 16 % 304 + 6, i * 16 / 304 * 16 % 176 + 6);
            format!(
                "pyautogui.click(x={}, y={})",
                f64::from(x) / f64::from(WIDTH),
                f64::from(y) / f64::from(HEIGHT)
            )
        })
        .collect();
    let squares: Vec<u32> = (0..n).collect();
    let steps: Vec<(&str, RgbImage)> =
        codes.iter().enumerate().map(|(i, code)| (code.as_str(), screen(&squares[..i]))).collect();
    trajectory(dir, id, "Draw a row of squares", &steps);
}

fn ingest(dir: &Path) {
    ok(dir, &["ingest", "--run", "r", "--format", "agentnet", "--input", "in"]);
}

fn steps(dir: &Path) -> Vec<StateStep> {
    read_table(&dir.join("r/states/steps.parquet")).expect("steps")
}

fn contexts(dir: &Path) -> Vec<StateContext> {
    read_table(&dir.join("r/states/contexts.parquet")).expect("contexts")
}

fn states(dir: &Path) -> Vec<StateText> {
    read_table(&dir.join("r/states/states.parquet")).expect("states")
}

fn manifest(dir: &Path, stage: &str) -> Value {
    let path = dir.join("r").join(stage).join("manifest.json");
    serde_json::from_slice(&std::fs::read(path).expect("a manifest")).expect("JSON")
}

#[test]
fn twelve_steps_are_refined_after_five_and_ten_once_each() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    growing(&dir.path().join("in"), "twelve", 12);
    growing(&dir.path().join("in"), "ten", 10);
    ingest(dir.path());
    ok(dir.path(), &["abstract", "--run", "r"]);
    let refined: Vec<(String, u32)> =
        contexts(dir.path()).into_iter().map(|c| (c.episode_id, c.after_steps)).collect();
    let twelve = |n| ("agentnet:twelve".to_owned(), n);
    // Ten steps are refined once: no decision follows the tenth.
    assert_eq!(refined, [twelve(5), twelve(10), ("agentnet:ten".to_owned(), 5)]);
    let rows = steps(dir.path());
    let first = &rows[0];
    assert_eq!(
        [first.left_px, first.top_px, first.right_px, first.bottom_px],
        [Some(0), Some(0), Some(12), Some(12)]
    );
    assert_eq!((first.outcome, first.change.as_str()), (StepOutcome::Success, "region"));
    assert_eq!((rows[11].change.as_str(), rows[11].outcome), ("last", StepOutcome::Unknown));
    // Every square looks the same before and after it is there: two pictures in all, each stored once.
    let crops = std::fs::read_dir(dir.path().join("r/states/crops")).expect("crops").count();
    assert_eq!(crops, 2);
    let told = states(dir.path());
    assert_eq!(told.len(), 13 + 11);
    assert!(told[0].text.starts_with("Task just started"), "{}", told[0].text);
    assert!(told[4].text.starts_with("So far: 1) "), "{}", told[4].text);
    assert!(
        told[5].text.starts_with("Steps 1~5: 1) ") && !told[5].text.contains("Since"),
        "{}",
        told[5].text
    );
    assert!(
        told[12].text.starts_with("Steps 1~10: ") && told[12].text.contains("Since then: 11) "),
        "{}",
        told[12].text
    );
    // A margin ends at the edges.
    ok(dir.path(), &["abstract", "--run", "r", "--set", "abstract.margin_px=50"]);
    let first = &steps(dir.path())[0];
    assert_eq!(
        [first.left_px, first.top_px, first.right_px, first.bottom_px],
        [Some(0), Some(0), Some(62), Some(62)]
    );
}

#[test]
fn sizes_that_change_pictures_that_are_broken_and_screens_that_stay() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let input = dir.path().join("in");
    let click = "pyautogui.click(x=0.5, y=0.5)";
    let wide = RgbImage::from_pixel(WIDTH + 20, HEIGHT, Rgb([1, 2, 3]));
    let mut red = screen(&[]);
    red.put_pixel(7, 7, Rgb([76, 76, 76]));
    let mut grey = screen(&[]);
    grey.put_pixel(7, 7, Rgb([255, 0, 0]));
    let told = [screen(&[]), screen(&[]), wide, screen(&[3]), screen(&[4]), red, grey];
    let told: Vec<(&str, RgbImage)> = told.into_iter().map(|image| (click, image)).collect();
    trajectory(&input, "t", "Try it", &told);
    // The fifth is cut off, the sixth and seventh differ in a colour of equal grey.
    let broken = input.join("images/t-4.png");
    let bytes = std::fs::read(&broken).expect("read");
    std::fs::write(&broken, &bytes[..bytes.len() / 2]).expect("written");
    ingest(dir.path());
    let warned = tracemill(dir.path()).args(["abstract", "--run", "r"]).output().expect("started");
    assert!(warned.status.success());
    let warned = String::from_utf8_lossy(&warned.stderr).into_owned();
    assert!(warned.contains("1 of 7 pictures cannot be used") && warned.contains("t-4.png"), "{warned}");
    let rows = steps(dir.path());
    let changes: Vec<&str> = rows.iter().map(|r| r.change.as_str()).collect();
    assert_eq!(changes, ["none", "resized", "resized", "unreadable", "unreadable", "region", "last"]);
    assert_eq!((rows[0].text.as_str(), rows[0].crop_after.as_ref()), ("No change detected.", None));
    assert_eq!((rows[5].left_px, rows[5].right_px), (Some(7), Some(8)), "equal grey, another colour");
    assert_eq!([rows[1].left_px, rows[1].right_px], [Some(0), Some(WIDTH)]);
    let rejects = std::fs::read_to_string(dir.path().join("r/states/rejects.jsonl")).expect("rejects");
    assert_eq!(rejects.lines().count(), 1);
    assert!(rejects.contains("t-4.png") && rejects.contains("\"kind\":\"unreadable\""), "{rejects}");
    assert_eq!(manifest(dir.path(), "states")["counts"]["rejects"]["unreadable"], 1);
    let error = fails(dir.path(), &["abstract", "--run", "r", "--max-rejects", "0.1"]);
    assert!(error.contains("1 of 7 pictures") && error.contains("t-4.png"), "{error}");
    ok(dir.path(), &["abstract", "--run", "r", "--max-rejects", "0.15"]);
    let page = std::fs::read_to_string(dir.path().join("r/states/page.html")).expect("the page");
    assert!(page.contains("region before") && page.contains("No change detected."), "pictures are shown");
}

#[test]
fn a_killed_run_resumes_to_the_same_bytes_whatever_the_threads() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for i in 0..8 {
        growing(&dir.path().join("in"), &format!("t{i}"), 17);
    }
    ingest(dir.path());
    let bytes = |threads: &str| {
        let output =
            tracemill(dir.path()).args(["abstract", "--run", "r"]).env("RAYON_NUM_THREADS", threads).output();
        assert!(output.expect("started").status.success());
        contents(&dir.path().join("r/states"))
    };
    let one = bytes("1");
    assert_eq!(one, bytes("2"));
    std::fs::remove_dir_all(dir.path().join("r/states")).expect("removed");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("tracemill"))
        .args(["abstract", "--run", "r", "--resume"])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !dir.path().join("r/.draft-abstract/crops").exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(!dir.path().join("r/states").exists(), "nothing half-done is published");
    ok(dir.path(), &["abstract", "--run", "r", "--resume"]);
    assert_eq!(one, contents(&dir.path().join("r/states")));
    let again =
        String::from_utf8(ok(dir.path(), &["abstract", "--run", "r", "--resume"]).stdout).expect("UTF-8");
    assert!(again.contains("skipped") || again.contains("up to date"), "{again}");
}

#[test]
fn text_stays_bounded_over_two_hundred_steps_while_full_history_grows() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    growing(&dir.path().join("in"), "long", 200);
    ingest(dir.path());
    ok(dir.path(), &["abstract", "--run", "r", "--set", "abstract.page_steps=0"]);
    assert_eq!(contexts(dir.path()).len(), 39);
    let longest = states(dir.path()).iter().map(|s| s.text.chars().count()).max().expect("states");
    assert!(longest < 1_200 + 5 * 200, "{longest}");
    // Screens of a tile or less cost the same by tiles, whatever is cut out of them.
    let args = ["abstract", "tokens", "--run", "r", "--set", "abstract.tokens.image=qwen-patches"];
    let text = String::from_utf8(ok(dir.path(), &args).stdout).expect("UTF-8");
    assert!(text.contains("full history") && text.contains("HiSA, N = 9"), "{text}");
    let told: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("r/tokens/tokens.json")).expect("read"))
            .expect("JSON");
    let curve = |variant: usize, step: usize, field: &str| {
        told["variants"][variant]["curve"][step - 1][field].as_f64().expect("a number")
    };
    // O(t): the second hundred steps add as much as the first; O(N): they add nothing.
    let full = |step| curve(0, step, "text");
    let (first, second) = (full(100) - full(1), full(200) - full(101));
    assert!((second / first - 1.0).abs() < 0.1, "{first} {second}");
    assert!(curve(2, 200, "text") < 1.2 * curve(2, 60, "text") && curve(2, 200, "text") < full(200) / 3.0);
    // Pictures: all so far, nine, one.
    let [one, nine, all] = [2, 1, 0].map(|variant| curve(variant, 200, "image"));
    assert_eq!((nine / one, all / one), (9.0, 200.0));
    let modules = &told["variants"][2]["modules"];
    assert!(
        modules["abstraction"]["image_in"].as_u64() > Some(0)
            && modules["refinement"]["out"].as_u64() > Some(0)
    );
    assert_eq!(
        told["variants"][0]["modules"].as_object().map(serde_json::Map::len),
        Some(1),
        "decisions only"
    );
    let by_name = |name: &str| {
        let all = told["variants"].as_array().expect("variants");
        all.iter().find(|v| v["variant"] == name).unwrap_or_else(|| panic!("{name}"))["per_task"].as_f64()
    };
    assert!(by_name("HiSA without regions") > by_name("HiSA, N = 5"));
    assert!(by_name("HiSA without lessons") < by_name("HiSA, N = 5"));
    let svg = std::fs::read_to_string(dir.path().join("r/tokens/tokens.svg")).expect("the chart");
    assert!(svg.starts_with("<svg") && svg.contains("full history"));
}

#[test]
fn contexts_become_targets_of_a_state_tracker() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    growing(&dir.path().join("in"), "t", 12);
    ingest(dir.path());
    let args = [
        "export",
        "sft",
        "--run",
        "r",
        "--role",
        "state-tracker",
        "--target",
        "tracemill",
        "--test-share",
        "0",
    ];
    let error = fails(dir.path(), &[&args[..], &["--contexts", "states"]].concat());
    assert!(error.contains("tracemill abstract --run"), "{error}");
    ok(dir.path(), &["abstract", "--run", "r"]);
    let replies = |contexts: &str| -> Vec<Value> {
        ok(dir.path(), &[&args[..], &["--contexts", contexts, "--out", contexts]].concat());
        let rows = std::fs::read_to_string(dir.path().join(contexts).join("train.jsonl")).expect("rows");
        rows.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let (source, states, either) = (replies("source"), replies("states"), replies("source-or-states"));
    assert_eq!((states.len(), source.len()), (12, 12));
    assert_eq!(states, either, "the source has no contexts");
    let text = states[11].to_string();
    assert!(
        text.contains("Steps 1~10: ") && text.contains("Since then: 11) ") && text.contains("12) "),
        "{text}"
    );
    assert!(!source[11].to_string().contains("Steps 1~10"));
    let card = std::fs::read_to_string(dir.path().join("states/README.md")).expect("the card");
    assert!(card.contains("states:refine-rules@1"), "{card}");
    let made: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("states/manifest.json")).expect("read"))
            .expect("JSON");
    assert_eq!(made["settings"]["contexts"], "states");
    ok(dir.path(), &["validate", "states"]);
    let row = "agentnet:t#7/state-tracker";
    let told = ok(dir.path(), &["explain", row, "--run", "r", "--dataset", "states"]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("states:refine-rules@1"));
}

/// A trajectory in which a click is tried twice without effect before another gesture works.
fn stuck(dir: &Path, id: &str) {
    let (at, there) = ("pyautogui.click(x=0.1, y=0.1)", "pyautogui.doubleClick(x=0.1, y=0.1)");
    let end = "computer.terminate(status='success')";
    let told = [(at, screen(&[])), (at, screen(&[])), (there, screen(&[])), (end, screen(&[1, 2, 3]))];
    trajectory(dir, id, "Open the note", &told);
}

#[test]
fn lessons_are_built_replaced_retrieved_and_required() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for id in ["first", "second"] {
        stuck(&dir.path().join("in"), id);
    }
    ingest(dir.path());
    ok(dir.path(), &["abstract", "--run", "r"]);
    std::fs::write(
        dir.path().join("sop.toml"),
        "[[require]]\ntext = \"Save before you close.\"\n[[require]]\ndomain = \"elsewhere\"\ntext = \"Never.\"\n",
    )
    .expect("written");
    let build = ["lessons", "build", "--run", "r", "--require", "sop.toml"];
    ok(dir.path(), &build);
    let one = contents(&dir.path().join("r/lessons"));
    let lessons: Vec<Lesson> = read_table(&dir.path().join("r/lessons/lessons.parquet")).expect("lessons");
    let learned: Vec<&Lesson> = lessons.iter().filter(|l| l.kind != LessonKind::Require).collect();
    // Both trajectories teach the same: the second one's lessons took the place of the first one's.
    assert!(!learned.is_empty() && learned.iter().all(|l| l.episode_id == "agentnet:second"), "{learned:?}");
    let repeat = learned.iter().find(|l| l.made_by.ends_with(":repeat")).expect("the repeat");
    assert_eq!((repeat.kind, repeat.evidence_steps.as_slice()), (LessonKind::Failure, &[0, 1, 2][..]));
    assert!(repeat.text.contains("tried 2 times in a row"), "{}", repeat.text);
    let history: Value =
        serde_json::from_slice(&ok(dir.path(), &["lessons", "history", "--run", "r", "--json"]).stdout)
            .expect("JSON");
    assert_eq!(history.as_array().map(Vec::len), Some(learned.len()));
    assert_eq!(history[0]["lesson_id"], "agentnet:first!1");
    assert_eq!(history[0]["replaced_by"], "agentnet:second!1");
    let query = |text: &str, domain: &str| -> Value {
        let args = ["lessons", "query", "--run", "r", text, "--domain", domain, "--json"];
        serde_json::from_slice(&ok(dir.path(), &args).stdout).expect("JSON")
    };
    let found = query(&repeat.text, &repeat.domain);
    assert_eq!(found["results"][0]["lesson"]["lesson_id"], repeat.lesson_id.as_str());
    assert_eq!(found["required"].as_array().map(Vec::len), Some(1), "that of every domain");
    assert_eq!(found["bullets"][0], "Save before you close.");
    assert_eq!(
        query("something else entirely", "elsewhere")["bullets"],
        json!(["Save before you close.", "Never."])
    );
    ok(dir.path(), &build);
    assert_eq!(one, contents(&dir.path().join("r/lessons")), "the same bytes");
    // A store goes on from an earlier one.
    std::fs::rename(dir.path().join("r/lessons"), dir.path().join("base")).expect("moved");
    ok(dir.path(), &["lessons", "build", "--run", "r", "--set", "lessons.base=base"]);
    let replaced = ok(dir.path(), &["lessons", "history", "--run", "r"]);
    assert!(String::from_utf8_lossy(&replaced.stdout).contains("replaced"));
    let error = fails(dir.path(), &["lessons", "build", "--run", "r", "--set", "lessons.store.dedupe=7"]);
    assert!(error.contains("lessons.store.dedupe is 7"), "{error}");
}

/// A server on loopback that answers by what it is asked; it counts its calls.
fn serve(dir: &Path, reply: fn(&str) -> String) -> Arc<AtomicUsize> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counted = counted.clone();
            std::thread::spawn(move || {
                counted.fetch_add(1, Ordering::SeqCst);
                answer(stream, reply);
            });
        }
    });
    let section = |name: &str| {
        format!(
            "[{name}.endpoint]\nmode = \"record\"\nledger = \"ledger\"\n[[{name}.endpoint.endpoints]]\n\
             base_url = \"http://{address}/v1\"\nmodel = \"m\"\nrevision = \"7\"\n"
        )
    };
    std::fs::write(dir.join("model.toml"), section("abstract") + &section("lessons")).expect("written");
    calls
}

fn answer(stream: TcpStream, reply: fn(&str) -> String) {
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let reply = json!({
        "choices": [{ "index": 0, "finish_reason": "stop",
                      "message": { "role": "assistant", "content": reply(&body["messages"].to_string()) } }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 2 }, "model": "m",
    });
    let reply = reply.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        reply.len()
    );
    reader.get_mut().write_all(format!("{head}{reply}").as_bytes()).expect("answered");
}

/// Answers in prose at first where a step is abstracted, in JSON when it is told the form.
fn told(messages: &str) -> String {
    if messages.contains("Failed to parse your response") {
        return r#"{"result": "Succeeded. A square came up.", "outcome": "success", "evidence": "the square"}"#.to_owned();
    }
    if messages.contains("Compare before/after") {
        assert!(messages.matches("data:image/png;base64").count() == 2, "the region before and after");
        return "It worked, a square came up.".to_owned();
    }
    if messages.contains("Analyze task execution progress") {
        let again = messages.contains("previous_summary>\\nSteps 1~5: five squares");
        return if again {
            r#"```json
{"summary": "Steps 1~10: ten squares. Suggestion: Continue."}
```"#
                .to_owned()
        } else {
            r#"{"summary": "Steps 1~5: five squares. Suggestion: Continue."}"#.to_owned()
        };
    }
    let lesson = |kind: &str, text: &str, steps: &str| {
        format!(
            r#"{{"type": "{kind}", "condition": "c", "actions": ["a"], "expected": "e", "lesson": "{text}", "steps": {steps}}}"#
        )
    };
    let told = [
        lesson("success", "Clicking in a row draws one", "[1, 2]"),
        lesson("failure", "DON'T click", "[1, 2]"),
        lesson("success", "No evidence", "[]"),
        lesson("success", "Beyond the end", "[99]"),
    ];
    format!(r#"{{"lessons": [{}]}}"#, told.join(","))
}

#[test]
fn a_model_labels_with_one_repair_and_the_ledger_answers_the_second_time() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    growing(&dir.path().join("in"), "t", 12);
    ingest(dir.path());
    let calls = serve(dir.path(), told);
    ok(dir.path(), &["abstract", "--run", "r", "--config", "model.toml"]);
    let rows = steps(dir.path());
    assert_eq!(rows[0].text, "Succeeded. A square came up.");
    assert_eq!(rows[0].labeler, "m@7 state-abstraction@1");
    assert_eq!(rows[11].labeler, "state-rules@1", "nothing was seen after the last step: no model is asked");
    let refined: Vec<(u32, String)> =
        contexts(dir.path()).into_iter().map(|c| (c.after_steps, c.text)).collect();
    let summary =
        |n: u32, squares: &str| (n, format!("Steps 1~{n}: {squares} squares. Suggestion: Continue."));
    assert_eq!(
        refined,
        [summary(5, "five"), summary(10, "ten")],
        "the second goes on from the first, on no retry again"
    );
    let told = states(dir.path());
    assert!(told[6].text.starts_with("Steps 1~5: five squares. Since then: 6) "), "{}", told[6].text);
    assert!(!told[6].text.contains("Suggestion"), "{}", told[6].text);
    let counts = &manifest(dir.path(), "states")["counts"]["model"];
    // Eleven steps, each asked and repaired once, and two refinements. Equal pictures and words are one call.
    assert_eq!((counts["questions"].as_u64(), counts["repairs"].as_u64()), (Some(24), Some(11)));
    let asked = calls.load(Ordering::SeqCst);
    assert!(asked > 3 && asked <= 24, "{asked}");
    let first = contents(&dir.path().join("r/states"));
    for more in [&[][..], &["--set", "abstract.endpoint.mode=strict"][..]] {
        ok(dir.path(), &[&["abstract", "--run", "r", "--config", "model.toml"], more].concat());
        assert_eq!(first, contents(&dir.path().join("r/states")), "byte for byte");
    }
    assert_eq!(calls.load(Ordering::SeqCst), asked, "the ledger answered");
    // Lessons: what the steps bear out is kept.
    ok(dir.path(), &["lessons", "build", "--run", "r", "--config", "model.toml"]);
    let lessons: Vec<Lesson> = read_table(&dir.path().join("r/lessons/lessons.parquet")).expect("lessons");
    let texts: Vec<&str> = lessons.iter().map(|l| l.text.as_str()).collect();
    assert_eq!(texts, ["Clicking in a row draws one"]);
    assert_eq!(
        (lessons[0].evidence_steps.as_slice(), lessons[0].made_by.as_str()),
        (&[0, 1][..], "m@7 lesson-induction@1")
    );
    let refused = std::fs::read_to_string(dir.path().join("r/lessons/refused.jsonl")).expect("refused");
    assert_eq!(refused.lines().count(), 3);
    assert!(refused.contains("a failure needs 2 steps that failed"), "{refused}");
    // A bound on the questions: the rules answer the rest, and are named.
    ok(dir.path(), &["abstract", "--run", "r", "--config", "model.toml", "--max-calls", "6"]);
    let rows = steps(dir.path());
    let by_model = rows.iter().filter(|r| r.labeler.starts_with("m@7")).count();
    assert_eq!((by_model, rows[10].labeler.as_str()), (0, "state-rules@1"), "no call was left for a repair");
    assert_eq!(manifest(dir.path(), "states")["counts"]["model"]["questions"], 6);
}

#[test]
fn real_screens_have_regions_and_no_picture_stops_a_run() {
    let Some(data) = shared_data() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| data.join(name).to_str().expect("UTF-8").to_owned();
    let (aitz, agentnet) = (path("aitz"), path("agentnet/data"));
    ok(
        dir.path(),
        &[
            "ingest", "--run", "r", "--format", "aitz", "--input", &aitz, "--format", "agentnet", "--input",
            &agentnet,
        ],
    );
    ok(dir.path(), &["abstract", "--run", "r"]);
    let rows = steps(dir.path());
    let seen: Vec<&StateStep> = rows.iter().filter(|r| r.seen_in == "pixels").collect();
    // Three pairs of AITZ, 14 of AgentNet's example.
    assert_eq!(seen.len(), 17);
    assert!(seen.iter().all(|r| r.change == "region" && r.crop_before.is_some() && r.share <= Some(1.0)));
    assert!(seen.iter().all(|r| r.changed_share > Some(0.0)));
}
