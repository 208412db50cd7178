//! Scorer profiles: named, versioned sets of rules. A score always names the profile that gave it.

use std::collections::BTreeSet;

use tracemill_data::action::Verb;
use tracemill_data::grammar::literal::{Literal, leading_value};
use tracemill_data::grammar::{Reply, released_answer, strict_answer};

/// When a reply's form earns the format term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatRule {
    /// `<think>…</think>` then `<answer>…</answer>`, white space allowed around them and nothing else.
    Strict,
    /// CES's released expression: no white space between the blocks.
    Released,
    /// GUI-R1's: the tags, and in the answer a list of dictionaries with the three keys of its prompt.
    GuiR1,
}

/// When a click or long press hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointRule {
    /// Inside a box, edges included; where the row has none, within [`Profile::MAX_DISTANCE`].
    BoxElseDistance,
    /// Inside a box, edges included, or within [`Profile::MAX_DISTANCE`] of the true point.
    BoxOrDistance,
    /// Strictly inside a box; where the row has none, within 140 pixels of the true point.
    StrictBoxElsePixels,
}

/// When a text matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRule {
    /// F1 of the lower-cased token sets above 0.5; two empty texts match.
    F1AboveHalf,
    /// The same; two empty texts fail.
    F1AboveHalfNotEmpty,
    /// F1 of at least 0.5; two single tokens match when one holds the other; two empty texts fail.
    F1HalfOrMore,
    /// One text holds the other, or normalised Levenshtein similarity of at least 0.5; case counts.
    SubstringOrAnls,
}

/// A set of rules by which a reply is scored.
///
/// `executor = γ1·type + γ2·param` (CES, Eq. 23) and `total = α1·format + α2·executor` (Eq. 21). The
/// parameter counts only when the type is right: read literally, Eq. 25 would pay a long press for
/// landing in a click's box.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "a table of rules, some of which are yes or no")]
pub struct Profile {
    /// The name on the command line and in every result.
    pub name: &'static str,
    /// Changes whenever a rule does.
    pub version: u32,
    /// Weight of the format term.
    pub alpha_format: f64,
    /// Weight of the executor term.
    pub alpha_executor: f64,
    /// Weight of the type inside the executor term.
    pub gamma_type: f64,
    /// Weight of the parameter inside the executor term.
    pub gamma_param: f64,
    /// See [`FormatRule`].
    pub format: FormatRule,
    /// Whether an agent's tagged output of the wrong form counts as empty, which makes its total 0.
    pub bad_format_is_empty: bool,
    /// Whether the State Tracker's reward has a format term (Eq. 18).
    pub tracker_format: bool,
    /// Whether the executor of a State Tracker's reward gets all that the Coordinator wrote, or the
    /// content of its answer.
    pub tracker_passes_whole_output: bool,
    /// See [`PointRule`].
    pub point: PointRule,
    /// Whether a scroll's direction is compared.
    pub scroll_direction: bool,
    /// Verbs whose parameter is compared; of the others the type decides.
    pub compared: &'static [Verb],
    /// See [`TextRule`].
    pub text: TextRule,
}

/// Every verb with a parameter.
const EVERY: &[Verb] = &[
    Verb::Click,
    Verb::LongPress,
    Verb::DoubleClick,
    Verb::RightClick,
    Verb::Hover,
    Verb::Drag,
    Verb::Scroll,
    Verb::Type,
    Verb::OpenApp,
    Verb::Select,
    Verb::Navigate,
    Verb::SwitchWindow,
];

const PAPER: Profile = Profile {
    name: "paper",
    version: 1,
    alpha_format: 0.1,
    alpha_executor: 0.9,
    gamma_type: 0.2,
    gamma_param: 0.8,
    format: FormatRule::Strict,
    bad_format_is_empty: false,
    tracker_format: true,
    tracker_passes_whole_output: false,
    point: PointRule::BoxElseDistance,
    scroll_direction: true,
    compared: EVERY,
    text: TextRule::F1AboveHalf,
};

const CES_CODE: Profile = Profile {
    name: "ces-code",
    format: FormatRule::Released,
    bad_format_is_empty: true,
    tracker_format: false,
    tracker_passes_whole_output: true,
    point: PointRule::BoxOrDistance,
    scroll_direction: false,
    text: TextRule::F1AboveHalfNotEmpty,
    ..PAPER
};

const SWIRL: Profile = Profile { name: "swirl", scroll_direction: true, ..CES_CODE };

const GUI_R1: Profile = Profile {
    name: "gui-r1",
    alpha_format: 0.2,
    alpha_executor: 0.8,
    gamma_type: 0.0,
    gamma_param: 1.0,
    format: FormatRule::GuiR1,
    point: PointRule::StrictBoxElsePixels,
    compared: &[Verb::Click, Verb::Type, Verb::Select, Verb::Scroll],
    text: TextRule::F1HalfOrMore,
    ..PAPER
};

const ODYSSEY: Profile = Profile {
    name: "odyssey",
    alpha_format: 0.0,
    alpha_executor: 1.0,
    gamma_type: 0.0,
    gamma_param: 1.0,
    point: PointRule::BoxOrDistance,
    text: TextRule::SubstringOrAnls,
    ..PAPER
};

impl Profile {
    /// Every profile; the first is the default.
    pub const ALL: [Self; 5] = [PAPER, CES_CODE, SWIRL, GUI_R1, ODYSSEY];

    /// Largest Euclidean distance from the true point that still counts, in shares of the screen's width
    /// and height.
    pub const MAX_DISTANCE: f64 = 0.14;

    /// GUI-R1's radius, in pixels.
    pub const MAX_PIXELS: f64 = 140.0;

    /// The profile of a name.
    ///
    /// # Errors
    /// Names the profiles there are.
    pub fn named(name: &str) -> Result<&'static Self, String> {
        const ALL: &[Profile] = &Profile::ALL;
        ALL.iter().find(|p| p.name == name).ok_or_else(|| {
            let names: Vec<_> = ALL.iter().map(|p| p.name).collect();
            format!("unknown profile `{name}`; known profiles: {}", names.join(", "))
        })
    }

    /// The answer of a reply whose form is right under this profile; `None` earns no format term.
    pub fn answer<'a>(&self, reply: &'a str) -> Option<&'a str> {
        match self.format {
            FormatRule::Strict => strict_answer(reply),
            FormatRule::Released => released_answer(reply),
            FormatRule::GuiR1 => {
                let outer_space = reply.len() != reply.trim().len();
                strict_answer(reply).filter(|answer| !outer_space && gui_r1_actions(answer))
            }
        }
    }

    /// What of an agent's output is passed on, and whether its form is right. An output of the wrong form is
    /// read as far as it can be, unless the profile empties it.
    pub fn read<'a>(&self, reply: &'a str) -> (bool, Option<&'a str>) {
        match self.answer(reply) {
            Some(answer) => (true, Some(answer)),
            None if self.bad_format_is_empty && Reply::is_tagged(reply) => (false, None),
            None => (false, Some(Reply::of(reply).content())),
        }
    }

    /// Whether `predicted` matches `truth`, and the similarity that decided it.
    pub fn text_matches(&self, predicted: &str, truth: &str) -> (bool, f64) {
        match self.text {
            TextRule::SubstringOrAnls => {
                let held = predicted.contains(truth) || truth.contains(predicted);
                let similarity = if held { 1.0 } else { strsim::normalized_levenshtein(predicted, truth) };
                (similarity >= 0.5, similarity)
            }
            rule => {
                let (a, b) = (predicted.to_lowercase(), truth.to_lowercase());
                let (a, b): (BTreeSet<&str>, BTreeSet<&str>) =
                    (a.split_whitespace().collect(), b.split_whitespace().collect());
                if a.is_empty() && b.is_empty() {
                    let matches = rule == TextRule::F1AboveHalf;
                    return (matches, f64::from(u8::from(matches)));
                }
                let f1 = 2.0 * a.intersection(&b).count() as f64 / (a.len() + b.len()) as f64;
                let single = || match (a.first(), b.first()) {
                    (Some(x), Some(y)) => a.len() == 1 && b.len() == 1 && (x.contains(y) || y.contains(x)),
                    _ => false,
                };
                match rule {
                    TextRule::F1HalfOrMore if single() => (true, 1.0),
                    TextRule::F1HalfOrMore => (f1 >= 0.5, f1),
                    _ => (f1 > 0.5, f1),
                }
            }
        }
    }
}

/// GUI-R1's `format` of an answer: a list of dictionaries, each with `action`, a `point` of two whole
/// numbers and an `input_text`, which must say something where the action needs it.
fn gui_r1_actions(answer: &str) -> bool {
    let Ok((Literal::List(actions), "")) = leading_value(answer.trim()) else { return false };
    let get = |pairs: &[(String, Literal)], name: &str| {
        pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    };
    let is_whole = |value: &Literal| matches!(value, Literal::Number(n) if n.fract() == 0.0);
    let well_formed = |action: &Literal| {
        let Literal::Map(pairs) = action else { return false };
        let (Some(Literal::Text(verb)), Some(Literal::List(point)), Some(Literal::Text(text))) =
            (get(pairs, "action"), get(pairs, "point"), get(pairs, "input_text"))
        else {
            return false;
        };
        let says_enough = match verb.as_str() {
            "type" | "select" | "open_app" => !text.is_empty() && text != "no input text",
            "scroll" => ["left", "right", "up", "down"].contains(&text.as_str()),
            _ => true,
        };
        point.len() == 2 && point.iter().all(is_whole) && says_enough
    };
    !actions.is_empty() && actions.iter().all(well_formed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(name: &str) -> &'static Profile {
        Profile::named(name).expect("known")
    }

    #[test]
    fn names_are_known_and_unknown_ones_listed() {
        assert_eq!(profile("swirl").name, "swirl");
        let error = Profile::named("peper").expect_err("unknown");
        assert!(error.contains("paper, ces-code, swirl, gui-r1, odyssey"), "{error}");
    }

    #[test]
    fn texts_match_by_each_rule() {
        let matches = |name: &str, a: &str, b: &str| profile(name).text_matches(a, b).0;
        for (a, b, paper, ces, gui_r1, odyssey) in [
            ("a b", "a c", false, false, true, true),
            ("New York", "new york city usa", true, true, true, false),
            ("", "", true, false, false, true),
            ("", "x", false, false, false, true),
            ("york", "yorkshire", false, false, true, true),
            ("abcd", "wxyz", false, false, false, false),
            ("ABCD", "abcd", true, true, true, false),
        ] {
            let found = (matches("paper", a, b), matches("ces-code", a, b));
            assert_eq!(found, (paper, ces), "{a:?} {b:?}");
            assert_eq!((matches("gui-r1", a, b), matches("odyssey", a, b)), (gui_r1, odyssey), "{a:?} {b:?}");
        }
    }

    #[test]
    fn gui_r1_wants_its_dictionaries() {
        let formed = |answer: &str| {
            profile("gui-r1").answer(&format!("<think>t</think> <answer>{answer}</answer>")).is_some()
        };
        assert!(formed("[{'action': 'click', 'point': [1, 2], 'input_text': 'no input text'}]"));
        assert!(formed("[{'action': 'scroll', 'point': [-100, -100], 'input_text': 'up'}]"));
        for bad in [
            "[{'action': 'click', 'point': [1.5, 2], 'input_text': 'no input text'}]",
            "[{'action': 'type', 'point': [1, 2], 'input_text': 'no input text'}]",
            "[{'action': 'scroll', 'point': [1, 2], 'input_text': 'north'}]",
            "[{'action': 'click', 'point': [1, 2]}]",
            "{'action': 'click', 'point': [1, 2], 'input_text': ''}",
            "[] ",
            "click(point='(1, 2)')",
        ] {
            assert!(!formed(bad), "{bad}");
        }
    }
}
