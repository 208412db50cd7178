//! Finding and reading source files: safely, recursively, in a fixed order.

use std::path::{Component, Path, PathBuf};

use serde::de::DeserializeSeed;
use serde_json::{Map, Value};

use super::json::Unique;
use super::{AdapterError, Record};
use crate::action::{BBox, Frame, Point, Position, ScreenSize};
use crate::trace::{Episode, Format, Reject, RejectKind, Screen};

/// An input path from the command line.
#[derive(Debug, Clone)]
pub struct Input {
    /// The folder searched, or the folder that holds the file given.
    pub root: PathBuf,
    /// The file given, when the path was one.
    pub only: Option<PathBuf>,
    /// What `source` fields are relative to: the root's parent, so that they name the root too.
    base: PathBuf,
}

/// One unit of work: a file, a folder that is one episode, or a range of lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Absolute path of the file or folder.
    pub path: PathBuf,
    /// Byte range of the file to read, on line boundaries; `None` for all of it.
    pub bytes: Option<std::ops::Range<u64>>,
    /// Number (from 1) of the first line in `bytes`.
    pub first_line: u64,
}

impl Item {
    /// The whole of `path`.
    pub fn whole(path: PathBuf) -> Self {
        Self { path, bytes: None, first_line: 1 }
    }
}

impl Input {
    /// An input path, which must exist.
    ///
    /// # Errors
    /// What the system says of the path.
    pub fn new(path: &Path) -> std::io::Result<Self> {
        let path = path.canonicalize()?;
        let parent = |p: &Path| p.parent().map_or_else(|| p.to_owned(), Path::to_owned);
        if path.is_file() {
            let root = parent(&path);
            Ok(Self { base: root.clone(), root, only: Some(path) })
        } else {
            Ok(Self { base: parent(&path), root: path, only: None })
        }
    }

    /// Regular files under the root (or the one file given) that `keep` accepts, sorted by path.
    /// Links to files are followed (a Hugging Face cache consists of them), links to folders are not.
    ///
    /// # Errors
    /// A folder that cannot be listed.
    pub fn files(&self, keep: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>, AdapterError> {
        if let Some(file) = &self.only {
            return Ok(if keep(file) { vec![file.clone()] } else { Vec::new() });
        }
        let mut files = Vec::new();
        for entry in walkdir::WalkDir::new(&self.root).sort_by_file_name() {
            let entry = entry.map_err(|e| AdapterError::Io { path: self.root.clone(), source: e.into() })?;
            let linked = || entry.path_is_symlink() && entry.path().is_file();
            if (entry.file_type().is_file() || linked()) && keep(entry.path()) {
                files.push(entry.into_path());
            }
        }
        Ok(files)
    }

    /// `path` as artifacts name it: relative to the input's parent folder.
    pub fn display(&self, path: &Path) -> String {
        path.strip_prefix(&self.base).unwrap_or(path).to_string_lossy().replace('\\', "/")
    }

    /// The screen of a step whose source names `screenshot`, looked for below each of `folders`
    /// (and the root). An absolute path or a URL is kept as text and never opened.
    ///
    /// # Errors
    /// A relative path that leaves the root from every one of these folders, or through a link.
    pub fn screen(&self, screenshot: &str, folders: &[&Path]) -> Result<Screen, String> {
        let absent = Screen { screenshot: Some(screenshot.to_owned()), ..Screen::default() };
        if Path::new(screenshot).is_absolute() || screenshot.contains("://") {
            return Ok(absent);
        }
        let mut outcome = Err(String::new());
        for folder in folders.iter().copied().chain([self.root.as_path()]) {
            let path = match self.joined(folder, screenshot) {
                Ok(path) => self.unlinked(path, screenshot)?,
                Err(reason) => {
                    outcome = outcome.map_err(|_| reason);
                    continue;
                }
            };
            if path.is_file() {
                let shown = path.strip_prefix(&self.root).unwrap_or(&path);
                return Ok(Screen {
                    screenshot: Some(shown.to_string_lossy().replace('\\', "/")),
                    screenshot_found: true,
                    ..Screen::default()
                });
            }
            outcome = Ok(absent.clone());
        }
        outcome
    }

    /// [`Input::screen`] as a step needs it: no screen where the source names no screenshot, and
    /// a fault where `required` and the screenshot is not under the input folder.
    ///
    /// # Errors
    /// [`RejectKind::UnsafePath`] or [`RejectKind::MissingScreenshot`].
    pub fn step_screen(
        &self,
        screenshot: Option<&str>,
        folders: &[&Path],
        required: bool,
    ) -> Result<Screen, Fault> {
        let Some(screenshot) = screenshot else { return Ok(Screen::default()) };
        let screen =
            self.screen(screenshot, folders).map_err(|reason| Fault::new(RejectKind::UnsafePath, reason))?;
        if required && !screen.screenshot_found {
            return Err(Fault::new(
                RejectKind::MissingScreenshot,
                format!(
                    "screenshot `{screenshot}` is not under the input folder; add it, or do not require screenshots"
                ),
            ));
        }
        Ok(screen)
    }

    /// `folder/relative`, when that stays inside the root: `..` may not climb out, and a link may
    /// not lead out.
    ///
    /// # Errors
    /// Says which path leaves which folder.
    pub fn inside(&self, folder: &Path, relative: &str) -> Result<PathBuf, String> {
        self.unlinked(self.joined(folder, relative)?, relative)
    }

    fn joined(&self, folder: &Path, relative: &str) -> Result<PathBuf, String> {
        let mut path = folder.to_owned();
        for component in Path::new(relative).components() {
            match component {
                Component::Normal(part) => path.push(part),
                Component::CurDir => {}
                Component::ParentDir if path != self.root => {
                    path.pop();
                }
                _ => return Err(format!("path `{relative}` leaves the input folder")),
            }
        }
        Ok(path)
    }

    fn unlinked(&self, path: PathBuf, relative: &str) -> Result<PathBuf, String> {
        match path.canonicalize() {
            Ok(real) if !real.starts_with(&self.root) => {
                Err(format!("path `{relative}` leaves the input folder through a link"))
            }
            _ => Ok(path),
        }
    }
}

/// Makes rejects for one item: knows the format and the file.
#[derive(Debug, Clone)]
pub struct Rejecter {
    /// The adapter's format.
    pub format: Format,
    /// The file, as [`Input::display`] names it.
    pub file: String,
}

impl Rejecter {
    /// A reject at `key` of the file.
    pub fn reject(&self, key: impl Into<String>, episode_id: Option<&str>, fault: Fault) -> Reject {
        Reject {
            format: self.format,
            file: self.file.clone(),
            key: key.into(),
            episode_id: episode_id.map(str::to_owned),
            kind: fault.kind,
            reason: fault.reason,
        }
    }
}

/// A record that was refused, before its file is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Line or key inside the file; empty for the whole file.
    pub key: String,
    /// Id of the episode, as far as it could be read.
    pub episode_id: Option<String>,
    /// What is wrong with it.
    pub fault: Fault,
}

impl Refused {
    /// A record refused at `key`.
    pub fn new(key: impl Into<String>, episode_id: Option<&str>, fault: Fault) -> Self {
        Self { key: key.into(), episode_id: episode_id.map(str::to_owned), fault }
    }
}

impl Rejecter {
    /// For the records of `path`.
    pub fn of(format: Format, input: &Input, path: &Path) -> Self {
        Self { format, file: input.display(path) }
    }

    /// A refused record as an adapter hands it on.
    pub fn record(&self, refused: Refused) -> Record {
        Record::Reject(self.reject(refused.key, refused.episode_id.as_deref(), refused.fault))
    }

    /// What an adapter hands on for a record that was read, or refused.
    pub fn outcome(&self, read: Result<Episode, Refused>) -> Record {
        match read {
            Ok(episode) => Record::Episode(Box::new(episode)),
            Err(refused) => self.record(refused),
        }
    }
}

/// What is wrong with a record: the reason of a [`Reject`] before its place is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Class of the reason.
    pub kind: RejectKind,
    /// The reason, for a person: names the field.
    pub reason: String,
}

impl Fault {
    /// A fault of `kind`.
    pub fn new(kind: RejectKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into() }
    }

    /// The fault with the place inside the record put before its reason: `steps[3]: …`.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        Self { reason: format!("{place}: {}", self.reason), ..self }
    }
}

/// Reads a file as UTF-8 text; a byte-order mark is skipped.
///
/// # Errors
/// [`RejectKind::Unreadable`], or [`RejectKind::NotUtf8`] with the offset of the first bad byte.
pub fn read_text(path: &Path) -> Result<String, Fault> {
    let bytes = std::fs::read(path).map_err(|e| Fault::new(RejectKind::Unreadable, e.to_string()))?;
    utf8(bytes)
}

/// `bytes` as UTF-8 text; a byte-order mark is skipped.
///
/// # Errors
/// [`RejectKind::NotUtf8`] with the offset of the first bad byte.
fn utf8(bytes: Vec<u8>) -> Result<String, Fault> {
    let mut text = String::from_utf8(bytes).map_err(|e| not_utf8(e.utf8_error().valid_up_to()))?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

/// The fault of text that is not UTF-8 at byte `at`.
pub fn not_utf8(at: usize) -> Fault {
    Fault::new(RejectKind::NotUtf8, format!("not UTF-8 at byte {at}; convert the file to UTF-8"))
}

/// Parses JSON in which no object holds a key twice.
///
/// # Errors
/// [`RejectKind::Malformed`] with line and column; a cut-off file is said to be cut off.
pub fn parse_json(text: &str) -> Result<Value, Fault> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Unique.deserialize(&mut deserializer);
    value.and_then(|value| deserializer.end().map(|()| value)).map_err(|e| malformed(&e))
}

/// The fault of JSON that cannot be parsed, or that is cut off.
pub fn malformed(e: &serde_json::Error) -> Fault {
    let what = if e.is_eof() { "JSON is cut off" } else { "malformed JSON" };
    Fault::new(RejectKind::Malformed, format!("{what}: {e}"))
}

/// Access to the fields of a JSON object, with faults that name the field.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a Map<String, Value>);

impl<'a> Fields<'a> {
    /// The fields of `value`, which must be an object.
    ///
    /// # Errors
    /// [`RejectKind::Malformed`] when it is not.
    pub fn of(value: &'a Value) -> Result<Self, Fault> {
        value.as_object().map(Self).ok_or_else(|| {
            Fault::new(RejectKind::Malformed, format!("expected a JSON object, found {}", kind_of(value)))
        })
    }

    /// A field that may be absent or null.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|v| !v.is_null())
    }

    /// A required field of any type but null.
    ///
    /// # Errors
    /// [`RejectKind::MissingField`] when it is absent.
    pub fn require(&self, name: &str) -> Result<&'a Value, Fault> {
        self.get(name)
            .ok_or_else(|| Fault::new(RejectKind::MissingField, format!("field `{name}` is missing")))
    }

    fn wrong(name: &str, expected: &str, found: &Value) -> Fault {
        Fault::new(
            RejectKind::MissingField,
            format!("field `{name}`: expected {expected}, found {}", kind_of(found)),
        )
    }

    /// A required string.
    ///
    /// # Errors
    /// When it is absent or of another type.
    pub fn str(&self, name: &str) -> Result<&'a str, Fault> {
        let value = self.require(name)?;
        value.as_str().ok_or_else(|| Self::wrong(name, "a string", value))
    }

    /// A string that may be absent; a blank one counts as absent.
    pub fn opt_str(&self, name: &str) -> Option<&'a str> {
        self.get(name).and_then(Value::as_str).filter(|s| !s.trim().is_empty())
    }

    /// A string that may be absent or blank, but is a string where it is present.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn maybe_str(&self, name: &str) -> Result<Option<&'a str>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => {
                let text = value.as_str().ok_or_else(|| Self::wrong(name, "a string", value))?;
                Ok(Some(text).filter(|s| !s.trim().is_empty()))
            }
        }
    }

    /// A required array of strings.
    ///
    /// # Errors
    /// When it is absent, or it or one of its elements is of another type.
    pub fn strings(&self, name: &str) -> Result<Vec<&'a str>, Fault> {
        let strings = self.array(name)?.iter().map(|v| v.as_str().ok_or(v)).collect::<Result<_, _>>();
        strings.map_err(|v| Self::wrong(name, "an array of strings", v))
    }

    /// A required point `[x, y]` in frame `F`, which must lie inside the frame (and the screen).
    ///
    /// # Errors
    /// When it is absent, of another type, or outside.
    pub fn point<F: Frame>(&self, name: &str, screen: Option<ScreenSize>) -> Result<Position, Fault>
    where
        Position: From<Point<F>>,
    {
        point::<F>(self.require(name)?, screen).map_err(|fault| fault.at(&format!("field `{name}`")))
    }

    /// A required whole number.
    ///
    /// # Errors
    /// When it is absent or of another type.
    pub fn int(&self, name: &str) -> Result<i64, Fault> {
        let value = self.require(name)?;
        value.as_i64().ok_or_else(|| Self::wrong(name, "a whole number", value))
    }

    /// A required number.
    ///
    /// # Errors
    /// When it is absent or of another type.
    pub fn f64(&self, name: &str) -> Result<f64, Fault> {
        let value = self.require(name)?;
        value.as_f64().ok_or_else(|| Self::wrong(name, "a number", value))
    }

    /// A required array.
    ///
    /// # Errors
    /// When it is absent or of another type.
    pub fn array(&self, name: &str) -> Result<&'a [Value], Fault> {
        let value = self.require(name)?;
        value.as_array().map(Vec::as_slice).ok_or_else(|| Self::wrong(name, "an array", value))
    }

    /// A required object.
    ///
    /// # Errors
    /// When it is absent or of another type.
    pub fn object(&self, name: &str) -> Result<Fields<'a>, Fault> {
        let value = self.require(name)?;
        value.as_object().map(Fields).ok_or_else(|| Self::wrong(name, "an object", value))
    }

    /// A required id: a string, or a whole number written as one.
    ///
    /// # Errors
    /// When it is absent, blank or of another type.
    pub fn id(&self, name: &str) -> Result<String, Fault> {
        let value = self.require(name)?;
        match value {
            Value::String(s) if !s.trim().is_empty() => Ok(s.clone()),
            Value::Number(n) => Ok(n.to_string()),
            _ => Err(Self::wrong(name, "a non-empty string or a number", value)),
        }
    }
}

/// A point `[x, y]` in frame `F`, which must lie inside the frame (and the screen, if given).
///
/// # Errors
/// When it is not two numbers, or outside.
pub fn point<F: Frame>(value: &Value, screen: Option<ScreenSize>) -> Result<Position, Fault>
where
    Position: From<Point<F>>,
{
    let [x, y] = numbers(value)?;
    let point = Point::<F>::checked(x, y, screen);
    point.map(Into::into).map_err(|e| Fault::new(RejectKind::OutOfRange, e.to_string()))
}

/// A box `[left, top, right, bottom]` in frame `F`, inside the frame where it has limits (an
/// element may stick out of a screen measured in pixels).
///
/// # Errors
/// When it is not four numbers, its edges are crossed, or a corner is outside the frame.
pub fn bbox<F: Frame>(value: &Value) -> Result<BBox, Fault>
where
    Position: From<Point<F>>,
{
    let [left, top, right, bottom] = numbers(value)?;
    if left > right || top > bottom {
        return Err(Fault::new(
            RejectKind::OutOfRange,
            format!("box [{left}, {top}, {right}, {bottom}] has crossed edges"),
        ));
    }
    if F::MAX.is_some() {
        for (x, y) in [(left, top), (right, bottom)] {
            Point::<F>::checked(x, y, None).map_err(|e| Fault::new(RejectKind::OutOfRange, e.to_string()))?;
        }
    }
    let frame = Position::from(Point::<F>::new(left, top)).frame;
    Ok(BBox { left, top, right, bottom, frame })
}

/// Exactly `N` numbers.
///
/// # Errors
/// When `value` is anything else.
pub fn numbers<const N: usize>(value: &Value) -> Result<[f64; N], Fault> {
    let numbers: Option<Vec<f64>> =
        value.as_array().and_then(|items| items.iter().map(Value::as_f64).collect());
    numbers.and_then(|n| n.try_into().ok()).ok_or_else(|| {
        let shown: String = value.to_string().chars().take(60).collect();
        Fault::new(RejectKind::MissingField, format!("expected {N} numbers, found {shown}"))
    })
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
