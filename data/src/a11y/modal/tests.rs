use super::super::compress::{Compressor, Phases};
use super::super::item::Vocabulary;
use super::super::region::lay_out;
use super::super::rules::Rules;
use super::super::tree::{Node, Rect, Tree, Window};
use super::*;

fn node(role: &str, name: &str, [x, y, width, height]: [i32; 4]) -> Node {
    let rect = Some(Rect { x, y, width, height });
    Node { role: role.into(), name: name.into(), rect, ..Node::default() }
}

/// Compares states one after the other; how each one's modal was found, and its elements.
fn walk(states: &[Vec<Node>]) -> Vec<(Option<Found>, Vec<String>)> {
    let rules = Rules::builtin();
    let vocabulary = Vocabulary::new(&rules.general.roles);
    let mut before: Option<Seen> = None;
    let mut found = Vec::new();
    for nodes in states {
        let tree = Tree { nodes: nodes.clone(), ..Tree::default() };
        let items = vocabulary.items(&tree);
        let layout = lay_out(&rules, &tree, &items);
        let modal = detect(&rules.general.modal, &tree, &items, &layout, before.as_ref());
        let names =
            items.iter().zip(&modal.of).filter(|(_, m)| **m).map(|(i, _)| i.label.to_string()).collect();
        before = Some(Seen::of(&items, &layout, &modal.of));
        found.push((modal.found, names));
    }
    found
}

/// Twenty paragraphs, scrolled by some pixels.
fn page(shift: i32) -> Vec<Node> {
    (0..20).map(|i| node("paragraph", &format!("line {i}"), [300, 120 + 40 * i - shift, 400, 20])).collect()
}

fn with(mut nodes: Vec<Node>, more: &[Node]) -> Vec<Node> {
    nodes.extend(more.iter().cloned());
    nodes
}

fn dialog() -> Vec<Node> {
    vec![
        node("label", "Delete the file?", [800, 500, 300, 20]),
        node("push-button", "Cancel", [820, 560, 80, 30]),
        node("push-button", "Delete", [920, 560, 80, 30]),
    ]
}

#[test]
fn what_appears_on_the_same_screen_and_decides_is_a_modal_until_it_goes() {
    let found = walk(&[page(0), with(page(0), &dialog()), with(page(0), &dialog()), page(0)]);
    let names = ["Delete the file?", "Cancel", "Delete"].map(str::to_owned);
    assert_eq!(found[0], (None, vec![]));
    assert_eq!(found[1], (Some(Found::Temporal), names.to_vec()));
    assert_eq!(found[2], (Some(Found::Persistent), names.to_vec()));
    assert_eq!(found[3], (None, vec![]));
}

#[test]
fn a_scrolled_page_is_the_same_screen_and_what_scrolled_in_no_modal() {
    let more: Vec<Node> = (20..22)
        .map(|i| node("paragraph", &format!("line {i}"), [300, 840 + 40 * (i - 20), 400, 20]))
        .collect();
    // 80 px up: two lines leave, two come.
    let scrolled = with(page(80)[2..].to_vec(), &more);
    assert_eq!(walk(&[page(0), scrolled])[1], (None, vec![]));
}

#[test]
fn a_text_that_changes_in_its_box_has_not_appeared() {
    let cells = |text: &str| -> Vec<Node> {
        (0..30)
            .map(|i| {
                node("table-cell", &format!("{text} {i}"), [300 + 100 * (i % 5), 120 + 30 * (i / 5), 90, 20])
            })
            .collect()
    };
    assert_eq!(walk(&[with(page(0), &cells("a")), with(page(0), &cells("b"))])[1], (None, vec![]));
}

#[test]
fn another_screen_is_told_by_words_and_places() {
    let banner = [
        node("paragraph", "We use cookies to measure visits.", [12, 1000, 1880, 20]),
        node("push-button", "Accept all", [24, 1035, 74, 21]),
        node("push-button", "Reject all", [100, 1035, 66, 21]),
    ];
    // Other words elsewhere: nothing of the page before is there any more.
    let other: Vec<Node> =
        (0..20).map(|i| node("paragraph", &format!("row {i}"), [300, 300 + 33 * i, 400, 20])).collect();
    let found = walk(&[page(0), with(other, &banner)]);
    assert_eq!(found[1].0, Some(Found::Keyword));
    assert_eq!(found[1].1.len(), 3);
    // A save button alone at the edge, and a row of links, are none.
    let toolbar = [node("push-button", "Save", [24, 1035, 74, 21])];
    assert_eq!(walk(&[with(page(0), &toolbar)])[0], (None, vec![]));
    let links: Vec<Node> = ["Privacy", "Settings", "Manage", "Close"]
        .iter()
        .enumerate()
        .map(|(i, n)| node("link", n, [24 + 80 * i as i32, 1035, 74, 21]))
        .collect();
    let mut navigation = links.clone();
    navigation[0].name = "Policy".into();
    assert_eq!(walk(&[with(page(0), &navigation)])[0], (None, vec![]));
}

#[test]
fn windows_and_alerts_that_say_so_are_modals() {
    let alert = with(vec![node("alert", "Question", [700, 450, 500, 200])], &dialog());
    let found = walk(&[with(page(0), &alert)]);
    assert_eq!((found[0].0, found[0].1.len()), (Some(Found::Declared), 4));
    // As wide as the screen it is a bar of the window.
    let bar =
        [node("alert", "Infobar", [0, 87, 1920, 56]), node("push-button", "Close", [1876, 101, 28, 28])];
    assert_eq!(walk(&[with(page(0), &bar)])[0], (None, vec![]));
    let rules = Rules::builtin();
    let mut nodes = with(page(0), &dialog());
    nodes.iter_mut().skip(20).for_each(|node| node.window = Some(0));
    let windows = vec![Window { modal: true, ..Window::default() }];
    let tree = Tree { nodes, windows, ..Tree::default() };
    let vocabulary = Vocabulary::new(&rules.general.roles);
    let items = vocabulary.items(&tree);
    let modal = detect(&rules.general.modal, &tree, &items, &lay_out(&rules, &tree, &items), None);
    assert_eq!((modal.found, modal.of.iter().filter(|m| **m).count()), (Some(Found::Declared), 3));
}

#[test]
fn the_score_is_the_papers() {
    let rules = Rules::builtin();
    let score = |parts: &[(&str, &str)]| {
        let nodes = parts.iter().map(|(role, name)| node(role, name, [0, 0, 9, 9])).collect();
        let tree = Tree { nodes, ..Tree::default() };
        let vocabulary = Vocabulary::new(&rules.general.roles);
        let items = vocabulary.items(&tree);
        let all: Vec<usize> = (0..items.len()).collect();
        temporal::score(&rules.general.modal, &items, &all)
    };
    // Eq. 13 to 15: a dialog, a label, a button that decides, one with a function.
    let four =
        [("dialog", "d"), ("label", "l"), ("push-button", "Yes, delete"), ("push-button", "Find next")];
    assert!((score(&four) - (2.0 - 0.5 + 2.0 + 0.8)).abs() < 1e-12);
    // Fewer than three, none of an interactive tag.
    assert!((score(&[("push-button", "OK")]) - (2.0 - 3.0)).abs() < 1e-12);
    // A label that says OK decides nothing; six and more are many.
    assert!((score(&[("static", "OK"); 6]) - 1.0).abs() < 1e-12);
    // Decoration counts so far and no further.
    let labels = [("label", "x"); 40];
    assert!((score(&[&labels[..], &[("push-button", "OK")]].concat()) - (2.0 - 3.0 + 1.0)).abs() < 1e-12);
    assert_eq!(score(&[]), 0.0);
}

#[test]
fn ever_so_many_alerts_are_looked_at_in_time() {
    // Each overlaps the next and holds all that follow: 1.2 billion elements, were each looked at in each.
    let alert = |i: i32| node("alert", &format!("a{i}"), [100 + i % 10, 200, 80, 20]);
    let tree = Tree { nodes: (0..50_000).map(alert).collect(), ..Tree::default() };
    let compressor =
        Compressor::new(Rules::builtin(), Phases { modal: true, reduce: false, structure: false });
    assert_eq!(compressor.compress(&tree, None, "").modal, None);
}
