//! A frozen evaluation: which episodes, asked in which words, scored by which rules, each with its hash.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tracemill_data::grammar::vocabulary;
use tracemill_data::prompt::registry;
use tracemill_models::rl::Profile;

use super::tasks::Task;

/// What an evaluation must find unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frozen {
    /// `name@version` of the scorer's profile.
    pub profile: String,
    /// Name and version of the executor.
    pub executor: String,
    /// Version of the table of words that actions are read by.
    pub vocabulary: u32,
    /// The roles' templates with their hashes.
    pub prompts: Vec<(String, String)>,
    /// Episodes with the hash of all that was ingested of them.
    pub episodes: Vec<FrozenTask>,
}

/// An episode of a frozen evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrozenTask {
    /// The episode.
    pub episode_id: String,
    /// BLAKE3 of its rows.
    pub blake3: String,
}

impl Frozen {
    /// Freezes an evaluation of `tasks`.
    pub fn of(tasks: &[Task], profile: &Profile, executor: &str) -> Self {
        let roles = ["coordinator", "executor", "state-tracker", "state", "last-actions"];
        let used = |name: &str| roles.contains(&name.trim_end_matches("-text"));
        let prompts = registry().templates().filter(|(name, _)| used(name));
        let prompts = prompts.map(|(n, t)| (format!("{n}@{}", t.version), t.hash())).collect();
        let frozen = |t: &Task| FrozenTask { episode_id: t.episode_id.clone(), blake3: t.hash.clone() };
        Self {
            profile: format!("{}@{}", profile.name, profile.version),
            executor: executor.to_owned(),
            vocabulary: vocabulary().version,
            prompts,
            episodes: tasks.iter().map(frozen).collect(),
        }
    }

    /// Reads a frozen evaluation.
    ///
    /// # Errors
    /// Names the file.
    pub fn read(path: &Path) -> Result<Self> {
        let at = || format!("--frozen {}", path.display());
        serde_json::from_str(&std::fs::read_to_string(path).with_context(at)?).with_context(at)
    }

    /// Its episodes' ids.
    pub fn ids(&self) -> BTreeSet<String> {
        self.episodes.iter().map(|e| e.episode_id.clone()).collect()
    }

    /// Compares with what is there now.
    ///
    /// # Errors
    /// Names the first thing that is not as it was.
    pub fn check(&self, now: &Self) -> Result<()> {
        if self.profile != now.profile {
            bail!("the evaluation was frozen with profile {}, and this is {}", self.profile, now.profile);
        }
        if (&self.executor, self.vocabulary) != (&now.executor, now.vocabulary) {
            bail!(
                "the evaluation was frozen with executor {} and vocabulary {}, and these are {} and {}",
                self.executor,
                self.vocabulary,
                now.executor,
                now.vocabulary
            );
        }
        for (name, hash) in &self.prompts {
            if now.prompts.iter().all(|(n, h)| (n, h) != (name, hash)) {
                bail!("prompt {name} is not in the words that were frozen (hash {hash})");
            }
        }
        for frozen in &self.episodes {
            match now.episodes.iter().find(|e| e.episode_id == frozen.episode_id) {
                None => bail!("episode {} was frozen, and the run does not have it", frozen.episode_id),
                Some(found) if found.blake3 != frozen.blake3 => {
                    bail!("episode {} is not what was frozen: its rows have changed", frozen.episode_id)
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}
