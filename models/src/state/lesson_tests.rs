use tracemill_data::action::{Action, Pixels, Point, ScreenSize};
use tracemill_data::trace::{Episode, Format, Outcome, Platform, Step};

use super::*;

/// A step: verb, value, target role and name, place, how its screen changed, and the screen it acted on.
type Told<'a> = (Verb, &'a str, (&'a str, &'a str), f64, &'a str, &'a str);

fn trajectory(instruction: &str, told: &[Told<'_>]) -> (EpisodeRow, Vec<StepRow>, Vec<StateStep>) {
    let steps = told.iter().enumerate().map(|(i, (verb, text, (role, name), x, ..))| {
        let mut action = Action::new(*verb, "");
        action.text = Some((*text).to_owned()).filter(|t| !t.is_empty());
        action.point = (*x >= 0.0).then(|| Point::<Pixels>::new(*x, 50.0).into());
        action.target.role = Some((*role).to_owned()).filter(|t| !t.is_empty());
        action.target.name = Some((*name).to_owned()).filter(|t| !t.is_empty());
        let mut step = Step::new(i as u32, "", action);
        step.screen.size = Some(ScreenSize { width_px: 1000, height_px: 1000 });
        step
    });
    let episode = Episode {
        episode_id: "e".to_owned(),
        format: Format::Aitz,
        source: String::new(),
        source_key: String::new(),
        platform: Platform::Mobile,
        instruction: instruction.to_owned(),
        apps: vec!["Clock".to_owned()],
        domain: None,
        outcome: Outcome::Unknown,
        split: None,
        extra: None,
        steps: steps.collect(),
    };
    let states = told.iter().enumerate().map(|(i, (.., change, screen))| StateStep {
        episode_id: "e".to_owned(),
        step: i as u32,
        action: String::new(),
        change: (*change).to_owned(),
        seen_in: "pixels".to_owned(),
        left_px: None,
        top_px: None,
        right_px: None,
        bottom_px: None,
        share: None,
        changed_share: None,
        crop_before: None,
        crop_after: None,
        screen_hash: Some((*screen).to_owned()),
        width_px: None,
        height_px: None,
        text: String::new(),
        outcome: match *change {
            "none" => StepOutcome::Failure,
            "region" => StepOutcome::Success,
            _ => StepOutcome::Unknown,
        },
        evidence: String::new(),
        labeler: String::new(),
    });
    let states = states.collect();
    let (episode, steps) = episode.into_rows();
    (episode, steps, states)
}

fn lessons(instruction: &str, told: &[Told<'_>]) -> Vec<Lesson> {
    let (episode, steps, states) = trajectory(instruction, told);
    induce(Trajectory { episode: &episode, steps: &steps, states: &states }, 3)
}

const SWITCH: (&str, &str) = ("switch", "Alarm");
const ADD: (&str, &str) = ("button", "Add");

#[test]
fn repeated_attempts_and_what_worked_instead() {
    let told = [
        (Verb::Click, "", SWITCH, 10.0, "none", "a"),
        (Verb::Wait, "", ("", ""), -1.0, "none", "a"),
        (Verb::Click, "", SWITCH, 12.0, "none", "a"),
        (Verb::Click, "", ADD, 500.0, "region", "a"),
    ];
    let found = lessons("Wake me at 7:30", &told);
    let [one] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(
        (one.lesson_id.as_str(), one.kind, one.domain.as_str()),
        ("e!1", LessonKind::Failure, "Clock")
    );
    assert_eq!(
        one.text,
        "In Clock: DON'T keep tapping the \"Alarm\" switch when the screen does not change: tried 2 times in a row without effect. Tapping the \"Add\" button worked instead."
    );
    assert_eq!(one.evidence_steps, [0, 2, 3]);
    assert_eq!(one.made_by, "lesson-rules@1:repeat");
}

#[test]
fn what_was_tried_once_was_not_seen_or_led_nowhere_is_no_lesson() {
    let once = (Verb::Click, "", SWITCH, 10.0, "none", "a");
    let worked = (Verb::Click, "", ADD, 500.0, "region", "a");
    assert!(lessons("Wake me", &[once, worked]).is_empty(), "one attempt");
    let unseen = (Verb::Click, "", SWITCH, 10.0, "same_picture", "a");
    assert!(lessons("Wake me", &[unseen, unseen, worked]).is_empty(), "nothing was seen");
    assert!(lessons("Wake me", &[once, once]).is_empty(), "no alternative");
    assert!(lessons("", &[once, once, worked]).is_empty(), "no task");
    let other = (Verb::Click, "", ("switch", "Vibrate"), 400.0, "none", "a");
    assert!(lessons("Wake me", &[once, other, worked]).is_empty(), "two attempts at two things");
    let nameless = (Verb::Click, "", ("", ""), 500.0, "region", "a");
    let lost = (Verb::Click, "", ("", ""), 10.0, "none", "a");
    assert!(lessons("Wake me", &[lost, lost, nameless]).is_empty(), "both sides read alike");
}

#[test]
fn another_gesture_in_the_same_place() {
    let told = [
        (Verb::Click, "", ("icon", "Files"), 10.0, "none", "a"),
        (Verb::DoubleClick, "", ("icon", "Files"), 12.0, "region", "a"),
    ];
    let found = lessons("Look for a letter", &told);
    assert_eq!(
        found[0].text,
        "In Clock: Double-clicking the \"Files\" icon worked where tapping the \"Files\" icon had no effect."
    );
    assert_eq!((found[0].kind, found[0].evidence_steps.as_slice()), (LessonKind::Success, &[0, 1][..]));
}

#[test]
fn a_way_that_was_gone_back() {
    let told = |returned: &'static str| {
        [
            (Verb::Click, "", ("tab", "Bedtime"), 10.0, "region", "a"),
            (Verb::Back, "", ("", ""), -1.0, "region", "b"),
            (Verb::Click, "", ("tab", "World"), 500.0, "region", returned),
            (Verb::Click, "", ADD, 700.0, "region", "c"),
        ]
    };
    let found = lessons("Wake me", &told("a"));
    assert_eq!(
        found[0].text,
        "In Clock: Tapping the \"Bedtime\" tab led away from the task and was taken back; tapping the \"World\" tab on the same screen went on."
    );
    assert_eq!(found[0].evidence_steps, [0, 1, 2]);
    assert!(lessons("Wake me", &told("d")).is_empty(), "back to another screen");
}

#[test]
fn values_of_the_task_are_not_told() {
    let told = [
        (Verb::Click, "", ("button", "Berlin"), 10.0, "none", "a"),
        (Verb::Click, "", ("button", "Berlin"), 10.0, "none", "a"),
        (Verb::Type, "Berlin", ("field", "City 1"), 500.0, "region", "a"),
    ];
    let found = lessons("Show the time of Berlin", &told);
    assert!(!found[0].text.contains("Berlin") && !found[0].text.contains("City"), "{}", found[0].text);
    let (episode, steps, _) = trajectory("Note \"milk\" for 8:00", &told);
    assert_eq!(literals(&episode, &steps), ["8:00", "berlin", "milk"]);
}

#[test]
fn a_sequence_that_worked_twice_with_other_values() {
    let row = |text, x| {
        [
            (Verb::Click, "", ("field", ""), x, "region", "a"),
            (Verb::Type, text, ("", ""), -1.0, "region", "a"),
            (Verb::Press, "enter", ("", ""), -1.0, "region", "a"),
        ]
    };
    let told: Vec<Told<'_>> = row("one", 10.0).into_iter().chain(row("two", 300.0)).collect();
    let found = lessons("Fill in the form", &told);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].text,
        "In Clock: Tapping a field, then typing the text, then pressing enter worked 2 times."
    );
    assert_eq!(found[0].evidence_steps, [0, 1, 2, 3, 4, 5]);
    let nameless = |text| {
        [(Verb::Click, "", ("", ""), 10.0, "region", "a"), (Verb::Type, text, ("", ""), -1.0, "region", "a")]
    };
    let told: Vec<Told<'_>> = nameless("one").into_iter().chain(nameless("two")).collect();
    assert!(lessons("Fill in the form", &told).is_empty(), "true of everything");
    let same: Vec<Told<'_>> = row("one", 10.0).into_iter().chain(row("one", 10.0)).collect();
    assert!(lessons("Fill in the form", &same).is_empty(), "the very same steps again are a retry");
}

#[test]
fn at_most_three_lessons_of_a_trajectory() {
    let names = ["One", "Two", "Three", "Four", "Five"];
    let told = names.iter().enumerate().flat_map(|(i, name)| {
        let stuck = (Verb::Click, "", ("switch", *name), 100.0 * i as f64, "none", "a");
        [stuck, stuck, (Verb::Click, "", ADD, 900.0, "region", "a")]
    });
    assert_eq!(lessons("Wake me", &told.collect::<Vec<_>>()).len(), 3);
}
