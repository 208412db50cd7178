//! `serve executor`: a policy of one's own behind OpenAI's chat completions, so that a GPU node needs no other server.
//!
//! Requests that wait are answered together, those with the same sampling in one batch.

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
/// Texts that are written together, at most.
const BATCH: usize = 32;
/// Replies to one request, at most.
const MOST_REPLIES: usize = 64;

/// A request of the chat completions, as far as it is understood. Other fields are refused, so that nothing that was
/// asked for is left out silently, but for those that change nothing here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChatBody {
    messages: Vec<Message>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default, alias = "max_completion_tokens")]
    max_tokens: Option<usize>,
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
    #[serde(default, rename = "user")]
    _user: Option<String>,
    #[serde(default, rename = "stop")]
    stop: Option<Value>,
}

/// A request on its way to the model.
struct Job {
    prompt: Prompt,
    sampling: Sampling,
    reply: oneshot::Sender<Result<Vec<Completion>, String>>,
}

struct Service {
    model: Arc<LocalModel>,
    jobs: mpsc::Sender<Job>,
    name: String,
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
    let (jobs, waiting) = mpsc::channel();
    let worker = Arc::clone(&model);
    std::thread::spawn(move || work(&worker, &waiting));
    let service = Arc::new(Service { model, jobs, name });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(args.addr).await.with_context(|| format!("--addr {}", args.addr))?;
        let at = listener.local_addr()?;
        crate::table::print(&format!("{} at http://{at}/v1 (chat/completions, models)", service.name));
        let router = Router::new()
            .route("/v1/models", get(models))
            .route("/v1/chat/completions", post(chat))
            .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
            .with_state(service);
        Ok(axum::serve(listener, router).with_graceful_shutdown(interrupted()).await?)
    })
}

/// Answers jobs until all senders are gone.
fn work(model: &LocalModel, waiting: &mpsc::Receiver<Job>) {
    while let Ok(first) = waiting.recv() {
        let mut jobs = vec![first];
        let mut texts = jobs[0].prompt.seeds.len();
        while texts < BATCH
            && let Ok(job) = waiting.try_recv()
        {
            texts += job.prompt.seeds.len();
            jobs.push(job);
        }
        while !jobs.is_empty() {
            let sampling = jobs[0].sampling.clone();
            let (alike, others): (Vec<Job>, Vec<Job>) =
                jobs.into_iter().partition(|job| job.sampling == sampling);
            jobs = others;
            answer(model, &sampling, alike);
        }
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

async fn chat(State(service): State<Arc<Service>>, body: axum::body::Bytes) -> Result<Json<Value>, Refusal> {
    let body: ChatBody = serde_json::from_slice(&body).map_err(|e| bad(format!("the request: {e}")))?;
    let (prompt, sampling) = service.job(&body)?;
    let (prompt_tokens, seeds) = (prompt.tokens.len(), prompt.seeds.len());
    let (reply, replied) = oneshot::channel();
    let gone = || Refusal(StatusCode::INTERNAL_SERVER_ERROR, "the model has stopped".to_owned());
    service.jobs.send(Job { prompt, sampling, reply }).map_err(|_| gone())?;
    let texts = replied.await.map_err(|_| gone())?;
    let texts = texts.map_err(|e| Refusal(StatusCode::INTERNAL_SERVER_ERROR, e))?;
    let completion_tokens: usize = texts.iter().map(|text| text.tokens.len()).sum();
    let choices: Result<Vec<Value>, Refusal> = texts
        .iter()
        .enumerate()
        .map(|(i, text)| service.choice(i, text, body.logprobs == Some(true)))
        .collect();
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    Ok(Json(json!({
        "id": format!("chatcmpl-{created}-{prompt_tokens}-{seeds}"),
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
        if body.stop.as_ref().is_some_and(|stop| !stop.is_null()) {
            return Err(bad("stop is not supported: replies end with the turn"));
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
            max_tokens: body.max_tokens.unwrap_or(512).min(most - tokens.len()),
            stop: chat.stop.clone(),
        };
        sampling.check().map_err(|e| bad(e.to_string()))?;
        // Without a seed the replies are still a function of the request.
        let seed = body.seed.unwrap_or(0);
        Ok((Prompt { tokens, seeds: (0..n as u64).map(|k| seed.wrapping_add(k)).collect() }, sampling))
    }

    fn choice(&self, index: usize, text: &Completion, logprobs: bool) -> Result<Value, Refusal> {
        let failed = |e: anyhow::Error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("{e:#}"));
        let (_, chat) = self.model.parts();
        let content = chat.text(&text.tokens).map_err(failed)?;
        let token = |(id, logp): (&u32, &f32)| {
            let token = chat.tokenizer.decode(&[*id], false).unwrap_or_default();
            json!({ "bytes": token.as_bytes(), "token": token, "logprob": logp, "top_logprobs": [] })
        };
        let content_logprobs: Vec<Value> = text.tokens.iter().zip(&text.logp).map(token).collect();
        Ok(json!({
            "index": index,
            "message": { "role": "assistant", "content": content },
            "logprobs": if logprobs { json!({ "content": content_logprobs }) } else { Value::Null },
            "finish_reason": if text.finish == Finish::Stop { "stop" } else { "length" },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_would_be_ignored_are_refused() {
        let parse = |text: &str| serde_json::from_str::<ChatBody>(text);
        let body =
            parse(r#"{"messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 3}"#).unwrap();
        assert_eq!(body.max_tokens, Some(3));
        let parts = parse(r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}"#);
        assert_eq!(parts.unwrap().messages.len(), 1);
        let error = parse(r#"{"messages": [], "response_format": {}}"#).unwrap_err().to_string();
        assert!(error.contains("response_format"), "{error}");
    }
}
