//! What can be wrong with one row.

use std::collections::BTreeMap;

use super::row::Row;
use super::{Fault, Turn};
use crate::action::Direction;
use crate::artifact::{AgentPrompt, AgentRole, ScreenPixels};
use crate::grammar::{Reply, strict_answer, vocabulary};
use crate::prompt::{IMAGE, MARKS, Shown, registry};

/// Everything that is wrong with a row by itself, pictures apart.
pub(super) fn faults(row: &Row, tokens: Option<&Budget<'_>>) -> Vec<Fault> {
    let mut faults = Vec::new();
    if row.calls_tools {
        return faults;
    }
    roles(row, &mut faults);
    texts(row, &mut faults);
    markers(row, &mut faults);
    reply(row, &mut faults);
    words(row, &mut faults);
    match &row.truth {
        Some(Err(reason)) => faults.push(Fault::error(
            "no-truth",
            format!("the ground truth cannot be read: {reason}"),
            "export the row again; its reward cannot be computed",
        )),
        Some(Ok(agent)) => {
            truth(agent, row, &mut faults);
            agreement(agent, row, &mut faults);
        }
        None if !row.learned && row.is_ours() && row.other_truth.is_none() => faults.push(Fault::error(
            "no-truth",
            "neither a reply to learn nor a ground truth",
            "give the row one of them",
        )),
        None => {}
    }
    if let Some(None) = row.index {
        faults.push(Fault::error(
            "no-index",
            "extra_info.index is missing",
            "number the rows: verl takes a missing index for 0 and merges all such prompts into one group",
        ));
    }
    if let Some(budget) = tokens {
        length(row, budget, &mut faults);
    }
    faults
}

/// The most tokens a row may have, and how they are counted.
pub struct Budget<'a> {
    /// Tokens of all messages together, without the chat template's own.
    pub max_tokens: usize,
    /// Tokens of a text.
    pub count: &'a (dyn Fn(&str) -> usize + Sync),
}

fn length(row: &Row, budget: &Budget<'_>, faults: &mut Vec<Fault>) {
    let tokens: usize = row.turns.iter().map(|t| (budget.count)(&t.text)).sum();
    if tokens > budget.max_tokens {
        faults.push(Fault::error(
            "too-long",
            format!("{tokens} tokens of text, more than {}", budget.max_tokens),
            "raise the budget, or leave the row out: trainers cut or drop it",
        ));
    }
}

/// System first if at all, then user and assistant in turn; ending with what is learned, or with the user.
fn roles(row: &Row, faults: &mut Vec<Fault>) {
    let known = ["system", "user", "assistant", "tool"];
    if let Some(turn) = row.turns.iter().find(|t| !known.contains(&t.role.as_str())) {
        let found = format!("role `{}`", turn.role);
        faults.push(Fault::error("unknown-role", found, "roles are system, user and assistant"));
        return;
    }
    let order: Vec<&str> = row.turns.iter().map(|t| t.role.as_str()).collect();
    let body = order.strip_prefix(&["system"]).unwrap_or(&order);
    let due = |i: usize| if i.is_multiple_of(2) { "user" } else { "assistant" };
    let alternate =
        !body.is_empty() && body.iter().enumerate().all(|(i, role)| *role == due(i) || *role == "tool");
    if !alternate {
        faults.push(Fault::error(
            "role-order",
            format!("roles are {}", order.join(", ")),
            "user and assistant must alternate, user first: loaders drop such rows",
        ));
    } else if row.learned && body.last() != Some(&"assistant") {
        faults.push(Fault::error(
            "empty-answer",
            "no reply to learn",
            "end the row with the reply, or drop it",
        ));
    }
}

fn texts(row: &Row, faults: &mut Vec<Fault>) {
    let is_empty = |turn: &Turn| turn.text.replace(IMAGE, "").trim().is_empty();
    if row.turns.iter().any(|t| t.role == "user" && is_empty(t)) {
        faults.push(Fault::error("empty-prompt", "a prompt without words", "fill it in, or drop the row"));
    }
    if row.task().is_some_and(|task| task.trim().is_empty()) {
        faults.push(Fault::warning("no-task", "the task is empty", "give the episode an instruction"));
    }
    let special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "\0"];
    if let Some(token) = special.iter().find(|s| row.turns.iter().any(|t| t.text.contains(**s))) {
        let found = format!("the text holds {token:?}");
        faults.push(Fault::error(
            "special-token",
            found,
            "change the text: tokenizers take it for a mark of their own",
        ));
    }
    if let Some(turn) = row.turns.iter().find(|t| t.text.contains('\u{fffd}')) {
        faults.push(Fault::warning(
            "damaged-text",
            format!("the {} message holds U+FFFD: text that was read in the wrong encoding", turn.role),
            "read the source as UTF-8",
        ));
    }
}

fn markers(row: &Row, faults: &mut Vec<Fault>) {
    let (markers, images) = (row.markers(), row.images.len());
    if markers != images {
        faults.push(Fault::error(
            "image-count",
            format!("{markers} `<image>` marks and {images} images"),
            "each image needs one mark, and each mark one image",
        ));
    }
    let other = MARKS.iter().find(|m| **m != IMAGE && row.turns.iter().any(|t| t.text.contains(**m)));
    if let Some(mark) = other {
        let found = format!("the text holds `{mark}`, and the row has no such thing");
        faults.push(Fault::error("stray-mark", found, "change the text: loaders count the mark"));
    }
    if row.turns.iter().any(|t| t.role != "user" && t.text.contains(IMAGE)) {
        faults.push(Fault::error(
            "mark-in-reply",
            "an `<image>` mark outside the user's message",
            "change the text: it would be taken for a picture",
        ));
    }
}

fn reply(row: &Row, faults: &mut Vec<Fault>) {
    let Some(reply) = row.reply().filter(|_| row.learned) else { return };
    let answer = Reply::of(reply).content();
    if reply.trim().is_empty() || answer.trim().is_empty() {
        faults.push(Fault::error("empty-answer", "the answer is empty", "fill it in, or drop the row"));
    } else if (Reply::is_tagged(reply) || must_be_tagged(row)) && strict_answer(reply).is_none() {
        faults.push(Fault::error(
            "answer-form",
            "the reply is not <think>…</think><answer>…</answer>",
            "close each tag once, and write nothing outside them",
        ));
    }
}

/// Whether the row's prompt asks for the tags.
fn must_be_tagged(row: &Row) -> bool {
    let template =
        row.prompt_hash.as_ref().and_then(|h| registry().templates().find(|(_, t)| t.hash() == *h));
    template.is_some_and(|(_, t)| t.user.contains("<answer>"))
}

/// The words of a prompt must be those of the template it names.
fn words(row: &Row, faults: &mut Vec<Fault>) {
    let Some(hash) = &row.prompt_hash else { return };
    let Some((name, template)) = registry().templates().find(|(_, t)| t.hash() == *hash) else {
        faults.push(Fault::error(
            "prompt-words",
            format!("prompt hash {hash} is not of this version's prompts"),
            "export the rows again: training, reward and evaluation must ask in the same words",
        ));
        return;
    };
    let text = |role: &str| row.turns.iter().find(|t| t.role == role).map_or("", |t| t.text.as_str());
    for (part, asked, words) in
        [("system", text("system"), &template.system), ("user's", text("user"), &template.user)]
    {
        if !is_rendered_from(asked, words) {
            faults.push(Fault::error(
                "prompt-words",
                format!(
                    "the {part} message is not in the words of the prompt `{name}`, whose hash the row has"
                ),
                "export the rows again: training, reward and evaluation must ask in the same words",
            ));
        }
    }
}

/// Whether a text is a template with something in its places.
fn is_rendered_from(text: &str, template: &str) -> bool {
    let mut fixed = template.split("{{").map(|part| part.split_once("}}").map_or(part, |(_, after)| after));
    let Some(mut rest) = fixed.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in fixed {
        last = Some(part);
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    // The last fixed part ends the text; a value before it may hold the same words.
    last.map_or(rest.is_empty(), |last| text.ends_with(last))
}

/// A prompt, its ground truth and what stands beside them must be of one step.
fn agreement(agent: &AgentPrompt, row: &Row, faults: &mut Vec<Fault>) {
    let mut differs = |what: &str, a: &str, b: &str| {
        if a != b {
            faults.push(Fault::error(
                "contradiction",
                format!("the {what} of the row is not that of its ground truth"),
                "export the rows again: one of the two is of another step",
            ));
        }
    };
    if let (Some(id), Some(own)) = (&row.id, agent.id.as_str()) {
        differs("id", id, own);
    }
    if let Some(task) = &row.high_level {
        differs("task", task, &agent.task);
    }
    let template =
        row.prompt_hash.as_ref().and_then(|h| registry().templates().find(|(_, t)| t.hash() == *h));
    let Some((name, _)) = template else { return };
    let mut values = BTreeMap::from([("task", agent.task.clone()), ("state", agent.state.clone())]);
    if agent.role == AgentRole::StateTracker {
        values.insert("executor_output", agent.executor_output.clone());
    }
    let base = name.strip_suffix("-text");
    let shown = if base.is_some() { Shown::Elements(&agent.screen.elements) } else { Shown::Nothing };
    let Ok(prompt) = registry().role(base.unwrap_or(name), values, shown) else { return };
    let asked = row.turns.iter().filter(|t| t.role != "assistant").map(|t| t.text.as_str());
    let due: Vec<&str> = prompt.messages.iter().map(|m| m.content.as_str()).collect();
    differs("prompt", &asked.collect::<Vec<_>>().join("\0"), &due.join("\0"));
}

fn truth(agent: &AgentPrompt, row: &Row, faults: &mut Vec<Fault>) {
    let (truth, screen) = (&agent.truth, row.screen);
    if truth.action.trim().is_empty() {
        let remedy = "name the action that is right";
        faults.push(Fault::error("no-truth", "the ground truth names no action", remedy));
        return;
    }
    if vocabulary().meaning(&truth.action).is_none() {
        faults.push(Fault::error(
            "unknown-action",
            format!("action `{}` is not in the vocabulary", truth.action),
            "use a word of the vocabulary: click, type, scroll, …",
        ));
    } else if let Some(reason) =
        truth.lacks(agent.screen.size().map(ScreenPixels::from)).filter(|_| !row.learned)
    {
        faults.push(Fault::error(
            "no-truth",
            reason,
            "leave the row out: no reply to it can be told right from wrong",
        ));
    }
    if let Some(direction) = truth.direction.as_ref().filter(|d| d.parse::<Direction>().is_err()) {
        let found = format!("direction `{direction}`");
        faults.push(Fault::error("unknown-direction", found, "directions are up, down, left and right"));
    }
    if let Some([x, y]) = truth.point
        && !truth.boxes.is_empty()
        && !truth.boxes.iter().any(|b| (b[0]..=b[2]).contains(&x) && (b[1]..=b[3]).contains(&y))
    {
        let small = x <= 1.0 && y <= 1.0 && screen.is_some();
        let found = format!("point [{x}, {y}] is in none of the row's boxes");
        let remedy = "check the frames of both: pixels of the row's own screen";
        // Sources have such steps; a point that is a share of the screen is a mistake.
        faults.push(if small {
            Fault::error("outside-box", found, remedy)
        } else {
            Fault::note("outside-box", found, remedy)
        });
    }
    if let Some(bad) = truth.boxes.iter().find(|b| !(b[0] < b[2] && b[1] < b[3])) {
        faults.push(Fault::error(
            "bad-box",
            format!("box {bad:?} has no inside"),
            "boxes are left, top, right, bottom",
        ));
    }
    if let Some([width, height]) = screen {
        let outside = |x: f64, y: f64| !(0.0..=width).contains(&x) || !(0.0..=height).contains(&y);
        let point = truth.point.filter(|[x, y]| outside(*x, *y)).map(|p| format!("point {p:?}"));
        let boxed = truth.boxes.iter().find(|b| outside(b[0], b[1]) || outside(b[2], b[3]));
        if let Some(what) = point.or(boxed.map(|b| format!("box {b:?}"))) {
            faults.push(Fault::error(
                "outside-screen",
                format!("{what} is outside the screen of {width} × {height} pixels"),
                "check the frame of the coordinates: pixels of the row's own screen",
            ));
        }
    }
    if let Some(id) = &truth.element
        && !agent.screen.elements.is_empty()
        && agent.screen.elements.iter().all(|e| e.id != *id)
    {
        faults.push(Fault::error(
            "no-element",
            format!("element {id} is not on the screen"),
            "take the id from the row's own elements",
        ));
    }
}
