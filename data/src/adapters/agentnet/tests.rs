mod recording;

use std::fs;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::action::{Action, Direction, FrameName, Position, Verb};
use crate::adapters::pyautogui::calls;
use crate::adapters::testing::{self, read_all, real_data};
use crate::grammar::literal::Literal;
use crate::trace::{Episode, Outcome, Reject, RejectKind};

fn share(x: f64, y: f64) -> Position {
    Position { x, y, frame: FrameName::Normalized }
}

/// Writes files into a folder and reads it.
fn read(files: &[(&str, &[u8])]) -> (Vec<Episode>, Vec<Reject>) {
    read_with(files, AdapterOptions::default())
}

fn read_with(files: &[(&str, &[u8])], options: AdapterOptions) -> (Vec<Episode>, Vec<Reject>) {
    let folder = tempfile::tempdir().expect("temporary folder");
    for (name, bytes) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
        fs::write(path, bytes).expect("file");
    }
    testing::read_with(Format::Agentnet, folder.path(), options).expect("read")
}

fn row(id: &str, code: &str) -> String {
    let traj = json!([{"index": 0, "image": "0.png", "value": {"code": code}}]);
    json!({"task_id": id, "instruction": "Do it", "traj": traj}).to_string()
}

fn code(code: &str) -> Vec<Action> {
    let (episodes, rejects) = read(&[("t.jsonl", row("t", code).as_bytes())]);
    assert_eq!(rejects, [], "{code}");
    episodes.into_iter().flat_map(|e| e.steps).map(|s| s.action).collect()
}

fn refused(code: &str) -> Reject {
    let (episodes, mut rejects) = read(&[("t.jsonl", row("t", code).as_bytes())]);
    assert_eq!((episodes.len(), rejects.len()), (0, 1), "{code}");
    rejects.remove(0)
}

#[test]
fn calls_are_parsed_as_python_writes_them() {
    let parsed = calls(
        "import pyautogui  # the library\npyautogui.write(message='it\\'s \\u00e9\\n\"x\"\\q', interval = 0.1 );f( [1, -2.5e1,], (True, None), r'a\\n', \"\"\"t\"u\"\"\",\n)",
    )
    .expect("parses");
    let text = |s: &str| Literal::Text(s.to_owned());
    assert_eq!(parsed.len(), 2);
    assert_eq!(parsed[0].name, "pyautogui.write");
    assert_eq!(parsed[0].argument(0, "message"), Some(&text("it's é\n\"x\"\\q")));
    assert_eq!(parsed[0].argument(1, "interval"), Some(&Literal::Number(0.1)));
    assert_eq!(
        parsed[1].argument(0, "a"),
        Some(&Literal::List(vec![Literal::Number(1.0), Literal::Number(-25.0)]))
    );
    assert_eq!(parsed[1].argument(1, "b"), Some(&Literal::List(vec![Literal::Bool(true), Literal::None])));
    assert_eq!(parsed[1].argument(2, "c"), Some(&text("a\\n")));
    assert_eq!(parsed[1].argument(3, "d"), Some(&text("t\"u")));
}

#[test]
fn code_that_is_not_calls_with_literals_is_refused() {
    let deep = format!("f({})", "[".repeat(100_000));
    for bad in [
        "f(",
        "f(1",
        "f)",
        "f(x=)",
        "f('a",
        "f(1 2)",
        "f(1)g(2)",
        "f(g(1))",
        "f(1e999)",
        "f('\\uZZZZ')",
        "1 + 1",
        "x = y",
        "x = [[1, 2]]",
        "f(1-1)",
        &deep,
    ] {
        let fault = calls(bad).expect_err(bad);
        assert_eq!(fault.kind, RejectKind::Malformed, "{bad}");
        assert!(fault.reason.contains("at byte"), "{}", fault.reason);
    }
}

#[test]
fn every_call_has_its_verb() {
    let cases = [
        ("pyautogui.click(x=0.5, y=0.25)", Verb::Click),
        ("pyautogui.click(0.5, 0.25)", Verb::Click),
        ("pyautogui.click(x=0.5, y=0.25, clicks=2)", Verb::DoubleClick),
        ("pyautogui.click(0.5, 0.25, button='right')", Verb::RightClick),
        ("pyautogui.click(0.5, 0.25, 1, 0.0, 'middle')", Verb::Click),
        ("pyautogui.rightClick(x=0.5, y=0.25)", Verb::RightClick),
        ("pyautogui.middleClick(x=0.5, y=0.25)", Verb::Click),
        ("pyautogui.doubleClick(x=0.5, y=0.25)", Verb::DoubleClick),
        ("pyautogui.tripleClick(x=0.5, y=0.25)", Verb::DoubleClick),
        ("computer.triple_click(x=0.5, y=0.25)", Verb::DoubleClick),
        ("pyautogui.moveTo(x=0.5, y=0.25)", Verb::Hover),
    ];
    for (source, verb) in cases {
        let found = code(source);
        assert_eq!(found.len(), 1, "{source}");
        assert_eq!((found[0].verb, found[0].point), (verb, Some(share(0.5, 0.25))), "{source}");
        assert_eq!(found[0].source_verb, source.split('(').next().expect("a name"));
    }
    assert_eq!(code("computer.terminate(status='failure')")[0].verb, Verb::Impossible);
    assert_eq!(code("computer.wait()")[0].amount, None);
    assert_eq!(code("time.sleep(1.5)")[0].amount, Some(1.5));
    assert_eq!(code("pyautogui.write('a\\nb')")[0].text.as_deref(), Some("a\nb"));
    for hotkey in [
        "pyautogui.hotkey('ctrl', 'C')",
        "pyautogui.hotkey(keys=['ctrl', 'c'])",
        "pyautogui.hotkey(['ctrlleft','c'])",
    ] {
        assert_eq!(code(hotkey)[0].text.as_deref(), Some("ctrl+c"), "{hotkey}");
    }
    let pressed = code("pyautogui.press(['down', 'Return'], presses=3)");
    let keys: Vec<_> = pressed.iter().map(|a| (a.text.as_deref(), a.amount)).collect();
    assert_eq!(keys, [(Some("down"), Some(3.0)), (Some("enter"), Some(3.0))]);
}

#[test]
fn scrolls_have_content_directions() {
    let direction = |source| code(source)[0].direction;
    assert_eq!(direction("pyautogui.scroll(-3)"), Some(Direction::Down));
    assert_eq!(direction("pyautogui.scroll(clicks=3)"), Some(Direction::Up));
    assert_eq!(direction("pyautogui.hscroll(2)"), Some(Direction::Right));
    assert_eq!(direction("pyautogui.hscroll(-2)"), Some(Direction::Left));
    assert_eq!(direction("pyautogui.scroll(0)"), None);
    let own_point = &code("pyautogui.scroll(-3, x=0.5, y=0.5)")[0];
    assert_eq!((own_point.point, own_point.amount), (Some(share(0.5, 0.5)), Some(3.0)));
}

#[test]
fn a_move_joins_only_what_happens_where_it_went() {
    let drag = code("pyautogui.moveTo(0.1, 0.2)\npyautogui.dragTo(0.3, 0.4, button='left')");
    assert_eq!(drag.len(), 1);
    assert_eq!(
        (drag[0].verb, drag[0].point, drag[0].end),
        (Verb::Drag, Some(share(0.1, 0.2)), Some(share(0.3, 0.4)))
    );
    let elsewhere = code("pyautogui.moveTo(0.1, 0.2);pyautogui.click(0.3, 0.4);pyautogui.press('a')");
    let verbs: Vec<_> = elsewhere.iter().map(|a| a.verb).collect();
    assert_eq!(verbs, [Verb::Hover, Verb::Click, Verb::Press]);
    let unknown_start = code("pyautogui.dragTo(0.3, 0.4)");
    assert_eq!((unknown_start[0].point, unknown_start[0].end), (None, Some(share(0.3, 0.4))));
}

#[test]
fn several_calls_are_several_steps_with_their_places() {
    let (episodes, _) =
        read(&[("t.jsonl", row("7", "pyautogui.write('a')\npyautogui.press('enter')").as_bytes())]);
    let keys: Vec<_> = episodes[0].steps.iter().map(|s| (s.step, s.source_key.as_str())).collect();
    assert_eq!(keys, [(0, "line 1 traj[0].code[0]"), (1, "line 1 traj[0].code[1]")]);
    assert_eq!(episodes[0].episode_id, "agentnet:7");
}

#[test]
fn bad_calls_are_refused_by_name() {
    for (source, kind, reason) in [
        ("pyautogui.click(x=1.5, y=0.5)", RejectKind::OutOfRange, "(1.5, 0.5)"),
        ("pyautogui.click(x=0.5)", RejectKind::MissingField, "`y`"),
        ("pyautogui.moveTo()", RejectKind::MissingField, "`x`"),
        ("pyautogui.click(x='a', y=0.5)", RejectKind::MissingField, "a number"),
        ("pyautogui.click(0.1, 0.1, button='wheel')", RejectKind::MissingField, "`button`"),
        ("pyautogui.write(5)", RejectKind::MissingField, "`message`"),
        ("pyautogui.hotkey()", RejectKind::MissingField, "`keys`"),
        ("computer.terminate(status='maybe')", RejectKind::MissingField, "`status`"),
        ("os.remove('x')", RejectKind::OutOfRange, "unknown call `os.remove`; known: click"),
        ("__import__('os')", RejectKind::OutOfRange, "unknown call"),
        ("# nothing", RejectKind::Empty, "no call"),
        ("pyautogui.click(", RejectKind::Malformed, "code: expected"),
    ] {
        let reject = refused(source);
        assert_eq!((reject.kind, reject.key.as_str()), (kind, "line 1"), "{source}: {}", reject.reason);
        assert!(reject.reason.contains(reason) && reject.reason.starts_with("traj[0]"), "{}", reject.reason);
        assert_eq!(reject.episode_id.as_deref(), Some("agentnet:t"));
    }
}

#[test]
fn a_bad_line_is_refused_alone() {
    let good = |id| row(id, "pyautogui.click(0.5, 0.5)");
    let empty = json!({"task_id": "e", "instruction": "", "traj": []}).to_string();
    let untold = json!({"task_id": "e", "traj": [{"value": {"code": "f"}}]}).to_string();
    let climbing = row("c", "pyautogui.press('a')").replace("0.png", "../../0.png");
    let cut = &good("x")[..40];
    for (bad, kind) in [
        (cut.as_bytes(), RejectKind::Malformed),
        (b"{\"task_id\": \"\xff\"}".as_slice(), RejectKind::NotUtf8),
        (b"[]", RejectKind::Malformed),
        (b"{\"task_id\": 1}", RejectKind::MissingField),
        (empty.as_bytes(), RejectKind::Empty),
        (untold.as_bytes(), RejectKind::Malformed),
        (climbing.as_bytes(), RejectKind::UnsafePath),
    ] {
        let text = [good("1").as_bytes(), b"\n\n", bad, b"\n", good("2").as_bytes()].concat();
        let (episodes, rejects) = read(&[("t.jsonl", &text)]);
        let ids: Vec<_> = episodes.iter().map(|e| e.episode_id.as_str()).collect();
        assert_eq!(ids, ["agentnet:1", "agentnet:2"]);
        assert_eq!(rejects.len(), 1);
        assert_eq!((rejects[0].kind, rejects[0].key.as_str()), (kind, "line 3"), "{}", rejects[0].reason);
    }
}

#[test]
fn screenshots_are_found_beside_the_file_or_required() {
    let text = row("t", "pyautogui.press('a')");
    let (episodes, _) = read(&[("t.jsonl", text.as_bytes()), ("images/0.png", b"")]);
    assert!(episodes[0].steps[0].screen.screenshot_found);
    assert_eq!(episodes[0].steps[0].screen.screenshot.as_deref(), Some("images/0.png"));
    let strict = AdapterOptions { require_screenshots: true };
    let (episodes, rejects) = read_with(&[("t.jsonl", text.as_bytes())], strict);
    assert_eq!((episodes.len(), rejects[0].kind), (0, RejectKind::MissingScreenshot));
}

fn task(change: impl FnOnce(&mut Value)) -> String {
    let bbox = json!({"bboxes": [{"rel_bbox": [0.25, 0.5, 0.5, 0.25]}]});
    let at = |x: f64, y: f64| json!({"position": {"x": x, "y": y}});
    let mut task = json!({
        "task_id": "b", "user_task_description": " Do it ", "high_level_task_description": "Do",
        "meta_info": {"websites": ["shop"], "applications": [], "system": "Windows", "domain": "Daily",
                      "screen_resolution": {"width": 1920, "height": 1080}},
        "steps": [
            {"step_num": 2, "image": "2.png", "action": "…", "inner_monologue":
                {"observation": "O", "thought": "T", "low_level_instruction": "L"},
             "ground_truth_actions": [{"type": "click", "params": at(0.5, 0.5), "metadata": bbox}],
             "alternative_options": [[{"type": "press", "params": {"keys": ["enter"]}}]]},
            {"step_num": 5, "image": "5.png", "ground_truth_actions": [
                {"type": "moveTo", "params": at(0.5, 0.5), "metadata": bbox},
                {"type": "scroll", "params": {"position": {"x": 0.5, "y": 0.5}, "amount": -4}, "metadata": {"bboxes": []}}]},
            {"step_num": 6, "image": "6.png", "ground_truth_actions": [
                {"type": "write", "params": {"text": "hi"}}, {"type": "press", "params": {"keys": ["enter"]}}]},
            {"step_num": 9, "image": "9.png", "ground_truth_actions": [
                {"type": "terminate", "params": {"status": "success"}}]},
        ],
    });
    change(&mut task);
    task.to_string()
}

#[test]
fn a_bench_task_keeps_boxes_texts_and_alternatives() {
    let (episodes, rejects) = read(&[("b.json", task(|_| ()).as_bytes())]);
    assert_eq!(rejects, []);
    let episode = &episodes[0];
    assert_eq!((episode.episode_id.as_str(), episode.instruction.as_str()), ("agentnet:b", "Do it"));
    assert_eq!((episode.outcome, episode.apps.as_slice()), (Outcome::Success, &["shop".to_owned()][..]));
    let extra: Value = serde_json::from_str(episode.extra.as_deref().expect("extra")).expect("JSON");
    assert_eq!((&extra["alternatives"], &extra["system"]), (&json!(1), &json!("Windows")));
    let places: Vec<_> =
        episode.steps.iter().map(|s| (s.step, s.source_key.as_str(), s.action.verb)).collect();
    assert_eq!(
        places,
        [
            (0, "step_num 2", Verb::Click),
            (1, "step_num 5", Verb::Scroll),
            (2, "step_num 6.0", Verb::Type),
            (3, "step_num 6.1", Verb::Press),
            (4, "step_num 9", Verb::Complete)
        ]
    );
    let [click, scroll, ..] = episode.steps.as_slice() else { panic!("steps") };
    let bbox = &click.action.target.boxes[0];
    assert_eq!(
        (bbox.left, bbox.top, bbox.right, bbox.bottom, bbox.frame),
        (0.25, 0.5, 0.75, 0.75, FrameName::Normalized)
    );
    assert_eq!(scroll.action.target.boxes.as_slice(), [*bbox]);
    assert_eq!((scroll.action.amount, scroll.action.direction), (Some(4.0), Some(Direction::Down)));
    let texts = [&click.description, &click.thought, &click.instruction].map(|t| t.as_deref());
    assert_eq!(texts, [Some("O"), Some("T"), Some("L")]);
    assert_eq!(click.screen.size.map(|s| (s.width_px, s.height_px)), Some((1920, 1080)));
}

#[test]
fn a_bad_bench_task_is_refused_alone() {
    type Change = fn(&mut Value);
    let cases: [(Change, RejectKind, &str); 7] = [
        (|t| t["steps"] = json!([]), RejectKind::Empty, "steps"),
        (|t| t["steps"][1]["step_num"] = json!("5"), RejectKind::MissingField, "steps[1]: field `step_num`"),
        (|t| t["steps"][1]["ground_truth_actions"] = json!([]), RejectKind::Empty, "steps[1]"),
        (
            |t| t["steps"][0]["ground_truth_actions"][0]["params"]["position"]["x"] = json!(-0.1),
            RejectKind::OutOfRange,
            "steps[0]: ground_truth_actions[0]",
        ),
        (
            |t| {
                t["steps"][0]["ground_truth_actions"][0]["metadata"]["bboxes"][0]["rel_bbox"] =
                    json!([1.5, 0, 1, 1]);
            },
            RejectKind::OutOfRange,
            "rel_bbox",
        ),
        (
            |t| t["steps"][0]["ground_truth_actions"][0]["metadata"]["bboxes"][0]["rel_bbox"] = json!([1, 2]),
            RejectKind::MissingField,
            "4 numbers",
        ),
        (|t| t["meta_info"]["screen_resolution"]["width"] = json!(0), RejectKind::OutOfRange, "width"),
    ];
    for (change, kind, reason) in cases {
        let good = task(|t| t["task_id"] = json!("good"));
        let (episodes, rejects) = read(&[("a.json", task(change).as_bytes()), ("b.json", good.as_bytes())]);
        assert_eq!((episodes.len(), rejects.len()), (1, 1), "{reason}");
        assert_eq!(rejects[0].kind, kind, "{}", rejects[0].reason);
        assert!(rejects[0].reason.contains(reason), "{}", rejects[0].reason);
        assert!(rejects[0].file.ends_with("a.json"));
    }
    let (_, rejects) = read(&[("a.json", b"")]);
    assert_eq!(rejects[0].kind, RejectKind::Malformed);
}

#[test]
fn files_of_other_formats_are_passed_over() {
    let folder = tempfile::tempdir().expect("temporary folder");
    fs::write(folder.path().join("package.json"), "{\"name\": 1}").expect("file");
    fs::write(folder.path().join("rows.jsonl"), "{\"goal\": 1}\n").expect("file");
    let input = Input::new(folder.path()).expect("exists");
    assert!(matches!(Agentnet.discover(&input), Err(AdapterError::Nothing { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,60}", noise in "[a-z.()\\[\\]'\"=,;0-9\\\\xun #-]{0,60}") {
        let _ = calls(&text);
        let _ = calls(&noise);
        let _ = calls(&format!("f('{noise}')"));
    }

    #[test]
    fn written_text_comes_back(text in "\\PC{0,40}") {
        let quoted = text.replace('\\', "\\\\").replace('\'', "\\'");
        let parsed = calls(&format!("pyautogui.write('{quoted}')")).expect("parses");
        prop_assert_eq!(parsed[0].argument(0, "message"), Some(&Literal::Text(text)));
    }

    #[test]
    fn any_cut_of_a_line_loses_no_neighbour(at in 1_usize..120) {
        let good = row("g", "pyautogui.click(0.5, 0.5)");
        let cut: String = row("c", "pyautogui.press('a')").chars().take(at).collect();
        let whole = cut.ends_with('}') && serde_json::from_str::<Value>(&cut).is_ok();
        let (episodes, rejects) = read(&[("t.jsonl", format!("{good}\n{cut}\n{good}\n").as_bytes())]);
        prop_assert_eq!((episodes.len(), rejects.len()), if whole { (3, 0) } else { (2, 1) });
    }

    #[test]
    fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let (episodes, rejects) = read(&[("rec/reduced_events_complete.jsonl", &bytes), ("rec/a11y.jsonl", &bytes)]);
        prop_assert!(episodes.is_empty() && !rejects.is_empty());
    }
}

/// Counts taken with a separate program: one recording of 14 events, one trajectory of 15 steps,
/// and 3 tasks of 10, 11 and 7 steps with 3 alternatives.
#[test]
fn real_data_is_read_whole() {
    let Some(path) = real_data("agentnet") else { return };
    let (episodes, rejects) = read_all(Format::Agentnet, &path);
    assert_eq!(rejects, []);
    let found: Vec<_> = episodes.iter().map(|e| (e.episode_id.as_str(), e.steps.len())).collect();
    assert_eq!(
        found,
        [
            ("agentnet:task_example_0", 15),
            ("agentnet:s_5473959e0f6e21f7", 10),
            ("agentnet:s_7f27a11115e596eb", 11),
            ("agentnet:s_df0fd37049f470c2", 7),
            ("agentnet:raw_recording_20241106114028", 14)
        ]
    );
    assert!(episodes[0].steps.iter().all(|s| s.screen.screenshot_found));
    assert_eq!(episodes[3].steps.iter().filter(|s| s.screen.screenshot_found).count(), 7);
    let alternatives =
        |e: &Episode| serde_json::from_str::<Value>(e.extra.as_deref()?).ok()?["alternatives"].as_u64();
    assert_eq!(episodes.iter().filter_map(alternatives).sum::<u64>(), 3);
    let boxed = |e: &Episode| e.steps.iter().filter(|s| !s.action.target.boxes.is_empty()).count();
    // Every gold point of the bench lies in its box.
    for step in episodes[1..4].iter().flat_map(|e| &e.steps) {
        let at = step.action.point;
        assert!(at.is_none_or(|p| step.action.target.boxes.iter().any(|b| b.contains(p.x, p.y))));
    }
    // Of 10 events with a target, the tree before two (taken of another window) lacks it.
    let recording = &episodes[4];
    assert_eq!(boxed(recording), 8);
    assert_eq!(recording.apps, ["explorer", "ShellExperienceHost", "ApplicationFrameHost"]);
    assert!(recording.steps.iter().all(|s| s.screen.tree.is_some() && s.window.is_some()));
    assert_eq!(recording.steps.iter().filter(|s| s.instruction.is_some()).count(), 7);
    // The recording and the trajectory show the same task: their actions agree one by one.
    let verbs = |e: &Episode| e.steps.iter().take(14).map(|s| s.action.verb).collect::<Vec<_>>();
    assert_eq!(verbs(recording), verbs(&episodes[0]));
}
