use proptest::prelude::*;

use super::*;

const SCREEN: Option<ScreenPixels> = Some(ScreenPixels { width: 840.0, height: 1876.0 });

fn truth(json: &str) -> Truth {
    serde_json::from_str(json).unwrap_or_else(|e| panic!("{json}: {e}"))
}

fn click() -> Truth {
    truth(r#"{"action": "click", "point": [531, 684], "bbox": [[289, 662], [774, 711]]}"#)
}

fn score(profile: &str, reply: &str, truth: &Truth) -> Score {
    let profile = Profile::named(profile).expect("known");
    match score_reply(profile, reply, truth, SCREEN) {
        Outcome::Score(score) => score,
        other => panic!("{reply}: {other:?}"),
    }
}

/// The golden table of the readings: the executor term, for ces-code, swirl and paper.
#[test]
fn the_golden_table_passes_in_every_profile() {
    let scroll = truth(r#"{"action": "scroll", "direction": "down"}"#);
    let ab = truth(r#"{"action": "type", "text": "a c"}"#);
    let york = truth(r#"{"action": "type", "text": "new york city usa"}"#);
    for (reply, truth, expected) in [
        ("click(point='(402, 683)')", &click(), [1.0, 1.0, 1.0]),
        ("click(point='(289, 662)')", &click(), [1.0, 1.0, 1.0]),
        ("click(point='(531, 800)')", &click(), [1.0, 1.0, 0.2]),
        ("click(point='(531, 1500)')", &click(), [0.2, 0.2, 0.2]),
        ("scroll(direction='up')", &scroll, [1.0, 0.2, 0.2]),
        ("type(content='a b')", &ab, [0.2, 0.2, 0.2]),
        ("type(content='new york')", &york, [1.0, 1.0, 1.0]),
    ] {
        let found = ["ces-code", "swirl", "paper"].map(|profile| score(profile, reply, truth).executor);
        assert_eq!(found, expected, "{reply}");
    }
}

#[test]
fn gui_r1_and_odyssey_have_rules_of_their_own() {
    let only_point = truth(r#"{"action": "click", "point": [531, 684]}"#);
    let param = |profile: &str, reply: &str, truth: &Truth| score(profile, reply, truth).param;
    assert_eq!(param("gui-r1", "click(point='(402, 683)')", &click()), 1.0);
    assert_eq!(param("gui-r1", "click(point='(289, 662)')", &click()), 0.0, "the edge is outside");
    assert_eq!(param("gui-r1", "click(point='(531, 800)')", &click()), 0.0);
    assert_eq!(param("gui-r1", "click(point='(531, 823)')", &only_point), 1.0);
    assert_eq!(param("gui-r1", "click(point='(531, 824)')", &only_point), 0.0);
    assert_eq!(param("odyssey", "CLICK: (531, 800)", &click()), 1.0);
    assert_eq!(
        score("odyssey", "<think>a</think><answer>CLICK: (531, 800)</answer>", &only_point).total,
        1.0
    );
    assert_eq!(param("odyssey", "SCROLL: UP", &truth(r#"{"action": "SCROLL", "direction": "up"}"#)), 1.0);
    let held = truth(r#"{"action": "long_press", "bbox": [0, 0, 1, 1]}"#);
    assert_eq!(param("gui-r1", "long_press(point='(402, 683)')", &held), 1.0, "only its type counts");
    assert_eq!(param("paper", "long_press(point='(402, 683)')", &held), 0.0);
    let turned = truth(r#"{"action": "click", "bbox": [774, 711, 289, 662]}"#);
    assert_eq!(param("paper", "click(point='(402, 683)')", &turned), 1.0, "corners the other way round");
    assert_eq!(score("gui-r1", "PRESS_HOME", &truth(r#"{"action": "press_home"}"#)).executor, 1.0);
}

#[test]
fn totals_weigh_form_and_execution() {
    let tagged = "<think>a</think><answer>click(point='(402, 683)')</answer>";
    let spaced = "<think>a</think>\n<answer>click(point='(402, 683)')</answer>";
    let bare = "click(point='(402, 683)')";
    for (profile, expected) in [("paper", [1.0, 1.0, 0.9]), ("ces-code", [1.0, 0.0, 0.9])] {
        let found = [tagged, spaced, bare].map(|reply| score(profile, reply, &click()).total);
        assert_eq!(found, expected, "{profile}");
    }
    let emptied = score("ces-code", spaced, &click());
    assert_eq!((emptied.executor, emptied.format), (1.0, 0.0), "{}", emptied.reason);
    let r1 = "<think>a</think><answer>[{'action': 'click', 'point': [402, 683], 'input_text': 'no input text'}]</answer>";
    assert_eq!(score("gui-r1", r1, &click()).total, 1.0);
    assert_eq!(score("gui-r1", tagged, &click()).total, 0.8);
}

#[test]
fn the_parameter_of_a_wrong_type_never_counts() {
    for profile in Profile::ALL {
        let found = score(profile.name, "long_press(point='(402, 683)')", &click());
        assert_eq!((found.type_term, found.param, found.executor), (0.0, 0.0, 0.0), "{}", profile.name);
    }
    let enter = truth(r#"{"action": "enter"}"#);
    assert_eq!(score("paper", "[{'action': 'close'}]", &enter).type_term, 0.0);
    assert_eq!(score("paper", "press_enter()", &enter).executor, 1.0);
}

#[test]
fn unparsable_replies_score_nothing_and_say_why() {
    for reply in ["", "I would click it", "click(point='nowhere')", "teleport()", "<answer></answer>"] {
        let found = score("paper", reply, &click());
        assert_eq!((found.total, found.executor, found.parsed), (0.0, 0.0, None), "{reply}");
        assert!(found.reason.starts_with("unparsable: "), "{}", found.reason);
    }
    let formed = score("paper", "<think>a</think><answer>what?</answer>", &click());
    assert_eq!((formed.format, formed.total), (1.0, 0.1));
}

#[test]
fn rows_without_truth_abstain_whatever_the_reply() {
    let abstains = |profile: &str, json: &str, screen| {
        let profile = Profile::named(profile).expect("known");
        let outcomes = ["press_home()", "nonsense"].map(|r| score_reply(profile, r, &truth(json), screen));
        outcomes.iter().all(|o| matches!(o, Outcome::Abstain { .. }))
    };
    assert!(abstains("paper", "{}", SCREEN));
    assert!(abstains("paper", r#"{"action": "teleport"}"#, SCREEN));
    assert!(abstains("paper", r#"{"action": "click"}"#, SCREEN));
    assert!(abstains("paper", r#"{"action": "click", "point": [1, 2]}"#, None));
    assert!(abstains("paper", r#"{"action": "scroll"}"#, SCREEN));
    assert!(!abstains("ces-code", r#"{"action": "scroll"}"#, SCREEN));
    assert!(abstains("paper", r#"{"action": "type"}"#, SCREEN));
    assert!(!abstains("paper", r#"{"action": "type", "text": ""}"#, SCREEN));
    assert!(!abstains("gui-r1", r#"{"action": "click", "point": [1, 2]}"#, None));
}

#[test]
fn elements_are_compared_with_elements() {
    let element = truth(r#"{"action": "click", "element": 7}"#);
    assert_eq!(score("paper", "click(element='7')", &element).executor, 1.0);
    assert_eq!(score("paper", "click(element=8)", &element).executor, 0.2);
    assert_eq!(score("paper", "click(point='(1, 2)')", &element).executor, 0.2);
    assert_eq!(score("paper", "click(element='7')", &click()).executor, 0.2);
}

#[test]
fn reasons_name_what_was_compared() {
    let reason = |profile: &str, reply: &str, truth: &Truth| score(profile, reply, truth).reason;
    assert_eq!(
        reason("ces-code", "click(point='(531, 800)')", &click()),
        "(531, 800) is outside every box and 0.062 of the screen from (531, 684); up to 0.14 counts"
    );
    assert_eq!(
        reason("paper", "click(point='(531, 800)')", &click()),
        "(531, 800) is outside [289, 662, 774, 711]"
    );
    assert_eq!(
        reason("paper", "press_home()", &click()),
        "press_home() where the truth is click: of a wrong type no parameter counts"
    );
    let home = truth(r#"{"action": "press_home"}"#);
    assert_eq!(reason("paper", "press_home()", &home), "home, which has no parameter to compare");
}

#[test]
fn agents_are_paid_for_their_form_and_for_what_was_executed() {
    let executed = |executor: f64| {
        let reply = if executor == 1.0 { "click(point='(402, 683)')" } else { "home()" };
        score_reply(Profile::named("paper").expect("known"), reply, &click(), SCREEN)
    };
    let reward = |name: &str, output: &str, tracker: bool, executor: f64| {
        let profile = Profile::named(name).expect("known");
        agent_reward(profile, output, tracker, &executed(executor)).expect("a score").total
    };
    let (formed, bare) = ("<think>a</think><answer>Tap Save</answer>", "Tap Save");
    assert_eq!(reward("paper", formed, false, 1.0), 1.0);
    assert_eq!(reward("paper", bare, false, 1.0), 0.9);
    assert_eq!(reward("paper", formed, true, 0.0), 0.1);
    assert_eq!(reward("ces-code", bare, false, 1.0), 0.0, "the instruction is empty");
    assert_eq!(reward("ces-code", bare, true, 1.0), 1.0, "the Tracker has no format term");
    let failed = Outcome::Error { reason: "timed out".to_owned() };
    assert_eq!(agent_reward(Profile::named("paper").expect("known"), formed, false, &failed), None);
}

/// Replies that are nearly right, and replies that are anything.
fn replies() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,80}",
        "(<think>)?[a-z]{0,3}(</think>)?[ \n]?(<answer>)?(click|scroll|type|home|x)\\((point=|element=|content=)?'?[-(0-9, a-z)é]{0,12}'?\\)?(</answer>)?",
        "(<tool_call>)?[\\[{ ]{1,3}['\"‘]?(action|name|arguments|point|coordinate)['\"’]?: ?[-\\[{'\"a-z0-9é, ]{0,24}[\\]}'\"]{0,4}",
    ]
}

fn truths() -> Vec<Truth> {
    vec![
        click(),
        truth(r#"{"action": "scroll", "direction": "down"}"#),
        truth(r#"{"action": "type", "text": "a é"}"#),
        truth(r#"{"action": "click", "element": "7"}"#),
        truth(r#"{"action": "press", "text": "ctrl+c"}"#),
        truth(r#"{"action": "long_press", "bbox": [5, 6, 1, 2], "point": [1e308, -1e308]}"#),
    ]
}

/// Every term of a score lies between 0 and 1, and the parameter never counts without the type.
fn check(profile: &Profile, reply: &str, truth: &Truth, screen: Option<ScreenPixels>) -> Result<(), String> {
    let Outcome::Score(s) = score_reply(profile, reply, truth, screen) else { return Ok(()) };
    let terms = [s.total, s.format, s.type_term, s.param, s.executor];
    let sound =
        terms.iter().all(|t| (0.0..=1.0).contains(t)) && s.param <= s.type_term && !s.reason.is_empty();
    if sound { Ok(()) } else { Err(format!("{reply}: {s:?}")) }
}

/// `cargo nextest run --workspace --run-ignored only -E 'test(a_million)'`: about a minute.
#[test]
#[ignore = "a million cases"]
fn a_million_replies_give_sound_scores() {
    let truths = truths();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 1_000_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let cases = (replies(), 0..truths.len(), 0..Profile::ALL.len());
    let outcome = runner.run(&cases, |(reply, truth, profile)| {
        check(&Profile::ALL[profile], &reply, &truths[truth], SCREEN).map_err(TestCaseError::fail)
    });
    outcome.expect("every score is sound");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn any_reply_gives_terms_between_nothing_and_one(
        reply in replies(),
        which in 0_usize..6,
        profile in 0_usize..5,
        edge in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(0.0), Just(-5.0), Just(1e300)],
    ) {
        let odd = Truth { action: "click".into(), point: Some([edge, 1.0]), ..Truth::default() };
        let screen = Some(ScreenPixels { width: edge, height: 100.0 });
        for truth in [&truths()[which], &odd] {
            for screen in [SCREEN, None, screen] {
                check(&Profile::ALL[profile], &reply, truth, screen).map_err(TestCaseError::fail)?;
            }
        }
    }
}

/// What `export` leaves out must be what the scorer abstains on, and nothing else.
#[test]
fn a_truth_lacks_something_where_the_scorer_abstains() {
    let paper = Profile::named("paper").expect("known");
    for action in
        ["click", "drag", "scroll", "type", "open_app", "press", "press_enter", "wait", "teleport", ""]
    {
        for bits in 0..32_u32 {
            let on = |bit: u32| bits & (1 << bit) != 0;
            let truth = Truth {
                action: action.to_owned(),
                point: on(0).then_some([5.0, 5.0]),
                boxes: if on(1) { vec![[0.0, 0.0, 9.0, 9.0]] } else { Vec::new() },
                text: on(2).then(|| "a".to_owned()),
                direction: on(3).then(|| "up".to_owned()),
                element: on(4).then(|| "1".to_owned()),
            };
            for screen in [None, Some(ScreenPixels { width: 10.0, height: 20.0 })] {
                let abstains = matches!(score_reply(paper, "x", &truth, screen), Outcome::Abstain { .. });
                assert_eq!(truth.lacks(screen).is_some(), abstains, "{truth:?} {screen:?}");
            }
        }
    }
}
