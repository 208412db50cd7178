use super::super::{Compressor, Phases, Rules, linear};
use super::*;

/// What a node says that is on the screen and can be used.
const SHOWN: &str = "st:showing=\"true\" st:visible=\"true\" st:enabled=\"true\"";

fn tree(nodes: &str) -> Tree {
    read(&format!("<desktop-frame><application name=\"a\">{nodes}</application></desktop-frame>"))
        .unwrap()
        .into_tree()
}

/// What became of the nodes, by their names.
fn fates(tree: &Tree) -> Vec<(&str, &str)> {
    let beyond = |i: usize| tree.beyond_linear.contains(&(i as u32));
    let kept = tree
        .nodes
        .iter()
        .enumerate()
        .map(|(i, node)| (&node.name[..], if beyond(i) { "beyond" } else { "kept" }));
    let left = tree.left_out.iter().map(|left| (&left.node.name[..], left.rule.0.as_ref()));
    kept.chain(left).filter(|(name, _)| name.len() > 1).collect()
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
    let tree = read(dump).unwrap().into_tree();
    assert_eq!(
        linear::write(&tree.nodes),
        format!(
            "{}\npush-button\tSave & close\t\"a <b> \"\"c\"\"\"\t\t\t(10, 20)\t(30, 40)\ncheck-box\tall\t\"\"\t\t\t(110, 120)\t(10, 10)",
            linear::HEADER
        )
    );
    assert_eq!((tree.windows.len(), tree.windows[1].modal, tree.nodes[1].window), (2, true, Some(1)));
    let compressed = Compressor::new(Rules::builtin(), Phases::default()).compress(&tree, None, "");
    assert!(compressed.text.contains("[MODAL]\ncheck-box all (115,125) checked\n"), "{}", compressed.text);
}

#[test]
fn windows_asks_for_visible_only_and_has_a_class_and_a_description() {
    let space = |part: &str| format!("https://accessibility.windows.example.org/ns/{part}");
    let (state, component, class) = (space("state"), space("component"), space("class"));
    let (value, attributes) = (space("value"), space("attributes"));
    let at = "s:visible=\"true\" s:enabled=\"true\" c:screencoord=\"(10, 20)\" c:size=\"(30, 40)\"";
    let dump = format!(
        "<desktop xmlns:s=\"{state}\" xmlns:c=\"{component}\" xmlns:k=\"{class}\" xmlns:v=\"{value}\" xmlns:a=\"{attributes}\">\
         <xlmain name=\"Book1 - Excel\" {at}><button name=\"Save\" {at} k:class=\"ButtonWrapper\" a:description=\"saves\"/>\
         <edit-button name=\"Box\" {at} k:class=\"EditWrapper\" v:value=\"A1\"/>\
         <button name=\"away\" s:enabled=\"true\" c:screencoord=\"(10, 20)\" c:size=\"(30, 40)\"/></xlmain></desktop>"
    );
    let dump = read(&dump).unwrap();
    assert_eq!(dump.platform, Platform::Windows);
    let tree = dump.into_tree();
    assert_eq!(
        tree.linear(),
        format!(
            "{}\nbutton\tSave\t\"\"\tButtonWrapper\tsaves\t(10, 20)\t(30, 40)\n\
             edit-button\tBox\tA1\tEditWrapper\t\t(10, 20)\t(30, 40)",
            linear::HEADER
        )
    );
    assert_eq!(
        (tree.windows.len(), tree.windows[0].title.as_str(), tree.nodes[0].window),
        (1, "Book1 - Excel", Some(0))
    );
    // Without a word in the namespaces the root tells: here nothing is `showing`.
    let bare = "<button name=\"Save\" st:visible=\"true\" st:enabled=\"true\" cp:screencoord=\"(1, 2)\" cp:size=\"(3, 4)\"/>";
    let kept = |root: &str| read(&format!("<{root}>{bare}</{root}>")).unwrap().into_tree().nodes.len();
    assert_eq!((kept("desktop"), kept("desktop-frame")), (1, 0));
    let older = "<desktop-frame xmlns:st=\"uri:deskat:state.at-spi.gnome.org\" xmlns:win=\"uri:deskat:uia.windows.microsoft.org\"/>";
    assert_eq!(read(older).unwrap().platform, Platform::Ubuntu);
}

#[test]
fn class_and_description_of_ubuntu_stay_out_of_the_linear_form() {
    let own = "attr:class=\"ImageButton\" attr:description=\"Opens a file\" cp:screencoord=\"(1, 2)\" cp:size=\"(3, 4)\"";
    let tree =
        tree(&format!("<push-button name=\"Open\" {SHOWN} {own}/><push-button name=\"\" {SHOWN} {own}/>"));
    assert_eq!(tree.linear(), format!("{}\npush-button\tOpen\t\"\"\t\t\t(1, 2)\t(3, 4)", linear::HEADER));
    // A button without a name is called by its description.
    assert_eq!((tree.nodes[1].label(), &tree.beyond_linear[..]), ("Opens a file", &[1][..]));
}

#[test]
fn what_a_user_acts_on_is_handed_on_and_all_else_is_left_out_by_name() {
    let at = "cp:screencoord=\"(1, 2)\" cp:size=\"(3, 4)\"";
    let hidden = SHOWN.replace("st:showing=\"true\"", "");
    let found = tree(&format!(
        "<page-tab-list name=\"list\" {SHOWN} {at}><page-tab name=\"tab\" {SHOWN} {at}/></page-tab-list>\
         <password-text name=\"secret\" {SHOWN} {at}/><push-button name=\"hidden\" {hidden} {at}/>\
         <push-button name=\"unplaced\" {SHOWN}/><panel name=\"panel\" {SHOWN} {at}/><label name=\"label\" {SHOWN} {at}/>\
         <push-button name=\"grey\" st:showing=\"true\" st:visible=\"true\" {at}/>"
    ));
    let left = [
        ("list", NOT_IN_LINEAR_FORM),
        ("hidden", NOT_SHOWN),
        ("unplaced", NOT_IN_LINEAR_FORM),
        ("panel", NOT_IN_LINEAR_FORM),
        ("grey", NOT_IN_LINEAR_FORM),
    ];
    let kept = [("tab", "beyond"), ("secret", "beyond"), ("label", "kept")];
    assert_eq!(fates(&found), [&kept[..], &left[..]].concat());
    let compressed = Compressor::new(Rules::builtin(), Phases::default()).compress(&found, None, "");
    let rows: Vec<_> =
        compressed.audit("t", &found).map(|row| (row.label, row.fate, row.rule, row.interactive)).collect();
    // Desktop and application too: every node of the dump has a row.
    assert_eq!(rows.len(), 10);
    let hidden = ("hidden".to_owned(), "dropped".to_owned(), Some(NOT_SHOWN.to_owned()), true);
    assert!(rows.contains(&hidden), "{rows:?}");
    assert_eq!(super::super::audit::totals_of(&compressed, &found)["dropped/not-shown"], 3);
}

#[test]
fn a_node_that_cannot_be_read_is_a_reject_and_the_others_stand() {
    for place in ["(1.0, 5.0)", "(4294967295, 5)", "(1; 2)", ""] {
        let found = tree(&format!(
            "<push-button name=\"bad\" {SHOWN} cp:screencoord=\"{place}\" cp:size=\"(3, 4)\"><label name=\"in it\" {SHOWN} \
             cp:screencoord=\"(1,2)\" cp:size=\"( 3, 4 )\"/></push-button>"
        ));
        assert_eq!(fates(&found), [("in it", "kept"), ("bad", UNREADABLE)]);
        assert_eq!(found.rejects.len(), 1);
        let reject = found.rejects[0].to_string();
        assert!(reject.starts_with("byte 37: `push-button` \"bad\": `screencoord` is"), "{reject}");
    }
    // Too many of them are no screen any more, and are not collected.
    let bad = "<a cp:size=\"x\"/>".repeat(MOST_REJECTS + 1);
    let error = read(&format!("<desktop-frame>{bad}</desktop-frame>")).unwrap_err();
    assert!(error.reason.contains("more than 10000 nodes that cannot be read"), "{error}");
}

#[test]
fn a_nodes_text_is_what_stands_before_its_first_child() {
    let at = "cp:screencoord=\"(1, 2)\" cp:size=\"(3, 4)\"";
    let found = tree(&format!(
        "<paragraph name=\"\" {SHOWN} {at}>be&amp;<![CDATA[fore]]><label name=\"x\"/>after</paragraph>"
    ));
    assert_eq!(found.nodes[0].text, "be&fore");
}

#[test]
fn broken_dumps_are_refused_where_they_break() {
    let bomb = "<!DOCTYPE d [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]><desktop-frame>&b;</desktop-frame>";
    let deep = "<a>".repeat(1_000_000);
    let tail = "<b/>".repeat(1_000_000);
    for (text, part, at) in [
        ("<desktop-frame><menu></desktop-frame>", "", 21),
        ("<desktop-frame><menu>", "is not closed; the file is cut off", 21),
        ("", "no element", 0),
        ("<desktop-frame>&b;</desktop-frame>", "", 18),
        // No entity is ever unfolded: nothing after the declaration is looked at.
        (&format!("{bomb}{tail}"), "a document type", 0),
        // It stops at the level that is one too many, however many follow.
        (&deep, "more than 1000 levels", 3_000),
        (&format!("<a/>{tail}"), "a second root", 4),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.reason.contains(part), "{error}");
        let byte: usize = error.place.strip_prefix("byte ").unwrap().parse().unwrap();
        assert!(byte <= at, "{error} of {} bytes", text.len());
    }
}
