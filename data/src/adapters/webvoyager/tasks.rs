//! The lists of WebVoyager's tasks: JSON lines of `{web_name, id, ques, web}`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::detect::keys_of;
use super::super::source::{Fields, parse_json};
use super::super::{Fault, Input, Item, for_each_line, has_extension};
use crate::trace::RejectKind;

/// The name of the released list, whatever it holds.
const LIST: &str = "WebVoyager_data.jsonl";
/// What the rows of a list of any other name have.
const KEYS: [&str; 4] = ["web_name", "id", "ques", "web"];

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    /// The site's name.
    pub(super) web_name: String,
    /// The task in words.
    pub(super) words: String,
    /// The address it starts on.
    pub(super) web: String,
}

/// The tasks that the lists of a folder hold.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    pub(super) by_id: BTreeMap<String, Task>,
    /// File and line of what cannot be read.
    pub(super) faults: Vec<(PathBuf, u64, Fault)>,
}

/// Folders that may hold a list for the chat in `folder`: those above, inside the input, and their `data/`.
pub(super) fn bases(input: &Input, folder: &Path) -> Vec<PathBuf> {
    let above = folder.ancestors().take_while(|base| base.starts_with(&input.root));
    above.flat_map(|base| [base.to_owned(), base.join("data")]).filter(|base| base.is_dir()).collect()
}

/// Whether `path` is a list of tasks.
pub(super) fn is_list(path: &Path) -> bool {
    let lines = has_extension(path, &["jsonl"]) && path.is_file();
    lines && (path.ends_with(LIST) || KEYS.iter().all(|key| keys_of(path).contains(*key)))
}

impl Tasks {
    /// Reads the lists in `folder`, the first of equal ids counting.
    pub(super) fn read(folder: &Path) -> Self {
        let mut tasks = Self::default();
        let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let mut lists: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| is_list(path)).collect();
        lists.sort();
        for list in lists {
            let mut add = |line, text: Result<&str, Fault>| {
                if let Err(fault) = text.and_then(|text| tasks.add(text)) {
                    tasks.faults.push((list.clone(), line, fault));
                }
            };
            if let Err(fault) = for_each_line(&Item::whole(list.clone()), &mut add) {
                add(0, Err(fault));
            }
        }
        tasks
    }

    fn add(&mut self, text: &str) -> Result<(), Fault> {
        let value = parse_json(text)?;
        let fields = Fields::of(&value)?;
        let id = fields.id("id")?;
        let own = |name| fields.str(name).map(|text| text.trim().to_owned());
        let task = Task { web_name: own("web_name")?, words: own("ques")?, web: own("web")? };
        if self.by_id.get(&id).is_some_and(|known| *known != task) {
            let reason = format!("field `id`: another task is called `{id}`; the first one is kept");
            return Err(Fault::new(RejectKind::Duplicate, reason));
        }
        self.by_id.insert(id, task);
        Ok(())
    }
}
