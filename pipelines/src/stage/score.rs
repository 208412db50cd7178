//! `score`: stored replies → scores, by a profile; `score diff`: where two profiles disagree. No model
//! is called.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use serde_json::value::RawValue;
use tracemill_data::adapters::{CHUNK_BYTES, Item, for_each_line, line_items};
use tracemill_data::artifact::{ScreenPixels, Truth};
use tracemill_models::rl::{Outcome, Profile, Score, score_reply};

use crate::cli::{ScoreArgs, ScoreDiffArgs};
use crate::progress;
use crate::run::Replacing;
use crate::table::{self, Table};

/// A row of the input: an executor's raw reply, and what it should have done.
#[derive(Default, Deserialize)]
pub(super) struct Row<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) prediction: Option<Cow<'a, str>>,
    /// What went wrong, when the call failed and there is no reply.
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) truth: Option<Truth>,
    /// Episode and application, which evaluation groups by.
    #[serde(borrow, default)]
    pub(super) episode: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) app: Option<Cow<'a, str>>,
    /// Why the truth cannot be read: the row abstains.
    #[serde(skip)]
    truth_fault: Option<String>,
    #[serde(default)]
    screen: Option<ScreenPixels>,
}

/// The fields of a row, each still to be read: what is wrong with one costs only that one.
#[derive(Deserialize)]
struct Loose<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    prediction: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    truth: Option<&'a RawValue>,
    #[serde(borrow, default)]
    screen: Option<&'a RawValue>,
    #[serde(borrow, default)]
    episode: Option<&'a RawValue>,
    #[serde(borrow, default)]
    app: Option<&'a RawValue>,
}

impl<'a> Row<'a> {
    /// Reads a row. One with a field of the wrong kind is read field by field: a prediction that is no string
    /// counts as its JSON, a truth that cannot be read makes the row abstain, a screen that cannot is none.
    ///
    /// # Errors
    /// When the text is no JSON object.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        if let Ok(row) = serde_json::from_str(text) {
            return Ok(row);
        }
        let loose: Loose<'a> = serde_json::from_str(text).map_err(|e| format!("the line is no row: {e}"))?;
        let given = |raw: Option<&'a RawValue>| raw.map(RawValue::get).filter(|json| *json != "null");
        let words = |raw| given(raw).map(|json| Cow::Owned(text_of(json)));
        let truth = given(loose.truth).map(serde_json::from_str::<Truth>).transpose();
        Ok(Self {
            id: loose.id,
            prediction: words(loose.prediction),
            error: loose.error,
            truth_fault: truth.as_ref().err().map(|e| format!("truth: {e}")),
            truth: truth.ok().flatten(),
            screen: given(loose.screen).and_then(|json| serde_json::from_str(json).ok()),
            episode: words(loose.episode),
            app: words(loose.app),
        })
    }

    pub(super) fn score(&self, profile: &Profile) -> Outcome {
        if let Some(reason) = &self.truth_fault {
            return Outcome::Abstain { reason: reason.clone() };
        }
        let said = |e: &&RawValue| !matches!(e.get(), "null" | "false" | "\"\"");
        if let Some(error) = self.error.filter(said) {
            return Outcome::Error { reason: format!("the call failed: {}", error.get()) };
        }
        let Some(prediction) = &self.prediction else {
            return Outcome::Error { reason: "the row has no prediction".to_owned() };
        };
        match &self.truth {
            Some(truth) => score_reply(profile, prediction, truth, self.screen),
            None => Outcome::Abstain { reason: "the row has no truth".to_owned() },
        }
    }
}

/// The text of a JSON string, in which half of a surrogate pair (Python writes it where a reply is cut off)
/// becomes U+FFFD; of any other value, its JSON.
fn text_of(json: &str) -> String {
    if !json.starts_with('"') {
        return json.to_owned();
    }
    serde_json::from_str(json).unwrap_or_else(|_| {
        let whole = LONE_SURROGATE.replace_all(json, |found: &regex::Captures<'_>| match found.get(1) {
            Some(pair) => pair.as_str().to_owned(),
            None => "\\ufffd".to_owned(),
        });
        serde_json::from_str(&whole).unwrap_or_else(|_| json.to_owned())
    })
}

/// A pair of escaped surrogates, which is kept, or half of one.
static LONE_SURROGATE: LazyLock<regex::Regex> = LazyLock::new(|| {
    let pattern =
        r"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}";
    regex::Regex::new(pattern).expect("a valid expression")
});

/// A row of the output. Every input line gives one, in order; only a score has numbers.
#[derive(Serialize)]
pub(super) struct Scored<'a> {
    id: Option<&'a RawValue>,
    outcome: &'static str,
    total: Option<f64>,
    format: Option<f64>,
    r#type: Option<f64>,
    param: Option<f64>,
    executor: Option<f64>,
    reason: &'a str,
    profile: &'static str,
    profile_version: u32,
    parsed: Option<&'a str>,
    distance: Option<f64>,
    similarity: Option<f64>,
    line: u64,
}

impl<'a> Scored<'a> {
    pub(super) fn new(id: Option<&'a RawValue>, line: u64, profile: &Profile, outcome: &'a Outcome) -> Self {
        let score = outcome.score();
        let term = |f: fn(&Score) -> f64| score.map(f);
        let reason = match outcome {
            Outcome::Score(score) => &score.reason,
            Outcome::Abstain { reason } | Outcome::Error { reason } => reason,
        };
        Self {
            id,
            outcome: outcome.name(),
            total: term(|s| s.total),
            format: term(|s| s.format),
            r#type: term(|s| s.type_term),
            param: term(|s| s.param),
            executor: term(|s| s.executor),
            reason,
            profile: profile.name,
            profile_version: profile.version,
            parsed: score.and_then(|s| s.parsed.as_deref()),
            distance: score.and_then(|s| s.distance),
            similarity: score.and_then(|s| s.similarity),
            line,
        }
    }
}

/// Counts of outcomes and sums of the scores' terms.
#[derive(Default)]
struct Tally {
    outcomes: BTreeMap<&'static str, u64>,
    sums: [f64; 5],
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        *self.outcomes.entry(outcome.name()).or_default() += 1;
        if let Some(s) = outcome.score() {
            let terms = [s.total, s.format, s.type_term, s.param, s.executor];
            self.sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
        }
    }

    fn merge(&mut self, other: &Self) {
        other.outcomes.iter().for_each(|(name, n)| *self.outcomes.entry(name).or_default() += n);
        self.sums.iter_mut().zip(other.sums).for_each(|(sum, more)| *sum += more);
    }
}

/// Scores every line of a file.
///
/// # Errors
/// An unknown profile, an input that cannot be read, an output that cannot be written. A line that is
/// no row becomes an error row.
pub fn run(args: &ScoreArgs) -> Result<()> {
    let ScoreArgs { profile, input, out, .. } = args;
    let (Some(input), Some(out)) = (input, out) else {
        anyhow::bail!("give --input rows.jsonl and --out scored.jsonl (see `tracemill score --help`)");
    };
    let profile = Profile::named(profile).map_err(anyhow::Error::msg)?;
    let mut file = Replacing::create(out).with_context(|| format!("--out {}", out.display()))?;
    let mut tally = Tally::default();
    blocks(
        input,
        |item| score_block(item, profile),
        |(bytes, counts)| {
            tally.merge(&counts);
            file.write_all(&bytes).with_context(|| format!("--out {}", out.display()))
        },
    )?;
    file.finish().with_context(|| format!("--out {}", out.display()))?;
    table::print(&summary(profile, &tally, out));
    Ok(())
}

/// Maps the blocks of lines of `input` in parallel, a window at a time, and hands the results on in
/// their order, on a thread of its own: the next window is worked on while the last one is written.
fn blocks<T: Send>(
    input: &Path,
    map: impl Fn(&Item) -> Result<T> + Sync,
    mut take: impl FnMut(T) -> Result<()> + Send,
) -> Result<()> {
    std::fs::metadata(input).with_context(|| format!("--input {}", input.display()))?;
    let items = line_items(input, CHUNK_BYTES);
    let bar = progress::bar("score", "blocks", Some(items.len() as u64));
    let window = 2 * rayon::current_num_threads();
    let (results, done) = std::sync::mpsc::sync_channel::<T>(window);
    std::thread::scope(|scope| {
        let taker = scope.spawn(move || done.into_iter().try_for_each(&mut take));
        'windows: for items in items.chunks(window) {
            let mapped: Vec<Result<T>> = items.par_iter().map(&map).collect();
            bar.inc(items.len() as u64);
            for result in mapped {
                // A taker that is gone has failed, and says why below.
                if results.send(result?).is_err() {
                    break 'windows;
                }
            }
        }
        drop(results);
        bar.finish_and_clear();
        taker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Calls `visit` with each line's number and row, or the reason why it is none.
pub(super) fn for_each_row(item: &Item, mut visit: impl FnMut(u64, Result<Row<'_>, String>)) -> Result<()> {
    let read = for_each_line(item, |number, line| match line {
        Ok(text) => visit(number, Row::parse(text)),
        Err(fault) => visit(number, Err(fault.reason)),
    });
    read.map_err(|fault| anyhow::anyhow!("{}: {}", item.path.display(), fault.reason))
}

fn score_block(item: &Item, profile: &Profile) -> Result<(Vec<u8>, Tally)> {
    // A scored row is about as long as its row and a half.
    let (mut out, mut tally) = (Vec::with_capacity(2 * CHUNK_BYTES as usize), Tally::default());
    let mut failed = None;
    for_each_row(item, |line, row| {
        let (id, outcome) = match &row {
            Ok(row) => (row.id, row.score(profile)),
            Err(reason) => (None, Outcome::Error { reason: reason.clone() }),
        };
        tally.add(&outcome);
        let written = serde_json::to_writer(&mut out, &Scored::new(id, line, profile, &outcome));
        failed = failed.take().or(written.err());
        out.push(b'\n');
    })?;
    failed.map_or(Ok((out, tally)), |e| Err(e.into()))
}

fn summary(profile: &Profile, tally: &Tally, out: &Path) -> String {
    let count = |name| tally.outcomes.get(name).copied().unwrap_or_default();
    let scored = count("score");
    let mut table = Table::new(&[
        "profile",
        "scored",
        "abstained",
        "errors",
        "total",
        "format",
        "type",
        "param",
        "executor",
    ]);
    let mean = |sum: f64| if scored == 0 { "–".to_owned() } else { format!("{:.4}", sum / scored as f64) };
    let whole = |n: u64| table::number(&Number::from(n));
    let [total, format, type_term, param, executor] = tally.sums.map(mean);
    table.row(&[
        profile.name,
        &whole(scored),
        &whole(count("abstain")),
        &whole(count("error")),
        &total,
        &format,
        &type_term,
        &param,
        &executor,
    ]);
    format!("{table}\nMeans over the scored rows. Written to {}", out.display())
}

/// A row on which two profiles disagree.
struct Disagreement {
    id: String,
    line: u64,
    totals: [Option<f64>; 2],
    reasons: [String; 2],
}

/// Compares two profiles on stored replies.
///
/// # Errors
/// Those of [`run`].
pub fn diff(args: &ScoreDiffArgs) -> Result<()> {
    let ScoreDiffArgs { input, profile, against, show } = args;
    let profiles = [profile, against].map(|name| Profile::named(name).map_err(anyhow::Error::msg));
    let [first, second] = profiles;
    let profiles = [first?, second?];
    let (mut rows, mut shown, mut count) = (0_u64, Vec::new(), 0_u64);
    let mut sums = [Tally::default(), Tally::default()];
    blocks(
        input,
        |item| diff_block(item, profiles, *show),
        |block| {
            rows += block.rows;
            count += block.disagreements;
            sums.iter_mut().zip(&block.tallies).for_each(|(sum, tally)| sum.merge(tally));
            shown.extend(block.shown.into_iter().take(show.saturating_sub(shown.len())));
            Ok(())
        },
    )?;
    table::print(&diff_table(profiles, &shown).to_string());
    let mean = |i: usize| {
        let scored = sums[i].outcomes.get("score").copied().unwrap_or_default();
        let total = sums[i].sums[0] / scored.max(1) as f64;
        format!("{}: mean total {total:.4} over {scored} scored rows", profiles[i].name)
    };
    table::print(&format!("\n{count} of {rows} rows differ. {}; {}", mean(0), mean(1)));
    Ok(())
}

struct DiffBlock {
    rows: u64,
    disagreements: u64,
    tallies: [Tally; 2],
    shown: Vec<Disagreement>,
}

fn diff_block(item: &Item, profiles: [&Profile; 2], show: usize) -> Result<DiffBlock> {
    let mut block =
        DiffBlock { rows: 0, disagreements: 0, tallies: <[Tally; 2]>::default(), shown: Vec::new() };
    for_each_row(item, |line, row| {
        block.rows += 1;
        let outcomes = match &row {
            Ok(row) => profiles.map(|profile| row.score(profile)),
            Err(reason) => profiles.map(|_| Outcome::Error { reason: reason.clone() }),
        };
        block.tallies.iter_mut().zip(&outcomes).for_each(|(tally, outcome)| tally.add(outcome));
        let totals = [0, 1].map(|i: usize| outcomes[i].score().map(|s| s.total));
        if totals == [0, 1].map(|_| totals[0]) && outcomes[0].name() == outcomes[1].name() {
            return;
        }
        block.disagreements += 1;
        if block.shown.len() < show {
            let id = row.ok().and_then(|row| row.id.map(|id| id.get().trim_matches('"').to_owned()));
            let reasons = outcomes.map(|outcome| match outcome {
                Outcome::Score(score) => score.reason,
                Outcome::Abstain { reason } | Outcome::Error { reason } => reason,
            });
            block.shown.push(Disagreement { id: id.unwrap_or_default(), line, totals, reasons });
        }
    })?;
    Ok(block)
}

fn diff_table(profiles: [&Profile; 2], shown: &[Disagreement]) -> Table {
    let [a, b] = profiles.map(|p| p.name);
    let why = [a, b].map(|name| format!("why ({name})"));
    let mut table = Table::new(&["line", "id", a, b, &why[0], &why[1]]);
    for row in shown {
        let [first, second] = row.totals.map(|t| t.map_or("–".to_owned(), |t| format!("{t:.3}")));
        table.row(&[&row.line.to_string(), &row.id, &first, &second, &row.reasons[0], &row.reasons[1]]);
    }
    table
}
