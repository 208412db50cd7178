//! Policies: the language models that are trained by execution feedback.

mod chat;
mod error;
mod tokenizer;

pub use chat::{
    ChatTemplate, Content, EncodedExample, EncodedPrompt, Message, Part, TemplateOptions, encode_chat,
    encode_example, end_of_turn, stop_ids,
};
pub use error::PolicyError;
pub use tokenizer::{SpecialTokens, TextStream, TextTokenizer};
