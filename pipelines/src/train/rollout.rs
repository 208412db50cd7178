//! Outputs of a policy for some prompts, rewarded while others are still being written.

use std::sync::mpsc;

use anyhow::{Context, Result};
use tracemill_models::policy::{Adapters, Completion, Policy, Prompt, Sampling};
use xxhash_rust::xxh3::xxh3_64;

use super::model::ChatFormat;
use super::rows::TrainRow;
use crate::reward::{AgentRow, Rewarded, Rewarder};

/// The outputs for one prompt.
pub struct Group<'a> {
    /// What was asked.
    pub row: &'a TrainRow,
    /// What was written.
    pub texts: Vec<Completion>,
    /// The same as text.
    pub outputs: Vec<String>,
    /// What it earned.
    pub rewarded: Vec<Rewarded>,
}

impl Group<'_> {
    /// Rewards; none where an output could not be rewarded.
    pub fn rewards(&self) -> Vec<Option<f64>> {
        self.rewarded.iter().map(|r| r.reward.as_ref().map(|r| r.total)).collect()
    }
}

/// The seed of an output: a function of the run's seed, how many prompts it drew before, and the output's number, so that a
/// resumed run draws the same, and a row that is drawn twice gets other outputs.
pub fn seed_of(seed: u64, drawn: u64, nth: usize) -> u64 {
    xxh3_64(format!("{seed}/{drawn}/{nth}").as_bytes())
}

/// Writes outputs for rows, each as many as it has seeds. Groups are rewarded as they are done, on a thread of their own.
///
/// # Errors
/// Those of the policy, and what has to stop an executor.
pub fn roll<'a>(
    policy: &Policy,
    chat: &ChatFormat,
    asked: Vec<(&'a TrainRow, Vec<u64>)>,
    sampling: &Sampling,
    rewarder: &Rewarder,
) -> Result<Vec<Group<'a>>> {
    let (rows, prompts): (Vec<&TrainRow>, Vec<Prompt>) =
        asked.into_iter().map(|(row, seeds)| (row, Prompt { tokens: row.prompt.clone(), seeds })).unzip();
    let sizes: Vec<usize> = prompts.iter().map(|p| p.seeds.len()).collect();
    let (send, receive) = mpsc::channel::<(usize, usize, String)>();
    std::thread::scope(|scope| {
        let (rows, sizes) = (&rows, &sizes);
        let rewards = scope.spawn(move || reward_groups(receive, rows, sizes, rewarder));
        let texts = policy.sample(&prompts, sampling, Adapters::On, &mut |prompt, nth, text| {
            // A text that cannot be decoded is sent as what it is: nothing.
            let output = chat.text(&text.tokens).unwrap_or_default();
            // The other side hangs up when an executor has to stop; its error is told below.
            let _ = send.send((prompt, nth, output));
        });
        drop(send);
        let rewarded = rewards.join().map_err(|_| anyhow::anyhow!("the thread that rewards panicked"))?;
        // A policy that fails leaves groups unfinished, which is then no news.
        let groups = texts?.into_iter().zip(rewarded?).zip(rows);
        Ok(groups
            .map(|((texts, (outputs, rewarded)), row)| Group { row, texts, outputs, rewarded })
            .collect())
    })
}

type Outputs = (Vec<String>, Vec<Rewarded>);

fn reward_groups(
    receive: mpsc::Receiver<(usize, usize, String)>,
    rows: &[&TrainRow],
    sizes: &[usize],
    rewarder: &Rewarder,
) -> Result<Vec<Outputs>> {
    let mut outputs: Vec<Vec<Option<String>>> = sizes.iter().map(|n| vec![None; *n]).collect();
    let mut done: Vec<Option<Outputs>> = sizes.iter().map(|_| None).collect();
    for (prompt, nth, output) in receive {
        outputs[prompt][nth] = Some(output);
        if outputs[prompt].iter().all(Option::is_some) {
            let texts: Vec<String> = outputs[prompt].iter_mut().filter_map(Option::take).collect();
            let asked: Vec<AgentRow> = texts
                .iter()
                .map(|text| AgentRow { prompt: rows[prompt].agent.clone(), output: text.clone() })
                .collect();
            done[prompt] = Some((texts, rewarder.reward_all(&asked)?));
        }
    }
    done.into_iter().map(|group| group.context("a group of outputs was not finished")).collect()
}
