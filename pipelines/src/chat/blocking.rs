//! The client for code without `async`.

use std::borrow::Borrow;

use tokio::runtime::{Builder, Runtime};

use super::client::ChatClient;
use super::error::ChatError;
use super::probe::{EndpointReport, probe};
use super::reply::{EmbeddingReply, Outcome};
use super::request::{ChatRequest, EmbeddingRequest, Message};
use super::settings::ChatSettings;

/// Threads that drive connections: reading and writing JSON is all they do.
const WORKERS: usize = 2;

/// A [`ChatClient`] with a runtime of its own. Not to be used from inside `async` code.
#[derive(Debug)]
pub struct BlockingClient {
    client: ChatClient,
    runtime: Runtime,
}

impl BlockingClient {
    /// See [`ChatClient::open`].
    ///
    /// # Errors
    /// Those of [`ChatClient::open`].
    pub fn open(settings: &ChatSettings) -> Result<Self, ChatError> {
        Ok(Self { client: ChatClient::open(settings)?, runtime: runtime()? })
    }

    /// The client itself.
    pub fn client(&self) -> &ChatClient {
        &self.client
    }

    /// See [`ChatClient::request`].
    pub fn request(&self, messages: Vec<Message>) -> ChatRequest {
        self.client.request(messages)
    }

    /// See [`ChatClient::call`].
    ///
    /// # Errors
    /// Those of [`ChatClient::call`].
    pub fn call(&self, request: &ChatRequest) -> Result<Outcome, ChatError> {
        self.runtime.block_on(self.client.call(request))
    }

    /// See [`ChatClient::call_all`].
    ///
    /// # Errors
    /// Those of [`ChatClient::call_all`].
    pub fn call_all<I>(
        &self,
        requests: I,
        progress: impl FnMut(usize, &Outcome),
    ) -> Result<Vec<Outcome>, ChatError>
    where
        I: IntoIterator<IntoIter: ExactSizeIterator, Item: Borrow<ChatRequest>>,
    {
        self.runtime.block_on(self.client.call_all(requests, progress))
    }

    /// See [`ChatClient::embed_all`].
    ///
    /// # Errors
    /// Those of [`ChatClient::embed_all`].
    pub fn embed_all(
        &self,
        requests: &[EmbeddingRequest],
        batch: usize,
    ) -> Result<Vec<Outcome<EmbeddingReply>>, ChatError> {
        self.runtime.block_on(self.client.embed_all(requests, batch))
    }
}

/// See [`probe`].
///
/// # Errors
/// Those of [`probe`].
pub fn probe_blocking(settings: &ChatSettings) -> Result<Vec<EndpointReport>, ChatError> {
    runtime()?.block_on(probe(settings))
}

fn runtime() -> Result<Runtime, ChatError> {
    Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .map_err(|e| ChatError::Http { endpoint: "every endpoint".to_owned(), reason: e.to_string() })
}
