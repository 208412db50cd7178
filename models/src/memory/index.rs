//! Nearest units among all of them, ungated: exact for most sizes, approximate for very large ones.

use super::MemoryError;
use super::graph::Graphs;
use super::vectors::{check, exact_top_k};

/// Settings of [`UnitIndex`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexSettings {
    /// With fewer units than this every search is exact; from here on graphs are built.
    pub exact_below: usize,
    /// Links of a node in a graph (`M`; twice as many on the lowest layer), 2 to 255.
    pub links: usize,
    /// Candidates kept while a node is inserted.
    pub ef_construction: usize,
    /// Candidates kept while a query is answered; more of them, more recall.
    pub ef_search: usize,
    /// Rows of one graph. Part of what the results depend on, unlike the number of threads.
    pub shard_rows: usize,
}

impl Default for IndexSettings {
    fn default() -> Self {
        Self { exact_below: 200_000, links: 16, ef_construction: 128, ef_search: 96, shard_rows: 65_536 }
    }
}

impl IndexSettings {
    fn check(self) -> Result<(), MemoryError> {
        let least = |key, value: usize, least| {
            if value < least { Err(MemoryError::Setting { key, value, least }) } else { Ok(()) }
        };
        least("links", self.links, 2)?;
        least("ef_construction", self.ef_construction, 1)?;
        least("ef_search", self.ef_search, 1)?;
        least("shard_rows", self.shard_rows, 1)
    }
}

/// How an index answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Every unit is compared.
    Exact,
    /// Navigable small-world graphs; state [`UnitIndex::recall_at_k`] with every result.
    Hnsw,
}

/// A unit found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnitHit {
    /// Row of the unit in the index.
    pub unit: usize,
    /// Cosine similarity to the query, -1 to 1.
    pub cosine: f32,
}

/// How much of the exact answer a search finds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recall {
    /// Neighbours asked for, never more than there are units.
    pub k: usize,
    /// Queries it was measured on.
    pub queries: usize,
    /// Mean share of answers that are as near as the exact k-th neighbour: 1 is exact. Which of several equally
    /// near units is returned makes no difference.
    pub recall: f64,
}

/// Nearest-unit search over unit vectors.
///
/// Results depend on the vectors and the settings, not on the number of threads.
pub struct UnitIndex {
    vectors: Vec<f32>,
    dim: usize,
    graphs: Option<Graphs>,
}

impl UnitIndex {
    /// Indexes `n x dim` unit vectors, row-major. No vectors at all is fine.
    ///
    /// Graphs hold a copy of the distinct vectors: memory about doubles, plus some 2 kB for each.
    ///
    /// # Errors
    /// [`MemoryError`] when the length is no multiple of `dim`, a row is not of norm 1, or a setting is zero.
    pub fn build(vectors: Vec<f32>, dim: usize, settings: IndexSettings) -> Result<Self, MemoryError> {
        settings.check()?;
        if dim == 0 {
            return Err(MemoryError::Setting { key: "dim", value: 0, least: 1 });
        }
        for (row, vector) in vectors.chunks(dim).enumerate() {
            check(vector, dim, || format!("unit {row}"))?;
        }
        let approximate = !vectors.is_empty() && vectors.len() / dim >= settings.exact_below;
        let graphs = approximate.then(|| Graphs::build(&vectors, dim, settings));
        Ok(Self { vectors, dim, graphs })
    }

    /// Number of units.
    pub fn len(&self) -> usize {
        self.vectors.len() / self.dim
    }

    /// Whether there is no unit.
    pub fn is_empty(&self) -> bool {
        self.vectors.is_empty()
    }

    /// Width of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How [`Self::top_k`] answers.
    pub fn backend(&self) -> Backend {
        if self.graphs.is_some() { Backend::Hnsw } else { Backend::Exact }
    }

    /// The vector of one unit, or none when there is no such row.
    pub fn vector(&self, unit: usize) -> Option<&[f32]> {
        self.vectors.chunks_exact(self.dim).nth(unit)
    }

    /// The `k` nearest units (all of them when there are fewer), nearest first, equal cosines by row. This is the
    /// paper's greedy baseline with `k` = 3: the most similar past units, without gating.
    ///
    /// # Errors
    /// [`MemoryError`] when the query has another width or is not of norm 1.
    pub fn top_k(&self, query: &[f32], k: usize) -> Result<Vec<UnitHit>, MemoryError> {
        match &self.graphs {
            None => self.exact_top_k(query, k),
            Some(graphs) => {
                check(query, self.dim, || "query".to_owned())?;
                Ok(graphs.top_k(&self.vectors, query, k.min(self.len())))
            }
        }
    }

    /// [`Self::top_k`] by scanning every unit, whatever the backend. For one query this is also the fast way, for
    /// building graphs costs more than thousands of scans.
    ///
    /// # Errors
    /// As [`Self::top_k`].
    pub fn exact_top_k(&self, query: &[f32], k: usize) -> Result<Vec<UnitHit>, MemoryError> {
        check(query, self.dim, || "query".to_owned())?;
        Ok(exact_top_k(&self.vectors, query, k))
    }

    /// Compares [`Self::top_k`] with the exact answer.
    ///
    /// # Shapes
    /// `queries` is `q x d`, row-major.
    ///
    /// # Errors
    /// As [`Self::top_k`]; and when there is no query or `k` is 0, for then there is nothing to measure.
    pub fn recall_at_k(&self, queries: &[f32], k: usize) -> Result<Recall, MemoryError> {
        let k = k.min(self.len());
        let count = queries.len().div_ceil(self.dim);
        for (key, value) in [("k", k), ("queries", count)] {
            if value == 0 {
                return Err(MemoryError::Setting { key, value, least: 1 });
            }
        }
        let mut found = 0;
        for query in queries.chunks(self.dim) {
            let exact = self.exact_top_k(query, k)?;
            let radius = exact[k - 1].cosine;
            found += self.top_k(query, k)?.iter().filter(|hit| hit.cosine >= radius).count();
        }
        Ok(Recall { k, queries: count, recall: found as f64 / (k * count) as f64 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// `n` unit vectors around `clusters` centres.
    pub(crate) fn clustered(n: usize, dim: usize, clusters: usize, seed: u64) -> Vec<f32> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw =
            |count: usize| -> Vec<f32> { (0..count).map(|_| rng.random_range(-1.0..1.0)).collect() };
        let centres = draw(clusters * dim);
        let noise = draw(n * dim);
        let mut rows: Vec<f32> = noise
            .chunks_exact(dim)
            .enumerate()
            .flat_map(|(i, noise)| {
                let centre = &centres[(i % clusters) * dim..(i % clusters + 1) * dim];
                centre.iter().zip(noise).map(|(c, x)| c + 0.7 * x).collect::<Vec<f32>>()
            })
            .collect();
        for row in rows.chunks_exact_mut(dim) {
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            for x in row {
                *x /= norm;
            }
        }
        rows
    }

    fn graphs(shard_rows: usize) -> IndexSettings {
        IndexSettings { exact_below: 0, shard_rows, ..IndexSettings::default() }
    }

    fn brute_force(rows: &[f32], query: &[f32], k: usize) -> Vec<(usize, f64)> {
        let product =
            |v: &[f32]| v.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let mut all: Vec<(usize, f64)> = rows.chunks_exact(query.len()).map(product).enumerate().collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all.truncate(k);
        all
    }

    #[test]
    fn exact_search_equals_brute_force_across_blocks() {
        let rows = clustered(5000, 19, 40, 1);
        let index = UnitIndex::build(rows.clone(), 19, IndexSettings::default()).unwrap();
        assert_eq!(index.backend(), Backend::Exact);
        for query in clustered(5, 19, 40, 2).chunks_exact(19) {
            let hits = index.top_k(query, 12).unwrap();
            let expected = brute_force(&rows, query, 12);
            assert_eq!(
                hits.iter().map(|h| h.unit).collect::<Vec<_>>(),
                expected.iter().map(|e| e.0).collect::<Vec<_>>()
            );
            for (hit, (_, cosine)) in hits.iter().zip(expected) {
                assert!((f64::from(hit.cosine) - cosine).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn graphs_find_nine_tenths_of_the_neighbours() {
        let rows = clustered(3000, 32, 60, 3);
        let index = UnitIndex::build(rows, 32, graphs(1000)).unwrap();
        assert_eq!(index.backend(), Backend::Hnsw);
        let recall = index.recall_at_k(&clustered(50, 32, 60, 4), 10).unwrap();
        assert_eq!((recall.k, recall.queries), (10, 50));
        assert!(recall.recall >= 0.9, "{recall:?}");
    }

    #[test]
    fn graphs_do_not_depend_on_the_number_of_threads() {
        let rows = clustered(1200, 16, 20, 5);
        let queries = clustered(20, 16, 20, 6);
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let index = UnitIndex::build(rows.clone(), 16, graphs(300)).unwrap();
                queries.chunks_exact(16).map(|q| index.top_k(q, 7).unwrap()).collect::<Vec<_>>()
            })
        };
        let one = with(1);
        assert_eq!(one, with(3));
        assert_eq!(one, with(3));
    }

    #[test]
    fn identical_units_are_all_found_by_row() {
        let mut rows = clustered(400, 8, 10, 7);
        let repeated = rows[..8].to_vec();
        for row in 100..300 {
            rows[row * 8..(row + 1) * 8].copy_from_slice(&repeated);
        }
        for settings in [IndexSettings::default(), graphs(64)] {
            let index = UnitIndex::build(rows.clone(), 8, settings).unwrap();
            let hits = index.top_k(&repeated, 201).unwrap();
            let units: Vec<usize> = hits.iter().map(|h| h.unit).collect();
            let expected: Vec<usize> = std::iter::once(0).chain(100..300).collect();
            assert_eq!(units, expected);
        }
    }

    #[test]
    fn small_and_empty_indexes_answer() {
        for settings in [IndexSettings::default(), graphs(4)] {
            let empty = UnitIndex::build(Vec::new(), 3, settings).unwrap();
            assert!(empty.is_empty() && empty.top_k(&[1.0, 0.0, 0.0], 5).unwrap().is_empty());
            let one = UnitIndex::build(vec![0.0, 1.0], 2, settings).unwrap();
            assert_eq!(one.top_k(&[0.0, 1.0], 5).unwrap(), [UnitHit { unit: 0, cosine: 1.0 }]);
            assert!(one.top_k(&[0.0, 1.0], 0).unwrap().is_empty());
        }
        let empty = UnitIndex::build(Vec::new(), 3, IndexSettings::default()).unwrap();
        assert!(empty.recall_at_k(&[1.0, 0.0, 0.0], 5).is_err());
    }

    #[test]
    fn unfit_vectors_are_named() {
        let build =
            |v: Vec<f32>, dim| UnitIndex::build(v, dim, IndexSettings::default()).err().unwrap().to_string();
        assert_eq!(build(vec![1.0, 0.0, 1.0], 2), "unit 1: 1 values, expected 2");
        assert!(build(vec![1.0, 0.0, 3.0, 4.0], 2).starts_with("unit 1: norm 5"));
        assert!(build(vec![f32::NAN, 0.0], 2).starts_with("unit 0: norm NaN"));
        let index = UnitIndex::build(vec![1.0, 0.0], 2, IndexSettings::default()).unwrap();
        assert!(index.top_k(&[0.0, 0.0], 1).is_err());
        assert!(UnitIndex::build(vec![], 2, IndexSettings { links: 1, ..IndexSettings::default() }).is_err());
    }

    proptest! {
        #[test]
        fn any_k_gives_sorted_distinct_units(n in 1usize..40, k in 0usize..60, approximate: bool) {
            let settings = if approximate { graphs(16) } else { IndexSettings::default() };
            let index = UnitIndex::build(clustered(n, 5, 3, 8), 5, settings).unwrap();
            let hits = index.top_k(&clustered(1, 5, 1, 9), k).unwrap();
            prop_assert_eq!(hits.len(), k.min(n));
            for pair in hits.windows(2) {
                let ordered = (-pair[0].cosine, pair[0].unit) < (-pair[1].cosine, pair[1].unit);
                prop_assert!(ordered, "{:?}", pair);
            }
        }
    }
}
