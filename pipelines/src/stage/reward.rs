//! `reward`: outputs of a Coordinator or State Tracker → rewards, through the frozen Executor.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use anyhow::{Context, Result};
use serde_json::json;

use crate::cli::RewardArgs;
use crate::progress;
use crate::reward::{AgentRow, Rewarded, Rewarder};
use crate::run::Replacing;
use crate::settings::Settings;
use crate::table::{self, Table};

/// Rows that are rewarded at a time.
const BATCH: usize = 1_024;

/// Rewards every line of a file.
///
/// # Errors
/// Settings that cannot work, too many failed calls. A line that is no row becomes an error row.
pub fn run(settings: &Settings, args: &RewardArgs) -> Result<()> {
    let rewarder = Rewarder::open(&settings.reward, args.images.as_deref())?;
    let input = File::open(&args.input).with_context(|| format!("--input {}", args.input.display()))?;
    let mut out = Replacing::create(&args.out).with_context(|| format!("--out {}", args.out.display()))?;
    let bar = progress::bar("reward", "outputs", None);
    let mut tally = Tally::default();
    let mut lines = BufReader::new(input).lines().zip(1_u64..).peekable();
    while lines.peek().is_some() {
        let mut batch = Vec::with_capacity(BATCH);
        for (line, number) in lines.by_ref().take(BATCH) {
            let line = line.with_context(|| format!("{} line {number}", args.input.display()))?;
            if !line.trim().is_empty() {
                batch.push(serde_json::from_str(&line).map_err(|e| format!("line {number} is no row: {e}")));
            }
        }
        for rewarded in reward_batch(&rewarder, &batch)? {
            tally.add(rewarded.reward.as_ref().map(|r| r.total));
            serde_json::to_writer(&mut out, &rewarded)?;
            out.write_all(b"\n")?;
        }
        bar.inc(batch.len() as u64);
        rewarder.check_failures()?;
    }
    out.finish().with_context(|| format!("--out {}", args.out.display()))?;
    bar.finish_and_clear();
    let mut table = Table::new(&["profile", "executor", "rewarded", "without reward", "mean reward"]);
    let mean = tally.sum / tally.rewarded.max(1) as f64;
    table.row(&[
        rewarder.profile().name,
        &rewarder.executor_name(),
        &tally.rewarded.to_string(),
        &tally.without.to_string(),
        &json!((mean * 1e4).round() / 1e4).to_string(),
    ]);
    table::print(&format!("{table}\nWritten to {}", args.out.display()));
    Ok(())
}

/// Rewards the rows of a batch, in their order; a line that is none gets an error of its own.
pub(super) fn reward_batch(rewarder: &Rewarder, batch: &[Result<AgentRow, String>]) -> Result<Vec<Rewarded>> {
    let rows: Vec<AgentRow> = batch.iter().filter_map(|row| row.as_ref().ok().cloned()).collect();
    let mut rewarded = rewarder.reward_all(&rows)?.into_iter();
    let each = batch.iter().map(|row| match row {
        Ok(_) => rewarded.next().context("a row without a reward"),
        Err(reason) => Ok(Rewarded::failed(reason)),
    });
    each.collect()
}

#[derive(Default)]
struct Tally {
    rewarded: u64,
    without: u64,
    sum: f64,
}

impl Tally {
    fn add(&mut self, total: Option<f64>) {
        match total {
            Some(total) => {
                self.rewarded += 1;
                self.sum += total;
            }
            None => self.without += 1,
        }
    }
}
