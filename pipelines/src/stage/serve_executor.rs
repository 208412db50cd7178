//! `serve executor`: a policy of one's own behind OpenAI's chat completions, so that a GPU node needs no other server.
//!
//! Requests that wait are answered together, those with the same sampling in one batch.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tracemill_models::policy::{Adapters, Completion, Finish, Message, Prompt, Sampling};

use super::serve::interrupted;
use crate::cli::ServeExecutorArgs;
use crate::settings::Settings;
use crate::train::{LocalModel, LocalModelSection};

/// Largest request body.
const MAX_BODY_BYTES: usize = 16 << 20;
/// Texts that are written together, at most, unless one request alone asks for more.
const BATCH: usize = 32;
/// Replies to one request, at most.
const MOST_REPLIES: usize = 64;
/// Tokens of prompts and replies that are held together, at most: it bounds the memory of keys and values.
const MOST_TOKENS: usize = 128 << 10;
/// Requests that may wait.
const QUEUE: usize = 256;

/// A request of the chat completions, as far as it is understood. Other fields are refused, so that nothing that was
/// asked for is left out silently, unless they have the value that changes nothing.
#[derive(Debug, Deserialize)]
struct ChatBody {
    messages: Vec<Message>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    max_tokens: Option<usize>,
    #[serde(default)]
    max_completion_tokens: Option<usize>,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    top_p: Option<f64>,
    /// An extension of vLLM's.
    #[serde(default)]
    top_k: Option<i64>,
    #[serde(default)]
    n: Option<usize>,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    logprobs: Option<bool>,
    #[serde(default)]
    top_logprobs: Option<usize>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stop: Option<Stop>,
    #[serde(flatten)]
    others: serde_json::Map<String, Value>,
}

/// Texts that end a reply, and are not part of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Stop {
    One(String),
    Several(Vec<String>),
}

/// Fields that say nothing about the reply.
const NO_MATTER: [&str; 5] = ["user", "metadata", "store", "service_tier", "safety_identifier"];

/// Whether a field that is not understood asks for nothing.
fn is_neutral(name: &str, value: &Value) -> bool {
    match name {
        _ if value.is_null() || NO_MATTER.contains(&name) => true,
        "frequency_penalty" | "presence_penalty" | "min_p" => value.as_f64() == Some(0.0),
        "repetition_penalty" => value.as_f64() == Some(1.0),
        "response_format" => value["type"] == "text",
        "tools" | "functions" => value.as_array().is_some_and(Vec::is_empty),
        "tool_choice" => value == "none" || value == "auto",
        "logit_bias" | "stream_options" => value.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

/// A request on its way to the model.
struct Job {
    prompt: Prompt,
    sampling: Sampling,
    reply: oneshot::Sender<Result<Vec<Completion>, String>>,
}

struct Service {
    model: Arc<LocalModel>,
    jobs: mpsc::SyncSender<Job>,
    name: String,
    /// The seed of the next reply that was asked for without one.
    unseeded: AtomicU64,
    /// Requests so far.
    requests: AtomicU64,
    /// Set when the thread that answers has ended, which it does only by a panic.
    stopped: Arc<AtomicBool>,
}

/// Serves until interrupted.
///
/// # Errors
/// A model that cannot be loaded, an address that cannot be bound.
pub fn run(settings: &Settings, args: &ServeExecutorArgs) -> Result<()> {
    let section = LocalModelSection {
        model: args.model.clone().or_else(|| settings.reward.model.model.clone()),
        adapter: args.adapter.clone().or_else(|| settings.reward.model.adapter.clone()),
        device: args.device.clone().or_else(|| settings.reward.model.device.clone()),
        template: settings.reward.model.template.clone(),
    };
    let model = Arc::new(LocalModel::open(&section, "reward.model")?);
    let name = args.name.clone().unwrap_or_else(|| model.name().to_owned());
    let (jobs, waiting) = mpsc::sync_channel(QUEUE);
    let worker = Arc::clone(&model);
    let stopped = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&stopped);
    std::thread::spawn(move || {
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&worker, &waiting)));
        ended.store(worked.is_err(), Ordering::Relaxed);
    });
    let service = Arc::new(Service {
        model,
        jobs,
        name,
        unseeded: AtomicU64::new(settings.seed),
        requests: AtomicU64::new(0),
        stopped,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(args.addr).await.with_context(|| format!("--addr {}", args.addr))?;
        let at = listener.local_addr()?;
        crate::table::print(&format!(
            "{} at http://{at}/v1 (chat/completions, models; /health)",
            service.name
        ));
        let router = Router::new()
            .route("/health", get(health))
            .route("/v1/models", get(models))
            .route("/v1/chat/completions", post(chat))
            .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
            .with_state(service);
        Ok(axum::serve(listener, router).with_graceful_shutdown(interrupted()).await?)
    })
}

/// Answers jobs until all senders are gone.
fn work(model: &LocalModel, waiting: &mpsc::Receiver<Job>) {
    let mut left = None;
    while let Some(first) = left.take().or_else(|| waiting.recv().ok()) {
        let (mut texts, mut tokens) = (first.prompt.seeds.len(), first.tokens());
        let mut jobs = vec![first];
        while texts < BATCH
            && let Ok(job) = waiting.try_recv()
        {
            texts += job.prompt.seeds.len();
            tokens += job.tokens();
            if tokens > MOST_TOKENS {
                left = Some(job);
                break;
            }
            jobs.push(job);
        }
        while !jobs.is_empty() {
            // Nobody waits for a reply whose client has gone.
            jobs.retain(|job| !job.reply.is_closed());
            let Some(sampling) = jobs.first().map(|job| job.sampling.clone()) else { break };
            let (alike, others): (Vec<Job>, Vec<Job>) =
                jobs.into_iter().partition(|job| job.sampling == sampling);
            jobs = others;
            answer(model, &sampling, alike);
        }
    }
}

impl Job {
    /// Tokens that it may come to.
    fn tokens(&self) -> usize {
        self.prompt.tokens.len() + self.prompt.seeds.len() * self.sampling.max_tokens
    }
}

fn answer(model: &LocalModel, sampling: &Sampling, jobs: Vec<Job>) {
    let prompts: Vec<Prompt> = jobs.iter().map(|job| job.prompt.clone()).collect();
    let replies = model.parts().0.sample(&prompts, sampling, Adapters::On, &mut |_, _, _| {});
    let each: Vec<Result<Vec<Completion>, String>> = match replies {
        Ok(texts) => texts.into_iter().map(Ok).collect(),
        Err(error) => jobs.iter().map(|_| Err(error.to_string())).collect(),
    };
    for (job, reply) in jobs.into_iter().zip(each) {
        // Whoever asked may have gone.
        let _ = job.reply.send(reply);
    }
}

/// An error as OpenAI's servers send it.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let kind = if self.0.is_client_error() { "invalid_request_error" } else { "server_error" };
        (self.0, Json(json!({ "error": { "message": self.1, "type": kind } }))).into_response()
    }
}

fn bad(reason: impl Into<String>) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, reason.into())
}

async fn models(State(service): State<Arc<Service>>) -> Json<Value> {
    let most = service.model.parts().0.config().max_positions;
    let model = json!({
        "id": service.name, "object": "model", "owned_by": "tracemill", "created": 0, "max_model_len": most,
    });
    Json(json!({ "object": "list", "data": [model] }))
}

/// Whether the model answers.
async fn health(State(service): State<Arc<Service>>) -> Result<&'static str, Refusal> {
    if service.stopped.load(Ordering::Relaxed) { Err(gone()) } else { Ok("ok") }
}

fn gone() -> Refusal {
    Refusal(StatusCode::INTERNAL_SERVER_ERROR, "the model has stopped: see the server's messages".to_owned())
}

async fn chat(State(service): State<Arc<Service>>, body: axum::body::Bytes) -> Result<Json<Value>, Refusal> {
    let body: ChatBody = serde_json::from_slice(&body).map_err(|e| bad(format!("the request: {e}")))?;
    let number = service.requests.fetch_add(1, Ordering::Relaxed);
    // Templates and long prompts take their time; other requests must not wait for it.
    let asked = Arc::clone(&service);
    let prepared = tokio::task::spawn_blocking(move || asked.job(&body).map(|job| (body, job))).await;
    let (body, (prompt, sampling)) = prepared.map_err(|_| gone())??;
    let prompt_tokens = prompt.tokens.len();
    let (reply, replied) = oneshot::channel();
    service.jobs.try_send(Job { prompt, sampling, reply }).map_err(|error| match error {
        mpsc::TrySendError::Full(_) => {
            let reason = format!("{QUEUE} requests are waiting: ask again later");
            Refusal(StatusCode::SERVICE_UNAVAILABLE, reason)
        }
        mpsc::TrySendError::Disconnected(_) => gone(),
    })?;
    let texts = replied.await.map_err(|_| gone())?;
    let texts = texts.map_err(|e| Refusal(StatusCode::INTERNAL_SERVER_ERROR, e))?;
    let completion_tokens: usize = texts.iter().map(|text| text.tokens.len()).sum();
    let choices: Result<Vec<Value>, Refusal> =
        texts.iter().enumerate().map(|(i, text)| service.choice(i, text, &body)).collect();
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    Ok(Json(json!({
        "id": format!("chatcmpl-{created}-{number}"),
        "object": "chat.completion",
        "created": created,
        "model": body.model.as_ref().unwrap_or(&service.name),
        "choices": choices?,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    })))
}

impl Service {
    fn job(&self, body: &ChatBody) -> Result<(Prompt, Sampling), Refusal> {
        if body.stream == Some(true) {
            return Err(bad("stream is not supported: leave it out"));
        }
        if let Some((name, value)) = body.others.iter().find(|(name, value)| !is_neutral(name, value)) {
            return Err(bad(format!("`{name}` is {value}, which is not supported: leave it out")));
        }
        if body.stop_texts().iter().any(String::is_empty) {
            return Err(bad("stop has an empty text"));
        }
        if body.top_logprobs.unwrap_or(0) > 0 {
            return Err(bad("top_logprobs is not supported: logprobs gives those of the tokens written"));
        }
        let n = body.n.unwrap_or(1);
        if !(1..=MOST_REPLIES).contains(&n) {
            return Err(bad(format!("n is {n}, expected 1 to {MOST_REPLIES}")));
        }
        let (policy, chat) = self.model.parts();
        let tokens = chat.prompt(&body.messages).map_err(|e| bad(format!("{e:#}")))?;
        let most = policy.config().max_positions;
        if tokens.len() >= most {
            return Err(bad(format!("the prompt has {} tokens, the model's limit is {most}", tokens.len())));
        }
        let sampling = Sampling {
            temperature: body.temperature.unwrap_or(1.0),
            top_p: body.top_p.unwrap_or(1.0),
            top_k: body.top_k.unwrap_or(0).max(0) as usize,
            max_tokens: body
                .max_completion_tokens
                .or(body.max_tokens)
                .unwrap_or(512)
                .min(most - tokens.len()),
            stop: chat.stop.clone(),
        };
        sampling.check().map_err(|e| bad(e.to_string()))?;
        if n * sampling.max_tokens > MOST_TOKENS {
            let asked = n * sampling.max_tokens;
            return Err(bad(format!(
                "n × max_tokens is {asked}, and {MOST_TOKENS} is the most: ask for fewer or shorter replies"
            )));
        }
        // Who asks again without a seed wants another reply; in the same order of requests they are the same.
        let seed = body.seed.unwrap_or_else(|| self.unseeded.fetch_add(n as u64, Ordering::Relaxed));
        Ok((Prompt { tokens, seeds: (0..n as u64).map(|k| seed.wrapping_add(k)).collect() }, sampling))
    }

    /// A reply, up to the first text that ends it.
    fn choice(&self, index: usize, text: &Completion, body: &ChatBody) -> Result<Value, Refusal> {
        let failed = |e: anyhow::Error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("{e:#}"));
        let (_, chat) = self.model.parts();
        // The token that ends the turn is none of the reply's.
        let ended = usize::from(text.finish == Finish::Stop);
        let mut kept = text.tokens.len() - ended;
        let mut content = chat.text(&text.tokens).map_err(failed)?;
        let stop = body.stop_texts();
        let at = stop.iter().filter_map(|stop| content.find(stop.as_str())).min();
        if let Some(at) = at {
            content.truncate(at);
            let fits = |n: &usize| chat.text(&text.tokens[..*n]).is_ok_and(|text| text.len() <= at);
            kept = (0..=kept).rev().find(fits).unwrap_or(0);
        }
        let token = |(id, logp): (&u32, &f32)| {
            let bytes = chat.tokenizer.bytes_of(*id);
            let token = String::from_utf8_lossy(&bytes).into_owned();
            json!({ "bytes": bytes, "token": token, "logprob": logp, "top_logprobs": [] })
        };
        let content_logprobs: Vec<Value> = text.tokens[..kept].iter().zip(&text.logp).map(token).collect();
        let finish = if at.is_some() || text.finish == Finish::Stop { "stop" } else { "length" };
        Ok(json!({
            "index": index,
            "message": { "role": "assistant", "content": content },
            "logprobs": if body.logprobs == Some(true) { json!({ "content": content_logprobs }) } else { Value::Null },
            "finish_reason": finish,
        }))
    }
}

impl ChatBody {
    fn stop_texts(&self) -> &[String] {
        match &self.stop {
            None => &[],
            Some(Stop::One(text)) => std::slice::from_ref(text),
            Some(Stop::Several(texts)) => texts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_would_be_ignored_are_found() {
        let parse = |text: &str| serde_json::from_str::<ChatBody>(text);
        let body = r#"{"messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 3, "max_tokens": 5,
            "frequency_penalty": 0, "presence_penalty": 0.0, "response_format": {"type": "text"}, "tools": null,
            "user": "me", "stop": ["a", "b"]}"#;
        let body = parse(body).unwrap();
        assert_eq!((body.max_completion_tokens, body.stop_texts().len()), (Some(3), 2));
        assert!(body.others.iter().all(|(name, value)| is_neutral(name, value)), "{:?}", body.others);
        let parts = parse(r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}"#);
        assert_eq!(parts.unwrap().messages.len(), 1);
        let body =
            parse(r#"{"messages": [], "response_format": {"type": "json_object"}, "frequency_penalty": 1}"#);
        assert!(body.unwrap().others.iter().all(|(name, value)| !is_neutral(name, value)));
    }
}
