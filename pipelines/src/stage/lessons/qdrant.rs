//! Lessons on a Qdrant server, over its REST API: collections, points (upsert, delete, scroll, query).

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tracemill_data::artifact::{Lesson, LessonKind, Replaced};
use tracemill_models::state::{Filed, LessonHit, Retrieved, StoreSettings};
use xxhash_rust::xxh3::xxh3_128;

use super::LessonStore;
use crate::stage::abstract_::QdrantSection;

/// Points read at a time.
const PAGE: usize = 256;

/// A collection of lessons on a server.
pub struct Qdrant {
    client: Client,
    runtime: Runtime,
    /// `http://…/collections/<name>`
    base: String,
    key: Option<String>,
    dim: usize,
    run: String,
}

impl Qdrant {
    /// Connects, and makes the collection if need be; `None` without an address.
    ///
    /// # Errors
    /// A server that does not answer, a collection of another width, a variable without its key.
    pub fn open(section: &QdrantSection, dim: usize) -> Result<Option<Self>> {
        let Some(url) = &section.url else { return Ok(None) };
        let key = section.api_key_env.as_ref().map(|name| {
            std::env::var(name).with_context(|| format!("lessons.qdrant.api_key_env: {name} is not set"))
        });
        let timeout = Duration::from_secs_f64(section.timeout_secs.clamp(0.1, 3_600.0));
        let server = Self {
            client: Client::builder().timeout(timeout).build()?,
            runtime: Builder::new_current_thread().enable_all().build()?,
            base: format!("{}/collections/{}", url.trim_end_matches('/'), section.collection),
            key: key.transpose()?,
            dim,
            run: String::new(),
        };
        server.collection().with_context(|| format!("lessons.qdrant {}", server.base))?;
        Ok(Some(server))
    }

    fn collection(&self) -> Result<()> {
        match self.call(Method::GET, "", None)? {
            None => {
                let body = json!({ "vectors": { "size": self.dim, "distance": "Cosine" } });
                self.call(Method::PUT, "", Some(body))?;
            }
            Some(found) => {
                let size = found["config"]["params"]["vectors"]["size"].as_u64();
                if size != Some(self.dim as u64) {
                    bail!(
                        "the collection has vectors of width {size:?}, the embedder makes {}: name another collection",
                        self.dim
                    );
                }
            }
        }
        Ok(())
    }

    /// Begins a build: what an earlier build of the same run left is taken away.
    ///
    /// # Errors
    /// Those of the server.
    pub fn begin(&mut self, run: &str) -> Result<()> {
        run.clone_into(&mut self.run);
        let body = json!({ "filter": { "must": [matching("run", run)] } });
        self.call(Method::POST, "/points/delete?wait=true", Some(body)).map(drop)
    }

    /// One request; the `result` of the answer, `None` where there is nothing (404).
    fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Option<Value>> {
        let url = format!("{}{path}", self.base);
        let at = || format!("{method} {url}");
        let mut request = self.client.request(method.clone(), &url);
        if let Some(key) = &self.key {
            request = request.header("api-key", key);
        }
        if let Some(body) = &body {
            request = request.json(body);
        }
        let answer = self.runtime.block_on(async {
            let response = request.send().await?;
            Ok::<_, reqwest::Error>((response.status(), response.text().await?))
        });
        let (status, text) = answer.with_context(at)?;
        if status.as_u16() == 404 {
            return Ok(None);
        }
        if !status.is_success() {
            bail!("{}: {status}: {}", at(), text.chars().take(200).collect::<String>());
        }
        let mut answer: Value = serde_json::from_str(&text).with_context(at)?;
        Ok(Some(answer["result"].take()))
    }

    /// Points near a vector.
    fn near(&self, vector: &[f32], filter: Value, threshold: f32, limit: usize) -> Result<Vec<LessonHit>> {
        let body = json!({
            "query": vector, "filter": filter, "score_threshold": threshold, "limit": limit, "with_payload": true,
        });
        let found = self.call(Method::POST, "/points/query", Some(body))?.unwrap_or_default();
        let hit = |point: &Value| {
            let lesson = serde_json::from_value(point["payload"]["lesson"].clone())
                .with_context(|| format!("{}: point {} holds no lesson", self.base, point["id"]))?;
            Ok(LessonHit { lesson, cosine: point["score"].as_f64().unwrap_or_default() as f32 })
        };
        let mut hits: Vec<LessonHit> =
            found["points"].as_array().into_iter().flatten().map(hit).collect::<Result<_>>()?;
        hits.sort_by(|a, b| {
            b.cosine.total_cmp(&a.cosine).then_with(|| a.lesson.lesson_id.cmp(&b.lesson.lesson_id))
        });
        Ok(hits)
    }

    /// Every point that a filter takes, by id of its lesson.
    fn every(&self, filter: &Value) -> Result<Vec<Lesson>> {
        let (mut lessons, mut offset) = (BTreeMap::new(), Value::Null);
        loop {
            let body = json!({ "filter": filter, "limit": PAGE, "offset": offset, "with_payload": true });
            let page = self.call(Method::POST, "/points/scroll", Some(body))?.unwrap_or_default();
            for point in page["points"].as_array().into_iter().flatten() {
                let lesson: Lesson = serde_json::from_value(point["payload"]["lesson"].clone())?;
                let number = point["payload"]["number"].as_u64().unwrap_or_default();
                lessons.insert((number, lesson.lesson_id.clone()), lesson);
            }
            offset = page["next_page_offset"].clone();
            if offset.is_null() {
                return Ok(lessons.into_values().collect());
            }
        }
    }
}

impl LessonStore for Qdrant {
    fn file(&mut self, lesson: Lesson, vector: Vec<f32>, settings: StoreSettings) -> Result<Filed> {
        let mut replaced: Vec<Replaced> = Vec::new();
        if lesson.kind != LessonKind::Require {
            let filter =
                json!({ "must": [matching("kind", lesson.kind.name()), matching("domain", &lesson.domain)] });
            for LessonHit { lesson: old, cosine } in self.near(&vector, filter, settings.dedupe, PAGE)? {
                if old.lesson_id != lesson.lesson_id {
                    replaced.push(Replaced {
                        lesson_id: old.lesson_id,
                        kind: old.kind,
                        domain: old.domain,
                        text: old.text,
                        episode_id: old.episode_id,
                        evidence_steps: old.evidence_steps,
                        made_by: old.made_by,
                        replaced_by: lesson.lesson_id.clone(),
                        cosine,
                    });
                }
            }
            if !replaced.is_empty() {
                let ids: Vec<String> = replaced.iter().map(|r| point_id(&r.lesson_id)).collect();
                self.call(Method::POST, "/points/delete?wait=true", Some(json!({ "points": ids })))?;
            }
        }
        let number =
            lesson.lesson_id.rsplit('!').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or_default();
        // The domain in lower case beside its own: applications are named either way in queries.
        let payload = json!({
            "lesson": lesson, "kind": lesson.kind.name(), "domain": lesson.domain,
            "domain_lower": lesson.domain.to_lowercase(), "run": self.run, "number": number,
        });
        let point = json!({ "id": point_id(&lesson.lesson_id), "vector": vector, "payload": payload });
        self.call(Method::PUT, "/points?wait=true", Some(json!({ "points": [point] })))?;
        Ok(if replaced.is_empty() { Filed::New } else { Filed::Replacing(replaced) })
    }

    fn retrieve(&self, query: &[f32], domain: Option<&str>, settings: StoreSettings) -> Result<Retrieved> {
        let lower = domain.map(str::to_lowercase);
        let required = matching("kind", LessonKind::Require.name());
        let of_domain = |general: bool| {
            let mut names: Vec<Value> = lower.iter().map(|domain| matching("domain_lower", domain)).collect();
            if general && !names.is_empty() {
                names.push(matching("domain_lower", ""));
            }
            names
        };
        let mut filter = json!({ "must_not": [required] });
        let mut all_required = json!({ "must": [required] });
        // An empty `should` is not the same as none: some engines take nothing then.
        if lower.is_some() {
            filter["should"] = json!(of_domain(false));
            all_required["should"] = json!(of_domain(true));
        }
        let hits = self.near(query, filter, settings.threshold, settings.top)?;
        let required = self.every(&all_required)?;
        Ok(Retrieved { required, hits })
    }
}

fn matching(key: &str, value: &str) -> Value {
    json!({ "key": key, "match": { "value": value } })
}

/// Points have UUIDs: one made of the lesson's id.
fn point_id(lesson_id: &str) -> String {
    let hash = format!("{:032x}", xxh3_128(lesson_id.as_bytes()));
    format!("{}-{}-{}-{}-{}", &hash[..8], &hash[8..12], &hash[12..16], &hash[16..20], &hash[20..])
}

#[cfg(test)]
#[path = "qdrant_tests.rs"]
mod tests;
