//! `observe`: the screens of `R/traces` that have elements, as the compact text that prompts are built from, in
//! `R/observations/observations.parquet`.

use anyhow::{Context, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracemill_data::a11y::{AuditRow, Compressor, Rules, Tree, linear};
use tracemill_data::parquet_io::{TableWriter, read_batches};
use tracemill_data::trace::{EpisodeRow, StepRow, read_episodes};

use crate::progress;
use crate::run::{Draft, Report, Run, StageInput, StageSpec};
use crate::settings::Settings;
use crate::tokens::Counter;

/// Episodes rendered in parallel before they are written.
const BATCH_EPISODES: usize = 256;

/// A row of `observations.parquet`: what a model is shown of a step's screen. Steps without elements have none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The episode.
    pub episode_id: String,
    /// The step that acted on the screen.
    pub step: u32,
    /// The application as the source calls it; empty where it does not.
    pub application: String,
    /// Key of the application whose rules were followed: `calc`, or `generic`.
    pub app: String,
    /// How a modal was found: `declared`, `temporal`, `persistent` or `keyword`.
    pub modal: Option<String>,
    /// The compressed screen.
    pub compressed: String,
    /// The same screen in `OSWorld`'s linear form.
    pub linear: String,
    /// Elements of the screen.
    pub elements: u32,
    /// The elements that the compressed screen says.
    pub said: Vec<Said>,
    /// Tokens of the compressed screen.
    pub compressed_tokens: u32,
    /// Tokens of the linear form.
    pub linear_tokens: u32,
}

/// An element as a compressed screen says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// The source's id.
    pub id: String,
    /// Its role in the words of the text.
    pub role: String,
    /// What the text says of it.
    pub text: String,
    /// Ids of the elements that were merged into it.
    pub merged: Vec<String>,
}

/// Renders the screens of a run.
///
/// # Errors
/// Rules or a tokenizer that cannot be used, and missing traces.
pub fn run(settings: &Settings, run: &Run) -> Result<Report> {
    let section = &settings.observe;
    let rules = match &section.rules {
        Some(folder) => Rules::builtin().with_folder(folder).context("observe.rules")?,
        None => Rules::builtin(),
    };
    let spec = StageSpec {
        name: "observe",
        folder: "observations",
        // The rules themselves: a folder of the user's may change under its name.
        settings: json!({ "observe": section, "rules": rules }),
        seed: settings.seed,
        inputs: vec![
            StageInput::FromStage("traces/episodes.parquet", "ingest"),
            StageInput::FromStage("traces/steps.parquet", "ingest"),
        ],
    };
    let compressor = Compressor::new(rules, section.phases);
    let counter = Counter::named(&section.tokens).context("observe.tokens")?;
    run.stage(&spec, |draft| observe(settings, (&compressor, &counter), run, draft))
}

fn observe(settings: &Settings, tools: (&Compressor, &Counter), run: &Run, draft: &mut Draft) -> Result<()> {
    let mut writer = TableWriter::<Observation>::create(&draft.path("observations.parquet"))?;
    let audit = || TableWriter::<AuditRow>::create(&draft.path("audit.parquet"));
    let mut audit = settings.observe.audit.then(audit).transpose()?;
    let bar = progress::bar("observe", "episodes", None);
    let (mut steps, mut tokens) = (0, [0_u64; 2]);
    let mut episodes = read_episodes(&run.path("traces"))?;
    loop {
        let batch = episodes.by_ref().take(BATCH_EPISODES).collect::<Result<Vec<_>, _>>()?;
        if batch.is_empty() {
            break;
        }
        let keep = audit.is_some();
        let done: Vec<(Vec<Observation>, Vec<AuditRow>)> =
            batch.par_iter().map(|(episode, steps)| episode_of(tools, episode, steps, keep)).collect();
        for ((rows, audited), (_, all)) in done.into_iter().zip(&batch) {
            steps += all.len() as u64;
            for row in &rows {
                tokens =
                    [tokens[0] + u64::from(row.linear_tokens), tokens[1] + u64::from(row.compressed_tokens)];
            }
            writer.write(&rows)?;
            if let Some(audit) = &mut audit {
                audit.write(&audited)?;
            }
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    let rows = writer.finish()?;
    audit.map(TableWriter::finish).transpose()?;
    draft.count("screens", rows);
    draft.count("steps_without_elements", steps - rows);
    draft.count("linear_tokens", tokens[0]);
    draft.count("compressed_tokens", tokens[1]);
    Ok(())
}

/// The screens of an episode, each compared with the one before.
fn episode_of(
    (compressor, counter): (&Compressor, &Counter),
    episode: &EpisodeRow,
    steps: &[StepRow],
    keep: bool,
) -> (Vec<Observation>, Vec<AuditRow>) {
    let (mut rows, mut audited, mut before) = (Vec::new(), Vec::new(), None);
    for step in steps.iter().filter(|step| !step.elements.is_empty()) {
        let mut tree = Tree::from(&step.screen());
        tree.applications.extend(step.app.iter().chain(&step.window).cloned());
        let compressed = compressor.compress(&tree, before.as_ref(), &episode.instruction);
        if keep {
            let name = format!("{}#{}", step.episode_id, step.step);
            audited.extend(compressed.audit(&name, &tree));
        }
        let linear = linear::write(&tree.nodes);
        let id = |element: &u32| tree.nodes[*element as usize].id.clone();
        let said = compressor.said(&compressed, &tree, &episode.instruction);
        rows.push(Observation {
            episode_id: step.episode_id.clone(),
            step: step.step,
            application: step.app.clone().unwrap_or_else(|| episode.app.clone()),
            app: compressed.app,
            modal: compressed.modal.map(|found| found.name().to_owned()),
            elements: tree.nodes.len() as u32,
            compressed_tokens: counter.count(&compressed.text) as u32,
            linear_tokens: counter.count(&linear) as u32,
            compressed: compressed.text,
            linear,
            said: { said.into_iter() }
                .map(|s| Said {
                    id: id(&s.element),
                    role: s.role,
                    text: s.text,
                    merged: s.merged.iter().map(id).collect(),
                })
                .collect(),
        });
        before = Some(compressed.seen);
    }
    (rows, audited)
}

/// What prompts show of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Shown {
    /// The screenshot, and elements where there is none.
    Screenshot,
    /// Elements one by one, with the numbers that they are answered by.
    Elements,
    /// The compressed screen of `R/observations`.
    Compressed,
    /// The linear form of `R/observations`.
    Linear,
}

/// Hands over the rows of `R/observations`, one by one.
///
/// # Errors
/// Missing observations, with the stage that makes them.
pub fn observations(run: &Run, mut take: impl FnMut(Observation)) -> Result<()> {
    let path = run.require("observations/observations.parquet", "observe")?;
    for batch in read_batches::<Observation>(&path)? {
        batch?.into_iter().for_each(&mut take);
    }
    Ok(())
}
