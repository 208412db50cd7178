//! Finding trees in folders: which files hold one, which follow one another, and how they are read.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use tracemill_data::a11y::{Form, TreeError, Trees};
use tracemill_data::adapters::Input;

/// What could not be read: a line of `rejects.jsonl`.
#[derive(Debug, Clone, Serialize)]
pub struct Refused {
    /// The file, below the input.
    pub file: String,
    /// What of it is missing.
    pub what: What,
    /// Line, record, byte or element; none where the file as a whole cannot be read.
    pub place: String,
    /// What is wrong there.
    pub reason: String,
}

/// What is missing where something could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// A tree, or a file with all that is in it.
    Tree,
    /// One element of a tree; the others were read.
    Element,
}

impl Refused {
    /// A reject of a file that a reader tells.
    pub fn of(file: &str, what: What, error: &TreeError) -> Self {
        let TreeError { place, reason } = error.clone();
        Self { file: file.to_owned(), what, place, reason }
    }

    /// Place and reason in one line.
    pub fn told(&self) -> String {
        let parts = [&self.file, &self.place, &self.reason].map(String::as_str);
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
    }
}

/// A file with trees.
#[derive(Debug)]
pub struct File {
    pub path: PathBuf,
    /// As artifacts name it.
    pub shown: String,
    /// Below the input, without its ending: where its output goes.
    pub name: String,
    /// Whether it is one of the numbered files of its folder.
    pub numbered: bool,
}

/// Files of a folder, in their order.
#[derive(Debug)]
pub struct Sequence {
    pub folder: PathBuf,
    pub files: Vec<File>,
}

/// What lies below an input.
#[derive(Debug)]
pub struct Found {
    pub sequences: Vec<Sequence>,
    /// Files that begin with no tree of the form.
    pub skipped: Vec<String>,
}

/// Bytes that a file may have, unpacked: a thousand times a large tree.
const MOST_BYTES: u64 = 1 << 30;
/// Bytes that are looked at to tell whether a file holds a tree.
const HEAD: usize = 16 * 1024;

/// Looks below `input` for files of a form.
///
/// # Errors
/// A path that cannot be listed or read.
pub fn find(input: &Path, form: Form) -> Result<Found> {
    let at = || format!("--input {}", input.display());
    let source = Input::new(input).with_context(at)?;
    let mut folders: BTreeMap<PathBuf, Vec<File>> = BTreeMap::new();
    let mut skipped = Vec::new();
    for path in source.files(|_| true).with_context(at)? {
        let below = path.strip_prefix(&source.root).unwrap_or(&path).to_owned();
        let shown = below.to_string_lossy().replace('\\', "/");
        // A file that was named is read, whatever it begins with, and so is one whose beginning cannot be: the error says more.
        let holds = source.only.is_some() || head(&path).map_or(true, |text| form.is_begun_by(&text));
        if !holds {
            skipped.push(shown);
            continue;
        }
        let folder = path.parent().unwrap_or(&source.root).to_owned();
        let name = stem(&shown).to_owned();
        folders.entry(folder).or_default().push(File { path, shown, name, numbered: false });
    }
    let sequences =
        folders.into_iter().map(|(folder, files)| Sequence { folder, files: in_order(files) }).collect();
    Ok(Found { sequences, skipped })
}

/// The path without its endings of a tree: `calc/001.xml.gz` is `calc/001`.
fn stem(path: &str) -> &str {
    let path = path.strip_suffix(".gz").unwrap_or(path);
    [".tsv", ".xml", ".json", ".jsonl", ".txt"].iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path)
}

/// Numbered files by their numbers, then the others by name. Two files of one name keep their endings.
fn in_order(mut files: Vec<File>) -> Vec<File> {
    for file in &mut files {
        file.numbered = number(&file.name).is_some();
    }
    files.sort_by(|a, b| {
        let key = |file: &File| (number(&file.name).is_none(), number(&file.name), file.shown.clone());
        key(a).cmp(&key(b))
    });
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for file in &files {
        *times.entry(file.name.clone()).or_default() += 1;
    }
    for file in &mut files {
        if times.get(&file.name).is_some_and(|times| *times > 1) {
            file.name.clone_from(&file.shown);
        }
    }
    files
}

/// The number that a file's name ends in: `001`, `step_12`.
fn number(name: &str) -> Option<u64> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let digits = file.bytes().rev().take_while(u8::is_ascii_digit).count();
    file[file.len() - digits..].parse().ok()
}

fn open(path: &Path) -> std::io::Result<Box<dyn Read>> {
    let file = std::fs::File::open(path)?;
    if path.extension().is_some_and(|end| end == "gz") {
        return Ok(Box::new(flate2::read::MultiGzDecoder::new(file)));
    }
    Ok(Box::new(file))
}

fn head(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::with_capacity(HEAD);
    open(path)?.take(HEAD as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the trees of a file.
pub fn read(path: &Path, form: Form) -> Result<Trees, TreeError> {
    let whole = |reason: String| TreeError { place: String::new(), reason };
    let mut bytes = Vec::new();
    open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|e| whole(e.to_string()))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(whole(format!("more than {MOST_BYTES} bytes once unpacked: this is no screen")));
    }
    let text = String::from_utf8(bytes).map_err(|e| TreeError {
        place: format!("byte {}", e.utf8_error().valid_up_to()),
        reason: "not UTF-8".to_owned(),
    })?;
    form.read(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_files_follow_one_another_and_names_stay_apart() {
        let file = |shown: &str| File {
            path: PathBuf::from(shown),
            shown: shown.to_owned(),
            name: stem(shown).to_owned(),
            numbered: false,
        };
        let shown = ["a/10.tsv", "a/9.tsv", "a/start.tsv", "a/9.txt", "a/b.xml.gz"];
        let ordered = in_order(shown.map(file).into());
        let names: Vec<(&str, bool)> = ordered.iter().map(|f| (f.name.as_str(), f.numbered)).collect();
        let expected =
            [("a/9.tsv", true), ("a/9.txt", true), ("a/10", true), ("a/b", false), ("a/start", false)];
        assert_eq!(names, expected);
    }
}
