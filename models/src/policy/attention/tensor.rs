//! Attention by candle's operations, for any device and type.

use candle_core::{D, DType, Result, Tensor};
use candle_nn::ops::softmax;

use super::super::batch::Segment;
use super::super::cache::{Gathered, Held, LayerCache};
use super::{Gradients, block};

/// A segment's part of `[t, heads, d]` as `[kv_heads, len·group, d]`: the queries of one head of keys together.
fn grouped(x: &Tensor, kv: usize, from: usize, len: usize) -> Result<Tensor> {
    let (_, heads, d) = x.dims3()?;
    let x = x.narrow(0, from, len)?.reshape((len, kv, heads / kv, d))?.transpose(0, 1)?.contiguous()?;
    x.reshape((kv, len * heads / kv, d))
}

/// The inverse: `[kv_heads, len·group, d]` to `[len, heads·d]`.
fn ungrouped(x: &Tensor, len: usize) -> Result<Tensor> {
    let (kv, rows, d) = x.dims3()?;
    let group = rows / len;
    x.reshape((kv, len, group, d))?.transpose(0, 1)?.contiguous()?.reshape((len, kv * group * d))
}

/// The keys or values a segment sees up to its `seen`-th token, `[kv_heads, prefix + seen, d]`.
fn visible(x: &Tensor, segments: &[Segment], index: usize, seen: usize) -> Result<Tensor> {
    let Segment { start, prefix, .. } = segments[index];
    let own = x.narrow(0, start, seen)?;
    let all = match prefix.map(|p| segments[p]) {
        Some(p) => Tensor::cat(&[&x.narrow(0, p.start, p.len)?, &own], 0)?,
        None => own,
    };
    all.transpose(0, 1)?.contiguous()
}

/// Hides from each of the last `rows` queries the keys behind it: scores are `[kv_heads, rows·group, keys]`, and the keys
/// before the last `rows` are seen by all. The mask is made on the device.
fn hide_later(scores: &Tensor, rows: usize) -> Result<Tensor> {
    if rows == 1 {
        return Ok(scores.clone());
    }
    let (kv, all, keys) = scores.dims3()?;
    let index = Tensor::arange(0u32, rows as u32, scores.device())?;
    let later = index.reshape((1, rows))?.broadcast_gt(&index.reshape((rows, 1))?)?;
    let never = Tensor::new(f32::NEG_INFINITY, scores.device())?.broadcast_as((rows, rows))?;
    let mask = later.where_cond(&never, &never.zeros_like()?)?.to_dtype(scores.dtype())?;
    let by_query = scores.reshape((kv, rows, all / rows, keys))?;
    let own = by_query.narrow(3, keys - rows, rows)?.broadcast_add(&mask.reshape((1, rows, 1, rows))?)?;
    let hidden =
        if keys == rows { own } else { Tensor::cat(&[&by_query.narrow(3, 0, keys - rows)?, &own], 3)? };
    hidden.reshape((kv, all, keys))
}

/// A block of queries of one segment, with everything it sees.
struct Block {
    rows: (usize, usize),
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    /// `[kv_heads, rows·group, keys]`
    probabilities: Tensor,
}

fn scale(d: usize) -> f64 {
    1.0 / (d as f64).sqrt()
}

impl Block {
    fn new(
        (q, k, v): (&Tensor, &Tensor, &Tensor),
        segments: &[Segment],
        index: usize,
        (from, rows): (usize, usize),
    ) -> Result<Self> {
        let (kv, d) = (k.dim(1)?, k.dim(2)?);
        let start = segments[index].start;
        let queries = grouped(q, kv, start + from, rows)?;
        let keys = visible(k, segments, index, from + rows)?;
        let values = visible(v, segments, index, from + rows)?;
        let scores = (queries.matmul(&keys.t()?)?.to_dtype(softmax_dtype(q))? * scale(d))?;
        let probabilities = softmax(&hide_later(&scores, rows)?, D::Minus1)?;
        Ok(Self { rows: (start + from, rows), queries, keys, values, probabilities })
    }
}

fn softmax_dtype(x: &Tensor) -> DType {
    if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 }
}

/// The blocks of all segments, in row order.
fn blocks(segments: &[Segment]) -> Vec<(usize, (usize, usize))> {
    let mut blocks = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        let keys = segment.len + segment.prefix.map_or(0, |p| segments[p].len);
        let most = block(keys);
        let of_segment = (0..segment.len).step_by(most).map(|from| (from, most.min(segment.len - from)));
        blocks.extend(of_segment.map(|block| (index, block)));
    }
    blocks
}

pub(super) fn forward(q: &Tensor, k: &Tensor, v: &Tensor, segments: &[Segment]) -> Result<Tensor> {
    let mut out = Vec::new();
    for (index, rows) in blocks(segments) {
        let block = Block::new((q, k, v), segments, index, rows)?;
        let mixed = block.probabilities.to_dtype(q.dtype())?.matmul(&block.values)?;
        out.push(ungrouped(&mixed, rows.1)?);
    }
    Tensor::cat(&out, 0)
}

pub(super) fn backward(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    grad: &Tensor,
    segments: &[Segment],
) -> Result<Gradients> {
    let (kv, d) = (k.dim(1)?, k.dim(2)?);
    let grad = grad.reshape(q.shape())?;
    let (mut dq, mut dk, mut dv) = (Vec::new(), Rows::zeros(k)?, Rows::zeros(v)?);
    for (index, rows) in blocks(segments) {
        let block = Block::new((q, k, v), segments, index, rows)?;
        let out_grad = grouped(&grad, kv, block.rows.0, block.rows.1)?;
        let p = &block.probabilities;
        dv.add(&p.to_dtype(q.dtype())?.transpose(1, 2)?.matmul(&out_grad)?, segments, index)?;
        let dp = out_grad.matmul(&block.values.t()?)?.to_dtype(p.dtype())?;
        let along = (&dp * p)?.sum_keepdim(D::Minus1)?;
        let ds = ((p * dp.broadcast_sub(&along)?)? * scale(d))?.to_dtype(q.dtype())?;
        dk.add(&ds.transpose(1, 2)?.matmul(&block.queries)?, segments, index)?;
        dq.push(ungrouped(&ds.matmul(&block.keys)?, rows.1)?);
    }
    Ok(Gradients { q: Tensor::cat(&dq, 0)?.reshape(q.shape())?, k: dk.done(k)?, v: dv.done(v)? })
}

/// Gradients of keys or values, added up in f32.
struct Rows(Tensor);

impl Rows {
    fn zeros(of: &Tensor) -> Result<Self> {
        Ok(Self(Tensor::zeros(of.shape(), softmax_dtype(of), of.device())?))
    }

    /// Adds `[kv_heads, prefix + seen, d]` to the rows it belongs to.
    fn add(&mut self, part: &Tensor, segments: &[Segment], index: usize) -> Result<()> {
        let part = part.transpose(0, 1)?.contiguous()?.to_dtype(self.0.dtype())?;
        let Segment { start, prefix, .. } = segments[index];
        let before = match prefix.map(|p| segments[p]) {
            Some(p) => {
                self.add_at(p.start, &part.narrow(0, 0, p.len)?)?;
                p.len
            }
            None => 0,
        };
        self.add_at(start, &part.narrow(0, before, part.dim(0)? - before)?)
    }

    fn add_at(&mut self, start: usize, part: &Tensor) -> Result<()> {
        let sum = (self.0.narrow(0, start, part.dim(0)?)? + part)?;
        self.0.slice_set(&sum.contiguous()?, 0, start)
    }

    fn done(self, like: &Tensor) -> Result<Tensor> {
        self.0.to_dtype(like.dtype())
    }
}

/// Prompts are gathered and padded for all sequences at once: few large operations instead of many small ones.
pub(super) fn cached(q: &Tensor, cache: &LayerCache, held: &Held, gathered: &Gathered) -> Result<Tensor> {
    let (b, heads, d) = q.dims3()?;
    let kv = cache.prompt_k.dim(1)?;
    let all = |prompt: &Tensor, own: &Tensor| -> Result<Tensor> {
        let prompt = prompt.index_select(&gathered.rows, 0)?.reshape((b, (), kv, d))?;
        let own = own.reshape((b, held.capacity, kv, d))?.narrow(1, 0, held.own)?;
        // [b, keys, kv, d] -> [b·kv, keys, d]
        let all = Tensor::cat(&[&prompt, &own], 1)?.transpose(1, 2)?.contiguous()?;
        let keys = all.dim(2)?;
        all.reshape((b * kv, keys, d))
    };
    let (keys, values) = (all(&cache.prompt_k, &cache.own_k)?, all(&cache.prompt_v, &cache.own_v)?);
    let queries = q.reshape((b * kv, heads / kv, d))?;
    let scores = (queries.matmul(&keys.t()?)?.to_dtype(softmax_dtype(q))? * scale(d))?;
    let scores = scores.reshape((b, heads, ()))?.broadcast_add(&gathered.mask)?;
    let p = softmax(&scores, D::Minus1)?.to_dtype(q.dtype())?.reshape((b * kv, heads / kv, ()))?;
    p.matmul(&values)?.reshape((b, heads * d))
}
