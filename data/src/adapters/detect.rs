//! Which format a file looks like: for errors that say what was found instead.

use std::path::Path;

use crate::trace::Format;

/// Formats that the file, or the first files of the folder, look like; most likely first.
pub fn looks_like(_path: &Path) -> Vec<Format> {
    Vec::new()
}
