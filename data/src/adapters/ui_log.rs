//! UI logs as CSV, one event a row, in the style of the Apromore action logger.
//!
//! The header names the columns in any order, upper or lower case; `timeStamp` and `eventType`
//! are required. A log becomes one episode for each case where it has a `caseID` (or
//! `case:concept:name`) column, else one for each run of rows of one user. A blank user or case
//! is that of the row before, since clipboard events come without one.
//!
//! Unlike in the other formats a faulty row does not refuse its episode: a log is one long
//! recording, and a bad timestamp in one row says nothing of the thousands around it. The row
//! becomes a reject of its own, with its line, and the rest stays.
//!
//! Steps are ordered by time (rows of the same time keep the file's order): recorders merge
//! several sources, and a spreadsheet's events arrive seconds after the browser's.

mod event;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use serde_json::json;

use super::nothing;
use super::source::{Fault, Rejecter};
use super::{Adapter, AdapterError, AdapterOptions, Input, Item, Record};
use crate::trace::{Episode, Format, Outcome, Platform, RejectKind, Step};
use event::Columns;
use rows::{Row, Rows};

/// Reads UI logs.
#[derive(Debug, Clone, Copy)]
pub struct UiLog;

/// Rows of one user or case, with the time of each in nanoseconds.
struct Group {
    case: Option<String>,
    user: Option<String>,
    first_line: u64,
    last_line: u64,
    steps: Vec<(i128, Step)>,
}

impl Adapter for UiLog {
    fn format(&self) -> Format {
        Format::UiLog
    }

    /// One item for each CSV file whose header has an `eventType` column, or the file given.
    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError> {
        let keep = |p: &Path| input.only.is_some() || is_log(p);
        let files = input.files(keep)?;
        if files.is_empty() {
            return Err(nothing(input, self.format()));
        }
        Ok(files.into_iter().map(Item::whole).collect())
    }

    fn read(&self, input: &Input, item: &Item, _options: AdapterOptions, sink: &mut dyn FnMut(Record)) {
        let rejecter = Rejecter { format: self.format(), file: input.display(&item.path) };
        let mut refuse = |key: String, fault| sink(Record::Reject(rejecter.reject(key, None, fault)));
        let opened = std::fs::read(&item.path)
            .map_err(|e| Fault::new(RejectKind::Unreadable, e.to_string()))
            .and_then(|bytes| Rows::new(bytes).and_then(|rows| Ok((Columns::new(rows.header())?, rows))));
        let (columns, rows) = match opened {
            Ok(opened) => opened,
            Err(fault) => return refuse("line 1".to_owned(), fault),
        };
        let mut groups = Groups::default();
        for row in rows {
            let result = row.fields.and_then(|fields| groups.add(&columns, &Row { fields, line: row.line }));
            if let Err(fault) = result {
                refuse(format!("line {}", row.line), fault);
            }
        }
        let name = log_name(input, &item.path);
        let episodes = groups.into_episodes(&name, &input.display(&item.path));
        if episodes.is_empty() {
            refuse(String::new(), Fault::new(RejectKind::Empty, "the log holds no usable event"));
        }
        for episode in episodes {
            sink(Record::Episode(Box::new(episode)));
        }
    }
}

/// The log's path below the input, without its extension: what its episodes are named after.
fn log_name(input: &Input, path: &Path) -> String {
    let path = path.strip_prefix(&input.root).unwrap_or(path).with_extension("");
    path.to_string_lossy().replace('\\', "/")
}

fn is_log(path: &Path) -> bool {
    if !path.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv")) {
        return false;
    }
    let mut start = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(1 << 16).read_to_end(&mut start));
    let header = start.split(|b| *b == b'\n').next().unwrap_or_default();
    // A file that cannot be read is kept: reading it says why.
    read.is_err() || String::from_utf8_lossy(header).to_lowercase().contains("eventtype")
}

/// Episodes under construction.
#[derive(Default)]
struct Groups {
    in_order: Vec<Group>,
    by_case: HashMap<String, usize>,
    /// The group of the row before.
    last: Option<usize>,
}

impl Groups {
    fn add(&mut self, columns: &Columns, row: &Row<Vec<String>>) -> Result<(), Fault> {
        let nanos = columns.time(&row.fields)?;
        let case = columns.case(&row.fields).map(str::to_owned);
        let user = columns.user(&row.fields).map(str::to_owned);
        let step = columns.step(&row.fields, format!("line {}", row.line))?;
        let index = self.group(columns.has_case(), case, user, row.line);
        self.last = Some(index);
        let group = &mut self.in_order[index];
        group.last_line = row.line;
        group.steps.push((nanos, step));
        Ok(())
    }

    /// Where a row belongs. Cases may interleave; users are cut into runs.
    fn group(&mut self, has_case: bool, case: Option<String>, user: Option<String>, line: u64) -> usize {
        let fits = |group: &Group| {
            if has_case {
                case.is_none() || group.case.is_none() || case == group.case
            } else {
                user.is_none() || group.user.is_none() || user == group.user
            }
        };
        let same_case = case.as_ref().filter(|_| has_case).and_then(|case| self.by_case.get(case).copied());
        let found = same_case.or(self.last.filter(|i| fits(&self.in_order[*i])));
        let index = found.unwrap_or(self.in_order.len());
        if found.is_none() {
            let steps = Vec::new();
            self.in_order.push(Group { case: None, user: None, first_line: line, last_line: line, steps });
        }
        let group = &mut self.in_order[index];
        group.case = group.case.take().or(case);
        group.user = group.user.take().or(user);
        if let Some(case) = &group.case {
            self.by_case.entry(case.clone()).or_insert(index);
        }
        index
    }

    fn into_episodes(self, name: &str, source: &str) -> Vec<Episode> {
        let mut runs: HashMap<String, usize> = HashMap::new();
        let mut episodes = Vec::new();
        for group in self.in_order {
            let part = group.case.as_ref().or(group.user.as_ref());
            let id = part.map_or_else(|| name.to_owned(), |part| format!("{name}/{part}"));
            let runs = runs.entry(id.clone()).or_default();
            *runs += 1;
            let suffix = if *runs > 1 { format!("#{runs}") } else { String::new() };
            episodes.push(group.into_episode(format!("{}:{id}{suffix}", Format::UiLog), source));
        }
        episodes
    }
}

impl Group {
    fn into_episode(mut self, episode_id: String, source: &str) -> Episode {
        self.steps.sort_by_key(|(nanos, _)| *nanos);
        let start = self.steps.first().map_or(0, |(nanos, _)| *nanos);
        let number = |(i, (nanos, step)): (usize, (i128, Step))| Step {
            step: i as u32,
            time_secs: Some((nanos - start) as f64 / 1e9),
            ..step
        };
        let steps: Vec<Step> = self.steps.into_iter().enumerate().map(number).collect();
        let mut apps: Vec<String> = Vec::new();
        for app in steps.iter().filter_map(|s| s.app.as_ref()) {
            if !apps.contains(app) {
                apps.push(app.clone());
            }
        }
        let all_on_pages = steps.iter().all(|s| s.site.is_some());
        let extra = json!({ "user": self.user, "case": self.case });
        Episode {
            episode_id,
            format: Format::UiLog,
            source: source.to_owned(),
            source_key: format!("lines {}-{}", self.first_line, self.last_line),
            platform: if all_on_pages { Platform::Web } else { Platform::Desktop },
            instruction: String::new(),
            apps,
            domain: None,
            outcome: Outcome::Unknown,
            split: None,
            extra: Some(extra.to_string()),
            steps,
        }
    }
}
