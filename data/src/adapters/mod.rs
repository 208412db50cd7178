//! One file for each dataset format, behind one trait.
//!
//! An adapter first lists its work ([`Adapter::discover`]), then reads one item at a time
//! ([`Adapter::read`]), handing every episode and every reject to a sink. It holds no more than
//! one item in memory, and items are independent: the caller reads them in parallel and keeps
//! their order.

mod agentnet;
mod aitz;
mod amex;
mod android_control;
mod ces_sft;
mod detect;
mod droidtask;
mod elements;
mod gui_odyssey;
mod json;
mod mind2web;
mod osworld;
mod phrase;
mod pyautogui;
mod rows;
mod screenagent;
pub mod source;
#[cfg(test)]
pub(crate) mod testing;
mod ui_log;
mod webvoyager;

pub use ces_sft::FIRST_STATE;
pub use detect::{files_of, has_extension, looks_like, nothing};
pub use phrase::{ParsedPhrase, parse_instruction};
pub use rows::{CHUNK_BYTES, for_each_element, for_each_line, line_items};
pub use source::{Fault, Input, Item};

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

    /// Whether `path`, which is no item, is read along with one: it need not be reported as passed over.
    fn reads_along(&self, _path: &std::path::Path) -> bool {
        false
    }

    /// Reads one item; calls `sink` for every episode and every reject in file order. Never
    /// fails: what cannot be read is a [`Record::Reject`].
    fn read(&self, input: &Input, item: &Item, options: AdapterOptions, sink: &mut dyn FnMut(Record));
}

/// The adapter of a format.
///
/// Ids are unique within an item; an id that two items share is for the caller to refuse
/// ([`RejectKind::Duplicate`](crate::trace::RejectKind::Duplicate)).
pub fn adapter(format: Format) -> Box<dyn Adapter> {
    match format {
        Format::GuiOdyssey => Box::new(gui_odyssey::GuiOdyssey::default()),
        Format::CesSft => Box::new(ces_sft::CesSft),
        Format::AndroidControl => Box::new(android_control::AndroidControl),
        Format::Mind2web => Box::new(mind2web::Mind2web),
        Format::Screenagent => Box::new(screenagent::Screenagent),
        Format::UiLog => Box::new(ui_log::UiLog),
        Format::Agentnet => Box::new(agentnet::Agentnet),
        Format::Droidtask => Box::new(droidtask::Droidtask),
        Format::Aitz => Box::new(aitz::Aitz),
        Format::Amex => Box::new(amex::Amex),
        Format::Osworld => Box::new(osworld::Osworld),
        Format::Webvoyager => Box::new(webvoyager::Webvoyager::default()),
    }
}
