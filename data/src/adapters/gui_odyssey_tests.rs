use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::testing::{fixture, read_all, read_bytes, read_with, try_bytes};
use super::*;
use crate::action::FrameName;
use crate::trace::Reject;

fn good() -> Vec<Episode> {
    let (episodes, rejects) = read_all(Format::GuiOdyssey, &fixture("gui-odyssey"));
    assert_eq!(rejects, []);
    episodes
}

#[test]
fn every_action_becomes_its_verb() {
    let verbs: Vec<Vec<&str>> =
        good().iter().map(|e| e.steps.iter().map(|s| s.action.verb.name()).collect()).collect();
    assert_eq!(
        verbs,
        [
            vec!["click", "type", "scroll", "long_press", "home", "recents", "click", "complete"],
            vec!["back", "scroll", "scroll", "type", "impossible"],
            vec!["click"],
        ]
    );
}

#[test]
fn an_episode_keeps_what_the_source_says() {
    let episodes = good();
    let episode = &episodes[0];
    assert_eq!(episode.episode_id, "gui-odyssey:1000000000000001");
    assert_eq!(episode.source, "gui-odyssey/annotations/1000000000000001.json");
    assert_eq!(episode.apps, ["Maps", "Keep Notes"]);
    assert_eq!(episode.domain.as_deref(), Some("Multi_Apps"));
    assert!(episode.instruction.starts_with("Find the nearest museum"));
    let parts: Vec<_> = episodes.iter().map(|e| (e.outcome, e.split.as_deref())).collect();
    assert_eq!(
        parts,
        [
            (Outcome::Success, Some("train")),
            (Outcome::Failure, Some("test")),
            (Outcome::Unknown, Some("train")),
        ]
    );
    let extra: Value = serde_json::from_str(episode.extra.as_deref().expect("extra")).expect("JSON");
    assert_eq!(extra["splits"], json!({"device": "test", "task": "train"}));
    assert_eq!(extra["ps"], json!({"2": "[[500, 800], [505, 550], [510, 300]]", "7": "saved"}));
    assert_eq!(extra["device_info"]["device_name"], "Pixel 7 Pro");
}

#[test]
fn a_step_keeps_its_texts_coordinates_and_screen() {
    let episodes = good();
    let step = &episodes[0].steps[0];
    let point = step.action.point.expect("a point");
    assert_eq!((point.x, point.y, point.frame), (512.0, 431.0, FrameName::Thousandths));
    assert!(step.action.target.boxes[0].contains(point.x, point.y));
    assert_eq!(step.screen.size, Some(ScreenSize { width_px: 1440, height_px: 3120 }));
    assert_eq!(step.screen.screenshot.as_deref(), Some("1000000000000001_0.png"));
    assert!(!step.screen.screenshot_found);
    assert_eq!(step.instruction.as_deref(), Some("Open the Maps app."));
    assert_eq!(step.description.as_deref(), Some("The home screen shows several apps."));
    assert_eq!(step.thought.as_deref(), Some("I open Maps to look for a museum."));
    assert_eq!(step.context.as_deref(), Some("Task just started, nothing has been done."));
    assert_eq!(episodes[0].steps[4].action.source_verb, "CLICK/KEY_HOME");
    assert_eq!(episodes[1].steps[3].action.text.as_deref(), Some("tent for two: blue"));
}

#[test]
fn content_scrolls_against_the_finger() {
    let episodes = good();
    let scrolls = [&episodes[0].steps[2], &episodes[1].steps[1], &episodes[1].steps[2]];
    let directions: Vec<_> =
        scrolls.iter().map(|s| (s.action.direction, s.action.source_direction.as_deref())).collect();
    assert_eq!(
        directions,
        [(Some(Direction::Down), Some("up")), (Some(Direction::Right), Some("left")), (None, None)]
    );
    assert_eq!(scrolls[0].action.end.map(|p| p.y), Some(300.0));
}

#[test]
fn bad_files_are_refused_one_by_one() {
    let (episodes, rejects) = read_all(Format::GuiOdyssey, &fixture("gui-odyssey-bad"));
    let ids: Vec<_> = episodes.iter().map(|e| e.episode_id.as_str()).collect();
    assert_eq!(ids, ["gui-odyssey:good"]);
    let found: BTreeMap<&str, (&str, RejectKind)> = rejects
        .iter()
        .map(|r| (r.file.rsplit(['/', '.']).nth(1).unwrap_or(&r.file), (r.key.as_str(), r.kind)))
        .collect();
    let expected = [
        ("box_out_of_range", ("steps[0]", RejectKind::OutOfRange)),
        ("coordinate_out_of_range", ("steps[0]", RejectKind::OutOfRange)),
        ("cut_off", ("", RejectKind::Malformed)),
        ("empty_file", ("", RejectKind::Malformed)),
        ("malformed", ("", RejectKind::Malformed)),
        ("missing_episode_id", ("", RejectKind::MissingField)),
        ("missing_instruction", ("", RejectKind::MissingField)),
        ("mistyped_width", ("", RejectKind::MissingField)),
        ("negative_coordinate", ("steps[0]", RejectKind::OutOfRange)),
        ("no_steps", ("", RejectKind::Empty)),
        ("not_utf8", ("", RejectKind::NotUtf8)),
        ("scroll_without_end", ("steps[0]", RejectKind::MissingField)),
        ("unknown_action", ("steps[0]", RejectKind::OutOfRange)),
        ("unknown_key", ("steps[0]", RejectKind::OutOfRange)),
        ("unsafe_path", ("steps[0]", RejectKind::UnsafePath)),
        ("wrong_step_length", ("", RejectKind::OutOfRange)),
        ("wrong_step_number", ("steps[1]", RejectKind::OutOfRange)),
        ("zero_width", ("", RejectKind::OutOfRange)),
    ];
    assert_eq!(found, BTreeMap::from(expected));
    let reason = |name: &str| {
        let reject: Option<&Reject> = rejects.iter().find(|r| r.file.contains(name));
        reject.map(|r| r.reason.clone()).unwrap_or_default()
    };
    assert!(reason("unknown_action").contains("`PINCH`") && reason("unknown_action").contains("LONG_PRESS"));
    assert!(reason("cut_off").contains("cut off"));
    assert!(reason("mistyped_width").contains("device_info: field `w`"));
    assert_eq!(
        rejects.iter().find(|r| r.file.contains("no_steps")).and_then(|r| r.episode_id.as_deref()),
        Some("gui-odyssey:no_steps")
    );
}

/// A folder with one episode of one step, whose screenshot is called `screenshot`.
fn folder_with(screenshot: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    let text =
        std::fs::read_to_string(fixture("gui-odyssey/annotations/1000000000000003.json")).expect("fixture");
    for name in ["annotations", "screenshots"] {
        std::fs::create_dir(folder.path().join(name)).expect("made");
    }
    let text = text.replace("1000000000000003_0.png", screenshot);
    std::fs::write(folder.path().join("annotations/a.json"), text).expect("written");
    folder
}

#[test]
fn screenshots_are_found_beside_the_annotations() {
    let strict = AdapterOptions { require_screenshots: true };
    let folder = folder_with("a_0.png");
    let (_, rejects) = read_with(Format::GuiOdyssey, folder.path(), strict).expect("discovered");
    assert_eq!(rejects[0].kind, RejectKind::MissingScreenshot);
    std::fs::write(folder.path().join("screenshots/a_0.png"), b"").expect("written");
    let (episodes, _) = read_with(Format::GuiOdyssey, folder.path(), strict).expect("discovered");
    let screen = &episodes[0].steps[0].screen;
    assert_eq!((screen.screenshot.as_deref(), screen.screenshot_found), (Some("screenshots/a_0.png"), true));
}

#[test]
fn a_path_out_of_the_annotations_but_not_of_the_input_is_merely_absent() {
    let folder = folder_with("../screenshots/a_0.png");
    let (episodes, _) = read_all(Format::GuiOdyssey, folder.path());
    assert!(!episodes[0].steps[0].screen.screenshot_found);
    std::fs::write(folder.path().join("screenshots/a_0.png"), b"").expect("written");
    let (episodes, _) = read_all(Format::GuiOdyssey, folder.path());
    assert!(episodes[0].steps[0].screen.screenshot_found);
}

#[test]
fn absolute_paths_and_addresses_are_kept_unread() {
    for outside in ["/etc/hostname", "https://example.org/a.png", "file:///etc/hostname"] {
        let folder = folder_with(outside);
        let (episodes, rejects) = read_all(Format::GuiOdyssey, folder.path());
        assert_eq!(rejects, []);
        let screen = &episodes[0].steps[0].screen;
        assert_eq!((screen.screenshot.as_deref(), screen.screenshot_found), (Some(outside), false));
    }
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_input_is_unsafe() {
    let folder = folder_with("a_0.png");
    let outside = tempfile::NamedTempFile::new().expect("temporary file");
    std::os::unix::fs::symlink(outside.path(), folder.path().join("screenshots/a_0.png")).expect("linked");
    let (_, rejects) = read_all(Format::GuiOdyssey, folder.path());
    assert_eq!(rejects.first().map(|r| r.kind), Some(RejectKind::UnsafePath));
}

#[test]
fn a_damaged_split_file_is_refused_and_its_episodes_kept() {
    let folder = folder_with("a_0.png");
    std::fs::create_dir(folder.path().join("splits")).expect("made");
    std::fs::write(folder.path().join("splits/random_split.json"), "{\"train\": [").expect("written");
    let (episodes, rejects) = read_all(Format::GuiOdyssey, folder.path());
    assert_eq!((episodes.len(), rejects.len()), (1, 1));
    assert_eq!(episodes[0].split, None);
    assert!(rejects[0].file.ends_with("splits/random_split.json"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_cut_off_file_gives_a_reject(share in 0.0_f64..1.0) {
        let whole = std::fs::read(fixture("gui-odyssey/annotations/1000000000000001.json")).expect("fixture");
        // The last two bytes are a brace and a line break; without the latter the file is whole.
        let cut = ((whole.len() - 2) as f64 * share) as usize;
        let (episodes, rejects) = read_bytes(Format::GuiOdyssey, "a.json", &whole[..cut]);
        prop_assert_eq!((episodes.len(), rejects.len()), (0, 1));
    }

    #[test]
    fn changed_bytes_give_an_episode_or_a_reject(at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
        let mut content = std::fs::read(fixture("gui-odyssey/annotations/1000000000000001.json")).expect("fixture");
        let at = at.index(content.len());
        content[at] = byte;
        if let Ok((episodes, rejects)) = try_bytes(Format::GuiOdyssey, "a.json", &content) {
            prop_assert_eq!(episodes.len() + rejects.len(), 1);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((episodes, rejects)) = try_bytes(Format::GuiOdyssey, "a.json", &content) {
            prop_assert_eq!((episodes.len(), rejects.len()), (0, 1));
        }
    }
}
