//! A segment of a ledger: a file of records, one a line, that one writer appends to.
//!
//! A line is the record's JSON object with one more field at its end, `check`: the first 16 digits of the BLAKE3 of
//! the object without it. So a changed byte is noticed anywhere in a line, also inside a reply.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::key::Key;
use super::reply::{Outcome, Reply};
use super::request::Request;

const CHECK: &str = r#","check":""#;
const CHECK_DIGITS: usize = 16;
/// What follows the last field of the object: the check, its closing quote and the brace.
const TAIL_BYTES: usize = CHECK.len() + CHECK_DIGITS + 2;

/// A request and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The request's key.
    pub key: Key,
    /// The request, with images as hashes.
    pub request: Request,
    /// What became of it: all that a replay shows.
    pub outcome: Outcome<Reply>,
    /// Attempts made; 0 when no endpoint was in service.
    pub attempts: u32,
    /// When, and how long it took.
    pub timing: Timing,
}

/// When a call was made. No part of what is replayed or compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Milliseconds since 1970 at the start of the first attempt.
    pub started_unix_ms: u64,
    /// Seconds until the outcome, waits included.
    pub secs: f64,
}

/// A line that holds no record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The segment's file name.
    pub segment: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// The last line has no end: its writer was killed, or is writing at this moment.
    Torn,
    /// The line is not what was written.
    Corrupt(String),
    /// The request has another key than the record says.
    WrongKey {
        /// The key of the request.
        derived: Key,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.segment, self.line)?;
        match &self.problem {
            Problem::Torn => f.write_str("the last line breaks off (its writer was killed, or is at work)"),
            Problem::Corrupt(reason) => write!(f, "damaged: {reason}"),
            Problem::WrongKey { derived } => write!(f, "the request has key {derived}, not the recorded one"),
        }
    }
}

/// The line of a record, with its end.
pub(super) fn to_line(record: &Record) -> Vec<u8> {
    let mut line = serde_json::to_vec(record).expect("records hold only what JSON can say");
    let check = check_of(&line);
    line.pop();
    line.extend_from_slice(CHECK.as_bytes());
    line.extend_from_slice(check.as_bytes());
    line.extend_from_slice(b"\"}\n");
    line
}

/// Reads a line (without its end) as `T`: a [`Record`], or as much of it as is needed.
///
/// # Errors
/// Says how the line is damaged.
pub(super) fn from_line<T: for<'de> Deserialize<'de>>(line: &[u8]) -> Result<T, String> {
    let cut = line.len().checked_sub(TAIL_BYTES).ok_or("too short for a record")?;
    let (head, tail) = line.split_at(cut);
    let check = tail
        .strip_prefix(CHECK.as_bytes())
        .and_then(|rest| rest.strip_suffix(b"\"}"))
        .ok_or("it does not end in a check")?;
    let object = [head, b"}"].concat();
    if check != check_of(&object).as_bytes() {
        return Err("its content does not match its check".to_owned());
    }
    serde_json::from_slice(&object).map_err(|e| e.to_string())
}

fn check_of(object: &[u8]) -> String {
    blake3::hash(object).to_hex()[..CHECK_DIGITS].to_owned()
}

/// A line of a segment.
pub(super) struct Line<'a> {
    /// Number, from 1.
    pub(super) number: usize,
    /// Where it begins in the file, in bytes.
    pub(super) offset: u64,
    /// Its bytes, without the end; `None` for a last line that has none.
    pub(super) bytes: Option<&'a [u8]>,
}

/// Shows every line of a segment to `visit`.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn scan(path: &Path, mut visit: impl FnMut(Line<'_>)) -> std::io::Result<()> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    let (mut buffer, mut offset) = (Vec::new(), 0);
    for number in 1.. {
        buffer.clear();
        let read = file.read_until(b'\n', &mut buffer)?;
        if read == 0 {
            break;
        }
        visit(Line { number, offset, bytes: buffer.strip_suffix(b"\n") });
        offset += read as u64;
    }
    Ok(())
}
