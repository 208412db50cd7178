//! The `openai` text embedder: any server with an OpenAI-compatible `/embeddings`, through the ledger.

use serde::{Deserialize, Serialize};
use tracemill_models::embed::{EmbedError, Embedder};

use super::blocking::BlockingClient;
use super::error::ChatError;
use super::reply::EmbeddingReply;
use super::request::EmbeddingRequest;
use super::settings::{ChatSettings, EndpointSettings, wrong};

/// `[embed.openai]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenAiSettings {
    /// Width of the model's vectors: 3,072 for text-embedding-3-large.
    pub dimensions: usize,
    /// Ask the server for that width, where the model can shorten its vectors; others refuse to be asked.
    pub send_dimensions: bool,
    /// Texts in a call.
    pub batch_size: usize,
    /// Endpoints, retries, ledger. All endpoints serve one model.
    pub service: ChatSettings,
}

impl Default for OpenAiSettings {
    fn default() -> Self {
        Self { dimensions: 3_072, send_dimensions: false, batch_size: 128, service: ChatSettings::default() }
    }
}

/// Embeds texts by calls to a server.
#[derive(Debug)]
pub struct OpenAiEmbedder {
    client: BlockingClient,
    model: String,
    revision: String,
    settings: OpenAiSettings,
}

impl OpenAiEmbedder {
    /// An embedder with the model of the first endpoint.
    ///
    /// # Errors
    /// Settings that cannot work, a missing key, a ledger that cannot be read.
    pub fn open(settings: &OpenAiSettings) -> Result<Self, ChatError> {
        let OpenAiSettings { dimensions, send_dimensions: _, batch_size, service } = settings;
        for (key, value) in [("dimensions", dimensions), ("batch_size", batch_size)] {
            if *value == 0 {
                return Err(wrong(key, "is 0: must be at least 1"));
            }
        }
        let Some(EndpointSettings { model, revision, .. }) = service.endpoints.first() else {
            return Err(wrong(
                "service.endpoints",
                "is empty: its first entry names the model, in replay too",
            ));
        };
        if service.endpoints.iter().any(|e| (&e.model, &e.revision) != (model, revision)) {
            return Err(wrong(
                "service.endpoints",
                "has several models: vectors of two models do not compare",
            ));
        }
        let (model, revision) = (model.clone(), revision.clone());
        Ok(Self { client: BlockingClient::open(service)?, model, revision, settings: settings.clone() })
    }

    fn request(&self, text: &str) -> EmbeddingRequest {
        EmbeddingRequest {
            model: self.model.clone(),
            revision: self.revision.clone(),
            text: text.to_owned(),
            dimensions: self.settings.send_dimensions.then_some(self.settings.dimensions),
        }
    }

    /// Appends a vector at norm 1.
    fn push(&self, text: &str, reply: &EmbeddingReply, out: &mut Vec<f32>) -> Result<(), EmbedError> {
        let (found, expected) = (reply.vector.len(), self.settings.dimensions);
        if found != expected {
            return Err(service_error(format!(
                "model {}: vectors of width {found}, expected {expected}: set embed.openai.dimensions",
                self.model
            )));
        }
        let norm = reply.vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        if !norm.is_normal() {
            return Err(service_error(format!(
                "model {}: the vector of {text:?} has norm {norm}",
                self.model
            )));
        }
        out.extend(reply.vector.iter().map(|x| (f64::from(*x) / norm) as f32));
        Ok(())
    }
}

impl Embedder for OpenAiEmbedder {
    fn name(&self) -> String {
        let Self { model, revision, settings, .. } = self;
        let shortened = if settings.send_dimensions { " shortened" } else { "" };
        format!("openai:{model}@{revision}:{}{shortened}", settings.dimensions)
    }

    fn dim(&self) -> usize {
        self.settings.dimensions
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<f32>, EmbedError> {
        if let Some(index) = texts.iter().position(|text| text.trim().is_empty()) {
            return Err(EmbedError::EmptyText { index });
        }
        let requests: Vec<EmbeddingRequest> = texts.iter().map(|text| self.request(text)).collect();
        let outcomes = self
            .client
            .embed_all(&requests, self.settings.batch_size)
            .map_err(|error| EmbedError::Service(Box::new(error)))?;
        let mut vectors = Vec::with_capacity(texts.len() * self.dim());
        for (text, outcome) in texts.iter().zip(outcomes) {
            let reply = outcome.into_result().map_err(|error| EmbedError::Service(Box::new(error)))?;
            self.push(text, &reply, &mut vectors)?;
        }
        Ok(vectors)
    }
}

fn service_error(reason: String) -> EmbedError {
    EmbedError::Service(reason.into())
}
