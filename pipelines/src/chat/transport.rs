//! One HTTP attempt, and what became of it.

use std::error::Error;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{RequestBuilder, Response, StatusCode};

use super::endpoints::Endpoint;
use super::error::CallError;
use super::settings::TimeoutSettings;

/// Characters of a server's text that an error shows.
const EXCERPT_CHARS: usize = 300;
/// Longest answer that is read: a thousand vectors of 3,072 numbers are about 70 MB.
const MAX_BODY_BYTES: usize = 256 << 20;

/// What came of an attempt.
pub(super) struct Attempt {
    /// The body of an answer with status 200 to 299.
    pub(super) result: Result<Vec<u8>, CallError>,
    /// How long the server asks to be left alone (`Retry-After` in seconds; dates are not read).
    pub(super) retry_after: Option<Duration>,
}

/// Sends JSON.
pub(super) async fn post(
    endpoint: &Endpoint,
    path: &str,
    body: Vec<u8>,
    limits: &TimeoutSettings,
) -> Attempt {
    let url = format!("{}{path}", endpoint.url);
    let request = endpoint.http.post(url).header(CONTENT_TYPE, "application/json").body(body);
    send(endpoint, request, limits).await
}

/// Asks for JSON.
pub(super) async fn get(endpoint: &Endpoint, path: &str, limits: &TimeoutSettings) -> Attempt {
    send(endpoint, endpoint.http.get(format!("{}{path}", endpoint.url)), limits).await
}

async fn send(endpoint: &Endpoint, request: RequestBuilder, limits: &TimeoutSettings) -> Attempt {
    match request.send().await {
        Ok(response) => {
            let retry_after = retry_after(&response);
            Attempt { result: read(endpoint, response, limits).await, retry_after }
        }
        Err(error) => Attempt { result: Err(not_sent(endpoint, error, limits)), retry_after: None },
    }
}

fn not_sent(endpoint: &Endpoint, error: reqwest::Error, limits: &TimeoutSettings) -> CallError {
    let url = endpoint.url.clone();
    match (error.is_timeout(), error.is_connect()) {
        (true, true) => CallError::Connect {
            endpoint: url,
            reason: format!("no connection in {} s", limits.connect_secs),
        },
        (true, false) => CallError::Timeout { endpoint: url, limit_secs: limits.total_secs },
        (false, true) => {
            CallError::Connect { endpoint: url, reason: format!("no connection: {}", cause(error)) }
        }
        (false, false) => {
            CallError::Connect { endpoint: url, reason: format!("connection lost: {}", cause(error)) }
        }
    }
}

async fn read(
    endpoint: &Endpoint,
    mut response: Response,
    limits: &TimeoutSettings,
) -> Result<Vec<u8>, CallError> {
    let status = response.status();
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > MAX_BODY_BYTES => {
                return Err(malformed(endpoint, &format!("longer than {MAX_BODY_BYTES} bytes"), &body));
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(error) if error.is_timeout() => {
                return Err(CallError::Timeout {
                    endpoint: endpoint.url.clone(),
                    limit_secs: limits.total_secs,
                });
            }
            Err(error) => {
                return Err(CallError::Truncated { endpoint: endpoint.url.clone(), reason: cause(error) });
            }
        }
    }
    match status {
        status if status.is_success() => Ok(body),
        // What a server says about a key may hold the key, or parts of it.
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Err(CallError::Unauthorised { endpoint: endpoint.url.clone(), status: status.as_u16() })
        }
        status => Err(CallError::Http {
            endpoint: endpoint.url.clone(),
            status: status.as_u16(),
            body: excerpt(endpoint, &body),
        }),
    }
}

/// An answer that is not what the interface promises.
pub(super) fn malformed(endpoint: &Endpoint, reason: &str, body: &[u8]) -> CallError {
    CallError::Malformed {
        endpoint: endpoint.url.clone(),
        reason: endpoint.redact(reason),
        body: excerpt(endpoint, body),
    }
}

/// The beginning of a body. The key is taken out before the cut: half of one would not be recognised.
fn excerpt(endpoint: &Endpoint, body: &[u8]) -> String {
    endpoint.redact(&String::from_utf8_lossy(body)).chars().take(EXCERPT_CHARS).collect()
}

/// The innermost causes of an error, without the URL that `reqwest` repeats.
fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(source) = next {
        causes.push(source.to_string());
        next = source.source();
    }
    if causes.is_empty() { error.to_string() } else { causes.join(": ") }
}

fn retry_after(response: &Response) -> Option<Duration> {
    let status = response.status();
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let secs: f64 = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    // Nobody waits a year; the bound only keeps `Duration` from overflowing.
    (secs >= 0.0).then(|| Duration::from_secs_f64(secs.min(3.2e7)))
}
