//! The client: what the mode asks for, retries, and one call for equal requests at the same time.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::sync::OnceCell;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::endpoints::Pool;
use super::error::{CallError, ChatError};
use super::guard::ErrorGuard;
use super::health::Verdict;
use super::key::Key;
use super::ledger::{Ledger, LedgerError, unix_ms};
use super::reply::{ChatReply, Outcome, Reply, parse_chat};
use super::request::{ChatRequest, Message, Request};
use super::segment::{Record, Timing};
use super::settings::{ChatSettings, Mode};
use super::transport::{self, Attempt, malformed};

/// Calls of a batch that are begun for each place at an endpoint: those that wait to be retried, and those that the
/// ledger answers, keep no endpoint idle.
const BEGUN_PER_SLOT: usize = 2;
/// The same where no call is made.
const BEGUN_OFFLINE: usize = 8;

/// A client of one or more endpoints, and the ledger of its calls. See the module's text.
#[derive(Debug)]
pub struct ChatClient {
    settings: ChatSettings,
    ledger: Ledger,
    /// `None` in the modes that make no call.
    pool: Option<Pool>,
    /// Requests under way in mode `record`. Looked up only.
    under_way: Mutex<HashMap<Key, Arc<OnceCell<Outcome<Reply>>>>>,
}

/// One kind of call: where it goes, and how its answer is read.
pub(super) struct Exchange<'a, T> {
    /// Below the endpoint's address.
    pub(super) path: &'a str,
    /// JSON.
    pub(super) body: Vec<u8>,
    /// Endpoints that serve the model.
    pub(super) serving: Vec<usize>,
    /// Draws the waits between attempts.
    pub(super) key: Key,
    /// Reads the body, or says what is wrong with it.
    pub(super) parse: &'a (dyn Fn(&[u8]) -> Result<T, String> + Sync),
}

impl ChatClient {
    /// Opens the ledger and, in the modes that make calls, the endpoints with their keys.
    ///
    /// # Errors
    /// Settings that cannot work, a variable without its key, a ledger that cannot be read.
    pub fn open(settings: &ChatSettings) -> Result<Self, ChatError> {
        Self::open_with(settings, &|name| std::env::var(name).ok())
    }

    /// [`Self::open`] with the environment given.
    pub(super) fn open_with(
        settings: &ChatSettings,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ChatError> {
        settings.validate()?;
        let dir = settings.ledger_dir()?;
        let (pool, ledger) = if settings.mode.calls() {
            (Some(Pool::open(settings, env)?), Ledger::create(&dir)?)
        } else {
            (None, Ledger::open(&dir)?)
        };
        for damage in ledger.damage() {
            log::warn!("ledger {}: {damage}; ignored", dir.display());
        }
        Ok(Self { settings: settings.clone(), ledger, pool, under_way: Mutex::default() })
    }

    /// A request to the model of the first endpoint, with default sampling.
    pub fn request(&self, messages: Vec<Message>) -> ChatRequest {
        let (model, revision) = self.settings.endpoints.first().map_or(("", ""), |e| (&e.model, &e.revision));
        ChatRequest { revision: revision.to_owned(), ..ChatRequest::new(model, messages) }
    }

    /// The ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The client's settings.
    pub fn settings(&self) -> &ChatSettings {
        &self.settings
    }

    /// The key under which the answer to a request is recorded.
    pub fn key(&self, request: &ChatRequest) -> Key {
        self.recorded_form(request).key()
    }

    /// Asks.
    ///
    /// # Errors
    /// Only what has to stop the stage: a request that nobody can answer, a ledger that fails, a miss in mode
    /// `strict`. A call that fails is an [`Outcome::Failed`].
    pub async fn call(&self, request: &ChatRequest) -> Result<Outcome, ChatError> {
        let request = self.recorded_form(request);
        let key = request.key();
        let outcome = match self.settings.mode {
            Mode::Record => self.once(key, request).await?,
            Mode::Live | Mode::Replay | Mode::Strict => match self.recorded(key)? {
                Some(outcome) => outcome,
                None => self.chat(key, request).await?,
            },
        };
        self.typed(key, outcome, |reply| match reply {
            Reply::Chat(reply) => Some(reply),
            Reply::Embedding(_) => None,
        })
    }

    /// Asks for all of them, several at a time. Outcomes come in the order of the requests; `progress` is told the
    /// number of outcomes so far and the latest, in the order in which they come in. Requests are taken when their
    /// turn comes, so an iterator that makes them holds few images in memory.
    ///
    /// # Errors
    /// Those of [`Self::call`], and [`ChatError::TooManyFailures`] once more of them have failed than
    /// `max_error_share` of all.
    pub async fn call_all<I>(
        &self,
        requests: I,
        mut progress: impl FnMut(usize, &Outcome),
    ) -> Result<Vec<Outcome>, ChatError>
    where
        I: IntoIterator<IntoIter: ExactSizeIterator, Item: Borrow<ChatRequest>>,
    {
        let requests = requests.into_iter();
        let total = requests.len();
        let guard = ErrorGuard::new(self.settings.max_error_share, self.settings.min_calls.max(total));
        let mut outcomes: Vec<Option<Outcome>> = vec![None; total];
        let calls = stream::iter(requests.enumerate())
            .map(|(index, request)| async move { self.call(request.borrow()).await.map(|o| (index, o)) })
            .buffer_unordered(self.begun());
        tokio::pin!(calls);
        let mut done = 0;
        while let Some(call) = calls.next().await {
            let (index, outcome) = call?;
            guard.count(&outcome)?;
            done += 1;
            progress(done, &outcome);
            outcomes[index] = Some(outcome);
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    /// The request as it is sent and recorded: with the limits on images that the settings give.
    fn recorded_form(&self, request: &ChatRequest) -> Request {
        let mut request = request.clone();
        if let Some(max_pixels) = self.settings.image_max_pixels
            && request.has_image()
        {
            let kwargs = request.extra.entry("mm_processor_kwargs".to_owned()).or_insert_with(|| json!({}));
            if let Some(kwargs) = kwargs.as_object_mut() {
                kwargs.entry("max_pixels").or_insert_with(|| json!(max_pixels));
            }
        }
        Request::Chat(request)
    }

    /// What the ledger answers in this mode; `None` when a call is to be made.
    pub(super) fn recorded(&self, key: Key) -> Result<Option<Outcome<Reply>>, ChatError> {
        let mode = self.settings.mode;
        if mode == Mode::Live {
            return Ok(None);
        }
        let found = self.ledger.get(key)?.map(|record| record.outcome);
        match (mode, found) {
            (Mode::Replay | Mode::Strict, Some(outcome)) => Ok(Some(outcome)),
            (Mode::Replay, None) => Ok(Some(Outcome::Failed(CallError::Miss { key }))),
            (Mode::Strict, None) => Err(ChatError::Miss { key, ledger: self.ledger.dir().to_owned() }),
            (_, found) => Ok(found.filter(Outcome::is_reply)),
        }
    }

    /// The reply as the kind that belongs to the request.
    pub(super) fn typed<T>(
        &self,
        key: Key,
        outcome: Outcome<Reply>,
        of_kind: impl FnOnce(Reply) -> Option<T>,
    ) -> Result<Outcome<T>, ChatError> {
        match outcome.map(of_kind) {
            Outcome::Reply(Some(reply)) => Ok(Outcome::Reply(reply)),
            Outcome::Failed(error) => Ok(Outcome::Failed(error)),
            Outcome::Reply(None) => Err(LedgerError::Damaged {
                path: self.ledger.dir().to_owned(),
                key,
                reason: "the reply is of another kind than the request".to_owned(),
            }
            .into()),
        }
    }

    /// Mode `record`: whoever asks first for a key makes the call, the others wait for its outcome.
    async fn once(&self, key: Key, request: Request) -> Result<Outcome<Reply>, ChatError> {
        let cell = self.under_way().entry(key).or_default().clone();
        // The ledger is asked inside: a call that ended a moment ago is not under way any more, but recorded.
        let outcome = cell
            .get_or_try_init(|| async {
                match self.recorded(key)? {
                    Some(outcome) => Ok(outcome),
                    None => self.chat(key, request).await,
                }
            })
            .await
            .cloned();
        self.under_way().remove(&key);
        outcome
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Key, Arc<OnceCell<Outcome<Reply>>>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call to `/chat/completions` and records what became of it.
    async fn chat(&self, key: Key, request: Request) -> Result<Outcome<Reply>, ChatError> {
        let (timing, clock) = (unix_ms(), Instant::now());
        let Request::Chat(chat) = &request else {
            return Err(ChatError::Request { key, reason: "is not a conversation".to_owned() });
        };
        let body =
            chat.body(self.settings.structured_as).map_err(|reason| ChatError::Request { key, reason })?;
        let exchange = Exchange {
            path: "/chat/completions",
            body: serde_json::to_vec(&body).expect("requests hold only what JSON can say"),
            serving: self.pool()?.serving(&chat.model, &chat.revision)?,
            key,
            parse: &parse_chat,
        };
        let (result, attempts): (Result<ChatReply, _>, u32) = self.exchange(exchange).await?;
        let outcome = Outcome::from(result.map(Reply::Chat));
        let timing = Timing { started_unix_ms: timing, secs: clock.elapsed().as_secs_f64() };
        self.ledger.append(&Record { key, request, outcome: outcome.clone(), attempts, timing })?;
        Ok(outcome)
    }

    /// Sends until there is an answer, a failure that will not go away, or no attempt left. Returns the number of
    /// attempts too.
    pub(super) async fn exchange<T>(
        &self,
        exchange: Exchange<'_, T>,
    ) -> Result<(Result<T, CallError>, u32), ChatError> {
        let Exchange { path, body, serving, key, parse } = exchange;
        let pool = self.pool()?;
        let (mut attempt, mut avoid) = (0, None);
        loop {
            let lease = match pool.acquire(&serving, avoid).await {
                Ok(lease) => lease,
                Err(error) => return Ok((Err(error), attempt)),
            };
            attempt += 1;
            avoid = Some(lease.index());
            let Attempt { result, retry_after } =
                transport::post(lease.endpoint(), path, body.clone(), &self.settings.timeouts).await;
            let result = result.and_then(|bytes| {
                parse(&bytes).map_err(|reason| malformed(lease.endpoint(), &reason, &bytes))
            });
            lease.settle(verdict(&result, retry_after));
            match result {
                Err(error) if error.is_retryable() && attempt < self.settings.retries.attempts => {
                    log::debug!("attempt {attempt} for {key}: {error}");
                    // An endpoint that names the time rests until then; another one may take the call at once.
                    if retry_after.is_none() {
                        tokio::time::sleep(self.wait_after(attempt, key)).await;
                    }
                }
                result => return Ok((result, attempt)),
            }
        }
    }

    /// The wait after an attempt: doubled each time, then between half and all of it.
    fn wait_after(&self, attempt: u32, key: Key) -> Duration {
        let retries = &self.settings.retries;
        let doubled = retries.first_wait_secs * 2f64.powi(attempt.min(60) as i32 - 1);
        let drawn = xxh3_64_with_seed(key.bytes(), retries.seed.wrapping_add(u64::from(attempt)));
        let share = 0.5 + 0.5 * (drawn as f64 / u64::MAX as f64);
        Duration::from_secs_f64(doubled.min(retries.longest_wait_secs) * share)
    }

    pub(super) fn pool(&self) -> Result<&Pool, ChatError> {
        let no_calls = || ChatError::Setting {
            key: "mode".to_owned(),
            reason: "allows no calls: `live` and `record` do".to_owned(),
        };
        self.pool.as_ref().ok_or_else(no_calls)
    }

    /// Calls that a batch begins at a time.
    pub(super) fn begun(&self) -> usize {
        self.pool.as_ref().map_or(BEGUN_OFFLINE, |pool| pool.slots() * BEGUN_PER_SLOT)
    }
}

/// What an attempt says about its endpoint: one that refuses a request works.
fn verdict<T>(result: &Result<T, CallError>, retry_after: Option<Duration>) -> Verdict {
    match (result, retry_after) {
        (Err(error), Some(wait)) => Verdict::Wait(wait, error.to_string()),
        (Err(CallError::Http { status: ..500, .. } | CallError::Unauthorised { .. }) | Ok(_), _) => {
            Verdict::Healthy
        }
        (Err(error), None) => Verdict::Failed(error.to_string()),
    }
}
