//! A row of any framework's form in one shape.

use super::{Fault, Loose};
use crate::artifact::AgentPrompt;
use crate::prompt::IMAGE;

/// One message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// `system`, `user` or `assistant`; as written where it is none of these.
    pub role: String,
    /// Its text, with `<image>` where a picture belongs.
    pub text: String,
}

/// A picture as a row names or holds it.
#[derive(Debug, Clone, PartialEq)]
pub enum ImageRef {
    /// A path or URL.
    Path(String),
    /// The file.
    Bytes(Vec<u8>),
    /// Neither: what a loader cannot open.
    Null,
}

/// A row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// Its own id.
    pub id: Option<String>,
    /// Messages, the reply among them.
    pub turns: Vec<Turn>,
    /// Pictures.
    pub images: Vec<ImageRef>,
    /// Whether a reply is to be learned: SFT rows.
    pub learned: bool,
    /// The ground truth, or why it cannot be read; `None` where the row has none.
    pub truth: Option<Result<AgentPrompt, String>>,
    /// The truth of a row that another program made for verl: what it calls so.
    pub other_truth: Option<String>,
    /// Width and height that the row gives for its screen, in pixels.
    pub screen: Option<[f64; 2]>,
    /// Hash of the template, where the row has one.
    pub prompt_hash: Option<String>,
    /// verl's `extra_info.index`; `Some(None)` where a verl row has none.
    pub index: Option<Option<i64>>,
    /// verl's `extra_info.high_level_instruction`.
    pub high_level: Option<String>,
    /// Messages that call tools may have no content; such rows have another form, of which only the roles are checked.
    pub calls_tools: bool,
}

impl Row {
    /// Reads a row.
    ///
    /// # Errors
    /// What it lacks to be a row of any known form.
    pub(super) fn of(value: &Loose) -> Result<Self, Fault> {
        let turns_of = |name: &str| value.get(name).map(|v| turns(v, name)).transpose();
        let mut row = Self {
            id: text_at(value, "id"),
            prompt_hash: text_at(value, "prompt_hash"),
            images: value.get("images").or_else(|| value.get("image")).map(images).unwrap_or_default(),
            truth: value
                .get("ground_truth")
                .or_else(|| value.get("solution").filter(|s| s.text().is_some_and(|s| s.starts_with('{'))))
                .or_else(|| value.get("reward_model")?.get("ground_truth"))
                .map(truth),
            ..Self::default()
        };
        if let (Some(instruction), Some(output)) = (text_at(value, "instruction"), text_at(value, "output")) {
            row.turns = alpaca(value, instruction, output);
        } else if let Some(conversation) = turns_of("conversations")? {
            row.turns = conversation;
            if let Some(system) = text_at(value, "system").filter(|s| !s.is_empty()) {
                row.turns.insert(0, Turn { role: "system".to_owned(), text: system });
            }
        } else if let Some(messages) = turns_of("messages")? {
            row.turns = messages;
        } else if let Some(prompt) = value.get("prompt").filter(|_| value.get("messages").is_none()) {
            row.turns = match prompt.text() {
                Some(text) => vec![Turn { role: "user".to_owned(), text: text.to_owned() }],
                None => turns(prompt, "prompt")?,
            };
            match value.get("completion") {
                Some(Loose::Text(text)) => {
                    row.turns.push(Turn { role: "assistant".to_owned(), text: text.clone() });
                }
                _ => row.turns.extend(turns_of("completion")?.unwrap_or_default()),
            }
        } else {
            return Err(Fault::error(
                "no-messages",
                "none of `messages`, `conversations` and `prompt` is there",
                "give the row messages, or leave the file out",
            ));
        }
        if let Some(agent) = value.get("truth").filter(|_| value.get("role").is_some()).map(|_| value) {
            row.truth = Some(agent_of(agent));
        }
        row.read_reply(value);
        row.read_extra(value);
        row.images.extend(parts_images(value));
        let messages = value.get("messages").and_then(Loose::list).unwrap_or_default();
        row.calls_tools = messages.iter().any(|m| m.get("tool_calls").is_some());
        // A question of `export temporal`: its answer is a letter.
        if value.get("interval").is_some() {
            row.other_truth = text_at(value, "answer");
            row.learned = false;
        }
        Ok(row)
    }

    /// Whether there is a reply to learn, and the reply that stands beside the messages.
    fn read_reply(&mut self, value: &Loose) {
        if let Some(reply) = text_at(value, "reply") {
            self.turns.push(Turn { role: "assistant".to_owned(), text: reply });
        }
        let has = |name: &str| matches!(value, Loose::Map(fields) if fields.contains_key(name));
        let replied = has("reply") || has("completion");
        let conversation = has("messages") || has("conversations") || has("instruction");
        self.learned = replied || (conversation && self.truth.is_none());
    }

    fn read_extra(&mut self, value: &Loose) {
        let extra = value.get("extra_info");
        if value.get("reward_model").is_some() || value.get("data_source").is_some() {
            let index = extra.and_then(|e| e.get("index")).and_then(Loose::number);
            self.index = Some(index.map(|n| n as i64));
        }
        if let Some(extra) = extra {
            let at = |name: &str| extra.get(name).and_then(Loose::number).filter(|n| *n > 0.0);
            self.screen = at("width").zip(at("height")).map(|(w, h)| [w, h]);
            self.high_level = text_at(extra, "high_level_instruction");
            self.id = self.id.take().or_else(|| text_at(extra, "id"));
            self.prompt_hash = self.prompt_hash.take().or_else(|| text_at(extra, "prompt_hash"));
        }
        // A ground truth of another program's making is its own affair.
        if !self.is_ours() && matches!(self.truth, Some(Err(_)) | None) {
            let own = value.get("reward_model").and_then(|r| text_at(r, "ground_truth"));
            let own = own.or_else(|| text_at(value, "ground_truth")).or_else(|| text_at(value, "solution"));
            self.other_truth = own;
            self.truth = None;
        }
        if self.index.is_some() {
            // verl opens bytes only.
            let paths = |image: &ImageRef| matches!(image, ImageRef::Path(_));
            let held = value
                .get("images")
                .and_then(Loose::list)
                .is_some_and(|i| i.iter().any(|i| i.get("path").is_some()));
            self.images.iter_mut().filter(|i| held && paths(i)).for_each(|i| *i = ImageRef::Null);
        }
        if let Some(Ok(agent)) = &self.truth
            && let Some(size) = agent.screen.size()
        {
            self.screen = self.screen.or(Some([f64::from(size.width_px), f64::from(size.height_px)]));
        }
    }

    /// Whether this program made it: then it must have all that this program gives.
    pub fn is_ours(&self) -> bool {
        self.prompt_hash.is_some()
            || self
                .id
                .as_deref()
                .is_some_and(|id| id.ends_with("/coordinator") || id.ends_with("/state-tracker"))
    }

    /// How many pictures the messages have a place for.
    pub fn markers(&self) -> usize {
        self.turns.iter().map(|t| t.text.matches(IMAGE).count()).sum()
    }

    /// The task, as far as the row tells it.
    pub fn task(&self) -> Option<&str> {
        if let Some(Ok(agent)) = &self.truth {
            return Some(&agent.task);
        }
        if let Some(task) = &self.high_level {
            return Some(task);
        }
        let user = &self.turns.iter().find(|t| t.role == "user")?.text;
        let begins = ["High-level task: ", "High-level user instruction: "];
        let start = begins.iter().find_map(|mark| Some(user.find(mark)? + mark.len()))?;
        let rest = &user[start..];
        // A task of several lines ends where the next field of the prompt begins.
        let ends = ["\nCurrent_state: ", "\nLatest output of executor agent: "];
        let end = ends.iter().filter_map(|mark| rest.find(mark)).min();
        Some(&rest[..end.unwrap_or(rest.len())])
    }

    /// The reply to learn.
    pub fn reply(&self) -> Option<&str> {
        self.turns.last().filter(|t| t.role == "assistant").map(|t| t.text.as_str())
    }
}

/// LLaMA-Factory's other form: `instruction`, `input`, `output`, `system`.
fn alpaca(value: &Loose, instruction: String, output: String) -> Vec<Turn> {
    let turn = |role: &str, text: String| Turn { role: role.to_owned(), text };
    let asked = match text_at(value, "input").filter(|input| !input.is_empty()) {
        Some(input) => format!("{instruction}\n{input}"),
        None => instruction,
    };
    let system = text_at(value, "system").filter(|s| !s.is_empty()).map(|s| turn("system", s));
    system.into_iter().chain([turn("user", asked), turn("assistant", output)]).collect()
}

fn text_at(value: &Loose, name: &str) -> Option<String> {
    value.get(name).and_then(Loose::text).map(str::to_owned)
}

fn turns(value: &Loose, name: &str) -> Result<Vec<Turn>, Fault> {
    let wrong =
        |found: String| Fault::error("no-messages", found, "a message is {role, content} or {from, value}");
    let Some(values) = value.list() else {
        return Err(wrong(format!("`{name}` is {}, not a list of messages", value.kind())));
    };
    let turn = |(i, message): (usize, &Loose)| {
        let role = message.get("role").or_else(|| message.get("from")).and_then(Loose::text);
        let content = message.get("content").or_else(|| message.get("value"));
        let text = match content {
            Some(Loose::Text(text)) => Some(text.clone()),
            Some(Loose::List(parts)) => Some(parts.iter().map(part_text).collect()),
            None if message.get("tool_calls").is_some() => Some(String::new()),
            _ => None,
        };
        match (role, text) {
            (Some(role), Some(text)) => Ok(Turn { role: role_name(role).to_owned(), text }),
            (None, _) => Err(wrong(format!("{name}[{i}] has no role"))),
            (_, None) => Err(wrong(format!("{name}[{i}] has no content"))),
        }
    };
    values.iter().enumerate().map(turn).collect()
}

fn role_name(role: &str) -> &str {
    match role {
        "human" => "user",
        "gpt" => "assistant",
        "developer" => "system",
        role => role,
    }
}

fn part_text(part: &Loose) -> String {
    match part.get("type").and_then(Loose::text) {
        Some("text") => text_at(part, "text").unwrap_or_default(),
        Some("image" | "image_url" | "input_image") => IMAGE.to_owned(),
        _ => String::new(),
    }
}

/// Pictures that stand inside the messages: OpenAI's `image_url`.
fn parts_images(value: &Loose) -> Vec<ImageRef> {
    let messages = value.get("messages").and_then(Loose::list).unwrap_or_default();
    let parts = messages.iter().filter_map(|m| m.get("content")?.list()).flatten();
    parts
        .filter_map(|part| part.get("image_url"))
        .map(|url| image_text(url.text().or_else(|| url.get("url")?.text()).unwrap_or_default()))
        .collect()
}

fn images(value: &Loose) -> Vec<ImageRef> {
    match value {
        Loose::List(values) => values.iter().map(image).collect(),
        one => vec![image(one)],
    }
}

fn image(value: &Loose) -> ImageRef {
    match value {
        Loose::Text(text) => image_text(text),
        Loose::Bytes(bytes) => ImageRef::Bytes(bytes.clone()),
        map => match (map.get("bytes"), map.get("path").or_else(|| map.get("image")).and_then(Loose::text)) {
            (Some(Loose::Bytes(bytes)), _) => ImageRef::Bytes(bytes.clone()),
            (_, Some(path)) => ImageRef::Path(path.to_owned()),
            _ => ImageRef::Null,
        },
    }
}

fn image_text(text: &str) -> ImageRef {
    use base64::Engine as _;
    match text.strip_prefix("data:").and_then(|url| url.split_once(";base64,")) {
        Some((_, data)) => {
            base64::engine::general_purpose::STANDARD.decode(data).map_or(ImageRef::Null, ImageRef::Bytes)
        }
        None if text.is_empty() => ImageRef::Null,
        None => ImageRef::Path(text.to_owned()),
    }
}

fn truth(value: &Loose) -> Result<AgentPrompt, String> {
    match value {
        Loose::Text(text) => serde_json::from_str(text).map_err(|e| e.to_string()),
        other => agent_of(other),
    }
}

fn agent_of(value: &Loose) -> Result<AgentPrompt, String> {
    serde_json::from_value(json(value)).map_err(|e| e.to_string())
}

fn json(value: &Loose) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Loose::Null | Loose::Bytes(_) => Value::Null,
        Loose::Bool(b) => Value::Bool(*b),
        Loose::Number(n) if n.fract() == 0.0 && n.abs() < 9e15 => Value::from(*n as i64),
        Loose::Number(n) => Value::from(*n),
        Loose::Text(text) => Value::String(text.clone()),
        Loose::List(values) => values.iter().map(json).collect(),
        Loose::Map(fields) => Value::Object(fields.iter().map(|(k, v)| (k.clone(), json(v))).collect()),
    }
}
