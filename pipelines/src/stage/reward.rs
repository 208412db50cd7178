//! `reward`: outputs of a Coordinator or State Tracker → rewards, through the frozen Executor.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};

use anyhow::{Context, Result};
use serde_json::json;

use crate::cli::RewardArgs;
use crate::progress;
use crate::reward::{AgentRow, Rewarder};
use crate::settings::Settings;
use crate::table::{self, Table};

/// Rows that are rewarded at a time.
const BATCH: usize = 1_024;

/// Rewards every line of a file.
///
/// # Errors
/// Settings that cannot work, a line that is no row, too many failed calls.
pub fn run(settings: &Settings, args: &RewardArgs) -> Result<()> {
    let rewarder = Rewarder::open(&settings.reward, args.images.as_deref())?;
    let input = File::open(&args.input).with_context(|| format!("--input {}", args.input.display()))?;
    let mut out =
        BufWriter::new(File::create(&args.out).with_context(|| format!("--out {}", args.out.display()))?);
    let bar = progress::bar("reward", "outputs", None);
    let mut tally = Tally::default();
    let mut batch = Vec::with_capacity(BATCH);
    let mut lines = BufReader::new(input).lines().zip(1_u64..).peekable();
    while let Some((line, number)) = lines.next() {
        let line = line.with_context(|| format!("{} line {number}", args.input.display()))?;
        if !line.trim().is_empty() {
            let row: AgentRow = serde_json::from_str(&line)
                .with_context(|| format!("{} line {number} is no row", args.input.display()))?;
            batch.push(row);
        }
        if batch.len() == BATCH || lines.peek().is_none() {
            for rewarded in rewarder.reward_all(&batch)? {
                tally.add(rewarded.reward.as_ref().map(|r| r.total));
                serde_json::to_writer(&mut out, &rewarded)?;
                out.write_all(b"\n")?;
            }
            bar.inc(batch.len() as u64);
            batch.clear();
        }
    }
    out.flush()?;
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
