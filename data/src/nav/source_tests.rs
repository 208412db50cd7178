//! Sources of the graph: exploration logs, transition graphs, `DroidBot`, traces; what is wrong with them is told.

use serde_json::{Value, json};

use super::{
    BuildOptions, Built, ControlList, DroidbotReader, Edge, Flag, Graph, GraphBuilder, Place, ROOT,
    RipReader, Topology, TraceReader, explorer_skipped,
};
use crate::action::{Action, Verb};
use crate::adapters::{AdapterOptions, Input, Item, Record, adapter};
use crate::trace::{Element, Episode, Format, Outcome, Platform, RejectKind, Screen, Step};

/// Reads lines as the log `log.jsonl`.
fn log(lines: &[String], options: BuildOptions) -> Built {
    let mut builder = GraphBuilder::new(options);
    let mut reader = RipReader::new("log.jsonl", "log");
    for (number, line) in (1..).zip(lines) {
        reader.line(&mut builder, number, Ok(line));
    }
    reader.end(&mut builder);
    builder.finish()
}

fn control(name: &str, role: &str, path: &str) -> Value {
    json!({"id": format!("{name}|{role}|{path}"), "name": name, "role": role, "description": "",
           "states": ["enabled", "showing"], "actions": ["click"], "window": "frame:MAIN"})
}

fn launch(new: Value) -> String {
    json!({"run": "p1", "app": "app", "action": "launch", "control": null, "path": [], "to_state_id": "s0",
           "new_controls": new, "window_opened": ["frame:MAIN"]})
    .to_string()
}

fn click(path: &[&str], control: Value, new: Value) -> Value {
    json!({"run": "p1", "app": "app", "action": "click", "control": control, "path": path,
           "from_state_id": "s0", "to_state_id": "s1", "new_controls": new, "window_opened": null})
}

fn id(graph: &Graph, at: u32) -> String {
    graph.controls[at as usize].id.to_string()
}

fn edge<'a>(graph: &'a Graph, from: &str, to: &str) -> Option<&'a Edge> {
    graph.edges.iter().find(|e| id(graph, e.from).starts_with(from) && id(graph, e.to).starts_with(to))
}

#[test]
fn a_log_gives_nodes_edges_and_evidence() {
    let file = control("File", "menu", "main");
    let save = json!({"id": "Save as|menu item|main/File", "name": "Save as", "role": "menu item", "window": "dialog:S"});
    let mut first = click(&[], file.clone(), json!([save]));
    first["window_opened"] = json!(["dialog:S"]);
    first["closed_by"] = json!(["Escape"]);
    let mut second = click(&[], file.clone(), json!([{"id": "Save as|menu item|main/File"}]));
    second["run"] = json!("p2");
    let lines = [launch(json!([file])), first.to_string(), second.to_string()];
    let built = log(&lines, BuildOptions::default());
    assert_eq!(built.rejects, []);
    let graph = &built.graph;
    let ids: Vec<String> = (0..graph.controls.len() as u32).map(|at| id(graph, at)).collect();
    assert_eq!(ids, ["root|virtual root|", "File|menu|main", "Save as|menu item|main/File"]);
    assert_eq!(graph.controls[0].name, "app");
    let save = &graph.controls[2];
    assert_eq!(
        (save.contexts.join(","), save.count, save.id_only, save.enabled),
        ("p1,p2".to_owned(), 2, false, true)
    );
    assert_eq!(save.first_seen, Place::new("log.jsonl", "line 2"));
    let edge = edge(graph, "File", "Save as").expect("an edge");
    assert_eq!(
        (edge.count, edge.window_opened.as_deref(), edge.action.as_str()),
        (2, Some("dialog:S"), "click")
    );
    let seen: Vec<_> = edge
        .evidence
        .iter()
        .map(|e| (e.place.key.as_str(), e.before.as_deref(), e.after.as_deref()))
        .collect();
    assert_eq!(seen, [("line 2", Some("s0"), Some("s1")), ("line 3", Some("s0"), Some("s1"))]);
    let window = graph.windows.iter().find(|w| w.title == "dialog:S").expect("a window");
    assert_eq!(window.opened_by, ["File|menu|main"]);
    assert_eq!(window.closed_by["Escape"], 1);
    assert_eq!(built.clicks, [[1], [1]]);
}

#[test]
fn suspect_rows_give_no_edges_and_no_way_leads_through_them() {
    let (wave, line) = (control("Wave", "push button", "main"), control("Line", "menu item", "popup"));
    let (tab, box_) = (control("Font", "page tab", "dialog"), control("Bold", "check box", "dialog/Font"));
    let mut suspect = click(&[], wave.clone(), json!([line, tab]));
    suspect["suspect"] = json!(true);
    let wave_id = "Wave|push button|main";
    // The tab is named by id, and described only in the suspect row.
    let after = click(&[wave_id], json!({"id": "Font|page tab|dialog"}), json!([box_]));
    let lines = [launch(json!([wave])), suspect.to_string(), after.to_string()];
    let built = log(&lines, BuildOptions::default());
    let graph = &built.graph;
    assert!(edge(graph, "Wave", "").is_none(), "{:?}", graph.edges);
    assert!(edge(graph, "Font", "Bold").is_some(), "what the tab showed was seen");
    let tab = graph.controls.iter().find(|c| c.name == "Font").expect("the tab");
    assert!(!tab.id_only, "described where it was seen first");
    assert!(graph.controls.iter().all(|c| c.name != "Line"), "nothing else mentions it");
    assert_eq!(graph.counts["transitions_suspect"], 1);
    assert_eq!(graph.counts["transitions_after_suspect"], 1);
    let topology =
        Topology::of(built.graph.clone(), super::DEFAULT_THETA, super::CoreOptions::default(), String::new());
    let unreachable = topology.expect("small").unreachable;
    assert_eq!(unreachable.len(), 2, "the tab and its box are told, not lost");
}

#[test]
fn broken_lines_are_rejected_one_by_one() {
    let file = control("File", "menu", "main");
    let twice =
        click(&[], file.clone(), json!([control("A", "menu item", "x"), control("A", "menu item", "x")]));
    let mut no_id = click(&[], file.clone(), json!([{"name": "x"}]));
    no_id["path"] = json!([]);
    let mut odd = click(&[], file.clone(), json!([]));
    odd["path"] = json!("File");
    let lines = [
        launch(json!([file])),
        "{\"action\": \"click\", ".to_owned(),
        twice.to_string(),
        no_id.to_string(),
        odd.to_string(),
        "[1]".to_owned(),
        json!({"action": "click", "control": null, "new_controls": []}).to_string(),
        json!({"action": "click", "control": {"id": "a|b|c", "role": 5}, "new_controls": []}).to_string(),
        json!({"action": "launch", "new_controls": {}}).to_string(),
        r#"{"action": "launch", "action": "click", "new_controls": []}"#.to_owned(),
    ];
    let built = log(&lines, BuildOptions::default());
    let told: Vec<(&str, RejectKind)> =
        built.rejects.iter().map(|r| (r.place.key.as_str(), r.kind)).collect();
    assert_eq!(
        told,
        [
            ("line 2", RejectKind::Malformed),
            ("line 3 new_controls[1]", RejectKind::Duplicate),
            ("line 4", RejectKind::MissingField),
            ("line 5", RejectKind::MissingField),
            ("line 6", RejectKind::Malformed),
            ("line 7", RejectKind::MissingField),
            ("line 8", RejectKind::MissingField),
            ("line 9", RejectKind::MissingField),
            ("line 10", RejectKind::Malformed),
        ]
    );
    assert!(
        built.rejects[0].reason.contains("cut off") && built.rejects[2].reason.contains("new_controls[0]")
    );
    assert!(built.rejects.iter().all(|r| r.place.file == "log.jsonl"));
    assert_eq!(built.graph.counts["transitions"], 2, "the first line and the third");
    let nothing = log(&[], BuildOptions::default());
    assert_eq!(nothing.rejects[0].kind, RejectKind::Empty);
}

#[test]
fn the_order_of_keys_in_a_row_does_not_matter() {
    let row = click(&[], control("File", "menu", "main"), json!([control("A", "menu item", "x")]));
    let reversed: serde_json::Map<String, Value> = { row.as_object().expect("an object").iter().rev() }
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let first = launch(json!([control("File", "menu", "main")]));
    let graphs = [row.to_string(), Value::Object(reversed).to_string()]
        .map(|line| log(&[first.clone(), line], BuildOptions::default()).graph);
    assert_eq!(graphs[0], graphs[1]);
}

#[test]
fn a_way_that_no_difference_shows_is_an_edge_that_says_so() {
    let (file, open) = (control("File", "menu", "main"), control("Open", "menu item", "main/File"));
    let lines = [launch(json!([file])), click(&["File|menu|main"], open, json!([])).to_string()];
    let built = log(&lines, BuildOptions::default());
    let edge = edge(&built.graph, "File", "Open").expect("an edge");
    assert_eq!((edge.flags.as_slice(), edge.count), (&[Flag::ByPath][..], 1));
    assert_eq!(built.clicks, [[1, 2]]);
}

#[test]
fn what_is_blacklisted_stays_and_is_not_followed() {
    let (quit, file) = (control("Quit", "menu item", "main"), control("File", "menu", "main"));
    let lines = [
        launch(json!([quit, file])),
        click(&[], quit, json!([control("Sure?", "label", "dialog")])).to_string(),
        click(&[], file, json!([control("New", "menu item", "main/File")])).to_string(),
    ];
    let built = log(&lines, BuildOptions::default());
    let graph = &built.graph;
    assert!(edge(graph, "Quit", "").is_none() && edge(graph, "File", "New").is_some());
    assert_eq!(graph.counts["edges_skipped_blacklist"], 1);
    assert_eq!(graph.controls[1].unexplored.as_deref(), Some("blacklist"));
    let options = BuildOptions { blacklist: ControlList::default(), ..BuildOptions::default() };
    assert!(edge(&log(&lines, options).graph, "Quit", "Sure?").is_some(), "an empty list follows everything");
}

#[test]
fn what_the_explorer_skipped_is_marked() {
    let mut builder = GraphBuilder::new(BuildOptions::default());
    let mut reader = RipReader::new("log.jsonl", "log");
    reader.line(&mut builder, 1, Ok(&launch(json!([control("Help", "menu", "main")]))));
    let app = reader.app().to_owned();
    reader.end(&mut builder);
    let meta =
        r#"{"clicks": 3, "p1": {"skipped": {"Help|menu|main": "external", "Gone|menu|main": "error"}}}"#;
    explorer_skipped(&mut builder, &app, meta).expect("read");
    assert!(explorer_skipped(&mut builder, &app, "[").is_err());
    let graph = builder.finish().graph;
    assert_eq!(graph.controls[1].unexplored.as_deref(), Some("external"));
    assert_eq!(graph.counts["controls_skipped_by_explorer_and_never_seen"], 1);
}

#[test]
fn what_has_no_scope_on_the_first_screen_belongs_to_the_active_tab() {
    let mut home = control("Home", "page tab", "main/tabs");
    home["states"] = json!(["enabled", "selected"]);
    let insert = control("Insert", "page tab", "main/tabs");
    let (bold, table) =
        (control("Bold", "push button", "main"), control("Table", "push button", "main/tabs/Insert"));
    let (menu, zoom) = (control("File", "menu", "main"), control("Zoom", "push button", "main"));
    let lines = [
        launch(json!([insert, home, bold, table, menu, zoom])),
        click(&[], insert, json!([zoom])).to_string(),
    ];
    let graph = log(&lines, BuildOptions::default()).graph;
    assert_eq!(edge(&graph, "Home", "Bold").expect("scoped").flags, [Flag::ActiveTab]);
    assert!(edge(&graph, "Insert", "Table").is_some(), "its path names the other tab");
    for name in ["Home", "Insert", "File", "Zoom"] {
        assert!(edge(&graph, "root", name).is_some(), "{name} has a scope of its own");
    }
    assert!(edge(&graph, "root", "Bold").is_none());
    // One tab, or none that is active: everything stays where it was seen.
    let graph = log(&[launch(json!([home, bold]))], BuildOptions::default()).graph;
    assert!(edge(&graph, "root", "Bold").is_some());
}

#[test]
fn applications_are_told_apart() {
    let lines = ["a", "b"].map(|app| {
        let mut row: Value =
            serde_json::from_str(&launch(json!([control("File", "menu", "main")]))).expect("JSON");
        row["app"] = json!(app);
        row.to_string()
    });
    let built = log(&lines, BuildOptions::default());
    let mut ids: Vec<String> = built.graph.controls.iter().map(|c| c.id.to_string()).collect();
    ids.sort_unstable();
    assert_eq!(
        ids,
        ["File|menu|a/main", "File|menu|b/main", "a|application|", "b|application|", "root|virtual root|"]
    );
    assert!(
        edge(&built.graph, "root", "a|application").is_some()
            && edge(&built.graph, "b|app", "File|menu|b").is_some()
    );
    assert!(edge(&built.graph, "root", "File").is_none());
}

#[test]
fn recordings_are_covered_across_one_and_several_applications() {
    let lines = |app: &str, item: &str| {
        let file = control("File", "menu", "main");
        let rows = [
            launch(json!([file])),
            click(&[], file, json!([control(item, "menu item", "main/File")])).to_string(),
            click(&["File|menu|main"], control(item, "menu item", "main/File"), json!([])).to_string(),
        ];
        rows.map(|row| row.replace("\"app\":\"app\"", &format!("\"app\":\"{app}\"")))
    };
    let one = log(&lines("a", "Open"), BuildOptions::default());
    let both = log(&[lines("a", "Open."), lines("b", "Open")].concat(), BuildOptions::default());
    let topology = |built: &Built| {
        let graph = built.graph.clone();
        Topology::of(graph, super::DEFAULT_THETA, super::CoreOptions::default(), String::new())
            .expect("small")
    };
    // Of four sequences in both, those of `b` are left out; `Open.` is `Open` with a dot.
    let found = super::coverage(&topology(&one), &both.graph, &both.clicks, 0.7);
    assert_eq!((found.sequences, found.of_other_applications, found.clicks), (2, 2, 3));
    assert_eq!((found.known, found.known_fuzzy, found.sequences_in_forest), (2, 1, 2));
    // The application itself is a click where several are told apart.
    let found = super::coverage(&topology(&both), &one.graph, &one.clicks, 0.7);
    assert_eq!((found.sequences, found.clicks, found.known, found.known_fuzzy), (2, 5, 4, 1));
    assert_eq!(found.sequences_in_graph, 2);
    let other = log(&lines("c", "Open"), BuildOptions::default());
    assert_eq!(
        super::coverage(&topology(&one), &other.graph, &other.clicks, 0.7).known,
        3,
        "one name is as good as another"
    );
    assert_eq!(super::coverage(&topology(&both), &other.graph, &other.clicks, 0.7).of_other_applications, 2);
}

fn element(id: &str, role: &str, text: &str) -> Element {
    Element { id: id.to_owned(), role: role.to_owned(), text: text.to_owned(), ..Element::default() }
}

/// An episode whose steps act on the first element called so, on screens of these labelled buttons.
fn episode(steps: &[(Verb, &str, &[&str])]) -> Episode {
    let steps = steps.iter().enumerate().map(|(i, (verb, target, texts))| {
        let mut action = Action::new(*verb, "act");
        action.target.element = texts.iter().position(|t| t == target).map(|at| at.to_string());
        let mut step = Step::new(i as u32, format!("steps[{i}]"), action);
        let role = |at: usize| if at == 0 { "p" } else { "button" };
        let elements =
            { texts.iter().enumerate() }.map(|(at, text)| element(&at.to_string(), role(at), text));
        step.screen = Screen { elements: elements.collect(), ..Screen::default() };
        step
    });
    Episode {
        episode_id: "e".to_owned(),
        format: Format::Droidtask,
        source: "file".to_owned(),
        source_key: String::new(),
        platform: Platform::Mobile,
        instruction: String::new(),
        apps: vec!["app".to_owned()],
        domain: None,
        outcome: Outcome::Unknown,
        split: None,
        extra: None,
        steps: steps.collect(),
    }
}

fn traces(episodes: &[Episode]) -> Built {
    let mut builder = GraphBuilder::new(BuildOptions::default());
    let mut reader = TraceReader::default();
    episodes.iter().for_each(|episode| reader.episode(&mut builder, episode));
    builder.finish()
}

#[test]
fn traces_give_the_differences_of_their_screens() {
    let (main, settings): (&[&str], &[&str]) =
        (&["Main", "Settings", "Search"], &["Settings page", "Theme", "Back"]);
    let built = traces(&[
        episode(&[
            (Verb::Click, "Settings", main),
            (Verb::Back, "Back", settings),
            (Verb::Click, "Search", main),
            (Verb::Click, "go", &["Search page", "go", "Main"]),
            (Verb::Scroll, "", &["Result 1", "One", "Two"]),
            (Verb::Complete, "", &["Result 2", "One", "Two", "Three"]),
        ]),
        episode(&[(Verb::OpenApp, "", main), (Verb::Click, "nowhere", settings), (Verb::Complete, "", &[])]),
    ]);
    let graph = &built.graph;
    let id_of = |at: u32| id(graph, at);
    let has = |from: &str, to: &str| edge(graph, from, to).map(|e| e.flags.clone());
    assert_eq!(has("root", "Settings|button|Main"), Some(vec![]));
    assert_eq!(has("Settings|button|Main", "Theme|button|Settings page"), Some(vec![Flag::BySequence]));
    assert_eq!(has("Back|button", "Main|p|Main"), Some(vec![Flag::BySequence, Flag::Back]));
    // What was scrolled to belongs to what opened the screen; digits do not make another screen.
    assert_eq!(has("go|button", "Three|button|Result #"), Some(vec![Flag::BySequence, Flag::Indirect]));
    assert_eq!(
        has("root", "Theme|button"),
        Some(vec![Flag::BySequence]),
        "what opening the application showed"
    );
    assert_eq!(
        graph.screens.iter().map(|s| (s.name.as_str(), s.count, s.variants)).collect::<Vec<_>>(),
        [("Main", 3, 1), ("Settings page", 2, 1), ("Search page", 1, 1), ("Result #", 2, 2)]
    );
    let ways: Vec<String> = { built.clicks.iter() }
        .map(|way| {
            way.iter()
                .map(|&at| id_of(at).split('|').next().expect("a name").to_owned())
                .collect::<Vec<_>>()
                .join(">")
        })
        .collect();
    assert_eq!(
        ways,
        ["Settings", "Search", "Search>go"],
        "a screen that comes again ends what was clicked since"
    );
    assert_eq!(built.rejects.len(), 1, "{:?}", built.rejects);
    assert_eq!(
        (built.rejects[0].place.key.as_str(), built.rejects[0].kind),
        ("steps[1]", RejectKind::OutOfRange)
    );
    // Ways back are no part of the topology.
    let children = graph.children();
    let back = graph.controls.iter().position(|c| c.name == "Back").expect("a control");
    assert!(children[back].is_empty());
}

#[test]
fn screens_that_have_most_in_common_are_one() {
    let many = ["Inbox", "a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let mut other = many;
    other[0] = "Outbox";
    let built = traces(&[episode(&[
        (Verb::Click, "a", &many),
        (Verb::Click, "b", &other),
        (Verb::Click, "c", &["Elsewhere", "a", "b", "c"]),
    ])]);
    let groups: Vec<_> = built.graph.screens.iter().map(|s| (s.name.as_str(), s.variants)).collect();
    assert_eq!(groups, [("Inbox", 2), ("Elsewhere", 1)]);
    assert_eq!(built.graph.controls.iter().filter(|c| c.name == "a").count(), 2);
}

#[test]
fn screens_without_elements_are_told() {
    let built = traces(&[episode(&[(Verb::Click, "", &[]), (Verb::Complete, "", &[])])]);
    assert_eq!(built.graph.controls.len(), 1);
    assert!(built.rejects[0].reason.starts_with("1 of 2 steps"), "{}", built.rejects[0].reason);
}

#[test]
fn a_transition_graph_that_is_cut_off_is_told_with_its_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("utg.yaml");
    std::fs::write(&path, "records:\n- Choice: 1\n  Input: 'null\n").expect("written");
    let input = Input::new(&path).expect("there");
    let mut rejects = Vec::new();
    let item = Item::whole(path.canonicalize().expect("there"));
    adapter(Format::Droidtask).read(&input, &item, AdapterOptions::default(), &mut |record| match record {
        Record::Reject(reject) => rejects.push(reject),
        Record::Episode(_) => panic!("cut off"),
    });
    assert_eq!(rejects.len(), 1);
    assert_eq!((rejects[0].file.as_str(), rejects[0].kind), ("utg.yaml", RejectKind::Malformed));
    assert!(rejects[0].reason.contains("line 3"), "{}", rejects[0].reason);
}

fn state(name: &str, texts: &[&str]) -> String {
    let view = |i: usize, text: &str| {
        json!({"temp_id": i, "parent": 0, "class": "android.widget.Button", "text": text, "visible": true,
               "enabled": true, "clickable": true, "resource_id": null, "children": []})
    };
    let mut views =
        vec![json!({"temp_id": 0, "parent": -1, "class": "android.widget.FrameLayout", "visible": true,
                                "resource_id": "android:id/content", "children": []})];
    views.extend(texts.iter().enumerate().map(|(i, text)| view(i + 1, text)));
    json!({"state_str": name, "foreground_activity": format!("com.app/.{name}"), "views": views}).to_string()
}

fn event(kind: &str, view: Option<i64>, from: &str, to: &str) -> String {
    let view = view.map(|id| json!({ "temp_id": id }));
    json!({"tag": "t", "event": {"event_type": kind, "name": "BACK", "view": view}, "start_state": from,
           "stop_state": to, "event_str": "…"})
    .to_string()
}

#[test]
fn droidbot_states_and_events_give_a_graph() {
    let mut builder = GraphBuilder::new(BuildOptions::default());
    let mut reader = DroidbotReader::default();
    let events = [
        event("touch", Some(2), "A", "B"),
        event("key", None, "B", "A"),
        event("touch", Some(9), "A", "B"),
        event("touch", Some(1), "A", "gone"),
        "{".to_owned(),
    ];
    for (i, text) in events.iter().enumerate() {
        reader.event(&mut builder, &format!("event_{i}.json"), text);
    }
    reader.state(&mut builder, "state_1.json", &state("B", &["Theme", "Theme"]));
    reader.state(&mut builder, "state_2.json", &state("A", &["Search", "Settings"]));
    reader.state(&mut builder, "state_3.json", "{\"views\": []}");
    reader.end(&mut builder);
    let built = builder.finish();
    let graph = &built.graph;
    assert_eq!(
        id(graph, 1),
        r"Search|android.widget.Button|.A/android:id\/content",
        "the first event's screen is the first"
    );
    assert_eq!(edge(graph, "Settings", "Theme").expect("an edge").evidence[0].before.as_deref(), Some("A"));
    assert!(graph.controls.iter().any(|c| c.id.to_string().ends_with("content#2")), "the same again");
    assert!(graph.edges.iter().any(|e| e.flags == [Flag::Back]));
    assert_eq!(graph.edges.iter().filter(|e| e.from == ROOT).count(), 2);
    let told: Vec<_> = built.rejects.iter().map(|r| (r.place.file.as_str(), r.kind)).collect();
    assert_eq!(
        told,
        [
            ("event_4.json", RejectKind::Malformed),
            ("state_3.json", RejectKind::Malformed),
            ("event_2.json", RejectKind::OutOfRange),
            ("event_3.json", RejectKind::MissingField)
        ]
    );
    assert!(built.rejects[1].reason.contains("state_str"), "{}", built.rejects[1].reason);
    assert_eq!(built.clicks, [[2]]);
}
