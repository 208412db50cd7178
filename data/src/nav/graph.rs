//! The navigation graph: controls, and which control reveals which (paper, section 3.2; reading 1).

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::id::ControlId;
use super::kind::Pattern;

/// Version of `graph.json` and `forest.json`.
pub const FILE_VERSION: u32 = 1;
/// Index of the virtual root in [`Graph::controls`].
pub const ROOT: u32 = 0;
/// Control type of the virtual root.
pub const ROOT_TYPE: &str = "virtual root";
/// Control type of the nodes that stand for applications where an input holds several.
pub const APPLICATION_TYPE: &str = "application";
/// Places of evidence that an edge keeps; the others are counted.
pub const EVIDENCE_KEPT: usize = 4;

/// Where something was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// File, as the input names it.
    pub file: String,
    /// Line or key inside it.
    pub key: String,
}

impl Place {
    /// `key` of `file`.
    pub fn new(file: &str, key: impl Into<String>) -> Self {
        Self { file: file.to_owned(), key: key.into() }
    }
}

/// A node: a control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Its identity.
    pub id: ControlId,
    /// Its name, without spaces at the ends.
    pub name: String,
    /// Its description in full.
    pub description: String,
    /// What can be done with it.
    pub patterns: Vec<Pattern>,
    /// False where it was never seen enabled.
    pub enabled: bool,
    /// Selected when first seen: the active tab is known by it.
    pub selected: bool,
    /// Runs, applications or other contexts it was seen in, sorted.
    pub contexts: Vec<String>,
    /// Top-level window it was seen in, where the source says so.
    pub window: Option<String>,
    /// How often it was seen.
    pub count: u64,
    /// Where it was seen first; nothing for the virtual root.
    pub first_seen: Place,
    /// Why nothing is known of what it reveals: the blacklist, or the explorer's own reason.
    pub unexplored: Option<String>,
    /// The source gives no more than its id.
    pub id_only: bool,
}

/// What an edge is to be taken with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// Not seen as a difference of screens: the source went this way, so there is one.
    ByPath,
    /// The state after is the next record's, which the source does not promise.
    BySequence,
    /// A control of the first screen that belongs to its active tab (reading 7).
    ActiveTab,
    /// The way back. Part of the topology only where no other way is known.
    Back,
    /// Revealed by an action without a control (a scroll, a key) on the screen that the start of the edge opened.
    Indirect,
    /// The window had been explored before.
    Revisited,
}

/// One observation of an edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// State before the action.
    pub before: Option<String>,
    /// State after it.
    pub after: Option<String>,
}

/// An edge: acting on one control reveals another.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// Index of the control acted on.
    pub from: u32,
    /// Index of the control revealed.
    pub to: u32,
    /// The action: `click`, `right-click`, `launch` from the virtual root.
    pub action: String,
    /// Title of the window that the action opened and the control lies in; empty for a pop-up without one.
    pub window_opened: Option<String>,
    /// Times it was observed.
    pub count: u64,
    /// What it is to be taken with, sorted.
    pub flags: Vec<Flag>,
    /// The first observations.
    pub evidence: Vec<Evidence>,
}

/// A top-level window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Its title as the source writes it.
    pub title: String,
    /// Times it was opened.
    pub count: u64,
    /// Ids of the controls that opened it, sorted.
    pub opened_by: Vec<String>,
    /// How it was closed, and how often.
    pub closed_by: BTreeMap<String, u64>,
}

/// Screens of traces that count as one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenGroup {
    /// What its controls have as their ancestor.
    pub name: String,
    /// Application.
    pub app: String,
    /// Screens in it.
    pub count: u64,
    /// Different screens in it.
    pub variants: u64,
    /// Where the first one was seen.
    pub first_seen: Place,
}

/// A sequence of controls that a recording went through, as indices; the last one is the target.
pub type Clicks = Vec<u32>;

/// A navigation graph. Controls stand in the order of their discovery, the virtual root first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Graph {
    /// The controls; index 0 is the virtual root.
    pub controls: Vec<Control>,
    /// The edges, by start and then by discovery.
    pub edges: Vec<Edge>,
    /// Top-level windows, by title.
    pub windows: Vec<Window>,
    /// Groups of screens, in the order of their discovery.
    pub screens: Vec<ScreenGroup>,
    /// What was read, merged, skipped: by name.
    pub counts: BTreeMap<String, u64>,
}

impl Control {
    /// A control of which nothing but its id is known.
    pub fn bare(id: ControlId, place: Place) -> Self {
        Self {
            name: id.primary.trim().to_owned(),
            id,
            description: String::new(),
            patterns: Vec::new(),
            enabled: true,
            selected: false,
            contexts: Vec::new(),
            window: None,
            count: 0,
            first_seen: place,
            unexplored: None,
            id_only: true,
        }
    }

    /// The virtual root, called `name`.
    pub fn root(name: &str) -> Self {
        let id = ControlId::new("root", ROOT_TYPE, [""; 0]);
        Self { name: name.to_owned(), id_only: false, ..Self::bare(id, Place::default()) }
    }
}

impl Graph {
    /// The controls that each control reveals: what the forest is made from. Each stands once; ordered by first
    /// discovery, then by id (reading 2). Ways back are left out, but for controls that nothing else leads to.
    pub fn children(&self) -> Vec<Vec<u32>> {
        let mut reached = vec![false; self.controls.len()];
        let is_back = |edge: &Edge| edge.flags.contains(&Flag::Back);
        self.edges.iter().filter(|e| !is_back(e)).for_each(|e| reached[e.to as usize] = true);
        let mut children = vec![Vec::new(); self.controls.len()];
        for edge in self.edges.iter().filter(|e| !is_back(e) || !reached[e.to as usize]) {
            children[edge.from as usize].push(edge.to);
        }
        for list in &mut children {
            // Indices are the order of discovery.
            list.sort_unstable();
            list.dedup();
        }
        children
    }

    /// Index of every control by the text of its id.
    pub fn index(&self) -> HashMap<String, u32> {
        (0..).zip(&self.controls).map(|(i, control)| (control.id.to_string(), i)).collect()
    }
}

/// An edge as `graph.json` has it: ids in place of indices.
#[derive(Debug, Serialize)]
struct EdgeOut<'a> {
    from: &'a ControlId,
    to: &'a ControlId,
    action: &'a str,
    window_opened: Option<&'a str>,
    count: u64,
    flags: &'a [Flag],
    evidence: &'a [Evidence],
}

#[derive(Debug, Serialize)]
struct GraphOut<'a> {
    version: u32,
    counts: &'a BTreeMap<String, u64>,
    nodes: &'a [Control],
    edges: Vec<EdgeOut<'a>>,
    windows: &'a [Window],
    screens: &'a [ScreenGroup],
}

/// The same, read.
#[derive(Debug, Deserialize)]
struct EdgeRow {
    from: String,
    to: String,
    action: String,
    window_opened: Option<String>,
    count: u64,
    flags: Vec<Flag>,
    evidence: Vec<Evidence>,
}

#[derive(Debug, Deserialize)]
struct GraphFile {
    version: u32,
    counts: BTreeMap<String, u64>,
    nodes: Vec<Control>,
    edges: Vec<EdgeRow>,
    windows: Vec<Window>,
    screens: Vec<ScreenGroup>,
}

/// A `graph.json` that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// Not JSON of this form.
    #[error("not a navigation graph: {0}; build it again")]
    Json(#[from] serde_json::Error),
    /// Written by another version.
    #[error(
        "version {0} of the navigation graph is not known here (this is version {FILE_VERSION}); build it again"
    )]
    Version(u32),
    /// The virtual root is not the first node, or a node stands twice.
    #[error("nodes: {0}; build the graph again")]
    Nodes(String),
    /// An edge names a control that is not there.
    #[error("edges[{edge}]: no node has the id `{id}`; build the graph again")]
    Edge {
        /// Index of the edge.
        edge: usize,
        /// The id.
        id: String,
    },
}

impl Graph {
    /// The content of `graph.json`.
    ///
    /// # Errors
    /// When the writer refuses it.
    pub fn write(&self, out: impl std::io::Write) -> Result<(), serde_json::Error> {
        let id = |i: u32| &self.controls[i as usize].id;
        let edges = self.edges.iter().map(|e| EdgeOut {
            from: id(e.from),
            to: id(e.to),
            action: &e.action,
            window_opened: e.window_opened.as_deref(),
            count: e.count,
            flags: &e.flags,
            evidence: &e.evidence,
        });
        let file = GraphOut {
            version: FILE_VERSION,
            counts: &self.counts,
            nodes: &self.controls,
            edges: edges.collect(),
            windows: &self.windows,
            screens: &self.screens,
        };
        serde_json::to_writer_pretty(out, &file)
    }

    /// Reads `graph.json` back.
    ///
    /// # Errors
    /// Says what does not fit.
    pub fn read(text: &str) -> Result<Self, GraphError> {
        let file: GraphFile = serde_json::from_str(text)?;
        if file.version != FILE_VERSION {
            return Err(GraphError::Version(file.version));
        }
        let mut graph = Self {
            controls: file.nodes,
            edges: Vec::new(),
            windows: file.windows,
            screens: file.screens,
            counts: file.counts,
        };
        if graph.controls.first().is_none_or(|c| c.id.control_type != ROOT_TYPE) {
            return Err(GraphError::Nodes("the first one is not the virtual root".to_owned()));
        }
        let index = graph.index();
        if index.len() != graph.controls.len() {
            return Err(GraphError::Nodes("an id stands twice".to_owned()));
        }
        for (edge, row) in file.edges.into_iter().enumerate() {
            let find =
                |id: &str| index.get(id).copied().ok_or_else(|| GraphError::Edge { edge, id: id.to_owned() });
            graph.edges.push(Edge {
                from: find(&row.from)?,
                to: find(&row.to)?,
                action: row.action,
                window_opened: row.window_opened,
                count: row.count,
                flags: row.flags,
                evidence: row.evidence,
            });
        }
        Ok(graph)
    }
}
