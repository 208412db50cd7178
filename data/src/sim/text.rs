//! The words of a phone episode, in the manner of GUI-Odyssey's annotations.

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::layout::{Overlay, Place};
use super::walk::{Act, Move, Noise, Played, Why};
use super::world::{Do, Role, World, fill};
use crate::action::Direction;

type Patterns = &'static [&'static str];

/// The patterns of a step's low-level instruction. `{l}`: label, `{t}`: text, `{n}`: the task's
/// noun, `{f}`: the field.
fn instruction_patterns(m: &Move) -> Patterns {
    match (m.act, m.why) {
        (Act::Complete, _) => &["Task completed."],
        (Act::Home, _) => &["Return to the home screen.", "Go to the home screen.", "Press the home button."],
        (Act::Recents, _) => &["Switch to the recent apps view.", "Show the list of recently used apps."],
        (Act::Back, _) => &[
            "Go back to the previous screen.",
            "Press the back button to leave this page.",
            "Return to the previous page.",
        ],
        (_, Why::Open) if matches!(m.scene.place, Place::Recents { .. }) => {
            &["Open the {l} app.", "Open the {l} application.", "Switch to the {l} app."]
        }
        (_, Why::Open) => &[
            "Open the {l} app.",
            "Launch the {l} app.",
            "Open the {l} application.",
            "Open the {l} app from the home screen.",
            "Tap the {l} icon.",
        ],
        (_, Why::Noise(Noise::Wait)) => &[
            "Wait for the page to load.",
            "Wait until the content has loaded.",
            "Wait for the screen to appear.",
        ],
        (_, Why::Noise(Noise::Popup)) => &[
            "Dismiss the pop-up by tapping '{l}'.",
            "Tap '{l}' to dismiss the dialog.",
            "Dismiss the prompt with '{l}'.",
        ],
        (Act::Do(act), _) => step_patterns(act, m),
    }
}

fn step_patterns(act: Do, m: &Move) -> Patterns {
    match act {
        Do::Type => &["Type '{t}'.", "Enter '{t}' in the '{f}' field.", "Type \"{t}\" into the '{f}' box."],
        Do::Scroll(Direction::Up) => &["Scroll up to the top of the page.", "Scroll back up."],
        Do::Scroll(_) => {
            &["Scroll down to view more.", "Scroll down the page.", "Scroll down to see the rest."]
        }
        Do::Select => &[
            "Select '{l}' from the list.",
            "Choose '{l}' from the options.",
            "Select the '{l}' option in the list.",
            "Select '{l}'.",
        ],
        Do::Long => &["Long press '{l}'.", "Press and hold '{l}'.", "Long press on the item '{l}'."],
        _ if m.verb == "save" => &["Save the {n}.", "Tap '{l}' to save the {n}.", "Tap the '{l}' button."],
        _ => tap_patterns(m.target.as_ref().map_or(Role::Button, |t| t.role)),
    }
}

fn tap_patterns(role: Role) -> Patterns {
    match role {
        Role::Tab => &["Tap the '{l}' tab.", "Go to the '{l}' tab.", "Click the '{l}' tab."],
        Role::Field => &[
            "Tap the '{l}' field.",
            "Click on the '{l}' input field.",
            "Tap on '{l}' to place the cursor there.",
        ],
        Role::Switch => &["Tap the '{l}' switch.", "Toggle the switch '{l}'.", "Click the toggle for '{l}'."],
        Role::Row => &["Tap '{l}' in the list.", "Click on '{l}'.", "Tap on '{l}'.", "Tap the entry '{l}'."],
        Role::Action | Role::Fab => &["Tap the '{l}' icon.", "Tap '{l}'.", "Click the '{l}' icon."],
        _ => &["Tap the '{l}' button.", "Tap '{l}'.", "Click '{l}'.", "Click on the '{l}' button."],
    }
}

/// The words for one move of an episode.
#[derive(Debug)]
pub(super) struct Words {
    pub instruction: String,
    pub description: String,
    pub intention: String,
    /// Progress before the move.
    pub context: String,
}

/// The words of every move, in order.
pub(super) fn words(world: &World, played: &Played<'_>, rng: &mut ChaCha8Rng) -> Vec<Words> {
    let mut past: Vec<String> = Vec::new();
    played
        .moves
        .iter()
        .map(|m| {
            let pattern = pick(instruction_patterns(m), rng);
            let instruction = fill_move(pattern, m, played);
            let words = Words {
                description: description(world, m, played, rng),
                intention: intention(m, played, &instruction, rng),
                context: context(m, played, &past),
                instruction,
            };
            past.push(past_clause(m, played));
            words
        })
        .collect()
}

fn pick(patterns: Patterns, rng: &mut ChaCha8Rng) -> &'static str {
    patterns.choose(rng).copied().unwrap_or_default()
}

fn fill_move(pattern: &str, m: &Move, played: &Played<'_>) -> String {
    let label = m.target.as_ref().map_or("", |t| t.label.as_str());
    let text = m.text.as_deref().unwrap_or_default();
    let noun = played.segments[m.segment].template.noun.as_str();
    pattern.replace("{n}", noun).replace("{f}", label).replace("{l}", label).replace("{t}", text)
}

fn description(world: &World, m: &Move, played: &Played<'_>, rng: &mut ChaCha8Rng) -> String {
    let (about, labels) = match m.scene.place {
        Place::Home => {
            ("an Android home screen".to_owned(), names(world.apps.iter().map(|a| a.name.as_str()), 5))
        }
        Place::Recents { .. } => ("the list of recent applications".to_owned(), String::new()),
        Place::App { app, screen } => {
            let screen = &world.apps[app].screens[screen];
            let labels = screen.elements.iter().filter(|e| e.list.is_none()).map(|e| e.label.as_str());
            (fill(&screen.about, &played.bind), fill(&names(labels, 4), &played.bind))
        }
    };
    let over = match m.scene.overlay {
        Some(Overlay::Popup(k)) => format!(" A dialog titled '{}' covers it.", world.popups[k].title),
        Some(Overlay::Loading) => " It is still loading.".to_owned(),
        None => String::new(),
    };
    if labels.is_empty() {
        return format!("This is a screenshot of {about}.{over}");
    }
    match rng.random_range(0..3) {
        0 => format!("This is a screenshot of {about}, showing {labels}.{over}"),
        1 => format!("The screen shows {about}. It contains {labels}.{over}"),
        _ => format!("This is {about} with {labels}.{over}"),
    }
}

fn names<'a>(labels: impl Iterator<Item = &'a str>, most: usize) -> String {
    let labels: Vec<_> = labels.take(most).map(|l| format!("'{l}'")).collect();
    match labels.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => labels.concat(),
    }
}

/// Why the move is made, in the first person. The goal is worded anew at each move.
fn intention(m: &Move, played: &Played<'_>, instruction: &str, rng: &mut ChaCha8Rng) -> String {
    let segment = &played.segments[m.segment];
    let goal = segment.template.phrasings.choose(rng).map(|p| fill(p, &played.bind)).unwrap_or_default();
    let app = &segment.app.name;
    let act = lower_first(instruction.trim_end_matches('.'));
    match m.why {
        Why::Terminal => {
            let goals: Vec<_> =
                played.segments.iter().map(|s| fill(&s.template.done, &played.bind)).collect();
            format!("The task is complete because {}.", goals.join(" and "))
        }
        Why::Transition => format!("I am leaving this app because the next part of the task is in {app}."),
        Why::Open => format!("I need the {app} app to {goal}."),
        Why::Noise(kind) => noise_reason(kind, &act),
        Why::Task { .. } => match rng.random_range(0..4) {
            0 => format!("I {act}, which helps me {goal}."),
            1 => format!("To {goal}, I have to {act}."),
            2 => format!("I am choosing to {act}. This action is appropriate because I want to {goal}."),
            _ => format!("In order to {goal}, the next step is to {act}."),
        },
    }
}

fn noise_reason(kind: Noise, act: &str) -> String {
    match kind {
        Noise::Popup => format!("A dialog is in the way, so I {act} before going on."),
        Noise::Detour => format!("I {act} while looking for the right place."),
        Noise::Retry => format!("I {act}, but the screen does not react."),
        Noise::Wait => "The screen is not ready yet, so I wait.".to_owned(),
        Noise::Scroll => format!("I {act} to see what this page offers."),
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_lowercase().chain(chars).collect())
}

/// What the move did, as a clause in the past.
fn past_clause(m: &Move, played: &Played<'_>) -> String {
    let pattern = match (m.act, m.why) {
        (Act::Home, _) => "the home screen has been shown",
        (Act::Recents, _) => "the recent apps have been listed",
        (Act::Back, _) => "the previous screen has been restored",
        (_, Why::Open) => "the {l} app has been opened",
        (_, Why::Noise(Noise::Popup)) => "a dialog has been dismissed",
        (_, Why::Noise(Noise::Wait)) => "the screen has been given time to load",
        (Act::Do(Do::Type), _) => "'{t}' has been typed",
        (Act::Do(Do::Scroll(_)), _) => "the page has been scrolled",
        (Act::Do(Do::Select), _) => "the option '{l}' has been selected",
        (Act::Do(Do::Long), _) => "'{l}' has been pressed for long",
        _ => "'{l}' has been tapped",
    };
    fill_move(pattern, m, played)
}

/// Finished tasks in full, the present one by its last three moves.
fn context(m: &Move, played: &Played<'_>, past: &[String]) -> String {
    let finished = played.segments[..m.segment].iter().map(|s| fill(&s.template.done, &played.bind));
    let moves = played.moves[..past.len()].iter().zip(past);
    let present: Vec<_> =
        moves.filter(|(done, _)| done.segment == m.segment).map(|(_, clause)| clause.clone()).collect();
    let recent = present[present.len().saturating_sub(3)..].iter().cloned();
    let clauses: Vec<_> = finished.chain(recent).collect();
    if clauses.is_empty() {
        return "Task just started, nothing has been done.".to_owned();
    }
    format!("So far, {}.", clauses.join(", and "))
}

/// The whole task in one sentence.
pub(super) fn task(goals: &[String], rng: &mut ChaCha8Rng) -> String {
    let joined = match goals {
        [one] => one.clone(),
        [first, second] if rng.random_bool(0.5) => format!("first {first}, and then {second}"),
        [first, rest @ ..] => {
            let mut text = first.clone();
            for goal in rest {
                text.push_str(", then ");
                text.push_str(goal);
            }
            text
        }
        [] => String::new(),
    };
    let mut chars = joined.chars();
    let sentence: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
    format!("{sentence}.")
}
