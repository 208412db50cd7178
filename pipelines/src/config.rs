//! Settings: TOML in, resolved JSON out. Every key is known; an unknown one is an error that
//! names the nearest.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::settings::Settings;

/// The default settings, overlaid by the file, then by each `key=value`.
///
/// # Errors
/// A file that is not TOML, an unknown key (with the nearest known one), a value of the wrong
/// type.
pub fn resolve(file: Option<&Path>, overrides: &[String]) -> Result<Settings> {
    let mut resolved = serde_json::to_value(Settings::default())?;
    let mut open = Vec::new();
    open_tables(&resolved, "", &mut open);
    if let Some(path) = file {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        let table: toml::Table = toml::from_str(&text).with_context(|| format!("{}", path.display()))?;
        let value = serde_json::to_value(table)?;
        overlay(&mut resolved, value, "", &open).with_context(|| format!("{}", path.display()))?;
        typed(&resolved).with_context(|| format!("{}", path.display()))?;
    }
    for item in overrides {
        let (key, text) =
            item.split_once('=').with_context(|| format!("--set {item}: expected key=value"))?;
        let value = parse_value(text);
        let nested = key
            .rsplit('.')
            .fold(value, |inner, part| Value::Object([(part.to_owned(), inner)].into_iter().collect()));
        overlay(&mut resolved, nested, "", &open).with_context(|| format!("--set {item}"))?;
        typed(&resolved).with_context(|| format!("--set {item}"))?;
    }
    typed(&resolved)
}

/// The settings, each value of its type.
fn typed(resolved: &Value) -> Result<Settings> {
    Ok(Settings::deserialize(resolved)?)
}

/// A value of `--set`: TOML syntax where it is that, else a bare string.
fn parse_value(text: &str) -> Value {
    toml::from_str::<toml::Table>(&format!("v = {text}"))
        .ok()
        .and_then(|mut table| table.remove("v"))
        .and_then(|v| serde_json::to_value(v).ok())
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Tables that are empty by default: their keys are their own affair.
fn open_tables(value: &Value, path: &str, open: &mut Vec<String>) {
    let Some(table) = value.as_object() else { return };
    if table.is_empty() {
        open.push(path.to_owned());
    }
    for (key, value) in table {
        open_tables(value, &join(path, key), open);
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Puts `new` over `base`, key by key. Lists are replaced whole. Tables that are `open` take keys that `base` does not have.
///
/// # Errors
/// A key that `base` does not have, with the nearest that it has, and a value of another kind.
pub fn overlay(base: &mut Value, new: Value, path: &str, open: &[String]) -> Result<()> {
    let free = open
        .iter()
        .any(|table| path.strip_prefix(table.as_str()).is_some_and(|p| p.is_empty() || p.starts_with('.')));
    match (base, new) {
        (Value::Object(base), Value::Object(new)) => {
            for (key, value) in new {
                let full = join(path, &key);
                match base.get_mut(&key) {
                    Some(slot) => overlay(slot, value, &full, open)?,
                    None if free => {
                        base.insert(key, value);
                    }
                    None => bail!("unknown key `{full}`{}", nearest(&key, base.keys())),
                }
            }
            Ok(())
        }
        (base @ Value::Object(_), other) => {
            bail!("`{path}` is a table of settings ({}), not {other}", keys(base))
        }
        (slot, value) => {
            let same_kind = slot.is_null() || std::mem::discriminant(slot) == std::mem::discriminant(&value);
            if !same_kind {
                bail!("`{path}`: expected a value like {slot}, found {value}");
            }
            *slot = value;
            Ok(())
        }
    }
}

fn keys(value: &Value) -> String {
    value.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>().join(", ")).unwrap_or_default()
}

fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a String>) -> String {
    let known: Vec<_> = known.collect();
    let best = known.iter().min_by_key(|k| strsim::damerau_levenshtein(key, k));
    match best {
        Some(best) if strsim::damerau_levenshtein(key, best) <= best.len().max(3) / 2 => {
            format!("; did you mean `{best}`?")
        }
        _ => format!("; known keys: {}", known.iter().map(|k| k.as_str()).collect::<Vec<_>>().join(", ")),
    }
}

/// A source to ingest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputSetting {
    /// Format name: `android-control`.
    pub format: String,
    /// File or folder; `{run}` stands for the run folder.
    pub path: String,
    /// When true, a path that does not exist is skipped with a message instead of failing.
    #[serde(default)]
    pub optional: bool,
}

impl InputSetting {
    /// The path with `{run}` replaced.
    pub fn resolve(&self, run: &Path) -> PathBuf {
        match self.path.strip_prefix("{run}") {
            Some(rest) => run.join(rest.trim_start_matches('/')),
            None => PathBuf::from(&self.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(overrides: &[&str]) -> String {
        let overrides: Vec<_> = overrides.iter().map(|&s| s.to_owned()).collect();
        format!("{:#}", resolve(None, &overrides).expect_err("must be refused"))
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        assert_eq!(
            error(&["encode.train.wieght_decay=1"]),
            "--set encode.train.wieght_decay=1: unknown key `encode.train.wieght_decay`; did you mean `weight_decay`?"
        );
        assert_eq!(
            error(&["encode.train.batch_size=-1"]),
            "--set encode.train.batch_size=-1: invalid value: integer `-1`, expected usize"
        );
        assert!(error(&["zzzzzzzzzzzz=1"]).contains("known keys: "));
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        assert!(error(&["seed=abc"]).contains("`seed`: expected a value like 0, found \"abc\""));
        assert!(error(&["label=3"]).contains("`label` is a table of settings"));
    }

    #[test]
    fn a_table_that_is_empty_by_default_takes_any_key() {
        let set = ["grpo.loss.kl.beta=0.5", "grpo.loss.kl.cap=0", "policy.template.enable_thinking=false"];
        let settings = resolve(None, &set.map(str::to_owned)).expect("valid");
        assert_eq!(settings.grpo.loss["kl"], serde_json::json!({ "beta": 0.5, "cap": 0 }));
        assert_eq!(settings.policy.template["enable_thinking"], false);
        assert!(error(&["grpo.lossy.kl=1"]).contains("did you mean `loss`?"));
    }

    #[test]
    fn overrides_come_last() {
        let settings = resolve(None, &["embed.model=minilm".to_owned(), "seed=7".to_owned()]).expect("valid");
        assert_eq!((settings.embed.model.as_str(), settings.seed), ("minilm", 7));
    }
}
