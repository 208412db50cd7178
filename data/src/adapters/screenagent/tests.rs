use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::action::Verb;
use crate::adapters::testing::{self, pixels, read_all, read_with, real_data};
use crate::trace::{Reject, Step};

fn fixture(name: &str) -> PathBuf {
    testing::fixture("screenagent").join(name)
}

/// A gold file with these actions.
fn gold(actions: &Value) -> Value {
    json!({
        "session_id": "s", "task_prompt": "任务", "task_prompt_en": "Task",
        "send_prompt": "现在的子任务是 \"一\"。", "LLM_response_editer_en": "Click it.```json\n[]\n```",
        "video_width": 1024, "video_height": 768, "saved_image_name": "a.jpg", "actions": actions,
    })
}

fn click(x: f64, y: f64) -> Value {
    json!({"action_type": "MouseAction", "mouse_action_type": "click", "mouse_button": "left",
           "mouse_position": {"width": x, "height": y}})
}

fn mouse(kind: &str, button: &str, at: Option<(i64, i64)>) -> Value {
    let at = at.map(|(x, y)| json!({"width": x, "height": y}));
    json!({"action_type": "MouseAction", "mouse_action_type": kind, "mouse_button": button, "mouse_position": at})
}

/// Writes sessions of one gold file each and reads them.
fn read(sessions: &[(&str, String)]) -> (Vec<Episode>, Vec<Reject>) {
    let folder = tempfile::tempdir().expect("temporary folder");
    for (session, text) in sessions {
        let session = folder.path().join(session);
        fs::create_dir_all(&session).expect("folder");
        fs::write(session.join("2024-01-01_00-00-00-000000_translate.json"), text).expect("file");
    }
    read_all(Format::Screenagent, folder.path())
}

fn actions(list: &Value) -> Vec<crate::action::Action> {
    let (episodes, rejects) = read(&[("s", gold(list).to_string())]);
    assert_eq!(rejects, []);
    episodes.into_iter().flat_map(|e| e.steps).map(|s| s.action).collect()
}

#[test]
fn a_session_is_read_in_the_order_of_its_timestamps() {
    let (episodes, rejects) = read_all(Format::Screenagent, &fixture("good"));
    assert_eq!(rejects, []);
    let [episode] = episodes.as_slice() else { panic!("one episode, found {}", episodes.len()) };
    assert_eq!(episode.episode_id, "screenagent:open-notes");
    assert_eq!(episode.instruction, "Open the notes and save them");
    assert_eq!(episode.outcome, Outcome::Success);
    assert_eq!(episode.split.as_deref(), Some("train"));
    let extra: Value = serde_json::from_str(episode.extra.as_deref().expect("extra")).expect("JSON");
    assert_eq!(
        extra,
        json!({"plan": ["Open the notes", "Save the file"], "neg_plan": 1, "neg_eval": 1,
               "sub_task_success": 2, "need_retry": 1, "need_reformulate": 0})
    );
    let verbs: Vec<Verb> = episode.steps.iter().map(|s| s.action.verb).collect();
    assert_eq!(verbs, [Verb::DoubleClick, Verb::DoubleClick, Verb::Type, Verb::Press]);
    let first = &episode.steps[0];
    assert_eq!(first.source_key, "2024-01-01_10-00-10-000000_translate.json#actions[0]");
    assert_eq!(first.subtask.as_deref(), Some("Open the notes"));
    assert_eq!(first.thought.as_deref(), Some("The icon is on the left."));
    assert!(!first.screen.screenshot_found);
    assert_eq!(first.screen.screenshot.as_deref(), Some("images/2024-01-01_10-00-10-000000.jpg"));
    let last = &episode.steps[3];
    assert_eq!(last.action.text.as_deref(), Some("ctrl+s"));
    assert_eq!(last.time_secs, Some(80.5));
    assert_eq!(last.subtask.as_deref(), Some("Save the file"));
}

#[test]
fn a_drag_starts_where_the_move_before_it_ended() {
    let found = actions(&json!([mouse("move", "left", Some((1, 2))), mouse("drag", "left", Some((30, 40)))]));
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].verb, found[0].point), (Verb::Hover, Some(pixels(1.0, 2.0))));
    assert_eq!((found[1].point, found[1].end), (Some(pixels(1.0, 2.0)), Some(pixels(30.0, 40.0))));
}

#[test]
fn press_and_release_are_one_drag_or_one_click() {
    let found = actions(&json!([
        mouse("down", "left", Some((1, 2))),
        mouse("move", "left", Some((5, 6))),
        mouse("up", "left", None),
        mouse("down", "right", Some((7, 8))),
        mouse("up", "right", Some((7, 8))),
    ]));
    assert_eq!(found.len(), 2);
    assert_eq!(
        (found[0].verb, found[0].point, found[0].end),
        (Verb::Drag, Some(pixels(1.0, 2.0)), Some(pixels(5.0, 6.0)))
    );
    assert_eq!(
        (found[1].verb, found[1].point, found[1].end),
        (Verb::RightClick, Some(pixels(7.0, 8.0)), None)
    );
}

#[test]
fn keys_are_named_alike_whatever_the_source_calls_them() {
    let press = |key: Value| json!({"action_type": "KeyboardAction", "keyboard_action_type": "press", "keyboard_key": key});
    let found = actions(&json!([
        press(json!(["Control_L", "a"])),
        press(json!("Ctrl+Shift+Page_Up")),
        press(json!("Return")),
        press(json!("+")),
        press(json!("Left")),
    ]));
    let texts: Vec<_> = found.iter().filter_map(|a| a.text.as_deref()).collect();
    assert_eq!(texts, ["ctrl+a", "ctrl+shift+pageup", "enter", "+", "left"]);
    assert_eq!(combination(["ctrlleft", "shift_r", "Super_L", " "]), "ctrl+shift+win+space");
}

#[test]
fn a_bad_session_is_refused_alone_and_by_name() {
    let good = gold(&json!([click(1.0, 2.0)])).to_string();
    let mut no_size = gold(&json!([click(1.0, 2.0)]));
    no_size["video_width"] = json!("1024");
    let mut climbing = gold(&json!([click(1.0, 2.0)]));
    climbing["saved_image_name"] = json!("../../../etc/passwd");
    let faulty = |action: Value| gold(&json!([click(1.0, 2.0), action])).to_string();
    let cases = [
        (good[..good.len() - 9].to_owned(), RejectKind::Malformed, "", "cut off"),
        ("[1]".to_owned(), RejectKind::Malformed, "", "a JSON object"),
        (no_size.to_string(), RejectKind::MissingField, "", "video_width"),
        (climbing.to_string(), RejectKind::UnsafePath, "", "leaves the input folder"),
        (faulty(click(1025.0, 2.0)), RejectKind::OutOfRange, "actions[1]", "(1025, 2)"),
        (faulty(click(1.0, -1.0)), RejectKind::OutOfRange, "actions[1]", "(1, -1)"),
        (faulty(json!({})), RejectKind::MissingField, "actions[1]", "action_type"),
        (faulty(json!({"action_type": "Fly"})), RejectKind::OutOfRange, "actions[1]", "`Fly`"),
        (faulty(mouse("spin", "left", None)), RejectKind::OutOfRange, "actions[1]", "`spin`"),
        (faulty(mouse("up", "left", None)), RejectKind::OutOfRange, "actions[1]", "not pressed"),
        (faulty(mouse("drag", "left", None)), RejectKind::MissingField, "actions[1]", "mouse_position"),
        (faulty(mouse("down", "left", None)), RejectKind::OutOfRange, "", "never released"),
        (
            faulty(json!({"action_type": "WaitAction", "wait_time": "soon"})),
            RejectKind::OutOfRange,
            "actions[1]",
            "seconds",
        ),
        (gold(&json!([])).to_string(), RejectKind::Empty, "", "no mouse"),
    ];
    for (text, kind, key, reason) in cases {
        let (episodes, rejects) = read(&[("a", good.clone()), ("b", text), ("c", good.clone())]);
        let ids: Vec<_> = episodes.iter().map(|e| e.episode_id.as_str()).collect();
        assert_eq!(ids, ["screenagent:a", "screenagent:c"], "{reason}");
        let [reject] = rejects.as_slice() else { panic!("one reject for {reason}, found {rejects:?}") };
        assert_eq!((reject.kind, reject.key.as_str()), (kind, key), "{}", reject.reason);
        assert!(reject.reason.contains(reason), "{}", reject.reason);
        assert!(reject.file.contains("/b"), "{}", reject.file);
        assert_eq!(reject.episode_id.as_deref(), Some("screenagent:b"));
    }
}

#[test]
fn absent_screenshots_are_kept_unless_required() {
    let strict = AdapterOptions { require_screenshots: true };
    let (episodes, rejects) = read_with(Format::Screenagent, &fixture("good"), strict).expect("read");
    assert_eq!(episodes, []);
    assert_eq!(rejects[0].kind, RejectKind::MissingScreenshot);
}

#[test]
fn bytes_that_are_not_utf8_are_named() {
    let folder = tempfile::tempdir().expect("temporary folder");
    fs::write(folder.path().join("x_translate.json"), b"{\"a\": \"\xe9\"}").expect("file");
    let (_, rejects) = read_all(Format::Screenagent, folder.path());
    assert_eq!(rejects[0].kind, RejectKind::NotUtf8);
    assert!(rejects[0].reason.contains("byte 7"), "{}", rejects[0].reason);
}

#[test]
fn a_session_of_rejected_variants_alone_is_empty_and_other_folders_are_nothing() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let input = Input::new(folder.path()).expect("exists");
    assert!(matches!(Screenagent.discover(&input), Err(AdapterError::Nothing { .. })));
    fs::write(folder.path().join("x_translate_neg_plan.json"), "{}").expect("file");
    let (episodes, rejects) = read_all(Format::Screenagent, folder.path());
    assert_eq!((episodes.len(), rejects[0].kind), (0, RejectKind::Empty));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_cut_of_a_file_gives_one_record(at in 0_usize..400) {
        let text = gold(&json!([click(1.0, 2.0)])).to_string();
        let cut: String = text.chars().take(at).collect();
        let whole = cut.len() == text.len();
        let (episodes, rejects) = read(&[("s", cut)]);
        prop_assert_eq!((episodes.len(), rejects.len()), if whole { (1, 0) } else { (0, 1) });
    }

    #[test]
    fn any_bytes_give_one_record(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let folder = tempfile::tempdir().expect("temporary folder");
        fs::write(folder.path().join("x_translate.json"), bytes).expect("file");
        let (episodes, rejects) = read_all(Format::Screenagent, folder.path());
        prop_assert_eq!((episodes.len(), rejects.len()), (0, 1));
    }
}

/// Counts taken with a separate program: 49 sessions, 458 gold files, 283 mouse, keyboard and
/// wait actions (none of them a press or release), 132 `neg_plan` and 88 `neg_eval` files.
#[test]
fn real_sessions_are_read_whole() {
    let Some(path) = real_data("screenagent") else { return };
    let (episodes, rejects) = read_all(Format::Screenagent, &path);
    assert_eq!(rejects, []);
    assert_eq!(episodes.len(), 49);
    let steps: Vec<&Step> = episodes.iter().flat_map(|e| &e.steps).collect();
    assert_eq!(steps.len(), 283);
    let count = |verb| steps.iter().filter(|s| s.action.verb == verb).count();
    assert_eq!([Verb::Click, Verb::RightClick, Verb::DoubleClick].map(count), [123, 7, 17]);
    assert_eq!([Verb::Hover, Verb::Drag, Verb::Scroll].map(count), [18, 7, 7]);
    assert_eq!([Verb::Press, Verb::Type, Verb::Wait].map(count), [50, 41, 13]);
    assert!(steps.iter().filter(|s| s.action.verb == Verb::Drag).all(|s| s.action.point.is_some()));
    assert!(steps.iter().all(|s| s.subtask.is_some()));
    assert!(episodes.iter().all(|e| e.outcome == Outcome::Success));
    let total = |key: &str| -> u64 {
        let value = |e: &Episode| serde_json::from_str::<Value>(e.extra.as_deref()?).ok()?[key].as_u64();
        episodes.iter().filter_map(value).sum()
    };
    assert_eq!(["neg_plan", "neg_eval", "sub_task_success", "need_retry"].map(total), [132, 88, 200, 4]);
}
