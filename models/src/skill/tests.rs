//! From units to skills.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tracemill_data::artifact::{Skill, SkillArg};
use tracemill_data::views::{Unit, UnitAction};

use super::testing::{MAP, scroll, step, target, text, typed, unit};
use tracemill_data::views::clean;

use super::{SkillSettings, Subgroup, SubgroupSkills, induce, induce_all, to_pretty_json, to_text};

fn phrased(verb: &str, phrase: &str) -> UnitAction {
    UnitAction { phrase: Some(phrase.into()), ..step(verb) }
}

/// Positions removed from one unit, with their rules.
fn removed(actions: Vec<UnitAction>) -> Vec<(usize, &'static str)> {
    let (map, unit) = (&*MAP, unit("e", "App", actions));
    clean(&[&unit], map)[0].removed.clone()
}

fn induced(units: &[Unit], settings: &SkillSettings) -> SubgroupSkills {
    let subgroup = Subgroup { ig: 3, sg: 12, units: units.iter().collect() };
    induce(&subgroup, &MAP, settings)
}

fn verbs(skill: &Skill) -> Vec<&str> {
    skill.steps.iter().map(|s| s.verb.as_str()).collect()
}

fn arg<'s>(skill: &'s Skill, step: usize, field: &str) -> &'s SkillArg {
    skill.steps[step].args.iter().find(|a| a.field == field).expect("the step has the field")
}

#[test]
fn waits_terminals_and_popups_go() {
    let actions = vec![
        step("wait"),
        target("click", "Alarm"),
        target("click", "Not now"),
        phrased("click", "close the ad"),
        target("click", "Close tab"),
        step("complete"),
    ];
    assert_eq!(
        removed(actions),
        [(0, "wait"), (2, "dismissed_popup"), (3, "dismissed_popup"), (5, "terminal")]
    );
}

#[test]
fn the_way_out_of_the_application_before_goes() {
    let switch = phrased("click", "Switch to the Clock app");
    let unit = vec![step("home"), step("recents"), switch, target("click", "Alarm"), step("home")];
    assert_eq!(removed(unit), [(0, "transition"), (1, "transition")]);
    assert_eq!(removed(vec![step("home"), step("complete")]), [(1, "terminal")], "nothing else is left");
}

#[test]
fn a_retry_is_a_repeat_and_unknown_steps_are_not() {
    let retry = vec![target("click", "OK"), step("wait"), target("click", "OK"), target("click", "Next")];
    assert_eq!(removed(retry), [(1, "wait"), (2, "repeat")]);
    assert_eq!(removed(vec![step("click"), step("click")]), []);
    assert_eq!(removed(vec![typed("Name", "Ann"), typed("Name", "Anna")]), []);
    let phrase = phrased("click", "Tap the first result");
    assert_eq!(removed(vec![phrase.clone(), phrase]), [(1, "repeat")]);
}

#[test]
fn scrolls_in_one_direction_are_one_scroll() {
    let run = vec![scroll("down"), scroll("down"), scroll("down"), scroll("left"), scroll("down")];
    assert_eq!(removed(run), [(1, "repeat"), (2, "repeat")]);
    assert_eq!(removed(vec![step("scroll"), step("scroll")]), []);
}

#[test]
fn a_look_around_is_undone_by_the_scroll_the_other_way() {
    let around = vec![target("click", "A"), scroll("down"), scroll("up"), target("click", "B")];
    assert_eq!(removed(around), [(1, "undo_pair"), (2, "undo_pair")]);
    let then_down = vec![scroll("down"), scroll("up"), scroll("down")];
    assert_eq!(removed(then_down), [(0, "undo_pair"), (1, "undo_pair")]);
    assert_eq!(removed(vec![scroll("down"), scroll("up")]), []);
    assert_eq!(removed(vec![scroll("down"), scroll("left"), step("home")]), []);
}

#[test]
fn a_detour_and_its_way_back_go_together() {
    let detour = vec![target("click", "Timer"), step("back"), target("click", "Alarm")];
    assert_eq!(removed(detour), [(0, "undo_pair"), (1, "undo_pair")]);
    let undone = vec![typed("Name", "Bob"), text("press", "ctrl+z"), typed("Name", "Ann")];
    assert_eq!(removed(undone), [(0, "undo_pair"), (1, "undo_pair")]);
}

#[test]
fn a_back_that_is_no_detour_stays() {
    let last = vec![target("click", "Details"), step("back")];
    assert_eq!(removed(last), []);
    let keyboard = vec![typed("Search", "cats"), step("back"), target("click", "Result")];
    assert_eq!(removed(keyboard), []);
    let way_home = vec![target("click", "Details"), step("back"), step("back"), target("click", "Alarm")];
    assert_eq!(removed(way_home), []);
    let said = vec![
        target("click", "Details"),
        phrased("back", "Go back"),
        phrased("back", "Go back"),
        step("home"),
    ];
    assert_eq!(removed(said), []);
    let unknown = vec![step("click"), step("back"), step("click")];
    assert_eq!(removed(unknown), []);
}

#[test]
fn what_a_detour_leaves_behind_is_looked_at_again() {
    let actions = vec![
        target("click", "Menu"),
        target("click", "Help"),
        step("back"),
        target("click", "Menu"),
        step("home"),
    ];
    assert_eq!(removed(actions), [(1, "undo_pair"), (2, "undo_pair"), (3, "repeat")]);
}

#[test]
fn a_pair_that_most_members_share_is_part_of_the_skill() {
    let map = &*MAP;
    let actions = |option: &str| {
        vec![target("click", "Settings"), target("click", option), step("back"), target("click", "Done")]
    };
    let units: Vec<Unit> = ["Wi-Fi", "Sound", "Display"]
        .iter()
        .enumerate()
        .map(|(i, o)| unit(&format!("e{i}"), "", actions(o)))
        .collect();
    let cleaned = clean(&units.iter().collect::<Vec<_>>(), map);
    assert!(cleaned.iter().all(|c| c.removed.is_empty()), "{cleaned:?}");
    let plain =
        |i: usize| unit(&format!("p{i}"), "", vec![target("click", "Settings"), target("click", "Done")]);
    let mixed: Vec<Unit> = (0..4).map(plain).chain([unit("e", "", actions("Sound"))]).collect();
    let cleaned = clean(&mixed.iter().collect::<Vec<_>>(), map);
    assert_eq!(cleaned[4].removed, [(1, "undo_pair"), (2, "undo_pair")]);
}

#[test]
fn a_unit_of_incidents_keeps_all_but_its_terminal_step() {
    assert_eq!(removed(vec![target("click", "Close"), step("wait"), step("complete")]), [(2, "terminal")]);
    assert_eq!(removed(vec![step("complete")]), [(0, "terminal")]);
}

/// Five recipe searches with noise in two of them.
fn recipes() -> Vec<Unit> {
    let search = |dish: &str| {
        vec![
            text("open_app", "Recipes"),
            target("click", "Search"),
            typed("Search", dish),
            text("press", "enter"),
            target("click", dish),
            target("click", "Save"),
            step("complete"),
        ]
    };
    let mut actions: Vec<Vec<UnitAction>> =
        ["pizza", "sushi", "ramen", "pizza", "tacos"].into_iter().map(search).collect();
    actions[1].insert(1, step("wait"));
    actions[1].insert(2, target("click", "Got it"));
    actions[2].insert(5, scroll("down"));
    actions.into_iter().enumerate().map(|(i, a)| unit(&format!("ep{i}"), "Recipes", a)).collect()
}

#[test]
fn literals_shared_by_all_stay_and_the_rest_become_parameters() {
    let units = recipes();
    let result = induced(&units, &SkillSettings::default());
    assert_eq!(result.skills.len(), 1);
    let skill = &result.skills[0];
    assert_eq!(verbs(skill), ["open", "click", "text_input", "press", "click", "save"]);
    assert_eq!((skill.support, skill.members), (5, 5));
    assert_eq!(arg(skill, 0, "app").value.as_deref(), Some("Recipes"));
    let query = arg(skill, 2, "text");
    assert_eq!((query.kind.as_str(), query.value.as_deref(), query.more), ("<query>", None, None));
    assert_eq!(query.examples, ["pizza", "ramen", "sushi", "tacos"]);
    assert_eq!(arg(skill, 4, "target").kind, "<element>");
    assert_eq!(skill.medoid_unit_id, "ep0/0-6");
    assert_eq!(skill.representative_unit_ids[4], "ep2/0-7", "the member with a scroll is the farthest");
    assert_eq!(result.removed, skill.removed_steps);
    assert_eq!(result.distinct_sequences, 2);
    assert_eq!((result.coverage.total(), result.coverage.by_fallback), (38, 0));
}

#[test]
fn a_skill_reads_well() {
    let skill = &induced(&recipes(), &SkillSettings { examples: 3, ..SkillSettings::default() }).skills[0];
    insta::assert_snapshot!(to_text(skill), @r#"
    sg12.0  Recipes · open, click Search, type <query> in Search, press enter, click <element>, save
      supported by 5 of 5 units · intent group 3 · alias map 1.0.0
       1. open         app = Recipes
       2. click        target = Search
       3. text_input   target = Search; text <query>: "pizza", "ramen", "sushi", 1 more
       4. press        key = enter
       5. click        target <element>: "pizza", "ramen", "sushi", 1 more
       6. save         target = Save
      left out: 1 dismissed_popup, 5 terminal, 1 wait
      for example: ep0/0-6, ep1/0-8, ep3/0-6, ep4/0-6, ep2/0-7
    "#);
    insta::assert_snapshot!(to_pretty_json(std::slice::from_ref(skill)), @r#"
    [
      {
        "skill_id": "sg12.0",
        "ig": 3,
        "sg": 12,
        "rank": 0,
        "title": "Recipes · open, click Search, type <query> in Search, press enter, click <element>, save",
        "steps": [
          {"verb": "open", "args": [{"field": "app", "type": "<app>", "value": "Recipes", "examples": ["Recipes"]}]},
          {"verb": "click", "args": [{"field": "target", "type": "<element>", "value": "Search", "examples": ["Search"]}]},
          {
            "verb": "text_input",
            "args": [
              {"field": "target", "type": "<element>", "value": "Search", "examples": ["Search"]},
              {"field": "text", "type": "<query>", "examples": ["pizza", "ramen", "sushi"], "more": 1}
            ]
          },
          {"verb": "press", "args": [{"field": "key", "type": "<key>", "value": "enter", "examples": ["enter"]}]},
          {
            "verb": "click",
            "args": [{"field": "target", "type": "<element>", "examples": ["pizza", "ramen", "sushi"], "more": 1}]
          },
          {"verb": "save", "args": [{"field": "target", "type": "<element>", "value": "Save", "examples": ["Save"]}]}
        ],
        "support": 5,
        "members": 5,
        "medoid_unit_id": "ep0/0-6",
        "member_unit_ids": ["ep0/0-6", "ep1/0-8", "ep2/0-7", "ep3/0-6", "ep4/0-6"],
        "representative_unit_ids": ["ep0/0-6", "ep1/0-8", "ep3/0-6", "ep4/0-6", "ep2/0-7"],
        "removed_steps": [
          {"unit_id": "ep0/0-6", "step": 6, "verb": "terminal", "rule": "terminal"},
          {"unit_id": "ep1/0-8", "step": 1, "verb": "wait", "rule": "wait"},
          {"unit_id": "ep1/0-8", "step": 2, "verb": "click", "rule": "dismissed_popup"},
          {"unit_id": "ep1/0-8", "step": 8, "verb": "terminal", "rule": "terminal"},
          {"unit_id": "ep2/0-7", "step": 7, "verb": "terminal", "rule": "terminal"},
          {"unit_id": "ep3/0-6", "step": 6, "verb": "terminal", "rule": "terminal"},
          {"unit_id": "ep4/0-6", "step": 6, "verb": "terminal", "rule": "terminal"}
        ],
        "alias_map": "1.0.0"
      }
    ]
    "#);
    let read: Vec<Skill> = serde_json::from_str(&to_pretty_json(std::slice::from_ref(skill))).expect("JSON");
    assert_eq!(&read[0], skill);
}

#[test]
fn several_patterns_give_several_schemas_ranked_by_support() {
    let alarm =
        |i: usize| unit(&format!("a{i}"), "Clock", vec![target("click", "Alarm"), target("click", "Save")]);
    let share = |i: usize| {
        let actions = vec![target("long_press", "Photo"), target("drag", "Photo"), text("press", "enter")];
        unit(&format!("b{i}"), "Photos", actions)
    };
    let odd =
        unit("c", "Odd", vec![step("hover"), step("home"), step("wait"), step("recents"), step("hover")]);
    let units: Vec<Unit> = (0..3).map(alarm).chain((0..5).map(share)).chain([odd]).collect();
    let result = induced(&units, &SkillSettings::default());
    let ranks: Vec<(&str, u32, u32)> =
        result.skills.iter().map(|s| (s.skill_id.as_str(), s.rank, s.support)).collect();
    assert_eq!(ranks, [("sg12.0", 0, 5), ("sg12.1", 1, 3)]);
    assert_eq!(verbs(&result.skills[0]), ["long_press", "drag", "press"]);
    let rules: Vec<(&str, &str)> =
        result.removed.iter().map(|r| (r.unit_id.as_str(), r.rule.as_str())).collect();
    assert_eq!(rules, [("c/0-4", "wait")], "listed although its unit supports no schema");
    let one = induced(&units, &SkillSettings { max_schemas: 1, ..SkillSettings::default() });
    assert_eq!(one.skills.len(), 1);
}

#[test]
fn noise_and_empty_units_become_no_skill_and_noise_is_counted() {
    let units = recipes();
    let noise = Subgroup { ig: -1, sg: -1, units: units.iter().collect() };
    let map = &*MAP;
    let result = induce(&noise, map, &SkillSettings::default());
    assert_eq!((result.skills.len(), result.coverage.total()), (0, 38));
    let empty = [unit("e", "App", vec![step("complete")])];
    assert!(induced(&empty, &SkillSettings::default()).skills.is_empty());
}

#[test]
fn unmapped_verbs_stay_in_the_sequence() {
    let units = [unit("e", "App", vec![step("teleport"), target("click", "OK")])];
    let result = induced(&units, &SkillSettings::default());
    assert_eq!(verbs(&result.skills[0]), ["teleport", "click"]);
    assert_eq!(result.coverage.unmapped, BTreeMap::from([("TELEPORT".to_owned(), 1)]));
}

#[test]
fn many_members_of_few_sequences_are_cheap() {
    let mut units = Vec::new();
    for i in 0..3_000 {
        let mut actions =
            vec![target("click", "Search"), typed("Search", &format!("q{i}")), text("press", "enter")];
        if i % 3 == 0 {
            actions.insert(2, scroll("down"));
        }
        units.push(unit(&format!("e{i:05}"), "Web", actions));
    }
    let result = induced(&units, &SkillSettings::default());
    assert_eq!((result.distinct_sequences, result.skills[0].support), (2, 3_000));
    assert_eq!(arg(&result.skills[0], 1, "text").more, Some(2_995));
}

fn action() -> impl Strategy<Value = UnitAction> {
    let verbs =
        ["click", "type", "press", "scroll", "back", "wait", "save", "home", "open_app", "complete", "warp"];
    let label = prop::sample::select(vec!["", "A", "B", "Save", "Close", " x "]);
    (prop::sample::select(verbs.to_vec()), label.clone(), label).prop_map(|(verb, target, text)| UnitAction {
        target: (!target.is_empty()).then(|| target.to_owned()),
        text: (!text.is_empty()).then(|| text.to_owned()),
        ..step(verb)
    })
}

fn units() -> impl Strategy<Value = Vec<Unit>> {
    prop::collection::vec(prop::collection::vec(action(), 0..7), 1..8).prop_map(|all| {
        all.into_iter().enumerate().map(|(i, actions)| unit(&format!("ep{i}"), "App", actions)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_step_is_kept_or_listed_as_removed(units in units()) {
        let map = &*MAP;
        for clean in clean(&units.iter().collect::<Vec<_>>(), map) {
            let mut all: Vec<usize> = clean.removed.iter().map(|(i, _)| *i).chain(clean.kept.iter().copied()).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..clean.unit.actions.len()).collect::<Vec<_>>());
            prop_assert!(clean.kept.is_sorted());
            let acts = clean.mapped.iter().any(|m| m.predicate != "terminal");
            prop_assert_eq!(clean.kept.is_empty(), !acts);
        }
        let steps: usize = units.iter().map(|u| u.actions.len()).sum();
        prop_assert_eq!(induced(&units, &SkillSettings::default()).coverage.total(), steps as u64);
    }

    #[test]
    fn the_order_of_the_units_does_not_matter((units, shuffled) in units().prop_flat_map(|u| {
        let shuffled = Just(u.clone()).prop_shuffle();
        (Just(u), shuffled)
    })) {
        let settings = SkillSettings::default();
        prop_assert_eq!(induced(&units, &settings), induced(&shuffled, &settings));
    }

    #[test]
    fn examples_are_values_the_members_had(units in units()) {
        let had = |value: &str| units.iter().flat_map(|u| &u.actions).any(|a| {
            [&a.target, &a.text].into_iter().any(|v| v.as_deref() == Some(value))
        });
        for skill in induced(&units, &SkillSettings::default()).skills {
            prop_assert!(skill.member_unit_ids.contains(&skill.medoid_unit_id));
            prop_assert_eq!(skill.support as usize, skill.member_unit_ids.len());
            for arg in skill.steps.iter().flat_map(|s| &s.args) {
                prop_assert!(arg.examples.iter().all(|e| had(e) || e == "home_screen"));
                prop_assert!(arg.value.iter().all(|v| arg.examples.contains(v)));
            }
        }
    }

    #[test]
    fn subgroups_in_parallel_give_what_each_gives_alone(a in units(), b in units()) {
        let (map, settings) = (&*MAP, SkillSettings::default());
        let subgroups: Vec<Subgroup> =
            [(7, &a), (2, &b)].into_iter().map(|(sg, u)| Subgroup { ig: 0, sg, units: u.iter().collect() }).collect();
        let all = induce_all(&subgroups, map, &settings);
        prop_assert_eq!(&all[0], &induce(&subgroups[1], map, &settings));
        prop_assert_eq!(&all[1], &induce(&subgroups[0], map, &settings));
    }
}
