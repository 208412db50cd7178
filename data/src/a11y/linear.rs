//! `OSWorld`'s linear form of an accessibility tree: a header, then one element after another.
//!
//! ```text
//! tag    name    text    class    description    position (top-left x&y)    size (w&h)
//! menu   File    ""                              (0, 19)                    (39, 25)
//! ```
//!
//! Fields are divided by tabs. Line ends inside a name or a text are not escaped: a record goes on until it ends in a
//! position and a size. Text stands in quotes, doubled inside, where it holds a quote, and as `""` where it is empty. A tree
//! that was cut to a length ends in `[...]`; the record cut in two before it is no element, and is left out by that name. Some
//! files begin with `LINEAR AT: `.
//!
//! Two other headers are read as well: one of five columns, without class and description, and that of Spider2-V, where the
//! text comes last and is written as Python writes a string. A record that cannot be read is a reject; the others stand.

use std::borrow::Cow;

use super::tree::{CUT_OFF, MOST_ELEMENTS, MOST_REJECTS, Node, Rect, Tree, TreeError, shown};

/// The first line.
pub const HEADER: &str = "tag\tname\ttext\tclass\tdescription\tposition (top-left x&y)\tsize (w&h)";
/// What a tree that was cut to a length ends in.
const CUT: &str = "[...]";
/// What stands before the header in some files.
const PREFIX: &str = "LINEAR AT:";
/// Bytes that no header has.
const LONG_HEADER: usize = 200;

/// Whether `text` begins as a linear tree does.
pub fn is_linear(text: &str) -> bool {
    headed(text).is_some()
}

/// The columns of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Columns {
    /// Tag, name, text, class, description, position, size.
    Seven,
    /// Without class and description.
    Five,
    /// Tag, name, position, size, text; before them a number where `indexed`.
    Spider { indexed: bool },
}

impl Columns {
    fn of(header: &str) -> Option<Self> {
        if header.len() > LONG_HEADER {
            return None;
        }
        // What stands in brackets is written in several ways: `x&y`, `x,y`, `x & y`.
        let plain = |column: &str| column.split('(').next().unwrap_or_default().trim().to_lowercase();
        let columns: Vec<String> = header.trim_end_matches('\r').split('\t').map(plain).collect();
        match columns.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["tag", "name", "text", "class", "description", "position", "size"] => Some(Self::Seven),
            ["tag", "name", "text", "position", "size"] => Some(Self::Five),
            ["tag", "name", "position", "size", "text"] => Some(Self::Spider { indexed: false }),
            ["index", "tag", "name", "position", "size", "text"] => Some(Self::Spider { indexed: true }),
            _ => None,
        }
    }

    fn count(self) -> usize {
        match self {
            Self::Seven => 7,
            Self::Five | Self::Spider { indexed: false } => 5,
            Self::Spider { indexed: true } => 6,
        }
    }
}

/// The columns, and what follows the header.
fn headed(text: &str) -> Option<(Columns, &str)> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let text = text.strip_prefix(PREFIX).map_or(text, str::trim_start);
    let (header, records) = text.split_once('\n').unwrap_or((text, ""));
    Some((Columns::of(header)?, records))
}

/// Reads a linear tree. An element's id is its record's number, from 0, or its index where the file has one.
///
/// Records that cannot be read are rejects of the tree, by their numbers.
///
/// # Errors
/// Another header, and a file without one record that can be read.
pub fn read(text: &str) -> Result<Tree, TreeError> {
    let Some((columns, records)) = headed(text) else {
        let reason =
            format!("expected the header of a linear tree (`tag`, `name`, …), found {}", shown(text));
        return Err(TreeError::new("line 1", reason));
    };
    let (records, cut) = match records.trim_end().strip_suffix(CUT) {
        Some(before) => (before, true),
        None => (records, false),
    };
    let mut tree = Tree { cut, ..Tree::default() };
    let (mut start, mut at) = (0, 0);
    for line in records.split_inclusive('\n') {
        let (line_start, number) = (at, tree.nodes.len() + tree.rejects.len());
        at += line.len();
        let line = line.trim_end_matches(['\n', '\r']);
        let Some(ended) = ending(columns, line).or_else(|| unplaced(columns, line, line_start == start))
        else {
            continue;
        };
        let record = records.get(start..line_start + ended.before.len()).unwrap_or_default();
        start = at;
        match node(columns, number, record, ended) {
            Ok(node) => tree.nodes.push(node),
            Err(reason) => tree.reject(format!("record {number}"), reason),
        }
        if number >= MOST_ELEMENTS || tree.rejects.len() > MOST_REJECTS {
            let reason = format!("more than {MOST_ELEMENTS} elements or {MOST_REJECTS} rejects: no screen");
            return Err(TreeError::new(format!("record {number}"), reason));
        }
    }
    let rest = records.get(start..).unwrap_or_default().trim_end();
    let number = tree.nodes.len() + tree.rejects.len();
    if cut && !rest.is_empty() {
        tree.leave_out(Node { id: number.to_string(), text: rest.to_owned(), ..Node::default() }, CUT_OFF);
    } else if !rest.is_empty() {
        let reason = format!("no position and size; the file is cut off at {}", shown(rest));
        tree.reject(format!("record {number}"), reason);
    }
    tree.or_reject()
}

/// The end of a record.
struct Ended<'t> {
    /// What stands before it in its line.
    before: &'t str,
    /// Position and size; none where they cannot be read.
    rect: Option<Rect>,
    /// The text, where it comes last.
    text: Option<&'t str>,
}

/// What a line ends in, where a record does.
fn ending(columns: Columns, line: &str) -> Option<Ended<'_>> {
    let (line, text) = match columns {
        Columns::Spider { .. } => {
            let (line, text) = line.rsplit_once('\t')?;
            let quoted =
                ["'", "\""].iter().any(|q| text.len() > 1 && text.starts_with(q) && text.ends_with(q));
            (line, Some(text).filter(|_| quoted))
        }
        _ => (line, None),
    };
    if matches!(columns, Columns::Spider { .. }) && text.is_none() {
        return None;
    }
    let (rest, size) = pair_at_end(line)?;
    let (before, corner) = pair_at_end(rest)?;
    let rect = corner.zip(size).map(|((x, y), (width, height))| Rect { x, y, width, height });
    Some(Ended { before, rect, text })
}

/// A line that is a whole record, but that its position or size is empty or no pair of numbers: taken for the beginning of
/// a text it would swallow the next record.
fn unplaced(columns: Columns, line: &str, begins: bool) -> Option<Ended<'_>> {
    if !begins || columns.count() != line.split('\t').count() || matches!(columns, Columns::Spider { .. }) {
        return None;
    }
    let (rest, size) = line.rsplit_once('\t')?;
    let (before, corner) = rest.rsplit_once('\t')?;
    let is_place = |part: &str| part.is_empty() || part.starts_with('(') && part.ends_with(')');
    (is_place(size) && is_place(corner)).then_some(Ended { before, rect: None, text: None })
}

/// What [`pair_at_end`] finds: what stands before the pair, and the pair where it can be read.
type AtEnd<'t> = (&'t str, Option<(i32, i32)>);

/// `…\t(1, -2)` into what stands before the tab and the numbers. A pair of what is meant as numbers, `(1.5, 2.0)`, cannot
/// be read; anything else in brackets is text.
fn pair_at_end(text: &str) -> Option<AtEnd<'_>> {
    let inner = text.strip_suffix(')')?;
    let (before, pair) = inner.rsplit_once("\t(")?;
    let (a, b) = pair.split_once(',')?;
    let is_numeric =
        |part: &str| part.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | ' ' | 'e'));
    if let Some(b) = b.strip_prefix(' ')
        && let Some(pair) = whole(a).zip(whole(b))
    {
        return Some((before, Some(pair)));
    }
    (is_numeric(a) && is_numeric(b)).then_some((before, None))
}

/// A number as the form writes it: a minus sign and digits; one too large for a screen becomes the largest.
fn whole(text: &str) -> Option<i32> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(i32::MAX))
}

fn node(columns: Columns, number: usize, record: &str, ended: Ended<'_>) -> Result<Node, String> {
    let wrong = |what: &str| format!("{what}, found {}", shown(record));
    let rect = ended.rect.ok_or_else(|| wrong("its position or size cannot be read"))?;
    if rect.width < 0 || rect.height < 0 {
        return Err(wrong("its size is negative"));
    }
    if [rect.x, rect.y, rect.width, rect.height].contains(&i32::MAX) {
        return Err(wrong("its position or size is out of range"));
    }
    let too_few =
        || wrong(["expected five columns", "expected seven columns"][usize::from(columns.count() == 7)]);
    let (first, rest) = record.split_once('\t').ok_or_else(too_few)?;
    let mut node = Node { id: number.to_string(), rect: Some(rect), ..Node::default() };
    first.trim().clone_into(&mut node.role);
    let rest = match columns {
        Columns::Seven => {
            let (rest, description) = rest.rsplit_once('\t').ok_or_else(too_few)?;
            let (rest, class) = rest.rsplit_once('\t').ok_or_else(too_few)?;
            (node.class, node.description) = (class.to_owned(), description.to_owned());
            rest
        }
        Columns::Five => rest,
        Columns::Spider { indexed } => {
            let mut name = rest;
            if indexed {
                first.trim().clone_into(&mut node.id);
                let (role, rest) = rest.split_once('\t').ok_or_else(too_few)?;
                role.trim().clone_into(&mut node.role);
                name = rest;
            }
            name.clone_into(&mut node.name);
            node.text = python_string(ended.text.unwrap_or_default());
            return Ok(node);
        }
    };
    let (name, text) = name_and_text(rest).ok_or_else(too_few)?;
    (node.name, node.text) = (name.to_owned(), unquoted(text));
    Ok(node)
}

/// Tabs that a name is looked through for.
const TABS: usize = 16;

/// Name and text. A tab inside either is not escaped: the name ends where what follows is a text as the form writes it, the
/// first time, unless name and text are the same.
fn name_and_text(columns: &str) -> Option<(&str, &str)> {
    let first = columns.split_once('\t')?;
    let middle = columns.len() / 2;
    if let (Some(name), Some(text)) = (columns.get(..middle), columns.get(middle + 1..))
        && name == text
        && columns.as_bytes()[middle] == b'\t'
    {
        return Some((name, text));
    }
    let splits = columns.match_indices('\t').take(TABS).map(|(at, _)| (&columns[..at], &columns[at + 1..]));
    Some({ splits }.find(|(_, text)| is_written(text)).unwrap_or(first))
}

/// Whether a text stands as the form writes one.
fn is_written(text: &str) -> bool {
    match text.strip_prefix('"').map(|rest| rest.strip_suffix('"')) {
        Some(Some(inner)) => !inner.replace("\"\"", "").contains('"'),
        Some(None) => false,
        None => !text.contains('"'),
    }
}

/// Writes the linear form; what [`read`] returns is written as it stood.
pub fn write<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> String {
    let nodes = nodes.into_iter();
    let mut out = String::with_capacity(80 * (nodes.size_hint().0 + 1));
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

/// What a string in Python's own spelling says: `'it\'s\n'`. What is no escape there stays as it stands.
fn python_string(written: &str) -> String {
    let inner = written.get(1..written.len().saturating_sub(1)).unwrap_or_default();
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((before, after)) = rest.split_once('\\') {
        out += before;
        let mut chars = after.chars();
        let kind = chars.next().unwrap_or('\\');
        let digits = match kind {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        let code = after.get(1..=digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        match (kind, code.filter(|_| digits > 0).and_then(char::from_u32)) {
            (_, Some(c)) => {
                out.push(c);
                rest = &after[1 + digits..];
                continue;
            }
            ('n', _) => out.push('\n'),
            ('r', _) => out.push('\r'),
            ('t', _) => out.push('\t'),
            ('\\' | '\'' | '"', _) => out.push(kind),
            (other, _) => out.extend(['\\', other]),
        }
        rest = chars.as_str();
    }
    out + rest
}

#[cfg(test)]
#[path = "linear_tests.rs"]
mod tests;
