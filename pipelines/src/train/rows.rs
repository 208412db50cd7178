//! Exported pools (`export … --target tracemill`) as token ids.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tracemill_data::artifact::{AgentPrompt, AgentRole};
use tracemill_data::export::PoolRow;
use tracemill_data::prompt::registry;
use tracemill_models::policy::Message;

use super::model::ChatFormat;

/// A row that a policy learns from.
#[derive(Debug, Clone)]
pub struct TrainRow {
    /// `<episode>#<step>/<role>`.
    pub id: String,
    /// What is asked, where it is executed, and what should have been done.
    pub agent: AgentPrompt,
    /// The prompt, up to where the agent is to speak.
    pub prompt: Vec<u32>,
    /// What is to be learned, its end included; empty for RL.
    pub reply: Vec<u32>,
}

impl TrainRow {
    /// Tokens of prompt and reply.
    pub fn tokens(&self) -> usize {
        self.prompt.len() + self.reply.len()
    }
}

/// Rows for training and rows held out, and those that were left out.
#[derive(Debug, Default)]
pub struct TrainSet {
    /// To learn from.
    pub train: Vec<TrainRow>,
    /// To measure on.
    pub held_out: Vec<TrainRow>,
    /// Rows left out.
    pub rejects: Vec<Reject>,
}

/// A row that was left out.
#[derive(Debug, Clone, Serialize)]
pub struct Reject {
    /// The file.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// The row's id.
    pub id: String,
    /// Why.
    pub reason: String,
}

/// What rows must be.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The role that is trained.
    pub role: AgentRole,
    /// Whether rows must have a reply.
    pub replies: bool,
    /// Tokens of prompt and reply, at most.
    pub max_tokens: usize,
    /// Tokens that an output may have: prompt and output must fit into the model's positions. Rows of SFT are answered
    /// only where they are held out.
    pub room: usize,
    /// The model's positions.
    pub positions: usize,
}

impl TrainSet {
    /// Reads `train.jsonl` of the folders of `data`; held out are `train.jsonl` and `test.jsonl` of `held_out`, or with
    /// none the `test.jsonl` of `data`. A file may be given instead of a folder.
    ///
    /// # Errors
    /// A file that is not there or is no pool, rows of another role or of templates that this program does not have
    /// any more. Held-out rows whose task is trained on are left out.
    pub fn read(data: &[PathBuf], held_out: &[PathBuf], chat: &ChatFormat, wanted: Wanted) -> Result<Self> {
        let mut set = Self::default();
        let mut reader = Reader { chat, wanted, rejects: Vec::new(), answered: true };
        for path in data {
            reader.answered = !wanted.replies;
            set.train.extend(reader.read(&file(path, "train")?)?);
            reader.answered = true;
            if held_out.is_empty() && path.is_dir() && path.join("test.jsonl").is_file() {
                set.held_out.extend(reader.read(&path.join("test.jsonl"))?);
            }
        }
        for path in held_out {
            set.held_out.extend(reader.read(&file(path, "train")?)?);
            if path.is_dir() && path.join("test.jsonl").is_file() {
                set.held_out.extend(reader.read(&path.join("test.jsonl"))?);
            }
        }
        set.rejects = reader.rejects;
        if set.train.is_empty() {
            let first = set.rejects.first().map_or(String::new(), |r| format!("; the first: {}", r.reason));
            bail!("no rows to train on: {} were left out{first}", set.rejects.len());
        }
        set.drop_leaks();
        Ok(set)
    }

    /// Leaves out held-out rows whose task is trained on, too.
    fn drop_leaks(&mut self) {
        let key = |row: &TrainRow| row.agent.task.trim().to_lowercase();
        let trained: BTreeSet<String> = self.train.iter().map(key).collect();
        let (leaks, kept) =
            std::mem::take(&mut self.held_out).into_iter().partition(|row| trained.contains(&key(row)));
        self.held_out = kept;
        let leaks: Vec<TrainRow> = leaks;
        self.rejects.extend(leaks.into_iter().map(|row| Reject {
            file: "held out".to_owned(),
            line: 0,
            reason: format!("its task is trained on, too: {:?}", row.agent.task),
            id: row.id,
        }));
    }
}

/// The pool at a path.
fn file(path: &Path, split: &str) -> Result<PathBuf> {
    let file = if path.is_dir() { path.join(format!("{split}.jsonl")) } else { path.to_owned() };
    if !file.is_file() {
        bail!(
            "{} is not there: give a folder that `tracemill export sft|rl --target tracemill` wrote, or its .jsonl",
            file.display()
        );
    }
    Ok(file)
}

struct Reader<'a> {
    chat: &'a ChatFormat,
    wanted: Wanted,
    rejects: Vec<Reject>,
    /// Whether the policy is to answer the rows.
    answered: bool,
}

impl Reader<'_> {
    fn read(&mut self, path: &Path) -> Result<Vec<TrainRow>> {
        let open = std::fs::File::open(path).with_context(|| path.display().to_string())?;
        let mut rows = Vec::new();
        for (number, line) in std::io::BufReader::new(open).lines().enumerate() {
            let line = line.with_context(|| path.display().to_string())?;
            if line.trim().is_empty() {
                continue;
            }
            let at = || format!("{} line {}", path.display(), number + 1);
            let row: PoolRow = serde_json::from_str(&line)
                .with_context(|| format!("{}: not a row of a pool (export with --target tracemill)", at()))?;
            self.check(&row).with_context(at)?;
            let id = match &row.agent.id {
                serde_json::Value::String(id) => id.clone(),
                other => other.to_string(),
            };
            match self.encode(&row) {
                Ok((prompt, reply)) => rows.push(TrainRow { id, agent: row.agent, prompt, reply }),
                Err(reason) => {
                    let (file, line) = (path.display().to_string(), number + 1);
                    self.rejects.push(Reject { file, line, id, reason: format!("{reason:#}") });
                }
            }
        }
        Ok(rows)
    }

    /// What makes a whole file unfit.
    fn check(&self, row: &PoolRow) -> Result<()> {
        if row.agent.role != self.wanted.role {
            bail!("a row of a {}, and a {} is trained", row.agent.role.name(), self.wanted.role.name());
        }
        if self.wanted.replies && row.reply.is_none() {
            bail!("the row has no reply: SFT reads what `export sft` writes");
        }
        let name = row.prompt.split('@').next().unwrap_or_default();
        let known = registry().templates().find(|(known, _)| *known == name).map(|(_, t)| t.hash());
        if known.as_ref() != Some(&row.prompt_hash) {
            bail!(
                "its prompt is {} with hash {}, which this program does not render: export the rows again",
                row.prompt,
                row.prompt_hash
            );
        }
        Ok(())
    }

    /// What makes one row unfit.
    fn encode(&self, row: &PoolRow) -> Result<(Vec<u32>, Vec<u32>)> {
        if !row.images.is_empty() {
            bail!(
                "the prompt shows a picture, and the model reads text only: export with --observation elements"
            );
        }
        let messages: Vec<Message> =
            row.messages.iter().map(|m| Message::new(m.role.name(), m.content.as_str())).collect();
        let prompt = self.chat.prompt(&messages)?;
        let reply = match row.reply.as_deref().filter(|_| self.wanted.replies) {
            Some(text) => self.chat.reply(text)?,
            None => Vec::new(),
        };
        let (tokens, most) = (prompt.len() + reply.len(), self.wanted.max_tokens);
        if tokens > most {
            bail!("{tokens} tokens, and {most} are allowed");
        }
        let Wanted { room, positions, .. } = self.wanted;
        let room = if self.answered { room } else { 0 };
        if tokens > positions || prompt.len() + room > positions {
            bail!(
                "the prompt's {} tokens and {room} of an answer are more than the model's {positions} positions",
                prompt.len()
            );
        }
        Ok((prompt, reply))
    }
}
