//! How models and datasets write actions and replies as text, and what is read from it.
//!
//! One table of words ([`vocabulary`]) serves every grammar. Text is taken apart, never run; whatever
//! it holds, reading it gives an [`Action`](crate::action::Action) or a [`ParseFault`] that says why not.

pub mod literal;
mod reply;
mod tags;
mod vocabulary;
mod write;

pub use reply::{Grammar, ParseFault, Parsed, parse_action};
pub use tags::{Reply, released_answer, strict_answer};
pub use vocabulary::{Meaning, Role, Vocabulary, vocabulary};
pub use write::{Shown, write_action};
