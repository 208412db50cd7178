//! Settings of the client, to be embedded in the section of a stage.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::ChatError;
use crate::settings::cache_dir;

/// Which models are called, how, and what the ledger is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChatSettings {
    /// Servers. Calls go to those that serve a request's model; several share its load.
    pub endpoints: Vec<EndpointSettings>,
    /// What the ledger is for.
    pub mode: Mode,
    /// The ledger's folder; by default `ledger` in the user's cache folder.
    pub ledger: Option<PathBuf>,
    /// How a JSON schema is sent.
    pub structured_as: StructuredStyle,
    /// Sent as `mm_processor_kwargs.max_pixels` (vLLM) with every request that holds an image, and so part of its
    /// key: without it the server's own limit decides what the model sees. Not for servers that do not know it.
    pub image_max_pixels: Option<u64>,
    /// Time-outs.
    pub timeouts: TimeoutSettings,
    /// Retries.
    pub retries: RetrySettings,
    /// When an endpoint is left alone.
    pub health: HealthSettings,
    /// Share of failed calls (0 to 1) past which a stage stops.
    pub max_error_share: f64,
    /// The share is taken of at least this many calls.
    pub min_calls: usize,
}

impl Default for ChatSettings {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            mode: Mode::Record,
            ledger: None,
            structured_as: StructuredStyle::ResponseFormat,
            image_max_pixels: None,
            timeouts: TimeoutSettings::default(),
            retries: RetrySettings::default(),
            health: HealthSettings::default(),
            max_error_share: 0.05,
            min_calls: 20,
        }
    }
}

/// A server and the model it serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointSettings {
    /// Address up to the version: `http://localhost:8000/v1`.
    pub base_url: String,
    /// The model's name, as the server knows it.
    pub model: String,
    /// Which weights go by that name: part of every key, so that a ledger made with others is not replayed.
    #[serde(default)]
    pub revision: String,
    /// Environment variable that holds the key, where the server wants one.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// Most calls at a time.
    #[serde(default = "default_max_in_flight")]
    pub max_in_flight: usize,
}

fn default_max_in_flight() -> usize {
    16
}

/// What the ledger is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Every request is a call; its outcome is recorded.
    Live,
    /// Recorded replies answer; what has none, or a failure, is called and recorded.
    Record,
    /// Recorded outcomes answer, failures too; a request without one fails as a miss. No network.
    Replay,
    /// As `replay`, but a miss stops the stage.
    Strict,
}

impl Mode {
    /// Whether calls are made at all.
    pub(super) fn calls(self) -> bool {
        matches!(self, Self::Live | Self::Record)
    }
}

/// How a JSON schema is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredStyle {
    /// `response_format` of type `json_schema`: `OpenAI`, vLLM and others.
    ResponseFormat,
    /// `structured_outputs`: vLLM from 0.12 on, which no longer takes `guided_json`.
    StructuredOutputs,
}

impl StructuredStyle {
    /// The field of the body that asks for a schema.
    pub(super) fn field(self, schema: &Value) -> (&'static str, Value) {
        match self {
            Self::ResponseFormat => (
                "response_format",
                json!({
                    "type": "json_schema",
                    "json_schema": { "name": "reply", "strict": true, "schema": schema },
                }),
            ),
            Self::StructuredOutputs => ("structured_outputs", json!({ "json": schema })),
        }
    }
}

/// Time-outs of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimeoutSettings {
    /// Until there is a connection, in seconds.
    pub connect_secs: f64,
    /// Until the answer is complete, in seconds.
    pub total_secs: f64,
}

impl Default for TimeoutSettings {
    fn default() -> Self {
        Self { connect_secs: 10.0, total_secs: 120.0 }
    }
}

/// Retries of a call. Waits double from attempt to attempt; between half and all of each is waited, drawn from the
/// seed and the request's key.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrySettings {
    /// Attempts in all, the first one included.
    pub attempts: u32,
    /// Wait after the first attempt, in seconds.
    pub first_wait_secs: f64,
    /// Longest wait, in seconds.
    pub longest_wait_secs: f64,
    /// Seed of the waits.
    pub seed: u64,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self { attempts: 5, first_wait_secs: 0.5, longest_wait_secs: 30.0, seed: 0 }
    }
}

/// When an endpoint is left alone, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HealthSettings {
    /// Failures in a row after which an endpoint rests.
    pub failures: u32,
    /// Its first rest, in seconds; doubled while the call that ends a rest fails.
    pub rest_secs: f64,
    /// Longest rest, in seconds.
    pub longest_rest_secs: f64,
    /// How long calls wait when every endpoint rests, in seconds from the moment the last one began to.
    pub give_up_secs: f64,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self { failures: 8, rest_secs: 2.0, longest_rest_secs: 30.0, give_up_secs: 90.0 }
    }
}

impl ChatSettings {
    /// Checks what types cannot say.
    ///
    /// # Errors
    /// Names the setting and what it should be. Never shows an address that holds a password.
    pub fn validate(&self) -> Result<(), ChatError> {
        if self.endpoints.is_empty() && self.mode.calls() {
            return Err(wrong(
                "endpoints",
                "is empty: add `{ base_url = \"http://localhost:8000/v1\", model = \"…\" }`, or set `mode` to replay",
            ));
        }
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            endpoint.validate(index)?;
            let same = |e: &EndpointSettings| e.url() == endpoint.url() && e.model == endpoint.model;
            if self.endpoints[..index].iter().any(same) {
                return Err(wrong(
                    &format!("endpoints[{index}]"),
                    "is there twice: raise `max_in_flight` of the first instead",
                ));
            }
        }
        let TimeoutSettings { connect_secs, total_secs } = self.timeouts;
        let RetrySettings { attempts, first_wait_secs, longest_wait_secs, seed: _ } = self.retries;
        let HealthSettings { failures, rest_secs, longest_rest_secs, give_up_secs } = self.health;
        for (key, secs, least) in [
            ("timeouts.connect_secs", connect_secs, 1e-3),
            ("timeouts.total_secs", total_secs, 1e-3),
            ("retries.first_wait_secs", first_wait_secs, 0.0),
            ("retries.longest_wait_secs", longest_wait_secs, 0.0),
            ("health.rest_secs", rest_secs, 0.0),
            ("health.longest_rest_secs", longest_rest_secs, 0.0),
            ("health.give_up_secs", give_up_secs, 0.0),
        ] {
            // An upper bound too: `Duration` panics on what does not fit.
            if !(least..=1e6).contains(&secs) {
                return Err(wrong(key, &format!("is {secs}: give seconds from {least} to 1000000")));
            }
        }
        for (key, value) in [("retries.attempts", attempts), ("health.failures", failures)] {
            if value == 0 {
                return Err(wrong(key, "is 0: must be at least 1"));
            }
        }
        if !(0.0..=1.0).contains(&self.max_error_share) {
            return Err(wrong("max_error_share", &format!("is {}: a share is 0 to 1", self.max_error_share)));
        }
        Ok(())
    }

    /// The ledger's folder.
    ///
    /// # Errors
    /// When none is set and there is no cache folder.
    pub fn ledger_dir(&self) -> Result<PathBuf, ChatError> {
        match &self.ledger {
            Some(dir) => Ok(dir.clone()),
            None => default_ledger_dir(),
        }
    }
}

/// Where the ledger lies unless the settings say otherwise.
///
/// # Errors
/// When there is no cache folder.
pub(crate) fn default_ledger_dir() -> Result<PathBuf, ChatError> {
    let cache = cache_dir().ok_or_else(|| wrong("ledger", "no cache folder on this machine: name one"))?;
    Ok(cache.join("ledger"))
}

impl EndpointSettings {
    /// The address without a slash at its end.
    pub(super) fn url(&self) -> &str {
        self.base_url.trim_end_matches('/')
    }

    fn validate(&self, index: usize) -> Result<(), ChatError> {
        let key = |name: &str| format!("endpoints[{index}].{name}");
        let url = reqwest::Url::parse(&self.base_url)
            .map_err(|e| wrong(&key("base_url"), &format!("is not a URL ({e}): http://localhost:8000/v1")))?;
        // What follows is shown in errors, logs and manifests: nothing secret may be in it.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(
                &key("base_url"),
                "holds a user name or password: put the key into an environment variable and name that in `api_key_env`",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong(
                &key("base_url"),
                "has a `?` or `#`: give the address up to the version, …/v1",
            ));
        }
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong(&key("base_url"), "must begin with http:// or https://, and name a host"));
        }
        if self.model.trim().is_empty() {
            return Err(wrong(&key("model"), "is empty: `tracemill doctor` lists what a server has"));
        }
        if self.api_key_env.as_ref().is_some_and(|name| !is_variable(name)) {
            // Not shown: it may be the key itself.
            return Err(wrong(&key("api_key_env"), "must be the name of an environment variable, not a key"));
        }
        if self.max_in_flight == 0 {
            return Err(wrong(&key("max_in_flight"), "is 0: must be at least 1"));
        }
        Ok(())
    }
}

fn is_variable(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(word) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// A setting that is wrong.
pub(super) fn wrong(key: &str, reason: &str) -> ChatError {
    ChatError::Setting { key: key.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base_url: &str) -> EndpointSettings {
        EndpointSettings {
            base_url: base_url.to_owned(),
            model: "m".to_owned(),
            revision: String::new(),
            api_key_env: None,
            max_in_flight: 1,
        }
    }

    fn refusal(endpoint: EndpointSettings) -> String {
        let settings = ChatSettings { endpoints: vec![endpoint], ..ChatSettings::default() };
        settings.validate().unwrap_err().to_string()
    }

    #[test]
    fn addresses_are_checked_and_passwords_never_shown() {
        for good in ["http://localhost:8000/v1", "https://api.example.com/v1/", "http://10.0.0.1"] {
            let settings = ChatSettings { endpoints: vec![endpoint(good)], ..ChatSettings::default() };
            settings.validate().unwrap();
        }
        for bad in ["localhost:8000", "ftp://h/v1", "not a url", "http://h/v1?x=s3cret", "http://h/#a"] {
            assert!(refusal(endpoint(bad)).contains("endpoints[0].base_url"), "{bad}");
        }
        for secret in ["http://user:s3cret@h/v1", "http://s3cret@h/v1", "http://h/v1?key=s3cret"] {
            assert!(!refusal(endpoint(secret)).contains("s3cret"), "{secret}");
        }
        let key = EndpointSettings { api_key_env: Some("sk-s3cret".to_owned()), ..endpoint("http://h/v1") };
        let message = refusal(key);
        assert!(message.contains("api_key_env") && !message.contains("s3cret"), "{message}");
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let set = |change: fn(&mut ChatSettings)| {
            let mut settings =
                ChatSettings { endpoints: vec![endpoint("http://h/v1")], ..Default::default() };
            change(&mut settings);
            settings.validate().map_err(|e| e.to_string())
        };
        assert!(set(|_| ()).is_ok());
        let wrong: [(fn(&mut ChatSettings), &str); 7] = [
            (|s| s.endpoints.clear(), "`endpoints`"),
            (|s| s.endpoints.push(endpoint("http://h/v1/")), "endpoints[1]"),
            (|s| s.endpoints[0].model.clear(), "endpoints[0].model"),
            (|s| s.endpoints[0].max_in_flight = 0, "max_in_flight"),
            (|s| s.timeouts.total_secs = f64::NAN, "timeouts.total_secs"),
            (|s| s.retries.attempts = 0, "retries.attempts"),
            (|s| s.max_error_share = 1.5, "max_error_share"),
        ];
        for (change, name) in wrong {
            let message = set(change).unwrap_err();
            assert!(message.contains(name), "{name}: {message}");
        }
        assert!(set(|s| (s.mode, s.endpoints) = (Mode::Replay, Vec::new())).is_ok());
    }
}
