//! `serve reward`: scores and rewards over HTTP, for trainers that run elsewhere.

use std::borrow::Cow;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracemill_models::rl::{Outcome, Profile};

use super::reward::reward_batch;
use super::score::{Row, Scored};
use crate::cli::ServeRewardArgs;
use crate::reward::{AgentRow, Rewarder};
use crate::settings::Settings;

/// Largest request body: a batch of rows with screenshots as data URLs.
const MAX_BODY_BYTES: usize = 64 << 20;
/// Batches worked on at a time; more wait their turn, none is turned away.
const AT_A_TIME: usize = 8;

struct Service {
    rewarder: Rewarder,
    turns: Arc<Semaphore>,
}

/// Serves until interrupted.
///
/// # Errors
/// Settings that cannot work, an address that cannot be bound.
pub fn reward(settings: &Settings, args: &ServeRewardArgs) -> Result<()> {
    let mut section = settings.reward.clone();
    if let Some(profile) = &args.profile {
        section.profile.clone_from(profile);
    }
    let rewarder = Rewarder::open(&section, args.images.as_deref())?;
    let name = format!("profile {}, executor {}", rewarder.profile().name, rewarder.executor_name());
    // The service outlives the runtime: a client inside it owns a runtime, which must not be dropped by a task.
    let service = Arc::new(Service { rewarder, turns: Arc::new(Semaphore::new(AT_A_TIME)) });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(args.addr).await.with_context(|| format!("--addr {}", args.addr))?;
        let at = listener.local_addr()?;
        crate::table::print(&format!(
            "rewards at http://{at} ({name}); POST /reward, POST /score, GET /health"
        ));
        serve(listener, Arc::clone(&service), interrupted()).await
    })
}

pub(super) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn serve(
    listener: TcpListener,
    service: Arc<Service>,
    until: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let router = Router::new()
        .route("/health", get(health))
        .route("/score", post(score))
        .route("/reward", post(rewards))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(service);
    Ok(axum::serve(listener, router).with_graceful_shutdown(until).await?)
}

async fn health(State(service): State<Arc<Service>>) -> Json<Value> {
    let profile = service.rewarder.profile();
    Json(json!({
        "tracemill": env!("CARGO_PKG_VERSION"),
        "profile": profile.name,
        "profile_version": profile.version,
        "executor": service.rewarder.executor_name(),
    }))
}

/// Why a request is not answered; sent as JSON.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

fn failed(error: impl std::fmt::Display) -> Refusal {
    Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

fn bad_body(error: &serde_json::Error) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, format!("the body is no batch `{{\"rows\": […]}}`: {error}"))
}

/// Runs `work` off the network's threads, when its turn comes.
async fn in_turn(
    service: Arc<Service>,
    work: impl FnOnce(&Service) -> Result<Response, Refusal> + Send + 'static,
) -> Result<Response, Refusal> {
    // The turn ends with the work, also when the caller has gone.
    let turn = Arc::clone(&service.turns).acquire_owned().await.map_err(failed)?;
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work(&service)
    })
    .await
    .map_err(failed)?
}

#[derive(Deserialize)]
struct RewardBody<'a> {
    #[serde(borrow)]
    rows: Vec<&'a RawValue>,
}

async fn rewards(State(service): State<Arc<Service>>, body: Bytes) -> Result<Response, Refusal> {
    in_turn(service, move |service| {
        let body: RewardBody<'_> = serde_json::from_slice(&body).map_err(|e| bad_body(&e))?;
        let rows: Vec<Result<AgentRow, String>> =
            body.rows.iter().map(|raw| serde_json::from_str(raw.get()).map_err(|e| e.to_string())).collect();
        let done = reward_batch(&service.rewarder, &rows);
        let results = done.map_err(|e| Refusal(StatusCode::BAD_GATEWAY, e.to_string()))?;
        Ok(Json(json!({ "results": results })).into_response())
    })
    .await
}

#[derive(Deserialize)]
struct ScoreBody<'a> {
    /// Another profile than the service's.
    #[serde(borrow, default)]
    profile: Option<Cow<'a, str>>,
    #[serde(borrow)]
    rows: Vec<&'a RawValue>,
}

#[derive(Serialize)]
struct ScoreResults<'a> {
    results: Vec<Scored<'a>>,
}

async fn score(State(service): State<Arc<Service>>, body: Bytes) -> Result<Response, Refusal> {
    in_turn(service, move |service| {
        let body: ScoreBody<'_> = serde_json::from_slice(&body).map_err(|e| bad_body(&e))?;
        let profile = match &body.profile {
            Some(name) => Profile::named(name).map_err(|e| Refusal(StatusCode::BAD_REQUEST, e))?,
            None => service.rewarder.profile(),
        };
        let score = |raw: &&RawValue| match Row::parse(raw.get()) {
            Ok(row) => (row.id.map(RawValue::to_owned), row.score(profile)),
            Err(reason) => (None, Outcome::Error { reason }),
        };
        let scored: Vec<_> = body.rows.par_iter().map(score).collect();
        let numbered = scored.iter().zip(0..);
        let results =
            numbered.map(|((id, outcome), i)| Scored::new(id.as_deref(), i, profile, outcome)).collect();
        let json = serde_json::to_vec(&ScoreResults { results }).map_err(failed)?;
        Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::RewardSection;

    fn service() -> Arc<Service> {
        let rewarder = Rewarder::open(&RewardSection::default(), None).expect("opens");
        Arc::new(Service { rewarder, turns: Arc::new(Semaphore::new(AT_A_TIME)) })
    }

    /// Starts a service on a free port; it ends with the test's runtime.
    async fn started() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("an address");
        tokio::spawn(serve(listener, service(), std::future::pending()));
        format!("http://{at}")
    }

    fn agent_row(id: usize, label: &str) -> Value {
        json!({
            "id": id, "role": "coordinator",
            "output": format!("<think>t</think><answer>Tap '{label}'</answer>"),
            "screen": {"elements": [
                {"id": "0", "role": "button", "text": "Save", "states": [], "bbox": null},
                {"id": "1", "role": "button", "text": "Cancel", "states": [], "bbox": null},
            ]},
            "truth": {"action": "click", "element": "0"},
        })
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_hundred_callers_at_once_all_get_their_own_rewards() {
        let url = format!("{}/reward", started().await);
        let client = reqwest::Client::new();
        let callers = (0..200).map(|i| {
            let (client, url) = (client.clone(), url.clone());
            tokio::spawn(async move {
                let label = if i % 2 == 0 { "Save" } else { "Cancel" };
                let body = json!({ "rows": [agent_row(i, label), agent_row(i + 1000, "Save")] });
                let reply = client.post(&url).json(&body).send().await.expect("a reply");
                assert_eq!(reply.status(), 200);
                (i, reply.json::<Value>().await.expect("JSON"))
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            let (i, reply) = caller.await.expect("no panic");
            let results = reply["results"].as_array().expect("results");
            assert_eq!(
                (results.len(), &results[0]["id"], &results[1]["id"]),
                (2, &json!(i), &json!(i + 1000))
            );
            let right = results[0]["total"] == json!(1.0);
            assert_eq!(right, i % 2 == 0, "{reply}");
        }
    }

    #[tokio::test]
    async fn scores_come_in_order_and_bad_bodies_are_refused() {
        let base = started().await;
        let client = reqwest::Client::new();
        let post = async |path: &str, body: String| {
            let reply = client.post(format!("{base}{path}")).body(body).send().await.expect("a reply");
            (reply.status().as_u16(), reply.json::<Value>().await.expect("JSON"))
        };
        let rows = json!({"profile": "ces-code", "rows": [
            {"id": "a", "prediction": "scroll(direction='up')", "truth": {"action": "scroll", "direction": "down"}},
            {"id": "b", "prediction": "x", "truth": {}},
        ]});
        let (status, reply) = post("/score", rows.to_string()).await;
        assert_eq!(status, 200, "{reply}");
        assert_eq!(
            (&reply["results"][0]["executor"], &reply["results"][1]["outcome"]),
            (&json!(1.0), &json!("abstain"))
        );
        let (status, reply) = post("/score", "{\"rows\": [".to_owned()).await;
        assert_eq!(status, 400);
        assert!(reply["error"].as_str().is_some_and(|e| e.contains("rows")), "{reply}");
        let (status, reply) = post("/score", r#"{"profile": "x", "rows": []}"#.to_owned()).await;
        assert_eq!(
            (status, reply["error"].as_str().is_some_and(|e| e.contains("unknown profile"))),
            (400, true)
        );
        let (status, reply) = post("/reward", r#"{"rows": [{"role": "butler"}]}"#.to_owned()).await;
        assert_eq!((status, &reply["results"][0]["outcome"]), (200, &json!("error")), "{reply}");
        let health = client.get(format!("{base}/health")).send().await.expect("a reply");
        let health: Value = health.json().await.expect("JSON");
        assert_eq!(health["executor"], "lexical@1");
    }
}
