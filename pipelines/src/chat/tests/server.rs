//! A server that answers as it is told: replies, faults, delays. It counts what it sees.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// What the server does with a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A reply with this text.
    Text(String),
    /// This JSON, status 200.
    Json(Value),
    /// This status, body and `Retry-After`.
    Status(u16, String, Option<&'static str>),
    /// These bytes of this type, status 200.
    Raw(&'static str, Vec<u8>),
    /// The connection is closed without a word.
    Drop,
    /// The connection is closed in the middle of the body.
    Truncate,
    /// A byte at a time, for longer than anybody waits.
    Drip,
    /// A while later.
    After(Duration, Box<Answer>),
}

impl Answer {
    pub fn status(status: u16) -> Self {
        Self::Status(status, "trouble".to_owned(), None)
    }
}

/// What was asked.
pub struct Call {
    /// `/v1/chat/completions`.
    pub path: String,
    /// The body.
    pub body: Value,
    /// The headers.
    pub headers: HeaderMap,
    /// How often this body has been seen, from 1.
    pub attempt: usize,
}

impl Call {
    /// The text of the last message.
    pub fn text(&self) -> &str {
        self.body["messages"]
            .as_array()
            .and_then(|m| m.last())
            .and_then(|m| m["content"].as_str())
            .unwrap_or("")
    }
}

/// What the server has seen.
#[derive(Default)]
pub struct Seen {
    pub calls: AtomicUsize,
    now: AtomicUsize,
    pub peak: AtomicUsize,
    busy_us: AtomicU64,
    attempts: Mutex<HashMap<String, usize>>,
}

impl Seen {
    /// Seconds that calls were being answered, summed over calls.
    pub fn busy_secs(&self) -> f64 {
        self.busy_us.load(Ordering::SeqCst) as f64 / 1e6
    }
}

/// Counts a call in flight for as long as it lives, also when it is cancelled.
struct InFlight(Arc<Seen>, Instant);

impl InFlight {
    fn begin(seen: &Arc<Seen>) -> Self {
        seen.calls.fetch_add(1, Ordering::SeqCst);
        let now = seen.now.fetch_add(1, Ordering::SeqCst) + 1;
        seen.peak.fetch_max(now, Ordering::SeqCst);
        Self(seen.clone(), Instant::now())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
        self.0.busy_us.fetch_add(self.1.elapsed().as_micros() as u64, Ordering::SeqCst);
    }
}

type Script = Arc<dyn Fn(&Call) -> Answer + Send + Sync>;

/// A running server; it ends when dropped.
pub struct Server {
    /// Address up to the version.
    pub url: String,
    pub seen: Arc<Seen>,
    stop: Option<oneshot::Sender<()>>,
}

impl Server {
    /// Starts a server on a thread and runtime of its own.
    pub fn start(script: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Self {
        let seen = Arc::new(Seen::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel::<SocketAddr>();
        let state: (Script, Arc<Seen>) = (Arc::new(script), seen.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                let app = Router::new().fallback(handle).with_state(state);
                tokio::select! {
                    served = axum::serve(listener, app).into_future() => served.unwrap(),
                    _ = stopped => (),
                }
            });
        });
        let url = format!("http://{}/v1", told.recv().unwrap());
        Self { url, seen, stop: Some(stop) }
    }

    /// A server that repeats what it is asked.
    pub fn echo() -> Self {
        Self::start(|call| Answer::Text(call.text().to_owned()))
    }

    pub fn calls(&self) -> usize {
        self.seen.calls.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
    }
}

async fn handle(
    State((script, seen)): State<(Script, Arc<Seen>)>,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> Response {
    let _in_flight = InFlight::begin(&seen);
    let attempt = {
        let mut attempts = seen.attempts.lock().unwrap();
        let attempt = attempts.entry(body.clone()).or_default();
        *attempt += 1;
        *attempt
    };
    let body = serde_json::from_str(&body).unwrap_or(Value::Null);
    let call = Call { path: uri.path().to_owned(), body, headers, attempt };
    let mut answer = script(&call);
    while let Answer::After(delay, then) = answer {
        tokio::time::sleep(delay).await;
        answer = *then;
    }
    respond(answer)
}

fn respond(answer: Answer) -> Response {
    let json = |body: &Value| {
        Response::builder()
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap()
    };
    match answer {
        Answer::Text(text) => json(&reply(&text)),
        Answer::Json(body) => json(&body),
        Answer::Status(status, body, retry_after) => {
            let builder = Response::builder().status(status);
            let builder = match retry_after {
                Some(secs) => builder.header("retry-after", secs),
                None => builder,
            };
            builder.body(Body::from(body)).unwrap()
        }
        Answer::Raw(kind, bytes) => {
            Response::builder().header("content-type", kind).body(Body::from(bytes)).unwrap()
        }
        // Unwinds without the panic hook's message; the connection dies with its task.
        Answer::Drop => std::panic::resume_unwind(Box::new("dropped on purpose")),
        Answer::Truncate => {
            let half = reply("half of it").to_string()[..20].to_owned();
            // The head goes out with the first part only if the second does not follow at once.
            let end = stream::once(async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Err(std::io::Error::other("cut on purpose"))
            });
            let parts = stream::once(async { Ok(half) }).chain(end);
            Response::builder()
                .header("content-type", "application/json")
                .body(Body::from_stream(parts))
                .unwrap()
        }
        Answer::Drip => {
            let bytes = stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Some((Ok::<_, std::io::Error>(" "), ()))
            });
            Response::builder()
                .header("content-type", "application/json")
                .body(Body::from_stream(bytes))
                .unwrap()
        }
        Answer::After(..) => unreachable!("taken off before"),
    }
}

/// A body of `/chat/completions`.
pub fn reply(text: &str) -> Value {
    json!({
        "id": "1", "object": "chat.completion", "model": "m-served",
        "choices": [{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": text } }],
        "usage": { "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10 },
    })
}
