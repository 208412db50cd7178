//! Trees that are recorded step by step: the screens of a data set whose steps have elements.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result};
use rayon::prelude::*;
use tracemill_data::a11y::{Form, Tree};
use tracemill_data::adapters::{AdapterOptions, Input, Item, Record, adapter};
use tracemill_data::trace::{Episode, Format};

use super::files::{Refused, What};
use super::{Instruction, Part, Work};

/// Where trees come from: files of a form, or the steps of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeSource {
    /// Files, a tree each.
    Files(Form),
    /// Episodes, a tree for each step.
    Episodes(Format),
}

/// The data sets whose steps have elements.
const WITH_ELEMENTS: [Format; 3] = [Format::Droidtask, Format::Aitz, Format::Amex];

impl fmt::Display for TreeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(form) => form.fmt(f),
            Self::Episodes(format) => f.write_str(format.name()),
        }
    }
}

impl FromStr for TreeSource {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if let Some(format) = WITH_ELEMENTS.into_iter().find(|format| format.name() == s) {
            return Ok(Self::Episodes(format));
        }
        let sets: Vec<_> = WITH_ELEMENTS.iter().map(|format| format.name()).collect();
        s.parse().map(Self::Files).map_err(|e: String| format!("{e}; known data sets: {}", sets.join(", ")))
    }
}

/// Compresses the screens of the episodes below the input; an item of the data set is a part.
pub fn parts(work: &Work<'_>, format: Format) -> Result<Vec<Part>> {
    let at = || format!("--input {}", work.args.input.display());
    let adapter = adapter(format);
    let input = Input::new(&work.args.input).with_context(at)?;
    let items = adapter.discover(&input).with_context(at)?;
    let part = |item: &Item| {
        let mut part = Part::default();
        part.inputs.push((item.path.clone(), input.display(&item.path)));
        let mut failed = Ok(());
        adapter.read(&input, item, AdapterOptions::default(), &mut |record| match record {
            Record::Reject(reject) => part.refused.push(Refused {
                file: reject.file,
                what: What::Tree,
                place: reject.key,
                reason: reject.reason,
            }),
            Record::Episode(episode) if failed.is_ok() => {
                failed = work.episode(&input, &episode, &mut part);
            }
            Record::Episode(_) => {}
        });
        failed.map(|()| part)
    };
    let mut parts = items.par_iter().map(part).collect::<Result<Vec<Part>>>()?;
    // Several items may lie in one file.
    let mut seen = std::collections::BTreeSet::new();
    parts.iter_mut().for_each(|part| part.inputs.retain(|(path, _)| seen.insert(path.clone())));
    Ok(parts)
}

impl Work<'_> {
    fn episode(&self, input: &Input, episode: &Episode, part: &mut Part) -> Result<()> {
        let instruction = match self.instruction {
            Instruction::Given(text) => text,
            Instruction::Beside => &episode.instruction,
        };
        let mut before = None;
        for step in episode.steps.iter().filter(|step| !step.screen.elements.is_empty()) {
            let mut tree = Tree::from(&step.screen);
            tree.size = tree.size.or(self.args.screen);
            tree.applications.extend(step.app.iter().chain(&step.window).cloned());
            let name = format!("{}/{:04}", folder_name(&episode.episode_id), step.step);
            let compressed = self.compressor.compress(&tree, before.as_ref(), instruction);
            let picture =
                step.screen.screenshot.as_ref().map_or_else(|| input.root.clone(), |p| input.root.join(p));
            self.keep(&name, &tree, &compressed, &picture, part)?;
            before = (!self.args.independent).then_some(compressed.seen);
        }
        Ok(())
    }
}

/// An id as the name of a folder: it may say anything, and must not lead elsewhere.
fn folder_name(id: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ') { c } else { '_' };
    let name: String = id.chars().map(plain).collect();
    if name.trim_matches('.').is_empty() { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_in_their_folder_and_sources_go_by_name() {
        assert_eq!(folder_name("droidtask:clock/0a"), "droidtask_clock_0a");
        assert_eq!((folder_name(".."), folder_name("../x")), ("_..".to_owned(), ".._x".to_owned()));
        assert_eq!("aitz".parse(), Ok(TreeSource::Episodes(Format::Aitz)));
        assert_eq!("uia-json".parse(), Ok(TreeSource::Files(Form::UiaJson)));
        let unknown = "mind2web".parse::<TreeSource>().expect_err("no screens");
        assert!(unknown.contains("osworld-tsv") && unknown.contains("droidtask, aitz, amex"), "{unknown}");
    }
}
