//! A step in words, for sources without low-level instructions: by rule, so that the same step is always
//! worded alike.

use crate::action::Verb;
use crate::trace::StepRow;

/// Name and version of the rule, for artifacts that depend on it.
pub const STEP_WORDS: &str = "step-words@1";

/// The step as an atomic instruction: `Tap the "New Timer" button.` What is touched is named by the words
/// on the screen, else by its role, else by its place in pixels. `None` where nothing names it.
pub fn step_words(step: &StepRow) -> Option<String> {
    let text = step.text.as_deref().unwrap_or_default().trim();
    let target = target(step);
    let on = |gesture: &str| target.as_ref().map(|target| format!("{gesture} {target}."));
    let with = |words: &str| match text {
        "" => format!("{words}."),
        text => format!("{words} \"{text}\"."),
    };
    let words = match step.verb().ok()? {
        Verb::Click => return on("Tap"),
        Verb::DoubleClick => return on("Double-click"),
        Verb::RightClick => return on("Right-click"),
        Verb::LongPress => return on("Long-press"),
        Verb::Drag => return on("Drag"),
        Verb::Hover => return on("Hover over"),
        Verb::Scroll => match &step.direction {
            Some(direction) => format!("Scroll {direction}."),
            None => "Scroll.".to_owned(),
        },
        Verb::Type => match &target {
            Some(target) => format!("Type \"{text}\" into {target}."),
            None => with("Type"),
        },
        Verb::Press if text.is_empty() => "Press a key.".to_owned(),
        Verb::Press => format!("Press the {text} key."),
        Verb::Home => "Go to the home screen.".to_owned(),
        Verb::Back => "Go back.".to_owned(),
        Verb::Recents => "Open the list of recent applications.".to_owned(),
        Verb::OpenApp => match text {
            "" => "Open the app.".to_owned(),
            text => format!("Open the \"{text}\" app."),
        },
        Verb::SwitchWindow => with("Switch to the window"),
        Verb::Navigate => with("Go to"),
        Verb::Select => match &target {
            Some(target) => format!("Select \"{text}\" in {target}."),
            None => with("Select"),
        },
        Verb::Copy => with("Copy"),
        Verb::Paste => with("Paste"),
        Verb::Wait => "Wait.".to_owned(),
        Verb::Complete => "The task is finished.".to_owned(),
        Verb::Impossible => "The task cannot be done.".to_owned(),
    };
    Some(words)
}

/// The step for a history: [`step_words`], or the kind of action alone where nothing names what it was done to.
pub fn step_trace(step: &StepRow) -> String {
    step_words(step)
        .unwrap_or_else(|| format!("{} (on something without a name).", step.action.replace('_', " ")))
}

fn target(step: &StepRow) -> Option<String> {
    let element = step.target_element.as_ref().and_then(|id| step.elements.iter().find(|e| e.id == *id));
    let label = step.target_name.as_deref().or(element.map(|e| e.text.as_str())).unwrap_or_default();
    let label = label.split_whitespace().collect::<Vec<_>>().join(" ");
    let role = step.target_role.as_deref().or(element.map(|e| e.role.as_str())).unwrap_or_default();
    match (label.as_str(), noun(role)) {
        ("", "") => {
            let [x, y] = step.truth().point?;
            Some(format!("the point ({}, {})", x.round(), y.round()))
        }
        ("", noun) => Some(format!("the {noun}")),
        (label, "") => Some(format!("\"{label}\"")),
        (label, noun) => Some(format!("the \"{label}\" {noun}")),
    }
}

/// A person's word for a role of an element.
pub fn noun(role: &str) -> &str {
    match role {
        "p" | "text" | "TEXT" => "text",
        "input" => "field",
        role => role,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Action, Direction, Normalized, Point, ScreenSize};
    use crate::trace::{Element, Episode, Format, Outcome, Platform, Step};

    fn row(step: Step) -> StepRow {
        let episode = Episode {
            episode_id: "e".to_owned(),
            format: Format::Droidtask,
            source: String::new(),
            source_key: String::new(),
            platform: Platform::Mobile,
            instruction: String::new(),
            apps: Vec::new(),
            domain: None,
            outcome: Outcome::Unknown,
            split: None,
            extra: None,
            steps: vec![step],
        };
        episode.into_rows().1.remove(0)
    }

    #[test]
    fn every_verb_has_words() {
        for verb in Verb::ALL {
            let mut step = Step::new(0, "", Action::new(verb, ""));
            let words = step_trace(&row(step.clone()));
            assert!(words.ends_with('.') && !words.contains("\"\"."), "{verb}: {words}");
            step.action.target.name = Some("OK".to_owned());
            assert!(step_words(&row(step)).is_some(), "{verb}");
        }
    }

    #[test]
    fn what_nothing_names_is_not_named() {
        let untold = row(Step::new(0, "", Action::new(Verb::Click, "")));
        assert_eq!(step_words(&untold), None);
        assert_eq!(step_trace(&untold), "click (on something without a name).");
        let mut action = Action::new(Verb::Click, "");
        action.point = Some(Point::<Normalized>::new(0.5, 0.25).into());
        let mut step = Step::new(0, "", action);
        assert_eq!(step_words(&row(step.clone())), None, "a share of an unknown screen is no place");
        step.screen.size = Some(ScreenSize { width_px: 100, height_px: 200 });
        assert_eq!(step_words(&row(step)).as_deref(), Some("Tap the point (50, 50)."));
    }

    #[test]
    fn what_is_touched_is_named_by_the_screen() {
        let mut action = Action::new(Verb::Type, "");
        action.text = Some("tea".to_owned());
        action.target.element = Some("7".to_owned());
        let mut step = Step::new(0, "", action);
        let (id, role, text) = ("7".to_owned(), "input".to_owned(), "Timer\nlabel".to_owned());
        step.screen.elements = vec![Element { id, role, text, ..Element::default() }];
        assert_eq!(step_words(&row(step)).as_deref(), Some("Type \"tea\" into the \"Timer label\" field."));
        let mut action = Action::new(Verb::Scroll, "");
        action.direction = Some(Direction::Down);
        assert_eq!(step_words(&row(Step::new(0, "", action))).as_deref(), Some("Scroll down."));
    }
}
