//! `topology visit`: a call as a model writes it → paths, carried out on the recorded graph, as JSON.
//!
//! An answer that is a structured error is an answer: it goes to standard output and the program succeeds, as the
//! model is meant to read it. With `--strict` it fails as well. What is no answer (a folder or a file that cannot be
//! read) fails always.

use std::io::Read;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tracemill_data::nav::command::{Call, VisitError, parse_visit};
use tracemill_data::nav::declare::{
    PASSIVE_CHARS, declare, is_declaration, labelled, parse_declarations, passive_texts,
};
use tracemill_data::nav::execute::{ExecuteOptions, Executor};
use tracemill_data::nav::resolve::{node, resolve};
use tracemill_data::nav::{Injection, InjectionSpec, Limit, Simulator, Topology};

use super::topology::open;
use crate::cli::TopologyVisitArgs;
use crate::table;

/// Answers a call.
///
/// # Errors
/// A folder or file that cannot be read; with `--strict`, an answer that is an error.
pub fn run(args: &TopologyVisitArgs) -> Result<()> {
    let topology = open(&args.forest)?;
    let injections = { args.inject.iter() }
        .map(|InjectionSpec(injection)| on_control(&topology, injection.clone()))
        .collect::<Result<Vec<_>>>()?;
    let mut simulator = Simulator::new(&topology.graph, &injections);
    let options = ExecuteOptions { retries: args.retries, ..ExecuteOptions::default() };
    for turn in &args.after {
        let (_, error) = answer(&topology, &mut simulator, &commands(turn)?, options);
        if let Some(error) = error {
            bail!("--after: the turn before failed: {error}");
        }
    }
    let (mut answer, error) = answer(&topology, &mut simulator, &commands(&args.commands)?, options);
    if args.screen {
        answer["screen"] = screen(&mut simulator);
    }
    table::print(&serde_json::to_string_pretty(&answer)?);
    match error {
        Some(error) if args.strict => bail!("{error}"),
        _ => Ok(()),
    }
}

/// The text of a call: given, or in a file.
fn commands(given: &str) -> Result<String> {
    match given.strip_prefix('@') {
        None => Ok(given.to_owned()),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("--commands @-: standard input")?;
            Ok(text)
        }
        Some(path) => std::fs::read_to_string(path).with_context(|| format!("--commands @{path}")),
    }
}

/// A failure that names a node, as one that names its control.
fn on_control(topology: &Topology, injection: Injection) -> Result<Injection> {
    let nodes = &topology.forest.nodes;
    let at = |id: u32| match nodes.get(id as usize) {
        Some(node) => Ok(node.control),
        None => bail!("--inject: no node has the id {id}; ids go from 0 to {}", nodes.len() - 1),
    };
    Ok(match injection {
        Injection::Renamed(id, name) => Injection::Renamed(at(id)?, name),
        Injection::Disabled(id) => Injection::Disabled(at(id)?),
        Injection::Slow(id, looks) => Injection::Slow(at(id)?, looks),
        Injection::Absent(id) => Injection::Absent(at(id)?),
        Injection::KeyFails(keys) => Injection::KeyFails(keys),
    })
}

/// The answer to one turn, and the error in it.
fn answer(
    topology: &Topology,
    simulator: &mut Simulator,
    text: &str,
    options: ExecuteOptions,
) -> (Value, Option<VisitError>) {
    let answered = if is_declaration(text) {
        parse_declarations(text)
            .and_then(|declarations| declare(simulator, &declarations))
            .map(|results| (json!({ "status": "ok", "results": results }), None))
    } else {
        parse_visit(text).and_then(|call| visit(topology, simulator, call, options))
    };
    answered.unwrap_or_else(|error| (json!({ "status": "error", "error": error.to_json() }), Some(error)))
}

fn visit(
    topology: &Topology,
    simulator: &mut Simulator,
    call: Call,
    options: ExecuteOptions,
) -> Result<(Value, Option<VisitError>), VisitError> {
    let commands = match call {
        Call::Commands(commands) => commands,
        Call::FurtherQuery(ids) => {
            let labels = topology.labels(Limit::default());
            let ids = ids.into_iter().map(|id| node(topology, 0, id)).collect::<Result<Vec<_>, _>>()?;
            let text =
                if ids.is_empty() { topology.text(&labels) } else { topology.branches_text(&ids, &labels) };
            return Ok((json!({ "status": "ok", "further_query": ids, "topology": text }), None));
        }
    };
    let resolved = resolve(topology, &commands)?;
    let execution = Executor::new(&topology.graph, simulator, options).run(&resolved.tasks);
    let mut answer = json!({
        "status": if execution.error.is_none() { "ok" } else { "error" },
        "tasks": resolved.tasks,
        "dropped": resolved.dropped,
        "steps": execution.steps,
    });
    if let Some(error) = &execution.error {
        answer["error"] = error.to_json();
    }
    Ok((answer, execution.error))
}

/// The controls of the topmost window, and what its data items hold.
fn screen(simulator: &mut Simulator) -> Value {
    let controls: Vec<Value> = { labelled(simulator).into_iter() }
        .map(|(label, shown)| {
            json!({
                "label": label, "name": shown.name, "type": shown.id.control_type, "enabled": shown.enabled,
                "patterns": shown.patterns,
            })
        })
        .collect();
    json!({ "controls": controls, "texts": passive_texts(simulator, PASSIVE_CHARS) })
}
