//! Policies: causal language models of the Llama kind that are trained by feedback.
//!
//! * `config`, `weights`: what a model is made of, from Hugging Face folders or GGUF
//! * `batch`: sequences laid end to end; completions share their prompt
//! * `ops`, `attention`, `linear`, `head`: the parts of a layer, each with its backward
//! * `layer`, `model`: the whole, forward and backward
//! * `lora`: adapters in PEFT's format
//! * `sample`, `cache`: writing text
//! * `tokenizer`, `chat`: messages to tokens and back

mod attention;
mod batch;
mod cache;
mod chat;
mod config;
mod error;
mod head;
mod layer;
mod linear;
mod lora;
mod model;
mod ops;
mod random;
mod sample;
mod tokenizer;
mod weights;

pub use batch::{Packed, Segment, Target};
pub use chat::{
    ChatTemplate, Content, EncodedExample, EncodedPrompt, Message, Part, TemplateOptions, encode_chat,
    encode_example, end_of_turn, stop_ids,
};
pub use config::{Family, ModelConfig, RopeScaling};
pub use error::{PolicyError, Result};
pub use head::TokenStats;
pub use linear::{Adapters, Grads};
pub use lora::{LoraConfig, TARGET_MODULES};
pub use model::{Forward, Policy, TrainPass};
pub use random::Dropout;
pub use sample::{Completion, Finish, Prompt, Sampling};
pub use tokenizer::{SpecialTokens, TextStream, TextTokenizer};
pub use weights::{Gguf, Weights};

#[cfg(test)]
mod tests;
