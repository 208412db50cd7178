//! Accessibility trees: read from every form, compressed to the text that a model is shown (A11y-Compressor).
//!
//! A screen goes through three phases, each of which can be switched off ([`Phases`]): what lies in front is told from what
//! lies behind it ([`modal`]), what is redundant goes (`reduce`), what is left is put in regions, reading order and blocks
//! (`structure`). The rules are data ([`rules`]). Nothing gets into the text that is not in the screen, and the audit says of
//! every element what became of it and by which rule ([`audit`]).

pub mod atspi;
pub mod audit;
mod compress;
mod form;
#[cfg(test)]
mod form_tests;
mod item;
pub mod json;
pub mod linear;
pub mod modal;
#[cfg(test)]
mod real_tests;
mod reduce;
mod region;
pub mod rules;
mod sheet;
#[cfg(test)]
mod shell_tests;
mod structure;
#[cfg(test)]
mod tests;
pub mod tree;
mod windows;

pub use audit::{AuditRow, Fate};
pub use compress::{Compressed, Compressor, Phases, SaidElement};
pub use form::Form;
pub use modal::{Found, Seen};
pub use rules::{Rules, RulesError};
pub use tree::{LeftOut, Node, Rect, Tree, TreeError, Trees, Window};
