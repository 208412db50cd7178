//! Conversations to token ids: chat templates as transformers renders them, prompts, and examples to learn from.

mod python;
#[cfg(test)]
mod tests;

use std::path::Path;

use candle_core::quantized::gguf_file;
use jiff::civil::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::PolicyError;
use super::tokenizer::{SpecialTokens, TextTokenizer, parse, read_if_there, special_tokens};

const NAME: &str = "chat_template";
const SOURCE_REMEDY: &str = "give the model's chat_template.jinja";
const RENDER_REMEDY: &str = "send a conversation that the model's template takes, or give another template";
/// A text that no template contains, to find where a message is written.
const PROBE: &str = "qzMessageProbe";

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, or what else the template knows.
    pub role: String,
    /// What is said.
    pub content: Content,
}

impl Message {
    /// A turn that is text.
    pub fn new(role: impl Into<String>, text: impl Into<String>) -> Self {
        Self { role: role.into(), content: Content::Text(text.into()) }
    }
}

/// What is said in one turn: text, or a list of parts, as in the OpenAI and Hugging Face formats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Text alone.
    Text(String),
    /// Texts and images in order.
    Parts(Vec<Part>),
}

/// One part of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// `{"type": "text", "text": …}`.
    Text {
        /// The text.
        text: String,
    },
    /// `{"type": "image"}`, which a template turns into the model's placeholder.
    Image {
        /// Where the picture is, for those who load it; templates do not look at it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<String>,
    },
}

/// What a template is given beside the messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TemplateOptions {
    /// JSON schemas of tools; none is not the same as an empty list.
    pub tools: Option<Vec<Json>>,
    /// The moment that `strftime_now` tells. Without one a template finds no such function, and takes its own fixed date
    /// (Llama 3.2) or fails: a prompt must not depend on the clock.
    pub date: Option<DateTime>,
    /// Further variables, e.g. `enable_thinking`. They win over the special tokens of the same name.
    pub extra: Map<String, Json>,
}

/// A compiled chat template.
pub struct ChatTemplate {
    env: Environment<'static>,
    source: String,
    special: SpecialTokens,
    form: Form,
}

/// Which form of content a template takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Parts,
    Both,
}

impl ChatTemplate {
    /// Compiles a template. `special` are the tokens that it may name, see [`TextTokenizer::special_tokens`].
    ///
    /// # Errors
    /// [`PolicyError::Template`] names the line that is no Jinja.
    pub fn new(source: &str, special: SpecialTokens) -> Result<Self, PolicyError> {
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let mut env = Environment::new();
        env.set_syntax(syntax.map_err(|e| template_error(&e, SOURCE_REMEDY))?);
        env.set_auto_escape_callback(|_| AutoEscape::None);
        env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        env.add_filter("tojson", python::tojson);
        env.add_test("iterable", python::is_iterable);
        env.add_function("raise_exception", python::raise_exception);
        env.add_template_owned(NAME, python::plain_blocks(source))
            .map_err(|e| template_error(&e, SOURCE_REMEDY))?;
        let mut template = Self { env, source: source.to_owned(), special, form: Form::Both };
        template.form = template.probe();
        Ok(template)
    }

    /// Takes the template from a `tokenizer_config.json`: a text, or a list of named ones, of which `default` is taken.
    /// `None` when it has none.
    ///
    /// # Errors
    /// [`PolicyError::File`] when the bytes are no such file, [`PolicyError::Template`] as in [`ChatTemplate::new`].
    pub fn from_tokenizer_config(bytes: &[u8]) -> Result<Option<Self>, PolicyError> {
        let source = config_template(bytes)?;
        source.map(|source| Self::new(&source, special_tokens(bytes)?)).transpose()
    }

    /// Takes the template from a GGUF file's `tokenizer.chat_template`, with the special tokens of its metadata.
    ///
    /// # Errors
    /// [`PolicyError::Metadata`] when the key is absent or no text, [`PolicyError::Template`] as in
    /// [`ChatTemplate::new`].
    pub fn from_gguf(content: &gguf_file::Content, tokenizer: &TextTokenizer) -> Result<Self, PolicyError> {
        let key = "tokenizer.chat_template";
        match content.metadata.get(key) {
            Some(gguf_file::Value::String(source)) => Self::new(source, tokenizer.special_tokens().clone()),
            other => Err(PolicyError::Metadata {
                key: key.to_owned(),
                reason: other.map_or("is absent".to_owned(), |v| format!("is {:?}, no text", v.value_type())),
                remedy: SOURCE_REMEDY,
            }),
        }
    }

    /// Takes the template of a model folder: `chat_template.jinja`, in its stead that of `tokenizer_config.json`.
    ///
    /// # Errors
    /// [`PolicyError::File`] names the file that is absent or unfit, [`PolicyError::Template`] as in
    /// [`ChatTemplate::new`].
    pub fn from_folder(folder: &Path) -> Result<Self, PolicyError> {
        let config = read_if_there(folder, "tokenizer_config.json")?;
        if let Some(source) = read_if_there(folder, "chat_template.jinja")? {
            let source = String::from_utf8(source)
                .map_err(|e| PolicyError::in_folder(folder, "chat_template.jinja", &e))?;
            let special = config.map(|bytes| special_tokens(&bytes)).transpose();
            return Self::new(&source, special.map_err(|e| e.with_folder(folder))?.unwrap_or_default());
        }
        let found = config.map(|bytes| Self::from_tokenizer_config(&bytes)).transpose();
        found.map_err(|e| e.with_folder(folder))?.flatten().ok_or_else(|| {
            let reason = "is absent, and tokenizer_config.json has no chat_template";
            PolicyError::in_folder(folder, "chat_template.jinja", &reason)
        })
    }

    /// The template's text, as it was given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Writes a conversation as the model reads it. With `add_generation_prompt` the text ends where the assistant is to
    /// speak.
    ///
    /// Content goes in as it is where the template takes it. Texts are joined by newlines for a template that takes no
    /// parts, and a text becomes one part for a template that takes nothing else.
    ///
    /// # Errors
    /// [`PolicyError::Messages`] when there is no message, or an image and the template takes text alone;
    /// [`PolicyError::Template`] when the template refuses the conversation.
    pub fn render(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        options: &TemplateOptions,
    ) -> Result<String, PolicyError> {
        if messages.is_empty() {
            let (reason, remedy) = ("there is none".to_owned(), "send at least one");
            return Err(PolicyError::Messages { reason, remedy });
        }
        let messages: Vec<Message> =
            messages.iter().map(|message| self.shaped(message)).collect::<Result<_, _>>()?;
        self.render_shaped(&messages, add_generation_prompt, options)
            .map_err(|e| template_error(&e, RENDER_REMEDY))
    }

    fn render_shaped(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        options: &TemplateOptions,
    ) -> Result<String, minijinja::Error> {
        let TemplateOptions { tools, date, extra } = options;
        let mut context: Vec<(String, Value)> = Vec::new();
        context.extend(self.special.iter().map(|(name, token)| (name.clone(), Value::from(token))));
        context.extend(extra.iter().map(|(name, value)| (name.clone(), Value::from(Serde(value)))));
        if let Some(date) = *date {
            let now = Value::from_function(move |format: &str| python::strftime(date, format));
            context.push(("strftime_now".to_owned(), now));
        }
        context.push(("messages".to_owned(), Value::from(Serde(messages))));
        context.push(("tools".to_owned(), Value::from(Serde(tools))));
        context.push(("documents".to_owned(), Value::from(())));
        context.push(("add_generation_prompt".to_owned(), Value::from(add_generation_prompt)));
        self.env.get_template(NAME)?.render(Value::from_pairs(context))
    }

    /// Which form of content comes out as it went in.
    fn probe(&self) -> Form {
        let shows = |content: Content| {
            let message = Message { role: "user".to_owned(), content };
            let text = self.render_shaped(&[message], false, &TemplateOptions::default());
            text.is_ok_and(|text| {
                text.contains(PROBE) && !text.contains("'type'") && !text.contains("\"type\"")
            })
        };
        let part = Part::Text { text: PROBE.to_owned() };
        match (shows(Content::Text(PROBE.to_owned())), shows(Content::Parts(vec![part]))) {
            (true, true) => Form::Both,
            (false, true) => Form::Parts,
            _ => Form::Text,
        }
    }

    fn shaped(&self, message: &Message) -> Result<Message, PolicyError> {
        let content = match (&message.content, self.form) {
            (Content::Text(text), Form::Parts) => Content::Parts(vec![Part::Text { text: text.clone() }]),
            (Content::Parts(parts), Form::Text) => Content::Text(joined(parts)?),
            (content, _) => content.clone(),
        };
        Ok(Message { role: message.role.clone(), content })
    }
}

/// A prompt, up to where the assistant is to speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedPrompt {
    /// Its ids.
    pub ids: Vec<u32>,
    /// Its text.
    pub text: String,
}

/// A prompt with the answer to learn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedExample {
    /// The ids of the prompt, then those of the answer with the token that ends the turn.
    pub ids: Vec<u32>,
    /// Where the answer starts. The ids before are those that [`encode_chat`] gives for the same messages.
    pub completion_start: usize,
}

/// The ids that a policy samples from.
///
/// # Errors
/// As [`ChatTemplate::render`] and [`TextTokenizer::encode`].
pub fn encode_chat(
    tokenizer: &TextTokenizer,
    template: &ChatTemplate,
    messages: &[Message],
    options: &TemplateOptions,
) -> Result<EncodedPrompt, PolicyError> {
    let text = template.render(messages, true, options)?;
    Ok(EncodedPrompt { ids: tokenizer.encode(&text, false)?, text })
}

/// The ids to learn from: `messages` end with the assistant's answer.
///
/// Prompt and answer are encoded apart, as they are when the policy samples, so no token spans the border. The
/// generation prompt is the truth about what comes before the answer: what a template writes there (Qwen3's empty
/// `<think>` block) belongs to the prompt, and what it would do to a finished answer (strip it, cut its thoughts off)
/// is not done.
///
/// # Errors
/// [`PolicyError::Messages`] when the last message is not the assistant's, has images, or contains a token that ends
/// the turn; otherwise as [`encode_chat`] and [`end_of_turn`].
pub fn encode_example(
    tokenizer: &TextTokenizer,
    template: &ChatTemplate,
    messages: &[Message],
    options: &TemplateOptions,
) -> Result<EncodedExample, PolicyError> {
    let refuse = |reason: String| {
        Err(PolicyError::Messages { reason, remedy: "end an example with the assistant's text" })
    };
    let Some((answer, prompt)) = messages.split_last().filter(|(answer, _)| answer.role == "assistant")
    else {
        let last = messages.last().map_or("absent", |message| &message.role);
        return refuse(format!("the last speaker is {last}, not the assistant"));
    };
    let text = match &answer.content {
        Content::Text(text) => text.clone(),
        Content::Parts(parts) => joined(parts)?,
    };
    let mut ids = encode_chat(tokenizer, template, prompt, options)?.ids;
    let completion_start = ids.len();
    ids.extend(tokenizer.encode(&text, false)?);
    let end = end_of_turn(tokenizer, template, options)?;
    let ends = |id: &&u32| **id == end || tokenizer.eos().contains(id);
    if let Some(id) = ids[completion_start..].iter().find(ends) {
        let token = tokenizer.token_of(*id).unwrap_or_default();
        return refuse(format!("the answer contains {token}, which ends a turn"));
    }
    ids.push(end);
    Ok(EncodedExample { ids, completion_start })
}

/// The token that ends the assistant's turn: the first special token that the template writes after an answer, or else
/// the tokenizer's first EOS token.
///
/// # Errors
/// [`PolicyError::Template`] when the template writes no answer, or when neither it nor the tokenizer names such a token.
pub fn end_of_turn(
    tokenizer: &TextTokenizer,
    template: &ChatTemplate,
    options: &TemplateOptions,
) -> Result<u32, PolicyError> {
    let messages = [Message::new("user", "?"), Message::new("assistant", PROBE)];
    let text = template.render(&messages, false, options)?;
    let Some((_, after)) = text.rsplit_once(PROBE) else {
        let reason = "it does not write the assistant's answer".to_owned();
        return Err(PolicyError::Template { reason, remedy: SOURCE_REMEDY });
    };
    let ids = tokenizer.encode(after, false)?;
    let special = ids.into_iter().find(|id| tokenizer.is_special(*id));
    special.or_else(|| tokenizer.eos().first().copied()).ok_or_else(|| PolicyError::Template {
        reason: format!(
            "no special token follows an answer ({after:?}), and the tokenizer names no EOS token"
        ),
        remedy: "give the model's tokenizer_config.json or generation_config.json",
    })
}

/// The tokens at which sampling stops: the end of the turn, and every EOS token.
///
/// # Errors
/// As [`end_of_turn`].
pub fn stop_ids(
    tokenizer: &TextTokenizer,
    template: &ChatTemplate,
    options: &TemplateOptions,
) -> Result<Vec<u32>, PolicyError> {
    let end = end_of_turn(tokenizer, template, options)?;
    let others = tokenizer.eos().iter().copied().filter(|id| *id != end);
    Ok(std::iter::once(end).chain(others).collect())
}

fn joined(parts: &[Part]) -> Result<String, PolicyError> {
    let text = |part: &Part| match part {
        Part::Text { text } => Ok(text.clone()),
        Part::Image { .. } => Err(PolicyError::Messages {
            reason: "there is an image where only text is taken".to_owned(),
            remedy: "take a policy that sees, or leave images out",
        }),
    };
    Ok(parts.iter().map(text).collect::<Result<Vec<_>, _>>()?.join("\n"))
}

fn config_template(bytes: &[u8]) -> Result<Option<String>, PolicyError> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
        template: String,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Templates {
        One(String),
        Named(Vec<Named>),
    }
    #[derive(Deserialize)]
    struct Config {
        chat_template: Option<Templates>,
    }
    let config: Config = parse("tokenizer_config.json", bytes)?;
    match config.chat_template {
        None => Ok(None),
        Some(Templates::One(source)) => Ok(Some(source)),
        Some(Templates::Named(named)) => {
            let names: Vec<&str> = named.iter().map(|one| one.name.as_str()).collect();
            let reason = format!("chat_template names {}, and no `default`", names.join(", "));
            let default = named.into_iter().find(|one| one.name == "default");
            default.map(|one| Some(one.template)).ok_or_else(|| PolicyError::File {
                file: "tokenizer_config.json".to_owned(),
                reason,
                remedy: SOURCE_REMEDY,
            })
        }
    }
}

fn template_error(error: &minijinja::Error, remedy: &'static str) -> PolicyError {
    PolicyError::Template { reason: error.to_string(), remedy }
}
