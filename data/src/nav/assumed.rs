//! Edges that no difference of screens shows: steps that a recording took, and controls that it began with.
//!
//! An exploration log says in `path` what was clicked from the first screen on. A step of it is an edge where
//! nothing showed one. Its first control was on the first screen only if nothing else is known to reveal it: explorers that keep
//! no paths write an empty one, or none. Where a log has no path at all and nothing reveals the control, it must
//! have been there from the start as well, unless something that gives no edge (a suspect row, a blacklisted
//! control) may have shown it.

use std::collections::{BTreeSet, HashSet};

use super::build::{GraphBuilder, Reveal};
use super::graph::{Flag, Place, ROOT};

/// What recordings did without a difference of screens to show for it, in the order of reading.
#[derive(Debug, Default)]
pub(super) struct Assumed {
    steps: Vec<(u32, u32, Place)>,
    pairs: HashSet<(u32, u32)>,
    begins: Vec<Begin>,
    begun: HashSet<(u32, bool)>,
    /// Controls shown by something that gives no edge.
    elsewhere: BTreeSet<u32>,
}

/// A control that a recording acted on first.
#[derive(Debug, Clone)]
struct Begin {
    at: u32,
    /// Whether the recording says that nothing went before.
    said: bool,
    place: Place,
}

impl GraphBuilder {
    /// A recording went from `from` to `to`: an edge, unless a difference of screens shows one.
    pub(super) fn assume(&mut self, from: u32, to: u32, place: &Place) {
        if self.assumed.pairs.insert((from, to)) {
            self.assumed.steps.push((from, to, place.clone()));
        }
    }

    /// A recording acted on `at`, and names nothing that it acted on before; `said` where it says that there was
    /// nothing.
    pub(super) fn begin(&mut self, at: u32, said: bool, place: &Place) {
        if self.assumed.begun.insert((at, said)) {
            self.assumed.begins.push(Begin { at, said, place: place.clone() });
        }
    }

    /// Something that gives no edge showed `at`.
    pub(super) fn shown_elsewhere(&mut self, at: u32) {
        self.assumed.elsewhere.insert(at);
    }

    /// Makes edges of what is left to assume, once everything is read.
    pub(super) fn add_assumed(&mut self) {
        let assumed = std::mem::take(&mut self.assumed);
        let mut linked: BTreeSet<(u32, u32)> = self.edges.iter().map(|e| (e.from, e.to)).collect();
        for (from, to, place) in assumed.steps {
            if linked.insert((from, to)) {
                self.add_by_path(from, to, &place);
            }
        }
        self.add_begins(&assumed.begins, &assumed.elsewhere);
    }

    fn add_by_path(&mut self, from: u32, to: u32, place: &Place) {
        let how = Reveal { action: "click", flags: &[Flag::ByPath], ..Reveal::default() };
        self.reveal(from, to, &how, place);
        self.count("edges_by_path", 1);
    }

    /// First what nothing reveals is put on the first screen; then, in the order of reading, what still cannot be
    /// reached: of a circle that nothing leads into, the control that was acted on first.
    fn add_begins(&mut self, begins: &[Begin], elsewhere: &BTreeSet<u32>) {
        let mut children = vec![Vec::new(); self.controls.len()];
        let mut revealed = vec![false; self.controls.len()];
        for edge in self.edges.iter().filter(|e| e.from != e.to && !e.flags.contains(&Flag::Back)) {
            children[edge.from as usize].push(edge.to);
            revealed[edge.to as usize] = true;
        }
        let mut hidden = vec![false; self.controls.len()];
        elsewhere.iter().for_each(|&at| spread(&children, at, &mut hidden));
        let mut reached = vec![false; self.controls.len()];
        spread(&children, ROOT, &mut reached);
        let may_begin = |begin: &Begin| begin.said || !hidden[begin.at as usize];
        for only_unrevealed in [true, false] {
            for begin in begins.iter().filter(|begin| may_begin(begin)) {
                let at = begin.at as usize;
                if !(reached[at] || only_unrevealed && revealed[at]) {
                    self.add_by_path(ROOT, begin.at, &begin.place);
                    spread(&children, begin.at, &mut reached);
                }
            }
        }
    }
}

/// Marks `from` and everything that can be reached from there.
fn spread(children: &[Vec<u32>], from: u32, marks: &mut [bool]) {
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut marks[at as usize], true) {
            open.extend(&children[at as usize]);
        }
    }
}
