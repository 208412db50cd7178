use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;

use super::tree::{Node, Rect, Tree};
use super::*;

fn compressor() -> Compressor {
    Compressor::new(Rules::builtin(), Phases::default())
}

/// Rules by which an interactive element may be missing from the text.
const NAMED_RULES: [&str; 6] =
    ["off-screen", "no-area", "container", "desktop-icon", "system-metadata", "nothing-to-say"];

/// What must hold of any compressed screen.
fn check(tree: &Tree, compressed: &Compressed) {
    assert_eq!(compressed.fates.len(), tree.nodes.len());
    for row in compressed.audit("t", tree) {
        let fate = &compressed.fates[row.element as usize];
        match fate {
            Fate::Kept => {
                if let Some(rect) = tree.nodes[row.element as usize].rect {
                    let (x, y) = rect.centre();
                    assert!(compressed.text.contains(&format!("({x},{y})")), "{row:?}\n{}", compressed.text);
                }
            }
            Fate::Merged { into, .. } => {
                assert!(matches!(compressed.fates[*into], Fate::Kept | Fate::Tabled(_)), "{row:?}");
                assert_ne!(*into, row.element as usize);
            }
            Fate::Tabled(rule) => assert!(rule.0.starts_with("cell-"), "{row:?}"),
            Fate::Dropped(rule) => {
                assert!(!row.interactive || NAMED_RULES.contains(&rule.0.as_ref()), "{row:?}");
            }
        }
    }
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

/// Words of a text that mark it as an element's: those with a `q`, which no word of ours has.
fn marked(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.contains('q')).collect()
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
            let source: Vec<&str> = tree.nodes.iter().flat_map(|n| [n.name.as_str(), n.text.as_str()]).collect();
            let source = source.join(" ");
            let known = marked(&source);
            for word in marked(&compressed.text) {
                // A cut may fall inside a word.
                let part = |whole: &&str| whole.contains(word);
                prop_assert!(known.contains(word) || known.iter().any(part), "{word} in {}", compressed.text);
            }
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

    #[test]
    fn any_bytes_are_read_or_refused(text in "\\PC{0,200}", form in prop::sample::select(Form::ALL.to_vec())) {
        let _ = form.read(&text);
        let _ = form.is_begun_by(&text);
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
fn a_dump_becomes_the_linear_form_by_its_rules() {
    let dump = r#"<?xml version="1.0"?>
<desktop-frame xmlns:s="https://accessibility.ubuntu.example.org/ns/state" xmlns:c="https://accessibility.ubuntu.example.org/ns/component" xmlns:v="https://accessibility.ubuntu.example.org/ns/value">
<application name="gedit"><frame name="notes" s:showing="true" s:visible="true" s:active="true" c:screencoord="(0, 0)" c:size="(800, 600)">
<push-button name="Save &amp; close" s:showing="true" s:visible="true" s:enabled="true" c:screencoord="(10, 20)" c:size="(30, 40)">a &lt;b&gt; "c"<label name="inner"/></push-button>
<push-button name="hidden" s:visible="true" s:enabled="true" c:screencoord="(10, 20)" c:size="(30, 40)"/>
<push-button name="off" s:showing="true" s:visible="true" c:screencoord="(10, 20)" c:size="(30, 40)"/>
<dialog name="Sure?" s:showing="true" s:modal="true" c:screencoord="(100, 100)" c:size="(200, 100)"><check-box name="all" s:showing="true" s:visible="true" s:enabled="true" s:checked="true" c:screencoord="(110, 120)" c:size="(10, 10)"/></dialog>
</frame></application></desktop-frame>"#;
    let tree = atspi::read(dump).unwrap().into_tree();
    assert_eq!(
        linear::write(&tree.nodes),
        format!(
            "{}\npush-button\tSave & close\t\"a <b> \"\"c\"\"\"\t\t\t(10, 20)\t(30, 40)\ncheck-box\tall\t\"\"\t\t\t(110, 120)\t(10, 10)",
            linear::HEADER
        )
    );
    assert_eq!((tree.windows.len(), tree.windows[1].modal, tree.nodes[1].window), (2, true, Some(1)));
    let compressed = compressor().compress(&tree, None, "");
    assert!(compressed.text.contains("[MODAL]\ncheck-box all (115,125) checked\n"), "{}", compressed.text);
}

#[test]
fn broken_dumps_are_refused_fast() {
    let bomb = "<!DOCTYPE d [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]><desktop-frame>&b;</desktop-frame>";
    let deep = "<a>".repeat(100_000);
    for (text, part) in [
        ("<desktop-frame><menu></desktop-frame>", "byte"),
        ("<desktop-frame><menu>", "is not closed; the file is cut off"),
        ("", "no element"),
        ("<desktop-frame>&b;</desktop-frame>", "byte"),
        (bomb, "a document type"),
        (&deep, "more than 1000 levels"),
        ("<a/><b/>", "a second root"),
        ("<a xmlns:cp=\"x/component\" cp:size=\"(1; 2)\"/>", "`size` is"),
    ] {
        let error = atspi::read(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn many_elements_at_one_place_are_merged_in_time() {
    let node = |i: usize| Node {
        role: "static".into(),
        name: format!("n{}", i % 7),
        rect: Some(Rect { x: (i % 1_500) as i32, y: (i / 1_500) as i32, width: 5, height: 5 }),
        ..Node::default()
    };
    let tree = Tree { nodes: (0..60_000).map(node).collect(), ..Tree::default() };
    let compressed = compressor().compress(&tree, None, "");
    check(&tree, &compressed);
}

/// A folder of the shared data, where it is there.
fn shared(folder: &str) -> Option<std::path::PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data").join(folder);
    if !path.is_dir() {
        eprintln!("skipped: {} is not here", path.display());
        return None;
    }
    Some(path)
}

#[test]
fn on_real_screens_every_target_survives() {
    let Some(root) = shared("desktop-a11y") else { return };
    let compressor = compressor();
    let (mut screens, mut targets, mut survive) = (0, 0_u32, 0);
    for app in ["calc", "chromium", "galculator", "gedit", "gimp", "mousepad", "writer"] {
        let folder = root.join(app);
        let mut before = None;
        let mut audits: std::collections::BTreeMap<String, Vec<AuditRow>> = std::collections::BTreeMap::new();
        for number in 1.. {
            let name = format!("{number:03}");
            let Ok(text) = std::fs::read_to_string(folder.join(format!("{name}.tsv"))) else { break };
            let tree = linear::read(&text).unwrap();
            assert_eq!(linear::write(&tree.nodes), text.trim_end_matches('\n'), "{app}/{name}");
            let compressed = compressor.compress(&tree, before.as_ref(), "");
            check(&tree, &compressed);
            audits.insert(name, compressed.audit(app, &tree).collect());
            before = Some(compressed.seen);
            screens += 1;
        }
        for line in std::fs::read_to_string(folder.join("steps.jsonl")).unwrap().lines() {
            let step: serde_json::Value = serde_json::from_str(line).unwrap();
            let control = &step["action"]["control"];
            let (Some(name), Some(rows)) =
                (control["name"].as_str(), step["before"].as_str().and_then(|b| audits.get(b)))
            else {
                continue;
            };
            let sides: Vec<i64> = step["action"]["bbox"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(serde_json::Value::as_i64)
                .collect();
            let is_target = |row: &&AuditRow| {
                let rect = [row.x, row.y, row.width, row.height].map(|side| side.map(i64::from));
                row.label.trim() == name.trim() && rect.iter().flatten().copied().eq(sides.iter().copied())
            };
            let Some(row) = rows.iter().find(is_target) else { continue };
            targets += 1;
            survive += u32::from(row.fate != "dropped");
        }
    }
    assert!(screens >= 100 && targets >= 30, "{screens} screens, {targets} targets");
    assert!(1_000 * survive >= 995 * targets, "{survive} of {targets} targets");
}
