//! The built-in executor: deterministic, on the CPU, for screens whose elements are known as text.
//!
//! It reads an atomic instruction by rules, grounds its target in the elements' labels, roles and places,
//! and answers with an action. It does not look at pixels, knows no synonyms ("settings" is not "options")
//! and does not infer what a screen is for. Where several elements fit equally it answers with the first
//! and says so; where none fits it answers `error(…)` rather than guess.

use rayon::prelude::*;
use tracemill_data::action::{Action, Direction, Verb};
use tracemill_data::adapters::{ParsedPhrase, parse_instruction};
use tracemill_data::grammar::write_action;
use tracemill_data::trace::Element;

use super::ground::{Grounding, ground};
use super::{Command, Executor, Reply};
use crate::chat::{ChatError, Outcome};

/// The lexical executor.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lexical;

/// What was decided, and why.
struct Decision {
    action: Action,
    why: String,
    ambiguous: Vec<String>,
}

impl Decision {
    fn new(action: Action, why: impl Into<String>) -> Self {
        Self { action, why: why.into(), ambiguous: Vec::new() }
    }
}

impl Lexical {
    /// Name and version, for artifacts that depend on it.
    pub const NAME: &'static str = "lexical@1";

    /// Carries out one command.
    pub fn execute(&self, command: Command<'_>) -> Reply {
        let Decision { action, why, ambiguous } = decide(command);
        // Labels are quoted in the thought, and may hold anything.
        let why = why.replace('<', "‹");
        let text = format!("<think>{why}</think><answer>{}</answer>", write_action(&action));
        Reply { text, ambiguous }
    }
}

impl Executor for Lexical {
    fn name(&self) -> String {
        Self::NAME.to_owned()
    }

    fn execute_all(&self, commands: &[Command<'_>]) -> Result<Vec<Outcome<Reply>>, ChatError> {
        Ok(commands.par_iter().map(|command| Outcome::Reply(self.execute(*command))).collect())
    }
}

fn decide(command: Command<'_>) -> Decision {
    let Command { instruction, screen, image: _ } = command;
    let parsed = understood(instruction);
    let elements = &screen.elements;
    match parsed.verb {
        Some(verb @ (Verb::Home | Verb::Back | Verb::Recents | Verb::Wait | Verb::Complete)) => {
            Decision::new(Action::new(verb, verb.name()), format!("The instruction says {verb}."))
        }
        Some(Verb::Impossible) => Decision::new(Action::new(Verb::Impossible, "error"), "It cannot be done."),
        Some(Verb::Press) => {
            let action = Action { text: parsed.text.clone(), ..Action::new(Verb::Press, "press") };
            Decision::new(action, "The instruction names a key.")
        }
        Some(Verb::Scroll) => scroll(&parsed),
        Some(Verb::OpenApp) => open_app(instruction, &parsed, elements),
        Some(Verb::Type) => type_text(instruction, &parsed, elements),
        Some(verb @ (Verb::LongPress | Verb::DoubleClick | Verb::RightClick | Verb::Hover)) => {
            on_element(verb, instruction, &parsed, elements)
        }
        // Copying and the like are done by touching what is named; so is what names no gesture.
        _ => on_element(Verb::Click, instruction, &parsed, elements),
    }
}

/// The instruction as a phrase. Beside what [`parse_instruction`] knows: the gesture may follow the words
/// that say where (`In the field 'Title', type "x"`), and text may be put, set or filled in.
fn understood(instruction: &str) -> ParsedPhrase {
    let parsed = parse_instruction(instruction);
    if parsed.verb.is_some() {
        return parsed;
    }
    if let Some((place, rest)) = instruction.split_once(", ") {
        let inner = parse_instruction(rest);
        if inner.verb.is_some() {
            let target = parse_instruction(place).target.or(inner.target);
            return ParsedPhrase { target, ..inner };
        }
    }
    let fills = ["fill", "put", "set", "insert"].iter().any(|w| parsed.word.eq_ignore_ascii_case(w));
    match parsed.target {
        Some(text) if fills => {
            ParsedPhrase { verb: Some(Verb::Type), target: None, text: Some(text), ..parsed }
        }
        target => ParsedPhrase { target, ..parsed },
    }
}

fn scroll(parsed: &ParsedPhrase) -> Decision {
    let direction = parsed.direction.unwrap_or(Direction::Down).name();
    let mut action = Action::new(Verb::Scroll, "scroll");
    action.source_direction = Some(direction.to_owned());
    Decision::new(
        action,
        match parsed.direction {
            Some(_) => format!("The instruction says where the content scrolls: {direction}."),
            None => format!("The instruction names no direction; {direction} is the usual one."),
        },
    )
}

/// An application whose name stands on the screen is opened there, as a person would.
fn open_app(instruction: &str, parsed: &ParsedPhrase, elements: &[Element]) -> Decision {
    if let Some(found) = ground(instruction, parsed, elements) {
        return touched(Verb::Click, &found, elements, None);
    }
    let action = Action { text: parsed.text.clone(), ..Action::new(Verb::OpenApp, "open_app") };
    Decision::new(action, "The application is not on the screen: it is opened by name.")
}

fn on_element(verb: Verb, instruction: &str, parsed: &ParsedPhrase, elements: &[Element]) -> Decision {
    match ground(instruction, parsed, elements) {
        Some(found) => touched(verb, &found, elements, None),
        None => nothing_fits(parsed, elements),
    }
}

/// Text goes into the field that is named, or else into the only one there is.
fn type_text(instruction: &str, parsed: &ParsedPhrase, elements: &[Element]) -> Decision {
    let fields: Vec<usize> = (0..elements.len()).filter(|&i| takes_text(&elements[i])).collect();
    let among: Vec<Element> = fields.iter().map(|&i| elements[i].clone()).collect();
    let text = parsed.text.clone();
    let found = ground(instruction, parsed, &among).map(|mut found| {
        found.best.iter_mut().for_each(|candidate| candidate.element = fields[candidate.element]);
        found
    });
    match (found, fields.as_slice()) {
        (Some(found), _) => touched(Verb::Type, &found, elements, text),
        (None, [only]) => {
            let mut action = Action { text, ..Action::new(Verb::Type, "type") };
            action.target.element = Some(elements[*only].id.clone());
            Decision::new(action, "There is one field to type into.")
        }
        (None, _) => {
            if let Some(found) = ground(instruction, parsed, elements) {
                return touched(Verb::Type, &found, elements, text);
            }
            let action = Action { text, ..Action::new(Verb::Type, "type") };
            Decision::new(action, "No field fits: the text goes where the cursor is.")
        }
    }
}

fn takes_text(element: &Element) -> bool {
    let role = element.role.to_lowercase();
    ["input", "edit", "textbox", "entry", "textarea", "searchbox"].iter().any(|r| role.contains(r))
}

fn touched(verb: Verb, found: &Grounding, elements: &[Element], text: Option<String>) -> Decision {
    let chosen = &elements[found.best[0].element];
    let mut action = Action { text, ..Action::new(verb, verb.name()) };
    let label = chosen.text.replace('\n', " / ");
    // Text screens list the back key as an element: touching it is going back.
    if verb == Verb::Click && chosen.text.trim().eq_ignore_ascii_case("go back") && chosen.bbox.is_none() {
        action = Action::new(Verb::Back, "press_back");
    }
    action.target.element = Some(chosen.id.clone());
    let ambiguous: Vec<String> = match found.best.as_slice() {
        [_] => Vec::new(),
        several => several.iter().map(|c| elements[c.element].id.clone()).collect(),
    };
    let mut why = format!("{} {} \"{label}\" fits.", chosen.role, chosen.id);
    if !ambiguous.is_empty() {
        why += &format!(" So do {}: the instruction does not tell them apart.", ambiguous[1..].join(", "));
    }
    Decision { action, why, ambiguous }
}

fn nothing_fits(parsed: &ParsedPhrase, elements: &[Element]) -> Decision {
    let named = parsed.target.as_deref().unwrap_or("what the instruction names");
    let why = format!("None of the {} elements fits \"{named}\".", elements.len());
    let text = Some(format!("no element fits {named}"));
    Decision::new(Action { text, ..Action::new(Verb::Impossible, "error") }, why)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tracemill_data::action::FrameName;
    use tracemill_data::grammar::{parse_action, strict_answer};
    use tracemill_data::prompt::step_words;
    use tracemill_data::trace::{Episode, Format, Platform, Screen, Step};

    use super::*;

    fn screen(elements: &[(&str, &str, &[&str])]) -> Screen {
        let elements = elements.iter().enumerate().map(|(i, (role, text, states))| Element {
            id: i.to_string(),
            role: (*role).to_owned(),
            text: (*text).to_owned(),
            states: states.iter().map(|s| (*s).to_owned()).collect(),
            bbox: None,
        });
        Screen { elements: elements.collect(), ..Screen::default() }
    }

    fn settings() -> Screen {
        screen(&[
            ("p", "Settings", &[]),
            ("button", "Customize colors (Locked)", &[]),
            ("button", "Customize widget colors", &[]),
            ("checkbox", "Start week on Sunday", &["checked=True"]),
            ("p", "ALARM TAB", &[]),
            ("button", "Max reminder duration\n5 minutes", &[]),
            ("button", "Max reminder duration\n1 minute", &[]),
            ("input", "Search folders", &[]),
            ("button", "Timer", &[]),
            ("p", "Timer", &[]),
            ("button", "+", &[]),
            ("button", "go back", &[]),
        ])
    }

    fn answer(instruction: &str, screen: &Screen) -> (String, Vec<String>) {
        let reply = Lexical.execute(Command { instruction, screen, image: None });
        let answer = strict_answer(&reply.text).expect("the form is always right").to_owned();
        (answer, reply.ambiguous)
    }

    #[test]
    fn instructions_are_grounded_in_labels() {
        for (instruction, expected) in [
            ("Tap the 'Customize widget colors' button.", "click(element='2')"),
            ("click on customize colors (locked)", "click(element='1')"),
            ("Select Start week on Sunday", "click(element='3')"),
            ("Uncheck 'Start week on Sunday'", "click(element='3')"),
            ("Start the week on Sundays", "click(element='3')"),
            ("Tap Max reminder duration 1 minute", "click(element='6')"),
            ("Tap the 5 minutes option", "click(element='5')"),
            ("Tap the Timer button", "click(element='8')"),
            ("Press the '+' button", "click(element='10')"),
            ("Type 'holiday' into the search field", "type(element='7', content='holiday')"),
            ("Enter \"x y\".", "type(element='7', content='x y')"),
            ("Tap the button below 'ALARM TAB'", "click(element='5')"),
            ("Long press the Settings text", "long_press(element='0')"),
            ("Go back to the previous screen", "press_back()"),
            ("Tap the go back button", "press_back(element='11')"),
            ("Scroll up", "scroll(direction='up')"),
            ("Swipe up", "scroll(direction='down')"),
            ("Tap the only checkbox", "click(element='3')"),
            ("In the field labelled 'Search folders', type \"x\"", "type(element='7', content='x')"),
            ("Fill in \"x\" where it says folders", "type(element='7', content='x')"),
            ("Task completed.", "finished()"),
            ("The task is finished.", "finished()"),
            ("Tap 'Delete account'", "error(content='no element fits Delete account')"),
        ] {
            assert_eq!(answer(instruction, &settings()), (expected.to_owned(), vec![]), "{instruction}");
        }
    }

    #[test]
    fn what_the_instruction_does_not_tell_apart_is_said_to_be_ambiguous() {
        let twins = screen(&[("button", "Delete", &[]), ("p", "Delete", &[]), ("button", "Delete", &[])]);
        assert_eq!(
            answer("Tap 'Delete'", &twins),
            ("click(element='0')".to_owned(), ["0", "1", "2"].map(str::to_owned).to_vec())
        );
        assert_eq!(answer("Tap the Delete button", &twins).1, ["0", "2"]);
        assert_eq!(answer("Tap the second Delete button", &twins), ("click(element='2')".to_owned(), vec![]));
        let followers =
            screen(&[("button", "Followers", &[]), ("p", "x", &[]), ("button", "Followers", &[])]);
        assert_eq!(answer("Tap 'Followers'", &followers).1, ["0", "2"], "`lower` is no place here");
        let names = screen(&[("input", "Last name", &[]), ("input", "Last name", &[])]);
        assert_eq!(answer("Tap Last name", &names).1, ["0", "1"]);
        assert_eq!(answer("Tap the last 'Delete'", &twins), ("click(element='2')".to_owned(), vec![]));
    }

    /// Gold instructions of sources without any are worded by rule: the executor must understand them.
    #[test]
    fn steps_worded_by_rule_are_carried_out() {
        let mut steps = Vec::new();
        for verb in Verb::ALL {
            let mut action = Action::new(verb, "");
            action.text = match verb {
                Verb::Press => Some("enter".to_owned()),
                Verb::Type | Verb::OpenApp | Verb::Select | Verb::Navigate => Some("Clock".to_owned()),
                _ => None,
            };
            action.direction = Some(Direction::Down);
            action.target.element = Some("7".to_owned());
            let mut step = Step::new(steps.len() as u32, "", action);
            step.screen = settings();
            steps.push(step);
        }
        let episode = Episode {
            episode_id: "e".to_owned(),
            format: Format::Droidtask,
            source: String::new(),
            source_key: String::new(),
            platform: Platform::Mobile,
            instruction: "Do it".to_owned(),
            apps: Vec::new(),
            domain: None,
            outcome: tracemill_data::trace::Outcome::Unknown,
            split: None,
            extra: None,
            steps,
        };
        // What one atomic instruction on a list of elements cannot say, or this executor cannot do.
        let beyond = [Verb::Drag, Verb::SwitchWindow, Verb::Navigate, Verb::Select, Verb::Copy, Verb::Paste];
        for step in episode.into_rows().1 {
            let verb = step.verb().expect("a verb");
            let words = step_words(&step).expect("words");
            let done = parse_action(&answer(&words, &settings()).0, FrameName::Pixels).expect("an action");
            let impossible = verb == Verb::Impossible;
            assert_eq!(done.action.verb == verb || impossible, !beyond.contains(&verb), "{words} {done:?}");
        }
    }

    proptest! {
        #[test]
        fn any_instruction_on_any_screen_gets_an_action(
            instruction in "(Tap|Type|Open|Press the|Scroll)?[ '\"a-z0-9é+]{0,30}( below | in )?\\PC{0,8}",
            labels in proptest::collection::vec(("(button|input|p)?", "\\PC{0,10}(</?answer>)?"), 0..6),
        ) {
            let labels: Vec<(&str, &str, &[&str])> =
                labels.iter().map(|(r, t)| (r.as_str(), t.as_str(), [].as_slice())).collect();
            let screen = screen(&labels);
            let reply = Lexical.execute(Command { instruction: &instruction, screen: &screen, image: None });
            let content = strict_answer(&reply.text).unwrap_or_default();
            prop_assert!(parse_action(content, FrameName::Pixels).is_ok(), "{}", reply.text);
        }
    }
}
