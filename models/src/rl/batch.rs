//! Tokens of several completions, one after the other, and what counts among them.

use std::ops::Range;

use serde::Serialize;

use super::error::RlError;

/// Completion tokens of all sequences, concatenated, and what the objective needs to know about each.
///
/// Log-probabilities are natural logarithms of the sampled tokens' probabilities. Values at tokens that
/// do not count are never looked at, and may be NaN.
///
/// # Shapes
/// `T` tokens, the sum of `lengths`, in `B` sequences.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenBatch<'a> {
    /// `[T]`, under the policy that is trained, now.
    pub logp: &'a [f32],
    /// `[T]`, under the policy as it was when the completions were sampled, by the trainer's own
    /// arithmetic.
    pub old: &'a [f32],
    /// `[T]`, under the reference policy of the KL term.
    pub reference: Option<&'a [f32]>,
    /// `[T]`, as the sampler reported them, for truncated importance sampling.
    pub sampler: Option<&'a [f32]>,
    /// `[B]`, tokens of each sequence; 0 is an empty completion.
    pub lengths: &'a [usize],
    /// `[B]`, one advantage for each sequence.
    pub advantages: &'a [f64],
    /// `[T]`, which tokens count; absent: all.
    pub mask: Option<&'a [bool]>,
    /// What the whole optimizer step holds, when this is a part of it (gradient accumulation): the sums
    /// of the parts' losses and gradients are then those of the whole. Absent: this is all. Sequences
    /// without a counted token are not counted here; TRL counts them, and a caller may do so too.
    pub whole: Option<Counts>,
}

/// What is divided by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Tokens that count.
    pub tokens: usize,
    /// Sequences with at least one of them.
    pub sequences: usize,
}

impl Counts {
    /// Counts the tokens and sequences of a batch, or of a whole step.
    ///
    /// # Shapes
    /// `lengths`: `[B]`; `mask`: `[T]`.
    ///
    /// # Errors
    /// [`RlError::Length`] when the mask does not have a value for each token.
    pub fn of(lengths: &[usize], mask: Option<&[bool]>) -> Result<Self, RlError> {
        let total = total(lengths);
        let Some(mask) = mask else {
            return Ok(Self { tokens: total, sequences: lengths.iter().filter(|n| **n > 0).count() });
        };
        same_length("mask", mask.len(), total)?;
        let counted = ranges(lengths).map(|range| mask[range].iter().filter(|m| **m).count());
        Ok(counted
            .filter(|n| *n > 0)
            .fold(Self::default(), |sum, n| Self { tokens: sum.tokens + n, sequences: sum.sequences + 1 }))
    }
}

impl TokenBatch<'_> {
    /// Whether a token counts.
    pub(super) fn counts(&self, token: usize) -> bool {
        self.mask.is_none_or(|mask| mask[token])
    }

    /// The sequences: their tokens.
    pub(super) fn sequences(&self) -> impl Iterator<Item = Range<usize>> {
        ranges(self.lengths)
    }

    /// Checks lengths and values, and counts.
    pub(super) fn check(&self) -> Result<Counts, RlError> {
        let tokens = total(self.lengths);
        same_length("logp", self.logp.len(), tokens)?;
        same_length("advantages", self.advantages.len(), self.lengths.len())?;
        let counts = Counts::of(self.lengths, self.mask)?;
        let inputs = [
            ("logp", Some(self.logp)),
            ("old", Some(self.old)),
            ("reference", self.reference),
            ("sampler", self.sampler),
        ];
        for (what, values) in inputs {
            let Some(values) = values else { continue };
            check_values(what, values, self.mask, tokens)?;
        }
        match self.advantages.iter().enumerate().find(|(_, a)| !a.is_finite()) {
            Some((index, value)) => Err(RlError::NonFinite { what: "advantages", index, value: *value }),
            None => Ok(counts),
        }
    }

    /// What is divided by: the whole step's counts, or this batch's.
    pub(super) fn whole(&self, own: Counts) -> Result<Counts, RlError> {
        let whole = self.whole.unwrap_or(own);
        for (what, whole, part) in
            [("tokens", whole.tokens, own.tokens), ("sequences", whole.sequences, own.sequences)]
        {
            if whole < part {
                return Err(RlError::Whole { what, whole, part });
            }
        }
        Ok(whole)
    }
}

/// Checks that there is a value for each token, finite where the token counts.
pub(super) fn check_values(
    what: &'static str,
    values: &[f32],
    mask: Option<&[bool]>,
    tokens: usize,
) -> Result<(), RlError> {
    same_length(what, values.len(), tokens)?;
    let counts = |i: usize| mask.is_none_or(|mask| mask[i]);
    match values.iter().enumerate().find(|(i, x)| counts(*i) && !x.is_finite()) {
        Some((index, value)) => Err(RlError::NonFinite { what, index, value: f64::from(*value) }),
        None => Ok(()),
    }
}

pub(super) fn same_length(what: &'static str, found: usize, expected: usize) -> Result<(), RlError> {
    if found == expected { Ok(()) } else { Err(RlError::Length { what, found, expected }) }
}

/// The tokens of each sequence.
pub(super) fn ranges(lengths: &[usize]) -> impl Iterator<Item = Range<usize>> {
    lengths.iter().scan(0, |start, length| {
        let range = *start..*start + length;
        *start = range.end;
        Some(range)
    })
}

pub(super) fn total(lengths: &[usize]) -> usize {
    lengths.iter().fold(0, |sum, n| sum.saturating_add(*n))
}
