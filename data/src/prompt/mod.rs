//! The registry of prompts: one place for export, reward and evaluation, so that a model is asked in
//! training what it is asked in use.

mod registry;
mod screen_text;
mod step_words;

pub use registry::{
    IMAGE, MARKS, PromptError, PromptMessage, Registry, Rendered, Role, Shown, Template, registry,
};
pub use screen_text::screen_text;
pub use step_words::{STEP_WORDS, noun, step_trace, step_words};
