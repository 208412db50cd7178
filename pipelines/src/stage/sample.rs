//! `sample`: the generated corpus, into the run folder or any other.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::json;
use tracemill_data::sim::{Devices, SampleSettings, generate};

use crate::progress;
use crate::run::{Report, Run, StageSpec};
use crate::settings::Settings;
use crate::table;

fn sim_settings(settings: &Settings) -> Result<SampleSettings> {
    let (phone, desktop) = match settings.sample.format.as_str() {
        "all" => (true, true),
        "gui-odyssey" => (true, false),
        "ui-log" => (false, true),
        other => bail!("sample.format: unknown `{other}`; known: gui-odyssey, ui-log, all"),
    };
    Ok(SampleSettings {
        episodes: settings.sample.episodes,
        seed: settings.seed,
        formats: Devices { phone, desktop },
        screens: settings.sample.screens,
    })
}

/// Generates the corpus into `R/sample`.
///
/// # Errors
/// An unknown format, or a folder that cannot be written.
pub fn run(settings: &Settings, run: &Run) -> Result<Report> {
    let sim = sim_settings(settings)?;
    let spec = StageSpec {
        name: "sample",
        folder: "sample",
        settings: json!(settings.sample),
        seed: settings.seed,
        inputs: Vec::new(),
    };
    run.stage(&spec, |draft| {
        let bar = progress::bar("sample", "episodes", Some(sim.episodes));
        let report = generate(&draft.path(""), &sim, &|n| bar.inc(n))?;
        bar.finish_and_clear();
        draft.count("episodes", report.episodes);
        draft.count("steps", report.steps);
        draft.count("noisy_episodes", report.noisy_episodes);
        Ok(())
    })
}

/// Generates the corpus into any folder, which must be empty or absent.
///
/// # Errors
/// A folder that holds something, or cannot be written.
pub fn standalone(settings: &Settings, out: &Path) -> Result<()> {
    if out.exists() && std::fs::read_dir(out).with_context(|| format!("{}", out.display()))?.next().is_some()
    {
        bail!("{} is not empty: give a new folder", out.display());
    }
    let sim = sim_settings(settings)?;
    std::fs::create_dir_all(out).with_context(|| format!("{}", out.display()))?;
    let bar = progress::bar("sample", "episodes", Some(sim.episodes));
    let report = generate(out, &sim, &|n| bar.inc(n))?;
    bar.finish_and_clear();
    table::print(&format!(
        "{} episodes, {} steps, {} episodes with noise (synthetic) in {}",
        report.episodes,
        report.steps,
        report.noisy_episodes,
        out.display()
    ));
    Ok(())
}
