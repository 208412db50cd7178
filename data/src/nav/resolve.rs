//! From commands to unique paths: navigational targets are dropped, references entered (paper, section 4.3).

use serde::{Deserialize, Serialize};

use super::command::{Command, NodeName, Site, VisitError};
use super::kind::Pattern;
use super::topology::Topology;

/// References that a message shows when one is missing.
const SHOWN_REFERENCES: usize = 20;

/// A node on the way to a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathStep {
    /// Its id in the forest.
    pub id: u32,
    /// Root of the shared subtree that it enters, for a reference.
    pub enters: Option<u32>,
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub control_type: String,
    /// Id of the control.
    pub control: String,
    /// Number of the control in the graph.
    #[serde(skip)]
    pub at: u32,
}

/// A command that is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Task {
    /// A functional target and the way there, from the first screen.
    Access {
        /// Index of the command.
        command: usize,
        /// The target.
        id: u32,
        /// References on the way, the main tree's first.
        entry_ref_id: Vec<u32>,
        /// Text to put in.
        text: Option<String>,
        /// Every control on the way; the target is the last one.
        path: Vec<PathStep>,
    },
    /// A shortcut.
    Shortcut {
        /// Index of the command.
        command: usize,
        /// The keys.
        keys: String,
    },
}

/// A command that is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Index of the command.
    pub command: usize,
    /// The target, where it has one.
    pub id: Option<u32>,
    /// Why.
    pub reason: DropReason,
}

/// Why a command is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The target is navigational: something lies below it, or it is a reference.
    Navigational,
    /// A shortcut that follows a target which is left out.
    FollowsNavigational,
}

/// What is carried out and what is not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// In order.
    pub tasks: Vec<Task>,
    /// In order.
    pub dropped: Vec<Dropped>,
}

/// The node that a model names.
///
/// # Errors
/// [`VisitError::UnknownId`] with the ids that there are.
pub fn node(topology: &Topology, command: usize, id: i64) -> Result<u32, VisitError> {
    let last = topology.forest.nodes.len() as u32 - 1;
    let found = u32::try_from(id).ok().filter(|id| *id <= last);
    found.ok_or(VisitError::UnknownId { command, id, last })
}

/// Resolves commands to paths.
///
/// # Errors
/// An id or reference that does not fit, text for what is known to take none, or when no functional target is left.
/// Nothing is carried out then.
pub fn resolve(topology: &Topology, commands: &[Command]) -> Result<Resolved, VisitError> {
    let mut resolved = Resolved::default();
    let mut after_dropped = false;
    for (i, command) in commands.iter().enumerate() {
        match command {
            Command::Shortcut { .. } if after_dropped => {
                let reason = DropReason::FollowsNavigational;
                resolved.dropped.push(Dropped { command: i, id: None, reason });
            }
            Command::Shortcut { keys } => {
                resolved.tasks.push(Task::Shortcut { command: i, keys: keys.clone() });
            }
            Command::Access { id, entry_refs, text } => {
                let id = node(topology, i, *id)?;
                after_dropped = !topology.forest.is_leaf(id);
                if after_dropped {
                    let reason = DropReason::Navigational;
                    resolved.dropped.push(Dropped { command: i, id: Some(id), reason });
                } else {
                    resolved.tasks.push(access(topology, i, id, entry_refs, text.as_ref())?);
                }
            }
        }
    }
    if resolved.tasks.is_empty() {
        let dropped = resolved.dropped.iter().filter_map(|d| d.id).collect();
        return Err(VisitError::OnlyNavigational { dropped });
    }
    Ok(resolved)
}

fn access(
    topology: &Topology,
    command: usize,
    id: u32,
    entry_refs: &[i64],
    text: Option<&String>,
) -> Result<Task, VisitError> {
    let references = entrance(topology, command, id, entry_refs)?;
    let control = topology.control(id);
    // A control known by its id only may take text; the executor sees.
    if text.is_some() && !control.id_only && !control.patterns.contains(&Pattern::Value) {
        let site = Site {
            id,
            control: control.id.to_string(),
            name: control.name.clone(),
            control_type: control.id.control_type.clone(),
            window: control.window.clone().unwrap_or_default(),
        };
        return Err(VisitError::NotEditable { command, site: site.into() });
    }
    let path = path(topology, id, &references);
    Ok(Task::Access { command, id, path, entry_ref_id: references, text: text.cloned() })
}

/// The references that lead from the main tree to the tree of `id`, the main tree's first. Goes from the target
/// outwards, so that the order in which they are given does not matter.
fn entrance(topology: &Topology, command: usize, id: u32, given: &[i64]) -> Result<Vec<u32>, VisitError> {
    let forest = &topology.forest;
    let mut unused: Vec<u32> = Vec::new();
    for &entry_ref_id in given {
        let known = u32::try_from(entry_ref_id).ok();
        let reference =
            known.filter(|&r| forest.nodes.get(r as usize).is_some_and(|node| node.target.is_some()));
        let Some(reference) = reference else {
            let reason = "is no reference to a shared subtree".to_owned();
            return Err(VisitError::BadEntryRef { command, id, entry_ref_id, reason });
        };
        if !unused.contains(&reference) {
            unused.push(reference);
        }
    }
    let mut way = Vec::new();
    let mut root = forest.root_of(id);
    while root != 0 {
        let fits: Vec<u32> =
            unused.iter().copied().filter(|&r| forest.nodes[r as usize].target == Some(root)).collect();
        match fits[..] {
            [one] => {
                unused.retain(|r| *r != one);
                way.push(one);
                root = forest.root_of(one);
            }
            [] => return Err(missing(topology, command, id, root)),
            _ => return Err(VisitError::AmbiguousEntryRef { command, id, root, given: fits }),
        }
    }
    if let Some(&extra) = unused.first() {
        let reason = format!("is not on the way to node {id}");
        return Err(VisitError::BadEntryRef { command, id, entry_ref_id: i64::from(extra), reason });
    }
    way.reverse();
    Ok(way)
}

fn missing(topology: &Topology, command: usize, id: u32, root: u32) -> VisitError {
    let references = topology.forest.entries.get(&root).map_or(&[][..], Vec::as_slice);
    let name = |&reference: &u32| NodeName {
        id: reference,
        path: { topology.forest.path_in_tree(reference).into_iter() }
            .filter(|&id| id != 0)
            .map(|id| topology.control(id).name.clone())
            .collect(),
    };
    let candidates = references.iter().take(SHOWN_REFERENCES).map(name).collect();
    VisitError::MissingEntryRef { command, id, root, references: references.len(), candidates }
}

/// Every control from the first screen to `id`, through `references`.
pub fn path(topology: &Topology, id: u32, references: &[u32]) -> Vec<PathStep> {
    let forest = &topology.forest;
    let step = |id: u32| {
        let node = &forest.nodes[id as usize];
        let control = &topology.graph.controls[node.control as usize];
        PathStep {
            id,
            enters: node.target,
            name: control.name.clone(),
            control_type: control.id.control_type.clone(),
            control: control.id.to_string(),
            at: node.control,
        }
    };
    // The root of a tree is the virtual one, or the control that the reference stands for.
    let ends = references.iter().copied().chain([id]);
    ends.flat_map(|end| forest.path_in_tree(end).into_iter().skip(1)).map(step).collect()
}
