//! Frozen executors: an atomic instruction and a screen in, a reply with an action out.
//!
//! A reply is text, whoever wrote it, and is read by the same parser and scored by the same rules.

mod coordinates;
mod endpoint;
mod ground;
mod lexical;
mod local;
mod phrasing;

pub use coordinates::{Coordinates, smart_resize};
pub use endpoint::{Endpoint, ask, request_of};
pub use ground::{Candidate, Grounding, ground};
pub use lexical::Lexical;
pub use local::{LocalExecutor, local_replies, local_request};
pub use phrasing::{Gesture, Phrasing, Worded, is_ambiguous, phrasings};

use tracemill_data::trace::Screen;

use crate::chat::{ChatError, Image, Outcome};

/// What an executor is asked.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    /// The atomic instruction: "Tap the Save button."
    pub instruction: &'a str,
    /// The screen it is to be carried out on.
    pub screen: &'a Screen,
    /// Its picture, for executors that look.
    pub image: Option<&'a Image>,
}

/// An executor that is not trained: it stays as it is while others learn from what it does.
pub trait Executor: Send + Sync {
    /// Name and version, for artifacts that depend on it.
    fn name(&self) -> String;

    /// Carries out commands; outcomes come in their order. A call that fails is an outcome.
    ///
    /// # Errors
    /// What has to stop the stage: a ledger that fails, a miss in mode `strict`, too many failures.
    fn execute_all(&self, commands: &[Command<'_>]) -> Result<Vec<Outcome<Reply>>, ChatError>;
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
