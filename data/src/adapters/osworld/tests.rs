use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::action::{Action, Direction, Verb};
use crate::adapters::AdapterOptions;
use crate::adapters::testing::{self, kinds, pixels, read_all, real_data};
use crate::trace::{Episode, Format, Outcome, Reject, RejectKind};

const HEADER: &str = "tag\tname\ttext\tclass\tdescription\tposition (top-left x&y)\tsize (w&h)\n";

/// Writes files into a folder and reads it. A name that ends in `.png` is a picture of 200 × 100 pixels.
fn read(files: &[(&str, &str)]) -> (Vec<Episode>, Vec<Reject>) {
    let bytes: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
    read_with(&bytes, AdapterOptions::default())
}

fn read_with(files: &[(&str, &[u8])], options: AdapterOptions) -> (Vec<Episode>, Vec<Reject>) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let root = folder.path().join("results");
    files.iter().for_each(|(name, bytes)| place(&root, name, bytes));
    testing::read_with(Format::Osworld, &root, options).expect("read")
}

fn place(root: &Path, name: &str, bytes: &[u8]) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
    if path.extension().is_some_and(|ending| ending == "png") {
        image::RgbImage::new(200, 100).save(path).expect("picture");
    } else {
        fs::write(path, bytes).expect("file");
    }
}

fn row(step: i64, action: &str) -> Value {
    json!({
        "step_num": step, "action_timestamp": format!("20240502@10101{step}"), "action": action, "reward": 0,
        "done": false, "info": {}, "screenshot_file": format!("step_{step}.png"),
    })
}

fn lines(rows: &[Value]) -> String {
    rows.iter().flat_map(|row| [row.to_string(), "\n".to_owned()]).collect()
}

/// The steps of a trajectory of `actions`.
fn steps_of(actions: &[&str]) -> Vec<Action> {
    let rows: Vec<_> = actions.iter().map(|action| row(1, action)).collect();
    let (mut episodes, rejects) = read(&[("vlc/t1/traj.jsonl", &lines(&rows))]);
    assert_eq!(rejects, [], "{actions:?}");
    episodes.remove(0).steps.into_iter().map(|step| step.action).collect()
}

/// The reject of a trajectory whose second line is `bad`.
fn refused(bad: &[u8]) -> Reject {
    let text = [format!("{}\n", row(1, "WAIT")).as_bytes(), bad, b"\n"].concat();
    let good = lines(&[row(1, "DONE")]);
    let files: [(&str, &[u8]); 2] = [("vlc/bad/traj.jsonl", &text), ("vlc/good/traj.jsonl", good.as_bytes())];
    let (episodes, mut rejects) = read_with(&files, AdapterOptions::default());
    let ids: Vec<_> = episodes.iter().map(|e| e.episode_id.as_str()).collect();
    assert_eq!((ids, rejects.len()), (vec!["osworld:good"], 1), "the neighbour is read");
    let reject = rejects.remove(0);
    assert_eq!((reject.key.as_str(), reject.episode_id.as_deref()), ("line 2", Some("osworld:bad")));
    assert_eq!(reject.file, "results/vlc/bad/traj.jsonl");
    reject
}

fn extra(episode: &Episode) -> Value {
    serde_json::from_str(episode.extra.as_deref().expect("extra")).expect("JSON")
}

#[test]
fn a_trajectory_is_an_episode_of_the_task() {
    let mut last = row(3, "DONE");
    last["reward"] = json!(1.0);
    last["info"] = json!({"done": true});
    last["done"] = json!(true);
    let mut first = row(1, "pyautogui.click(20, 30)");
    first["response"] = json!("Thought: Open the menu.\nAction: click");
    let rows = lines(&[first, row(1, "pyautogui.press('enter')"), row(2, "WAIT"), last]);
    let task = json!({
        "id": "t-1", "instruction": " Play it. ", "related_apps": ["vlc", "os"], "snapshot": "vlc",
        "source": "https://a.org", "evaluator": {"func": "f"},
    });
    let files = [
        ("gpt/vlc/t-1/traj.jsonl", rows.as_str()),
        ("gpt/vlc/t-1/result.txt", "1.0\n"),
        ("gpt/vlc/t-1/step_0_20240502@101010.png", ""),
        ("gpt/vlc/t-1/step_1.png", ""),
        ("gpt/vlc/t-1/step_2.png", ""),
        ("evaluation_examples/examples/vlc/t-1.json", &task.to_string()),
    ];
    let (episodes, rejects) = read(&files);
    assert_eq!((episodes.len(), rejects.len()), (1, 0));
    let episode = &episodes[0];
    assert_eq!((episode.episode_id.as_str(), episode.instruction.as_str()), ("osworld:t-1", "Play it."));
    assert_eq!((episode.outcome, episode.domain.as_deref()), (Outcome::Success, Some("vlc")));
    assert_eq!(episode.apps, ["vlc", "os"]);
    assert_eq!(episode.source, "results/gpt/vlc/t-1/traj.jsonl");
    let said = extra(episode);
    assert_eq!((&said["step_nums"], &said["result"]), (&json!([1, 1, 2, 3]), &json!(1.0)));
    assert_eq!(said["rows"], json!([{"line": 4, "reward": 1.0, "done": true, "info": {"done": true}}]));
    assert_eq!((&said["final_screenshot"], &said["snapshot"]), (&json!("step_3.png"), &json!("vlc")));
    let steps = &episode.steps;
    // A step's screen is the picture of the row before.
    let pictures: Vec<_> = steps.iter().map(|s| s.screen.screenshot.as_deref().expect("a picture")).collect();
    let below = |name: &str| format!("gpt/vlc/t-1/{name}");
    assert_eq!(
        pictures,
        [below("step_0_20240502@101010.png"), below("step_1.png"), below("step_1.png"), below("step_2.png")]
    );
    let times: Vec<_> = steps.iter().map(|s| s.time_secs.expect("a time")).collect();
    assert_eq!(times, [0.0, 0.0, 1.0, 2.0]);
    assert_eq!(steps[0].thought.as_deref(), Some("Open the menu."));
    assert_eq!((steps[0].action.verb, steps[0].action.point), (Verb::Click, Some(pixels(20.0, 30.0))));
    let verbs: Vec<_> = steps.iter().skip(1).map(|s| s.action.verb).collect();
    assert_eq!(verbs, [Verb::Press, Verb::Wait, Verb::Complete]);
}

#[test]
fn the_outcome_is_the_results_alone() {
    let done = lines(&[row(1, "DONE")]);
    for (result, outcome, kept) in [
        (Some("0.0"), Outcome::Failure, json!(0.0)),
        (Some("1"), Outcome::Success, json!(1.0)),
        (Some("0.25\n"), Outcome::Unknown, json!(0.25)),
        (None, Outcome::Unknown, Value::Null),
    ] {
        let mut files = vec![("vlc/t/traj.jsonl", done.as_str())];
        files.extend(result.map(|text| ("vlc/t/result.txt", text)));
        let (episodes, rejects) = read(&files);
        assert_eq!(rejects, []);
        assert_eq!((episodes[0].outcome, &extra(&episodes[0])["result"]), (outcome, &kept));
    }
    for bad in ["", "yes", "nan"] {
        let (_, rejects) = read(&[("vlc/t/traj.jsonl", &done), ("vlc/t/result.txt", bad)]);
        assert_eq!(kinds(&rejects), [("", RejectKind::Malformed)], "{bad}");
        assert!(rejects[0].reason.starts_with("result.txt: expected a number"), "{}", rejects[0].reason);
    }
}

#[test]
fn code_of_several_calls_is_several_steps_without_its_pauses() {
    let code = "import pyautogui, time\n# go\npyautogui.moveTo(10, 20)\ntime.sleep(0.5)\npyautogui.click()\n\
                pyautogui.write('a\\nb', interval=0.1); time.sleep(1)";
    let (episodes, rejects) = read(&[("vlc/t/traj.jsonl", &lines(&[row(1, code), row(2, "time.sleep(2)")]))]);
    assert_eq!(rejects, []);
    let found: Vec<_> =
        episodes[0].steps.iter().map(|s| (s.source_key.as_str(), s.action.verb, s.action.amount)).collect();
    assert_eq!(
        found,
        [
            ("line 1.code[0]", Verb::Click, None),
            ("line 1.code[1]", Verb::Type, None),
            ("line 2", Verb::Wait, Some(2.0))
        ]
    );
    assert_eq!(episodes[0].steps[0].action.point, Some(pixels(10.0, 20.0)));
    assert_eq!(extra(&episodes[0])["pauses"], json!(2));
}

#[test]
fn names_of_points_and_texts_stand_for_them() {
    let marked =
        steps_of(&["tag_1=(10, 20)\ntag_2=(30, 40)\npyautogui.moveTo(tag_2)\npyautogui.dragTo(tag_1)"]);
    assert_eq!((marked[0].point, marked[0].end), (Some(pixels(30.0, 40.0)), Some(pixels(10.0, 20.0))));
    let typed = steps_of(&["pyautogui.FAILSAFE = False\ntext = 'milk'\npyautogui.write(text)"]);
    assert_eq!(typed[0].text.as_deref(), Some("milk"));
    // Names of names would grow without limit.
    let bomb = "a = [1, 2]\nb = [a, a]\npyautogui.click(b)";
    let long = format!("a = '{}'\npyautogui.write(a)", "x".repeat(2000));
    for code in [bomb, long.as_str(), "a = {'x': 1}", "a = b", "x, y = 1, 2"] {
        assert_eq!(refused(row(2, code).to_string().as_bytes()).kind, RejectKind::Malformed, "{code}");
    }
}

#[test]
fn what_is_held_joins_what_is_done() {
    let verbs = |code: &str| {
        let found = steps_of(&[code]);
        found.into_iter().map(|a| (a.verb, a.text.unwrap_or_default(), a.source_verb)).collect::<Vec<_>>()
    };
    let one = |verb, text: &str, source: &str| vec![(verb, text.to_owned(), source.to_owned())];
    let held = |inner: &str| format!("pyautogui.keyDown('ctrl')\n{inner}\npyautogui.keyUp('ctrl')");
    assert_eq!(verbs(&held("pyautogui.press('c')")), one(Verb::Press, "ctrl+c", "pyautogui.press"));
    let nested = held("pyautogui.keyDown('c')\npyautogui.keyUp('c')");
    assert_eq!(verbs(&nested), one(Verb::Press, "ctrl+c", "pyautogui.keyUp"));
    assert_eq!(verbs(&held("")), one(Verb::Press, "ctrl", "pyautogui.keyUp"));
    assert_eq!(verbs(&held("pyautogui.click(1, 2)")), one(Verb::Click, "", "ctrl+pyautogui.click"));
    let drag = steps_of(&[
        "pyautogui.moveTo(1, 2)\npyautogui.mouseDown()\npyautogui.moveTo(3, 4)\npyautogui.mouseUp()",
    ]);
    assert_eq!((drag.len(), drag[0].verb), (1, Verb::Drag));
    assert_eq!((drag[0].point, drag[0].end), (Some(pixels(1.0, 2.0)), Some(pixels(3.0, 4.0))));
    let press = steps_of(&["pyautogui.mouseDown(5, 6, button='right')\npyautogui.mouseUp()"]);
    assert_eq!((press[0].verb, press[0].point), (Verb::RightClick, Some(pixels(5.0, 6.0))));
    for code in
        ["pyautogui.keyDown('a')", "pyautogui.keyUp('a')", "pyautogui.mouseUp()", "pyautogui.mouseDown()"]
    {
        assert_eq!(refused(row(2, code).to_string().as_bytes()).kind, RejectKind::OutOfRange, "{code}");
    }
}

#[test]
fn a_click_is_on_the_smallest_element_of_the_tree_before() {
    let tree = format!(
        "{HEADER}frame\tVLC\t\"\"\t\t\t(0, 0)\t(200, 100)\nmenu\tMedia\t\"\"\t\t\t(10, 10)\t(40, 20)\n"
    );
    let rows =
        lines(&[row(1, "WAIT"), row(2, "pyautogui.click(20, 20)"), row(3, "pyautogui.click(190, 90)")]);
    let files = [
        ("vlc/t/traj.jsonl", rows.as_str()),
        ("vlc/t/step_1.png", ""),
        ("vlc/t/step_1.tsv", tree.as_str()),
        ("vlc/t/step_2.xml.gz", "not read"),
    ];
    let (episodes, rejects) = read(&files);
    assert_eq!(rejects, []);
    let [first, second, third] = &episodes[0].steps[..] else { panic!("three steps") };
    assert_eq!((first.screen.tree.as_deref(), first.screen.elements.len()), (None, 0));
    assert_eq!(second.screen.tree.as_deref(), Some("vlc/t/step_1.tsv"));
    assert_eq!(second.screen.size.map(|s| (s.width_px, s.height_px)), Some((200, 100)));
    let target = &second.action.target;
    assert_eq!((target.element.as_deref(), target.name.as_deref()), (Some("1"), Some("Media")));
    assert_eq!((target.role.as_deref(), target.boxes.len()), (Some("menu"), 1));
    assert_eq!(third.screen.tree.as_deref(), Some("vlc/t/step_2.xml.gz"));
    assert_eq!(third.action.target.element, None);
    let broken = [files[0], ("vlc/t/step_1.tsv", "tag\tname\n")];
    let (_, rejects) = read(&broken);
    assert_eq!(kinds(&rejects), [("line 2", RejectKind::Malformed)]);
    assert!(
        rejects[0].reason.starts_with("results/vlc/t/step_1.tsv: line 1: expected the header"),
        "{}",
        rejects[0].reason
    );
}

#[test]
fn a_bad_row_refuses_its_episode_and_names_the_line() {
    let of = |change: &dyn Fn(&mut Value)| {
        let mut bad = row(2, "WAIT");
        change(&mut bad);
        bad.to_string()
    };
    let code = |code: &str| row(2, code).to_string();
    let cut = code("pyautogui.click(1, 2)");
    let long = code(&format!("pyautogui.write('{}", "x".repeat(1 << 20)));
    let twice = r#"{"step_num": 2, "action": "WAIT", "action": "DONE"}"#;
    for (bad, kind, reason) in [
        (cut[..cut.len() / 2].to_owned(), RejectKind::Malformed, "malformed JSON"),
        (twice.to_owned(), RejectKind::Malformed, "key `action` stands twice"),
        ("[]".to_owned(), RejectKind::Malformed, "expected a JSON object"),
        ("{}".to_owned(), RejectKind::MissingField, "`step_num` is missing"),
        (of(&|row| row["step_num"] = json!("2")), RejectKind::MissingField, "`step_num`"),
        (of(&|row| row["step_num"] = json!(0)), RejectKind::OutOfRange, "several runs"),
        (
            of(&|row| row["action"] = json!({"action_type": "CLICK"})),
            RejectKind::MissingField,
            "action space",
        ),
        (of(&|row| row["reward"] = json!("1")), RejectKind::MissingField, "`reward`"),
        (of(&|row| row["screenshot_file"] = json!(7)), RejectKind::MissingField, "`screenshot_file`"),
        (code(""), RejectKind::Empty, "`action` holds no call"),
        (code("pyautogui.click(-1, 2)"), RejectKind::OutOfRange, "(-1, 2)"),
        (code("for i in range(9):\n    pyautogui.press('a')"), RejectKind::Malformed, "literal arguments"),
        (code("subprocess.run('ls')"), RejectKind::OutOfRange, "unknown call `subprocess.run`"),
        (long, RejectKind::Malformed, "never closed"),
        (code(&"pyautogui.press('a')\n".repeat(300)), RejectKind::OutOfRange, "300 actions in one row"),
        (code(&"pyautogui.keyDown('a')\n".repeat(300)), RejectKind::OutOfRange, "too many keys"),
    ] {
        let reject = refused(bad.as_bytes());
        assert_eq!(reject.kind, kind, "{}", reject.reason);
        assert!(reject.reason.contains(reason) && reject.reason.len() < 500, "{}", reject.reason);
    }
    assert_eq!(refused(b"{\"action\": \"\xff\"}").kind, RejectKind::NotUtf8);
    let typed = "x".repeat(1 << 20);
    assert_eq!(steps_of(&[&format!("pyautogui.write('{typed}')")])[0].text.as_deref(), Some(typed.as_str()));
}

#[test]
fn pictures_and_tasks_outside_the_input_are_refused() {
    let mut climbing = row(1, "WAIT");
    climbing["screenshot_file"] = json!("../../../secret.png");
    let (_, rejects) = read(&[("vlc/t/traj.jsonl", &lines(&[climbing, row(2, "DONE")]))]);
    assert_eq!(kinds(&rejects), [("line 2", RejectKind::UnsafePath)]);
    let done = lines(&[row(1, "DONE")]);
    let other = r#"{"id": "u", "instruction": "i"}"#;
    let (_, rejects) = read(&[("vlc/t/traj.jsonl", &done), ("vlc/t.json", other)]);
    assert_eq!(kinds(&rejects), [("", RejectKind::OutOfRange)]);
    assert!(rejects[0].reason.contains("`id` is `u`"), "{}", rejects[0].reason);
    let strict = AdapterOptions { require_screenshots: true };
    let rows = lines(&[row(1, "WAIT"), row(2, "DONE")]);
    let (_, rejects) = read_with(&[("vlc/t/traj.jsonl", rows.as_bytes())], strict);
    assert_eq!(kinds(&rejects), [("line 2", RejectKind::MissingScreenshot)]);
}

#[test]
fn a_run_that_broke_off_keeps_what_it_did() {
    let error = json!({"Error": "Time limit exceeded in vlc/t"});
    let (episodes, rejects) = read(&[("vlc/t/traj.jsonl", &lines(&[row(1, "WAIT"), error.clone()]))]);
    assert_eq!((episodes.len(), rejects.len()), (1, 0));
    assert_eq!(extra(&episodes[0])["errors"][0]["error"], error["Error"]);
    for text in [lines(&[error]), String::new(), "\n\n".to_owned()] {
        let (episodes, rejects) = read(&[("vlc/t/traj.jsonl", &text)]);
        assert_eq!((episodes.len(), kinds(&rejects)), (0, vec![("", RejectKind::Empty)]));
    }
}

fn explored(action: Value) -> String {
    let first = json!({"app": "edit", "step": 0, "action": null, "before": null, "after": "001",
                       "windows": [["frame", "notes", false, true]]});
    let next = json!({"app": "edit", "step": 1, "action": action, "before": "001", "after": "002",
                      "instruction": "Do it", "windows": [["dialog", "Find", true, true]]});
    lines(&[first, next])
}

#[test]
fn an_exploration_names_its_controls() {
    let tree = format!(
        "{HEADER}text\t\tlong\t\t\t(0, 0)\t(200, 90)\npush-button\tOK\t\"\"\t\t\t(10, 10)\t(20, 20)\n"
    );
    let read_one = |action: Value| {
        let (mut episodes, rejects) = read(&[
            ("edit/steps.jsonl", &explored(action)),
            ("edit/001.png", ""),
            ("edit/001.tsv", &tree),
            ("edit/001.xml.gz", "not read"),
        ]);
        assert_eq!(rejects, []);
        episodes.remove(0)
    };
    let control = json!({"role": "push button", "name": "OK", "path": []});
    let mut click = json!({"type": "click", "button": "left", "double": true, "x": 15, "y": 15,
                           "control": control, "bbox": [10, 10, 20, 20]});
    let episode = read_one(click.clone());
    let step = &episode.steps[0];
    assert_eq!(
        (episode.episode_id.as_str(), episode.apps.as_slice()),
        ("osworld:edit", &["edit".to_owned()][..])
    );
    assert_eq!((step.app.as_deref(), step.window.as_deref()), (Some("edit"), Some("notes")));
    assert_eq!((step.instruction.as_deref(), step.source_key.as_str()), (Some("Do it"), "line 2"));
    assert_eq!(step.screen.tree.as_deref(), Some("edit/001.xml.gz"));
    assert_eq!((step.action.verb, step.action.target.element.as_deref()), (Verb::DoubleClick, Some("1")));
    assert_eq!(step.action.target.role.as_deref(), Some("push button"));
    // A control that the linear form leaves out is no other element.
    click["control"]["role"] = json!("page tab");
    let target = read_one(click.clone()).steps.remove(0).action.target;
    assert_eq!((target.element, target.name.as_deref()), (None, Some("OK")));
    click["control"] = Value::Null;
    let target = read_one(click).steps.remove(0).action.target;
    assert_eq!((target.element.as_deref(), target.boxes.len()), (Some("1"), 1));
    let keys = read_one(json!({"type": "key", "key": "ctrl+Home Right Right Return"}));
    let pressed: Vec<_> = keys
        .steps
        .iter()
        .map(|s| (s.source_key.as_str(), s.action.text.as_deref(), s.action.amount))
        .collect();
    assert_eq!(
        pressed,
        [
            ("line 2.key[0]", Some("ctrl+home"), None),
            ("line 2.key[1]", Some("right"), Some(2.0)),
            ("line 2.key[2]", Some("enter"), None)
        ]
    );
    let scroll = read_one(json!({"type": "scroll", "x": 5, "y": 5, "scroll": -3})).steps.remove(0).action;
    assert_eq!((scroll.direction, scroll.amount), (Some(Direction::Up), Some(3.0)));
}

#[test]
fn a_bad_row_of_an_exploration_refuses_it() {
    let click = |x: i64| json!({"type": "click", "button": "left", "x": x, "y": 5, "control": null});
    let good = explored(click(5));
    for (text, kind, reason) in [
        (explored(json!({"type": "hover"})), RejectKind::OutOfRange, "unknown type `hover`"),
        (explored(json!({"type": "key", "key": " "})), RejectKind::MissingField, "names no key"),
        (
            explored(json!({"type": "click", "button": "side", "x": 1, "y": 1})),
            RejectKind::OutOfRange,
            "`button`",
        ),
        (explored(click(500)), RejectKind::OutOfRange, "(500, 5)"),
        (explored(json!("click")), RejectKind::MissingField, "`action`: expected an object"),
        (explored(Value::Null), RejectKind::MissingField, "`action` is missing"),
        (
            good.replace("\"before\":\"001\"", "\"before\":\"003\""),
            RejectKind::OutOfRange,
            "a row is missing",
        ),
        (good.replace("\"001\"", "\"../../x\""), RejectKind::UnsafePath, "leaves the input"),
        (good.replace("[\"frame\",\"notes\",false,true]", "[1]"), RejectKind::MissingField, "`windows`"),
        (good[..good.len() - 9].to_owned(), RejectKind::Malformed, "cut off"),
    ] {
        let (episodes, rejects) = read(&[("edit/steps.jsonl", &text), ("edit/001.png", "")]);
        assert_eq!((episodes.len(), rejects.len()), (0, 1), "{text}");
        assert_eq!(rejects[0].kind, kind, "{}", rejects[0].reason);
        assert!(rejects[0].reason.contains(reason), "{}", rejects[0].reason);
    }
    let (episodes, _) = read(&[("edit/steps.jsonl", &good), ("edit/001.png", "")]);
    assert_eq!(episodes.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let (episodes, rejects) = read_with(&[("vlc/t/traj.jsonl", &bytes)], AdapterOptions::default());
        prop_assert_eq!((episodes.len(), rejects.len()), (0, 1));
    }

    #[test]
    fn any_cut_of_a_trajectory_is_one_record(share in 0.0_f64..1.0) {
        let whole = lines(&[row(1, "pyautogui.click(1, 2)"), row(2, "DONE")]);
        let cut = &whole[..(whole.len() as f64 * share) as usize];
        let (episodes, rejects) = read(&[("vlc/t/traj.jsonl", cut)]);
        prop_assert_eq!(episodes.len() + rejects.len(), 1);
        let ends_whole = cut.trim_end().ends_with('}') && cut.lines().all(|line| serde_json::from_str::<Value>(line).is_ok());
        prop_assert_eq!(episodes.len(), usize::from(ends_whole));
    }

    #[test]
    fn any_tree_is_read_or_refused(tree in "[a-z\t\n(), 0-9\"]{0,80}") {
        let _ = super::linear::elements(&format!("{HEADER}{tree}"));
    }
}

/// Counts taken with a separate program: 121 rows with an action in eight logs, three of which press several
/// different keys. The logs themselves say how many records each tree has.
#[test]
fn real_data_is_read_whole() {
    let Some(path) = real_data("desktop-a11y") else { return };
    let (episodes, rejects) = read_all(Format::Osworld, &path);
    assert_eq!(rejects, []);
    let found: Vec<_> = episodes.iter().map(|e| (e.episode_id.as_str(), e.steps.len())).collect();
    assert_eq!(
        found,
        [
            ("osworld:calc", 12 + 4),
            ("osworld:chromium", 26 + 1),
            ("osworld:galculator", 11),
            ("osworld:gedit", 14),
            ("osworld:gimp", 10),
            ("osworld:gnome-calculator", 11),
            ("osworld:mousepad", 12),
            ("osworld:writer", 25)
        ]
    );
    let steps: Vec<_> = episodes.iter().flat_map(|e| &e.steps).collect();
    for step in &steps {
        assert!(step.screen.screenshot_found && step.screen.tree.is_some() && step.instruction.is_some());
        assert_eq!(step.screen.size.map(|s| (s.width_px, s.height_px)), Some((1920, 1080)));
    }
    // 39 clicks are on controls, which the trees hold except for page tabs, and one is on bare coordinates.
    let named: Vec<_> = steps.iter().map(|s| &s.action.target).filter(|t| t.name.is_some()).collect();
    let tab = Some("page tab".to_owned());
    assert!(named.iter().filter(|t| t.role == tab).all(|t| t.element.is_none()));
    assert_eq!((named.iter().filter(|t| t.role == tab).count(), named.len()), (5, 40));
    assert_eq!(named.iter().filter(|t| t.element.is_some()).count(), 35);
    for episode in &episodes {
        let log = path.join(episode.source.strip_prefix("desktop-a11y/").expect("below the input"));
        let rows: Vec<Value> = fs::read_to_string(log)
            .expect("read")
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        for step in &episode.steps {
            let line = step.source_key.strip_prefix("line ").and_then(|key| key.split('.').next());
            let line: usize = line.and_then(|line| line.parse().ok()).expect("a line");
            assert_eq!(
                json!(step.screen.elements.len()),
                rows[line - 2]["rows"],
                "{} {line}",
                episode.source
            );
        }
    }
}
