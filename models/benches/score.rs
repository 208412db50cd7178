//! Scoring of replies in memory: parsing, comparing, and the sentence that says why.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rayon::prelude::*;
use tracemill_data::artifact::{ScreenPixels, Truth};
use tracemill_models::rl::{Profile, score_reply};

const ROWS: usize = 100_000;

fn rows() -> Vec<(String, Truth)> {
    let truth = |json: &str| serde_json::from_str::<Truth>(json).expect("a truth");
    let click = truth(r#"{"action": "click", "point": [531, 684], "bbox": [[289, 662], [774, 711]]}"#);
    let kinds = [
        ("click(point='(402, 683)')", click.clone()),
        ("<think>The button is there.</think><answer>click(point='(531, 800)')</answer>", click.clone()),
        ("scroll(direction='up')", truth(r#"{"action": "scroll", "direction": "down"}"#)),
        ("type(content='new york')", truth(r#"{"action": "type", "text": "new york city usa"}"#)),
        ("press_home()", truth(r#"{"action": "press_home"}"#)),
        ("[{'action': 'click', 'point': [402, 683], 'input_text': 'no input text'}]", click.clone()),
        ("I would click the button", click),
    ];
    (0..ROWS).map(|i| (kinds[i % kinds.len()].0.to_owned(), kinds[i % kinds.len()].1.clone())).collect()
}

fn score(c: &mut Criterion) {
    let rows = rows();
    let screen = Some(ScreenPixels { width: 840.0, height: 1876.0 });
    let mut group = c.benchmark_group("score");
    group.throughput(Throughput::Elements(ROWS as u64)).sample_size(10);
    for profile in &Profile::ALL[..2] {
        group.bench_function(profile.name, |b| {
            b.iter(|| {
                let sum: f64 = rows
                    .par_iter()
                    .filter_map(|(reply, truth)| {
                        score_reply(profile, reply, truth, screen).score().map(|s| s.total)
                    })
                    .sum();
                black_box(sum)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, score);
criterion_main!(benches);
