//! What a server can do: asked of it, not believed.
//!
//! Probes go to each endpoint by itself and past the ledger, since they ask about the server as it is now; what they
//! found is the report.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::endpoints::{Endpoint, Pool};
use super::error::{CallError, ChatError};
use super::reply::parse_chat;
use super::request::{ChatRequest, Image, Message, Part, Sampling};
use super::settings::{ChatSettings, StructuredStyle};
use super::transport::{self, malformed};

/// 56 × 56 red pixels, PNG: twice the side of the smallest image that Qwen2-VL takes.
const RED_PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAADgAAAA4CAIAAAAn5KxJAAAAQElEQVR42u3OQQkAAAgAsetfWh+mEAYLsKZeSFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRU9CwicjR1t9nCvQAAAABJRU5ErkJggg==";
/// A reply that no model gives unless its tokens are constrained to it.
const FORCED: &str = "zq17";

/// What was found out about an endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndpointReport {
    /// Its URL.
    pub endpoint: String,
    /// The model that the settings name.
    pub model: String,
    /// The models that it lists, in its order; the failure where it does not.
    pub models: Result<Vec<String>, CallError>,
    /// Whether the configured model is among them.
    pub has_model: Finding,
    /// Whether the same seed gives the same text at temperature 1, and another seed another text.
    pub seed: Finding,
    /// Whether `response_format` with a JSON schema constrains the reply.
    pub response_format: Finding,
    /// Whether vLLM's `structured_outputs` does.
    pub structured_outputs: Finding,
    /// Whether the model sees an image.
    pub images: Finding,
}

/// The answer to a question about a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Finding {
    /// It does.
    Yes,
    /// It does not.
    No {
        /// What was seen.
        reason: String,
    },
    /// What was seen fits both.
    Undecided {
        /// What was seen.
        reason: String,
    },
    /// The call failed, which may be the answer (a text model refuses images) or not.
    Failed {
        /// How.
        error: CallError,
    },
}

impl Finding {
    fn of(answer: Result<Self, CallError>) -> Self {
        answer.unwrap_or_else(|error| Self::Failed { error })
    }
}

/// Finds out what each endpoint of the settings can do, with one attempt for each question.
///
/// # Errors
/// Settings that cannot work. What goes wrong at a server is in its report.
pub async fn probe(settings: &ChatSettings) -> Result<Vec<EndpointReport>, ChatError> {
    settings.validate()?;
    let pool = Pool::open(settings, &|name| std::env::var(name).ok())?;
    let mut reports = Vec::new();
    for endpoint in pool.endpoints() {
        reports.push(Probe { endpoint, settings }.report().await);
    }
    Ok(reports)
}

struct Probe<'a> {
    endpoint: &'a Endpoint,
    settings: &'a ChatSettings,
}

impl Probe<'_> {
    async fn report(&self) -> EndpointReport {
        let models = self.models().await;
        EndpointReport {
            endpoint: self.endpoint.url.clone(),
            model: self.endpoint.model.clone(),
            has_model: self.has_model(&models),
            models,
            seed: Finding::of(self.seed().await),
            response_format: Finding::of(self.structured(StructuredStyle::ResponseFormat).await),
            structured_outputs: Finding::of(self.structured(StructuredStyle::StructuredOutputs).await),
            images: Finding::of(self.images().await),
        }
    }

    async fn models(&self) -> Result<Vec<String>, CallError> {
        #[derive(Deserialize)]
        struct Models {
            data: Vec<Model>,
        }
        #[derive(Deserialize)]
        struct Model {
            id: String,
        }
        let body = transport::get(self.endpoint, "/models", &self.settings.timeouts).await.result?;
        let models: Models =
            serde_json::from_slice(&body).map_err(|e| malformed(self.endpoint, &e.to_string(), &body))?;
        Ok(models.data.into_iter().map(|model| model.id).collect())
    }

    fn has_model(&self, models: &Result<Vec<String>, CallError>) -> Finding {
        match models {
            Ok(models) if models.contains(&self.endpoint.model) => Finding::Yes,
            Ok(models) => Finding::No { reason: format!("it lists: {}", models.join(", ")) },
            Err(error) => Finding::Failed { error: error.clone() },
        }
    }

    async fn seed(&self) -> Result<Finding, CallError> {
        let request = |seed| {
            let mut request = self.request([Part::text("Write a line of ten random words.")]);
            request.sampling =
                Sampling { temperature: 1.0, max_tokens: 32, seed: Some(seed), ..Sampling::default() };
            request
        };
        let first = self.ask(&request(1), StructuredStyle::ResponseFormat).await?;
        let again = self.ask(&request(1), StructuredStyle::ResponseFormat).await?;
        let other = self.ask(&request(2), StructuredStyle::ResponseFormat).await?;
        Ok(match (first == again, first == other) {
            (true, false) => Finding::Yes,
            (false, _) => Finding::No { reason: "the same seed gave two texts".to_owned() },
            (true, true) => Finding::Undecided {
                reason: "two seeds gave one text: temperature may be ignored, or the answer cached"
                    .to_owned(),
            },
        })
    }

    async fn structured(&self, style: StructuredStyle) -> Result<Finding, CallError> {
        let mut request = self.request([Part::text("Say hello, in plain words.")]);
        request.structured = Some(json!({
            "type": "object",
            "properties": { "word": { "type": "string", "enum": [FORCED] } },
            "required": ["word"],
            "additionalProperties": false,
        }));
        let text = self.ask(&request, style).await?;
        let follows = serde_json::from_str::<Value>(&text).is_ok_and(|v| v == json!({ "word": FORCED }));
        Ok(if follows { Finding::Yes } else { Finding::No { reason: unexpected(&text) } })
    }

    async fn images(&self) -> Result<Finding, CallError> {
        let png = STANDARD.decode(RED_PNG).expect("the constant is base64");
        let image = Part::Image(Image::new(png, "image/png"));
        let request =
            self.request([image, Part::text("Which colour fills this image? Answer with one word.")]);
        let text = self.ask(&request, StructuredStyle::ResponseFormat).await?;
        let sees = text.to_lowercase().contains("red");
        Ok(if sees { Finding::Yes } else { Finding::No { reason: unexpected(&text) } })
    }

    fn request(&self, parts: impl IntoIterator<Item = Part>) -> ChatRequest {
        let mut request = ChatRequest::new(&*self.endpoint.model, vec![Message::user(parts)]);
        request.sampling.max_tokens = 64;
        request
    }

    /// The text of a reply, by one attempt.
    async fn ask(&self, request: &ChatRequest, style: StructuredStyle) -> Result<String, CallError> {
        let body = request.body(style).expect("probes can be sent");
        let body = serde_json::to_vec(&body).expect("requests hold only what JSON can say");
        let sent = transport::post(self.endpoint, "/chat/completions", body, &self.settings.timeouts).await;
        let answer = sent.result?;
        let reply = parse_chat(&answer).map_err(|reason| malformed(self.endpoint, &reason, &answer))?;
        Ok(reply.text)
    }
}

fn unexpected(text: &str) -> String {
    format!("it answered: {}", text.chars().take(80).collect::<String>())
}
