//! Figures of a topology: sizes, ambiguity, what `visit` saves, what recordings it covers.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::build::{Built, Rejected};
use super::dag::{Dag, Plan, Theta};
use super::describe::Limit;
use super::forest::Forest;
use super::graph::{APPLICATION_TYPE, Clicks, Graph, ROOT};
use super::id::ControlId;
use super::matcher::{Match, find};
use super::topology::Topology;

/// The costs at which tree and forest are compared.
pub const THETAS: [Theta; 6] =
    [Theta(Some(0)), Theta(Some(5)), Theta(Some(10)), Theta(Some(20)), Theta(Some(50)), Theta(None)];

/// What the forest would be at one θ. Numbers beyond 2^64 are `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// The cost above which substructures are shared.
    pub theta: Theta,
    /// Nodes of main tree and shared subtrees.
    pub nodes: Option<u64>,
    /// Nodes of the main tree.
    pub main_tree: Option<u64>,
    /// Shared subtrees.
    pub subtrees: usize,
    /// What the number of nodes cannot exceed: |V| + |E| + θ · merge nodes.
    pub bound: Option<u64>,
}

/// A text form's length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Length {
    /// Nodes.
    pub nodes: usize,
    /// Characters.
    pub chars: usize,
    /// Characters for each node.
    pub chars_per_node: f64,
    /// Tokens, where a tokenizer was given.
    pub tokens: Option<usize>,
}

/// Recorded click sequences against calls of `visit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Sequences that end at a functional control.
    pub sequences: usize,
    /// Clicks in them: one model call each, without `visit`.
    pub clicks: usize,
    /// Calls of `visit`: one each.
    pub calls: usize,
    /// Ids in those calls: the target and the references on the way.
    pub ids: usize,
    /// Sequences whose way is not in the forest, where another way to the same control is taken.
    pub another_way: usize,
    /// Sequences whose control the forest does not have.
    pub unreachable: usize,
}

/// Recordings against the graph.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Click sequences in the applications of the graph.
    pub sequences: usize,
    /// Click sequences in others, which are left out.
    pub of_other_applications: usize,
    /// Clicks in them.
    pub clicks: usize,
    /// Clicks whose control the graph has, by its id.
    pub known: usize,
    /// Clicks whose control the fuzzy matcher finds.
    pub known_fuzzy: usize,
    /// Clicks that are ambiguous to the fuzzy matcher.
    pub ambiguous: usize,
    /// Sequences whose controls are all known.
    pub sequences_known: usize,
    /// Sequences every step of which is an edge.
    pub sequences_in_graph: usize,
    /// Sequences every step of which is left in the forest.
    pub sequences_in_forest: usize,
}

/// `stats.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// What was read, merged and skipped.
    pub counts: BTreeMap<String, u64>,
    /// Rejects by kind.
    pub rejects: BTreeMap<String, usize>,
    /// Controls that a way leads to.
    pub controls_reachable: usize,
    /// Controls that none leads to.
    pub controls_unreachable: usize,
    /// Controls that several others reveal.
    pub merge_nodes: usize,
    /// Edges taken out because they closed a cycle.
    pub back_edges: usize,
    /// Depth of the deepest node of the main tree, references not entered.
    pub depth: u32,
    /// Leaves: what `visit` can be asked for.
    pub functional_nodes: usize,
    /// References to shared subtrees.
    pub references: usize,
    /// Names that several controls have.
    pub ambiguous_names: usize,
    /// Controls whose name another one has too.
    pub ambiguous_controls: usize,
    /// Tree and forest over θ.
    pub sizes: Vec<Size>,
    /// The whole forest as text.
    pub text: Length,
    /// The core topology as text.
    pub core: Length,
    /// The recorded clicks themselves.
    pub saved_clicked: Saved,
    /// The clicks that led to a functional control, and one more on it.
    pub saved_revealed: Saved,
    /// The recordings the graph is made from, or others.
    pub coverage: Coverage,
}

fn some(n: u64) -> Option<u64> {
    (n != u64::MAX).then_some(n)
}

/// Sizes of tree and forest at each of `thetas`. Nothing is built: a tree of 2^60 nodes costs no more than others.
pub fn sizes(graph: &Graph, thetas: &[Theta]) -> Vec<Size> {
    let dag = Dag::of(&graph.children(), ROOT);
    let size = |&theta: &Theta| {
        let plan = Plan::of(&dag, theta);
        let base = (dag.postorder.len() + dag.edges()) as u64;
        let bound = theta.0.and_then(|theta| theta.checked_mul(dag.merge_nodes() as u64)?.checked_add(base));
        Size {
            theta,
            nodes: some(plan.nodes(&dag)),
            main_tree: some(plan.size[ROOT as usize]),
            subtrees: plan.subtrees(),
            bound,
        }
    };
    thetas.iter().map(size).collect()
}

/// Names that several reachable controls have, and the controls that share one; controls without a name left out.
pub fn ambiguous_names(graph: &Graph, unreachable: &[u32]) -> (usize, usize) {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, control) in (0..).zip(&graph.controls).skip(1) {
        if !control.name.is_empty() && unreachable.binary_search(&i).is_err() {
            *names.entry(control.name.as_str()).or_default() += 1;
        }
    }
    let shared = names.values().filter(|n| **n > 1);
    (shared.clone().count(), shared.sum())
}

/// A functional node of a control: the id, and the references on the way, for the way given or else another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Node of the forest.
    pub id: u32,
    /// References, the main tree's first.
    pub entry_refs: Vec<u32>,
    /// Whether the way is the one that was given.
    pub same_way: bool,
}

/// Finds nodes for controls.
pub struct Targets<'a> {
    forest: &'a Forest,
    /// The node of a control directly below another node.
    below: HashMap<(u32, u32), u32>,
    entrances: BTreeMap<u32, Vec<u32>>,
    nodes: Vec<Vec<u32>>,
}

impl<'a> Targets<'a> {
    /// For the nodes of a topology.
    pub fn of(topology: &'a Topology) -> Self {
        let mut nodes = vec![Vec::new(); topology.graph.controls.len()];
        let mut below = HashMap::with_capacity(topology.forest.nodes.len());
        for (id, node) in (0..).zip(&topology.forest.nodes) {
            nodes[node.control as usize].push(id);
            below.extend(node.parent.map(|parent| ((parent, node.control), id)));
        }
        Self { forest: &topology.forest, below, entrances: topology.forest.entrances(), nodes }
    }

    /// The way that goes through these controls from the virtual root: the id it ends at, and the references that
    /// it enters subtrees by. Nothing where one of the edges is not in the forest.
    pub fn follow(&self, controls: &[u32]) -> Option<(u32, Vec<u32>)> {
        let (mut at, mut references) = (0, Vec::new());
        for &control in controls {
            at = *self.below.get(&(at, control))?;
            if let Some(target) = self.forest.nodes[at as usize].target {
                references.push(at);
                at = target;
            }
        }
        Some((at, references))
    }

    /// The functional node at the end of `clicks`; where that way is not in the forest, the first node of the same
    /// control. Nothing for what is navigational or not there.
    pub fn find(&self, clicks: &[u32]) -> Option<Target> {
        if let Some((id, entry_refs)) = self.follow(clicks) {
            return self.forest.is_leaf(id).then_some(Target { id, entry_refs, same_way: true });
        }
        let last = *clicks.last()?;
        let id = self.nodes[last as usize].iter().copied().find(|&id| self.forest.is_leaf(id))?;
        let entry_refs = self.entrances.get(&self.forest.root_of(id))?.clone();
        Some(Target { id, entry_refs, same_way: false })
    }

    /// Whether a control is functional: some node of it is a leaf, or it is not in the forest.
    fn is_functional(&self, control: u32) -> bool {
        let nodes = &self.nodes[control as usize];
        nodes.is_empty() || nodes.iter().any(|&id| self.forest.is_leaf(id))
    }
}

fn saved<'a>(targets: &Targets, sequences: impl Iterator<Item = &'a [u32]>) -> Saved {
    let mut saved = Saved::default();
    for clicks in sequences {
        let Some(&last) = clicks.last() else { continue };
        if !targets.is_functional(last) {
            continue;
        }
        let Some(target) = targets.find(clicks) else {
            saved.unreachable += 1;
            continue;
        };
        saved.sequences += 1;
        saved.clicks += clicks.len();
        saved.calls += 1;
        saved.ids += 1 + target.entry_refs.len();
        saved.another_way += usize::from(!target.same_way);
    }
    saved
}

/// Every recorded sequence, followed by each functional control that its last click reveals; each once.
pub fn revealed_sequences(topology: &Topology, clicks: &[Clicks]) -> Vec<Clicks> {
    let children = topology.graph.children();
    let mut sequences = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for way in clicks {
        let Some(&last) = way.last() else { continue };
        if !seen.insert(way.as_slice()) {
            continue;
        }
        for &to in children[last as usize].iter().filter(|&&to| children[to as usize].is_empty()) {
            sequences.push(way.iter().copied().chain([to]).collect());
        }
    }
    sequences
}

/// Controls of one graph among those of another. Where only one of them tells several applications apart, the other
/// is one of these.
struct Matcher<'a> {
    ours: &'a Graph,
    theirs: &'a Graph,
    /// Whether ours, and theirs, tell several applications apart.
    apart: (bool, bool),
    index: HashMap<String, u32>,
    threshold: f64,
    found: BTreeMap<u32, Match>,
}

fn tells_applications_apart(graph: &Graph) -> bool {
    graph.controls.iter().any(|control| control.id.control_type == APPLICATION_TYPE)
}

impl Matcher<'_> {
    /// A sequence of theirs as ours has it: its application put before it, or taken away; nothing for one of an
    /// application that ours does not have.
    fn sequence(&self, way: &[u32]) -> Option<Vec<ControlId>> {
        let ids: Vec<&ControlId> = way.iter().map(|&at| &self.theirs.controls[at as usize].id).collect();
        match self.apart {
            (true, false) => {
                let name = &self.theirs.controls[0].name;
                let app = ControlId::new(name, APPLICATION_TYPE, [""; 0]);
                let below = ids.into_iter().map(|id| id.clone().below(name));
                self.index
                    .contains_key(&app.to_string())
                    .then(|| std::iter::once(app.clone()).chain(below).collect())
            }
            (false, true) => {
                let (app, rest) = ids.split_first()?;
                let above =
                    |id: &&ControlId| ControlId { ancestors: id.ancestors[1..].to_vec(), ..(*id).clone() };
                (app.primary == self.ours.controls[0].name).then(|| rest.iter().map(above).collect())
            }
            _ => Some(ids.into_iter().cloned().collect()),
        }
    }

    /// The control of ours that is this one.
    fn find(&mut self, key: u32, id: &ControlId) -> Match {
        let Self { ours, theirs, index, threshold, found, .. } = self;
        *found.entry(key).or_insert_with(|| {
            if let Some(&same) = index.get(&id.to_string()) {
                return Match::Exact(same as usize);
            }
            let all = ours.controls.iter().map(|c| (&c.id, c.name.as_str()));
            find(id, &theirs.controls[key as usize].name, all, *threshold)
        })
    }
}

/// How much of other recordings a topology covers; `theirs` is the graph that those were read into.
pub fn coverage(topology: &Topology, theirs: &Graph, clicks: &[Clicks], threshold: f64) -> Coverage {
    let targets = Targets::of(topology);
    let children = topology.graph.children();
    let (ours, index) = (&topology.graph, topology.graph.index());
    let apart = (tells_applications_apart(ours), tells_applications_apart(theirs));
    let mut matcher = Matcher { ours, theirs, apart, index, threshold, found: BTreeMap::new() };
    let mut coverage = Coverage::default();
    for way in clicks {
        let Some(ids) = matcher.sequence(way) else {
            coverage.of_other_applications += 1;
            continue;
        };
        coverage.sequences += 1;
        // Keys line up from the end: an application may have been put before them, or taken away.
        let keys = std::iter::repeat_n(ROOT, ids.len().saturating_sub(way.len()));
        let keys: Vec<u32> = keys.chain(way[way.len().saturating_sub(ids.len())..].iter().copied()).collect();
        let mut matched = Vec::with_capacity(ids.len());
        for (key, id) in keys.into_iter().zip(&ids) {
            let found = matcher.find(key, id);
            coverage.clicks += 1;
            match found {
                Match::Exact(_) => coverage.known += 1,
                Match::Fuzzy(..) => coverage.known_fuzzy += 1,
                Match::Ambiguous(_) => coverage.ambiguous += 1,
                Match::None => {}
            }
            matched.extend(found.index().map(|i| i as u32));
        }
        if matched.len() == ids.len() {
            coverage.sequences_known += 1;
            let mut from = ROOT;
            let linked = matched
                .iter()
                .all(|&to| children[std::mem::replace(&mut from, to) as usize].binary_search(&to).is_ok());
            coverage.sequences_in_graph += usize::from(linked);
            coverage.sequences_in_forest += usize::from(targets.follow(&matched).is_some());
        }
    }
    coverage
}

/// What was measured on: what the topology is made from, and recordings to be covered where they are others.
#[derive(Clone, Copy)]
pub struct Measured<'a> {
    /// The recorded sequences of clicks.
    pub clicks: &'a [Clicks],
    /// What was refused.
    pub rejects: &'a [Rejected],
    /// Other recordings.
    pub against: Option<&'a Built>,
    /// How tokens are counted, where they are.
    pub tokens: Option<&'a dyn Fn(&str) -> usize>,
    /// Least score of the fuzzy matcher.
    pub threshold: f64,
}

/// The figures of a topology.
pub fn stats(topology: &Topology, measured: Measured, limit: Limit) -> Stats {
    let Measured { clicks, rejects: refused, against, tokens, threshold } = measured;
    let forest = &topology.forest;
    let dag = Dag::of(&topology.graph.children(), ROOT);
    let labels = topology.labels(limit);
    let length = |text: &str, nodes: usize| Length {
        nodes,
        chars: text.chars().count(),
        chars_per_node: text.chars().count() as f64 / nodes.max(1) as f64,
        tokens: tokens.map(|count| count(text)),
    };
    let core = topology.core(topology.core);
    let mut rejects: BTreeMap<String, usize> = BTreeMap::new();
    refused.iter().for_each(|r| *rejects.entry(r.kind.name().to_owned()).or_default() += 1);
    let targets = Targets::of(topology);
    let revealed = revealed_sequences(topology, clicks);
    let (their_graph, their_clicks) =
        against.map_or((&topology.graph, clicks), |other| (&other.graph, other.clicks.as_slice()));
    let (names, controls) = ambiguous_names(&topology.graph, &topology.unreachable);
    let main = forest.nodes[0].end as usize;
    let leaves = (0..forest.nodes.len() as u32).filter(|&id| forest.is_leaf(id)).count();
    Stats {
        counts: topology.graph.counts.clone(),
        rejects,
        controls_reachable: dag.postorder.len() - 1,
        controls_unreachable: topology.unreachable.len(),
        merge_nodes: dag.merge_nodes(),
        back_edges: dag.back_edges.len(),
        depth: forest.depths()[..main].iter().copied().max().unwrap_or_default(),
        functional_nodes: leaves,
        references: forest.entries.values().map(Vec::len).sum(),
        ambiguous_names: names,
        ambiguous_controls: controls,
        sizes: sizes(&topology.graph, &THETAS),
        text: length(&topology.text(&labels), forest.nodes.len()),
        core: length(&topology.core_text(topology.core, &labels), core.nodes),
        saved_clicked: saved(&targets, clicks.iter().map(Vec::as_slice)),
        saved_revealed: saved(&targets, revealed.iter().map(Vec::as_slice)),
        coverage: coverage(topology, their_graph, their_clicks, threshold),
    }
}
