//! The four views as text. [`RuleLabeler`] writes them from the source's own fields; an LLM
//! labeler can follow behind the same trait.

use std::sync::LazyLock;

use regex::Regex;

use super::incidental::clean;
use super::segment::{Place, places};
use super::{Span, Unit, UnitAction, UnitKind};
use crate::action::Verb;
use crate::adapters::parse_instruction;
use crate::artifact::AliasMap;
use crate::trace::{EpisodeRow, StepRow};

/// Version of the rules; part of every unit.
pub const VERSION: &str = "rules-1";

/// Writes the views of units.
pub trait Labeler: Send + Sync {
    /// Name and version, kept with every unit.
    fn name(&self) -> String;

    /// The units of one episode, one for each span, in order.
    fn label(&self, episode: &EpisodeRow, steps: &[StepRow], spans: &[Span]) -> Vec<Unit>;
}

/// Views by rules: E from application, window and site (else from the screen's description), A
/// from verbs and targets, K from typed and searched text, D from step instructions (else from
/// thoughts, else from the task). Nothing is made up: a view whose source is silent is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleLabeler;

impl Labeler for RuleLabeler {
    fn name(&self) -> String {
        VERSION.to_owned()
    }

    fn label(&self, episode: &EpisodeRow, steps: &[StepRow], spans: &[Span]) -> Vec<Unit> {
        let places = places(episode, steps);
        spans
            .iter()
            .map(|span| {
                label_span(episode, &steps[span.start..span.end], &places[span.start..span.end], span)
            })
            .collect()
    }
}

fn label_span(episode: &EpisodeRow, steps: &[StepRow], places: &[Place], span: &Span) -> Unit {
    let (first_step, last_step) = (steps[0].step, steps[steps.len() - 1].step);
    let env_tag = env_tag(episode, places);
    let mut unit = Unit {
        unit_id: format!("{}/{first_step}-{last_step}", episode.episode_id),
        episode_id: episode.episode_id.clone(),
        first_step,
        last_step,
        kind: if browses(episode, steps, places) { UnitKind::Browse } else { UnitKind::Control },
        env: env_text(episode, steps, places, &env_tag),
        action: String::new(),
        keyword: keyword_text(steps),
        description: String::new(),
        env_tag,
        act_tag: act_tag(steps),
        boundary: span.boundary.name().to_owned(),
        labeler: VERSION.to_owned(),
        actions: steps.iter().map(unit_action).collect(),
    };
    let serving: Vec<&StepRow> = serving(&unit).into_iter().map(|i| &steps[i]).collect();
    unit.action = action_text(&serving);
    unit.description = description_text(episode, &serving);
    unit
}

/// Positions of the steps that serve the intent: all but waits, dismissed pop-ups, retries and detours.
fn serving(unit: &Unit) -> Vec<usize> {
    static MAP: LazyLock<AliasMap> = LazyLock::new(AliasMap::builtin);
    clean(&[unit], &MAP).swap_remove(0).kept
}

fn unit_action(step: &StepRow) -> UnitAction {
    UnitAction {
        step: step.step,
        verb: step.action.clone(),
        source_verb: step.source_verb.clone(),
        target: target(step),
        role: step.target_role.clone(),
        text: step.text.clone(),
        direction: step.direction.clone(),
        phrase: step.instruction.clone(),
    }
}

/// Label of the element acted on: the source's own field, else the name in the step's low-level
/// instruction (`Tap the 'Save' button.`), where that speaks of the same kind of action.
pub(super) fn target(step: &StepRow) -> Option<String> {
    if step.target_name.is_some() {
        return step.target_name.clone();
    }
    let pointer = |verb: Verb| {
        matches!(
            verb,
            Verb::Click | Verb::DoubleClick | Verb::RightClick | Verb::LongPress | Verb::Hover | Verb::Select
        )
    };
    let verb = step.verb().ok()?;
    let said = parse_instruction(step.instruction.as_deref()?);
    let name = match said.verb {
        // The icon of an application.
        Some(Verb::OpenApp) if pointer(verb) => said.text,
        Some(other) if other == verb || (pointer(verb) && pointer(other)) => said.target,
        None if pointer(verb) => said.target,
        _ => None,
    };
    name.filter(|name| !name.trim().is_empty())
}

/// The application or site in which most of the unit's steps happen; ties go to the later one,
/// since a unit often begins on the way to its application.
fn env_tag(episode: &EpisodeRow, places: &[Place]) -> String {
    let named: Vec<&str> = places.iter().filter_map(|p| p.site.as_deref().or(p.app.as_deref())).collect();
    let count = |name: &str| named.iter().filter(|&&n| n == name).count();
    match named.iter().copied().max_by_key(|&name| count(name)) {
        Some(name) => name.to_owned(),
        None if episode.apps.len() == 1 => episode.apps[0].clone(),
        None => String::new(),
    }
}

fn act_tag(steps: &[StepRow]) -> String {
    let verbs: Vec<_> =
        steps.iter().filter(|s| !s.verb().is_ok_and(Verb::is_terminal)).map(|s| s.action.as_str()).collect();
    verbs.join(" ")
}

/// Appends `part` unless it is blank or already there.
fn push_distinct(parts: &mut Vec<String>, part: &str) {
    let part = part.trim();
    if !part.is_empty() && !parts.iter().any(|p| p.eq_ignore_ascii_case(part)) {
        parts.push(part.to_owned());
    }
}

fn env_text(episode: &EpisodeRow, steps: &[StepRow], places: &[Place], env_tag: &str) -> String {
    let mut parts = Vec::new();
    push_distinct(&mut parts, env_tag);
    for place in places {
        for name in [&place.app, &place.site, &place.window].into_iter().flatten() {
            push_distinct(&mut parts, name);
        }
    }
    if parts.is_empty() {
        // The source names no application: say what its screens show.
        for step in steps {
            if let Some(screen) = shown_screen(step) {
                push_distinct(&mut parts, &screen);
            }
        }
        parts.truncate(3);
    }
    if parts.is_empty() {
        // All that is known of where it happened.
        push_distinct(&mut parts, episode.domain.as_deref().unwrap_or_default());
        push_distinct(&mut parts, &episode.platform);
    }
    parts.join(", ")
}

static SCREEN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)^\W*(?:this|it|the image|the screen|the screenshot)\s+(?:is|shows|displays|appears to be)\s+(?:an?\s+)?(?:(?:screenshot|screen|image|view|interface)\s+(?:of|from|showing|displaying)\s+)?(?:an?\s+|the\s+)?(.+)",
    )
    .expect("a valid pattern")
});

/// What a screen shows, from the first sentence of its description (or of the thought, where the
/// source joins the two): `Google Play Store search page`.
fn shown_screen(step: &StepRow) -> Option<String> {
    let text = step.description.as_deref().or(step.thought.as_deref())?;
    let captured = SCREEN.captures(first_sentence(text))?.get(1)?.as_str();
    // The subject comes first; what follows the comma or relative clause is detail.
    let end = [", ", " showing ", " displaying ", " that ", " which ", " with "]
        .iter()
        .filter_map(|cut| captured.find(cut))
        .min()
        .unwrap_or(captured.len());
    Some(captured[..end].trim_end_matches('.').trim().to_owned())
}

fn first_sentence(text: &str) -> &str {
    let end = text.find(". ").map_or(text.len(), |i| i + 1);
    text[..end].trim()
}

fn action_text(steps: &[&StepRow]) -> String {
    let typed = typed_texts(steps);
    let parts: Vec<String> = steps.iter().filter_map(|step| step_action_text(step, &typed)).collect();
    parts.join("; ")
}

/// A cell or a range of cells: `B4`, `$B$2:C9`.
static CELL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\$?[A-Z]{1,3}\$?[1-9][0-9]{0,6}(?::\$?[A-Z]{1,3}\$?[1-9][0-9]{0,6})?$")
        .expect("a valid pattern")
});

/// `click Save`, `scroll down`, `type in Search`: the verb and what it was applied to, without the
/// values, which are the keyword view's.
fn step_action_text(step: &StepRow, typed: &[&str]) -> Option<String> {
    if step.verb().is_ok_and(Verb::is_terminal) {
        return None;
    }
    let verb = step.action.replace('_', " ");
    let target = target(step).or_else(|| step.target_role.clone());
    // Which cell of a sheet it was, or which result of a search, is a value, not what is done.
    let target = target.map(|name| {
        if CELL.is_match(&name) {
            "cell".to_owned()
        } else if typed.iter().any(|text| text.trim().eq_ignore_ascii_case(name.trim())) {
            "what was typed".to_owned()
        } else {
            name
        }
    });
    Some(match (step.action.as_str(), target.as_deref()) {
        ("scroll", _) => {
            format!("{verb} {}", step.direction.as_deref().unwrap_or_default()).trim().to_owned()
        }
        ("press" | "open_app" | "switch_window", _) => {
            format!("{verb} {}", step.text.as_deref().unwrap_or_default()).trim().to_owned()
        }
        ("type" | "paste", Some(field)) => format!("{verb} in {field}"),
        ("select", Some(field)) => format!("{verb} {field}"),
        (_, Some(target)) => format!("{verb} {target}"),
        (_, None) => verb,
    })
}

fn keyword_text(steps: &[StepRow]) -> String {
    let mut parts = Vec::new();
    for step in steps {
        let typed = matches!(step.action.as_str(), "type" | "paste" | "select" | "navigate");
        if let Some(text) = step.text.as_deref().filter(|_| typed) {
            push_distinct(&mut parts, text);
        }
    }
    parts.join("; ")
}

fn description_text(episode: &EpisodeRow, steps: &[&StepRow]) -> String {
    let mut parts = Vec::new();
    if let Some(subtask) = steps.iter().find_map(|s| s.subtask.as_deref()) {
        push_distinct(&mut parts, subtask);
    }
    let typed = typed_texts(steps);
    for step in steps {
        if let Some(text) = &step.instruction {
            push_distinct(&mut parts, &without_values(text.trim_end_matches('.'), &typed));
        }
    }
    if parts.is_empty() {
        for step in steps {
            if let Some(thought) = &step.thought {
                push_distinct(&mut parts, intention(thought));
            }
        }
    }
    if parts.is_empty() {
        push_distinct(&mut parts, &episode.instruction);
    }
    parts.join("; ")
}

fn typed_texts<'a>(steps: &[&'a StepRow]) -> Vec<&'a str> {
    let typed = steps.iter().filter(|step| step.action == "type");
    typed.filter_map(|step| step.text.as_deref().map(str::trim)).filter(|text| !text.is_empty()).collect()
}

/// The instruction with what the unit types left out where it is quoted: values are the keyword
/// view's, and an intent is the same whatever they are.
fn without_values(instruction: &str, typed: &[&str]) -> String {
    let mut text = instruction.to_owned();
    for value in typed {
        for (open, close) in [('\'', '\''), ('"', '"'), ('“', '”'), ('‘', '’')] {
            text = text.replace(&format!("{open}{value}{close}"), "…");
        }
    }
    text
}

/// The last sentence but explanations: released rows join description and intention, and the
/// intention is the part that starts with "I am …"; without one, the whole thought.
fn intention(thought: &str) -> &str {
    match thought.rfind("I am ").or_else(|| thought.find("I'm ")) {
        Some(start) => first_sentence(&thought[start..]),
        None => first_sentence(thought),
    }
}

/// True when the step types into a search field or says that it searches.
pub(super) fn searches(step: &StepRow) -> bool {
    let says = |text: &Option<String>| text.as_deref().is_some_and(|t| t.to_lowercase().contains("search"));
    says(&target(step)) || says(&step.target_role) || says(&step.instruction)
}

/// A browsing unit looks something up: on a page or in a browser (or in any search field), one or
/// two texts typed, at least one of them searched for. Filling a form is control.
fn browses(episode: &EpisodeRow, steps: &[StepRow], places: &[Place]) -> bool {
    let typed: Vec<usize> =
        (0..steps.len()).filter(|&i| steps[i].action == "type" && steps[i].text.is_some()).collect();
    let navigates = steps.iter().any(|s| s.action == "navigate" && s.text.is_some());
    let browser = |p: &Place| {
        p.site.is_some()
            || p.app.as_deref().is_some_and(|a| {
                let a = a.to_lowercase();
                ["chrome", "firefox", "browser", "safari", "edge", "opera"].iter().any(|b| a.contains(b))
            })
    };
    let in_browser = episode.platform == "web" || places.iter().any(browser);
    let entered = |i: usize| {
        steps.get(i + 1).is_some_and(|next| {
            next.action == "press" && next.text.as_deref().is_some_and(|k| k.eq_ignore_ascii_case("enter"))
        })
    };
    let searched = typed.iter().any(|&i| searches(&steps[i]) || (in_browser && entered(i)));
    navigates || (searched && typed.len() <= 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;
    use crate::trace::{Episode, Format, Outcome, Platform, Step};
    use crate::views::{SegmentSettings, segment};

    fn step(i: u32, verb: Verb, target: &str, text: &str) -> Step {
        let mut action = Action::new(verb, "X");
        action.target.name = (!target.is_empty()).then(|| target.to_owned());
        action.text = (!text.is_empty()).then(|| text.to_owned());
        Step::new(i, format!("steps[{i}]"), action)
    }

    fn label(platform: Platform, apps: &[&str], steps: Vec<Step>) -> Vec<Unit> {
        let (episode, steps) = Episode {
            episode_id: "mind2web:1".into(),
            format: Format::Mind2web,
            source: "a.jsonl".into(),
            source_key: String::new(),
            platform,
            instruction: "Find a truck".into(),
            apps: apps.iter().map(|&a| a.to_owned()).collect(),
            domain: Some("Travel".into()),
            outcome: Outcome::Unknown,
            split: None,
            extra: None,
            steps,
        }
        .into_rows();
        let spans = segment(&episode, &steps, &SegmentSettings::default());
        RuleLabeler.label(&episode, &steps, &spans)
    }

    #[test]
    fn a_search_is_browsing_and_a_form_is_control() {
        let mut steps = vec![
            step(0, Verb::Click, "Search box", ""),
            step(1, Verb::Type, "Search box", "truck 08817"),
            step(2, Verb::Press, "", "enter"),
        ];
        steps.iter_mut().for_each(|s| s.site = Some("https://www.budget.com/x".into()));
        let units = label(Platform::Web, &[], steps);
        assert_eq!(units.len(), 1);
        assert_eq!(units[0].kind, UnitKind::Browse);
        assert_eq!(units[0].env, "budget.com");
        assert_eq!(units[0].env_tag, "budget.com");
        assert_eq!(units[0].action, "click Search box; type in Search box; press enter");
        assert_eq!(units[0].keyword, "truck 08817");
        assert_eq!(units[0].description, "Find a truck");
        assert_eq!(units[0].act_tag, "click type press");
        assert_eq!(units[0].unit_id, "mind2web:1/0-2");

        let steps = ["Name", "Street", "Town"].iter().enumerate();
        let steps = steps.map(|(i, f)| step(i as u32, Verb::Type, f, f)).collect();
        assert_eq!(label(Platform::Web, &[], steps)[0].kind, UnitKind::Control);
    }

    fn said(i: u32, verb: Verb, text: &str, instruction: &str) -> Step {
        let mut s = step(i, verb, "", text);
        s.instruction = Some(instruction.to_owned());
        s
    }

    #[test]
    fn names_come_from_the_instruction_and_values_and_incidents_stay_out() {
        let steps = vec![
            said(0, Verb::Home, "", "Go to the home screen."),
            said(1, Verb::Click, "", "Tap the Messages icon."),
            said(2, Verb::Click, "", "Tap 'Not now' to dismiss the dialog."),
            said(3, Verb::Click, "", "Click on the 'To' field."),
            said(4, Verb::Type, "Ann", "Enter 'Ann' in the 'To' field."),
            said(5, Verb::Wait, "", "Wait for the page to load."),
            said(6, Verb::Click, "", "Tap 'Ann' in the list."),
            said(7, Verb::Click, "", "Go to the 'Chats' tab."),
            said(8, Verb::Complete, "", "Task completed."),
        ];
        let units = label(Platform::Mobile, &["Messages", "Clock"], steps);
        assert_eq!(units.len(), 1);
        let unit = &units[0];
        assert_eq!((unit.env.as_str(), unit.env_tag.as_str()), ("Messages", "Messages"));
        assert_eq!(
            unit.action,
            "click Messages icon; click To; type in To; click what was typed; click Chats"
        );
        assert_eq!(unit.keyword, "Ann");
        assert_eq!(
            unit.description,
            "Tap the Messages icon; Click on the 'To' field; Enter … in the 'To' field; Tap … in the list; Go to \
             the 'Chats' tab"
        );
        assert_eq!(unit.act_tag, "home click click click type wait click click", "the tag has every step");
        assert_eq!(unit.actions.len(), 9, "nothing is lost");
    }

    #[test]
    fn cells_of_a_sheet_are_values() {
        let steps = vec![step(0, Verb::Click, "B4", ""), step(1, Verb::Click, "$A$1:C9", "")];
        assert_eq!(label(Platform::Desktop, &["Excel"], steps)[0].action, "click cell; click cell");
        let steps = vec![step(0, Verb::Click, "AB", ""), step(1, Verb::Click, "A0", "")];
        assert_eq!(label(Platform::Desktop, &["Excel"], steps)[0].action, "click AB; click A0");
    }

    #[test]
    fn a_screen_described_in_words_stands_in_for_the_application() {
        let mut s = step(0, Verb::Click, "", "");
        s.thought = Some(
            "This is a screenshot of a Google Play Store search page, showing recent searches. More.I am selecting \
             the search bar. This is right."
                .into(),
        );
        let units = label(Platform::Mobile, &[], vec![s]);
        assert_eq!(units[0].env, "Google Play Store search page");
        assert_eq!(units[0].env_tag, "", "a description is no application field");
        assert_eq!(units[0].description, "I am selecting the search bar.");
        assert_eq!(units[0].keyword, "", "nothing was typed");
    }
}
