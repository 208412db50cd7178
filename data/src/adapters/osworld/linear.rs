//! Elements of a screen from `OSWorld`'s linear form, which [`linear`] reads.

use super::super::source::Fault;
use crate::a11y::{Node, TreeError, linear};
use crate::action::{BBox, FrameName};
use crate::trace::{Element, RejectKind};

/// The elements of the tree in `text`, in its order.
///
/// An element's id is its record's number, from 0; its role the tag, its text the name and then the text, once
/// where they are equal; class and description are states, `class=…`.
///
/// # Errors
/// [`RejectKind::Malformed`] when the header is another, or a record cannot be read: a step whose screen lacks an element
/// would say so nowhere.
pub(super) fn elements(text: &str) -> Result<Vec<Element>, Fault> {
    let mut tree = linear::read(text).map_err(|e| malformed(&e))?;
    if let Some(reject) = tree.rejects.pop() {
        return Err(malformed(tree.rejects.first().unwrap_or(&reject)));
    }
    Ok(tree.nodes.into_iter().map(element).collect())
}

fn malformed(TreeError { place, reason }: &TreeError) -> Fault {
    Fault::new(RejectKind::Malformed, format!("{place}: {reason}"))
}

fn element(node: Node) -> Element {
    let parts = match (node.name.trim(), node.text.trim()) {
        ("", only) | (only, "") => only.to_owned(),
        (name, text) if name == text => name.to_owned(),
        (name, text) => format!("{name}\n{text}"),
    };
    let labelled = [("class", &node.class), ("description", &node.description)];
    let states = labelled.iter().filter(|(_, value)| !value.trim().is_empty());
    let bbox = node.rect.map(|rect| {
        let (left, top) = (f64::from(rect.x), f64::from(rect.y));
        let (right, bottom) = (left + f64::from(rect.width), top + f64::from(rect.height));
        BBox { left, top, right, bottom, frame: FrameName::Pixels }
    });
    Element {
        id: node.id,
        role: node.role,
        text: parts,
        states: states.map(|(label, value)| format!("{label}={}", value.trim())).collect(),
        bbox,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = linear::HEADER;

    fn read(records: &str) -> Result<Vec<Element>, Fault> {
        elements(&format!("{HEADER}\n{records}"))
    }

    #[test]
    fn records_may_span_lines_and_hold_tabs_and_quotes() {
        let tree = "menu\tFile\t\"\"\t\t\t(0, 19)\t(39, 25)\n\
                    label\tNo header.\nUse the first line?\tNo header.\nUse the first line?\t\t\t(-7, 5)\t(3, 4)\n\
                    link\t\r\nShop\t\r\nShop\t\t\t(1, 2)\t(3, 4)\r\n\
                    paragraph\t\t\"see \"\"Actions\"\"\tbelow\"\tGtkLabel\tnotes\t(0, 0)\t(1, 1)";
        let found = read(tree).expect("a tree");
        let flat: Vec<_> = found.iter().map(|e| (e.id.as_str(), e.role.as_str(), e.text.as_str())).collect();
        assert_eq!(
            flat,
            [
                ("0", "menu", "File"),
                ("1", "label", "No header.\nUse the first line?"),
                ("2", "link", "Shop"),
                ("3", "paragraph", "see \"Actions\"\tbelow"),
            ]
        );
        assert_eq!(found[1].bbox.map(|b| (b.left, b.top, b.right, b.bottom)), Some((-7.0, 5.0, -4.0, 9.0)));
        assert_eq!(found[3].states, ["class=GtkLabel", "description=notes"]);
    }

    #[test]
    fn name_and_text_are_both_kept() {
        let found = read("entry\tSearch\tmilk\t\t\t(0, 0)\t(9, 9)\n").expect("a tree");
        assert_eq!(found[0].text, "Search\nmilk");
        assert_eq!(read(""), Ok(Vec::new()));
        assert_eq!(elements(HEADER), Ok(Vec::new()));
    }

    #[test]
    fn a_tree_cut_to_a_length_keeps_its_whole_records() {
        let found = read("menu\tFile\t\"\"\t\t\t(0, 19)\t(39, 25)\nmenu\tEd[...]\n").expect("a tree");
        assert_eq!(found.len(), 1);
        assert_eq!(read("[...]\n").map(|found| found.len()), Ok(0));
    }

    #[test]
    fn what_is_no_tree_is_refused_with_its_record() {
        for (tree, reason) in [
            ("menu\tFile\t\"\"\t\t\t(0, 19)", "record 0: no position and size"),
            ("menu\tFile\t(0, 19)\t(39, 25)\n", "record 0: expected seven columns"),
            ("menu\tFile\t\"\"\t\t\t(0, 19)\t(-39, 25)\n", "record 0: its size is negative"),
            ("menu\tFile\t\"\"\t\t\t(0, 19)\t(99999999999, 25)\n", "record 0: its position or size"),
        ] {
            let fault = read(tree).expect_err("refused");
            assert_eq!(fault.kind, RejectKind::Malformed);
            assert!(fault.reason.starts_with(reason), "{}", fault.reason);
        }
        for header in ["", "tag,name", "INDEX\tTAG\tNAME"] {
            let fault = elements(header).expect_err("no tree");
            assert!(fault.reason.contains("header of a linear tree"), "{}", fault.reason);
        }
    }
}
