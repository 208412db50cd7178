//! Counting tokens: by OpenAI's encodings, or any `tokenizer.json`.

use std::path::Path;

use anyhow::{Result, bail};
use tiktoken_rs::CoreBPE;
use tokenizers::Tokenizer;

use crate::stage::validate::open_tokenizer;

/// Something that counts tokens.
pub enum Counter {
    /// An encoding of OpenAI's models. Nothing is downloaded: the vocabularies come with the program.
    Encoding(&'static CoreBPE),
    /// A Hugging Face tokenizer.
    Tokenizer(Box<Tokenizer>),
}

impl Counter {
    /// By name (`o200k_base`, `cl100k_base`), or a `tokenizer.json`, or the folder that holds one.
    ///
    /// # Errors
    /// A name that is neither, and a file that is no tokenizer.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "o200k_base" => Ok(Self::Encoding(tiktoken_rs::o200k_base_singleton())),
            "cl100k_base" => Ok(Self::Encoding(tiktoken_rs::cl100k_base_singleton())),
            path if Path::new(path).exists() => {
                open_tokenizer(Path::new(path)).map(|t| Self::Tokenizer(Box::new(t)))
            }
            other => bail!(
                "tokens of `{other}`: give `o200k_base`, `cl100k_base`, or the path of a tokenizer.json"
            ),
        }
    }

    /// How many tokens a text has; special tokens are read as the text they stand in.
    pub fn count(&self, text: &str) -> usize {
        match self {
            Self::Encoding(encoding) => encoding.encode_ordinary(text).len(),
            Self::Tokenizer(tokenizer) => tokenizer.encode_fast(text, false).map_or(0, |e| e.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_the_encoding() {
        // The counts that OpenAI's cookbook shows for its own tiktoken.
        for (name, text, tokens) in [
            ("cl100k_base", "antidisestablishmentarianism", 6),
            ("o200k_base", "antidisestablishmentarianism", 6),
            ("cl100k_base", "2 + 2 = 4", 7),
            ("o200k_base", "2 + 2 = 4", 7),
            ("cl100k_base", "お誕生日おめでとう", 9),
            ("o200k_base", "お誕生日おめでとう", 8),
            ("o200k_base", "", 0),
        ] {
            assert_eq!(Counter::named(name).unwrap().count(text), tokens, "{name} {text:?}");
        }
        assert!(
            Counter::named("o200k_base").unwrap().count("<|endoftext|>") > 1,
            "text, not a control token"
        );
        let error = Counter::named("gpt2").err().unwrap().to_string();
        assert!(error.contains("`gpt2`") && error.contains("cl100k_base"), "{error}");
    }
}
