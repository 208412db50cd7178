//! The forest: a main tree and shared subtrees, in which every control has one path (paper, section 3.2).

use std::collections::BTreeMap;

use super::dag::{Dag, Plan, Theta};

/// Nodes of a forest beyond which it is not built: what it would cost to read is beyond any model.
pub const MAX_NODES: u64 = 5_000_000;

/// A node of the forest. Its id is its place in [`Forest::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// The control, by its number in the graph.
    pub control: u32,
    /// The node above it; nothing for the root of a tree.
    pub parent: Option<u32>,
    /// One past the last id below it.
    pub end: u32,
    /// The root of the shared subtree that it refers to.
    pub target: Option<u32>,
}

/// A main tree and shared subtrees. Ids are consecutive in preorder, the main tree first (reading 4): its root, the
/// virtual one, is 0; subtrees follow in the order in which references to them are met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forest {
    /// Cost above which substructures are shared.
    pub theta: Theta,
    /// The nodes, by id.
    pub nodes: Vec<Node>,
    /// Ids of the trees' roots, ascending; the first is the main tree's.
    pub roots: Vec<u32>,
    /// The entry map: references, by the root that they lead to.
    pub entries: BTreeMap<u32, Vec<u32>>,
}

/// A forest that is not built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForestError {
    /// It would be too large.
    #[error(
        "the forest would have {} nodes with θ = {theta}, more than {max}; give a smaller --theta",
        if *nodes == u64::MAX { "more than 2^64".to_owned() } else { nodes.to_string() }
    )]
    TooLarge {
        /// Nodes it would have; [`u64::MAX`] for more.
        nodes: u64,
        /// Nodes allowed.
        max: u64,
        /// The cost above which substructures are shared.
        theta: Theta,
    },
}

impl Forest {
    /// The forest of a graph without cycles.
    ///
    /// # Errors
    /// When it would have more than `max` nodes; nothing is allocated then.
    pub fn of(dag: &Dag, theta: Theta, max: u64) -> Result<Self, ForestError> {
        let plan = Plan::of(dag, theta);
        let nodes = plan.nodes(dag);
        if nodes > max.min(u64::from(u32::MAX)) {
            return Err(ForestError::TooLarge { nodes, max, theta });
        }
        let mut forest = Self {
            theta,
            nodes: Vec::with_capacity(nodes as usize),
            roots: Vec::new(),
            entries: BTreeMap::new(),
        };
        // Roots of trees by control, in the order of their trees; a reference that is met first makes one.
        let mut trees = vec![dag.root];
        let mut tree_of: Vec<Option<u32>> = vec![None; dag.children.len()];
        let mut references: Vec<(u32, u32)> = Vec::new();
        let mut next = 0;
        while let Some(&control) = trees.get(next) {
            next += 1;
            forest.roots.push(forest.nodes.len() as u32);
            forest.tree(dag, &plan, control, |reference, control| {
                let tree = *tree_of[control as usize].get_or_insert_with(|| {
                    trees.push(control);
                    trees.len() as u32 - 1
                });
                references.push((reference, tree));
            });
        }
        for (reference, tree) in references {
            let root = forest.roots[tree as usize];
            forest.nodes[reference as usize].target = Some(root);
            forest.entries.entry(root).or_default().push(reference);
        }
        Ok(forest)
    }

    /// Appends the tree of `root` in preorder; hands every reference and its control to `refer`.
    fn tree(&mut self, dag: &Dag, plan: &Plan, root: u32, mut refer: impl FnMut(u32, u32)) {
        let mut stack: Vec<(u32, Option<u32>)> = vec![(root, None)];
        while let Some((control, parent)) = stack.pop() {
            let id = self.nodes.len() as u32;
            if parent.is_some() && plan.shared[control as usize] {
                self.nodes.push(Node { control, parent, end: id + 1, target: None });
                refer(id, control);
                continue;
            }
            let end = id + plan.size[control as usize] as u32;
            self.nodes.push(Node { control, parent, end, target: None });
            let children = dag.children[control as usize].iter().rev();
            stack.extend(children.map(|&child| (child, Some(id))));
        }
    }

    /// Ids of the nodes directly below `id`, ascending.
    pub fn children(&self, id: u32) -> impl Iterator<Item = u32> + '_ {
        let end = self.nodes[id as usize].end;
        let mut next = id + 1;
        std::iter::from_fn(move || {
            let child = (next < end).then_some(next)?;
            next = self.nodes[child as usize].end;
            Some(child)
        })
    }

    /// Whether it is a functional node: nothing lies below it, and it is no reference.
    pub fn is_leaf(&self, id: u32) -> bool {
        let node = &self.nodes[id as usize];
        node.end == id + 1 && node.target.is_none()
    }

    /// The root of the tree that `id` lies in.
    pub fn root_of(&self, id: u32) -> u32 {
        self.roots[self.roots.partition_point(|&root| root <= id) - 1]
    }

    /// Ids from the root of its tree down to `id`.
    pub fn path_in_tree(&self, id: u32) -> Vec<u32> {
        let mut path = vec![id];
        while let Some(parent) = self.nodes[path[path.len() - 1] as usize].parent {
            path.push(parent);
        }
        path.reverse();
        path
    }

    /// How deep every node lies in its tree; a root is at 0.
    pub fn depths(&self) -> Vec<u32> {
        let mut depths = vec![0; self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate() {
            if let Some(parent) = node.parent {
                depths[id] = depths[parent as usize] + 1;
            }
        }
        depths
    }

    /// One way to every tree: for its root, the references that lead there from the main tree, the first found.
    /// The main tree needs none.
    pub fn entrances(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut entrances: BTreeMap<u32, Vec<u32>> = BTreeMap::from([(0, Vec::new())]);
        let mut queue = std::collections::VecDeque::from([0_u32]);
        while let Some(root) = queue.pop_front() {
            let way = entrances[&root].clone();
            let end = self.nodes[root as usize].end;
            for id in root..end {
                if let Some(target) = self.nodes[id as usize].target
                    && let std::collections::btree_map::Entry::Vacant(entry) = entrances.entry(target)
                {
                    entry.insert(way.iter().copied().chain([id]).collect());
                    queue.push_back(target);
                }
            }
        }
        entrances
    }
}
