//! `ingest`: source files → `R/traces/{episodes,steps}.parquet` and `rejects.jsonl`.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::json;
use tracemill_data::adapters::{Adapter, Input, Item, Record, adapter, has_extension};
use tracemill_data::parquet_io::TableWriter;
use tracemill_data::trace::{Episode, EpisodeRow, Format, Reject, RejectKind, StepRow};

use crate::config::InputSetting;
use crate::progress;
use crate::run::{Draft, Report, Run, StageInput, StageSpec};
use crate::settings::Settings;

/// What screenshots are stored as: not counted among the files that were passed over.
const PICTURES: &[&str] = &["png", "jpg", "jpeg", "webp", "gif"];

/// How many of the files passed over the manifest names.
const SHOWN_FILES: usize = 20;

/// Figures of one input, for the manifest and the report.
#[derive(Debug, Clone, Default, Serialize)]
struct SourceCounts {
    format: String,
    path: String,
    episodes: u64,
    steps: u64,
    rejects: u64,
    screenshots_named: u64,
    screenshots_found: u64,
    /// Whether the sample generator made it.
    synthetic: bool,
}

/// An input with its adapter and the items found below it.
struct Source {
    setting: InputSetting,
    adapter: Box<dyn Adapter>,
    input: Input,
    items: Vec<Item>,
}

/// Reads every input of the settings.
///
/// # Errors
/// No input, an unknown format, an input that cannot be read or holds nothing of its format, a
/// share of rejects above `ingest.max_rejects`.
pub fn run(settings: &Settings, run: &Run) -> Result<Report> {
    let sources = open_sources(settings, run)?;
    let inputs = sources
        .iter()
        .flat_map(|s| s.items.iter().map(|item| (&s.input, item)))
        .filter(|(_, item)| item.bytes.as_ref().is_none_or(|range| range.start == 0))
        .map(|(input, item)| StageInput::External(item.path.clone(), input.display(&item.path)))
        .collect();
    let spec = StageSpec {
        name: "ingest",
        folder: "traces",
        settings: serde_json::to_value(&settings.ingest)?,
        seed: settings.seed,
        inputs,
    };
    run.stage(&spec, |draft| ingest(settings, &sources, draft))
}

fn open_sources(settings: &Settings, run: &Run) -> Result<Vec<Source>> {
    if !(0.0..=1.0).contains(&settings.ingest.max_rejects) {
        bail!("ingest.max_rejects is {}: give a share from 0 to 1", settings.ingest.max_rejects);
    }
    if settings.ingest.inputs.is_empty() {
        bail!("nothing to ingest: give --format F --input PATH, or `inputs` in the recipe");
    }
    let mut sources = Vec::new();
    for setting in &settings.ingest.inputs {
        let format: Format = setting.format.parse().map_err(anyhow::Error::msg)?;
        let path = setting.resolve(run.dir());
        if setting.optional && !path.exists() {
            log::warn!("{}: not there, skipped (optional input)", path.display());
            continue;
        }
        let input = Input::new(&path).with_context(|| format!("input {}", path.display()))?;
        let adapter = adapter(format);
        let items = adapter.discover(&input)?;
        sources.push(Source { setting: setting.clone(), adapter, input, items });
    }
    if sources.is_empty() {
        bail!("none of the inputs is there; see the messages above");
    }
    Ok(sources)
}

struct Writers {
    episodes: TableWriter<EpisodeRow>,
    steps: TableWriter<StepRow>,
    rejects: BufWriter<File>,
    /// Where each episode id was read first, both hashed.
    seen: HashMap<u64, u64>,
}

impl Writers {
    /// Takes the episode's id; false when it is taken. A recording that is named after its file gets
    /// the hash of its place added to its name when another file of that name was there before.
    fn claim(&mut self, episode: &mut Episode) -> bool {
        let place = xxhash_of(&format!("{}\0{}", episode.source, episode.source_key));
        match self.seen.entry(xxhash_of(&episode.episode_id)) {
            Entry::Vacant(free) => {
                free.insert(place);
                true
            }
            Entry::Occupied(first) if *first.get() != place && episode.format.names_after_files() => {
                episode.episode_id = format!("{}@{place:016x}", episode.episode_id);
                self.seen.insert(xxhash_of(&episode.episode_id), place).is_none()
            }
            Entry::Occupied(_) => false,
        }
    }
}

fn ingest(settings: &Settings, sources: &[Source], draft: &mut Draft) -> Result<()> {
    let rejects_path = draft.path("rejects.jsonl");
    let mut writers = Writers {
        episodes: TableWriter::create(&draft.path("episodes.parquet"))?,
        steps: TableWriter::create(&draft.path("steps.parquet"))?,
        rejects: BufWriter::new(File::create(&rejects_path)?),
        seen: HashMap::new(),
    };
    let mut counts = Vec::new();
    for source in sources {
        counts.push(ingest_source(settings, source, &mut writers)?);
    }
    let episodes = writers.episodes.finish()?;
    let steps = writers.steps.finish()?;
    writers.rejects.flush()?;
    let rejects: u64 = counts.iter().map(|c| c.rejects).sum();
    draft.count("episodes_in", episodes + rejects);
    draft.count("episodes", episodes);
    draft.count("steps", steps);
    draft.count("rejects", rejects);
    draft.count("sources", json!(counts));
    let passed_over = passed_over(sources)?;
    draft.count("files_passed_over", passed_over.len() as u64);
    if let Some(first) = passed_over.first() {
        draft.count("files_passed_over_first", json!(&passed_over[..passed_over.len().min(SHOWN_FILES)]));
        log::warn!("{} files under the inputs were not read: {first} …", passed_over.len());
    }
    check_rejects(settings.ingest.max_rejects, episodes, rejects, &rejects_path)
}

/// Files under the inputs that are no pictures and that no adapter reads: of another format, or of none.
fn passed_over(sources: &[Source]) -> Result<Vec<String>> {
    let read: BTreeSet<&Path> =
        sources.iter().flat_map(|s| s.items.iter()).map(|item| item.path.as_path()).collect();
    let is_read = |path: &Path| {
        path.ancestors().any(|p| read.contains(p)) || sources.iter().any(|s| s.adapter.reads_along(path))
    };
    let mut names = BTreeSet::new();
    for source in sources {
        let data = |path: &Path| !has_extension(path, PICTURES) && !is_read(path);
        names.extend(source.input.files(data)?.iter().map(|path| source.input.display(path)));
    }
    Ok(names.into_iter().collect())
}

fn check_rejects(max_share: f64, kept: u64, rejects: u64, path: &Path) -> Result<()> {
    let share = rejects as f64 / (kept + rejects).max(1) as f64;
    if share > max_share {
        let kept_at = path.parent().and_then(Path::parent).map(|r| r.join("rejects-ingest.jsonl"));
        if let Some(kept_at) = &kept_at {
            std::fs::copy(path, kept_at)?;
        }
        bail!(
            "{rejects} of {} records were rejected ({:.1} %), more than --max-rejects {max_share}; reasons in {}",
            kept + rejects,
            share * 100.0,
            kept_at.unwrap_or_else(|| path.to_owned()).display()
        );
    }
    Ok(())
}

/// Reads one source: items in parallel, a window at a time, written in their order. What is held
/// is one window of items. An item is a file, or a block of lines where a format's lines stand alone;
/// the formats that spread an episode over the rows of a file (ces-sft, mind2web, ui-log) need the
/// whole file.
fn ingest_source(settings: &Settings, source: &Source, writers: &mut Writers) -> Result<SourceCounts> {
    let bar = progress::bar("ingest", &source.setting.format, Some(source.items.len() as u64));
    let window = 8 * rayon::current_num_threads();
    let mut counts = SourceCounts {
        format: source.setting.format.clone(),
        path: source.setting.path.clone(),
        synthetic: tracemill_data::sim::is_sample(&source.input.root),
        ..SourceCounts::default()
    };
    for items in source.items.chunks(window) {
        let batches: Vec<Vec<Record>> = items
            .par_iter()
            .map(|item| {
                let mut records = Vec::new();
                source
                    .adapter
                    .read(&source.input, item, settings.ingest.adapter_options(), &mut |r| records.push(r));
                records
            })
            .collect();
        write_window(batches, writers, &mut counts)?;
        bar.inc(items.len() as u64);
    }
    bar.finish_and_clear();
    Ok(counts)
}

fn write_window(batches: Vec<Vec<Record>>, writers: &mut Writers, counts: &mut SourceCounts) -> Result<()> {
    let (mut episode_rows, mut step_rows) = (Vec::new(), Vec::new());
    for record in batches.into_iter().flatten() {
        let reject = match record {
            Record::Reject(reject) => reject,
            Record::Episode(mut episode) => {
                if writers.claim(&mut episode) {
                    let (row, steps) = episode.into_rows();
                    counts.episodes += 1;
                    counts.steps += steps.len() as u64;
                    for step in &steps {
                        counts.screenshots_named += u64::from(step.screenshot.is_some());
                        counts.screenshots_found += u64::from(step.screenshot_found);
                    }
                    episode_rows.push(row);
                    step_rows.extend(steps);
                    continue;
                }
                Reject {
                    format: episode.format,
                    file: episode.source,
                    key: episode.source_key,
                    reason: format!("episode {} was read before; the first one is kept", episode.episode_id),
                    episode_id: Some(episode.episode_id),
                    kind: RejectKind::Duplicate,
                }
            }
        };
        counts.rejects += 1;
        serde_json::to_writer(&mut writers.rejects, &reject)?;
        writers.rejects.write_all(b"\n")?;
    }
    writers.episodes.write(&episode_rows)?;
    writers.steps.write(&step_rows)?;
    Ok(())
}

/// 64 bits of an id: a million ids collide with probability 3e-8.
fn xxhash_of(id: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(id.as_bytes())
}
