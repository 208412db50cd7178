//! A folder that takes the place of an earlier one only when it is whole, outside a run folder as well.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::manifest::{Manifest, hash_file, hash_folder, read, tool};
use crate::run::write_json;

/// A folder under way: it lies beside its place, and is gone if it is never published. What a killed program left
/// is taken away by the next one that writes to the same place.
pub struct Folder {
    draft: PathBuf,
    place: PathBuf,
    stage: &'static str,
}

impl Folder {
    /// Begins a folder that will lie at `place`, or at what a link there leads to.
    ///
    /// # Errors
    /// When something else than an earlier output of `stage` lies there, or the place cannot be taken.
    pub fn begin(place: &Path, stage: &'static str) -> Result<Self> {
        let at = || format!("--out {}", place.display());
        let parent = place.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).with_context(at)?;
        let place = if place.exists() || place.is_symlink() {
            place.canonicalize().with_context(at)?
        } else {
            parent.canonicalize().with_context(at)?.join(place.file_name().with_context(at)?)
        };
        if std::env::current_dir()
            .ok()
            .and_then(|d| d.canonicalize().ok())
            .is_some_and(|d| d.starts_with(&place))
        {
            bail!("{}: this is the folder the program was started in; name a folder below it", at());
        }
        if place.exists() {
            let empty = place.is_dir() && std::fs::read_dir(&place)?.next().is_none();
            let ours = read(&place.join("manifest.json")).ok().flatten().is_some_and(|m| m.stage == stage);
            if !empty && !ours {
                bail!(
                    "{}: there is something else there; give a folder that is empty, absent, or an earlier {stage}",
                    at()
                );
            }
        }
        let name = place.file_name().with_context(at)?.to_string_lossy().into_owned();
        let draft = place.with_file_name(format!(".draft-{name}"));
        if draft.exists() {
            std::fs::remove_dir_all(&draft).with_context(at)?;
        }
        std::fs::create_dir(&draft).with_context(at)?;
        Ok(Self { draft, place, stage })
    }

    /// Where its files are written until it is published.
    pub fn dir(&self) -> &Path {
        &self.draft
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
        let old = self
            .place
            .with_file_name(format!(".old-{}", self.place.file_name().unwrap_or_default().to_string_lossy()));
        let at = || self.place.display().to_string();
        if old.exists() {
            std::fs::remove_dir_all(&old).with_context(at)?;
        }
        let replaced = self.place.exists();
        if replaced {
            std::fs::rename(&self.place, &old).with_context(at)?;
        }
        if let Err(error) = std::fs::rename(&self.draft, &self.place) {
            if replaced {
                std::fs::rename(&old, &self.place).with_context(at)?;
            }
            return Err(error).with_context(at);
        }
        if replaced {
            std::fs::remove_dir_all(&old).with_context(at)?;
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Published, it is not there any more.
        if self.draft.exists()
            && let Err(error) = std::fs::remove_dir_all(&self.draft)
        {
            log::warn!("{}: left behind: {error}", self.draft.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(place: &Path, text: &str) -> Result<()> {
        let folder = Folder::begin(place, "test")?;
        std::fs::write(folder.dir().join("a.txt"), text)?;
        folder.publish(Value::Null, 0, &[], BTreeMap::new())
    }

    #[test]
    fn a_folder_appears_whole_and_replaces_only_its_like() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let place = dir.path().join("sub/out");
        publish(&place, "one").expect("published");
        publish(&place, "two").expect("replaced");
        assert_eq!(std::fs::read_to_string(place.join("a.txt")).expect("read"), "two");
        drop(Folder::begin(&place, "test").expect("begun"));
        let left: Vec<_> = std::fs::read_dir(dir.path().join("sub")).expect("listed").collect();
        assert_eq!(left.len(), 1, "no draft is left: {left:?}");
        assert!(Folder::begin(&place, "other").is_err_and(|e| e.to_string().contains("something else")));
        assert!(Folder::begin(&dir.path().join(".."), "test").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(dir.path().join("real")).expect("a folder");
        std::os::unix::fs::symlink(dir.path().join("real"), dir.path().join("link")).expect("linked");
        publish(&dir.path().join("link"), "one").expect("published");
        assert!(dir.path().join("link").is_symlink());
        assert!(dir.path().join("real/a.txt").is_file());
        std::os::unix::fs::symlink(dir.path().join("gone"), dir.path().join("dangling")).expect("linked");
        assert!(publish(&dir.path().join("dangling"), "one").is_err(), "before any work is done");
    }
}
