//! `R/plans/history.jsonl`: what was approved and rejected, one line for each event; the file only ever grows.
//!
//! An event is appended in one write and synced before the command returns. A line that a killed program left half
//! written is no event: it is passed over with a warning, and cut off before the next one is appended.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use tracemill_data::artifact::{Plan, PlanEvent, PlanEventKind};

use crate::run::Run;

/// The plans of a run. They lie outside `R/memory`, which every `memory build` makes anew.
pub struct PlanStore {
    path: PathBuf,
}

impl PlanStore {
    /// The store of a run; it need not exist yet.
    pub fn of(run: &Run) -> Self {
        Self { path: run.path("plans/history.jsonl") }
    }

    /// Every event, in order.
    ///
    /// # Errors
    /// Names the line that is no event.
    pub fn history(&self) -> Result<Vec<PlanEvent>> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let text = std::fs::read_to_string(&self.path).with_context(|| self.path.display().to_string())?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            log::warn!("{}: the last line is cut off and does not count", self.path.display());
        }
        text[..whole].lines().enumerate().map(|(i, line)| self.event(i, line)).collect()
    }

    fn event(&self, index: usize, line: &str) -> Result<PlanEvent> {
        let at = || format!("{}:{}", self.path.display(), index + 1);
        let event: PlanEvent = serde_json::from_str(line)
            .with_context(|| format!("{}: not an event; restore the line, or remove it", at()))?;
        if event.number != index as u64 + 1 {
            bail!(
                "{}: event {} where {} was expected: a line is missing or was moved",
                at(),
                event.number,
                index + 1
            );
        }
        Ok(event)
    }

    /// The plans that may be reused: those whose last event is an approval, in the order of approval.
    ///
    /// # Errors
    /// Those of [`PlanStore::history`].
    pub fn approved(&self) -> Result<Vec<Plan>> {
        let mut last: BTreeMap<String, PlanEvent> = BTreeMap::new();
        for event in self.history()? {
            last.insert(event.plan_id.clone(), event);
        }
        let mut events: Vec<PlanEvent> = last.into_values().collect();
        events.sort_by_key(|event| event.number);
        Ok(events.into_iter().filter_map(|event| event.plan).collect())
    }

    /// Approves a plan. Approving the same plan twice in a row changes nothing.
    ///
    /// # Errors
    /// When the history cannot be read or written.
    pub fn approve(&self, plan: Plan, note: Option<String>) -> Result<()> {
        if plan.units.is_empty() {
            bail!("the plan has no units: nothing to approve");
        }
        if note.is_none() && self.approved()?.contains(&plan) {
            return Ok(());
        }
        let (plan_id, command) = (plan.plan_id.clone(), plan.command.clone());
        self.append(PlanEventKind::Approved, plan_id, command, note, Some(plan))
    }

    /// Rejects a plan: from now on it is not reused.
    ///
    /// # Errors
    /// An id that was never approved, or a history that cannot be read or written.
    pub fn reject(&self, plan_id: &str, note: Option<String>) -> Result<()> {
        let Some(plan) = self.approved()?.into_iter().find(|p| p.plan_id == plan_id) else {
            bail!("no approved plan `{plan_id}`: `tracemill plan history --run R` lists them");
        };
        self.append(PlanEventKind::Rejected, plan.plan_id, plan.command, note, None)
    }

    fn append(
        &self,
        event: PlanEventKind,
        plan_id: String,
        command: String,
        note: Option<String>,
        plan: Option<Plan>,
    ) -> Result<()> {
        let at = || self.path.display().to_string();
        let folder = self.path.parent().context("plans/")?;
        std::fs::create_dir_all(folder).with_context(at)?;
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path);
        let mut file = open.with_context(at)?;
        // Two programs at once take turns; the lock goes with the file handle.
        file.lock().with_context(at)?;
        let end = whole_lines(&mut file).with_context(at)?;
        let number = self.history()?.len() as u64 + 1;
        let line = serde_json::to_string(&PlanEvent { number, event, plan_id, command, note, plan })? + "\n";
        file.set_len(end).with_context(at)?;
        file.seek(SeekFrom::Start(end)).with_context(at)?;
        file.write_all(line.as_bytes()).with_context(at)?;
        file.sync_all().with_context(at)
    }
}

/// Length of the file up to its last whole line.
fn whole_lines(file: &mut File) -> std::io::Result<u64> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes.iter().rposition(|b| *b == b'\n').map_or(0, |end| end as u64 + 1))
}

#[cfg(test)]
mod tests {
    use tracemill_data::artifact::{ActCoverage, PlanCase, PlanUnit};

    use super::*;

    fn plan(id: &str) -> Plan {
        let unit =
            PlanUnit { description: "d".into(), env: "E".into(), acts: vec![], sg: None, steps: vec![] };
        Plan {
            plan_id: id.into(),
            command: format!("do {id}"),
            case: PlanCase::Synthesise,
            why: String::new(),
            task_units: vec![],
            coverage: ActCoverage::default(),
            stored_plan: None,
            left_out: vec![],
            nearest: vec![],
            units: vec![unit],
            planner: "rules-1".into(),
        }
    }

    fn store() -> (tempfile::TempDir, PlanStore) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = PlanStore { path: dir.path().join("plans/history.jsonl") };
        (dir, store)
    }

    fn ids(store: &PlanStore) -> Vec<String> {
        store.approved().expect("readable").into_iter().map(|p| p.plan_id).collect()
    }

    #[test]
    fn only_approved_plans_count_and_nothing_is_forgotten() {
        let (_dir, store) = store();
        assert!(ids(&store).is_empty());
        store.approve(plan("a"), None).expect("approved");
        store.approve(plan("b"), Some("good".into())).expect("approved");
        store.approve(plan("a"), None).expect("nothing new");
        store.reject("a", None).expect("rejected");
        assert_eq!(ids(&store), ["b"]);
        assert!(store.reject("a", None).unwrap_err().to_string().contains("no approved plan `a`"));
        store.approve(plan("a"), None).expect("approved again");
        assert_eq!(ids(&store), ["b", "a"]);
        let numbers: Vec<u64> = store.history().expect("readable").iter().map(|e| e.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
    }

    #[test]
    fn killed_at_any_byte_of_an_append_the_store_holds_what_was_there_and_goes_on() {
        let (_dir, store) = store();
        store.approve(plan("a"), None).expect("approved");
        let before = std::fs::read(&store.path).expect("a file");
        store.approve(plan("b"), None).expect("approved");
        let after = std::fs::read(&store.path).expect("a file");
        assert!(after.starts_with(&before), "the file only grows");
        for cut in before.len()..=after.len() {
            std::fs::write(&store.path, &after[..cut]).expect("writable");
            let whole = cut == after.len();
            assert_eq!(ids(&store).len(), if whole { 2 } else { 1 }, "cut at {cut}");
            store.approve(plan("c"), None).expect("appended");
            assert_eq!(ids(&store).last().map(String::as_str), Some("c"));
            assert_eq!(ids(&store).len(), if whole { 3 } else { 2 });
        }
    }

    #[test]
    fn a_line_that_is_no_event_is_named() {
        let (_dir, store) = store();
        store.approve(plan("a"), None).expect("approved");
        let text = std::fs::read_to_string(&store.path).expect("a file");
        std::fs::write(&store.path, format!("{text}{{}}\n")).expect("writable");
        assert!(store.history().unwrap_err().to_string().contains("history.jsonl:2: not an event"));
        std::fs::write(&store.path, format!("{text}{text}")).expect("writable");
        assert!(store.history().unwrap_err().to_string().contains("event 1 where 2 was expected"));
    }
}
