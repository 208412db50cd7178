//! `validate`: what a training framework would drop, misread or choke on, in files made here or elsewhere.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use tokenizers::Tokenizer;
use tracemill_data::check::{Budget, Checked, Finding, Options, Severity, check};

use crate::cli::ValidateArgs;
use crate::manifest::{hash_file, read};
use crate::run::Replacing;
use crate::table::{self, Table, grouped};

/// Findings of one rule that are shown one by one.
const SHOWN: usize = 3;

/// Checks a data set and prints what is wrong with it.
///
/// # Errors
/// A path without rows, a tokenizer that cannot be read, and, once everything is printed, a finding that is
/// an error.
pub fn run(args: &ValidateArgs) -> Result<()> {
    let tokenizer = args.tokenizer.as_deref().map(open_tokenizer).transpose()?;
    let count = |text: &str| tokenizer.as_ref().map_or(0, |t| tokens(t, text));
    let budget = match (args.max_tokens, &tokenizer) {
        (Some(max_tokens), Some(_)) => Some(Budget { max_tokens, count: &count }),
        (Some(_), None) => bail!("--max-tokens needs --tokenizer FILE: tokens are those of a tokenizer"),
        (None, _) => None,
    };
    let images: Vec<PathBuf> = args.images.iter().cloned().collect();
    let mut checked = check(&args.input, &Options { images, decode: true, budget, ..Options::default() })?;
    checked.findings.extend(changed_files(&args.input)?);
    if let Some(out) = &args.out {
        write_findings(out, &checked.findings).with_context(|| format!("--out {}", out.display()))?;
    }
    if args.json {
        table::print(&serde_json::to_string_pretty(&as_json(&checked))?);
    } else {
        table::print(&overview(&checked));
        table::print(&told(&checked.findings, args.out.as_deref()));
    }
    match errors(&checked.findings) {
        0 => Ok(()),
        n => bail!("{n} errors in {}", args.input.display()),
    }
}

/// Files that are not what their manifest says: changed after they were exported.
fn changed_files(folder: &Path) -> Result<Vec<Finding>> {
    let Some(manifest) = read(&folder.join("manifest.json")).ok().flatten() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for output in manifest.outputs {
        let path = folder.join(&output.path);
        if path.is_file() && hash_file(&path, output.path.clone())?.blake3 != output.blake3 {
            found.push(Finding {
                rule: "changed-file",
                severity: Severity::Warning,
                file: output.path,
                row: None,
                id: None,
                found: "not the bytes that were exported".to_owned(),
                remedy: "export again, or say where it was changed",
            });
        }
    }
    Ok(found)
}

/// Findings that are errors.
pub fn errors(findings: &[Finding]) -> usize {
    findings.iter().filter(|f| f.severity == Severity::Error).count()
}

/// A tokenizer from `tokenizer.json`, or from the folder that holds one.
///
/// # Errors
/// Names the file.
pub fn open_tokenizer(path: &Path) -> Result<Tokenizer> {
    let file = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
    Tokenizer::from_file(&file).map_err(|e| anyhow!("--tokenizer {}: {e}", file.display()))
}

/// How many tokens a text has; one that cannot be encoded has none.
fn tokens(tokenizer: &Tokenizer, text: &str) -> usize {
    tokenizer.encode_fast(text, false).map_or(0, |e| e.len())
}

fn write_findings(path: &Path, findings: &[Finding]) -> Result<()> {
    let mut out = Replacing::create(path)?;
    for finding in findings {
        serde_json::to_writer(&mut out, finding)?;
        out.write_all(b"\n")?;
    }
    Ok(out.finish()?)
}

fn as_json(checked: &Checked) -> Value {
    let mut by_rule: BTreeMap<&str, usize> = BTreeMap::new();
    checked.findings.iter().for_each(|f| *by_rule.entry(f.rule).or_default() += 1);
    json!({
        "rows": checked.rows, "pictures": checked.pictures, "findings_by_rule": by_rule,
        "errors": errors(&checked.findings), "findings": checked.findings,
    })
}

fn overview(checked: &Checked) -> String {
    let mut table = Table::new(&["file", "rows"]);
    for (file, rows) in &checked.rows {
        table.row(&[file, &grouped(*rows as i64)]);
    }
    format!("{table}{} pictures looked at\n", grouped(checked.pictures as i64))
}

/// Findings, rule by rule, with the first rows of each.
pub fn told(findings: &[Finding], written: Option<&Path>) -> String {
    if findings.is_empty() {
        return "No findings.".to_owned();
    }
    let mut by_rule: BTreeMap<(Severity, &str), Vec<&Finding>> = BTreeMap::new();
    findings.iter().for_each(|f| by_rule.entry((f.severity, f.rule)).or_default().push(f));
    let mut table = Table::new(&["rule", "", "where", "found", "remedy"]);
    for ((severity, rule), found) in &by_rule {
        for (i, finding) in found.iter().take(SHOWN).enumerate() {
            let row = finding.row.map(|r| format!(" row {r}")).unwrap_or_default();
            let place = format!("{}{row}", finding.file);
            let severity = format!("{severity:?}").to_lowercase();
            let (rule, severity) = if i == 0 { (*rule, severity.as_str()) } else { ("", "") };
            let text: String = finding.found.chars().take(200).collect();
            table.row(&[rule, severity, &place, &text, if i == 0 { finding.remedy } else { "" }]);
        }
        if found.len() > SHOWN {
            let more = format!("and {} more", grouped((found.len() - SHOWN) as i64));
            table.row(&["", "", &more, "", ""]);
        }
    }
    let count = |s| findings.iter().filter(|f| f.severity == s).count();
    let (errors, warnings, notes) = (count(Severity::Error), count(Severity::Warning), count(Severity::Note));
    let at = match written {
        Some(path) => format!(" All of them: {}", path.display()),
        None => String::new(),
    };
    format!("{table}\n{errors} errors, {warnings} warnings, {notes} notes.{at}")
}
