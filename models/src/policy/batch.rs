//! Sequences laid end to end, without padding, and completions that share one prompt.

use super::error::{PolicyError, Result};

/// A run of consecutive tokens. Each attends to the tokens before it in the segment, and to all of the segment that it
/// continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Its first row.
    pub start: usize,
    /// Its tokens.
    pub len: usize,
    /// The segment it continues, which continues none itself.
    pub prefix: Option<usize>,
}

/// A token whose log-probability is wanted, and the row whose output predicts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Row of the token before it.
    pub row: usize,
    /// The token.
    pub token: u32,
    /// The completion it is of, counted over the batch.
    pub sequence: usize,
}

/// Sequences laid end to end. A prompt that several completions continue is computed once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    tokens: Vec<u32>,
    positions: Vec<u32>,
    segments: Vec<Segment>,
    targets: Vec<Target>,
    sequences: usize,
}

impl Packed {
    /// Adds a prompt and its completions; the completions' tokens become targets, in order. Returns nothing: the
    /// completions' log-probabilities come out in the order they went in.
    ///
    /// # Errors
    /// [`PolicyError::Input`] for an empty prompt.
    pub fn push(&mut self, prompt: &[u32], completions: &[&[u32]]) -> Result<()> {
        if prompt.is_empty() {
            return Err(PolicyError::Input("a prompt has no tokens".to_owned()));
        }
        let alone = completions.len() == 1;
        // The last token of a completion predicts nothing that is asked for.
        let inputs = |completion: &[u32]| completion.len().saturating_sub(1);
        let first = self.tokens.len();
        let whole: Vec<u32> = match completions {
            [only] => [prompt, &only[..inputs(only)]].concat(),
            _ => prompt.to_vec(),
        };
        let index = self.segment(&whole, None);
        for completion in completions {
            let start = if alone || completion.len() < 2 {
                first + prompt.len()
            } else {
                let start = self.tokens.len();
                self.segment(&completion[..inputs(completion)], Some(index));
                start
            };
            for (k, token) in completion.iter().enumerate() {
                let row = if k == 0 { first + prompt.len() - 1 } else { start + k - 1 };
                self.targets.push(Target { row, token: *token, sequence: self.sequences });
            }
            self.sequences += 1;
        }
        Ok(())
    }

    /// Adds a sequence of which every token but the first is a target.
    ///
    /// # Errors
    /// [`PolicyError::Input`] for an empty sequence.
    pub fn push_text(&mut self, tokens: &[u32]) -> Result<()> {
        let (first, rest) = tokens
            .split_at_checked(1)
            .ok_or_else(|| PolicyError::Input("a sequence has no tokens".to_owned()))?;
        self.push(first, &[rest])
    }

    fn segment(&mut self, tokens: &[u32], prefix: Option<usize>) -> usize {
        let from = prefix.map_or(0, |index| self.segments[index].len);
        self.segments.push(Segment { start: self.tokens.len(), len: tokens.len(), prefix });
        self.tokens.extend(tokens);
        self.positions.extend((0..tokens.len()).map(|k| (from + k) as u32));
        self.segments.len() - 1
    }

    /// The tokens, `[rows]`.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Their positions, `[rows]`.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// The segments, in row order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The tokens asked for.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_laid_down_once_for_all_its_completions() {
        let mut packed = Packed::default();
        packed.push(&[1, 2, 3], &[&[4, 5], &[6], &[], &[7, 8, 9]]).unwrap();
        packed.push(&[1, 2], &[&[3, 4]]).unwrap();
        assert_eq!(packed.tokens(), [1, 2, 3, 4, 7, 8, 1, 2, 3]);
        assert_eq!(packed.positions(), [0, 1, 2, 3, 3, 4, 0, 1, 2]);
        let segments: Vec<_> = packed.segments().iter().map(|s| (s.start, s.len, s.prefix)).collect();
        assert_eq!(segments, [(0, 3, None), (3, 1, Some(0)), (4, 2, Some(0)), (6, 3, None)]);
        let targets: Vec<_> = packed.targets().iter().map(|t| (t.row, t.token, t.sequence)).collect();
        let expected =
            [(2, 4, 0), (3, 5, 0), (2, 6, 1), (2, 7, 3), (4, 8, 3), (5, 9, 3), (7, 3, 4), (8, 4, 4)];
        assert_eq!(targets, expected);
        assert!(packed.push(&[], &[&[1]]).is_err());
    }
}
