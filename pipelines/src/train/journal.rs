//! What a run tells: metrics as JSON lines and TensorBoard scalars, transcripts a person can read.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use crate::run::{Draft, write_atomically};
use crate::tensorboard::EventWriter;

/// One line of `metrics.jsonl`: the columns are the same in every line, null where there is nothing to say. Figures
/// that depend on the clock are kept apart: they are plotted and not compared.
pub struct Journal {
    work: PathBuf,
    board: EventWriter,
    columns: &'static [&'static str],
    lines: Vec<String>,
    transcripts: String,
}

impl Journal {
    /// A journal of a stage; the lines of the first `steps` steps of an earlier, killed run are taken over. A run that was
    /// killed before its first checkpoint begins again, and so does its journal.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(draft: &Draft, columns: &'static [&'static str], steps: u64) -> Result<Self> {
        let work = draft.work_dir().to_owned();
        let board = EventWriter::create(&draft.path(""))?;
        let mut journal = Self { work, board, columns, lines: Vec::new(), transcripts: String::new() };
        let step_of =
            |line: &str| serde_json::from_str::<Value>(line).ok().and_then(|row| row["step"].as_u64());
        let earlier = std::fs::read_to_string(journal.path("metrics.jsonl")).unwrap_or_default();
        for line in
            earlier.lines().filter(|line| step_of(line).is_some_and(|step| steps > 0 && step <= steps))
        {
            let row: Map<String, Value> = serde_json::from_str(line)?;
            journal.plot(&row, &[])?;
            journal.lines.push(line.to_owned());
        }
        let told = std::fs::read_to_string(journal.path("transcripts.md")).unwrap_or_default();
        journal.transcripts = if steps > 0 { up_to_step(&told, steps) } else { String::new() };
        journal.rewrite()?;
        Ok(journal)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    fn rewrite(&self) -> Result<()> {
        let lines: String = self.lines.iter().fold(String::new(), |text, line| text + line + "\n");
        write_atomically(&self.path("metrics.jsonl"), lines.as_bytes())?;
        write_atomically(&self.path("transcripts.md"), self.transcripts.as_bytes())
    }

    /// Writes a line; `clock` is plotted only.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn line(&mut self, values: &[(&str, Value)], clock: &[(&str, f64)]) -> Result<()> {
        debug_assert!(values.iter().all(|(name, _)| self.columns.contains(name)), "{values:?}");
        let mut row = Map::new();
        for column in self.columns {
            let value = values.iter().find(|(name, _)| name == column);
            row.insert((*column).to_owned(), value.map_or(Value::Null, |(_, value)| value.clone()));
        }
        self.plot(&row, clock)?;
        let line = Value::Object(row).to_string();
        append(&self.path("metrics.jsonl"), &(line.clone() + "\n"))?;
        self.lines.push(line);
        Ok(())
    }

    fn plot(&mut self, row: &Map<String, Value>, clock: &[(&str, f64)]) -> Result<()> {
        let step = row["step"].as_u64().unwrap_or_default();
        let named = row.iter().filter(|(name, _)| *name != "step");
        let mut scalars: Vec<(&str, f64)> =
            named.filter_map(|(name, value)| Some((name.as_str(), value.as_f64()?))).collect();
        scalars.extend(clock);
        self.board.scalars(step, &scalars)
    }

    /// Adds to `transcripts.md`, under a heading for the step.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn transcript(&mut self, step: u64, texts: &[Transcript<'_>]) -> Result<()> {
        let mut text = format!("## Step {step}\n\n");
        for Transcript { title, facts, output } in texts {
            let _ = writeln!(text, "### {title}\n");
            for (name, value) in facts {
                let _ = writeln!(text, "* {name}: {}", value.replace('\n', " "));
            }
            // Four spaces make a block that no output can end.
            let _ = writeln!(
                text,
                "\n{}\n",
                output.lines().fold(String::new(), |all, line| all + "    " + line + "\n")
            );
        }
        append(&self.path("transcripts.md"), &text)?;
        self.transcripts += &text;
        Ok(())
    }

    /// Publishes metrics and transcripts.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn finish(self, draft: &Draft) -> Result<()> {
        let lines = self.lines.iter().fold(String::new(), |text, line| text + line + "\n");
        std::fs::write(draft.path("metrics.jsonl"), lines).context("metrics.jsonl")?;
        std::fs::write(draft.path("transcripts.md"), self.transcripts).context("transcripts.md")
    }
}

/// A reply and what came of it.
pub struct Transcript<'a> {
    /// Its row.
    pub title: &'a str,
    /// Task, state, reward.
    pub facts: Vec<(&'static str, String)>,
    /// What was written.
    pub output: &'a str,
}

fn append(path: &Path, text: &str) -> Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(text.as_bytes()).with_context(|| path.display().to_string())
}

/// The part of `transcripts.md` that was written up to a step.
fn up_to_step(text: &str, steps: u64) -> String {
    let (mut kept, mut keeps) = (String::new(), true);
    for line in text.split_inclusive('\n') {
        if let Some(number) = line.strip_prefix("## Step ") {
            keeps = number.trim().parse::<u64>().is_ok_and(|step| step <= steps);
        }
        if keeps {
            kept += line;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_run_forgets_what_was_told_after_its_checkpoint() {
        let text = "## Step 0\n\n### a\n\n    ### Step 9\n\n## Step 5\n\n### b\n\n";
        assert_eq!(up_to_step(text, 4), "## Step 0\n\n### a\n\n    ### Step 9\n\n");
        assert_eq!(up_to_step(text, 5), text);
        assert_eq!(up_to_step("", 5), "");
    }
}
