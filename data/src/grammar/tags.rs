//! `<think>…</think><answer>…</answer>`: what a reply is wrapped in.

/// A reply taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Content of the first `<think>`, where there is one.
    pub think: Option<&'a str>,
    /// Content of the first `<answer>` after it; of one that is never closed, all that follows.
    pub answer: Option<&'a str>,
    /// What is left when the `<think>` is taken away: the answer of a reply without tags.
    pub bare: &'a str,
}

impl<'a> Reply<'a> {
    /// Takes `text` apart; whatever the text, nothing is lost: without tags it is all `bare`.
    pub fn of(text: &'a str) -> Self {
        let (think, rest) = match text.split_once("<think>") {
            Some((_, after)) => {
                // Never closed: what stands before an answer, if there is one, is the thought.
                let cut = || after.split_at(after.find("<answer>").unwrap_or(after.len()));
                let (think, rest) = after.split_once("</think>").unwrap_or_else(cut);
                (Some(think), rest)
            }
            None => (None, text),
        };
        let answer = rest.split_once("<answer>").map(|(_, after)| {
            let end = after.find("</answer>").unwrap_or(after.len());
            &after[..end]
        });
        Self { think, answer, bare: rest }
    }

    /// What is to be read as the reply's content: the answer, or all of a reply without tags.
    pub fn content(&self) -> &'a str {
        self.answer.unwrap_or(self.bare)
    }

    /// True when the reply has any of the tags, well placed or not.
    pub fn is_tagged(text: &str) -> bool {
        ["<think>", "</think>", "<answer>", "</answer>"].iter().any(|tag| text.contains(tag))
    }
}

/// The answer of a reply that is exactly `<think>…</think><answer>…</answer>`, white space allowed around
/// and between the blocks and nothing else: each tag occurs once. CES, section 4.3.2 and Eq. 22 as written.
pub fn strict_answer(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("<think>")?.strip_suffix("</answer>")?;
    let (think, rest) = inner.split_once("</think>")?;
    let answer = rest.trim_start().strip_prefix("<answer>")?;
    (!Reply::is_tagged(think) && !Reply::is_tagged(answer)).then_some(answer)
}

/// The answer by the expression of CES's released code, `^<think>.*?</think><answer>(.*?)</answer>$` with
/// the dot matching line ends: no white space between the blocks, and, as in Python, one line end allowed
/// after them.
pub fn released_answer(text: &str) -> Option<&str> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let inner = text.strip_prefix("<think>")?.strip_suffix("</answer>")?;
    inner.split_once("</think><answer>").map(|(_, answer)| answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_come_apart_whatever_is_missing() {
        let parts = |text| {
            let reply = Reply::of(text);
            (reply.think, reply.answer, reply.content())
        };
        assert_eq!(parts("<think>a</think> <answer>b</answer> c"), (Some("a"), Some("b"), "b"));
        assert_eq!(parts("b"), (None, None, "b"));
        assert_eq!(parts("<think>a</think>b"), (Some("a"), None, "b"));
        assert_eq!(parts("<answer>b"), (None, Some("b"), "b"));
        assert_eq!(parts("<think>cut off"), (Some("cut off"), None, ""));
        assert_eq!(parts("<think>a <answer>b</answer>"), (Some("a "), Some("b"), "b"));
        assert_eq!(parts("<think>a <answer>x</answer></think><answer>b</answer>").2, "b");
    }

    #[test]
    fn the_strict_form_allows_white_space_and_nothing_else() {
        assert_eq!(strict_answer(" <think>a</think>\n<answer>b\n</answer>\n"), Some("b\n"));
        for bad in [
            "<think>a</think>x<answer>b</answer>",
            "<think>a</think><answer>b</answer>.",
            "<answer>b</answer>",
            "<think>a<answer>b</answer></think><answer>c</answer>",
            "<think>a</think><answer>b</answer><answer>c</answer>",
            "<think>a</think><answer>b",
            "<THINK>a</THINK><answer>b</answer>",
            "",
        ] {
            assert_eq!(strict_answer(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_released_form_takes_no_white_space_between_the_blocks() {
        assert_eq!(released_answer("<think>a\n</think><answer>b</answer>\n"), Some("b"));
        assert_eq!(
            released_answer("<think></think><answer>b</answer><answer>c</answer>"),
            Some("b</answer><answer>c")
        );
        for bad in
            ["<think>a</think> <answer>b</answer>", " <think>a</think><answer>b</answer>", "<think></answer>"]
        {
            assert_eq!(released_answer(bad), None, "{bad}");
        }
    }
}
