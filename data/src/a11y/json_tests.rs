use super::*;

fn one(read: Result<Trees, TreeError>) -> Tree {
    let read = read.unwrap();
    assert_eq!(read.rejects, []);
    read.trees.into_iter().next().unwrap()
}

/// Places of what could not be read: lines and states, then elements.
fn places(read: &Trees) -> Vec<&str> {
    let parts = read.trees.iter().flat_map(|tree| &tree.rejects);
    read.rejects.iter().chain(parts).map(|reject| reject.place.as_str()).collect()
}

#[test]
fn uia_of_both_writers_is_read() {
    let agentnet = r#"{"time_stamp": 1, "axtree": {"Name": "Taskbar", "ControlType": "PaneControl",
        "BoundingRectangle": {"left": 0, "top": 728, "right": 1366, "bottom": 768}, "Depth": 0, "Children": [
        {"Name": "Start", "ControlType": "ButtonControl", "BoundingRectangle": {"left": 0, "top": 728, "right": 48,
        "bottom": 768}, "Depth": 1, "Children": []}]}}"#;
    let tree = one(read_uia(agentnet));
    assert_eq!((tree.nodes.len(), tree.size, tree.nodes[1].id.as_str()), (2, Some((1366, 768)), "0/0"));
    assert_eq!(tree.nodes[1].rect, Some(Rect { x: 0, y: 728, width: 48, height: 40 }));
    let lines = agentnet.replace('\n', " ");
    assert_eq!(read_uia(&format!("{lines}\n\n{lines}\n")).unwrap().trees.len(), 2);
    let ufo = r#"{"id": "node_0", "name": "Word", "control_type": "Window", "rectangle": {"left": 1, "top": 2, "right": 3,
        "bottom": 4}, "level": 0, "children": [{"id": "node_1", "name": "", "control_type": "Edit", "rectangle": null}]}"#;
    let tree = one(read_uia(ufo));
    assert_eq!(
        (tree.nodes[1].id.as_str(), tree.nodes[1].rect, tree.nodes[1].window),
        ("node_1", None, Some(0))
    );
}

#[test]
fn views_that_say_or_do_nothing_are_left_out() {
    let state = r#"{"width": 1080, "height": 2280, "foreground_activity": "a/.B", "views": [
        {"class": "F", "visible": true, "bounds": [[0, 0], [10, 20]], "parent": 1, "children": [0], "temp_id": 0},
        {"class": "android.widget.Button", "text": "OK", "clickable": true, "bounds": [[1, 2], [4, 8]], "temp_id": 7},
        {"class": "T", "text": "gone", "visible": false, "bounds": [[1, 2], [4, 8]]}]}"#;
    let tree = one(read_droidbot(state));
    assert_eq!((tree.nodes.len(), tree.nodes[0].id.as_str(), tree.size), (1, "7", Some((1080, 2280))));
    let left: Vec<_> = tree.left_out.iter().map(|l| (l.node.role.as_str(), l.rule.0.as_ref())).collect();
    assert_eq!(left, [("F", NOTHING_TO_SAY), ("T", NOT_SHOWN)]);
    assert_eq!(tree.nodes[0].rect, Some(Rect { x: 1, y: 2, width: 3, height: 6 }));
}

#[test]
fn a_demonstration_is_a_tree_for_each_state() {
    let state = r#"{"time": 0, "dom": {"tag": "BODY", "left": 0, "top": 0, "width": 160, "height": 210, "ref": 1, "children": [
        {"tag": "BUTTON", "left": 2, "top": 3, "width": 4, "height": 5, "ref": 2, "text": "Ok", "children": []}]}}"#;
    let demo = format!(r#"{{"taskName": "click", "utterance": "Click", "states": [{state}, {state}]}}"#);
    let trees = read_dom(&demo).unwrap().trees;
    assert_eq!(
        (trees.len(), trees[0].nodes[1].role.as_str(), trees[0].size),
        (2, "button", Some((160, 210)))
    );
}

#[test]
fn views_that_cannot_be_used_say_so_and_silent_ones_are_called_by_their_resource() {
    let view =
        |rest: &str| format!(r#"{{"class": "V", "visible": true, "bounds": [[0, 0], [9, 9]], {rest}}}"#);
    let views = [
        view(r#""text": "Pay", "clickable": true, "enabled": false"#),
        view(r#""clickable": true, "enabled": true, "resource_id": "app:id/fab""#),
        view(r#""text": "Go", "clickable": true, "resource_id": "app:id/go""#),
    ];
    let tree = one(read_droidbot(&format!(r#"{{"views": [{}]}}"#, views.join(","))));
    let said: Vec<_> = tree.nodes.iter().map(|n| (n.label(), n.is("disabled"))).collect();
    assert_eq!(said, [("Pay", true), ("fab", false), ("Go", false)]);
    assert_eq!(tree.nodes[2].description, "");
}

#[test]
fn states_of_uia_are_read() {
    let states =
        |rest: &str| one(read_uia(&format!(r#"{{"ControlType": "C", {rest}}}"#))).nodes[0].states.join(" ");
    for (rest, expected) in [
        (r#""IsEnabled": false, "ToggleState": 1"#, "disabled checked"),
        (r#""IsEnabled": true, "ToggleState": 0"#, ""),
        (r#""ToggleState": "On", "IsSelected": true"#, "checked selected"),
        (r#""toggle_state": 2, "is_enabled": false"#, "disabled indeterminate"),
        (r#""ExpandCollapseState": 1, "HasKeyboardFocus": true"#, "expanded focused"),
    ] {
        assert_eq!(states(rest), expected, "{rest}");
    }
}

#[test]
fn fields_of_a_form_are_called_and_checked_as_in_the_page() {
    let field = |rest: &str| format!(r#"{{"left": 1, "top": 2, "width": 3, "height": 4, "ref": 9, {rest}}}"#);
    let fields = [
        field(r#""tag": "INPUT_checkbox", "value": true, "id": "ch0""#),
        field(r#""tag": "INPUT_radio", "value": false"#),
        field(r#""tag": "INPUT_text", "value": "typed", "id": """#),
        field(r#""tag": "INPUT_submit", "value": "Send", "id": "s""#),
        field(r#""tag": "circle", "id": "c1", "classes": {}"#),
        field(r#""tag": "DIV", "id": "wrap""#),
    ];
    let dom = format!(r#"{{"dom": {{"tag": "BODY", "children": [{}]}}}}"#, fields.join(","));
    let nodes = one(read_dom(&dom)).nodes;
    let said: Vec<_> = nodes[1..].iter().map(|n| (n.label(), n.value.as_str(), n.is("checked"))).collect();
    assert_eq!(
        said,
        [
            ("ch0", "", true),
            ("", "", false),
            ("typed", "typed", false),
            ("Send", "", false),
            ("c1", "", false),
            ("", "", false)
        ]
    );
}

#[test]
fn a_line_that_is_no_tree_is_a_reject_and_the_others_stand() {
    let good = r#"{"axtree": {"Name": "OK", "ControlType": "ButtonControl"}}"#;
    for bad in [
        r#"{"time_stamp": 2, "axtree": null}"#,
        r#"{"time_stamp": 2, "axtree": {}}"#,
        &good[..40],
        "3",
        "[]x",
    ] {
        let read = read_uia(&format!("{good}\n{bad}\n\n{good}\n")).unwrap();
        assert_eq!((read.trees.len(), places(&read)), (2, vec!["line 2"]), "{bad}");
    }
    let read = read_uia(&format!("{}\n{good}", &good[..20])).unwrap();
    assert_eq!((read.trees.len(), places(&read)), (1, vec!["line 1"]));
    // One value over several lines that is cut is no file of lines.
    let pretty = "{\n \"ControlType\": \"Pane\",\n \"Children\": [\n  {\n   \"ControlType\": \"Bu";
    let error = read_uia(pretty).unwrap_err().to_string();
    assert!(error.starts_with("the file: EOF") && error.contains("line 5"), "{error}");
}

#[test]
fn an_element_that_is_none_is_a_reject_and_what_lies_in_it_is_read() {
    let uia = r#"{"ControlType": "Pane", "Children": [{"Name": "no type", "Children": [{"ControlType": "Button"}]}, 3,
        {"ControlType": "Edit", "BoundingRectangle": {"left": 1e30, "top": 0, "right": 1, "bottom": 1}}]}"#;
    let read = read_uia(uia).unwrap();
    assert_eq!((read.trees[0].nodes.len(), places(&read)), (2, vec!["0/0", "0/1", "0/2"]));
    assert_eq!(read.trees[0].left_out.len(), 2);
    let line = uia.replace('\n', " ");
    assert_eq!(places(&read_uia(&format!("{line}\n{line}")).unwrap())[3], "line 2: 0/0");
    let views = r#"{"views": [3, {"text": "a", "bounds": 3}, {"text": "b"}]}"#;
    let read = read_droidbot(views).unwrap();
    assert_eq!((read.trees[0].nodes.len(), places(&read)), (1, vec!["views[0]", "views[1]"]));
    let demo = r#"{"states": [{"dom": {"tag": "BODY", "children": [{}, {"tag": "P"}]}}, {"dom": null}]}"#;
    let read = read_dom(demo).unwrap();
    assert_eq!((read.trees[0].nodes.len(), places(&read)), (2, vec!["states[1]", "states[0]: 0/0"]));
}

#[test]
fn what_is_no_tree_is_named() {
    let deep = format!("{}{}", r#"{"ControlType":"Pane","Children":["#.repeat(200), "]}".repeat(200));
    for (text, part) in [
        ("", "the file: it is empty"),
        ("{\"axtree\": 1}", "the file: 0: expected an object"),
        ("{\"Name\": 1", "line 1: EOF"),
        ("{\"ControlType\": \"P\", \"BoundingRectangle\": {\"left\": 1}}", "needs left, top"),
        (&deep, "recursion limit"),
    ] {
        let error = read_uia(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let error = read_droidbot("{\"views\": [{\"text\": \"a\", \"bounds\": 3}]}").unwrap_err().to_string();
    assert!(error.contains("views[0]: `bounds`"), "{error}");
    assert!(read_dom("[]").unwrap_err().to_string().contains("expected an object"));
}
