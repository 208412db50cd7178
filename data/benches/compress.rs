//! Screens in memory: read from the linear form and compressed, a screen of some 10 kB, on all cores and on one.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rayon::prelude::*;
use tracemill_data::a11y::{Compressor, Phases, Rules, linear};

const SCREENS: usize = 2_000;

/// A shop of 30 products, each said in five rows, as a browser says it.
fn screen() -> String {
    let mut text = linear::HEADER.to_owned();
    let mut row = |tag: &str, name: &str, said: &str, [x, y, w, h]: [usize; 4]| {
        let said = if said.is_empty() { "\"\"" } else { said };
        text += &format!("\n{tag}\t{name}\t{said}\t\t\t({x}, {y})\t({w}, {h})");
    };
    row("entry", "Address and search bar", "shop.example.org/lamps", [189, 51, 1602, 24]);
    row("document-web", "Lamps", "", [0, 90, 1920, 990]);
    for i in 0..30 {
        let (x, y, name) = (40 + 300 * (i % 6), 160 + 160 * (i / 6), format!("Lamp {i}"));
        row("heading", &name, &name, [x, y, 230, 22]);
        row("static", &name, &name, [x, y, 64, 21]);
        row("paragraph", "", &format!("{i}.00 EUR, with a bulb"), [x, y + 40, 230, 19]);
        row("push-button", &format!("Add {name} to basket"), "", [x, y + 70, 143, 22]);
        row("link", &format!("{name} details"), &format!("{name} details"), [x, y + 110, 143, 22]);
    }
    text
}

fn compress(c: &mut Criterion) {
    let screen = screen();
    let compressor = Compressor::new(Rules::builtin(), Phases::default());
    let one = |screen: &str| {
        let tree = linear::read(screen).expect("a tree");
        compressor.compress(&tree, None, "Put a lamp into the basket").text.len()
    };
    let mut group = c.benchmark_group("compress");
    group.sample_size(10);
    group.bench_function(format!("one screen of {} bytes", screen.len()), |b| {
        b.iter(|| one(black_box(&screen)));
    });
    group.throughput(Throughput::Elements(SCREENS as u64));
    group.bench_function("screens on all cores", |b| {
        b.iter(|| (0..SCREENS).into_par_iter().map(|_| one(black_box(&screen))).sum::<usize>());
    });
    group.finish();
}

criterion_group!(benches, compress);
criterion_main!(benches);
