//! WebVoyager: chats of an agent with a browser, one folder a task.
//!
//! ```text
//! task<Web>--<n>/interact_messages.json    [{role, content}]: task and observations, thoughts and actions
//! task<Web>--<n>/screenshot<k>.png         what the agent saw in its k-th turn, elements marked with numbers
//! WebVoyager_data.jsonl                    {web_name, id, ques, web}: the tasks
//! ```
//!
//! Each of the agent's turns is a step, on the screen of the user's turn before it ([`observation`]). Where that
//! turn is an error instead, which the harness answers what it could not do with, the screen is still the
//! one before. Errors and warnings are kept in [`Episode::extra`] as remarks, with the number of their
//! message (from 0). The harness leaves older observations out of the chat, so that only the last few
//! steps have elements.
//!
//! The instruction is what the agent was told; the list of tasks, looked for in the folders above and in their
//! `data/`, names the application and stands in where the chat does not say. `site` is the host that the task
//! starts on. An answer completes the episode, but says nothing of its outcome: nobody has judged it.

mod observation;
mod reply;
mod tasks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::detect::files_of;
use super::elements::screenshot_size;
use super::source::{Fields, Refused, Rejecter, parse_json, read_text};
use super::{Adapter, AdapterError, AdapterOptions, Fault, Input, Item, Record};
use crate::trace::{Element, Episode, Format, Outcome, Platform, RejectKind, Screen, Step};
use observation::Observation;
use reply::Reply;
use tasks::{Task, Tasks};

/// The chat of a task.
pub(super) const CHAT: &str = "interact_messages.json";

/// Reads WebVoyager's chats.
#[derive(Debug, Default)]
pub struct Webvoyager {
    /// The tasks listed in each folder: every episode needs them.
    tasks: Mutex<BTreeMap<PathBuf, Arc<Tasks>>>,
}

impl Adapter for Webvoyager {
    fn format(&self) -> Format {
        Format::Webvoyager
    }

    /// One item for each folder with a chat, or the one file given. A list of tasks with damaged lines is an
    /// item too: reading it gives their rejects.
    fn discover(&self, input: &Input) -> Result<Vec<Item>, AdapterError> {
        let files = files_of(input, Format::Webvoyager, &["json"])?;
        if input.only.is_some() {
            return Ok(files.into_iter().map(Item::whole).collect());
        }
        let folders = files.iter().filter_map(|file| file.parent());
        let mut paths: BTreeSet<PathBuf> = folders.clone().map(Path::to_owned).collect();
        let bases: BTreeSet<PathBuf> = folders.flat_map(|folder| tasks::bases(input, folder)).collect();
        for base in bases {
            let known = self.tasks_in(&base);
            paths.extend(known.faults.iter().map(|(file, _, _)| file.clone()));
        }
        Ok(paths.into_iter().map(Item::whole).collect())
    }

    fn reads_along(&self, path: &Path) -> bool {
        tasks::is_list(path)
    }

    fn read(&self, input: &Input, item: &Item, options: AdapterOptions, sink: &mut dyn FnMut(Record)) {
        if tasks::is_list(&item.path) {
            let rejecter = Rejecter::of(Format::Webvoyager, input, &item.path);
            let known = item.path.parent().map(|folder| self.tasks_in(folder)).unwrap_or_default();
            for (_, line, fault) in known.faults.iter().filter(|(file, _, _)| *file == item.path) {
                sink(rejecter.record(Refused::new(format!("line {line}"), None, fault.clone())));
            }
            return;
        }
        let file = if item.path.is_dir() { item.path.join(CHAT) } else { item.path.clone() };
        let folder = file.parent().unwrap_or(&file);
        let name = super::screenagent::name(folder);
        let name = name.strip_prefix("task").unwrap_or(&name);
        let task = self.task(input, folder, name);
        let chat = Chat { input, folder, file: &file, options, name, task: task.as_ref() };
        sink(Rejecter::of(Format::Webvoyager, input, &file).outcome(chat.episode()));
    }
}

impl Webvoyager {
    fn tasks_in(&self, folder: &Path) -> Arc<Tasks> {
        // A poisoned lock still guards whole entries: they are inserted ready-made.
        let mut known = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |folder: &PathBuf| Arc::new(Tasks::read(folder));
        Arc::clone(known.entry(folder.to_owned()).or_insert_with_key(read))
    }

    /// The task called `name`, from the nearest folder that lists it.
    fn task(&self, input: &Input, folder: &Path, name: &str) -> Option<Task> {
        let mut bases = tasks::bases(input, folder).into_iter();
        bases.find_map(|base| self.tasks_in(&base).by_id.get(name).cloned())
    }
}

/// One chat.
struct Chat<'a> {
    input: &'a Input,
    folder: &'a Path,
    file: &'a Path,
    options: AdapterOptions,
    /// The task's id.
    name: &'a str,
    task: Option<&'a Task>,
}

/// What the steps of a chat are made from, message by message.
#[derive(Default)]
struct Turns {
    steps: Vec<Step>,
    /// Task and address in the user's first turn.
    told: Option<(String, String)>,
    /// What the user's turn before says of the screen; nothing where it is an error.
    observed: Option<Vec<Element>>,
    screen: Screen,
    remarks: Vec<Value>,
}

impl Chat<'_> {
    fn episode(&self) -> Result<Episode, Refused> {
        let id = format!("{}:{}", Format::Webvoyager, self.name);
        let refused = |fault| Refused::new("", Some(&id), fault);
        let value = read_text(self.file).and_then(|text| parse_json(&text)).map_err(refused)?;
        let Some(messages) = value.as_array() else {
            return Err(refused(Fault::new(RejectKind::Malformed, "expected a list of messages")));
        };
        let mut turns = Turns::default();
        for (i, message) in messages.iter().enumerate() {
            let added = self.add(&mut turns, i, message);
            added.map_err(|fault| Refused::new(format!("message {i}"), Some(&id), fault))?;
        }
        if turns.steps.is_empty() {
            return Err(refused(Fault::new(RejectKind::Empty, "no message is the agent's")));
        }
        Ok(self.finish(id, turns))
    }

    fn finish(&self, id: String, turns: Turns) -> Episode {
        let Turns { mut steps, told, remarks, .. } = turns;
        let (told, address) = told.unzip();
        let listed = self.task.map(|task| task.words.clone());
        let web = address.or_else(|| self.task.map(|task| task.web.clone()));
        let app = match self.task {
            Some(task) => Some(task.web_name.clone()),
            None => self.name.rsplit_once("--").map(|(web_name, _)| web_name.to_owned()),
        };
        for step in &mut steps {
            step.app.clone_from(&app);
            step.site = web.as_deref().and_then(host);
        }
        let other = listed.as_ref().filter(|listed| told.as_ref().is_some_and(|told| told != *listed));
        let extra = json!({ "web": web, "listed_task": other, "remarks": remarks });
        Episode {
            episode_id: id,
            format: Format::Webvoyager,
            source: self.input.display(self.file),
            source_key: String::new(),
            platform: Platform::Web,
            instruction: told.or(listed).unwrap_or_default(),
            apps: app.into_iter().collect(),
            domain: None,
            outcome: Outcome::Unknown,
            split: None,
            extra: Some(extra.to_string()),
            steps,
        }
    }

    fn add(&self, turns: &mut Turns, i: usize, message: &Value) -> Result<(), Fault> {
        let fields = Fields::of(message)?;
        let text = content(fields)?;
        match fields.str("role")? {
            "system" => Ok(()),
            "user" => {
                let Observation { told, elements, remark } = Observation::of(&text)?;
                turns.told = turns.told.take().or(told);
                turns.observed = elements;
                turns.remarks.extend(remark.map(|text| json!({ "message": i, "text": text })));
                Ok(())
            }
            "assistant" => self.add_step(turns, i, &text),
            other => {
                let reason = format!("field `role`: unknown value `{other}`; known: system, user, assistant");
                Err(Fault::new(RejectKind::OutOfRange, reason))
            }
        }
    }

    fn add_step(&self, turns: &mut Turns, i: usize, text: &str) -> Result<(), Fault> {
        let Reply { thought, mut action, remark } = Reply::of(text)?;
        turns.remarks.extend(remark.map(|text| json!({ "message": i, "text": text })));
        let number = turns.steps.len();
        if let Some(elements) = turns.observed.take() {
            turns.screen = Screen { elements, ..self.screen(number + 1)? };
        }
        let id = action.target.element.as_deref();
        if let Some(element) = turns.screen.elements.iter().find(|element| Some(element.id.as_str()) == id) {
            let label = element.text.lines().map(str::trim).find(|line| !line.is_empty());
            action.target.name = label.map(str::to_owned);
            action.target.role = Some(element.role.clone());
        }
        turns.steps.push(Step {
            screen: turns.screen.clone(),
            thought,
            ..Step::new(number as u32, format!("message {i}"), action)
        });
        Ok(())
    }

    /// The screen of the agent's turn `number`, from 1, without its elements.
    fn screen(&self, number: usize) -> Result<Screen, Fault> {
        let picture = format!("screenshot{number}.png");
        let required = self.options.require_screenshots;
        let mut screen = self.input.step_screen(Some(&picture), &[self.folder], required)?;
        screen.size = screenshot_size(self.input, &screen)?;
        let tree = self.folder.join(format!("accessibility_tree{number}.json"));
        if tree.is_file() {
            let shown = tree.strip_prefix(&self.input.root).unwrap_or(&tree);
            screen.tree = Some(shown.to_string_lossy().replace('\\', "/"));
        }
        Ok(screen)
    }
}

/// The text of a message: its content, or those of the content's parts that are no pictures.
fn content(fields: Fields) -> Result<String, Fault> {
    let wrong =
        |what: &str| Fault::new(RejectKind::MissingField, format!("field `content`: expected {what}"));
    let parts = match fields.require("content")? {
        Value::String(text) => return Ok(text.clone()),
        Value::Array(parts) => parts,
        _ => return Err(wrong("a text or a list of parts")),
    };
    let mut texts = Vec::new();
    for part in parts {
        match part {
            Value::String(text) => texts.push(text.as_str()),
            Value::Object(part) if Fields(part).str("type")? == "text" => {
                texts.push(Fields(part).str("text")?);
            }
            Value::Object(_) => {}
            _ => return Err(wrong("parts that are texts or objects")),
        }
    }
    Ok(texts.join("\n"))
}

/// The host of an address.
fn host(address: &str) -> Option<String> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    Some(host.to_owned()).filter(|host| !host.is_empty())
}
