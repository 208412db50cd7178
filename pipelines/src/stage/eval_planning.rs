//! `eval planning`: plans for held-out tasks by what the planner may use (the structure of `IntentCUA`'s table 1),
//! carried out in the simulated applications of `sample` or against the recordings, by length (figures 5 and 6), and
//! step consistency over bootstraps of the mined traces (table 5). All figures with intervals over tasks.

mod tables;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::json;
use tracemill_data::artifact::{AliasMap, Plan, PlanCase, PlanStep};
use tracemill_data::sim::Simulation;
use tracemill_models::embed::Embedder;
use tracemill_models::memory::plan::{
    Execution, ExecutorSettings, PlanMemory, PlanSettings, Planner, Prototypes, Replay, RuleDecomposer,
    Variant, Verdict, agreement, execute, step_consistency,
};
use tracemill_models::metrics::{Mean, mean_over_tasks};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{embed, induce, memory};
use crate::cli::PlanningEvalArgs;
use crate::planning::{HeldOut, Mined, MinedSpaces, SimTask, Simulated, TestTask, read_held_out, sim_tasks};
use crate::progress;
use crate::run::{Run, write_json};
use crate::settings::Settings;
use crate::table;

/// Least cosine of corresponding steps, exclusive (appendix E).
const SAME_STEP: f64 = 0.93;
/// Long tasks (section 5.2), in recorded steps.
const LONG: usize = 25;

/// One task planned and carried out by one variant.
#[derive(Debug, Clone, Serialize)]
struct Row {
    variant: &'static str,
    episode_id: String,
    task: String,
    command: String,
    /// Recorded steps that serve the task.
    recorded: usize,
    case: u8,
    plan_id: String,
    planned: usize,
    /// Arguments that could not be bound.
    open: usize,
    /// `simulator` or `replay`.
    world: &'static str,
    outcome: Verdict,
    completion: f64,
    /// In the simulator: the task's hidden test; none where the command does not say all that the task needs. In a
    /// replay: every recorded step was carried out.
    success: Option<bool>,
    efficiency: Option<f64>,
    acts: usize,
    coverage: f64,
    order: Option<f64>,
    /// What stopped the plan, in words.
    stopped: Option<String>,
}

/// A variant's figures.
#[derive(Debug, Serialize)]
struct Measured {
    variant: &'static str,
    success: Mean,
    completion: Mean,
    coverage: Mean,
    order: Mean,
    efficiency: Mean,
    planned_steps: Mean,
    open_arguments: Mean,
    /// Tasks by case: 1, 2, 3.
    cases: [usize; 3],
    /// By length, recorded steps in bins of five.
    lengths: Vec<Length>,
    /// Mean milliseconds of planning; kept out of files that are compared.
    #[serde(skip)]
    planning_ms: f64,
}

#[derive(Debug, Serialize)]
struct Length {
    from: usize,
    success: Mean,
    completion: Mean,
    efficiency: Mean,
}

/// Table 5.
#[derive(Debug, Serialize)]
struct Consistency {
    bootstraps: u64,
    /// Share of plan units that are the same in every bootstrap, by task.
    share: Mean,
    consistent_units: usize,
    units: usize,
}

/// Everything that is needed to plan and to act.
struct Bench<'a> {
    map: &'a AliasMap,
    settings: &'a PlanSettings,
    simulation: &'a Simulation,
    sim: BTreeMap<String, SimTask>,
    popups: f64,
    seed: u64,
}

/// Evaluates planning.
///
/// # Errors
/// Missing traces, units, embeddings or encoder, or nothing to hold out.
pub fn run(settings: &Settings, args: &PlanningEvalArgs) -> Result<()> {
    if !(0.0..=1.0).contains(&args.popups) {
        bail!("--popups {}: a share of the tasks, 0 to 1", args.popups);
    }
    let run = Run::existing(&args.run)?;
    let held_out = read_held_out(&run, args.hold_out, args.seed, args.limit)?;
    let embedder = embed::open(&memory::embedder_of(&run)?, "cpu")?;
    let map = induce::alias_map(&settings.induce)?;
    let retrain_on = args.retrain.then_some(&held_out.mined);
    let mined = Mined::open(&run, settings, &map, embedder.as_ref(), retrain_on)?;
    let spaces = mined.mine(&held_out.mined, &held_out.commands)?;
    let simulation = Simulation::load()?;
    let bench = Bench {
        map: &map,
        settings: &settings.plan,
        simulation: &simulation,
        sim: sim_tasks(&args.sample.clone().unwrap_or_else(|| run.path("sample")))?,
        popups: args.popups,
        seed: args.seed,
    };
    let (rows, measured) = bench.table(&held_out, &mined, &spaces, args)?;
    let consistency = consistency(&bench, &held_out, &mined, embedder.as_ref(), args)?;
    let steps = || held_out.tasks.iter().flat_map(|t| &t.recorded);
    let result = json!({
        "hold_out": args.hold_out, "seed": args.seed, "resamples": args.resamples, "popups": args.popups,
        "tasks": held_out.tasks.len(), "mined_episodes": held_out.mined.len(), "mined_units": spaces.units,
        "stored_plans": spaces.intent.plans(), "episodes_without_command": held_out.without_command,
        "held_out_without_steps": held_out.without_steps, "failed_episodes": held_out.failed,
        "encoder": if args.retrain { "trained on held-in units" } else { "the run's, trained on all units" },
        "leakage": held_out.leakage(&spaces.intent, !args.retrain),
        "recorded_steps": steps().count(), "unnamed_steps": steps().filter(|r| r.step.args.is_empty()).count(),
        "simulated_tasks": held_out.tasks.iter().filter(|t| bench.sim.contains_key(&t.episode_id)).count(),
        "untold": rows.iter().filter(|r| r.variant == "full" && r.success.is_none()).count(),
        "plan_settings": settings.plan, "variants": measured, "step_consistency": consistency,
    });
    write(&run, &rows, &result, &measured)?;
    if args.json {
        table::print(&serde_json::to_string_pretty(&result)?);
    } else {
        tables::print(&result, &measured, consistency.as_ref());
        table::print(&format!("\nRows: {}", run.path("eval/planning.jsonl").display()));
    }
    Ok(())
}

fn write(run: &Run, rows: &[Row], result: &serde_json::Value, measured: &[Measured]) -> Result<()> {
    let folder = run.path("eval");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    write_rows(&folder.join("planning.jsonl"), rows)?;
    write_json(&folder.join("planning.json"), result)?;
    let times: BTreeMap<&str, f64> = measured.iter().map(|m| (m.variant, m.planning_ms)).collect();
    write_json(&folder.join("planning-timing.json"), &json!({ "planning_ms": times }))
}

fn write_rows(path: &Path, rows: &[Row]) -> Result<()> {
    let mut file = BufWriter::new(File::create(path).with_context(|| path.display().to_string())?);
    for row in rows {
        serde_json::to_writer(&mut file, row)?;
        file.write_all(b"\n")?;
    }
    Ok(file.flush()?)
}

impl Bench<'_> {
    fn table(
        &self,
        held_out: &HeldOut,
        mined: &Mined,
        spaces: &MinedSpaces,
        args: &PlanningEvalArgs,
    ) -> Result<(Vec<Row>, Vec<Measured>)> {
        let (latent, raw) = (mined.prototypes(), mined.raw_prototypes());
        let bar = progress::bar("eval", "plans", Some((Variant::ALL.len() * held_out.tasks.len()) as u64));
        let (mut all, mut measured) = (Vec::new(), Vec::new());
        for variant in Variant::ALL {
            let (memory, prototypes): (&PlanMemory, &dyn Prototypes) = match variant {
                Variant::WithoutIntent => (&spaces.raw, &raw),
                _ => (&spaces.intent, &latent),
            };
            let planner = self.planner(memory, prototypes, variant);
            let mut rows = Vec::with_capacity(held_out.tasks.len());
            let mut secs = 0.0;
            for task in &held_out.tasks {
                let began = Instant::now();
                let plan = planner.plan(&task.command).with_context(|| task.episode_id.clone())?;
                secs += began.elapsed().as_secs_f64();
                rows.push(self.row(&plan, task, variant, memory)?);
                bar.inc(1);
            }
            let planning_ms = 1e3 * secs / rows.len().max(1) as f64;
            measured.push(measure(variant, &rows, planning_ms, args));
            all.extend(rows);
        }
        bar.finish_and_clear();
        Ok((all, measured))
    }

    fn planner<'p>(
        &'p self,
        memory: &'p PlanMemory,
        prototypes: &'p dyn Prototypes,
        variant: Variant,
    ) -> Planner<'p> {
        Planner {
            memory,
            map: self.map,
            decomposer: &RuleDecomposer,
            prototypes,
            settings: self.settings,
            variant,
        }
    }

    fn row(&self, plan: &Plan, task: &TestTask, variant: Variant, memory: &PlanMemory) -> Result<Row> {
        let hints = (variant != Variant::NoTraces).then_some(memory);
        let (world, execution, success) = self.carry_out(plan, task, hints)?;
        let steps: Vec<&PlanStep> = plan.steps().collect();
        let wanted: Vec<_> = task.recorded.iter().map(|r| r.step.clone()).collect();
        let agreed = agreement(&steps, &wanted);
        let blocked = execution.outcome == Verdict::Blocked;
        let stopped = execution.attempts.last().filter(|_| blocked).map(|a| a.observation.clone());
        Ok(Row {
            variant: variant.name(),
            episode_id: task.episode_id.clone(),
            task: task.key.clone(),
            command: task.command.clone(),
            recorded: wanted.len(),
            case: plan.case.number(),
            plan_id: plan.plan_id.clone(),
            planned: steps.len(),
            open: plan.open().count(),
            world,
            outcome: execution.outcome,
            completion: execution.completion(),
            success,
            efficiency: execution.efficiency(),
            acts: execution.acts,
            coverage: agreed.coverage,
            order: agreed.order,
            stopped,
        })
    }

    /// In the simulator where the task is a simulated one, else against its recording.
    fn carry_out(
        &self,
        plan: &Plan,
        task: &TestTask,
        hints: Option<&PlanMemory>,
    ) -> Result<(&'static str, Execution, Option<bool>)> {
        let limits = ExecutorSettings::default();
        let Some(sim) = self.sim.get(&task.episode_id) else {
            let mut replay = Replay::new(task.recorded.clone());
            let execution = execute(plan, &mut replay, hints, self.map, limits);
            return Ok(("replay", execution, Some(replay.is_done())));
        };
        let device = self.simulation.start(&sim.platform, &sim.params);
        let mut device =
            device.with_context(|| format!("{}: no device `{}`", task.episode_id, sim.platform))?;
        let drawn = xxh3_64_with_seed(task.key.as_bytes(), self.seed);
        if (drawn as f64 / u64::MAX as f64) < self.popups {
            device.popup_before(2 + (drawn % 5) as usize, (drawn % 7) as usize);
        }
        let mut world = Simulated { device };
        let execution = execute(plan, &mut world, hints, self.map, limits);
        let templates: Vec<&str> = sim.templates.iter().map(String::as_str).collect();
        let achieved =
            world.device.achieved(&templates).context("a template that this version does not know")?;
        // What the command leaves out no planner can know.
        let success = sim.is_told_by(&task.command).then_some(achieved);
        Ok(("simulator", execution, success))
    }
}

fn measure(variant: Variant, rows: &[Row], planning_ms: f64, args: &PlanningEvalArgs) -> Measured {
    let mean = |rows: &[&Row], value: &dyn Fn(&Row) -> Option<f64>| {
        let values = rows.iter().filter_map(|r| Some((r.task.as_str(), value(r)?)));
        mean_over_tasks(values, args.resamples, args.seed)
    };
    let success = |r: &Row| r.success.map(|s| f64::from(u8::from(s)));
    let all: Vec<&Row> = rows.iter().collect();
    let mut bins: BTreeMap<usize, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        bins.entry((row.recorded / 5 * 5).min(LONG)).or_default().push(row);
    }
    let length = |(from, rows): (usize, Vec<&Row>)| Length {
        from,
        success: mean(&rows, &success),
        completion: mean(&rows, &|r| Some(r.completion)),
        efficiency: mean(&rows, &|r| r.efficiency),
    };
    let cases = [PlanCase::Synthesise, PlanCase::Reuse, PlanCase::Fill];
    Measured {
        variant: variant.name(),
        success: mean(&all, &success),
        completion: mean(&all, &|r| Some(r.completion)),
        coverage: mean(&all, &|r| Some(r.coverage)),
        order: mean(&all, &|r| r.order),
        efficiency: mean(&all, &|r| r.efficiency),
        planned_steps: mean(&all, &|r| Some(r.planned as f64)),
        open_arguments: mean(&all, &|r| Some(r.open as f64)),
        cases: cases.map(|case| rows.iter().filter(|r| r.case == case.number()).count()),
        lengths: bins.into_iter().map(length).collect(),
        planning_ms,
    }
}

/// Plans every task with a memory mined from each bootstrap of the mined episodes.
fn consistency(
    bench: &Bench,
    held_out: &HeldOut,
    mined: &Mined,
    embedder: &dyn Embedder,
    args: &PlanningEvalArgs,
) -> Result<Option<Consistency>> {
    if args.bootstraps < 2 {
        return Ok(None);
    }
    let bar = progress::bar("eval", "bootstraps", Some(args.bootstraps));
    let mut plannings: Vec<Vec<Vec<Vec<Vec<f32>>>>> = vec![Vec::new(); held_out.tasks.len()];
    for index in 0..args.bootstraps {
        let spaces = mined.mine(&held_out.bootstrap(args.seed, index), &held_out.commands)?;
        let prototypes = mined.prototypes();
        let planner = bench.planner(&spaces.intent, &prototypes, Variant::Full);
        for (task, plannings) in held_out.tasks.iter().zip(&mut plannings) {
            plannings.push(embedded(&planner.plan(&task.command)?, embedder)?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let counts: Vec<(usize, usize)> = plannings.iter().map(|p| step_consistency(p, SAME_STEP)).collect();
    let shares = held_out.tasks.iter().zip(&counts).filter(|(_, (_, units))| *units > 0);
    let shares = shares.map(|(task, (same, units))| (task.key.as_str(), *same as f64 / *units as f64));
    Ok(Some(Consistency {
        bootstraps: args.bootstraps,
        share: mean_over_tasks(shares, args.resamples, args.seed),
        consistent_units: counts.iter().map(|(same, _)| same).sum(),
        units: counts.iter().map(|(_, units)| units).sum(),
    }))
}

/// The steps of each unit of a plan as the embedder sees their words.
fn embedded(plan: &Plan, embedder: &dyn Embedder) -> Result<Vec<Vec<Vec<f32>>>> {
    let mut units = Vec::with_capacity(plan.units.len());
    for unit in &plan.units {
        let words: Vec<String> = unit.steps.iter().map(PlanStep::words).collect();
        let refs: Vec<&str> = words.iter().map(String::as_str).collect();
        let vectors = embedder.embed(&refs)?;
        units.push(vectors.chunks_exact(embedder.dim()).map(<[f32]>::to_vec).collect());
    }
    Ok(units)
}
