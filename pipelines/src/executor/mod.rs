//! Frozen executors: an atomic instruction and a screen in, a reply with an action out.
//!
//! A reply is text, whoever wrote it, and is read by the same parser and scored by the same rules.

mod ground;
mod lexical;
mod phrasing;

pub use ground::{Candidate, Grounding, ground};
pub use lexical::Lexical;
pub use phrasing::{Gesture, Phrasing, Worded, is_ambiguous, phrasings};

use tracemill_data::trace::Screen;

/// What an executor is asked.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    /// The atomic instruction: "Tap the Save button."
    pub instruction: &'a str,
    /// The screen it is to be carried out on.
    pub screen: &'a Screen,
}

/// What an executor answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The raw reply, `<think>…</think><answer>…</answer>`.
    pub text: String,
    /// Ids of the elements that the instruction fits equally well, when there are several: the answer
    /// names the first. Only an executor that knows says so.
    pub ambiguous: Vec<String>,
}
