//! Signed feature hashing of words and character n-grams: an embedder without weights.
//!
//! Each text is lower-cased and cut into tokens; three classes of features are counted, each class is scaled to
//! norm 1 and weighted, and the sum is scaled to norm 1:
//!
//! | class | weight | why |
//! | --- | --- | --- |
//! | words | 1.0 | the same word is the strongest evidence of the same meaning |
//! | word pairs in order | 0.5 | "open file" is not "file open", but one pair is rarer than two words |
//! | character 3- to 5-grams inside a word, with boundary marks | 0.7 | inflections, compounds and typing errors share most of them |
//!
//! Scaling by class keeps the proportions of long and short texts equal: a word of eight letters has 21 n-grams.
//! Within a class a feature that occurs `c` times counts `sqrt(c)`: sub-linear like a logarithm, and correctly
//! rounded on every platform, which a logarithm is not.
//!
//! Scripts that put no spaces between words (Chinese, Japanese, Thai, …) are read as runs of characters: adjacent
//! pairs stand for words, and 1- to 3-grams across the run for the n-grams.

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{EmbedError, Embedder, check_not_empty, normalise};

/// Classes of features; the value seeds the hash, so that equal strings of two classes fall apart.
#[derive(Clone, Copy)]
enum Class {
    Word = 1,
    Pair = 2,
    NGram = 3,
}

/// Each class with its share of the vector (see the table of the module).
const WEIGHTS: [(Class, f32); 3] = [(Class::Word, 1.0), (Class::Pair, 0.5), (Class::NGram, 0.7)];
/// Marks the two ends of a word inside its n-grams; a control character, so no text collides with it.
const BOUNDARY: char = '\u{2}';
/// Joins the words of a pair.
const JOINT: char = '\u{1f}';
/// Below this width nearly every feature collides with another.
const MIN_DIM: usize = 16;

/// Settings of [`HashEmbedder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashSettings {
    /// Width of the vectors, at least 16.
    pub dim: usize,
}

impl Default for HashSettings {
    fn default() -> Self {
        Self { dim: 1024 }
    }
}

/// The `hash` embedder: deterministic on every platform, independent of the other texts and of threads.
#[derive(Debug, Clone)]
pub struct HashEmbedder {
    dim: usize,
}

impl HashEmbedder {
    /// An embedder of the given width.
    ///
    /// # Errors
    /// [`EmbedError::Setting`] when the width is below 16.
    pub fn new(settings: HashSettings) -> Result<Self, EmbedError> {
        let HashSettings { dim } = settings;
        if dim < MIN_DIM {
            return Err(EmbedError::Setting { key: "dim", value: dim, reason: "must be at least 16" });
        }
        Ok(Self { dim })
    }

    fn embed_one(&self, text: &str, row: &mut [f32]) {
        let lower = text.to_lowercase();
        let tokens = tokens(&lower);
        for (class, weight) in WEIGHTS {
            let hashes = match class {
                Class::Word => tokens.iter().flat_map(Token::words).map(|w| hash(&w, class)).collect(),
                Class::Pair => pairs(&tokens),
                Class::NGram => tokens.iter().flat_map(Token::ngrams).map(|g| hash(&g, class)).collect(),
            };
            self.add_class(hashes, weight, row);
        }
        normalise(row);
        if row.iter().all(|x| *x == 0.0) {
            // Features can cancel when they share a bucket with opposite signs; the text must still be a unit vector.
            row[(hash(&lower, Class::Word) % self.dim as u64) as usize] = 1.0;
        }
    }

    /// Adds one class, scaled to norm `weight`, to `row`.
    fn add_class(&self, mut hashes: Vec<u64>, weight: f32, row: &mut [f32]) {
        // Sorted, so that sums over colliding features are taken in one fixed order.
        hashes.sort_unstable();
        // The squares of sqrt(count) add up to the number of occurrences.
        let scale = weight / (hashes.len().max(1) as f32).sqrt();
        for same in hashes.chunk_by(|a, b| a == b) {
            // The bucket comes from the hash modulo the width, the sign from its top bit.
            let sign = if same[0] >> 63 == 0 { 1.0 } else { -1.0 };
            row[(same[0] % self.dim as u64) as usize] += sign * scale * (same.len() as f32).sqrt();
        }
    }
}

impl Embedder for HashEmbedder {
    fn name(&self) -> String {
        format!("hash-v1:{}", self.dim)
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<f32>, EmbedError> {
        check_not_empty(texts)?;
        let mut out = vec![0.0; texts.len() * self.dim];
        out.par_chunks_mut(self.dim).zip(texts).for_each(|(row, text)| self.embed_one(text, row));
        Ok(out)
    }
}

/// A run of characters of one kind.
enum Token {
    /// A word of a script with spaces.
    Spaced(Vec<char>),
    /// A run of a script without spaces: any number of words.
    Unspaced(Vec<char>),
}

impl Token {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Spaced(word) => vec![word.iter().collect()],
            Self::Unspaced(run) if run.len() == 1 => vec![run.iter().collect()],
            Self::Unspaced(run) => windows(run, 2..=2),
        }
    }

    fn ngrams(&self) -> Vec<String> {
        match self {
            Self::Spaced(word) => {
                let mut marked = Vec::with_capacity(word.len() + 2);
                marked.push(BOUNDARY);
                marked.extend(word);
                marked.push(BOUNDARY);
                windows(&marked, 3..=5)
            }
            Self::Unspaced(run) => windows(run, 1..=3),
        }
    }
}

/// Every window of the given lengths, as text.
fn windows(chars: &[char], lengths: std::ops::RangeInclusive<usize>) -> Vec<String> {
    lengths.flat_map(|n| chars.windows(n).map(|window| window.iter().collect())).collect()
}

fn hash(feature: &str, class: Class) -> u64 {
    xxh3_64_with_seed(feature.as_bytes(), class as u64)
}

fn pairs(tokens: &[Token]) -> Vec<u64> {
    let words: Vec<String> = tokens.iter().flat_map(Token::words).collect();
    words.windows(2).map(|pair| hash(&format!("{}{JOINT}{}", pair[0], pair[1]), Class::Pair)).collect()
}

/// Cuts lower-cased text into words and unspaced runs. Text without a letter or digit is one token of its symbols,
/// so that "+" and "×" differ.
fn tokens(lower: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut run: Vec<char> = Vec::new();
    let mut unspaced = false;
    for c in lower.chars().chain([' ']) {
        let starts_run = c.is_alphanumeric() && is_unspaced(c) != unspaced;
        if !run.is_empty() && (starts_run || !is_word_char(c)) {
            let chars = std::mem::take(&mut run);
            tokens.push(if unspaced { Token::Unspaced(chars) } else { Token::Spaced(chars) });
        }
        if c.is_alphanumeric() || (is_word_char(c) && !run.is_empty()) {
            unspaced = if c.is_alphanumeric() { is_unspaced(c) } else { unspaced };
            run.push(c);
        }
    }
    if tokens.is_empty() {
        tokens.push(Token::Spaced(lower.chars().filter(|c| !c.is_whitespace()).collect()));
    }
    tokens
}

/// Letters, digits and the combining marks that many scripts write inside a word.
fn is_word_char(c: char) -> bool {
    c.is_alphanumeric()
        || matches!(c, '\u{300}'..='\u{36f}' | '\u{93c}'..='\u{94d}' | '\u{e47}'..='\u{e4e}' | '\u{200d}')
}

/// Scripts written without spaces between words: Thai, Lao, Burmese, Khmer, kana, Han.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn embedder(dim: usize) -> HashEmbedder {
        HashEmbedder::new(HashSettings { dim }).unwrap()
    }

    fn cosine(a: &str, b: &str) -> f32 {
        let v = embedder(1024).embed(&[a, b]).unwrap();
        v[..1024].iter().zip(&v[1024..]).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn related_texts_are_nearer_than_unrelated_ones() {
        let related = cosine("open the browser settings", "Open browser setting");
        let unrelated = cosine("open the browser settings", "add milk to groceries");
        assert!(related > 0.5, "{related}");
        assert!(unrelated < 0.2, "{unrelated}");
    }

    #[test]
    fn case_and_punctuation_do_not_matter_but_order_does() {
        assert!((cosine("Open, File!", "open file") - 1.0).abs() < 1e-6);
        let swapped = cosine("open file", "file open");
        assert!(swapped > 0.7 && swapped < 0.95, "{swapped}");
    }

    #[test]
    fn scripts_without_spaces_share_features_across_the_run() {
        assert!(cosine("打开浏览器设置", "浏览器设置") > 0.6);
        assert!(cosine("打开浏览器设置", "添加牛奶") < 0.2);
        assert!(cosine("ブラウザを開く", "ブラウザ") > 0.4);
        let mixed = tokens("打开chrome浏览器");
        assert_eq!(mixed.len(), 3);
    }

    #[test]
    fn symbols_alone_are_told_apart() {
        assert!((cosine("+", "+") - 1.0).abs() < 1e-6);
        assert!(cosine("+", "×").abs() < 0.5);
    }

    /// Pins the bytes: a change of the scheme must change the embedder's name.
    #[test]
    fn the_scheme_is_pinned() {
        let v = embedder(16).embed(&["Open the file, open 文件"]).unwrap();
        let rounded: Vec<i32> = v.iter().map(|x| (x * 1e4).round() as i32).collect();
        assert_eq!(rounded, PINNED);
    }

    const PINNED: [i32; 16] =
        [-850, 3022, -1202, 850, 0, 1202, -2901, -708, -1821, 2403, 6662, -3488, 1821, -1202, 850, -2549];

    #[test]
    fn thread_count_does_not_change_the_bytes() {
        let texts: Vec<String> = (0..200).map(|i| format!("open tab {i} of window {}", i % 7)).collect();
        let refs: Vec<&str> = texts.iter().map(String::as_str).collect();
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| embedder(256).embed(&refs).unwrap())
        };
        assert_eq!(with(1), with(4));
    }

    #[test]
    fn empty_text_and_narrow_width_are_errors() {
        assert!(matches!(embedder(64).embed(&["a", " \n"]), Err(EmbedError::EmptyText { index: 1 })));
        assert!(HashEmbedder::new(HashSettings { dim: 15 }).is_err());
        assert_eq!(embedder(64).embed(&[]).unwrap(), Vec::<f32>::new());
    }

    proptest! {
        #[test]
        fn every_text_is_a_unit_vector(text in "\\PC{1,40}", dim in 16usize..300) {
            prop_assume!(!text.trim().is_empty());
            let v = embedder(dim).embed(&[&text]).unwrap();
            let norm: f32 = v.iter().map(|x| x * x).sum();
            prop_assert!((norm - 1.0).abs() < 1e-5, "{norm}");
        }
    }
}
