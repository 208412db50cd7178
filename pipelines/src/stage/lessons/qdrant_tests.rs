//! The server store against a fake of the endpoints it uses, and against a real server where `QDRANT_URL` names one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method as HttpMethod, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tracemill_models::state::LessonIndex;

use super::*;

const SETTINGS: StoreSettings = StoreSettings { dedupe: 0.7, threshold: 0.5, top: 5 };

#[derive(Default)]
struct Fake {
    size: Option<u64>,
    points: BTreeMap<String, Value>,
}

/// Whether a payload passes a filter of `must`, `must_not` and `should`; an empty `should` takes everything.
fn passes(filter: &Value, payload: &Value) -> bool {
    let holds = |condition: &Value| {
        let key = condition["key"].as_str().expect("a condition has a key");
        payload[key] == condition["match"]["value"]
    };
    let list = |name: &str| filter[name].as_array().cloned().unwrap_or_default();
    let should = list("should");
    list("must").iter().all(holds)
        && !list("must_not").iter().any(holds)
        && (should.is_empty() || should.iter().any(holds))
}

fn cosine(a: &Value, b: &Value) -> f64 {
    let values = |v: &Value| {
        v.as_array().expect("a vector").iter().map(|x| x.as_f64().expect("a number") as f32).collect()
    };
    let (a, b): (Vec<f32>, Vec<f32>) = (values(a), values(b));
    f64::from(a.iter().zip(&b).map(|(x, y)| x * y).sum::<f32>())
}

async fn answer(State(fake): State<Arc<Mutex<Fake>>>, method: HttpMethod, uri: Uri, body: Bytes) -> Response {
    let mut fake = fake.lock().expect("no test panics in here");
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let result = match (method.as_str(), uri.path().trim_start_matches("/collections/lessons")) {
        ("GET", "") => match fake.size {
            Some(size) => json!({ "config": { "params": { "vectors": { "size": size } } } }),
            None => return (StatusCode::NOT_FOUND, "{}").into_response(),
        },
        ("PUT", "") => {
            fake.size = body["vectors"]["size"].as_u64();
            json!(true)
        }
        ("PUT", "/points") => {
            for point in body["points"].as_array().expect("points") {
                let id = point["id"].as_str().expect("an id");
                assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "a UUID");
                fake.points.insert(id.to_owned(), point.clone());
            }
            json!({})
        }
        ("POST", "/points/delete") => {
            let gone = body["points"].as_array().cloned().unwrap_or_default();
            let filter = &body["filter"];
            fake.points.retain(|id, point| {
                !(gone.contains(&json!(id)) || filter.is_object() && passes(filter, &point["payload"]))
            });
            json!({})
        }
        ("POST", "/points/query") => {
            let threshold = body["score_threshold"].as_f64().expect("a threshold") as f32;
            let mut hits: Vec<(f64, Value)> = fake
                .points
                .values()
                .filter(|point| passes(&body["filter"], &point["payload"]))
                .map(|point| (cosine(&point["vector"], &body["query"]), point.clone()))
                .filter(|(score, _)| *score as f32 >= threshold)
                .collect();
            hits.sort_by(|a, b| b.0.total_cmp(&a.0));
            hits.truncate(body["limit"].as_u64().expect("a limit") as usize);
            let point = |(score, point): (f64, Value)| json!({ "id": point["id"], "score": score, "payload": point["payload"] });
            json!({ "points": hits.into_iter().map(point).collect::<Vec<_>>() })
        }
        ("POST", "/points/scroll") => {
            // Two at a time, so that pages are followed.
            let passing: Vec<&Value> =
                fake.points.values().filter(|point| passes(&body["filter"], &point["payload"])).collect();
            let from = body["offset"].as_u64().unwrap_or_default() as usize;
            let next = (from + 2 < passing.len()).then_some(from + 2);
            json!({ "points": passing.iter().skip(from).take(2).collect::<Vec<_>>(), "next_page_offset": next })
        }
        (method, path) => panic!("{method} {path} is not used"),
    };
    axum::Json(json!({ "result": result, "status": "ok" })).into_response()
}

/// Starts the fake; its address.
fn serve() -> String {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            tell.send(listener.local_addr().expect("an address")).expect("told");
            let app = Router::new().fallback(answer).with_state(Arc::new(Mutex::new(Fake::default())));
            axum::serve(listener, app).await.expect("served");
        });
    });
    format!("http://{}", told.recv().expect("the address"))
}

fn section(url: &str) -> QdrantSection {
    QdrantSection { url: Some(url.to_owned()), collection: "lessons".to_owned(), ..QdrantSection::default() }
}

fn lesson(id: &str, kind: LessonKind, domain: &str) -> Lesson {
    Lesson {
        lesson_id: id.to_owned(),
        kind,
        domain: domain.to_owned(),
        condition: "when".to_owned(),
        actions: vec!["tap".to_owned()],
        expected: "it works".to_owned(),
        text: format!("text of {id}"),
        episode_id: "e".to_owned(),
        evidence_steps: vec![1, 2],
        made_by: "test@1".to_owned(),
    }
}

fn at(cosine: f32) -> Vec<f32> {
    vec![cosine, (1.0 - cosine * cosine).sqrt()]
}

/// The server and the embedded store do the same.
fn both_agree(url: &str) {
    let mut server = Qdrant::open(&section(url), 2).expect("opened").expect("an address is given");
    server.begin("run").expect("begun");
    let mut index = LessonIndex::default();
    let told = [
        ("e!1", LessonKind::Failure, "Clock", 1.0),
        ("e!2", LessonKind::Success, "Clock", 1.0),
        ("f!1", LessonKind::Failure, "Clock", 0.72),
        ("g!1", LessonKind::Failure, "Clock", 0.2),
        ("h!1", LessonKind::Failure, "Maps", 1.0),
        ("require!1", LessonKind::Require, "Clock", 0.0),
        ("require!2", LessonKind::Require, "", 0.0),
        ("require!3", LessonKind::Require, "Clock", 0.0),
    ];
    for (id, kind, domain, cosine) in told {
        let filed = index.file(lesson(id, kind, domain), at(cosine), SETTINGS);
        let served =
            LessonStore::file(&mut server, lesson(id, kind, domain), at(cosine), SETTINGS).expect("filed");
        let names = |filed: &Filed| match filed {
            Filed::New => Vec::new(),
            Filed::Replacing(replaced) => replaced.iter().map(|r| r.lesson_id.clone()).collect(),
        };
        assert_eq!(names(&filed), names(&served), "{id}");
    }
    for domain in [Some("clock"), Some("Maps"), Some("other"), None] {
        let ids = |found: &Retrieved| {
            let hits = found.hits.iter().map(|h| h.lesson.lesson_id.clone());
            found.required.iter().map(|l| l.lesson_id.clone()).chain(hits).collect::<Vec<_>>()
        };
        let found = index.retrieve(&at(1.0), domain, SETTINGS);
        let served = server.retrieve(&at(1.0), domain, SETTINGS).expect("retrieved");
        assert_eq!(ids(&found), ids(&served), "{domain:?}");
        assert_eq!(found.required, served.required);
    }
    // A second build of the same run begins anew.
    server.begin("run").expect("begun");
    let found = server.retrieve(&at(1.0), None, SETTINGS).expect("retrieved");
    assert_eq!(found, Retrieved::default());
}

#[test]
fn the_server_does_what_the_embedded_store_does() {
    both_agree(&serve());
}

#[test]
fn a_real_server_does_too() {
    match std::env::var("QDRANT_URL") {
        Ok(url) => both_agree(&url),
        Err(_) => eprintln!("skipped: QDRANT_URL names no server"),
    }
}

#[test]
fn a_collection_of_another_width_and_an_absent_server_are_said() {
    let url = serve();
    Qdrant::open(&section(&url), 2).expect("made");
    let error = Qdrant::open(&section(&url), 3).err().expect("another width");
    assert!(format!("{error:#}").contains("width Some(2)"), "{error:#}");
    let error = Qdrant::open(&section("http://127.0.0.1:9"), 2).err().expect("nobody listens");
    assert!(
        format!("{error:#}").contains("lessons.qdrant http://127.0.0.1:9/collections/lessons"),
        "{error:#}"
    );
    assert!(Qdrant::open(&QdrantSection::default(), 2).expect("nothing to open").is_none());
}
