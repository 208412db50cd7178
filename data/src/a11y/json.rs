//! Trees as JSON: Windows UIA of `AgentNet` recordings and of UFO's logs, `DroidBot` states, the DOM of `MiniWoB++`
//! demonstrations.
//!
//! What a parser would have to nest deeper than 128 levels is refused. A tree's nodes are taken in document order; `DroidBot`'s
//! are a flat list, whose parents are not followed, so that no cycle can be met.

use serde_json::{Map, Value};

use super::tree::{MOST_ELEMENTS, Node, Rect, Tree, TreeError, Window, shown};

/// Windows that reach less far say nothing of the screen of a Windows desktop.
const LEAST_SCREEN: (i32, i32) = (1024, 600);

type Object = Map<String, Value>;

/// The UIA trees in a file: one tree, an object that holds one as `axtree` or `a11y_tree`, or a line of either after another.
///
/// # Errors
/// The line that is no JSON or no tree.
pub fn read_uia(text: &str) -> Result<Vec<Tree>, TreeError> {
    each_value(text, &|value| {
        let held = ["axtree", "a11y_tree"].iter().find_map(|key| value.get(*key));
        let root = held.unwrap_or(value);
        let mut tree = Tree::default();
        match root {
            Value::Array(roots) => roots.iter().try_for_each(|root| uia_node(root, "0", None, &mut tree))?,
            root => uia_node(root, "0", None, &mut tree)?,
        }
        let extent = |of: fn(Rect) -> i32| tree.windows.iter().filter_map(|w| w.rect).map(of).max();
        // The tree of a pop-up alone does not say how large the screen is.
        let whole = |size: &(i32, i32)| size.0 >= LEAST_SCREEN.0 && size.1 >= LEAST_SCREEN.1;
        tree.size = extent(Rect::right).zip(extent(Rect::bottom)).filter(whole);
        Ok(tree)
    })
}

/// `DroidBot`'s state: `views`, of which the visible ones are taken.
///
/// # Errors
/// The line that is no JSON, and the view whose bounds are no box.
pub fn read_droidbot(text: &str) -> Result<Vec<Tree>, TreeError> {
    each_value(text, &|value| {
        let state = object(value, "the state")?;
        let views = state.get("views").and_then(Value::as_array).ok_or("expected `views`, a list")?;
        let number = |key: &str| state.get(key).and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
        let mut tree = Tree { size: number("width").zip(number("height")), ..Tree::default() };
        if let Some(activity) = state.get("foreground_activity").and_then(Value::as_str) {
            tree.applications.push(activity.to_owned());
        }
        for (i, view) in views.iter().enumerate() {
            let view = object(view, &format!("views[{i}]"))?;
            if let Some(node) = view_node(i, view)? {
                add(&mut tree, node)?;
            }
        }
        Ok(tree)
    })
}

/// The DOM of `MiniWoB++`: a state, its `dom`, or a demonstration with its `states`, each of which is a tree.
///
/// # Errors
/// The line that is no JSON, and what is no element.
pub fn read_dom(text: &str) -> Result<Vec<Tree>, TreeError> {
    let one = |value: &Value| {
        let mut tree = Tree::default();
        dom_node(value.get("dom").unwrap_or(value), "0", &mut tree)?;
        let extent = |of: fn(Rect) -> i32| tree.nodes.iter().filter_map(|n| n.rect).map(of).max();
        tree.size = extent(Rect::right).zip(extent(Rect::bottom)).filter(|(w, h)| *w > 0 && *h > 0);
        Ok(tree)
    };
    let trees = each_value(text, &|value| match value.get("states").and_then(Value::as_array) {
        Some(states) => {
            let numbered = states.iter().enumerate();
            numbered.map(|(i, state)| one(state).map_err(|e: String| format!("states[{i}]: {e}"))).collect()
        }
        None => Ok(vec![one(value)?]),
    })?;
    Ok(trees.into_iter().flatten().collect())
}

/// The values of a file that is one value, or one in each line.
fn each_value<T>(text: &str, read: &dyn Fn(&Value) -> Result<T, String>) -> Result<Vec<T>, TreeError> {
    let text = text.trim_start_matches('\u{feff}');
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return Ok(vec![read(&value).map_err(|reason| TreeError::new("the file", reason))?]);
    }
    let mut read_lines = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = || format!("line {}", i + 1);
        let value: Value = serde_json::from_str(line)
            .map_err(|e| TreeError::new(place(), format!("{e}, found {}", shown(line))))?;
        read_lines.push(read(&value).map_err(|reason| TreeError::new(place(), reason))?);
    }
    if read_lines.is_empty() {
        return Err(TreeError::new("the file", "it is empty"));
    }
    Ok(read_lines)
}

fn object<'v>(value: &'v Value, place: &str) -> Result<&'v Object, String> {
    value
        .as_object()
        .ok_or_else(|| format!("{place}: expected an object, found {}", shown(&value.to_string())))
}

fn add(tree: &mut Tree, node: Node) -> Result<(), String> {
    if tree.nodes.len() >= MOST_ELEMENTS {
        return Err(format!("more than {MOST_ELEMENTS} elements: this is no screen"));
    }
    tree.nodes.push(node);
    Ok(())
}

fn text_of(object: &Object, keys: &[&str]) -> String {
    keys.iter().find_map(|key| object.get(*key).and_then(Value::as_str)).unwrap_or_default().to_owned()
}

fn whole(value: Option<&Value>) -> Option<i32> {
    let number = value?.as_f64()?;
    (number.is_finite() && number.abs() < f64::from(i32::MAX)).then(|| number.round() as i32)
}

/// `{left, top, right, bottom}`.
fn edges(value: &Value) -> Option<Rect> {
    let edge = |key: &str| whole(value.get(key));
    let (left, top, right, bottom) = (edge("left")?, edge("top")?, edge("right")?, edge("bottom")?);
    Some(Rect { x: left, y: top, width: right.checked_sub(left)?, height: bottom.checked_sub(top)? })
}

fn uia_node(value: &Value, place: &str, window: Option<u32>, tree: &mut Tree) -> Result<(), String> {
    let node = object(value, place)?;
    let role = text_of(node, &["ControlType", "control_type", "control_type_name"]);
    if role.is_empty() {
        return Err(format!("{place}: expected a UIA element with `ControlType` or `control_type`"));
    }
    let boxed =
        ["BoundingRectangle", "rectangle", "adjusted_rectangle"].iter().find_map(|key| node.get(*key));
    let rect = match boxed {
        None | Some(Value::Null) => None,
        Some(boxed) => Some(
            edges(boxed)
                .ok_or_else(|| format!("{place}: its rectangle needs left, top, right and bottom"))?,
        ),
    };
    let name = text_of(node, &["Name", "name", "control_text"]);
    let is_top = window.is_none();
    let plain = role.strip_suffix("Control").unwrap_or(&role);
    let window = if is_top || plain == "Window" {
        tree.windows.push(Window { role: role.clone(), title: name.clone(), rect, ..Window::default() });
        Some(tree.windows.len() as u32 - 1)
    } else {
        window
    };
    add(
        tree,
        Node {
            id: node.get("id").and_then(Value::as_str).map_or_else(|| place.to_owned(), str::to_owned),
            role,
            name,
            value: text_of(node, &["Value", "value"]),
            class: text_of(node, &["ClassName", "class_name"]),
            rect,
            window,
            ..Node::default()
        },
    )?;
    let children = ["Children", "children"].iter().find_map(|key| node.get(*key));
    for (i, child) in children.and_then(Value::as_array).into_iter().flatten().enumerate() {
        uia_node(child, &format!("{place}/{i}"), window, tree)?;
    }
    Ok(())
}

/// States of a view that are worth keeping.
const VIEW_STATES: [&str; 7] =
    ["clickable", "long_clickable", "checkable", "checked", "editable", "selected", "focused"];

/// A visible view with something to say or to do.
fn view_node(number: usize, view: &Object) -> Result<Option<Node>, String> {
    let flag = |key: &str| view.get(key).and_then(Value::as_bool);
    let states: Vec<String> =
        VIEW_STATES.iter().filter(|s| flag(s) == Some(true)).map(|s| (*s).to_owned()).collect();
    let (text, name) = (text_of(view, &["text"]), text_of(view, &["content_description"]));
    let acts = states
        .iter()
        .any(|s| matches!(s.as_str(), "clickable" | "long_clickable" | "checkable" | "editable"));
    if flag("visible") == Some(false) || (text.is_empty() && name.is_empty() && !acts) {
        return Ok(None);
    }
    let rect = match view.get("bounds") {
        None | Some(Value::Null) => None,
        Some(bounds) => {
            let at = |corner: usize, axis: usize| whole(bounds.get(corner).and_then(|c| c.get(axis)));
            let sides = at(0, 0).zip(at(0, 1)).zip(at(1, 0).zip(at(1, 1)));
            let sized = sides.and_then(|((x, y), (right, bottom))| {
                Some(Rect { x, y, width: right.checked_sub(x)?, height: bottom.checked_sub(y)? })
            });
            let reason = || format!("views[{number}]: `bounds` is no pair of corners");
            Some(sized.ok_or_else(reason)?)
        }
    };
    Ok(Some(Node {
        id: view.get("temp_id").map_or_else(|| number.to_string(), Value::to_string),
        role: text_of(view, &["class"]),
        name,
        text,
        states,
        rect,
        ..Node::default()
    }))
}

fn dom_node(value: &Value, place: &str, tree: &mut Tree) -> Result<(), String> {
    let node = object(value, place)?;
    let tag = text_of(node, &["tag"]);
    if tag.is_empty() {
        return Err(format!("{place}: expected a DOM element with `tag`"));
    }
    let side = |key: &str| whole(node.get(key));
    let sides = side("left").zip(side("top")).zip(side("width").zip(side("height")));
    let states = [("focused", "focused"), ("tampered", "tampered")]
        .iter()
        .filter(|(key, _)| node.get(*key).and_then(Value::as_bool) == Some(true))
        .map(|(_, state)| (*state).to_owned());
    let value = match node.get("value") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(true)) => "checked".to_owned(),
        _ => String::new(),
    };
    let id = node.get("ref").map_or_else(|| place.to_owned(), Value::to_string);
    let element = Node {
        id,
        role: tag.to_lowercase(),
        text: text_of(node, &["text"]),
        value,
        class: text_of(node, &["classes"]),
        states: states.collect(),
        rect: sides.map(|((x, y), (width, height))| Rect { x, y, width, height }),
        ..Node::default()
    };
    add(tree, element)?;
    for (i, child) in node.get("children").and_then(Value::as_array).into_iter().flatten().enumerate() {
        dom_node(child, &format!("{place}/{i}"), tree)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(trees: Result<Vec<Tree>, TreeError>) -> Tree {
        trees.unwrap().into_iter().next().unwrap()
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
        assert_eq!(read_uia(&format!("{lines}\n\n{lines}\n")).unwrap().len(), 2);
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
        assert_eq!(tree.nodes[0].rect, Some(Rect { x: 1, y: 2, width: 3, height: 6 }));
    }

    #[test]
    fn a_demonstration_is_a_tree_for_each_state() {
        let state = r#"{"time": 0, "dom": {"tag": "BODY", "left": 0, "top": 0, "width": 160, "height": 210, "ref": 1, "children": [
            {"tag": "BUTTON", "left": 2, "top": 3, "width": 4, "height": 5, "ref": 2, "text": "Ok", "children": []}]}}"#;
        let demo = format!(r#"{{"taskName": "click", "utterance": "Click", "states": [{state}, {state}]}}"#);
        let trees = read_dom(&demo).unwrap();
        assert_eq!(
            (trees.len(), trees[0].nodes[1].role.as_str(), trees[0].size),
            (2, "button", Some((160, 210)))
        );
    }

    #[test]
    fn what_is_no_tree_is_named() {
        let deep = format!("{}{}", r#"{"ControlType":"Pane","Children":["#.repeat(200), "]}".repeat(200));
        for (text, part) in [
            ("", "the file: it is empty"),
            ("{\"axtree\": 1}", "the file: 0: expected an object"),
            ("{\"ControlType\": \"P\"}\n{\"Name\": 1", "line 2:"),
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
}
