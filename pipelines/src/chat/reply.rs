//! What came back, and how it is read from a body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::error::CallError;

/// What became of a call. The same request has the same outcome in every replay; times are no part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome<T = ChatReply> {
    /// The model answered.
    Reply(T),
    /// It did not, for this reason.
    Failed(CallError),
}

impl<T> Outcome<T> {
    /// Whether there is a reply.
    pub fn is_reply(&self) -> bool {
        matches!(self, Self::Reply(_))
    }

    /// The reply, or the reason there is none.
    ///
    /// # Errors
    /// The failure of the call.
    pub fn into_result(self) -> Result<T, CallError> {
        match self {
            Self::Reply(reply) => Ok(reply),
            Self::Failed(error) => Err(error),
        }
    }

    /// The outcome with its reply transformed.
    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Reply(reply) => Outcome::Reply(f(reply)),
            Self::Failed(error) => Outcome::Failed(error),
        }
    }
}

impl<T> From<Result<T, CallError>> for Outcome<T> {
    fn from(result: Result<T, CallError>) -> Self {
        match result {
            Ok(reply) => Self::Reply(reply),
            Err(error) => Self::Failed(error),
        }
    }
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatReply {
    /// The text; empty where the model said nothing before `finish_reason`.
    pub text: String,
    /// Why generation ended: `stop`, `length` (cut off at `max_tokens`), …
    pub finish_reason: Option<String>,
    /// Tokens, where the server counts them.
    pub usage: Option<Usage>,
    /// The model, as the server names it.
    pub model: String,
}

/// Tokens of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
}

/// The vector of a text, as the server gave it (not normalised).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmbeddingReply {
    /// The vector; in JSON the base64 of its little-endian bytes.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub vector: Vec<f32>,
    /// The model, as the server names it.
    pub model: String,
}

/// An answer of either kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reply {
    /// To a conversation.
    Chat(ChatReply),
    /// To a text to embed.
    Embedding(EmbeddingReply),
}

fn to_base64<S: Serializer>(vector: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = STANDARD.decode(text).map_err(de::Error::custom)?;
    match bytes.as_chunks::<4>() {
        (chunks, []) => Ok(chunks.iter().map(|b| f32::from_le_bytes(*b)).collect()),
        _ => Err(de::Error::custom("a vector's bytes are not a multiple of 4")),
    }
}

#[derive(Deserialize)]
struct ChatBody {
    choices: Vec<Choice>,
    usage: Option<Usage>,
    model: Option<String>,
}

#[derive(Deserialize)]
struct Choice {
    message: ChoiceMessage,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ChoiceMessage {
    content: Option<String>,
}

/// Reads the body of `/chat/completions`.
///
/// # Errors
/// Says what is missing.
pub(super) fn parse_chat(body: &[u8]) -> Result<ChatReply, String> {
    let ChatBody { choices, usage, model } = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    let Some(Choice { message, finish_reason }) = choices.into_iter().next() else {
        return Err("`choices` is empty".to_owned());
    };
    // Without a reason to have ended, no content means that something is missing, not that nothing was said.
    let text = match (message.content, &finish_reason) {
        (Some(text), _) => text,
        (None, Some(_)) => String::new(),
        (None, None) => return Err("the message has neither `content` nor `finish_reason`".to_owned()),
    };
    Ok(ChatReply { text, finish_reason, usage, model: model.unwrap_or_default() })
}

#[derive(Deserialize)]
struct EmbeddingBody {
    data: Vec<EmbeddingRow>,
    model: Option<String>,
}

#[derive(Deserialize)]
struct EmbeddingRow {
    embedding: Vec<f32>,
    index: Option<usize>,
}

/// Reads the body of `/embeddings` for `count` texts, in their order.
///
/// # Errors
/// Says what is missing, or that the vectors are not one for each text.
pub(super) fn parse_embeddings(body: &[u8], count: usize) -> Result<Vec<EmbeddingReply>, String> {
    let EmbeddingBody { data, model } = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    if data.len() != count {
        return Err(format!("{} vectors for {count} texts", data.len()));
    }
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    for (position, EmbeddingRow { embedding, index }) in data.into_iter().enumerate() {
        let index = index.unwrap_or(position);
        match vectors.get_mut(index) {
            Some(place @ None) => *place = Some(embedding),
            Some(Some(_)) => return Err(format!("two vectors have index {index}")),
            None => return Err(format!("a vector has index {index}, of {count} texts")),
        }
    }
    let model = model.unwrap_or_default();
    Ok(vectors.into_iter().flatten().map(|vector| EmbeddingReply { vector, model: model.clone() }).collect())
}
