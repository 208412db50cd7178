//! A navigation topology as a whole: graph, forest, what was taken out; the file `forest.json`; the texts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dag::{Dag, Theta};
use super::describe::{Core, CoreOptions, Limit, labels};
use super::forest::{Forest, ForestError, MAX_NODES, Node};
use super::graph::{FILE_VERSION, Graph, ROOT};
use super::matcher::ControlList;
use super::text::{Everything, Label, write_trees};

/// Graph and forest of one application, or of several.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// The graph.
    pub graph: Graph,
    /// Its forest.
    pub forest: Forest,
    /// Edges that were taken out because they closed a cycle.
    pub back_edges: Vec<(u32, u32)>,
    /// Controls that no way leads to.
    pub unreachable: Vec<u32>,
    /// What the core leaves out.
    pub core: CoreOptions,
    /// Controls that the core leaves out, as the user lists them ([`ControlList`]).
    pub prune: String,
}

/// A node as `forest.json` has it.
#[derive(Debug, Serialize, Deserialize)]
struct NodeRow {
    id: u32,
    parent: Option<u32>,
    name: String,
    #[serde(rename = "type")]
    control_type: String,
    control: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct ForestFile {
    version: u32,
    theta: Theta,
    core: CoreOptions,
    prune: String,
    /// Ids of the trees' roots, the main tree's first.
    roots: Vec<u32>,
    /// Reference → root of the shared subtree.
    entries: BTreeMap<u32, u32>,
    nodes: Vec<NodeRow>,
    back_edges: Vec<[String; 2]>,
    unreachable: Vec<String>,
}

/// A `forest.json` that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// Not JSON of this form.
    #[error("not a forest: {0}; build it again")]
    Json(#[from] serde_json::Error),
    /// Written by another version.
    #[error("version {0} of the forest is not known here (this is version {FILE_VERSION}); build it again")]
    Version(u32),
    /// It does not fit together, or not with its graph.
    #[error("{0}; graph and forest are not of one build: build them again")]
    Mismatch(String),
}

impl Topology {
    /// The topology of a graph.
    ///
    /// # Errors
    /// When the forest would be too large.
    pub fn of(graph: Graph, theta: Theta, core: CoreOptions, prune: String) -> Result<Self, ForestError> {
        let dag = Dag::of(&graph.children(), ROOT);
        let forest = Forest::of(&dag, theta, MAX_NODES)?;
        let Dag { back_edges, unreachable, .. } = dag;
        Ok(Self { graph, forest, back_edges, unreachable, core, prune })
    }

    /// The control behind a node.
    pub fn control(&self, id: u32) -> &super::graph::Control {
        &self.graph.controls[self.forest.nodes[id as usize].control as usize]
    }

    /// What the text form says of every control.
    pub fn labels(&self, limit: Limit) -> Vec<Label> {
        labels(&self.graph, &self.forest, limit)
    }

    /// The part that a prompt shows at first, by the options it was built with.
    pub fn core(&self, core: CoreOptions) -> Core {
        let prune = ControlList::parse(&self.prune).unwrap_or_default();
        Core::of(&self.graph, &self.forest, core, &prune)
    }

    /// The text of the core topology.
    pub fn core_text(&self, core: CoreOptions, labels: &[Label]) -> String {
        let core = self.core(core);
        write_trees(&self.forest, &core.roots, |id| self.label(labels, id), &core)
    }

    /// The text of the whole forest.
    pub fn text(&self, labels: &[Label]) -> String {
        write_trees(&self.forest, &self.forest.roots, |id| self.label(labels, id), &Everything)
    }

    /// The text of what lies below these nodes, in full: the answer to `further_query`. A reference stands for the
    /// shared subtree it leads to.
    pub fn branches_text(&self, ids: &[u32], labels: &[Label]) -> String {
        let roots: Vec<u32> =
            ids.iter().map(|&id| self.forest.nodes[id as usize].target.unwrap_or(id)).collect();
        write_trees(&self.forest, &roots, |id| self.label(labels, id), &Everything)
    }

    fn label<'a>(&self, labels: &'a [Label], id: u32) -> &'a Label {
        &labels[self.forest.nodes[id as usize].control as usize]
    }

    /// The content of `forest.json`.
    ///
    /// # Errors
    /// When the writer refuses it.
    pub fn write(&self, out: impl std::io::Write) -> Result<(), serde_json::Error> {
        let id = |control: u32| self.graph.controls[control as usize].id.to_string();
        let row = |(i, node): (usize, &Node)| {
            let control = &self.graph.controls[node.control as usize];
            NodeRow {
                id: i as u32,
                parent: node.parent,
                name: control.name.clone(),
                control_type: control.id.control_type.clone(),
                control: control.id.to_string(),
            }
        };
        let entries = self.forest.entries.iter().flat_map(|(root, refs)| refs.iter().map(|r| (*r, *root)));
        let file = ForestFile {
            version: FILE_VERSION,
            theta: self.forest.theta,
            core: self.core,
            prune: self.prune.clone(),
            roots: self.forest.roots.clone(),
            entries: entries.collect(),
            nodes: self.forest.nodes.iter().enumerate().map(row).collect(),
            back_edges: self.back_edges.iter().map(|(from, to)| [id(*from), id(*to)]).collect(),
            unreachable: self.unreachable.iter().map(|control| id(*control)).collect(),
        };
        serde_json::to_writer_pretty(out, &file)
    }

    /// Reads `forest.json` back; `graph` is the graph beside it.
    ///
    /// # Errors
    /// Says what does not fit.
    pub fn read(text: &str, graph: Graph) -> Result<Self, TopologyError> {
        let file: ForestFile = serde_json::from_str(text)?;
        if file.version != FILE_VERSION {
            return Err(TopologyError::Version(file.version));
        }
        let index = graph.index();
        let find = |id: &str| {
            let found = index.get(id).copied();
            found.ok_or_else(|| TopologyError::Mismatch(format!("the graph has no control `{id}`")))
        };
        let mut nodes = Vec::with_capacity(file.nodes.len());
        for (i, row) in file.nodes.iter().enumerate() {
            if row.id as usize != i || row.parent.is_some_and(|p| p as usize >= i) {
                let reason = format!("nodes[{i}] has the id {} and the parent {:?}", row.id, row.parent);
                return Err(TopologyError::Mismatch(reason));
            }
            let target = file.entries.get(&row.id).copied();
            nodes.push(Node { control: find(&row.control)?, parent: row.parent, end: row.id + 1, target });
        }
        for i in (1..nodes.len()).rev() {
            if let Some(parent) = nodes[i].parent {
                nodes[parent as usize].end = nodes[parent as usize].end.max(nodes[i].end);
            }
        }
        let is_root = |id: &u32| nodes.get(*id as usize).is_some_and(|node| node.parent.is_none());
        let mut entries: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (reference, root) in &file.entries {
            if *reference as usize >= nodes.len() || !is_root(root) || *root == 0 {
                let reason = format!("entries: {reference} -> {root} is no reference to a shared subtree");
                return Err(TopologyError::Mismatch(reason));
            }
            entries.entry(*root).or_default().push(*reference);
        }
        if file.roots.first() != Some(&0) || !file.roots.iter().all(is_root) || !file.roots.is_sorted() {
            return Err(TopologyError::Mismatch("`roots` are not the roots of the trees".to_owned()));
        }
        let pairs: Result<Vec<_>, TopologyError> =
            file.back_edges.iter().map(|[from, to]| Ok((find(from)?, find(to)?))).collect();
        let unreachable: Result<Vec<_>, TopologyError> = file.unreachable.iter().map(|id| find(id)).collect();
        Ok(Self {
            forest: Forest { theta: file.theta, nodes, roots: file.roots, entries },
            back_edges: pairs?,
            unreachable: unreachable?,
            core: file.core,
            prune: file.prune,
            graph,
        })
    }
}
