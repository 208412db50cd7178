//! `DroidBot`'s output as it is written: events without views or states, and `utg.js`.

use serde_json::{Value, json};

use super::{BuildOptions, Built, DroidbotReader, GraphBuilder, ROOT};
use crate::trace::RejectKind;

/// A state of buttons, each 100 pixels wide and high and below the one before, in a frame that is no control.
fn state(name: &str, texts: &[&str]) -> String {
    let view = |i: usize, text: &str| {
        json!({"temp_id": i, "parent": 0, "class": "android.widget.Button", "text": text, "visible": true,
               "enabled": true, "clickable": true, "resource_id": null, "children": [],
               "view_str": format!("{name}{i}"), "bounds": [[0, 100 * i - 100], [100, 100 * i]]})
    };
    let mut views =
        vec![json!({"temp_id": 0, "parent": -1, "class": "android.widget.FrameLayout", "visible": true,
        "resource_id": "android:id/content", "children": [], "bounds": [[0, 0], [1080, 1920]]})];
    views.extend(texts.iter().enumerate().map(|(i, text)| view(i + 1, text)));
    json!({"state_str": name, "foreground_activity": format!("com.app/.{name}"), "views": views}).to_string()
}

fn event(body: &Value, from: &Value, to: &Value) -> String {
    json!({"tag": "t", "event": body, "start_state": from, "stop_state": to, "event_str": body.to_string()})
        .to_string()
}

const STATES: [(&str, &[&str]); 4] = [
    ("A", &["Search", "Settings"]),
    ("B", &["Theme", "About"]),
    ("C", &["Theme list", "Dark"]),
    ("D", &["Licence"]),
];

fn build(events: &[String], states: &[(&str, &[&str])], utg: Option<&str>) -> Built {
    let mut builder = GraphBuilder::new(BuildOptions::default());
    let mut reader = DroidbotReader::default();
    for (i, text) in events.iter().enumerate() {
        reader.event(&mut builder, &format!("event_{i}.json"), text);
    }
    for (name, texts) in states {
        reader.state(&mut builder, &format!("state_{name}.json"), &state(name, texts));
    }
    utg.into_iter().for_each(|text| reader.utg(&mut builder, "utg.js", text));
    reader.end(&mut builder);
    builder.finish()
}

/// Edges as `from → to`, the flag where there is one behind them.
fn edges(built: &Built) -> Vec<String> {
    let name = |at: u32| if at == ROOT { "root" } else { built.graph.controls[at as usize].name.as_str() };
    let edge = |e: &super::Edge| {
        let flags: Vec<_> = e.flags.iter().map(|flag| format!(" {flag:?}")).collect();
        format!("{} → {}{}", name(e.from), name(e.to), flags.concat())
    };
    built.graph.edges.iter().map(edge).collect()
}

#[test]
fn events_without_a_view_go_to_what_lies_there_or_to_what_opened_the_screen() {
    let (a, b, c, d) = (json!("A"), json!("B"), json!("C"), json!("D"));
    let events = [
        event(&json!({"event_type": "touch", "x": 50, "y": 150}), &a, &b),
        event(&json!({"event_type": "scroll", "x": 50, "y": 50, "direction": "DOWN", "view": null}), &b, &c),
        // The middle of a view that is no control, in a button.
        event(
            &json!({"event_type": "touch", "view": {"temp_id": 7, "bounds": [[10, 110], [20, 120]]}}),
            &c,
            &d,
        ),
        event(&json!({"event_type": "key", "name": "BACK"}), &d, &a),
        // No control lies there, so it is as if the screen had moved.
        event(&json!({"event_type": "touch", "x": 900, "y": 900}), &b, &d),
        event(&json!({"event_type": "intent", "intent": "am start com.app/.B"}), &d, &b),
    ];
    let built = build(&events, &STATES, None);
    assert_eq!(built.rejects, []);
    assert_eq!(
        edges(&built),
        [
            "root → Search",
            "root → Settings",
            "root → Theme",
            "root → About",
            "Settings → Theme",
            "Settings → About",
            "Settings → Theme list Indirect",
            "Settings → Dark Indirect",
            "Settings → Licence Indirect",
            "Dark → Licence",
            "Dark → Search Back",
            "Dark → Settings Back",
        ]
    );
    let names: Vec<Vec<&str>> = { built.clicks.iter() }
        .map(|way| way.iter().map(|&at| built.graph.controls[at as usize].name.as_str()).collect())
        .collect();
    assert_eq!(names, [vec!["Settings"], vec!["Settings", "Dark"]]);
}

#[test]
fn events_whose_states_are_not_known_are_counted() {
    let touch = |view: i64| json!({"event_type": "touch", "view": {"temp_id": view}});
    let events = [
        event(&touch(2), &json!("A"), &json!("B")),
        event(&touch(2), &json!("B"), &Value::Null),
        event(&json!({"event_type": "intent"}), &Value::Null, &json!("D")),
        json!({"event": {"event_type": "key", "name": "HOME"}}).to_string(),
    ];
    let built = build(&events, &STATES, None);
    assert_eq!(built.rejects, []);
    let counts = &built.graph.counts;
    assert_eq!((counts["events_without_state_after"], counts["events_without_state_before"]), (2, 2));
    assert_eq!((counts["transitions"], counts["records"]), (4, 8));
    assert_eq!(built.clicks.len(), 2, "the click that ended the recording is one");
    assert!(edges(&built).contains(&"root → Licence Indirect".to_owned()), "{:?}", edges(&built));
}

/// `utg.js` of a run that touched Settings, Theme and Dark, with what `DroidBot` writes beside that.
fn utg() -> String {
    let node = |name: &str, label: &str| {
        json!({"id": name, "shape": "image", "image": "states/x.png", "label": label, "package": "com.app",
               "activity": format!(".{name}"), "state_str": name, "structure_str": "s", "title": "<table>",
               "content": "x"})
    };
    let edge = |from: &str, to: &str, events: &[(i64, &str, &str)]| {
        let event = |(id, kind, line): &(i64, &str, &str)| json!({"event_str": line, "event_id": id, "event_type": kind, "view_images": ["views/x.jpg"]});
        json!({"from": from, "to": to, "id": format!("{from}-->{to}"), "title": "<table>", "label": "1",
               "events": events.iter().map(event).collect::<Vec<_>>()})
    };
    let graph = json!({
        "nodes": [node("B", "B"), node("A", "A\n<FIRST>"), node("C", "C"), node("D", "D\n<LAST>")],
        "edges": [
            edge("C", "D", &[(4, "touch", "TouchEvent(state=C, view=C2(C/Button-Dark))")]),
            edge("A", "B", &[(1, "touch", "TouchEvent(state=A, view=A2(A/Button-Settings))")]),
            edge("B", "C", &[
                (3, "touch", "TouchEvent(state=B, x=50, y=50)"),
                (2, "scroll", "ScrollEvent(state=B, view=B1(B/Button-Theme), direction=DOWN)"),
            ]),
            edge("D", "A", &[(5, "key", "KeyEvent(state=D, name=BACK)")]),
        ],
        "num_nodes": 4, "num_edges": 4, "app_package": "com.app",
    });
    format!("var utg = \n{};\n", serde_json::to_string_pretty(&graph).expect("JSON"))
}

#[test]
fn utg_js_gives_the_transitions_between_states() {
    let built = build(&[], &STATES, Some(&utg()));
    assert_eq!(built.rejects, []);
    let expected = [
        "root → Search",
        "root → Settings",
        "Settings → Theme",
        "Settings → About",
        "Theme → Theme list",
        "Theme → Dark",
        "Theme → Theme list",
        "Theme → Dark",
        "Dark → Licence",
        "Dark → Search Back",
        "Dark → Settings Back",
    ];
    assert_eq!(edges(&built), expected, "Theme was scrolled and touched: two actions");
    assert_eq!(built.graph.edges[2].evidence[0].place.key, "edges[1] events[0]");
    // What a file of its own tells as well is not counted twice.
    let line = "TouchEvent(state=A, view=A2(A/Button-Settings))";
    let own = json!({"event": {"event_type": "touch", "view": {"temp_id": 2}}, "start_state": "A",
                     "stop_state": "B", "event_str": line});
    let both = build(&[own.to_string()], &STATES, Some(&utg()));
    assert_eq!(edges(&both), expected);
    assert!(both.graph.edges.iter().all(|edge| edge.count == 1), "{:?}", both.graph.edges);
}

#[test]
fn utg_js_alone_has_the_controls_that_were_touched() {
    let built = build(&[], &[], Some(&utg()));
    assert_eq!(built.rejects, []);
    let ids: Vec<String> = built.graph.controls[1..].iter().map(|control| control.id.to_string()).collect();
    assert_eq!(ids, ["Settings|Button|.A", "Theme|Button|.B", "Dark|Button|.C"]);
    assert_eq!(
        edges(&built),
        [
            "root → Settings",
            "Settings → Theme",
            "Settings → Dark Indirect",
            "Theme → Dark",
            "Dark → Settings Back"
        ]
    );
    assert_eq!(built.graph.counts["screens_known_by_events_only"], 4);
    assert_eq!(built.graph.controls[0].name, "com.app");
}

#[test]
fn a_broken_utg_js_is_told_part_by_part() {
    let broken = r#"var utg = {"nodes": [{"id": "A"}, 5], "edges": [{"from": "A"}, {"from": "A", "to": "A",
        "events": [{"event_type": "touch"}]}]}"#;
    let told = |text: &str| -> Vec<(String, RejectKind)> {
        build(&[], &[], Some(text)).rejects.into_iter().map(|r| (r.place.key, r.kind)).collect()
    };
    let rejects = told(broken);
    let keys: Vec<&str> = rejects.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["nodes[1]", "edges[0]", "edges[1]"]);
    assert_eq!(told("var utg = {\"nodes\": [")[0].1, RejectKind::Malformed);
    assert_eq!(told("var utg = {\"nodes\": [], \"edges\": []}")[0].1, RejectKind::Empty);
    assert_eq!(told("var utg = {}").len(), 2, "nodes and edges are missing");
}
