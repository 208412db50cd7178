//! What can be wrong between rows: ids, repeated prompts, tasks on both sides.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::row::{ImageRef, Row};
use super::{Fault, Finding};
use crate::export::task_key;

/// Where a row stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct At {
    pub file: String,
    pub row: u64,
    pub id: Option<String>,
}

impl At {
    pub fn finding(&self, fault: Fault) -> Finding {
        let Fault { rule, severity, found, remedy } = fault;
        Finding {
            rule,
            severity,
            file: self.file.clone(),
            row: Some(self.row),
            id: self.id.clone(),
            found,
            remedy,
        }
    }

    fn shown(&self) -> String {
        format!("{} row {}", self.file, self.row)
    }
}

/// A place in few bytes: a data set of a million rows is seen in tens of megabytes.
type Place = (u32, u64);

/// What has been seen so far.
#[derive(Default)]
pub(super) struct Across {
    files: Vec<String>,
    ids: HashMap<u64, Place>,
    indices: HashMap<i64, Place>,
    prompts: HashMap<u128, (Place, u64)>,
    /// Tasks of each split.
    tasks: HashMap<u64, (&'static str, Place)>,
    /// Tasks that were found on both sides already.
    leaks: HashMap<u64, u64>,
}

impl Across {
    fn place(&mut self, at: &At) -> Place {
        let file = self.files.iter().position(|f| *f == at.file).unwrap_or_else(|| {
            self.files.push(at.file.clone());
            self.files.len() - 1
        });
        (file as u32, at.row)
    }

    fn at(&self, (file, row): Place) -> String {
        At { file: self.files[file as usize].clone(), row, id: None }.shown()
    }

    /// Compares a row with all before it.
    pub fn see(&mut self, at: &At, row: &Row, split: Option<&'static str>) -> Vec<Fault> {
        let place = self.place(at);
        let mut faults = Vec::new();
        if let Some(id) = &row.id
            && let Some(first) = first(&mut self.ids, xxh3_64(id.as_bytes()), place)
        {
            let found = format!("id `{id}` is also that of {}", self.at(first));
            faults.push(Fault::error("duplicate-id", found, "ids are unique in a data set"));
        }
        if let Some(Some(index)) = row.index
            && let Some(first) = first(&mut self.indices, index, place)
        {
            let found = format!("extra_info.index {index} is also that of {}", self.at(first));
            let remedy = "number the rows: verl takes rows of one index for one group";
            faults.push(Fault::error("duplicate-index", found, remedy));
        }
        faults.extend(self.prompt(row, place));
        faults.extend(self.task(row, place, split));
        faults
    }

    /// The same question twice: with the same answer it counts double, with another it contradicts.
    fn prompt(&mut self, row: &Row, place: Place) -> Option<Fault> {
        let mut text = String::new();
        for turn in row.turns.iter().filter(|t| t.role != "assistant") {
            text.push_str(&turn.text);
            text.push('\0');
        }
        for image in &row.images {
            match image {
                ImageRef::Path(path) => text.push_str(path),
                ImageRef::Bytes(bytes) => text.push_str(&format!("{:x}", xxh3_128(bytes))),
                ImageRef::Null => {}
            }
        }
        let answer = match &row.truth {
            Some(Ok(agent)) => serde_json::to_string(&agent.truth).unwrap_or_default(),
            _ => row.reply().unwrap_or_default().to_owned(),
        };
        let answer = xxh3_64(answer.as_bytes());
        match self.prompts.entry(xxh3_128(text.as_bytes())) {
            Entry::Vacant(free) => {
                free.insert((place, answer));
                None
            }
            Entry::Occupied(seen) => {
                let (first, said) = *seen.get();
                let same = if said == answer { "the same answer" } else { "another answer" };
                let found = format!("the prompt is that of {}, with {same}", self.at(first));
                Some(Fault::warning(
                    "duplicate-prompt",
                    found,
                    "keep one of them, or tell them apart by their state",
                ))
            }
        }
    }

    fn task(&mut self, row: &Row, place: Place, split: Option<&'static str>) -> Option<Fault> {
        let (split, task) = (split?, row.task().filter(|t| !t.trim().is_empty())?);
        let key = xxh3_64(task_key(task, "").as_bytes());
        let (other, first) = *self.tasks.entry(key).or_insert((split, place));
        if other == split {
            return None;
        }
        // One finding for each task: all its rows would say the same.
        let count = self.leaks.entry(key).or_default();
        *count += 1;
        if *count > 1 {
            return None;
        }
        let found =
            format!("the task of this {split} row is also that of {} ({other}): {task}", self.at(first));
        Some(Fault::error("task-overlap", found, "split by task: move its rows to one side"))
    }
}

/// Where `key` was seen first, if it was.
fn first<K: std::hash::Hash + Eq>(seen: &mut HashMap<K, Place>, key: K, place: Place) -> Option<Place> {
    match seen.entry(key) {
        Entry::Occupied(known) => Some(*known.get()),
        Entry::Vacant(free) => {
            free.insert(place);
            None
        }
    }
}
