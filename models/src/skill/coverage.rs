//! How much of a corpus Φ covers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tracemill_data::artifact::{Coverage, Mapped};

/// Counts of steps by how Φ mapped them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliasCoverage {
    /// Steps whose rule found the fields it needs.
    pub mapped_by_rule: u64,
    /// Steps of which only the verb could be mapped.
    pub by_fallback: u64,
    /// Steps without a rule, by the source's own verb; they keep their verb as predicate.
    pub unmapped: BTreeMap<String, u64>,
    /// Steps each rule decided.
    pub rules: BTreeMap<String, u64>,
}

impl AliasCoverage {
    /// Counts one step.
    pub fn add(&mut self, mapped: &Mapped, source_verb: &str) {
        match mapped.coverage {
            Coverage::Rule => self.mapped_by_rule += 1,
            Coverage::Fallback => self.by_fallback += 1,
            Coverage::Unmapped => bump(&mut self.unmapped, source_verb, 1),
        }
        if mapped.coverage != Coverage::Unmapped {
            bump(&mut self.rules, mapped.rule, 1);
        }
    }

    /// Adds the counts of another part of the corpus.
    pub fn merge(&mut self, other: &Self) {
        self.mapped_by_rule += other.mapped_by_rule;
        self.by_fallback += other.by_fallback;
        for (verb, count) in &other.unmapped {
            bump(&mut self.unmapped, verb, *count);
        }
        for (rule, count) in &other.rules {
            bump(&mut self.rules, rule, *count);
        }
    }

    /// All steps counted.
    pub fn total(&self) -> u64 {
        self.mapped_by_rule + self.by_fallback + self.unmapped.values().sum::<u64>()
    }
}

fn bump(counts: &mut BTreeMap<String, u64>, key: &str, by: u64) {
    if let Some(count) = counts.get_mut(key) {
        *count += by;
    } else {
        counts.insert(key.to_owned(), by);
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::skill::testing::{MAP, step, target};

    #[test]
    fn every_step_is_counted_once_and_counts_add_up() {
        let map = &*MAP;
        let mut one = AliasCoverage::default();
        for action in [step("wait"), target("click", "Alarm"), step("click"), step("warp")] {
            one.add(&map.map(&action), &action.source_verb);
        }
        assert_eq!((one.mapped_by_rule, one.by_fallback, one.total()), (2, 1, 4));
        assert_eq!(one.unmapped, BTreeMap::from([("WARP".to_owned(), 1)]));
        let mut two = one.clone();
        two.merge(&one);
        assert_eq!(two.total(), 8);
        assert_eq!(two.rules["pointer_unnamed"], 2);
    }
}
