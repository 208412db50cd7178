//! The reward of a reply: what it earned, for which reason, or why nothing can be said.

use serde::Serialize;
use tracemill_data::action::{Action, FrameName, Verb};
use tracemill_data::artifact::{ScreenPixels, Truth};
use tracemill_data::grammar::{Meaning, Reply, Shown, parse_action, vocabulary, write_action};

use super::profile::{PointRule, Profile};

/// What became of a reply. Only [`Outcome::Score`] is a number: a sample that abstains or failed leaves
/// its group, which is scored over the rest.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// A score with its components.
    Score(Score),
    /// The row holds nothing to score against.
    Abstain {
        /// What is missing.
        reason: String,
    },
    /// The call that should have given the reply failed, or the row cannot be read.
    Error {
        /// What happened.
        reason: String,
    },
}

impl Outcome {
    /// `score`, `abstain` or `error`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Score(_) => "score",
            Self::Abstain { .. } => "abstain",
            Self::Error { .. } => "error",
        }
    }

    /// The score, where there is one.
    pub fn score(&self) -> Option<&Score> {
        match self {
            Self::Score(score) => Some(score),
            Self::Abstain { .. } | Self::Error { .. } => None,
        }
    }
}

/// The components of a score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// `α1·format + α2·executor` (Eq. 21).
    pub total: f64,
    /// 1 when the reply's form is right, else 0 (Eq. 22).
    pub format: f64,
    /// 1 when the action's type is right, else 0 (Eq. 24).
    #[serde(rename = "type")]
    pub type_term: f64,
    /// 1 when its parameter is right, else 0 (Eq. 25).
    pub param: f64,
    /// `γ1·type + γ2·param` (Eq. 23).
    pub executor: f64,
    /// The action as it was read, in the grammar of CES; absent when none could be.
    pub parsed: Option<String>,
    /// Distance from the true point, in shares of the screen; absent where it was not needed.
    pub distance: Option<f64>,
    /// Similarity of the texts by the profile's rule; absent where no text was compared.
    pub similarity: Option<f64>,
    /// Why, in a sentence.
    pub reason: String,
}

/// What a truth asks for: its verb, with the key of a key press.
struct Wanted<'a> {
    meaning: Meaning,
    truth: &'a Truth,
}

/// What the comparison of the parameter found.
#[derive(Default)]
struct Match {
    hit: bool,
    distance: Option<f64>,
    similarity: Option<f64>,
    reason: String,
}

impl Match {
    fn hit(reason: impl Into<String>) -> Self {
        Self { hit: true, reason: reason.into(), ..Self::default() }
    }

    fn miss(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..Self::default() }
    }
}

/// Scores an executor's raw reply, tags optional, coordinates in pixels of `screen`.
///
/// A reply that holds no action scores 0 on type and parameter. A row without the truth that its action
/// needs abstains, whatever the reply says.
pub fn score_reply(profile: &Profile, reply: &str, truth: &Truth, screen: Option<ScreenPixels>) -> Outcome {
    let wanted = match wanted(profile, truth, screen) {
        Ok(wanted) => wanted,
        Err(reason) => return Outcome::Abstain { reason },
    };
    let format = profile.answer(reply).is_some();
    let mut score = match parse_action(Reply::of(reply).content(), FrameName::Pixels) {
        Ok(parsed) => score_parsed(profile, format, &parsed.action, &wanted, screen),
        Err(fault) => total(profile, format, None, false, Match::miss(format!("unparsable: {fault}"))),
    };
    // The released code empties what has the tags and not their form; what the action would have earned
    // still shows in its terms.
    if !format && profile.bad_format_is_empty && Reply::is_tagged(reply) {
        score.total = 0.0;
        score.reason.insert_str(0, "tags not in the profile's form, total 0: ");
    }
    Outcome::Score(score)
}

/// Scores an action that needs no parsing; `format` says whether the reply that held it had the right
/// form. Points are in pixels of `screen`.
pub fn score_action(
    profile: &Profile,
    action: &Action,
    format: bool,
    truth: &Truth,
    screen: Option<ScreenPixels>,
) -> Outcome {
    match wanted(profile, truth, screen) {
        Ok(wanted) => Outcome::Score(score_parsed(profile, format, action, &wanted, screen)),
        Err(reason) => Outcome::Abstain { reason },
    }
}

/// The reward of a Coordinator or State Tracker for one output (Eq. 11 and 18).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentReward {
    /// `α1·format(output) + α2·executor`.
    pub total: f64,
    /// 1 when the agent's output has the profile's form.
    pub format: f64,
    /// The executor's term, for the action that the output led to.
    pub executor: f64,
}

/// The reward of an agent's `output` that led to `executed`; `None` when the execution abstained or
/// failed. `tracker` says that the agent is the State Tracker.
pub fn agent_reward(
    profile: &Profile,
    output: &str,
    tracker: bool,
    executed: &Outcome,
) -> Option<AgentReward> {
    let executor = executed.score()?.executor;
    let formed = profile.answer(output).is_some();
    if tracker && !profile.tracker_format {
        return Some(AgentReward { total: executor, format: f64::from(u8::from(formed)), executor });
    }
    let executor = if !formed && profile.bad_format_is_empty { 0.0 } else { executor };
    let format = f64::from(u8::from(formed));
    let total = profile.alpha_format * format + profile.alpha_executor * executor;
    Some(AgentReward { total, format, executor })
}

/// Checks that the row holds what its action is scored by.
fn wanted<'a>(
    profile: &Profile,
    truth: &'a Truth,
    screen: Option<ScreenPixels>,
) -> Result<Wanted<'a>, String> {
    if truth.action.is_empty() {
        return Err("the truth names no action".to_owned());
    }
    let Some(meaning) = vocabulary().meaning(&truth.action) else {
        return Err(format!("the truth's action `{}` is not in the vocabulary", truth.action));
    };
    let missing = |what: &str| Err(format!("the truth of {} has no {what}", meaning.verb));
    match meaning.verb {
        verb if has_parameter(verb) && !profile.compared.contains(&verb) => {}
        verb if is_pointed(verb) && truth.element.is_none() && truth.boxes.is_empty() => {
            if truth.point.is_none() {
                return missing("point, bbox or element");
            }
            if profile.point != PointRule::StrictBoxElsePixels && usable(screen).is_none() {
                return Err("the row has no screen size, and its truth no bbox".to_owned());
            }
        }
        Verb::Scroll if profile.scroll_direction && truth.direction.is_none() => return missing("direction"),
        verb if is_worded(verb) && truth.text.is_none() => return missing("text"),
        Verb::Press if meaning.text.is_none() && truth.text.is_none() => return missing("key (text)"),
        _ => {}
    }
    Ok(Wanted { meaning, truth })
}

fn usable(screen: Option<ScreenPixels>) -> Option<ScreenPixels> {
    screen.filter(|s| s.width > 0.0 && s.height > 0.0)
}

fn is_pointed(verb: Verb) -> bool {
    // Of a drag the start is compared.
    matches!(
        verb,
        Verb::Click | Verb::LongPress | Verb::DoubleClick | Verb::RightClick | Verb::Hover | Verb::Drag
    )
}

fn is_worded(verb: Verb) -> bool {
    matches!(verb, Verb::Type | Verb::OpenApp | Verb::Select | Verb::Navigate | Verb::SwitchWindow)
}

fn has_parameter(verb: Verb) -> bool {
    is_pointed(verb) || is_worded(verb) || verb == Verb::Scroll
}

fn score_parsed(
    profile: &Profile,
    format: bool,
    action: &Action,
    wanted: &Wanted<'_>,
    screen: Option<ScreenPixels>,
) -> Score {
    let right_type = action.verb == wanted.meaning.verb && same_key(action, wanted);
    let found = if right_type {
        compare(profile, action, wanted.truth, screen)
    } else {
        let truth = &wanted.truth.action;
        Match::miss(format!(
            "{} where the truth is {truth}: of a wrong type no parameter counts",
            write_action(action)
        ))
    };
    total(profile, format, Some(action), right_type, found)
}

/// A key press is of the right type when it is of the right key: `enter` and `close` are actions of
/// their own in the paper's vocabulary.
fn same_key(action: &Action, wanted: &Wanted<'_>) -> bool {
    if wanted.meaning.verb != Verb::Press {
        return true;
    }
    let key = wanted.meaning.text.or(wanted.truth.text.as_deref());
    key.is_some_and(|key| action.text.as_deref().is_some_and(|k| k.trim().eq_ignore_ascii_case(key.trim())))
}

fn total(profile: &Profile, format: bool, action: Option<&Action>, right_type: bool, found: Match) -> Score {
    let term = |yes: bool| f64::from(u8::from(yes));
    let (format, type_term, param) = (term(format), term(right_type), term(found.hit));
    let executor = profile.gamma_type * type_term + profile.gamma_param * param;
    Score {
        total: profile.alpha_format * format + profile.alpha_executor * executor,
        format,
        type_term,
        param,
        executor,
        parsed: action.map(write_action),
        distance: found.distance,
        similarity: found.similarity,
        reason: found.reason,
    }
}

/// Compares the parameter of an action of the right type (Eq. 25).
fn compare(profile: &Profile, action: &Action, truth: &Truth, screen: Option<ScreenPixels>) -> Match {
    match action.verb {
        verb if has_parameter(verb) && !profile.compared.contains(&verb) => {
            Match::hit(format!("{verb}, whose parameter this profile does not compare"))
        }
        verb if is_pointed(verb) => compare_place(profile, action, truth, screen),
        Verb::Scroll if !profile.scroll_direction => {
            Match::hit("a scroll, whose direction this profile does not compare")
        }
        Verb::Scroll => compare_direction(action, truth),
        verb if is_worded(verb) => compare_text(profile, action, truth),
        verb => Match::hit(format!("{verb}, which has no parameter to compare")),
    }
}

fn compare_direction(action: &Action, truth: &Truth) -> Match {
    let wanted = truth.direction.as_deref().unwrap_or_default().trim();
    match &action.source_direction {
        None => Match::miss(format!("a scroll without direction where the truth is {wanted}")),
        Some(d) if d.eq_ignore_ascii_case(wanted) => Match::hit(format!("scroll {d}, as in the truth")),
        Some(d) => Match::miss(format!("scroll {d} where the truth is {wanted}")),
    }
}

fn compare_text(profile: &Profile, action: &Action, truth: &Truth) -> Match {
    let predicted = action.text.as_deref().unwrap_or_default();
    let wanted = truth.text.as_deref().unwrap_or_default();
    let (hit, similarity) = profile.text_matches(predicted, wanted);
    let verb = if hit { "matches" } else { "does not match" };
    Match {
        hit,
        similarity: Some(similarity),
        distance: None,
        reason: format!(
            "text {:?} {verb} {:?}: similarity {similarity:.3}",
            excerpt(predicted),
            excerpt(wanted)
        ),
    }
}

fn excerpt(text: &str) -> &str {
    text.char_indices().nth(60).map_or(text, |(at, _)| &text[..at])
}

fn compare_place(profile: &Profile, action: &Action, truth: &Truth, screen: Option<ScreenPixels>) -> Match {
    if let (Some(answered), Some(wanted)) = (&action.target.element, &truth.element) {
        return if answered == wanted {
            Match::hit(format!("element {answered}, as in the truth"))
        } else {
            Match::miss(format!("element {answered} where the truth is {wanted}"))
        };
    }
    let Some(point) = action.point else {
        return Match::miss(match &action.target.element {
            Some(element) => format!("element {element}, where the truth is a place on the screen"),
            None => "no point".to_owned(),
        });
    };
    let (x, y) = (point.x, point.y);
    let at = format!("({}, {})", Shown(x), Shown(y));
    let strict = profile.point == PointRule::StrictBoxElsePixels;
    let inside = |[x1, y1, x2, y2]: &&[f64; 4]| {
        // Some rows name the corners the other way round.
        let (left, right, top, bottom) = (&x1.min(*x2), &x1.max(*x2), &y1.min(*y2), &y1.max(*y2));
        let within = *left <= x && x <= *right && *top <= y && y <= *bottom;
        let on_edge = x == *left || x == *right || y == *top || y == *bottom;
        within && !(strict && on_edge)
    };
    if let Some(found) = truth.boxes.iter().find(inside) {
        return Match::hit(format!("{at} is inside {}", edges(found)));
    }
    let by_distance = truth.boxes.is_empty() || profile.point == PointRule::BoxOrDistance;
    match (truth.point.filter(|_| by_distance), truth.boxes.first()) {
        (Some(wanted), _) => compare_distance(profile, (x, y), wanted, !truth.boxes.is_empty(), screen),
        (None, Some(first)) => Match::miss(format!("{at} is outside {}", edges(first))),
        (None, None) => Match::miss(format!("{at}, where the truth is element {:?}", truth.element)),
    }
}

/// Compares a point that is in no box with the true one.
fn compare_distance(
    profile: &Profile,
    (x, y): (f64, f64),
    [true_x, true_y]: [f64; 2],
    has_boxes: bool,
    screen: Option<ScreenPixels>,
) -> Match {
    let (dx, dy) = (x - true_x, y - true_y);
    let at = format!("({}, {})", Shown(x), Shown(y));
    let wanted = format!("({}, {})", Shown(true_x), Shown(true_y));
    if profile.point == PointRule::StrictBoxElsePixels {
        let distance = dx.hypot(dy);
        let hit = distance < Profile::MAX_PIXELS;
        return Match { hit, ..Match::miss(format!("{at} is {distance:.0} px from {wanted}")) };
    }
    let Some(screen) = usable(screen) else {
        return Match::miss(format!("{at} is outside every box, and the row has no screen size"));
    };
    let distance = (dx / screen.width).hypot(dy / screen.height);
    let outside = if has_boxes { "outside every box and " } else { "" };
    Match {
        hit: distance <= Profile::MAX_DISTANCE,
        distance: Some(distance),
        similarity: None,
        reason: format!(
            "{at} is {outside}{distance:.3} of the screen from {wanted}; up to {} counts",
            Profile::MAX_DISTANCE
        ),
    }
}

fn edges([left, top, right, bottom]: &[f64; 4]) -> String {
    format!("[{}, {}, {}, {}]", Shown(*left), Shown(*top), Shown(*right), Shown(*bottom))
}

#[cfg(test)]
#[path = "reward_tests.rs"]
mod tests;
