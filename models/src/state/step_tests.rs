use tracemill_data::action::{Action, Pixels, Point, ScreenSize};
use tracemill_data::trace::{Episode, Format, Outcome, Platform, Step};

use super::super::element_change;
use super::*;

fn row(verb: Verb, text: Option<&str>, point: Option<(f64, f64)>) -> StepRow {
    let mut action = Action::new(verb, "");
    action.text = text.map(str::to_owned);
    action.point = point.map(|(x, y)| Point::<Pixels>::new(x, y).into());
    let mut step = Step::new(0, "", action);
    step.screen.size = Some(ScreenSize { width_px: 1000, height_px: 1000 });
    let episode = Episode {
        episode_id: "e".to_owned(),
        format: Format::Aitz,
        source: String::new(),
        source_key: String::new(),
        platform: Platform::Mobile,
        instruction: String::new(),
        apps: Vec::new(),
        domain: None,
        outcome: Outcome::Unknown,
        split: None,
        extra: None,
        steps: vec![step],
    };
    episode.into_rows().1.remove(0)
}

fn part(left_px: u32, top_px: u32, side: u32) -> Change {
    let region = Region { left_px, top_px, right_px: left_px + side, bottom_px: top_px + side };
    Change::Part { region: Some(region), share: Some(region.share(1000, 1000)), focus: None }
}

#[test]
fn a_click_without_effect_failed_and_a_wait_did_not() {
    let click = abstract_step(&row(Verb::Click, None, Some((5.0, 5.0))), Change::None, None);
    assert_eq!((click.text.as_str(), click.outcome), (NO_CHANGE, StepOutcome::Failure));
    for (verb, key) in [(Verb::Wait, None), (Verb::Copy, None), (Verb::Press, Some("Ctrl+C"))] {
        let quiet = abstract_step(&row(verb, key, None), Change::None, None);
        assert_eq!((quiet.text.as_str(), quiet.outcome), (NO_CHANGE, StepOutcome::Unknown), "{verb}");
    }
}

#[test]
fn a_small_change_counts_where_the_action_was() {
    let click = row(Verb::Click, None, Some((500.0, 500.0)));
    let near = abstract_step(&click, part(510, 510, 20), None);
    assert_eq!(near.outcome, StepOutcome::Success);
    assert_eq!(near.text, "Succeeded. The middle of the screen changed (under 0.1 %).");
    let away = abstract_step(&click, part(0, 0, 20), None);
    assert_eq!(away.outcome, StepOutcome::Unknown);
    assert_eq!(away.text, "The top left of the screen changed (under 0.1 %).");
    assert_eq!(abstract_step(&click, part(0, 0, 200), None).outcome, StepOutcome::Success, "a new panel");
}

#[test]
fn of_a_stretched_region_only_what_changed_counts() {
    let largest = Region { left_px: 900, top_px: 900, right_px: 932, bottom_px: 932 };
    let focus = Focus { share: 0.002, largest, distance_px: Some(500.0) };
    let region = Region::whole(1000, 1000);
    let told = |focus| {
        let change = Change::Part { region: Some(region), share: Some(1.0), focus };
        abstract_step(&row(Verb::Click, None, Some((500.0, 500.0))), change, None)
    };
    assert_eq!(told(Some(focus)).outcome, StepOutcome::Unknown, "a clock");
    assert_eq!(told(Some(focus)).text, "The bottom right of the screen changed (0.2 %).");
    assert_eq!(told(Some(Focus { distance_px: Some(NEAR_PX), ..focus })).outcome, StepOutcome::Success);
    assert_eq!(told(Some(Focus { distance_px: Some(NEAR_PX + 0.1), ..focus })).outcome, StepOutcome::Unknown);
}

#[test]
fn equal_elements_are_no_failure() {
    let told = abstract_step(&row(Verb::Click, None, None), Change::SameElements, None);
    assert_eq!((told.text.as_str(), told.outcome), (NO_CHANGE, StepOutcome::Unknown));
}

#[test]
fn what_was_not_seen_is_not_judged() {
    for unseen in [Unseen::Last, Unseen::SamePicture, Unseen::NoScreen, Unseen::Unreadable] {
        let told = abstract_step(&row(Verb::Click, None, None), Change::Unseen(unseen), None);
        assert_eq!((told.text.as_str(), told.outcome), ("", StepOutcome::Unknown));
    }
}

#[test]
fn messages_of_errors_are_failures_and_quoted() {
    let element = |role: &str, text: &str| Element {
        role: role.to_owned(),
        text: text.to_owned(),
        ..Element::default()
    };
    let before = vec![element("button", "Sign in")];
    let told = |role: &str, text: &str| {
        let after = vec![element("button", "Sign in"), element(role, text)];
        let change = element_change(&before, &after, None);
        let part = Change::Part { region: None, share: None, focus: None };
        abstract_step(&row(Verb::Click, None, None), part, Some((&before, &after, &change)))
    };
    let failed = told("alert", "Invalid password");
    assert_eq!(failed.outcome, StepOutcome::Failure);
    assert!(failed.text.starts_with("Failed. A message came up: \"Invalid password\""), "{}", failed.text);
    assert_eq!(told("alert", "Terror films").outcome, StepOutcome::Success, "a part of a word is none");
    assert_eq!(
        told("dialog", "Delete it? This cannot be undone, try again later").outcome,
        StepOutcome::Success,
        "a question"
    );
    assert_eq!(told("label", "Cannot connect to the server").outcome, StepOutcome::Failure);
    assert_eq!(told("link", "Error handling in Rust").outcome, StepOutcome::Success, "a link is no message");
}
