//! State and observation declarations (paper, section 3.5 and table 2; reading 7): on controls of the current
//! screen, by label, all or nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::command::{DECLARATIONS, Unsupported, VisitError, objects};
use super::kind::{Kind, Pattern};
use super::simulator::{Shown, Ui};

/// Characters of a text that the passive mode shows.
pub const PASSIVE_CHARS: usize = 80;

/// One declaration, with the labels it is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Declaration {
    /// Scroll a control to percentages of its way.
    SetScrollbarPos {
        /// The control.
        label: String,
        /// Percent across.
        x_percent: f64,
        /// Percent down.
        y_percent: f64,
    },
    /// Select a contiguous range of lines, from 1.
    SelectLines {
        /// The control.
        label: String,
        /// First line.
        start: usize,
        /// Last line.
        end: usize,
    },
    /// Select a contiguous range of paragraphs (separated by blank lines), from 1.
    SelectParagraphs {
        /// The control.
        label: String,
        /// First paragraph.
        start: usize,
        /// Last paragraph.
        end: usize,
    },
    /// Select exactly these controls.
    SelectControls {
        /// The controls.
        labels: Vec<String>,
    },
    /// The whole text of controls (the active mode).
    GetTexts {
        /// The controls.
        labels: Vec<String>,
    },
}

/// The label of the `n`-th control of a screen, from 0: A to Z, AA, AB and on. Letters keep labels apart from ids.
pub fn label_of(n: usize) -> String {
    let mut n = n + 1;
    let mut letters = Vec::new();
    while n > 0 {
        letters.push(char::from(b'A' + ((n - 1) % 26) as u8));
        n = (n - 1) / 26;
    }
    letters.iter().rev().collect()
}

/// The controls of the topmost window with their labels.
pub fn labelled(ui: &mut impl Ui) -> Vec<(String, Shown)> {
    ui.look().controls.into_iter().enumerate().map(|(i, shown)| (label_of(i), shown)).collect()
}

impl Declaration {
    /// The interface's name.
    pub fn interface(&self) -> &'static str {
        match self {
            Self::SetScrollbarPos { .. } => DECLARATIONS[0],
            Self::SelectLines { .. } => DECLARATIONS[1],
            Self::SelectParagraphs { .. } => DECLARATIONS[2],
            Self::SelectControls { .. } => DECLARATIONS[3],
            Self::GetTexts { .. } => DECLARATIONS[4],
        }
    }

    /// The labels it is about.
    pub fn labels(&self) -> Vec<&str> {
        match self {
            Self::SetScrollbarPos { label, .. }
            | Self::SelectLines { label, .. }
            | Self::SelectParagraphs { label, .. } => vec![label],
            Self::SelectControls { labels } | Self::GetTexts { labels } => {
                labels.iter().map(String::as_str).collect()
            }
        }
    }

    /// The patterns of which a control needs one.
    fn needs(&self) -> &'static [Pattern] {
        match self {
            Self::SetScrollbarPos { .. } => &[Pattern::Scroll],
            Self::SelectLines { .. } | Self::SelectParagraphs { .. } => &[Pattern::Text],
            Self::SelectControls { .. } => &[Pattern::Select],
            Self::GetTexts { .. } => &[Pattern::Text, Pattern::Value],
        }
    }
}

/// Reads a turn of declarations: `[{"set_scrollbar_pos": {"label": "A", "y_percent": 80}}, {"get_texts":
/// {"labels": ["B", "C"]}}]`.
///
/// # Errors
/// A command of `visit` among them, an id of the topology in place of a label, a field that is missing.
pub fn parse_declarations(text: &str) -> Result<Vec<Declaration>, VisitError> {
    let calls = objects(text)?;
    calls.iter().enumerate().map(|(i, fields)| declaration(i, fields)).collect()
}

/// Whether a turn is one of declarations: its first object is.
pub fn is_declaration(text: &str) -> bool {
    objects(text)
        .ok()
        .and_then(|calls| calls.into_iter().next())
        .is_some_and(|fields| DECLARATIONS.iter().any(|name| fields.contains_key(*name)))
}

fn declaration(call: usize, fields: &Map<String, Value>) -> Result<Declaration, VisitError> {
    let bad = |reason: String| VisitError::BadCommand { command: call, reason };
    let Some(interface) = DECLARATIONS.iter().find(|name| fields.contains_key(**name)) else {
        let interface = "a declaration".to_owned();
        return Err(VisitError::InterfacesMixed { command: call, interface });
    };
    if fields.len() > 1 {
        return Err(bad(format!("`{interface}` is the only key of its call")));
    }
    let empty = Map::new();
    let given = fields[*interface].as_object().unwrap_or(&empty);
    if given.contains_key("id") {
        return Err(VisitError::StaticId { call, given: given["id"].to_string() });
    }
    let label = || {
        let value = given.get("label").ok_or_else(|| bad(format!("{interface}: `label` is missing")))?;
        parse_label(call, value)
    };
    let labels = || {
        let values = given.get("labels").and_then(Value::as_array);
        let values = values.filter(|v| !v.is_empty());
        let values = values.ok_or_else(|| bad(format!("{interface}: `labels` is no list of labels")))?;
        values.iter().map(|value| parse_label(call, value)).collect::<Result<Vec<_>, _>>()
    };
    let percent = |name: &str| match given.get(name) {
        None => Ok(0.0),
        Some(value) => { value.as_f64() }.filter(|p| (0.0..=100.0).contains(p)).ok_or_else(|| {
            VisitError::OutOfRange { call, reason: format!("`{name}` is a percentage, 0 to 100") }
        }),
    };
    let range = || {
        let number = |name: &str| given.get(name).and_then(Value::as_u64);
        let start =
            number("start_index").ok_or_else(|| bad(format!("{interface}: `start_index` is missing")))?;
        let end = number("end_index").unwrap_or(start);
        if start == 0 || end < start {
            let reason = format!("{start} to {end} is no range: indices begin at 1");
            return Err(VisitError::OutOfRange { call, reason });
        }
        Ok((start as usize, end as usize))
    };
    Ok(match *interface {
        "set_scrollbar_pos" => Declaration::SetScrollbarPos {
            label: label()?,
            x_percent: percent("x_percent")?,
            y_percent: percent("y_percent")?,
        },
        "select_lines" => {
            let (start, end) = range()?;
            Declaration::SelectLines { label: label()?, start, end }
        }
        "select_paragraphs" => {
            let (start, end) = range()?;
            Declaration::SelectParagraphs { label: label()?, start, end }
        }
        "select_controls" => Declaration::SelectControls { labels: labels()? },
        _ => Declaration::GetTexts { labels: labels()? },
    })
}

/// A label; numbers are ids of the topology, which mean nothing on a screen.
fn parse_label(call: usize, value: &Value) -> Result<String, VisitError> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    let is_label = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphabetic());
    if is_label { Ok(text.to_ascii_uppercase()) } else { Err(VisitError::StaticId { call, given: text }) }
}

/// Carries out declarations on the current screen; gives one result each. When one of them cannot be done, none is.
///
/// # Errors
/// Labels the screen does not have, controls that are disabled or lack a pattern, ranges outside their text.
pub fn declare(ui: &mut impl Ui, declarations: &[Declaration]) -> Result<Vec<Value>, VisitError> {
    let screen: BTreeMap<String, Shown> = labelled(ui).into_iter().collect();
    for (call, declaration) in declarations.iter().enumerate() {
        check(call, declaration, &screen)?;
    }
    // Ranges need the text itself: all are looked at before anything is selected.
    let mut ranges = Vec::new();
    for (call, declaration) in declarations.iter().enumerate() {
        ranges.push(match declaration {
            Declaration::SelectLines { label, start, end } => {
                Some(range(call, &ui.text(screen[label].handle), Unit::Line, *start, *end)?)
            }
            Declaration::SelectParagraphs { label, start, end } => {
                Some(range(call, &ui.text(screen[label].handle), Unit::Paragraph, *start, *end)?)
            }
            _ => None,
        });
    }
    let done = declarations.iter().zip(ranges).map(|(d, range)| carry_out(ui, d, range, &screen));
    Ok(done.collect())
}

fn check(call: usize, declaration: &Declaration, screen: &BTreeMap<String, Shown>) -> Result<(), VisitError> {
    let mut lacking = Vec::new();
    for label in declaration.labels() {
        let Some(shown) = screen.get(label) else {
            return Err(VisitError::UnknownLabel { call, label: label.to_owned() });
        };
        if !declaration.needs().iter().any(|pattern| shown.patterns.contains(pattern)) {
            lacking.push(Unsupported {
                label: label.to_owned(),
                name: shown.name.clone(),
                control_type: shown.id.control_type.clone(),
                patterns: shown.patterns.clone(),
            });
        }
    }
    if !lacking.is_empty() {
        let names = declaration.needs().iter().map(|pattern| format!("{pattern:?}"));
        return Err(VisitError::UnsupportedPattern {
            call,
            interface: declaration.interface().to_owned(),
            pattern: names.collect::<Vec<_>>().join(" or "),
            controls: lacking,
        });
    }
    let observes = matches!(declaration, Declaration::GetTexts { .. });
    match declaration.labels().into_iter().find(|label| !observes && !screen[*label].enabled) {
        Some(label) => Err(VisitError::DisabledControl { call, label: label.to_owned() }),
        None => Ok(()),
    }
}

fn carry_out(
    ui: &mut impl Ui,
    declaration: &Declaration,
    range: Option<(usize, usize)>,
    screen: &BTreeMap<String, Shown>,
) -> Value {
    let interface = declaration.interface();
    match declaration {
        Declaration::SetScrollbarPos { label, x_percent, y_percent } => {
            let (x, y) = ui.scroll(screen[label].handle, *x_percent, *y_percent);
            json!({ "interface": interface, "label": label, "x_percent": x, "y_percent": y })
        }
        Declaration::SelectLines { label, start, end }
        | Declaration::SelectParagraphs { label, start, end } => {
            ui.select_text(screen[label].handle, range);
            json!({ "interface": interface, "label": label, "start_index": start, "end_index": end })
        }
        Declaration::SelectControls { labels } => {
            let handles: Vec<u32> = labels.iter().map(|label| screen[label].handle).collect();
            ui.select(&handles);
            json!({ "interface": interface, "selected": labels })
        }
        Declaration::GetTexts { labels } => {
            let texts: Map<String, Value> = labels
                .iter()
                .map(|label| (label.clone(), Value::String(ui.text(screen[label].handle))))
                .collect();
            json!({ "interface": interface, "texts": texts })
        }
    }
}

#[derive(Clone, Copy)]
enum Unit {
    Line,
    Paragraph,
}

/// Byte range of units `start` to `end` of a text, from 1.
fn range(
    call: usize,
    text: &str,
    unit: Unit,
    start: usize,
    end: usize,
) -> Result<(usize, usize), VisitError> {
    let mut units: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    let mut open = false;
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches(['\n', '\r']);
        let span = (at, at + content.len());
        at += line.len();
        match unit {
            Unit::Line => units.push(span),
            Unit::Paragraph if content.trim().is_empty() => open = false,
            Unit::Paragraph if open => {
                if let Some(last) = units.last_mut() {
                    last.1 = span.1;
                }
            }
            Unit::Paragraph => {
                open = true;
                units.push(span);
            }
        }
    }
    if let (Some(first), Some(last)) = (units.get(start - 1), units.get(end - 1)) {
        return Ok((first.0, last.1));
    }
    let what = if matches!(unit, Unit::Line) { "lines" } else { "paragraphs" };
    let reason = format!("{start} to {end} of a text with {} {what}", units.len());
    Err(VisitError::OutOfRange { call, reason })
}

/// The passive mode of `get_texts`: what every data item of the screen holds, cut short, for the prompt. Items
/// without a text are one entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassiveTexts {
    /// Label and text of each data item that has one.
    pub texts: Vec<(String, String)>,
    /// Data items without a text.
    pub empty: usize,
    /// Texts that were cut.
    pub truncated: usize,
}

/// Reads the data items of the current screen.
pub fn passive_texts(ui: &mut impl Ui, chars: usize) -> PassiveTexts {
    let mut passive = PassiveTexts::default();
    for (label, shown) in labelled(ui) {
        if Kind::of(&shown.id.control_type) != Kind::DataItem {
            continue;
        }
        let text = ui.text(shown.handle);
        if text.trim().is_empty() {
            passive.empty += 1;
            continue;
        }
        let mut kept: String = text.chars().take(chars).collect();
        if kept.len() < text.len() {
            kept.push('…');
            passive.truncated += 1;
        }
        passive.texts.push((label, kept));
    }
    passive
}
