//! `doctor --dataset`: is a data set fit to be trained on, and does it share tasks with what it must not?

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use tracemill_data::check::{Checked, Options, Severity, check};
use tracemill_data::export::{Lineage, task_key};
use tracemill_data::parquet_io::{read_batches, read_table};
use tracemill_data::prompt::registry;
use tracemill_data::trace::EpisodeRow;
use tracemill_data::views::Unit;

use super::doctor::{Check, Verdict};
use crate::run::Run;

/// Share of one action above which the others are hardly learned.
const LOPSIDED: f64 = 0.9;
/// Share of states by rule, or of replies without a thought, that is worth a note.
const MUCH: f64 = 0.5;

/// A data set with what was found in it.
struct Dataset {
    name: String,
    checked: Checked,
    lineage: Vec<Lineage>,
}

/// Checks data sets one by one, and each against the others and against what a run was mined from.
///
/// # Errors
/// A path without rows, a run without traces.
pub fn checks(paths: &[std::path::PathBuf], run: Option<&Path>, images: Option<&Path>) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    let mut sets = Vec::new();
    for path in paths {
        let images = images.iter().map(|p| (*p).to_owned()).collect();
        let checked = check(path, &Options { images, ..Options::default() })?;
        let lineage = read_table(&path.join("lineage.parquet")).unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let set = Dataset { name, checked, lineage };
        checks.extend(one(&set));
        sets.push(set);
    }
    for (i, first) in sets.iter().enumerate() {
        sets[i + 1..].iter().for_each(|second| checks.extend(between(first, second)));
    }
    if let Some(run) = run {
        match mined_tasks(&Run::existing(run)?)? {
            Some(mined) => checks.extend(sets.iter().map(|set| against_mined(set, &mined))),
            None => checks.push(Check::new(
                "leaks: mined traces",
                Verdict::Note,
                "nothing has been mined in this run",
                "compare with the run whose units and skills are used (tracemill label makes units)",
            )),
        }
    }
    Ok(checks)
}

fn one(set: &Dataset) -> Vec<Check> {
    let named = |what: &str| format!("{}: {what}", set.name);
    let mut checks = vec![findings(set), splits(set)];
    let total =
        |what: &str| set.checked.counts.iter().filter(|((w, _), _)| *w == what).map(|(_, n)| n).sum::<u64>();
    let of = |what: &'static str| -> BTreeMap<&str, u64> {
        let counts = set.checked.counts.iter().filter(|((w, _), _)| *w == what);
        counts.map(|((_, name), n)| (name.as_str(), *n)).collect()
    };
    if let Some((action, n)) = of("action").into_iter().max_by_key(|(_, n)| *n) {
        let share = n as f64 / total("action").max(1) as f64;
        let verdict = if share > LOPSIDED { Verdict::Note } else { Verdict::Good };
        let found = format!("{} kinds; {:.0} % are `{action}`", of("action").len(), 100.0 * share);
        checks.push(Check::new(
            &named("actions"),
            verdict,
            found,
            "other actions are hardly learned: draw more of them",
        ));
    }
    let prompts = of("prompt");
    if !prompts.is_empty() {
        let known = |hash: &str| {
            registry().templates().find(|(_, t)| t.hash() == hash).map(|(n, t)| format!("{n}@{}", t.version))
        };
        let names: Vec<String> =
            prompts.keys().map(|hash| known(hash).unwrap_or_else(|| format!("unknown {hash}"))).collect();
        let verdict =
            if prompts.keys().all(|hash| known(hash).is_some()) { Verdict::Good } else { Verdict::Bad };
        checks.push(Check::new(
            &named("prompts"),
            verdict,
            names.join(", "),
            "export again with this version",
        ));
    }
    if !set.lineage.is_empty() {
        checks.push(origins(set));
    }
    checks
}

fn findings(set: &Dataset) -> Check {
    let count = |s| set.checked.findings.iter().filter(|f| f.severity == s).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let verdict = match (errors, warnings) {
        (0, 0) => Verdict::Good,
        (0, _) => Verdict::Note,
        _ => Verdict::Bad,
    };
    let mut rules: Vec<&str> = set.checked.findings.iter().map(|f| f.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    let which = if rules.is_empty() { String::new() } else { format!(": {}", rules.join(", ")) };
    let found = format!("{errors} errors, {warnings} warnings{which}");
    Check::new(&format!("{}: rows", set.name), verdict, found, "tracemill validate names the rows")
}

fn splits(set: &Dataset) -> Check {
    let rows = |split: &str| {
        let counts = &set.checked.counts;
        counts.iter().find(|((what, name), _)| *what == "split" && name == split).map_or(0, |(_, n)| *n)
    };
    let tasks = |split: &str| set.checked.tasks.get(split).map_or(0, BTreeSet::len);
    let (train, test) = (rows("train"), rows("test"));
    let verdict = if train > 0 && test == 0 { Verdict::Note } else { Verdict::Good };
    let found = format!(
        "train {train} rows of {} tasks, test {test} of {}, neither {}",
        tasks("train"),
        tasks("test"),
        rows("no split")
    );
    Check::new(
        &format!("{}: splits", set.name),
        verdict,
        found,
        "keep tasks apart to measure on (--test-share)",
    )
}

/// How much of it the source said, and how much is by rule.
fn origins(set: &Dataset) -> Check {
    let share = |of: &dyn Fn(&Lineage) -> bool| {
        set.lineage.iter().filter(|l| of(l)).count() as f64 / set.lineage.len() as f64
    };
    let states = share(&|l| l.state_from.starts_with("state@") || l.state_from.contains("-rules@"));
    let worded = share(&|l| l.instruction_from.contains('@'));
    let silent =
        share(&|l| l.role == "coordinator" && !l.instruction_from.is_empty() && l.thought_from.is_empty());
    let verdict = if states.max(worded).max(silent) > MUCH { Verdict::Note } else { Verdict::Good };
    let found = format!(
        "states by rule {:.0} %, instructions by rule {:.0} %, no thought {:.0} %",
        100.0 * states,
        100.0 * worded,
        100.0 * silent
    );
    Check::new(
        &format!("{}: origins", set.name),
        verdict,
        found,
        "what is by rule teaches the rule: prefer sources that say it",
    )
}

/// Tasks that one data set trains on and the other measures.
fn between(first: &Dataset, second: &Dataset) -> Vec<Check> {
    let tasks = |set: &Dataset, split: &str| set.checked.tasks.get(split).cloned().unwrap_or_default();
    [(first, second), (second, first)]
        .into_iter()
        .map(|(trained, measured)| {
            let (train, test) = (tasks(trained, "train"), tasks(measured, "test"));
            let shared: Vec<&String> = train.intersection(&test).collect();
            let name = format!("{} train, {} test", trained.name, measured.name);
            shared_tasks(&name, &shared, test.len())
        })
        .collect()
}

/// Tasks whose traces the run's units, skills and memory were mined from; `None` where nothing was.
fn mined_tasks(run: &Run) -> Result<Option<BTreeMap<String, u64>>> {
    run.require("traces/episodes.parquet", "ingest")?;
    let units = run.path("units/units.parquet");
    if !units.exists() {
        return Ok(None);
    }
    let mut mined = BTreeSet::new();
    for batch in read_batches::<Unit>(&units)? {
        mined.extend(batch?.into_iter().map(|u| u.episode_id));
    }
    let mut tasks = BTreeMap::new();
    for batch in read_batches::<EpisodeRow>(&run.path("traces/episodes.parquet"))? {
        for episode in batch?.into_iter().filter(|e| mined.contains(&e.episode_id)) {
            *tasks.entry(task_key(&episode.instruction, &episode.episode_id)).or_default() += 1;
        }
    }
    Ok(Some(tasks))
}

fn against_mined(set: &Dataset, mined: &BTreeMap<String, u64>) -> Check {
    let test = set.checked.tasks.get("test").cloned().unwrap_or_default();
    let shared: Vec<&String> = test.iter().filter(|task| mined.contains_key(*task)).collect();
    shared_tasks(&format!("mined traces, {} test", set.name), &shared, test.len())
}

fn shared_tasks(name: &str, shared: &[&String], of: usize) -> Check {
    let verdict = if shared.is_empty() { Verdict::Good } else { Verdict::Bad };
    let first = shared.first().map(|t| format!("; the first: {}", t.chars().take(60).collect::<String>()));
    let found = format!("{} of {of} test tasks are shared{}", shared.len(), first.unwrap_or_default());
    Check::new(
        &format!("leaks: {name}"),
        verdict,
        found,
        "mine and train without these tasks, or do not measure on them",
    )
}
