//! A tokenizer from GGUF metadata.

use candle_core::quantized::gguf_file::{Content, Value};
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

use super::{PolicyError, SpecialTokens};

/// From `tokenizer.json` of the Qwen2, Qwen2.5 and Qwen3 families: each digit alone.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// From `tokenizer.json` of the Llama 3 family: digits by three.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

pub(super) const MODEL: &str = "tokenizer.ggml.model";
pub(super) const PRE: &str = "tokenizer.ggml.pre";
pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(super) const TYPES: &str = "tokenizer.ggml.token_type";
pub(super) const MERGES: &str = "tokenizer.ggml.merges";
/// Token types of the format: control tokens, and those that somebody added.
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;

/// Keys of the ids that end a text, in order: the text, a turn, a message.
const EOS: [&str; 3] =
    ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];
/// Tokens with a role: the name that templates use, and the key of the id.
const ROLES: [(&str, &str); 4] = [
    ("bos_token", "tokenizer.ggml.bos_token_id"),
    ("eos_token", EOS[0]),
    ("pad_token", "tokenizer.ggml.padding_token_id"),
    ("unk_token", "tokenizer.ggml.unknown_token_id"),
];

/// What the metadata give.
pub(super) struct Parts {
    pub tokenizer: Tokenizer,
    pub special: SpecialTokens,
    pub eos: Vec<u32>,
}

/// How a family cuts a text before byte pairs are merged.
struct Family {
    nfc: bool,
    pre_tokenizer: PreTokenizerWrapper,
    /// Whether a word that is a token is taken whole, without merges.
    ignore_merges: bool,
    /// Whether a text begins with the BOS token when the metadata do not say.
    adds_bos: bool,
}

pub(super) fn build(content: &Content) -> Result<Parts, PolicyError> {
    let metadata = Metadata(content);
    let model = metadata.text(MODEL)?;
    if model != "gpt2" {
        let reason = format!("is `{model}`, only `gpt2` (byte-level BPE) is supported");
        return Err(error(MODEL, reason));
    }
    let family = family(metadata.text(PRE)?)?;
    let tokens = metadata.texts(TOKENS)?;
    let mut tokenizer = Tokenizer::new(bpe(&metadata, &tokens, family.ignore_merges)?);
    if family.nfc {
        tokenizer.with_normalizer(Some(NFC)).map_err(|e| error(PRE, e))?;
    }
    tokenizer.with_pre_tokenizer(Some(family.pre_tokenizer));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    tokenizer.add_tokens(added_tokens(&metadata, &tokens)?).map_err(|e| error(TYPES, e))?;
    let mut special = SpecialTokens::new();
    for (role, key) in ROLES {
        if let Some(id) = metadata.id(key, tokens.len())? {
            special.insert(role.to_owned(), tokens[id as usize].to_owned());
        }
    }
    if let Some(around) = around(&metadata, &tokens, family.adds_bos)? {
        tokenizer.with_post_processor(Some(around));
    }
    let mut eos = Vec::new();
    for key in EOS {
        eos.extend(metadata.id(key, tokens.len())?);
    }
    Ok(Parts { tokenizer, special, eos })
}

fn family(pre: &str) -> Result<Family, PolicyError> {
    // The byte alphabet; with its own (GPT-2's) expression where nothing cut the text before.
    let bytes = |cuts: bool| ByteLevel::new(false, true, cuts);
    let split = |pattern: &str| {
        Split::new(SplitPattern::Regex(pattern.to_owned()), SplitDelimiterBehavior::Isolated, false)
            .map(|split| Sequence::new(vec![split.into(), bytes(false).into()]).into())
            .map_err(|e| error(PRE, e))
    };
    let plain = |pre_tokenizer| Family { nfc: false, pre_tokenizer, ignore_merges: false, adds_bos: false };
    match pre {
        "smollm" => Ok(plain(Sequence::new(vec![Digits::new(true).into(), bytes(true).into()]).into())),
        "qwen2" | "deepseek-r1-qwen" => Ok(Family { nfc: true, ..plain(split(QWEN2)?) }),
        "llama-bpe" | "llama3" | "llama-v3" => {
            Ok(Family { ignore_merges: true, adds_bos: true, ..plain(split(LLAMA3)?) })
        }
        "gpt-2" | "gpt2" | "default" => Ok(plain(bytes(true).into())),
        other => Err(error(
            PRE,
            format!(
                "is `{other}`; known are smollm, qwen2, deepseek-r1-qwen, llama-bpe, llama3, llama-v3, gpt-2, gpt2 and default"
            ),
        )),
    }
}

fn bpe(metadata: &Metadata, tokens: &[&str], ignore_merges: bool) -> Result<BPE, PolicyError> {
    let ids = 0u32..;
    let vocab: Vocab = tokens.iter().map(|token| (*token).to_owned()).zip(ids).collect();
    let pair = |merge: &str| {
        merge
            .split_once(' ')
            .map(|(left, right)| (left.to_owned(), right.to_owned()))
            .ok_or_else(|| error(MERGES, format!("{merge:?} is no pair of tokens")))
    };
    let merges: Vec<_> = metadata.texts(MERGES)?.into_iter().map(pair).collect::<Result<_, _>>()?;
    let builder = BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(ignore_merges);
    builder.build().map_err(|e| error(MERGES, e))
}

/// Tokens that are found in a text before it is cut.
fn added_tokens(metadata: &Metadata, tokens: &[&str]) -> Result<Vec<AddedToken>, PolicyError> {
    let types = metadata.array(TYPES)?;
    if types.len() != tokens.len() {
        return Err(error(TYPES, format!("has {} entries for {} tokens", types.len(), tokens.len())));
    }
    let mut added = Vec::new();
    for (token, value) in tokens.iter().zip(types) {
        let kind =
            integer(value).ok_or_else(|| error(TYPES, format!("holds {value:?}, which is no integer")))?;
        if kind == CONTROL || kind == USER_DEFINED {
            added.push(AddedToken::from(*token, kind == CONTROL).normalized(false));
        }
    }
    Ok(added)
}

/// What is put around a text.
fn around(
    metadata: &Metadata,
    tokens: &[&str],
    adds_bos: bool,
) -> Result<Option<TemplateProcessing>, PolicyError> {
    let wanted = |flag: &str, default: bool, key: &str| {
        let id = metadata.id(key, tokens.len())?;
        let wanted = metadata.flag(flag)?.unwrap_or(default);
        Ok::<_, PolicyError>(id.filter(|_| wanted).map(|id| (tokens[id as usize].to_owned(), id)))
    };
    let (bos_key, eos_key) = (ROLES[0].1, ROLES[1].1);
    let bos = wanted("tokenizer.ggml.add_bos_token", adds_bos, bos_key)?;
    let eos = wanted("tokenizer.ggml.add_eos_token", false, eos_key)?;
    if bos.is_none() && eos.is_none() {
        return Ok(None);
    }
    let name = |token: &Option<(String, u32)>| token.iter().map(|(text, _)| text.clone()).collect::<Vec<_>>();
    let pieces = [name(&bos), vec!["$0".to_owned()], name(&eos)].concat();
    let built = TemplateProcessing::builder()
        .try_single(pieces)
        .map_err(|e| error(bos_key, e))?
        .special_tokens(bos.into_iter().chain(eos).collect::<Vec<_>>())
        .build();
    built.map(Some).map_err(|e| error(bos_key, e))
}

/// The metadata, read with errors that name the key.
struct Metadata<'a>(&'a Content);

impl<'a> Metadata<'a> {
    fn get(&self, key: &str) -> Result<&'a Value, PolicyError> {
        self.0.metadata.get(key).ok_or_else(|| error(key, "is absent"))
    }

    fn text(&self, key: &str) -> Result<&'a str, PolicyError> {
        let value = self.get(key)?;
        let text = value.to_string().map_err(|_| error(key, format!("is {value:?}, which is no string")))?;
        Ok(text)
    }

    fn array(&self, key: &str) -> Result<&'a [Value], PolicyError> {
        match self.get(key)? {
            Value::Array(values) => Ok(values),
            other => Err(error(key, format!("is {:?}, which is no array", other.value_type()))),
        }
    }

    fn texts(&self, key: &str) -> Result<Vec<&'a str>, PolicyError> {
        let text = |value: &'a Value| match value {
            Value::String(text) => Ok(text.as_str()),
            other => Err(error(key, format!("holds {other:?}, which is no string"))),
        };
        self.array(key)?.iter().map(text).collect()
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, PolicyError> {
        let flag =
            |value: &Value| value.to_bool().map_err(|_| error(key, format!("is {value:?}, no boolean")));
        self.0.metadata.get(key).map(flag).transpose()
    }

    /// The id under `key`, below `limit`, where there is one.
    fn id(&self, key: &str, limit: usize) -> Result<Option<u32>, PolicyError> {
        let Some(value) = self.0.metadata.get(key) else { return Ok(None) };
        match integer(value).filter(|id| *id < limit as u64).and_then(|id| u32::try_from(id).ok()) {
            Some(id) => Ok(Some(id)),
            None => Err(error(key, format!("is {value:?}, no id below {limit}"))),
        }
    }
}

fn integer(value: &Value) -> Option<u64> {
    match *value {
        Value::U8(x) => Some(x.into()),
        Value::U16(x) => Some(x.into()),
        Value::U32(x) => Some(x.into()),
        Value::U64(x) => Some(x),
        Value::I8(x) => x.try_into().ok(),
        Value::I16(x) => x.try_into().ok(),
        Value::I32(x) => x.try_into().ok(),
        Value::I64(x) => x.try_into().ok(),
        _ => None,
    }
}

fn error(key: &str, reason: impl std::fmt::Display) -> PolicyError {
    PolicyError::Metadata { key: key.to_owned(), reason: reason.to_string(), remedy: super::TOKENIZER_REMEDY }
}
