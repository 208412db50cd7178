//! The `hdbscan` crate as an engine: slow, but written by others.

use hdbscan::{Hdbscan, HdbscanHyperParams, NnAlgorithm};

use super::{ClusterError, Clustering, HdbscanSettings, number};

/// Clusters by the crate. Excess of mass only.
pub(super) fn hdbscan(
    data: &[f32],
    dim: usize,
    settings: &HdbscanSettings,
) -> Result<Clustering, ClusterError> {
    let rows: Vec<Vec<f32>> = data.chunks_exact(dim).map(<[f32]>::to_vec).collect();
    let parameters = HdbscanHyperParams::builder()
        .min_cluster_size(settings.min_cluster_size)
        .min_samples(settings.min_samples())
        .allow_single_cluster(settings.allow_single_cluster)
        .nn_algorithm(NnAlgorithm::BruteForce)
        .build();
    let labels = Hdbscan::new(&rows, parameters)
        .cluster_par()
        .map_err(|error| ClusterError::Crate(error.to_string()))?;
    let labels = number(labels.iter().map(|&label| usize::try_from(label).ok()));
    Ok(Clustering {
        probabilities: labels.iter().map(|&label| if label < 0 { 0.0 } else { 1.0 }).collect(),
        outlier_scores: vec![f64::NAN; labels.len()],
        tree_weight: None,
        single_cluster: settings.allow_single_cluster && labels.iter().max() == Some(&0),
        labels,
    })
}
