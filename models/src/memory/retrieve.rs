//! Two-level retrieval: gate by intent group, rank subgroups by centroid (`IntentCUA`, sections 3.2 and 4.1).

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use tracemill_data::artifact::{IntentRow, SubgroupRow};

use super::vectors::{by_cosine, check, dot};
use super::{MemoryError, UnitHit, UnitIndex};

/// A subgroup as the index stores it.
#[derive(Debug, Clone, PartialEq)]
pub struct SubgroupEntry {
    /// Intent group it lies in.
    pub ig: i32,
    /// Subgroup, unique across the run.
    pub sg: i32,
    /// Mean of the members' latents, of norm 1 (the paper's `c_SG`).
    pub centroid: Vec<f32>,
    /// Number of members.
    pub size: usize,
    /// Members that agree with the subgroup's skill; 0 when it has none. Decides between equal scores, "used to
    /// prefer stable patterns" (section 3.2).
    pub support: usize,
    /// Representative units by their row, nearest to the centroid first.
    pub representatives: Vec<usize>,
}

/// An intent group's prototype.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupEntry {
    /// Intent group.
    pub ig: i32,
    /// Mean of the latents of all its units, of norm 1.
    pub centroid: Vec<f32>,
}

/// Settings of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuerySettings {
    /// Subgroups returned at most.
    pub top_k: usize,
    /// Intent groups that pass the gate: those whose prototypes are nearest to the query. The paper gates by "the
    /// active IG"; the default of 3 keeps a wrong first group from hiding the right subgroup.
    pub gates: usize,
    /// Units returned for each subgroup at most; 2 in the paper (section 4.1).
    pub units_per_subgroup: usize,
}

impl Default for QuerySettings {
    fn default() -> Self {
        Self { top_k: 5, gates: 3, units_per_subgroup: 2 }
    }
}

/// A subgroup found.
#[derive(Debug, Clone, PartialEq)]
pub struct SubgroupHit {
    /// Intent group.
    pub ig: i32,
    /// Subgroup.
    pub sg: i32,
    /// Cosine of the query and the subgroup's centroid: what subgroups are ranked by.
    pub score: f32,
    /// Cosine of the query and the intent group's prototype: what the gate looked at.
    pub gate_score: f32,
    /// Support of the subgroup's skill.
    pub support: usize,
    /// Representative units, re-ranked by their similarity to the query.
    pub units: Vec<UnitHit>,
}

/// The two-level index of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct IntentIndex {
    /// Subgroups, ascending by `sg`. Noise is none of them.
    pub subgroups: Vec<SubgroupEntry>,
    /// Intent groups, ascending by `ig`.
    pub groups: Vec<GroupEntry>,
}

impl IntentIndex {
    /// Builds the index from a run's intents. Rows of `units` are the unit numbers of the result; `support` gives the
    /// support of a subgroup's first skill.
    ///
    /// # Errors
    /// [`MemoryError`] when vectors differ in width or are not of norm 1, a subgroup names a unit that is not in
    /// `units`, or its intent group has no unit.
    pub fn build(
        units: &[IntentRow],
        subgroups: &[SubgroupRow],
        support: &BTreeMap<i32, usize>,
    ) -> Result<Self, MemoryError> {
        let groups = group_centroids(units)?;
        let row_of: HashMap<&str, usize> =
            units.iter().enumerate().map(|(row, unit)| (unit.unit_id.as_str(), row)).collect();
        let mut entries = Vec::with_capacity(subgroups.len());
        for row in subgroups {
            let reject = |reason| MemoryError::Subgroup { sg: row.sg, reason };
            let group = find_group(&groups, row.ig)
                .ok_or_else(|| reject(format!("no unit lies in its intent group {}", row.ig)))?;
            check(&row.centroid, group.centroid.len(), || format!("centroid of subgroup {}", row.sg))?;
            let find = |id: &String| {
                row_of.get(id.as_str()).copied().ok_or_else(|| reject(format!("no unit is called `{id}`")))
            };
            entries.push(SubgroupEntry {
                ig: row.ig,
                sg: row.sg,
                centroid: row.centroid.clone(),
                size: row.size as usize,
                support: support.get(&row.sg).copied().unwrap_or(0),
                representatives: row.representative_unit_ids.iter().map(find).collect::<Result<_, _>>()?,
            });
        }
        entries.sort_by_key(|entry| entry.sg);
        Ok(Self { subgroups: entries, groups })
    }

    /// The subgroups nearest to the intent prototype `z`, best first: the gate passes the nearest intent groups, their
    /// subgroups are ranked by centroid cosine, and each one's representatives by their similarity to `z`. Equal
    /// scores go to the larger support, then to the smaller number.
    ///
    /// `units` holds the latents of the same units in the same order.
    ///
    /// # Errors
    /// [`MemoryError`] when `z` has another width than the units or is not of norm 1, when `gates` is 0, or when a
    /// representative is not in `units`.
    pub fn query(
        &self,
        units: &UnitIndex,
        z: &[f32],
        settings: QuerySettings,
    ) -> Result<Vec<SubgroupHit>, MemoryError> {
        let QuerySettings { top_k, gates, units_per_subgroup } = settings;
        if gates == 0 {
            return Err(MemoryError::Setting { key: "gates", value: 0, least: 1 });
        }
        check(z, units.dim(), || "query".to_owned())?;
        let open = self.open_gates(z, gates);
        let mut ranked: Vec<(&SubgroupEntry, f32)> = self
            .subgroups
            .iter()
            .filter(|entry| open.contains_key(&entry.ig))
            .map(|entry| (entry, dot(&entry.centroid, z)))
            .collect();
        ranked.sort_by(by_score);
        ranked.truncate(top_k);
        let hit = |(entry, score): (&SubgroupEntry, f32)| {
            Ok(SubgroupHit {
                ig: entry.ig,
                sg: entry.sg,
                score,
                gate_score: open[&entry.ig],
                support: entry.support,
                units: rank_units(entry, units, z, units_per_subgroup)?,
            })
        };
        ranked.into_iter().map(hit).collect()
    }

    /// The intent groups that pass the gate, with their scores.
    pub(super) fn open_gates(&self, z: &[f32], gates: usize) -> BTreeMap<i32, f32> {
        let mut scored: Vec<(i32, f32)> = self.groups.iter().map(|g| (g.ig, dot(&g.centroid, z))).collect();
        scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        scored.into_iter().take(gates).collect()
    }
}

fn by_score(a: &(&SubgroupEntry, f32), b: &(&SubgroupEntry, f32)) -> Ordering {
    b.1.total_cmp(&a.1).then(b.0.support.cmp(&a.0.support)).then(a.0.sg.cmp(&b.0.sg))
}

fn find_group(groups: &[GroupEntry], ig: i32) -> Option<&GroupEntry> {
    groups.binary_search_by_key(&ig, |group| group.ig).ok().map(|at| &groups[at])
}

fn rank_units(
    entry: &SubgroupEntry,
    units: &UnitIndex,
    z: &[f32],
    count: usize,
) -> Result<Vec<UnitHit>, MemoryError> {
    let score = |unit: &usize| match units.vector(*unit) {
        Some(vector) => Ok(UnitHit { unit: *unit, cosine: dot(vector, z) }),
        None => Err(MemoryError::Subgroup { sg: entry.sg, reason: format!("the index has no unit {unit}") }),
    };
    let mut hits = entry.representatives.iter().map(score).collect::<Result<Vec<_>, _>>()?;
    hits.sort_by(by_cosine);
    hits.truncate(count);
    Ok(hits)
}

/// Mean latent of each intent group, of norm 1, ascending by group; units outside every group (noise) are left out.
fn group_centroids(units: &[IntentRow]) -> Result<Vec<GroupEntry>, MemoryError> {
    let dim = units.first().map_or(0, |unit| unit.z.len());
    let mut sums: BTreeMap<i32, Vec<f64>> = BTreeMap::new();
    for unit in units {
        check(&unit.z, dim, || format!("unit {}", unit.unit_id))?;
        if unit.ig >= 0 {
            let sum = sums.entry(unit.ig).or_insert_with(|| vec![0.0; dim]);
            sum.iter_mut().zip(&unit.z).for_each(|(s, z)| *s += f64::from(*z));
        }
    }
    let entry = |(ig, sum): (i32, Vec<f64>)| {
        let norm = sum.iter().map(|s| s * s).sum::<f64>().sqrt();
        // Opposite latents may cancel; a zero prototype then scores 0 for every query.
        let scale = if norm > 0.0 { 1.0 / norm } else { 0.0 };
        GroupEntry { ig, centroid: sum.iter().map(|s| (s * scale) as f32).collect() }
    };
    Ok(sums.into_iter().map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::IndexSettings;

    /// A unit at `degrees` on the unit circle.
    fn unit(id: usize, degrees: f32, ig: i32, sg: i32) -> IntentRow {
        IntentRow {
            unit_id: format!("u{id}"),
            z: at(degrees),
            ig,
            sg,
            ig_probability: 1.0,
            sg_probability: 1.0,
        }
    }

    fn at(degrees: f32) -> Vec<f32> {
        vec![degrees.to_radians().cos(), degrees.to_radians().sin()]
    }

    fn subgroup(ig: i32, sg: i32, degrees: f32, units: &[usize]) -> SubgroupRow {
        SubgroupRow {
            ig,
            sg,
            centroid: at(degrees),
            size: units.len() as u32,
            representative_unit_ids: units.iter().map(|u| format!("u{u}")).collect(),
        }
    }

    /// Group 0 lies around 5 degrees, group 1 around 90, group 2 around 180; unit 6 is noise at 40 degrees.
    fn fixture() -> (Vec<IntentRow>, Vec<SubgroupRow>) {
        let units = vec![
            unit(0, 0.0, 0, 0),
            unit(1, 10.0, 0, 0),
            unit(2, 80.0, 1, 1),
            unit(3, 84.0, 1, 1),
            unit(4, 105.0, 1, 2),
            unit(5, 180.0, 2, 3),
            unit(6, 40.0, -1, -1),
        ];
        let subgroups = vec![
            subgroup(2, 3, 180.0, &[5]),
            subgroup(0, 0, 5.0, &[0, 1]),
            subgroup(1, 2, 105.0, &[4]),
            subgroup(1, 1, 82.0, &[2, 3]),
        ];
        (units, subgroups)
    }

    fn index(units: &[IntentRow]) -> UnitIndex {
        let z = units.iter().flat_map(|u| u.z.clone()).collect();
        UnitIndex::build(z, 2, IndexSettings::default()).unwrap()
    }

    fn query(degrees: f32, settings: QuerySettings) -> Vec<SubgroupHit> {
        let (units, subgroups) = fixture();
        let intents = IntentIndex::build(&units, &subgroups, &BTreeMap::new()).unwrap();
        intents.query(&index(&units), &at(degrees), settings).unwrap()
    }

    fn found(hits: &[SubgroupHit]) -> Vec<i32> {
        hits.iter().map(|hit| hit.sg).collect()
    }

    #[test]
    fn the_gate_shuts_out_near_subgroups_of_far_groups() {
        // 50 degrees is nearer to group 1 (89.7) than to group 0 (5), and nearer to sg 0 (5) than to sg 2 (105).
        let gated = |gates| query(50.0, QuerySettings { gates, ..QuerySettings::default() });
        assert_eq!(found(&gated(1)), [1, 2]);
        assert_eq!(found(&gated(2)), [1, 0, 2]);
        assert_eq!(found(&gated(99)), [1, 0, 2, 3]);
    }

    #[test]
    fn scores_are_cosines_and_units_are_ranked_again() {
        let hits = query(90.0, QuerySettings { top_k: 1, gates: 1, units_per_subgroup: 1 });
        let [hit] = hits.as_slice() else { panic!("{hits:?}") };
        assert_eq!((hit.ig, hit.sg), (1, 1));
        assert!((hit.score - 8f32.to_radians().cos()).abs() < 1e-6);
        assert!(hit.gate_score > 0.999 && hit.gate_score < 1.0);
        assert_eq!(hit.units.len(), 1);
        assert_eq!(hit.units[0].unit, 3);
        assert!((hit.units[0].cosine - 6f32.to_radians().cos()).abs() < 1e-6);
    }

    #[test]
    fn ties_go_to_support_then_to_the_smaller_number() {
        let units = vec![unit(0, 0.0, 0, 0), unit(1, 0.0, 0, 1), unit(2, 0.0, 0, 2)];
        let rows: Vec<SubgroupRow> = (0..3).map(|sg| subgroup(0, sg, 0.0, &[sg as usize])).rev().collect();
        let ask = |support: BTreeMap<i32, usize>| {
            let intents = IntentIndex::build(&units, &rows, &support).unwrap();
            found(&intents.query(&index(&units), &at(1.0), QuerySettings::default()).unwrap())
        };
        assert_eq!(ask(BTreeMap::new()), [0, 1, 2]);
        assert_eq!(ask(BTreeMap::from([(1, 4), (2, 4)])), [1, 2, 0]);
    }

    #[test]
    fn greedy_sees_noise_and_crosses_groups() {
        let (units, _) = fixture();
        let hits = index(&units).top_k(&at(44.0), 3).unwrap();
        assert_eq!(hits.iter().map(|h| h.unit).collect::<Vec<_>>(), [6, 1, 2]);
    }

    #[test]
    fn an_empty_run_answers_with_nothing() {
        let intents = IntentIndex::build(&[], &[], &BTreeMap::new()).unwrap();
        let units = UnitIndex::build(Vec::new(), 2, IndexSettings::default()).unwrap();
        assert!(intents.query(&units, &at(0.0), QuerySettings::default()).unwrap().is_empty());
    }

    #[test]
    fn files_that_do_not_belong_together_are_named() {
        let (units, mut subgroups) = fixture();
        let build = |rows: &[SubgroupRow]| {
            IntentIndex::build(&units, rows, &BTreeMap::new()).map(|_| ()).unwrap_err().to_string()
        };
        subgroups[0].representative_unit_ids.push("gone".to_owned());
        assert!(build(&subgroups).contains("subgroup 3: no unit is called `gone`"));
        assert!(build(&[subgroup(7, 9, 0.0, &[0])]).contains("intent group 7"));
        let mut narrow = subgroup(0, 0, 0.0, &[0]);
        narrow.centroid.pop();
        assert!(build(&[narrow]).contains("centroid of subgroup 0: 1 values, expected 2"));
        let settings = QuerySettings { gates: 0, ..QuerySettings::default() };
        let intents = IntentIndex::build(&units, &[], &BTreeMap::new()).unwrap();
        assert!(intents.query(&index(&units), &at(0.0), settings).is_err());
    }
}
