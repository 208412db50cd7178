//! What a low-level instruction in words says: the gesture, its target, its text.
//!
//! `Click on the 'Settings' icon.` names a click on `Settings`. The rules are few and literal:
//! the leading words of the instruction decide, quotes name an element or a typed text, and an
//! instruction that names no gesture ("Send the message.") has no verb here. The caller decides
//! what that means, and says so in [`Action::source_verb`](crate::action::Action::source_verb).

use crate::action::{Direction, Verb};

/// An instruction taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParsedPhrase {
    /// The gesture that the instruction names; `None` when it names none.
    pub verb: Option<Verb>,
    /// The leading word, as written: what [`ParsedPhrase::verb`] was read from.
    pub word: String,
    /// The element acted on: the quoted name, or else the words after the verb.
    pub target: Option<String>,
    /// Quoted text to type, the application to open, or the key to press.
    pub text: Option<String>,
    /// Direction in which content scrolls: a swipe moves the finger, a scroll the content.
    pub direction: Option<Direction>,
    /// The instruction's own word for the direction.
    pub source_direction: Option<String>,
}

/// Leading words and the verb they name; the first that matches counts, so longer ones come first.
const LEADING: &[(&str, Verb)] = &[
    ("task could not be completed", Verb::Impossible),
    ("task cannot be completed", Verb::Impossible),
    ("task is impossible", Verb::Impossible),
    ("the task cannot be done", Verb::Impossible),
    ("the task is impossible", Verb::Impossible),
    ("task completed", Verb::Complete),
    ("task complete", Verb::Complete),
    ("task is complete", Verb::Complete),
    ("task is finished", Verb::Complete),
    ("the task is finished", Verb::Complete),
    ("the task is complete", Verb::Complete),
    ("the task is done", Verb::Complete),
    ("double tap", Verb::DoubleClick),
    ("double-tap", Verb::DoubleClick),
    ("double click", Verb::DoubleClick),
    ("double-click", Verb::DoubleClick),
    ("right click", Verb::RightClick),
    ("right-click", Verb::RightClick),
    ("long press", Verb::LongPress),
    ("long-press", Verb::LongPress),
    ("long tap", Verb::LongPress),
    ("press and hold", Verb::LongPress),
    ("tap and hold", Verb::LongPress),
    ("touch and hold", Verb::LongPress),
    ("click and hold", Verb::LongPress),
    ("scroll", Verb::Scroll),
    ("swipe", Verb::Scroll),
    ("flick", Verb::Scroll),
    ("drag", Verb::Drag),
    ("hover", Verb::Hover),
    ("start typing", Verb::Type),
    ("type", Verb::Type),
    ("input", Verb::Type),
    ("write", Verb::Type),
    ("enter", Verb::Type),
    ("search for", Verb::Type),
    ("copy", Verb::Copy),
    ("paste", Verb::Paste),
    ("wait", Verb::Wait),
    ("launch", Verb::OpenApp),
    ("click", Verb::Click),
    ("tap", Verb::Click),
    ("touch", Verb::Click),
    ("press", Verb::Click),
    ("select", Verb::Click),
    ("choose", Verb::Click),
    ("pick", Verb::Click),
    ("open", Verb::Click),
    ("toggle", Verb::Click),
    ("check", Verb::Click),
    ("uncheck", Verb::Click),
];

/// Nouns that end an element's name: `Add to cart button to buy it`.
const ELEMENT_NOUNS: &[&str] = &[
    "button", "icon", "option", "tab", "link", "field", "bar", "box", "toggle", "switch", "checkbox", "key",
    "image", "menu", "slider", "app",
];

/// Words after which an unquoted name is over.
const NAME_ENDS: &[&str] = &[
    " to ",
    " at ",
    " below ",
    " above ",
    " next to ",
    " in ",
    " into ",
    " from ",
    " on the ",
    " located ",
    " using ",
    " so ",
    " and then ",
    " then ",
    ", ",
    ". ",
];

/// Takes an instruction apart; see the module for the rules.
pub fn parse_instruction(instruction: &str) -> ParsedPhrase {
    let phrase = without_opening_clause(instruction.trim());
    let lower = phrase.to_ascii_lowercase();
    let word = phrase.split_whitespace().next().unwrap_or_default();
    let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    if let Some(verb) = navigation(&lower) {
        return ParsedPhrase { verb: Some(verb), word, ..ParsedPhrase::default() };
    }
    if let Some(key) = pressed_key(&lower) {
        return ParsedPhrase { verb: Some(Verb::Press), word, text: Some(key), ..ParsedPhrase::default() };
    }
    let Some((lead, verb)) = LEADING.iter().find(|(lead, _)| starts_with_words(&lower, lead)) else {
        // "Go to the 'Alarm' tab" names no gesture, but its target.
        let target = quoted(phrase).map(|quote| quote.name.to_owned()).filter(|name| !name.is_empty());
        return ParsedPhrase { word, target, ..ParsedPhrase::default() };
    };
    let rest = &phrase[lead.len()..];
    let parsed = ParsedPhrase { verb: Some(*verb), word, ..ParsedPhrase::default() };
    match verb {
        Verb::Complete | Verb::Impossible | Verb::Wait => parsed,
        Verb::Scroll => scrolled(parsed, &lower),
        Verb::Type if *lead == "enter" && on_a_keypad(&lower) => {
            ParsedPhrase { verb: Some(Verb::Click), target: element_name(rest), ..parsed }
        }
        Verb::Type => {
            let quote = quoted(rest);
            let text = quote.map(|q| q.name.to_owned());
            let after = quote.map_or(rest, |q| q.after);
            ParsedPhrase { text, target: field_name(after), ..parsed }
        }
        Verb::OpenApp => ParsedPhrase { text: application(rest).or_else(|| element_name(rest)), ..parsed },
        Verb::Click if *lead == "open" => match application(rest) {
            Some(name) => ParsedPhrase { verb: Some(Verb::OpenApp), text: Some(name), ..parsed },
            None => ParsedPhrase { target: element_name(rest), ..parsed },
        },
        _ => ParsedPhrase { target: element_name(rest), ..parsed },
    }
}

/// `On the keyboard, type …` without the clause that says where or when.
fn without_opening_clause(phrase: &str) -> &str {
    let lower = phrase.to_ascii_lowercase();
    let opens = ["on ", "in ", "at ", "from ", "now", "then", "next", "finally", "first"];
    match phrase.split_once(", ") {
        Some((clause, rest)) if opens.iter().any(|o| lower.starts_with(o)) && quoted(clause).is_none() => {
            rest.trim()
        }
        _ => phrase,
    }
}

/// What is said of going back, after a verb of motion.
const BACK: &[&str] =
    &["go back", "get back", "move back", "return back", "navigate back", "to the previous", "to previous"];

/// Home, back and the list of recent applications, which are reached in many words.
fn navigation(lower: &str) -> Option<Verb> {
    let starts = |words: &[&str]| words.iter().any(|w| starts_with_words(lower, w));
    let says = |words: &[&str]| words.iter().any(|w| lower.contains(w));
    let moves = starts(&["go", "return", "navigate", "get", "move", "exit"]);
    let presses = starts(&["press"]);
    if (moves && says(&["home screen", "go home", "return home"])) || (presses && says(&["home button"])) {
        Some(Verb::Home)
    } else if (moves && says(BACK)) || (presses && says(&["back button"])) {
        Some(Verb::Back)
    } else if (moves || presses || starts(&["open", "view", "switch", "access", "show"]))
        && says(&[
            "recent apps",
            "recent applications",
            "recently opened apps",
            "recently used apps",
            "app switcher",
        ])
    {
        Some(Verb::Recents)
    } else {
        None
    }
}

/// `enter` of `Press the enter key to search`; `None` for a button that is not a key.
fn pressed_key(lower: &str) -> Option<String> {
    let rest = ["press ", "hit "].iter().find_map(|lead| lower.strip_prefix(lead))?;
    let rest = rest.strip_prefix("the ").unwrap_or(rest);
    let known = ["enter", "return", "backspace", "delete", "escape", "tab", "space"];
    let key = known.into_iter().find(|key| starts_with_words(rest, key))?;
    let after = rest[key.len()..].trim_start();
    (after.is_empty() || after.starts_with("key") || after.starts_with('.') || after.starts_with("to "))
        .then(|| key.to_owned())
}

/// Digits of a calculator or a PIN are tapped, not typed.
fn on_a_keypad(lower: &str) -> bool {
    ["digit", "calculator", "keypad", "pin."].iter().any(|w| lower.contains(w))
}

fn scrolled(parsed: ParsedPhrase, lower: &str) -> ParsedPhrase {
    let words = lower.split(|c: char| !c.is_alphabetic());
    let said = { words }.find_map(|w| w.parse::<Direction>().ok().map(|d| (w, d)));
    let Some((word, direction)) = said else { return parsed };
    let finger = !lower.starts_with("scroll");
    ParsedPhrase {
        direction: Some(if finger { direction.opposite() } else { direction }),
        source_direction: Some(word.to_owned()),
        ..parsed
    }
}

/// Name of the application in `the Tumblr app.`, `Firefox browser`, `the Google Play Store`.
fn application(rest: &str) -> Option<String> {
    if let Some(quote) = quoted(rest) {
        let noun = quote.after.trim_start_matches(|c: char| !c.is_alphanumeric());
        let named = ["app", "application", "browser"].iter().any(|n| starts_with_words(noun, n));
        return (named && !quote.name.is_empty()).then(|| quote.name.to_owned());
    }
    let object = unquoted_name(rest);
    let (name, noun) = object.rsplit_once(' ')?;
    match noun.to_ascii_lowercase().as_str() {
        "app" | "application" | "browser" => Some(name.trim().to_owned()),
        "store" => Some(object.clone()),
        _ => None,
    }
    // "the installed app", "the search function in the Maps app" name none.
    .filter(|name| name.contains(char::is_uppercase) && !name.contains(" in "))
}

/// The element that the words after the verb name.
fn element_name(rest: &str) -> Option<String> {
    let quote = quoted(rest).filter(|quote| {
        // A quote behind the words that say where names a landmark: `the photo below "Today"`.
        let before = without_articles(quote.before).to_ascii_lowercase();
        !NAME_ENDS.iter().any(|end| before.contains(end))
    });
    let name = quote.map_or_else(|| unquoted_name(rest), |quote| quote.name.to_owned());
    Some(name).filter(|n| !n.is_empty())
}

/// The field in ` in the search bar.` after a typed text.
fn field_name(after: &str) -> Option<String> {
    let lower = after.to_ascii_lowercase();
    let leads = [" into ", " in "];
    // `Type in a few words` says what, not where.
    if lower.starts_with(" in ") && !lower.starts_with(" in the ") {
        return None;
    }
    let (at, lead) = leads.iter().filter_map(|l| lower.find(l).map(|at| (at, l))).min()?;
    element_name(&after[at + lead.len()..])
}

/// Words of an unquoted name: up to the noun that ends it, or to the words that say where or why.
fn unquoted_name(rest: &str) -> String {
    let name = without_articles(rest).trim_end();
    let end = end_of_noun(name).unwrap_or_else(|| {
        let lower = name.to_ascii_lowercase();
        NAME_ENDS.iter().filter_map(|end| lower.find(end)).min().unwrap_or(name.len())
    });
    name[..end].trim().trim_end_matches(['.', ',', ':', ';']).to_owned()
}

/// ` on the Save button` without the words before the name.
fn without_articles(rest: &str) -> &str {
    let mut name = rest.trim_start();
    while let Some(shorter) = ["on ", "the ", "a ", "an "].iter().find_map(|lead| {
        let head = name.get(..lead.len())?;
        head.eq_ignore_ascii_case(lead).then(|| name[lead.len()..].trim_start())
    }) {
        name = shorter;
    }
    name
}

/// Where the first run of element nouns ends, unless the name is nothing but that noun.
fn end_of_noun(name: &str) -> Option<usize> {
    let mut offset = 0;
    let mut end = None;
    for (i, word) in name.split(' ').enumerate() {
        let bare = word.trim_end_matches(['.', ',', ':', ';']);
        let noun = ELEMENT_NOUNS.contains(&bare.to_ascii_lowercase().as_str());
        if end.is_some() && !noun {
            break;
        }
        if noun && i > 0 {
            end = Some(offset + bare.len());
        }
        if bare.len() < word.len() {
            break;
        }
        offset += word.len() + 1;
    }
    end
}

/// A quoted text and what stands around its quotes.
#[derive(Clone, Copy)]
struct Quote<'a> {
    before: &'a str,
    name: &'a str,
    after: &'a str,
}

/// The first quoted text. A quote opens before a word and closes after one,
/// so that the apostrophe in `Maui Jim's` is none.
fn quoted(text: &str) -> Option<Quote<'_>> {
    let mut before = ' ';
    for (at, open) in text.char_indices() {
        let close = match open {
            '\'' | '"' | '`' => open,
            '“' => '”',
            '‘' => '’',
            _ => {
                before = open;
                continue;
            }
        };
        if !before.is_alphanumeric() {
            let body = &text[at + open.len_utf8()..];
            let mut ends = body.char_indices().filter(|(end, c)| {
                let next = body[end + c.len_utf8()..].chars().next();
                *c == close && next.is_none_or(|n| !n.is_alphanumeric())
            });
            if let Some((end, c)) = ends.next().filter(|(end, _)| *end > 0) {
                let after = &body[end + c.len_utf8()..];
                return Some(Quote { before: &text[..at], name: body[..end].trim(), after });
            }
        }
        before = open;
    }
    None
}

/// True when `text` starts with `words` and a word ends there.
fn starts_with_words(text: &str, words: &str) -> bool {
    text.strip_prefix(words).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Said = (Option<Verb>, Option<String>, Option<String>);

    fn said(instruction: &str) -> Said {
        let parsed = parse_instruction(instruction);
        (parsed.verb, parsed.target, parsed.text)
    }

    fn expected(verb: Verb, target: &str, text: &str) -> Said {
        let filled = |t: &str| Some(t.to_owned()).filter(|t| !t.is_empty());
        (Some(verb), filled(target), filled(text))
    }

    #[test]
    fn a_quoted_name_is_a_target_even_without_a_gesture() {
        assert_eq!(said("Go to the 'Alarm' tab."), (None, Some("Alarm".to_owned()), None));
        assert_eq!(said("Save the alarm."), (None, None, None));
    }

    #[test]
    fn clicks_name_their_target() {
        for (instruction, target) in [
            ("Click on 'Settings'", "Settings"),
            ("click on Use location toggle button", "Use location toggle button"),
            ("Click on the Add to cart button to buy it.", "Add to cart button"),
            ("Tap the text input field labeled \"Search Wikipedia\" and type \"P\".", "Search Wikipedia"),
            ("Select 'Maui Jim's' from the list.", "Maui Jim's"),
            ("Click on the 'Start' button", "Start"),
            ("Click on the search icon at the top of the screen", "search icon"),
            ("Click on the Caribbean- Bahamas.", "Caribbean- Bahamas"),
            ("Click on the option Flight", "option Flight"),
            ("Open the More wallpapers section.", "More wallpapers section"),
            ("Enter the digit '1' in the calculator.", "1"),
            ("Tap on the photo of the flowers below the date \"Fri, Nov 24\".", "photo of the flowers"),
            ("Open the search function in the Maps app", "search function in the Maps app"),
            ("Enter the number '5' on the keypad.", "5"),
            ("Press the '+' button to add numbers.", "+"),
            ("At the bottom of the screen, click on “Done”", "Done"),
            ("Open the 'é'", "é"),
        ] {
            assert_eq!(said(instruction), expected(Verb::Click, target, ""), "{instruction}");
        }
    }

    #[test]
    fn applications_are_opened_by_name() {
        for (instruction, app) in [
            ("Open the Tumblr app.", "Tumblr"),
            ("Open The Weather Channel app.", "Weather Channel"),
            ("Open the Firefox browser.", "Firefox"),
            ("Open the Google Play Store.", "Google Play Store"),
            ("Open the 'Docs' app to start.", "Docs"),
            ("Launch Spotify", "Spotify"),
        ] {
            assert_eq!(said(instruction), expected(Verb::OpenApp, "", app), "{instruction}");
        }
        assert_eq!(said("Open the app").0, Some(Verb::Click));
    }

    #[test]
    fn typed_text_is_taken_from_quotes_only() {
        for (instruction, target, text) in [
            ("Type 'vottak' in the search bar.", "search bar", "vottak"),
            ("Enter 'coffee shop' into the search bar.", "search bar", "coffee shop"),
            ("Type in the search bar.", "search bar", ""),
            ("Type in a few words", "", ""),
            (
                "Type \"starbucks\" into the text field labeled \"Destination\" below \"Start\".",
                "Destination",
                "starbucks",
            ),
            ("On the on-screen keyboard, type the word \"park\" now", "", "park"),
        ] {
            assert_eq!(said(instruction), expected(Verb::Type, target, text), "{instruction}");
        }
    }

    #[test]
    fn navigation_keys_and_ends_of_tasks() {
        for (instruction, verb) in [
            ("Return to the home screen.", Verb::Home),
            ("Go back to the home screen.", Verb::Home),
            ("Press the home button to return.", Verb::Home),
            ("Go back to the previous screen.", Verb::Back),
            ("Return to the previous screen.", Verb::Back),
            ("Press the back button", Verb::Back),
            ("Switch to the recent apps view.", Verb::Recents),
            ("Task completed.", Verb::Complete),
            ("The task is finished.", Verb::Complete),
            ("The task cannot be done.", Verb::Impossible),
            ("Task could not be completed.", Verb::Impossible),
            ("Long-press the URL to copy it.", Verb::LongPress),
            ("Copy the meeting link.", Verb::Copy),
        ] {
            assert_eq!(said(instruction).0, Some(verb), "{instruction}");
        }
        assert_eq!(said("Press the enter key to search."), expected(Verb::Press, "", "enter"));
        assert_eq!(said("Press the search button.").0, Some(Verb::Click));
        assert_eq!(said("Send the message."), (None, None, None));
        assert_eq!(parse_instruction("Send the message.").word, "Send");
        assert_eq!(said("Selection of the image").0, None);
        assert_eq!(said("").0, None);
    }

    #[test]
    fn a_swipe_moves_the_finger_and_a_scroll_the_content() {
        let scroll = parse_instruction("Scroll down the page.");
        assert_eq!(
            (scroll.direction, scroll.source_direction.as_deref()),
            (Some(Direction::Down), Some("down"))
        );
        let swipe = parse_instruction("Swipe Up to see more");
        assert_eq!((swipe.direction, swipe.source_direction.as_deref()), (Some(Direction::Down), Some("up")));
        assert_eq!(parse_instruction("Scroll through the results.").direction, None);
    }

    proptest! {
        #[test]
        fn any_text_can_be_parsed(text in "\\PC{0,60}") {
            let _ = parse_instruction(&text);
        }

        #[test]
        fn instructions_around_any_words_can_be_parsed(
            lead in prop_oneof![Just("Click on "), Just("Type "), Just("Open the "), Just("Press "), Just("Swipe ")],
            words in "['\"“” a-zé,.]{0,40}",
        ) {
            let parsed = parse_instruction(&format!("{lead}{words}"));
            prop_assert!(parsed.target.is_none_or(|t| !t.is_empty()));
            prop_assert!(!parsed.word.is_empty());
        }
    }
}
