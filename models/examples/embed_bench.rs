//! Measures the embedders and the unit index: `embed_bench embed [MODEL_FOLDER]` or `embed_bench index [UNITS]`.
//!
//! One line for each figure, tab-separated. `RAYON_NUM_THREADS` is honoured.
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use candle_core::Device;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracemill_models::embed::{BertEmbedder, BertSettings, Embedder, HashEmbedder, HashSettings};
use tracemill_models::memory::{IndexSettings, UnitIndex};

/// Width of the paper's latents.
const DIM: usize = 256;
const QUERIES: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["embed"] => embed(None),
        ["embed", folder] => embed(Some(Path::new(folder))),
        ["index"] => index(100_000),
        ["index", units] => index(units.parse()?),
        _ => Err("usage: embed_bench embed [MODEL_FOLDER] | index [UNITS]".into()),
    }
}

/// Distinct descriptions of 4 to 40 words, as views of units are.
fn descriptions(count: usize) -> Vec<String> {
    const WORDS: [&str; 16] = [
        "open", "the", "settings", "page", "and", "search", "for", "a", "recipe", "in", "browser", "then",
        "save", "it", "to", "notes",
    ];
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut text = |_| -> String {
        let words = rng.random_range(4..=40);
        (0..words).map(|_| WORDS[rng.random_range(0..WORDS.len())]).collect::<Vec<_>>().join(" ")
    };
    (0..count).map(&mut text).collect()
}

fn embed(folder: Option<&Path>) -> Result<(), Box<dyn Error>> {
    measure(&HashEmbedder::new(HashSettings::default())?, 20_000)?;
    if let Some(folder) = folder {
        measure(&BertEmbedder::load(folder, BertSettings::default(), &Device::Cpu)?, 500)?;
    }
    Ok(())
}

fn measure(embedder: &dyn Embedder, count: usize) -> Result<(), Box<dyn Error>> {
    let texts = descriptions(count);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    embedder.embed(&texts[..32])?;
    let start = Instant::now();
    let vectors = embedder.embed(&texts)?;
    let secs = start.elapsed().as_secs_f64();
    let checksum: f64 = vectors.iter().map(|x| f64::from(*x)).sum();
    println!("{}\t{:.0} texts/s\t{secs:.2} s\tchecksum {checksum:.9}", embedder.name(), count as f64 / secs);
    Ok(())
}

/// Unit vectors around one centre for every 50, spread so that neighbours of a cluster overlap.
fn clustered(count: usize, seed: u64) -> Vec<f32> {
    let mut centres = ChaCha8Rng::seed_from_u64(7);
    let clusters = 2000;
    let centres: Vec<f32> = (0..clusters * DIM).map(|_| centres.random_range(-1.0..1.0)).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut rows = Vec::with_capacity(count * DIM);
    for _ in 0..count {
        let centre = rng.random_range(0..clusters) * DIM;
        let row: Vec<f32> =
            centres[centre..centre + DIM].iter().map(|c| c + rng.random_range(-1.0f32..1.0)).collect();
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        rows.extend(row.iter().map(|x| x / norm));
    }
    rows
}

fn index(units: usize) -> Result<(), Box<dyn Error>> {
    let rows = clustered(units, 1);
    let queries = clustered(QUERIES, 2);
    let queries: Vec<&[f32]> = queries.chunks_exact(DIM).collect();
    println!("vectors\t{units} x {DIM}\t{} MB", rows.len() * 4 / 1_000_000);
    let resident = resident_mb();
    let start = Instant::now();
    let index = UnitIndex::build(rows, DIM, IndexSettings { exact_below: 0, ..IndexSettings::default() })?;
    println!("build\t{:.1} s\tresident {resident} -> {} MB", start.elapsed().as_secs_f64(), resident_mb());
    let start = Instant::now();
    for query in &queries {
        index.exact_top_k(query, 10)?;
    }
    println!("exact query\t{:.3} ms", start.elapsed().as_secs_f64() * 1e3 / QUERIES as f64);
    let start = Instant::now();
    for query in &queries {
        index.top_k(query, 10)?;
    }
    println!("graph query\t{:.3} ms", start.elapsed().as_secs_f64() * 1e3 / QUERIES as f64);
    for k in [1, 10] {
        println!("recall\t{:?}", index.recall_at_k(&queries.concat(), k)?);
    }
    Ok(())
}

/// Resident memory of this process, 0 where the system does not say.
fn resident_mb() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or(0) / 1000
}
