//! Text to token ids and back, from `tokenizer.json` or from the metadata of a GGUF file.

mod gguf;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use candle_core::quantized::gguf_file::Content;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::{DecoderWrapper, Tokenizer};

use super::PolicyError;

const TOKENIZER_REMEDY: &str = "give the model's own tokenizer.json, as the Hugging Face libraries write it";

/// The tokens with a role: `bos_token`, `eos_token`, `pad_token`, … with their text. Chat templates see them as variables.
pub type SpecialTokens = BTreeMap<String, String>;

/// A policy's tokenizer. It never pads and never truncates, whatever its file says.
pub struct TextTokenizer {
    tokenizer: Tokenizer,
    /// The same without added tokens; made when first asked for, since it holds the vocabulary once more.
    plain: OnceLock<Tokenizer>,
    special: SpecialTokens,
    eos: Vec<u32>,
    vocab_size: usize,
}

impl TextTokenizer {
    /// Reads a `tokenizer.json`. It says nothing about which token ends a text: see
    /// [`TextTokenizer::with_tokenizer_config`] and [`TextTokenizer::with_generation_config`].
    ///
    /// # Errors
    /// [`PolicyError::File`] when the bytes are no such file.
    pub fn from_json(bytes: &[u8]) -> Result<Self, PolicyError> {
        let tokenizer = Tokenizer::from_bytes(bytes).map_err(|e| PolicyError::File {
            file: "tokenizer.json".to_owned(),
            reason: e.to_string(),
            remedy: TOKENIZER_REMEDY,
        })?;
        Self::new(tokenizer, SpecialTokens::new())
    }

    /// Builds the byte-level BPE tokenizer that a GGUF file's metadata describe (`tokenizer.ggml.*`).
    ///
    /// The metadata name the pre-tokenizer and do not hold it. Known names are `smollm`, `qwen2`, `deepseek-r1-qwen`,
    /// `llama-bpe` (`llama3`, `llama-v3`), and `gpt-2` (`gpt2`, `default`); each gives what the `tokenizer.json` of its
    /// family has.
    ///
    /// # Errors
    /// [`PolicyError::Metadata`] names the key that is absent, of the wrong type, or of an unknown value.
    pub fn from_gguf(content: &Content) -> Result<Self, PolicyError> {
        let gguf::Parts { tokenizer, special, eos } = gguf::build(content)?;
        let mut built = Self::new(tokenizer, special)?;
        eos.into_iter().for_each(|id| built.add_eos(id));
        Ok(built)
    }

    /// Loads `tokenizer.json` of `folder`, and what else is there of `tokenizer_config.json` and `generation_config.json`
    /// (in its stead `config.json`).
    ///
    /// # Errors
    /// [`PolicyError::File`] names the file that is absent or unfit.
    pub fn from_folder(folder: &Path) -> Result<Self, PolicyError> {
        let load = || {
            let mut tokenizer = Self::from_json(&read(folder, "tokenizer.json")?)?;
            if let Some(config) = read_if_there(folder, "tokenizer_config.json")? {
                tokenizer = tokenizer.with_tokenizer_config(&config)?;
            }
            for file in ["generation_config.json", "config.json"] {
                if let Some(config) = read_if_there(folder, file)? {
                    return tokenizer.with_generation_config(&config);
                }
            }
            Ok(tokenizer)
        };
        load().map_err(|e: PolicyError| e.with_folder(folder))
    }

    /// Takes the tokens with a role from a `tokenizer_config.json`; its `eos_token` ends a text.
    ///
    /// # Errors
    /// [`PolicyError::File`] when the bytes are no such file, or name an `eos_token` that the vocabulary lacks.
    pub fn with_tokenizer_config(mut self, bytes: &[u8]) -> Result<Self, PolicyError> {
        self.special.extend(special_tokens(bytes)?);
        if let Some(token) = self.special.get("eos_token") {
            let id = self.id_of(token).ok_or_else(|| PolicyError::File {
                file: "tokenizer_config.json".to_owned(),
                reason: format!("eos_token is {token:?}, which the vocabulary lacks"),
                remedy: TOKENIZER_REMEDY,
            })?;
            self.add_eos(id);
        }
        Ok(self)
    }

    /// Takes further tokens that end a text from `eos_token_id` of a `generation_config.json` or `config.json`.
    ///
    /// # Errors
    /// [`PolicyError::File`] when the bytes are no such file.
    pub fn with_generation_config(mut self, bytes: &[u8]) -> Result<Self, PolicyError> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Ids {
            One(u32),
            Several(Vec<u32>),
        }
        #[derive(Deserialize)]
        struct Config {
            eos_token_id: Option<Ids>,
        }
        let config: Config = parse("generation_config.json or config.json", bytes)?;
        match config.eos_token_id {
            Some(Ids::One(id)) => self.add_eos(id),
            Some(Ids::Several(ids)) => ids.into_iter().for_each(|id| self.add_eos(id)),
            None => {}
        }
        Ok(self)
    }

    fn new(mut tokenizer: Tokenizer, special: SpecialTokens) -> Result<Self, PolicyError> {
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|e| PolicyError::Tokenizer(e.to_string()))?;
        let last = tokenizer.get_vocab(true).into_values().max();
        let vocab_size = last.map_or(0, |id| id as usize + 1);
        Ok(Self { tokenizer, plain: OnceLock::new(), special, eos: Vec::new(), vocab_size })
    }

    fn add_eos(&mut self, id: u32) {
        if !self.eos.contains(&id) {
            self.eos.push(id);
        }
    }

    /// The content of a `tokenizer.json`.
    ///
    /// # Errors
    /// [`PolicyError::Tokenizer`].
    pub fn to_json(&self) -> Result<String, PolicyError> {
        self.tokenizer.to_string(true).map_err(|e| PolicyError::Tokenizer(e.to_string()))
    }

    /// The ids of `text`. Special tokens written in the text become what they name: this is for rendered templates and
    /// for what a model wrote. `add_special` adds what the tokenizer puts around a text (a BOS token, for Llama 3);
    /// a rendered template has it already.
    ///
    /// # Errors
    /// [`PolicyError::Tokenizer`] when the tokenizer's model refuses the text.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, PolicyError> {
        ids_of(&self.tokenizer, text, add_special)
    }

    /// The ids of `text` as mere text: what looks like a special token in it is spelt out.
    ///
    /// # Errors
    /// [`PolicyError::Tokenizer`] as in [`TextTokenizer::encode`], or when the vocabulary itself turns plain text into an
    /// added token.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, PolicyError> {
        let ids = ids_of(self.plain.get_or_init(|| without_added_tokens(&self.tokenizer)), text, false)?;
        let added = self.tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        match ids.iter().find_map(|id| added.get(id)) {
            Some(token) => {
                Err(PolicyError::Tokenizer(format!("plain text gives the added token {:?}", token.content)))
            }
            None => Ok(ids),
        }
    }

    /// The text of `ids`; bytes that are no UTF-8 become U+FFFD. Ids without a token (the padding of a model's vocabulary)
    /// give nothing.
    ///
    /// # Errors
    /// [`PolicyError::Tokenizer`] when the tokenizer's decoder fails.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, PolicyError> {
        self.tokenizer.decode(ids, skip_special).map_err(|e| PolicyError::Tokenizer(e.to_string()))
    }

    /// Decodes ids as they are sampled.
    pub fn stream(&self, skip_special: bool) -> TextStream<'_> {
        TextStream { tokenizer: self, skip_special, ids: Vec::new(), context: 0, shown: String::new() }
    }

    /// The id of a token, given as the vocabulary writes it.
    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    /// The token of an id, as the vocabulary writes it.
    pub fn token_of(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    /// The bytes of a token, which need not be whole characters. An id without a token has none.
    pub fn bytes_of(&self, id: u32) -> Vec<u8> {
        let Some(token) = self.token_of(id) else { return Vec::new() };
        let added = self.tokenizer.get_added_vocabulary().get_added_tokens_decoder().contains_key(&id);
        if added {
            return token.into_bytes();
        }
        let byte = token.strip_prefix("<0x").and_then(|t| t.strip_suffix('>'));
        if let Some(byte) = byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            return vec![byte];
        }
        if matches!(self.tokenizer.get_decoder(), Some(DecoderWrapper::ByteLevel(_))) {
            return token.chars().filter_map(byte_of).collect();
        }
        token.replace('\u{2581}', " ").into_bytes()
    }

    /// Whether `id` is a control token, which `skip_special` leaves out.
    pub fn is_special(&self, id: u32) -> bool {
        let added = self.tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        added.get(&id).is_some_and(|token| token.special)
    }

    /// The tokens that end a text, the tokenizer's own first. Empty when no configuration named one.
    pub fn eos(&self) -> &[u32] {
        &self.eos
    }

    /// The token that begins a text, where there is one.
    pub fn bos(&self) -> Option<u32> {
        self.special.get("bos_token").and_then(|token| self.id_of(token))
    }

    /// The tokens with a role.
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.special
    }

    /// One more than the largest id. A model may have more logits, for padding.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }
}

/// Decodes ids one at a time, holding back the bytes of an unfinished character.
pub struct TextStream<'a> {
    tokenizer: &'a TextTokenizer,
    skip_special: bool,
    /// The ids whose text was given last, as context, and then those held back.
    ids: Vec<u32>,
    /// How many of `ids` are context.
    context: usize,
    /// The text of the context.
    shown: String,
}

impl TextStream<'_> {
    /// The text that `id` completes; empty in the middle of a character.
    ///
    /// # Errors
    /// [`PolicyError::Tokenizer`] when the tokenizer's decoder fails.
    pub fn push(&mut self, id: u32) -> Result<String, PolicyError> {
        self.ids.push(id);
        let text = self.tokenizer.decode(&self.ids, self.skip_special)?;
        if text.ends_with(char::REPLACEMENT_CHARACTER) {
            return Ok(String::new());
        }
        let new = self.after_shown(&text);
        self.ids.drain(..self.context);
        self.context = self.ids.len();
        self.shown = self.tokenizer.decode(&self.ids, self.skip_special)?;
        Ok(new)
    }

    /// What was held back, as far as it can be read.
    ///
    /// # Errors
    /// [`PolicyError::Tokenizer`] when the tokenizer's decoder fails.
    pub fn finish(self) -> Result<String, PolicyError> {
        Ok(self.after_shown(&self.tokenizer.decode(&self.ids, self.skip_special)?))
    }

    fn after_shown(&self, text: &str) -> String {
        text.strip_prefix(self.shown.as_str()).unwrap_or(text).to_owned()
    }
}

/// The byte that a character of a byte-level vocabulary stands for: itself where it can be printed, the others in order
/// from U+0100.
fn byte_of(c: char) -> Option<u8> {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let code = u32::from(c);
    match u8::try_from(code) {
        Ok(byte) => printable(byte).then_some(byte),
        Err(_) => (0..=u8::MAX).filter(|b| !printable(*b)).nth((code - 256) as usize),
    }
}

fn ids_of(tokenizer: &Tokenizer, text: &str, add_special: bool) -> Result<Vec<u32>, PolicyError> {
    let encoding =
        tokenizer.encode_fast(text, add_special).map_err(|e| PolicyError::Tokenizer(e.to_string()))?;
    Ok(encoding.get_ids().to_vec())
}

fn without_added_tokens(tokenizer: &Tokenizer) -> Tokenizer {
    let mut plain = Tokenizer::new(tokenizer.get_model().clone());
    plain.with_pre_tokenizer(tokenizer.get_pre_tokenizer().cloned());
    plain.with_normalizer(tokenizer.get_normalizer().cloned()).expect("there is no added token to normalise");
    plain
}

/// The tokens with a role in a `tokenizer_config.json`: entries `…_token` that are a text, or an object with `content`.
pub(super) fn special_tokens(bytes: &[u8]) -> Result<SpecialTokens, PolicyError> {
    let config: Map<String, Value> = parse("tokenizer_config.json", bytes)?;
    let text = |value: &Value| value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned);
    let tokens = config.iter().filter(|(key, _)| key.ends_with("_token"));
    Ok(tokens.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect())
}

pub(super) fn parse<T: for<'de> Deserialize<'de>>(file: &str, bytes: &[u8]) -> Result<T, PolicyError> {
    serde_json::from_slice(bytes).map_err(|e| PolicyError::File {
        file: file.to_owned(),
        reason: e.to_string(),
        remedy: "give the file as the Hugging Face libraries write it",
    })
}

fn read(folder: &Path, file: &str) -> Result<Vec<u8>, PolicyError> {
    fs::read(folder.join(file)).map_err(|e| PolicyError::in_folder(folder, file, &e))
}

pub(super) fn read_if_there(folder: &Path, file: &str) -> Result<Option<Vec<u8>>, PolicyError> {
    if folder.join(file).exists() { read(folder, file).map(Some) } else { Ok(None) }
}
