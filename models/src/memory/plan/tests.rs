//! The three cases and their boundaries, execution, and what must never happen.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use tracemill_data::artifact::{
    AliasMap, Bound, IntentRow, Origin, Plan, PlanCase, SubgroupRow, TraceArg, TraceStep,
};
use tracemill_data::trace::Element;
use tracemill_data::views::{Unit, UnitAction, UnitKind};

use super::fill::told_by;
use super::*;
use crate::memory::{IndexSettings, IntentIndex, UnitIndex};
use crate::skill::{SkillSettings, Subgroup, induce_all};

/// Tasks of the made-up applications: application, what is done, the field that is filled, two values, the button.
const TASKS: [(&str, &str, &str, [&str; 2], &str); 5] = [
    ("Clock", "set alarm", "Alarm time", ["7:30 AM", "9:10 PM"], "Save"),
    ("Notes", "create note", "Note title", ["Gift ideas", "Song lyrics"], "Keep"),
    ("Mail", "send mail", "Recipient", ["a@b.org", "x@y.com"], "Send"),
    ("Maps", "search place", "Search here", ["City Museum", "North Stadium"], "Go"),
    ("Music", "play song", "Find music", ["Blue Bossa", "Danny Boy"], "Play"),
];

fn action(step: u32, verb: &str, target: Option<&str>, text: Option<&str>) -> UnitAction {
    let (target, text) = (target.map(str::to_owned), text.map(str::to_owned));
    UnitAction { step, verb: verb.into(), source_verb: verb.into(), target, text, ..UnitAction::default() }
}

fn unit(task: usize, which: usize) -> Unit {
    let (app, does, field, values, button) = TASKS[task];
    let actions = vec![
        action(0, "open_app", None, Some(app)),
        action(1, "click", Some(field), None),
        action(2, "type", Some(field), Some(values[which])),
        action(3, "click", Some(button), None),
    ];
    Unit {
        unit_id: format!("e{task}{which}/0-3"),
        episode_id: format!("e{task}{which}"),
        first_step: 0,
        last_step: 3,
        kind: UnitKind::Control,
        env: app.into(),
        action: String::new(),
        keyword: String::new(),
        description: format!("{does} in {app}"),
        env_tag: app.into(),
        act_tag: String::new(),
        boundary: "start".into(),
        labeler: "rules".into(),
        actions,
    }
}

static MAP: LazyLock<AliasMap> = LazyLock::new(AliasMap::builtin);

/// A text lies where the task lies whose words it has; others lie apart.
struct ByWords;

fn place(text: &str) -> Vec<f32> {
    let mut z = vec![0.0; TASKS.len() + 1];
    let at = TASKS.iter().position(|(_, does, ..)| does.split(' ').skip(1).any(|word| text.contains(word)));
    z[at.unwrap_or(TASKS.len())] = 1.0;
    z
}

impl Prototypes for ByWords {
    fn encode(&self, texts: &[(Option<&str>, &str)]) -> Result<Vec<Vec<f32>>, PlanError> {
        Ok(texts.iter().map(|(_, text)| place(text)).collect())
    }
}

fn memory() -> PlanMemory {
    let units: Vec<Unit> = (0..TASKS.len()).flat_map(|task| [unit(task, 0), unit(task, 1)]).collect();
    let map = &*MAP;
    let rows: Vec<IntentRow> = units
        .iter()
        .enumerate()
        .map(|(i, u)| IntentRow {
            unit_id: u.unit_id.clone(),
            z: place(&u.description),
            ig: (i / 2) as i32,
            sg: (i / 2) as i32,
            ig_probability: 1.0,
            sg_probability: 1.0,
        })
        .collect();
    let subgroup = |task: usize| SubgroupRow {
        ig: task as i32,
        sg: task as i32,
        centroid: place(TASKS[task].1),
        size: 2,
        representative_unit_ids: vec![format!("e{task}0/0-3"), format!("e{task}1/0-3")],
    };
    let subgroups: Vec<SubgroupRow> = (0..TASKS.len()).map(subgroup).collect();
    let grouped: Vec<Subgroup> = (0..TASKS.len())
        .map(|t| Subgroup { ig: t as i32, sg: t as i32, units: units[2 * t..2 * t + 2].iter().collect() })
        .collect();
    let skills =
        induce_all(&grouped, map, &SkillSettings::default()).into_iter().flat_map(|s| s.skills).collect();
    let index = IntentIndex::build(&rows, &subgroups, &BTreeMap::new()).expect("rows belong together");
    let flat = rows.iter().flat_map(|r| r.z.clone()).collect();
    let vectors = UnitIndex::build(flat, TASKS.len() + 1, IndexSettings::default()).expect("unit vectors");
    let traces = units.iter().map(|u| PlanTrace::of(u, map)).collect();
    let environments = TASKS.iter().map(|(app, ..)| ((*app).to_owned(), (*app).to_owned())).collect();
    PlanMemory::new(index, vectors, traces, skills, environments).expect("traces and vectors")
}

fn plan_with(memory: &PlanMemory, command: &str, variant: Variant) -> Plan {
    let settings = PlanSettings::default();
    let planner = Planner {
        memory,
        map: &MAP,
        decomposer: &RuleDecomposer,
        prototypes: &ByWords,
        settings: &settings,
        variant,
    };
    planner.plan(command).expect("a plan")
}

fn plan(memory: &PlanMemory, command: &str) -> Plan {
    plan_with(memory, command, Variant::Full)
}

/// The memory after a user approved the plans of these commands.
fn memory_with(commands: &[&str]) -> PlanMemory {
    let mut memory = memory();
    let plans: Vec<Plan> = commands.iter().map(|c| plan(&memory, c)).collect();
    memory.approve(&plans, &ByWords, 3).expect("prototypes");
    memory
}

fn words(plan: &Plan) -> Vec<String> {
    plan.steps().map(tracemill_data::artifact::PlanStep::words).collect()
}

const ALARM: &str = "set an alarm for 6:15 AM in Clock";
const NOTE: &str = "create a note called 'Garden plan' in Notes";
const MAIL: &str = "send a mail to hr@c.org in Mail";
const PLACE: &str = "search the place 'Old Town' in Maps";
const SONG: &str = "play the song 'Greensleeves' in Music";

#[test]
fn without_a_stored_plan_every_slot_is_synthesised_from_units() {
    let found = plan(&memory(), &format!("{ALARM}, then {NOTE}"));
    assert_eq!(found.case, PlanCase::Synthesise);
    assert_eq!(
        words(&found),
        [
            "open Clock",
            "click Alarm time",
            "text_input \"6:15 AM\" in Alarm time",
            "save Save",
            "open Notes",
            "click Note title",
            "text_input \"Garden plan\" in Note title",
            "click Keep"
        ]
    );
    assert!(found.steps().all(|s| s.from == Origin::Unit && s.id.starts_with('e')));
    assert_eq!(found.open().count(), 0);
}

#[test]
fn complete_coverage_reuses_the_plan_with_new_values() {
    let memory = memory_with(&[&format!("{ALARM}, then {NOTE}")]);
    let found =
        plan(&memory, "set an alarm for 8:05 AM in Clock, then create a note called 'Reading list' in Notes");
    assert_eq!(found.case, PlanCase::Reuse);
    assert!(found.coverage.missing.is_empty());
    assert!(found.steps().all(|s| s.from == Origin::Plan && Some(&s.id) == found.stored_plan.as_ref()));
    let words = words(&found).join("\n");
    assert!(words.contains("8:05 AM") && words.contains("Reading list"), "{words}");
    assert!(
        !words.contains("6:15 AM") && !words.contains("Garden plan"),
        "another command's values: {words}"
    );
}

#[test]
fn two_missing_acts_are_filled_by_skills_and_three_are_not() {
    let memory = memory_with(&[ALARM]);
    let two = plan(&memory, &[ALARM, NOTE, MAIL].join(", then "));
    assert_eq!((two.case, two.coverage.missing.len()), (PlanCase::Fill, 2));
    let origins: Vec<Origin> = two.units.iter().map(|u| u.steps[0].from).collect();
    assert_eq!(origins, [Origin::Plan, Origin::Skill, Origin::Skill]);
    assert!(words(&two).contains(&"text_input \"hr@c.org\" in Recipient".to_owned()), "{:?}", words(&two));

    let three = plan(&memory, &[ALARM, NOTE, MAIL, PLACE].join(", then "));
    assert_eq!(three.case, PlanCase::Synthesise);
    assert!(three.steps().all(|s| s.from == Origin::Unit));
    assert!(three.why.contains("lacks 3 of 4 ACTs"), "{}", three.why);

    let without_skills = plan_with(&memory, &[ALARM, NOTE, MAIL].join(", then "), Variant::PlanMemory);
    let origins: Vec<Origin> = without_skills.units.iter().map(|u| u.steps[0].from).collect();
    assert_eq!(origins, [Origin::Plan, Origin::Unit, Origin::Unit]);
}

#[test]
fn a_plan_that_covers_nothing_is_not_built_on_however_few_acts_are_missing() {
    let found = plan(&memory_with(&[ALARM]), NOTE);
    assert_eq!((found.case, found.stored_plan), (PlanCase::Synthesise, None));
}

#[test]
fn what_a_stored_plan_does_beyond_the_command_is_left_out() {
    let memory = memory_with(&[&format!("{ALARM}, then {MAIL}")]);
    let found = plan(&memory, ALARM);
    assert_eq!(found.case, PlanCase::Reuse);
    assert_eq!(found.left_out, [MAIL]);
    assert!(found.steps().all(|s| s.value("target") != Some("Recipient")));
}

#[test]
fn where_nothing_is_near_templates_remain_and_say_so() {
    let found = plan(&memory_with(&[ALARM]), "paint the fence 'green'");
    assert_eq!(found.case, PlanCase::Synthesise);
    assert!(found.steps().all(|s| s.from == Origin::Template));
    assert!(found.why.contains("nothing in the memory is near 1 of 1 ACTs"), "{}", found.why);
    assert_eq!(words(&found), ["click fence", "text_input \"green\""]);
}

#[test]
fn what_the_command_does_not_say_stays_open() {
    let found = plan(&memory(), "send a mail in Mail");
    let open: Vec<&str> = found.open().map(|a| a.kind.as_str()).collect();
    assert_eq!(open, ["<email>"]);
}

#[test]
fn the_order_of_stored_plans_and_repetition_change_nothing() {
    let one = memory_with(&[ALARM, NOTE, SONG]);
    let other = memory_with(&[SONG, NOTE, ALARM]);
    for command in [ALARM, NOTE, &format!("{NOTE} and {SONG}"), &[MAIL, SONG].join("; ")] {
        let first = plan(&one, command);
        assert_eq!(first, plan(&one, command));
        assert_eq!(first, plan(&other, command));
    }
}

#[test]
fn the_greedy_baseline_sees_units_and_no_trace_sees_none() {
    let memory = memory_with(&[ALARM]);
    let greedy = plan_with(&memory, ALARM, Variant::Greedy);
    assert!(greedy.case == PlanCase::Synthesise && greedy.steps().all(|s| s.from == Origin::Unit));
    let none = plan_with(&memory, ALARM, Variant::NoTraces);
    assert!(none.steps().all(|s| s.from == Origin::Template));
    assert_eq!(words(&none), ["open Clock", "click alarm", "text_input \"6:15 AM\""]);
}

/// The first value of a plan that is neither told by the command nor known to the memory.
fn stranger<'p>(plan: &'p Plan, memory: &PlanMemory) -> Option<&'p str> {
    let known = |value: &str| {
        let in_traces =
            memory.traces.iter().flat_map(|t| &t.steps).flat_map(|s| &s.args).any(|a| a.value == value);
        let skills = memory.skills.values().flatten().flat_map(|s| &s.steps).flat_map(|s| &s.args);
        in_traces || skills.into_iter().any(|a| a.value.as_deref() == Some(value))
    };
    let told = |value: &str| plan.command.contains(value) || told_by(value, &plan.command);
    // The one key of the templates.
    let values =
        plan.steps().flat_map(|s| &s.args).filter(|a| a.field != "key").filter_map(|a| a.value.as_deref());
    values.into_iter().find(|v| !known(v) && !told(v))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_plan_names_nothing_that_is_in_neither_command_nor_memory(
        stored in prop::collection::vec(0usize..5, 0..3),
        parts in prop::collection::vec((0usize..5, "[A-Z][a-z]{2,8}( [A-Z][a-z]{2,6})?", 0usize..3), 1..4),
    ) {
        let commands = [ALARM, NOTE, MAIL, PLACE, SONG];
        let memory = memory_with(&stored.iter().map(|i| commands[*i]).collect::<Vec<_>>());
        let phrase = |(task, value, how): &(usize, String, usize)| {
            let (app, does, ..) = TASKS[*task];
            match how {
                0 => format!("{does} '{value}' in {app}"),
                1 => format!("{does} {value}"),
                _ => format!("please {does} for {value} with {app}"),
            }
        };
        let command = parts.iter().map(phrase).collect::<Vec<_>>().join(", then ");
        for variant in Variant::ALL {
            let found = plan_with(&memory, &command, variant);
            prop_assert_eq!(stranger(&found, &memory), None, "{} by {}", command, variant.name());
            prop_assert!(found.steps().flat_map(|s| &s.args).all(|a| (a.bound == Bound::Open) == a.value.is_none()));
        }
    }
}

/// A recorded step on a screen with these labels.
fn recorded(verb: &str, args: &[(&str, &str)], labels: &[&str]) -> RecordedStep {
    let arg = |(field, value): &(&str, &str)| TraceArg {
        field: (*field).into(),
        kind: String::new(),
        value: (*value).into(),
    };
    let element =
        |label: &&str| Element { text: (*label).to_owned(), role: "button".into(), ..Element::default() };
    RecordedStep {
        step: TraceStep { step: 0, verb: verb.into(), args: args.iter().map(arg).collect() },
        elements: labels.iter().map(element).collect(),
        place: None,
    }
}

fn replayed(plan: &Plan, steps: Vec<RecordedStep>) -> (Execution, bool) {
    let mut replay = Replay::new(steps);
    let done = execute(plan, &mut replay, None, &MAP, ExecutorSettings::default());
    (done, replay.is_done())
}

#[test]
fn a_plan_runs_along_its_recording() {
    let found = plan(&memory(), ALARM);
    let screen = ["Alarm time", "Save"];
    let way = vec![
        recorded("open", &[("app", "Clock")], &["Clock"]),
        recorded("text_input", &[("target", "Alarm time"), ("text", "6:15 AM")], &screen),
        recorded("save", &[("target", "Save")], &screen),
    ];
    let (done, whole) = replayed(&found, way);
    assert_eq!((done.outcome, done.executed, done.planned, whole), (Verdict::Success, 4, 4, true));
    assert_eq!((done.completion(), done.efficiency()), (1.0, Some(1.0)));
}

#[test]
fn a_step_that_is_not_there_is_left_out_when_the_next_one_fits() {
    let mut found = plan(&memory(), ALARM);
    found.units[0].steps[1].args[0].value = Some("Somewhere".into());
    let screen = ["Alarm time", "Save"];
    let way = vec![
        recorded("open", &[("app", "Clock")], &["Clock"]),
        recorded("text_input", &[("target", "Alarm time"), ("text", "6:15 AM")], &screen),
        recorded("save", &[("target", "Save")], &screen),
    ];
    let (done, whole) = replayed(&found, way);
    assert_eq!((done.outcome, done.executed, done.skipped, whole), (Verdict::Success, 3, 1, true));
    assert!(done.efficiency() < Some(1.0), "looking for the field cost acts");
    assert!(done.attempts.iter().any(|a| a.observation.contains("component: no `Somewhere`")));
}

#[test]
fn with_nothing_left_to_try_the_plan_is_blocked() {
    let found = plan(&memory(), ALARM);
    let way =
        vec![recorded("open", &[("app", "Clock")], &["Clock"]), recorded("back", &[], &["Nothing here"])];
    let (done, whole) = replayed(&found, way);
    assert_eq!((done.outcome, done.executed, whole), (Verdict::Blocked, 1, false));
    assert_eq!(done.attempts.last().map(|a| a.verdict), Some(Verdict::Blocked));
    let open = plan(&memory(), "send a mail in Mail");
    let (blocked, _) = replayed(&open, vec![recorded("open", &[("app", "Mail")], &["Mail"])]);
    assert_eq!(blocked.outcome, Verdict::Blocked, "an open value is not made up");
}
