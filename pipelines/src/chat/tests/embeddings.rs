use serde_json::{Value, json};
use tracemill_models::embed::Embedder;

use super::server::{Answer, Call, Server};
use super::*;

/// A vector that belongs to the text: its length and its first byte.
fn vector(text: &str) -> Value {
    json!([text.len() as f64, f64::from(text.as_bytes()[0]), 0.5])
}

/// Answers in reverse order, by index.
fn embed(call: &Call) -> Answer {
    assert_eq!(call.path, "/v1/embeddings");
    assert_eq!(call.body["encoding_format"], "float");
    let texts = call.body["input"].as_array().unwrap();
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .rev()
        .map(|(i, text)| json!({ "index": i, "embedding": vector(text.as_str().unwrap()) }))
        .collect();
    Answer::Json(json!({ "data": data, "model": "m" }))
}

fn open(server: &Server, ledger: &Path) -> OpenAiEmbedder {
    let mut service = settings(&[server], ledger);
    service.endpoints[0].max_in_flight = 1;
    let settings = OpenAiSettings { dimensions: 3, batch_size: 2, service, ..OpenAiSettings::default() };
    OpenAiEmbedder::open(&settings).unwrap()
}

#[test]
fn texts_go_in_batches_and_each_is_recorded_by_itself() {
    let server = Server::start(embed);
    let ledger = tempfile::tempdir().unwrap();
    let embedder = open(&server, ledger.path());
    assert_eq!((embedder.dim(), embedder.name().as_str()), (3, "openai:m@:3"));
    let vectors = embedder.embed(&["open", "close", "open", "a b", "z"]).unwrap();
    assert_eq!(vectors.len(), 15);
    assert_eq!(server.calls(), 2, "four distinct texts, two in a call");
    let norm = (16f64 + 111.0 * 111.0 + 0.25).sqrt();
    let expected = [4.0 / norm, 111.0 / norm, 0.5 / norm].map(|x| x as f32);
    assert_eq!(vectors[..3], expected);
    assert_eq!(vectors[6..9], expected);
    for row in vectors.chunks(3) {
        assert!((row.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-6);
    }
    // Other batches, same vectors; only the new text is sent.
    let again = embedder.embed(&["z", "new", "close"]).unwrap();
    assert_eq!((server.calls(), &again[..3], &again[6..]), (3, &vectors[12..], &vectors[3..6]));
    assert_eq!(embedder.embed(&[]).unwrap(), Vec::<f32>::new());
}

#[test]
fn a_replay_gives_the_same_bytes_without_a_call() {
    let server = Server::start(embed);
    let ledger = tempfile::tempdir().unwrap();
    let texts = ["one", "two", "three"];
    let recorded = open(&server, ledger.path()).embed(&texts).unwrap();
    let mut service = settings(&[&server], ledger.path());
    service.mode = Mode::Strict;
    let settings = OpenAiSettings { dimensions: 3, service, ..OpenAiSettings::default() };
    let replay = OpenAiEmbedder::open(&settings).unwrap();
    assert_eq!(replay.embed(&texts).unwrap(), recorded);
    assert_eq!(server.calls(), 2);
    assert!(replay.embed(&["four"]).unwrap_err().to_string().contains("strict"));
}

#[test]
fn wrong_counts_widths_and_vectors_are_errors() {
    let server = Server::start(|call| {
        let row = |values: Value| json!({ "data": [{ "embedding": values }], "model": "m" });
        Answer::Json(match call.body["input"][0].as_str().unwrap() {
            "short" => row(json!([1, 2])),
            "zero" => row(json!([0, 0, 0])),
            "more" => json!({ "data": [{ "embedding": [1, 2, 3] }, { "embedding": [1, 2, 3] }] }),
            "twice" => {
                json!({ "data": [{ "index": 0, "embedding": [1, 2, 3] }, { "index": 0, "embedding": [1, 2, 3] }] })
            }
            "beyond" => json!({ "data": [{ "index": 1, "embedding": [1, 2, 3] }] }),
            _ => json!({ "data": [] }),
        })
    });
    let ledger = tempfile::tempdir().unwrap();
    let embedder = open(&server, ledger.path());
    for (texts, part) in [
        (&["short"][..], "vectors of width 2, expected 3"),
        (&["zero"], "norm 0"),
        (&["more"], "2 vectors for 1 texts"),
        (&["twice", "b"], "two vectors have index 0"),
        (&["beyond"], "a vector has index 1, of 1 texts"),
        (&["none"], "0 vectors for 1 texts"),
        (&["a", " "], "text 1 is empty"),
    ] {
        let error = embedder.embed(texts).unwrap_err().to_string();
        assert!(error.contains(part), "{texts:?}: {error}");
    }
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let server = Server::start(embed);
    let ledger = tempfile::tempdir().unwrap();
    let good = OpenAiSettings {
        dimensions: 3,
        service: settings(&[&server], ledger.path()),
        ..OpenAiSettings::default()
    };
    let refused = |change: fn(&mut OpenAiSettings)| {
        let mut settings = good.clone();
        change(&mut settings);
        OpenAiEmbedder::open(&settings).unwrap_err().to_string()
    };
    assert!(refused(|s| s.batch_size = 0).contains("`batch_size`"));
    assert!(refused(|s| s.dimensions = 0).contains("`dimensions`"));
    assert!(refused(|s| s.service.endpoints.clear()).contains("`service.endpoints`"));
    let second = |s: &mut OpenAiSettings| {
        let mut other = s.service.endpoints[0].clone();
        other.model = "other".to_owned();
        s.service.endpoints.push(other);
    };
    assert!(refused(second).contains("several models"));
}
