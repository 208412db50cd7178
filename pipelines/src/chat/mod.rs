//! Calls to models behind an OpenAI-compatible server, every one of them in a ledger.
//!
//! A request is answered by [`ChatClient::call`] with an [`Outcome`]: a reply, or a typed failure that says what
//! went wrong where. A failure is never an empty reply, so nothing downstream can take it for a bad answer and score
//! it zero. Each outcome is written to the [`Ledger`], from which the modes `replay` and `strict` answer without a
//! network, byte for byte the same, recorded failures included.
//!
//! | file | concern |
//! | --- | --- |
//! | `request` | what is asked: messages, images, sampling; embeddings |
//! | `reply` | what came back, and how it is read |
//! | `key` | a request's name in the ledger |
//! | `error` | why a call has no reply; why a stage has to stop |
//! | `settings` | endpoints, time-outs, retries, mode |
//! | `client`, `embeddings` | modes, retries, calls in flight; batches of texts |
//! | `blocking` | the same for code without `async` |
//! | `endpoints`, `health` | which endpoint takes a call; which ones rest |
//! | `transport` | one HTTP attempt |
//! | `ledger`, `segment` | records on disk |
//! | `guard` | the share of failures at which a stage stops |
//! | `probe` | what a server can do |
//! | `embedder` | the `openai` text embedder |
//!
//! ```no_run
//! use tracemill::chat::{BlockingClient, ChatSettings, Image, Message, Outcome, Part};
//!
//! fn describe(settings: &ChatSettings, screens: Vec<Vec<u8>>) -> anyhow::Result<Vec<Option<String>>> {
//!     let client = BlockingClient::open(settings)?;
//!     let requests = screens.into_iter().map(|png| {
//!         let image = Part::Image(Image::new(png, "image/png"));
//!         let question = Part::text("What does this screen show?");
//!         client.request(vec![Message::user([image, question])])
//!     });
//!     let outcomes = client.call_all(requests, |done, _| log::info!("{done} answered"))?;
//!     Ok(outcomes
//!         .into_iter()
//!         .map(|outcome| match outcome {
//!             Outcome::Reply(reply) => Some(reply.text),
//!             Outcome::Failed(error) => {
//!                 log::warn!("{error}");
//!                 None
//!             }
//!         })
//!         .collect())
//! }
//! ```

mod blocking;
mod client;
mod embedder;
mod embeddings;
mod endpoints;
mod error;
mod guard;
mod health;
mod key;
mod ledger;
mod probe;
mod reply;
mod request;
mod segment;
mod settings;
mod transport;

#[cfg(test)]
mod tests;

pub use blocking::{BlockingClient, probe_blocking};
pub use client::ChatClient;
pub use embedder::{OpenAiEmbedder, OpenAiSettings};
pub use error::{CallError, ChatError};
pub use guard::ErrorGuard;
pub use key::Key;
pub use ledger::{Ledger, LedgerError};
pub use probe::{EndpointReport, Finding, probe};
pub use reply::{ChatReply, EmbeddingReply, Outcome, Reply, Usage};
pub use request::{ChatRequest, EmbeddingRequest, Image, Message, Part, Request, Role, Sampling};
pub use segment::{Damage, Problem, Record, Timing};
pub(crate) use settings::default_ledger_dir;
pub use settings::{
    ChatSettings, EndpointSettings, HealthSettings, Mode, RetrySettings, StructuredStyle, TimeoutSettings,
};
