//! `plan`: a command into a plan, by the run's memory and its approved plans.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use tracemill_data::artifact::{Bound, Plan, PlanEventKind};
use tracemill_models::memory::plan::{EncoderPrototypes, Planner, RuleDecomposer, Variant};

use super::{embed, encode, induce, memory};
use crate::cli::{PlanApproveArgs, PlanArgs, PlanCommand, PlanHistoryArgs, PlanRejectArgs};
use crate::planning::PlanStore;
use crate::run::Run;
use crate::settings::Settings;
use crate::table::{self, Table};

/// Plans, or does what else is done with plans.
///
/// # Errors
/// A run without memory or encoder, an empty command, a store that cannot be written.
pub fn run(settings: &Settings, args: &PlanArgs) -> Result<()> {
    match &args.command {
        Some(PlanCommand::Approve(args)) => approve(args),
        Some(PlanCommand::Reject(args)) => reject(args),
        Some(PlanCommand::History(args)) => history(args),
        None => plan(settings, args),
    }
}

fn plan(settings: &Settings, args: &PlanArgs) -> Result<()> {
    let (Some(folder), Some(text)) = (&args.run, &args.text) else { bail!("give --run R and a command") };
    let variant = Variant::ALL.into_iter().find(|v| v.name() == args.variant).with_context(|| {
        let names: Vec<&str> = Variant::ALL.iter().map(|v| v.name()).collect();
        format!("--variant {}: known variants: {}", args.variant, names.join(", "))
    })?;
    let run = Run::existing(folder)?;
    let began = Instant::now();
    let store = PlanStore::of(&run);
    let mut memory = memory::for_planning(&run)?;
    let encoder = encode::load(&run, "cpu")?;
    let embedder = embed::open(&memory::embedder_of(&run)?, "cpu")?;
    let map = induce::alias_map(&settings.induce)?;
    let prototypes = EncoderPrototypes { embedder: embedder.as_ref(), encoder: &encoder };
    memory.approve(&store.approved()?, &prototypes, settings.plan.gates)?;
    let loaded = began.elapsed();
    let planner = Planner {
        memory: &memory,
        map: &map,
        decomposer: &RuleDecomposer,
        prototypes: &prototypes,
        settings: &settings.plan,
        variant,
    };
    let began = Instant::now();
    let plan = planner.plan(text)?;
    log::info!("plan: memory read in {loaded:.0?}, planned in {:.1?}", began.elapsed());
    if args.approve {
        store.approve(plan.clone(), None)?;
    }
    if args.json {
        table::print(&serde_json::to_string_pretty(&plan)?);
    } else {
        table::print(&shown(&plan));
        let said = if args.approve { "approved: it may be reused" } else { "not stored: --approve keeps it" };
        table::print(&format!("\n{} {said}", plan.plan_id));
    }
    Ok(())
}

/// A plan for a person.
pub fn shown(plan: &Plan) -> String {
    let mut out = String::new();
    for (i, unit) in plan.task_units.iter().enumerate() {
        let (env, act) = (unit.env.join(", "), unit.act.join(", "));
        out.push_str(&format!("task unit {}: ENV[{env}] ACT[{act}] {}\n", i + 1, unit.description));
    }
    out.push_str(&format!("case {} ({}): {}\n", plan.case.number(), plan.case.name(), plan.why));
    let mut near = Table::new(&["ACT", "near", "environment", "cosine", "words in common"]);
    for n in &plan.nearest {
        near.row(&[
            &n.act,
            &format!("ig {} sg {}", n.ig, n.sg),
            &n.env,
            &format!("{:.3}", n.cosine),
            &format!("{:.2}", n.words),
        ]);
    }
    if !plan.nearest.is_empty() {
        out.push_str(&format!("\n{near}"));
    }
    for left in &plan.left_out {
        out.push_str(&format!("left out of the stored plan, since it is not asked for: {left}\n"));
    }
    let mut steps = Table::new(&["unit", "step", "from"]);
    let mut number = 0;
    for unit in &plan.units {
        for (i, step) in unit.steps.iter().enumerate() {
            number += 1;
            let from = format!("{:?} {}", step.from, step.id).to_lowercase();
            steps.row(&[
                if i == 0 { &unit.description } else { "" },
                &format!("{number}. {}", step.words()),
                &from,
            ]);
        }
    }
    out.push_str(&format!("\n{steps}"));
    let open: Vec<&str> = plan.open().map(|a| a.kind.as_str()).collect();
    if !open.is_empty() {
        out.push_str(&format!("\nopen, since the command does not say: {}\n", open.join(", ")));
    }
    let told = plan.steps().flat_map(|s| &s.args).filter(|a| a.bound == Bound::Command).count();
    out.push_str(&format!("{told} values from the command\n"));
    out
}

fn approve(args: &PlanApproveArgs) -> Result<()> {
    let run = Run::existing(&args.run)?;
    let text = std::fs::read_to_string(&args.plan).with_context(|| args.plan.display().to_string())?;
    let plan: Plan = serde_json::from_str(&text)
        .with_context(|| format!("{}: not a plan as `plan --json` prints it", args.plan.display()))?;
    let id = plan.plan_id.clone();
    PlanStore::of(&run).approve(plan, args.note.clone())?;
    table::print(&format!("{id} approved: it may be reused"));
    Ok(())
}

fn reject(args: &PlanRejectArgs) -> Result<()> {
    let run = Run::existing(&args.run)?;
    PlanStore::of(&run).reject(&args.plan_id, args.note.clone())?;
    table::print(&format!("{} rejected: it is not reused any more", args.plan_id));
    Ok(())
}

fn history(args: &PlanHistoryArgs) -> Result<()> {
    let run = Run::existing(&args.run)?;
    let events = PlanStore::of(&run).history()?;
    if args.json {
        let lines: Vec<String> = events.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        table::print(&lines.join("\n"));
        return Ok(());
    }
    let mut rows = Table::new(&["number", "event", "plan", "command", "note"]);
    for event in &events {
        let what = match event.event {
            PlanEventKind::Approved => "approved",
            PlanEventKind::Rejected => "rejected",
        };
        let note = event.note.as_deref().unwrap_or_default();
        rows.row(&[&event.number.to_string(), what, &event.plan_id, &event.command, note]);
    }
    table::print(&rows.to_string());
    Ok(())
}
