//! Screens with the desktop's own bars around an application, and with several applications.

use super::tree::{Node, Rect, Tree, Window};
use super::*;

fn node(role: &str, name: &str, [x, y, width, height]: [i32; 4]) -> Node {
    let rect = Some(Rect { x, y, width, height });
    Node { role: role.into(), name: name.into(), rect, ..Node::default() }
}

/// The dock and the top bar of a GNOME desktop: every application by name.
fn dock() -> Vec<Node> {
    let names = [
        "Google Chrome",
        "Thunderbird Mail",
        "Visual Studio Code",
        "VLC media player",
        "LibreOffice Writer",
        "LibreOffice Calc",
        "LibreOffice Impress",
        "GNU Image Manipulation Program",
        "Files",
        "Help",
        "Trash",
    ];
    let mut nodes = vec![node("menu", "System", [1814, 0, 106, 27])];
    let launcher = |(i, name): (usize, &&str)| node("push-button", name, [0, 33 + 68 * i as i32, 70, 64]);
    nodes.extend(names.iter().enumerate().map(launcher));
    nodes.push(node("toggle-button", "Show Applications", [0, 1010, 70, 70]));
    nodes
}

fn screen(content: Vec<Node>) -> Tree {
    let mut nodes = dock();
    nodes.extend(content);
    Tree { nodes, ..Tree::default() }
}

fn compress(tree: &Tree, before: Option<&Compressed>) -> Compressed {
    let compressor = Compressor::new(Rules::builtin(), Phases::default());
    compressor.compress(tree, before.map(|before| &before.seen), "")
}

#[test]
fn launchers_are_no_clue_to_the_application_in_front() {
    let app = |content| compress(&screen(content), None).app;
    assert_eq!(app(vec![]), "os");
    assert_eq!(app(vec![node("label", "Documents", [400, 100, 80, 20])]), "os");
    let bar = || node("entry", "Address and search bar", [200, 80, 1200, 30]);
    assert_eq!(app(vec![bar()]), "chrome");
    assert_eq!(app(vec![node("document-spreadsheet", "a", [80, 200, 900, 700])]), "calc");
    // Without the desktop's bars a name is a name, wherever it stands.
    let alone = Tree { nodes: vec![node("label", "LibreOffice Calc", [0, 30, 60, 20])], ..Tree::default() };
    assert_eq!(compress(&alone, None).app, "calc");
}

#[test]
fn a_page_that_changes_between_the_bars_is_no_modal() {
    let page = |word: &str| {
        let mut nodes = vec![node("entry", "Address and search bar", [200, 80, 1200, 30])];
        let link =
            |i: i32| node("link", &format!("{word} {i}"), [200 + 150 * (i % 5), 300 + 40 * (i / 5), 80, 20]);
        nodes.extend((0..20).map(link));
        screen(nodes)
    };
    let first = compress(&page("alpha"), None);
    let second = compress(&page("beta"), Some(&first));
    assert_eq!(second.modal, None, "{}", second.text);
    assert!(second.text.contains("[APP_LAUNCHER]\npush-button Google Chrome"), "{}", second.text);
    // What does appear on the same page is one.
    let mut asked = page("beta");
    let buttons = [("push-button", "OK"), ("push-button", "Cancel"), ("dialog", "Sure?")];
    let placed = buttons
        .iter()
        .enumerate()
        .map(|(i, (role, name))| node(role, name, [600 + 90 * i as i32, 600, 80, 30]));
    asked.nodes.extend(placed);
    assert_eq!(compress(&asked, Some(&second)).modal, Some(Found::Temporal));
}

#[test]
fn the_window_in_front_says_which_application_it_is() {
    let window = |title: &str, application: &str, active: bool| Window {
        title: title.into(),
        application: application.into(),
        active,
        ..Window::default()
    };
    let of = |role: &str, name: &str, window: u32, y: i32| Node {
        window: Some(window),
        ..node(role, name, [400, y, 80, 20])
    };
    let mut tree = Tree {
        nodes: vec![of("document-spreadsheet", "a", 0, 300), of("label", "Documents", 1, 200)],
        windows: vec![window("a - LibreOffice Calc", "soffice", false), window("Home", "nautilus", true)],
        applications: vec!["soffice".into(), "nautilus".into()],
        ..Tree::default()
    };
    let files = compress(&tree, None);
    assert_eq!(files.app, "generic");
    assert!(files.text.starts_with("APP: Home\n"), "{}", files.text);
    tree.windows[0].active = true;
    tree.windows[1].active = false;
    assert_eq!(compress(&tree, None).app, "calc");
}

#[test]
fn small_screens_that_share_a_button_are_two_screens() {
    let screen = |names: &[&str]| {
        let button = |name: &&str| Node { role: "button".into(), name: (*name).into(), ..Node::default() };
        Tree { nodes: names.iter().map(button).collect(), ..Tree::default() }
    };
    let menu = compress(&screen(&["Settings", "About", "Go back"]), None);
    let page = screen(&["OK", "Cancel", "Save", "Delete", "Search", "Sort", "Filter", "Go back"]);
    assert_eq!(compress(&page, Some(&menu)).modal, None);
    // Half of what was there is still there.
    let over = screen(&["Settings", "About", "Go back", "OK", "Cancel", "Delete"]);
    assert_eq!(compress(&over, Some(&menu)).modal, Some(Found::Temporal));
}

#[test]
fn a_sheet_keeps_its_columns_and_what_its_cells_hold() {
    let cell = |name: &str, text: &str, x: i32, y: i32| Node {
        text: text.into(),
        ..node("table-cell", name, [x, y, 60, 17])
    };
    let nodes = vec![
        node("document-spreadsheet", "s", [0, 150, 900, 500]),
        cell("A1", "A1", 40, 157),
        cell("B1", "a | b", 100, 157),
        cell("D1", "d", 160, 157),
        cell("D2", "e", 160, 174),
        cell("B2", "", 100, 174),
        cell("ZZZ2", "far", 220, 174),
    ];
    let text = compress(&Tree { nodes, ..Tree::default() }, None).text;
    let lines: Vec<&str> =
        text.lines().filter(|line| line.starts_with("row") || line.starts_with("col")).collect();
    let expected = [
        "columns (x): A 70, B 130, D 190, ZZZ 250",
        "row 1 (y 165): A1 | a \\| b | d",
        "row 2 (y 182): D: e | far",
    ];
    assert_eq!(lines, expected);
}
