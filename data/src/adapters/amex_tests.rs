use proptest::prelude::*;
use serde_json::json;

use super::super::testing::{fixture, kinds, pixels, read_all, read_bytes, read_with, try_bytes};
use super::*;
use crate::trace::Reject;

fn good() -> Vec<Episode> {
    let (episodes, rejects) = read_all(Format::Amex, &fixture("amex"));
    assert_eq!(rejects, []);
    episodes
}

fn step_of(action: &str) -> Value {
    json!({
        "step_id": 0, "action": action, "image_path": "a_0.png", "touch_coord": [50, 60], "lift_coord": [50, 20],
        "type_text": "text", "device_dim": [100, 200], "package_name": "a.b",
    })
}

fn episode_of(steps: &[Value]) -> Value {
    json!({"episode_id": "e1", "instruction": "Do it.", "steps": steps})
}

fn read(steps: &[Value]) -> (Vec<Episode>, Vec<Reject>) {
    read_bytes(Format::Amex, "e1.json", episode_of(steps).to_string().as_bytes())
}

/// An input folder with an episode of `step`, the annotation `elements` of its screen, and a screenshot
/// of `size` where one is given. `nested` puts each into a second folder of the same name.
fn laid_out(step: &Value, elements: &str, size: Option<[u32; 2]>, nested: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    let place = |name: &str, file: &str| {
        let own = folder.path().join(name);
        let own = if nested { own.join(name) } else { own };
        std::fs::create_dir_all(&own).expect("made");
        own.join(file)
    };
    let episode = episode_of(std::slice::from_ref(step)).to_string();
    std::fs::write(place("instruction_anno", "e1.json"), episode).expect("written");
    std::fs::write(place("element_anno", "a_0.json"), elements).expect("written");
    if let Some([width, height]) = size {
        image::RgbImage::new(width, height).save(place("screenshot", "a_0.png")).expect("written");
    }
    folder
}

const ELEMENTS: &str =
    r#"{"clickable_elements": [{"bbox": [0, 0, 90, 90], "xml_desc": ["OK"]}], "scrollable_elements": []}"#;

#[test]
fn an_episode_keeps_what_the_source_says() {
    let episodes = good();
    let [bare, settings] = &episodes[..] else { panic!("two episodes") };
    assert_eq!((bare.episode_id.as_str(), settings.episode_id.as_str()), ("amex:17", "amex:9f3a0c"));
    assert_eq!(settings.source, "amex/instruction_anno/settings.json");
    assert_eq!((bare.outcome, settings.outcome), (Outcome::Failure, Outcome::Success));
    assert!(settings.instruction.starts_with("Open the settings"));
    assert_eq!(settings.apps, ["com.android.settings", "com.google.android.apps.nexuslauncher"]);
    let verbs: Vec<_> = settings.steps.iter().map(|s| s.action.verb.name()).collect();
    assert_eq!(verbs, ["click", "type", "press", "scroll", "scroll", "back", "home", "complete"]);
    assert_eq!(settings.steps[1].action.text.as_deref(), Some("battery saver"));
    assert_eq!(settings.steps[2].action.text.as_deref(), Some("enter"));
    let step = &settings.steps[0];
    assert_eq!(step.action.point, Some(pixels(540.0, 300.0)));
    assert_eq!(step.screen.size, Some(ScreenSize { width_px: 1080, height_px: 2400 }));
    assert_eq!(step.screen.screenshot.as_deref(), Some("settings_1.png"));
    assert_eq!(step.description.as_deref(), Some("The settings with a search field on top."));
    assert_eq!(step.app.as_deref(), Some("com.android.settings"));
}

#[test]
fn the_annotation_gives_the_elements() {
    let elements = &good()[1].steps[0].screen.elements;
    let flat: Vec<_> =
        elements.iter().map(|e| format!("{} {} {:?} {:?}", e.id, e.role, e.text, e.states)).collect();
    assert_eq!(
        flat,
        [
            r#"0 clickable "" ["functionality=the list of settings"]"#,
            r#"1 clickable "Search settings\nSearch" ["functionality=search for a setting"]"#,
            r#"2 clickable "" ["functionality=open the profile"]"#,
            r#"3 scrollable "strip" []"#,
        ]
    );
    assert_eq!(elements[1].bbox.map(|b| (b.left, b.bottom)), Some((40.0, 380.0)));
    assert_eq!(good()[1].steps[1].screen.elements, []);
}

#[test]
fn a_tap_is_on_the_smallest_clickable_element() {
    let episodes = good();
    // The scrollable strip is smaller, but cannot be tapped.
    let target = &episodes[1].steps[0].action.target;
    assert_eq!((target.element.as_deref(), target.role.as_deref()), (Some("1"), Some("clickable")));
    assert_eq!((target.name.as_deref(), target.boxes.len()), (Some("Search settings"), 1));
    // An element without a text is named by its function.
    let target = &episodes[0].steps[1].action.target;
    assert_eq!((target.element.as_deref(), target.name.as_deref()), (Some("0"), Some("go back")));
    let away = json!([95, 95]);
    let mut step = step_of("TAP");
    step["touch_coord"] = away;
    let folder = laid_out(&step, ELEMENTS, None, false);
    assert_eq!(
        read_all(Format::Amex, folder.path()).0[0].steps[0].action.target,
        crate::action::Target::default()
    );
}

#[test]
fn a_swipe_is_vertical_by_shares_of_the_screen() {
    let swipe = |step: &Step| {
        let Action { direction, source_direction, point, end, .. } = step.action.clone();
        (direction, source_direction.unwrap_or_default(), point.map(|p| p.y), end.map(|p| p.y))
    };
    let episodes = good();
    // 440 of 2400 pixels is less than 200 of 1080, and 445 is more.
    let steps = &episodes[1].steps;
    assert_eq!(swipe(&steps[3]), (Some(Direction::Left), "right".to_owned(), Some(1500.0), Some(1060.0)));
    assert_eq!(swipe(&steps[4]), (Some(Direction::Down), "up".to_owned(), Some(1500.0), Some(1055.0)));
    assert_eq!(swipe(&episodes[0].steps[0]).1, "left");
}

#[test]
fn without_a_size_only_a_clear_swipe_has_a_direction() {
    let read_swipe = |lift: [i64; 2]| {
        let mut step = step_of("SWIPE");
        step["touch_coord"] = json!([500, 500]);
        step["lift_coord"] = json!(lift);
        step["device_dim"] = Value::Null;
        let (episodes, rejects) = read(&[step]);
        match episodes.first() {
            Some(episode) => Ok(episode.steps[0].action.source_direction.clone().unwrap_or_default()),
            None => Err((rejects[0].kind, rejects[0].reason.clone())),
        }
    };
    assert_eq!(read_swipe([500, 100]), Ok("up".to_owned()));
    assert_eq!(read_swipe([600, 750]), Ok("down".to_owned()));
    assert_eq!(read_swipe([250, 600]), Ok("left".to_owned()));
    let (kind, reason) = read_swipe([600, 749]).expect_err("uncertain");
    assert_eq!(kind, RejectKind::MissingScreenshot);
    assert!(reason.contains("(100, 249) pixels") && reason.contains("add the screenshots"), "{reason}");
    assert_eq!(read_swipe([500, 500]).expect_err("no swipe").0, RejectKind::OutOfRange);
}

#[test]
fn the_screenshot_gives_the_size_where_the_step_does_not() {
    let mut step = step_of("SWIPE");
    step["lift_coord"] = json!([60, 84]);
    step["device_dim"] = Value::Null;
    for nested in [false, true] {
        let folder = laid_out(&step, ELEMENTS, Some([100, 210]), nested);
        let (episodes, rejects) = read_all(Format::Amex, folder.path());
        assert_eq!(rejects, []);
        let step = &episodes[0].steps[0];
        // 24 of 210 is more than 10 of 100.
        assert_eq!(step.action.source_direction.as_deref(), Some("down"));
        assert_eq!(step.screen.size, Some(ScreenSize { width_px: 100, height_px: 210 }));
        assert!(step.screen.screenshot_found);
        assert_eq!(step.screen.elements.len(), 1);
    }
    let folder = laid_out(&step_of("TAP"), ELEMENTS, Some([50, 100]), false);
    let (_, rejects) = read_all(Format::Amex, folder.path());
    assert_eq!(kinds(&rejects), [("steps[0]", RejectKind::OutOfRange)]);
    assert!(rejects[0].reason.contains("`device_dim` is 100 × 200, but the screenshot has 50 × 100"));
}

#[test]
fn bad_annotations_refuse_the_episode() {
    let clickable =
        |element: &str| format!(r#"{{"clickable_elements": [{element}], "scrollable_elements": []}}"#);
    for (elements, kind, reason) in [
        (String::new(), RejectKind::Malformed, "cut off"),
        ("[]".to_owned(), RejectKind::Malformed, "expected a JSON object"),
        (r#"{"clickable_elements": []}"#.to_owned(), RejectKind::MissingField, "`scrollable_elements`"),
        (clickable("{}"), RejectKind::MissingField, "clickable_elements[0]: field `bbox` is missing"),
        (clickable(r#"{"bbox": [9, 0, 1, 5]}"#), RejectKind::OutOfRange, "crossed edges"),
        (clickable(r#"{"bbox": [0, 0, 1, 5], "xml_desc": "OK"}"#), RejectKind::MissingField, "`xml_desc`"),
        (
            clickable(r#"{"bbox": [0, 0, 1, 5], "functionality": 5}"#),
            RejectKind::MissingField,
            "`functionality`",
        ),
    ] {
        let folder = laid_out(&step_of("TAP"), &elements, None, false);
        let (episodes, rejects) = read_all(Format::Amex, folder.path());
        assert_eq!((episodes.len(), kinds(&rejects)), (0, vec![("steps[0]", kind)]), "{elements}");
        assert!(rejects[0].reason.contains("element_anno/a_0.json"), "{}", rejects[0].reason);
        assert!(rejects[0].reason.contains(reason), "{}", rejects[0].reason);
    }
}

#[test]
fn bad_steps_refuse_the_episode() {
    for (action, field, value, kind) in [
        ("PINCH", "type_text", json!(""), RejectKind::OutOfRange),
        ("TAP", "action", json!(4), RejectKind::MissingField),
        ("TAP", "touch_coord", json!([101, 5]), RejectKind::OutOfRange),
        ("TAP", "touch_coord", json!([5, -1]), RejectKind::OutOfRange),
        ("TAP", "touch_coord", json!([5]), RejectKind::MissingField),
        ("TAP", "touch_coord", Value::Null, RejectKind::MissingField),
        ("SWIPE", "lift_coord", json!("50, 20"), RejectKind::MissingField),
        ("SWIPE", "lift_coord", json!([50, 201]), RejectKind::OutOfRange),
        ("TYPE", "type_text", Value::Null, RejectKind::MissingField),
        ("TAP", "device_dim", json!([100]), RejectKind::OutOfRange),
        ("TAP", "device_dim", json!([0, 200]), RejectKind::OutOfRange),
        ("TAP", "device_dim", json!("100x200"), RejectKind::OutOfRange),
        ("TAP", "image_path", Value::Null, RejectKind::MissingField),
        ("TAP", "image_path", json!("../a_0.png"), RejectKind::UnsafePath),
        ("TAP", "package_name", json!(1), RejectKind::MissingField),
        ("TAP", "step_id", json!("first"), RejectKind::MissingField),
    ] {
        let mut step = step_of(action);
        step["step_id"] = json!(1);
        step[field] = value.clone();
        let (episodes, rejects) = read(&[step_of("TAP"), step]);
        assert_eq!((episodes.len(), kinds(&rejects)), (0, vec![("steps[1]", kind)]), "{field}: {value}");
        assert_eq!(rejects[0].episode_id.as_deref(), Some("amex:e1"));
    }
    let (_, rejects) = read(&[step_of("PINCH")]);
    assert!(rejects[0].reason.contains("`PINCH`") && rejects[0].reason.contains("TASK_IMPOSSIBLE"));
}

#[test]
fn step_numbers_count_on_from_the_first() {
    let numbered = |numbers: &[i64]| {
        let steps: Vec<Value> = numbers
            .iter()
            .map(|number| {
                let mut step = step_of("PRESS_HOME");
                step["step_id"] = json!(number);
                step
            })
            .collect();
        read(&steps).1.into_iter().map(|r| (r.key, r.kind, r.reason)).next()
    };
    assert_eq!(numbered(&[5, 6, 7]), None);
    assert_eq!(numbered(&[i64::MIN]), None);
    for (numbers, place) in
        [(&[1, 3][..], "steps[1]"), (&[1, 2, 2], "steps[2]"), (&[i64::MAX, 0], "steps[1]")]
    {
        let (key, kind, reason) = numbered(numbers).expect("refused");
        assert_eq!((key.as_str(), kind), (place, RejectKind::OutOfRange));
        assert!(reason.contains("a step is missing or doubled"), "{reason}");
    }
}

#[test]
fn bad_files_are_refused() {
    let first = |content: &[u8]| kinds(&read_bytes(Format::Amex, "e1.json", content).1)[0].1;
    assert_eq!(first(b""), RejectKind::Malformed);
    assert_eq!(first(b"[]"), RejectKind::Malformed);
    assert_eq!(first(b"{\"episode_id\": \"\xff\"}"), RejectKind::NotUtf8);
    assert_eq!(first(br#"{"episode_id": "1", "steps": []}"#), RejectKind::MissingField);
    assert_eq!(first(br#"{"episode_id": "1", "instruction": "i", "steps": []}"#), RejectKind::Empty);
    assert_eq!(first(br#"{"episode_id": "1", "instruction": "i", "steps": {}}"#), RejectKind::MissingField);
    assert_eq!(first(br#"{"episode_id": "1", "instruction": "i", "steps": [1]}"#), RejectKind::Malformed);
    assert_eq!(
        first(br#"{"episode_id": "1", "episode_id": "1", "instruction": "i", "steps": []}"#),
        RejectKind::Malformed
    );
    assert_eq!(first(br#"{"episode_id": null, "instruction": "i", "steps": []}"#), RejectKind::MissingField);
}

#[test]
fn screenshots_may_be_required() {
    let strict = AdapterOptions { require_screenshots: true };
    let kind = |size| {
        let folder = laid_out(&step_of("TAP"), ELEMENTS, size, false);
        let (episodes, rejects) = read_with(Format::Amex, folder.path(), strict).expect("discovered");
        (episodes.len(), rejects.first().map(|r| r.kind))
    };
    assert_eq!(kind(None), (0, Some(RejectKind::MissingScreenshot)));
    assert_eq!(kind(Some([100, 200])), (1, None));
}

#[test]
fn annotations_are_read_along() {
    let read = |path: &str| Amex.reads_along(Path::new(path));
    assert!(read("AMEX/element_anno/a.json") && read("AMEX/element_anno/element_anno/a.json"));
    assert!(!read("AMEX/other/a.json"));
    let input = Input::new(&fixture("amex")).expect("exists");
    let items = Amex.discover(&input).expect("found");
    let names: Vec<_> = items.iter().filter_map(|i| i.path.file_name()).collect();
    assert_eq!(names, ["bare.json", "settings.json"]);
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_input_is_refused() {
    let outside = tempfile::tempdir().expect("temporary folder");
    std::fs::write(outside.path().join("a_0.json"), ELEMENTS).expect("written");
    let folder = laid_out(&step_of("TAP"), ELEMENTS, None, false);
    let annotation = folder.path().join("element_anno/a_0.json");
    std::fs::remove_file(&annotation).expect("removed");
    std::os::unix::fs::symlink(outside.path().join("a_0.json"), annotation).expect("linked");
    let (_, rejects) = read_all(Format::Amex, folder.path());
    assert_eq!(kinds(&rejects), [("steps[0]", RejectKind::UnsafePath)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_never_panic(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((episodes, rejects)) = try_bytes(Format::Amex, "e1.json", &content) {
            prop_assert!(episodes.is_empty() && !rejects.is_empty());
        }
    }

    #[test]
    fn what_is_certain_without_a_size_holds_for_every_phone(
        dx in -400_i64..400,
        dy in -400_i64..400,
        ratio in 0.4_f64..2.5,
    ) {
        let at = |dx: i64, dy: i64| pixels(500.0 + dx as f64, 500.0 + dy as f64);
        let size = ScreenSize { width_px: 1000, height_px: (1000.0 * ratio) as u32 };
        if let Ok(direction) = finger(at(0, 0), at(dx, dy), None) {
            prop_assert_eq!(finger(at(0, 0), at(dx, dy), Some(size)), Ok(direction));
        }
    }

    #[test]
    fn a_cut_off_file_is_one_reject(share in 0.0_f64..1.0) {
        let whole = episode_of(&[step_of("TAP")]).to_string();
        let cut = (whole.len() as f64 * share) as usize;
        let read = try_bytes(Format::Amex, "e1.json", &whole.as_bytes()[..cut]);
        let (episodes, rejects) = read.expect("a damaged file is read");
        prop_assert_eq!((episodes.len(), kinds(&rejects)), (0, vec![("", RejectKind::Malformed)]));
    }
}
