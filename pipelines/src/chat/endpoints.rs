//! The endpoints of a client: bounded calls at each, the least loaded first, those that fail left alone.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tokio::sync::Notify;

use super::error::{CallError, ChatError};
use super::health::{Health, Readiness, Verdict};
use super::settings::{ChatSettings, EndpointSettings, HealthSettings, wrong};

/// How long an idle connection is kept: less than the five seconds after which uvicorn, and so vLLM, closes it.
const IDLE: Duration = Duration::from_secs(4);

/// A secret that no formatting shows.
struct ApiKey(String);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(key)")
    }
}

/// A server, with its connections.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// Address up to the version.
    pub(super) url: String,
    /// The model it serves.
    pub(super) model: String,
    /// Which weights go by that name.
    pub(super) revision: String,
    /// Connections; every request carries the key.
    pub(super) http: reqwest::Client,
    api_key: Option<ApiKey>,
    max_in_flight: usize,
}

impl Endpoint {
    fn open(
        index: usize,
        endpoint: &EndpointSettings,
        settings: &ChatSettings,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ChatError> {
        let mut headers = HeaderMap::new();
        let mut api_key = None;
        if let Some(name) = &endpoint.api_key_env {
            let missing = |what: &str| {
                wrong(
                    &format!("endpoints[{index}].api_key_env"),
                    &format!("environment variable {name} {what}"),
                )
            };
            let key = env(name).filter(|key| !key.is_empty()).ok_or_else(|| missing("is not set"))?;
            let mut header = HeaderValue::from_str(&format!("Bearer {key}"))
                .map_err(|_| missing("holds characters that no key has"))?;
            header.set_sensitive(true);
            headers.insert(AUTHORIZATION, header);
            api_key = Some(ApiKey(key));
        }
        let http = http_client(endpoint, settings, headers)
            .map_err(|e| ChatError::Http { endpoint: endpoint.url().to_owned(), reason: e.to_string() })?;
        Ok(Self {
            url: endpoint.url().to_owned(),
            model: endpoint.model.clone(),
            revision: endpoint.revision.clone(),
            http,
            api_key,
            max_in_flight: endpoint.max_in_flight,
        })
    }

    /// Text of a server without the key, which some echo in their errors.
    pub(super) fn redact(&self, text: &str) -> String {
        match &self.api_key {
            Some(ApiKey(key)) => text.replace(key, "(key)"),
            None => text.to_owned(),
        }
    }
}

fn http_client(
    endpoint: &EndpointSettings,
    settings: &ChatSettings,
    headers: HeaderMap,
) -> reqwest::Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .default_headers(headers)
        .user_agent(concat!("tracemill/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs_f64(settings.timeouts.connect_secs))
        .timeout(Duration::from_secs_f64(settings.timeouts.total_secs))
        // A redirected call would show the key and the prompt to another server.
        .redirect(reqwest::redirect::Policy::none())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(endpoint.max_in_flight);
    if endpoint.url().starts_with("http://") {
        // Machines without certificates can still call a server in the clear.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(endpoint.url()) {
        builder = builder.no_proxy();
    }
    builder.build()
}

fn is_loopback(url: &str) -> bool {
    let host = reqwest::Url::parse(url).ok().and_then(|u| u.host_str().map(str::to_owned));
    host.is_some_and(|h| h == "localhost" || h.starts_with("127.") || h == "[::1]")
}

/// All endpoints.
#[derive(Debug)]
pub(super) struct Pool {
    endpoints: Vec<Endpoint>,
    states: Mutex<Vec<State>>,
    /// Told whenever a call ends.
    changed: Notify,
    health: HealthSettings,
}

#[derive(Debug, Default)]
struct State {
    in_flight: usize,
    /// Calls begun: between equally loaded endpoints, turns are taken.
    begun: u64,
    health: Health,
}

/// What [`Pool::pick`] found.
enum Pick {
    Take { index: usize, probe: bool },
    Wait(Option<Instant>),
    GiveUp(String),
}

impl Pool {
    pub(super) fn open(
        settings: &ChatSettings,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ChatError> {
        let endpoints: Vec<Endpoint> = settings
            .endpoints
            .iter()
            .enumerate()
            .map(|(index, endpoint)| Endpoint::open(index, endpoint, settings, env))
            .collect::<Result<_, _>>()?;
        let states = Mutex::new(endpoints.iter().map(|_| State::default()).collect());
        Ok(Self { endpoints, states, changed: Notify::new(), health: settings.health })
    }

    pub(super) fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Most calls at a time, over all endpoints.
    pub(super) fn slots(&self) -> usize {
        self.endpoints.iter().map(|e| e.max_in_flight).sum()
    }

    /// Positions of the endpoints that serve a model.
    ///
    /// # Errors
    /// [`ChatError::UnknownModel`] when none does.
    pub(super) fn serving(&self, model: &str, revision: &str) -> Result<Vec<usize>, ChatError> {
        let serves = |e: &Endpoint| e.model == model && e.revision == revision;
        let found: Vec<usize> =
            self.endpoints.iter().enumerate().filter(|(_, e)| serves(e)).map(|(index, _)| index).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let known: Vec<String> = self.endpoints.iter().map(|e| named(&e.model, &e.revision)).collect();
        Err(ChatError::UnknownModel { wanted: named(model, revision), known: known.join(", ") })
    }

    /// Waits for a free place at one of the endpoints `serving`; at another than `avoid`, if there is one.
    ///
    /// # Errors
    /// [`CallError::Unavailable`] when all of them have rested for too long, or will.
    pub(super) async fn acquire(
        &self,
        serving: &[usize],
        avoid: Option<usize>,
    ) -> Result<Lease<'_>, CallError> {
        loop {
            // Listening begins before the look at the states, so that no call that ends in between is missed.
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.pick(serving, avoid, Instant::now()) {
                Pick::Take { index, probe } => return Ok(Lease { pool: self, index, probe, settled: false }),
                Pick::Wait(None) => changed.await,
                Pick::Wait(Some(until)) => {
                    // Either way the states are looked at again.
                    let _ = tokio::time::timeout_at(until.into(), changed).await;
                }
                Pick::GiveUp(reason) => {
                    let urls: Vec<&str> = serving.iter().map(|&i| self.endpoints[i].url.as_str()).collect();
                    let limit_secs = self.health.give_up_secs;
                    return Err(CallError::Unavailable { endpoints: urls.join(", "), limit_secs, reason });
                }
            }
        }
    }

    fn pick(&self, serving: &[usize], avoid: Option<usize>, now: Instant) -> Pick {
        let mut states = self.states();
        // A rest that is over is ended first: else an endpoint stayed away for as long as others keep up.
        let rank = |index: usize, probe: bool, state: &State| {
            let load = state.in_flight as f64 / self.endpoints[index].max_in_flight as f64;
            (Some(index) == avoid, !probe, load, state.begun)
        };
        let best = serving
            .iter()
            .filter(|&&index| states[index].in_flight < self.endpoints[index].max_in_flight)
            .filter_map(|&index| match states[index].health.readiness(now) {
                Readiness::Ready => Some((index, false)),
                Readiness::ProbeDue => Some((index, true)),
                Readiness::Resting { .. } => None,
            })
            .map(|(index, probe)| (rank(index, probe, &states[index]), index, probe))
            .min_by(|(a, ..), (b, ..)| {
                (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)).then(a.3.cmp(&b.3))
            });
        match best {
            Some((_, index, probe)) => {
                let state = &mut states[index];
                state.in_flight += 1;
                state.begun += 1;
                if probe {
                    state.health.begin_probe();
                }
                Pick::Take { index, probe }
            }
            None => self.wait(serving, &states, now),
        }
    }

    /// How long to wait when nothing is free.
    fn wait(&self, serving: &[usize], states: &[State], now: Instant) -> Pick {
        let mut wake: Option<Instant> = None;
        let mut since_last: Option<Instant> = None;
        let mut all_rest = true;
        for &index in serving {
            match states[index].health.readiness(now) {
                Readiness::Resting { since, until } => {
                    since_last = since_last.max(Some(since));
                    wake = [wake, until].into_iter().flatten().min();
                }
                Readiness::Ready | Readiness::ProbeDue => all_rest = false,
            }
        }
        let Some(since) = since_last.filter(|_| all_rest) else { return Pick::Wait(wake) };
        let give_up = since + Duration::from_secs_f64(self.health.give_up_secs);
        if now >= give_up || wake.is_some_and(|wake| wake > give_up) {
            let reason = serving.iter().map(|&i| states[i].health.reason()).find(|r| !r.is_empty());
            return Pick::GiveUp(reason.unwrap_or_default().to_owned());
        }
        Pick::Wait(Some(wake.map_or(give_up, |wake| wake.min(give_up))))
    }

    fn states(&self) -> MutexGuard<'_, Vec<State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn named(model: &str, revision: &str) -> String {
    if revision.is_empty() { model.to_owned() } else { format!("{model} ({revision})") }
}

/// A place at an endpoint, given back when dropped.
pub(super) struct Lease<'a> {
    pool: &'a Pool,
    index: usize,
    probe: bool,
    settled: bool,
}

impl Lease<'_> {
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.pool.endpoints[self.index]
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Gives the place back, and says what the call showed about the endpoint.
    pub(super) fn settle(mut self, verdict: Verdict) {
        self.settled = true;
        let shown = match &verdict {
            Verdict::Healthy => String::new(),
            Verdict::Failed(reason) | Verdict::Wait(_, reason) => reason.clone(),
        };
        let (now, settings) = (Instant::now(), &self.pool.health);
        let rest = self.pool.states()[self.index].health.settle(verdict, self.probe, now, settings);
        if let Some(rest) = rest {
            log::warn!("{} rests for {:.1} s: {shown}", self.endpoint().url, rest.as_secs_f64());
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        {
            let state = &mut self.pool.states()[self.index];
            state.in_flight -= 1;
            if self.probe && !self.settled {
                state.health.abandon_probe();
            }
        }
        self.pool.changed.notify_waiters();
    }
}
