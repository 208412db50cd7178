//! Trees as JSON: Windows UIA of `AgentNet` recordings and of UFO's logs, `DroidBot` states, the DOM of `MiniWoB++`
//! demonstrations.
//!
//! What a parser would have to nest deeper than 128 levels is refused. A tree's nodes are taken in document order; `DroidBot`'s
//! are a flat list, whose parents are not followed, so that no cycle can be met.

use serde_json::{Map, Value};

use super::tree::{
    MOST_ELEMENTS, MOST_REJECTS, NOT_SHOWN, NOTHING_TO_SAY, Node, Rect, Tree, TreeError, Trees, UNREADABLE,
    Window, shown,
};

/// Windows that reach less far say nothing of the screen of a Windows desktop.
const LEAST_SCREEN: (i32, i32) = (1024, 600);

type Object = Map<String, Value>;

/// The UIA trees in a file: one tree, an object that holds one as `axtree` or `a11y_tree`, or a line of either after another.
/// An element that is none is a reject; what lies in it is read.
///
/// # Errors
/// What is no JSON, and a file without one tree.
pub fn read_uia(text: &str) -> Result<Trees, TreeError> {
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
        one_tree(tree)
    })
}

/// `DroidBot`'s states: of `views` those that are visible and have something to say or to do; the others are left out.
///
/// # Errors
/// What is no JSON, and a file without one state.
pub fn read_droidbot(text: &str) -> Result<Trees, TreeError> {
    each_value(text, &|value| {
        let state = value.as_object().ok_or_else(|| no_object(value))?;
        let views = state.get("views").and_then(Value::as_array).ok_or("expected `views`, a list")?;
        let number = |key: &str| state.get(key).and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
        let mut tree = Tree { size: number("width").zip(number("height")), ..Tree::default() };
        if let Some(activity) = state.get("foreground_activity").and_then(Value::as_str) {
            tree.applications.push(activity.to_owned());
        }
        for (i, view) in views.iter().enumerate() {
            match view.as_object() {
                Some(view) => add_view(i, view, &mut tree)?,
                None => reject(&mut tree, &format!("views[{i}]"), &no_object(view))?,
            }
        }
        one_tree(tree)
    })
}

/// The DOM of `MiniWoB++`: a state, its `dom`, or a demonstration with its `states`, each of which is a tree.
///
/// # Errors
/// What is no JSON, and a file without one tree.
pub fn read_dom(text: &str) -> Result<Trees, TreeError> {
    let one = |value: &Value| {
        let mut tree = Tree::default();
        dom_node(value.get("dom").unwrap_or(value), "0", &mut tree)?;
        let extent = |of: fn(Rect) -> i32| tree.nodes.iter().filter_map(|n| n.rect).map(of).max();
        tree.size = extent(Rect::right).zip(extent(Rect::bottom)).filter(|(w, h)| *w > 0 && *h > 0);
        one_tree(tree)
    };
    each_value(text, &|value| match value.get("states").and_then(Value::as_array) {
        Some(states) => {
            let mut all = Trees::default();
            for (i, state) in states.iter().enumerate() {
                match one(state) {
                    Ok(read) => all.add(read, &format!("states[{i}]")),
                    Err(reason) => all.rejects.push(TreeError::new(format!("states[{i}]"), reason)),
                }
            }
            Ok(all)
        }
        None => one(value),
    })
}

/// A tree by itself; the first reject where nothing in it could be read.
fn one_tree(tree: Tree) -> Result<Trees, String> {
    let tree = tree.or_reject().map_err(|e| e.to_string())?;
    Ok(Trees { trees: vec![tree], rejects: Vec::new() })
}

/// The trees of a file that is one value, or one in each line. A line that is none is a reject, where another is one.
fn each_value(text: &str, read: &dyn Fn(&Value) -> Result<Trees, String>) -> Result<Trees, TreeError> {
    let text = text.trim_start_matches('\u{feff}');
    let whole = match serde_json::from_str::<Value>(text) {
        Ok(value) => return in_one(read(&value).map_err(|reason| TreeError::new("the file", reason))?),
        Err(error) => error,
    };
    let mut all = Trees::default();
    let mut is_lines = false;
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let value = serde_json::from_str::<Value>(line);
        is_lines |= value.as_ref().is_ok_and(|v| v.as_object().is_some_and(|o| !o.is_empty()));
        let found = value.map_err(|e| format!("{e}, found {}", shown(line))).and_then(|value| read(&value));
        let place = format!("line {}", i + 1);
        match found {
            Ok(found) => all.add(found, &place),
            Err(reason) if all.rejects.len() < MOST_REJECTS => {
                all.rejects.push(TreeError::new(place, reason));
            }
            Err(_) if !is_lines => break,
            Err(_) => {
                let reason = format!("{MOST_REJECTS} lines before it are no trees: this is another file");
                return Err(TreeError::new(place, reason));
            }
        }
    }
    if is_lines || whole.is_eof() && whole.line() <= 1 {
        return in_one(all);
    }
    // One value over several lines, cut or broken: where it broke says more than that its first line is no value.
    let reason = if text.trim().is_empty() { "it is empty".to_owned() } else { whole.to_string() };
    Err(TreeError::new("the file", reason))
}

/// What was read, or the first reject where that is all there is.
fn in_one(mut all: Trees) -> Result<Trees, TreeError> {
    match all.rejects.first() {
        Some(_) if all.trees.is_empty() => Err(all.rejects.swap_remove(0)),
        _ if all.trees.is_empty() => Err(TreeError::new("the file", "it is empty")),
        _ => Ok(all),
    }
}

fn no_object(value: &Value) -> String {
    format!("expected an object, found {}", shown(&value.to_string()))
}

fn add(tree: &mut Tree, node: Node) -> Result<(), String> {
    if tree.nodes.len() >= MOST_ELEMENTS {
        return Err(format!("more than {MOST_ELEMENTS} elements: this is no screen"));
    }
    tree.nodes.push(node);
    Ok(())
}

fn reject(tree: &mut Tree, place: &str, reason: &str) -> Result<(), String> {
    if tree.rejects.len() >= MOST_REJECTS {
        return Err(format!(
            "more than {MOST_REJECTS} elements that cannot be read, the last {place}: {reason}"
        ));
    }
    tree.reject(place, reason);
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

/// States that UIA says as true or false, by the keys of the writers.
const UIA_FLAGS: [(&str, &[&str]); 2] =
    [("selected", &["IsSelected", "is_selected"]), ("focused", &["HasKeyboardFocus", "has_keyboard_focus"])];

/// States of a UIA element: those of its patterns, and `disabled` where it is not enabled.
fn uia_states(node: &Object) -> Vec<String> {
    let value = |keys: &[&str]| keys.iter().find_map(|key| node.get(*key));
    let mut states = Vec::new();
    if value(&["IsEnabled", "is_enabled", "enabled"]).and_then(Value::as_bool) == Some(false) {
        states.push("disabled".to_owned());
    }
    // UIA numbers them: off, on, indeterminate; collapsed, expanded, partially expanded, leaf.
    let is = |keys: &[&str], number: u64, word: &str| {
        value(keys).is_some_and(|v| {
            v.as_u64() == Some(number) || v.as_str().is_some_and(|text| text.eq_ignore_ascii_case(word))
        })
    };
    if is(&["ToggleState", "toggle_state"], 1, "on") {
        states.push("checked".to_owned());
    }
    if is(&["ToggleState", "toggle_state"], 2, "indeterminate") {
        states.push("indeterminate".to_owned());
    }
    if is(&["ExpandCollapseState", "expand_collapse_state"], 1, "expanded") {
        states.push("expanded".to_owned());
    }
    for (state, keys) in UIA_FLAGS {
        if value(keys).and_then(Value::as_bool) == Some(true) {
            states.push(state.to_owned());
        }
    }
    states
}

fn uia_node(value: &Value, place: &str, window: Option<u32>, tree: &mut Tree) -> Result<(), String> {
    let Some(node) = value.as_object() else {
        return reject(tree, place, &no_object(value));
    };
    let role = text_of(node, &["ControlType", "control_type", "control_type_name"]);
    let name = text_of(node, &["Name", "name", "control_text"]);
    let boxed =
        ["BoundingRectangle", "rectangle", "adjusted_rectangle"].iter().find_map(|key| node.get(*key));
    let boxed = boxed.filter(|boxed| !boxed.is_null());
    let rect = boxed.and_then(edges);
    let is_top = window.is_none();
    let plain = role.strip_suffix("Control").unwrap_or(&role);
    let window = if is_top || plain == "Window" {
        tree.windows.push(Window { role: role.clone(), title: name.clone(), rect, ..Window::default() });
        Some(tree.windows.len() as u32 - 1)
    } else {
        window
    };
    let is_named = !role.is_empty();
    let element = Node {
        id: node.get("id").and_then(Value::as_str).map_or_else(|| place.to_owned(), str::to_owned),
        role,
        name,
        value: text_of(node, &["Value", "value"]),
        class: text_of(node, &["ClassName", "class_name"]),
        states: uia_states(node),
        rect,
        window,
        ..Node::default()
    };
    if !is_named {
        reject(tree, place, "expected a UIA element with `ControlType` or `control_type`")?;
        tree.leave_out(element, UNREADABLE);
    } else if boxed.is_some() && rect.is_none() {
        reject(tree, place, "its rectangle needs left, top, right and bottom, numbers of pixels")?;
        tree.leave_out(element, UNREADABLE);
    } else {
        add(tree, element)?;
    }
    let children = ["Children", "children"].iter().find_map(|key| node.get(*key));
    for (i, child) in children.and_then(Value::as_array).into_iter().flatten().enumerate() {
        uia_node(child, &format!("{place}/{i}"), window, tree)?;
    }
    Ok(())
}

/// States of a view that are worth keeping.
const VIEW_STATES: [&str; 7] =
    ["clickable", "long_clickable", "checkable", "checked", "editable", "selected", "focused"];

/// Adds a view; one that is not visible, or has nothing to say or to do, is left out.
fn add_view(number: usize, view: &Object, tree: &mut Tree) -> Result<(), String> {
    let flag = |key: &str| view.get(key).and_then(Value::as_bool);
    let mut states: Vec<String> =
        VIEW_STATES.iter().filter(|s| flag(s) == Some(true)).map(|s| (*s).to_owned()).collect();
    let acts = states
        .iter()
        .any(|s| matches!(s.as_str(), "clickable" | "long_clickable" | "checkable" | "editable"));
    if flag("enabled") == Some(false) {
        states.push("disabled".to_owned());
    }
    let (text, name) = (text_of(view, &["text"]), text_of(view, &["content_description"]));
    let is_silent = text.is_empty() && name.is_empty();
    let resource = text_of(view, &["resource_id"]);
    let bounds = view.get("bounds").filter(|bounds| !bounds.is_null());
    let rect = bounds.and_then(corners);
    let node = Node {
        id: view.get("temp_id").map_or_else(|| number.to_string(), Value::to_string),
        role: text_of(view, &["class"]),
        name,
        text,
        // What is acted on and says nothing is called by what its developers call it: `fab` of `app:id/fab`.
        description: match resource.rsplit('/').next() {
            Some(id) if is_silent => id.to_owned(),
            _ => String::new(),
        },
        states,
        rect,
        ..Node::default()
    };
    if bounds.is_some() && rect.is_none() {
        reject(tree, &format!("views[{number}]"), "`bounds` is no pair of corners")?;
        tree.leave_out(node, UNREADABLE);
    } else if flag("visible") == Some(false) {
        tree.leave_out(node, NOT_SHOWN);
    } else if is_silent && !acts {
        tree.leave_out(node, NOTHING_TO_SAY);
    } else {
        add(tree, node)?;
    }
    Ok(())
}

/// `[[left, top], [right, bottom]]`.
fn corners(bounds: &Value) -> Option<Rect> {
    let at = |corner: usize, axis: usize| whole(bounds.get(corner).and_then(|c| c.get(axis)));
    let ((x, y), (right, bottom)) = at(0, 0).zip(at(0, 1)).zip(at(1, 0).zip(at(1, 1)))?;
    Some(Rect { x, y, width: right.checked_sub(x)?, height: bottom.checked_sub(y)? })
}

/// Tags that a user acts on, beside the fields of a form: one without a text is called by its id in the page.
const ACTED_ON: [&str; 10] =
    ["a", "button", "circle", "ellipse", "path", "polygon", "polyline", "rect", "select", "textarea"];
/// Fields of a form whose value is what they are called.
const VALUE_IS_NAME: [&str; 3] = ["input_button", "input_reset", "input_submit"];

fn dom_node(value: &Value, place: &str, tree: &mut Tree) -> Result<(), String> {
    let Some(node) = value.as_object() else {
        return reject(tree, place, &no_object(value));
    };
    let role = text_of(node, &["tag"]).to_lowercase();
    let side = |key: &str| whole(node.get(key));
    let sides = side("left").zip(side("top")).zip(side("width").zip(side("height")));
    let mut states: Vec<String> = ["focused", "tampered"]
        .iter()
        .filter(|key| node.get(**key).and_then(Value::as_bool) == Some(true))
        .map(|key| (*key).to_owned())
        .collect();
    // Of a check box and a radio button the value is whether it is checked.
    if node.get("value").and_then(Value::as_bool) == Some(true) {
        states.push("checked".to_owned());
    }
    let (text, mut value, mut name) = (text_of(node, &["text"]), text_of(node, &["value"]), String::new());
    if VALUE_IS_NAME.contains(&role.as_str()) {
        name = std::mem::take(&mut value);
    }
    let acts = role.starts_with("input") || ACTED_ON.contains(&role.as_str());
    let is_silent = text.is_empty() && name.is_empty();
    let description = if acts && is_silent { text_of(node, &["id"]) } else { String::new() };
    let is_named = !role.is_empty();
    let element = Node {
        id: node.get("ref").map_or_else(|| place.to_owned(), Value::to_string),
        role,
        name,
        text,
        value,
        class: text_of(node, &["classes"]),
        description,
        states,
        rect: sides.map(|((x, y), (width, height))| Rect { x, y, width, height }),
        ..Node::default()
    };
    if is_named {
        add(tree, element)?;
    } else {
        reject(tree, place, "expected a DOM element with `tag`")?;
        tree.leave_out(element, UNREADABLE);
    }
    for (i, child) in node.get("children").and_then(Value::as_array).into_iter().flatten().enumerate() {
        dom_node(child, &format!("{place}/{i}"), tree)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
