//! Questions to a model that answers in JSON: one repair turn (`HiSA`'s format correction, appendix A.2), a bound on
//! the number of questions, and a count of everything.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;
use tracemill_data::prompt::{Rendered, Shown, registry};

use crate::chat::{BlockingClient, ChatRequest, ChatSettings, Image, Outcome};
use crate::executor::request_of;

/// Questions that are under way at a time.
const BATCH: usize = 256;

/// A model, and what was asked of it.
pub struct Asker {
    client: BlockingClient,
    max_tokens: u32,
    structured: bool,
    left: Option<u64>,
    /// What became of the questions.
    pub counts: Asked,
}

/// Counts of questions; the same whether a model or the ledger answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// Questions asked, repair turns counted.
    pub questions: u64,
    /// Repair turns.
    pub repairs: u64,
    /// Replies that could not be read even after their repair.
    pub unreadable: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Questions left to the rules because `max_calls` was used up.
    pub over_budget: u64,
    /// Tokens read, as the server counts them.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
}

/// A question: the prompt, and the pictures for its `<image>` marks, read when it is sent.
pub struct Question {
    /// The prompt.
    pub prompt: Rendered,
    /// Files of its pictures.
    pub images: Vec<std::path::PathBuf>,
}

/// What a reply must look like.
pub struct Form<'a> {
    /// An example, for the repair turn.
    pub example: &'a str,
    /// JSON schema, for servers that hold replies to one.
    pub schema: Value,
}

impl Asker {
    /// Opens the client; `None` without endpoints.
    ///
    /// # Errors
    /// Settings that cannot work.
    pub fn open(
        settings: &ChatSettings,
        max_tokens: u32,
        structured: bool,
        max_calls: Option<u64>,
    ) -> Result<Option<Self>> {
        if settings.endpoints.is_empty() {
            return Ok(None);
        }
        let client = BlockingClient::open(settings)?;
        Ok(Some(Self { client, max_tokens, structured, left: max_calls, counts: Asked::default() }))
    }

    /// Model and revision.
    pub fn model(&self) -> String {
        let endpoint = self.client.client().settings().endpoints.first();
        endpoint.map(|e| format!("{}@{}", e.model, e.revision)).unwrap_or_default()
    }

    /// A prompt of the registry.
    ///
    /// # Errors
    /// A template that cannot be rendered.
    pub fn prompt(name: &str, values: BTreeMap<&'static str, String>) -> Result<Rendered> {
        Ok(registry().role(name, values, Shown::Nothing)?)
    }

    /// Asks all questions. Answers come in their order: `None` where the rules have to answer, since the call failed,
    /// the reply could not be read, or no call was left.
    ///
    /// # Errors
    /// What has to stop the stage: a ledger that fails, a miss in mode `strict`, too many failed calls.
    pub fn ask<T>(
        &mut self,
        questions: &[Question],
        form: &Form<'_>,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<Vec<Option<T>>> {
        let mut answers = Vec::with_capacity(questions.len());
        for batch in questions.chunks(BATCH) {
            let affordable = self.take(batch.len());
            let requests =
                batch[..affordable].iter().map(|q| self.request(q, form)).collect::<Result<Vec<_>>>()?;
            let replies = self.call(&requests)?;
            let mut read_now: Vec<Result<Option<T>, (String, String)>> = Vec::with_capacity(batch.len());
            for reply in replies {
                read_now.push(match reply {
                    None => Ok(None),
                    Some(text) => match json_in(&text).and_then(|value| read(&value)) {
                        Ok(answer) => Ok(Some(answer)),
                        Err(error) => Err((error, text)),
                    },
                });
            }
            self.repair(&mut read_now, form, &read)?;
            answers.extend(read_now.into_iter().map(|answer| answer.unwrap_or(None)));
            answers.extend((affordable..batch.len()).map(|_| None));
        }
        Ok(answers)
    }

    /// How many of `wanted` questions may be asked.
    fn take(&mut self, wanted: usize) -> usize {
        let taken = self.left.map_or(wanted, |left| (left as usize).min(wanted));
        self.left = self.left.map(|left| left - taken as u64);
        self.counts.over_budget += (wanted - taken) as u64;
        self.counts.questions += taken as u64;
        taken
    }

    fn request(&self, question: &Question, form: &Form<'_>) -> Result<ChatRequest> {
        let image = |path: &std::path::PathBuf| {
            let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
            Ok(Image::new(bytes, "image/png"))
        };
        let images: Vec<Image> = question.images.iter().map(image).collect::<Result<_>>()?;
        let mut request = request_of(&self.client, question.prompt.clone(), &images, self.max_tokens);
        request.structured = self.structured.then(|| form.schema.clone());
        Ok(request)
    }

    fn call(&mut self, requests: &[ChatRequest]) -> Result<Vec<Option<String>>> {
        let outcomes = self.client.call_all(requests, |_, _| {})?;
        let text = |outcome: Outcome| match outcome {
            Outcome::Reply(reply) => {
                let usage = reply.usage.unwrap_or_default();
                self.counts.prompt_tokens += usage.prompt_tokens;
                self.counts.completion_tokens += usage.completion_tokens;
                Some(reply.text)
            }
            Outcome::Failed(error) => {
                log::warn!("{error}; the rules answer");
                self.counts.failed += 1;
                None
            }
        };
        Ok(outcomes.into_iter().map(text).collect())
    }

    /// The repair turn of the replies that could not be read: error, reply and form, without the pictures.
    fn repair<T>(
        &mut self,
        answers: &mut [Result<Option<T>, (String, String)>],
        form: &Form<'_>,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<()> {
        let broken: Vec<usize> = (0..answers.len()).filter(|&i| answers[i].is_err()).collect();
        let affordable = self.take(broken.len());
        self.counts.over_budget -= (broken.len() - affordable) as u64;
        self.counts.repairs += affordable as u64;
        let mut requests = Vec::with_capacity(affordable);
        for &i in &broken[..affordable] {
            let Err((error, response)) = &answers[i] else { continue };
            let values = BTreeMap::from([
                ("error", error.clone()),
                ("response", response.clone()),
                ("form", form.example.to_owned()),
            ]);
            let prompt = Self::prompt("format-correction", values)?;
            requests.push(self.request(&Question { prompt, images: Vec::new() }, form)?);
        }
        for (i, reply) in broken.iter().zip(self.call(&requests)?) {
            let answer = reply.and_then(|text| json_in(&text).and_then(|value| read(&value)).ok());
            answers[*i] = Ok(answer);
        }
        let answered = |i: &&usize| matches!(answers[**i], Ok(Some(_)));
        self.counts.unreadable += (broken.len() - broken.iter().filter(answered).count()) as u64;
        Ok(())
    }
}

/// The JSON object in a reply, whatever stands around it.
fn json_in(text: &str) -> Result<Value, String> {
    let (Some(first), Some(last)) = (text.find('{'), text.rfind('}')) else {
        return Err("there is no JSON object in it".to_owned());
    };
    if last < first {
        return Err("there is no JSON object in it".to_owned());
    }
    serde_json::from_str(&text[first..=last]).map_err(|e| e.to_string())
}

/// A text field of a reply that must not be empty.
///
/// # Errors
/// Names the field.
pub fn text_of(value: &Value, field: &str) -> Result<String, String> {
    let text = value[field].as_str().map(str::trim).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("`{field}` must be a text"))
}
