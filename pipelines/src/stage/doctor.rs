//! `doctor`: is an endpoint, and a pool of tasks, fit for hours of training? Asked before they are spent.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tracemill_data::action::{Action, FrameName, ScreenSize, Verb};
use tracemill_data::artifact::{AgentPrompt, AgentRole};
use tracemill_data::grammar::{Reply, parse_action, write_action};
use tracemill_data::prompt::Shown;
use tracemill_models::rl::{Outcome, score_action};

use super::doctor_dataset;
use crate::chat::{
    BlockingClient, ChatRequest, ChatSettings, EndpointReport, Finding, Outcome as Called, probe_blocking,
};
use crate::cli::DoctorArgs;
use crate::executor::{Coordinates, ask};
use crate::reward::{AgentRow, Rewarded, Rewarder};
use crate::settings::Settings;
use crate::table::{self, Table};

/// Share of groups without a difference in reward above which training has little to learn from.
const MANY_DEAD: f64 = 0.5;
/// Share of executor replies without an action above which prompt and model do not fit.
const MANY_UNREAD: f64 = 0.05;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Good,
    Note,
    Bad,
}

/// One line of the diagnosis.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    check: String,
    verdict: Verdict,
    found: String,
    remedy: String,
}

impl Check {
    /// A line; what is good needs no remedy.
    pub(super) fn new(check: &str, verdict: Verdict, found: impl Into<String>, remedy: &str) -> Self {
        let remedy = if verdict == Verdict::Good { String::new() } else { remedy.to_owned() };
        Self { check: check.to_owned(), verdict, found: found.into(), remedy }
    }
}

/// One prompt of a pool with the outputs of its group.
#[derive(Debug, Deserialize)]
struct Group {
    /// Several outputs for the same prompt. Where there are none, the roles of `[ces]` are asked.
    #[serde(default)]
    outputs: Vec<String>,
    #[serde(flatten)]
    prompt: AgentPrompt,
}

/// Checks the grammar, the endpoints of the settings, and with `--input` a pool of tasks.
///
/// # Errors
/// Settings that cannot work, a pool that cannot be read, and, once everything is printed, a check that
/// is bad.
pub fn run(settings: &Settings, args: &DoctorArgs) -> Result<()> {
    let mut checks = vec![grammar()];
    for (name, chat) in
        [("executor", &settings.reward.endpoint), ("coordinator", &settings.reward.coordinator)]
    {
        if !chat.endpoints.is_empty() {
            checks.extend(endpoints(name, chat)?);
        }
    }
    if let Some(input) = &args.input {
        let rewarder = Rewarder::open(&settings.reward, args.images.as_deref())?;
        // What was found so far is shown, whatever becomes of the pool.
        checks.extend(
            pool(settings, args, input, &rewarder).unwrap_or_else(|e| {
                vec![Check::new("pool", Verdict::Bad, format!("{e:#}"), "see the reason")]
            }),
        );
    }
    if !args.dataset.is_empty() {
        let found = doctor_dataset::checks(&args.dataset, args.run.as_deref(), args.images.as_deref())?;
        checks.extend(found);
    }
    if args.json {
        table::print(&serde_json::to_string_pretty(&checks)?);
    } else {
        let mut rows = Table::new(&["check", "verdict", "found", "remedy"]);
        for Check { check, verdict, found, remedy } in &checks {
            rows.row(&[check, &format!("{verdict:?}").to_lowercase(), found, remedy]);
        }
        table::print(&rows.to_string());
    }
    match checks.iter().filter(|c| c.verdict == Verdict::Bad).count() {
        0 => Ok(()),
        bad => bail!("{bad} checks are bad"),
    }
}

/// Every verb written as text must be read back as itself.
fn grammar() -> Check {
    let wrong: Vec<&str> = Verb::ALL
        .into_iter()
        .filter(|&verb| {
            let action = Action { text: Some("a".to_owned()), ..Action::new(verb, "") };
            parse_action(&write_action(&action), FrameName::Pixels).map(|p| p.action.verb) != Ok(verb)
        })
        .map(Verb::name)
        .collect();
    let verdict = if wrong.is_empty() { Verdict::Good } else { Verdict::Bad };
    let found = match wrong.as_slice() {
        [] => format!("{} verbs are read back as written", Verb::ALL.len()),
        wrong => format!("not read back: {}", wrong.join(", ")),
    };
    Check::new("action grammar", verdict, found, "the vocabulary lacks a word: report it")
}

fn endpoints(name: &str, chat: &ChatSettings) -> Result<Vec<Check>> {
    let reports = probe_blocking(chat)?;
    Ok(reports.iter().flat_map(|report| endpoint(name, report)).collect())
}

fn endpoint(name: &str, report: &EndpointReport) -> Vec<Check> {
    if let Err(error) = &report.models {
        let check = format!("{name} {}", report.endpoint);
        return vec![Check::new(
            &check,
            Verdict::Bad,
            error.to_string(),
            "start the server, or mend `base_url`",
        )];
    }
    let check = |what: &str, finding: &Finding, needed: bool, remedy: &str| {
        let worst = if needed { Verdict::Bad } else { Verdict::Note };
        let (verdict, found) = match finding {
            Finding::Yes => (Verdict::Good, "yes".to_owned()),
            Finding::No { reason } => (worst, format!("no: {reason}")),
            Finding::Undecided { reason } => (Verdict::Note, format!("not clear: {reason}")),
            Finding::Failed { error } => (worst, error.to_string()),
        };
        Check::new(&format!("{name} {}: {what}", report.endpoint), verdict, found, remedy)
    };
    vec![
        check(
            "serves the model",
            &report.has_model,
            true,
            "start the server with this served name, or change `model`",
        ),
        check("honours seeds", &report.seed, false, "replay from the ledger; new runs will differ"),
        check("response_format", &report.response_format, false, "replies are parsed as free text"),
        check(
            "structured_outputs (vLLM)",
            &report.structured_outputs,
            false,
            "replies are parsed as free text",
        ),
        check("takes images", &report.images, false, "use screens with elements"),
    ]
}

/// Rewards the groups of a pool: how many of them say nothing, how many calls fail, how many replies hold
/// no action, and whether the coordinates are what the settings say.
fn pool(settings: &Settings, args: &DoctorArgs, input: &Path, rewarder: &Rewarder) -> Result<Vec<Check>> {
    let mut groups = read_pool(input, args.prompts)?;
    let mut checks = sample(settings, args.outputs, rewarder, &mut groups)?;
    let rows: Vec<AgentRow> = groups
        .iter()
        .flat_map(|group| {
            let row = |output: &String| AgentRow { prompt: group.prompt.clone(), output: output.clone() };
            group.outputs.iter().map(row)
        })
        .collect();
    let rewarded = rewarder.reward_all(&rows)?;
    let mut at = 0;
    let (mut dead, mut usable) = (0_usize, 0_usize);
    for group in &groups {
        let totals: Vec<f64> = rewarded[at..at + group.outputs.len()]
            .iter()
            .filter_map(|r| r.reward.as_ref().map(|r| r.total))
            .collect();
        at += group.outputs.len();
        // A group of one teaches nothing either.
        if !totals.is_empty() {
            usable += 1;
            dead += usize::from(totals.iter().all(|t| (t - totals[0]).abs() < 1e-9));
        }
    }
    checks.push(dead_groups(dead, usable));
    checks.push(failures(&rewarded));
    checks.push(unread(&rewarded));
    checks.push(coordinates(rewarder, &rows, &rewarded));
    Ok(checks)
}

/// Draws the outputs of the groups that have none from the roles of the settings, at temperature 1.
fn sample(
    settings: &Settings,
    outputs: u32,
    rewarder: &Rewarder,
    groups: &mut [Group],
) -> Result<Vec<Check>> {
    let missing: Vec<usize> = (0..groups.len()).filter(|&i| groups[i].outputs.is_empty()).collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let mut checks = Vec::new();
    for role in [AgentRole::Coordinator, AgentRole::StateTracker] {
        let of_role: Vec<usize> =
            missing.iter().copied().filter(|&i| groups[i].prompt.role == role).collect();
        if of_role.is_empty() {
            continue;
        }
        let chat = policy(settings, role).with_context(|| {
            format!(
                "{} rows have no `outputs`: store some in the pool, or set ces.trained.{key}.endpoints \
                 (or ces.prompted.{key}) to have them drawn",
                of_role.len(),
                key = role.name().replace('-', "_"),
            )
        })?;
        let client = BlockingClient::open(chat)?;
        let mut requests = Vec::with_capacity(of_role.len() * outputs as usize);
        for &i in &of_role {
            let prompt = &groups[i].prompt;
            for replica in 0..outputs {
                let mut request = asked(&client, prompt, rewarder, settings.reward.max_tokens)?;
                request.sampling.temperature = 1.0;
                request.sampling.seed = Some(settings.seed);
                request.replica = replica;
                requests.push(request);
            }
        }
        let mut failed = 0_u64;
        for (n, outcome) in client.call_all(&requests, |_, _| {})?.into_iter().enumerate() {
            match outcome {
                Called::Reply(reply) => groups[of_role[n / outputs as usize]].outputs.push(reply.text),
                Called::Failed(_) => failed += 1,
            }
        }
        let verdict = if failed == 0 { Verdict::Good } else { Verdict::Bad };
        let found = format!(
            "{} outputs drawn for {} prompts, {failed} calls failed",
            requests.len() as u64 - failed,
            of_role.len()
        );
        checks.push(Check::new(&format!("{} outputs", role.name()), verdict, found, "see the ledger"));
    }
    Ok(checks)
}

/// The endpoint that plays a role: trained, else prompted.
fn policy(settings: &Settings, role: AgentRole) -> Option<&ChatSettings> {
    [settings.ces.trained.chat(role), settings.ces.prompted.chat(role)]
        .into_iter()
        .find(|chat| !chat.endpoints.is_empty())
}

/// What a role is asked in a row of the pool.
fn asked(
    client: &BlockingClient,
    prompt: &AgentPrompt,
    rewarder: &Rewarder,
    max_tokens: u32,
) -> Result<ChatRequest> {
    let mut values = BTreeMap::from([("task", prompt.task.clone()), ("state", prompt.state.clone())]);
    if prompt.role == AgentRole::StateTracker {
        values.insert("executor_output", prompt.executor_output.clone());
        return Ok(ask(client, "state-tracker", values, Shown::Nothing, None, max_tokens)?);
    }
    let image = prompt.screen.image.as_deref().map(|path| rewarder.picture(path)).transpose()?;
    let shown = Shown::of(image.is_some(), &prompt.screen.elements);
    Ok(ask(client, "coordinator", values, shown, image.as_ref(), max_tokens)?)
}

fn read_pool(input: &Path, prompts: usize) -> Result<Vec<Group>> {
    let file = File::open(input).with_context(|| format!("--input {}", input.display()))?;
    let mut groups = Vec::new();
    for (line, number) in BufReader::new(file).lines().zip(1_u64..) {
        let at = || format!("{} line {number}", input.display());
        let line = line.with_context(at)?;
        if !line.trim().is_empty() {
            groups.push(serde_json::from_str(&line).with_context(at)?);
        }
        if groups.len() == prompts {
            break;
        }
    }
    if groups.is_empty() {
        bail!("{}: the pool is empty", input.display());
    }
    Ok(groups)
}

fn dead_groups(dead: usize, usable: usize) -> Check {
    let share = dead as f64 / usable.max(1) as f64;
    let verdict = match usable {
        0 => Verdict::Bad,
        _ if share > MANY_DEAD => Verdict::Bad,
        _ if share > MANY_DEAD / 2.0 => Verdict::Note,
        _ => Verdict::Good,
    };
    let found = format!("{dead} of {usable} groups have equal rewards ({:.0} %)", 100.0 * share);
    Check::new(
        "dead groups",
        verdict,
        found,
        "raise the temperature, take harder or easier tasks, or larger groups",
    )
}

fn failures(rewarded: &[Rewarded]) -> Check {
    let reasons: Vec<&str> = rewarded
        .iter()
        .filter_map(|r| match &r.executed {
            Outcome::Error { reason } | Outcome::Abstain { reason } => Some(reason.as_str()),
            Outcome::Score(_) => None,
        })
        .collect();
    let verdict = if reasons.is_empty() { Verdict::Good } else { Verdict::Bad };
    let first = reasons.first().map(|r| format!("; the first: {r}")).unwrap_or_default();
    let found = format!("{} of {} outputs have no reward{first}", reasons.len(), rewarded.len());
    Check::new("outputs without reward", verdict, found, "see the reason; such samples leave their group")
}

fn unread(rewarded: &[Rewarded]) -> Check {
    let replies: Vec<&str> = rewarded.iter().filter_map(|r| r.reply.as_deref()).collect();
    let is_unread = |reply: &&&str| parse_action(Reply::of(reply).content(), FrameName::Pixels).is_err();
    let unread: Vec<&&str> = replies.iter().filter(is_unread).collect();
    let share = unread.len() as f64 / replies.len().max(1) as f64;
    let verdict = match share {
        s if s > MANY_UNREAD => Verdict::Bad,
        s if s > 0.0 => Verdict::Note,
        _ => Verdict::Good,
    };
    let first = unread.first().map(|r| format!("; the first: {}", r.chars().take(80).collect::<String>()));
    let found = format!(
        "{} of {} executor replies hold no action{}",
        unread.len(),
        replies.len(),
        first.unwrap_or_default()
    );
    Check::new("executor replies", verdict, found, "check the prompt and the served model")
}

/// Which reading of the executor's points makes most of them hit.
fn coordinates(rewarder: &Rewarder, rows: &[AgentRow], rewarded: &[Rewarded]) -> Check {
    let all = Coordinates::ALL;
    let (mut hits, mut points) = ([0_usize; 4], 0_usize);
    for (row, rewarded) in rows.iter().zip(rewarded) {
        let (Some(reply), true) =
            (&rewarded.reply, row.prompt.screen.width > 0 && row.prompt.screen.height > 0)
        else {
            continue;
        };
        let size = ScreenSize { width_px: row.prompt.screen.width, height_px: row.prompt.screen.height };
        let Ok(parsed) = parse_action(Reply::of(reply).content(), FrameName::Pixels) else { continue };
        let pointed = matches!(parsed.action.verb, Verb::Click | Verb::LongPress);
        if !pointed || parsed.action.point.is_none() {
            continue;
        }
        points += 1;
        for (i, coordinates) in all.into_iter().enumerate() {
            let Some(action) = rewarder.in_pixels(coordinates, parsed.action.clone(), size) else { continue };
            let scored =
                score_action(rewarder.profile(), &action, true, &row.prompt.truth, Some(size.into()));
            hits[i] += usize::from(scored.score().is_some_and(|s| s.param > 0.0));
        }
    }
    let set = all.iter().position(|c| *c == rewarder.coordinates()).unwrap_or(0);
    let best = (0..all.len()).max_by_key(|&i| (hits[i], i == set)).unwrap_or(0);
    let counts: Vec<String> = all.iter().zip(hits).map(|(c, n)| format!("{} {n}", c.name())).collect();
    let found = format!("{points} points; hits as {}", counts.join(", "));
    let verdict = match points {
        0 => Verdict::Note,
        _ if hits[best] == 0 => Verdict::Note,
        _ if best == set => Verdict::Good,
        _ => Verdict::Bad,
    };
    Check::new("coordinate space", verdict, found, "set reward.coordinates to the frame with most hits")
}
