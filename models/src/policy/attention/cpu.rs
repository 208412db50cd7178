//! Attention on f32 slices: one task for each segment and head of keys.

use candle_core::{Device, Result, Storage, Tensor, bail};
use rayon::prelude::*;

use super::super::batch::Segment;
use super::super::cache::{Held, LayerCache};
use super::{Gradients, block};
use crate::kernels::math::{dot, exp};
use crate::kernels::{View, numbers, product, vectorised};

/// Heads of queries and keys, and the width of a head.
#[derive(Clone, Copy)]
struct Heads {
    q: usize,
    kv: usize,
    d: usize,
}

impl Heads {
    fn of(q: &Tensor, k: &Tensor) -> Result<Self> {
        let (_, heads, d) = q.dims3()?;
        Ok(Self { q: heads, kv: k.dim(1)?, d })
    }

    fn group(self) -> usize {
        self.q / self.kv
    }

    fn scale(self) -> f32 {
        1.0 / (self.d as f32).sqrt()
    }

    /// Where the row's numbers of a query head start.
    fn at_q(self, row: usize, head: usize) -> usize {
        (row * self.q + head) * self.d
    }

    fn at_kv(self, row: usize, head: usize) -> usize {
        (row * self.kv + head) * self.d
    }

    /// A row's key or value of a head.
    fn row(self, numbers: &[f32], row: usize, head: usize) -> &[f32] {
        &numbers[self.at_kv(row, head)..][..self.d]
    }
}

/// Runs `f` on the numbers of contiguous f32 tensors.
fn with<const N: usize, T>(tensors: [&Tensor; N], f: impl FnOnce([&[f32]; N]) -> T) -> Result<T> {
    let held = tensors.map(Tensor::storage_and_layout);
    let mut slices = [&[][..]; N];
    for (slice, (storage, layout)) in slices.iter_mut().zip(&held) {
        let Storage::Cpu(storage) = &**storage else { bail!("expected a tensor on the CPU") };
        *slice = numbers(storage, layout)?;
    }
    Ok(f(slices))
}

/// What one head of one segment attends to: rows of the prefix, then its own.
#[derive(Clone, Copy)]
struct Span {
    prefix: (usize, usize),
    own: (usize, usize),
}

impl Span {
    fn of(segments: &[Segment], index: usize) -> Self {
        let Segment { start, len, prefix } = segments[index];
        let prefix = prefix.map_or((0, 0), |p| (segments[p].start, segments[p].len));
        Self { prefix, own: (start, len) }
    }

    fn keys(self) -> usize {
        self.prefix.1 + self.own.1
    }
}

/// Tasks in order: segments, and their heads of keys.
fn tasks(segments: &[Segment], heads: Heads) -> Vec<(Span, usize)> {
    (0..segments.len()).flat_map(|s| (0..heads.kv).map(move |h| (Span::of(segments, s), h))).collect()
}

/// Probabilities of the queries `from..from + rows` of a head over the keys up to the last of them: `[rows, width]`.
fn probabilities(
    (q, k): (&[f32], &[f32]),
    heads: Heads,
    span: Span,
    (head, kv_head): (usize, usize),
    (from, rows): (usize, usize),
) -> (Vec<f32>, usize) {
    let ((p_start, p_len), (start, _)) = (span.prefix, span.own);
    let width = p_len + from + rows;
    let mut scores = vec![0f32; rows * width];
    let queries = View::rows(q, heads.at_q(start + from, head), heads.q * heads.d);
    let keys = |row: usize| View::rows(k, heads.at_kv(row, kv_head), heads.kv * heads.d).t();
    product(&mut scores, width, false, (rows, heads.d, p_len), heads.scale(), queries, keys(p_start));
    let own = (rows, heads.d, from + rows);
    product(&mut scores[p_len..], width, false, own, heads.scale(), queries, keys(start));
    vectorised(
        #[inline(always)]
        || {
            for (r, row) in scores.chunks_exact_mut(width).enumerate() {
                softmax(row, p_len + from + r + 1);
            }
        },
    );
    (scores, width)
}

/// The softmax of the first `seen` numbers; the others become 0.
#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled for the vectors of its caller")]
fn softmax(row: &mut [f32], seen: usize) {
    let (seen, unseen) = row.split_at_mut(seen);
    unseen.fill(0.0);
    let most = seen.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for x in seen.iter_mut() {
        *x = exp(*x - most);
    }
    let scale = 1.0 / sum(seen);
    for x in seen {
        *x *= scale;
    }
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled for the vectors of its caller")]
fn sum(numbers: &[f32]) -> f32 {
    let mut sums = [0f32; 8];
    let eights = numbers.chunks_exact(8);
    let rest: f32 = eights.remainder().iter().sum();
    for eight in eights {
        for k in 0..8 {
            sums[k] += eight[k];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// Blocks of queries of a segment: first query and count.
fn blocks(span: Span) -> impl Iterator<Item = (usize, usize)> {
    let (len, most) = (span.own.1, block(span.keys()));
    (0..len).step_by(most).map(move |from| (from, most.min(len - from)))
}

pub(super) fn forward(q: &Tensor, k: &Tensor, v: &Tensor, segments: &[Segment]) -> Result<Tensor> {
    let heads = Heads::of(q, k)?;
    let (rows, width) = (q.dim(0)?, heads.q * heads.d);
    let out = with([q, k, v], |[q, k, v]| {
        let tasks = tasks(segments, heads);
        let parts: Vec<Vec<f32>> =
            tasks.par_iter().map(|(span, h)| forward_task((q, k, v), heads, *span, *h)).collect();
        let mut out = vec![0f32; rows * width];
        for ((span, h), part) in tasks.iter().zip(parts) {
            scatter(&mut out, &part, heads, *span, *h);
        }
        out
    })?;
    Tensor::from_vec(out, (rows, width), &Device::Cpu)
}

/// The outputs of the query heads of one head of keys, `[group, len, d]`.
fn forward_task((q, k, v): (&[f32], &[f32], &[f32]), heads: Heads, span: Span, kv_head: usize) -> Vec<f32> {
    let (d, len) = (heads.d, span.own.1);
    let mut out = vec![0f32; heads.group() * len * d];
    for (g, out) in out.chunks_exact_mut((len * d).max(1)).enumerate() {
        for (from, rows) in blocks(span) {
            let head = kv_head * heads.group() + g;
            let (p, width) = probabilities((q, k), heads, span, (head, kv_head), (from, rows));
            let out = &mut out[from * d..(from + rows) * d];
            let values = |row: usize| View::rows(v, heads.at_kv(row, kv_head), heads.kv * d);
            product(
                out,
                d,
                false,
                (rows, span.prefix.1, d),
                1.0,
                View::rows(&p, 0, width),
                values(span.prefix.0),
            );
            let own = View::rows(&p, span.prefix.1, width);
            product(out, d, span.prefix.1 > 0, (rows, from + rows, d), 1.0, own, values(span.own.0));
        }
    }
    out
}

/// Puts the numbers of a task's heads into their places of the rows.
fn scatter(out: &mut [f32], part: &[f32], heads: Heads, span: Span, kv_head: usize) {
    let (d, (start, len)) = (heads.d, span.own);
    for (g, head) in part.chunks_exact((len * d).max(1)).enumerate() {
        for (r, row) in head.chunks_exact(d).enumerate() {
            let at = heads.at_q(start + r, kv_head * heads.group() + g);
            out[at..at + d].copy_from_slice(row);
        }
    }
}

/// A task's gradients: of queries `[group, len, d]`, of keys and values `[prefix + own, d]`.
struct Part {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

pub(super) fn backward(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    grad: &Tensor,
    segments: &[Segment],
) -> Result<Gradients> {
    let heads = Heads::of(q, k)?;
    let (dq, dk, dv) = with([q, k, v, grad], |all| {
        let tasks = tasks(segments, heads);
        let parts: Vec<Part> =
            tasks.par_iter().map(|(span, h)| backward_task(all, heads, *span, *h)).collect();
        let mut dq = vec![0f32; q.elem_count()];
        let (mut dk, mut dv) = (vec![0f32; k.elem_count()], vec![0f32; k.elem_count()]);
        for ((span, h), part) in tasks.iter().zip(parts) {
            scatter(&mut dq, &part.q, heads, *span, *h);
            gather(&mut dk, &part.k, heads, *span, *h);
            gather(&mut dv, &part.v, heads, *span, *h);
        }
        (dq, dk, dv)
    })?;
    Ok(Gradients {
        q: Tensor::from_vec(dq, q.shape(), &Device::Cpu)?,
        k: Tensor::from_vec(dk, k.shape(), &Device::Cpu)?,
        v: Tensor::from_vec(dv, v.shape(), &Device::Cpu)?,
    })
}

/// Adds a task's gradients of keys or values to those of the rows; a prefix gets them from all that continue it.
fn gather(out: &mut [f32], part: &[f32], heads: Heads, span: Span, kv_head: usize) {
    let ((p_start, p_len), (start, len)) = (span.prefix, span.own);
    let rows = (p_start..p_start + p_len).chain(start..start + len);
    for (row, numbers) in rows.zip(part.chunks_exact(heads.d)) {
        let at = heads.at_kv(row, kv_head);
        for (x, y) in out[at..at + heads.d].iter_mut().zip(numbers) {
            *x += y;
        }
    }
}

/// With P the probabilities: `dV = Pᵀ·dO`, `dP = dO·Vᵀ`, `dS = P∘(dP − rowsum(dP∘P))/√d`, `dQ = dS·K`, `dK = dSᵀ·Q`.
fn backward_task([q, k, v, grad]: [&[f32]; 4], heads: Heads, span: Span, kv_head: usize) -> Part {
    let (d, (start, len), (p_start, p_len)) = (heads.d, span.own, span.prefix);
    let mut part = Part {
        q: vec![0f32; heads.group() * len * d],
        k: vec![0f32; span.keys() * d],
        v: vec![0f32; span.keys() * d],
    };
    let rows_of = |numbers, row| View::rows(numbers, heads.at_kv(row, kv_head), heads.kv * d);
    for (g, dq) in part.q.chunks_exact_mut((len * d).max(1)).enumerate() {
        let head = kv_head * heads.group() + g;
        for (from, rows) in blocks(span) {
            let (p, width) = probabilities((q, k), heads, span, (head, kv_head), (from, rows));
            let seen = from + rows;
            let at = heads.at_q(start + from, head);
            let (queries, grads) = (View::rows(q, at, heads.q * d), View::rows(grad, at, heads.q * d));
            let mut ds = vec![0f32; rows * width];
            product(&mut ds, width, false, (rows, d, p_len), 1.0, grads, rows_of(v, p_start).t());
            product(&mut ds[p_len..], width, false, (rows, d, seen), 1.0, grads, rows_of(v, start).t());
            product(&mut part.v, d, true, (width, rows, d), 1.0, View::rows(&p, 0, width).t(), grads);
            score_gradient(&mut ds, &p, width, heads.scale());
            let dq = &mut dq[from * d..seen * d];
            product(dq, d, false, (rows, p_len, d), 1.0, View::rows(&ds, 0, width), rows_of(k, p_start));
            let own = View::rows(&ds, p_len, width);
            product(dq, d, p_len > 0, (rows, seen, d), 1.0, own, rows_of(k, start));
            product(&mut part.k, d, true, (width, rows, d), 1.0, View::rows(&ds, 0, width).t(), queries);
        }
    }
    part
}

/// `ds ← scale·p∘(ds − Σ ds∘p)`, row by row.
fn score_gradient(ds: &mut [f32], p: &[f32], width: usize, scale: f32) {
    vectorised(
        #[inline(always)]
        || {
            for (ds, p) in ds.chunks_exact_mut(width).zip(p.chunks_exact(width)) {
                let along = dot(ds, p);
                for (s, p) in ds.iter_mut().zip(p) {
                    *s = scale * p * (*s - along);
                }
            }
        },
    );
}

pub(super) fn cached(q: &Tensor, cache: &LayerCache, held: &Held) -> Result<Tensor> {
    let heads = Heads::of(q, &cache.prompt_k)?;
    let (b, width) = (q.dim(0)?, heads.q * heads.d);
    let tensors = [q, &cache.prompt_k, &cache.prompt_v, &cache.own_k, &cache.own_v];
    let out = with(tensors, |[q, prompt_k, prompt_v, own_k, own_v]| {
        let mut out = vec![0f32; b * width];
        out.par_chunks_mut(width).enumerate().for_each(|(i, out)| {
            let (start, len) = held.prompts[i];
            let own = i * held.capacity..i * held.capacity + held.own;
            for (head, out) in out.chunks_exact_mut(heads.d).enumerate() {
                let kv_head = head / heads.group();
                let query = &q[heads.at_q(i, head)..][..heads.d];
                let rows = |prompt, mine| {
                    let prompt = (start..start + len).map(move |row| heads.row(prompt, row, kv_head));
                    prompt.chain(own.clone().map(move |row| heads.row(mine, row, kv_head)))
                };
                vectorised(
                    #[inline(always)]
                    || attend_one(out, query, rows(prompt_k, own_k), rows(prompt_v, own_v), heads.scale()),
                );
            }
        });
        out
    })?;
    Tensor::from_vec(out, (b, width), &Device::Cpu)
}

/// One query against the keys before it.
#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled for the vectors of its caller")]
fn attend_one<'a>(
    out: &mut [f32],
    query: &[f32],
    keys: impl Iterator<Item = &'a [f32]>,
    values: impl Iterator<Item = &'a [f32]>,
    scale: f32,
) {
    let mut scores: Vec<f32> = keys.map(|key| dot(query, key) * scale).collect();
    let seen = scores.len();
    softmax(&mut scores, seen);
    for (p, value) in scores.iter().zip(values) {
        for (y, x) in out.iter_mut().zip(value) {
            *y += p * x;
        }
    }
}
