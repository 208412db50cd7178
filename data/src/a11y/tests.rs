use proptest::prelude::*;

use super::tree::{Node, Rect, Tree};
use super::*;

pub(super) fn compressor() -> Compressor {
    Compressor::new(Rules::builtin(), Phases::default())
}

/// A node's label and what it holds besides, by the published rule: its name, then its text, on one line. Told here once more,
/// without the compressor's own code.
fn label_of(node: &Node) -> (String, String) {
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut said = [line(&node.name), line(&node.text)].into_iter().filter(|part| !part.is_empty());
    let label = said.next().unwrap_or_else(|| line(&node.description));
    let value = said.find(|part| *part != label).unwrap_or_default();
    (label, value)
}

/// Whether `said` is what may be said of a node: all of it, or of a long text a part between dots.
fn is_said_of(node: &Node, said: &str) -> bool {
    let (label, value) = label_of(node);
    let said = if value.is_empty() { Some(said) } else { said.strip_suffix(&format!(": {value}")) };
    let cut = |said: &str| {
        let part = said.trim_start_matches("...").trim_end_matches("...");
        let may = ["paragraph", "static", "label", "section"].contains(&node.role.as_str());
        // At most fifty characters on each side of a word, or the first hundred.
        let is_short = part.chars().count() <= 130 && label.chars().count() > 100;
        may && is_short && part.len() + 3 <= said.len() && label.contains(part)
    };
    said.is_some_and(|said| said == label || cut(said))
}

/// States that a text says.
const STATES: [&str; 5] = ["checked", "selected", "expanded", "pressed", "disabled"];

/// The statements of a text, `role`, what is said, centre: lines without headings and tables.
fn statements(text: &str) -> Vec<(&str, &str, Option<(i32, i32)>)> {
    let is_ours = |line: &&str| {
        let heading = line.starts_with('[') && line.ends_with(']') && !line.contains('(');
        !heading
            && !line.starts_with("APP: ")
            && !line.starts_with("columns (x): ")
            && !line.starts_with("row")
    };
    let mut found = Vec::new();
    for line in text.lines().filter(is_ours) {
        let (role, rest) = line.split_once(' ').unwrap_or((line, ""));
        for mut statement in rest.split("; ") {
            while let Some(before) = STATES.iter().find_map(|state| statement.strip_suffix(state)) {
                statement = before.strip_suffix(' ').unwrap_or(before);
            }
            let pair = |text: &str| {
                let (x, y) = text.strip_suffix(')')?.split_once(',')?;
                Some((x.parse().ok()?, y.parse().ok()?))
            };
            let at = statement.rfind('(').and_then(|at| Some((at, pair(&statement[at + 1..])?)));
            match at {
                Some((at, centre)) => found.push((role, statement[..at].trim_end(), Some(centre))),
                None => found.push((role, statement, None)),
            }
        }
    }
    found
}

/// Roles that a user acts on (table 4), whatever the compressor takes for them.
const ACTED_ON: [&str; 8] =
    ["push-button", "link", "entry", "menu", "menu-item", "check-box", "page-tab", "ButtonControl"];

/// Whether a rule that drops an element may: told from the element alone.
fn may_drop(rule: &str, node: &Node, (width, height): (i32, i32)) -> bool {
    let (label, _) = label_of(node);
    let acts = ACTED_ON.contains(&node.role.as_str());
    let outside = |r: Rect| {
        let (_, y) = r.centre();
        r.right() <= 0 || r.bottom() <= 0 || r.x >= width || r.y >= height || y < 0 || y >= height
    };
    match rule {
        "no-area" => node.rect.is_some_and(|r| r.width <= 0 || r.height <= 0),
        "off-screen" => node.rect.is_some_and(outside),
        "container" | "nothing-to-say" => !acts && label.is_empty(),
        "desktop-icon" => ["home", "trash"].contains(&label.to_lowercase().as_str()),
        _ => !acts,
    }
}

/// What must hold of the fates of any compressed screen.
pub(super) fn check_fates(tree: &Tree, compressed: &Compressed) {
    assert_eq!(compressed.fates.len(), tree.nodes.len());
    for (node, fate) in tree.nodes.iter().zip(&compressed.fates) {
        let name = |node: &Node| label_of(node).0.to_lowercase().replace(' ', "");
        match fate {
            Fate::Kept => {
                let centre = node.rect.map(Rect::centre).map_or(String::new(), |(x, y)| format!("({x},{y})"));
                assert!(compressed.text.contains(&centre), "{node:?}");
            }
            Fate::Merged { into, rule } => {
                let other = &tree.nodes[*into];
                assert!(matches!(compressed.fates[*into], Fate::Kept | Fate::Tabled(_)), "{node:?}");
                let (a, b) = (name(node), name(other));
                assert!(a.contains(&b) || b.contains(&a), "{node:?} into {other:?} by {rule:?}");
            }
            Fate::Tabled(rule) => {
                assert!(rule.0.starts_with("cell-"), "{node:?}");
                let shown = rule.0 == "cell-empty" || compressed.text.contains(label_of(node).1.as_str());
                assert!(shown, "{node:?}");
            }
            Fate::Dropped(rule) => {
                assert!(may_drop(&rule.0, node, tree.screen_size()), "{node:?} by {rule:?}");
            }
        }
    }
    assert_eq!(compressed.audit("t", tree).count(), tree.nodes.len() + tree.left_out.len());
}

/// What must hold besides of one whose labels hold no sign that divides statements: each element that is kept has a statement
/// of its own, and every statement of the text is one element's.
fn check(tree: &Tree, compressed: &Compressed) {
    check_fates(tree, compressed);
    let mut said = std::collections::BTreeMap::<_, Vec<(&str, &str)>>::new();
    for (role, text, centre) in statements(&compressed.text) {
        said.entry(centre).or_default().push((role, text));
    }
    let role = |node: &Node| match node.role.as_str() {
        "" => "element".to_owned(),
        role => role.replace("ButtonControl", "button"),
    };
    for (node, _) in tree.nodes.iter().zip(&compressed.fates).filter(|(_, fate)| **fate == Fate::Kept) {
        let at = said.get_mut(&node.rect.map(Rect::centre));
        let place = at.as_ref().and_then(|at| {
            { at.iter() }.position(|(word, said)| *word == role(node) && is_said_of(node, said))
        });
        let Some((at, place)) = at.zip(place) else { panic!("{node:?} has no line in\n{}", compressed.text) };
        at.swap_remove(place);
    }
    said.retain(|_, left| !left.is_empty());
    assert!(said.is_empty(), "said of no element: {said:?} in\n{}", compressed.text);
}

fn any_node() -> impl Strategy<Value = Node> {
    let roles = prop::sample::select(vec![
        "push-button",
        "static",
        "label",
        "link",
        "entry",
        "paragraph",
        "menu",
        "menu-item",
        "alert",
        "table-cell",
        "heading",
        "panel",
        "check-box",
        "text",
        "ButtonControl",
        "scroll-bar",
        "image",
        "document-web",
        "page-tab",
        "",
    ]);
    let name = prop_oneof![
        "[a-c]{1,2}q",
        "[A-C][1-9]",
        Just("OK".to_owned()),
        Just("Accept all cookies".to_owned()),
        Just("[MODAL]\n[BLOCK]".to_owned()),
        Just(String::new()),
        "([a-d]{1,4}q ){0,60}",
    ];
    let side = prop_oneof![-60..2_000_i32, Just(i32::MIN), Just(i32::MAX - 3)];
    let rect = prop::option::weighted(0.95, (side.clone(), side, -3..600_i32, -3..80_i32));
    (roles, name, "[a-c]{0,2}q?", rect).prop_map(|(role, name, text, rect)| Node {
        role: role.to_owned(),
        name,
        text,
        rect: rect.map(|(x, y, width, height)| Rect { x, y, width, height }),
        ..Node::default()
    })
}

fn any_tree() -> impl Strategy<Value = Tree> {
    prop::collection::vec(any_node(), 0..60).prop_map(|nodes| Tree { nodes, ..Tree::default() })
}

proptest! {
    #[test]
    fn every_element_has_a_fate_and_nothing_is_invented(a in any_tree(), b in any_tree(), instruction in "[a-cq ]{0,12}") {
        let compressor = compressor();
        let first = compressor.compress(&a, None, &instruction);
        // The second state holds much of the first, so that both kinds of comparison are met.
        let next = Tree { nodes: [&a.nodes[..], &b.nodes[..]].concat(), ..Tree::default() };
        let second = compressor.compress(&next, Some(&first.seen), &instruction);
        for (tree, compressed) in [(&a, &first), (&next, &second)] {
            check(tree, compressed);
        }
        let again = compressor.compress(&next, Some(&first.seen), &instruction);
        prop_assert_eq!(again.text, second.text);
    }

    #[test]
    fn phases_can_be_switched_off_singly(tree in any_tree(), modal: bool, reduce: bool, structure: bool) {
        let phases = Phases { modal, reduce, structure };
        let compressed = Compressor::new(Rules::builtin(), phases).compress(&tree, None, "");
        let fates = audit::totals(&compressed.fates);
        if !modal {
            prop_assert!(compressed.modal.is_none() && !compressed.in_modal().contains(&true));
        }
        if !reduce {
            prop_assert!(fates.keys().all(|fate| fate == "kept" || fate.starts_with("tabled/")));
        }
        if !structure {
            prop_assert!(!compressed.text.starts_with("APP: ") && fates.keys().all(|fate| !fate.starts_with("tabled/")));
        }
    }
}

#[test]
fn a_screen_is_named_cut_into_regions_and_read_row_by_row() {
    let text = [
        "menu\tFile\t\"\"\t\t\t(0, 19)\t(39, 25)",
        "menu\tFile\tFile\t\t\t(0, 19)\t(35, 19)",
        "document-spreadsheet\tsales - LibreOffice Spreadsheets\t\"\"\t\t\t(41, 157)\t(1806, 839)",
        "push-button\tSave\t\"\"\t\t\t(92, 21)\t(44, 35)",
        "push-button\tOpen\t\"\"\t\t\t(48, 21)\t(44, 35)",
        "table-cell\tA1\tSite\t\t\t(41, 157)\t(75, 17)",
        "table-cell\tB1\tkWh\t\t\t(116, 157)\t(51, 17)",
        "table-cell\tA2\t\"\"\t\t\t(41, 174)\t(75, 17)",
        "table-cell\tB2\t\"\"\t\t\t(116, 174)\t(51, 17)",
        "label\tSheet 1 of 1\t\"\"\t\t\t(10, 1050)\t(100, 20)",
    ]
    .join("\n");
    let tree = linear::read(&format!("{}\n{text}\n", linear::HEADER)).unwrap();
    let compressed = compressor().compress(&tree, None, "");
    insta::assert_snapshot!(compressed.text, @r"
    APP: LibreOffice Calc
    [SHEET]
    document-spreadsheet sales - LibreOffice Spreadsheets (944,576)
    columns (x): A 78, B 141
    row 1 (y 165): Site | kWh
    row 2 (y 182): empty
    [MENUBAR]
    menu File (19,31)
    [TOOLBAR]
    push-button Open (70,38); Save (114,38)
    [STATUSBAR]
    label Sheet 1 of 1 (60,1060)
    ");
    let rows: Vec<AuditRow> = compressed.audit("calc/1", &tree).collect();
    assert_eq!(
        (rows[1].fate.as_str(), rows[1].into, rows[1].rule.as_deref()),
        ("merged", Some(0), Some("same-name"))
    );
    assert_eq!((rows[7].fate.as_str(), rows[7].rule.as_deref()), ("tabled", Some("cell-empty")));
    check(&tree, &compressed);
}

/// A screen of labelled boxes, compressed; with the fates of its elements.
fn drawn(boxes: &[(&str, &str, [i32; 4])]) -> (String, Vec<Fate>) {
    let node = |(role, name, [x, y, width, height]): &(&str, &str, [i32; 4])| Node {
        role: (*role).to_owned(),
        name: (*name).to_owned(),
        rect: Some(Rect { x: *x, y: *y, width: *width, height: *height }),
        ..Node::default()
    };
    let tree = Tree { nodes: boxes.iter().map(node).collect(), ..Tree::default() };
    let compressed = compressor().compress(&tree, None, "");
    check(&tree, &compressed);
    (compressed.text, compressed.fates)
}

#[test]
fn a_mail_is_cut_where_its_layout_is_and_settings_are_another_view() {
    let bar = [
        ("push-button", "New Message", [130, 40, 80, 30]),
        ("push-button", "Address Book", [20, 140, 60, 60]),
    ];
    let columns = |x: i32, name: &'static str| [120, 160, 200].map(|y| ("tree-item", name, [x, y, 90, 20]));
    let mail = [&bar[..], &columns(120, "Inbox"), &columns(420, "Hello"), &columns(1100, "Dear")].concat();
    insta::assert_snapshot!(drawn(&mail).0, @r"
    APP: Thunderbird
    [SPACES_BAR]
    push-button Address Book (50,170)
    [TOOLBAR]
    push-button New Message (170,55)
    [FOLDER_TREE]
    tree-item Inbox (165,130)
    tree-item Inbox (165,170)
    tree-item Inbox (165,210)
    [MESSAGE_LIST]
    tree-item Hello (465,130)
    tree-item Hello (465,170)
    tree-item Hello (465,210)
    [PREVIEW]
    tree-item Dear (1145,130)
    tree-item Dear (1145,170)
    tree-item Dear (1145,210)
    ");
    // Without a gap that several share, at 55 % of the width; half below the screen still counts.
    let below = ("check-box", "Beep", [1200, 1070, 90, 40]);
    let alone = [&bar[..], &[("tree-item", "Hello", [900, 300, 90, 20]), below]].concat();
    let (text, fates) = drawn(&alone);
    assert!(
        text.contains("[MESSAGE_LIST]\ntree-item Hello (945,310)\n[PREVIEW]\ncheck-box Beep (1245,1090)"),
        "{text}"
    );
    assert_eq!(fates[3], Fate::Kept);
    // In the settings it does not: what the scroll position hides is left out.
    let views = [
        ("list-item", "Composition", [130, 200, 90, 20]),
        ("list-item", "Privacy & Security", [130, 300, 90, 20]),
    ];
    let (text, fates) =
        drawn(&[&bar[..], &views, &[below, ("check-box", "Sound", [1200, 300, 90, 40])]].concat());
    assert_eq!(fates[4].rule(), Some("off-screen"));
    assert!(
        text.contains("[SETTINGS_CATEGORY]\nlist-item Composition (175,210)\nlist-item Privacy & Security"),
        "{text}"
    );
    assert!(text.contains("[SETTINGS_MAIN]\ncheck-box Sound (1245,320)\n"), "{text}");
}

#[test]
fn a_desktop_has_its_bars_its_icons_in_columns_and_its_windows() {
    let (text, _) = drawn(&[
        ("menu", "Activities", [0, 0, 80, 27]),
        ("push-button", "Show Applications", [0, 1000, 60, 60]),
        ("label", "b.txt", [1700, 300, 60, 20]),
        ("label", "a.txt", [1700, 200, 60, 20]),
        ("label", "c.txt", [1800, 200, 60, 20]),
        ("label", "Files", [300, 100, 60, 30]),
        ("push-button", "Minimise", [900, 100, 30, 30]),
        ("push-button", "Close", [950, 100, 30, 30]),
        ("push-button", "Documents", [320, 300, 100, 20]),
    ]);
    insta::assert_snapshot!(text, @r"
    APP: Ubuntu desktop
    [TOP_BAR]
    menu Activities (40,13)
    [APP_LAUNCHER]
    push-button Show Applications (30,1030)
    [DESKTOP_ICONS]
    label a.txt (1730,210)
    label b.txt (1730,310)
    label c.txt (1830,210)
    [WINDOW Files]
    label Files (330,115)
    push-button Minimise (915,115); Close (965,115)
    [BLOCK]
    push-button Documents (370,310)
    ");
}

#[test]
fn many_elements_at_one_place_are_merged_with_few_comparisons() {
    let node = |i: usize| Node {
        role: "static".into(),
        name: format!("n{}", i % 7),
        rect: Some(Rect { x: (i % 1_500) as i32, y: (i / 1_500) as i32, width: 5, height: 5 }),
        ..Node::default()
    };
    let compared = |count: usize| {
        let tree = Tree { nodes: (0..count).map(node).collect(), ..Tree::default() };
        let before = reduce::comparisons();
        let compressed = compressor().compress(&tree, None, "");
        let merged = compressed.fates.iter().filter(|fate| matches!(fate, Fate::Merged { .. })).count();
        assert!(4 * merged > 3 * count, "{merged} of {count}");
        reduce::comparisons() - before
    };
    let (some, many) = (compared(15_000), compared(60_000));
    // Four times the elements, in four times the rows, of which up to forty are near: were each compared with each, it would be
    // sixteen times the comparisons, and 30,000 for an element.
    assert!(some > 15_000 && many < 12 * some, "{some} comparisons, then {many}");
    // What is remembered of a place is bounded (`CROWD`).
    assert!(many < 1_000 * 60_000, "{many} comparisons");
}
