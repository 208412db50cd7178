//! A spreadsheet as a table (D.4): the cells that hold something, row by row, under their columns.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::item::{Item, on_one_line};
use super::reduce::Keywords;

/// Column and row of a cell, from 1.
type Address = (u32, u32);

/// The address that a cell is called by: `B12`.
pub(super) fn address(label: &str) -> Option<Address> {
    let letters = label.bytes().take_while(u8::is_ascii_uppercase).count();
    let (column, row) = label.split_at(letters);
    let digits = !row.is_empty() && row.len() <= 7 && row.bytes().all(|b| b.is_ascii_digit());
    if !(1..=3).contains(&letters) || !digits || row.starts_with('0') {
        return None;
    }
    let column = column.bytes().fold(0, |sum, b| sum * 26 + u32::from(b - b'A') + 1);
    Some((column, row.parse().ok()?))
}

fn column_name(mut column: u32) -> String {
    let mut letters = Vec::new();
    while column > 0 {
        letters.push(b'A' + ((column - 1) % 26) as u8);
        column = (column - 1) / 26;
    }
    letters.iter().rev().map(|b| *b as char).collect()
}

/// The cells of a sheet.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    cells: BTreeMap<Address, usize>,
}

impl Sheet {
    /// The cells among `members`; the first of two with one address.
    pub fn of(items: &[Item<'_>], members: &[usize]) -> Self {
        let mut cells = BTreeMap::new();
        for index in members {
            let item = &items[*index];
            let address = address(&item.label).filter(|_| item.role == "table-cell" && item.centre.is_some());
            if let Some((column, row)) = address {
                cells.entry((row, column)).or_insert(*index);
            }
        }
        Self { cells }
    }

    /// The elements that the table takes the place of, each with its rule.
    pub fn members<'a>(
        &'a self,
        items: &'a [Item<'_>],
        keywords: &'a Keywords,
    ) -> impl Iterator<Item = (usize, &'static str)> + 'a {
        self.cells.values().map(move |index| {
            let item = &items[*index];
            let rule = match (content(item).is_empty(), keywords.has(&item.low)) {
                (false, _) => "cell-with-value",
                (true, true) => "cell-of-instruction",
                (true, false) => "cell-empty",
            };
            (*index, rule)
        })
    }

    /// The table. Every column says where it is, and every row: so that empty cells can be found too.
    pub fn write(&self, items: &[Item<'_>], keywords: &Keywords, out: &mut String) {
        let place = |index: &usize| items[*index].node.centre();
        let mut columns: BTreeMap<u32, i32> = BTreeMap::new();
        let mut rows: BTreeMap<u32, (i32, Vec<(u32, usize)>)> = BTreeMap::new();
        for ((row, column), index) in &self.cells {
            columns.entry(*column).or_insert(place(index).0);
            rows.entry(*row).or_insert((place(index).1, Vec::new())).1.push((*column, *index));
        }
        let heads: Vec<String> = columns.iter().map(|(c, x)| format!("{} {x}", column_name(*c))).collect();
        *out += &format!("columns (x): {}\n", heads.join(", "));
        let first = columns.keys().next().copied().unwrap_or(1);
        let mut empty: Option<(u32, i32, u32, i32)> = None;
        for (row, (y, cells)) in &rows {
            let shown: BTreeSet<u32> = { cells.iter() }
                .filter(|(_, i)| !content(&items[*i]).is_empty() || keywords.has(&items[*i].low))
                .map(|(column, _)| *column)
                .collect();
            let (Some(from), Some(to)) = (shown.first(), shown.last()) else {
                empty = match empty {
                    Some((start, start_y, end, _)) if end + 1 == *row => Some((start, start_y, *row, *y)),
                    other => {
                        write_empty(other, out);
                        Some((*row, *y, *row, *y))
                    }
                };
                continue;
            };
            write_empty(empty.take(), out);
            let mut row_text = format!("row {row} (y {y}): ");
            if *from != first {
                row_text += &format!("{}: ", column_name(*from));
            }
            let values: BTreeMap<u32, Cow<'_, str>> =
                cells.iter().map(|(c, i)| (*c, cell_text(&items[*i]))).collect();
            // The columns that the heading names, and no other: hidden ones are not counted.
            let parts: Vec<&str> =
                columns.range(*from..=*to).map(|(c, _)| values.get(c).map_or("", |text| text)).collect();
            row_text += &parts.join(" | ");
            *out += row_text.trim_end();
            out.push('\n');
        }
        write_empty(empty, out);
    }
}

/// What a cell holds; it is called by its address.
fn content<'i>(item: &'i Item<'_>) -> Cow<'i, str> {
    on_one_line(&item.node.text)
}

/// What a cell holds, as a part of a row: a sign that parts cells is marked.
fn cell_text<'i>(item: &'i Item<'_>) -> Cow<'i, str> {
    let text = content(item);
    if text.contains('|') { Cow::Owned(text.replace('|', "\\|")) } else { text }
}

fn write_empty(run: Option<(u32, i32, u32, i32)>, out: &mut String) {
    match run {
        None => {}
        Some((start, y, end, _)) if start == end => *out += &format!("row {start} (y {y}): empty\n"),
        Some((start, from, end, to)) => *out += &format!("rows {start}-{end} (y {from} to {to}): empty\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::Vocabulary;
    use super::super::rules::Rules;
    use super::super::tree::{Node, Rect, Tree};
    use super::*;

    #[test]
    fn addresses_are_letters_and_a_number() {
        for (text, found) in [
            ("A1", Some((1, 1))),
            ("Z9", Some((26, 9))),
            ("AA10", Some((27, 10))),
            ("XFD1048576", Some((16384, 1_048_576))),
            ("a1", None),
            ("A", None),
            ("A0", None),
            ("A01", None),
            ("ABCD1", None),
            ("1", None),
            ("A1 ", None),
            ("A99999999", None),
        ] {
            assert_eq!(address(text), found, "{text}");
            if let Some((column, row)) = found {
                assert_eq!(format!("{}{row}", column_name(column)), text);
            }
        }
    }

    #[test]
    fn a_table_holds_what_is_in_the_cells_and_where_the_empty_ones_are() {
        let cell = |column: i32, row: i32, text: &str| Node {
            role: "table-cell".into(),
            name: format!("{}{row}", column_name(column as u32)),
            text: text.into(),
            rect: Some(Rect { x: 100 * column, y: 20 * row, width: 10, height: 10 }),
            ..Node::default()
        };
        let texts = [(1, 1, "Site"), (2, 1, "kWh"), (3, 1, ""), (1, 2, ""), (2, 2, "a|b\nc"), (3, 2, "x")];
        let mut nodes: Vec<Node> = texts.iter().map(|(c, r, t)| cell(*c, *r, t)).collect();
        nodes.extend((3..=6).flat_map(|r| (1..=3).map(move |c| cell(c, r, ""))));
        let tree = Tree { nodes, ..Tree::default() };
        let rules = Rules::builtin().general;
        let vocabulary = Vocabulary::new(&rules.roles);
        let items = vocabulary.items(&tree);
        let members: Vec<usize> = (0..items.len()).collect();
        let sheet = Sheet::of(&items, &members);
        let mut out = String::new();
        sheet.write(&items, &Keywords::of("Put 5 into C5", &rules.reduce), &mut out);
        assert_eq!(
            out,
            "columns (x): A 105, B 205, C 305\n\
             row 1 (y 25): Site | kWh\n\
             row 2 (y 45): B: a\\|b c | x\n\
             rows 3-4 (y 65 to 85): empty\n\
             row 5 (y 105): C:\n\
             row 6 (y 125): empty\n"
        );
        assert_eq!(sheet.members(&items, &Keywords::default()).count(), 18);
    }
}
