//! `ledger`: what was asked of models, and what became of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;

use crate::chat::{Key, Ledger, Outcome, Part, Record, Reply, Request, Usage, default_ledger_dir};
use crate::table::{self, Table};

/// Arguments of `ledger`.
#[derive(Debug, Args)]
pub struct LedgerArgs {
    #[command(subcommand)]
    command: LedgerCommand,
}

#[derive(Debug, Subcommand)]
enum LedgerCommand {
    /// Every request with what became of it, in the order of keys.
    List(Place),
    /// One record.
    Show {
        /// The request's key, or the beginning of it.
        key: String,
        #[command(flatten)]
        place: Place,
    },
    /// Requests and tokens by model and outcome.
    Stats(Place),
    /// Read every line again, derive every key again, and name what is damaged.
    Verify(Place),
}

#[derive(Debug, Args)]
struct Place {
    /// The ledger's folder [default: `ledger` in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    ledger: Option<PathBuf>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl Place {
    fn open(&self) -> Result<Ledger> {
        let dir = match &self.ledger {
            Some(dir) => dir.clone(),
            None => default_ledger_dir()?,
        };
        Ok(Ledger::open(&dir)?)
    }
}

/// Looks into a ledger. Nothing is changed.
///
/// # Errors
/// A folder without a ledger, a key without a record; for `verify` also any damage, after it was printed.
pub fn run(args: &LedgerArgs) -> Result<()> {
    match &args.command {
        LedgerCommand::List(place) => list(&place.open()?, place.json),
        LedgerCommand::Show { key, place } => show(&place.open()?, key, place.json),
        LedgerCommand::Stats(place) => stats(&place.open()?, place.json),
        LedgerCommand::Verify(place) => verify(&place.open()?, place.json),
    }
}

/// A record in one line.
#[derive(Debug, Serialize)]
struct Summary {
    key: Key,
    kind: &'static str,
    model: String,
    /// `reply`, or the kind of the failure.
    outcome: &'static str,
    prompt_tokens: u64,
    completion_tokens: u64,
    attempts: u32,
}

impl Summary {
    fn of(record: &Record) -> Self {
        let usage = match &record.outcome {
            Outcome::Reply(Reply::Chat(reply)) => reply.usage.unwrap_or_default(),
            _ => Usage::default(),
        };
        Self {
            key: record.key,
            kind: match record.request {
                Request::Chat(_) => "chat",
                Request::Embedding(_) => "embedding",
            },
            model: record.request.model().to_owned(),
            outcome: match &record.outcome {
                Outcome::Reply(_) => "reply",
                Outcome::Failed(error) => error.kind(),
            },
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            attempts: record.attempts,
        }
    }
}

fn record(ledger: &Ledger, key: Key) -> Result<Record> {
    ledger.get(key)?.with_context(|| format!("ledger {}: no record {key}", ledger.dir().display()))
}

fn summaries(ledger: &Ledger) -> Result<Vec<Summary>> {
    ledger.keys().into_iter().map(|key| Ok(Summary::of(&record(ledger, key)?))).collect()
}

fn list(ledger: &Ledger, as_json: bool) -> Result<()> {
    let summaries = summaries(ledger)?;
    if as_json {
        table::print(&serde_json::to_string_pretty(&json!({ "records": summaries }))?);
        return Ok(());
    }
    let mut rows =
        Table::new(&["key", "kind", "model", "outcome", "prompt tokens", "completion tokens", "attempts"]);
    for s in &summaries {
        let numbers = [s.prompt_tokens, s.completion_tokens, s.attempts.into()].map(count);
        // As many digits as `show` needs, and one line for each record.
        let key = &s.key.to_string()[..16];
        rows.row(&[key, s.kind, &s.model, s.outcome, &numbers[0], &numbers[1], &numbers[2]]);
    }
    table::print(&rows.to_string());
    Ok(())
}

fn show(ledger: &Ledger, prefix: &str, as_json: bool) -> Result<()> {
    let found: Vec<Key> =
        ledger.keys().into_iter().filter(|key| key.to_string().starts_with(prefix)).collect();
    let key = match found.as_slice() {
        [key] => *key,
        [] => bail!(
            "ledger {}: no record {prefix}: `tracemill ledger list` has the keys",
            ledger.dir().display()
        ),
        several => bail!("{} records begin with {prefix}: give more digits", several.len()),
    };
    let record = record(ledger, key)?;
    if as_json {
        table::print(&serde_json::to_string_pretty(&record)?);
        return Ok(());
    }
    let Summary { kind, model, outcome, attempts, .. } = Summary::of(&record);
    let mut text = format!("{key}\n{kind} · {model} · {outcome} · {attempts} attempts\n\n");
    text.push_str(&request_text(&record.request));
    text.push_str(&match &record.outcome {
        Outcome::Reply(Reply::Chat(reply)) => {
            format!("reply ({}):\n{}\n", reply.finish_reason.as_deref().unwrap_or("unfinished"), reply.text)
        }
        Outcome::Reply(Reply::Embedding(reply)) => format!("vector of width {}\n", reply.vector.len()),
        Outcome::Failed(error) => format!("failed: {error}\n"),
    });
    table::print(&text);
    Ok(())
}

fn request_text(request: &Request) -> String {
    match request {
        Request::Embedding(request) => format!("text:\n{}\n\n", request.text),
        Request::Chat(request) => {
            let mut text = String::new();
            for message in &request.messages {
                text.push_str(&format!("{:?}:\n", message.role).to_lowercase());
                for part in &message.parts {
                    match part {
                        Part::Text(t) => text.push_str(&format!("{t}\n")),
                        Part::Image(image) => text.push_str(&format!("{image:?}\n")),
                    }
                }
                text.push('\n');
            }
            text
        }
    }
}

/// Figures of one model and outcome.
#[derive(Debug, Default, Serialize)]
struct Tally {
    requests: u64,
    attempts: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
}

fn stats(ledger: &Ledger, as_json: bool) -> Result<()> {
    let mut models: BTreeMap<String, BTreeMap<&str, Tally>> = BTreeMap::new();
    for s in summaries(ledger)? {
        let tally = models.entry(s.model).or_default().entry(s.outcome).or_default();
        tally.requests += 1;
        tally.attempts += u64::from(s.attempts);
        tally.prompt_tokens += s.prompt_tokens;
        tally.completion_tokens += s.completion_tokens;
    }
    let damaged = ledger.damage().len();
    if as_json {
        let all = json!({ "requests": ledger.len(), "damaged_lines": damaged, "models": models });
        table::print(&serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    let mut rows =
        Table::new(&["model", "outcome", "requests", "attempts", "prompt tokens", "completion tokens"]);
    for (model, outcomes) in &models {
        for (outcome, t) in outcomes {
            let n = [t.requests, t.attempts, t.prompt_tokens, t.completion_tokens].map(count);
            rows.row(&[model, outcome, &n[0], &n[1], &n[2], &n[3]]);
        }
    }
    let mut text = rows.to_string();
    if damaged > 0 {
        text.push_str(&format!("\n{damaged} damaged lines: `tracemill ledger verify` names them\n"));
    }
    table::print(&text);
    Ok(())
}

fn verify(ledger: &Ledger, as_json: bool) -> Result<()> {
    let (records, damage) = ledger.verify()?;
    if as_json {
        let report = json!({ "records": records, "requests": ledger.len(), "damage": damage });
        table::print(&serde_json::to_string_pretty(&report)?);
    } else {
        let dir = ledger.dir().display();
        let mut lines: Vec<String> = damage.iter().map(|d| format!("{dir}/{d}")).collect();
        let (all, requests) = (count(records as u64), count(ledger.len() as u64));
        lines.push(format!("{all} records of {requests} requests; {} damaged lines", damage.len()));
        table::print(&lines.join("\n"));
    }
    if !damage.is_empty() {
        bail!(
            "ledger {}: {} damaged lines; what they recorded counts as never asked, and mode `record` asks again",
            ledger.dir().display(),
            damage.len()
        );
    }
    Ok(())
}

fn count(n: u64) -> String {
    table::number(&n.into())
}
