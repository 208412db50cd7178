use std::path::PathBuf;

use proptest::prelude::*;

use super::super::testing::{kinds, pixels, read_all, read_bytes, read_with, real_data, try_bytes};
use super::*;
use crate::trace::Reject;

const ID: &str = "523638528775825151";
const NAME: &str = "GOOGLE_APPS-523638528775825151";

fn step(number: usize, length: usize, kind: i64) -> Value {
    json!({
        "episode_id": ID,
        "episode_length": length,
        "step_id": number,
        "instruction": "open app \"Clock\"",
        "ui_positions": "[[10, 20, 8, 40], [0, 0, 60, 30], [12, 24, 4, 6], [50, 5, 10, 25]]",
        "ui_text": "[\"Set up\", \"\", \" Inner \", \"\"]",
        "ui_types": "[\"TEXT\", \"ICON_HOME\", \"TEXT\", \"ICON_PLAY\"]",
        "result_action_type": kind,
        "result_action_text": "",
        "result_touch_yx": "[-1.0, -1.0]",
        "result_lift_yx": "[-1.0, -1.0]",
        "image_path": format!("google_apps/{NAME}/{NAME}_{number}.png"),
        "coat_screen_desc": "A home screen.",
        "coat_action_think": "The clock is on it.",
        "coat_action_desc": "click on the Clock app",
        "coat_action_result": format!("result {number}"),
    })
}

fn gesture_step(touch: [f64; 2], lift: [f64; 2]) -> Value {
    let mut value = step(0, 1, 4);
    value["result_touch_yx"] = json!(json!(touch).to_string());
    value["result_lift_yx"] = json!(json!(lift).to_string());
    value
}

fn read(steps: &[Value]) -> (Vec<Episode>, Vec<Reject>) {
    read_bytes(Format::Aitz, &format!("{NAME}.json"), json!(steps).to_string().as_bytes())
}

fn one(step: &Value) -> Step {
    let (mut episodes, rejects) = read(std::slice::from_ref(step));
    assert_eq!(rejects, []);
    episodes.remove(0).steps.remove(0)
}

/// An input folder with the episode at `train/google_apps/<NAME>/` and screenshots of `size` beside it.
fn laid_out(steps: &[Value], size: [u32; 2]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let own = folder.path().join("train/google_apps").join(NAME);
    std::fs::create_dir_all(&own).expect("made");
    std::fs::write(own.join(format!("{NAME}.json")), json!(steps).to_string()).expect("written");
    for (i, _) in steps.iter().enumerate() {
        image::RgbImage::new(size[0], size[1]).save(own.join(format!("{NAME}_{i}.png"))).expect("written");
    }
    (folder, own)
}

#[test]
fn an_episode_keeps_what_the_source_says() {
    let steps = [step(0, 3, 6), step(1, 3, 3), step(2, 3, 10)];
    let (folder, _) = laid_out(&steps, [60, 100]);
    let (episodes, rejects) = read_all(Format::Aitz, folder.path());
    assert_eq!(rejects, []);
    let episode = &episodes[0];
    assert_eq!(episode.episode_id, format!("aitz:{NAME}"));
    assert!(episode.source.ends_with(&format!("train/google_apps/{NAME}/{NAME}.json")), "{}", episode.source);
    assert_eq!(episode.instruction, "open app \"Clock\"");
    assert_eq!((episode.domain.as_deref(), episode.split.as_deref()), (Some("GOOGLE_APPS"), Some("train")));
    assert_eq!((episode.platform, episode.outcome), (Platform::Mobile, Outcome::Success));
    let results = r#"{"coat_action_result":["result 0","result 1","result 2"]}"#;
    assert_eq!(episode.extra.as_deref(), Some(results));
    let step = &episode.steps[1];
    assert_eq!((step.step, step.source_key.as_str()), (1, "steps[1]"));
    assert_eq!(step.description.as_deref(), Some("A home screen."));
    assert_eq!(step.thought.as_deref(), Some("The clock is on it."));
    assert_eq!(step.instruction.as_deref(), Some("click on the Clock app"));
    assert!(step.screen.screenshot_found);
    assert_eq!(step.screen.size, Some(ScreenSize { width_px: 60, height_px: 100 }));
    let element = &step.screen.elements[2];
    assert_eq!((element.id.as_str(), element.role.as_str(), element.text.as_str()), ("2", "TEXT", " Inner "));
    let bbox = element.bbox.expect("a box");
    assert_eq!((bbox.left, bbox.top, bbox.right, bbox.bottom), (24.0, 12.0, 30.0, 16.0));
    assert_eq!(bbox.frame, FrameName::Pixels);
}

#[test]
fn every_action_type_becomes_its_verb() {
    let mut typed = step(0, 1, 3);
    typed["result_action_text"] = json!("clock");
    let action = one(&typed).action;
    assert_eq!((action.verb, action.text.as_deref()), (Verb::Type, Some("clock")));
    for (kind, verb, text, word) in [
        (5, Verb::Back, None, "PRESS_BACK"),
        (6, Verb::Home, None, "PRESS_HOME"),
        (7, Verb::Press, Some("enter"), "PRESS_ENTER"),
        (10, Verb::Complete, None, "STATUS_TASK_COMPLETE"),
        (11, Verb::Impossible, None, "STATUS_TASK_IMPOSSIBLE"),
    ] {
        let action = one(&step(0, 1, kind)).action;
        assert_eq!((action.verb, action.text.as_deref(), action.source_verb.as_str()), (verb, text, word));
        assert_eq!(action.point, None);
    }
    let outcome = |kind| read(&[step(0, 1, kind)]).0[0].outcome;
    assert_eq!([10, 11, 6].map(outcome), [Outcome::Success, Outcome::Failure, Outcome::Unknown]);
}

#[test]
fn short_gestures_are_taps_and_long_ones_scroll_against_the_finger() {
    assert_eq!(one(&gesture_step([0.0, 0.5], [TAP_DISTANCE, 0.5])).action.verb, Verb::Click);
    // Each displacement is [dy, dx].
    for ([dy, dx], finger) in [
        ([0.039, 0.0], None),
        ([0.02, 0.03], None),
        ([-0.3, 0.1], Some("up")),
        ([0.3, 0.3], Some("down")),
        ([-0.28, 0.3], Some("up")),
        ([0.26, -0.3], Some("left")),
        ([0.0, 0.05], Some("right")),
    ] {
        let action = one(&gesture_step([0.5, 0.5], [0.5 + dy, 0.5 + dx])).action;
        assert_eq!(action.source_direction.as_deref(), finger, "{dy} {dx}");
        let point = action.point.expect("a touch");
        assert_eq!((point.x, point.y, point.frame), (0.5, 0.5, FrameName::Normalized));
        match finger {
            None => assert_eq!((action.verb, action.end, action.direction), (Verb::Click, None, None)),
            Some(word) => {
                let content = word.parse::<Direction>().map(Direction::opposite);
                assert_eq!((action.verb, Ok(action.direction)), (Verb::Scroll, content.map(Some)));
                assert_eq!(action.end.map(|p| p.y), Some(0.5 + dy));
            }
        }
    }
}

#[test]
fn a_tap_is_on_the_smallest_element_around_it() {
    let target = |touch: [f64; 2]| {
        let (folder, _) = laid_out(&[gesture_step(touch, touch)], [100, 100]);
        let (mut episodes, rejects) = read_all(Format::Aitz, folder.path());
        assert_eq!(rejects, []);
        let target = episodes.remove(0).steps.remove(0).action.target;
        (target.element, target.name, target.role, target.boxes.len())
    };
    let expected = |element: &str, name: &str, role: &str| {
        (Some(element.to_owned()), Some(name.to_owned()), Some(role.to_owned()), 1)
    };
    // Touches are [y, x].
    assert_eq!(target([0.14, 0.27]), expected("2", "Inner", "TEXT"));
    assert_eq!(target([0.14, 0.5]), expected("0", "Set up", "TEXT"));
    // Elements without a text are named by the instruction, as is a tap on none.
    assert_eq!(target([0.3, 0.1]), expected("1", "Clock app", "ICON_HOME"));
    assert_eq!(target([0.9, 0.9]), (None, Some("Clock app".to_owned()), None, 0));
}

#[test]
fn without_the_screenshot_a_tap_has_no_element() {
    let step = one(&gesture_step([0.14, 0.27], [0.14, 0.27]));
    assert_eq!((step.screen.size, step.screen.screenshot_found), (None, false));
    assert_eq!(step.screen.elements.len(), 4);
    assert_eq!((step.action.target.element, step.action.target.boxes), (None, vec![]));
    assert_eq!(step.action.target.name.as_deref(), Some("Clock app"));
}

#[test]
fn a_screenshot_that_is_not_the_annotated_one_is_refused() {
    let (folder, own) = laid_out(&[step(0, 1, 6)], [100, 40]);
    let refused = |options| {
        let (episodes, rejects) = read_with(Format::Aitz, folder.path(), options).expect("discovered");
        assert_eq!(episodes, []);
        (rejects[0].key.clone(), rejects[0].kind, rejects[0].reason.clone())
    };
    let (key, kind, reason) = refused(AdapterOptions::default());
    assert_eq!((key.as_str(), kind), ("steps[0]", RejectKind::OutOfRange));
    assert!(reason.contains("`ui_positions`: [3]") && reason.contains("100 × 40 pixels"), "{reason}");
    std::fs::write(own.join(format!("{NAME}_0.png")), b"no picture").expect("written");
    assert_eq!(refused(AdapterOptions::default()).1, RejectKind::Unreadable);
    std::fs::remove_file(own.join(format!("{NAME}_0.png"))).expect("removed");
    assert_eq!(refused(AdapterOptions { require_screenshots: true }).1, RejectKind::MissingScreenshot);
}

#[test]
fn steps_are_put_in_order_and_none_may_be_missing() {
    let (episodes, _) = read(&[step(1, 2, 10), step(0, 2, 6)]);
    let keys: Vec<_> = episodes[0].steps.iter().map(|s| (s.step, s.source_key.as_str())).collect();
    assert_eq!(keys, [(0, "steps[1]"), (1, "steps[0]")]);
    assert_eq!(episodes[0].outcome, Outcome::Success);
    let refused = |steps: &[Value]| {
        let (episodes, rejects) = read(steps);
        assert_eq!((episodes.len(), rejects.len()), (0, 1));
        assert_eq!(rejects[0].episode_id, Some(format!("aitz:{NAME}")));
        (rejects[0].key.clone(), rejects[0].kind, rejects[0].reason.clone())
    };
    let (key, kind, reason) = refused(&[step(0, 2, 6), step(0, 2, 6)]);
    assert_eq!((key.as_str(), kind), ("steps[1]", RejectKind::OutOfRange));
    assert!(reason.contains("`step_id` 0 where 1 is due"), "{reason}");
    assert_eq!(refused(&[step(0, 2, 6), step(2, 2, 6)]).0, "steps[1]");
    let (key, _, reason) = refused(&[step(0, 3, 6), step(1, 3, 6)]);
    assert!(key.is_empty() && reason.contains("`episode_length` is 3, but the file has 2"), "{reason}");
    let mut other = step(1, 2, 6);
    other["episode_id"] = json!("7");
    assert_eq!(refused(&[step(0, 2, 6), other]).0, "steps[1]");
}

#[test]
fn bad_steps_refuse_the_episode() {
    for (field, value, kind) in [
        ("result_action_type", json!(2), RejectKind::OutOfRange),
        ("result_action_type", json!("4"), RejectKind::MissingField),
        ("result_touch_yx", json!("[0.5, 1.5]"), RejectKind::OutOfRange),
        ("result_touch_yx", json!("[-1.0, -1.0]"), RejectKind::OutOfRange),
        ("result_touch_yx", json!("[0.5]"), RejectKind::MissingField),
        ("result_touch_yx", json!("[0.5, "), RejectKind::Malformed),
        ("result_lift_yx", Value::Null, RejectKind::MissingField),
        ("ui_positions", json!("[[1, 2, 3, 4]]"), RejectKind::OutOfRange),
        (
            "ui_positions",
            json!("[[1, 2, -3, 4], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]"),
            RejectKind::OutOfRange,
        ),
        (
            "ui_positions",
            json!("[[1, 2, 3], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]"),
            RejectKind::MissingField,
        ),
        (
            "ui_positions",
            json!("[[0.1, 0.2, 0.3, 0.4], [0, 0, 0.5, 1], [0, 0, 1, 1], [0, 0, 1, 1]]"),
            RejectKind::OutOfRange,
        ),
        ("ui_text", json!("{}"), RejectKind::MissingField),
        ("ui_types", json!("[1, 2, 3, 4]"), RejectKind::MissingField),
        ("image_path", json!("../../x.png"), RejectKind::UnsafePath),
        ("image_path", Value::Null, RejectKind::MissingField),
        ("step_id", json!("0"), RejectKind::MissingField),
        ("coat_action_result", json!(5), RejectKind::MissingField),
    ] {
        let mut step = gesture_step([0.5, 0.5], [0.5, 0.5]);
        step[field] = value.clone();
        let (episodes, rejects) = read(&[step]);
        assert_eq!((episodes.len(), kinds(&rejects)), (0, vec![("steps[0]", kind)]), "{field}: {value}");
        let named = rejects[0].reason.contains(field) || kind == RejectKind::UnsafePath;
        assert!(named || rejects[0].reason.contains("ui_"), "{field}: {}", rejects[0].reason);
    }
    let mut not_utf8 = json!([step(0, 1, 6)]).to_string().into_bytes();
    not_utf8.extend(b"\xff");
    let first = |content: &[u8]| kinds(&read_bytes(Format::Aitz, "a.json", content).1)[0].1;
    assert_eq!(first(&not_utf8), RejectKind::NotUtf8);
    assert_eq!(first(b""), RejectKind::Malformed);
    assert_eq!(first(b"[]"), RejectKind::Empty);
    assert_eq!(first(br#"{"episode_id": "1", "result_action_type": 3}"#), RejectKind::Empty);
    let twice = json!([step(0, 1, 6)]).to_string().replacen("\"step_id\"", "\"step_id\":0,\"step_id\"", 1);
    assert_eq!(first(twice.as_bytes()), RejectKind::Malformed);
}

#[test]
fn the_real_episode_is_read_whole() {
    let Some(path) = real_data("aitz") else { return };
    let (episodes, rejects) = read_all(Format::Aitz, &path);
    assert_eq!(rejects, []);
    assert_eq!(episodes.len(), 1);
    let episode = &episodes[0];
    assert_eq!(episode.episode_id, format!("aitz:{NAME}"));
    let verbs: Vec<_> = episode.steps.iter().map(|s| s.action.verb).collect();
    assert_eq!(verbs, [Verb::Home, Verb::Scroll, Verb::Click, Verb::Complete]);
    // Counted in the file.
    let elements: Vec<_> = episode.steps.iter().map(|s| s.screen.elements.len()).collect();
    assert_eq!(elements, [15, 14, 42, 11]);
    let size = ScreenSize { width_px: 270, height_px: 600 };
    for step in &episode.steps {
        assert!(step.screen.screenshot_found && step.screen.size == Some(size));
        let inside = |b: BBox| b.right <= 270.0 && b.bottom <= 600.0;
        assert!(step.screen.elements.iter().all(|e| e.bbox.is_some_and(inside)));
    }
    // The annotator says "scroll up" of a finger that moves up; the list's end comes into view.
    let scroll = &episode.steps[1].action;
    assert_eq!((scroll.direction, scroll.source_direction.as_deref()), (Some(Direction::Down), Some("up")));
    // The tap on the Clock's icon, which was not detected; its label below it was, as "Cleck".
    let tap = &episode.steps[2];
    assert_eq!(tap.action.target.element, None);
    assert_eq!(tap.action.target.name.as_deref(), Some("Clock app"));
    let label = smallest_around(&tap.screen.elements, 163.9, 323.0).expect("the label");
    assert_eq!(label.text, "Cleck");
    let at = tap.action.point.and_then(|p| p.to_pixels(Some(size))).map(Position::from);
    assert!(at.is_some_and(|p| (p.x - 163.9).abs() < 0.1
        && (p.y - 299.0).abs() < 0.1
        && p.frame == pixels(0.0, 0.0).frame));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_never_panic(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((episodes, rejects)) = try_bytes(Format::Aitz, "a.json", &content) {
            prop_assert!(episodes.is_empty() && !rejects.is_empty());
        }
    }

    #[test]
    fn a_cut_off_file_is_one_reject(share in 0.0_f64..1.0) {
        let whole = json!([step(0, 2, 6), step(1, 2, 10)]).to_string();
        let cut = (whole.len() as f64 * share) as usize;
        let (episodes, rejects) = try_bytes(Format::Aitz, "a.json", &whole.as_bytes()[..cut]).expect("read");
        prop_assert_eq!((episodes.len(), kinds(&rejects)), (0, vec![("", RejectKind::Malformed)]));
    }

    #[test]
    fn content_and_finger_are_opposite(
        touch in [0.0_f64..=1.0, 0.0..=1.0],
        lift in [0.0_f64..=1.0, 0.0..=1.0],
    ) {
        let action = one(&gesture_step(touch, lift)).action;
        let finger = action.source_direction.as_deref().map(|word| word.parse::<Direction>().expect("a direction"));
        prop_assert_eq!(action.direction, finger.map(Direction::opposite));
        prop_assert_eq!(finger.is_some(), action.verb == Verb::Scroll);
    }
}
