//! Finding trees in folders: which files hold one, which follow one another, and how they are read.

use std::collections::{BTreeMap, BTreeSet};
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
    /// Whether it is the state after that of the file before it.
    pub follows: bool,
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
        folders.entry(folder).or_default().push(File { path, shown, name, follows: false });
    }
    let below = |folder: &PathBuf| {
        folder.strip_prefix(&source.root).unwrap_or(folder).to_string_lossy().replace('\\', "/")
    };
    // Every folder on the way to a tree.
    let named: BTreeSet<String> = { folders.keys().map(below) }
        .flat_map(|folder| {
            let ends: Vec<usize> =
                folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]).collect();
            ends.into_iter().map(move |end| folder[..end].to_owned()).collect::<Vec<_>>()
        })
        .collect();
    let sequence = |(folder, files)| Sequence { folder, files: in_order(files, &named) };
    let sequences = folders.into_iter().map(sequence).collect();
    Ok(Found { sequences, skipped })
}

/// The path without its endings of a tree: `calc/001.xml.gz` is `calc/001`.
fn stem(path: &str) -> &str {
    let path = path.strip_suffix(".gz").unwrap_or(path);
    [".tsv", ".xml", ".json", ".jsonl", ".txt"].iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path)
}

/// A name in parts: what stands between numbers, and the numbers.
fn parts(name: &str) -> Vec<Part<'_>> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let mut parts = Vec::new();
    let mut rest = file;
    while let Some(first) = rest.bytes().next() {
        let digit = first.is_ascii_digit();
        let end = rest.bytes().position(|b| b.is_ascii_digit() != digit).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        // More digits than a number has are a name.
        parts.push(part.parse().map_or(Part::Word(part), Part::Number));
        rest = after;
    }
    parts
}

/// A part of a name. Numbers come before words, so that `a.tsv` does not stand between `1.tsv` and `2.tsv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Number(u64),
    Word(&'a str),
}

/// Whether two files are states of one session: the first thing in which their names differ is a number. So `a_2` follows `a_1`
/// and `b_1` does not, and a time that stands behind the number is nothing to go by.
fn is_same_session(before: &str, name: &str) -> bool {
    let (a, b) = (parts(before), parts(name));
    let differ = a.iter().zip(&b).find(|(a, b)| a != b);
    matches!(differ, Some((Part::Number(_), Part::Number(_))))
}

/// Files in the order of their names, numbers by their value. Two files of one name keep their endings, and so does one that
/// is called as a folder of trees: its own may go there.
fn in_order(mut files: Vec<File>, folders: &BTreeSet<String>) -> Vec<File> {
    files.sort_by(|a, b| (parts(&a.name), &a.shown).cmp(&(parts(&b.name), &b.shown)));
    for at in 1..files.len() {
        files[at].follows = is_same_session(&files[at - 1].name, &files[at].name);
    }
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for file in &files {
        *times.entry(file.name.clone()).or_default() += 1;
    }
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for file in &mut files {
        if times[&file.name] > 1 || folders.contains(&file.name) {
            file.name.clone_from(&file.shown);
        }
        while !taken.insert(file.name.clone()) {
            file.name.push('_');
        }
    }
    files
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

    fn ordered(shown: &[&str], folders: &[&str]) -> Vec<(String, bool)> {
        let file = |shown: &&str| File {
            path: PathBuf::from(shown),
            shown: (*shown).to_owned(),
            name: stem(shown).to_owned(),
            follows: false,
        };
        let folders = folders.iter().map(|folder| (*folder).to_owned()).collect();
        let files = in_order(shown.iter().map(file).collect(), &folders);
        files.into_iter().map(|file| (file.name, file.follows)).collect()
    }

    fn named(names: &[(&str, bool)]) -> Vec<(String, bool)> {
        names.iter().map(|(name, follows)| ((*name).to_owned(), *follows)).collect()
    }

    #[test]
    fn files_follow_one_another_by_number_and_names_stay_apart() {
        let files = ordered(&["a/10.tsv", "a/9.tsv", "a/start.tsv", "a/9.txt", "a/b.xml.gz"], &["a"]);
        let expected =
            [("a/9.tsv", false), ("a/9.txt", false), ("a/10", true), ("a/b", false), ("a/start", false)];
        assert_eq!(files, named(&expected));
        // Sessions in one folder, and OSWorld's names with their times.
        let files = ordered(&["b_1.tsv", "a_2.tsv", "a_1.tsv", "b_2.tsv"], &[]);
        assert_eq!(files, named(&[("a_1", false), ("a_2", true), ("b_1", false), ("b_2", true)]));
        let times =
            ["step_2_20240102@000001.xml", "step_1_20240101@235959.xml", "step_10_20240102@000009.xml"];
        let expected = [
            ("step_1_20240101@235959", false),
            ("step_2_20240102@000001", true),
            ("step_10_20240102@000009", true),
        ];
        assert_eq!(ordered(&times, &[]), named(&expected));
        // What is left of two endings is a third name; a file beside a folder of its name.
        let files = ordered(&["a.tsv", "a.txt", "a.tsv.txt", "1.json"], &["1"]);
        let names: BTreeSet<&String> = files.iter().map(|(name, _)| name).collect();
        assert_eq!((names.len(), files[0].0.as_str()), (4, "1.json"), "{files:?}");
    }
}
