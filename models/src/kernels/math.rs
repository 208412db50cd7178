//! Functions the compiler can vectorise, accurate to a few units in the last place of f32.

/// `eˣ`; 0 below -87 and limited above 88.
#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled for the vectors of its caller")]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding 1.5·2²³ rounds to an integer, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let clamped = x.clamp(-87.0, 88.0);
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let k = shifted - ROUND;
    // ln 2 in two parts, so that k·ln 2 is exact enough.
    let r = clamped - k * 0.693_359_4 + k * 2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5] {
        p = p * r + c;
    }
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3F80_0000));
    let y = (p * r * r + r + 1.0) * scale;
    if x < -87.0 { 0.0 } else { y }
}

/// The error function, as a ratio of polynomials in x² (the one Eigen and XLA use).
#[inline]
fn erf(x: f32) -> f32 {
    let x = x.clamp(-4.0, 4.0);
    let s = x * x;
    let mut p = -2.726_142_3e-10_f32;
    for c in [2.770_681_4e-8, -2.101_024e-6, -5.692_506_4e-5, -7.349_906_3e-4, -2.954_6e-3, -1.609_603_3e-2] {
        p = p * s + c;
    }
    let mut q = -1.456_607_2e-5_f32;
    for c in [-2.133_740_6e-4, -1.682_827e-3, -7.373_329e-3, -1.426_473_9e-2] {
        q = q * s + c;
    }
    x * p / q
}

/// `Φ(x)`, the normal distribution function.
#[inline]
pub(crate) fn normal_cdf(x: f32) -> f32 {
    0.5 + 0.5 * erf(x * std::f32::consts::FRAC_1_SQRT_2)
}

/// `φ(x)`, the normal density.
#[inline]
pub(crate) fn normal_density(x: f32) -> f32 {
    0.398_942_3 * exp(-0.5 * x * x)
}

/// Sum of products with eight partial sums: vectorises, and the order is fixed.
#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled for the vectors of its caller")]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a8.remainder().iter().zip(b8.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a8.zip(b8) {
        for k in 0..8 {
            sums[k] += x[k] * y[k];
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_accurate_over_its_range() {
        for k in -86_999..88_000 {
            let x = k as f32 / 1000.0;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) - expected).abs() / expected;
            assert!(error < 3e-7, "{x}: {error}");
        }
        assert_eq!((exp(-200.0), exp(f32::NEG_INFINITY), exp(0.0)), (0.0, 0.0, 1.0));
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn the_normal_distribution_is_accurate() {
        // Φ from Simpson's rule over the density, in f64.
        let density = |t: f64| (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let (mut integral, step) = (0.0, 0.01);
        for k in 0..500 {
            let x = f64::from(k) * step;
            assert!((f64::from(normal_cdf(x as f32)) - 0.5 - integral).abs() < 3e-7, "{x}");
            assert!((f64::from(normal_cdf(-x as f32)) - 0.5 + integral).abs() < 3e-7, "{x}");
            assert!((f64::from(normal_density(x as f32)) - density(x)).abs() < 1e-7, "{x}");
            integral += step / 6.0 * (density(x) + 4.0 * density(x + step / 2.0) + density(x + step));
        }
    }

    #[test]
    fn dot_adds_everything_up() {
        let a: Vec<f32> = (0..19).map(|k| k as f32).collect();
        assert!((dot(&a, &a) - 2109.0).abs() < 1e-3);
    }
}
