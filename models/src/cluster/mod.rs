//! HDBSCAN, exact and without an N² matrix, and the two-level intent groups built on it.
//!
//! One stage a file: identical vectors are collapsed (`collapse`), nearest neighbours and core
//! distances found by blocks (`neighbours`, `distance`), a spanning tree of the mutual reachability
//! graph built (`boruvka`, `spanning`), made minimal (`sweep`), ties among its edges settled (`prim`), read
//! as a hierarchy (`linkage`), condensed (`condense`), clusters selected (`select`) and points
//! labelled (`labels`).
//!
//! Conventions are scikit-learn's: `min_samples` counts the point itself. Labels are numbered by
//! the smallest unit they contain. Ties in mutual reachability, which make the spanning tree
//! ambiguous, are broken in favour of what comes first in Prim's algorithm from the first row, as in
//! scikit-learn; see `prim`. The result does not depend on the number of threads.

mod boruvka;
mod collapse;
mod condense;
mod distance;
mod intents;
mod labels;
mod linkage;
mod neighbours;
mod oracle;
mod prim;
mod select;
mod spanning;
mod sweep;
#[cfg(test)]
mod tests;

pub use intents::{IntentAssignment, IntentSettings, intent_groups};

use serde::{Deserialize, Serialize};

use collapse::Distinct;
use condense::Condensed;
use distance::Points;
use linkage::Hierarchy;
use neighbours::Neighbours;

/// How clusters are chosen from the condensed tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// Excess of mass: the most persistent clusters, whatever their level.
    #[default]
    Eom,
    /// The leaves of the tree: the finest clusters.
    Leaf,
}

/// Which implementation clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// This module.
    #[default]
    Exact,
    /// The `hdbscan` crate: quadratic, and labels only (see [`Clustering`]).
    Crate,
}

/// Settings of [`hdbscan()`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HdbscanSettings {
    /// Units that make a cluster, at least 2.
    pub min_cluster_size: usize,
    /// Units, the point itself included, within a point's core distance; `None` is
    /// `min_cluster_size`.
    pub min_samples: Option<usize>,
    /// How clusters are chosen.
    pub selection: Selection,
    /// Whether excess of mass may select the root.
    pub allow_single_cluster: bool,
    /// With a single cluster allowed: the root is taken to form at this many times the distance at
    /// which it splits, so that it stays whole unless the parts are denser than the gap between
    /// them by a factor of more than about `2 - 1 / root_extent`. `None` lets it form at infinity
    /// as scikit-learn does, which asks for a factor of 2.
    pub root_extent: Option<f64>,
    /// Distances below this count as this, which bounds the weight that coincident or nearly
    /// coincident units have in the selection. 0 is plain HDBSCAN.
    pub resolution: f64,
    /// Which implementation.
    pub engine: Engine,
}

impl HdbscanSettings {
    /// Excess of mass by the exact engine, `min_samples` equal to `min_cluster_size`, no single
    /// cluster.
    pub fn new(min_cluster_size: usize) -> Self {
        Self {
            min_cluster_size,
            min_samples: None,
            selection: Selection::Eom,
            allow_single_cluster: false,
            root_extent: None,
            resolution: 0.0,
            engine: Engine::Exact,
        }
    }

    fn min_samples(&self) -> usize {
        self.min_samples.unwrap_or(self.min_cluster_size)
    }

    fn check(&self) -> Result<(), ClusterError> {
        let wrong = |setting, value: String, remedy| Err(ClusterError::Setting { setting, value, remedy });
        if self.min_cluster_size < 2 {
            return wrong("min_cluster_size", self.min_cluster_size.to_string(), "use 2 or more");
        }
        if self.min_samples() < 1 {
            return wrong(
                "min_samples",
                self.min_samples().to_string(),
                "use 1 or more: the point itself counts",
            );
        }
        if !(self.resolution >= 0.0 && self.resolution.is_finite()) {
            return wrong("resolution", self.resolution.to_string(), "use 0 or a positive distance");
        }
        if let Some(extent) = self.root_extent.filter(|extent| !(*extent >= 1.0 && extent.is_finite())) {
            return wrong("root_extent", extent.to_string(), "use a factor of 1 or more");
        }
        let plain = self.selection == Selection::Eom && self.resolution == 0.0 && self.root_extent.is_none();
        if self.engine == Engine::Crate && !plain {
            let remedy = "leaf selection, root_extent and resolution need the exact engine";
            return wrong("engine", "crate".into(), remedy);
        }
        Ok(())
    }
}

/// A clustering; all vectors have one entry for each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Clustering {
    /// Cluster of each row, -1 for noise. Clusters are numbered by their first row.
    pub labels: Vec<i32>,
    /// Strength of membership in \[0, 1\], 0 for noise. The crate engine knows only 0 and 1.
    pub probabilities: Vec<f64>,
    /// GLOSH outlier score in \[0, 1\]; 0 where there are too few rows to cluster. `NaN` from the
    /// crate engine, which does not compute it.
    pub outlier_scores: Vec<f64>,
    /// Total weight of the minimum spanning tree of the mutual reachability graph; `None` from the
    /// crate engine and where there are too few rows.
    pub tree_weight: Option<f64>,
    /// Whether the root was selected: the rows are one cluster without a split.
    pub single_cluster: bool,
}

impl Clustering {
    fn noise(rows: usize) -> Self {
        Self {
            labels: vec![-1; rows],
            probabilities: vec![0.0; rows],
            outlier_scores: vec![0.0; rows],
            tree_weight: None,
            single_cluster: false,
        }
    }

    /// Number of clusters.
    pub fn clusters(&self) -> usize {
        self.labels.iter().max().map_or(0, |&label| (label + 1) as usize)
    }
}

/// Why vectors could not be clustered.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The data are not a matrix of the given width.
    #[error("{values} values are not rows of {dim}: pass rows x dim values, dim at least 1")]
    Shape {
        /// Number of values.
        values: usize,
        /// Columns.
        dim: usize,
    },
    /// A value is NaN or infinite.
    #[error("row {row}, column {column} is {value}: remove or repair the row, distances need finite values")]
    NotFinite {
        /// Row, from 0.
        row: usize,
        /// Column, from 0.
        column: usize,
        /// The value.
        value: f32,
    },
    /// Two inputs that describe the same units differ in length.
    #[error("{latents} latents but {subs} subgroup vectors: pass one of each for every unit")]
    Units {
        /// Rows of the first.
        latents: usize,
        /// Rows of the second.
        subs: usize,
    },
    /// A setting is out of range.
    #[error("{setting} = {value}: {remedy}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What to do.
        remedy: &'static str,
    },
    /// More rows than 32-bit indices can name.
    #[error("{0} rows: at most 2^31 - 1 can be clustered, sample or partition them")]
    TooMany(usize),
    /// A matrix product failed.
    #[error("matrix product of the distances")]
    Product(#[from] candle_core::Error),
    /// The `hdbscan` crate failed.
    #[error("hdbscan crate: {0}; try the exact engine")]
    Crate(String),
}

/// HDBSCAN with Euclidean distances.
///
/// `data` is row-major, rows x `dim`, taken as given. Identical rows are collapsed and keep their
/// weight, which gives the same clusters as the rows by themselves, only that no tie can tear
/// them apart. Fewer rows than `min_cluster_size` or `min_samples` are all noise.
///
/// Memory: a centred copy of the data, about 16 neighbours a row, and blocks of 256 x 256.
///
/// # Errors
///
/// Where `data` is no matrix of finite values, or a setting is out of range.
pub fn hdbscan(data: &[f32], dim: usize, settings: &HdbscanSettings) -> Result<Clustering, ClusterError> {
    settings.check()?;
    let rows = check_matrix(data, dim)?;
    if rows < settings.min_cluster_size.max(settings.min_samples()) {
        return Ok(Clustering::noise(rows));
    }
    match settings.engine {
        Engine::Exact => exact(data, dim, settings),
        Engine::Crate => oracle::hdbscan(data, dim, settings),
    }
}

/// Number of rows of a matrix of finite values.
fn check_matrix(data: &[f32], dim: usize) -> Result<usize, ClusterError> {
    if dim == 0 || !data.len().is_multiple_of(dim) {
        return Err(ClusterError::Shape { values: data.len(), dim });
    }
    if let Some(at) = data.iter().position(|value| !value.is_finite()) {
        return Err(ClusterError::NotFinite { row: at / dim, column: at % dim, value: data[at] });
    }
    let rows = data.len() / dim;
    if rows > i32::MAX as usize {
        return Err(ClusterError::TooMany(rows));
    }
    Ok(rows)
}

fn exact(data: &[f32], dim: usize, settings: &HdbscanSettings) -> Result<Clustering, ClusterError> {
    let Distinct { rows, weights, point_of } = Distinct::new(data, dim);
    let points = Points::new(data, dim, &rows);
    let neighbours = Neighbours::find(&points, settings.min_samples() - 1)?;
    let core = neighbours.core(&weights, settings.min_samples());
    let tree = boruvka::spanning_tree(&points, &neighbours, &core)?;
    let tree = sweep::minimum_spanning_tree(&points, &neighbours, &core, tree)?;
    // Units that coincide hang together at their core distance.
    let within: f64 =
        weights.iter().zip(&core).map(|(&units, core)| f64::from(units - 1) * core.sqrt()).sum();
    let tree_weight = within + tree.iter().map(|edge| edge.squared.sqrt()).sum::<f64>();

    let links = prim::links(points.len(), &tree, &neighbours, &core);
    let hierarchy = Hierarchy::new(&links, &weights, settings.resolution);
    let condensed = Condensed::new(&hierarchy, &core, settings.min_cluster_size as u64, settings.resolution);
    let selected = select::select(&condensed, &weights, settings);
    let memberships = labels::memberships(&condensed, &selected);
    let of = |unit: usize| &memberships[point_of[unit] as usize];
    let units = 0..point_of.len();
    Ok(Clustering {
        labels: number(units.clone().map(|unit| of(unit).cluster)),
        probabilities: units.clone().map(|unit| of(unit).probability).collect(),
        outlier_scores: units.map(|unit| of(unit).outlier_score).collect(),
        tree_weight: Some(tree_weight),
        single_cluster: selected[0],
    })
}

/// Numbers clusters by their first row; `None` is -1.
fn number<K: Ord>(clusters: impl Iterator<Item = Option<K>>) -> Vec<i32> {
    let mut numbers = std::collections::BTreeMap::new();
    clusters
        .map(|cluster| {
            cluster.map_or(-1, |id| {
                let next = numbers.len() as i32;
                *numbers.entry(id).or_insert(next)
            })
        })
        .collect()
}
