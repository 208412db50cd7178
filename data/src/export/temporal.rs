//! Pairs of screens of one episode at growing intervals: which came first? (CES, section 3 and figure 2: the
//! further two screens are apart, the less they tell of a task's progress.)

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::task_key;
use crate::prompt::{PromptError, PromptMessage, Shown, registry, screen_text};
use crate::trace::{EpisodeRow, StepRow};

/// A question about two screens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TemporalRow {
    /// `<episode>#<earlier>-<later>`.
    pub id: String,
    /// Steps between the two.
    pub interval: u32,
    /// What is asked; `<image>` marks the screenshots' places.
    pub messages: Vec<PromptMessage>,
    /// Screenshots A and B, as the traces name them; none for text screens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// The earlier one: `A` or `B`.
    pub answer: String,
    /// Both screens look the same, elements or pixels: no screen can tell which came first.
    pub same: bool,
    /// `name@version` of the template.
    pub prompt: String,
    /// Its hash.
    pub prompt_hash: String,
    /// The episode.
    pub episode_id: String,
    /// The task as intervals count it.
    pub task_key: String,
    /// Application of the earlier screen.
    pub app: String,
    /// The source file, and the two steps' places in it.
    pub source: String,
}

/// The pairs of an episode that are `interval` steps apart: index of the earlier and the later. Both show
/// something, and both are of one kind.
pub fn pairs(steps: &[StepRow], interval: usize) -> Vec<(usize, usize)> {
    let kind = |step: &StepRow| match (&step.screenshot, step.elements.is_empty()) {
        (Some(_), _) => Some(true),
        (None, false) => Some(false),
        (None, true) => None,
    };
    let pair = |i: usize| {
        let (a, b) = (kind(&steps[i])?, kind(steps.get(i + interval)?)?);
        (a == b).then_some((i, i + interval))
    };
    (0..steps.len()).filter_map(pair).collect()
}

/// The id of a pair.
pub fn pair_id(steps: &[StepRow], (earlier, later): (usize, usize)) -> String {
    format!("{}#{}-{}", steps[earlier].episode_id, steps[earlier].step, steps[later].step)
}

/// The question about a pair; which screen is A is drawn by `seed`. `same_picture` compares two screenshots.
///
/// # Errors
/// A template that cannot be rendered.
pub fn question(
    episode: &EpisodeRow,
    steps: &[StepRow],
    pair: (usize, usize),
    seed: u64,
    same_picture: &dyn Fn(&str, &str) -> bool,
) -> Result<TemporalRow, PromptError> {
    let id = pair_id(steps, pair);
    let (earlier, later) = (&steps[pair.0], &steps[pair.1]);
    let swapped = xxh3_64_with_seed(id.as_bytes(), seed) & 1 == 1;
    let (a, b) = if swapped { (later, earlier) } else { (earlier, later) };
    let images: Vec<String> = [a, b].iter().filter_map(|s| s.screenshot.clone()).collect();
    let mut values = std::collections::BTreeMap::from([("task", episode.instruction.clone())]);
    let name = if images.is_empty() {
        values.insert("screen_a", screen_text(&a.elements));
        values.insert("screen_b", screen_text(&b.elements));
        "temporal-order-text"
    } else {
        "temporal-order"
    };
    let prompt = registry().role(name, values, Shown::Nothing)?;
    Ok(TemporalRow {
        id,
        interval: (pair.1 - pair.0) as u32,
        messages: prompt.messages,
        same: match images.as_slice() {
            [a, b] => same_picture(a, b),
            _ => a.elements == b.elements,
        },
        images,
        answer: if swapped { "B" } else { "A" }.to_owned(),
        prompt: prompt.template,
        prompt_hash: prompt.hash,
        episode_id: episode.episode_id.clone(),
        task_key: task_key(&episode.instruction, &episode.episode_id),
        app: earlier.app.clone().unwrap_or_else(|| episode.app.clone()),
        source: format!("{} › {}, {}", episode.source, earlier.source_key, later.source_key),
    })
}

impl TemporalRow {
    /// Whether a reply names the earlier screen; `None` when it names neither.
    pub fn judge(&self, reply: &str) -> Option<bool> {
        let answer = crate::grammar::Reply::of(reply).content().trim();
        let word = answer
            .split(|c: char| !c.is_alphanumeric())
            .rfind(|word| matches!(*word, "A" | "B" | "a" | "b"))?;
        Some(word.eq_ignore_ascii_case(&self.answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Action, Verb};
    use crate::trace::{Element, Episode, Format, Outcome, Platform, Step};

    fn episode(labels: &[&str]) -> (EpisodeRow, Vec<StepRow>) {
        let step = |(i, label): (usize, &&str)| {
            let mut step = Step::new(i as u32, format!("steps[{i}]"), Action::new(Verb::Click, "click"));
            if !label.is_empty() {
                step.screen.elements = vec![Element { text: (*label).to_owned(), ..Element::default() }];
            }
            step
        };
        let episode = Episode {
            episode_id: "e".to_owned(),
            format: Format::Droidtask,
            source: "f".to_owned(),
            source_key: String::new(),
            platform: Platform::Mobile,
            instruction: "Do it".to_owned(),
            apps: Vec::new(),
            domain: None,
            outcome: Outcome::Unknown,
            split: None,
            extra: None,
            steps: labels.iter().enumerate().map(step).collect(),
        };
        episode.into_rows()
    }

    #[test]
    fn pairs_are_as_far_apart_as_asked_and_both_show_something() {
        let (_, steps) = episode(&["a", "b", "", "d", "a"]);
        assert_eq!(pairs(&steps, 1), [(0, 1), (3, 4)]);
        assert_eq!(pairs(&steps, 4), [(0, 4)]);
        assert_eq!(pairs(&steps, 5), []);
    }

    #[test]
    fn the_answer_is_the_earlier_screen_whichever_letter_it_has() {
        let (row, steps) = episode(&["first", "second", "c", "d", "first"]);
        let mut letters = std::collections::BTreeSet::new();
        for seed in 0..16 {
            let asked = question(&row, &steps, (0, 1), seed, &|_, _| false).expect("renders");
            let text = &asked.messages[0].content;
            let (a, b) = (text.find("first").expect("shown"), text.find("second").expect("shown"));
            assert_eq!(asked.answer == "A", a < b);
            letters.insert(asked.answer);
        }
        assert_eq!(letters.len(), 2, "the order is drawn");
        assert!(question(&row, &steps, (0, 4), 0, &|_, _| false).expect("renders").same);
    }

    #[test]
    fn replies_are_read_or_said_to_be_unreadable() {
        let (row, steps) = episode(&["first", "second"]);
        let asked = question(&row, &steps, (0, 1), 0, &|_, _| false).expect("renders");
        let other = if asked.answer == "A" { "B" } else { "A" };
        assert_eq!(asked.judge(&format!("<think>A B</think><answer>{}</answer>", asked.answer)), Some(true));
        assert_eq!(asked.judge(&format!("Screenshot {other}.")), Some(false));
        assert_eq!(asked.judge("neither"), None);
        assert_eq!(asked.judge(""), None);
    }
}
