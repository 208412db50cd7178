//! Changed regions of screenshots, decoding included: pairs a second on all cores.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rayon::prelude::*;
use tracemill_data::picture::Rgb;
use tracemill_models::state::{Picture, PixelChange, changed_region, focus};

/// Pairs of a batch.
const PAIRS: usize = 32;

fn picture(rgb: &Rgb) -> Picture<'_> {
    Picture { width_px: rgb.width_px, height_px: rgb.height_px, rgb: &rgb.bytes }
}

/// A screen of 1280 × 720 like a desktop's: flat areas, lines of text, a photo; `step` opens a dialog.
fn screen(step: usize) -> Rgb {
    let (width, height) = (1280, 720);
    let mut bytes = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            let text = x > 300 && x < 900 && y % 24 < 12 && (x * 7 + y / 24 * 13) % 11 < 4;
            let photo = x > 950 && y > 400;
            let dialog = step % 2 == 1 && (400..800).contains(&x) && (200..420).contains(&y);
            let pixel = match (dialog, photo, text) {
                (true, ..) => [250, 250, (y / 8) as u8],
                (_, true, _) => [(x * y % 251) as u8, (x ^ y) as u8, (x + 3 * y) as u8],
                (_, _, true) => [40, 40, 48],
                _ => [238, 239, 241],
            };
            bytes.extend(pixel);
        }
    }
    Rgb { width_px: width as u32, height_px: height as u32, bytes }
}

/// One of a screen's two files.
type File = fn(&(Vec<u8>, Vec<u8>)) -> &[u8];

fn regions(c: &mut Criterion) {
    let files = [0, 1].map(|step| {
        let rgb = screen(step);
        (rgb.png().expect("encoded"), rgb.thumbnail(1280, None).expect("encoded"))
    });
    let decoded = [0, 1].map(screen);
    let mut group = c.benchmark_group("region-1280x720");
    group.throughput(Throughput::Elements(PAIRS as u64)).sample_size(10);
    let region = |before: &Rgb, after: &Rgb| match changed_region(picture(before), picture(after), 0) {
        PixelChange::Region(region) => {
            Some(focus(picture(before), picture(after), region, Some([600.0, 300.0])))
        }
        _ => None,
    };
    group.bench_function("decoded", |b| {
        b.iter(|| (0..PAIRS).into_par_iter().filter_map(|_| region(&decoded[0], &decoded[1])).count());
    });
    for (name, file) in [("png", (|f| &f.0) as File), ("jpeg", |f| &f.1)] {
        // Both pictures of each pair are decoded; in an episode every picture is decoded once.
        group.bench_function(format!("{name}, both decoded"), |b| {
            b.iter(|| {
                let pair = |_| {
                    let rgb = |i: usize| Rgb::decode(black_box(file(&files[i]))).expect("decoded");
                    region(&rgb(0), &rgb(1))
                };
                (0..PAIRS).into_par_iter().filter_map(pair).count()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, regions);
criterion_main!(benches);
