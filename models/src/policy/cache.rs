//! Keys and values of sequences that are being written: each prompt's once, and each sequence's own.

use candle_core::{DType, Result, Tensor};

/// Keys and values of one layer.
#[derive(Debug, Clone)]
pub(super) struct LayerCache {
    /// Of all prompts, end to end: `[rows, kv_heads, d]`.
    pub prompt_k: Tensor,
    pub prompt_v: Tensor,
    /// Of what each sequence has written: `[b·capacity, kv_heads, d]`.
    pub own_k: Tensor,
    pub own_v: Tensor,
}

/// What the caches of all layers hold.
#[derive(Debug, Clone)]
pub(super) struct Held {
    /// First row and length of each sequence's prompt.
    pub prompts: Vec<(usize, usize)>,
    /// Tokens that each sequence has written, the same for all.
    pub own: usize,
    /// Tokens that a sequence has room for.
    pub capacity: usize,
    /// Tokens that a sequence may come to.
    pub limit: usize,
}

/// The prompts of all sequences, padded in front to one length.
pub(super) struct Gathered {
    /// Rows of the prompts, `[b·longest]`.
    pub rows: Tensor,
    /// 0 or minus infinity, `[b, 1, longest + own]`.
    pub mask: Tensor,
}

impl Held {
    /// For scores of the type that `like` has them in.
    pub fn gathered(&self, like: &Tensor) -> Result<Gathered> {
        let device = like.device();
        let longest = self.prompts.iter().map(|(_, len)| *len).max().unwrap_or(0);
        let (mut rows, mut mask) = (Vec::new(), Vec::new());
        for &(start, len) in &self.prompts {
            let padding = longest - len;
            rows.extend(std::iter::repeat_n(start as u32, padding));
            rows.extend((start..start + len).map(|row| row as u32));
            mask.extend(std::iter::repeat_n(f32::NEG_INFINITY, padding));
            mask.extend(std::iter::repeat_n(0f32, len + self.own));
        }
        let shape = (self.prompts.len(), 1, longest + self.own);
        let scores = if like.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let mask = Tensor::from_vec(mask, shape, device)?.to_dtype(scores)?;
        Ok(Gathered { rows: Tensor::new(rows, device)?, mask })
    }
}

impl LayerCache {
    /// Writes the newest token's keys and values, `[b, kv_heads, d]`, at place `at` of each sequence.
    pub fn write(&self, k: &Tensor, v: &Tensor, at: usize, capacity: usize) -> Result<()> {
        let (b, kv, d) = k.dims3()?;
        for (own, new) in [(&self.own_k, k), (&self.own_v, v)] {
            let places = own.reshape((b, capacity, kv, d))?;
            places.slice_set(&new.reshape((b, 1, kv, d))?.contiguous()?, 1, at)?;
        }
        Ok(())
    }

    /// Room for more tokens of each sequence.
    pub fn grow(&mut self, capacity: usize, more: usize) -> Result<()> {
        for own in [&mut self.own_k, &mut self.own_v] {
            let (rows, kv, d) = own.dims3()?;
            let b = rows / capacity;
            let room = Tensor::zeros((b, more, kv, d), own.dtype(), own.device())?;
            let all = Tensor::cat(&[&own.reshape((b, capacity, kv, d))?, &room], 1)?;
            *own = all.reshape((b * (capacity + more), kv, d))?;
        }
        Ok(())
    }

    /// The caches of some of the sequences.
    pub fn keep(&self, sequences: &[u32], capacity: usize) -> Result<Self> {
        let index = Tensor::new(sequences, self.own_k.device())?;
        let keep = |own: &Tensor| {
            let (rows, kv, d) = own.dims3()?;
            let kept = own.reshape((rows / capacity, capacity, kv, d))?.index_select(&index, 0)?;
            kept.reshape((sequences.len() * capacity, kv, d))
        };
        Ok(Self { own_k: keep(&self.own_k)?, own_v: keep(&self.own_v)?, ..self.clone() })
    }
}
