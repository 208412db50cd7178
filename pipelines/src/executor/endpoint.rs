//! An executor behind an OpenAI-compatible server: GUI-R1 or another model under vLLM.

use std::collections::BTreeMap;

use tracemill_data::prompt::{PromptError, Rendered, registry, screen_text};

use super::{Command, Executor, Reply};
use crate::chat::{BlockingClient, ChatError, ChatRequest, ChatSettings, Image, Message, Outcome, Part};

/// The served executor.
#[derive(Debug)]
pub struct Endpoint {
    client: BlockingClient,
}

impl Endpoint {
    /// Opens the client.
    ///
    /// # Errors
    /// Settings that cannot work.
    pub fn open(settings: &ChatSettings) -> Result<Self, ChatError> {
        Ok(Self { client: BlockingClient::open(settings)? })
    }

    fn request(&self, command: &Command<'_>) -> Result<ChatRequest, ChatError> {
        let mut values = BTreeMap::from([("command", command.instruction.to_owned())]);
        let name = match command.image {
            Some(_) => "executor",
            None => {
                values.insert("screen", screen_text(&command.screen.elements));
                "executor-text"
            }
        };
        let prompt = registry().render(name, &values).map_err(|e| prompt_error(&e))?;
        Ok(self.client.request(messages(prompt, command.image)))
    }
}

impl Executor for Endpoint {
    fn name(&self) -> String {
        let endpoint = self.client.client().settings().endpoints.first();
        endpoint.map(|e| format!("{}@{}", e.model, e.revision)).unwrap_or_default()
    }

    fn execute_all(&self, commands: &[Command<'_>]) -> Result<Vec<Outcome<Reply>>, ChatError> {
        let requests: Vec<ChatRequest> =
            commands.iter().map(|c| self.request(c)).collect::<Result<_, _>>()?;
        let outcomes = self.client.call_all(&requests, |_, _| {})?;
        let reply = |outcome| match outcome {
            Outcome::Reply(reply) => {
                let chat: crate::chat::ChatReply = reply;
                Outcome::Reply(Reply { text: chat.text, ambiguous: Vec::new() })
            }
            Outcome::Failed(error) => Outcome::Failed(error),
        };
        Ok(outcomes.into_iter().map(reply).collect())
    }
}

/// A rendered prompt as messages; its `<image>` is where the picture goes.
pub fn messages(prompt: Rendered, image: Option<&Image>) -> Vec<Message> {
    use tracemill_data::prompt::Role;
    prompt
        .messages
        .into_iter()
        .map(|message| match message.role {
            Role::System => Message::system(message.content),
            Role::Assistant => Message::assistant(message.content),
            Role::User => Message::user(parts(&message.content, image)),
        })
        .collect()
}

fn parts(content: &str, image: Option<&Image>) -> Vec<Part> {
    let mut parts = Vec::new();
    for (i, text) in content.split("<image>").enumerate() {
        if i > 0 {
            parts.extend(image.cloned().map(Part::Image));
        }
        if !text.is_empty() {
            parts.push(Part::text(text));
        }
    }
    parts
}

/// A prompt that cannot be rendered stops the stage: it would fail for every row alike.
pub fn prompt_error(error: &PromptError) -> ChatError {
    ChatError::Setting { key: "prompt".to_owned(), reason: error.to_string() }
}
