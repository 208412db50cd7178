//! A folder that takes the place of an earlier one only when it is whole, outside a run folder as well.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::manifest::{Manifest, hash_file, hash_folder, read, tool};
use crate::run::write_json;

/// A folder under way: it lies beside its place, and is gone if it is never published.
pub struct Folder {
    draft: TempDir,
    place: PathBuf,
    stage: &'static str,
}

impl Folder {
    /// Begins a folder that will lie at `place`.
    ///
    /// # Errors
    /// When something else than an earlier output of `stage` lies there.
    pub fn begin(place: &Path, stage: &'static str) -> Result<Self> {
        if place.exists() {
            let empty = place.is_dir() && std::fs::read_dir(place)?.next().is_none();
            let ours = read(&place.join("manifest.json")).ok().flatten().is_some_and(|m| m.stage == stage);
            if !empty && !ours {
                bail!(
                    "--out {}: there is something else there; give a folder that is empty, absent, or an earlier {stage}",
                    place.display()
                );
            }
        }
        let parent = place.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        let draft = tempfile::Builder::new()
            .prefix(".draft-")
            .tempdir_in(parent)
            .with_context(|| parent.display().to_string())?;
        Ok(Self { draft, place: place.to_owned(), stage })
    }

    /// Where its files are written until it is published.
    pub fn dir(&self) -> &Path {
        self.draft.path()
    }

    /// Writes the manifest and puts the folder into its place.
    ///
    /// # Errors
    /// Names the file that could not be read, written or moved.
    pub fn publish(
        self,
        settings: Value,
        seed: u64,
        inputs: &[(PathBuf, String)],
        counts: BTreeMap<String, Value>,
    ) -> Result<()> {
        let inputs = inputs.iter().map(|(path, shown)| hash_file(path, shown.clone()));
        let manifest = Manifest {
            stage: self.stage.to_owned(),
            tool: tool(),
            settings,
            seed,
            inputs: inputs.collect::<Result<_>>()?,
            outputs: hash_folder(self.dir(), "")?,
            counts,
        };
        write_json(&self.dir().join("manifest.json"), &manifest)?;
        // Temporary folders are private; a published one is as readable as any other.
        #[cfg(unix)]
        std::fs::set_permissions(self.dir(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let draft = self.draft.keep();
        let old = draft.with_extension("old");
        let at = || self.place.display().to_string();
        if self.place.exists() {
            std::fs::rename(&self.place, &old).with_context(at)?;
        }
        std::fs::rename(&draft, &self.place).with_context(at)?;
        if old.exists() {
            std::fs::remove_dir_all(&old).with_context(at)?;
        }
        Ok(())
    }
}
