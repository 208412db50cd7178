//! `abstract`: what each step changed on the screen, and contexts that stay short, in `R/states` (`HiSA`, section 3.3).
//!
//! | file of `R/states` | content |
//! | --- | --- |
//! | `steps.parquet` | changed region, crops, abstracted step, outcome with its evidence |
//! | `contexts.parquet` | refined contexts, one for every `N` steps that a decision follows |
//! | `states.parquet` | what a policy is told before each step: the context and the steps since |
//! | `crops/` | changed regions before and after, each picture once, named by its content |
//! | `rejects.jsonl` | pictures that are missing or cannot be read |
//! | `page.html` | some steps with their regions drawn |

mod asker;
mod contexts;
mod model;
mod page;
mod screens;
mod settings;
pub mod tokens;

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use serde_json::json;
use tracemill_data::artifact::{StateContext, StateStep, StateText};
use tracemill_data::export::Pictures;
use tracemill_data::parquet_io::{TableWriter, read_batches};
use tracemill_data::prompt::registry;
use tracemill_data::trace::{EpisodeRow, StepRow, read_episodes};
use tracemill_models::state::{LABELER, REFINER};

pub use asker::{Asked, Asker, Form, Question, text_of};
pub use contexts::{Refining, done, label, schema};
pub use settings::{AbstractSection, ImageRule, LessonsSection, QdrantSection, TokensSection};

use crate::progress;
use crate::run::{Draft, Report, Run, StageInput, StageSpec};
use crate::settings::Settings;
use crate::stage::export::traced_roots;
use screens::{Screens, Seen};

/// Episodes taken at a time; each holds two pictures.
const BATCH: usize = 32;

/// Abstracts the steps of a run.
///
/// # Errors
/// Missing traces, settings that cannot work, too many unusable pictures, a model that has to stop the stage.
pub fn run(settings: &Settings, run: &Run) -> Result<Report> {
    let section = &settings.abstraction;
    section.check()?;
    let prompts: BTreeMap<&str, String> = registry()
        .templates()
        .filter(|(name, _)| {
            name.starts_with("state-") && !name.contains("tracker") || *name == "format-correction"
        })
        .map(|(name, template)| (name, template.hash()))
        .collect();
    let spec = StageSpec {
        name: "abstract",
        folder: "states",
        settings: json!({ "abstract": section.identity(), "rules": [LABELER, REFINER], "prompts": prompts }),
        seed: settings.seed,
        inputs: vec![
            StageInput::FromStage("traces/episodes.parquet", "ingest"),
            StageInput::FromStage("traces/steps.parquet", "ingest"),
        ],
    };
    run.stage(&spec, |draft| abstract_run(section, run, draft))
}

/// The tables under way, and what is counted.
struct Writer {
    steps: TableWriter<StateStep>,
    contexts: TableWriter<StateContext>,
    states: TableWriter<StateText>,
    rejects: std::io::BufWriter<std::fs::File>,
    changes: BTreeMap<String, u64>,
    outcomes: BTreeMap<&'static str, u64>,
    labelers: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
    first_refused: Option<String>,
    pictures: u64,
}

fn abstract_run(section: &AbstractSection, run: &Run, draft: &mut Draft) -> Result<()> {
    let pictures = Pictures { roots: traced_roots(run)?, held: false, required: false };
    let crops = draft.path("crops");
    if section.crops {
        std::fs::create_dir(&crops)?;
    }
    let screens = Screens {
        pictures: &pictures,
        crops: section.crops.then(|| crops.clone()),
        margin_px: section.margin_px,
    };
    let mut asker = Asker::open(&section.endpoint, section.max_tokens, section.structured, section.max_calls)
        .context("abstract.endpoint")?;
    let mut writer = Writer::create(draft)?;
    let bar = progress::bar("abstract", "episodes", None);
    let mut shown = page::Sample::new(section.page_steps);
    let mut episodes = read_episodes(&run.path("traces"))?;
    loop {
        let batch = episodes.by_ref().take(BATCH).collect::<Result<Vec<_>, _>>()?;
        if batch.is_empty() {
            break;
        }
        let mut seen: Vec<Seen> = batch
            .par_iter()
            .map(|(episode, steps)| screens.episode(episode, steps))
            .collect::<Result<_>>()?;
        if let Some(asker) = &mut asker {
            model::label_steps(asker, &batch, &mut seen, &crops)?;
        }
        let mut refining: Vec<Refining<'_>> = batch
            .iter()
            .zip(&seen)
            .map(|((episode, steps), seen)| Refining::new(episode, steps, &seen.steps, section.refine))
            .collect();
        contexts::refine_all(&mut refining, asker.as_mut())?;
        for (refined, ((_, steps), seen)) in refining.iter().zip(batch.iter().zip(&seen)) {
            shown.see(steps, &seen.steps);
            writer.write(refined, seen)?;
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    writer.finish(draft, section.max_rejects)?;
    if let Some(asker) = asker {
        draft.count("model", serde_json::to_value(&asker.counts)?);
    }
    if section.crops {
        draft.count("crops", std::fs::read_dir(&crops)?.count());
    }
    if section.page_steps > 0 {
        std::fs::write(draft.path("page.html"), page::render(shown, &pictures)?)?;
    }
    Ok(())
}

impl Writer {
    fn create(draft: &Draft) -> Result<Self> {
        Ok(Self {
            steps: TableWriter::create(&draft.path("steps.parquet"))?,
            contexts: TableWriter::create(&draft.path("contexts.parquet"))?,
            states: TableWriter::create(&draft.path("states.parquet"))?,
            rejects: std::io::BufWriter::new(std::fs::File::create(draft.path("rejects.jsonl"))?),
            changes: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            labelers: BTreeMap::new(),
            refused: BTreeMap::new(),
            first_refused: None,
            pictures: 0,
        })
    }

    fn write(&mut self, refined: &Refining<'_>, seen: &Seen) -> Result<()> {
        for step in &seen.steps {
            *self.changes.entry(step.change.clone()).or_default() += 1;
            *self.outcomes.entry(step.outcome.name()).or_default() += 1;
            *self.labelers.entry(step.labeler.clone()).or_default() += 1;
        }
        for context in &refined.contexts {
            *self.labelers.entry(context.labeler.clone()).or_default() += 1;
        }
        for reject in &seen.rejects {
            *self.refused.entry(reject.kind.clone()).or_default() += 1;
            let told =
                || format!("{} ({} {}): {}", reject.file, reject.episode_id, reject.key, reject.reason);
            self.first_refused.get_or_insert_with(told);
            serde_json::to_writer(&mut self.rejects, reject)?;
            self.rejects.write_all(b"\n")?;
        }
        self.pictures += seen.pictures;
        self.steps.write(&seen.steps)?;
        self.contexts.write(&refined.contexts)?;
        Ok(self.states.write(&refined.states)?)
    }

    fn finish(mut self, draft: &mut Draft, max_rejects: f64) -> Result<()> {
        self.rejects.flush()?;
        draft.count("steps", self.steps.finish()?);
        draft.count("contexts", self.contexts.finish()?);
        draft.count("states", self.states.finish()?);
        draft.count("changes", json!(self.changes));
        draft.count("outcomes", json!(self.outcomes));
        draft.count("labelers", json!(self.labelers));
        draft.count("pictures", self.pictures);
        draft.count("rejects", json!(self.refused));
        let refused: u64 = self.refused.values().sum();
        if let Some(first) = self.first_refused {
            log::warn!("{refused} of {} pictures cannot be used; the first: {first}", self.pictures);
            let share = refused as f64 / self.pictures.max(1) as f64;
            if share > max_rejects {
                bail!(
                    "{refused} of {} pictures cannot be used, more than --max-rejects {max_rejects} allows; the first: {first}",
                    self.pictures
                );
            }
        }
        Ok(())
    }
}

/// States of a run by episode and step, with who made them; see [`StateText`].
pub type States = BTreeMap<(String, u32), (String, String)>;

/// Reads `R/states/states.parquet`.
///
/// # Errors
/// Says which command writes it when it is not there.
pub fn states(run: &Run) -> Result<States> {
    let path = run.require("states/states.parquet", "abstract")?;
    let mut states = States::new();
    for batch in read_batches::<StateText>(&path)? {
        states.extend(batch?.into_iter().map(|s| ((s.episode_id, s.step), (s.text, s.labeler))));
    }
    Ok(states)
}

/// The rows of `R/states/steps.parquet`, episode by episode, beside their traces.
pub type Abstracted = (EpisodeRow, Vec<StepRow>, Vec<StateStep>);

/// Episodes with their abstracted steps, in the order of the traces.
///
/// # Errors
/// Missing states, and states of other traces.
pub fn abstracted(run: &Run) -> Result<impl Iterator<Item = Result<Abstracted>>> {
    let path = run.require("states/steps.parquet", "abstract")?;
    let mut rows = read_batches::<StateStep>(&path)?;
    let mut ready: std::collections::VecDeque<StateStep> = std::collections::VecDeque::new();
    Ok(read_episodes(&run.path("traces"))?.map(move |episode| {
        let (episode, mut steps) = episode?;
        while ready.len() < steps.len() {
            match rows.next() {
                Some(batch) => ready.extend(batch?),
                None => break,
            }
        }
        let states: Vec<StateStep> = ready.drain(..steps.len().min(ready.len())).collect();
        let fits = states.len() == steps.len()
            && states.iter().zip(&steps).all(|(a, b)| (&a.episode_id, a.step) == (&b.episode_id, b.step));
        if !fits {
            bail!(
                "states/steps.parquet does not belong to these traces ({}): run `tracemill abstract` again",
                episode.episode_id
            );
        }
        // Where the source says no size, the picture's is known by now.
        for (step, state) in steps.iter_mut().zip(&states).filter(|(step, _)| step.screen_width_px.is_none())
        {
            (step.screen_width_px, step.screen_height_px) = (state.width_px, state.height_px);
        }
        Ok((episode, steps, states))
    }))
}
