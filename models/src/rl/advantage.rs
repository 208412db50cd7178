//! Group-relative advantages: the rewards of one prompt's samples against each other.

use serde::{Deserialize, Serialize};

use super::error::RlError;
use super::settings::check;

/// Which standard deviation divides the centred rewards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdRule {
    /// The group's (verl, TRL's default).
    Group,
    /// That of all rewards of the batch (TRL's `scale_rewards="batch"`).
    Batch,
    /// None (Dr. GRPO; verl's `norm_adv_by_std_in_grpo=False`, TRL's `scale_rewards="none"`).
    None,
}

/// The advantage of a sample that is alone in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SingleRule {
    /// 0: there is nothing to compare it with.
    Zero,
    /// Its reward, as mean 0 and deviation 1 leave it (verl).
    Raw,
}

/// Settings of the advantages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdvantageSettings {
    /// See [`StdRule`]. Absent: the loss says, see [`super::LossSettings::advantage`]; alone, `group`.
    pub std: Option<StdRule>,
    /// Added to the deviation: 1e-6 in verl, 1e-4 in TRL.
    pub eps: f64,
    /// Taken off the count in the deviation: 1 in verl and TRL, or 0.
    pub ddof: u8,
    /// See [`SingleRule`].
    pub single: SingleRule,
}

impl Default for AdvantageSettings {
    fn default() -> Self {
        Self { std: None, eps: 1e-6, ddof: 1, single: SingleRule::Zero }
    }
}

impl AdvantageSettings {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`RlError::Setting`] names the first setting out of range.
    pub fn validate(&self) -> Result<(), RlError> {
        check("advantage.eps", self.eps, self.eps.is_finite() && self.eps >= 0.0, "0 or more")?;
        check("advantage.ddof", f64::from(self.ddof), self.ddof <= 1, "0 or 1")
    }
}

/// The advantages of one group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupAdvantages {
    /// One for each sample; `None` where there was no reward.
    pub advantages: Vec<Option<f64>>,
    /// Samples with a reward.
    pub scored: usize,
    /// Mean of their rewards; 0 without any.
    pub mean: f64,
    /// Standard deviation of their rewards, or under [`StdRule::Batch`] of the batch's; 0 where fewer
    /// than `ddof + 1` have one.
    pub std: f64,
    /// Whether no sample has an advantage other than 0: the group teaches nothing.
    pub dead: bool,
}

/// The advantages of one group:
///
/// `A_i = (r_i − mean(r)) / (std(r) + eps)`, or without the division under [`StdRule::None`].
///
/// A sample without a reward (an infrastructure error) leaves the group: the others are scored among
/// themselves. Equal rewards give exactly 0, where the rounding of a mean over `eps` would not; a group
/// of one follows [`SingleRule`], under `raw` with `A = r / (1 + eps)` as in verl, or `r` under
/// [`StdRule::None`]. [`StdRule::Batch`] takes the group for the whole batch.
///
/// # Shapes
/// `rewards`: one for each sample, in any unit; `advantages` in the result: the same.
///
/// # Errors
/// [`RlError::NonFinite`] names a reward that is no number; [`RlError::Setting`].
pub fn group_advantages(
    rewards: &[Option<f64>],
    settings: &AdvantageSettings,
) -> Result<GroupAdvantages, RlError> {
    let mut groups = batch_advantages(&[rewards], settings)?;
    Ok(groups.remove(0))
}

/// The advantages of several groups, as [`group_advantages`] of each, but for [`StdRule::Batch`], whose
/// deviation is that of all rewards here around their common mean (TRL).
///
/// # Errors
/// Those of [`group_advantages`]; the index counts through all groups.
pub fn batch_advantages<G: AsRef<[Option<f64>]>>(
    groups: &[G],
    settings: &AdvantageSettings,
) -> Result<Vec<GroupAdvantages>, RlError> {
    settings.validate()?;
    let all: Vec<Option<f64>> = groups.iter().flat_map(AsRef::as_ref).copied().collect();
    for (index, value) in all.iter().enumerate() {
        if let Some(value) = value.filter(|r| !r.is_finite()) {
            return Err(RlError::NonFinite { what: "rewards", index, value });
        }
    }
    let (_, _, batch_std) = moments(&all, settings.ddof);
    Ok(groups.iter().map(|g| one_group(g.as_ref(), batch_std, settings)).collect())
}

fn one_group(rewards: &[Option<f64>], batch_std: f64, settings: &AdvantageSettings) -> GroupAdvantages {
    let rule = settings.std.unwrap_or(StdRule::Group);
    let (scored, mean, own_std) = moments(rewards, settings.ddof);
    let std = if rule == StdRule::Batch { batch_std } else { own_std };
    let first = rewards.iter().flatten().next();
    let equal = rewards.iter().flatten().all(|r| Some(r) == first);
    let advantage = |reward: f64| match (equal, settings.single, rule) {
        (true, SingleRule::Raw, StdRule::None) if scored == 1 => reward,
        (true, SingleRule::Raw, _) if scored == 1 => reward / (1.0 + settings.eps),
        (true, _, _) => 0.0,
        (false, _, StdRule::None) => reward - mean,
        (false, _, _) => (reward - mean) / (std + settings.eps),
    };
    let advantages: Vec<_> = rewards.iter().map(|r| r.map(advantage)).collect();
    let dead = advantages.iter().flatten().all(|a| *a == 0.0);
    GroupAdvantages { advantages, scored, mean, std, dead }
}

/// Count, mean and standard deviation of the rewards there are.
fn moments(rewards: &[Option<f64>], ddof: u8) -> (usize, f64, f64) {
    let scored = rewards.iter().flatten().count();
    if scored == 0 {
        return (0, 0.0, 0.0);
    }
    let mean = rewards.iter().flatten().sum::<f64>() / scored as f64;
    let squares: f64 = rewards.iter().flatten().map(|r| (r - mean).powi(2)).sum();
    let free = scored.saturating_sub(usize::from(ddof));
    (scored, mean, if free == 0 { 0.0 } else { (squares / free as f64).sqrt() })
}

#[cfg(test)]
#[path = "advantage_tests.rs"]
mod tests;
