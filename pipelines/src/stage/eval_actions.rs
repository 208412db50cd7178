//! `eval actions`: Type, GR and SR (CES, section 5.1) of stored replies, or of an executor on a run's steps; by application, action type and episode length, with bootstrap intervals.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::json;
use tracemill_data::action::{FrameName, Verb};
use tracemill_data::artifact::Truth;
use tracemill_data::grammar::{parse_action, vocabulary};
use tracemill_data::trace::{EpisodeRow, Screen, StepRow, read_episodes};
use tracemill_models::metrics::{ActionMetrics, Rate, StepScore, action_metrics};
use tracemill_models::rl::{Outcome, Profile};

use super::score::{Row, for_each_row};
use crate::chat::Image;
use crate::cli::ActionsEvalArgs;
use crate::executor::{Command, Gesture, Phrasing, Reply, is_ambiguous, phrasings};
use crate::observed::{Cost, Observed};
use crate::reward::Rewarder;
use crate::run::{Run, write_json};
use crate::settings::{RewardSection, Settings};
use crate::stage::observe::Shown;
use crate::table::{self, Table};

/// One evaluated step.
#[derive(Debug, Serialize)]
struct Evaluated {
    id: String,
    episode: String,
    app: String,
    /// Steps of the episode; of stored replies, its rows.
    steps: usize,
    /// The true action's verb.
    action: String,
    /// Name of the phrasing, `source` for the data's own instruction, empty for stored replies.
    phrasing: String,
    /// The words of the instruction fit several elements.
    ambiguous: bool,
    /// The executor said that several elements fit.
    said_ambiguous: bool,
    instruction: String,
    reply: String,
    /// The reply names the true element, where the truth has one and the action touches it.
    element_right: Option<bool>,
    #[serde(flatten)]
    outcome: Outcome,
}

/// Evaluates stored replies (`--input`), or the executor of the settings on a run (`--run`).
///
/// # Errors
/// An unknown profile, missing traces, rows that cannot be read, nothing to evaluate.
pub fn run(settings: &Settings, args: &ActionsEvalArgs) -> Result<()> {
    let profile = Profile::named(&args.profile).map_err(anyhow::Error::msg)?;
    let mut cost = None;
    let (rows, folder, executor) = match (&args.input, &args.run) {
        (Some(input), _) => (stored(input, profile)?, args.out.clone(), "stored".to_owned()),
        (None, Some(dir)) => {
            let run = Run::existing(dir)?;
            let section = RewardSection { profile: args.profile.clone(), ..settings.reward.clone() };
            let rewarder = Rewarder::open(&section, args.images.as_deref())?;
            let pictures = args.images.is_some();
            let asked = |shown| Observed::asked(&run, shown, pictures, &settings.observe.tokens);
            let observed = args.observation.map(asked).transpose()?;
            let sight = Sight {
                pictures: pictures && args.observation != Some(Shown::Elements),
                observed: observed.flatten(),
            };
            let (rows, seen) = executed(&run, &rewarder, args.phrasings, &sight)?;
            cost = seen;
            (rows, Some(args.out.clone().unwrap_or_else(|| run.path("eval"))), rewarder.executor_name())
        }
        (None, None) => bail!("give --run R (an executor on its steps) or --input rows.jsonl"),
    };
    if rows.iter().all(|row| row.outcome.score().is_none()) {
        bail!("no step could be scored: the steps need elements or boxes, and instructions (or --phrasings)");
    }
    let groups = groups(&rows, args.resamples, args.seed);
    let result = json!({
        "profile": profile.name, "profile_version": profile.version, "executor": executor,
        "vocabulary_version": vocabulary().version, "resamples": args.resamples, "seed": args.seed,
        "observations": cost,
        "not_scored": rows.iter().filter(|r| r.outcome.score().is_none()).count(),
        "groups": groups,
    });
    if let Some(folder) = &folder {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        write_rows(&folder.join("actions.jsonl"), &rows)?;
        write_json(&folder.join("actions.json"), &result)?;
    }
    if args.json {
        table::print(&serde_json::to_string_pretty(&result)?);
        return Ok(());
    }
    print_groups(&groups);
    if args.phrasings {
        print_phrasings(&rows);
    }
    if let Some(cost) = &cost {
        table::print(&format!("\n{cost}"));
    }
    let rows_at = folder.map(|f| format!(" Rows: {}", f.join("actions.jsonl").display())).unwrap_or_default();
    table::print(&format!(
        "\nProfile {}, executor {executor}; 95 % intervals by bootstrap over episodes.{rows_at}",
        profile.name
    ));
    Ok(())
}

fn write_rows(path: &Path, rows: &[Evaluated]) -> Result<()> {
    let mut file = BufWriter::new(File::create(path).with_context(|| path.display().to_string())?);
    for row in rows {
        serde_json::to_writer(&mut file, row)?;
        file.write_all(b"\n")?;
    }
    Ok(file.flush()?)
}

/// Rows of a file as `score` reads them; `episode` and `app` group them.
fn stored(input: &Path, profile: &Profile) -> Result<Vec<Evaluated>> {
    let mut rows: Vec<Evaluated> = Vec::new();
    let item = tracemill_data::adapters::Item::whole(input.to_owned());
    for_each_row(&item, |line, row| {
        let (row, fault) = match row {
            Ok(row) => (row, None),
            Err(reason) => (Row::default(), Some(reason)),
        };
        let id = row.id.map_or_else(|| format!("line {line}"), |id| id.get().trim_matches('"').to_owned());
        let truth = row.truth.as_ref();
        rows.push(Evaluated {
            episode: row.episode.as_deref().map_or_else(|| id.clone(), str::to_owned),
            id,
            app: row.app.as_deref().unwrap_or_default().to_owned(),
            steps: 0,
            action: truth.map(|t| verb_name(t).to_owned()).unwrap_or_default(),
            phrasing: String::new(),
            ambiguous: false,
            said_ambiguous: false,
            instruction: String::new(),
            reply: row.prediction.as_deref().unwrap_or_default().to_owned(),
            element_right: None,
            outcome: fault.map_or_else(|| row.score(profile), |reason| Outcome::Error { reason }),
        });
    })?;
    let mut lengths: BTreeMap<String, usize> = BTreeMap::new();
    rows.iter().for_each(|row| *lengths.entry(row.episode.clone()).or_default() += 1);
    rows.iter_mut().for_each(|row| row.steps = lengths[&row.episode]);
    Ok(rows)
}

/// The canonical name of the truth's action, or its own where the vocabulary has none.
fn verb_name(truth: &Truth) -> &str {
    vocabulary().meaning(&truth.action).map_or(truth.action.as_str(), |m| m.verb.name())
}

/// Steps that are executed at a time: enough to keep several endpoints busy.
const BATCH: usize = 2_048;

/// The executor on every step that shows something and has, or can be given, an instruction.
fn executed(
    run: &Run,
    rewarder: &Rewarder,
    worded: bool,
    sight: &Sight,
) -> Result<(Vec<Evaluated>, Option<Cost>)> {
    run.require("traces/steps.parquet", "ingest")?;
    let phrasings = if worded { phrasings()? } else { Vec::new() };
    let (mut rows, mut waiting, mut cost) = (Vec::new(), Vec::new(), Cost::default());
    for episode in read_episodes(&run.path("traces"))? {
        let (episode, steps) = episode?;
        for step in &steps {
            let screen = step.screen();
            let shown = screen.screenshot.as_deref().filter(|_| sight.pictures && screen.screenshot_found);
            let picture = shown.map(|path| rewarder.picture(path)).transpose()?;
            if screen.elements.is_empty() && picture.is_none() {
                continue;
            }
            let asked = instructions(step, &screen, &phrasings)?;
            if asked.is_empty() {
                continue;
            }
            let observed = sight.observed.as_ref().map(|o| o.shown(step, &mut cost)).transpose()?;
            let seen = observed.as_ref().unwrap_or(step);
            for asked in asked {
                waiting.push(Waiting {
                    truth: seen.truth(),
                    row: blank(&episode, step, asked),
                    screen: seen.screen(),
                    picture: picture.clone(),
                });
            }
        }
        if waiting.len() >= BATCH {
            rows.extend(evaluate(rewarder, std::mem::take(&mut waiting))?);
        }
    }
    rows.extend(evaluate(rewarder, waiting)?);
    Ok((rows, sight.observed.is_some().then_some(cost)))
}

/// What an executor is shown of a screen.
struct Sight {
    pictures: bool,
    observed: Option<Observed>,
}

/// A step that is to be executed.
struct Waiting {
    row: Evaluated,
    truth: Truth,
    screen: Screen,
    picture: Option<Image>,
}

/// An instruction, and what is known of it.
struct Asked {
    instruction: String,
    phrasing: String,
    ambiguous: bool,
}

fn instructions(step: &StepRow, screen: &Screen, phrasings: &[Phrasing]) -> Result<Vec<Asked>> {
    if phrasings.is_empty() {
        let own = step.instruction.iter().map(|instruction| Asked {
            instruction: instruction.clone(),
            phrasing: "source".to_owned(),
            ambiguous: false,
        });
        return Ok(own.collect());
    }
    let gesture = match step.verb().map_err(anyhow::Error::msg)? {
        Verb::Click => Gesture::Touch,
        Verb::Type => Gesture::Type(step.text.as_deref().unwrap_or_default()),
        Verb::Back => Gesture::Back,
        _ => return Ok(Vec::new()),
    };
    let target = step.target_element.as_ref().and_then(|id| screen.elements.iter().find(|e| e.id == *id));
    let Some(target) = target else { return Ok(Vec::new()) };
    let mut asked = Vec::new();
    for phrasing in phrasings {
        if let Some(worded) = phrasing.word(gesture, target)? {
            asked.push(Asked {
                ambiguous: is_ambiguous(&worded.used, target, &screen.elements),
                instruction: worded.instruction,
                phrasing: phrasing.name.clone(),
            });
        }
    }
    Ok(asked)
}

/// A row before it is executed.
fn blank(episode: &EpisodeRow, step: &StepRow, asked: Asked) -> Evaluated {
    Evaluated {
        id: format!("{}#{}", step.episode_id, step.step),
        episode: step.episode_id.clone(),
        app: step.app.clone().unwrap_or_else(|| episode.app.clone()),
        steps: episode.steps as usize,
        action: step.action.clone(),
        phrasing: asked.phrasing,
        ambiguous: asked.ambiguous,
        said_ambiguous: false,
        instruction: asked.instruction,
        reply: String::new(),
        element_right: None,
        outcome: Outcome::Abstain { reason: String::new() },
    }
}

fn evaluate(rewarder: &Rewarder, waiting: Vec<Waiting>) -> Result<Vec<Evaluated>> {
    let commands: Vec<Command<'_>> = waiting
        .iter()
        .map(|w| Command { instruction: &w.row.instruction, screen: &w.screen, image: w.picture.as_ref() })
        .collect();
    let truths: Vec<Truth> = waiting.iter().map(|w| w.truth.clone()).collect();
    let done = rewarder.act(&commands, &truths)?;
    rewarder.check_failures()?;
    Ok(waiting.into_iter().zip(done).map(|(w, (outcome, reply))| filled(w, outcome, reply)).collect())
}

fn filled(waiting: Waiting, outcome: Outcome, reply: Option<Reply>) -> Evaluated {
    let Waiting { row, truth, .. } = waiting;
    let touches = matches!(row.action.as_str(), "click" | "long_press" | "type");
    let element_right = truth.element.as_ref().filter(|_| touches).map(|wanted| {
        let parsed = outcome.score().and_then(|s| parse_action(s.parsed.as_deref()?, FrameName::Pixels).ok());
        parsed.is_some_and(|p| p.action.target.element.as_ref() == Some(wanted))
    });
    let (reply, said_ambiguous) = reply.map(|r| (r.text, !r.ambiguous.is_empty())).unwrap_or_default();
    Evaluated { said_ambiguous, reply, element_right, outcome, ..row }
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct Group {
    by: &'static str,
    name: String,
    #[serde(flatten)]
    metrics: ActionMetrics,
}

fn groups(rows: &[Evaluated], resamples: u32, seed: u64) -> Vec<Group> {
    let keys: [(&'static str, &dyn Fn(&Evaluated) -> String); 5] = [
        ("all", &|_| "all".to_owned()),
        ("app", &|r| r.app.clone()),
        ("action", &|r| r.action.clone()),
        ("episode length", &|r| bucket(r.steps)),
        ("phrasing", &|r| r.phrasing.clone()),
    ];
    let mut groups = Vec::new();
    for (by, key) in keys {
        let mut steps: BTreeMap<String, Vec<StepScore>> = BTreeMap::new();
        for row in rows {
            let name = key(row);
            if let Some(step) = step_score(row).filter(|_| !name.is_empty()) {
                steps.entry(name).or_default().push(step);
            }
        }
        groups.extend(steps.into_iter().map(|(name, steps)| Group {
            by,
            name,
            metrics: action_metrics(&steps, resamples, seed),
        }));
    }
    groups
}

/// The group of an episode's length.
pub(super) fn bucket(steps: usize) -> String {
    match steps {
        0..=5 => "1-5 steps",
        6..=10 => "6-10 steps",
        11..=20 => "11-20 steps",
        _ => "over 20 steps",
    }
    .to_owned()
}

/// A step as the metrics count it; `None` when it has no score.
fn step_score(row: &Evaluated) -> Option<StepScore> {
    let score = row.outcome.score()?;
    let type_right = score.type_term > 0.0;
    Some(StepScore {
        episode: row.episode.clone(),
        type_right,
        right: type_right && score.param > 0.0 && row.element_right != Some(false),
        grounds: matches!(row.action.as_str(), "click" | "long_press"),
    })
}

/// A rate with its interval, in percent.
pub(super) fn percent(rate: Rate) -> String {
    match (rate.rate, rate.low, rate.high) {
        (Some(rate), Some(low), Some(high)) => {
            format!("{:.1} ({:.1}–{:.1})", 100.0 * rate, 100.0 * low, 100.0 * high)
        }
        (Some(rate), ..) => format!("{:.1}", 100.0 * rate),
        (None, ..) => "–".to_owned(),
    }
}

fn print_groups(groups: &[Group]) {
    let mut rows = Table::new(&["by", "group", "episodes", "steps", "Type %", "GR %", "SR %"]);
    for Group { by, name, metrics } in groups {
        rows.row(&[
            by,
            name,
            &metrics.episodes.to_string(),
            &metrics.type_rate.steps.to_string(),
            &percent(metrics.type_rate),
            &percent(metrics.gr),
            &percent(metrics.sr),
        ]);
    }
    table::print(&rows.to_string());
}

/// Right steps by application and phrasing; those whose words fit several elements apart.
fn print_phrasings(rows: &[Evaluated]) {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.phrasing.as_str()) {
            names.push(&row.phrasing);
        }
    }
    let share = |of: &[&Evaluated]| {
        let right = of.iter().filter(|r| step_score(r).is_some_and(|s| s.right)).count();
        match of.len() {
            0 => "–".to_owned(),
            n => format!("{:.1} ({n})", 100.0 * right as f64 / n as f64),
        }
    };
    for (ambiguous, title) in [
        (false, "Right steps in %, by application and phrasing (steps in brackets):"),
        (true, "The same where the words used fit several elements:"),
    ] {
        let header: Vec<&str> = ["application"].into_iter().chain(names.iter().copied()).collect();
        let mut table = Table::new(&header);
        let mut apps: Vec<&str> = rows.iter().map(|r| r.app.as_str()).collect();
        apps.sort_unstable();
        apps.dedup();
        for app in apps.into_iter().map(Some).chain([None]) {
            let of_app = |r: &&Evaluated| app.is_none_or(|a| r.app == a) && r.ambiguous == ambiguous;
            let cells: Vec<String> = names
                .iter()
                .map(|name| {
                    share(&rows.iter().filter(of_app).filter(|r| r.phrasing == *name).collect::<Vec<_>>())
                })
                .collect();
            let line: Vec<&str> =
                [app.unwrap_or("all")].into_iter().chain(cells.iter().map(String::as_str)).collect();
            table.row(&line);
        }
        table::print(&format!("\n{title}\n{table}"));
    }
}
