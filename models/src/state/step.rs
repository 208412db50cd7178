//! Abstracted steps by rule (`HiSA`, section 3.3.1 and appendix A.4): what the screen's change says of an action.
//!
//! Rules see that something changed and where, not what it means: they call a step a success only where the change
//! lies at the action or takes a real part of the screen, a failure where nothing changed or an error came up, and
//! leave the rest unknown.

use tracemill_data::action::Verb;
use tracemill_data::artifact::StepOutcome;
use tracemill_data::trace::{Element, StepRow};

use super::elements::ElementChange;
use super::refine::clip;
use super::region::Region;
use super::tiles::Focus;

/// Name and version of the rules, for artifacts that depend on them.
pub const LABELER: &str = "state-rules@1";
/// What stands for a step that changed nothing, whoever labels: no model is asked.
pub const NO_CHANGE: &str = "No change detected.";

/// How far from an action's point its effect may begin, in pixels.
const NEAR_PX: f64 = 24.0;
/// Share of the screen from which a change counts as an effect wherever it is.
const LARGE_SHARE: f64 = 0.02;
/// Longest text of an element that is quoted.
const QUOTED: usize = 40;
/// Elements quoted of each kind of change.
const QUOTES: usize = 3;
/// Longest text of an element that can be a message of an error.
const MESSAGE: usize = 120;
/// Words of messages that say that something did not work.
const ERROR_WORDS: [&str; 9] = [
    "error",
    "failed",
    "invalid",
    "not found",
    "denied",
    "try again",
    "is required",
    "no results",
    "does not exist",
];
/// The same where messages begin with them; elsewhere they are said of many things.
const ERROR_BEGINNINGS: [&str; 6] = ["can't", "cannot", "could not", "couldn't", "unable to", "wrong"];
/// Roles of elements that tell the user something.
const MESSAGE_ROLES: [&str; 9] =
    ["alert", "dialog", "toast", "notification", "statusbar", "status", "label", "text", "p"];
/// Keys that change nothing that can be seen.
const SILENT_KEYS: [&str; 9] =
    ["ctrl", "control", "shift", "alt", "cmd", "command", "super", "ctrl+c", "cmd+c"];

/// Why no change could be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unseen {
    /// The episode ends with the step.
    Last,
    /// The source recorded one screen for this step and the next.
    SamePicture,
    /// The source recorded no screen.
    NoScreen,
    /// A picture is missing or cannot be read.
    Unreadable,
}

/// What became of the screen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// Not known.
    Unseen(Unseen),
    /// Nothing changed.
    None,
    /// Nothing that elements tell of: a picture might show more.
    SameElements,
    /// The screen's size: the whole of it is new.
    Resized,
    /// A part of the screen; no box where elements have none. `share` is 0 to 1.
    Part {
        /// Where.
        region: Option<Region>,
        /// How much of the screen the region takes.
        share: Option<f64>,
        /// What of the region changed, where pictures tell it.
        focus: Option<Focus>,
    },
}

impl Change {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unseen(Unseen::Last) => "last",
            Self::Unseen(Unseen::SamePicture) => "same_picture",
            Self::Unseen(Unseen::NoScreen) => "no_screen",
            Self::Unseen(Unseen::Unreadable) => "unreadable",
            Self::None | Self::SameElements => "none",
            Self::Resized => "resized",
            Self::Part { .. } => "region",
        }
    }
}

/// An abstracted step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abstracted {
    /// One or two sentences.
    pub text: String,
    /// Whether it did what it was meant to do.
    pub outcome: StepOutcome,
    /// What the outcome rests on.
    pub evidence: String,
}

/// Elements of the screens before and after, with their difference.
pub type Seen<'a> = (&'a [Element], &'a [Element], &'a ElementChange);

/// What the change of the screen says of a step.
pub fn abstract_step(step: &StepRow, change: Change, elements: Option<Seen<'_>>) -> Abstracted {
    let told = |text: &str, outcome, evidence: &str| Abstracted {
        text: text.to_owned(),
        outcome,
        evidence: evidence.to_owned(),
    };
    let verb = step.verb().unwrap_or(Verb::Wait);
    match change {
        Change::Unseen(Unseen::Last) if verb == Verb::Complete => {
            told("The task was declared finished.", StepOutcome::Unknown, "declared")
        }
        Change::Unseen(Unseen::Last) if verb == Verb::Impossible => {
            told("The task was declared infeasible.", StepOutcome::Unknown, "declared")
        }
        Change::Unseen(_) => told("", StepOutcome::Unknown, "the screen after it was not seen"),
        Change::None if must_show(verb, step) => {
            told(NO_CHANGE, StepOutcome::Failure, "no change of the screen")
        }
        Change::None => told(NO_CHANGE, StepOutcome::Unknown, "no change of the screen, and none is needed"),
        Change::SameElements => told(
            NO_CHANGE,
            StepOutcome::Unknown,
            "the same elements; there is no picture that would show more",
        ),
        Change::Resized => told(
            "Succeeded. The whole screen was replaced by one of another size.",
            StepOutcome::Success,
            "another size of the screen",
        ),
        Change::Part { region, share, focus } => changed(step, verb, (region, share, focus), elements),
    }
}

/// Whether an action that worked would have been seen.
fn must_show(verb: Verb, step: &StepRow) -> bool {
    match verb {
        Verb::Wait | Verb::Copy | Verb::Hover | Verb::Complete | Verb::Impossible => false,
        Verb::Press => {
            let key = step.text.as_deref().unwrap_or_default().to_lowercase();
            !SILENT_KEYS.contains(&key.as_str())
        }
        _ => true,
    }
}

fn changed(
    step: &StepRow,
    verb: Verb,
    (region, share, focus): (Option<Region>, Option<f64>, Option<Focus>),
    elements: Option<Seen<'_>>,
) -> Abstracted {
    let (place, share) = focus.map_or((region, share), |focus| (Some(focus.largest), Some(focus.share)));
    let seen = [where_changed(step, place, share), elements.map(quoted).unwrap_or_default()];
    let seen = seen.iter().filter(|s| !s.is_empty()).map(String::as_str).collect::<Vec<_>>().join("; ");
    if let Some(message) = elements.and_then(error_message) {
        return Abstracted {
            text: format!("Failed. A message came up: \"{message}\"; {seen}."),
            outcome: StepOutcome::Failure,
            evidence: format!("message: {message}"),
        };
    }
    let typed = step.text.as_deref().map(str::trim).filter(|t| verb == Verb::Type && !t.is_empty());
    let shown =
        typed.zip(elements).is_some_and(|(typed, elements)| new_texts(elements).any(|t| t.contains(typed)));
    let distance_px = match focus {
        Some(focus) => focus.distance_px,
        None => region.zip(step.truth().point).map(|(region, point)| region.distance_px(point)),
    };
    let near = distance_px.map(|px| px <= NEAR_PX);
    let large = share.is_none_or(|share| share >= LARGE_SHARE);
    let (outcome, evidence) = match (shown, near, large) {
        (true, ..) => (StepOutcome::Success, "the typed text is on the screen"),
        (_, Some(true), _) => (StepOutcome::Success, "the screen changed where the action was"),
        (_, _, true) => (StepOutcome::Success, "a large part of the screen changed"),
        (_, Some(false), false) => {
            (StepOutcome::Unknown, "a small part of the screen changed, away from the action")
        }
        (_, None, false) if verb == Verb::Wait => {
            (StepOutcome::Unknown, "a small part of the screen changed")
        }
        (_, None, false) => (StepOutcome::Success, "the screen changed"),
    };
    let word = if outcome == StepOutcome::Success { "Succeeded. " } else { "" };
    let text = format!("{word}{}.", capital(&seen));
    Abstracted { text, outcome, evidence: evidence.to_owned() }
}

/// Where the screen changed, in words: `the top right of the screen changed (3 %)`.
fn where_changed(step: &StepRow, region: Option<Region>, share: Option<f64>) -> String {
    let (Some(region), Some(share)) = (region, share) else { return "the screen changed".to_owned() };
    let percent = match share * 100.0 {
        p if p < 0.1 => "under 0.1 %".to_owned(),
        p if p < 1.0 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    };
    if share >= 0.6 {
        return format!("most of the screen changed ({percent})");
    }
    let size = step.screen_width_px.zip(step.screen_height_px);
    // Without the trace's size, the share tells it: all that is needed is which third the middle lies in.
    let Some((width, height)) = size else { return format!("a part of the screen changed ({percent})") };
    let third = |low: u32, high: u32, side: u32| ((low + high) * 3 / (2 * side.max(1))).min(2) as usize;
    let row = ["top", "middle", "bottom"][third(region.top_px, region.bottom_px, height)];
    let column = ["left", "centre", "right"][third(region.left_px, region.right_px, width)];
    let place = match (row, column) {
        ("middle", "centre") => "middle".to_owned(),
        (row, "centre") => row.to_owned(),
        ("middle", column) => column.to_owned(),
        (row, column) => format!("{row} {column}"),
    };
    format!("the {place} of the screen changed ({percent})")
}

/// What appeared, went and changed, the first few of each.
fn quoted((before, after, change): Seen<'_>) -> String {
    let list = |texts: Vec<&str>| {
        let mut named: Vec<String> = Vec::new();
        for text in texts.into_iter().map(|t| t.split_whitespace().collect::<Vec<_>>().join(" ")) {
            let text = format!("\"{}\"", clip(&text, QUOTED).replace('"', "'"));
            if text.len() > 2 && !named.contains(&text) {
                named.push(text);
            }
        }
        let more = named.len().saturating_sub(QUOTES);
        named.truncate(QUOTES);
        let named = named.join(", ");
        if more > 0 { format!("{named} and {more} more") } else { named }
    };
    let kinds = [
        ("appeared", list(change.appeared.iter().map(|&j| after[j].text.as_str()).collect())),
        ("changed to", list(change.changed.iter().map(|&(_, j)| after[j].text.as_str()).collect())),
        ("gone", list(change.gone.iter().map(|&i| before[i].text.as_str()).collect())),
    ];
    let told =
        kinds.iter().filter(|(_, names)| !names.is_empty()).map(|(kind, names)| format!("{kind}: {names}"));
    told.collect::<Vec<_>>().join("; ")
}

/// Texts that are on the screen after and were not there before.
fn new_texts((_, after, change): Seen<'_>) -> impl Iterator<Item = &str> {
    change.appeared.iter().copied().chain(change.changed.iter().map(|c| c.1)).map(|j| after[j].text.as_str())
}

/// The first new text that says that something did not work.
fn error_message((_, after, change): Seen<'_>) -> Option<String> {
    let new = change.appeared.iter().copied().chain(change.changed.iter().map(|c| c.1));
    let told = new.map(|j| &after[j]).find(|element| {
        let text = element.text.to_lowercase();
        let role = element.role.to_lowercase();
        let told = ERROR_WORDS.iter().any(|word| is_word(&text, word))
            || ERROR_BEGINNINGS.iter().any(|word| text.trim_start().starts_with(word));
        // What asks has not failed yet.
        let asks = text.contains('?');
        told && !asks && text.len() <= MESSAGE && MESSAGE_ROLES.iter().any(|r| role.ends_with(r))
    })?;
    Some(told.text.split_whitespace().collect::<Vec<_>>().join(" ").replace('"', "'"))
}

/// Whether a text holds a word or phrase as a whole.
fn is_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        edge(text[..at].chars().next_back()) && edge(text[at + word.len()..].chars().next())
    })
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
