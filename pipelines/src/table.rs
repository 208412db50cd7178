//! Standard output: tables and summaries, and nothing else.

use std::fmt;
use std::io::Write;

use comfy_table::{ContentArrangement, LineStyle, TableStyle};
use serde_json::Number;

/// Columns of a table; long cells wrap. The same on every terminal and in a pipe.
const WIDTH: u16 = 120;

/// A table of text cells.
pub struct Table(comfy_table::Table);

impl Table {
    /// An empty table with these column names.
    pub fn new(header: &[&str]) -> Self {
        let mut table = comfy_table::Table::new();
        table
            .load_style(TableStyle::new().header_separator(LineStyle::none().fill('─')))
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH);
        table.set_header(header.iter().copied());
        Self(table)
    }

    /// Appends a row.
    pub fn row(&mut self, cells: &[&str]) {
        self.0.add_row(cells.iter().copied());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.0.lines() {
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Writes text to standard output. A closed pipe (`| head`) ends the program quietly.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{}", text.trim_end()).is_err() {
        std::process::exit(0);
    }
}

/// A number for a person: whole numbers with thin groups of three, others with three decimals.
pub fn number(n: &Number) -> String {
    match n.as_i64() {
        Some(whole) => grouped(whole),
        None => format!("{:.3}", n.as_f64().unwrap_or_default()),
    }
}

/// A whole number with thin groups of three.
pub fn grouped(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if n < 0 { format!("-{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(number(&Number::from(1_234_567)), "1,234,567");
        assert_eq!(number(&Number::from(-12)), "-12");
        assert_eq!(number(&Number::from_f64(0.5).expect("finite")), "0.500");
    }
}
