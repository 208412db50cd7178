//! The client against a server that misbehaves on purpose.

/// `openai` embedder and batches of texts.
mod embeddings;
/// Faults: none becomes a reply, retries, replay.
mod faults;
/// Records on disk: writers, cuts, damage.
mod ledger;
/// Balance, bounds and health of endpoints.
mod load;
/// Probes.
mod probe;
/// What is sent, and how keys come about.
mod requests;
/// Keys of endpoints are shown nowhere.
mod secrets;
/// The server.
mod server;

use std::path::Path;

use super::*;

/// Settings for tests: quick retries, no endpoint ever rests, every failure is allowed.
fn settings(servers: &[&server::Server], ledger: &Path) -> ChatSettings {
    let endpoint = |server: &&server::Server| EndpointSettings {
        base_url: server.url.clone(),
        model: "m".to_owned(),
        revision: String::new(),
        api_key_env: None,
        max_in_flight: 16,
    };
    ChatSettings {
        endpoints: servers.iter().map(endpoint).collect(),
        ledger: Some(ledger.to_owned()),
        timeouts: TimeoutSettings { connect_secs: 5.0, total_secs: 10.0 },
        retries: RetrySettings { attempts: 4, first_wait_secs: 0.001, longest_wait_secs: 0.01, seed: 1 },
        health: HealthSettings { failures: u32::MAX, ..HealthSettings::default() },
        max_error_share: 1.0,
        ..ChatSettings::default()
    }
}

fn ask(text: &str) -> ChatRequest {
    ChatRequest::new("m", vec![Message::user([Part::text(text)])])
}

fn asks(count: usize) -> Vec<ChatRequest> {
    (0..count).map(|i| ask(&format!("#{i}"))).collect()
}

fn json(outcomes: &[Outcome]) -> String {
    serde_json::to_string(outcomes).unwrap()
}
