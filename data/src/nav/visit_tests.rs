//! Calls of `visit`: what is read, dropped, resolved, refused, and carried out.

use super::command::{Call, Command, VisitError, parse_visit};
use super::declare::{Declaration, declare, is_declaration, label_of, parse_declarations, passive_texts};
use super::execute::{ExecuteOptions, Execution, Executor, Found, SideEffect, Step};
use super::forest_tests::{FIGURE_4, graph, topology};
use super::resolve::{DropReason, Task, resolve};
use super::{Done, Graph, Injection, InjectionSpec, Pattern, Simulator, Theta, Topology, Ui};

fn commands(text: &str) -> Vec<Command> {
    match parse_visit(text) {
        Ok(Call::Commands(commands)) => commands,
        other => panic!("{text}: {other:?}"),
    }
}

fn tasks(topology: &Topology, text: &str) -> Vec<Task> {
    resolve(topology, &commands(text)).expect("resolved").tasks
}

fn error(topology: &Topology, text: &str) -> VisitError {
    let answer = parse_visit(text).and_then(|call| match call {
        Call::Commands(commands) => resolve(topology, &commands),
        Call::FurtherQuery(_) => panic!("a query"),
    });
    answer.expect_err(text)
}

fn way(task: &Task) -> Vec<(u32, String)> {
    match task {
        Task::Access { path, .. } => path.iter().map(|step| (step.id, step.name.clone())).collect(),
        Task::Shortcut { .. } => panic!("a shortcut"),
    }
}

fn figure_4(theta: Theta) -> Topology {
    topology(graph(13, &FIGURE_4), theta)
}

#[test]
fn the_targets_of_figure_4_resolve_to_its_path() {
    let names = |ids: [u32; 5]| ids.into_iter().zip(["1", "4", "6", "9", "12"].map(str::to_owned));
    let tree = figure_4(Theta(None));
    assert_eq!(way(&tasks(&tree, r#"[{"id": "19"}]"#)[0]), names([1, 12, 13, 16, 19]).collect::<Vec<_>>());
    let forest = figure_4(Theta(Some(6)));
    let task = tasks(&forest, r#"[{"id": 14, "entry_ref_id": ["7"]}]"#).remove(0);
    assert_eq!(way(&task), names([1, 6, 7, 11, 14]).collect::<Vec<_>>());
    let other = tasks(&forest, r#"[{"id": 14, "entry_ref_id": 5}]"#).remove(0);
    assert_eq!(way(&other)[1], (4, "3".to_owned()), "the other way in");
}

#[test]
fn navigational_targets_go_with_the_shortcuts_that_follow() {
    let mut forest = figure_4(Theta(Some(6)));
    let field = forest.forest.nodes[3].control as usize;
    forest.graph.controls[field].patterns = vec![Pattern::Value];
    let text = r#"[{"shortcut_key": "F5"}, {"id": 6}, {"shortcut_key": "Enter"}, {"shortcut_key": "Tab"}, {"id": 7},
        {"id": 3, "text": "x"}, {"shortcut_key": "Enter"}, {"id": 0}, {"shortcut_key": "Esc"}]"#;
    let resolved = resolve(&forest, &commands(text)).expect("resolved");
    let kept: Vec<usize> = { resolved.tasks.iter() }
        .map(|task| match task {
            Task::Access { command, .. } | Task::Shortcut { command, .. } => *command,
        })
        .collect();
    assert_eq!(kept, [0, 5, 6], "what came before a dropped target stays");
    let dropped: Vec<_> = resolved.dropped.iter().map(|d| (d.command, d.id, d.reason)).collect();
    let (navigational, follows) = (DropReason::Navigational, DropReason::FollowsNavigational);
    assert_eq!(
        dropped,
        [
            (1, Some(6), navigational),
            (2, None, follows),
            (3, None, follows),
            (4, Some(7), navigational),
            (7, Some(0), navigational),
            (8, None, follows)
        ]
    );
    let error = error(&forest, r#"[{"id": 6}, {"shortcut_key": "Enter"}]"#);
    assert_eq!(error, VisitError::OnlyNavigational { dropped: vec![6] });
}

#[test]
fn calls_that_cannot_be_done_say_why() {
    let forest = figure_4(Theta(Some(6)));
    for (text, code, said) in [
        ("{", "malformed", "no JSON array"),
        (r#"{"id": 3}"#, "malformed", "around a single command"),
        ("[]", "malformed", "empty"),
        ("[3]", "bad_command", "an object"),
        (r#"[{"id": 3}, {"text": "x"}]"#, "bad_command", "command 1: `id` or `shortcut_key`"),
        (r#"[{"id": 3, "label": "A"}]"#, "bad_command", "`label` is not known"),
        (r#"[{"id": 3, "shortcut_key": "a"}]"#, "bad_command", "two commands"),
        (r#"[{"id": "x"}]"#, "bad_command", "whole numbers"),
        (r#"[{"id": 3, "text": 5}]"#, "bad_command", "no string"),
        (r#"[{"shortcut_key": " "}]"#, "bad_command", "names no key"),
        (r#"[{"id": 15}]"#, "unknown_id", "from 0 to 14"),
        (r#"[{"id": -2}]"#, "unknown_id", "the id -2; ids go from 0 to 14"),
        (r#"[{"id": "9007199254740993"}]"#, "unknown_id", "9007199254740993; ids go from 0 to 14"),
        (r#"[{"id": 100000000000000000000}]"#, "bad_command", "is no id; expected whole numbers"),
        (r#"[{"id": 14, "entry_ref_id": -5}]"#, "bad_entry_ref", "entry_ref_id -5 is no reference"),
        (r#"[{"id": 3}, {"id": 3, "text": "x"}]"#, "not_editable", "command 1: `5` (button) takes no text"),
        (r#"[{"further_query": [3]}, {"id": 3}]"#, "further_query_mixed", "only command"),
        (r#"[{"id": 3}, {"further_query": -1, "id": 3}]"#, "further_query_mixed", "command 1"),
        (r#"[{"id": 3}, {"get_texts": {"labels": ["A"]}}]"#, "interfaces_mixed", "get_texts and visit"),
        (r#"[{"id": 14}]"#, "missing_entry_ref", "one of 2 references"),
        (r#"[{"id": 14, "entry_ref_id": [5, 7]}]"#, "ambiguous_entry_ref", "several references"),
        (r#"[{"id": 14, "entry_ref_id": [3]}]"#, "bad_entry_ref", "is no reference"),
        (r#"[{"id": 3, "entry_ref_id": [5]}]"#, "bad_entry_ref", "not on the way to node 3"),
    ] {
        let error = error(&forest, text);
        let json = error.to_json();
        assert_eq!(json["code"], code, "{text}: {error}");
        assert!(json["message"].as_str().expect("a message").contains(said), "{text}: {error}");
        let mut fields = json.clone();
        fields.as_object_mut().expect("an object").remove("message");
        assert_eq!(serde_json::from_value::<VisitError>(fields).expect("comes back"), error);
    }
    let VisitError::MissingEntryRef { candidates, .. } = error(&forest, r#"[{"id": 14}]"#) else { panic!() };
    let told: Vec<_> = candidates.into_iter().map(|c| (c.id, c.path.join("/"))).collect();
    assert_eq!(told, [(5, "1/3/6".to_owned()), (7, "1/4/6".to_owned())]);
    assert_eq!(parse_visit(r#"[{"further_query": ["3", 4]}]"#), Ok(Call::FurtherQuery(vec![3, 4])));
    assert_eq!(parse_visit(r#"[{"further_query": "-1"}]"#), Ok(Call::FurtherQuery(Vec::new())));
}

/// 1 and 2 lead to 3, which 3 leads on to 4 and 5; both lead to 6 with its leaves 7 and 8.
const NESTED: [(u32, u32); 10] =
    [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (3, 5), (4, 6), (5, 6), (6, 7), (6, 8)];

#[test]
fn nested_references_are_taken_in_any_order() {
    let nested = topology(graph(9, &NESTED), Theta(Some(0)));
    let (target, references) = super::Targets::of(&nested).follow(&[2, 3, 5, 6, 8]).expect("a way");
    assert_eq!(references.len(), 2);
    for refs in [[references[0], references[1]], [references[1], references[0]]] {
        let text = format!(r#"[{{"id": {target}, "entry_ref_id": [{}, {}]}}]"#, refs[0], refs[1]);
        let task = tasks(&nested, &text).remove(0);
        let names: Vec<String> = way(&task).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["2", "3", "5", "6", "8"]);
        let Task::Access { entry_ref_id, .. } = task else { panic!() };
        assert_eq!(entry_ref_id, references, "outermost first");
    }
    let one = format!(r#"[{{"id": {target}, "entry_ref_id": {}}}]"#, references[0]);
    assert!(matches!(error(&nested, &one), VisitError::MissingEntryRef { .. }));
}

/// A window: 1 opens the dialog "Font" with 2 (a tab), 3 (a field), 4 (OK), 5 (Cancel); 2 shows 6, a scroll bar;
/// 7 is a menu with 8; 9 and 10 open one pop-up with 11.
fn dialog() -> Graph {
    let edges =
        [(0, 1), (0, 7), (0, 9), (0, 10), (1, 2), (1, 3), (1, 4), (1, 5), (2, 6), (7, 8), (9, 11), (10, 11)];
    let mut graph = graph(12, &edges);
    for (i, name, kind) in [
        (1, "Font...", "menu item"),
        (2, "Effects", "page tab"),
        (3, "Name", "entry"),
        (4, "OK", "push button"),
        (5, "Cancel", "push button"),
        (6, "Position", "scroll bar"),
        (7, "Edit", "menu"),
        (8, "Paste", "menu item"),
        (9, "Font Color", "push button"),
        (10, "Outline Color", "push button"),
        (11, "Blue", "table cell"),
    ] {
        let control = &mut graph.controls[i];
        name.clone_into(&mut control.name);
        name.clone_into(&mut control.id.primary);
        kind.clone_into(&mut control.id.control_type);
        control.patterns = super::Kind::of(kind).patterns(|_| false).into_iter().collect();
    }
    for edge in &mut graph.edges {
        edge.window_opened = match edge.from {
            1 => Some("dialog:Font".to_owned()),
            9 | 10 => Some("window:".to_owned()),
            _ => None,
        };
    }
    graph
}

struct World {
    topology: Topology,
}

impl World {
    fn new() -> Self {
        Self { topology: topology(dialog(), Theta(None)) }
    }

    /// The call for these ways, one command each.
    fn call(&self, ways: &[&[u32]]) -> Vec<Task> {
        let targets = super::Targets::of(&self.topology);
        let ids = ways.iter().map(|way| targets.find(way).expect("a target").id);
        let list: Vec<String> = ids.map(|id| format!(r#"{{"id": {id}}}"#)).collect();
        tasks(&self.topology, &format!("[{}]", list.join(",")))
    }

    fn run(&self, simulator: &mut Simulator, tasks: &[Task]) -> Execution {
        Executor::new(&self.topology.graph, simulator, ExecuteOptions::default()).run(tasks)
    }

    fn with(&self, injections: &[Injection], ways: &[&[u32]]) -> (Execution, Vec<Done>) {
        let mut simulator = Simulator::new(&self.topology.graph, injections);
        let execution = self.run(&mut simulator, &self.call(ways));
        (execution, simulator.done)
    }
}

fn clicked(done: &[Done]) -> Vec<u32> {
    done.iter().map(|d| if let Done::Clicked(at) = d { *at } else { panic!("{d:?}") }).collect()
}

#[test]
fn the_executor_starts_from_what_is_open_and_closes_what_is_in_the_way() {
    let world = World::new();
    // The dialog stays open for the second target, and is closed with OK for the third.
    let (execution, done) = world.with(&[], &[&[1, 2, 6], &[1, 3], &[7, 8]]);
    assert_eq!(execution.error, None);
    assert_eq!(clicked(&done), [1, 2, 6, 3, 4, 7, 8]);
    let closed = execution.steps.iter().find_map(|step| match step {
        Step::CloseWindow { window, button, side_effect, .. } => {
            Some((window.as_str(), button.as_deref(), *side_effect))
        }
        _ => None,
    });
    assert_eq!(closed, Some(("dialog:Font", Some("OK"), SideEffect::Commits)));
    assert_eq!(execution.clicks(), 6);
    // Without OK, Cancel does it; without any button, Escape.
    let (execution, done) = world.with(&[Injection::Disabled(4)], &[&[1, 3], &[7, 8]]);
    assert_eq!((execution.error, clicked(&done)), (None, vec![1, 3, 5, 7, 8]));
    let (_, done) = world.with(&[Injection::Absent(4), Injection::Absent(5)], &[&[1, 3], &[7, 8]]);
    assert!(done.contains(&Done::Dismissed("dialog:Font".to_owned())));
}

#[test]
fn a_shared_control_is_reached_by_the_path_that_was_meant() {
    let world = World::new();
    let mut simulator = Simulator::new(&world.topology.graph, &[]);
    // Someone opened the colours of the font; the outline's are wanted.
    simulator.click(9);
    let execution = world.run(&mut simulator, &world.call(&[&[10, 11]]));
    assert_eq!(execution.error, None);
    let what = &simulator.done[1..];
    assert_eq!(what, [Done::Dismissed("window:".to_owned()), Done::Clicked(10), Done::Clicked(11)]);
    // A control that only one leads to is taken where it is.
    let mut simulator = Simulator::new(&world.topology.graph, &[]);
    simulator.click(1);
    simulator.click(2);
    let execution = world.run(&mut simulator, &world.call(&[&[1, 2, 6]]));
    assert_eq!((execution.error, clicked(&simulator.done)), (None, vec![1, 2, 6]));
}

#[test]
fn failures_are_met_with_patience_or_told() {
    let world = World::new();
    let (execution, done) = world.with(&[Injection::Slow(8, 3)], &[&[7, 8]]);
    assert_eq!((execution.error, clicked(&done)), (None, vec![7, 8]));
    let Some(Step::Click { retries: 3, target: true, .. }) = execution.steps.last() else {
        panic!("{:?}", execution.steps)
    };
    let (execution, done) = world.with(&[Injection::Slow(8, 4)], &[&[7, 8], &[1, 3]]);
    let Some(VisitError::Absent { command: 0, looks: 4, site, visible }) = execution.error else { panic!() };
    assert_eq!((site.name.as_str(), site.window.as_str()), ("Paste", "app"));
    assert!(visible.contains(&"Edit".to_owned()));
    assert_eq!(clicked(&done), [7], "nothing is done after an error");
    let (execution, _) = world.with(&[Injection::Disabled(8)], &[&[7, 8]]);
    let Some(error @ VisitError::Disabled { .. }) = execution.error else { panic!() };
    assert!(error.to_string().contains("`Paste` (menu item) is in the window `app` and disabled"), "{error}");
    let (execution, _) = world.with(&[Injection::Renamed(8, "Paste...".to_owned())], &[&[7, 8]]);
    assert!(
        matches!(execution.steps.last(), Some(Step::Click { found: Found::Fuzzy(score), .. }) if *score == 1.0)
    );
    let (execution, _) = world.with(&[Injection::Renamed(8, "Delete".to_owned())], &[&[7, 8]]);
    assert!(matches!(execution.error, Some(VisitError::Absent { .. })), "nothing like it");
    let (execution, _) = world.with(&[Injection::Absent(1)], &[&[1, 3]]);
    assert!(
        matches!(execution.error, Some(VisitError::Absent { .. })),
        "the first screen has no window to close"
    );
}

#[test]
fn text_goes_into_what_takes_text_and_shortcuts_are_pressed_once() {
    let world = World::new();
    let targets = super::Targets::of(&world.topology);
    let (field, item) =
        (targets.find(&[1, 3]).expect("a field").id, targets.find(&[7, 8]).expect("an item").id);
    let call = format!(r#"[{{"id": {field}, "text": "Arial"}}, {{"shortcut_key": "enter"}}]"#);
    let mut simulator = Simulator::new(&world.topology.graph, &[]);
    let execution = world.run(&mut simulator, &tasks(&world.topology, &call));
    assert_eq!(execution.error, None);
    assert_eq!(
        simulator.done[1..],
        [Done::Clicked(3), Done::Input(3, "Arial".to_owned()), Done::Pressed("enter".to_owned())]
    );
    let mut simulator = Simulator::new(&world.topology.graph, &[Injection::KeyFails("enter".to_owned())]);
    let execution = world.run(&mut simulator, &tasks(&world.topology, &call));
    assert!(matches!(&execution.error, Some(VisitError::ShortcutFailed { command: 1, .. })));
    assert_eq!(simulator.done.iter().filter(|d| matches!(d, Done::Pressed(_))).count(), 1);
    // A menu item takes no text, which is known before anything is done.
    let call = format!(r#"[{{"id": {field}}}, {{"id": {item}, "text": "x"}}]"#);
    let refused = error(&world.topology, &call);
    assert!(matches!(&refused, VisitError::NotEditable { command: 1, .. }), "{refused}");
    // One that is known by its id only may take text: the screen tells, at the end of the way.
    let mut bare = World::new();
    bare.topology.graph.controls[8].id_only = true;
    let mut simulator = Simulator::new(&bare.topology.graph, &[]);
    let call = format!(r#"[{{"id": {item}, "text": "x"}}]"#);
    let execution = bare.run(&mut simulator, &tasks(&bare.topology, &call));
    assert!(matches!(&execution.error, Some(VisitError::NotEditable { .. })));
    assert_eq!(clicked(&simulator.done), [7], "the item itself was not clicked");
}

#[test]
fn injections_are_read_from_text() {
    let read = |text: &str| text.parse::<InjectionSpec>().map(|spec| spec.0);
    assert_eq!(read("renamed:4=Go To=x"), Ok(Injection::Renamed(4, "Go To=x".to_owned())));
    assert_eq!(read("slow:4=2"), Ok(Injection::Slow(4, 2)));
    assert_eq!(read("key-fails:ctrl+s"), Ok(Injection::KeyFails("ctrl+s".to_owned())));
    for text in ["", "disabled", "disabled:x", "slow:4", "renamed:4", "broken:4", "key-fails:"] {
        assert!(read(text).expect_err(text).contains("disabled:ID"), "{text}");
    }
}

#[test]
fn declarations_take_labels_and_are_done_whole_or_not_at_all() {
    let world = World::new();
    let mut simulator = Simulator::new(&world.topology.graph, &[]);
    simulator.click(1);
    simulator.click(2);
    // A tab, a field, OK, Cancel, the scroll bar.
    assert_eq!(
        (label_of(0), label_of(25), label_of(26), label_of(701)),
        ("A".into(), "Z".into(), "AA".into(), "ZZ".into())
    );
    simulator.input(3, "one\ntwo\n\nthree\nfour");
    let mut turn = |text: &str| {
        assert!(is_declaration(text) || text.contains("\"id\": 3}"), "{text}");
        let before = simulator.done.len();
        let answer = parse_declarations(text).and_then(|d| declare(&mut simulator, &d));
        let done = simulator.done[before..].to_vec();
        assert!(answer.is_ok() || done.is_empty(), "nothing is done when one cannot be: {done:?}");
        (answer, done)
    };
    let (answer, _) =
        turn(r#"[{"set_scrollbar_pos": {"label": "E", "y_percent": 80}}, {"get_texts": {"labels": ["B"]}}]"#);
    let answer = answer.expect("done");
    assert_eq!((answer[0]["y_percent"].as_f64(), answer[0]["x_percent"].as_f64()), (Some(80.0), Some(0.0)));
    assert_eq!(answer[1]["texts"]["B"], "one\ntwo\n\nthree\nfour");
    let (_, done) = turn(r#"[{"select_lines": {"label": "b", "start_index": 2, "end_index": 4}}]"#);
    assert_eq!(done, [Done::SelectedText(3, Some((4, 14)))]);
    let (_, done) = turn(r#"[{"select_paragraphs": {"label": "B", "start_index": 2}}]"#);
    assert_eq!(done, [Done::SelectedText(3, Some((9, 19)))]);
    let (_, done) = turn(r#"[{"select_controls": {"labels": ["A"]}}]"#);
    assert_eq!(done, [Done::Selected(vec![2])]);
    for (text, code) in [
        (
            r#"[{"select_controls": {"labels": ["A"]}}, {"set_scrollbar_pos": {"label": "B", "y_percent": 1}}]"#,
            "unsupported_pattern",
        ),
        (r#"[{"select_controls": {"labels": ["A", "C"]}}]"#, "unsupported_pattern"),
        (r#"[{"select_controls": {"labels": ["A", "ZZ"]}}]"#, "unknown_label"),
        (r#"[{"get_texts": {"labels": ["14"]}}]"#, "static_id"),
        (r#"[{"get_texts": {"labels": [14]}}]"#, "static_id"),
        (r#"[{"get_texts": {"id": 14}}]"#, "static_id"),
        (r#"[{"get_texts": {"labels": ["B"]}}, {"id": 3}]"#, "interfaces_mixed"),
        (r#"[{"select_lines": {"label": "B", "start_index": 2, "end_index": 9}}]"#, "out_of_range"),
        (r#"[{"select_lines": {"label": "B", "start_index": 0}}]"#, "out_of_range"),
        (r#"[{"set_scrollbar_pos": {"label": "E", "y_percent": 101}}]"#, "out_of_range"),
        (r#"[{"set_scrollbar_pos": {"y_percent": 1}}]"#, "bad_command"),
    ] {
        let (answer, _) = turn(text);
        assert_eq!(answer.expect_err(text).to_json()["code"], code, "{text}");
    }
    let mut simulator = Simulator::new(&world.topology.graph, &[Injection::Disabled(7)]);
    let scroll = Declaration::SelectControls { labels: vec!["B".to_owned()] };
    assert!(matches!(declare(&mut simulator, &[scroll]), Err(VisitError::UnsupportedPattern { .. })));
}

#[test]
fn disabled_controls_can_be_read_and_not_set() {
    let world = World::new();
    let mut simulator = Simulator::new(&world.topology.graph, &[Injection::Disabled(3)]);
    simulator.click(1);
    let get = Declaration::GetTexts { labels: vec!["B".to_owned()] };
    assert!(declare(&mut simulator, &[get]).is_ok());
    let set = Declaration::SelectLines { label: "B".to_owned(), start: 1, end: 1 };
    assert!(matches!(declare(&mut simulator, &[set]), Err(VisitError::DisabledControl { .. })));
}

#[test]
fn data_items_are_read_before_each_call() {
    let mut graph = graph(6, &[(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]);
    for (i, name) in [(1, "Total"), (2, ""), (3, " "), (4, "a long text of a cell")] {
        graph.controls[i].id.control_type = "table cell".to_owned();
        name.clone_into(&mut graph.controls[i].name);
        graph.controls[i].patterns = vec![Pattern::Value];
    }
    let mut simulator = Simulator::new(&graph, &[]);
    let passive = passive_texts(&mut simulator, 6);
    let told = vec![("A".to_owned(), "Total".to_owned()), ("D".to_owned(), "a long…".to_owned())];
    assert_eq!((passive.texts, passive.empty, passive.truncated), (told, 2, 1));
}
