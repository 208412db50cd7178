//! Tests of the engine as a whole: goldens, oracles and edges.

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use serde::Deserialize;

use super::distance::Points;
use super::neighbours::Neighbours;
use super::spanning::Edge;
use super::{ClusterError, Clustering, Engine, HdbscanSettings, Selection, boruvka, hdbscan, sweep};

#[derive(Deserialize)]
struct Golden {
    settings: GoldenSettings,
    dim: usize,
    data: Vec<f32>,
    labels: Vec<i32>,
    probabilities: Vec<f64>,
    outlier_scores: Vec<Option<f64>>,
    tree_weight: f64,
}

#[derive(Deserialize)]
struct GoldenSettings {
    min_cluster_size: usize,
    min_samples: Option<usize>,
    cluster_selection_method: Option<String>,
    #[serde(default)]
    allow_single_cluster: bool,
}

fn golden(name: &str) -> (Golden, Clustering) {
    let path = format!("{}/../tests/golden/cluster/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let golden: Golden = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let settings = HdbscanSettings {
        min_samples: golden.settings.min_samples,
        selection: match golden.settings.cluster_selection_method.as_deref() {
            Some("leaf") => Selection::Leaf,
            _ => Selection::Eom,
        },
        allow_single_cluster: golden.settings.allow_single_cluster,
        ..HdbscanSettings::new(golden.settings.min_cluster_size)
    };
    let ours = hdbscan(&golden.data, golden.dim, &settings).unwrap();
    (golden, ours)
}

/// Adjusted Rand index; noise is a class like any other.
pub(super) fn adjusted_rand(a: &[i32], b: &[i32]) -> f64 {
    let pairs = |n: usize| (n * n.saturating_sub(1) / 2) as f64;
    let count = |keys: Vec<(i32, i32)>| {
        let mut sizes = std::collections::BTreeMap::new();
        keys.into_iter().for_each(|key| *sizes.entry(key).or_insert(0_usize) += 1);
        sizes.into_values().map(pairs).sum::<f64>()
    };
    let both = count(a.iter().copied().zip(b.iter().copied()).collect());
    let (left, right) =
        (count(a.iter().map(|&x| (x, 0)).collect()), count(b.iter().map(|&x| (x, 0)).collect()));
    let expected = left * right / pairs(a.len());
    let most = f64::midpoint(left, right);
    if most == expected { 1.0 } else { (both - expected) / (most - expected) }
}

/// Share of points at which two values differ by more than rounding.
fn differing(ours: &[f64], theirs: impl Iterator<Item = f64>) -> f64 {
    let wrong = ours.iter().zip(theirs).filter(|(a, b)| (*a - b).abs() > 1e-6).count();
    wrong as f64 / ours.len() as f64
}

/// Ties in mutual reachability may be broken otherwise, hence the tolerances where data overlap.
fn check_golden(name: &str, least_agreement: f64, most_differing: f64) {
    let (golden, ours) = golden(name);
    let agreement = adjusted_rand(&ours.labels, &golden.labels);
    assert!(agreement >= least_agreement, "{name}: ARI {agreement}");
    let weight = ours.tree_weight.unwrap();
    assert!((weight / golden.tree_weight - 1.0).abs() < 1e-6, "{name}: {weight} for {}", golden.tree_weight);
    let wrong = differing(&ours.probabilities, golden.probabilities.iter().copied());
    assert!(wrong <= most_differing, "{name}: {wrong} of the probabilities");
    // Where Python hdbscan has no number, the densest part is infinitely dense: score 1.
    let scores = golden.outlier_scores.iter().map(|score| score.unwrap_or(1.0));
    let wrong = differing(&ours.outlier_scores, scores);
    assert!(wrong <= most_differing, "{name}: {wrong} of the outlier scores");
}

#[test]
fn agrees_with_references_on_separated_mixtures() {
    check_golden("separated", 1.0, 0.0);
}

#[test]
fn agrees_with_references_on_varying_densities() {
    check_golden("densities", 0.99, 0.01);
}

#[test]
fn agrees_with_references_on_overlapping_mixtures() {
    check_golden("overlapping", 0.99, 0.01);
    check_golden("overlapping_min_samples", 0.99, 0.01);
}

#[test]
fn agrees_with_references_on_leaf_selection() {
    check_golden("leaf", 0.99, 0.01);
}

#[test]
fn agrees_with_references_on_a_single_cluster() {
    // Nothing but noise: ties decide which six points hold out longest, and Python hdbscan decides
    // otherwise than scikit-learn.
    check_golden("single", 1.0, 0.05);
}

#[test]
fn agrees_with_references_on_duplicates() {
    check_golden("duplicates", 0.99, 0.01);
}

#[test]
fn agrees_with_references_on_latents() {
    check_golden("latents", 0.99, 0.01);
}

/// Normally distributed points around `centres` random centres.
pub(super) fn mixture(seed: u64, rows: usize, dim: usize, centres: usize, spread: f32) -> Vec<f32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let centre: Vec<f32> = (0..centres * dim).map(|_| random.sample(StandardNormal)).collect();
    (0..rows * dim)
        .map(|i| {
            let noise: f32 = random.sample(StandardNormal);
            centre[(i / dim % centres) * dim + i % dim] + spread * noise
        })
        .collect()
}

/// Prim over all pairs in f64, and the core distances by sorting.
fn dense_tree_weight(data: &[f32], dim: usize, min_samples: usize) -> f64 {
    let rows = data.len() / dim;
    let row = |i: usize| &data[i * dim..(i + 1) * dim];
    let distance = |a: usize, b: usize| {
        let squares = row(a).iter().zip(row(b)).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2));
        squares.sum::<f64>().sqrt()
    };
    let core = |a: usize| {
        let mut all: Vec<f64> = (0..rows).map(|b| distance(a, b)).collect();
        all.sort_by(f64::total_cmp);
        all[min_samples - 1]
    };
    let core: Vec<f64> = (0..rows).map(core).collect();
    let mut nearest = vec![f64::INFINITY; rows];
    let mut open: Vec<usize> = (1..rows).collect();
    let (mut last, mut total) = (0, 0.0);
    while !open.is_empty() {
        for &other in &open {
            nearest[other] = nearest[other].min(distance(last, other).max(core[last]).max(core[other]));
        }
        let at = (0..open.len()).min_by(|&a, &b| nearest[open[a]].total_cmp(&nearest[open[b]])).unwrap();
        last = open.swap_remove(at);
        total += nearest[last];
    }
    total
}

fn assert_tree_weight(data: &[f32], dim: usize, min_samples: usize) {
    let settings = HdbscanSettings { min_samples: Some(min_samples), ..HdbscanSettings::new(5) };
    let ours = hdbscan(data, dim, &settings).unwrap().tree_weight.unwrap();
    let dense = dense_tree_weight(data, dim, min_samples);
    assert!((ours - dense).abs() <= 1e-9 * dense, "{ours} for {dense}");
}

#[test]
fn tree_is_minimal_over_several_blocks() {
    // Overlapping, separated (many components to join), and flat data.
    for (dim, centres, spread) in [(16, 4, 0.8), (16, 25, 0.02), (2, 7, 0.2)] {
        assert_tree_weight(&mixture(3, 700, dim, centres, spread), dim, 5);
    }
}

#[test]
fn long_lists_are_searched_for_many_samples() {
    assert_tree_weight(&mixture(4, 300, 4, 3, 0.5), 4, 40);
}

#[test]
fn cancellation_decides_nothing() {
    // |a|^2 + |b|^2 - 2ab has no correct digit here: the squares are 1e8 times the distances.
    let mut data = mixture(5, 400, 6, 400, 0.0);
    data.iter_mut().for_each(|x| *x = 3000.0 + *x * 0.01);
    assert_tree_weight(&data, 6, 4);
    // Two such groups far apart, so that centring does not help.
    data[..1200].iter_mut().for_each(|x| *x -= 6000.0);
    assert_tree_weight(&data, 6, 4);
}

#[test]
fn extreme_magnitudes_neither_overflow_nor_vanish() {
    let data = mixture(6, 300, 4, 3, 0.1);
    let labels = |factor: f32| {
        let scaled: Vec<f32> = data.iter().map(|x| x * factor).collect();
        hdbscan(&scaled, 4, &HdbscanSettings::new(8)).unwrap().labels
    };
    assert_eq!(labels(1.0), labels(2.0_f32.powi(110)));
    assert_eq!(labels(1.0), labels(2.0_f32.powi(-90)));
}

#[test]
fn result_does_not_depend_on_threads() {
    let data = mixture(8, 900, 8, 9, 0.35);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| hdbscan(&data, 8, &HdbscanSettings::new(6)).unwrap())
    };
    let one = with(1);
    assert!(one.clusters() > 1);
    assert_eq!(one, with(2));
    assert_eq!(one, with(5));
}

#[test]
fn ties_have_one_answer() {
    // A grid: nearly all distances tie. The tree must be the one of the documented order.
    let data: Vec<f32> = (0..400).flat_map(|i| [(i % 20) as f32, (i / 20) as f32]).collect();
    let rows: Vec<u32> = (0..400).collect();
    let points = Points::new(&data, 2, &rows);
    let neighbours = Neighbours::find(&points, 3).unwrap();
    let core = neighbours.core(&[1; 400], 4);
    let tree = boruvka::spanning_tree(&points, &neighbours, &core).unwrap();
    let tree = sweep::minimum_spanning_tree(&points, &neighbours, &core, tree).unwrap();
    let all = (0..400).flat_map(|a| (a + 1..400).map(move |b| (a, b)));
    let edges = all.map(|(a, b)| Edge::between(a, b, &points, &core)).collect();
    assert_eq!(tree, super::spanning::forest(400, edges));
}

#[test]
fn crate_engine_agrees_on_separated_mixtures() {
    for seed in 0..3 {
        let data = mixture(seed, 240, 8, 6, 0.05);
        let settings = HdbscanSettings::new(6);
        let ours = hdbscan(&data, 8, &settings).unwrap();
        let theirs = hdbscan(&data, 8, &HdbscanSettings { engine: Engine::Crate, ..settings }).unwrap();
        assert_eq!(ours.labels, theirs.labels);
        assert_eq!(ours.clusters(), 6);
        assert!(theirs.outlier_scores.iter().all(|score| score.is_nan()));
    }
}

#[test]
fn fewer_points_than_a_cluster_are_noise() {
    for engine in [Engine::Exact, Engine::Crate] {
        let settings = HdbscanSettings { engine, ..HdbscanSettings::new(3) };
        assert_eq!(hdbscan(&[], 2, &settings).unwrap().labels, Vec::<i32>::new());
        assert_eq!(hdbscan(&[1.0, 2.0], 2, &settings).unwrap().labels, [-1]);
        let two = hdbscan(&[1.0, 2.0, 1.0, 2.0], 2, &settings).unwrap();
        assert_eq!((two.labels, two.probabilities, two.tree_weight), (vec![-1, -1], vec![0.0, 0.0], None));
        let many_samples = HdbscanSettings { min_samples: Some(9), ..settings };
        assert_eq!(hdbscan(&[0.0, 0.1, 5.0, 5.1], 1, &many_samples).unwrap().labels, [-1; 4]);
    }
}

#[test]
fn two_points_can_be_a_cluster_only_alone() {
    let single = HdbscanSettings { allow_single_cluster: true, ..HdbscanSettings::new(2) };
    assert_eq!(hdbscan(&[0.0, 1.0], 1, &single).unwrap().labels, [0, 0]);
    assert_eq!(hdbscan(&[0.0, 1.0], 1, &HdbscanSettings::new(2)).unwrap().labels, [-1, -1]);
}

#[test]
fn coincident_points_alone_are_noise_unless_single() {
    let data = [0.5_f32; 60];
    let plain = hdbscan(&data, 3, &HdbscanSettings::new(5)).unwrap();
    assert_eq!((plain.labels, plain.tree_weight), (vec![-1; 20], Some(0.0)));
    assert_eq!(plain.outlier_scores, [0.0; 20]);
    let single = HdbscanSettings { allow_single_cluster: true, ..HdbscanSettings::new(5) };
    let single = hdbscan(&data, 3, &single).unwrap();
    assert_eq!((single.labels, single.probabilities), (vec![0; 20], vec![1.0; 20]));
}

#[test]
fn coincident_points_are_a_cluster_among_others() {
    let mut data = mixture(9, 100, 3, 2, 0.3);
    data.extend([9.0_f32, -0.0, 9.0].repeat(20));
    data.extend([9.0_f32, 0.0, 9.0].repeat(20));
    let found = hdbscan(&data, 3, &HdbscanSettings::new(8)).unwrap();
    assert!(found.labels[100] >= 0);
    assert!(found.labels[100..].iter().all(|label| *label == found.labels[100]));
    assert!(found.labels[..100].iter().all(|label| *label != found.labels[100]));
    assert!(found.outlier_scores.iter().all(|score| (0.0..=1.0).contains(score)));
}

#[test]
fn scattered_points_are_noise() {
    // Doubling gaps: points only ever join one by one.
    let data: Vec<f32> = (0..20).map(|i| 2.0_f32.powi(i)).collect();
    let found = hdbscan(&data, 1, &HdbscanSettings::new(5)).unwrap();
    assert_eq!((found.labels, found.probabilities), (vec![-1; 20], vec![0.0; 20]));
}

#[test]
fn bad_input_is_refused_with_evidence() {
    let settings = HdbscanSettings::new(5);
    assert!(matches!(hdbscan(&[1.0; 5], 2, &settings), Err(ClusterError::Shape { values: 5, dim: 2 })));
    assert!(matches!(hdbscan(&[1.0; 5], 0, &settings), Err(ClusterError::Shape { .. })));
    let nan = hdbscan(&[0.0, 1.0, 2.0, f32::NAN], 2, &settings);
    assert!(matches!(nan, Err(ClusterError::NotFinite { row: 1, column: 1, .. })));
    let refused = |settings: HdbscanSettings| match hdbscan(&[1.0; 6], 2, &settings) {
        Err(ClusterError::Setting { setting, .. }) => setting,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(HdbscanSettings::new(1)), "min_cluster_size");
    assert_eq!(refused(HdbscanSettings { min_samples: Some(0), ..settings.clone() }), "min_samples");
    assert_eq!(refused(HdbscanSettings { resolution: f64::NAN, ..settings.clone() }), "resolution");
    assert_eq!(refused(HdbscanSettings { root_extent: Some(0.5), ..settings.clone() }), "root_extent");
    let leaf = HdbscanSettings { engine: Engine::Crate, selection: Selection::Leaf, ..settings };
    assert_eq!(refused(leaf), "engine");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Coarse coordinates: many duplicates and ties.
    #[test]
    fn tree_is_minimal_with_duplicates_and_ties(
        cells in prop::collection::vec(-4_i8..4, 10..240),
        dim in 1_usize..4,
        min_samples in 1_usize..8,
    ) {
        let rows = cells.len() / dim;
        prop_assume!(rows >= min_samples.max(5));
        let data: Vec<f32> = cells[..rows * dim].iter().map(|&cell| f32::from(cell)).collect();
        assert_tree_weight(&data, dim, min_samples);
    }

    /// With `min_samples` 1 mutual reachability is the distance, which has no ties here, so that
    /// the labels are the same to the last one.
    #[test]
    fn crate_engine_agrees_where_nothing_ties(
        seed in any::<u64>(), rows in 12_usize..160, dim in 1_usize..5, size in 2_usize..9,
    ) {
        let data = mixture(seed, rows, dim, 3, 0.4);
        let settings = HdbscanSettings { min_samples: Some(1), ..HdbscanSettings::new(size) };
        let ours = hdbscan(&data, dim, &settings).unwrap();
        let theirs = hdbscan(&data, dim, &HdbscanSettings { engine: Engine::Crate, ..settings }).unwrap();
        prop_assert_eq!(ours.labels, theirs.labels);
    }

    #[test]
    fn results_are_in_range(
        seed in any::<u64>(), rows in 0_usize..120, size in 2_usize..12, single in any::<bool>(),
    ) {
        let mut data = mixture(seed, rows, 2, 4, 0.3);
        data.extend_from_within(..rows / 2 * 2);
        let settings = HdbscanSettings { allow_single_cluster: single, ..HdbscanSettings::new(size) };
        let found = hdbscan(&data, 2, &settings).unwrap();
        for (label, probability) in found.labels.iter().zip(&found.probabilities) {
            prop_assert!((0.0..=1.0).contains(probability));
            prop_assert!(*label >= 0 || *probability == 0.0);
        }
        prop_assert!(found.outlier_scores.iter().all(|score| (0.0..=1.0).contains(score)));
        // Numbered by first row; copies share a label; no cluster is too small.
        let mut seen = -1;
        for &label in &found.labels {
            prop_assert!(label <= seen + 1);
            seen = seen.max(label);
        }
        for copy in 0..rows / 2 * 2 / 2 {
            prop_assert_eq!(found.labels[copy], found.labels[rows + copy]);
        }
        for cluster in 0..=seen {
            let members = found.labels.iter().filter(|&&label| label == cluster).count();
            prop_assert!(members >= size || found.single_cluster);
        }
    }
}
