//! `reward`: outputs of a Coordinator or State Tracker → rewards, through the frozen Executor.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use tracemill_data::adapters::{Item, for_each_line};

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
/// Settings that cannot work, too many failed calls (what was rewarded by then is in `<out>.partial`). A
/// line that is no row becomes an error row.
pub fn run(settings: &Settings, args: &RewardArgs) -> Result<()> {
    let rewarder = Rewarder::open(&settings.reward, args.images.as_deref())?;
    let at_input = || format!("--input {}", args.input.display());
    let at_out = || format!("--out {}", args.out.display());
    std::fs::metadata(&args.input).with_context(at_input)?;
    let mut out = Replacing::create(&args.out).with_context(at_out)?;
    let mut tally = Tally::default();
    if let Err(error) = reward_lines(&rewarder, &args.input, &mut out, &mut tally) {
        let partial = out.finish_partial().with_context(at_out)?;
        let kept = tally.rewarded + tally.without;
        return Err(error.context(format!("stopped after {kept} rows, which are in {}", partial.display())));
    }
    out.finish().with_context(at_out)?;
    let mut table = Table::new(&["profile", "executor", "rewarded", "without reward", "mean reward"]);
    table.row(&[
        rewarder.profile().name,
        &rewarder.executor_name(),
        &tally.rewarded.to_string(),
        &tally.without.to_string(),
        &tally.mean(),
    ]);
    table::print(&format!("{table}\nWritten to {}", args.out.display()));
    Ok(())
}

/// Rewards the lines of `input` in batches, and writes each batch before the next begins.
fn reward_lines(rewarder: &Rewarder, input: &Path, out: &mut Replacing, tally: &mut Tally) -> Result<()> {
    let bar = progress::bar("reward", "outputs", None);
    let mut flush = |batch: &mut Vec<Result<AgentRow, String>>| -> Result<()> {
        for rewarded in reward_batch(rewarder, batch)? {
            serde_json::to_writer(&mut *out, &rewarded)?;
            out.write_all(b"\n")?;
            tally.add(rewarded.reward.as_ref().map(|r| r.total));
        }
        bar.inc(batch.len() as u64);
        batch.clear();
        Ok(rewarder.check_failures()?)
    };
    let mut batch = Vec::with_capacity(BATCH);
    let mut failed = Ok(());
    let read = for_each_line(&Item::whole(input.to_owned()), |number, line| {
        if failed.is_err() {
            return;
        }
        let row = line.map_err(|fault| fault.reason);
        let row = row.and_then(|text| serde_json::from_str(text).map_err(|e| e.to_string()));
        batch.push(row.map_err(|reason| format!("line {number} is no row: {reason}")));
        if batch.len() == BATCH {
            failed = flush(&mut batch);
        }
    });
    failed?;
    read.map_err(|fault| anyhow!("{}: {}", input.display(), fault.reason))?;
    flush(&mut batch)?;
    bar.finish_and_clear();
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

    fn mean(&self) -> String {
        match self.rewarded {
            0 => "–".to_owned(),
            n => format!("{:.4}", self.sum / n as f64),
        }
    }
}
