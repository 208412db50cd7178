//! `embed`: the views of the units → `R/embeddings/<view>.parquet`.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::json;
use tracemill_data::parquet_io::{VectorWriter, read_batches};
use tracemill_data::views::{Unit, View};
use tracemill_models::embed::{BertEmbedder, BertSettings, CacheMap, Embedder, HashEmbedder, HashSettings};

use crate::chat::OpenAiEmbedder;
use crate::progress;
use crate::run::{Draft, Report, Run, StageInput, StageSpec, write_atomically};
use crate::settings::{EmbedSection, Settings, cache_dir, device};

/// Texts embedded between two updates of the progress bar.
const CHUNK_TEXTS: usize = 1_024;
/// Vectors held before they are written.
const CHUNK_ROWS: usize = 16_384;

/// Embeds the views that units have: E, the middle one (A or K) and D. Empty views have no row.
///
/// # Errors
/// When `R/units` is missing, or the embedder cannot be loaded.
pub fn run(settings: &Settings, run: &Run) -> Result<Report> {
    let embedder = open(&settings.embed, &settings.encode.device)?;
    let spec = StageSpec {
        name: "embed",
        folder: "embeddings",
        settings: json!({ "embed": settings.embed, "embedder": embedder.name() }),
        seed: settings.seed,
        inputs: vec![StageInput::FromStage("units/units.parquet", "label")],
    };
    run.stage(&spec, |draft| embed(settings, run, embedder.as_ref(), draft))
}

/// The embedder that the settings name.
///
/// # Errors
/// An unknown name, or a folder without weights: says how to get them.
pub fn open(section: &EmbedSection, device_name: &str) -> Result<Box<dyn Embedder>> {
    match section.model.as_str() {
        "hash" => Ok(Box::new(HashEmbedder::new(HashSettings { dim: section.dim })?)),
        "minilm" => {
            let folder = match &section.model_dir {
                Some(folder) => folder.clone(),
                None => cache_dir()
                    .context("no cache folder: set embed.model_dir")?
                    .join("models/all-MiniLM-L6-v2"),
            };
            let settings = BertSettings { max_tokens: section.max_tokens };
            Ok(Box::new(BertEmbedder::load(&folder, settings, &device(device_name)?)?))
        }
        "openai" => Ok(Box::new(OpenAiEmbedder::open(&section.openai).context("embed.openai")?)),
        other => bail!("unknown embedder `{other}`; known: hash, minilm, openai"),
    }
}

/// The texts of one view: the distinct ones, and which of them each unit has.
#[derive(Default)]
struct ViewTexts {
    distinct: Vec<String>,
    by_text: HashMap<String, usize>,
    unit_ids: Vec<String>,
    rows: Vec<usize>,
}

impl ViewTexts {
    fn push(&mut self, unit_id: &str, text: &str) {
        let next = self.distinct.len();
        let row = *self.by_text.entry(text.to_owned()).or_insert(next);
        if row == next {
            self.distinct.push(text.to_owned());
        }
        self.unit_ids.push(unit_id.to_owned());
        self.rows.push(row);
    }
}

fn embed(settings: &Settings, run: &Run, embedder: &dyn Embedder, draft: &mut Draft) -> Result<()> {
    let mut texts: [ViewTexts; 4] = Default::default();
    for batch in read_batches::<Unit>(&run.path("units/units.parquet"))? {
        for unit in batch? {
            for view in [View::Env, unit.middle(), View::Description] {
                if !unit.text(view).is_empty() {
                    texts[view as usize].push(&unit.unit_id, unit.text(view));
                }
            }
        }
    }
    let cache_file = if settings.embed.cache { cache_file(embedder) } else { None };
    let mut cache = load_cache(cache_file.as_ref(), embedder)?;
    let total: usize = texts.iter().map(|t| t.distinct.len()).sum();
    let bar = progress::bar("embed", "distinct texts", Some(total as u64));
    for (view, texts) in View::ALL.into_iter().zip(&texts) {
        let mut vectors = Vec::with_capacity(texts.distinct.len() * embedder.dim());
        for chunk in sorted_chunks(&texts.distinct) {
            let refs: Vec<&str> = chunk.iter().map(|&i| texts.distinct[i].as_str()).collect();
            let rows = cache.embed(embedder, &refs)?;
            scatter(&mut vectors, &chunk, &rows, embedder.dim(), texts.distinct.len());
            bar.inc(chunk.len() as u64);
        }
        write_view(draft, view, texts, &vectors, embedder.dim())?;
        draft.count(view.name(), texts.rows.len());
    }
    bar.finish_and_clear();
    draft.count("distinct_texts", total);
    draft.count("embedder", embedder.name());
    if let Some(path) = cache_file {
        let mut bytes = Vec::new();
        cache.store(&mut bytes)?;
        write_atomically(&path, &bytes)?;
    }
    Ok(())
}

/// Indices of the texts in chunks of similar length, so that a batch holds little padding.
fn sorted_chunks(texts: &[String]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by(|&a, &b| texts[a].len().cmp(&texts[b].len()).then_with(|| texts[a].cmp(&texts[b])));
    order.chunks(CHUNK_TEXTS).map(<[usize]>::to_vec).collect()
}

fn scatter(out: &mut Vec<f32>, places: &[usize], rows: &[f32], dim: usize, total: usize) {
    out.resize(total * dim, 0.0);
    for (row, &place) in rows.chunks_exact(dim).zip(places) {
        out[place * dim..(place + 1) * dim].copy_from_slice(row);
    }
}

fn write_view(draft: &Draft, view: View, texts: &ViewTexts, vectors: &[f32], dim: usize) -> Result<()> {
    let path = draft.path(&format!("{}.parquet", view.name()));
    let mut writer = VectorWriter::create(&path, "unit_id", dim)?;
    for (ids, rows) in texts.unit_ids.chunks(CHUNK_ROWS).zip(texts.rows.chunks(CHUNK_ROWS)) {
        let data: Vec<f32> =
            rows.iter().flat_map(|&row| &vectors[row * dim..(row + 1) * dim]).copied().collect();
        writer.write(ids, &data)?;
    }
    writer.finish()?;
    Ok(())
}

fn cache_file(embedder: &dyn Embedder) -> Option<PathBuf> {
    let name = blake3::hash(embedder.name().as_bytes()).to_hex();
    let folder = cache_dir()?.join("embeddings");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join(format!("{}.bin", &name[..16])))
}

/// The cache file's content. A damaged cache is worth a warning, not a failure: it is only lost
/// time.
fn load_cache(path: Option<&PathBuf>, embedder: &dyn Embedder) -> Result<CacheMap> {
    let Some(file) = path.and_then(|p| File::open(p).ok()) else { return Ok(CacheMap::new(embedder)) };
    CacheMap::load(file, embedder).or_else(|error| {
        log::warn!("embedding cache: {error}; starting a new one");
        Ok(CacheMap::new(embedder))
    })
}
