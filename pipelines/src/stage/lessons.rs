//! `lessons build`: what trajectories teach, in `R/lessons`; `lessons query` and `lessons history` (`HiSA`, section
//! 3.3.3 and appendices A.6, A.7).
//!
//! | file of `R/lessons` | content |
//! | --- | --- |
//! | `lessons.parquet` | lessons and requirements, oldest first, with their evidence |
//! | `vectors.parquet` | their embeddings |
//! | `replaced.parquet` | what newer lessons took the place of |
//! | `refused.jsonl` | lessons of a model that are not verified, or hold values of their task |

mod model;
mod qdrant;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use tracemill_data::artifact::{Lesson, LessonKind, Replaced};
use tracemill_data::parquet_io::{Vectors, read_table, read_vectors, write_table, write_vectors};
use tracemill_models::embed::Embedder;
use tracemill_models::state::{
    Filed, INDUCER, LessonIndex, Retrieved, StoreSettings, Trajectory, induce, synthesise,
};

use super::abstract_::{Abstracted, Asker, LessonsSection, abstracted};
use super::embed;
use crate::cli::{LessonsHistoryArgs, LessonsQueryArgs};
use crate::manifest;
use crate::progress;
use crate::run::{Draft, Report, Run, StageInput, StageSpec};
use crate::settings::{EmbedSection, Settings};
use crate::table::{self, Table};
use qdrant::Qdrant;

/// Trajectories taken at a time.
const BATCH: usize = 256;

/// Where lessons are kept.
pub trait LessonStore: Send + Sync {
    /// Files a lesson with the embedding of its text; see [`LessonIndex::file`].
    ///
    /// # Errors
    /// Those of a server.
    fn file(&mut self, lesson: Lesson, vector: Vec<f32>, settings: StoreSettings) -> Result<Filed>;

    /// Lessons that fit; see [`LessonIndex::retrieve`].
    ///
    /// # Errors
    /// Those of a server.
    fn retrieve(&self, query: &[f32], domain: Option<&str>, settings: StoreSettings) -> Result<Retrieved>;
}

impl LessonStore for LessonIndex {
    fn file(&mut self, lesson: Lesson, vector: Vec<f32>, settings: StoreSettings) -> Result<Filed> {
        Ok(Self::file(self, lesson, vector, settings))
    }

    fn retrieve(&self, query: &[f32], domain: Option<&str>, settings: StoreSettings) -> Result<Retrieved> {
        Ok(Self::retrieve(self, query, domain, settings))
    }
}

/// Builds the store of lessons.
///
/// # Errors
/// Missing states, settings that cannot work, a file of requirements that cannot be read, a server that fails.
pub fn build(settings: &Settings, run: &Run) -> Result<Report> {
    let section = &settings.lessons;
    check(section)?;
    let embedder = embed::open(&settings.embed, &settings.encode.device)?;
    let models: Vec<String> =
        section.endpoint.endpoints.iter().map(|e| format!("{}@{}", e.model, e.revision)).collect();
    let mut inputs = vec![
        StageInput::FromStage("traces/episodes.parquet", "ingest"),
        StageInput::FromStage("traces/steps.parquet", "ingest"),
        StageInput::FromStage("states/steps.parquet", "abstract"),
    ];
    let external = |path: &Path| StageInput::External(path.to_owned(), path.to_string_lossy().into_owned());
    inputs.extend(section.require.as_deref().map(external));
    inputs.extend(section.base.as_deref().map(|base| external(&base.join("lessons.parquet"))));
    let spec = StageSpec {
        name: "lessons",
        folder: "lessons",
        settings: json!({
            "per_trajectory": section.per_trajectory, "store": section.store, "require": section.require,
            "base": section.base, "max_calls": section.max_calls, "models": models, "rules": INDUCER,
            "qdrant": section.qdrant.url.as_ref().map(|_| &section.qdrant.collection),
            "embed": settings.embed, "embedder": embedder.name(),
        }),
        seed: settings.seed,
        inputs,
    };
    run.stage(&spec, |draft| Building::new(section, run, embedder.as_ref())?.build(run, draft))
}

fn check(section: &LessonsSection) -> Result<()> {
    let StoreSettings { dedupe, threshold, top } = section.store;
    for (name, value) in [("dedupe", dedupe), ("threshold", threshold)] {
        if !(0.0..=1.0).contains(&value) {
            bail!("lessons.store.{name} is {value}: give a cosine from 0 to 1");
        }
    }
    if top == 0 {
        bail!("lessons.store.top is 0: nothing would ever be retrieved");
    }
    Ok(())
}

/// A store under way.
struct Building<'a> {
    section: &'a LessonsSection,
    embedder: &'a dyn Embedder,
    index: LessonIndex,
    server: Option<Qdrant>,
    asker: Option<Asker>,
    replaced: Vec<Replaced>,
    refused: Vec<Value>,
    induced: BTreeMap<String, u64>,
    trajectories: [u64; 2],
}

impl<'a> Building<'a> {
    fn new(section: &'a LessonsSection, run: &Run, embedder: &'a dyn Embedder) -> Result<Self> {
        let index = match &section.base {
            Some(base) => load(base).with_context(|| format!("lessons.base {}", base.display()))?,
            None => LessonIndex::default(),
        };
        if let Some((_, vector)) = index.entries().first()
            && vector.len() != embedder.dim()
        {
            bail!(
                "lessons.base has vectors of width {}, the embedder makes {}: use the same one",
                vector.len(),
                embedder.dim()
            );
        }
        let mut server = Qdrant::open(&section.qdrant, embedder.dim())?;
        if let Some(server) = &mut server {
            server.begin(&run.dir().to_string_lossy())?;
        }
        let asker = Asker::open(&section.endpoint, section.max_tokens, section.structured, section.max_calls)
            .context("lessons.endpoint")?;
        let (replaced, refused, induced) = (Vec::new(), Vec::new(), BTreeMap::new());
        Ok(Self { section, embedder, index, server, asker, replaced, refused, induced, trajectories: [0; 2] })
    }

    fn build(mut self, run: &Run, draft: &mut Draft) -> Result<()> {
        if let Some(path) = &self.section.require {
            let required = requirements(path)?;
            self.file(required)?;
        }
        let bar = progress::bar("lessons", "episodes", None);
        let mut episodes = abstracted(run)?;
        loop {
            let batch: Vec<Abstracted> = episodes.by_ref().take(BATCH).collect::<Result<_>>()?;
            if batch.is_empty() {
                break;
            }
            let lessons = self.induce(&batch)?;
            self.trajectories[0] += batch.len() as u64;
            self.trajectories[1] += lessons.iter().filter(|l| !l.is_empty()).count() as u64;
            self.file(lessons.into_iter().flatten().collect())?;
            bar.inc(batch.len() as u64);
        }
        bar.finish_and_clear();
        self.write(draft)
    }

    /// Lessons of each trajectory: the model's where it answers, else the rules'.
    fn induce(&mut self, batch: &[Abstracted]) -> Result<Vec<Vec<Lesson>>> {
        let most = self.section.per_trajectory;
        let mut lessons: Vec<Vec<Lesson>> = batch
            .par_iter()
            .map(|(episode, steps, states)| induce(Trajectory { episode, steps, states }, most))
            .collect();
        if let Some(asker) = &mut self.asker {
            for (by_rule, answer) in lessons.iter_mut().zip(model::induce(asker, batch, most)?) {
                let Some((verified, refused)) = answer else { continue };
                *by_rule = verified;
                self.refused.extend(refused);
            }
        }
        Ok(lessons)
    }

    fn file(&mut self, lessons: Vec<Lesson>) -> Result<()> {
        if lessons.is_empty() {
            return Ok(());
        }
        let texts: Vec<&str> = lessons.iter().map(|l| l.text.as_str()).collect();
        let vectors = self.embedder.embed(&texts)?;
        for (lesson, vector) in lessons.into_iter().zip(vectors.chunks_exact(self.embedder.dim())) {
            *self.induced.entry(lesson.made_by.clone()).or_default() += 1;
            if let Some(server) = &mut self.server {
                LessonStore::file(server, lesson.clone(), vector.to_vec(), self.section.store)?;
            }
            if let Filed::Replacing(replaced) = self.index.file(lesson, vector.to_vec(), self.section.store) {
                self.replaced.extend(replaced);
            }
        }
        Ok(())
    }

    fn write(self, draft: &mut Draft) -> Result<()> {
        let lessons: Vec<Lesson> = self.index.entries().iter().map(|(lesson, _)| lesson.clone()).collect();
        let data = self.index.entries().iter().flat_map(|(_, vector)| vector).copied().collect();
        let ids = lessons.iter().map(|l| l.lesson_id.clone()).collect();
        write_table(&draft.path("lessons.parquet"), &lessons)?;
        write_vectors(
            &draft.path("vectors.parquet"),
            "lesson_id",
            &Vectors { ids, dim: self.embedder.dim(), data },
        )?;
        write_table(&draft.path("replaced.parquet"), &self.replaced)?;
        let mut refused = std::fs::File::create(draft.path("refused.jsonl"))?;
        for one in &self.refused {
            writeln!(refused, "{one}")?;
        }
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        lessons.iter().for_each(|l| *kinds.entry(l.kind.name()).or_default() += 1);
        draft.count("lessons", lessons.len());
        draft.count("kinds", json!(kinds));
        draft.count("induced", json!(self.induced));
        draft.count("replaced", self.replaced.len());
        draft.count("refused", self.refused.len());
        draft.count("trajectories", self.trajectories[0]);
        draft.count("trajectories_with_lessons", self.trajectories[1]);
        if let Some(asker) = self.asker {
            draft.count("model", serde_json::to_value(&asker.counts)?);
        }
        Ok(())
    }
}

/// A file of standard operating procedures.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirements {
    require: Vec<Requirement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    /// Application or site; of all when absent.
    #[serde(default)]
    domain: String,
    text: String,
}

fn requirements(path: &Path) -> Result<Vec<Lesson>> {
    let at = || format!("lessons.require {}", path.display());
    let file: Requirements =
        toml::from_str(&std::fs::read_to_string(path).with_context(at)?).with_context(at)?;
    let lesson = |(number, entry): (usize, Requirement)| Lesson {
        lesson_id: format!("require!{number}"),
        kind: LessonKind::Require,
        domain: entry.domain,
        condition: String::new(),
        actions: Vec::new(),
        expected: String::new(),
        text: entry.text,
        episode_id: String::new(),
        evidence_steps: Vec::new(),
        made_by: format!("file:{}", path.display()),
    };
    let lessons: Vec<Lesson> = (1..).zip(file.require).map(lesson).collect();
    if let Some(empty) = lessons.iter().find(|l| l.text.trim().is_empty()) {
        bail!("{}: {} has an empty text", at(), empty.lesson_id);
    }
    Ok(lessons)
}

/// Reads a store's folder.
fn load(folder: &Path) -> Result<LessonIndex> {
    let lessons: Vec<Lesson> = read_table(&folder.join("lessons.parquet"))?;
    let vectors = read_vectors(&folder.join("vectors.parquet"), &["lesson_id"])?;
    if vectors.len() != lessons.len() {
        bail!(
            "{}: {} lessons and {} vectors: run `tracemill lessons build` again",
            folder.display(),
            lessons.len(),
            vectors.len()
        );
    }
    let entries = lessons.into_iter().enumerate().map(|(i, lesson)| (lesson, vectors.row(i).to_vec()));
    Ok(LessonIndex::new(entries.collect()))
}

/// A run's store with the embedder that made it: a query embedded by another one would be compared with vectors of
/// another space.
pub struct Opened {
    store: Box<dyn LessonStore>,
    embedder: Box<dyn Embedder>,
    settings: StoreSettings,
}

impl Opened {
    /// Opens the lessons of a run, or the server that the settings name.
    ///
    /// # Errors
    /// Missing lessons, an embedder that cannot be loaded, a server that does not answer.
    pub fn open(settings: &Settings, run: &Run) -> Result<Self> {
        run.require("lessons/lessons.parquet", "lessons build")?;
        let path = run.path("lessons/manifest.json");
        let made = manifest::read(&path)?.with_context(|| path.display().to_string())?;
        let section: EmbedSection = serde_json::from_value(made.settings["embed"].clone())
            .with_context(|| path.display().to_string())?;
        let embedder = embed::open(&section, "cpu")?;
        let store: Box<dyn LessonStore> = match Qdrant::open(&settings.lessons.qdrant, embedder.dim())? {
            Some(server) => Box::new(server),
            None => Box::new(load(&run.path("lessons"))?),
        };
        Ok(Self { store, embedder, settings: settings.lessons.store })
    }

    /// What fits a task.
    ///
    /// # Errors
    /// Those of embedder and server.
    pub fn retrieve(&self, task: &str, domain: Option<&str>, top: Option<usize>) -> Result<Retrieved> {
        let settings = StoreSettings { top: top.unwrap_or(self.settings.top), ..self.settings };
        self.store.retrieve(&self.embedder.embed(&[task])?, domain, settings)
    }
}

/// Answers `lessons query` on standard output.
///
/// # Errors
/// Those of [`Opened::open`], and an empty text.
pub fn query(settings: &Settings, args: &LessonsQueryArgs) -> Result<()> {
    if args.text.trim().is_empty() {
        bail!("the task is empty: give a text to look for");
    }
    let opened = Opened::open(settings, &Run::existing(&args.run)?)?;
    let found = opened.retrieve(&args.text, args.domain.as_deref(), args.top)?;
    let section = &settings.lessons;
    let mut asker = Asker::open(&section.endpoint, section.max_tokens, section.structured, section.max_calls)
        .context("lessons.endpoint")?;
    let by_model =
        asker.as_mut().map(|asker| model::synthesise(asker, &args.text, &found)).transpose()?.flatten();
    let bullets = by_model.unwrap_or_else(|| synthesise(&found));
    if args.json {
        let hit =
            |hit: &tracemill_models::state::LessonHit| json!({ "score": hit.cosine, "lesson": hit.lesson });
        let answer = json!({
            "query": args.text, "domain": args.domain, "required": found.required,
            "results": found.hits.iter().map(hit).collect::<Vec<_>>(), "bullets": bullets,
        });
        table::print(&serde_json::to_string_pretty(&answer)?);
        return Ok(());
    }
    let mut rows = Table::new(&["score", "kind", "domain", "lesson", "evidence"]);
    for lesson in &found.required {
        rows.row(&["–", lesson.kind.name(), &lesson.domain, &lesson.text, &lesson.made_by]);
    }
    for hit in &found.hits {
        let steps = hit.lesson.evidence_steps.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let evidence = format!("{} steps {steps}", hit.lesson.episode_id);
        rows.row(&[
            &format!("{:.3}", hit.cosine),
            hit.lesson.kind.name(),
            &hit.lesson.domain,
            &hit.lesson.text,
            &evidence,
        ]);
    }
    let bullets: Vec<String> = bullets.iter().map(|b| format!("- {b}")).collect();
    table::print(&format!("{rows}\n{}", bullets.join("\n")));
    Ok(())
}

/// Prints what newer lessons took the place of.
///
/// # Errors
/// Missing lessons.
pub fn history(args: &LessonsHistoryArgs) -> Result<()> {
    let run = Run::existing(&args.run)?;
    let replaced: Vec<Replaced> = read_table(&run.require("lessons/replaced.parquet", "lessons build")?)?;
    if args.json {
        table::print(&serde_json::to_string_pretty(&replaced)?);
        return Ok(());
    }
    let mut rows = Table::new(&["lesson", "replaced by", "cosine", "kind", "domain", "text"]);
    for one in &replaced {
        let cosine = format!("{:.3}", one.cosine);
        rows.row(&[&one.lesson_id, &one.replaced_by, &cosine, one.kind.name(), &one.domain, &one.text]);
    }
    table::print(&format!("{rows}\n{} replaced", replaced.len()));
    Ok(())
}
