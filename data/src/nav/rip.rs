//! Exploration logs ("rips"): one transition a line, written by an explorer that clicks and compares.
//!
//! ```text
//! {"app", "run"?, "path": [ids], "control": null | {id, name, role, …}, "action": "click", "from_state_id",
//!  "to_state_id", "new_controls": [{id, name, role, description, states, actions, window} | {id}],
//!  "window_opened": [title] | null, "window_revisited"?, "closed_by"?, "suspect"?}
//! ```
//!
//! A control is described in full where a run shows it first, and by its id after that. Rows marked `suspect` give
//! no edges (their click landed elsewhere) and are counted; what they say of controls is kept for later rows that
//! name those by id. A step that only such a row took is no evidence of a way either.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use super::build::{GraphBuilder, Reveal, Sighting};
use super::graph::{Flag, Place, ROOT};
use super::id::ControlId;
use super::kind::Kind;
use crate::adapters::Fault;
use crate::adapters::source::{Fields, parse_json};
use crate::trace::RejectKind;

/// Reads the lines of one log.
#[derive(Debug)]
pub struct RipReader<'a> {
    file: &'a str,
    /// Stands for `app` in rows that have none.
    default_app: String,
    named_app: Option<String>,
    described: HashMap<(u32, String), Sighting>,
    /// Controls that a suspect row acted on, by run.
    suspects: HashSet<(String, String)>,
    /// Controls that suspect rows show, by application.
    shown_by_suspects: HashSet<(u32, String)>,
    rows: u64,
}

/// A row, taken apart.
struct Row {
    app: u32,
    run: String,
    action: String,
    /// Controls clicked before, from the first screen on; nothing where the row does not say.
    path: Option<Vec<String>>,
    control: Option<(String, Sighting)>,
    new_controls: Vec<(String, Sighting)>,
    opened: Vec<String>,
    closed_by: Option<String>,
    before: Option<String>,
    after: Option<String>,
    revisited: bool,
    suspect: bool,
}

impl<'a> RipReader<'a> {
    /// For the log `file`, whose rows name their application or are of `default_app`.
    pub fn new(file: &'a str, default_app: &str) -> Self {
        Self {
            file,
            default_app: default_app.to_owned(),
            named_app: None,
            described: HashMap::new(),
            suspects: HashSet::new(),
            shown_by_suspects: HashSet::new(),
            rows: 0,
        }
    }

    /// Reads the line with this number; one that is no transition is rejected.
    pub fn line(&mut self, builder: &mut GraphBuilder, number: u64, line: Result<&str, Fault>) {
        let place = Place::new(self.file, format!("line {number}"));
        let read = line.and_then(parse_json).and_then(|value| self.row(builder, Fields::of(&value)?, &place));
        match read {
            Ok(row) => {
                self.rows += 1;
                self.take(builder, row, &place);
            }
            Err(fault) => {
                let reason = format!("{}; mend the line, or leave it out", fault.reason);
                builder.reject(place, fault.kind, reason);
            }
        }
    }

    /// What rows without an application are counted to: that of the first row which named one, else the default.
    pub fn app(&self) -> &str {
        self.named_app.as_deref().unwrap_or(&self.default_app)
    }

    /// The log is read to its end.
    pub fn end(self, builder: &mut GraphBuilder) {
        if self.rows == 0 {
            let reason = "no line of the file is a transition; give an exploration log (JSON lines)";
            builder.reject(Place::new(self.file, ""), RejectKind::Empty, reason);
        }
    }

    fn row(&mut self, builder: &mut GraphBuilder, row: Fields, place: &Place) -> Result<Row, Fault> {
        let action = row.str("action")?.to_owned();
        let control = match row.get("control") {
            None if action == "launch" => None,
            None => {
                let reason = "field `control` is missing: only the action `launch` has none";
                return Err(Fault::new(RejectKind::MissingField, reason));
            }
            Some(value) => Some(value),
        };
        // Everything that can be wrong is looked at before anything is remembered.
        let new = row.array("new_controls")?;
        let parsed: Vec<_> = { new.iter().enumerate() }
            .map(|(i, value)| parse_control(value).map_err(|fault| fault.at(&format!("new_controls[{i}]"))))
            .collect::<Result<_, Fault>>()?;
        let control = control.map(parse_control).transpose().map_err(|fault| fault.at("control"))?;
        let path = row.get("path").map(|_| row.strings("path")).transpose()?;
        let opened = strings(row, "window_opened")?;
        let closed = strings(row, "closed_by")?;
        if let (None, Some(app)) = (&self.named_app, row.opt_str("app")) {
            self.named_app = Some(app.to_owned());
        }
        let app = builder.app(row.opt_str("app").unwrap_or(self.app()));
        let flag = |name| row.get(name).and_then(Value::as_bool).unwrap_or_default();
        let mut seen = BTreeSet::new();
        let mut new_controls = Vec::with_capacity(parsed.len());
        for (i, (raw, sighting)) in parsed.into_iter().enumerate() {
            if seen.insert(raw.clone()) {
                new_controls.push((raw.clone(), self.describe(app, raw, sighting)));
            } else {
                let key = format!("{} new_controls[{i}]", place.key);
                let reason = format!("the control `{raw}` stands twice in one row; the first one is kept");
                builder.reject(Place::new(self.file, key), RejectKind::Duplicate, reason);
            }
        }
        Ok(Row {
            app,
            run: row.opt_str("run").unwrap_or_default().to_owned(),
            action,
            path: path.map(|path| path.into_iter().map(str::to_owned).collect()),
            control: control.map(|(raw, s)| (raw.clone(), self.describe(app, raw, s))),
            new_controls,
            closed_by: (!closed.is_empty()).then(|| closed.join(", ")),
            opened,
            before: row.opt_str("from_state_id").map(str::to_owned),
            after: row.opt_str("to_state_id").map(str::to_owned),
            revisited: flag("window_revisited"),
            suspect: flag("suspect"),
        })
    }

    /// A control named by id as it was described before; a description is remembered.
    fn describe(&mut self, app: u32, raw: String, sighting: Sighting) -> Sighting {
        let key = (app, raw);
        if sighting.id_only {
            return self.described.get(&key).cloned().unwrap_or(sighting);
        }
        self.described.insert(key, sighting.clone());
        sighting
    }

    fn take(&mut self, builder: &mut GraphBuilder, row: Row, place: &Place) {
        builder.count("transitions", 1);
        builder.count("records", 1);
        if row.suspect {
            builder.count("transitions_suspect", 1);
            if let Some((raw, _)) = row.control {
                self.suspects.insert((row.run, raw));
            }
            self.shown_by_suspects.extend(row.new_controls.into_iter().map(|(raw, _)| (row.app, raw)));
            return;
        }
        let context = if row.run.is_empty() { self.default_app.clone() } else { row.run.clone() };
        let mut way = Vec::new();
        for raw in row.path.iter().flatten() {
            let bare = Sighting { id: ControlId::from_log(raw, None), id_only: true, ..Sighting::default() };
            let sighting = self.describe(row.app, raw.clone(), bare);
            way.push((raw, builder.see(row.app, sighting, &context, place)));
        }
        let from = match &row.control {
            None => ROOT,
            Some((raw, sighting)) => {
                let at = builder.see(row.app, sighting.clone(), &context, place);
                way.push((raw, at));
                at
            }
        };
        self.follow(builder, &row, &way, place);
        for title in &row.opened {
            builder.window(title, from, row.closed_by.clone());
        }
        let flags: &[Flag] = if row.revisited { &[Flag::Revisited] } else { &[] };
        for (_, sighting) in row.new_controls {
            let window = sighting.window.as_ref().and_then(|w| row.opened.iter().find(|o| *o == w)).cloned();
            let to = builder.see(row.app, sighting, &context, place);
            let how = Reveal {
                action: &row.action,
                // The first window is the application itself.
                window: window.as_deref().filter(|_| from != ROOT),
                flags,
                before: row.before.as_deref(),
                after: row.after.as_deref(),
            };
            builder.reveal(from, to, &how, place);
        }
    }

    /// Notes the way that a row took: the controls of `path` and the one acted on. A row without `path` says where
    /// it ended and not how it came there.
    fn follow(&self, builder: &mut GraphBuilder, row: &Row, way: &[(&String, u32)], place: &Place) {
        let Some(&(first, begun)) = way.first() else { return };
        if row.path.is_none() {
            builder.count("transitions_without_path", 1);
            if self.shown_by_suspects.contains(&(row.app, first.clone())) {
                builder.shown_elsewhere(begun);
            }
            builder.begin(begun, false, place);
            return;
        }
        let is_suspect = |raw: &String| self.suspects.contains(&(row.run.clone(), raw.clone()));
        builder.begin(begun, true, place);
        for pair in way.windows(2) {
            // What comes after a click that landed elsewhere shows no way from there.
            if !is_suspect(pair[0].0) {
                builder.assume(pair[0].1, pair[1].1, place);
            }
        }
        if way[..way.len() - 1].iter().any(|(raw, _)| is_suspect(raw)) {
            builder.count("transitions_after_suspect", 1);
            return;
        }
        builder.clicks.push(way.iter().map(|(_, at)| *at).collect());
    }
}

/// A list of strings that may be null, or one string.
fn strings(row: Fields, name: &str) -> Result<Vec<String>, Fault> {
    match row.get(name) {
        None => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one.clone()]),
        Some(_) => Ok(row.strings(name)?.into_iter().map(str::to_owned).collect()),
    }
}

/// The rest of a control; every field may be absent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Described {
    name: Option<String>,
    role: Option<String>,
    description: Option<String>,
    states: Option<Vec<String>>,
    actions: Option<Vec<String>>,
    window: Option<String>,
}

fn parse_control(value: &Value) -> Result<(String, Sighting), Fault> {
    if let Some(raw) = value.as_str() {
        let id = ControlId::from_log(raw, None);
        return Ok((raw.to_owned(), Sighting { id, id_only: true, ..Sighting::default() }));
    }
    let raw = Fields::of(value)?.str("id")?.to_owned();
    let described = Described::deserialize(value)
        .map_err(|e| Fault::new(RejectKind::MissingField, format!("control `{raw}`: {e}")))?;
    let Some(role) = described.role else {
        let id = ControlId::from_log(&raw, None);
        return Ok((raw, Sighting { id, id_only: true, ..Sighting::default() }));
    };
    let says = [described.states.unwrap_or_default(), described.actions.unwrap_or_default()];
    let has = |word: &str| says.iter().flatten().any(|said| said.eq_ignore_ascii_case(word));
    let id = ControlId::from_log(&raw, Some(&role));
    let sighting = Sighting {
        name: described.name.unwrap_or_default(),
        description: described.description.unwrap_or_default(),
        patterns: Kind::of(&role).patterns(has),
        // A source that tells no states does not say that a control is disabled.
        enabled: says[0].is_empty() || has("enabled") || has("sensitive"),
        selected: has("selected"),
        window: described.window,
        id_only: false,
        id,
    };
    Ok((raw, sighting))
}

/// Takes what an explorer says it did not follow from the `.meta.json` beside its log: `skipped`, at the top or in
/// each run, control id → reason.
///
/// # Errors
/// When the text is no JSON object.
pub fn explorer_skipped(builder: &mut GraphBuilder, app: &str, meta: &str) -> Result<(), Fault> {
    let meta = parse_json(meta)?;
    let meta = Fields::of(&meta)?;
    let runs = meta.0.values().filter_map(Value::as_object).map(Fields);
    for part in std::iter::once(meta).chain(runs) {
        let Some(skipped) = part.get("skipped").and_then(Value::as_object) else { continue };
        for (id, reason) in skipped {
            builder.skipped(app, id, reason.as_str().unwrap_or("skipped"));
        }
    }
    Ok(())
}
