//! What a model said beside its action: thought and observation, where they are told apart.

use std::sync::LazyLock;

use regex::Regex;

use crate::grammar::Reply;

/// The words before the parts of a reply, at the start of a line: `Thought:`, `## Action:`, `**Thought**:`.
static PART: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^[ \t]*(?:#+ *|\*\*)?(Observation|Thought|Action|Code)(?::\*\*|\*\*:|:)")
        .expect("the pattern is valid")
});

/// A text in triple quotes at the start of code, behind imports only.
static NOTE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?s)^(?:\s|import [^\n]*\n|from [^\n]*\n)*(?:'''(.*?)'''|"""(.*?)""")"#;
    Regex::new(pattern).expect("the pattern is valid")
});

/// The parts of a reply; those that it does not tell apart are its thought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// Why, or the whole reply.
    pub(super) thought: Option<String>,
    /// What the screen shows.
    pub(super) observation: Option<String>,
}

impl Said {
    /// The parts of a model's response.
    pub(super) fn of(response: &str) -> Self {
        let marks: Vec<_> =
            PART.captures_iter(response).filter_map(|c| Some((c.get(0)?, c.get(1)?))).collect();
        let part = |wanted: &str| {
            let at = marks.iter().position(|(_, word)| word.as_str() == wanted)?;
            let end = marks.get(at + 1).map_or(response.len(), |(next, _)| next.start());
            filled(&response[marks[at].0.end()..end])
        };
        let thought = part("Thought").or_else(|| filled(Reply::of(response).think?));
        Self { thought: thought.or_else(|| filled(response)), observation: part("Observation") }
    }

    /// The parts of the text that code begins with; nothing where it begins with a call.
    pub(super) fn before(code: &str) -> Self {
        let found = NOTE.captures(code);
        let note = found.as_ref().and_then(|c| c.get(1).or_else(|| c.get(2)));
        note.map(|note| Self::of(note.as_str())).unwrap_or_default()
    }
}

fn filled(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart_or_the_reply_is_the_thought() {
        for (reply, thought, observation) in [
            ("Thought: It is open.\nAction: click(1)", "It is open.", None),
            (
                "## Observation:\nA menu.\n\n## Thought:\nOpen it.\n\n## Action:\nClick\n",
                "Open it.",
                Some("A menu."),
            ),
            ("**Thought**: why\n**Action:** what", "why", None),
            ("<think>\nwhy\n</think>\nclick", "why", None),
            (
                "I click.\n```python\npyautogui.click()\n```",
                "I click.\n```python\npyautogui.click()\n```",
                None,
            ),
            ("My Thought: not at the start", "My Thought: not at the start", None),
        ] {
            let said = Said::of(reply);
            assert_eq!(said.thought.as_deref(), Some(thought), "{reply}");
            assert_eq!(said.observation.as_deref(), observation, "{reply}");
        }
        assert_eq!(Said::of(" \n"), Said::default());
    }

    #[test]
    fn code_may_begin_with_them() {
        let code =
            "import pyautogui\nimport time\n'''\nObservation:\nO\n\nThought:\nT\n'''\npyautogui.click(1, 2)";
        let said = Said::before(code);
        assert_eq!((said.thought.as_deref(), said.observation.as_deref()), (Some("T"), Some("O")));
        assert_eq!(Said::before("pyautogui.write('''text''')"), Said::default());
    }
}
