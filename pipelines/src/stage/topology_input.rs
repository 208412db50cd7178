//! What `topology build` reads: which file is of which kind, and the graph they make together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tracemill_data::adapters::source::read_text;
use tracemill_data::adapters::{AdapterOptions, Input, Item, Record, adapter, for_each_line, has_extension};
use tracemill_data::nav::{
    BuildOptions, Built, DroidbotReader, GraphBuilder, Place, RipReader, TraceReader, explorer_skipped,
};
use tracemill_data::trace::{Format, RejectKind, read_episodes};

/// Endings of files that lie beside an exploration log and are read with it, or say the same again.
const BESIDE_LOGS: [&str; 3] = [".controls.jsonl", ".states.jsonl", ".meta.json"];
/// Bytes of a JSON lines file that are looked at to tell what it is.
const SNIFFED: usize = 1 << 16;

/// What a file is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Log,
    Droidtask,
    DroidbotState,
    DroidbotEvent,
    DroidbotUtg,
}

/// Everything that was read: the graph, the files it came from, those that were passed over.
#[derive(Debug, Default)]
pub struct Read {
    /// The graph, rejects, click sequences.
    pub built: Built,
    /// Files read, and how artifacts name them.
    pub files: Vec<(PathBuf, String)>,
    /// Files that are of no known kind.
    pub passed_over: Vec<String>,
}

/// Reads inputs in their order; the files of a folder in the order of their paths.
///
/// # Errors
/// An input that is not there, or in which there is nothing to read.
pub fn read(inputs: &[PathBuf], options: BuildOptions) -> Result<Read> {
    let mut reader = Reader {
        builder: GraphBuilder::new(options),
        traces: TraceReader::default(),
        droidbot: BTreeMap::new(),
        read: Read::default(),
    };
    for path in inputs {
        reader.input(path).with_context(|| format!("--input {}", path.display()))?;
    }
    for (_, droidbot) in reader.droidbot {
        droidbot.end(&mut reader.builder);
    }
    let mut read = reader.read;
    read.built = reader.builder.finish();
    if read.built.graph.controls.len() < 2 {
        let first =
            read.built.rejects.first().map(|r| format!("; {} {}: {}", r.place.file, r.place.key, r.reason));
        bail!(
            "no control was found in {} files{}",
            read.files.len(),
            first.unwrap_or_else(|| {
                "; give an exploration log (.jsonl), a transition graph (utg.yaml, utg.js), DroidBot's output or traces with elements"
                    .to_owned()
            })
        );
    }
    Ok(read)
}

struct Reader {
    builder: GraphBuilder,
    traces: TraceReader,
    droidbot: BTreeMap<PathBuf, DroidbotReader>,
    read: Read,
}

impl Reader {
    fn input(&mut self, path: &Path) -> Result<()> {
        for folder in [path.to_owned(), path.join("traces")] {
            if folder.join("episodes.parquet").is_file() {
                return self.run_traces(&folder);
            }
        }
        let input = Input::new(path)?;
        let given = input.only.is_some();
        let mut found = false;
        for file in input.files(|_| true)? {
            match kind_of(&file, given) {
                Some(kind) => {
                    found = true;
                    self.file(&input, &file, kind);
                }
                None if is_beside(&file) => {}
                None => self.read.passed_over.push(input.display(&file)),
            }
        }
        if !found {
            bail!(
                "nothing to read: expected .jsonl logs, utg.yaml, utg.js, state_*.json and event_*.json, or traces"
            );
        }
        Ok(())
    }

    fn run_traces(&mut self, folder: &Path) -> Result<()> {
        for name in ["episodes.parquet", "steps.parquet"] {
            self.read.files.push((folder.join(name), format!("traces/{name}")));
        }
        for episode in read_episodes(folder)? {
            let (episode, steps) = episode?;
            self.traces.rows(&mut self.builder, &episode, &steps);
        }
        Ok(())
    }

    fn file(&mut self, input: &Input, path: &Path, kind: Kind) {
        let shown = input.display(path);
        log::info!("reading {shown}");
        self.read.files.push((path.to_owned(), shown.clone()));
        match kind {
            Kind::Log => self.log(path, &shown),
            Kind::Droidtask => {
                let (builder, traces) = (&mut self.builder, &mut self.traces);
                let item = Item::whole(path.to_owned());
                adapter(Format::Droidtask).read(input, &item, AdapterOptions::default(), &mut |record| {
                    match record {
                        Record::Episode(episode) => traces.episode(builder, &episode),
                        Record::Reject(r) => builder.reject(Place::new(&r.file, r.key), r.kind, r.reason),
                    }
                });
            }
            Kind::DroidbotState | Kind::DroidbotEvent | Kind::DroidbotUtg => {
                let folder = path.parent().unwrap_or(path);
                let is_part = folder.file_name().is_some_and(|name| name == "states" || name == "events");
                let base = if is_part { folder.parent().unwrap_or(folder) } else { folder };
                let droidbot = self.droidbot.entry(base.to_owned()).or_default();
                match read_text(path) {
                    Ok(text) if kind == Kind::DroidbotState => {
                        droidbot.state(&mut self.builder, &shown, &text);
                    }
                    Ok(text) if kind == Kind::DroidbotUtg => droidbot.utg(&mut self.builder, &shown, &text),
                    Ok(text) => droidbot.event(&mut self.builder, &shown, &text),
                    Err(fault) => self.builder.reject(Place::new(&shown, ""), fault.kind, fault.reason),
                }
            }
        }
    }

    fn log(&mut self, path: &Path, shown: &str) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut rip = RipReader::new(shown, &stem);
        let builder = &mut self.builder;
        let read =
            for_each_line(&Item::whole(path.to_owned()), |number, line| rip.line(builder, number, line));
        if let Err(fault) = read {
            builder.reject(Place::new(shown, ""), fault.kind, fault.reason);
        }
        let app = rip.app().to_owned();
        rip.end(builder);
        let meta = path.with_extension("meta.json");
        if meta.is_file() {
            let name = Path::new(shown).with_extension("meta.json").to_string_lossy().replace('\\', "/");
            self.read.files.push((meta.clone(), name.clone()));
            let taken = read_text(&meta).and_then(|text| explorer_skipped(builder, &app, &text));
            if let Err(fault) = taken {
                builder.reject(Place::new(&name, ""), RejectKind::Malformed, fault.reason);
            }
        }
    }
}

fn is_beside(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    BESIDE_LOGS.iter().any(|ending| name.ends_with(ending))
}

/// What a file is read as; `given` by name, a JSON lines file is a log.
fn kind_of(path: &Path, given: bool) -> Option<Kind> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if has_extension(path, &["jsonl"]) {
        return (given || (!is_beside(path) && looks_like_log(path))).then_some(Kind::Log);
    }
    if has_extension(path, &["yaml", "yml"]) {
        return Some(Kind::Droidtask);
    }
    if has_extension(path, &["js"]) {
        return (given || name.starts_with("utg")).then_some(Kind::DroidbotUtg);
    }
    if !has_extension(path, &["json"]) {
        return None;
    }
    match name.split(['_', '.']).next() {
        Some("state") => Some(Kind::DroidbotState),
        Some("event") => Some(Kind::DroidbotEvent),
        Some("profile") => Some(Kind::Droidtask),
        _ => None,
    }
}

/// Whether the beginning of a file names the field that every transition has.
fn looks_like_log(path: &Path) -> bool {
    use std::io::Read;
    let Ok(file) = std::fs::File::open(path) else { return true };
    let mut start = Vec::new();
    let read = file.take(SNIFFED as u64).read_to_end(&mut start);
    read.is_err() || String::from_utf8_lossy(&start).contains("\"new_controls\"")
}
