use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::server::{Answer, Call, Server};
use super::*;

/// A server that can do everything.
fn able(call: &Call) -> Answer {
    if call.path.ends_with("/models") {
        return Answer::Json(json!({ "object": "list", "data": [{ "id": "m" }, { "id": "other" }] }));
    }
    let forced =
        [&call.body["response_format"]["json_schema"]["schema"], &call.body["structured_outputs"]["json"]]
            .into_iter()
            .find_map(|schema| schema["properties"]["word"]["enum"][0].as_str());
    match (forced, call.body["seed"].as_u64()) {
        (Some(word), _) => Answer::Text(json!({ "word": word }).to_string()),
        (None, Some(seed)) => Answer::Text(format!("words of seed {seed}")),
        (None, None) => Answer::Text("Red.".to_owned()),
    }
}

fn report(server: &Server) -> EndpointReport {
    let ledger = tempfile::tempdir().unwrap();
    let mut reports = probe_blocking(&settings(&[server], ledger.path())).unwrap();
    assert_eq!(reports.len(), 1);
    reports.remove(0)
}

#[test]
fn a_server_that_can_do_everything() {
    let server = Server::start(able);
    let report = report(&server);
    assert_eq!(report.models, Ok(vec!["m".to_owned(), "other".to_owned()]));
    let EndpointReport { has_model, seed, response_format, structured_outputs, images, .. } = &report;
    for finding in [has_model, seed, response_format, structured_outputs, images] {
        assert_eq!(finding, &Finding::Yes);
    }
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<EndpointReport>(&text).unwrap(), report);
}

#[test]
fn a_server_that_ignores_what_it_does_not_know() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |call| match call.path.as_str() {
        "/v1/models" => Answer::status(404),
        _ => Answer::Text(format!("text {}", count.fetch_add(1, Ordering::SeqCst))),
    });
    let report = report(&server);
    assert!(matches!(report.models, Err(CallError::Http { status: 404, .. })));
    assert!(matches!(report.has_model, Finding::Failed { .. }));
    for finding in [report.seed, report.response_format, report.structured_outputs, report.images] {
        assert!(matches!(finding, Finding::No { .. }), "{finding:?}");
    }
}

#[test]
fn a_text_model_and_a_cached_answer() {
    let server = Server::start(|call| match &call.body["messages"][0]["content"] {
        content if content.is_array() => Answer::status(400),
        _ => Answer::Text("always this".to_owned()),
    });
    let report = report(&server);
    assert!(matches!(report.images, Finding::Failed { error: CallError::Http { status: 400, .. } }));
    assert!(matches!(report.seed, Finding::Undecided { .. }));
}
