//! What the adapters' tests share.

use std::path::{Path, PathBuf};

use super::{AdapterError, AdapterOptions, Input, Record, adapter};
use crate::action::{FrameName, Position};
use crate::trace::{Episode, Format, Reject, RejectKind};

/// Reads everything under `path`, item by item.
pub fn read_all(format: Format, path: &Path) -> (Vec<Episode>, Vec<Reject>) {
    read_with(format, path, AdapterOptions::default()).expect("discovered")
}

/// Reads everything under `path` with `options`.
pub fn read_with(
    format: Format,
    path: &Path,
    options: AdapterOptions,
) -> Result<(Vec<Episode>, Vec<Reject>), AdapterError> {
    let input = Input::new(path).expect("exists");
    let adapter = adapter(format);
    let (mut episodes, mut rejects) = (Vec::new(), Vec::new());
    for item in adapter.discover(&input)? {
        adapter.read(&input, &item, options, &mut |record| match record {
            Record::Episode(episode) => episodes.push(*episode),
            Record::Reject(reject) => rejects.push(reject),
        });
    }
    Ok((episodes, rejects))
}

/// Reads one file of `content`, in a folder of its own.
pub fn read_bytes(format: Format, name: &str, content: &[u8]) -> (Vec<Episode>, Vec<Reject>) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, content).expect("written");
    read_all(format, &path)
}

/// Reads one file of `content` that may be refused as being of another format.
pub fn try_bytes(
    format: Format,
    name: &str,
    content: &[u8],
) -> Result<(Vec<Episode>, Vec<Reject>), AdapterError> {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, content).expect("written");
    read_with(format, &path, AdapterOptions::default())
}

/// Key and kind of each reject.
pub fn kinds(rejects: &[Reject]) -> Vec<(&str, RejectKind)> {
    rejects.iter().map(|r| (r.key.as_str(), r.kind)).collect()
}

/// A point in pixels.
pub fn pixels(x: f64, y: f64) -> Position {
    Position { x, y, frame: FrameName::Pixels }
}

/// A fixture of the repository.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name)
}

/// Real data, where this machine has it.
pub fn real_data(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data").join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {name} of the shared data is not on this machine");
    None
}
