use proptest::prelude::*;
use serde_json::json;

use super::super::testing::{kinds, read_all, read_bytes, read_with, real_data, try_bytes};
use super::*;

fn step(content: &Value, check: &Value, instruction: &str) -> Value {
    json!({
        "action_content": content,
        "check_options": check,
        "screenshot": "/datasets/AndroidControl/images/7_0.png",
        "step_instruction": instruction,
    })
}

fn row(id: u32, steps: &[Value]) -> Value {
    json!({"goal": "Open the Artsy app", "is_successful": true, "steps": steps, "episode_id": id})
}

fn click() -> Value {
    step(
        &json!({"action": "click", "coordinate": [283, 1586.5]}),
        &json!({"action": "click", "candidate_bbox": [[-5, 1287, 513, 2104]], "coordinate": [283, 1586.5]}),
        "Click on the Share icon at the top ",
    )
}

fn lines(rows: &[Value]) -> String {
    rows.iter().fold(String::new(), |text, row| text + &row.to_string() + "\n")
}

fn one(step_value: &Value) -> Step {
    let (mut episodes, rejects) = read_bytes(
        Format::AndroidControl,
        "a.jsonl",
        lines(&[row(7, std::slice::from_ref(step_value))]).as_bytes(),
    );
    assert_eq!(rejects, []);
    episodes.remove(0).steps.remove(0)
}

#[test]
fn a_click_keeps_point_boxes_and_target() {
    let step = one(&click());
    assert_eq!(step.action.verb, Verb::Click);
    assert_eq!(step.action.point.map(|p| (p.x, p.y)), Some((283.0, 1586.5)));
    assert_eq!(step.action.target.boxes.iter().map(|b| b.left).collect::<Vec<_>>(), [-5.0]);
    assert_eq!(step.action.target.name.as_deref(), Some("Share icon"));
    assert_eq!(step.screen.screenshot.as_deref(), Some("/datasets/AndroidControl/images/7_0.png"));
    assert!(!step.screen.screenshot_found);
}

#[test]
fn every_action_becomes_its_verb() {
    let verb = |content: Value| {
        let action = one(&step(&content, &json!({}), "")).action;
        (action.verb, action.text, action.amount)
    };
    let text = |t: &str| Some(t.to_owned());
    assert_eq!(
        verb(json!({"action": "long_press", "coordinate": [1, 2], "time": 2})),
        (Verb::LongPress, None, Some(2.0))
    );
    assert_eq!(verb(json!({"action": "type", "text": "a"})), (Verb::Type, text("a"), None));
    assert_eq!(verb(json!({"action": "open", "text": "CNN"})), (Verb::OpenApp, text("CNN"), None));
    assert_eq!(verb(json!({"action": "wait", "time": 2})), (Verb::Wait, None, Some(2.0)));
    assert_eq!(verb(json!({"action": "system_button", "button": "Back"})), (Verb::Back, None, None));
    assert_eq!(verb(json!({"action": "system_button", "button": "Home"})), (Verb::Home, None, None));
    assert_eq!(
        verb(json!({"action": "system_button", "button": "Enter"})),
        (Verb::Press, text("enter"), None)
    );
    assert_eq!(verb(json!({"action": "terminate", "status": "success"})), (Verb::Complete, None, None));
    assert_eq!(verb(json!({"action": "terminate", "status": "failure"})), (Verb::Impossible, None, None));
}

#[test]
fn the_given_direction_is_the_contents_and_the_fingers_is_reversed() {
    let swipe = json!({"action": "swipe", "coordinate": [540.0, 1800.0], "coordinate2": [540.0, 600.0]});
    let given = one(&step(&swipe, &json!({"action": "swipe", "direction": "left"}), "")).action;
    assert_eq!((given.direction, given.source_direction.as_deref()), (Some(Direction::Left), Some("left")));
    let finger = one(&step(&swipe, &json!({"action": "swipe"}), "")).action;
    assert_eq!((finger.direction, finger.source_direction.as_deref()), (Some(Direction::Down), Some("up")));
}

#[test]
fn the_app_follows_its_opening_and_the_instruction_its_action() {
    let open = step(&json!({"action": "open", "text": "CNN"}), &json!({}), "Open the CNN app");
    let wait = step(&json!({"action": "wait", "time": 2}), &json!({}), "Click on the Share icon");
    let home = step(&json!({"action": "system_button", "button": "Home"}), &json!({}), "Go home");
    let content = lines(&[row(7, &[open, wait, home, click()]), row(8, &[click()])]);
    let (episodes, _) = read_bytes(Format::AndroidControl, "a.jsonl", content.as_bytes());
    let apps: Vec<_> = episodes[0].steps.iter().map(|s| s.app.as_deref()).collect();
    assert_eq!(apps, [None, Some("CNN"), Some("CNN"), None]);
    assert_eq!(episodes[0].apps, ["CNN"]);
    assert_eq!(episodes[1].apps, ["Artsy"]);
    assert_eq!(episodes[0].steps[1].action.target.name, None);
    assert_eq!(episodes[0].outcome, Outcome::Success);
    assert_eq!(app_in_goal("Open the book so open this book in the Moon+ Reader app"), None);
    assert_eq!(app_in_goal("Look at the news"), None);
}

#[test]
fn bad_lines_are_refused_alone() {
    let bad = |content: Value| row(9, &[click(), step(&content, &json!({}), "")]).to_string();
    let good = row(1, &[click()]).to_string();
    let mut content: Vec<u8> = Vec::new();
    for line in [
        good.as_str(),
        "{\"goal\": \"cut",
        "[1, 2]",
        &json!({"goal": "no id", "steps": []}).to_string(),
        &row(2, &[]).to_string(),
        &json!({"steps": [click()], "episode_id": 3}).to_string(),
        &bad(json!({"action": "pinch"})),
        &bad(json!({"action": "click", "coordinate": [-1, 2]})),
        &bad(json!({"action": "click", "coordinate": "1, 2"})),
        &bad(json!({"action": "click"})),
        &bad(json!({"action": "click", "coordinate": [1, 2], "bbox": [9, 0, 1, 5]})),
        &bad(json!({"action": "system_button", "button": "Power"})),
    ] {
        content.extend_from_slice(line.as_bytes());
        content.push(b'\n');
    }
    content.extend_from_slice(b"{\"goal\": \"\xff\"}\n\n");
    content.extend_from_slice(row(5, &[click()]).to_string().as_bytes());
    let (episodes, rejects) = read_bytes(Format::AndroidControl, "a.jsonl", &content);
    let keys: Vec<_> = episodes.iter().map(|e| (e.episode_id.as_str(), e.source_key.as_str())).collect();
    assert_eq!(keys, [("android-control:1", "line 1"), ("android-control:5", "line 15")]);
    assert_eq!(
        kinds(&rejects),
        [
            ("line 2", RejectKind::Malformed),
            ("line 3", RejectKind::Malformed),
            ("line 4", RejectKind::MissingField),
            ("line 5", RejectKind::Empty),
            ("line 6", RejectKind::MissingField),
            ("line 7 steps[1]", RejectKind::OutOfRange),
            ("line 8 steps[1]", RejectKind::OutOfRange),
            ("line 9 steps[1]", RejectKind::MissingField),
            ("line 10 steps[1]", RejectKind::MissingField),
            ("line 11 steps[1]", RejectKind::OutOfRange),
            ("line 12 steps[1]", RejectKind::OutOfRange),
            ("line 13", RejectKind::NotUtf8),
        ]
    );
    assert!(rejects[5].reason.contains("`pinch`") && rejects[5].reason.contains("long_press"));
    assert_eq!(rejects[5].episode_id.as_deref(), Some("android-control:9"));
}

#[test]
fn an_id_that_is_absent_comes_from_the_screenshot() {
    let row = json!({"goal": "g", "is_successful": false, "steps": [click()]});
    let (episodes, _) = read_bytes(Format::AndroidControl, "a.jsonl", row.to_string().as_bytes());
    assert_eq!(episodes[0].episode_id, "android-control:7");
    assert_eq!(episodes[0].outcome, Outcome::Failure);
}

#[test]
fn screenshots_may_be_required() {
    let folder = tempfile::tempdir().expect("temporary folder");
    std::fs::write(folder.path().join("a.jsonl"), lines(&[row(1, &[click()])])).expect("written");
    let strict = AdapterOptions { require_screenshots: true };
    let (episodes, rejects) = read_with(Format::AndroidControl, folder.path(), strict).expect("discovered");
    assert_eq!(episodes, []);
    assert_eq!(kinds(&rejects), [("line 1 steps[0]", RejectKind::MissingScreenshot)]);
}

#[test]
fn an_empty_file_is_a_reject() {
    let (_, rejects) = read_bytes(Format::AndroidControl, "a.jsonl", b"\n");
    assert_eq!(kinds(&rejects), [("", RejectKind::Empty)]);
}

#[test]
fn real_files_are_read_whole() {
    for (name, expected) in [("android_control_part.jsonl", (586, 3170)), ("train_example.jsonl", (32, 206))]
    {
        let Some(path) = real_data(&format!("android-control/{name}")) else { return };
        let (episodes, rejects) = read_all(Format::AndroidControl, &path);
        assert_eq!(rejects, []);
        assert_eq!((episodes.len(), episodes.iter().map(|e| e.steps.len()).sum::<usize>()), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_line_of_a_cut_off_file_is_accounted_for(share in 0.0_f64..1.0) {
        let whole = lines(&[row(1, &[click()]), row(2, &[click(), click()]), row(3, &[click()])]);
        let cut = (whole.len() as f64 * share) as usize;
        let rows = whole[..cut].lines().count();
        let (episodes, rejects) = read_bytes(Format::AndroidControl, "a.jsonl", &whole.as_bytes()[..cut]);
        prop_assert_eq!(episodes.len() + rejects.len(), rows.max(1));
        prop_assert!(rejects.len() <= 1);
    }

    #[test]
    fn arbitrary_bytes_never_panic(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((episodes, rejects)) = try_bytes(Format::AndroidControl, "a.jsonl", &content) {
            prop_assert!(episodes.is_empty() && !rejects.is_empty());
        }
    }
}
