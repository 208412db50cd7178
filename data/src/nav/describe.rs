//! What the text form says of each control, and which part of the forest a prompt shows (paper, sections 3.3, 4.2).

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::forest::Forest;
use super::graph::Graph;
use super::kind::Kind;
use super::matcher::ControlList;
use super::text::{Label, Selection};

/// Length of descriptions, when nothing else is said.
pub const DESCRIPTION_CHARS: usize = 60;

/// Characters of a name or type that the text form writes; the whole stands in `graph.json` and `forest.json`.
pub const NAME_CHARS: usize = 120;

/// What [`CoreOptions::enumeration`] is divided by for values.
const VALUES_SHARE: usize = 3;

/// How long a description may be.
#[derive(Clone, Copy)]
pub enum Limit<'a> {
    /// Characters.
    Chars(usize),
    /// Tokens, as a function counts them.
    Tokens(usize, &'a dyn Fn(&str) -> usize),
}

impl Default for Limit<'_> {
    fn default() -> Self {
        Self::Chars(DESCRIPTION_CHARS)
    }
}

impl Limit<'_> {
    fn fits(&self, text: &str) -> bool {
        match self {
            Self::Chars(most) => text.chars().count() <= *most,
            Self::Tokens(most, count) => count(text) <= *most,
        }
    }

    /// `text`, or the longest part of it that fits with `…` where it was cut. A location keeps its end, which
    /// tells more than its beginning.
    fn cut(&self, text: &str, keep_end: bool) -> String {
        if self.fits(text) {
            return text.to_owned();
        }
        let chars: Vec<char> = text.chars().collect();
        let part = |n: usize| -> String {
            if keep_end {
                format!("…{}", chars[chars.len() - n..].iter().collect::<String>().trim_start())
            } else {
                format!("{}…", chars[..n].iter().collect::<String>().trim_end())
            }
        };
        let (mut most, mut least) = (chars.len(), 0);
        while least < most {
            let middle = (least + most).div_ceil(2);
            if self.fits(&part(middle)) { least = middle } else { most = middle - 1 }
        }
        if least == 0 { String::new() } else { part(least) }
    }
}

/// The label of every control, by its number.
///
/// A description goes with controls of a key type ([`Kind::is_key`]), with what can be navigated through, and with
/// controls that share a name with another one, where one of them is of a key type; where such a control has no
/// description, its location (the ancestors) stands for it. A description that only repeats the name is left out.
/// Controls without a name share none, and have their location where they are of a key type.
///
/// Names and types longer than [`NAME_CHARS`] are cut as descriptions are: a paragraph that is a control's name would
/// take more of a prompt than everything else.
pub fn labels(graph: &Graph, forest: &Forest, limit: Limit) -> Vec<Label> {
    let mut present = vec![false; graph.controls.len()];
    let mut navigational = vec![false; graph.controls.len()];
    for (id, node) in forest.nodes.iter().enumerate() {
        present[node.control as usize] = true;
        navigational[node.control as usize] |= !forest.is_leaf(id as u32);
    }
    // Controls of each name, and whether one is of a key type.
    let mut named: HashMap<&str, (usize, bool)> = HashMap::new();
    for control in graph.controls.iter().zip(&present).filter(|(_, present)| **present).map(|(c, _)| c) {
        let (n, key) = named.entry(control.name.as_str()).or_default();
        *n += 1;
        *key |= Kind::of(&control.id.control_type).is_key();
    }
    let label = |(i, control): (usize, &super::graph::Control)| {
        let is_key = Kind::of(&control.id.control_type).is_key();
        let unnamed = control.name.is_empty();
        let shared = !unnamed && named.get(control.name.as_str()).is_some_and(|(n, key)| *n > 1 && *key);
        let told = !control.description.is_empty()
            && control.description.trim().to_lowercase() != control.name.to_lowercase();
        let wanted = is_key || navigational[i] || shared || unnamed;
        let description = if wanted && told {
            limit.cut(&control.description, false)
        } else if shared || (unnamed && is_key) {
            limit.cut(&control.id.ancestors.join("/"), true)
        } else {
            String::new()
        };
        let short = |text: &str| Limit::Chars(NAME_CHARS).cut(text, false);
        Label { name: short(&control.name), control_type: short(&control.id.control_type), description }
    };
    graph.controls.iter().enumerate().map(label).collect()
}

/// What the core topology leaves out (section 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreOptions {
    /// Levels below the virtual root.
    pub depth: u32,
    /// Leaves of one type below one node that count as a large enumeration when there are more: a list of fonts.
    /// For values (entries of lists, cells, icons, of whatever types) a third of it is enough: they are what an
    /// application holds, not what it can do.
    pub enumeration: usize,
}

impl Default for CoreOptions {
    fn default() -> Self {
        Self { depth: 6, enumeration: 30 }
    }
}

/// The core topology: which nodes of a forest a prompt shows at first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    shown: Vec<bool>,
    /// Roots of the trees that are shown, the main tree's first.
    pub roots: Vec<u32>,
    /// Nodes shown.
    pub nodes: usize,
}

impl Selection for Core {
    fn shows(&self, id: u32) -> bool {
        self.shown[id as usize]
    }
}

impl Core {
    /// The part of `forest` down to [`CoreOptions::depth`], without large enumerations and what `prune` names. A
    /// shared subtree goes as deep as below the reference that is highest, and is left out where none is shown.
    /// The first screen is never taken for an enumeration.
    pub fn of(graph: &Graph, forest: &Forest, options: CoreOptions, prune: &ControlList) -> Self {
        let depths = forest.depths();
        let mut core = Self { shown: vec![false; forest.nodes.len()], roots: Vec::new(), nodes: 0 };
        let mut base: BTreeMap<u32, u32> = BTreeMap::from([(0, 0)]);
        // A reference can lead to a tree that was looked at before with a larger depth: then it is looked at again.
        let mut queue = vec![0];
        while let Some(root) = queue.pop() {
            let above = base[&root];
            let mut id = root;
            let end = forest.nodes[root as usize].end;
            let mut hidden = vec![false; (end - root) as usize];
            while id < end {
                let node = &forest.nodes[id as usize];
                let control = &graph.controls[node.control as usize];
                let pruned = id != root && prune.holds(&control.id, &control.name);
                if pruned || hidden[(id - root) as usize] || above + depths[id as usize] > options.depth {
                    id = node.end;
                    continue;
                }
                core.shown[id as usize] = true;
                if id != 0 {
                    hide_enumerations(graph, forest, id, options.enumeration, |leaf| {
                        hidden[(leaf - root) as usize] = true;
                    });
                }
                let below = above + depths[id as usize];
                if let Some(target) = node.target
                    && base.get(&target).is_none_or(|known| *known > below)
                {
                    base.insert(target, below);
                    queue.push(target);
                }
                id += 1;
            }
        }
        core.roots = base.into_keys().collect();
        core.nodes = core.shown.iter().filter(|shown| **shown).count();
        core
    }
}

/// Hands over the leaves below `id` that are part of a large enumeration.
fn hide_enumerations(graph: &Graph, forest: &Forest, id: u32, most: usize, hide: impl FnMut(u32)) {
    // The values of all types are one group, the others one for each type.
    let mut groups: BTreeMap<Option<&str>, Vec<u32>> = BTreeMap::new();
    for child in forest.children(id).filter(|&child| forest.is_leaf(child)) {
        let control_type =
            graph.controls[forest.nodes[child as usize].control as usize].id.control_type.as_str();
        let is_value = matches!(Kind::of(control_type), Kind::ListItem | Kind::DataItem);
        groups.entry((!is_value).then_some(control_type)).or_default().push(child);
    }
    let is_large = |(group, leaves): &(Option<&str>, Vec<u32>)| {
        leaves.len() > if group.is_none() { most.div_ceil(VALUES_SHARE) } else { most }
    };
    groups.into_iter().filter(is_large).flat_map(|(_, leaves)| leaves).for_each(hide);
}
