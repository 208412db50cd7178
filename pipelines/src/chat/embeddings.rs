//! Texts to embed: one record for each, several in a call.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::client::{ChatClient, Exchange};
use super::error::{CallError, ChatError};
use super::guard::ErrorGuard;
use super::key::Key;
use super::ledger::unix_ms;
use super::reply::{EmbeddingReply, Outcome, Reply, parse_embeddings};
use super::request::{EmbeddingRequest, Request};
use super::segment::{Record, Timing};

/// A text without an answer in the ledger.
type Missing<'a> = (Key, &'a EmbeddingRequest);

impl ChatClient {
    /// Embeds texts, `batch` of them in a call, several calls at a time. Each text is looked up and recorded by
    /// itself, and each distinct one is sent once. Outcomes come in the order of the requests. A call that fails is
    /// the failure of all its texts.
    ///
    /// # Errors
    /// As [`Self::call_all`]. All requests must ask for one model and one width.
    pub async fn embed_all(
        &self,
        requests: &[EmbeddingRequest],
        batch: usize,
    ) -> Result<Vec<Outcome<EmbeddingReply>>, ChatError> {
        let keys: Vec<Key> = requests.iter().map(|r| Request::Embedding(r.clone()).key()).collect();
        let mut outcomes: BTreeMap<Key, Outcome<EmbeddingReply>> = BTreeMap::new();
        let mut missing: Vec<Missing> = Vec::new();
        let mut seen = BTreeSet::new();
        for (&key, request) in keys.iter().zip(requests).filter(|(key, _)| seen.insert(**key)) {
            match self.recorded(key)? {
                Some(found) => {
                    outcomes.insert(key, self.embedding(key, found)?);
                }
                None => missing.push((key, request)),
            }
        }
        let at_least = self.settings().min_calls.max(seen.len());
        let guard = ErrorGuard::new(self.settings().max_error_share, at_least);
        outcomes.values().try_for_each(|outcome| guard.count(outcome))?;
        let calls = stream::iter(missing.chunks(batch.max(1)))
            .map(|texts| self.embed_batch(texts))
            .buffer_unordered(self.begun());
        tokio::pin!(calls);
        while let Some(call) = calls.next().await {
            for (key, outcome) in call? {
                guard.count(&outcome)?;
                outcomes.insert(key, outcome);
            }
        }
        Ok(keys.iter().filter_map(|key| outcomes.get(key).cloned()).collect())
    }

    /// One call, with a record for each text.
    async fn embed_batch(
        &self,
        texts: &[Missing<'_>],
    ) -> Result<Vec<(Key, Outcome<EmbeddingReply>)>, ChatError> {
        let (started_unix_ms, clock) = (unix_ms(), Instant::now());
        let Some(&(key, first)) = texts.first() else { return Ok(Vec::new()) };
        let same = |r: &EmbeddingRequest| {
            (&r.model, &r.revision, r.dimensions) == (&first.model, &first.revision, first.dimensions)
        };
        if !texts.iter().all(|(_, request)| same(request)) {
            return Err(ChatError::Request {
                key,
                reason: "texts of several models or widths in one batch".to_owned(),
            });
        }
        let exchange = Exchange {
            path: "/embeddings",
            body: serde_json::to_vec(&body(first, texts)).expect("requests hold only what JSON can say"),
            serving: self.pool()?.serving(&first.model, &first.revision)?,
            key,
            parse: &|body| parse_embeddings(body, texts.len()),
        };
        let (result, attempts) = self.exchange(exchange).await?;
        let timing = Timing { started_unix_ms, secs: clock.elapsed().as_secs_f64() };
        let outcomes = split(result, texts.len());
        for (&(key, request), outcome) in texts.iter().zip(&outcomes) {
            let request = Request::Embedding(request.clone());
            let outcome = outcome.clone().map(Reply::Embedding);
            self.ledger().append(&Record { key, request, outcome, attempts, timing })?;
        }
        Ok(texts.iter().map(|(key, _)| *key).zip(outcomes).collect())
    }

    fn embedding(&self, key: Key, outcome: Outcome<Reply>) -> Result<Outcome<EmbeddingReply>, ChatError> {
        self.typed(key, outcome, |reply| match reply {
            Reply::Embedding(reply) => Some(reply),
            Reply::Chat(_) => None,
        })
    }
}

fn body(first: &EmbeddingRequest, texts: &[Missing]) -> Value {
    let input: Vec<&str> = texts.iter().map(|(_, request)| request.text.as_str()).collect();
    let mut body = json!({ "model": first.model, "input": input, "encoding_format": "float" });
    if let Some(dimensions) = first.dimensions {
        body["dimensions"] = json!(dimensions);
    }
    body
}

/// The outcome of a call as that of each of its texts.
fn split(result: Result<Vec<EmbeddingReply>, CallError>, texts: usize) -> Vec<Outcome<EmbeddingReply>> {
    match result {
        Ok(replies) => replies.into_iter().map(Outcome::Reply).collect(),
        Err(error) => vec![Outcome::Failed(error); texts],
    }
}
