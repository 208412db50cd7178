//! The real recordings beside the checkout, where they are.

use super::command::VisitError;
use super::execute::{ExecuteOptions, Executor};
use super::resolve::{Task, path};
use super::text::parse;
use super::{
    BuildOptions, Built, CoreOptions, DEFAULT_THETA, GraphBuilder, Limit, Measured, RipReader, Simulator,
    Targets, Theta, Topology, TraceReader, explorer_skipped, revealed_sequences, stats,
};
use crate::adapters::testing::real_data;
use crate::adapters::{AdapterOptions, Input, Item, Record, adapter, for_each_line};
use crate::trace::Format;

fn rip(name: &str) -> Option<Built> {
    let path = real_data(&format!("desktop-a11y/rip/{name}.jsonl"))?;
    let mut builder = GraphBuilder::new(BuildOptions::default());
    let mut reader = RipReader::new(name, name);
    for_each_line(&Item::whole(path.clone()), |number, line| reader.line(&mut builder, number, line))
        .expect("read");
    reader.end(&mut builder);
    let meta = std::fs::read_to_string(path.with_extension("meta.json")).expect("read");
    explorer_skipped(&mut builder, name, &meta).expect("JSON");
    Some(builder.finish())
}

fn droidtask() -> Option<Built> {
    let input = Input::new(&real_data("droidtask")?).expect("there");
    let adapter = adapter(Format::Droidtask);
    let mut builder = GraphBuilder::new(BuildOptions::default());
    let mut reader = TraceReader::default();
    for item in adapter.discover(&input).expect("found") {
        adapter.read(&input, &item, AdapterOptions::default(), &mut |record| match record {
            Record::Episode(episode) => reader.episode(&mut builder, &episode),
            Record::Reject(reject) => panic!("{reject:?}"),
        });
    }
    Some(builder.finish())
}

/// Carries out each sequence by `visit` on a fresh application; gives the number done and those that ended
/// elsewhere.
fn visit_all(topology: &Topology, sequences: &[Vec<u32>]) -> (usize, Vec<String>) {
    let targets = Targets::of(topology);
    let mut simulator = Simulator::new(&topology.graph, &[]);
    let mut executor = Executor::new(&topology.graph, &mut simulator, ExecuteOptions::default());
    let (mut done, mut wrong) = (0, Vec::new());
    for sequence in sequences {
        let Some(&last) = sequence.last() else { continue };
        let Some(target) = targets.find(sequence) else { continue };
        let task = Task::Access {
            command: 0,
            id: target.id,
            path: path(topology, target.id, &target.entry_refs),
            entry_ref_id: target.entry_refs,
            text: None,
        };
        executor.ui().restart();
        executor.ui().done.clear();
        let execution = executor.run(&[task]);
        done += 1;
        // Controls that were never seen enabled are found and not clicked.
        let found = match &execution.error {
            None => executor.ui().done.last() == Some(&super::Done::Clicked(last)),
            Some(VisitError::Disabled { site, .. }) => {
                let control = &topology.graph.controls[last as usize];
                site.control == control.id.to_string() && !control.enabled
            }
            Some(_) => false,
        };
        if !found {
            wrong.push(format!("{}: {:?}", topology.graph.controls[last as usize].id, execution.error));
        }
    }
    (done, wrong)
}

fn topology(built: &Built, theta: Theta) -> Topology {
    Topology::of(built.graph.clone(), theta, CoreOptions::default(), String::new()).expect("small enough")
}

/// What holds for every source: nothing is lost, sizes keep their bound, text comes back, every way works.
fn check(built: &Built) {
    // Where everything shared has its own subtree, a part of the ways will do.
    for (theta, every) in [(Theta(Some(0)), 7), (DEFAULT_THETA, 1)] {
        let topology = topology(built, theta);
        let labels = topology.labels(Limit::default());
        let parsed = parse(&topology.text(&labels)).expect("comes back");
        assert_eq!(parsed.nodes.len(), topology.forest.nodes.len());
        assert!(parse(&topology.core_text(topology.core, &labels)).is_ok());
        let mut sequences = built.clicks.clone();
        sequences.extend(revealed_sequences(&topology, &built.clicks));
        let sequences: Vec<_> = sequences.into_iter().step_by(every).collect();
        let (done, wrong) = visit_all(&topology, &sequences);
        assert!(done * every > 100, "{done} sequences");
        assert!(
            wrong.is_empty(),
            "θ = {theta}: {} of {done}: {:#?}",
            wrong.len(),
            &wrong[..wrong.len().min(5)]
        );
    }
    let topology = topology(built, DEFAULT_THETA);
    let measured = Measured {
        clicks: &built.clicks,
        rejects: &built.rejects,
        against: None,
        tokens: None,
        threshold: super::DEFAULT_THRESHOLD,
    };
    let stats = stats(&topology, measured, Limit::default());
    for size in &stats.sizes {
        if let (Some(nodes), Some(bound)) = (size.nodes, size.bound) {
            assert!(nodes <= bound, "{size:?}");
        }
    }
    assert_eq!(stats.coverage.known, stats.coverage.clicks, "the graph has what it is made from");
    assert_eq!(stats.saved_clicked.unreachable + stats.saved_revealed.unreachable, 0);
}

#[test]
fn every_recorded_way_of_galculator_works() {
    let Some(built) = rip("galculator") else { return };
    assert_eq!(built.graph.counts["controls"], 171, "as its meta file counts");
    assert_eq!(built.rejects, []);
    check(&built);
}

#[test]
fn every_recorded_way_of_mousepad_works() {
    let Some(built) = rip("mousepad") else { return };
    // 626 described, and the place of a right click.
    assert_eq!(built.graph.counts["controls"], 627);
    assert_eq!(built.rejects, []);
    check(&built);
}

#[test]
fn every_recorded_way_of_writer_works() {
    let Some(built) = rip("writer") else { return };
    assert_eq!(built.rejects, []);
    assert_eq!(built.graph.counts["transitions_suspect"], 4);
    let topology = topology(&built, DEFAULT_THETA);
    assert!(topology.unreachable.is_empty());
    check(&built);
}

#[test]
fn every_recorded_way_of_droidtask_works() {
    let Some(built) = droidtask() else { return };
    assert_eq!((built.graph.counts["episodes"], built.rejects.len()), (122, 0));
    check(&built);
}
