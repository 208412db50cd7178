//! A model in this process that plays a frozen role: Executor, or the Coordinator of a State Tracker's reward.
//!
//! It answers greedily, so its replies are a function of weights and prompt, and need no ledger.

use anyhow::{Context, Result, bail};
use tracemill_data::prompt::PromptMessage;
use tracemill_models::policy::{Adapters, Finish, Message, Policy, Prompt, Sampling};

use super::model::{ChatFormat, Loaded, load};
use super::settings::{LocalModelSection, PolicySection};

/// Prompts that are answered at once.
const BATCH: usize = 16;

/// A frozen model.
pub struct LocalModel {
    policy: Policy,
    chat: ChatFormat,
    name: String,
}

/// What it is asked.
#[derive(Debug, Clone)]
pub struct LocalRequest {
    /// The conversation.
    pub messages: Vec<PromptMessage>,
    /// Longest reply, in tokens.
    pub max_tokens: usize,
}

impl LocalModel {
    /// Loads it, with its adapter merged in.
    ///
    /// # Errors
    /// When `key` names no model, or its files do not fit.
    pub fn open(section: &LocalModelSection, key: &str) -> Result<Self> {
        let Some(source) = &section.model else {
            bail!("{key}.model is not set: give a Hugging Face folder or a .gguf file");
        };
        let place = PolicySection {
            device: section.device.clone().unwrap_or_else(|| "cpu".to_owned()),
            ..PolicySection::default()
        };
        let (device, dtype) = place.place().context(key.to_owned())?;
        let mut loaded = load(source, dtype, &device, &section.template).context(key.to_owned())?;
        let mut name = format!("model:{}", source.display());
        if let Some(adapter) = &section.adapter {
            loaded.adapt(adapter).context(key.to_owned())?;
            loaded.policy.fold_adapter()?;
            name = format!("{name}+{}", adapter.display());
        }
        let Loaded { policy, chat } = loaded;
        Ok(Self { policy, chat, name })
    }

    /// Its files.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Model and chat format, to serve it.
    pub fn parts(&self) -> (&Policy, &ChatFormat) {
        (&self.policy, &self.chat)
    }

    /// Replies, in order. A request that the model cannot take is an error of its own.
    ///
    /// # Errors
    /// When the device fails.
    pub fn replies(&self, requests: &[LocalRequest]) -> Result<Vec<Result<String, String>>> {
        let prompts: Vec<Result<Vec<u32>, String>> =
            requests.iter().map(|r| self.prompt(r).map_err(|e| format!("{e:#}"))).collect();
        let mut replies: Vec<Result<String, String>> =
            prompts.iter().map(|p| p.as_ref().map(|_| String::new()).map_err(Clone::clone)).collect();
        let fit: Vec<usize> = (0..prompts.len()).filter(|&i| prompts[i].is_ok()).collect();
        for batch in fit.chunks(BATCH) {
            let asked: Vec<Prompt> = batch
                .iter()
                .map(|&i| Prompt { tokens: prompts[i].clone().unwrap_or_default(), seeds: vec![0] })
                .collect();
            let max_tokens = batch.iter().map(|&i| requests[i].max_tokens).max().unwrap_or(1);
            let sampling = Sampling {
                temperature: 0.0,
                max_tokens,
                stop: self.chat.stop.clone(),
                ..Sampling::default()
            };
            let texts = self.policy.sample(&asked, &sampling, Adapters::On, &mut |_, _, _| {})?;
            for (&i, text) in batch.iter().zip(texts) {
                let tokens = &text[0].tokens[..text[0].tokens.len().min(requests[i].max_tokens)];
                let cut = text[0].finish == Finish::Length || tokens.len() < text[0].tokens.len();
                log::debug!("{}: {} tokens{}", self.name, tokens.len(), if cut { ", cut off" } else { "" });
                replies[i] = self.chat.text(tokens).map_err(|e| format!("{e:#}"));
            }
        }
        Ok(replies)
    }

    fn prompt(&self, request: &LocalRequest) -> Result<Vec<u32>> {
        let messages: Vec<Message> =
            request.messages.iter().map(|m| Message::new(m.role.name(), m.content.as_str())).collect();
        let tokens = self.chat.prompt(&messages)?;
        let most = self.policy.config().max_positions;
        if tokens.len() + request.max_tokens > most {
            bail!(
                "the prompt has {} tokens; with {} to answer the model's limit of {most} is passed",
                tokens.len(),
                request.max_tokens
            );
        }
        Ok(tokens)
    }
}
