//! Equations 2 to 5: named tensors in, a loss and its metrics out.
//!
//! A mean runs over the units that have the views it needs, then over the pairs or views that have
//! any such unit.

use std::collections::BTreeMap;

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::batch::{Presence, column};
use super::error::{EncoderError, Result};
use super::ops::{contrast, squared_error, unit_rows};
use super::{PAIRS, SLOTS};

/// A loss with what is worth recording about it.
#[derive(Debug, Clone)]
pub struct Loss {
    /// The scalar to differentiate.
    pub loss: Tensor,
    /// Named counts and values.
    pub metrics: BTreeMap<&'static str, f64>,
}

/// Weights of Eq. 2.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossWeights {
    /// `λ_pred`.
    pub prediction: f64,
    /// `λ_rec`.
    pub reconstruction: f64,
}

/// Cross-view contrastive loss, Eq. 3 with cosine as the inner product:
///
/// `1/|P| Σ_(p,q) −1/N Σᵢ log( exp(cos(zᵢᵖ, zᵢ^q)/τ) / Σ_(j≠i) exp(cos(zᵢᵖ, zⱼ^q)/τ) )`
///
/// The denominator leaves out the positive (decoupled), so the loss may be negative and needs two
/// units; with `include_self` it keeps it (`InfoNCE`). A pair of slots that fewer than two units
/// have is skipped; with no pair left the loss is a constant zero.
///
/// # Shapes
/// `z`: three of `[N, d]`, of any length; `present`: N.
///
/// Metrics: `pairs`, the ordered pairs used; `skipped_pairs`; `terms`, the log-ratios averaged.
///
/// # Errors
/// [`EncoderError::Setting`] when `tau` is not positive; tensor errors.
pub fn contrastive(z: &[Tensor; 3], present: &[Presence], tau: f64, include_self: bool) -> Result<Loss> {
    if !(tau.is_finite() && tau > 0.0) {
        return Err(EncoderError::Setting { name: "tau", value: tau, expected: "positive" });
    }
    let unit = [unit_rows(&z[0])?, unit_rows(&z[1])?, unit_rows(&z[2])?];
    let (mut sum, mut pairs, mut terms) = (None, 0usize, 0usize);
    for (p, q) in PAIRS.into_iter().filter(|(p, q)| p < q) {
        let rows = rows_with(present, p, q);
        if rows.len() < 2 {
            continue;
        }
        let (a, b) = (pick(&unit[p], &rows, present.len())?, pick(&unit[q], &rows, present.len())?);
        sum = Some(add(sum, contrast(&a, &b, tau, include_self)?)?);
        pairs += 2;
        terms += 2 * rows.len();
    }
    let metrics = [("pairs", pairs), ("skipped_pairs", PAIRS.len() - pairs), ("terms", terms)];
    mean_over(sum, pairs, &z[0], metrics)
}

/// Dual prediction loss, Eq. 4 on L2-normalised latents:
///
/// `1/|P| Σ_(p,q) 1/(2N) Σᵢ ( ‖G_(p→q)(ẑᵢᵖ) − ẑᵢ^q‖² + ‖G_(q→p)(ẑᵢ^q) − ẑᵢᵖ‖² )`
///
/// `P` holds (p,q) and (q,p), so each predictor is visited twice at half weight: the mean of the six
/// squared errors. Gradients reach the targets too, as the paper names no stop-gradient.
///
/// # Shapes
/// `unit`: three of `[N, d]`, L2-normalised; `predicted`: `[N, d]` for each of [`PAIRS`], in that
/// order, made from `unit`; `present`: N.
///
/// Metrics: `pairs`, `terms`.
pub fn prediction(unit: &[Tensor; 3], predicted: &[Tensor; 6], present: &[Presence]) -> Result<Loss> {
    let (mut sum, mut pairs, mut terms) = (None, 0usize, 0usize);
    for ((p, q), made) in PAIRS.into_iter().zip(predicted) {
        let Some((weights, count)) = mean_weights(present, |v| v[p] && v[q], made)? else { continue };
        sum = Some(add(sum, squared_error(made, &unit[q], &weights)?)?);
        pairs += 1;
        terms += count;
    }
    mean_over(
        sum,
        pairs,
        &unit[0],
        [("pairs", pairs), ("skipped_pairs", PAIRS.len() - pairs), ("terms", terms)],
    )
}

/// Within-view reconstruction loss, Eq. 5 with the input L2-normalised:
///
/// `1/|V| Σ_v 1/N Σᵢ ‖g_v(zᵢᵛ) − xᵢᵛ/‖xᵢᵛ‖‖²`
///
/// # Shapes
/// `decoded` and `x`: three of `[N, d_in]`; `present`: N.
///
/// Metrics: `views`, the slots with any unit; `terms`.
pub fn reconstruction(decoded: &[Tensor; 3], x: &[Tensor; 3], present: &[Presence]) -> Result<Loss> {
    let (mut sum, mut views, mut terms) = (None, 0usize, 0usize);
    for (slot, made) in decoded.iter().enumerate() {
        let Some((weights, count)) = mean_weights(present, |v| v[slot], made)? else { continue };
        let target = unit_rows(&x[slot])?.detach();
        sum = Some(add(sum, squared_error(made, &target, &weights)?)?);
        views += 1;
        terms += count;
    }
    mean_over(
        sum,
        views,
        &decoded[0],
        [("views", views), ("skipped_views", SLOTS.len() - views), ("terms", terms)],
    )
}

/// The weighted sum of Eq. 2, `L_con + λ_pred·L_pred + λ_rec·L_rec`; a term left out is not part of
/// the variant.
///
/// # Shapes
/// Scalars.
///
/// Metrics: `total`, `contrastive`, `prediction`, `reconstruction` (those present), and the
/// contrastive loss's `skipped_pairs`.
pub fn total(
    contrastive: &Loss,
    prediction: Option<&Loss>,
    reconstruction: Option<&Loss>,
    weights: LossWeights,
) -> Result<Loss> {
    let mut loss = contrastive.loss.clone();
    let mut metrics = BTreeMap::from([("contrastive", scalar(&contrastive.loss)?)]);
    metrics.extend(contrastive.metrics.get("skipped_pairs").map(|n| ("skipped_pairs", *n)));
    let terms = [
        ("prediction", prediction, weights.prediction),
        ("reconstruction", reconstruction, weights.reconstruction),
    ];
    for (name, term, weight) in terms {
        let Some(term) = term else { continue };
        loss = (loss + (&term.loss * weight)?)?;
        metrics.insert(name, scalar(&term.loss)?);
    }
    metrics.insert("total", scalar(&loss)?);
    Ok(Loss { loss, metrics })
}

/// A scalar tensor's value.
pub(super) fn scalar(tensor: &Tensor) -> Result<f64> {
    Ok(tensor.to_dtype(candle_core::DType::F64)?.to_scalar()?)
}

fn rows_with(present: &[Presence], p: usize, q: usize) -> Vec<u32> {
    (0..present.len() as u32).filter(|i| present[*i as usize][p] && present[*i as usize][q]).collect()
}

fn pick(x: &Tensor, rows: &[u32], all: usize) -> Result<Tensor> {
    if rows.len() == all { Ok(x.clone()) } else { Ok(x.index_select(&Tensor::new(rows, x.device())?, 0)?) }
}

/// Weights that turn a sum over the units into a mean over those that count, and their number;
/// `None` when there are none.
fn mean_weights(
    present: &[Presence],
    counts: impl Fn(&Presence) -> bool,
    like: &Tensor,
) -> Result<Option<(Tensor, usize)>> {
    let count = present.iter().filter(|v| counts(v)).count();
    if count == 0 {
        return Ok(None);
    }
    let weights: Vec<f64> =
        present.iter().map(|v| if counts(v) { 1.0 / count as f64 } else { 0.0 }).collect();
    Ok(Some((column(&weights, like)?, count)))
}

fn add(sum: Option<Tensor>, term: Tensor) -> Result<Tensor> {
    Ok(match sum {
        Some(sum) => (sum + term)?,
        None => term,
    })
}

fn mean_over(
    sum: Option<Tensor>,
    count: usize,
    like: &Tensor,
    metrics: [(&'static str, usize); 3],
) -> Result<Loss> {
    let loss = match sum {
        Some(sum) => (sum / count as f64)?,
        None => Tensor::zeros((), like.dtype(), like.device())?,
    };
    Ok(Loss { loss, metrics: metrics.into_iter().map(|(name, n)| (name, n as f64)).collect() })
}
