//! What is asked of a model.
//!
//! Requests serialise to the form in which they are recorded and hashed: an image is its hash and type there, never
//! its bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use tracemill_data::prompt::Role;

use super::key::Key;
use super::settings::StructuredStyle;

/// A request to `/chat/completions`. Everything in it is part of its key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// The model's name, as the server knows it.
    pub model: String,
    /// Which weights go by that name; empty where nobody said.
    pub revision: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// JSON schema that the reply has to follow. Hashed in the order given: servers generate properties in it.
    pub structured: Option<Value>,
    /// Further fields of the body, such as `top_k` or `mm_processor_kwargs`. They override those that the request
    /// would have; `null` leaves a field out.
    pub extra: BTreeMap<String, Value>,
    /// Which of several independent replies to the same question is wanted, from 0.
    pub replica: u32,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// Text and images, in order.
    pub parts: Vec<Part>,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text(String),
    /// An image, sent as a data URL.
    Image(Image),
}

/// An encoded image: shared bytes with their hash.
///
/// One that was read from a ledger has no bytes: it can be compared and hashed, not sent.
#[derive(Clone, Serialize, Deserialize)]
pub struct Image {
    blake3: String,
    mime: String,
    #[serde(skip)]
    bytes: Option<Arc<[u8]>>,
}

/// How tokens are drawn. All of it is sent, for servers differ in their defaults. vLLM takes `top_k` and the like
/// from the model's `generation_config.json` unless [`ChatRequest::extra`] sets them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f64,
    /// Share of the probability mass that tokens are drawn from.
    pub top_p: f64,
    /// Longest reply, in tokens.
    pub max_tokens: u32,
    /// Seed; replica `r` is sent `seed + r`. Some servers ignore it: see [`super::probe()`].
    pub seed: Option<u64>,
    /// Texts at which generation ends.
    pub stop: Vec<String>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: 1.0, max_tokens: 1_024, seed: None, stop: Vec::new() }
    }
}

/// A request to `/embeddings`, for one text: batches are put together by the client, so that a text's key does not
/// depend on its neighbours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingRequest {
    /// The model's name, as the server knows it.
    pub model: String,
    /// Which weights go by that name; empty where nobody said.
    pub revision: String,
    /// The text.
    pub text: String,
    /// Width to ask the server for; `None` for the model's own.
    pub dimensions: Option<usize>,
}

/// What a ledger holds the answer to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Request {
    /// A conversation to continue.
    Chat(ChatRequest),
    /// A text to embed.
    Embedding(EmbeddingRequest),
}

impl ChatRequest {
    /// A request with default sampling.
    pub fn new(model: impl Into<String>, messages: Vec<Message>) -> Self {
        Self {
            model: model.into(),
            revision: String::new(),
            messages,
            sampling: Sampling::default(),
            structured: None,
            extra: BTreeMap::new(),
            replica: 0,
        }
    }

    /// Whether a message holds an image.
    pub(super) fn has_image(&self) -> bool {
        self.messages.iter().flat_map(|m| &m.parts).any(|part| matches!(part, Part::Image(_)))
    }

    /// The body to send.
    ///
    /// # Errors
    /// Says what cannot be sent: sampling that is not a number, an image without its bytes.
    pub(super) fn body(&self, style: StructuredStyle) -> Result<Value, String> {
        let Sampling { temperature, top_p, max_tokens, seed, stop } = &self.sampling;
        if !temperature.is_finite() || !top_p.is_finite() {
            return Err(format!("temperature {temperature}, top_p {top_p}: not numbers"));
        }
        let messages: Vec<Value> = self.messages.iter().map(Message::body).collect::<Result<_, _>>()?;
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(self.model));
        body.insert("messages".to_owned(), json!(messages));
        body.insert("temperature".to_owned(), json!(temperature));
        body.insert("top_p".to_owned(), json!(top_p));
        body.insert("max_tokens".to_owned(), json!(max_tokens));
        if let Some(seed) = seed {
            body.insert("seed".to_owned(), json!(seed.wrapping_add(u64::from(self.replica))));
        }
        if !stop.is_empty() {
            body.insert("stop".to_owned(), json!(stop));
        }
        if let Some(schema) = &self.structured {
            let (name, value) = style.field(schema);
            body.insert(name.to_owned(), value);
        }
        for (name, value) in &self.extra {
            match value {
                Value::Null => body.shift_remove(name),
                value => body.insert(name.clone(), value.clone()),
            };
        }
        Ok(Value::Object(body))
    }
}

impl Message {
    /// An instruction.
    pub fn system(text: impl Into<String>) -> Self {
        Self { role: Role::System, parts: vec![Part::Text(text.into())] }
    }

    /// A question of text and images.
    pub fn user(parts: impl IntoIterator<Item = Part>) -> Self {
        Self { role: Role::User, parts: parts.into_iter().collect() }
    }

    /// An earlier reply.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, parts: vec![Part::Text(text.into())] }
    }

    fn body(&self) -> Result<Value, String> {
        // A single text goes as a plain string: chat templates of text models know no parts.
        let content = match self.parts.as_slice() {
            [Part::Text(text)] => json!(text),
            parts => Value::Array(parts.iter().map(Part::body).collect::<Result<_, _>>()?),
        };
        Ok(json!({ "role": self.role, "content": content }))
    }
}

impl Part {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn body(&self) -> Result<Value, String> {
        match self {
            Self::Text(text) => Ok(json!({ "type": "text", "text": text })),
            Self::Image(image) => {
                Ok(json!({ "type": "image_url", "image_url": { "url": image.data_url()? } }))
            }
        }
    }
}

impl Image {
    /// An image in its encoded form, with its type: `image/png`.
    pub fn new(bytes: impl Into<Arc<[u8]>>, mime: impl Into<String>) -> Self {
        let bytes = bytes.into();
        let hash = blake3::hash(&bytes).to_hex().to_string();
        Self { blake3: hash, mime: mime.into(), bytes: Some(bytes) }
    }

    /// BLAKE3 of the bytes, hexadecimal.
    pub fn blake3(&self) -> &str {
        &self.blake3
    }

    fn data_url(&self) -> Result<String, String> {
        let Self { blake3, mime, bytes } = self;
        let bytes = bytes
            .as_ref()
            .ok_or_else(|| format!("image {blake3} comes from a ledger, which has no bytes"))?;
        Ok(format!("data:{mime};base64,{}", STANDARD.encode(bytes)))
    }
}

impl PartialEq for Image {
    fn eq(&self, other: &Self) -> bool {
        (&self.blake3, &self.mime) == (&other.blake3, &other.mime)
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({} {})", self.mime, self.blake3)
    }
}

impl Request {
    /// The model that is asked.
    pub fn model(&self) -> &str {
        match self {
            Self::Chat(request) => &request.model,
            Self::Embedding(request) => &request.model,
        }
    }

    /// The request's key: independent of the endpoint that answers, and of the order of fields in `extra`.
    pub fn key(&self) -> Key {
        let mut canonical = self.clone();
        if let Self::Chat(request) = &mut canonical {
            request.extra.values_mut().for_each(Value::sort_all_objects);
        }
        let json = serde_json::to_vec(&canonical).expect("requests hold only what JSON can say");
        Key::of(&json)
    }
}
