//! Rows of a CSV file, so that a faulty row costs no other row.

use crate::adapters::source::Fault;
use crate::trace::RejectKind;

/// A row and the line (from 1) on which it starts.
pub(super) struct Row<T> {
    pub(super) fields: T,
    pub(super) line: u64,
}

/// The rows after the header. A row is refused when it is not UTF-8 or has another number of
/// fields than the header.
///
/// A stray quote joins its line with the lines after it. A faulty row of several lines is
/// therefore refused up to its first line end only, and reading goes on at the next line.
pub(super) struct Rows {
    bytes: Vec<u8>,
    header: Vec<String>,
    /// Offset of the next row.
    at: usize,
    line: u64,
}

impl Rows {
    /// The rows of a file; a byte-order mark is skipped.
    ///
    /// # Errors
    /// An empty file, or a header that is not text.
    pub(super) fn new(bytes: Vec<u8>) -> Result<Self, Fault> {
        let at = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let mut rows = Self { bytes, header: Vec::new(), at, line: 1 };
        let empty = || Fault::new(RejectKind::Empty, "the file is empty: a header line is required");
        let (header, end) = rows.record().ok_or_else(empty)?;
        rows.header = rows.text(&header, end)?;
        rows.advance(end);
        Ok(rows)
    }

    /// The column names.
    pub(super) fn header(&self) -> &[String] {
        &self.header
    }

    /// The record at the current offset, blank lines skipped, and the offset of its end.
    fn record(&mut self) -> Option<(csv::ByteRecord, usize)> {
        let blank = self.bytes[self.at..].iter().take_while(|b| matches!(b, b'\n' | b'\r')).count();
        self.advance(self.at + blank);
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(1 << 12)
            .from_reader(&self.bytes[self.at..]);
        let mut record = csv::ByteRecord::new();
        // Reading bytes from memory, of any number of fields, has no way to fail.
        let found = reader.read_byte_record(&mut record).unwrap_or(false);
        let end = self.at + reader.position().byte() as usize;
        found.then_some((record, end))
    }

    /// Moves to `end`, counting the lines passed.
    fn advance(&mut self, end: usize) {
        self.line += count(&self.bytes[self.at..end], b'\n');
        self.at = end;
    }

    fn text(&self, record: &csv::ByteRecord, end: usize) -> Result<Vec<String>, Fault> {
        if let Err(e) = std::str::from_utf8(&self.bytes[self.at..end]) {
            let at = self.at + e.valid_up_to();
            let reason = format!("not UTF-8 at byte {at} of the file; convert the file to UTF-8");
            return Err(Fault::new(RejectKind::NotUtf8, reason));
        }
        Ok(record.iter().map(|f| String::from_utf8_lossy(f).into_owned()).collect())
    }

    fn checked(&self, record: &csv::ByteRecord, end: usize) -> Result<Vec<String>, Fault> {
        let fields = self.text(record, end)?;
        if end == self.bytes.len() && count(&self.bytes[self.at..end], b'"') % 2 == 1 {
            return Err(Fault::new(RejectKind::Malformed, "a quote is opened and never closed"));
        }
        if fields.len() == self.header.len() {
            return Ok(fields);
        }
        let cut_off = end == self.bytes.len() && !self.bytes.ends_with(b"\n");
        let hint = if cut_off { "; the file is cut off here" } else { "" };
        let reason =
            format!("row of {} fields, but the header has {}{hint}", fields.len(), self.header.len());
        Err(Fault::new(RejectKind::Malformed, reason))
    }
}

fn count(bytes: &[u8], wanted: u8) -> u64 {
    bytes.iter().map(|b| u64::from(*b == wanted)).sum()
}

impl Iterator for Rows {
    type Item = Row<Result<Vec<String>, Fault>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (record, end) = self.record()?;
        let line = self.line;
        let fields = self.checked(&record, end);
        let next_line = self.bytes[self.at..end].iter().position(|b| *b == b'\n').map(|n| self.at + n + 1);
        self.advance(if fields.is_err() { next_line.unwrap_or(end) } else { end });
        Some(Row { fields, line })
    }
}
