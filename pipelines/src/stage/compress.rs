//! `compress`: accessibility trees in files to the compact text that a model is shown, with what became of every element.

mod files;
mod page;
mod recorded;
mod summary;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use serde_json::{Value, json};
use tracemill_data::a11y::{AuditRow, Compressed, Compressor, Form, Phases, Rules, Tree, Trees, audit};
use tracemill_data::parquet_io::TableWriter;

use crate::cli::CompressArgs;
use crate::progress;
use crate::publish::Folder;
use crate::run::{Replacing, write_json};
use crate::table;
use crate::tokens::Counter;
use files::{Refused, Sequence, What};
pub use recorded::TreeSource;
use summary::{Screen, Summary};

/// Compresses the trees of a file or folder.
///
/// # Errors
/// No tree of the form at all, more rejects than are allowed, rules that cannot be used, a folder that cannot be written.
pub fn run(args: &CompressArgs) -> Result<()> {
    let rules = match &args.rules {
        Some(folder) => Rules::builtin().with_folder(folder).context("--rules")?,
        None => Rules::builtin(),
    };
    let phases = Phases { modal: !args.no_modal, reduce: !args.no_reduce, structure: !args.no_structure };
    let compressor = Compressor::new(rules, phases);
    let counter = Counter::named(&args.tokens).context("--tokens")?;
    let folder = Folder::begin(&args.out, "compress")?;
    let instruction = Instruction::of(&args.instruction)?;
    let work = Work {
        args,
        compressor: &compressor,
        counter: &counter,
        out: folder.dir(),
        instruction: &instruction,
    };
    let (parts, skipped) = match args.format {
        TreeSource::Files(form) => work.files(form)?,
        TreeSource::Episodes(format) => (recorded::parts(&work, format)?, Vec::new()),
    };
    let summary = Summary::of(&args.tokens, parts.iter().flat_map(|part| &part.screens), &parts, &skipped);
    let first = || parts.iter().flat_map(|part| &part.refused).next().map(Refused::told);
    if summary.screens() == 0 {
        bail!(
            "{}: no tree of {} could be read ({} other files){}",
            args.input.display(),
            args.format,
            skipped.len(),
            first().map(|first| format!("; {first}")).unwrap_or_default()
        );
    }
    if let Some(refused) = summary.more_refused_than(args.max_rejects) {
        bail!(
            "{refused}, more than --max-rejects {}; the first: {}",
            args.max_rejects,
            first().unwrap_or_default()
        );
    }
    write_rejects(folder.dir(), &parts)?;
    write_json(&folder.dir().join("summary.json"), &summary.as_json())?;
    if args.audit {
        write_audit(&folder.dir().join("audit.parquet"), &parts)?;
        page::write(&folder.dir().join("audit.html"), &parts)?;
    }
    let inputs: Vec<(PathBuf, String)> = parts.iter().flat_map(|part| part.inputs.iter().cloned()).collect();
    folder.publish(
        json!({ "form": args.format.to_string(), "tokens": args.tokens, "phases": phases,
        "instruction": args.instruction, "rules": compressor.rules() }),
        0,
        &inputs,
        summary.counts(),
    )?;
    table::print(&summary.told());
    Ok(())
}

/// What the user wants, in words.
enum Instruction {
    Given(String),
    /// `instruction.txt` beside each tree.
    Beside,
}

impl Instruction {
    fn of(argument: &str) -> Result<Self> {
        match argument.strip_prefix('@') {
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("--instruction @{path}"))?;
                Ok(Self::Given(text.trim().to_owned()))
            }
            None if argument == "auto" => Ok(Self::Beside),
            None => Ok(Self::Given(argument.to_owned())),
        }
    }

    fn for_folder(&self, folder: &Path) -> Result<String> {
        let path = folder.join("instruction.txt");
        match self {
            Self::Given(text) => Ok(text.clone()),
            Self::Beside if path.is_file() => Ok(std::fs::read_to_string(&path)
                .with_context(|| path.display().to_string())?
                .trim()
                .to_owned()),
            Self::Beside => Ok(String::new()),
        }
    }
}

/// What a folder's files, or an item of a data set, became.
#[derive(Default)]
struct Part {
    screens: Vec<Screen>,
    refused: Vec<Refused>,
    audit: Vec<AuditRow>,
    pages: Vec<page::Shown>,
    inputs: Vec<(PathBuf, String)>,
}

struct Work<'a> {
    args: &'a CompressArgs,
    compressor: &'a Compressor,
    counter: &'a Counter,
    out: &'a Path,
    instruction: &'a Instruction,
}

impl Work<'_> {
    /// Compresses the files below the input: folders side by side, and inside a folder its files, whose states follow one
    /// another. Tells the files that begin with no tree.
    fn files(&self, form: Form) -> Result<(Vec<Part>, Vec<String>)> {
        let found = files::find(&self.args.input, form)?;
        let files: usize = found.sequences.iter().map(|sequence| sequence.files.len()).sum();
        let bar = progress::bar("compress", "files", Some(files as u64));
        let parts = found.sequences.par_iter().map(|sequence| self.sequence(form, sequence, &bar));
        let parts = parts.collect::<Result<Vec<Part>>>()?;
        bar.finish_and_clear();
        Ok((parts, found.skipped))
    }

    /// Compresses the files of a folder one after the other.
    fn sequence(&self, form: Form, sequence: &Sequence, bar: &indicatif::ProgressBar) -> Result<Part> {
        let instruction = self.instruction.for_folder(&sequence.folder)?;
        let mut part = Part::default();
        let mut before = None;
        for file in &sequence.files {
            bar.inc(1);
            let Trees { mut trees, rejects } = match files::read(&file.path, form) {
                Ok(read) => read,
                Err(error) => {
                    part.refused.push(Refused::of(&file.shown, What::Tree, &error));
                    before = None;
                    continue;
                }
            };
            part.refused.extend(rejects.iter().map(|reject| Refused::of(&file.shown, What::Tree, reject)));
            let elements = trees.iter().flat_map(|tree| &tree.rejects);
            part.refused.extend(elements.map(|reject| Refused::of(&file.shown, What::Element, reject)));
            part.inputs.push((file.path.clone(), file.shown.clone()));
            trees.iter_mut().for_each(|tree| tree.size = tree.size.or(self.args.screen));
            let many = trees.len() > 1;
            if !file.follows {
                before = None;
            }
            for (nth, tree) in trees.iter().enumerate() {
                let name = if many { format!("{}/{:06}", file.name, nth + 1) } else { file.name.clone() };
                let compressed = self.compressor.compress(tree, before.as_ref(), &instruction);
                self.keep(&name, tree, &compressed, &file.path, &mut part)?;
                before = (!self.args.independent).then_some(compressed.seen);
            }
        }
        Ok(part)
    }

    fn keep(
        &self,
        name: &str,
        tree: &Tree,
        compressed: &Compressed,
        source: &Path,
        part: &mut Part,
    ) -> Result<()> {
        let path = self.out.join(format!("{name}.txt"));
        let parent = path.parent().unwrap_or(self.out);
        std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        std::fs::write(&path, &compressed.text).with_context(|| path.display().to_string())?;
        let raw = tree.linear();
        if self.args.linear {
            let path = self.out.join(format!("{name}.tsv"));
            std::fs::write(&path, &raw).with_context(|| path.display().to_string())?;
        }
        part.screens.push(Screen {
            tree: name.to_owned(),
            app: compressed.app.clone(),
            modal: compressed.modal,
            tokens_in: self.counter.count(&raw),
            tokens_out: self.counter.count(&compressed.text),
            elements_in: tree.nodes.len() + tree.left_out.len(),
            is_empty: tree.nodes.is_empty() && !tree.left_out.is_empty(),
            is_cut: tree.cut,
            rules: audit::totals_of(compressed, tree),
        });
        if self.args.audit {
            part.audit.extend(compressed.audit(name, tree));
            // The page shows the first ones of all; no folder gives more than those.
            if part.pages.len() < page::MOST {
                part.pages.push(page::Shown::of(name, tree, compressed, source));
            }
        }
        Ok(())
    }
}

fn write_rejects(folder: &Path, parts: &[Part]) -> Result<()> {
    let refused: Vec<&Refused> = parts.iter().flat_map(|part| &part.refused).collect();
    let mut out = Replacing::create(&folder.join("rejects.jsonl"))?;
    for line in &refused {
        serde_json::to_writer(&mut out, line)?;
        std::io::Write::write_all(&mut out, b"\n")?;
    }
    out.finish()?;
    if let Some(first) = refused.first() {
        log::warn!("{} rejects (rejects.jsonl); the first: {}", refused.len(), first.told());
    }
    let empty: Vec<&Screen> =
        parts.iter().flat_map(|part| &part.screens).filter(|screen| screen.is_empty).collect();
    if let Some(first) = empty.first() {
        log::warn!(
            "{} screens have elements of which none is shown on the screen; the first: {}",
            empty.len(),
            first.tree
        );
    }
    Ok(())
}

fn write_audit(path: &Path, parts: &[Part]) -> Result<()> {
    let mut table = TableWriter::<AuditRow>::create(path)?;
    for part in parts {
        table.write(&part.audit)?;
    }
    table.finish()?;
    Ok(())
}

/// Counts for the manifest.
type Counts = BTreeMap<String, Value>;
