//! Reads a data set file by file and gathers what is wrong.

use std::collections::{BTreeMap, HashMap};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::Value;

use super::across::{Across, At};
use super::picture::{Seen, look};
use super::row::ImageRef;
use super::rules::{self, Budget};
use super::{Fault, Finding, Loose, Row, Severity};
use crate::adapters::{Item, for_each_line, has_extension};
use crate::export::Lineage;
use crate::parquet_io::{read_batches, read_loose};

/// Rows that are looked at together.
const BATCH: usize = 512;
/// Row groups above this are refused by readers whose offsets have 32 bits.
const MAX_ROW_GROUP_BYTES: i64 = 2 << 30;

/// What to check, and with what.
#[derive(Default)]
pub struct Options<'a> {
    /// Folders that pictures are named below, besides the data set's own.
    pub images: Vec<PathBuf>,
    /// Pictures are decoded, not only measured.
    pub decode: bool,
    /// Budget of tokens.
    pub budget: Option<Budget<'a>>,
    /// Whether rows must have a reply to learn; `None` decides for each row.
    pub learned: Option<bool>,
}

/// A data set that cannot be checked at all.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The path cannot be read.
    #[error("{path}")]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Nothing that could be rows.
    #[error("{0}: no rows here; give a .json, .jsonl or .parquet file, or a folder with such files")]
    NoRows(PathBuf),
}

/// What was found.
#[derive(Debug, Default)]
pub struct Checked {
    /// Findings, in the order of files and rows.
    pub findings: Vec<Finding>,
    /// Rows of each file.
    pub rows: BTreeMap<String, u64>,
    /// Rows by split, role of the asked agent, template and action, for an overview.
    pub counts: BTreeMap<(&'static str, String), u64>,
    /// Pictures that were looked at.
    pub pictures: u64,
    /// Pictures that are not on this machine.
    pub pictures_elsewhere: u64,
    /// Keys of the tasks of each split.
    pub tasks: BTreeMap<String, std::collections::BTreeSet<String>>,
}

/// Checks a file, or all files of rows below a folder.
///
/// # Errors
/// A path that is not there, and one without any rows. What is wrong with rows is a finding.
pub fn check(path: &Path, options: &Options<'_>) -> Result<Checked, CheckError> {
    let io = |source| CheckError::Io { path: path.to_owned(), source };
    let meta = std::fs::metadata(path).map_err(io)?;
    let root = if meta.is_dir() { path } else { path.parent().unwrap_or(path) };
    let mut files = if meta.is_dir() { row_files(path) } else { vec![path.to_owned()] };
    // Training rows first: a task on both sides is then found in the test rows.
    files.sort_by_key(|f| (split_of(f) == Some("test"), f.clone()));
    if files.is_empty() {
        return Err(CheckError::NoRows(path.to_owned()));
    }
    let lineage = sizes(&root.join("lineage.parquet"));
    let learned = options.learned.or_else(|| learned(&root.join("manifest.json")));
    let mut images = vec![root.to_owned()];
    images.extend(options.images.iter().cloned());
    let mut folder = Folder {
        root,
        options,
        learned,
        images,
        lineage,
        across: Across::default(),
        out: Checked::default(),
        missing: Vec::new(),
        rewards_missing: Vec::new(),
        rewards_found: 0,
        systems: 0,
    };
    for file in &files {
        folder.file(file);
    }
    folder.pictures_elsewhere();
    if meta.is_dir() {
        folder.dataset_info();
        folder.manifest();
    }
    Ok(folder.out)
}

fn row_files(folder: &Path) -> Vec<PathBuf> {
    let besides = ["dataset_info.json", "manifest.json", "prompts.json", "timing.json", "lineage.parquet"];
    let entries = walkdir::WalkDir::new(folder).sort_by_file_name().into_iter().flatten();
    let rows = |path: &PathBuf| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        !besides.contains(&name) && ["json", "jsonl", "parquet"].contains(&extension)
    };
    entries.filter(|e| e.file_type().is_file()).map(walkdir::DirEntry::into_path).filter(rows).collect()
}

/// The split that a file's name tells.
fn split_of(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?.to_lowercase();
    let holds = |words: &[&str]| words.iter().any(|w| name.contains(w));
    if holds(&["test", "val", "eval"]) { Some("test") } else { holds(&["train"]).then_some("train") }
}

/// Sizes of the traces' screens, by row id and, for forms that have none, by file and row.
fn sizes(path: &Path) -> HashMap<String, [f64; 2]> {
    let Ok(batches) = read_batches::<Lineage>(path) else { return HashMap::new() };
    let size = |l: &Lineage| Some([f64::from(l.screen_width_px?), f64::from(l.screen_height_px?)]);
    let rows = batches.flatten().flatten().filter_map(|l| Some((size(&l)?, l)));
    rows.flat_map(|(size, l)| [(place(&l.file, l.row + 1), size), (l.row_id, size)]).collect()
}

fn place(file: &str, row: u64) -> String {
    format!("{file}\0{row}")
}

/// Whether an export's rows have replies to learn, by its manifest.
fn learned(manifest: &Path) -> Option<bool> {
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(manifest).ok()?).ok()?;
    manifest["settings"]["kind"].as_str().map(|kind| kind == "sft")
}

struct Folder<'a> {
    root: &'a Path,
    options: &'a Options<'a>,
    learned: Option<bool>,
    images: Vec<PathBuf>,
    lineage: HashMap<String, [f64; 2]>,
    across: Across,
    out: Checked,
    /// Pictures that are nowhere: findings only where others are there.
    missing: Vec<Finding>,
    /// The same of screenshots that rows are rewarded on.
    rewards_missing: Vec<Finding>,
    rewards_found: u64,
    /// Rows with a system message.
    systems: u64,
}

impl Folder<'_> {
    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(self.root).unwrap_or(path).to_string_lossy().replace('\\', "/")
    }

    fn file(&mut self, path: &Path) {
        let file = self.shown(path);
        let split = split_of(path);
        let mut batch: Vec<(u64, Result<Loose, String>)> = Vec::with_capacity(BATCH);
        let mut rows = 0;
        let result = read_rows(path, &mut |value| {
            rows += 1;
            batch.push((rows, value));
            if batch.len() == BATCH {
                self.batch(&file, split, std::mem::take(&mut batch));
            }
        });
        self.batch(&file, split, batch);
        if let Err(reason) = result {
            let fault = Fault::error("unreadable-file", reason, "write the file again");
            self.whole(&file, fault);
        } else if rows == 0 {
            self.whole(&file, Fault::error("unreadable-file", "the file holds no row", "leave it out"));
        }
        self.out.rows.insert(file, rows);
    }

    fn whole(&mut self, file: &str, fault: Fault) {
        let Fault { rule, severity, found, remedy } = fault;
        self.out.findings.push(Finding {
            rule,
            severity,
            file: file.to_owned(),
            row: None,
            id: None,
            found,
            remedy,
        });
    }

    fn batch(&mut self, file: &str, split: Option<&'static str>, batch: Vec<(u64, Result<Loose, String>)>) {
        let looked: Vec<Looked> =
            batch.into_par_iter().map(|(row, value)| self.look(file, row, value)).collect();
        for Looked { row: number, read, faults, pictures, elsewhere, rewarded_on } in looked {
            let at = At { file: file.to_owned(), row: number, id: read.as_ref().and_then(|r| r.id.clone()) };
            self.out.findings.extend(faults.into_iter().map(|f| at.finding(f)));
            self.out.pictures += pictures;
            self.out.pictures_elsewhere += elsewhere.len() as u64;
            let remedy = "put the file there, or give its folder with --images";
            self.missing.extend(elsewhere.into_iter().map(|path| {
                at.finding(Fault::error("image-missing", format!("picture `{path}` is not there"), remedy))
            }));
            match rewarded_on {
                Some((_, true)) => self.rewards_found += 1,
                Some((name, false)) => {
                    let found = format!("screenshot `{name}`, which the row is rewarded on, is not there");
                    self.rewards_missing.push(at.finding(Fault::error("image-missing", found, remedy)));
                }
                None => {}
            }
            let Some(row) = read else { continue };
            let across = self.across.see(&at, &row, split);
            self.out.findings.extend(across.into_iter().map(|f| at.finding(f)));
            self.count(&row, split);
        }
    }

    fn look(&self, file: &str, number: u64, value: Result<Loose, String>) -> Looked {
        let mut looked = Looked { row: number, ..Looked::default() };
        let read = value
            .map_err(|reason| Fault::error("unreadable-row", reason, "write the row again"))
            .and_then(|value| Row::of(&value));
        let mut row = match read {
            Ok(row) => row,
            Err(fault) => {
                looked.faults.push(fault);
                return looked;
            }
        };
        row.learned = self.learned.unwrap_or(row.learned);
        let own = row.id.clone().unwrap_or_else(|| place(file, number));
        row.screen = row.screen.or_else(|| self.lineage.get(&own).copied());
        looked.faults = rules::faults(&row, self.options.budget.as_ref());
        for image in &row.images {
            match look(image, &self.images, self.options.decode) {
                Seen::Size(width, height) => {
                    looked.pictures += 1;
                    looked.faults.extend(other_size(row.screen, width, height));
                }
                Seen::Wrong(fault) => looked.faults.push(fault),
                Seen::Elsewhere => {
                    if let ImageRef::Path(path) = image
                        && !path.contains("://")
                    {
                        looked.elsewhere.push(path.clone());
                    }
                }
            }
        }
        if let Some(Ok(agent)) = &row.truth
            && let Some(name) = agent.screen.image.clone().filter(|_| !row.learned)
        {
            let found = matches!(look(&ImageRef::Path(name.clone()), &self.images, false), Seen::Size(..));
            looked.rewarded_on = Some((name, found));
        }
        // Bytes are not needed any more, but for telling pictures apart.
        looked.read = Some(row);
        looked
    }

    fn count(&mut self, row: &Row, split: Option<&'static str>) {
        self.systems += u64::from(row.turns.iter().any(|t| t.role == "system"));
        let mut count = |what, name: String| *self.out.counts.entry((what, name)).or_default() += 1;
        count("split", split.unwrap_or("no split").to_owned());
        if let Some(Ok(agent)) = &row.truth {
            count("role", agent.role.name().to_owned());
            count("action", agent.truth.action.clone());
        }
        if let Some(hash) = &row.prompt_hash {
            count("prompt", hash.clone());
        }
        if let Some(task) = row.task() {
            let key = crate::export::task_key(task, "");
            self.out.tasks.entry(split.unwrap_or("train").to_owned()).or_default().insert(key);
        }
    }

    /// Pictures that are not there are findings where others are; where none is, the data set was made
    /// elsewhere, and they cannot be checked.
    fn pictures_elsewhere(&mut self) {
        let looked = [
            (std::mem::take(&mut self.missing), self.out.pictures, "pictures"),
            (
                std::mem::take(&mut self.rewards_missing),
                self.rewards_found,
                "screenshots that rows are rewarded on",
            ),
        ];
        for (missing, there, what) in looked {
            if there > 0 {
                self.out.findings.extend(missing);
                continue;
            }
            // Rewards look for their screenshots below a folder of their own: it has to be known to be looked into.
            if what != "pictures" && self.options.images.is_empty() {
                continue;
            }
            let found = format!("none of {} {what} is on this machine", missing.len());
            if let Some(first) = missing.into_iter().next() {
                self.out.findings.push(Finding {
                    rule: "pictures-elsewhere",
                    severity: Severity::Note,
                    found,
                    row: None,
                    id: None,
                    remedy: "give their folder with --images to have them checked",
                    ..first
                });
            }
        }
    }

    /// LLaMA-Factory finds files and columns by `dataset_info.json` only.
    fn dataset_info(&mut self) {
        let path = self.root.join("dataset_info.json");
        let json_arrays: Vec<String> =
            self.out.rows.keys().filter(|f| has_extension(Path::new(f), &["json"])).cloned().collect();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(_) if json_arrays.is_empty() => return,
            // Made elsewhere, it may be listed in another folder's file.
            Err(e) => {
                let remedy = "LLaMA-Factory finds data sets by it";
                let fault = if self.learned.is_some() {
                    Fault::error("dataset-info", e.to_string(), remedy)
                } else {
                    Fault::note("dataset-info", e.to_string(), remedy)
                };
                self.whole("dataset_info.json", fault);
                return;
            }
        };
        let info: Value = match serde_json::from_str(&text) {
            Ok(info) => info,
            Err(e) => {
                self.whole("dataset_info.json", Fault::error("dataset-info", e.to_string(), "mend the JSON"));
                return;
            }
        };
        let entries: Vec<&Value> = info.as_object().into_iter().flatten().map(|(_, entry)| entry).collect();
        let named: Vec<&str> = entries.iter().filter_map(|e| e["file_name"].as_str()).collect();
        let mut faults = Vec::new();
        for name in &named {
            if !self.root.join(name).is_file() {
                faults.push(Fault::error(
                    "dataset-info",
                    format!("`{name}` is not there"),
                    "correct `file_name`",
                ));
            }
        }
        for file in json_arrays.iter().filter(|f| !named.contains(&f.as_str())) {
            faults.push(Fault::error("dataset-info", format!("{file} is not named in it"), "add an entry"));
        }
        let ours = |e: &&&Value| e["file_name"].as_str().is_some_and(|f| json_arrays.iter().any(|j| j == f));
        if entries.iter().filter(ours).any(|e| e["columns"]["messages"].as_str() != Some("conversations")) {
            let remedy = "\"columns\": {\"messages\": \"conversations\", …}";
            faults.push(Fault::error("dataset-info", "an entry does not say where the messages are", remedy));
        }
        for entry in entries.iter().filter(ours) {
            let column = |name: &str| entry["columns"][name].as_str();
            if entry["formatting"].as_str() != Some("sharegpt") {
                let remedy = "\"formatting\": \"sharegpt\"";
                faults.push(Fault::error(
                    "dataset-info",
                    "an entry's rows are taken for alpaca rows",
                    remedy,
                ));
            }
            if self.systems > 0 && column("system") != Some("system") {
                let remedy = "\"columns\": {\"system\": \"system\", …}";
                faults.push(Fault::error("dataset-info", "the rows' system messages are not named", remedy));
            }
            if self.out.pictures + self.out.pictures_elsewhere > 0 && column("images") != Some("images") {
                let remedy = "\"columns\": {\"images\": \"images\", …}";
                faults.push(Fault::error("dataset-info", "the rows' pictures are not named", remedy));
            }
        }
        faults.into_iter().for_each(|fault| self.whole("dataset_info.json", fault));
    }

    /// Files that the manifest lists must be there, with as many rows as it says.
    fn manifest(&mut self) {
        let Ok(text) = std::fs::read_to_string(self.root.join("manifest.json")) else { return };
        let Ok(manifest) = serde_json::from_str::<Value>(&text) else {
            let fault = Fault::error("manifest", "manifest.json is not JSON", "export the data set again");
            self.whole("manifest.json", fault);
            return;
        };
        let outputs = manifest["outputs"].as_array().cloned().unwrap_or_default();
        for output in &outputs {
            let Some(name) = output["path"].as_str() else { continue };
            if !self.root.join(name).is_file() {
                let fault =
                    Fault::error("manifest", "listed in manifest.json, and not there", "export again");
                self.whole(name, fault);
            }
        }
        for (file, n) in self.out.rows.clone() {
            let split = split_of(Path::new(&file)).unwrap_or_default();
            if let Some(due) = manifest["counts"]["rows"][split].as_u64().filter(|due| *due != n) {
                let found = format!("{n} rows, and {due} by manifest.json");
                self.whole(&file, Fault::error("manifest", found, "export again"));
            }
        }
    }
}

/// A row that was looked at.
#[derive(Default)]
struct Looked {
    row: u64,
    read: Option<Row>,
    faults: Vec<Fault>,
    pictures: u64,
    elsewhere: Vec<String>,
    /// The screenshot that the row is rewarded on, and whether it is there.
    rewarded_on: Option<(String, bool)>,
}

fn other_size(screen: Option<[f64; 2]>, width: u32, height: u32) -> Option<Fault> {
    let [w, h] = screen?;
    let same = (w - f64::from(width)).abs() < 0.5 && (h - f64::from(height)).abs() < 0.5;
    (!same).then(|| {
        Fault::error(
            "image-size",
            format!("the picture has {width} × {height} pixels, the row's screen {w} × {h}"),
            "coordinates belong to the original picture: do not resize it, or convert them too",
        )
    })
}

/// Calls `visit` with every row of a file.
fn read_rows(path: &Path, visit: &mut dyn FnMut(Result<Loose, String>)) -> Result<(), String> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("parquet") => {
            for row in read_loose::<Loose>(path, MAX_ROW_GROUP_BYTES).map_err(|e| e.to_string())? {
                visit(Ok(row.map_err(|e| e.to_string())?));
            }
            Ok(())
        }
        Some("json") => {
            let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
            let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 20, file));
            json.deserialize_seq(Rows(visit)).and_then(|()| json.end()).map_err(|e| e.to_string())
        }
        _ => for_each_line(&Item::whole(path.to_owned()), |_, line| {
            let text = line.map_err(|fault| fault.reason);
            visit(text.and_then(|text| serde_json::from_str(text).map_err(|e| e.to_string())));
        })
        .map_err(|fault| fault.reason),
    }
}

/// The rows of a JSON array, one at a time: the file may be larger than memory.
struct Rows<'a>(&'a mut dyn FnMut(Result<Loose, String>));

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(row) = rows.next_element()? {
            (self.0)(Ok(row));
        }
        Ok(())
    }
}
