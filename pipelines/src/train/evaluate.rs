//! Replies on held-out rows, greedy and drawn: format accuracy, and the reward where there is an executor.

use std::collections::BTreeMap;

use anyhow::Result;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tracemill_models::policy::{Adapters, Completion, Finish, Packed, Policy, Prompt, Sampling};
use tracemill_models::rl::Profile;
use xxhash_rust::xxh3::xxh3_64;

use super::model::ChatFormat;
use super::rows::TrainRow;
use crate::reward::{AgentRow, Rewarder};

/// Prompts that are answered at once.
const BATCH: usize = 16;

/// A held-out row, its greedy reply, and what drawn replies earn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The row.
    pub id: String,
    /// Its task.
    pub task: String,
    /// The reply.
    pub output: String,
    /// Tokens of it.
    pub tokens: usize,
    /// Whether it ended by itself.
    pub ended: bool,
    /// Whether it has the form that the profile asks for.
    pub format: bool,
    /// The reward; absent where nothing can be said.
    pub total: Option<f64>,
    /// The part of the executor.
    pub executor: Option<f64>,
    /// What the executor did.
    pub reply: Option<String>,
    /// Mean reward of replies drawn as in training; absent where none are drawn or nothing can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<f64>,
}

/// Replies to held-out rows, and their means.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Row by row.
    pub rows: Vec<Judged>,
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0usize), |(sum, n), x| (sum + x, n + 1));
    (n > 0).then(|| sum / n as f64)
}

impl HeldOut {
    /// Share of replies of the right form.
    pub fn format(&self) -> Option<f64> {
        mean(self.rows.iter().map(|row| f64::from(u8::from(row.format))))
    }

    /// Mean reward, over the rows that have one.
    pub fn reward(&self) -> Option<f64> {
        mean(self.rows.iter().filter_map(|row| row.total))
    }

    /// Mean reward of drawn replies, over the rows that have one: the objective of GRPO, on rows it does not see.
    pub fn drawn(&self) -> Option<f64> {
        mean(self.rows.iter().filter_map(|row| row.drawn))
    }

    /// Mean of the executor's part.
    pub fn executor(&self) -> Option<f64> {
        mean(self.rows.iter().filter_map(|row| row.executor))
    }

    /// Mean tokens of a reply.
    pub fn length(&self) -> Option<f64> {
        mean(self.rows.iter().map(|row| row.tokens as f64))
    }
}

/// A difference of two evaluations of the same rows, with an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// Mean of after minus before.
    pub mean: f64,
    /// 2.5th percentile.
    pub low: f64,
    /// 97.5th percentile.
    pub high: f64,
    /// Tasks.
    pub tasks: usize,
    /// Rows.
    pub rows: usize,
}

/// Draws of the bootstrap.
const RESAMPLES: usize = 10_000;

/// The difference of rewards on the same rows, with a paired bootstrap over tasks: rows of a task stay together. `reward`
/// says which: that of the greedy reply or that of drawn ones.
pub fn difference(
    (before, after): (&HeldOut, &HeldOut),
    reward: impl Fn(&Judged) -> Option<f64>,
    seed: u64,
) -> Option<Difference> {
    let mut tasks: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for (a, b) in before.rows.iter().zip(&after.rows).filter(|(a, b)| a.id == b.id) {
        if let (Some(a_total), Some(b_total)) = (reward(a), reward(b)) {
            let task = tasks.entry(&a.task).or_default();
            *task = (task.0 + b_total - a_total, task.1 + 1);
        }
    }
    let tasks: Vec<(f64, usize)> = tasks.into_values().collect();
    let of = |picked: &mut dyn Iterator<Item = (f64, usize)>| {
        let (sum, n) = picked.fold((0.0, 0), |(sum, n), (d, k)| (sum + d, n + k));
        sum / n as f64
    };
    if tasks.is_empty() {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut draws: Vec<f64> = (0..RESAMPLES)
        .map(|_| of(&mut (0..tasks.len()).map(|_| tasks[rng.random_range(0..tasks.len())])))
        .collect();
    draws.sort_by(f64::total_cmp);
    let at = |share: f64| draws[((RESAMPLES - 1) as f64 * share).round() as usize];
    Some(Difference {
        mean: of(&mut tasks.iter().copied()),
        low: at(0.025),
        high: at(0.975),
        tasks: tasks.len(),
        rows: tasks.iter().map(|(_, n)| n).sum(),
    })
}

/// How held-out rows are answered.
#[derive(Debug, Clone)]
pub struct Asking {
    /// Sampling of the drawn replies; the greedy ones take stop tokens and length from it.
    pub sampling: Sampling,
    /// Replies drawn for each row beside the greedy one.
    pub draws: usize,
}

/// Answers rows, greedily and by drawing, and rewards the answers. Row and number alone seed a draw, so that two policies are
/// compared on the same random numbers.
///
/// # Errors
/// Those of the policy, and what has to stop an executor.
pub fn judge(
    policy: &Policy,
    chat: &ChatFormat,
    rows: &[&TrainRow],
    (profile, rewarder): (&Profile, Option<&Rewarder>),
    asking: &Asking,
) -> Result<HeldOut> {
    let greedy = Sampling { temperature: 0.0, ..asking.sampling.clone() };
    let mut judged = Vec::with_capacity(rows.len());
    for batch in rows.chunks(BATCH) {
        let texts = answer(policy, batch, &greedy, 1)?;
        for (row, text) in batch.iter().zip(&texts) {
            let output = chat.text(&text[0].tokens)?;
            judged.push(Judged {
                id: row.id.clone(),
                task: row.agent.task.clone(),
                tokens: text[0].tokens.len(),
                ended: text[0].finish == Finish::Stop,
                format: profile.answer(&output).is_some(),
                output,
                total: None,
                executor: None,
                reply: None,
                drawn: None,
            });
        }
    }
    let Some(rewarder) = rewarder else { return Ok(HeldOut { rows: judged }) };
    let asked = |row: &TrainRow, output: String| AgentRow { prompt: row.agent.clone(), output };
    let greedy: Vec<AgentRow> =
        rows.iter().zip(&judged).map(|(row, judged)| asked(row, judged.output.clone())).collect();
    for (judged, rewarded) in judged.iter_mut().zip(rewarder.reward_all(&greedy)?) {
        judged.total = rewarded.reward.as_ref().map(|r| r.total);
        judged.executor = rewarded.reward.as_ref().map(|r| r.executor);
        judged.reply = rewarded.reply;
    }
    if let Some(at_once) = BATCH.checked_div(asking.draws) {
        let prompts_at_once = at_once.max(1);
        for (batch, judged) in rows.chunks(prompts_at_once).zip(judged.chunks_mut(prompts_at_once)) {
            let texts = answer(policy, batch, &asking.sampling, asking.draws)?;
            for ((row, texts), judged) in batch.iter().zip(&texts).zip(judged) {
                let outputs: Result<Vec<AgentRow>> =
                    texts.iter().map(|text| Ok(asked(row, chat.text(&text.tokens)?))).collect();
                let rewarded = rewarder.reward_all(&outputs?)?;
                judged.drawn = mean(rewarded.iter().filter_map(|r| Some(r.reward.as_ref()?.total)));
            }
        }
    }
    rewarder.check_failures()?;
    Ok(HeldOut { rows: judged })
}

fn answer(
    policy: &Policy,
    rows: &[&TrainRow],
    sampling: &Sampling,
    each: usize,
) -> Result<Vec<Vec<Completion>>> {
    let prompt = |row: &&TrainRow| {
        let seeds = (0..each).map(|nth| xxh3_64(format!("{}/{nth}", row.id).as_bytes())).collect();
        Prompt { tokens: row.prompt.clone(), seeds }
    };
    let prompts: Vec<Prompt> = rows.iter().map(prompt).collect();
    Ok(policy.sample(&prompts, sampling, Adapters::On, &mut |_, _, _| {})?)
}

/// Mean loss of the replies of rows, in nats per token.
///
/// # Errors
/// Those of the policy.
pub fn loss(policy: &Policy, rows: &[&TrainRow], micro_tokens: usize) -> Result<Option<f64>> {
    let (mut sum, mut tokens) = (0.0, 0);
    let mut packed = Packed::default();
    let mut rest = rows.iter().peekable();
    while let Some(row) = rest.next() {
        packed.push(&row.prompt, &[&row.reply])?;
        if rest.peek().is_none_or(|next| packed.len() + next.tokens() > micro_tokens) {
            let stats = policy.token_stats(&packed, 1.0, Adapters::On)?;
            sum -= stats.logp.iter().map(|x| f64::from(*x)).sum::<f64>();
            tokens += stats.logp.len();
            packed = Packed::default();
        }
    }
    Ok((tokens > 0).then(|| sum / tokens as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_out(totals: &[(&str, Option<f64>)]) -> HeldOut {
        let row = |(i, (task, total)): (usize, &(&str, Option<f64>))| Judged {
            id: i.to_string(),
            task: (*task).to_owned(),
            output: String::new(),
            tokens: i,
            ended: true,
            format: i % 2 == 0,
            total: *total,
            executor: *total,
            reply: None,
            drawn: total.map(|x| 2.0 * x),
        };
        HeldOut { rows: totals.iter().enumerate().map(row).collect() }
    }

    #[test]
    fn a_difference_is_paired_by_row_and_drawn_by_task() {
        let before = held_out(&[("a", Some(0.0)), ("a", Some(0.5)), ("b", Some(0.1)), ("b", None)]);
        let after = held_out(&[("a", Some(1.0)), ("a", Some(0.5)), ("b", Some(0.4)), ("b", Some(1.0))]);
        let found = difference((&before, &after), |row| row.total, 1).unwrap();
        assert!((found.mean - 1.3 / 3.0).abs() < 1e-12 && found.rows == 3 && found.tasks == 2);
        // Two tasks with means 0.5 (two rows) and 0.3 (one row): what is drawn lies between.
        assert!((found.low - 0.3).abs() < 1e-9 && (found.high - 0.5).abs() < 1e-9, "{found:?}");
        let drawn = difference((&before, &after), |row| row.drawn, 1).unwrap();
        assert!((drawn.mean - 2.6 / 3.0).abs() < 1e-12);
        assert_eq!(difference((&held_out(&[]), &held_out(&[])), |row| row.total, 1), None);
        assert_eq!(before.format(), Some(0.5));
        assert!((before.reward().unwrap() - 0.2).abs() < 1e-12);
    }
}
