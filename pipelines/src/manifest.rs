//! Manifests: what made a folder, and the hash of everything in it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A file's place and content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHash {
    /// Path: relative to the run folder for files inside it, else as the settings give it.
    pub path: String,
    /// BLAKE3 of the content.
    pub blake3: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// `manifest.json` of a stage's folder. Written last: its existence means that the stage is
/// complete. Holds no time and no machine name, so that equal runs give equal bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The stage's name.
    pub stage: String,
    /// Program and version.
    pub tool: String,
    /// The resolved settings that the stage depends on.
    pub settings: Value,
    /// Seed of everything random in it.
    pub seed: u64,
    /// What it read.
    pub inputs: Vec<FileHash>,
    /// What it wrote, but for `manifest.json` and `timing.json`.
    pub outputs: Vec<FileHash>,
    /// Row counts and other figures.
    pub counts: BTreeMap<String, Value>,
}

/// This program and its version.
pub fn tool() -> String {
    format!("tracemill {}", env!("CARGO_PKG_VERSION"))
}

/// Files that are neither hashed nor compared: times, logs and `TensorBoard` events.
fn is_volatile(name: &str) -> bool {
    name == "manifest.json" || name == "timing.json" || name.contains("tfevents")
}

/// Hashes one file, read in blocks.
///
/// # Errors
/// Names the file.
pub fn hash_file(path: &Path, shown: String) -> Result<FileHash> {
    let mut hasher = blake3::Hasher::new();
    let mut file = std::fs::File::open(path).with_context(|| format!("{}", path.display()))?;
    let bytes = std::io::copy(&mut file, &mut hasher).with_context(|| format!("{}", path.display()))?;
    Ok(FileHash { path: shown, blake3: hasher.finalize().to_hex().to_string(), bytes })
}

/// Hashes every file below `folder` that is not volatile, sorted by path; `prefix` is put before
/// the paths.
///
/// # Errors
/// Names the file that cannot be read.
pub fn hash_folder(folder: &Path, prefix: &str) -> Result<Vec<FileHash>> {
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
        let entry = entry.with_context(|| format!("{}", folder.display()))?;
        if entry.file_type().is_file() && !is_volatile(&entry.file_name().to_string_lossy()) {
            files.push(entry.into_path());
        }
    }
    // Corpora are many small files: hashing them in parallel is what makes a re-run quick.
    files
        .into_par_iter()
        .map(|path| {
            let relative = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            hash_file(&path, format!("{prefix}{relative}"))
        })
        .collect()
}

/// Reads a manifest; `None` when there is none.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn read(path: &Path) -> Result<Option<Manifest>> {
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map(Some).with_context(|| {
            format!("{}: not a manifest; delete the folder and run the stage again", path.display())
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{}", path.display())),
    }
}
