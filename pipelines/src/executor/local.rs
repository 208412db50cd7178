//! A frozen policy of one's own as Executor, in this process on its own device.

use std::collections::BTreeMap;

use tracemill_data::prompt::{Shown, registry};

use super::{Command, Executor, Reply};
use crate::chat::{CallError, ChatError, Outcome};
use crate::train::{LocalModel, LocalModelSection, LocalRequest};

/// The executor `model`.
pub struct LocalExecutor {
    model: LocalModel,
    max_tokens: usize,
}

impl LocalExecutor {
    /// Loads the model. Replies are greedy and end after `max_tokens`.
    ///
    /// # Errors
    /// Files that are not there or do not fit.
    pub fn open(section: &LocalModelSection, max_tokens: u32) -> anyhow::Result<Self> {
        Ok(Self { model: LocalModel::open(section, "reward.model")?, max_tokens: max_tokens as usize })
    }
}

/// A role's prompt for a model in this process. It reads text: a screen without elements is shown as nothing.
pub fn local_request(
    name: &str,
    values: BTreeMap<&'static str, String>,
    shown: Shown<'_>,
    max_tokens: usize,
) -> Result<LocalRequest, ChatError> {
    let prompt = registry()
        .role(name, values, shown)
        .map_err(|e| ChatError::Setting { key: "prompt".to_owned(), reason: e.to_string() })?;
    Ok(LocalRequest { messages: prompt.messages, max_tokens })
}

/// Replies of a model in this process, as those of a server are given.
pub fn local_replies(
    model: &LocalModel,
    requests: &[LocalRequest],
) -> Result<Vec<Outcome<String>>, ChatError> {
    let replies = model.replies(requests);
    let replies =
        replies.map_err(|e| ChatError::Setting { key: model.name().to_owned(), reason: format!("{e:#}") })?;
    let outcome = |reply| match reply {
        Ok(text) => Outcome::Reply(text),
        Err(reason) => Outcome::Failed(CallError::Local { model: model.name().to_owned(), reason }),
    };
    Ok(replies.into_iter().map(outcome).collect())
}

impl Executor for LocalExecutor {
    fn name(&self) -> String {
        self.model.name().to_owned()
    }

    fn execute_all(&self, commands: &[Command<'_>]) -> Result<Vec<Outcome<Reply>>, ChatError> {
        let asked = |command: &Command<'_>| {
            let values = BTreeMap::from([("command", command.instruction.to_owned())]);
            local_request("executor", values, Shown::of(false, &command.screen.elements), self.max_tokens)
        };
        let requests: Vec<LocalRequest> = commands.iter().map(asked).collect::<Result<_, ChatError>>()?;
        let reply = |outcome| match outcome {
            Outcome::Reply(text) => Outcome::Reply(Reply { text, ambiguous: Vec::new() }),
            Outcome::Failed(error) => Outcome::Failed(error),
        };
        Ok(local_replies(&self.model, &requests)?.into_iter().map(reply).collect())
    }
}
