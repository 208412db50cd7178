//! `encode`: trains the multi-view encoder → `R/encoder/`, and writes every unit's latents there.

use std::fs::OpenOptions;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tracemill_data::parquet_io::{Vectors, write_vectors};
use tracemill_models::multiview::{Checkpoint, Encoder, EncoderConfig, EpochMetrics, TrainConfig, train};

use crate::progress;
use crate::run::{Draft, Report, Run, StageSpec, write_atomically, write_json};
use crate::settings::{Settings, device};
use crate::tensorboard::EventWriter;
use crate::unit_views::{INPUTS, UnitViews, encode};

/// Epochs between two checkpoints of a run that may be killed.
const CHECKPOINT_EVERY: usize = 5;

/// Trains the encoder and encodes every unit.
///
/// # Errors
/// When units or embeddings are missing, or training meets a gradient that is not finite.
pub fn run(settings: &Settings, run: &Run) -> Result<Report> {
    let spec = StageSpec {
        name: "encode",
        folder: "encoder",
        settings: json!({ "encode": settings.encode }),
        seed: settings.seed,
        inputs: Vec::from(INPUTS),
    };
    run.stage(&spec, |draft| train_and_encode(settings, run, draft))
}

fn train_and_encode(settings: &Settings, run: &Run, draft: &mut Draft) -> Result<()> {
    let device = device(&settings.encode.device)?;
    let views = UnitViews::load(run)?;
    let model = EncoderConfig { dim_in: views.dim, ..settings.encode.model.clone() };
    let config = TrainConfig { seed: settings.seed, ..settings.encode.train.clone() };
    let data = views.train_data(&device)?;

    let mut log = EpochLog::open(draft)?;
    let resumed = log.resume(&device)?;
    let bar = progress::bar("encode", "epochs", Some(config.epochs as u64));
    bar.set_position(resumed.as_ref().map_or(0, |c| c.epoch as u64));
    let mut failure = None;
    let outcome = train(&data, &model, &config, resumed, &mut |metrics, checkpoint| {
        bar.inc(1);
        match log.epoch(metrics, checkpoint) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    bar.finish_and_clear();
    if let Some(error) = failure {
        return Err(error);
    }
    log.finish(draft)?;
    write_encoder(draft, &outcome.encoder)?;
    let latents = encode(&outcome.encoder, &data.units)?;
    for (name, values) in [("latents", latents.fused), ("subgroup_latents", latents.subgroup)] {
        let vectors = Vectors { ids: views.unit_ids.clone(), dim: latents.dim, data: values };
        write_vectors(&draft.path(&format!("{name}.parquet")), "unit_id", &vectors)?;
    }
    let best = outcome.checkpoint.best.as_ref();
    draft.count("epochs", outcome.checkpoint.epoch);
    draft.count("best_epoch", best.map_or(0, |b| b.epoch));
    draft.count("best_loss", best.map_or(Value::Null, |b| json!(b.loss)));
    draft.count("best_retrieval", best.map_or(Value::Null, |b| json!(b.retrieval)));
    draft.count("trained_units", outcome.trained_units);
    draft.count("held_out_units", outcome.held_out_units);
    draft.count("units", views.len());
    draft.count("units_without_views", views.without_views);
    Ok(())
}

fn write_encoder(draft: &Draft, encoder: &Encoder) -> Result<()> {
    std::fs::write(draft.path("model.safetensors"), encoder.to_safetensors()?)?;
    write_json(&draft.path("config.json"), encoder.config())
}

/// Loads the encoder of a run.
///
/// # Errors
/// When the run has none.
pub fn load(run: &Run, device_name: &str) -> Result<Encoder> {
    let path = run.require("encoder/model.safetensors", "encode")?;
    let bytes = std::fs::read(&path).with_context(|| format!("{}", path.display()))?;
    Encoder::from_safetensors(&bytes, &device(device_name)?).with_context(|| format!("{}", path.display()))
}

/// The metrics of each epoch, and a checkpoint every few: both lie in the stage's work folder
/// until it is done, so that a killed run goes on where it was.
struct EpochLog {
    work: std::path::PathBuf,
    lines: Vec<String>,
    board: EventWriter,
}

impl EpochLog {
    fn open(draft: &Draft) -> Result<Self> {
        let work = draft.work_dir().to_owned();
        Ok(Self { board: EventWriter::create(&draft.path(""))?, work, lines: Vec::new() })
    }

    /// The last checkpoint, with the metrics up to it read back.
    fn resume(&mut self, device: &candle_core::Device) -> Result<Option<Checkpoint>> {
        let Ok(bytes) = std::fs::read(self.work.join("checkpoint.safetensors")) else { return Ok(None) };
        let checkpoint = Checkpoint::from_safetensors(&bytes, device)?;
        let metrics = std::fs::read_to_string(self.work.join("metrics.jsonl")).unwrap_or_default();
        for line in metrics.lines().take(checkpoint.epoch) {
            let row: Value = serde_json::from_str(line)?;
            self.plot(&row)?;
            self.lines.push(line.to_owned());
        }
        log::info!("encode: goes on after epoch {}", checkpoint.epoch);
        Ok(Some(checkpoint))
    }

    fn epoch(&mut self, metrics: &EpochMetrics, checkpoint: &Checkpoint) -> Result<()> {
        let row = metrics_row(metrics);
        self.plot(&row)?;
        let line = row.to_string();
        append(&self.work.join("metrics.jsonl"), &line)?;
        self.lines.push(line);
        if metrics.epoch.is_multiple_of(CHECKPOINT_EVERY) {
            let path = self.work.join("checkpoint.safetensors");
            write_atomically(&path, &checkpoint.to_safetensors()?)?;
            // Lines after the checkpoint would be written twice by a resumed run.
            write_atomically(&self.work.join("metrics.jsonl"), (self.lines.join("\n") + "\n").as_bytes())?;
        }
        Ok(())
    }

    fn plot(&mut self, row: &Value) -> Result<()> {
        let names = [
            "train_total",
            "held_out_total",
            "held_out_retrieval",
            "train_contrastive",
            "train_prediction",
            "train_reconstruction",
        ];
        let values: Vec<(&str, f64)> =
            names.iter().filter_map(|name| Some((*name, row[*name].as_f64()?))).collect();
        self.board.scalars(row["epoch"].as_u64().unwrap_or_default(), &values)
    }

    fn finish(self, draft: &Draft) -> Result<()> {
        let lines = self.lines.iter().fold(String::new(), |text, line| text + line + "\n");
        std::fs::write(draft.path("metrics.jsonl"), lines).context("metrics.jsonl")
    }
}

fn append(path: &Path, line: &str) -> Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{line}").with_context(|| format!("{}", path.display()))
}

/// One flat line of `metrics.jsonl`.
fn metrics_row(metrics: &EpochMetrics) -> Value {
    let mut row = serde_json::Map::new();
    row.insert("epoch".into(), json!(metrics.epoch));
    row.insert("steps".into(), json!(metrics.steps));
    let terms = [("train", Some(&metrics.train)), ("held_out", metrics.held_out.as_ref())];
    for (part, terms) in terms.into_iter().filter_map(|(part, terms)| Some((part, terms?))) {
        row.insert(format!("{part}_total"), json!(terms.total));
        row.insert(format!("{part}_contrastive"), json!(terms.contrastive));
        row.insert(format!("{part}_prediction"), json!(terms.prediction));
        row.insert(format!("{part}_reconstruction"), json!(terms.reconstruction));
    }
    row.insert("held_out_retrieval".into(), json!(metrics.held_out_retrieval));
    row.insert("grad_norm".into(), json!(metrics.grad_norm));
    row.insert("best_epoch".into(), json!(metrics.best_epoch));
    Value::Object(row)
}
