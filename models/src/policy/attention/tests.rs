use candle_core::{DType, Device, Tensor};
use proptest::prelude::*;

use super::{attention, attention_backward};
use crate::policy::batch::Packed;

fn random(shape: (usize, usize, usize), seed: f64) -> Tensor {
    let n = shape.0 * shape.1 * shape.2;
    let numbers: Vec<f64> = (0..n).map(|i| ((i as f64 + seed) * 12.9898).sin() * 2.0).collect();
    Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap()
}

fn far(a: &Tensor, b: &Tensor) -> f64 {
    let wide = |t: &Tensor| t.to_dtype(DType::F64).unwrap();
    let difference = (wide(a) - wide(b)).unwrap().abs().unwrap();
    difference.max_all().unwrap().to_scalar::<f64>().unwrap()
}

fn agree(packed: &Packed, heads: usize, kv: usize, d: usize) -> f64 {
    let t = packed.len();
    let (q, k, v) = (random((t, heads, d), 0.1), random((t, kv, d), 0.2), random((t, kv, d), 0.3));
    let grad = random((t, 1, heads * d), 0.4).reshape((t, heads * d)).unwrap();
    let narrow = |t: &Tensor| t.to_dtype(DType::F32).unwrap();
    let (q32, k32, v32, g32) = (narrow(&q), narrow(&k), narrow(&v), narrow(&grad));
    // f64 takes candle's operations, f32 the kernels.
    let wide = attention(&q, &k, &v, packed.segments()).unwrap();
    let fast = attention(&q32, &k32, &v32, packed.segments()).unwrap();
    let a = attention_backward(&q, &k, &v, &grad, packed.segments()).unwrap();
    let b = attention_backward(&q32, &k32, &v32, &g32, packed.segments()).unwrap();
    [far(&wide, &fast), far(&a.q, &b.q), far(&a.k, &b.k), far(&a.v, &b.v)].into_iter().fold(0.0, f64::max)
}

#[test]
fn long_sequences_in_blocks_agree() {
    let mut packed = Packed::default();
    let long: Vec<u32> = vec![1; 2100];
    packed.push(&long, &[&long[..20], &long[..1500]]).unwrap();
    let worst = agree(&packed, 2, 1, 4);
    assert!(worst < 1e-4, "{worst}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn kernels_and_operations_agree(lengths in prop::collection::vec((1usize..9, prop::collection::vec(0usize..6, 0..4)), 1..4), group in 1usize..4) {
        let mut packed = Packed::default();
        for (prompt, completions) in lengths {
            let texts: Vec<Vec<u32>> = completions.iter().map(|n| vec![1; *n]).collect();
            let texts: Vec<&[u32]> = texts.iter().map(|text| &text[..]).collect();
            packed.push(&vec![1; prompt], &texts).unwrap();
        }
        prop_assert!(agree(&packed, 2 * group, 2, 6) < 1e-5);
    }
}
