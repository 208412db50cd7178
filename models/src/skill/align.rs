//! Alignment of a member's steps to a schema's: which step gives an argument its example.

use tracemill_data::artifact::Mapped;

/// Cost of one edit; the labels of all steps together weigh less than one edit.
const EDIT: u32 = 1 << 12;

/// For each step of `schema`, the position in `member` of the step it corresponds to, if any.
///
/// A Levenshtein alignment of the predicates; among alignments of equal distance, the one in which the
/// most aligned steps act on the same target (`[click Alarm, click Add]` against `[click Add]` must not
/// take `Add` for an example of `Alarm`). Only equal predicates correspond.
pub fn align(schema: &[&Mapped], member: &[&Mapped]) -> Vec<Option<usize>> {
    let (rows, columns) = (schema.len() + 1, member.len() + 1);
    let mut cost = vec![0_u32; rows * columns];
    let at = |i: usize, j: usize| i * columns + j;
    for i in 0..rows {
        for j in 0..columns {
            cost[at(i, j)] = match (i, j) {
                (0, _) => j as u32 * EDIT,
                (_, 0) => i as u32 * EDIT,
                _ => (cost[at(i - 1, j - 1)] + step_cost(schema[i - 1], member[j - 1]))
                    .min(cost[at(i - 1, j)] + EDIT)
                    .min(cost[at(i, j - 1)] + EDIT),
            };
        }
    }
    let mut aligned = vec![None; schema.len()];
    let (mut i, mut j) = (schema.len(), member.len());
    while i > 0 && j > 0 {
        let (s, m) = (schema[i - 1], member[j - 1]);
        if cost[at(i, j)] == cost[at(i - 1, j - 1)] + step_cost(s, m) {
            (i, j) = (i - 1, j - 1);
            aligned[i] = (s.predicate == m.predicate).then_some(j);
        } else if cost[at(i, j)] == cost[at(i - 1, j)] + EDIT {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    aligned
}

fn step_cost(schema: &Mapped, member: &Mapped) -> u32 {
    if schema.predicate == member.predicate {
        u32::from(schema.value("target") != member.value("target"))
    } else {
        EDIT
    }
}

#[cfg(test)]
mod tests {
    use tracemill_data::views::UnitAction;

    use super::*;
    use crate::skill::testing::{MAP, step, target};

    fn aligned(schema: &[UnitAction], member: &[UnitAction]) -> Vec<Option<usize>> {
        let map = &*MAP;
        let schema: Vec<Mapped> = schema.iter().map(|a| map.map(a)).collect();
        let member: Vec<Mapped> = member.iter().map(|a| map.map(a)).collect();
        align(&schema.iter().collect::<Vec<_>>(), &member.iter().collect::<Vec<_>>())
    }

    #[test]
    fn targets_break_ties_between_equal_distances() {
        let schema = [target("click", "Alarm"), target("click", "Add"), step("back")];
        assert_eq!(aligned(&schema, &[target("click", "Add"), step("back")]), [None, Some(0), Some(1)]);
        assert_eq!(aligned(&schema, &[target("click", "Alarm"), step("back")]), [Some(0), None, Some(1)]);
    }

    #[test]
    fn substituted_steps_give_no_example() {
        let schema = [target("click", "Alarm"), step("back")];
        assert_eq!(aligned(&schema, &[step("home"), step("back")]), [None, Some(1)]);
        assert_eq!(aligned(&schema, &[]), [None, None]);
    }
}
