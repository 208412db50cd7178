//! `export sft` and `export rl`: a run's traces → a data set that a training framework loads as it is.

mod beside;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use serde_json::{Value, json};
use tracemill_data::adapters::Input;
use tracemill_data::artifact::AgentRole;
use tracemill_data::check::{Finding, Options, check};
use tracemill_data::export::{
    Choice, Exporter, Form, Kind, Lineage, Pictures, Sample, Skipped, Split, Splitter, Target, TargetFile,
    Written, companions, task_key,
};
use tracemill_data::parquet_io::{TableError, TableWriter};
use tracemill_data::trace::{EpisodeRow, StepRow, read_episodes};
use xxhash_rust::xxh3::xxh3_64;

use crate::cli::ExportArgs;
use crate::manifest::read as read_manifest;
use crate::publish::Folder;
use crate::run::Run;
use crate::stage::observe::Shown;
use crate::stage::{dataset_card, validate};
use crate::table::{self, Table, grouped};
use beside::Beside;
pub use beside::Contexts;

/// Episodes that are turned into rows at a time: what is held in memory.
const EPISODES: usize = 256;
/// The same where rows hold pictures.
const EPISODES_WITH_PICTURES: usize = 8;

/// Everything that decides what a data set holds.
struct Plan {
    exporter: Exporter,
    target: Target,
    splitter: Splitter,
    sample: Option<usize>,
    pictures: Pictures,
    shown: Shown,
    beside: Beside,
}

/// Exports a data set.
///
/// # Errors
/// Missing traces, an unknown target or profile, an output folder that holds something else, and a data set
/// without a row.
pub fn run(args: &ExportArgs, kind: Kind) -> Result<()> {
    let run = Run::existing(&args.run)?;
    run.require("traces/steps.parquet", "ingest")?;
    let mut plan = Plan::of(args, kind, &run)?;
    plan.pictures.required |= any_picture(&run, &plan.pictures)?;
    let plan = plan;
    let name = format!("{}-{}-{}", kind.name(), plan.exporter.role.name(), plan.target.name());
    let out = args.out.clone().unwrap_or_else(|| run.path("datasets").join(&name));
    let folder = Folder::begin(&out, "export")?;
    let drawn = Drawn::of(&run, &plan)?;
    let mut writer =
        Writer { folder: folder.dir(), plan: &plan, files: BTreeMap::new(), rows: 0, lineage: None };
    let mut tally = Tally { moved: drawn.moved, ..Tally::default() };
    write_rows(&run, &plan, &drawn, &mut writer, &mut tally)?;
    let splits = writer.finish()?;
    if splits.is_empty() {
        bail!("no row came out: {}", tally.reasons());
    }
    let names: Vec<Split> = splits.iter().map(|s| s.0).collect();
    for (file, text) in companions(plan.target, kind, plan.exporter.role, &names, drawn.pictured) {
        std::fs::write(folder.dir().join(&file), text).with_context(|| file)?;
    }
    let found = if args.no_check { Vec::new() } else { findings(&folder, &plan)? };
    let mut counts = tally.counts(&splits);
    counts.insert("findings".to_owned(), json!(by_rule(&found)));
    let card = dataset_card::card(kind, plan.exporter, plan.target, &counts);
    std::fs::write(folder.dir().join("README.md"), card)?;
    let settings = plan.settings(args);
    let observations = plan.beside.observed.is_some().then_some("observations/observations.parquet");
    let states = plan.beside.states.is_some().then_some("states/states.parquet");
    let inputs = ["traces/episodes.parquet", "traces/steps.parquet"];
    let inputs = inputs.into_iter().chain(observations).chain(states);
    let inputs: Vec<_> = inputs.map(|p| (run.path(p), p.to_owned())).collect();
    folder.publish(settings, args.seed, &inputs, counts)?;
    summary(&out, &splits, &tally);
    if !args.no_check {
        table::print(&format!("\n{}", validate::told(&found, None)));
    }
    Ok(())
}

/// What the validator finds in the files as they were written.
fn findings(folder: &Folder, plan: &Plan) -> Result<Vec<Finding>> {
    let images = plan.pictures.roots.iter().map(|root| root.root.clone()).collect();
    let learned = Some(plan.exporter.kind == Kind::Sft);
    Ok(check(folder.dir(), &Options { images, learned, ..Options::default() })?.findings)
}

fn by_rule(findings: &[Finding]) -> BTreeMap<&'static str, u64> {
    let mut by_rule = BTreeMap::new();
    findings.iter().for_each(|f| *by_rule.entry(f.rule).or_default() += 1);
    by_rule
}

impl Plan {
    fn of(args: &ExportArgs, kind: Kind, run: &Run) -> Result<Self> {
        let form = match args.profile.as_str() {
            "paper" => Form::Paper,
            "ces-code" => Form::CesCode,
            other => bail!("unknown profile `{other}` of rows; known: paper, ces-code"),
        };
        let shown = if args.text_screens { Shown::Elements } else { args.observation };
        let target: Target = args.target.parse().map_err(anyhow::Error::msg)?;
        let role = args.role.role();
        // What was released has no test split; its files are made again as they are.
        let test_share = args.test_share.unwrap_or(if form == Form::CesCode { 0.0 } else { 0.1 });
        if !(0.0..=1.0).contains(&test_share) {
            bail!("--test-share is {test_share}: give a share from 0 to 1");
        }
        let held = match args.images.as_deref() {
            Some("path") => false,
            Some("bytes") => true,
            Some(other) => bail!("--images is `{other}`: give `path` or `bytes`"),
            None => target.holds_pictures(),
        };
        let roots = match &args.image_root {
            Some(root) => vec![Input::new(root).with_context(|| format!("--image-root {}", root.display()))?],
            None => traced_roots(run)?,
        };
        Ok(Self {
            exporter: Exporter {
                kind,
                role,
                form,
                worded: args.worded,
                text_screens: shown != Shown::Screenshot,
            },
            target,
            splitter: Splitter { seed: args.seed, test_share, keep_source: !args.ignore_splits },
            sample: if args.all { None } else { args.sample },
            pictures: Pictures { roots, held, required: held },
            shown,
            beside: Beside::of(run, shown, args.contexts)?,
        })
    }

    fn settings(&self, args: &ExportArgs) -> Value {
        let Self { exporter, target, splitter, sample, pictures, shown, beside } = self;
        json!({
            "kind": exporter.kind, "role": exporter.role, "profile": exporter.form, "target": target,
            "worded": exporter.worded, "observation": shown, "contexts": beside.contexts, "test_share": splitter.test_share, "keep_source_splits": splitter.keep_source,
            "sample": sample, "images": if pictures.held { "bytes" } else { "path" }, "image_root": args.image_root,
        })
    }
}

/// The folders that the run's traces were read from, where they are still there.
pub(crate) fn traced_roots(run: &Run) -> Result<Vec<Input>> {
    let manifest = read_manifest(&run.path("traces/manifest.json"))?;
    let inputs = manifest.as_ref().and_then(|m| m.settings["inputs"].as_array().cloned()).unwrap_or_default();
    let path = |input: &Value| {
        let path = PathBuf::from(input["path"].as_str()?);
        [run.path(input["path"].as_str()?), path].into_iter().find(|p| p.exists())
    };
    Ok(inputs.iter().filter_map(path).filter_map(|p| Input::new(&p).ok()).collect())
}

/// Whether any of the run's screenshots is there: then one that is not is missing, and not elsewhere.
pub(super) fn any_picture(run: &Run, pictures: &Pictures) -> Result<bool> {
    for episode in read_episodes(&run.path("traces"))? {
        let (_, steps) = episode?;
        if steps.iter().filter_map(|s| s.screenshot.as_deref()).any(|name| pictures.find(name).is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The first pass: which tasks are test tasks, and which rows are drawn.
struct Drawn {
    /// Hashes of the tasks that some episode of the source puts into its test split.
    test_tasks: HashSet<u64>,
    train: Choice,
    test: Choice,
    /// Episodes of the source's training split whose task is a test task.
    moved: u64,
    /// Whether any row has a picture.
    pictured: bool,
}

impl Drawn {
    fn of(run: &Run, plan: &Plan) -> Result<Self> {
        let mut drawn = Self {
            test_tasks: HashSet::new(),
            train: Choice::new(plan.sample, plan.splitter.seed),
            test: Choice::new(plan.sample.map(|n| plan.test_rows(n)), plan.splitter.seed),
            moved: 0,
            pictured: false,
        };
        if plan.splitter.keep_source {
            for episode in read_episodes(&run.path("traces"))? {
                let (episode, _) = episode?;
                let key = task_key(&episode.instruction, &episode.episode_id);
                if episode.split.is_some() && plan.splitter.of(&key, episode.split.as_deref()) == Split::Test
                {
                    drawn.test_tasks.insert(xxh3_64(key.as_bytes()));
                }
            }
        }
        let coordinates = plan.exporter.role == AgentRole::Coordinator;
        for_each_batch(run, &plan.beside, EPISODES, |batch| {
            drawn.pictured |=
                coordinates && batch.iter().any(|(_, steps)| steps.iter().any(|s| s.screenshot.is_some()));
            for (episode, _) in batch {
                let key = task_key(&episode.instruction, &episode.episode_id);
                let own = episode.split.as_deref().map(|s| plan.splitter.of(&key, Some(s)));
                drawn.moved +=
                    u64::from(own == Some(Split::Train) && drawn.split(plan, &key, episode) == Split::Test);
            }
            if plan.sample.is_some() {
                let rows: Vec<Vec<String>> =
                    batch.par_iter().map(|(e, s)| row_ids(plan, e, s)).collect::<Result<_>>()?;
                for ((episode, _), ids) in batch.iter().zip(rows) {
                    let key = task_key(&episode.instruction, &episode.episode_id);
                    let split = drawn.split(plan, &key, episode);
                    let choice = if split == Split::Train { &mut drawn.train } else { &mut drawn.test };
                    ids.iter().for_each(|id| choice.see(id));
                }
            }
            Ok(())
        })?;
        Ok(drawn)
    }

    fn split(&self, plan: &Plan, key: &str, episode: &EpisodeRow) -> Split {
        if self.test_tasks.contains(&xxh3_64(key.as_bytes())) {
            return Split::Test;
        }
        plan.splitter.of(key, episode.split.as_deref())
    }

    fn holds(&self, split: Split, row_id: &str) -> bool {
        match split {
            Split::Train => self.train.holds(row_id),
            Split::Test => self.test.holds(row_id),
        }
    }
}

impl Plan {
    /// Test rows that go with `n` training rows: as many as the shares of their tasks say.
    fn test_rows(&self, n: usize) -> usize {
        let share = self.splitter.test_share;
        if share >= 1.0 { n } else { (n as f64 * share / (1.0 - share)).ceil() as usize }
    }
}

fn row_ids(plan: &Plan, episode: &EpisodeRow, steps: &[StepRow]) -> Result<Vec<String>> {
    let rows = plan.exporter.episode(episode, steps)?;
    let has_picture = |sample: &Sample| {
        pictures_of(sample).all(|name| !plan.pictures.required || plan.pictures.find(name).is_some())
    };
    Ok(rows.into_iter().flatten().filter(has_picture).map(|sample| sample.lineage.row_id).collect())
}

/// Calls `visit` with the episodes of a run, some at a time.
fn for_each_batch(
    run: &Run,
    beside: &Beside,
    size: usize,
    mut visit: impl FnMut(&[(EpisodeRow, Vec<StepRow>)]) -> Result<()>,
) -> Result<()> {
    let mut episodes = read_episodes(&run.path("traces"))?;
    loop {
        let mut batch: Vec<_> = episodes.by_ref().take(size).collect::<Result<_, TableError>>()?;
        if batch.is_empty() {
            return Ok(());
        }
        batch.iter_mut().for_each(|(episode, steps)| beside.attach(episode, steps));
        visit(&batch)?;
    }
}

/// The second pass: rows, in the order of the traces.
fn write_rows(
    run: &Run,
    plan: &Plan,
    drawn: &Drawn,
    writer: &mut Writer<'_>,
    tally: &mut Tally,
) -> Result<()> {
    let size = if plan.pictures.held && drawn.pictured { EPISODES_WITH_PICTURES } else { EPISODES };
    for_each_batch(run, &plan.beside, size, |batch| {
        let made: Vec<Vec<Made>> =
            batch.par_iter().map(|(e, s)| episode_rows(plan, drawn, e, s)).collect::<Result<_>>()?;
        let mut ready: BTreeMap<Split, Vec<Written>> = BTreeMap::new();
        for made in made.into_iter().flatten() {
            tally.add(&made);
            if let Made::Row(row) = made {
                ready.entry(row.split).or_default().push(*row);
            }
        }
        ready.into_iter().try_for_each(|(split, rows)| writer.write(split, rows, drawn.pictured))
    })
}

/// What became of a step.
enum Made {
    Row(Box<Written>),
    Skipped(Skipped),
    NotDrawn,
    NoPicture(String),
}

fn episode_rows(plan: &Plan, drawn: &Drawn, episode: &EpisodeRow, steps: &[StepRow]) -> Result<Vec<Made>> {
    let split = drawn.split(plan, &task_key(&episode.instruction, &episode.episode_id), episode);
    let rows = plan.exporter.episode(episode, steps)?;
    let made = rows.into_iter().map(|row| match row {
        Err(reason) => Made::Skipped(reason),
        Ok(sample) if !drawn.holds(split, &sample.lineage.row_id) => Made::NotDrawn,
        Ok(sample) => with_picture(plan, sample, split),
    });
    Ok(made.collect())
}

/// Screenshots that a row needs: the one it shows, and the one it is rewarded on.
fn pictures_of(sample: &Sample) -> impl Iterator<Item = &str> {
    let rewarded = sample.agent.screen.image.as_deref().filter(|_| sample.reply.is_none());
    sample.image.as_deref().into_iter().chain(rewarded)
}

fn with_picture(plan: &Plan, sample: Sample, split: Split) -> Made {
    let Lineage { screen_width_px, screen_height_px, .. } = sample.lineage;
    let size = screen_width_px.zip(screen_height_px).map(|(w, h)| [w, h]);
    let picture = match sample.image.as_deref().map(|name| plan.pictures.picture(name, size)).transpose() {
        Ok(picture) => picture,
        Err(reason) => return Made::NoPicture(reason),
    };
    if plan.pictures.required
        && let Some(missing) = pictures_of(&sample).find(|name| plan.pictures.find(name).is_none())
    {
        return Made::NoPicture(format!(
            "screenshot `{missing}`, which the row is rewarded on, is not there"
        ));
    }
    Made::Row(Box::new(Written { sample, picture, index: 0, split }))
}

/// The files of a data set under way.
struct Writer<'a> {
    folder: &'a Path,
    plan: &'a Plan,
    files: BTreeMap<Split, (TargetFile, u64)>,
    rows: u64,
    lineage: Option<TableWriter<Lineage>>,
}

impl Writer<'_> {
    fn write(&mut self, split: Split, mut rows: Vec<Written>, pictured: bool) -> Result<()> {
        if let std::collections::btree_map::Entry::Vacant(free) = self.files.entry(split) {
            let kind = self.plan.exporter.kind;
            free.insert((
                TargetFile::create(
                    self.plan.target,
                    kind,
                    self.folder,
                    split,
                    pictured,
                    self.plan.pictures.held,
                )?,
                0,
            ));
        }
        let (file, count) = self.files.get_mut(&split).context("the file was just created")?;
        for row in &mut rows {
            row.index = self.rows;
            split.name().clone_into(&mut row.sample.lineage.split);
            row.sample.lineage.file = self.plan.target.file(split);
            row.sample.lineage.row = *count;
            (self.rows, *count) = (self.rows + 1, *count + 1);
        }
        file.write(&rows)?;
        let lineage = match &mut self.lineage {
            Some(lineage) => lineage,
            none => none.insert(TableWriter::create(&self.folder.join("lineage.parquet"))?),
        };
        let origins: Vec<Lineage> = rows.into_iter().map(|row| row.sample.lineage).collect();
        Ok(lineage.write(&origins)?)
    }

    fn finish(self) -> Result<Vec<(Split, u64)>> {
        if let Some(lineage) = self.lineage {
            lineage.finish()?;
        }
        let finish = |(split, (file, _)): (Split, (TargetFile, u64))| Ok((split, file.finish()?));
        self.files.into_iter().map(finish).collect()
    }
}

/// Counts over a data set.
#[derive(Default)]
struct Tally {
    skipped: BTreeMap<&'static str, u64>,
    not_drawn: u64,
    no_picture: u64,
    first_missing: Option<String>,
    moved: u64,
    actions: BTreeMap<String, u64>,
    states: BTreeMap<String, u64>,
    next_states: BTreeMap<String, u64>,
    prompts: BTreeSet<(String, String)>,
    thoughtless: u64,
    worded: u64,
    tasks: BTreeMap<&'static str, HashSet<u64>>,
}

impl Tally {
    fn add(&mut self, made: &Made) {
        match made {
            Made::NotDrawn => self.not_drawn += 1,
            Made::Skipped(reason) => *self.skipped.entry(reason.name()).or_default() += 1,
            Made::NoPicture(reason) => {
                self.no_picture += 1;
                self.first_missing.get_or_insert_with(|| reason.clone());
            }
            Made::Row(row) => {
                let lineage = &row.sample.lineage;
                *self.actions.entry(row.sample.agent.truth.action.clone()).or_default() += 1;
                *self.states.entry(lineage.state_from.clone()).or_default() += 1;
                if !lineage.next_state_from.is_empty() {
                    *self.next_states.entry(lineage.next_state_from.clone()).or_default() += 1;
                }
                self.prompts.insert((lineage.prompt.clone(), lineage.prompt_hash.clone()));
                let coordinates = row.sample.agent.role == AgentRole::Coordinator;
                self.thoughtless +=
                    u64::from(coordinates && row.sample.reply.is_some() && lineage.thought_from.is_empty());
                self.worded += u64::from(lineage.instruction_from.starts_with("step-words"));
                self.tasks.entry(row.split.name()).or_default().insert(xxh3_64(lineage.task_key.as_bytes()));
            }
        }
    }

    fn reasons(&self) -> String {
        let mut reasons: Vec<String> =
            self.skipped.iter().map(|(why, n)| format!("{n} steps: {why}")).collect();
        if let Some(first) = &self.first_missing {
            reasons.push(format!(
                "{} rows without picture: {first} (--image-root DIR says where they are)",
                self.no_picture
            ));
        }
        if self.not_drawn > 0 {
            reasons.push(format!("{} rows were not drawn", self.not_drawn));
        }
        if reasons.is_empty() { "the run has no steps".to_owned() } else { reasons.join("; ") }
    }

    fn counts(&self, splits: &[(Split, u64)]) -> BTreeMap<String, Value> {
        let rows: BTreeMap<&str, u64> = splits.iter().map(|(split, n)| (split.name(), *n)).collect();
        let tasks: BTreeMap<&str, usize> = self.tasks.iter().map(|(split, t)| (*split, t.len())).collect();
        let prompts: Vec<Value> =
            self.prompts.iter().map(|(prompt, hash)| json!({"prompt": prompt, "hash": hash})).collect();
        let counts = [
            ("rows", json!(rows)),
            ("tasks", json!(tasks)),
            ("steps_skipped", json!(self.skipped)),
            ("rows_without_picture", json!(self.no_picture)),
            ("rows_not_drawn", json!(self.not_drawn)),
            ("episodes_moved_to_test", json!(self.moved)),
            ("actions", json!(self.actions)),
            ("states_from", json!(self.states)),
            ("next_states_from", json!(self.next_states)),
            ("replies_without_thought", json!(self.thoughtless)),
            ("instructions_worded_by_rule", json!(self.worded)),
            ("prompts", json!(prompts)),
        ];
        counts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn summary(out: &Path, splits: &[(Split, u64)], tally: &Tally) {
    let mut table = Table::new(&["split", "rows", "tasks"]);
    for (split, rows) in splits {
        let tasks = tally.tasks.get(split.name()).map_or(0, HashSet::len);
        table.row(&[split.name(), &grouped(*rows as i64), &grouped(tasks as i64)]);
    }
    let mut notes = String::new();
    for (why, n) in &tally.skipped {
        notes.push_str(&format!("{} steps gave no row: {why}\n", grouped(*n as i64)));
    }
    if let Some(first) = &tally.first_missing {
        notes.push_str(&format!(
            "{} rows left out: {first} (--image-root DIR says where they are)\n",
            tally.no_picture
        ));
    }
    if tally.moved > 0 {
        notes.push_str(&format!(
            "{} training episodes moved to test: their tasks are test tasks\n",
            tally.moved
        ));
    }
    if tally.not_drawn > 0 {
        notes.push_str(&format!(
            "{} rows were not drawn (--all takes them)\n",
            grouped(tally.not_drawn as i64)
        ));
    }
    table::print(&format!("{table}\n{notes}Written to {}", out.display()));
}
