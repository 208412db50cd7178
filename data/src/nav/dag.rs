//! From a graph to a forest without ambiguous paths: decycling and selective externalisation (paper, section 3.2;
//! readings 2 and 3). On plain numbers, so that it can be tested on any graph.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The cost up to which a merge node is cloned, in nodes. Readings: 20.
pub const DEFAULT_THETA: Theta = Theta(Some(20));

/// Cost above which a shared substructure gets a subtree of its own; `inf` clones everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theta(pub Option<u64>);

impl Theta {
    /// Whether `cost` is above it.
    pub fn is_below(self, cost: u64) -> bool {
        self.0.is_some_and(|theta| cost > theta)
    }
}

impl Default for Theta {
    fn default() -> Self {
        DEFAULT_THETA
    }
}

impl fmt::Display for Theta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(theta) => write!(f, "{theta}"),
            None => f.write_str("inf"),
        }
    }
}

impl FromStr for Theta {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "inf" | "infinity" | "∞" => Ok(Self(None)),
            text => text
                .parse()
                .map(|theta| Self(Some(theta)))
                .map_err(|_| format!("`{text}` is no θ: give a whole number of nodes, or inf")),
        }
    }
}

impl Serialize for Theta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(theta) => serializer.serialize_u64(theta),
            None => serializer.serialize_str("inf"),
        }
    }
}

impl<'de> Deserialize<'de> for Theta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Number(u64),
            Text(String),
        }
        match Raw::deserialize(deserializer)? {
            Raw::Number(theta) => Ok(Self(Some(theta))),
            Raw::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// A graph without cycles: what can be reached from its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dag {
    /// The root.
    pub root: u32,
    /// Children that are left, in the given order; none for what cannot be reached.
    pub children: Vec<Vec<u32>>,
    /// In-edges that are left.
    pub in_degree: Vec<u32>,
    /// What can be reached, every node after all of its children.
    pub postorder: Vec<u32>,
    /// Edges that closed a cycle, in the order they were met.
    pub back_edges: Vec<(u32, u32)>,
    /// What cannot be reached, ascending.
    pub unreachable: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    Open,
    Done,
}

impl Dag {
    /// Goes depth-first from `root` through `children` in their order, takes out every edge that leads back to a
    /// node still open, and notes it. The stack is a vector, so depth costs memory and nothing else.
    ///
    /// Children must not stand twice in one list.
    pub fn of(children: &[Vec<u32>], root: u32) -> Self {
        let n = children.len();
        let mut dag = Self {
            root,
            children: vec![Vec::new(); n],
            in_degree: vec![0; n],
            postorder: Vec::with_capacity(n),
            back_edges: Vec::new(),
            unreachable: Vec::new(),
        };
        let mut marks = vec![Mark::New; n];
        let mut stack: Vec<(u32, usize)> = vec![(root, 0)];
        marks[root as usize] = Mark::Open;
        while let Some((node, next)) = stack.last_mut() {
            let from = *node;
            let Some(&to) = children[from as usize].get(*next) else {
                marks[from as usize] = Mark::Done;
                dag.postorder.push(from);
                stack.pop();
                continue;
            };
            *next += 1;
            if marks[to as usize] == Mark::Open {
                dag.back_edges.push((from, to));
                continue;
            }
            dag.children[from as usize].push(to);
            dag.in_degree[to as usize] += 1;
            if marks[to as usize] == Mark::New {
                marks[to as usize] = Mark::Open;
                stack.push((to, 0));
            }
        }
        dag.unreachable = (0..n as u32).filter(|&v| marks[v as usize] == Mark::New).collect();
        dag
    }

    /// Nodes with more than one in-edge.
    pub fn merge_nodes(&self) -> usize {
        self.in_degree.iter().filter(|&&d| d > 1).count()
    }

    /// Edges that are left.
    pub fn edges(&self) -> usize {
        self.children.iter().map(Vec::len).sum()
    }
}

/// Which nodes get a subtree of their own, and how large everything becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Nodes of the tree below each node, itself counted, references as one; [`u64::MAX`] stands for more.
    pub size: Vec<u64>,
    /// Whether the node is the root of a shared subtree.
    pub shared: Vec<bool>,
}

impl Plan {
    /// Reading 3, children before parents: `size(v) = 1 + Σ size(child)`, a shared child counting 1; a node with
    /// in-degree d > 1 is shared where `(d − 1) · size(v) > θ`.
    pub fn of(dag: &Dag, theta: Theta) -> Self {
        let n = dag.children.len();
        let mut plan = Self { size: vec![0; n], shared: vec![false; n] };
        for &v in &dag.postorder {
            let mut size = 1_u64;
            for &child in &dag.children[v as usize] {
                let child = child as usize;
                size = size.saturating_add(if plan.shared[child] { 1 } else { plan.size[child] });
            }
            plan.size[v as usize] = size;
            let in_degree = u64::from(dag.in_degree[v as usize]);
            plan.shared[v as usize] = in_degree > 1 && theta.is_below((in_degree - 1).saturating_mul(size));
        }
        plan
    }

    /// Nodes of main tree and shared subtrees together, saturating.
    pub fn nodes(&self, dag: &Dag) -> u64 {
        let shared = dag.postorder.iter().filter(|&&v| self.shared[v as usize]);
        shared.fold(self.size[dag.root as usize], |sum, &v| sum.saturating_add(self.size[v as usize]))
    }

    /// Number of shared subtrees.
    pub fn subtrees(&self) -> usize {
        self.shared.iter().filter(|s| **s).count()
    }
}
