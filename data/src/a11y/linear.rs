//! `OSWorld`'s linear form of an accessibility tree: a header, then one element after another.
//!
//! ```text
//! tag    name    text    class    description    position (top-left x&y)    size (w&h)
//! menu   File    ""                              (0, 19)                    (39, 25)
//! ```
//!
//! Fields are divided by tabs. Line ends inside a name or a text are not escaped: a record goes on until it ends in a
//! position and a size. Text stands in quotes, doubled inside, where it holds a quote, and as `""` where it is empty. A tree
//! that was cut to a length ends in `[...]`; the record cut in two before it is no element. Some files begin with
//! `LINEAR AT: `.

use std::borrow::Cow;

use super::tree::{MOST_ELEMENTS, Node, Rect, Tree, TreeError, shown};

/// The first line.
pub const HEADER: &str = "tag\tname\ttext\tclass\tdescription\tposition (top-left x&y)\tsize (w&h)";
/// What a tree that was cut to a length ends in.
const CUT: &str = "[...]";
/// What stands before the header in some files.
const PREFIX: &str = "LINEAR AT: ";

/// Whether `text` begins as a linear tree does.
pub fn is_linear(text: &str) -> bool {
    headed(text).is_some()
}

/// What follows the header.
fn headed(text: &str) -> Option<&str> {
    let text = text.trim_start_matches('\u{feff}');
    let text = text.strip_prefix(PREFIX).unwrap_or(text);
    let (header, records) = text.split_once('\n').unwrap_or((text, ""));
    (header.trim_end_matches('\r') == HEADER).then_some(records)
}

/// Reads a linear tree. An element's id is its record's number, from 0.
///
/// # Errors
/// Another header, a record that is not finished or whose size is negative; each by its record.
pub fn read(text: &str) -> Result<Tree, TreeError> {
    let Some(records) = headed(text) else {
        let reason =
            format!("expected the header of a linear tree (`tag`, `name`, …), found {}", shown(text));
        return Err(TreeError::new("line 1", reason));
    };
    let mut tree = Tree::default();
    let (mut start, mut at) = (0, 0);
    for line in records.split_inclusive('\n') {
        let line_start = at;
        at += line.len();
        let line = line.trim_end_matches(['\n', '\r']);
        let Some((before, rect)) = ending(line) else { continue };
        let number = tree.nodes.len();
        let end = line_start + before.len();
        tree.nodes.push(node(number, records.get(start..end).unwrap_or_default(), rect)?);
        start = at;
        if number >= MOST_ELEMENTS {
            let reason = format!("more than {MOST_ELEMENTS} elements: this is no screen");
            return Err(TreeError::new(format!("record {number}"), reason));
        }
    }
    let rest = records.get(start..).unwrap_or_default().trim_end();
    if rest.is_empty() || rest.ends_with(CUT) {
        return Ok(tree);
    }
    let reason = format!("no position and size; the file is cut off at {}", shown(rest));
    Err(TreeError::new(format!("record {}", tree.nodes.len()), reason))
}

/// What stands before the position and size that a line ends in.
fn ending(line: &str) -> Option<(&str, Rect)> {
    let (rest, (width, height)) = pair_at_end(line)?;
    let (before, (x, y)) = pair_at_end(rest)?;
    Some((before, Rect { x, y, width, height }))
}

/// `…\t(1, -2)` into what stands before the tab and the numbers.
fn pair_at_end(text: &str) -> Option<(&str, (i32, i32))> {
    let inner = text.strip_suffix(')')?;
    let (before, pair) = inner.rsplit_once("\t(")?;
    let (a, b) = pair.split_once(", ")?;
    Some((before, (whole(a)?, whole(b)?)))
}

/// A number as the form writes it: a minus sign and digits; one too large for a screen becomes the largest.
fn whole(text: &str) -> Option<i32> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(i32::MAX))
}

fn node(number: usize, record: &str, rect: Rect) -> Result<Node, TreeError> {
    let wrong =
        |what: &str| TreeError::new(format!("record {number}"), format!("{what}, found {}", shown(record)));
    if rect.width < 0 || rect.height < 0 {
        return Err(wrong("its size is negative"));
    }
    if [rect.x, rect.y, rect.width, rect.height].contains(&i32::MAX) {
        return Err(wrong("its position or size is out of range"));
    }
    let columns = || wrong("expected seven columns");
    let (role, rest) = record.split_once('\t').ok_or_else(columns)?;
    let (name, rest) = rest.split_once('\t').ok_or_else(columns)?;
    // A tab inside a text is not escaped either: what stands between name and class is the text.
    let (rest, description) = rest.rsplit_once('\t').ok_or_else(columns)?;
    let (text, class) = rest.rsplit_once('\t').ok_or_else(columns)?;
    Ok(Node {
        id: number.to_string(),
        role: role.trim().to_owned(),
        name: name.to_owned(),
        text: unquoted(text),
        class: class.to_owned(),
        description: description.to_owned(),
        rect: Some(rect),
        ..Node::default()
    })
}

/// Writes the linear form; what [`read`] returns is written as it stood.
pub fn write(nodes: &[Node]) -> String {
    let mut out = String::with_capacity(80 * (nodes.len() + 1));
    out += HEADER;
    for node in nodes {
        let Rect { x, y, width, height } = node.rect.unwrap_or(Rect { x: 0, y: 0, width: 0, height: 0 });
        let Node { role, name, text, class, description, .. } = node;
        let text = match text.as_str() {
            "" => Cow::Borrowed("\"\""),
            text if text.contains('"') => Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))),
            text => Cow::Borrowed(text),
        };
        out += &format!("\n{role}\t{name}\t{text}\t{class}\t{description}\t({x}, {y})\t({width}, {height})");
    }
    out
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
        let parts: Vec<_> =
            found.iter().map(|n| (n.role.as_str(), n.name.as_str(), n.text.as_str())).collect();
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

    #[test]
    fn a_cut_tree_ends_there_and_a_broken_one_is_named() {
        assert_eq!(
            read_records("menu\tFile\t\"\"\t\t\t(0, 19)\t(39, 25)\nmenu\tEd[...]\n").unwrap().len(),
            1
        );
        assert_eq!(read(HEADER).unwrap().nodes, []);
        assert_eq!(read(&format!("LINEAR AT: {HEADER}\r\n")).unwrap().nodes, []);
        for (records, part) in [
            ("menu\tFile", "record 0: no position and size"),
            ("menu\tFile\t(0, 19)\t(39, 25)", "record 0: expected seven columns"),
            (
                "menu\tFile\t\"\"\t\t\t(0, 19)\t(99999999999, 25)\n",
                "record 0: its position or size is out of range",
            ),
            (
                "m\t\t\"\"\t\t\t(0, 0)\t(1, 1)\nm\ta\t\"\"\t\t\t(0, 19)\t(39, -25)\n",
                "record 1: its size is negative",
            ),
        ] {
            let error = read_records(records).unwrap_err().to_string();
            assert!(error.starts_with(part), "{error}");
        }
        assert!(read("tag\tname\n").unwrap_err().to_string().starts_with("line 1: expected the header"));
    }
}
