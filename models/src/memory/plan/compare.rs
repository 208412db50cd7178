//! Plans against recorded steps, and against each other.

use tracemill_data::artifact::{PlanStep, TraceStep};

use super::words::padded;

/// A step that was recorded for a task.
pub type Wanted = TraceStep;

/// Least Levenshtein similarity at which two labels are the same.
const SAME_LABEL: f64 = 0.85;

/// Whether two labels name the same element: the same words, or nearly the same letters.
pub(super) fn same_label(a: &str, b: &str) -> bool {
    let (x, y) = (padded(a), padded(b));
    if x.trim().is_empty() || y.trim().is_empty() {
        return a.trim() == b.trim();
    }
    x == y || strsim::normalized_levenshtein(&x, &y) >= SAME_LABEL
}

/// Whether a planned step is what was recorded: the same predicate, and every argument that the recording has. An
/// open argument is none.
pub fn equal_steps(planned: &PlanStep, recorded: &TraceStep) -> bool {
    planned.verb == recorded.verb
        && recorded.args.iter().all(|arg| {
            planned.value(&arg.field).is_some_and(|value| match arg.field.as_str() {
                "direction" | "key" => value.eq_ignore_ascii_case(&arg.value),
                "text" => value.trim().eq_ignore_ascii_case(arg.value.trim()),
                _ => same_label(value, &arg.value),
            })
        })
}

/// How far a plan and a recording agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// Share of the recorded steps that some planned step is, each planned step counted once.
    pub coverage: f64,
    /// Of those, the share that comes in the recorded order (longest common subsequence); none without any.
    pub order: Option<f64>,
}

/// Compares a plan with a recording.
pub fn agreement(planned: &[&PlanStep], recorded: &[TraceStep]) -> Agreement {
    let mut used = vec![false; planned.len()];
    let mut found = 0;
    for step in recorded {
        if let Some(at) = (0..planned.len()).find(|&i| !used[i] && equal_steps(planned[i], step)) {
            used[at] = true;
            found += 1;
        }
    }
    let mut longest = vec![vec![0usize; recorded.len() + 1]; planned.len() + 1];
    for (i, step) in planned.iter().enumerate() {
        for (j, other) in recorded.iter().enumerate() {
            longest[i + 1][j + 1] = if equal_steps(step, other) {
                longest[i][j] + 1
            } else {
                longest[i][j + 1].max(longest[i + 1][j])
            };
        }
    }
    let in_order = longest[planned.len()][recorded.len()];
    Agreement {
        coverage: if recorded.is_empty() { 0.0 } else { f64::from(found) / recorded.len() as f64 },
        order: (found > 0).then(|| in_order as f64 / f64::from(found)),
    }
}

/// Step consistency (appendix E): how many plan units have the same steps in all plannings, and how many there are.
///
/// `plannings` holds, for each planning of one command, its units; a unit holds the embeddings of its steps, of norm 1.
/// A unit counts when every planning has it with as many steps, and corresponding steps exceed `threshold` cosine in
/// all pairs.
pub fn step_consistency(plannings: &[Vec<Vec<Vec<f32>>>], threshold: f64) -> (usize, usize) {
    let units = plannings.iter().map(Vec::len).max().unwrap_or(0);
    let consistent = |unit: usize| {
        let Some(each) = plannings.iter().map(|p| p.get(unit)).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let steps = each[0].len();
        each.iter().all(|u| u.len() == steps)
            && (0..steps).all(|s| {
                let pairs = (0..each.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
                pairs.into_iter().all(|(i, j)| cosine(&each[i][s], &each[j][s]) > threshold)
            })
    };
    ((0..units).filter(|&unit| consistent(unit)).count(), units)
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}

#[cfg(test)]
mod tests {
    use tracemill_data::artifact::{Bound, Origin, PlanArg, TraceArg};

    use super::*;

    fn planned(verb: &str, field: &str, value: &str) -> PlanStep {
        let value = (!value.is_empty()).then(|| value.to_owned());
        let bound = if value.is_some() { Bound::Memory } else { Bound::Open };
        let arg = PlanArg { field: field.to_owned(), kind: String::new(), value, bound };
        PlanStep { verb: verb.to_owned(), args: vec![arg], from: Origin::Unit, id: String::new() }
    }

    fn recorded(verb: &str, field: &str, value: &str) -> TraceStep {
        let arg = TraceArg { field: field.to_owned(), kind: String::new(), value: value.to_owned() };
        TraceStep { step: 0, verb: verb.to_owned(), args: vec![arg] }
    }

    #[test]
    fn steps_are_equal_by_predicate_and_recorded_arguments() {
        assert!(equal_steps(&planned("click", "target", "'Save'"), &recorded("click", "target", "save")));
        assert!(!equal_steps(&planned("click", "target", "Save"), &recorded("save", "target", "Save")));
        assert!(!equal_steps(&planned("text_input", "text", "Oslo"), &recorded("text_input", "text", "Osl")));
        assert!(!equal_steps(&planned("click", "target", ""), &recorded("click", "target", "Save")), "open");
        let nameless = TraceStep { args: vec![], ..recorded("click", "", "") };
        assert!(equal_steps(&planned("click", "target", "Save"), &nameless));
    }

    #[test]
    fn coverage_counts_once_and_order_is_the_longest_run() {
        let plan = [
            planned("click", "target", "A"),
            planned("click", "target", "B"),
            planned("click", "target", "C"),
        ];
        let plan: Vec<&PlanStep> = plan.iter().collect();
        let wanted =
            |labels: &[&str]| labels.iter().map(|l| recorded("click", "target", l)).collect::<Vec<_>>();
        assert_eq!(agreement(&plan, &wanted(&["A", "B"])), Agreement { coverage: 1.0, order: Some(1.0) });
        assert_eq!(agreement(&plan, &wanted(&["C", "A"])), Agreement { coverage: 1.0, order: Some(0.5) });
        assert_eq!(agreement(&plan, &wanted(&["A", "A"])).coverage, 0.5);
        assert_eq!(agreement(&plan, &wanted(&["X"])), Agreement { coverage: 0.0, order: None });
    }

    #[test]
    fn a_unit_is_consistent_only_above_the_threshold_in_every_pair() {
        let at = |cosine: f32| vec![cosine, (1.0 - cosine * cosine).sqrt()];
        let planning = |cosine: f32| vec![vec![at(cosine)]];
        let mut five = vec![planning(1.0), planning(1.0), planning(1.0), planning(1.0), planning(0.94)];
        assert_eq!(step_consistency(&five, 0.93), (1, 1));
        five[4] = planning(0.92);
        assert_eq!(step_consistency(&five, 0.93), (0, 1));
        five[4] = vec![];
        assert_eq!(step_consistency(&five, 0.93), (0, 1), "a planning without the unit");
        five[4] = vec![vec![at(1.0), at(1.0)]];
        assert_eq!(step_consistency(&five, 0.93), (0, 1), "another number of steps");
    }
}
