//! The text form of a forest: `name(type)(description)_id[children]` (paper, section 4.2; reading 4).
//!
//! Parentheses mark optional fields; an empty type before a description is `()`. Children are separated by commas,
//! those of a tree's root stand on lines of their own. `[+12]` in place of children, or as the last of them, says
//! that 12 nodes below are not shown. After the trees of a forest comes its entry map, one `reference -> root` a
//! line; lines that begin with `#` are headings.
//!
//! A backslash stands before `\`, `(`, `)`, `[`, `]`, `,` and `_` in a name, before `\`, `(` and `)` in a type or
//! description, and before a space, `#` or `+` that a name begins with. Line feed, carriage return and tab are
//! `\n`, `\r`, `\t`; other control characters, separators of lines and marks that turn the direction of writing are
//! `\u{…}` with their number in hexadecimal digits, so that no terminal obeys them. So text comes back as it was.

use std::fmt::Write;

use super::forest::Forest;

/// What is written of a control beside its id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: String,
    /// Its type.
    pub control_type: String,
    /// Its description, already cut to length; empty for none.
    pub description: String,
}

/// Which nodes are written.
pub trait Selection {
    /// Whether a node is written; if not, nothing below it is.
    fn shows(&self, id: u32) -> bool;
}

/// Every node.
#[derive(Debug, Clone, Copy)]
pub struct Everything;

impl Selection for Everything {
    fn shows(&self, _: u32) -> bool {
        true
    }
}

fn write_escaped(out: &mut String, text: &str, special: &str) {
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_invisible(c) => {
                write!(out, "\\u{{{:x}}}", u32::from(c)).expect("a string takes everything");
            }
            c => {
                if special.contains(c) {
                    out.push('\\');
                }
                out.push(c);
            }
        }
    }
}

/// Characters that do something instead of being seen. Joiners and selectors belong to what is seen and stay.
fn is_invisible(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn write_node(out: &mut String, label: &Label, id: u32) {
    if label.name.starts_with([' ', '#', '+']) {
        out.push('\\');
    }
    write_escaped(out, &label.name, "\\()[],_");
    if !label.control_type.is_empty() || !label.description.is_empty() {
        out.push('(');
        write_escaped(out, &label.control_type, "\\()");
        out.push(')');
    }
    if !label.description.is_empty() {
        out.push('(');
        write_escaped(out, &label.description, "\\()");
        out.push(')');
    }
    write!(out, "_{id}").expect("a string takes everything");
}

/// Writes the tree below `root`, without a line end. `label` describes a node.
pub fn write_tree<'a>(
    out: &mut String,
    forest: &Forest,
    root: u32,
    label: impl Fn(u32) -> &'a Label,
    selection: &dyn Selection,
) {
    // A node to write, or what closes one.
    enum Part {
        Node { id: u32, separator: &'static str },
        Close { hidden: u32, any: bool, line: bool },
    }
    let mut stack = vec![Part::Node { id: root, separator: "" }];
    while let Some(part) = stack.pop() {
        match part {
            Part::Node { id, separator } => {
                out.push_str(separator);
                write_node(out, label(id), id);
                let (mut shown, mut hidden) = (Vec::new(), 0);
                for child in forest.children(id) {
                    if selection.shows(child) {
                        shown.push(child);
                    } else {
                        hidden += forest.nodes[child as usize].end - child;
                    }
                }
                if shown.is_empty() && hidden == 0 {
                    continue;
                }
                let line = id == root && !shown.is_empty();
                out.push_str(if line { "[\n" } else { "[" });
                stack.push(Part::Close { hidden, any: !shown.is_empty(), line });
                for (i, &child) in shown.iter().enumerate().rev() {
                    let separator = match (i, line) {
                        (0, _) => "",
                        (_, true) => ",\n",
                        (_, false) => ",",
                    };
                    stack.push(Part::Node { id: child, separator });
                }
            }
            Part::Close { hidden, any, line } => {
                if hidden > 0 {
                    let separator = if any { "," } else { "" };
                    write!(out, "{separator}+{hidden}").expect("a string takes everything");
                }
                out.push_str(if line { "\n]" } else { "]" });
            }
        }
    }
}

/// Writes trees and the entry map of the references in them: the main tree, shared subtrees, entries, each with a
/// heading. `roots` names the trees.
pub fn write_trees<'a>(
    forest: &Forest,
    roots: &[u32],
    label: impl Fn(u32) -> &'a Label + Copy,
    selection: &dyn Selection,
) -> String {
    let mut out = String::new();
    let mut heading = "";
    for &root in roots {
        let new = match forest.nodes[root as usize].parent {
            None if root == 0 => "# main tree\n",
            None => "# shared subtrees\n",
            Some(_) => "# branches\n",
        };
        if new != heading {
            out.push_str(new);
            heading = new;
        }
        write_tree(&mut out, forest, root, label, selection);
        out.push('\n');
    }
    let mut first = true;
    for &root in roots {
        let mut id = root;
        let end = forest.nodes[root as usize].end;
        while id < end {
            let node = &forest.nodes[id as usize];
            if id != root && !selection.shows(id) {
                id = node.end;
                continue;
            }
            if let Some(target) = node.target {
                if first {
                    out.push_str("# entries: reference -> root of the shared subtree\n");
                    first = false;
                }
                writeln!(out, "{id} -> {target}").expect("a string takes everything");
            }
            id += 1;
        }
    }
    out
}

/// A node as it was read from text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedNode {
    /// Name, type and description.
    pub label: Label,
    /// Its id.
    pub id: u32,
    /// Position of its parent among the nodes read; nothing for a root.
    pub parent: Option<usize>,
    /// Nodes below it that the text does not show.
    pub hidden: u32,
}

/// A text form, read: nodes in the order of the text, and the entry map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The nodes of all trees.
    pub nodes: Vec<ParsedNode>,
    /// References and the roots they lead to.
    pub entries: Vec<(u32, u32)>,
}

/// Text that is no forest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct TextError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub reason: String,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn takes(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    fn skip_lines(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches(['\n', '\r']).len();
    }

    fn error(&self, reason: impl Into<String>) -> TextError {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        TextError { line, column, reason: reason.into() }
    }

    /// Text up to one of `ends`, unescaped.
    fn field(&mut self, ends: &[char], what: &str) -> Result<String, TextError> {
        let mut out = String::new();
        loop {
            match self.peek() {
                Some('\\') => {
                    self.at += 1;
                    let Some(c) = self.peek() else { return Err(self.error("a backslash ends the text")) };
                    self.at += c.len_utf8();
                    out.push(match c {
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        'u' => self.code_point()?,
                        c => c,
                    });
                }
                Some(c) if ends.contains(&c) => return Ok(out),
                Some(c @ ('[' | ']' | ',' | ')')) if !ends.contains(&')') => {
                    return Err(self.error(format!("`{c}` in {what}: expected `(type)` or `_id` before it")));
                }
                Some('\n' | '\r') | None => return Err(self.error(format!("{what} is cut off"))),
                Some(c) => {
                    out.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
    }

    /// `{1b}` after `\u`.
    fn code_point(&mut self) -> Result<char, TextError> {
        let digits =
            self.rest().strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(digits, _)| digits);
        let c = digits.and_then(|digits| char::from_u32(u32::from_str_radix(digits, 16).ok()?));
        let c = c.ok_or_else(|| self.error("expected the number of a character after `\\u`: `{1b}`"))?;
        self.at += digits.map_or(0, str::len) + 2;
        Ok(c)
    }

    fn number(&mut self, what: &str) -> Result<u32, TextError> {
        let digits = self.rest().len() - self.rest().trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number = self.rest()[..digits].parse();
        let number = number.map_err(|_| self.error(format!("expected {what}: a whole number")))?;
        self.at += digits;
        Ok(number)
    }

    fn node(&mut self, parent: Option<usize>) -> Result<ParsedNode, TextError> {
        let name = self.field(&['(', '_'], "a name")?;
        let mut fields = [String::new(), String::new()];
        for (i, field) in fields.iter_mut().enumerate() {
            if !self.takes('(') {
                break;
            }
            *field = self.field(&[')'], if i == 0 { "a type" } else { "a description" })?;
            self.at += 1;
        }
        if !self.takes('_') {
            return Err(self.error("expected `_` and the id"));
        }
        let id = self.number("an id")?;
        let [control_type, description] = fields;
        Ok(ParsedNode { label: Label { name, control_type, description }, id, parent, hidden: 0 })
    }

    /// `+12`, where the text says that nodes are not shown.
    fn hidden(&mut self) -> Result<Option<u32>, TextError> {
        if self.takes('+') { self.number("the number of nodes not shown").map(Some) } else { Ok(None) }
    }

    /// A tree, appended to `nodes`. Open nodes lie on a vector: depth costs memory and nothing else.
    fn tree(&mut self, nodes: &mut Vec<ParsedNode>) -> Result<(), TextError> {
        let mut open: Vec<usize> = Vec::new();
        loop {
            nodes.push(self.node(open.last().copied())?);
            if self.takes('[') {
                open.push(nodes.len() - 1);
                self.skip_lines();
                match self.hidden()? {
                    Some(hidden) => nodes[open[open.len() - 1]].hidden = hidden,
                    None => continue,
                }
            }
            loop {
                self.skip_lines_in(&open);
                let Some(&parent) = open.last() else { return Ok(()) };
                if self.takes(']') {
                    open.pop();
                } else if self.takes(',') {
                    self.skip_lines();
                    match self.hidden()? {
                        Some(hidden) => nodes[parent].hidden = hidden,
                        None => break,
                    }
                } else {
                    return Err(self.error("expected `,` and another child, or `]`"));
                }
            }
        }
    }

    /// Line ends before a `]`; after the last one they end the tree.
    fn skip_lines_in(&mut self, open: &[usize]) {
        if !open.is_empty() {
            self.skip_lines();
        }
    }
}

/// Reads the text form back.
///
/// # Errors
/// Names line and column.
pub fn parse(text: &str) -> Result<Parsed, TextError> {
    let mut reader = Reader { text, at: 0 };
    let mut parsed = Parsed::default();
    loop {
        reader.skip_lines();
        let line = reader.rest().lines().next().unwrap_or_default();
        if reader.rest().is_empty() {
            return Ok(parsed);
        }
        if line.starts_with('#') {
            reader.at += line.len();
        } else if let Some((reference, root)) = entry(line) {
            parsed.entries.push((reference, root));
            reader.at += line.len();
        } else {
            reader.tree(&mut parsed.nodes)?;
            if !reader.rest().is_empty() && !reader.rest().starts_with(['\n', '\r']) {
                return Err(reader.error("expected the end of the line after a tree"));
            }
        }
    }
}

fn entry(line: &str) -> Option<(u32, u32)> {
    let (reference, root) = line.split_once(" -> ")?;
    Some((reference.parse().ok()?, root.parse().ok()?))
}
