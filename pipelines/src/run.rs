//! The run folder: stages write into a temporary folder and publish it by rename.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::manifest::{FileHash, Manifest, hash_file, hash_folder, read, tool};

/// A run folder.
#[derive(Debug, Clone)]
pub struct Run {
    dir: PathBuf,
    resume: bool,
}

/// What a stage is made from: if none of this changed, its output has not either.
pub struct StageSpec {
    /// Name of the stage, of its subcommand and of its file.
    pub name: &'static str,
    /// Folder below the run folder that it publishes.
    pub folder: &'static str,
    /// Resolved settings it depends on.
    pub settings: Value,
    /// Seed of everything random in it.
    pub seed: u64,
    /// What it reads.
    pub inputs: Vec<StageInput>,
}

/// Something a stage reads.
pub enum StageInput {
    /// A file of the run that another stage publishes: path below the run folder, and that stage.
    FromStage(&'static str, &'static str),
    /// A file or folder outside, and how the manifest names it.
    External(PathBuf, String),
}

/// What a stage did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The stage.
    pub stage: &'static str,
    /// True when an earlier run's output was still valid.
    pub skipped: bool,
    /// Row counts and other figures.
    pub counts: BTreeMap<String, Value>,
    /// Wall time in seconds; 0 when skipped.
    pub secs: f64,
}

/// The folder a stage writes into before it is published.
pub struct Draft {
    dir: PathBuf,
    work: PathBuf,
    counts: BTreeMap<String, Value>,
}

impl Draft {
    /// Path of a file to write.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A folder that survives a killed run, for checkpoints; deleted when the stage is published,
    /// and when the settings or inputs have changed.
    pub fn work_dir(&self) -> &Path {
        &self.work
    }

    /// Records a figure for the manifest.
    pub fn count(&mut self, name: &str, value: impl Into<Value>) {
        self.counts.insert(name.to_owned(), value.into());
    }
}

impl Run {
    /// Opens a run folder, creating it if need be. With `resume`, stages whose output is still
    /// valid are skipped.
    ///
    /// # Errors
    /// When the folder cannot be created, or is a file.
    pub fn open(dir: &Path, resume: bool) -> Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("run folder {}", dir.display()))?;
        Ok(Self { dir: dir.to_owned(), resume })
    }

    /// Opens a run folder that is there, to read from it.
    ///
    /// # Errors
    /// When it is not there.
    pub fn existing(dir: &Path) -> Result<Self> {
        if !dir.is_dir() {
            bail!(
                "no run folder at {}: `tracemill run demo --run {}` makes one",
                dir.display(),
                dir.display()
            );
        }
        Ok(Self { dir: dir.to_owned(), resume: false })
    }

    /// The run folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A path below the run folder.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.dir.join(relative)
    }

    /// A file that `stage` publishes.
    ///
    /// # Errors
    /// Says which command writes it when it is not there.
    pub fn require(&self, relative: &str, stage: &str) -> Result<PathBuf> {
        let path = self.path(relative);
        if !path.exists() {
            let command = match stage {
                "memory" => "memory build",
                "lessons" => "lessons build",
                other => other,
            };
            bail!(
                "{} is missing: run `tracemill {command} --run {}` first",
                path.display(),
                self.dir.display()
            );
        }
        Ok(path)
    }

    fn hash_inputs(&self, inputs: &[StageInput]) -> Result<Vec<FileHash>> {
        let mut hashes = Vec::new();
        for input in inputs {
            match input {
                StageInput::FromStage(relative, stage) => {
                    let path = self.require(relative, stage)?;
                    hashes.push(hash_file(&path, (*relative).to_owned())?);
                }
                StageInput::External(path, shown) if path.is_dir() => {
                    hashes.extend(hash_folder(path, &format!("{shown}/"))?);
                }
                StageInput::External(path, shown) => hashes.push(hash_file(path, shown.clone())?),
            }
        }
        Ok(hashes)
    }

    /// Runs a stage: `body` writes into the draft, which then takes the place of the published
    /// folder. On an error nothing is published and the old folder stays.
    ///
    /// # Errors
    /// Those of `body`, and of the file system.
    pub fn stage(&self, spec: &StageSpec, body: impl FnOnce(&mut Draft) -> Result<()>) -> Result<Report> {
        let started = Instant::now();
        let inputs = self.hash_inputs(&spec.inputs)?;
        let published = self.path(spec.folder);
        if self.resume
            && let Some(old) = read(&published.join("manifest.json"))?
            && is_current(&old, spec, &inputs)
            && hash_folder(&published, "")? == old.outputs
        {
            log::info!("{}: up to date, skipped", spec.name);
            return Ok(Report { stage: spec.name, skipped: true, counts: old.counts, secs: 0.0 });
        }
        let mut draft = self.draft(spec, &inputs)?;
        body(&mut draft).with_context(|| format!("stage `{}`", spec.name))?;
        let secs = started.elapsed().as_secs_f64();
        let counts = draft.counts.clone();
        self.publish(spec, inputs, draft, secs)?;
        Ok(Report { stage: spec.name, skipped: false, counts, secs })
    }

    fn draft(&self, spec: &StageSpec, inputs: &[FileHash]) -> Result<Draft> {
        let dir = self.path(&format!(".draft-{}", spec.name));
        if dir.exists() {
            std::fs::remove_dir_all(&dir).with_context(|| format!("{}", dir.display()))?;
        }
        std::fs::create_dir_all(&dir).with_context(|| format!("{}", dir.display()))?;
        let work = self.path(&format!(".work-{}", spec.name));
        let identity = serde_json::to_string(&json!({
            "tool": tool(), "settings": spec.settings, "seed": spec.seed, "inputs": inputs
        }))?;
        let marker = work.join("identity.json");
        let same = self.resume && std::fs::read_to_string(&marker).is_ok_and(|old| old == identity);
        if !same {
            if work.exists() {
                std::fs::remove_dir_all(&work).with_context(|| format!("{}", work.display()))?;
            }
            std::fs::create_dir_all(&work).with_context(|| format!("{}", work.display()))?;
            write_atomically(&marker, identity.as_bytes())?;
        }
        Ok(Draft { dir, work, counts: BTreeMap::new() })
    }

    fn publish(&self, spec: &StageSpec, inputs: Vec<FileHash>, draft: Draft, secs: f64) -> Result<()> {
        let manifest = Manifest {
            stage: spec.name.to_owned(),
            tool: tool(),
            settings: spec.settings.clone(),
            seed: spec.seed,
            inputs,
            outputs: hash_folder(&draft.dir, "")?,
            counts: draft.counts,
        };
        write_json(&draft.dir.join("timing.json"), &json!({ "secs": secs }))?;
        write_json(&draft.dir.join("manifest.json"), &manifest)?;
        let published = self.path(spec.folder);
        let old = self.path(&format!(".old-{}", spec.name));
        if old.exists() {
            std::fs::remove_dir_all(&old).with_context(|| format!("{}", old.display()))?;
        }
        if let Some(parent) = published.parent() {
            std::fs::create_dir_all(parent).with_context(|| format!("{}", parent.display()))?;
        }
        if published.exists() {
            std::fs::rename(&published, &old).with_context(|| format!("{}", published.display()))?;
        }
        std::fs::rename(&draft.dir, &published).with_context(|| format!("{}", published.display()))?;
        for leftover in [&old, &draft.work] {
            if leftover.exists() {
                std::fs::remove_dir_all(leftover).with_context(|| format!("{}", leftover.display()))?;
            }
        }
        self.write_root_manifest()
    }

    /// `R/manifest.json`: the stages done, with the hash of each one's manifest.
    fn write_root_manifest(&self) -> Result<()> {
        let mut stages = BTreeMap::new();
        collect_manifests(&self.dir, "", &mut stages)?;
        let text = serde_json::to_string_pretty(&json!({ "tool": tool(), "stages": stages }))?;
        write_atomically(&self.path("manifest.json"), format!("{text}\n").as_bytes())
    }
}

/// Folders below a run folder that have a manifest, by their path: `traces`, `policies/coordinator/sft`.
fn collect_manifests(dir: &Path, prefix: &str, stages: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("{}", dir.display()))? {
        let folder = entry?;
        let name = folder.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || !folder.path().is_dir() {
            continue;
        }
        let manifest = folder.path().join("manifest.json");
        if manifest.is_file() {
            stages.insert(format!("{prefix}{name}"), hash_file(&manifest, String::new())?.blake3);
        } else if prefix.matches('/').count() < 2 {
            collect_manifests(&folder.path(), &format!("{prefix}{name}/"), stages)?;
        }
    }
    Ok(())
}

fn is_current(old: &Manifest, spec: &StageSpec, inputs: &[FileHash]) -> bool {
    old.tool == tool() && old.settings == spec.settings && old.seed == spec.seed && old.inputs == inputs
}

/// A file that takes the place of another only when it is whole: a stage that fails leaves what was there, and
/// may write to the file it reads from. What is no regular file (`/dev/stdout`, a pipe) is written to as it is.
pub struct Replacing {
    file: BufWriter<Target>,
}

enum Target {
    Beside { file: NamedTempFile, path: PathBuf },
    Stream(File),
}

impl Replacing {
    /// Begins a file beside `path`, or beside what a link at `path` leads to.
    ///
    /// # Errors
    /// When nothing can be written there.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        let existing = std::fs::metadata(path).ok();
        if existing.as_ref().is_some_and(|found| !found.is_file()) {
            let stream = OpenOptions::new().write(true).open(path)?;
            return Ok(Self { file: BufWriter::new(Target::Stream(stream)) });
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = NamedTempFile::new_in(folder)?;
        // Temporary files are private; what is published keeps its rights, or is as readable as any other.
        match existing {
            Some(found) => file.as_file().set_permissions(found.permissions())?,
            #[cfg(unix)]
            None => file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?,
            #[cfg(not(unix))]
            None => {}
        }
        Ok(Self { file: BufWriter::new(Target::Beside { file, path }) })
    }

    /// Puts the file into its place.
    ///
    /// # Errors
    /// When the last bytes cannot be written, or the place cannot be taken.
    pub fn finish(self) -> std::io::Result<()> {
        match self.file.into_inner().map_err(std::io::IntoInnerError::into_error)? {
            Target::Beside { file, path } => file.persist(path).map(drop).map_err(Into::into),
            Target::Stream(_) => Ok(()),
        }
    }

    /// Puts what was written so far beside the place, as `<name>.partial`, and names it.
    ///
    /// # Errors
    /// Those of [`Replacing::finish`].
    pub fn finish_partial(self) -> std::io::Result<PathBuf> {
        match self.file.into_inner().map_err(std::io::IntoInnerError::into_error)? {
            Target::Beside { file, mut path } => {
                path.as_mut_os_string().push(".partial");
                file.persist(&path)?;
                Ok(path)
            }
            Target::Stream(_) => Ok(PathBuf::from("the output")),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Beside { file, .. } => file.write(bytes),
            Self::Stream(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Beside { file, .. } => file.flush(),
            Self::Stream(file) => file.flush(),
        }
    }
}

impl Write for Replacing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Writes a value as indented JSON.
///
/// # Errors
/// Names the file.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    std::fs::write(path, format!("{text}\n")).with_context(|| format!("{}", path.display()))
}

/// Writes a file beside its place and renames it there, so that no reader sees half of it.
///
/// # Errors
/// Names the file.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = Replacing::create(path)?;
        file.write_all(bytes)?;
        file.finish()
    };
    write().with_context(|| format!("{}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_only_when_it_is_whole() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("a.txt");
        std::fs::write(&path, "old").expect("written");
        let read = |path: &Path| std::fs::read_to_string(path).expect("read");
        let begun = |text: &str| {
            let mut file = Replacing::create(&path).expect("created");
            file.write_all(text.as_bytes()).expect("written");
            file
        };
        drop(begun("half"));
        assert_eq!(read(&path), "old");
        let partial = begun("half").finish_partial().expect("kept");
        assert_eq!((read(&path).as_str(), read(&partial).as_str()), ("old", "half"));
        assert_eq!(partial, dir.path().canonicalize().expect("exists").join("a.txt.partial"));
        begun("new").finish().expect("replaced");
        assert_eq!(read(&path), "new");
        assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 2, "nothing else is left");
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_links_and_what_is_no_file_is_written_to() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        std::fs::write(&target, "old").expect("written");
        std::os::unix::fs::symlink(&target, &link).expect("linked");
        write_atomically(&link, b"new").expect("written");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&target).expect("read"), b"new");
        write_atomically(Path::new("/dev/null"), b"gone").expect("a device takes it");
        assert!(!Path::new("/dev/null").is_file());
    }
}
