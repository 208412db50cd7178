//! Writing text: batches of sequences, several to a prompt, whose prompt is read once.

use candle_core::{DType, Tensor};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::attention::{attend_cached, gather};
use super::batch::Packed;
use super::cache::{Held, LayerCache};
use super::error::{PolicyError, Result};
use super::layer::Pass;
use super::linear::Adapters;
use super::model::Policy;
use super::ops::{self, Rotation};
use super::random::{Dropout, stream};
use crate::kernels::math::exp;

/// How tokens are drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// Logits are divided by it; 0 takes the likeliest token.
    pub temperature: f64,
    /// The likeliest tokens that together have at least this probability; 1 keeps all.
    pub top_p: f64,
    /// The likeliest tokens, this many; 0 keeps all.
    pub top_k: usize,
    /// Tokens to write at most, the stop token included.
    pub max_tokens: usize,
    /// Tokens that end a text.
    pub stop: Vec<u32>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 1.0, top_p: 1.0, top_k: 0, max_tokens: 256, stop: Vec::new() }
    }
}

/// A prompt and the seeds of the texts that continue it, one text for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Seeds: the same prompt, seed and weights give the same text, whatever else is in the batch, up to rounding.
    pub seeds: Vec<u64>,
}

/// Why a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    /// By a stop token, which is its last.
    Stop,
    /// At the limit.
    Length,
}

/// A text that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// Its tokens, the stop token included.
    pub tokens: Vec<u32>,
    /// Their natural log-probabilities at the temperature (at 1 for temperature 0), before top-k and top-p.
    pub logp: Vec<f32>,
    /// Why it ended.
    pub finish: Finish,
}

/// Tokens that a text has room for at first: most end long before their limit.
const ROOM: usize = 64;
/// Rows of prompts that are read at once.
const PREFILL_ROWS: usize = 4096;

impl Sampling {
    /// # Errors
    /// [`PolicyError::Input`] names the setting outside its range.
    pub fn check(&self) -> Result<()> {
        let refuse = |reason: String| Err(PolicyError::Input(reason));
        if !self.temperature.is_finite() || self.temperature < 0.0 {
            return refuse(format!("temperature is {}, expected at least 0", self.temperature));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return refuse(format!("top_p is {}, expected in (0, 1]", self.top_p));
        }
        if self.max_tokens == 0 {
            return refuse("max_tokens is 0, expected at least 1".to_owned());
        }
        Ok(())
    }

    /// What logits are divided by when log-probabilities are taken.
    pub fn logp_temperature(&self) -> f64 {
        if self.temperature == 0.0 { 1.0 } else { self.temperature }
    }

    /// The distribution that tokens are drawn from: temperature, then top-k, then top-p, as transformers applies them.
    /// Tokens as likely as the k-th are kept too.
    pub fn distribution(&self, logits: &[f32]) -> Vec<f32> {
        let mut p: Vec<f32> = if self.temperature == 0.0 {
            let best = argmax(logits);
            return (0..logits.len()).map(|i| f32::from(i == best)).collect();
        } else {
            // The difference first: large logits divided would be rounded.
            let most = logits[argmax(logits)];
            logits.iter().map(|x| (f64::from(x - most) / self.temperature) as f32).collect()
        };
        if self.top_k > 0 && self.top_k < p.len() {
            let mut sorted = p.clone();
            let (_, kth, _) = sorted.select_nth_unstable_by(self.top_k - 1, |a, b| b.total_cmp(a));
            let kth = *kth;
            p.iter_mut().filter(|x| **x < kth).for_each(|x| *x = f32::NEG_INFINITY);
        }
        normalise(&mut p);
        if self.top_p < 1.0 {
            self.cut_tail(&mut p);
        }
        p
    }

    /// Takes the least likely tokens away that together have at most `1 − top_p`.
    fn cut_tail(&self, p: &mut [f32]) {
        let mut order: Vec<usize> = (0..p.len()).filter(|&i| p[i] > 0.0).collect();
        order.sort_by(|&a, &b| p[a].total_cmp(&p[b]).then(b.cmp(&a)));
        // In f32, as transformers adds up: it decides on which side of the border equal tokens fall.
        let mut below = 0f32;
        for &i in &order[..order.len().saturating_sub(1)] {
            below += p[i];
            if below > (1.0 - self.top_p) as f32 {
                break;
            }
            p[i] = 0.0;
        }
        let total: f32 = p.iter().sum();
        p.iter_mut().for_each(|x| *x /= total);
    }

    /// A token and its log-probability.
    fn draw(&self, logits: &[f32], rng: &mut ChaCha8Rng) -> (u32, f32) {
        let temperature = self.logp_temperature() as f32;
        let most = logits[argmax(logits)];
        let sum: f64 = logits.iter().map(|x| f64::from(exp((x - most) / temperature))).sum();
        let logp = |token: usize| (f64::from((logits[token] - most) / temperature) - sum.ln()) as f32;
        if self.temperature == 0.0 {
            let token = argmax(logits);
            return (token as u32, logp(token));
        }
        let u: f64 = rng.random();
        let plain = self.top_p >= 1.0 && (self.top_k == 0 || self.top_k >= logits.len());
        let token = if plain {
            pick(logits.iter().map(|x| f64::from(exp((x - most) / temperature)) / sum), u)
        } else {
            pick(self.distribution(logits).into_iter().map(f64::from), u)
        };
        (token as u32, logp(token))
    }
}

fn argmax(row: &[f32]) -> usize {
    let mut best = 0;
    for (i, x) in row.iter().enumerate() {
        if *x > row[best] {
            best = i;
        }
    }
    best
}

fn normalise(p: &mut [f32]) {
    let most = p[argmax(p)];
    p.iter_mut().for_each(|x| *x = exp(*x - most));
    let total: f64 = p.iter().map(|x| f64::from(*x)).sum();
    p.iter_mut().for_each(|x| *x = (f64::from(*x) / total) as f32);
}

/// The first token at which the probabilities add up to more than `u`.
fn pick(p: impl Iterator<Item = f64>, u: f64) -> usize {
    let (mut below, mut last) = (0.0, 0);
    for (token, p) in p.enumerate() {
        if p > 0.0 {
            last = token;
        }
        below += p;
        if below > u {
            return last;
        }
    }
    last
}

/// A text being written.
struct Sequence {
    prompt: usize,
    nth: usize,
    rng: ChaCha8Rng,
    done: Completion,
    ended: bool,
}

/// The state of a batch.
struct Batch {
    caches: Vec<LayerCache>,
    held: Held,
    /// Which sequence each row writes.
    rows: Vec<usize>,
}

impl Policy {
    /// Continues prompts, each by as many texts as it has seeds. `on_done` gets the prompt's number, the text's, and the
    /// text, as soon as it ends.
    ///
    /// # Errors
    /// [`PolicyError::Input`] for an empty prompt, and for one that leaves no room for `max_tokens` positions.
    pub fn sample(
        &self,
        prompts: &[Prompt],
        sampling: &Sampling,
        adapters: Adapters,
        on_done: &mut dyn FnMut(usize, usize, &Completion),
    ) -> Result<Vec<Vec<Completion>>> {
        sampling.check()?;
        self.check_lengths(prompts, sampling)?;
        let mut sequences = sequences(prompts);
        if sequences.is_empty() {
            return Ok(prompts.iter().map(|_| Vec::new()).collect());
        }
        let (mut batch, first) = self.prefill(prompts, &sequences, sampling, adapters)?;
        let prompt_of: Vec<u32> = sequences.iter().map(|s| s.prompt as u32).collect();
        let mut logits = ops::pick_rows(&first, &prompt_of, self.device())?;
        loop {
            write(&mut sequences, &batch.rows, &logits, sampling, on_done)?;
            if batch.rows.iter().all(|&i| sequences[i].ended) {
                break;
            }
            batch.compact(&sequences)?;
            logits = self.step(&mut batch, &sequences, adapters)?;
        }
        let mut texts: Vec<Vec<Completion>> = prompts.iter().map(|_| Vec::new()).collect();
        sequences.into_iter().for_each(|s| texts[s.prompt].push(s.done));
        Ok(texts)
    }

    fn check_lengths(&self, prompts: &[Prompt], sampling: &Sampling) -> Result<()> {
        let most = self.config().max_positions;
        let lengths = || prompts.iter().map(|p| p.tokens.len()).enumerate();
        match lengths().find(|(_, n)| *n == 0 || n + sampling.max_tokens > most) {
            None => Ok(()),
            Some((_, 0)) => Err(PolicyError::Input("a prompt has no tokens".to_owned())),
            Some((i, n)) => Err(PolicyError::Input(format!(
                "prompt {} of {} has {n} tokens; with {} to be written they are more than the model's {most} positions",
                i + 1,
                prompts.len(),
                sampling.max_tokens
            ))),
        }
    }

    /// Reads the prompts; returns the caches and the logits after each prompt, `[prompts, vocabulary]`.
    fn prefill(
        &self,
        prompts: &[Prompt],
        sequences: &[Sequence],
        sampling: &Sampling,
        adapters: Adapters,
    ) -> Result<(Batch, Tensor)> {
        let mut parts: Vec<Vec<(Tensor, Tensor)>> = vec![Vec::new(); self.layers.len()];
        let (mut logits, mut places, mut rows) = (Vec::new(), Vec::new(), 0);
        let mut rest = prompts;
        while !rest.is_empty() {
            let mut packed = Packed::default();
            let mut count = 0;
            while count < rest.len()
                && (count == 0 || packed.len() + rest[count].tokens.len() <= PREFILL_ROWS)
            {
                packed.push(&rest[count].tokens, &[])?;
                count += 1;
            }
            let last: Vec<u32> = packed.segments().iter().map(|s| (s.start + s.len - 1) as u32).collect();
            places.extend(packed.segments().iter().map(|s| (rows + s.start, s.len)));
            let x = self.read(&packed, adapters, &mut parts)?;
            logits.push(self.logits(&self.norm.forward(&ops::pick_rows(&x, &last, self.device())?)?, 1.0)?);
            rows += packed.len();
            rest = &rest[count..];
        }
        let held = Held {
            prompts: sequences.iter().map(|s| places[s.prompt]).collect(),
            own: 0,
            capacity: sampling.max_tokens.min(ROOM),
            limit: sampling.max_tokens,
        };
        let caches = parts.into_iter().map(|parts| self.cache(&parts, sequences.len(), held.capacity));
        let batch =
            Batch { caches: caches.collect::<Result<_>>()?, held, rows: (0..sequences.len()).collect() };
        Ok((batch, Tensor::cat(&logits, 0)?))
    }

    fn cache(&self, parts: &[(Tensor, Tensor)], sequences: usize, capacity: usize) -> Result<LayerCache> {
        let all = |side: fn(&(Tensor, Tensor)) -> &Tensor| {
            Tensor::cat(&parts.iter().map(side).collect::<Vec<_>>(), 0)
        };
        let shape = (sequences * capacity, self.config().kv_heads, self.config().head_dim);
        let room = || Tensor::zeros(shape, self.dtype(), self.device());
        Ok(LayerCache { prompt_k: all(|p| &p.0)?, prompt_v: all(|p| &p.1)?, own_k: room()?, own_v: room()? })
    }

    /// Runs the layers over packed prompts, and keeps keys and values.
    fn read(
        &self,
        packed: &Packed,
        adapters: Adapters,
        kept: &mut [Vec<(Tensor, Tensor)>],
    ) -> Result<Tensor> {
        let mut x = self.embed(packed.tokens())?;
        let rotation = Rotation::new(self.config(), packed.positions(), &x)?;
        let dropout = Dropout::off();
        let pass = Pass { rotation: &rotation, segments: packed.segments(), adapters, dropout: &dropout };
        for (layer, kept) in self.layers.iter().zip(kept) {
            let (y, saved) = layer.forward(&x, pass)?;
            kept.push(saved.keys_and_values());
            x = y;
        }
        Ok(x)
    }

    /// Feeds each row its newest token; returns the logits after it, `[rows, vocabulary]`.
    fn step(&self, batch: &mut Batch, sequences: &[Sequence], adapters: Adapters) -> Result<Tensor> {
        let Batch { caches, held, rows } = batch;
        let newest: Vec<u32> = rows.iter().map(|&i| *sequences[i].done.tokens.last().unwrap_or(&0)).collect();
        let positions: Vec<u32> = held.prompts.iter().map(|(_, len)| (len + held.own) as u32).collect();
        let mut x = self.embed(&newest)?;
        let rotation = Rotation::new(self.config(), &positions, &x)?;
        let dropout = Dropout::off();
        let pass = Pass { rotation: &rotation, segments: &[], adapters, dropout: &dropout };
        if held.own == held.capacity {
            // As much again, so that copying costs no more than a share of the whole.
            let more = held.capacity.min(held.limit - held.capacity);
            caches.iter_mut().try_for_each(|cache| cache.grow(held.capacity, more))?;
            held.capacity += more;
        }
        let at = held.own;
        held.own += 1;
        let gathered = gather(held, &x)?;
        for (layer, cache) in self.layers.iter().zip(caches) {
            let qkv = layer.qkv(&layer.input_norm.forward(&x)?, pass)?;
            cache.write(&qkv.k, &qkv.v, at, held.capacity)?;
            let attended = attend_cached(&qkv.q, cache, held, gathered.as_ref())?;
            let middle = (x + layer.o.forward(&attended, adapters, &dropout)?)?;
            x = layer.feed_forward(&middle, pass)?.0;
        }
        self.logits(&self.norm.forward(&x)?, 1.0)
    }
}

fn sequences(prompts: &[Prompt]) -> Vec<Sequence> {
    let of = |(prompt, p): (usize, &Prompt)| {
        let empty = || Completion { tokens: Vec::new(), logp: Vec::new(), finish: Finish::Length };
        let sequence = move |(nth, seed): (usize, &u64)| Sequence {
            prompt,
            nth,
            rng: stream(*seed, "tokens"),
            done: empty(),
            ended: false,
        };
        p.seeds.iter().enumerate().map(sequence).collect::<Vec<_>>()
    };
    prompts.iter().enumerate().flat_map(of).collect()
}

/// Draws the next token of every text that goes on.
fn write(
    sequences: &mut [Sequence],
    rows: &[usize],
    logits: &Tensor,
    sampling: &Sampling,
    on_done: &mut dyn FnMut(usize, usize, &Completion),
) -> Result<()> {
    let width = logits.dim(1)?;
    let all = logits.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
    let row_of: std::collections::BTreeMap<usize, usize> =
        rows.iter().enumerate().map(|(r, &i)| (i, r)).collect();
    let mut going: Vec<(usize, &mut Sequence)> =
        sequences.iter_mut().enumerate().filter(|(i, s)| !s.ended && row_of.contains_key(i)).collect();
    going.par_iter_mut().for_each(|(i, s)| {
        let row = &all[row_of[i] * width..][..width];
        let (token, logp) = sampling.draw(row, &mut s.rng);
        s.done.tokens.push(token);
        s.done.logp.push(logp);
        if sampling.stop.contains(&token) {
            s.done.finish = Finish::Stop;
        }
        s.ended = s.done.finish == Finish::Stop || s.done.tokens.len() == sampling.max_tokens;
    });
    for (_, s) in going {
        if s.ended {
            on_done(s.prompt, s.nth, &s.done);
        }
    }
    Ok(())
}

impl Batch {
    /// Leaves out the rows of texts that have ended, once they are a quarter.
    fn compact(&mut self, sequences: &[Sequence]) -> Result<()> {
        let going: Vec<u32> =
            (0..self.rows.len()).filter(|&r| !sequences[self.rows[r]].ended).map(|r| r as u32).collect();
        if going.len() * 4 > self.rows.len() * 3 {
            return Ok(());
        }
        for cache in &mut self.caches {
            *cache = cache.keep(&going, self.held.capacity)?;
        }
        self.rows = going.iter().map(|r| self.rows[*r as usize]).collect();
        self.held.prompts = going.iter().map(|r| self.held.prompts[*r as usize]).collect();
        Ok(())
    }
}
