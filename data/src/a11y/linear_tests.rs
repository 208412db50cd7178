use super::*;

fn read_records(records: &str) -> Result<Vec<Node>, TreeError> {
    read(&format!("{HEADER}\n{records}")).map(|tree| tree.nodes)
}

#[test]
fn records_may_span_lines_and_hold_tabs_and_quotes() {
    let found = read_records(
        "menu\tFile\t\"\"\t\t\t(0, 19)\t(39, 25)\n\
         paragraph\t\t\"a \"\"b\"\"\"\t\t\t(1, 2)\t(3, 4)\n\
         text\tnote\tmilk\nbread\tand (1, 2)\nend\tC\tD\t(-5, 6)\t(7, 8)\n",
    )
    .unwrap();
    let parts: Vec<_> = found.iter().map(|n| (n.role.as_str(), n.name.as_str(), n.text.as_str())).collect();
    assert_eq!(
        parts,
        [
            ("menu", "File", ""),
            ("paragraph", "", "a \"b\""),
            ("text", "note", "milk\nbread\tand (1, 2)\nend")
        ]
    );
    assert_eq!((found[2].class.as_str(), found[2].description.as_str()), ("C", "D"));
    assert_eq!(found[2].rect, Some(Rect { x: -5, y: 6, width: 7, height: 8 }));
    assert_eq!(found[1].id, "1");
    assert_eq!(read(&write(&found)).unwrap().nodes, found);
}

const FILE: &str = "menu\tFile\t\"\"\t\t\t(0, 19)\t(39, 25)";

#[test]
fn a_tree_may_be_cut_to_a_length_and_what_the_cut_hit_is_left_out_by_name() {
    let cut = |records: &str| {
        let tree = read(&format!("{HEADER}\n{records}")).unwrap();
        assert!(tree.cut && tree.rejects.is_empty());
        let left: Vec<_> =
            tree.left_out.iter().map(|l| (l.node.text.clone(), l.rule.0.to_string())).collect();
        (tree.nodes.len(), left)
    };
    let lost = |text: &str| vec![(text.to_owned(), CUT_OFF.to_owned())];
    assert_eq!(cut(&format!("{FILE}\nmenu\tEd[...]\n")), (1, lost("menu\tEd")));
    assert_eq!(cut(&format!("{FILE}\nmenu\tEdit\t\"\"\t\t\t(0, 19)\t(3[...]\n")).0, 1);
    // The cut fell between two records, or just after the last sign of one.
    assert_eq!(cut(&format!("{FILE}\n[...]\n")), (1, Vec::new()));
    assert_eq!(cut(&format!("{FILE}\n{FILE}[...]\n")), (2, Vec::new()));
    assert_eq!(cut("[...]"), (0, Vec::new()));
    assert!(!read(&format!("{HEADER}\n{FILE}")).unwrap().cut);
}

#[test]
fn a_record_that_cannot_be_read_is_a_reject_and_the_others_stand() {
    for (record, part) in [
        ("menu\tFile\t(0, 19)\t(39, 25)", "expected seven columns"),
        ("menu\tFile\t\"\"\t\t\t(0, 19)\t(99999999999, 25)", "its position or size is out of range"),
        ("m\ta\t\"\"\t\t\t(0, 19)\t(39, -25)", "its size is negative"),
        ("m\ta\t\"\"\t\t\t(1.5, 2.0)\t(39, 25)", "its position or size cannot be read"),
        ("m\ta\tb\nc\t\t\t(1, 2)\t(1e3, 25)", "its position or size cannot be read"),
        ("m\ta\t\"\"\t\t\t\t", "its position or size cannot be read"),
        ("m\ta\t\"\"\t\t\t(x, y)\t(3, 4)", "its position or size cannot be read"),
    ] {
        let tree = read(&format!("{HEADER}\n{FILE}\n{record}\n{FILE}\n")).unwrap();
        let ids: Vec<_> = tree.nodes.iter().map(|n| (n.id.as_str(), n.name.as_str(), n.rect)).collect();
        let rect = Some(Rect { x: 0, y: 19, width: 39, height: 25 });
        assert_eq!(ids, [("0", "File", rect), ("2", "File", rect)], "{record}");
        assert_eq!(tree.rejects.len(), 1, "{record}");
        let reject = tree.rejects[0].to_string();
        assert!(reject.starts_with(&format!("record 1: {part}")), "{reject}");
        // Where nothing else stands, the file is refused.
        assert!(read(&format!("{HEADER}\n{record}\n")).unwrap_err().to_string().contains(part));
    }
    let tree = read(&format!("{HEADER}\n{FILE}\na line of a log\n")).unwrap();
    assert_eq!((tree.nodes.len(), tree.rejects.len()), (1, 1));
    assert!(tree.rejects[0].to_string().starts_with("record 1: no position and size; the file is cut off"));
    assert!(read(&format!("{HEADER}\nmenu\tFile")).is_err());
    // What merely looks like a place is text.
    let text = "text\t\tsee\t(a, b)\t(c, d)\nand\t(1, 2)\t\t\t(0, 0)\t(1, 1)";
    let tree = read(&format!("{HEADER}\n{text}\n")).unwrap();
    assert_eq!((tree.nodes.len(), tree.rejects.len()), (1, 0));
    assert_eq!(write(&tree.nodes), format!("{HEADER}\n{text}"));
}

#[test]
fn a_tab_may_stand_in_a_name() {
    for (name, text, columns) in [
        ("Save\tas", "", "Save\tas\t\"\""),
        ("Save\tas", "Save\tas", "Save\tas\tSave\tas"),
        ("a\tb", "say \"x\"\t!", "a\tb\t\"say \"\"x\"\"\t!\""),
        ("5\" disk", "", "5\" disk\t\"\""),
        ("note", "a\tb\tc", "note\ta\tb\tc"),
        ("", "", "\t\"\""),
    ] {
        let file = format!("{HEADER}\nbutton\t{columns}\t\t\t(1, 2)\t(3, 4)");
        let nodes = read(&file).unwrap().nodes;
        assert_eq!((nodes[0].name.as_str(), nodes[0].text.as_str()), (name, text));
        assert_eq!(write(&nodes), file);
    }
    // Many tabs and a quote cost no more than the few tabs that are looked at.
    let columns = format!("{}\"", "\t".repeat(1 << 20));
    let nodes = read(&format!("{HEADER}\nbutton\t{columns}\t\t\t(1, 2)\t(3, 4)")).unwrap().nodes;
    assert_eq!((nodes[0].name.as_str(), nodes[0].text.len()), ("", (1 << 20)));
}

#[test]
fn headers_are_written_in_several_ways() {
    let seven = |header: &str| format!("{header}\n{FILE}\n");
    let paper = HEADER.replace("x&y", "x,y").replace("w&h", "w,h");
    let headed = [
        seven(HEADER),
        seven(&format!("\u{feff}LINEAR AT: {HEADER}")),
        seven(&format!("LINEAR AT: \n{HEADER}")),
        seven(&format!("LINEAR AT:  {HEADER}")),
        seven(&format!("\n\r\n{HEADER}\r")),
        seven(&paper),
        "tag\tname\ttext\tposition (top-left x&y)\tsize (w&h)\nmenu\tFile\t\"\"\t(0, 19)\t(39, 25)\n".to_owned(),
        "TAG\tNAME\tPOSITION (top-left x & y)\tSIZE (width & height)\tTEXT\nmenu\tFile\t(0, 19)\t(39, 25)\t''\n"
            .to_owned(),
    ];
    let expected = read(&headed[0]).unwrap();
    assert_eq!(expected.nodes.len(), 1);
    for file in &headed {
        assert!(is_linear(file), "{file}");
        assert_eq!(read(file).as_ref(), Ok(&expected), "{file}");
    }
    assert_eq!(read(HEADER).unwrap().nodes, []);
    for other in ["tag\tname\n", "INDEX\tTAG\tNAME", "", "LINEAR AT: None"] {
        assert!(!is_linear(other));
        assert!(read(other).unwrap_err().to_string().starts_with("line 1: expected the header"));
    }
}

#[test]
fn the_variant_of_spider2v_has_its_text_last_as_python_writes_it() {
    let header = "INDEX\tTAG\tNAME\tPOSITION (top-left x & y)\tSIZE (width & height)\tTEXT";
    let file = format!(
        "{header}\n1\tmenu\tVisual\nStudio\t(99, 0)\t(184, 27)\t''\n\
         2\tterminal\tTerminal\t(70, 74)\t(1430, 832)\t\"it's\\n\\x41\\u00e9\\U0001F600 \\\\n \\q\"\n\
         3\tpush-button\tOK\t(1.5, 2)\t(3, 4)\t'x'\n4\tentry\t\t(1, 2)\t(3, 4)\t'a[...]\n"
    );
    let tree = read(&file).unwrap();
    let said: Vec<_> = tree
        .nodes
        .iter()
        .map(|n| (n.id.as_str(), n.role.as_str(), n.name.as_str(), n.text.as_str()))
        .collect();
    let expected = [
        ("1", "menu", "Visual\nStudio", ""),
        ("2", "terminal", "Terminal", "it's\nA\u{e9}\u{1F600} \\n \\q"),
    ];
    assert_eq!(said, expected);
    assert_eq!((tree.rejects.len(), tree.left_out.len(), tree.cut), (1, 1, true));
}
