//! An executor behind an OpenAI-compatible server: GUI-R1 or another model under vLLM.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tracemill_data::prompt::{IMAGE, Rendered, Role, Shown, registry};
use tracemill_data::trace::Screen;

use super::{Command, Executor, Reply};
use crate::chat::{
    BlockingClient, ChatError, ChatReply, ChatRequest, ChatSettings, Image, Message, Outcome, Part,
};

/// The served executor.
#[derive(Debug)]
pub struct Endpoint {
    client: BlockingClient,
    max_tokens: u32,
    structured: bool,
}

impl Endpoint {
    /// Opens the client. Replies are greedy and end after `max_tokens`; `structured` holds those on text screens to
    /// a schema.
    ///
    /// # Errors
    /// Settings that cannot work.
    pub fn open(settings: &ChatSettings, max_tokens: u32, structured: bool) -> Result<Self, ChatError> {
        Ok(Self { client: BlockingClient::open(settings)?, max_tokens, structured })
    }
}

impl Executor for Endpoint {
    fn name(&self) -> String {
        let endpoint = self.client.client().settings().endpoints.first();
        endpoint.map(|e| format!("{}@{}", e.model, e.revision)).unwrap_or_default()
    }

    fn execute_all(&self, commands: &[Command<'_>]) -> Result<Vec<Outcome<Reply>>, ChatError> {
        let asked = |command: &Command<'_>| -> Result<ChatRequest, ChatError> {
            let values = BTreeMap::from([("command", command.instruction.to_owned())]);
            let shown = Shown::of(command.image.is_some(), &command.screen.elements);
            let mut request = ask(&self.client, "executor", values, shown, command.image, self.max_tokens)?;
            let held = self.structured && command.image.is_none();
            request.structured = held.then(|| action_schema(command.screen));
            Ok(request)
        };
        let requests: Vec<ChatRequest> = commands.iter().map(asked).collect::<Result<_, ChatError>>()?;
        let outcomes = self.client.call_all(&requests, |_, _| {})?;
        let reply = |outcome| match outcome {
            Outcome::Reply(ChatReply { text, .. }) => Outcome::Reply(Reply { text, ambiguous: Vec::new() }),
            Outcome::Failed(error) => Outcome::Failed(error),
        };
        Ok(outcomes.into_iter().map(reply).collect())
    }
}

/// The actions that the prompt for text screens offers, on the elements that are there.
fn action_schema(screen: &Screen) -> Value {
    let actions =
        ["complete", "press home", "click", "long press", "press back", "type", "select", "scroll", "enter"];
    let ids: Vec<&str> = screen.elements.iter().map(|e| e.id.as_str()).collect();
    json!({
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": actions},
            "element": {"type": "string", "enum": ids},
            "input_text": {"type": "string", "maxLength": 200},
        },
        "required": ["action", "element", "input_text"],
        "additionalProperties": false,
    })
}

/// A role's prompt as a request; see [`Registry::role`](tracemill_data::prompt::Registry::role). Replies are greedy and end after `max_tokens`.
///
/// # Errors
/// A prompt that cannot be rendered.
pub fn ask(
    client: &BlockingClient,
    name: &str,
    values: BTreeMap<&'static str, String>,
    shown: Shown<'_>,
    image: Option<&Image>,
    max_tokens: u32,
) -> Result<ChatRequest, ChatError> {
    let prompt = registry()
        .role(name, values, shown)
        .map_err(|e| ChatError::Setting { key: "prompt".to_owned(), reason: e.to_string() })?;
    Ok(request_of(client, prompt, image.map(std::slice::from_ref).unwrap_or_default(), max_tokens))
}

/// A rendered prompt as a request. Its pictures take the places of the `<image>` marks, in order.
pub fn request_of(
    client: &BlockingClient,
    prompt: Rendered,
    images: &[Image],
    max_tokens: u32,
) -> ChatRequest {
    let mut request = client.request(messages(prompt, images));
    request.sampling.max_tokens = max_tokens;
    request
}

fn messages(prompt: Rendered, images: &[Image]) -> Vec<Message> {
    let mut images = images.iter();
    prompt
        .messages
        .into_iter()
        .map(|message| match message.role {
            Role::System => Message::system(message.content),
            Role::Assistant => Message::assistant(message.content),
            Role::User => Message::user(parts(&message.content, &mut images)),
        })
        .collect()
}

fn parts(content: &str, images: &mut std::slice::Iter<'_, Image>) -> Vec<Part> {
    let mut parts = Vec::new();
    for (i, text) in content.split(IMAGE).enumerate() {
        if i > 0 {
            parts.extend(images.next().cloned().map(Part::Image));
        }
        if !text.is_empty() {
            parts.push(Part::text(text));
        }
    }
    parts
}
