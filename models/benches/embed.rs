//! Times of the hashing embedder and of unit search; see `examples/embed_bench.rs` for sizes that take minutes.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracemill_models::embed::{Embedder, HashEmbedder, HashSettings};
use tracemill_models::memory::{IndexSettings, UnitIndex};

fn hash(c: &mut Criterion) {
    let embedder = HashEmbedder::new(HashSettings::default()).expect("the defaults are valid");
    let texts: Vec<String> =
        (0..1000).map(|i| format!("open the settings page {i} and search for a recipe")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut group = c.benchmark_group("embed");
    group.throughput(Throughput::Elements(texts.len() as u64));
    group.bench_function("hash_1024", |b| b.iter(|| embedder.embed(&texts)));
    group.finish();
}

fn search(c: &mut Criterion) {
    const DIM: usize = 256;
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut rows: Vec<f32> = (0..20_000 * DIM).map(|_| rng.random_range(-1.0..1.0)).collect();
    for row in rows.chunks_exact_mut(DIM) {
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        for x in row {
            *x /= norm;
        }
    }
    let query = rows[..DIM].to_vec();
    let index = UnitIndex::build(rows, DIM, IndexSettings::default()).expect("the rows are unit vectors");
    c.bench_function("memory/exact_top_10_of_20k", |b| b.iter(|| index.top_k(&query, 10)));
}

criterion_group!(benches, hash, search);
criterion_main!(benches);
