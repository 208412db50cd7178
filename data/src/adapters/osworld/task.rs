//! The task of a trajectory: OSWorld's own JSON.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::source::{Fault, Fields, parse_json, read_text};
use super::{Context, TRAJECTORY, trimmed};
use crate::trace::RejectKind;

/// What a task says of its trajectories.
#[derive(Debug, Default)]
pub(super) struct Task {
    pub(super) instruction: String,
    pub(super) apps: Vec<String>,
    /// The state that the machine starts in.
    pub(super) snapshot: Option<String>,
    /// Where the task comes from.
    pub(super) source: Option<String>,
    /// The file, as artifacts name it.
    pub(super) file: Option<String>,
}

/// Whether `path` is a task, by where it lies: in a folder of `examples/`, or beside its trajectory's folder.
pub(super) fn is_task(path: &Path) -> bool {
    let filed = path.parent().and_then(Path::parent).is_some_and(|folder| folder.ends_with("examples"));
    let json = path.extension().is_some_and(|ending| ending == "json");
    json && (filed || path.with_extension("").join(TRAJECTORY).is_file())
}

/// The folder above the task's: its domain.
pub(super) fn domain(context: &Context) -> Option<String> {
    let above = context.folder.parent().filter(|above| above.starts_with(&context.input.root))?;
    Some(super::super::screenagent::name(above))
}

impl Task {
    /// The task of the trajectory in the folder; an empty one where its file is not under the input.
    ///
    /// # Errors
    /// When the file cannot be read, or is another task's.
    pub(super) fn find(context: &Context) -> Result<Self, Fault> {
        let Some(path) = file(context)? else { return Ok(Self::default()) };
        let shown = context.input.display(&path);
        let value = read_text(&path).and_then(|text| parse_json(&text));
        let task = value.and_then(|value| Self::of(&value, &context.name()));
        task.map(|task| Self { file: Some(shown.clone()), ..task }).map_err(|fault| fault.at(&shown))
    }

    fn of(value: &Value, name: &str) -> Result<Self, Fault> {
        let fields = Fields::of(value)?;
        let id = fields.id("id")?;
        if id != name {
            let reason = format!("field `id` is `{id}`, but the trajectory's folder is `{name}`; rename one");
            return Err(Fault::new(RejectKind::OutOfRange, reason));
        }
        let apps =
            if fields.get("related_apps").is_some() { fields.strings("related_apps")? } else { Vec::new() };
        Ok(Self {
            instruction: fields.str("instruction")?.trim().to_owned(),
            apps: apps.into_iter().map(str::to_owned).collect(),
            snapshot: trimmed(fields, "snapshot")?,
            source: trimmed(fields, "source")?,
            file: None,
        })
    }
}

/// The first of the places where the task may lie that holds it.
fn file(context: &Context) -> Result<Option<PathBuf>, Fault> {
    let name = format!("{}.json", context.name());
    let mut places = vec![(context.folder, name.clone())];
    if let Some(domain) = domain(context) {
        let above = context.folder.ancestors().skip(1);
        for base in above.take_while(|base| base.starts_with(&context.input.root)) {
            let filed = format!("examples/{domain}/{name}");
            let of_checkout = format!("evaluation_examples/{filed}");
            places.extend([(base, name.clone()), (base, filed), (base, of_checkout)]);
        }
    }
    for (base, relative) in places {
        let path = context.input.inside(base, &relative);
        let path = path.map_err(|reason| Fault::new(RejectKind::UnsafePath, reason))?;
        if path.is_file() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
