//! The registry of prompts: one place for export, reward and evaluation, so that a model is asked in
//! training what it is asked in use.

mod registry;
mod screen_text;

pub use registry::{PromptError, PromptMessage, Registry, Rendered, Role, Template, registry};
pub use screen_text::screen_text;
