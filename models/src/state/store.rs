//! The store of lessons: one for each domain (`HiSA`, section 3.3.3 and appendix A.7).
//!
//! A new lesson takes the place of older ones of its kind and domain whose cosine with it is at least 0.7, and what
//! replaced what is kept. Entries of kind `require` are never replaced, and use up none of the places of a retrieval.

use serde::{Deserialize, Serialize};
use tracemill_data::artifact::{Lesson, LessonKind, Replaced};

use super::refine::clip;
use crate::memory::dot;

/// Most bullets of a synthesis.
const BULLETS: usize = 5;
/// Longest bullet, in characters.
const BULLET_CHARS: usize = 240;

/// Thresholds of the store.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StoreSettings {
    /// Cosine from which a newer lesson replaces an older one.
    pub dedupe: f32,
    /// Cosine from which a lesson is retrieved.
    pub threshold: f32,
    /// Most lessons that are retrieved.
    pub top: usize,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self { dedupe: 0.7, threshold: 0.5, top: 5 }
    }
}

/// What became of a new lesson.
#[derive(Debug, Clone, PartialEq)]
pub enum Filed {
    /// It stands beside the others.
    New,
    /// It took the place of these, nearest first.
    Replacing(Vec<Replaced>),
}

/// A lesson that fits a query.
#[derive(Debug, Clone, PartialEq)]
pub struct LessonHit {
    /// The lesson.
    pub lesson: Lesson,
    /// Cosine with the query.
    pub cosine: f32,
}

/// What a query finds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Retrieved {
    /// Every requirement of the domain, and those of every domain, in the order of their file.
    pub required: Vec<Lesson>,
    /// Lessons, nearest first.
    pub hits: Vec<LessonHit>,
}

/// Lessons with their vectors, in memory. Vectors have length 1 and one width.
#[derive(Debug, Clone, Default)]
pub struct LessonIndex {
    entries: Vec<(Lesson, Vec<f32>)>,
}

impl LessonIndex {
    /// Lessons with their vectors, as they were filed.
    pub fn new(entries: Vec<(Lesson, Vec<f32>)>) -> Self {
        Self { entries }
    }

    /// What is filed, oldest first.
    pub fn entries(&self) -> &[(Lesson, Vec<f32>)] {
        &self.entries
    }

    /// Files a lesson; `vector` is the embedding of its text, of length 1.
    pub fn file(&mut self, lesson: Lesson, vector: Vec<f32>, settings: StoreSettings) -> Filed {
        let mut replaced: Vec<Replaced> = Vec::new();
        if lesson.kind != LessonKind::Require {
            self.entries.retain(|(old, old_vector)| {
                let cosine = dot(old_vector, &vector);
                let alike =
                    (old.kind, &old.domain) == (lesson.kind, &lesson.domain) && cosine >= settings.dedupe;
                if alike {
                    replaced.push(replacement(old, &lesson, cosine));
                }
                !alike
            });
        }
        self.entries.push((lesson, vector));
        replaced.sort_by(|a, b| b.cosine.total_cmp(&a.cosine).then_with(|| a.lesson_id.cmp(&b.lesson_id)));
        if replaced.is_empty() { Filed::New } else { Filed::Replacing(replaced) }
    }

    /// Lessons of a domain (of all, with none given) whose cosine with the query is at least the threshold.
    pub fn retrieve(&self, query: &[f32], domain: Option<&str>, settings: StoreSettings) -> Retrieved {
        let mut found = Retrieved::default();
        for (lesson, vector) in self.entries.iter().filter(|(lesson, _)| is_of(lesson, domain)) {
            let cosine = dot(vector, query);
            if lesson.kind == LessonKind::Require {
                found.required.push(lesson.clone());
            } else if cosine >= settings.threshold {
                found.hits.push(LessonHit { lesson: lesson.clone(), cosine });
            }
        }
        found.hits.sort_by(|a, b| {
            b.cosine.total_cmp(&a.cosine).then_with(|| a.lesson.lesson_id.cmp(&b.lesson.lesson_id))
        });
        found.hits.truncate(settings.top);
        found
    }
}

/// Whether a lesson is one of a domain. Requirements without a domain are of all.
fn is_of(lesson: &Lesson, domain: Option<&str>) -> bool {
    let general = lesson.kind == LessonKind::Require && lesson.domain.is_empty();
    domain.is_none_or(|domain| general || lesson.domain.eq_ignore_ascii_case(domain))
}

/// The record of a replacement.
fn replacement(old: &Lesson, newer: &Lesson, cosine: f32) -> Replaced {
    Replaced {
        lesson_id: old.lesson_id.clone(),
        kind: old.kind,
        domain: old.domain.clone(),
        text: old.text.clone(),
        episode_id: old.episode_id.clone(),
        evidence_steps: old.evidence_steps.clone(),
        made_by: old.made_by.clone(),
        replaced_by: newer.lesson_id.clone(),
        cosine,
    }
}

/// At most five bullets by rule: requirements first, then what failed, then what worked, each cut to its length.
/// Requirements that find no place of their own share the last one.
pub fn synthesise(found: &Retrieved) -> Vec<String> {
    let of = |kind| {
        found.hits.iter().filter(move |hit| hit.lesson.kind == kind).map(|hit| hit.lesson.text.as_str())
    };
    let told = of(LessonKind::Failure).chain(of(LessonKind::Success));
    let mut bullets: Vec<String> = Vec::new();
    let mut required: Vec<&str> = found.required.iter().map(|lesson| lesson.text.as_str()).collect();
    let shared =
        if required.len() > BULLETS { required.split_off(BULLETS - 1).join("; ") } else { String::new() };
    for text in required.into_iter().chain(Some(shared.as_str()).filter(|s| !s.is_empty())).chain(told) {
        let text = clip(&text.split_whitespace().collect::<Vec<_>>().join(" "), BULLET_CHARS);
        if bullets.len() < BULLETS && !bullets.contains(&text) {
            bullets.push(text);
        }
    }
    bullets
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
