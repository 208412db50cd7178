use serde_json::{Value, json};

use super::read;
use crate::action::{Direction, Verb};
use crate::adapters::testing::pixels;
use crate::trace::{Episode, Reject, RejectKind};

/// A recording with these lines of the complete file, below `rec/`.
fn recording<'a>(events: &'a str, more: &[(&'a str, &'a [u8])]) -> (Vec<Episode>, Vec<Reject>) {
    let metadata = br#"{"system": "Windows", "release": "10", "screen_width": 1000, "screen_height": 500}"#;
    let mut files: Vec<(&str, &[u8])> = vec![
        ("rec/reduced_events_complete.jsonl", events.as_bytes()),
        ("rec/metadata.json", metadata),
        ("rec/task_name.json", b"{\"task_name\": \"Do it\"}"),
    ];
    files.extend_from_slice(more);
    read(&files)
}

fn event(more: &Value) -> String {
    let mut event = json!({"action": "click", "start_time": 10.0, "click_type": 1, "button": "left",
                           "coordinate": {"x": 30, "y": 40}, "vis": true, "id": 0});
    for (key, value) in more.as_object().expect("fields") {
        event[key] = value.clone();
    }
    format!("{event}\n")
}

#[test]
fn a_recording_has_windows_trees_boxes_and_labels() {
    let node = |name: &str, edges: [i32; 4], children: Value| {
        let [left, top, right, bottom] = edges;
        json!({"Name": name, "ControlType": "ButtonControl", "Children": children,
               "BoundingRectangle": {"left": left, "top": top, "right": right, "bottom": bottom}})
    };
    let inner = node("OK", [25, 35, 50, 50], json!([]));
    let tree = node("Settings", [-8, 0, 999, 499], json!([node("OK", [0, 0, 100, 100], json!([inner]))]));
    let target = json!({"title": "OK", "control_type": "ButtonControl", "mark": true});
    let events = [
        event(&json!({"axtree": tree, "target": target})),
        event(&json!({"start_time": 12.5, "id": 1, "vis": false})),
        event(&json!({"start_time": 13.5, "id": 2, "button": "right", "target": {"mark": false}})),
    ]
    .concat();
    let (episodes, rejects) = recording(
        &events,
        &[
            ("rec/top_window.jsonl", b"{\"time_stamp\": 9, \"top_window_name\": \"explorer\"}\n{\"time_stamp\": 13, \"top_window_name\": \"notes\"}\n"),
            ("rec/a11y.jsonl", b"{\"time_stamp\": 8, \"axtree\": {}}\n{\"time_stamp\": 9.5}\n{\"time_stamp\": 20}\n"),
            ("rec/reduced_events_vis.jsonl", b"{\"id\": 0, \"action\": \"Click on OK\"}\n{\"id\": 2, \"action\": \"click\"}\n"),
        ],
    );
    assert_eq!(rejects, []);
    let [episode] = episodes.as_slice() else { panic!("one episode") };
    assert_eq!((episode.episode_id.as_str(), episode.instruction.as_str()), ("agentnet:rec", "Do it"));
    assert_eq!(episode.apps, ["explorer", "notes"]);
    let [first, second] = episode.steps.as_slice() else {
        panic!("two steps, found {}", episode.steps.len())
    };
    assert_eq!(first.action.point, Some(pixels(30.0, 40.0)));
    assert_eq!(first.action.target.boxes.iter().map(|b| b.left).collect::<Vec<_>>(), [25.0]);
    let element = first.action.target.element.as_deref();
    let touched = first.screen.elements.iter().find(|e| Some(e.id.as_str()) == element);
    assert_eq!(touched.map(|e| e.text.as_str()), Some("OK"), "{:?}", first.screen.elements);
    assert_eq!((first.app.as_deref(), first.window.as_deref()), (Some("explorer"), Some("Settings")));
    assert_eq!(first.screen.tree.as_deref(), Some("rec/a11y.jsonl#2"));
    assert_eq!(first.instruction.as_deref(), Some("Click on OK"));
    assert_eq!((second.action.verb, second.app.as_deref()), (Verb::RightClick, Some("notes")));
    assert_eq!(
        (second.source_key.as_str(), second.time_secs, second.instruction.as_deref()),
        ("line 3", Some(3.5), None)
    );
    let extra: Value = serde_json::from_str(episode.extra.as_deref().expect("extra")).expect("JSON");
    assert_eq!((&extra["hidden_events"], &extra["system"]), (&json!(1), &json!("Windows 10")));
}

#[test]
fn every_kind_of_event_has_its_verb() {
    let events = [
        json!({"click_type": 2}),
        json!({"action": "drag", "drag_trace": [[30, 40], [50, 60]]}),
        json!({"action": "scroll", "trace": [{"x": 1, "y": 2, "dx": 0, "dy": -1}, {"x": 1, "y": 2, "dx": 0, "dy": -2}]}),
        json!({"action": "type", "key_names": ["h", "i", "space", "x", "backspace", "enter"]}),
        json!({"action": "type", "key_names": ["enter"]}),
        json!({"action": "press", "key_name": "ctrl_l", "children": [{"action": "type", "key_names": ["c"]}]}),
        json!({"action": "mouse_press"}),
        json!({"action": "long_press", "key_name": "ctrl_l", "children": [
            {"action": "click", "start_time": 11, "coordinate": {"x": 1, "y": 2}},
            {"action": "click", "start_time": 11, "coordinate": {"x": 1, "y": 2}, "vis": false}]}),
    ];
    let text: String = events.iter().map(event).collect();
    let (episodes, rejects) = recording(&text, &[]);
    assert_eq!(rejects, []);
    let steps = &episodes[0].steps;
    let found: Vec<_> = steps.iter().map(|s| (s.action.verb, s.action.text.as_deref())).collect();
    assert_eq!(
        found,
        [
            (Verb::DoubleClick, None),
            (Verb::Drag, None),
            (Verb::Scroll, None),
            (Verb::Type, Some("hi \n")),
            (Verb::Press, Some("enter")),
            (Verb::Press, Some("ctrl+c")),
            (Verb::LongPress, None),
            (Verb::Press, Some("ctrl")),
            (Verb::Click, None)
        ]
    );
    assert_eq!(steps[1].action.end, Some(pixels(50.0, 60.0)));
    assert_eq!((steps[2].action.direction, steps[2].action.amount), (Some(Direction::Down), Some(3.0)));
    assert_eq!(steps[8].source_key, "line 8 children[0]");
}

#[test]
fn the_visible_file_alone_gives_kinds_and_labels() {
    let lines = [
        ("Click on Keep changes", "Single left Click"),
        ("click", "Double left Click"),
        ("drag", "Drag from (621, 206) to (561, 213)"),
        ("scroll", "Scroll ⬇️×3  "),
        ("type", "⌨️ Type: hi$enter$"),
        ("press", "⌨️ Press: $ctrl$ + c"),
    ];
    let text: String = lines
        .iter()
        .map(|(action, description)| json!({"action": action, "description": description, "start_time": 1.0}))
        .map(|line| line.to_string() + "\n")
        .collect();
    let (episodes, rejects) = read(&[("rec/reduced_events_vis.jsonl", text.as_bytes())]);
    assert_eq!(rejects, []);
    let steps = &episodes[0].steps;
    let verbs: Vec<_> = steps.iter().map(|s| s.action.verb).collect();
    assert_eq!(verbs, [Verb::Click, Verb::DoubleClick, Verb::Drag, Verb::Scroll, Verb::Type, Verb::Press]);
    assert_eq!(steps[0].instruction.as_deref(), Some("Click on Keep changes"));
    assert_eq!(
        (steps[2].action.point, steps[2].action.end),
        (Some(pixels(621.0, 206.0)), Some(pixels(561.0, 213.0)))
    );
    assert_eq!((steps[3].action.direction, steps[3].action.amount), (Some(Direction::Down), Some(3.0)));
    assert_eq!(steps[5].action.text.as_deref(), Some("ctrl+c"));
}

#[test]
fn a_bad_recording_is_refused_by_line() {
    let good = event(&json!({}));
    for (bad, kind, reason) in [
        (event(&json!({"coordinate": {"x": -5, "y": 4}})), RejectKind::OutOfRange, "(-5, 4)"),
        (event(&json!({"coordinate": {"x": 5, "y": 501}})), RejectKind::OutOfRange, "(5, 501)"),
        (event(&json!({"coordinate": null})), RejectKind::MissingField, "coordinate"),
        (event(&json!({"start_time": "10"})), RejectKind::MissingField, "start_time"),
        (event(&json!({"action": "sing"})), RejectKind::OutOfRange, "`sing`"),
        (event(&json!({"button": "x"})), RejectKind::OutOfRange, "`x`"),
        (event(&json!({"action": "drag"})), RejectKind::MissingField, "drag_trace"),
        (good[..30].to_owned(), RejectKind::Malformed, "cut off"),
    ] {
        let (episodes, rejects) = recording(&[good.clone(), bad].concat(), &[]);
        assert_eq!((episodes.len(), rejects.len()), (0, 1), "{reason}");
        assert_eq!((rejects[0].kind, rejects[0].key.as_str()), (kind, "line 2"), "{}", rejects[0].reason);
        assert!(rejects[0].reason.contains(reason), "{}", rejects[0].reason);
    }
    assert_eq!(recording("", &[]).1[0].kind, RejectKind::Empty);
    let (episodes, rejects) = recording(&good, &[("rec/metadata.json", b"{\"screen_width\": 5}")]);
    assert_eq!((episodes.len(), rejects[0].kind), (0, RejectKind::MissingField));
    assert!(rejects[0].file.ends_with("rec/metadata.json"));
}

#[test]
fn a_bad_line_beside_the_events_costs_only_itself() {
    let windows = b"{\"time_stamp\": 1, \"top_window_name\": \"a\"}\n{\"time_stamp\": \n{\"top_window_name\": \"b\"}\n\xff\n";
    let (episodes, rejects) = recording(&event(&json!({})), &[("rec/top_window.jsonl", windows)]);
    assert_eq!(episodes[0].steps[0].app.as_deref(), Some("a"));
    let found: Vec<_> = rejects.iter().map(|r| (r.key.as_str(), r.kind)).collect();
    let kinds = [RejectKind::Malformed, RejectKind::MissingField, RejectKind::NotUtf8];
    assert_eq!(found, [("line 2", kinds[0]), ("line 3", kinds[1]), ("line 4", kinds[2])]);
}
