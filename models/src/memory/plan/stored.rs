//! Recorded episodes as approved plans: what evaluation stores in place of what users have approved.

use tracemill_data::artifact::PlanStep;

use super::PlanError;
use super::fill::recorded_steps;
use super::memory::{StoredPlan, StoredUnit};
use super::planner::Planner;
use super::words::stems;
use crate::memory::vectors::dot;

impl StoredPlan {
    /// A recorded episode as an approved plan: each clause of its command has the units that lie nearest to it, in
    /// order. `units` are rows of the memory with their subgroup.
    ///
    /// # Errors
    /// Those of decomposer and encoder.
    pub fn of_episode(
        plan_id: &str,
        command: &str,
        units: &[(usize, i32)],
        planner: &Planner<'_>,
    ) -> Result<Self, PlanError> {
        let memory = planner.memory;
        let slots =
            planner.decomposer.decompose(command, &memory.environments).map_err(PlanError::Command)?;
        let texts: Vec<(Option<&str>, &str)> =
            slots.iter().map(|s| (planner.environment_text(s.env.as_deref()), s.clause.as_str())).collect();
        let prototypes = planner.prototypes.encode(&texts)?;
        let fits = |s: usize, u: usize| {
            let (row, _) = units[u];
            let trace = &memory.traces[row];
            let env = slots[s].env.as_deref() == Some(trace.env_tag.as_str());
            let z = memory.vectors.vector(row).map_or(0.0, |v| dot(v, &prototypes[s]));
            let own = stems(&slots[s].clause);
            let theirs = stems(&trace.description);
            let words = own.iter().filter(|w| theirs.contains(w)).count() as f32 / own.len().max(1) as f32;
            f32::from(u8::from(env)) + z + words
        };
        let owner = in_order(slots.len(), units.len(), fits);
        let mut out: Vec<StoredUnit> = Vec::new();
        for (s, (slot, z)) in slots.iter().zip(&prototypes).enumerate() {
            let own: Vec<usize> = (0..units.len()).filter(|u| owner[*u] == s).collect();
            let act = slot.act.text();
            match (own.is_empty(), out.last_mut()) {
                // A clause without a unit of its own is served by the one before it.
                (true, Some(before)) => before.acts.push(act),
                (true, None) => {}
                (false, _) => out.push(StoredUnit {
                    description: slot.clause.clone(),
                    env: slot.env.clone().unwrap_or(memory.traces[units[own[0]].0].env_tag.clone()),
                    acts: vec![act],
                    z: z.clone(),
                    subgroups: own.iter().map(|u| units[*u].1).filter(|sg| *sg >= 0).collect(),
                    steps: own.iter().flat_map(|u| steps_of(planner, units[*u].0, command)).collect(),
                }),
            }
        }
        Ok(Self { plan_id: plan_id.to_owned(), command: command.to_owned(), units: out })
    }
}

fn steps_of(planner: &Planner<'_>, row: usize, command: &str) -> Vec<PlanStep> {
    let memory = planner.memory;
    let trace = &memory.traces[row];
    let skill = memory.skill_of_unit.get(&trace.unit_id).and_then(|(sg, at)| memory.skills[sg].get(*at));
    recorded_steps(trace, command, skill, planner.map)
}

/// Which of `slots` each of `units` belongs to: ascending, with the greatest sum of `fits`.
fn in_order(slots: usize, units: usize, fits: impl Fn(usize, usize) -> f32) -> Vec<usize> {
    let mut best = vec![vec![0f32; slots]; units];
    for u in 0..units {
        for s in 0..slots {
            let before =
                if u == 0 { 0.0 } else { best[u - 1][..=s].iter().copied().fold(f32::MIN, f32::max) };
            best[u][s] = before + fits(s, u);
        }
    }
    let mut owner = vec![0; units];
    let mut most = slots;
    for u in (0..units).rev() {
        let choice = (0..most).max_by(|a, b| best[u][*a].total_cmp(&best[u][*b]).then(b.cmp(a)));
        owner[u] = choice.unwrap_or(0);
        most = owner[u] + 1;
    }
    owner
}
