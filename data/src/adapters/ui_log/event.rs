//! A row's columns, and the event types as canonical verbs.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::action::{Action, Direction, Target, Verb};
use crate::adapters::source::Fault;
use crate::trace::{RejectKind, Step};

/// Event types, lower case, and their verbs. Those that begin with `click` or `edit` need no
/// entry. A command on a tab, window, workbook or sheet for which there is no verb (closing,
/// saving, adding) is a click on that thing; the source's verb says which command it was.
const EVENTS: &[(&str, Verb)] = &[
    ("doubleclick", Verb::DoubleClick),
    ("dblclick", Verb::DoubleClick),
    ("rightclick", Verb::RightClick),
    ("contextmenu", Verb::RightClick),
    ("getcell", Verb::Click),
    ("getrange", Verb::Click),
    ("selectcell", Verb::Click),
    ("selectrange", Verb::Click),
    ("selecttext", Verb::Click),
    ("submit", Verb::Click),
    ("copy", Verb::Copy),
    ("copycell", Verb::Copy),
    ("copyrange", Verb::Copy),
    ("cut", Verb::Copy),
    ("cutcell", Verb::Copy),
    ("cutrange", Verb::Copy),
    ("paste", Verb::Paste),
    ("pastecell", Verb::Paste),
    ("pasterange", Verb::Paste),
    ("pasteintocell", Verb::Paste),
    ("pasteintorange", Verb::Paste),
    ("type", Verb::Type),
    ("press", Verb::Press),
    ("keypress", Verb::Press),
    ("presskey", Verb::Press),
    ("hotkey", Verb::Press),
    ("scroll", Verb::Scroll),
    ("hover", Verb::Hover),
    ("mouseover", Verb::Hover),
    ("selectoption", Verb::Select),
    ("selectoptions", Verb::Select),
    ("navigate", Verb::Navigate),
    ("navigateto", Verb::Navigate),
    ("openurl", Verb::Navigate),
    ("reload", Verb::Navigate),
    ("goback", Verb::Back),
    ("openapp", Verb::OpenApp),
    ("openapplication", Verb::OpenApp),
    ("openwindow", Verb::SwitchWindow),
    ("selectwindow", Verb::SwitchWindow),
    ("switchwindow", Verb::SwitchWindow),
    ("opentab", Verb::SwitchWindow),
    ("newtab", Verb::SwitchWindow),
    ("createtab", Verb::SwitchWindow),
    ("selecttab", Verb::SwitchWindow),
    ("openworkbook", Verb::SwitchWindow),
    ("newworkbook", Verb::SwitchWindow),
    ("createworkbook", Verb::SwitchWindow),
    ("selectworkbook", Verb::SwitchWindow),
    ("selectworksheet", Verb::SwitchWindow),
    ("selectsheet", Verb::SwitchWindow),
    ("addworksheet", Verb::Click),
    ("createworksheet", Verb::Click),
    ("deleteworksheet", Verb::Click),
    ("renameworksheet", Verb::Click),
    ("saveworkbook", Verb::Click),
    ("closeworkbook", Verb::Click),
    ("closewindow", Verb::Click),
    ("closetab", Verb::Click),
];

/// Where each column that is read stands in a row.
#[derive(Debug, Default)]
pub(super) struct Columns {
    names: Vec<String>,
    time: usize,
    event: usize,
}

impl Columns {
    /// The columns of a header; names are compared without case and surrounding space.
    ///
    /// # Errors
    /// When `timeStamp` or `eventType` is absent.
    pub(super) fn new(header: &[String]) -> Result<Self, Fault> {
        let names: Vec<String> = header.iter().map(|n| n.trim().to_lowercase()).collect();
        let required = |name: &str| {
            names.iter().position(|n| n.eq_ignore_ascii_case(name)).ok_or_else(|| {
                let found = header.join(", ");
                let reason = format!("column `{name}` is missing; the header has: {found}");
                Fault::new(RejectKind::MissingField, reason)
            })
        };
        let (time, event) = (required("timeStamp")?, required("eventType")?);
        Ok(Self { names, time, event })
    }

    /// The first of the columns named (in lower case) that is not blank.
    fn any<'a>(&self, row: &'a [String], names: &[&str]) -> Option<&'a str> {
        let value = |name: &&str| {
            let index = self.names.iter().position(|n| n == name)?;
            row.get(index).map(String::as_str).filter(|v| !v.trim().is_empty())
        };
        names.iter().find_map(value)
    }

    /// True when the log marks cases.
    pub(super) fn has_case(&self) -> bool {
        self.names.iter().any(|n| n == "caseid" || n == "case:concept:name")
    }

    /// The row's case, if it names one.
    pub(super) fn case<'a>(&self, row: &'a [String]) -> Option<&'a str> {
        self.any(row, &["caseid", "case:concept:name"]).map(str::trim)
    }

    /// The row's user, if it names one.
    pub(super) fn user<'a>(&self, row: &'a [String]) -> Option<&'a str> {
        self.any(row, &["userid"]).map(str::trim)
    }

    /// Nanoseconds since 1970. A time without a zone is taken as UTC.
    ///
    /// # Errors
    /// A blank time, or one in another form than RFC 3339 or `YYYY-MM-DD HH:MM:SS[.fff]`.
    pub(super) fn time(&self, row: &[String]) -> Result<i128, Fault> {
        let text = row[self.time].trim();
        if text.is_empty() {
            return Err(Fault::new(RejectKind::MissingField, "column `timeStamp` is blank"));
        }
        let local = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|z| z.timestamp());
        let parsed = text.parse::<Timestamp>().ok().or_else(local);
        parsed.map(Timestamp::as_nanosecond).ok_or_else(|| {
            let reason = format!(
                "column `timeStamp`: `{text}` is not a time; expected 2019-10-21T00:10:08.994Z or 2019-10-21 00:10:08.994"
            );
            Fault::new(RejectKind::OutOfRange, reason)
        })
    }

    /// The row as a step; its number and time are set when its episode is complete.
    ///
    /// # Errors
    /// A blank or unknown event type.
    pub(super) fn step(&self, row: &[String], key: String) -> Result<Step, Fault> {
        let action = self.action(row)?;
        let parts: Vec<&str> = [&["target.workbookname"], &["target.sheetname"]]
            .into_iter()
            .filter_map(|column| self.any(row, column))
            .collect();
        Ok(Step {
            app: self.any(row, &["targetapp"]).map(str::to_owned),
            site: self.any(row, &["url"]).map(str::to_owned),
            window: (!parts.is_empty()).then(|| parts.join(" - ")),
            ..Step::new(0, key, action)
        })
    }

    fn action(&self, row: &[String]) -> Result<Action, Fault> {
        let event = row[self.event].trim();
        if event.is_empty() {
            return Err(Fault::new(RejectKind::MissingField, "column `eventType` is blank"));
        }
        let verb = verb_of(event)?;
        let column = |names: &[&str]| self.any(row, names).map(str::to_owned);
        let text = match verb {
            // A field may be cleared: its value is then blank, and the text typed is empty.
            Verb::Type => Some(column(&["target.value", "content"]).unwrap_or_default()),
            Verb::Copy => column(&["content"]),
            Verb::Paste => column(&["content", "target.value"]),
            Verb::Press => column(&["content", "target.value"]).map(|k| k.to_lowercase()),
            Verb::Select => column(&["target.option", "target.value", "content"]),
            Verb::Navigate => column(&["url", "target.href", "content"]),
            Verb::OpenApp => column(&["content", "targetapp"]),
            Verb::SwitchWindow => column(&[
                "target.sheetname",
                "target.workbookname",
                "target.title",
                "target.innertext",
                "content",
                "url",
                "targetapp",
            ]),
            _ => None,
        };
        let word = column(&["content", "target.value"]).filter(|_| verb == Verb::Scroll);
        Ok(Action {
            text,
            direction: word.as_deref().and_then(|w| w.trim().parse::<Direction>().ok()),
            source_direction: word,
            target: self.target(row, event),
            ..Action::new(verb, event)
        })
    }

    fn target(&self, row: &[String], event: &str) -> Target {
        let tag = self.any(row, &["target.tagname"]);
        // A button's or link's text is what a person reads; a field's name is its form's.
        let has_label = tag.is_some_and(|t| t.eq_ignore_ascii_case("button") || t.eq_ignore_ascii_case("a"));
        let name = if has_label {
            self.any(row, &["target.innertext", "target.name", "target.title", "target.id"])
        } else {
            self.any(row, &["target.name", "target.innertext", "target.title", "target.id"])
        };
        let kind = self.any(row, &["target.type"]);
        let lower = event.to_lowercase();
        let role = match (tag, kind) {
            (Some(tag), Some(kind)) => Some(format!("{tag} {kind}").to_lowercase()),
            (Some(one), None) | (None, Some(one)) => Some(one.to_lowercase()),
            (None, None) => ["cell", "range"].into_iter().find(|r| lower.ends_with(r)).map(str::to_owned),
        };
        let collapse = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        Target { name: name.map(collapse), role, ..Target::default() }
    }
}

fn verb_of(event: &str) -> Result<Verb, Fault> {
    let lower = event.to_lowercase();
    if let Some((_, verb)) = EVENTS.iter().find(|(name, _)| *name == lower) {
        return Ok(*verb);
    }
    if lower.starts_with("click") {
        return Ok(Verb::Click);
    }
    if lower.starts_with("edit") {
        return Ok(Verb::Type);
    }
    let known: Vec<&str> = EVENTS.iter().map(|(name, _)| *name).collect();
    let reason = format!("unknown eventType `{event}`; known: click…, edit…, {}", known.join(", "));
    Err(Fault::new(RejectKind::OutOfRange, reason))
}
