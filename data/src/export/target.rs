//! What every framework's form has in common: pictures, files of rows, and what lies beside them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Kind, Sample, Split, llama_factory, ms_swift, openai, pool, trl, verl};
use crate::adapters::Input;
use crate::artifact::AgentRole;
use crate::parquet_io::TableError;
use crate::prompt::registry;

/// A framework, or the program's own pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// LLaMA-Factory: a JSON array of sharegpt conversations, and `dataset_info.json`.
    LlamaFactory,
    /// verl: Parquet, and for RL a configuration and a reward function.
    Verl,
    /// TRL, and whatever reads a Hugging Face data set folder: Parquet.
    Trl,
    /// ms-swift: JSON lines, and for RL a plug-in.
    MsSwift,
    /// The chat form of OpenAI's API: JSON lines.
    Openai,
    /// What `doctor`, `reward` and this program's own training read: JSON lines.
    Tracemill,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 6] =
        [Self::LlamaFactory, Self::Verl, Self::Trl, Self::MsSwift, Self::Openai, Self::Tracemill];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::LlamaFactory => "llama-factory",
            Self::Verl => "verl",
            Self::Trl => "trl",
            Self::MsSwift => "ms-swift",
            Self::Openai => "openai",
            Self::Tracemill => "tracemill",
        }
    }

    /// Whether its rows hold pictures themselves, where nothing else is asked for.
    pub fn holds_pictures(self) -> bool {
        matches!(self, Self::Verl | Self::Trl | Self::Openai)
    }

    /// The file of a split, relative to the data set's folder.
    pub fn file(self, split: Split) -> String {
        match self {
            Self::LlamaFactory => format!("{}.json", split.name()),
            Self::Verl => format!("{}.parquet", split.name()),
            Self::Trl => format!("data/{}-00000-of-00001.parquet", split.name()),
            Self::MsSwift | Self::Openai | Self::Tracemill => format!("{}.jsonl", split.name()),
        }
    }
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|t| t.name() == s).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|t| t.name()).collect();
            format!("unknown target `{s}`; known targets: {}", names.join(", "))
        })
    }
}

/// Rows that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A file.
    #[error("{path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A row that has no JSON form.
    #[error("{path}")]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// Where pictures lie, and whether rows name them or hold them.
#[derive(Debug, Clone)]
pub struct Pictures {
    /// Folders that the traces' names are relative to, tried in order.
    pub roots: Vec<Input>,
    /// Rows hold the bytes rather than the path.
    pub held: bool,
    /// A row whose picture is not there is left out: always where rows hold the bytes, and where other pictures of the
    /// data set are there.
    pub required: bool,
}

/// A row's picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The absolute path where it was found, else the source's name.
    pub path: String,
    /// The file's bytes, where rows hold them.
    pub bytes: Option<Vec<u8>>,
}

impl Pictures {
    /// Where the picture of that name lies; `None` when it is under none of the folders.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        self.roots.iter().find_map(|root| {
            let path = root.inside(&root.root, name).ok()?;
            path.is_file().then_some(path)
        })
    }

    /// The picture of that name, of a screen of `size` pixels where that is known.
    ///
    /// # Errors
    /// The reason why a row cannot have it: it is not there and must be, or is of another size than the screen, so
    /// that the row's coordinates would not be its.
    pub fn picture(&self, name: &str, size: Option<[u32; 2]>) -> Result<Picture, String> {
        let Some(path) = self.find(name) else {
            let missing = || Err(format!("screenshot `{name}` is not under the folders of pictures"));
            return if self.required {
                missing()
            } else {
                Ok(Picture { path: name.to_owned(), bytes: None })
            };
        };
        let found = image::image_dimensions(&path).map_err(|e| format!("screenshot `{name}`: {e}"))?;
        if let Some([width, height]) = size
            && found != (width, height)
        {
            let (w, h) = found;
            return Err(format!("screenshot `{name}` has {w} × {h} pixels, its screen {width} × {height}"));
        }
        let bytes = if self.held { Some(std::fs::read(&path).map_err(|e| e.to_string())?) } else { None };
        Ok(Picture { path: path.to_string_lossy().into_owned(), bytes })
    }
}

impl Picture {
    /// `data:image/png;base64,…`, for the forms that hold text; the path where there are no bytes.
    pub fn url(&self) -> String {
        match &self.bytes {
            None => self.path.clone(),
            Some(bytes) => data_url(bytes),
        }
    }
}

fn data_url(bytes: &[u8]) -> String {
    use base64::Engine as _;
    let mime = image::guess_format(bytes).map_or("application/octet-stream", |f| f.to_mime_type());
    format!("data:{mime};base64,{}", base64::engine::general_purpose::STANDARD.encode(bytes))
}

/// A row on its way to a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// What it holds.
    pub sample: Sample,
    /// Its picture.
    pub picture: Option<Picture>,
    /// Unique over both splits.
    pub index: u64,
    /// Which file.
    pub split: Split,
}

/// Turns a row into a line of JSON.
type Encode = fn(&Written) -> serde_json::Value;

/// The file of one split.
pub enum TargetFile {
    /// JSON lines, or one array.
    Json {
        /// Its place.
        path: PathBuf,
        /// Where rows go.
        out: BufWriter<File>,
        /// One array, laid out as Python's `indent=1`.
        array: bool,
        /// A row's form.
        encode: Encode,
        /// Rows so far.
        rows: u64,
    },
    /// Parquet.
    Table(Box<dyn TableSink>),
}

/// A Parquet file of one kind of row.
pub trait TableSink: Send {
    /// Appends rows.
    fn write(&mut self, rows: &[Written]) -> Result<(), TableError>;
    /// Writes the footer.
    fn finish(self: Box<Self>) -> Result<u64, TableError>;
}

impl TargetFile {
    /// Begins the file of `split` below `folder`; `pictured` when its rows have pictures, `held` when they hold the
    /// bytes.
    pub fn create(
        target: Target,
        kind: Kind,
        folder: &Path,
        split: Split,
        pictured: bool,
        held: bool,
    ) -> Result<Self, ExportError> {
        let path = folder.join(target.file(split));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|source| ExportError::Io { path: path.clone(), source })?;
        }
        let encode: Encode = match target {
            Target::LlamaFactory => llama_factory::row,
            Target::MsSwift => ms_swift::row,
            Target::Openai => openai::row,
            Target::Tracemill => pool::row,
            Target::Verl => return Ok(Self::Table(verl::create(kind, &path, pictured, held)?)),
            Target::Trl => return Ok(Self::Table(trl::create(kind, &path, pictured)?)),
        };
        let file = File::create(&path).map_err(|source| ExportError::Io { path: path.clone(), source })?;
        Ok(Self::Json {
            path,
            out: BufWriter::with_capacity(1 << 20, file),
            array: target == Target::LlamaFactory,
            encode,
            rows: 0,
        })
    }

    /// Appends rows.
    pub fn write(&mut self, rows: &[Written]) -> Result<(), ExportError> {
        let (path, out, array, encode, count) = match self {
            Self::Table(table) => return Ok(table.write(rows)?),
            Self::Json { path, out, array, encode, rows } => (path, out, *array, *encode, rows),
        };
        let texts: Vec<Vec<u8>> = rows
            .par_iter()
            .map(|row| if array { indented(&encode(row)) } else { serde_json::to_vec(&encode(row)) })
            .collect::<Result<_, _>>()
            .map_err(|source| ExportError::Json { path: path.clone(), source })?;
        let io = |source| ExportError::Io { path: path.clone(), source };
        for text in texts {
            let before: &[u8] = match (array, *count) {
                (false, _) => b"",
                (true, 0) => b"[\n ",
                (true, _) => b",\n ",
            };
            out.write_all(before).and_then(|()| out.write_all(&text)).map_err(io)?;
            if !array {
                out.write_all(b"\n").map_err(io)?;
            }
            *count += 1;
        }
        Ok(())
    }

    /// Ends the file; returns its rows.
    pub fn finish(self) -> Result<u64, ExportError> {
        match self {
            Self::Table(table) => Ok(table.finish()?),
            Self::Json { path, mut out, array, rows, .. } => {
                let end: &[u8] = if array { b"\n]" } else { b"" };
                out.write_all(end)
                    .and_then(|()| out.flush())
                    .map_err(|source| ExportError::Io { path, source })?;
                Ok(rows)
            }
        }
    }
}

/// A row inside an array, as Python's `json.dumps(…, indent=1, ensure_ascii=False)` lays it out.
fn indented(row: &serde_json::Value) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(2_048);
    let format = serde_json::ser::PrettyFormatter::with_indent(b" ");
    row.serialize(&mut serde_json::Serializer::with_formatter(&mut text, format))?;
    // The row is one level deep; line ends inside strings are escaped, so these are all its own.
    let mut deeper = Vec::with_capacity(text.len() + 64);
    for byte in text {
        deeper.push(byte);
        if byte == b'\n' {
            deeper.push(b' ');
        }
    }
    Ok(deeper)
}

/// Files that lie beside the rows: what the framework needs to read them, and to reward what it samples.
pub fn companions(
    target: Target,
    kind: Kind,
    role: AgentRole,
    splits: &[Split],
    pictured: bool,
) -> Vec<(String, String)> {
    let mut files = match target {
        Target::LlamaFactory => llama_factory::companions(kind, role, splits, pictured),
        Target::Verl => verl::companions(kind, role, splits),
        Target::Trl => trl::companions(kind),
        Target::MsSwift => ms_swift::companions(kind),
        Target::Openai | Target::Tracemill => Vec::new(),
    };
    if kind == Kind::Rl {
        files.push(("prompts.json".to_owned(), prompts()));
    }
    files
}

/// The templates of every role that an output may go through before it is rewarded, with their hashes.
fn prompts() -> String {
    let roles = ["coordinator", "executor", "state-tracker"];
    let used = registry().templates().filter(|(name, _)| roles.contains(&name.trim_end_matches("-text")));
    let templates: serde_json::Map<String, serde_json::Value> = used
        .map(|(name, t)| {
            let text = serde_json::json!({ "hash": t.hash(), "system": t.system, "user": t.user });
            (format!("{name}@{}", t.version), text)
        })
        .collect();
    let text = serde_json::to_string_pretty(&templates).unwrap_or_default();
    format!("{text}\n")
}
