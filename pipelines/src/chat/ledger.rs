//! The ledger: every request that was made, with what became of it, in a folder.
//!
//! The folder holds segments `<ms since 1970>-<process>-<n>.jsonl` (see [`super::segment`]). Each open ledger appends
//! to a segment of its own, which nobody else writes to, so any number of processes may record at once; each record is
//! one write of one whole line. A reader takes the segments in the order of their names and the lines in order: of
//! several records of a request the last one counts, but a reply is never replaced by a failure.
//!
//! A process that is killed loses at most the line that it was writing. Writes are left to the operating system's cache:
//! what a power failure damages is found by the lines' checks, reported, and asked again in mode `record`.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::Deserialize;
use serde::de::IgnoredAny;
use thiserror::Error;

use super::key::Key;
use super::reply::Outcome;
use super::segment::{Damage, Problem, Record, from_line, scan, to_line};

/// Why a ledger cannot be used.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// The folder is not there.
    #[error("no ledger at {}: run with `mode = \"record\"` first, or name its folder", .0.display())]
    Missing(PathBuf),
    /// The file system failed.
    #[error("ledger: {}: {source}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A record was whole when the ledger was opened, and no longer is.
    #[error("ledger: {}: the record of request {key} is damaged: {reason}: `tracemill ledger verify` lists damage", path.display())]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// The request.
        key: Key,
        /// What is wrong.
        reason: String,
    },
}

/// An open ledger. Shared between threads; see the module's text for how it lies on disk.
#[derive(Debug)]
pub struct Ledger {
    dir: PathBuf,
    damage: Vec<Damage>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// File names, in order.
    segments: Vec<String>,
    index: BTreeMap<Key, Place>,
    /// The segment that this ledger appends to, from the first record on.
    writer: Option<Writer>,
}

/// Where a record lies.
#[derive(Debug, Clone, Copy)]
struct Place {
    segment: usize,
    offset: u64,
    bytes: usize,
    is_reply: bool,
}

#[derive(Debug)]
struct Writer {
    file: File,
    segment: usize,
    offset: u64,
}

/// As much of a record as the index needs.
#[derive(Deserialize)]
struct Head {
    key: Key,
    outcome: OutcomeHead,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeHead {
    Reply(IgnoredAny),
    Failed(IgnoredAny),
}

impl State {
    /// Takes in the record of a key that comes after all taken in so far.
    fn insert(&mut self, key: Key, place: Place) {
        match self.index.get(&key) {
            Some(old) if old.is_reply && !place.is_reply => {}
            _ => {
                self.index.insert(key, place);
            }
        }
    }
}

impl Ledger {
    /// Opens a ledger to read and write, creating the folder if need be.
    ///
    /// # Errors
    /// When the folder cannot be read or created. Damaged lines are no error: see [`Self::damage`].
    pub fn create(dir: &Path) -> Result<Self, LedgerError> {
        std::fs::create_dir_all(dir).map_err(io_error(dir))?;
        Self::open(dir)
    }

    /// Opens a ledger that is there.
    ///
    /// # Errors
    /// When it is not, or cannot be read. Damaged lines are no error: see [`Self::damage`].
    pub fn open(dir: &Path) -> Result<Self, LedgerError> {
        if !dir.is_dir() {
            return Err(LedgerError::Missing(dir.to_owned()));
        }
        let mut state = State { segments: segment_names(dir)?, ..State::default() };
        let mut damage = Vec::new();
        for segment in 0..state.segments.len() {
            let name = state.segments[segment].clone();
            let path = dir.join(&name);
            scan(&path, |line| {
                let problem = match line.bytes.map(|bytes| (bytes.len(), from_line::<Head>(bytes))) {
                    Some((bytes, Ok(head))) => {
                        let is_reply = matches!(head.outcome, OutcomeHead::Reply(_));
                        return state
                            .insert(head.key, Place { segment, offset: line.offset, bytes, is_reply });
                    }
                    Some((_, Err(reason))) => Problem::Corrupt(reason),
                    None => Problem::Torn,
                };
                damage.push(Damage { segment: name.clone(), line: line.number, problem });
            })
            .map_err(io_error(&path))?;
        }
        Ok(Self { dir: dir.to_owned(), damage, state: Mutex::new(state) })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Lines that could not be read when the ledger was opened. What they recorded counts as never asked.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Number of requests with a record.
    pub fn len(&self) -> usize {
        self.state().index.len()
    }

    /// Whether no request has a record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every request with a record, in the order of keys.
    pub fn keys(&self) -> Vec<Key> {
        self.state().index.keys().copied().collect()
    }

    /// The record of a request.
    ///
    /// # Errors
    /// When the segment cannot be read any more.
    pub fn get(&self, key: Key) -> Result<Option<Record>, LedgerError> {
        let (path, place) = {
            let state = self.state();
            let Some(place) = state.index.get(&key).copied() else { return Ok(None) };
            (self.dir.join(&state.segments[place.segment]), place)
        };
        let line = read_at(&path, place).map_err(io_error(&path))?;
        from_line(&line).map(Some).map_err(|reason| LedgerError::Damaged { path, key, reason })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// When it cannot be written. What part of it was lies at the end of its segment, which is not written to again.
    pub fn append(&self, record: &Record) -> Result<(), LedgerError> {
        let line = to_line(record);
        let mut state = self.state();
        let mut writer = match state.writer.take() {
            Some(writer) => writer,
            None => self.new_segment(&mut state)?,
        };
        if let Err(source) = writer.file.write_all(&line) {
            return Err(LedgerError::Io { path: self.dir.join(&state.segments[writer.segment]), source });
        }
        let place = Place {
            segment: writer.segment,
            offset: writer.offset,
            bytes: line.len() - 1,
            is_reply: matches!(record.outcome, Outcome::Reply(_)),
        };
        writer.offset += line.len() as u64;
        state.writer = Some(writer);
        state.insert(record.key, place);
        Ok(())
    }

    /// Reads every line again and derives every key from its request.
    ///
    /// # Errors
    /// When a segment cannot be read. Damage is the result, not an error.
    pub fn verify(&self) -> Result<(usize, Vec<Damage>), LedgerError> {
        let (mut records, mut damage) = (0, Vec::new());
        for name in segment_names(&self.dir)? {
            let path = self.dir.join(&name);
            scan(&path, |line| {
                let problem = match line.bytes.map(from_line::<Record>) {
                    None => Problem::Torn,
                    Some(Err(reason)) => Problem::Corrupt(reason),
                    Some(Ok(record)) => {
                        records += 1;
                        let derived = record.request.key();
                        if derived == record.key {
                            return;
                        }
                        Problem::WrongKey { derived }
                    }
                };
                damage.push(Damage { segment: name.clone(), line: line.number, problem });
            })
            .map_err(io_error(&path))?;
        }
        Ok((records, damage))
    }

    /// A new segment, named to come after all that this ledger knows, whatever the clock says.
    fn new_segment(&self, state: &mut State) -> Result<Writer, LedgerError> {
        let last = state.segments.iter().filter_map(|name| name.split('-').next()?.parse::<u64>().ok()).max();
        let ms = unix_ms().max(last.map_or(0, |last| last + 1));
        for n in 0.. {
            let name = format!("{ms:013}-{}-{n}.jsonl", std::process::id());
            let path = self.dir.join(&name);
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => {
                    state.segments.push(name);
                    return Ok(Writer { file, segment: state.segments.len() - 1, offset: 0 });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(LedgerError::Io { path, source }),
            }
        }
        unreachable!("one of the names is free")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn segment_names(dir: &Path) -> Result<Vec<String>, LedgerError> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io_error(dir))? {
        let name = entry.map_err(io_error(dir))?.file_name().to_string_lossy().into_owned();
        if Path::new(&name).extension().is_some_and(|e| e == "jsonl") {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn read_at(path: &Path, place: Place) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(place.offset))?;
    let mut line = vec![0; place.bytes];
    file.read_exact(&mut line)?;
    Ok(line)
}

fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> LedgerError + use<> {
    let path = path.to_owned();
    |source| LedgerError::Io { path, source }
}
