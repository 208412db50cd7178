//! `topology build`: exploration logs, transition graphs or traces → navigation graph and forest; `topology show`:
//! their text.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tracemill_data::nav::{
    BuildOptions, ControlList, CoreOptions, DEFAULT_BLACKLIST, DEFAULT_THRESHOLD, Graph, Limit, Measured,
    Stats, Topology, stats,
};

use super::topology_input::{Read, read};
use crate::cli::{TopologyBuildArgs, TopologyShowArgs};
use crate::pipeline;
use crate::publish::Folder;
use crate::run::{Run, StageInput, StageSpec, write_json};
use crate::table::{self, Table, grouped};
use crate::tokens::Counter;

/// Name of the stage in manifests.
const STAGE: &str = "topology";
/// Files passed over that are named one by one.
const SHOWN_FILES: usize = 5;
/// Rejects that the message about too many shows.
const SHOWN_REJECTS: usize = 5;

/// What the lists of the command line say.
struct Lists {
    blacklist: String,
    prune: String,
}

/// Builds graph and forest.
///
/// # Errors
/// Inputs without a control, lists that cannot be read, a forest that would be too large.
pub fn build(args: &TopologyBuildArgs) -> Result<()> {
    if !(0.0..=1.0).contains(&args.screen_similarity) {
        bail!("--screen-similarity {}: give a share from 0 to 1", args.screen_similarity);
    }
    if !(0.0..=1.0).contains(&args.max_rejects) {
        bail!("--max-rejects {}: give a share from 0 to 1", args.max_rejects);
    }
    let lists = Lists {
        blacklist: list("--blacklist", args.blacklist.as_deref(), DEFAULT_BLACKLIST)?,
        prune: list("--prune", args.prune.as_deref(), "")?,
    };
    let options = BuildOptions {
        blacklist: ControlList::parse(&lists.blacklist)?,
        screen_similarity: args.screen_similarity,
    };
    let settings = json!({
        "theta": args.theta, "core_depth": args.core_depth, "enumeration": args.enumeration,
        "blacklist": lists.blacklist, "prune": lists.prune, "screen_similarity": args.screen_similarity,
        "tokens": args.tokens, "max_rejects": args.max_rejects,
    });
    if let Some(run) = &args.run {
        return build_in_run(args, &Run::open(run, args.resume)?, options, &lists, settings);
    }
    let out = args.out.as_deref().context("give --out DIR")?;
    let folder = Folder::begin(out, STAGE)?;
    let mut read = read(&args.input, options.clone())?;
    check_rejects(args.max_rejects, &read)?;
    let (topology, figures) = make(args, &mut read, options, &lists)?;
    write(folder.dir(), &topology, &read, &figures)?;
    let files = read.files.clone();
    folder.publish(settings, 0, &files, counts(&figures))?;
    tell(&read, &figures, out);
    Ok(())
}

/// `R/traces` → `R/topology`.
fn build_in_run(
    args: &TopologyBuildArgs,
    run: &Run,
    options: BuildOptions,
    lists: &Lists,
    settings: Value,
) -> Result<()> {
    let spec = StageSpec {
        name: STAGE,
        folder: STAGE,
        settings,
        seed: 0,
        inputs: vec![
            StageInput::FromStage("traces/episodes.parquet", "ingest"),
            StageInput::FromStage("traces/steps.parquet", "ingest"),
        ],
    };
    let report = run.stage(&spec, |draft| {
        let mut read = read(&[run.path("traces")], options.clone())?;
        check_rejects(args.max_rejects, &read)?;
        let (topology, figures) = make(args, &mut read, options, lists)?;
        write(&draft.path(""), &topology, &read, &figures)?;
        counts(&figures).into_iter().for_each(|(name, value)| draft.count(&name, value));
        Ok(())
    })?;
    pipeline::print_reports(&[report]);
    Ok(())
}

/// Nothing is published where too much was refused; the message holds the first reasons.
fn check_rejects(most: f64, read: &Read) -> Result<()> {
    let rejects = &read.built.rejects;
    let kept = read.built.graph.counts.get("records").copied().unwrap_or_default() as usize;
    let share = rejects.len() as f64 / (kept + rejects.len()).max(1) as f64;
    if share <= most {
        return Ok(());
    }
    let first = rejects.iter().take(SHOWN_REJECTS);
    let first: Vec<_> =
        first.map(|r| format!("\n  {} {}: {}", r.place.file, r.place.key, r.reason)).collect();
    bail!(
        "{} of {} records were rejected ({:.1} %), more than --max-rejects {most}; the first of them:{}",
        rejects.len(),
        kept + rejects.len(),
        share * 100.0,
        first.concat()
    )
}

fn list(flag: &str, path: Option<&Path>, default: &str) -> Result<String> {
    let Some(path) = path else { return Ok(default.to_owned()) };
    let at = || format!("{flag} {}", path.display());
    let text = std::fs::read_to_string(path).with_context(at)?;
    ControlList::parse(&text).with_context(at)?;
    Ok(text)
}

/// The topology of what was read, which gives up its graph, and the figures.
fn make(
    args: &TopologyBuildArgs,
    from: &mut Read,
    options: BuildOptions,
    lists: &Lists,
) -> Result<(Topology, Stats)> {
    let core = CoreOptions { depth: args.core_depth, enumeration: args.enumeration };
    let topology =
        Topology::of(std::mem::take(&mut from.built.graph), args.theta, core, lists.prune.clone())?;
    let against = match args.against.as_slice() {
        [] => None,
        paths => Some(read(paths, options).context("--against")?.built),
    };
    let counter = Counter::named(&args.tokens).context("--tokens")?;
    let measured = Measured {
        clicks: &from.built.clicks,
        rejects: &from.built.rejects,
        against: against.as_ref(),
        tokens: Some(&|text| counter.count(text)),
        threshold: DEFAULT_THRESHOLD,
    };
    let figures = stats(&topology, measured, Limit::default());
    Ok((topology, figures))
}

fn write(folder: &Path, topology: &Topology, read: &Read, figures: &Stats) -> Result<()> {
    let create = |name: &str| {
        let path = folder.join(name);
        File::create(&path).map(BufWriter::new).with_context(|| format!("{}", path.display()))
    };
    let labels = topology.labels(Limit::default());
    std::fs::write(folder.join("forest.txt"), topology.text(&labels))?;
    std::fs::write(folder.join("core.txt"), topology.core_text(topology.core, &labels))?;
    let mut out = create("graph.json")?;
    topology.graph.write(&mut out)?;
    out.flush()?;
    let mut out = create("forest.json")?;
    topology.write(&mut out)?;
    out.flush()?;
    let mut out = create("rejects.jsonl")?;
    for reject in &read.built.rejects {
        serde_json::to_writer(&mut out, reject)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    let mut figures = serde_json::to_value(figures)?;
    figures["files"] = json!(read.files.iter().map(|(_, shown)| shown).collect::<Vec<_>>());
    figures["files_passed_over"] = json!(read.passed_over);
    write_json(&folder.join("stats.json"), &figures)
}

fn counts(figures: &Stats) -> BTreeMap<String, Value> {
    let nodes = figures.text.nodes;
    BTreeMap::from([
        ("controls".to_owned(), json!(figures.controls_reachable + figures.controls_unreachable)),
        ("edges".to_owned(), json!(figures.counts.get("edges"))),
        ("forest_nodes".to_owned(), json!(nodes)),
        ("back_edges".to_owned(), json!(figures.back_edges)),
        ("rejects".to_owned(), json!(figures.rejects.values().sum::<usize>())),
    ])
}

fn tell(read: &Read, figures: &Stats, out: &Path) {
    let number = |n: usize| grouped(n as i64);
    let mut text = format!(
        "{} controls ({} of them merge nodes, {} not reachable), {} back edges taken out, {} rejects\n",
        number(figures.controls_reachable + figures.controls_unreachable),
        number(figures.merge_nodes),
        number(figures.controls_unreachable),
        number(figures.back_edges),
        number(figures.rejects.values().sum()),
    );
    let mut sizes = Table::new(&["θ", "nodes", "main tree", "shared subtrees"]);
    let shown = |n: Option<u64>| n.map_or_else(|| "more than 2^64".to_owned(), |n| grouped(n as i64));
    for size in &figures.sizes {
        let theta = size.theta.to_string();
        sizes.row(&[&theta, &shown(size.nodes), &shown(size.main_tree), &number(size.subtrees)]);
    }
    text.push_str(&sizes.to_string());
    for (what, length) in [("forest", &figures.text), ("core", &figures.core)] {
        let (nodes, chars) = (number(length.nodes), number(length.chars));
        let tokens = length.tokens.unwrap_or(0);
        text.push_str(&format!(
            "{what}: {nodes} nodes, {chars} characters, {} tokens, {:.1} a node\n",
            number(tokens),
            tokens as f64 / length.nodes.max(1) as f64
        ));
    }
    let saved = &figures.saved_revealed;
    text.push_str(&format!(
        "visit: {} recorded ways to functional controls, {} clicks → {} calls with {} ids\n",
        number(saved.sequences),
        number(saved.clicks),
        number(saved.calls),
        number(saved.ids),
    ));
    if !read.passed_over.is_empty() {
        let names =
            read.passed_over.iter().take(SHOWN_FILES).map(String::as_str).collect::<Vec<_>>().join(", ");
        text.push_str(&format!("{} files passed over: {names}…\n", number(read.passed_over.len())));
    }
    table::print(&format!("{text}{}", out.display()));
}

/// Reads a folder that [`build`] wrote.
///
/// # Errors
/// Names the file, and says what to do.
pub fn open(folder: &Path) -> Result<Topology> {
    let read = |name: &str| {
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!("--forest {}: no {name}; `tracemill topology build` writes it", folder.display())
        })?;
        Ok::<_, anyhow::Error>((path, text))
    };
    let (path, text) = read("graph.json")?;
    let graph = Graph::read(&text).with_context(|| format!("{}", path.display()))?;
    let (path, text) = read("forest.json")?;
    Topology::read(&text, graph).with_context(|| format!("{}", path.display()))
}

/// Prints the text form.
///
/// # Errors
/// A folder that cannot be read, an id it does not have.
pub fn show(args: &TopologyShowArgs) -> Result<()> {
    let topology = open(&args.forest)?;
    let labels = topology.labels(Limit::Chars(args.description_chars));
    let last = topology.forest.nodes.len() - 1;
    if let Some(id) = args.id.iter().find(|id| **id as usize > last) {
        bail!("--id {id}: no such node; ids go from 0 to {last}");
    }
    let core = CoreOptions { depth: args.core_depth.unwrap_or(topology.core.depth), ..topology.core };
    table::print(&match (args.all, args.id.as_slice()) {
        (true, _) => topology.text(&labels),
        (false, []) => topology.core_text(core, &labels),
        (false, ids) => topology.branches_text(ids, &labels),
    });
    Ok(())
}
