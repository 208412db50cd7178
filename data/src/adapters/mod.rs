//! One file for each dataset format, behind one trait.
//!
//! An adapter first lists its work ([`Adapter::discover`]), then reads one item at a time
//! ([`Adapter::read`]), handing every episode and every reject to a sink. It holds no more than
//! one item in memory, and items are independent: the caller reads them in parallel and keeps
//! their order.

pub mod agentnet;
mod detect;
pub mod screenagent;
pub mod source;
pub mod ui_log;

use std::path::Path;

pub use detect::looks_like;
pub use source::{Input, Item};

use crate::trace::{Episode, Format, Reject};

/// What an adapter hands on.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// An episode that passed every check.
    Episode(Box<Episode>),
    /// A record that did not, with file, line or key, and reason.
    Reject(Reject),
}

/// Options that apply to every adapter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct AdapterOptions {
    /// Refuse an episode that names a screenshot which is not under the input folder.
    pub require_screenshots: bool,
}

/// An input that cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// The path does not exist or cannot be listed.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No file under the path is of this format.
    #[error("{path}: no {format} file found{hint}")]
    Nothing {
        /// The path.
        path: std::path::PathBuf,
        /// The format asked for.
        format: Format,
        /// What the files look like instead, and what to do.
        hint: String,
    },
}

/// Reads one dataset format.
pub trait Adapter: Send + Sync {
    /// The format it reads.
    fn format(&self) -> Format;

    /// The items under `input` (a file, or a folder searched recursively), in a fixed order.
    ///
    /// # Errors
    /// When the path cannot be read, or holds nothing of this format.
    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError>;

    /// Reads one item; calls `sink` for every episode and every reject in file order. Never
    /// fails: what cannot be read is a [`Record::Reject`].
    fn read(&self, input: &Input, item: &Item, options: AdapterOptions, sink: &mut dyn FnMut(Record));
}

/// The adapter of a format.
pub fn adapter(format: Format) -> Box<dyn Adapter> {
    match format {
        Format::Screenagent => Box::new(screenagent::Screenagent),
        Format::UiLog => Box::new(ui_log::UiLog),
        Format::Agentnet => Box::new(agentnet::Agentnet),
        _ => todo!(),
    }
}

/// A first look at `path`, for error messages: the formats its files look like.
pub fn detect(path: &Path) -> Vec<Format> {
    looks_like(path)
}
