//! What was embedded once is not embedded again: vectors keyed by the hash of their text.
//!
//! A [`CacheMap`] lives in memory; it is loaded from and stored to any reader and writer, so that the caller decides
//! about files (write beside, then rename). The layout, little-endian: magic `TMEMB1\n\0`; length and bytes of the
//! embedder's name; dimension (u32); row count (u64); keys (16 bytes each) in ascending order; vectors (f32) in the
//! order of the keys; the xxh3 of everything before it (u64). The same content gives the same bytes.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};

use thiserror::Error;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::{EmbedError, Embedder};

const MAGIC: &[u8; 8] = b"TMEMB1\n\0";

/// Why a stored cache cannot be used. Whoever owns the file adds its path; the remedy is always to delete it, since
/// it only holds what can be computed again.
#[derive(Debug, Error)]
pub enum CacheError {
    /// Reading or writing failed.
    #[error("embedding cache: {0}")]
    Io(#[from] std::io::Error),
    /// The bytes are not a whole cache.
    #[error("embedding cache is damaged ({0}): delete the file, it will be computed again")]
    Damaged(&'static str),
    /// The cache belongs to another embedder.
    #[error(
        "embedding cache holds `{found}`, expected `{expected}`: delete the file or choose another folder"
    )]
    OtherEmbedder {
        /// Name and dimension found.
        found: String,
        /// Name and dimension expected.
        expected: String,
    },
}

/// Vectors of one embedder, keyed by the 128-bit hash of their text.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheMap {
    name: String,
    dim: usize,
    /// Key to row of `vectors`. Looked up only, never iterated into an output.
    rows: HashMap<u128, usize>,
    vectors: Vec<f32>,
}

impl CacheMap {
    /// An empty cache of one embedder.
    pub fn new(embedder: &dyn Embedder) -> Self {
        Self { name: embedder.name(), dim: embedder.dim(), rows: HashMap::new(), vectors: Vec::new() }
    }

    /// Number of vectors held.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The vector of `text`, if it was embedded before.
    pub fn get(&self, text: &str) -> Option<&[f32]> {
        self.rows.get(&key(text)).map(|row| &self.vectors[row * self.dim..(row + 1) * self.dim])
    }

    /// Positions of the texts that are not held, each distinct text once, at its first occurrence.
    pub fn missing(&self, texts: &[&str]) -> Vec<usize> {
        let mut seen = HashSet::new();
        let mut is_new = |text: &str| {
            let key = key(text);
            !self.rows.contains_key(&key) && seen.insert(key)
        };
        (0..texts.len()).filter(|index| is_new(texts[*index])).collect()
    }

    /// Embeds what is missing, keeps it, and returns every text's vector.
    ///
    /// # Shapes
    /// Returns `n x d`, row-major, in the order of `texts`.
    ///
    /// # Errors
    /// Those of the embedder; then nothing is kept.
    pub fn embed(&mut self, embedder: &dyn Embedder, texts: &[&str]) -> Result<Vec<f32>, EmbedError> {
        super::check_not_empty(texts)?;
        let missing: Vec<&str> = self.missing(texts).into_iter().map(|index| texts[index]).collect();
        let fresh = embedder.embed(&missing)?;
        for text in missing {
            let next = self.rows.len();
            self.rows.insert(key(text), next);
        }
        self.vectors.extend(fresh);
        Ok(texts.iter().filter_map(|text| self.get(text)).flatten().copied().collect())
    }

    /// Writes the whole cache. Bytes depend on the content alone, not on the order in which it came in.
    pub fn store(&self, out: impl Write) -> Result<(), CacheError> {
        let mut out = Hashed::new(out);
        out.write(MAGIC)?;
        out.write(&(self.name.len() as u32).to_le_bytes())?;
        out.write(self.name.as_bytes())?;
        out.write(&(self.dim as u32).to_le_bytes())?;
        out.write(&(self.rows.len() as u64).to_le_bytes())?;
        let mut order: Vec<(u128, usize)> = self.rows.iter().map(|(key, row)| (*key, *row)).collect();
        order.sort_unstable();
        for (key, _) in &order {
            out.write(&key.to_le_bytes())?;
        }
        for (_, row) in &order {
            let vector = &self.vectors[row * self.dim..(row + 1) * self.dim];
            let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            out.write(&bytes)?;
        }
        let checksum = out.hasher.digest();
        out.inner.write_all(&checksum.to_le_bytes())?;
        out.inner.flush()?;
        Ok(())
    }

    /// Reads a cache of `embedder`.
    ///
    /// # Errors
    /// [`CacheError::Damaged`] for a cut or altered cache, [`CacheError::OtherEmbedder`] for one of another model or
    /// dimension.
    pub fn load(mut input: impl Read, embedder: &dyn Embedder) -> Result<Self, CacheError> {
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes)?;
        let Some((body, checksum)) = bytes.split_last_chunk::<8>() else {
            return Err(CacheError::Damaged("too short"));
        };
        if !body.starts_with(MAGIC) {
            return Err(CacheError::Damaged("not an embedding cache"));
        }
        if xxhash_rust::xxh3::xxh3_64(body) != u64::from_le_bytes(*checksum) {
            return Err(CacheError::Damaged("checksum differs"));
        }
        Self::parse(&body[MAGIC.len()..], embedder)
    }

    fn parse(mut body: &[u8], embedder: &dyn Embedder) -> Result<Self, CacheError> {
        let name_len = u32::from_le_bytes(take(&mut body)?) as usize;
        let name = body.get(..name_len).ok_or(CacheError::Damaged("cut inside the name"))?;
        let name = String::from_utf8_lossy(name).into_owned();
        body = &body[name_len..];
        let dim = u32::from_le_bytes(take(&mut body)?) as usize;
        if (&name, dim) != (&embedder.name(), embedder.dim()) {
            let expected = format!("{} ({})", embedder.name(), embedder.dim());
            return Err(CacheError::OtherEmbedder { found: format!("{name} ({dim})"), expected });
        }
        let count = u64::from_le_bytes(take(&mut body)?) as usize;
        let row_bytes = 16 + 4 * dim;
        if count.checked_mul(row_bytes) != Some(body.len()) {
            return Err(CacheError::Damaged("length differs from the row count"));
        }
        let (keys, vectors) = body.split_at(16 * count);
        let (keys, _) = keys.as_chunks::<16>();
        let (vectors, _) = vectors.as_chunks::<4>();
        Ok(Self {
            name,
            dim,
            rows: keys.iter().enumerate().map(|(row, key)| (u128::from_le_bytes(*key), row)).collect(),
            vectors: vectors.iter().map(|x| f32::from_le_bytes(*x)).collect(),
        })
    }
}

fn key(text: &str) -> u128 {
    xxh3_128(text.as_bytes())
}

/// Splits `N` bytes off the front.
fn take<const N: usize>(body: &mut &[u8]) -> Result<[u8; N], CacheError> {
    let (head, rest) = body.split_first_chunk::<N>().ok_or(CacheError::Damaged("cut inside the header"))?;
    *body = rest;
    Ok(*head)
}

/// A writer that hashes what passes through it.
struct Hashed<W> {
    inner: W,
    hasher: Xxh3,
}

impl<W: Write> Hashed<W> {
    fn new(inner: W) -> Self {
        Self { inner, hasher: Xxh3::new() }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.hasher.update(bytes);
        self.inner.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::embed::{HashEmbedder, HashSettings};

    /// Counts the texts that reach the embedder.
    struct Counting(HashEmbedder, AtomicUsize);

    impl Embedder for Counting {
        fn name(&self) -> String {
            self.0.name()
        }
        fn dim(&self) -> usize {
            self.0.dim()
        }
        fn embed(&self, texts: &[&str]) -> Result<Vec<f32>, EmbedError> {
            self.1.fetch_add(texts.len(), Ordering::Relaxed);
            self.0.embed(texts)
        }
    }

    fn hash(dim: usize) -> HashEmbedder {
        HashEmbedder::new(HashSettings { dim }).unwrap()
    }

    fn stored(texts: &[&str]) -> Vec<u8> {
        let mut cache = CacheMap::new(&hash(32));
        cache.embed(&hash(32), texts).unwrap();
        let mut bytes = Vec::new();
        cache.store(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn each_distinct_text_is_embedded_once() {
        let embedder = Counting(hash(32), AtomicUsize::new(0));
        let mut cache = CacheMap::new(&embedder);
        let texts = ["open", "close", "open", "save", "close"];
        assert_eq!(cache.missing(&texts), [0, 1, 3]);
        let first = cache.embed(&embedder, &texts).unwrap();
        assert_eq!(first, hash(32).embed(&texts).unwrap());
        assert_eq!(cache.embed(&embedder, &texts[1..]).unwrap(), first[32..]);
        assert_eq!(embedder.1.load(Ordering::Relaxed), 3);
        assert!(cache.embed(&embedder, &["new", ""]).is_err());
        assert_eq!(cache.len(), 3);
    }

    #[test]
    fn stored_bytes_depend_on_content_alone_and_load_back() {
        let bytes = stored(&["open", "close", "save"]);
        assert_eq!(bytes, stored(&["save", "open", "open", "close"]));
        let cache = CacheMap::load(bytes.as_slice(), &hash(32)).unwrap();
        assert_eq!(cache.len(), 3);
        assert_eq!(cache.get("close").unwrap(), hash(32).embed(&["close"]).unwrap());
        assert!(cache.missing(&["open", "save"]).is_empty());
    }

    #[test]
    fn damaged_or_foreign_caches_are_refused() {
        let bytes = stored(&["open", "close"]);
        for cut in 0..bytes.len() {
            assert!(CacheMap::load(&bytes[..cut], &hash(32)).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[at] ^= 4;
            assert!(CacheMap::load(altered.as_slice(), &hash(32)).is_err(), "altered at {at}");
        }
        let other = CacheMap::load(bytes.as_slice(), &hash(64)).unwrap_err();
        assert!(matches!(other, CacheError::OtherEmbedder { .. }), "{other}");
    }
}
