//! The `visit` interface: what a model writes, and what it is told when that cannot be done (paper, sections 3.4
//! and 4.3; readings 5 and 7).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Interfaces that declare a state or ask for an observation (section 3.5); they never share a turn with `visit`.
pub const DECLARATIONS: [&str; 5] =
    ["set_scrollbar_pos", "select_lines", "select_paragraphs", "select_controls", "get_texts"];

/// One command of a `visit` call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Go to a control and click it, or put text into it.
    Access {
        /// Node of the forest, as it was given: whether there is one is known only with the forest at hand.
        id: i64,
        /// References by which the shared subtrees on the way are entered, as they were given.
        entry_refs: Vec<i64>,
        /// Text to put in after the click.
        text: Option<String>,
    },
    /// Press a combination of keys.
    Shortcut {
        /// The keys: `ctrl+c`.
        keys: String,
    },
}

/// What a call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Commands, in order.
    Commands(Vec<Command>),
    /// More of the topology below these nodes, as they were given; all of it where there are none.
    FurtherQuery(Vec<i64>),
}

/// A node that a message names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeName {
    /// Its id.
    pub id: u32,
    /// Its name, and those above it in its tree.
    pub path: Vec<String>,
}

/// A control of the screen that cannot do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsupported {
    /// Its label.
    pub label: String,
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub control_type: String,
    /// What it can do.
    pub patterns: Vec<super::Pattern>,
}

/// A control on the way to a target, and where it was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Node of the forest.
    pub id: u32,
    /// Id of the control.
    pub control: String,
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub control_type: String,
    /// Title of the topmost window.
    pub window: String,
}

/// Why a call could not be done, for the model that made it: a code, what it concerns, and a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
#[allow(missing_docs, reason = "each variant's message says what its fields are")]
pub enum VisitError {
    /// Not a JSON array of objects.
    #[error("the call is no JSON array of commands: {reason}")]
    Malformed { reason: String },
    /// An object that is no command.
    #[error("command {command}: {reason}")]
    BadCommand { command: usize, reason: String },
    /// `further_query` beside something else.
    #[error("command {command}: further_query asks for topology and must be the only command of its call")]
    FurtherQueryMixed { command: usize },
    /// A state or observation declaration in a `visit` call, or the other way round.
    #[error("command {command}: {interface} and visit must not share a turn; look at the screen first")]
    InterfacesMixed { command: usize, interface: String },
    /// Nothing is left once navigational targets are dropped.
    #[error("every target is navigational: name the functional controls (leaves) that are wanted")]
    OnlyNavigational { dropped: Vec<u32> },
    /// An id that the forest does not have.
    #[error("command {command}: no node has the id {id}; ids go from 0 to {last}")]
    UnknownId { command: usize, id: i64, last: u32 },
    /// A target in a shared subtree without the reference that leads there.
    #[error(
        "command {command}: node {id} lies in the shared subtree of node {root}; give entry_ref_id, one of {references} references"
    )]
    MissingEntryRef { command: usize, id: u32, root: u32, references: usize, candidates: Vec<NodeName> },
    /// Several references that lead to the same subtree.
    #[error(
        "command {command}: entry_ref_id names several references to the subtree of node {root}; give one"
    )]
    AmbiguousEntryRef { command: usize, id: u32, root: u32, given: Vec<u32> },
    /// An entry reference that is no reference, or not on the way.
    #[error("command {command}: entry_ref_id {entry_ref_id} {reason}")]
    BadEntryRef { command: usize, id: u32, entry_ref_id: i64, reason: String },
    /// A control on the way was not there.
    #[error(
        "command {command}: `{}` ({}) is not in the window `{}`, after {looks} looks",
        .site.name, .site.control_type, .site.window
    )]
    Absent {
        command: usize,
        #[serde(flatten)]
        site: Box<Site>,
        looks: u32,
        visible: Vec<String>,
    },
    /// A control on the way is there and disabled.
    #[error(
        "command {command}: `{}` ({}) is in the window `{}` and disabled",
        .site.name, .site.control_type, .site.window
    )]
    Disabled {
        command: usize,
        #[serde(flatten)]
        site: Box<Site>,
    },
    /// Several controls are as like the one wanted.
    #[error("command {command}: {matches} controls of the window `{}` are as like `{}`", .site.window, .site.name)]
    AmbiguousControl {
        command: usize,
        #[serde(flatten)]
        site: Box<Site>,
        matches: usize,
    },
    /// Text for a control that takes none.
    #[error("command {command}: `{}` ({}) takes no text", .site.name, .site.control_type)]
    NotEditable {
        command: usize,
        #[serde(flatten)]
        site: Box<Site>,
    },
    /// A shortcut failed. It is not tried again: it may have had an effect.
    #[error("command {command}: the shortcut {keys} failed and was not repeated: {reason}")]
    ShortcutFailed { command: usize, keys: String, reason: String },
    /// Windows kept opening where one was closed.
    #[error("command {command}: no control of the path appeared after {closed} windows were closed")]
    TooManyWindows { command: usize, id: u32, closed: u32 },
    /// A number from the topology where a label of the screen belongs.
    #[error(
        "call {call}: `{given}` is an id of the topology; declarations take labels of the current screen"
    )]
    StaticId { call: usize, given: String },
    /// A label that the screen does not have.
    #[error("call {call}: the screen has no control with the label `{label}`")]
    UnknownLabel { call: usize, label: String },
    /// Controls without the pattern that an interface needs; nothing was done.
    #[error("call {call}: {interface} needs the pattern {pattern}, which {} of the controls lack; nothing was done", .controls.len())]
    UnsupportedPattern { call: usize, interface: String, pattern: String, controls: Vec<Unsupported> },
    /// A control that is disabled; nothing was done.
    #[error("call {call}: the control `{label}` is disabled; nothing was done")]
    DisabledControl { call: usize, label: String },
    /// A number outside what the control has; nothing was done.
    #[error("call {call}: {reason}; nothing was done")]
    OutOfRange { call: usize, reason: String },
}

impl VisitError {
    /// The error as JSON, with its message.
    pub fn to_json(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.insert("message".to_owned(), Value::String(self.to_string()));
        }
        value
    }
}

/// The objects of a call.
///
/// # Errors
/// [`VisitError::Malformed`].
pub fn objects(text: &str) -> Result<Vec<Map<String, Value>>, VisitError> {
    let malformed = |reason: String| VisitError::Malformed { reason };
    let value: Value = serde_json::from_str(text).map_err(|e| malformed(e.to_string()))?;
    let Value::Array(items) = value else {
        return Err(malformed("expected `[…]`, also around a single command".to_owned()));
    };
    if items.is_empty() {
        return Err(malformed("the array is empty".to_owned()));
    }
    let object = |(i, item)| match item {
        Value::Object(fields) => Ok(fields),
        _ => Err(VisitError::BadCommand { command: i, reason: "expected an object".to_owned() }),
    };
    items.into_iter().enumerate().map(object).collect()
}

/// Reads a `visit` call: a JSON array of commands. Ids may be numbers or strings of digits; `entry_ref_id` one or
/// several of them, in any order.
///
/// # Errors
/// What is wrong, for the model that wrote it.
pub fn parse_visit(text: &str) -> Result<Call, VisitError> {
    let objects = objects(text)?;
    for (command, fields) in objects.iter().enumerate() {
        if let Some(interface) = DECLARATIONS.iter().find(|name| fields.contains_key(**name)) {
            let interface = (*interface).to_owned();
            return Err(VisitError::InterfacesMixed { command, interface });
        }
    }
    if let Some(command) = objects.iter().position(|fields| fields.contains_key("further_query")) {
        if objects.len() > 1 || objects[command].len() > 1 {
            return Err(VisitError::FurtherQueryMixed { command });
        }
        return further_query(&objects[command]["further_query"]);
    }
    let commands = objects.iter().enumerate().map(|(i, fields)| command(i, fields));
    Ok(Call::Commands(commands.collect::<Result<_, _>>()?))
}

fn further_query(value: &Value) -> Result<Call, VisitError> {
    let ids = ids(0, "further_query", value)?;
    if ids.contains(&-1) {
        return Ok(Call::FurtherQuery(Vec::new()));
    }
    if ids.is_empty() {
        let reason = "further_query names no node; -1 asks for all".to_owned();
        return Err(VisitError::BadCommand { command: 0, reason });
    }
    Ok(Call::FurtherQuery(ids))
}

fn command(i: usize, fields: &Map<String, Value>) -> Result<Command, VisitError> {
    let bad = |reason: String| VisitError::BadCommand { command: i, reason };
    let unknown = |known: &[&str]| fields.keys().find(|key| !known.contains(&key.as_str())).cloned();
    let string = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(bad(format!("`{name}` is no string"))),
    };
    if let Some(keys) = string("shortcut_key")? {
        if let Some(key) = unknown(&["shortcut_key"]) {
            return Err(bad(format!("`{key}` beside `shortcut_key`: make two commands of it")));
        }
        if keys.trim().is_empty() {
            return Err(bad("`shortcut_key` names no key".to_owned()));
        }
        return Ok(Command::Shortcut { keys });
    }
    if let Some(key) = unknown(&["id", "entry_ref_id", "text"]) {
        let reason = format!(
            "`{key}` is not known; commands have id, entry_ref_id, text, shortcut_key or further_query"
        );
        return Err(bad(reason));
    }
    let target = fields.get("id").ok_or_else(|| bad("`id` or `shortcut_key` is missing".to_owned()))?;
    let [id] = ids(i, "id", target)?[..] else { return Err(bad("`id` is one node".to_owned())) };
    let entry_refs = match fields.get("entry_ref_id") {
        None | Some(Value::Null) => Vec::new(),
        Some(value) => ids(i, "entry_ref_id", value)?,
    };
    Ok(Command::Access { id, entry_refs, text: string("text")? })
}

fn ids(command: usize, name: &str, value: &Value) -> Result<Vec<i64>, VisitError> {
    let id = |value: &Value| match value {
        Value::Number(n) => n.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let read = match value {
        Value::Array(values) => values.iter().map(id).collect::<Option<Vec<_>>>(),
        one => id(one).map(|id| vec![id]),
    };
    read.ok_or_else(|| VisitError::BadCommand {
        command,
        reason: format!("`{name}`: {value} is no id; expected whole numbers"),
    })
}
