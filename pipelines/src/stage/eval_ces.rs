//! `eval ces`: the whole loop over recorded episodes in several setups: tables 1 to 3 and figure 5 of CES, on
//! one's own data, with intervals over tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::json;
use tracemill_data::export::Lineage;
use tracemill_data::grammar::vocabulary;
use tracemill_data::parquet_io::read_table;
use tracemill_models::metrics::{ActionMetrics, StepScore, action_metrics};
use tracemill_models::rl::Profile;

use super::eval_actions::{bucket, percent};
use crate::ces::{Class, Frozen, LeftOut, Loop, Selection, StepResult, Task, classify, read_tasks, setups};
use crate::cli::CesEvalArgs;
use crate::observed::Observed;
use crate::progress;
use crate::reward::Rewarder;
use crate::run::{Run, write_json};
use crate::settings::{RewardSection, Settings};
use crate::stage::observe::Shown;
use crate::table::{self, Table};

/// One setup's figures.
#[derive(Debug, Serialize)]
struct Measured {
    setup: String,
    metrics: ActionMetrics,
    /// Tasks all of whose steps are right, and tasks.
    whole: (u64, u64),
    /// Steps whose call failed, or that have nothing to be scored by.
    not_scored: u64,
    failures: BTreeMap<&'static str, u64>,
    groups: Vec<Group>,
}

/// Figures of a part of the steps.
#[derive(Debug, Serialize)]
struct Group {
    by: &'static str,
    name: String,
    metrics: ActionMetrics,
}

/// Evaluates the loop.
///
/// # Errors
/// Missing traces, roles without endpoints, an evaluation that is not as it was frozen, nothing to evaluate.
pub fn run(settings: &Settings, args: &CesEvalArgs) -> Result<()> {
    let profile = Profile::named(&args.profile).map_err(anyhow::Error::msg)?;
    let run = Run::existing(&args.run)?;
    let section = RewardSection { profile: args.profile.clone(), ..settings.reward.clone() };
    let rewarder = Rewarder::open(&section, args.images.as_deref())?;
    let setups = setups(&settings.ces, &args.setup)?;
    let frozen = args.frozen.as_deref().map(Frozen::read).transpose()?;
    let dataset = args.dataset.as_deref().map(Trained::read).transpose()?;
    if let Some(dataset) = dataset.as_ref().filter(|d| d.test.is_empty()) {
        bail!(
            "--dataset has no test split ({} training applications): export it with --test-share, or name the episodes \
             with --frozen",
            dataset.apps.len()
        );
    }
    let only = frozen.as_ref().map(Frozen::ids).or_else(|| dataset.as_ref().map(|d| d.test.clone()));
    // The built-in executor reads elements only: a screen that is a picture is nothing to it.
    let pictures = args.images.is_some() && section.executor != "lexical";
    let asked = |shown| Observed::asked(&run, shown, pictures, &settings.observe.tokens);
    let observed = args.observation.map(asked).transpose()?.flatten();
    let pictures = pictures && args.observation != Some(Shown::Elements);
    let selection = Selection { only, limit: args.limit, pictures, observed };
    let (tasks, left_out) = read_tasks(&run, &rewarder, &selection)?;
    if tasks.is_empty() {
        bail!(
            "no episode to evaluate: they need a task, and screens with elements, or --images DIR and an executor that \
             looks (reward.executor = \"endpoint\")"
        );
    }
    let now = Frozen::of(&tasks, profile, &rewarder.executor_name());
    if let Some(frozen) = &frozen {
        frozen.check(&now)?;
    }
    let out = args.out.clone().unwrap_or_else(|| run.path("eval/ces"));
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    write_json(&out.join("frozen.json"), &now)?;
    if let Some(path) = &args.freeze {
        write_json(path, &now)?;
    }
    let looping = Loop { rewarder: &rewarder, max_tokens: section.max_tokens };
    let apps = dataset.as_ref().map(|d| &d.apps);
    let mut measured = Vec::new();
    for setup in &setups {
        let steps = tasks.iter().map(|t| t.steps.len() as u64).sum();
        let bar = progress::bar("eval ces", &setup.name, Some(steps));
        let mut results = looping.walk(setup, &tasks, |n| bar.inc(n))?;
        classify(&looping, setup, &tasks, &mut results, apps)?;
        bar.finish_and_clear();
        write_rows(&out.join(format!("{}.jsonl", setup.name)), &results)?;
        measured.push(measure(&setup.name, &tasks, &results, args));
    }
    let result = json!({
        "profile": profile.name, "profile_version": profile.version, "executor": rewarder.executor_name(),
        "vocabulary_version": vocabulary().version, "resamples": args.resamples, "seed": args.seed,
        "episodes": tasks.len(), "left_out": left_out, "applications_in_training": apps, "setups": measured,
    });
    write_json(&out.join("ces.json"), &result)?;
    if args.json {
        table::print(&serde_json::to_string_pretty(&result)?);
    } else {
        print(&measured, &left_out, apps.is_some());
        table::print(&format!(
            "\nProfile {}, executor {}; 95 % intervals by bootstrap over tasks. Screens are the recorded ones. Rows: {}",
            profile.name,
            rewarder.executor_name(),
            out.display()
        ));
    }
    Ok(())
}

/// What a data set was trained on.
struct Trained {
    apps: BTreeSet<String>,
    test: BTreeSet<String>,
}

impl Trained {
    fn read(folder: &Path) -> Result<Self> {
        let rows: Vec<Lineage> = read_table(&folder.join("lineage.parquet"))
            .with_context(|| format!("--dataset {}: not an exported data set", folder.display()))?;
        let of = |split: &'static str| rows.iter().filter(move |r| r.split == split);
        Ok(Self {
            apps: of("train").map(|r| r.app.clone()).collect(),
            test: of("test").map(|r| r.episode_id.clone()).collect(),
        })
    }
}

fn write_rows(path: &Path, rows: &[StepResult]) -> Result<()> {
    let mut file = BufWriter::new(File::create(path).with_context(|| path.display().to_string())?);
    for row in rows {
        serde_json::to_writer(&mut file, row)?;
        file.write_all(b"\n")?;
    }
    Ok(file.flush()?)
}

fn measure(setup: &str, tasks: &[Task], results: &[StepResult], args: &CesEvalArgs) -> Measured {
    let metrics = |rows: &[&StepResult]| {
        let steps: Vec<StepScore> = rows.iter().filter_map(|r| r.metric()).collect();
        action_metrics(&steps, args.resamples, args.seed)
    };
    let mut whole = vec![true; tasks.len()];
    results.iter().for_each(|r| whole[r.task] &= r.right() == Some(true));
    let mut failures = BTreeMap::new();
    results.iter().filter_map(|r| r.class).for_each(|c| *failures.entry(c.name()).or_default() += 1);
    let keys: [(&'static str, &dyn Fn(&StepResult) -> String); 3] = [
        ("app", &|r| r.app.clone()),
        ("action", &|r| r.action.clone()),
        ("episode length", &|r| bucket(tasks[r.task].steps.len())),
    ];
    let mut groups = Vec::new();
    for (by, key) in keys {
        let mut parts: BTreeMap<String, Vec<&StepResult>> = BTreeMap::new();
        results.iter().for_each(|r| parts.entry(key(r)).or_default().push(r));
        groups.extend(parts.into_iter().map(|(name, rows)| Group { by, name, metrics: metrics(&rows) }));
    }
    Measured {
        setup: setup.to_owned(),
        metrics: metrics(&results.iter().collect::<Vec<_>>()),
        whole: (whole.iter().filter(|w| **w).count() as u64, tasks.len() as u64),
        not_scored: results.iter().filter(|r| r.outcome.score().is_none()).count() as u64,
        failures,
        groups,
    }
}

fn print(measured: &[Measured], left_out: &LeftOut, apps_known: bool) {
    let mut rows = Table::new(&["setup", "tasks", "steps", "Type %", "GR %", "SR %", "episodes all right"]);
    for Measured { setup, metrics, whole, .. } in measured {
        rows.row(&[
            setup,
            &metrics.episodes.to_string(),
            &metrics.sr.steps.to_string(),
            &percent(metrics.type_rate),
            &percent(metrics.gr),
            &percent(metrics.sr),
            &format!("{} of {}", whole.0, whole.1),
        ]);
    }
    table::print(&rows.to_string());
    print_failures(measured, apps_known);
    print_groups(measured);
    let LeftOut { without_task, without_screens, steps_without_screen, worded, observations } = left_out;
    let not_scored: u64 = measured.iter().map(|m| m.not_scored).max().unwrap_or(0);
    table::print(&format!(
        "\nLeft out: {without_task} episodes without a task, {without_screens} without screens, \
         {steps_without_screen} steps without a screen; at most {not_scored} steps of a setup have no score. {worded} gold instructions are worded by rule."
    ));
    if let Some(cost) = observations {
        table::print(&cost.to_string());
    }
}

/// Wrong steps by class, in percent of all scored steps.
fn print_failures(measured: &[Measured], apps_known: bool) {
    let classes: Vec<Class> =
        Class::ALL.into_iter().filter(|c| apps_known || *c != Class::Generalisation).collect();
    let header: Vec<&str> = ["setup", "wrong"].into_iter().chain(classes.iter().map(|c| c.name())).collect();
    let mut rows = Table::new(&header);
    for Measured { setup, metrics, failures, .. } in measured {
        let share = |n: u64| match n {
            0 => "0".to_owned(),
            n => format!("{:.1} % ({n})", 100.0 * n as f64 / metrics.sr.steps.max(1) as f64),
        };
        let mut cells = vec![setup.clone(), share(failures.values().sum())];
        cells.extend(classes.iter().map(|c| share(failures.get(c.name()).copied().unwrap_or(0))));
        rows.row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let unseen = if apps_known {
        ""
    } else {
        " Failures of generalisation need --dataset DIR: which applications were trained on."
    };
    table::print(&format!(
        "\nWhy steps failed, in % of the scored steps (gold put in place of one role):{unseen}\n{rows}"
    ));
}

/// SR by application, action and length, a column for each setup.
fn print_groups(measured: &[Measured]) {
    let Some(first) = measured.first() else { return };
    let header: Vec<&str> =
        ["by", "group", "steps"].into_iter().chain(measured.iter().map(|m| m.setup.as_str())).collect();
    let mut rows = Table::new(&header);
    for (i, group) in first.groups.iter().enumerate() {
        let rate = |m: &Measured| {
            m.groups
                .get(i)
                .and_then(|g| g.metrics.sr.rate)
                .map_or("–".to_owned(), |r| format!("{:.1}", 100.0 * r))
        };
        let mut cells = vec![group.by.to_owned(), group.name.clone(), group.metrics.sr.steps.to_string()];
        cells.extend(measured.iter().map(rate));
        rows.row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    table::print(&format!("\nSR in %:\n{rows}"));
}
