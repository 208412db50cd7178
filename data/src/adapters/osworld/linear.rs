//! The linear form of an accessibility tree: a header, then one node after another.
//!
//! ```text
//! tag    name    text    class    description    position (top-left x&y)    size (w&h)
//! menu   File    ""                              (0, 19)                    (39, 25)
//! ```
//!
//! Fields are divided by tabs. Line ends inside a name or a text are not escaped: a record goes on until it
//! ends in a position and a size. Text stands in quotes, doubled inside, where it holds a quote, and as `""`
//! where it is empty. A tree that was cut to a length ends in `[...]`; the record cut in two before it is no
//! element.

use std::sync::LazyLock;

use regex::Regex;

use super::super::source::Fault;
use crate::action::{BBox, FrameName};
use crate::trace::{Element, RejectKind};

const HEADER: &str = "tag\tname\ttext\tclass\tdescription\tposition (top-left x&y)\tsize (w&h)";
/// What a tree that was cut to a length ends in.
const CUT: &str = "[...]";

/// The end of a record: position and size.
static END: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\t\((-?\d+), (-?\d+)\)\t\((-?\d+), (-?\d+)\)$").expect("the pattern is valid")
});

/// The elements of the tree in `text`, in its order.
///
/// An element's id is its record's number, from 0; its role the tag, its text the name and then the text, once
/// where they are equal; class and description are states, `class=…`.
///
/// # Errors
/// [`RejectKind::Malformed`] when the header is another, or a record is not finished.
pub(super) fn elements(text: &str) -> Result<Vec<Element>, Fault> {
    let (header, records) = text.split_once('\n').unwrap_or((text, ""));
    if header.trim_end_matches('\r') != HEADER {
        let shown: String = header.chars().take(60).collect();
        let reason = format!("expected the header of a linear tree (`tag`, `name`, …), found {shown:?}");
        return Err(Fault::new(RejectKind::Malformed, reason));
    }
    let mut elements: Vec<Element> = Vec::new();
    let mut start = 0;
    for (at, _) in records.match_indices('\n').chain([(records.len(), "")]) {
        let record = records[start..at].trim_end_matches('\r');
        let last_line = record.rsplit('\n').next().unwrap_or_default();
        if END.is_match(last_line) {
            elements.push(element(elements.len(), record)?);
            start = at + 1;
        }
    }
    let rest = records.get(start..).unwrap_or_default().trim_end();
    if rest.is_empty() || rest.ends_with(CUT) {
        return Ok(elements);
    }
    let shown: String = rest.chars().take(60).collect();
    let reason =
        format!("record {} has no position and size; the file is cut off at {shown:?}", elements.len());
    Err(Fault::new(RejectKind::Malformed, reason))
}

fn element(number: usize, record: &str) -> Result<Element, Fault> {
    let wrong = |what: &str| {
        let shown: String = record.chars().take(60).collect();
        Fault::new(RejectKind::Malformed, format!("record {number}: {what}, found {shown:?}"))
    };
    let fields: Vec<&str> = record.split('\t').collect();
    // A tab inside a text is not escaped either: what stands between name and class is the text.
    let [tag, name, middle @ .., class, description, _, _] = fields.as_slice() else {
        return Err(wrong("expected seven columns"));
    };
    if middle.is_empty() {
        return Err(wrong("expected seven columns"));
    }
    let text = unquoted(&middle.join("\t"));
    let (name, text) = (name.trim(), text.trim());
    let parts = match (name, text) {
        ("", only) | (only, "") => only.to_owned(),
        (name, text) if name == text => name.to_owned(),
        (name, text) => format!("{name}\n{text}"),
    };
    let labelled = [("class", class), ("description", description)];
    let states = labelled.iter().filter(|(_, value)| !value.trim().is_empty());
    Ok(Element {
        id: number.to_string(),
        role: tag.trim().to_owned(),
        text: parts,
        states: states.map(|(label, value)| format!("{label}={}", value.trim())).collect(),
        bbox: Some(bounds(record).ok_or_else(|| wrong("position or size is no number"))?),
    })
}

fn bounds(record: &str) -> Option<BBox> {
    let found = END.captures(record.rsplit('\n').next()?)?;
    let number = |i: usize| found.get(i)?.as_str().parse::<i32>().ok().map(f64::from);
    let (left, top, width, height) = (number(1)?, number(2)?, number(3)?, number(4)?);
    let sized = width >= 0.0 && height >= 0.0;
    sized.then_some(BBox { left, top, right: left + width, bottom: top + height, frame: FrameName::Pixels })
}

fn unquoted(text: &str) -> String {
    match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("menu\tFile\t\"\"\t\t\t(0, 19)", "record 0 has no position and size"),
            ("menu\tFile\t(0, 19)\t(39, 25)\n", "record 0: expected seven columns"),
            ("menu\tFile\t\"\"\t\t\t(0, 19)\t(-39, 25)\n", "record 0: position or size"),
            ("menu\tFile\t\"\"\t\t\t(0, 19)\t(99999999999, 25)\n", "record 0: position or size"),
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
