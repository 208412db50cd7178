//! `label`: traces → `R/units/units.parquet`, intent units with their views.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use rayon::prelude::*;
use serde_json::json;
use tracemill_data::parquet_io::TableWriter;
use tracemill_data::trace::{EpisodeRow, StepRow, read_episodes};
use tracemill_data::views::{LABELER_VERSION, Labeler, RuleLabeler, Unit, UnitKind, View, segment};

use crate::progress;
use crate::run::{Draft, Report, Run, StageInput, StageSpec};
use crate::settings::Settings;

/// Episodes labelled in parallel before their units are written.
const BATCH_EPISODES: usize = 2_048;

/// Cuts episodes into units and writes their views.
///
/// # Errors
/// When `R/traces` is missing or damaged.
pub fn run(settings: &Settings, run: &Run) -> Result<Report> {
    if settings.label.max_steps == 0 {
        bail!("label.max_steps is 0: a unit has at least one step");
    }
    let spec = StageSpec {
        name: "label",
        folder: "units",
        settings: json!({ "label": settings.label, "labeler": LABELER_VERSION }),
        seed: settings.seed,
        inputs: vec![
            StageInput::FromStage("traces/episodes.parquet", "ingest"),
            StageInput::FromStage("traces/steps.parquet", "ingest"),
        ],
    };
    run.stage(&spec, |draft| label(settings, run, draft))
}

fn label(settings: &Settings, run: &Run, draft: &mut Draft) -> Result<()> {
    let mut writer = TableWriter::create(&draft.path("units.parquet"))?;
    let mut tally = Tally::default();
    let bar = progress::bar("label", "episodes", None);
    let mut episodes = read_episodes(&run.path("traces"))?;
    loop {
        let batch = episodes.by_ref().take(BATCH_EPISODES).collect::<Result<Vec<_>, _>>()?;
        if batch.is_empty() {
            break;
        }
        let units: Vec<Vec<Unit>> =
            batch.par_iter().map(|(episode, steps)| label_episode(settings, episode, steps)).collect();
        let units: Vec<Unit> = units.into_iter().flatten().collect();
        units.iter().for_each(|unit| tally.add(unit));
        bar.inc(batch.len() as u64);
        writer.write(&units)?;
    }
    bar.finish_and_clear();
    draft.count("units", writer.finish()?);
    draft.count("control", tally.control);
    draft.count("browse", tally.browse);
    draft.count("boundaries", json!(tally.boundaries));
    draft.count("empty_views", json!(tally.empty_views));
    Ok(())
}

fn label_episode(settings: &Settings, episode: &EpisodeRow, steps: &[StepRow]) -> Vec<Unit> {
    let spans = segment(episode, steps, &settings.label);
    RuleLabeler.label(episode, steps, &spans)
}

/// Counts for the manifest: by kind, by the rule that cut, and of views left empty in a slot.
#[derive(Default)]
struct Tally {
    control: u64,
    browse: u64,
    boundaries: BTreeMap<String, u64>,
    empty_views: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn add(&mut self, unit: &Unit) {
        match unit.kind {
            UnitKind::Control => self.control += 1,
            UnitKind::Browse => self.browse += 1,
        }
        *self.boundaries.entry(unit.boundary.clone()).or_default() += 1;
        for view in [View::Env, unit.middle(), View::Description] {
            if unit.text(view).is_empty() {
                *self.empty_views.entry(view.name()).or_default() += 1;
            }
        }
    }
}
