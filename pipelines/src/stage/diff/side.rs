//! One of the two runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;
use tracemill_data::artifact::{IntentRow, Lesson, Skill};
use tracemill_data::parquet_io::{read_batches, read_table};
use tracemill_data::trace::EpisodeRow;
use tracemill_data::views::Unit;

use super::Cause;
use crate::manifest::{self, Manifest};
use crate::run::Run;

/// A unit of a run.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub ig: i32,
    pub sg: i32,
    /// Format of the source that its episode comes from.
    pub source: String,
    /// What it is about.
    pub title: String,
    /// Its views as text.
    pub views: [String; 4],
}

/// A run's memory.
pub(super) struct Side {
    pub name: String,
    pub units: BTreeMap<String, Member>,
    pub skills: Vec<Skill>,
    /// Lessons by their text, with their ids.
    lessons: BTreeMap<String, String>,
    manifests: BTreeMap<&'static str, Manifest>,
    files: Vec<PathBuf>,
}

/// The stages whose settings decide what the memory is.
const STAGES: [&str; 6] = ["traces", "units", "embeddings", "encoder", "intents", "skills"];
/// Lessons, where a run has them.
const LESSONS: &str = "lessons/lessons.parquet";

impl Side {
    pub fn read(dir: &Path) -> Result<Self> {
        let run = Run::existing(dir)?;
        let intents = run.require("intents/units.parquet", "cluster")?;
        let units = run.require("units/units.parquet", "label")?;
        let episodes = run.require("traces/episodes.parquet", "ingest")?;
        let skills = run.require("skills/skills.json", "induce")?;
        let mut sources: BTreeMap<String, String> = BTreeMap::new();
        for batch in read_batches::<EpisodeRow>(&episodes)? {
            sources.extend(batch?.into_iter().map(|e| (e.episode_id, e.format)));
        }
        let mut labels: BTreeMap<String, (i32, i32)> = BTreeMap::new();
        for batch in read_batches::<IntentRow>(&intents)? {
            labels.extend(batch?.into_iter().map(|row| (row.unit_id, (row.ig, row.sg))));
        }
        let mut members = BTreeMap::new();
        for batch in read_batches::<Unit>(&units)? {
            for unit in batch? {
                let Some((ig, sg)) = labels.get(&unit.unit_id).copied() else { continue };
                let source = sources.get(&unit.episode_id).cloned().unwrap_or_default();
                let title = [&unit.env_tag, &unit.act_tag].map(String::as_str).join(" · ");
                let views = [unit.env, unit.action, unit.keyword, unit.description];
                members.insert(unit.unit_id, Member { ig, sg, source, title, views });
            }
        }
        let mut manifests = BTreeMap::new();
        for stage in STAGES {
            if let Some(manifest) = manifest::read(&run.path(stage).join("manifest.json"))? {
                manifests.insert(stage, manifest);
            }
        }
        let text = std::fs::read_to_string(&skills).with_context(|| skills.display().to_string())?;
        let lessons = read_lessons(&run.path(LESSONS))?;
        Ok(Self {
            name: dir.display().to_string(),
            units: members,
            skills: serde_json::from_str(&text).with_context(|| skills.display().to_string())?,
            lessons,
            manifests,
            files: vec![intents, units, episodes, skills],
        })
    }

    /// What was read, named by the side.
    pub fn files(&self, side: &str) -> Vec<(PathBuf, String)> {
        let name =
            |path: &PathBuf| path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        self.files.iter().map(|path| (path.clone(), format!("{side}/{}", name(path)))).collect()
    }
}

/// The lessons of a run by their text, with their ids; none where it has no store.
fn read_lessons(path: &Path) -> Result<BTreeMap<String, String>> {
    if !path.is_file() {
        return Ok(BTreeMap::new());
    }
    let lessons: Vec<Lesson> = read_table(path)?;
    Ok(lessons.into_iter().map(|lesson| (lesson.text, lesson.lesson_id)).collect())
}

/// Lessons that one run has and the other has not.
#[derive(Debug, Default, Serialize)]
pub(super) struct LessonChanges {
    pub same: usize,
    pub added: Vec<String>,
    pub removed: Vec<String>,
}

impl LessonChanges {
    pub fn changes(&self) -> usize {
        self.added.len() + self.removed.len()
    }
}

pub(super) fn lessons(before: &Side, after: &Side) -> LessonChanges {
    let only = |side: &Side, other: &Side| -> Vec<String> {
        side.lessons.keys().filter(|text| !other.lessons.contains_key(*text)).cloned().collect()
    };
    LessonChanges {
        same: before.lessons.keys().filter(|text| after.lessons.contains_key(*text)).count(),
        added: only(after, before),
        removed: only(before, after),
    }
}

/// What the runs were made of and how, where it is not the same.
pub(super) fn causes(before: &Side, after: &Side) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (a, b) = (sources(before), sources(after));
    for source in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
        let counts = [&a, &b].map(|side| side.get(source).cloned());
        if counts[0] != counts[1] {
            let [before, after] = counts;
            causes.push(Cause { kind: "source", what: source.clone(), before, after });
        }
    }
    for stage in STAGES {
        let (Some(a), Some(b)) = (before.manifests.get(stage), after.manifests.get(stage)) else { continue };
        let seed = |manifest: &Manifest| Some(manifest.seed.to_string());
        if a.seed != b.seed {
            causes.push(Cause { kind: "seed", what: a.stage.clone(), before: seed(a), after: seed(b) });
        }
        if a.tool != b.tool {
            let (before, after) = (Some(a.tool.clone()), Some(b.tool.clone()));
            causes.push(Cause { kind: "program", what: a.stage.clone(), before, after });
        }
        let mut settings = Vec::new();
        compare(&a.stage, &a.settings, &b.settings, &mut settings);
        // Sources are told above, with what was read from them.
        causes.extend(settings.into_iter().filter(|cause| !cause.what.contains("inputs")));
    }
    causes
}

/// The sources of a run by format and path, with what was read from each.
fn sources(side: &Side) -> BTreeMap<String, String> {
    let counts = side.manifests.get("traces").map(|manifest| &manifest.counts["sources"]);
    let sources = counts.and_then(Value::as_array).into_iter().flatten();
    sources
        .map(|source| {
            let word = |key: &str| source[key].as_str().unwrap_or_default();
            let read = format!("episodes: {}, steps: {}", source["episodes"], source["steps"]);
            (format!("{} {}", word("format"), word("path")), read)
        })
        .collect()
}

/// The leaves in which two settings differ, by their keys.
fn compare(key: &str, before: &Value, after: &Value, out: &mut Vec<Cause>) {
    match (before, after) {
        (Value::Object(a), Value::Object(b)) => {
            for name in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let side = |object: &serde_json::Map<String, Value>| {
                    object.get(name).cloned().unwrap_or(Value::Null)
                };
                compare(&format!("{key}.{name}"), &side(a), &side(b), out);
            }
        }
        (a, b) if a == b => {}
        (a, b) => {
            let told = |value: &Value| (!value.is_null()).then(|| value.to_string());
            out.push(Cause { kind: "setting", what: key.to_owned(), before: told(a), after: told(b) });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use tracemill_data::artifact::LessonKind;
    use tracemill_data::parquet_io::write_table;

    use super::*;

    #[test]
    fn lessons_are_those_of_the_store() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("lessons.parquet");
        assert!(read_lessons(&path).expect("no store").is_empty());
        let lesson = Lesson {
            lesson_id: "e!1".to_owned(),
            kind: LessonKind::Success,
            domain: "Clock".to_owned(),
            condition: "a".to_owned(),
            actions: vec!["b".to_owned()],
            expected: "c".to_owned(),
            text: "In Clock: a, b, c.".to_owned(),
            episode_id: "e".to_owned(),
            evidence_steps: vec![1],
            made_by: "rules".to_owned(),
        };
        write_table(&path, &[lesson]).expect("written");
        let read = read_lessons(&path).expect("a store");
        assert_eq!(read.get("In Clock: a, b, c.").map(String::as_str), Some("e!1"));
    }

    #[test]
    fn settings_differ_leaf_by_leaf() {
        let mut out = Vec::new();
        let a = json!({"train": {"epochs": 5, "lr": 0.1}, "seed": 1});
        let b = json!({"train": {"epochs": 9, "lr": 0.1}, "seed": 1, "new": true});
        compare("encode", &a, &b, &mut out);
        let told: Vec<_> =
            out.iter().map(|c| (c.what.as_str(), c.before.as_deref(), c.after.as_deref())).collect();
        assert_eq!(told, [("encode.new", None, Some("true")), ("encode.train.epochs", Some("5"), Some("9"))]);
    }
}
