//! Why a call has no reply, and why a stage has to stop.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::key::Key;
use super::ledger::LedgerError;

/// Why a call has no reply. Recorded in the ledger and replayed as it is, so it holds limits, not measured times,
/// and no key of an endpoint.
#[derive(Debug, Clone, PartialEq, Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CallError {
    /// The answer was not complete in time.
    #[error(
        "{endpoint}: no complete answer within {limit_secs} s: raise `timeouts.total_secs`, or lower `max_in_flight` if the server queues"
    )]
    Timeout {
        /// The endpoint's URL.
        endpoint: String,
        /// The limit, in seconds.
        limit_secs: f64,
    },
    /// There was no connection, or it was lost before the answer began.
    #[error("{endpoint}: {reason}: is the server running, and is `base_url` right?")]
    Connect {
        /// The endpoint's URL.
        endpoint: String,
        /// What the network said.
        reason: String,
    },
    /// The server refused.
    #[error("{endpoint}: HTTP {status}: {body}: {}", http_remedy(*status))]
    Http {
        /// The endpoint's URL.
        endpoint: String,
        /// The status code.
        status: u16,
        /// The beginning of what the server said.
        body: String,
    },
    /// The server wants another key.
    #[error(
        "{endpoint}: HTTP {status}: the server refuses the key: check the variable that `api_key_env` names, and what the key may do"
    )]
    Unauthorised {
        /// The endpoint's URL.
        endpoint: String,
        /// 401 or 403.
        status: u16,
    },
    /// The connection was lost inside the answer. (A reply that the model cut off at `max_tokens` is a reply.)
    #[error("{endpoint}: the answer breaks off: {reason}: look at the server's log, and at proxies between")]
    Truncated {
        /// The endpoint's URL.
        endpoint: String,
        /// What the network said.
        reason: String,
    },
    /// The answer is not what the interface promises.
    #[error("{endpoint}: not an OpenAI-compatible answer: {reason}: {body}: is `base_url` right (…/v1)?")]
    Malformed {
        /// The endpoint's URL.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
        /// The beginning of the answer.
        body: String,
    },
    /// A model in this process cannot take what it is asked.
    #[error("{model}: {reason}")]
    Local {
        /// The model's files.
        model: String,
        /// Why.
        reason: String,
    },
    /// Every endpoint of the model failed too often in a row, and none came back in time.
    #[error("{endpoints}: out of service for over {limit_secs} s: {reason}")]
    Unavailable {
        /// The endpoints' URLs.
        endpoints: String,
        /// How long calls wait for one to come back, in seconds.
        limit_secs: f64,
        /// The last failure of one of them.
        reason: String,
    },
    /// The ledger has no answer, and the mode allows no call.
    #[error("the ledger has no answer to request {key}: run with `mode = \"record\"` first")]
    Miss {
        /// The request.
        key: Key,
    },
}

impl CallError {
    /// The kind's name, as in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "timeout",
            Self::Connect { .. } => "connect",
            Self::Http { .. } => "http",
            Self::Unauthorised { .. } => "unauthorised",
            Self::Truncated { .. } => "truncated",
            Self::Malformed { .. } => "malformed",
            Self::Unavailable { .. } => "unavailable",
            Self::Local { .. } => "local",
            Self::Miss { .. } => "miss",
        }
    }

    /// Whether the same call may succeed a moment later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Connect { .. } | Self::Truncated { .. } | Self::Malformed { .. } => {
                true
            }
            Self::Http { status, .. } => matches!(status, 408 | 429 | 500..),
            Self::Unauthorised { .. } | Self::Unavailable { .. } | Self::Local { .. } | Self::Miss { .. } => {
                false
            }
        }
    }
}

fn http_remedy(status: u16) -> &'static str {
    match status {
        300..400 => "the server has moved; put the new address into `base_url`",
        404 => "check `base_url` (…/v1) and `model`",
        429 => "lower `max_in_flight`, or raise `retries.attempts`",
        500.. => "look at the server's log",
        _ => "the server does not take this request; change it",
    }
}

/// Why a stage has to stop.
#[derive(Debug, Error)]
pub enum ChatError {
    /// A setting is wrong.
    #[error("setting `{key}`: {reason}")]
    Setting {
        /// The setting, below the section that holds the client.
        key: String,
        /// What is wrong, and what it should be.
        reason: String,
    },
    /// A request cannot be sent by anyone.
    #[error("request {key}: {reason}")]
    Request {
        /// The request.
        key: Key,
        /// What is wrong with it.
        reason: String,
    },
    /// No endpoint serves the model.
    #[error("no endpoint serves model `{wanted}`; `endpoints` has: {known}")]
    UnknownModel {
        /// Model, with its revision.
        wanted: String,
        /// Those that the settings name.
        known: String,
    },
    /// The HTTP client cannot be made.
    #[error("HTTP client for {endpoint}: {reason}")]
    Http {
        /// The endpoint's URL.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// The ledger cannot be read or written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Mode `strict`: the ledger has no answer.
    #[error("ledger {}: no answer to request {key} (mode `strict`): run with `mode = \"record\"` first", ledger.display())]
    Miss {
        /// The request.
        key: Key,
        /// The ledger's folder.
        ledger: PathBuf,
    },
    /// Too many calls failed.
    #[error(
        "{failed} of {calls} calls failed, more than `max_error_share` = {max_error_share} allows; the first: {first}"
    )]
    TooManyFailures {
        /// Calls that failed.
        failed: usize,
        /// Calls that the share was taken of.
        calls: usize,
        /// The limit.
        max_error_share: f64,
        /// The first failure seen.
        first: CallError,
    },
}
