//! Incidental and recovery steps: those that do not serve the goal are removed, each with its rule. Views
//! leave them out of their texts, skills out of their schemas; the unit keeps them all.
//!
//! Rules, in this order:
//!
//! 1. `terminal`: the step ends the episode.
//! 2. `wait`: nothing was done.
//! 3. `dismissed_popup`: a click that only closes a pop-up (the labels are part of Φ's file).
//! 4. `transition`: at the start of a unit, the way out of the application before it (home screen, list
//!    of recent applications).
//! 5. `repeat`: the same predicate on the same fields as the step before it, a retry; a run of scrolls in
//!    one direction is one scroll. Steps of which nothing but the verb is known never count as the same,
//!    and two backs go back twice.
//! 6. `undo_pair`: a step that leads somewhere else (or changes something, or scrolls), directly followed
//!    by one back (or one undo, or a scroll the other way), after which the trace goes on: both are
//!    removed. A run of several backs is left
//!    alone, since it may just as well be the way home after the work; so is a pair that at least half of
//!    the subgroup's members (two or more) have in common, for what most members do is the skill.
//!
//! Rules 5 and 6 are repeated until nothing changes, for a removed detour may leave a retry behind. A
//! unit of incidental steps only keeps all but its terminal ones.

use std::collections::{BTreeMap, BTreeSet};

use super::Unit;
use crate::action::Direction;
use crate::artifact::{AliasMap, Mapped, TERMINAL};

/// Predicates that may lead to another screen, from which `back` returns.
const LEADS_AWAY: [&str; 6] = ["click", "double_click", "right_click", "long_press", "open", "select"];
/// Predicates that change something which an undo key takes back.
const CHANGES: [&str; 8] =
    ["click", "double_click", "select", "text_input", "paste", "drag", "press", "long_press"];
/// Keys that take the last change back.
const UNDO_KEYS: [&str; 4] = ["ctrl+z", "cmd+z", "command+z", "undo"];

/// A unit after Φ and the removal of its incidental steps.
#[derive(Debug, Clone)]
pub struct CleanUnit<'a> {
    /// The unit.
    pub unit: &'a Unit,
    /// All of its steps after Φ, in order.
    pub mapped: Vec<Mapped<'a>>,
    /// Positions of the steps that are kept, in order.
    pub kept: Vec<usize>,
    /// Positions of the steps removed, in order, with the rule.
    pub removed: Vec<(usize, &'static str)>,
}

impl CleanUnit<'_> {
    /// The predicates of the steps kept.
    pub fn signature(&self) -> Vec<&str> {
        self.kept.iter().map(|&i| self.mapped[i].predicate).collect()
    }
}

/// Maps the members of a subgroup by Φ and removes their incidental steps.
///
/// The members are looked at together, because a pair of steps and its way back is only incidental when
/// the subgroup doesn't have it in common.
pub fn clean<'a>(units: &[&'a Unit], map: &'a AliasMap) -> Vec<CleanUnit<'a>> {
    let mut cleaned: Vec<CleanUnit> = units.iter().map(|unit| remove_plain(unit, map)).collect();
    let common = CommonPairs::of(&cleaned);
    for unit in &mut cleaned {
        unit.settle(&common);
    }
    cleaned
}

/// The rules that look at one step alone.
fn remove_plain<'a>(unit: &'a Unit, map: &'a AliasMap) -> CleanUnit<'a> {
    let mapped: Vec<Mapped> = unit.actions.iter().map(|action| map.map(action)).collect();
    let mut clean = CleanUnit { unit, mapped, kept: vec![], removed: vec![] };
    for (i, action) in unit.actions.iter().enumerate() {
        match clean.mapped[i].predicate {
            TERMINAL => clean.removed.push((i, "terminal")),
            "wait" => clean.removed.push((i, "wait")),
            "click" | "select" if map.dismisses_popup(action) => clean.removed.push((i, "dismissed_popup")),
            _ if clean.kept.is_empty() && leaves_app(&clean.mapped[i]) => {
                clean.removed.push((i, "transition"));
            }
            _ => clean.kept.push(i),
        }
    }
    clean
}

/// True for going to the home screen or the list of recent applications.
fn leaves_app(step: &Mapped) -> bool {
    step.predicate == "switch_focus" && matches!(step.value("target"), Some("home_screen" | "recent_apps"))
}

impl CleanUnit<'_> {
    /// The rules that look at neighbours, until nothing changes.
    fn settle(&mut self, common: &CommonPairs) {
        loop {
            let before = self.kept.len();
            self.remove_repeats();
            self.remove_undo_pairs(common);
            if self.kept.len() == before {
                break;
            }
        }
        if self.kept.is_empty() {
            self.removed.retain(|(_, rule)| *rule == "terminal");
            let gone: BTreeSet<usize> = self.removed.iter().map(|(i, _)| *i).collect();
            self.kept = (0..self.mapped.len()).filter(|i| !gone.contains(i)).collect();
        }
        self.removed.sort_unstable();
    }

    fn remove_repeats(&mut self) {
        let mut kept: Vec<usize> = Vec::with_capacity(self.kept.len());
        for &i in &self.kept {
            match kept.last() {
                Some(&previous) if self.same(previous, i) => self.removed.push((i, "repeat")),
                _ => kept.push(i),
            }
        }
        self.kept = kept;
    }

    fn remove_undo_pairs(&mut self, common: &CommonPairs) {
        let pairs: Vec<usize> =
            self.undo_pairs().into_iter().filter(|&at| !common.holds(&self.pair_keys(at))).collect();
        let mut gone: Vec<usize> = pairs.iter().flat_map(|&at| [self.kept[at], self.kept[at + 1]]).collect();
        self.kept.retain(|i| !gone.contains(i));
        gone.sort_unstable();
        self.removed.extend(gone.into_iter().map(|i| (i, "undo_pair")));
    }

    /// Indices into `kept` at which a step and its undoing begin, without overlap.
    fn undo_pairs(&self) -> Vec<usize> {
        let mut pairs: Vec<usize> = vec![];
        // The trace must go on after a pair, so the last two steps never are one.
        for at in 0..self.kept.len().saturating_sub(2) {
            let [done, undo, next] = [at, at + 1, at + 2].map(|at| &self.mapped[self.kept[at]]);
            let returns = is_undo(undo) && self.identified(self.kept[at]) && !is_undo(next);
            let undone = match undo.predicate {
                "scroll" => is_opposite_scroll(done, undo),
                "back" => returns && LEADS_AWAY.contains(&done.predicate),
                _ => returns && CHANGES.contains(&done.predicate) && !is_undo(done),
            };
            if undone && pairs.last().is_none_or(|last| last + 2 <= at) {
                pairs.push(at);
            }
        }
        pairs
    }

    /// What a pair is recognised by in other members: its step, or its step's predicate after the step
    /// before it, for a step on another element in every member.
    fn pair_keys(&self, at: usize) -> [String; 2] {
        let step = |at: usize| &self.mapped[self.kept[at]];
        let done = step(at);
        let before = at.checked_sub(1).map_or_else(String::new, |at| describe(step(at)));
        [describe(done), format!("{before}\u{1f}{}", done.predicate)]
    }

    /// True when step `b` does what step `a` did.
    fn same(&self, a: usize, b: usize) -> bool {
        let (first, second) = (&self.mapped[a], &self.mapped[b]);
        let phrase = |i: usize| self.unit.actions[i].phrase.as_deref();
        let same_phrase = || first.predicate != "scroll" && phrase(a) == phrase(b);
        first.predicate == second.predicate
            && first.predicate != "back"
            && self.identified(a)
            && first.args.len() == second.args.len()
            && first.args.iter().zip(&second.args).all(|(x, y)| (x.field, x.value) == (y.field, y.value))
            && (!first.args.is_empty() || same_phrase())
    }

    /// True when more than the verb is known of the step.
    fn identified(&self, i: usize) -> bool {
        !self.mapped[i].args.is_empty()
            || self.unit.actions[i].phrase.as_deref().is_some_and(|p| !p.trim().is_empty())
    }
}

fn is_undo(step: &Mapped) -> bool {
    step.predicate == "back"
        || step.value("key").is_some_and(|key| UNDO_KEYS.contains(&key.to_ascii_lowercase().as_str()))
}

fn is_opposite_scroll(first: &Mapped, second: &Mapped) -> bool {
    let direction = |step: &Mapped| step.value("direction")?.parse::<Direction>().ok();
    first.predicate == "scroll" && direction(first).is_some_and(|d| direction(second) == Some(d.opposite()))
}

fn describe(step: &Mapped) -> String {
    let mut text = step.predicate.to_owned();
    for arg in &step.args {
        text.push('\u{1f}');
        text.push_str(arg.value);
    }
    text
}

/// The undo pairs that at least half of the members, two or more, have.
struct CommonPairs(BTreeSet<String>);

impl CommonPairs {
    fn of(units: &[CleanUnit]) -> Self {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for unit in units {
            let keys: BTreeSet<String> =
                unit.undo_pairs().into_iter().flat_map(|at| unit.pair_keys(at)).collect();
            for key in keys {
                *counts.entry(key).or_default() += 1;
            }
        }
        let common = counts.into_iter().filter(|(_, n)| *n >= 2 && 2 * n >= units.len());
        Self(common.map(|(key, _)| key).collect())
    }

    fn holds(&self, keys: &[String]) -> bool {
        keys.iter().any(|key| self.0.contains(key))
    }
}
