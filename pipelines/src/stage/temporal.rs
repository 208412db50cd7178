//! `export temporal` and `eval temporal`: can two screens be put in order? (CES, section 3, figure 2)

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tracemill_data::adapters::Input;
use tracemill_data::export::{Choice, Pictures, TemporalRow, pair_id, pairs, question};
use tracemill_data::prompt::Rendered;
use tracemill_data::trace::{StepRow, read_episodes};
use tracemill_models::metrics::{ActionMetrics, StepScore, action_metrics};

use super::eval_actions::percent;
use super::export::{any_picture, traced_roots};
use crate::chat::{BlockingClient, Image, Outcome};
use crate::cli::{TemporalEvalArgs, TemporalExportArgs};
use crate::executor::request_of;
use crate::progress;
use crate::publish::Folder;
use crate::reward::read_picture;
use crate::run::{Run, write_json};
use crate::settings::Settings;
use crate::table::{self, Table, grouped};

/// Questions that are asked at a time.
const BATCH: usize = 512;

/// Writes the test set.
///
/// # Errors
/// Missing traces, an output folder that holds something else, no pair of screens.
pub fn export(args: &TemporalExportArgs) -> Result<()> {
    let run = Run::existing(&args.run)?;
    run.require("traces/steps.parquet", "ingest")?;
    if args.interval.contains(&0) {
        bail!("--interval 0: two screens are at least one step apart");
    }
    let out = args.out.clone().unwrap_or_else(|| run.path("datasets/temporal"));
    let folder = Folder::begin(&out, "export temporal")?;
    let mut drawn: BTreeMap<usize, Choice> =
        args.interval.iter().map(|&k| (k, Choice::new(Some(args.pairs), args.seed))).collect();
    let roots = match &args.image_root {
        Some(root) => vec![Input::new(root).with_context(|| format!("--image-root {}", root.display()))?],
        None => traced_roots(&run)?,
    };
    let mut pictures = Pictures { roots, held: false, required: false };
    pictures.required = any_picture(&run, &pictures)?;
    let mut left_out = LeftOut::default();
    for episode in read_episodes(&run.path("traces"))? {
        let (episode, steps) = episode?;
        if episode.instruction.trim().is_empty() {
            left_out.episodes_without_task += 1;
            continue;
        }
        for (&interval, choice) in &mut drawn {
            for pair in pairs(&steps, interval) {
                if is_there(&pictures, &steps, pair) {
                    choice.see(&pair_id(&steps, pair));
                } else {
                    left_out.pairs_without_picture += 1;
                }
            }
        }
    }
    let mut file = BufWriter::new(File::create(folder.dir().join("test.jsonl"))?);
    let mut counts: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    let same = |a: &str, b: &str| same_bytes(&pictures, a, b);
    for episode in read_episodes(&run.path("traces"))? {
        let (episode, steps) = episode?;
        if episode.instruction.trim().is_empty() {
            continue;
        }
        for (&interval, choice) in &drawn {
            for pair in pairs(&steps, interval).into_iter().filter(|p| is_there(&pictures, &steps, *p)) {
                if choice.holds(&pair_id(&steps, pair)) {
                    let row = question(&episode, &steps, pair, args.seed, &same)?;
                    let count = counts.entry(interval).or_default();
                    *count = (count.0 + 1, count.1 + u64::from(row.same));
                    serde_json::to_writer(&mut file, &row)?;
                    file.write_all(b"\n")?;
                }
            }
        }
    }
    file.flush()?;
    drop(file);
    if counts.is_empty() {
        bail!("no two screens of an episode with a task are {:?} steps apart ({left_out})", args.interval);
    }
    let mut table = Table::new(&["interval", "pairs", "of the same look"]);
    for (interval, (pairs, same)) in &counts {
        table.row(&[&interval.to_string(), &grouped(*pairs as i64), &grouped(*same as i64)]);
    }
    let settings = json!({ "intervals": args.interval, "pairs": args.pairs });
    let figures =
        [("pairs".to_owned(), json!(counts.iter().map(|(k, c)| (k, c.0)).collect::<BTreeMap<_, _>>()))];
    let inputs = ["traces/episodes.parquet", "traces/steps.parquet"].map(|p| (run.path(p), p.to_owned()));
    folder.publish(settings, args.seed, &inputs, figures.into())?;
    table::print(&format!("{table}\n{left_out}\nWritten to {}", out.display()));
    Ok(())
}

/// What cannot be asked about.
#[derive(Default)]
struct LeftOut {
    episodes_without_task: u64,
    pairs_without_picture: u64,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { episodes_without_task, pairs_without_picture } = self;
        write!(
            f,
            "Left out: {episodes_without_task} episodes without a task, {pairs_without_picture} pairs without their pictures"
        )
    }
}

/// Whether both screenshots of a pair are there, where any of the run's is.
fn is_there(pictures: &Pictures, steps: &[StepRow], (a, b): (usize, usize)) -> bool {
    let there = |step: &StepRow| step.screenshot.as_deref().is_none_or(|name| pictures.find(name).is_some());
    !pictures.required || (there(&steps[a]) && there(&steps[b]))
}

/// Whether two screenshots are the same file's bytes; not known where they are not there.
fn same_bytes(pictures: &Pictures, a: &str, b: &str) -> bool {
    let read = |name: &str| pictures.find(name).and_then(|path| std::fs::read(path).ok());
    read(a).is_some_and(|bytes| Some(bytes) == read(b))
}

/// Asks an endpoint, and counts by interval.
///
/// # Errors
/// Rows that cannot be read, pictures that are not there, too many failed calls.
pub fn eval(settings: &Settings, args: &TemporalEvalArgs) -> Result<()> {
    if settings.temporal.endpoint.endpoints.is_empty() {
        bail!("temporal.endpoint has no endpoints: whom should be asked? See examples/executor.toml");
    }
    let rows = read_rows(args)?;
    let root = args.images.as_deref();
    let images =
        root.map(|dir| Input::new(dir).with_context(|| format!("--images {}", dir.display()))).transpose()?;
    let client = BlockingClient::open(&settings.temporal.endpoint).context("temporal.endpoint")?;
    let bar = progress::bar("eval temporal", "questions", Some(rows.len() as u64));
    let mut answers: Vec<Option<Result<String, String>>> = Vec::with_capacity(rows.len());
    for batch in rows.chunks(BATCH) {
        let mut requests = Vec::with_capacity(batch.len());
        for row in batch {
            let pictures: Vec<Image> =
                row.images.iter().map(|path| read_picture(images.as_ref(), path)).collect::<Result<_>>()?;
            let prompt = Rendered {
                messages: row.messages.clone(),
                images: row.images.len(),
                template: row.prompt.clone(),
                hash: row.prompt_hash.clone(),
            };
            requests.push(request_of(&client, prompt, &pictures, settings.temporal.max_tokens));
        }
        for outcome in client.call_all(&requests, |_, _| bar.inc(1))? {
            answers.push(Some(match outcome {
                Outcome::Reply(reply) => Ok(reply.text),
                Outcome::Failed(error) => Err(error.to_string()),
            }));
        }
    }
    bar.finish_and_clear();
    let judged: Vec<Judged<'_>> = rows.iter().zip(answers.into_iter().flatten()).map(Judged::of).collect();
    report(settings, args, &judged)
}

/// A question with what became of it.
struct Judged<'a> {
    row: &'a TemporalRow,
    reply: Result<String, String>,
    /// `None` when the reply names neither screen.
    right: Option<bool>,
}

impl<'a> Judged<'a> {
    fn of((row, reply): (&'a TemporalRow, Result<String, String>)) -> Self {
        let right = reply.as_ref().ok().and_then(|reply| row.judge(reply));
        Self { row, reply, right }
    }

    fn json(&self) -> Value {
        let TemporalRow { id, interval, answer, same, .. } = self.row;
        json!({
            "id": id, "interval": interval, "answer": answer, "same": same, "right": self.right,
            "reply": self.reply.as_ref().ok(), "error": self.reply.as_ref().err(),
        })
    }
}

fn read_rows(args: &TemporalEvalArgs) -> Result<Vec<TemporalRow>> {
    let path = if args.input.is_dir() { args.input.join("test.jsonl") } else { args.input.clone() };
    let file = File::open(&path).with_context(|| format!("--input {}", path.display()))?;
    let mut rows = Vec::new();
    for (line, number) in BufReader::new(file).lines().zip(1_u64..) {
        let at = || format!("{} line {number}: not a row of `export temporal`", path.display());
        let line = line.with_context(at)?;
        if !line.trim().is_empty() {
            rows.push(serde_json::from_str(&line).with_context(at)?);
        }
    }
    if rows.is_empty() {
        bail!("{}: no rows", path.display());
    }
    Ok(rows)
}

fn report(settings: &Settings, args: &TemporalEvalArgs, judged: &[Judged<'_>]) -> Result<()> {
    let mut by_interval: BTreeMap<u32, Vec<&Judged<'_>>> = BTreeMap::new();
    judged.iter().for_each(|j| by_interval.entry(j.row.interval).or_default().push(j));
    let mut table = Table::new(&["interval", "tasks", "pairs", "right %", "unreadable", "failed calls"]);
    let mut figures = Vec::new();
    for (interval, judged) in &by_interval {
        // A reply that names neither is wrong; a failed call says nothing.
        let answered = judged.iter().filter(|j| j.reply.is_ok());
        let steps: Vec<StepScore> = answered.map(|j| step(j)).collect();
        let metrics = action_metrics(&steps, args.resamples, args.seed);
        let unreadable = judged.iter().filter(|j| j.reply.is_ok() && j.right.is_none()).count();
        let failed = judged.iter().filter(|j| j.reply.is_err()).count();
        let ActionMetrics { episodes, sr, .. } = metrics;
        table.row(&[
            &interval.to_string(),
            &episodes.to_string(),
            &sr.steps.to_string(),
            &percent(sr),
            &unreadable.to_string(),
            &failed.to_string(),
        ]);
        figures.push(json!({
            "interval": interval, "tasks": episodes, "accuracy": sr, "unreadable": unreadable, "failed": failed,
        }));
    }
    let model = settings.temporal.endpoint.endpoints.first().map(|e| format!("{}@{}", e.model, e.revision));
    let result =
        json!({ "model": model, "intervals": figures, "resamples": args.resamples, "seed": args.seed });
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
        write_json(&out.join("temporal.json"), &result)?;
        let mut file = BufWriter::new(File::create(out.join("temporal.jsonl"))?);
        for one in judged {
            serde_json::to_writer(&mut file, &one.json())?;
            file.write_all(b"\n")?;
        }
        file.flush()?;
    }
    if args.json {
        table::print(&serde_json::to_string_pretty(&result)?);
    } else {
        table::print(&format!("{table}\nChance is 50 %; 95 % intervals by bootstrap over tasks."));
    }
    Ok(())
}

fn step(judged: &Judged<'_>) -> StepScore {
    let right = judged.right == Some(true);
    StepScore { episode: judged.row.task_key.clone(), type_right: right, right, grounds: false }
}
