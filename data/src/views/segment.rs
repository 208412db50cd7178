//! Cutting an episode into intent units by rules.
//!
//! The paper leaves the segmentation to its logger ("sequential intent units that together
//! compose a trace"). Here a step starts a new unit when one of [`Boundary`]'s rules says so;
//! the rule is kept with the unit.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::trace::{EpisodeRow, StepRow};

/// Settings of the segmentation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentSettings {
    /// Longest unit, in steps; a longer run is cut.
    pub max_steps: usize,
    /// A pause longer than this starts a new unit, where steps carry times (seconds).
    pub idle_gap_secs: f64,
    /// Whether a submitting step (Send, Save, Enter in a form) ends its unit.
    pub cut_after_submit: bool,
}

impl Default for SegmentSettings {
    fn default() -> Self {
        Self { max_steps: 16, idle_gap_secs: 30.0, cut_after_submit: true }
    }
}

/// Why a unit starts where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// First step of the episode.
    Start,
    /// The source marks another sub-task.
    Subtask,
    /// HOME or the list of recent applications.
    Home,
    /// Another application in front.
    App,
    /// Another window in front.
    Window,
    /// Another site.
    Site,
    /// A pause longer than [`SegmentSettings::idle_gap_secs`].
    Idle,
    /// The step before it submitted something.
    Submit,
    /// The unit before it reached [`SegmentSettings::max_steps`].
    Length,
}

impl Boundary {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Subtask => "subtask",
            Self::Home => "home",
            Self::App => "app",
            Self::Window => "window",
            Self::Site => "site",
            Self::Idle => "idle",
            Self::Submit => "submit",
            Self::Length => "length",
        }
    }
}

/// A run of steps, as indices into the episode's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First step's index.
    pub start: usize,
    /// One past the last step's index.
    pub end: usize,
    /// The rule that started it.
    pub boundary: Boundary,
}

/// Where a step happens, as far as the source lets one tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Application, from the step, from an opening action, or from the episode's list.
    pub app: Option<String>,
    /// Window title.
    pub window: Option<String>,
    /// Host of the page's address, or the site's name.
    pub site: Option<String>,
}

static SUBMIT: LazyLock<Regex> = LazyLock::new(|| {
    let words = "send|submit|save|done|confirm|post|publish|pay|place order|checkout|check out|sign in|log in|\
                 subscribe|upload|install|add to cart|book now|reserve";
    Regex::new(&format!(r"(?i)^\W*(?:{words})\b\W*(?:button|icon|option)?\W*$")).expect("a valid pattern")
});

/// True when the step hands something in: a click on a Send, Save, Submit… element, or Enter
/// right after typing into something that is not a search field.
fn submits(steps: &[StepRow], i: usize) -> bool {
    let step = &steps[i];
    match step.action.as_str() {
        "click" | "double_click" => super::labeler::target(step).is_some_and(|name| SUBMIT.is_match(&name)),
        "press" => {
            let enter = step.text.as_deref().is_some_and(|k| k.eq_ignore_ascii_case("enter"));
            enter && i > 0 && steps[i - 1].action == "type" && !super::labeler::searches(&steps[i - 1])
        }
        _ => false,
    }
}

/// The host of an address (`https://a.b/c` gives `a.b`), or the text itself.
fn host(site: &str) -> String {
    let rest = site.split_once("://").map_or(site, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest).trim_start_matches("www.").to_lowercase()
}

/// The application that UI loggers name for clipboard events.
const CLIPBOARD: &str = "OS-Clipboard";

/// Where each step happens. The source's own fields come first; where it has none, an opening
/// action names the application until HOME or another one is opened.
pub(super) fn places(episode: &EpisodeRow, steps: &[StepRow]) -> Vec<Place> {
    let mut opened: Option<String> = match episode.apps.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    };
    let mut places = Vec::with_capacity(steps.len());
    for step in steps {
        if step.app.is_none() && episode.apps.len() != 1 {
            if let Some(app) = opened_app(episode, step, opened.is_none()) {
                opened = Some(app);
            } else if step.action == "home" || step.action == "recents" {
                opened = None;
            }
        }
        // UI logs book a copy on the clipboard itself: the user has not left the application.
        let clipboard = step.app.as_deref() == Some(CLIPBOARD);
        let before = || places.last().and_then(|p: &Place| p.app.clone());
        places.push(Place {
            app: if clipboard { before() } else { step.app.clone().or_else(|| opened.clone()) },
            window: step.window.clone(),
            site: step.site.as_deref().map(host).filter(|s| !s.is_empty()),
        });
    }
    places
}

static OPENS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?i)^\W*(?:open|launch|start|go to|switch to|return to)\s+(?:up\s+)?(?:the\s+)?["'“‘]?(.+?)["'”’]?(?:\s+app(?:lication)?)?(?:\s+(?:from|on|in) the (?:home ?screen|app (?:drawer|list)|launcher|dock)\b.*)?\W*$"#)
        .expect("a valid pattern")
});

/// The application that a step opens: an `open_app` action, or "open the X app" where X is one of
/// the applications the source lists for the episode; outside of applications also a tap on X.
fn opened_app(episode: &EpisodeRow, step: &StepRow, outside: bool) -> Option<String> {
    if step.action == "open_app" {
        return step.text.clone();
    }
    let phrase = step.instruction.as_deref()?;
    let opens = OPENS.captures(phrase).and_then(|c| Some(c.get(1)?.as_str().to_owned()));
    let tapped = || super::labeler::target(step).filter(|_| outside && step.action == "click");
    let named = opens.or_else(tapped)?.to_lowercase();
    let named = named.strip_suffix(" icon").unwrap_or(&named);
    let listed = |app: &&String| {
        let app = app.to_lowercase();
        named == app || named.strip_suffix(" app") == Some(app.as_str())
    };
    episode.apps.iter().find(listed).cloned()
}

/// Cuts an episode into units. Every step lies in exactly one span; no span is empty.
pub fn segment(episode: &EpisodeRow, steps: &[StepRow], settings: &SegmentSettings) -> Vec<Span> {
    let places = places(episode, steps);
    let mut spans: Vec<Span> = Vec::new();
    for i in 0..steps.len() {
        let current = spans.last().copied();
        let boundary = match current {
            None => Some(Boundary::Start),
            Some(span) => boundary(steps, &places, span.start, i, settings),
        };
        match (boundary, spans.last_mut()) {
            (Some(boundary), _) => spans.push(Span { start: i, end: i + 1, boundary }),
            (None, Some(span)) => span.end = i + 1,
            (None, None) => {}
        }
    }
    spans
}

/// The rule by which step `i` starts a new unit after one that began at `start`.
fn boundary(
    steps: &[StepRow],
    places: &[Place],
    start: usize,
    i: usize,
    settings: &SegmentSettings,
) -> Option<Boundary> {
    let (step, before) = (&steps[i], &steps[i - 1]);
    // A terminal step says that the task is over: it belongs to the unit that ended it.
    if step.verb().is_ok_and(crate::action::Verb::is_terminal) {
        return None;
    }
    if step.subtask != before.subtask {
        return Some(Boundary::Subtask);
    }
    let leaves = |s: &StepRow| s.action == "home" || s.action == "recents";
    if leaves(step) && !leaves(before) {
        return Some(Boundary::Home);
    }
    let idle = step.time_secs.zip(before.time_secs).is_some_and(|(t, u)| t - u > settings.idle_gap_secs);
    if idle {
        return Some(Boundary::Idle);
    }
    // An opening action right after HOME goes with it: the way to the application is one unit
    // with what is done there.
    let on_the_way = (start..i).all(|j| leaves(&steps[j]));
    if !on_the_way {
        if changed(&places[i - 1].app, &places[i].app) {
            return Some(Boundary::App);
        }
        if changed(&places[i - 1].site, &places[i].site) {
            return Some(Boundary::Site);
        }
        if changed(&places[i - 1].window, &places[i].window) {
            return Some(Boundary::Window);
        }
    }
    if settings.cut_after_submit && submits(steps, i - 1) {
        return Some(Boundary::Submit);
    }
    (i - start >= settings.max_steps.max(1)).then_some(Boundary::Length)
}

/// A switch needs both sides known: a source that falls silent has not left.
fn changed(before: &Option<String>, now: &Option<String>) -> bool {
    matches!((before, now), (Some(a), Some(b)) if a != b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Action, Verb};
    use crate::trace::{Episode, Format, Outcome, Platform, Step};

    fn rows(steps: Vec<Step>) -> (EpisodeRow, Vec<StepRow>) {
        Episode {
            episode_id: "gui-odyssey:1".into(),
            format: Format::GuiOdyssey,
            source: "a.json".into(),
            source_key: String::new(),
            platform: Platform::Mobile,
            instruction: "Set an alarm and text Ann".into(),
            apps: vec!["Clock".into(), "Messages".into()],
            domain: None,
            outcome: Outcome::Unknown,
            split: None,
            extra: None,
            steps,
        }
        .into_rows()
    }

    fn step(i: u32, verb: Verb, phrase: &str) -> Step {
        let mut s = Step::new(i, format!("steps[{i}]"), Action::new(verb, "X"));
        s.instruction = Some(phrase.into());
        s
    }

    fn cut(steps: Vec<Step>) -> Vec<(usize, usize, &'static str)> {
        let (episode, rows) = rows(steps);
        segment(&episode, &rows, &SegmentSettings::default())
            .into_iter()
            .map(|s| (s.start, s.end, s.boundary.name()))
            .collect()
    }

    #[test]
    fn home_starts_a_unit_and_the_opening_goes_with_it() {
        let steps = vec![
            step(0, Verb::Click, "Open the Clock app"),
            step(1, Verb::Click, "Tap Alarm"),
            step(2, Verb::Home, "Go home"),
            step(3, Verb::Click, "Open Messages"),
            step(4, Verb::Type, "Type hello"),
            step(5, Verb::Complete, "Done"),
        ];
        assert_eq!(cut(steps), vec![(0, 2, "start"), (2, 6, "home")]);
    }

    #[test]
    fn a_listed_application_opened_by_phrase_is_a_switch() {
        let steps = vec![
            step(0, Verb::Click, "Open the Clock app"),
            step(1, Verb::Click, "Tap Alarm"),
            step(2, Verb::Click, "Switch to the 'Messages' app"),
            step(3, Verb::Type, "Type hello"),
        ];
        assert_eq!(cut(steps), vec![(0, 2, "start"), (2, 4, "app")]);
    }

    #[test]
    fn a_tap_on_a_listed_application_counts_outside_of_applications_only() {
        let steps = vec![
            step(0, Verb::Click, "Tap the Clock icon."),
            step(1, Verb::Click, "Tap Messages"),
            step(2, Verb::Recents, "Show recent apps"),
            step(3, Verb::Click, "Open the Messages app from the home screen."),
        ];
        let (episode, rows) = rows(steps.clone());
        let apps: Vec<_> = places(&episode, &rows).into_iter().map(|p| p.app).collect();
        let of = |name: &str| Some(name.to_owned());
        assert_eq!(apps, [of("Clock"), of("Clock"), None, of("Messages")]);
        assert_eq!(cut(steps), vec![(0, 2, "start"), (2, 4, "home")]);
    }

    #[test]
    fn the_clipboard_is_no_application() {
        let mut steps: Vec<Step> = (0..4).map(|i| step(i, Verb::Click, "")).collect();
        for (step, app) in steps.iter_mut().zip(["Excel", "OS-Clipboard", "Excel", "Chrome"]) {
            step.app = Some(app.into());
        }
        assert_eq!(cut(steps), vec![(0, 3, "start"), (3, 4, "app")]);
    }

    #[test]
    fn submit_idle_subtask_and_length_cut() {
        let mut steps =
            vec![step(0, Verb::Type, "Type"), step(1, Verb::Click, "Tap Send"), step(2, Verb::Click, "x")];
        steps[1].action.target.name = Some("Send".into());
        assert_eq!(cut(steps), vec![(0, 2, "start"), (2, 3, "submit")]);

        let mut steps = vec![step(0, Verb::Click, "a"), step(1, Verb::Click, "b")];
        steps[0].time_secs = Some(0.0);
        steps[1].time_secs = Some(31.0);
        assert_eq!(cut(steps), vec![(0, 1, "start"), (1, 2, "idle")]);

        let mut steps = vec![step(0, Verb::Click, "a"), step(1, Verb::Click, "b")];
        steps[1].subtask = Some("two".into());
        assert_eq!(cut(steps), vec![(0, 1, "start"), (1, 2, "subtask")]);

        let steps = (0..20).map(|i| step(i, Verb::Click, "a")).collect();
        assert_eq!(cut(steps), vec![(0, 16, "start"), (16, 20, "length")]);
    }

    #[test]
    fn enter_in_a_search_field_does_not_cut() {
        let mut steps =
            vec![step(0, Verb::Type, "Type"), step(1, Verb::Press, "Enter"), step(2, Verb::Click, "x")];
        steps[0].action.target.name = Some("Search box".into());
        steps[1].action.text = Some("enter".into());
        assert_eq!(cut(steps.clone()), vec![(0, 3, "start")]);
        steps[0].action.target.name = Some("Comment".into());
        assert_eq!(cut(steps), vec![(0, 2, "start"), (2, 3, "submit")]);
    }

    #[test]
    fn hosts_are_compared_not_addresses() {
        assert_eq!(host("https://www.Example.com/a?b#c"), "example.com");
        assert_eq!(host("budget"), "budget");
    }

    proptest::proptest! {
        #[test]
        fn spans_partition_the_steps(kinds in proptest::collection::vec((0usize..21, 0u8..3, 0u8..4), 0..60)) {
            let steps = kinds
                .iter()
                .enumerate()
                .map(|(i, &(verb, app, minute))| {
                    let mut s = step(i as u32, Verb::ALL[verb], "do it");
                    s.app = (app > 0).then(|| format!("app{app}"));
                    s.time_secs = Some(f64::from(minute) * 60.0);
                    s
                })
                .collect();
            let (episode, rows) = rows(steps);
            let settings = SegmentSettings { max_steps: 5, ..SegmentSettings::default() };
            let spans = segment(&episode, &rows, &settings);
            let mut next = 0;
            for span in &spans {
                proptest::prop_assert_eq!(span.start, next);
                proptest::prop_assert!(span.end > span.start);
                next = span.end;
            }
            proptest::prop_assert_eq!(next, rows.len());
        }
    }
}
