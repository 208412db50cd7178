//! Reading files of many records: JSON lines in byte ranges, JSON arrays element by element.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::de::StrRead;

use super::json::Unique;
use super::source::{Fault, Item, malformed, not_utf8};
use crate::trace::RejectKind;

/// Size of a range that [`line_items`] aims at: large enough that opening the file costs nothing
/// beside reading it, small enough that a worker holds little.
pub const CHUNK_BYTES: u64 = 8 << 20;

/// The lines of `path` as items of about `chunk_bytes` bytes each, cut between lines.
///
/// A file that cannot be read becomes one item, so that reading it gives the reject.
pub fn line_items(path: &Path, chunk_bytes: u64) -> Vec<Item> {
    split_lines(path, chunk_bytes).unwrap_or_else(|_| vec![Item::whole(path.to_owned())])
}

fn split_lines(path: &Path, chunk_bytes: u64) -> std::io::Result<Vec<Item>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    if length <= chunk_bytes {
        return Ok(vec![Item::whole(path.to_owned())]);
    }
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut items = Vec::new();
    let (mut start, mut first_line) = (0, 1);
    let (mut offset, mut line) = (0, 1);
    loop {
        let buffer = reader.fill_buf()?;
        let read = buffer.len();
        for (i, _) in buffer.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            line += 1;
            let end = offset + i as u64 + 1;
            if end - start >= chunk_bytes {
                items.push(Item { path: path.to_owned(), bytes: Some(start..end), first_line });
                (start, first_line) = (end, line);
            }
        }
        reader.consume(read);
        offset += read as u64;
        if read == 0 {
            break;
        }
    }
    if offset > start {
        items.push(Item { path: path.to_owned(), bytes: Some(start..offset), first_line });
    }
    Ok(items)
}

/// Calls `visit` with the number (from 1) and the text of every line of `item` that is not blank;
/// a line that is not UTF-8 is handed over as a fault of its own. A byte-order mark is skipped.
///
/// # Errors
/// [`RejectKind::Unreadable`] when the file cannot be opened or read on.
pub fn for_each_line(item: &Item, mut visit: impl FnMut(u64, Result<&str, Fault>)) -> Result<(), Fault> {
    let unreadable = |e: std::io::Error| Fault::new(RejectKind::Unreadable, e.to_string());
    let mut file = File::open(&item.path).map_err(unreadable)?;
    let range = item.bytes.clone().unwrap_or(0..u64::MAX);
    file.seek(SeekFrom::Start(range.start)).map_err(unreadable)?;
    let mut reader = BufReader::new(file.take(range.end - range.start));
    let mut line = Vec::new();
    let mut number = item.first_line;
    while reader.read_until(b'\n', &mut line).map_err(unreadable)? > 0 {
        let bytes = match line.strip_prefix("\u{feff}".as_bytes()) {
            Some(rest) if number == 1 => rest,
            _ => &line,
        };
        match std::str::from_utf8(bytes) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => visit(number, Ok(text)),
            Err(e) => visit(number, Err(not_utf8(e.valid_up_to()))),
        }
        line.clear();
        number += 1;
    }
    Ok(())
}

/// The check that a file which was read to its end held any record.
///
/// # Errors
/// [`RejectKind::Empty`] when `count` is 0.
pub fn some_records(count: usize) -> Result<(), Fault> {
    if count == 0 { Err(Fault::new(RejectKind::Empty, "the file holds no record")) } else { Ok(()) }
}

/// Calls `visit` with the index (from 0) and the value of every element of the JSON array in
/// `bytes`, one at a time. When the text is damaged or cut off, every element before that place
/// has been visited.
///
/// # Errors
/// [`RejectKind::Malformed`] or [`RejectKind::NotUtf8`], with the place of the damage.
pub fn for_each_element(bytes: &[u8], mut visit: impl FnMut(usize, Value)) -> Result<(), Fault> {
    read_json(bytes, |deserializer| deserializer.deserialize_seq(Elements(&mut visit)))
}

/// Hands a parser of the JSON in `bytes` to `read`, which may act on each part as it is read: when
/// the text is damaged or cut off, `read` has seen everything before that place.
///
/// # Errors
/// [`RejectKind::Malformed`] or [`RejectKind::NotUtf8`], with the place of the damage.
pub fn read_json<'a>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut serde_json::Deserializer<StrRead<'a>>) -> serde_json::Result<()>,
) -> Result<(), Fault> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let (text, bad_byte) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(e) => {
            let (valid, _) = bytes.split_at(e.valid_up_to());
            (std::str::from_utf8(valid).unwrap_or_default(), Some(e.valid_up_to()))
        }
    };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let result = read(&mut deserializer).and_then(|()| deserializer.end());
    match bad_byte {
        Some(at) => Err(not_utf8(at)),
        None => result.map_err(|e| malformed(&e)),
    }
}

struct Elements<'a>(&'a mut dyn FnMut(usize, Value));

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(value) = sequence.next_element_seed(Unique)? {
            (self.0)(index, value);
            index += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines_of(items: &[Item]) -> Vec<(u64, Result<String, RejectKind>)> {
        let mut lines = Vec::new();
        for item in items {
            for_each_line(item, |number, line| {
                lines.push((number, line.map(str::to_owned).map_err(|f| f.kind)));
            })
            .expect("readable");
        }
        lines
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn chunks_give_the_lines_and_numbers_of_the_whole_file(
            content in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), any::<u8>()], 0..400),
            chunk in 1_u64..64,
        ) {
            let folder = tempfile::tempdir().expect("temporary folder");
            let path = folder.path().join("rows.jsonl");
            std::fs::write(&path, &content).expect("written");
            let items = line_items(&path, chunk);
            prop_assert_eq!(lines_of(&items), lines_of(&[Item::whole(path)]));
            if items.len() > 1 {
                let sizes: u64 = items.iter().filter_map(|i| i.bytes.clone()).map(|b| b.end - b.start).sum();
                prop_assert_eq!(sizes, content.len() as u64);
            }
        }
    }

    #[test]
    fn a_line_that_is_not_utf8_is_a_fault_of_its_own() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("rows.jsonl");
        std::fs::write(&path, b"\xef\xbb\xbfone\r\n\n\xff\xfe\nfour").expect("written");
        let expected =
            vec![(1, Ok("one\r\n".to_owned())), (3, Err(RejectKind::NotUtf8)), (4, Ok("four".to_owned()))];
        assert_eq!(lines_of(&[Item::whole(path)]), expected);
    }

    #[test]
    fn elements_before_the_damage_are_visited() {
        let seen = |bytes: &[u8]| {
            let mut seen = Vec::new();
            let result = for_each_element(bytes, |i, v| seen.push((i, v.to_string())));
            (seen, result.map_err(|f| (f.kind, f.reason)))
        };
        let (rows, result) = seen(b"[1, {\"a\": 2}]");
        assert_eq!((rows.len(), result), (2, Ok(())));
        let (rows, result) = seen(b"[1, 2, {\"a\": ");
        assert_eq!(rows.len(), 2);
        assert!(
            result.is_err_and(|(kind, reason)| kind == RejectKind::Malformed && reason.contains("cut off"))
        );
        let (rows, result) = seen(b"[1, \"\xff\"]");
        assert_eq!((rows.len(), result.map_err(|(kind, _)| kind)), (1, Err(RejectKind::NotUtf8)));
        assert!(seen(b"{\"a\": 1}").1.is_err());
        assert!(seen(b"[1] 2").1.is_err());
    }
}
