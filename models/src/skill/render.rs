//! Skills as text and as JSON that a person likes to read.

use std::collections::BTreeMap;

use serde_json::Value;
use tracemill_data::artifact::{Skill, SkillArg, SkillStep};

/// Steps that a title names.
const TITLE_STEPS: usize = 8;
/// Characters of a value in a title.
const VALUE_CHARS: usize = 40;
/// Columns within which a JSON list or object stays on one line.
const JSON_COLUMNS: usize = 120;

/// One line for a skill: `Clock · open, click Alarm, click Add, save`.
pub(super) fn title(environment: &str, steps: &[SkillStep]) -> String {
    let mut words: Vec<String> = steps.iter().take(TITLE_STEPS).map(|s| phrase(s, environment)).collect();
    if steps.len() > TITLE_STEPS {
        words.push(format!("… ({} more)", steps.len() - TITLE_STEPS));
    }
    let words = words.join(", ");
    if environment.is_empty() { words } else { format!("{environment} · {words}") }
}

/// A step in a few words; the environment, which the title begins with, is not said again.
fn phrase(step: &SkillStep, environment: &str) -> String {
    let value = |field: &str| step.args.iter().find(|a| a.field == field).map(short);
    let (text, target) = (value("text"), value("target"));
    let inside = |what: Option<String>| match (what, value("target")) {
        (Some(what), Some(target)) => Some(format!("{what} in {target}")),
        (what, target) => what.or(target),
    };
    let (verb, object) = match step.verb.as_str() {
        "text_input" => ("type".to_owned(), inside(text)),
        "select" => ("select".to_owned(), inside(value("option"))),
        "open" => ("open".to_owned(), value("app").or(value("url")).filter(|app| app != environment)),
        "switch_focus" => ("switch to".to_owned(), target.or(Some("another window".to_owned()))),
        "save" | "copy" | "paste" => (step.verb.clone(), None),
        verb => (verb.replace('_', " "), target.or(value("key")).or(value("direction"))),
    };
    object.map_or(verb.clone(), |object| format!("{verb} {object}"))
}

/// The literal, or the type of a parameter.
fn short(arg: &SkillArg) -> String {
    let value = arg.value.as_deref().unwrap_or(&arg.kind);
    if value.chars().count() <= VALUE_CHARS {
        return value.to_owned();
    }
    let start: String = value.chars().take(VALUE_CHARS - 1).collect();
    format!("{}…", start.trim_end())
}

/// A skill as a few lines of plain text: title, support, numbered steps with their arguments and
/// examples, what was removed, where it comes from.
pub fn to_text(skill: &Skill) -> String {
    let mut lines = vec![format!("{}  {}", skill.skill_id, skill.title)];
    lines.push(format!(
        "  supported by {} of {} units · intent group {} · alias map {}",
        skill.support, skill.members, skill.ig, skill.alias_map
    ));
    for (number, step) in skill.steps.iter().enumerate() {
        let args: Vec<String> = step.args.iter().map(argument).collect();
        let head = format!("  {:>2}. {:<12} {}", number + 1, step.verb, args.join("; "));
        lines.push(head.trim_end().to_owned());
    }
    let mut removed: BTreeMap<&str, usize> = BTreeMap::new();
    for step in &skill.removed_steps {
        *removed.entry(&step.rule).or_default() += 1;
    }
    if !removed.is_empty() {
        let counts: Vec<String> = removed.iter().map(|(rule, n)| format!("{n} {rule}")).collect();
        lines.push(format!("  left out: {}", counts.join(", ")));
    }
    lines.push(format!("  for example: {}", skill.representative_unit_ids.join(", ")));
    lines.join("\n") + "\n"
}

/// `target = Save`, or `text <query>: "pizza", "sushi", 3 more`.
fn argument(arg: &SkillArg) -> String {
    if let Some(value) = &arg.value {
        return format!("{} = {value}", arg.field);
    }
    let mut shown: Vec<String> = arg.examples.iter().map(|e| format!("{e:?}")).collect();
    shown.extend(arg.more.map(|more| format!("{more} more")));
    format!("{} {}: {}", arg.field, arg.kind, shown.join(", "))
}

/// `skills.json`: a list of skills in which whatever fits into a line stays on it. Absent values are
/// left out.
///
/// # Panics
/// Never: a skill holds nothing that JSON can't.
pub fn to_pretty_json(skills: &[Skill]) -> String {
    let value = serde_json::to_value(skills).expect("skills hold strings, integers and lists only");
    let mut text = String::new();
    // The list and each skill are always broken up; only what lies inside a skill may share a line.
    write_json(&mut text, &value, 0, 2);
    text.push('\n');
    text
}

fn write_json(out: &mut String, value: &Value, indent: usize, broken_levels: usize) {
    let line = one_line(value);
    if broken_levels == 0 && indent + line.chars().count() <= JSON_COLUMNS {
        out.push_str(&line);
        return;
    }
    if let Value::Array(list) = value
        && !list.iter().any(|entry| entry.is_array() || entry.is_object())
    {
        return fill_lines(out, list, indent);
    }
    let (open, close, entries): (char, char, Vec<(String, &Value)>) = match value {
        Value::Array(list) if !list.is_empty() => {
            ('[', ']', list.iter().map(|v| (String::new(), v)).collect())
        }
        Value::Object(object) => ('{', '}', present(object).collect()),
        _ => return out.push_str(&line),
    };
    out.push(open);
    for (i, (key, entry)) in entries.into_iter().enumerate() {
        out.push_str(if i == 0 { "\n" } else { ",\n" });
        let inner = indent + 2;
        out.extend(std::iter::repeat_n(' ', inner));
        out.push_str(&key);
        write_json(out, entry, inner, broken_levels.saturating_sub(1));
    }
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
    out.push(close);
}

/// A list of plain values, as many on a line as fit.
fn fill_lines(out: &mut String, list: &[Value], indent: usize) {
    let margin = format!("\n{}", " ".repeat(indent + 2));
    let mut column = JSON_COLUMNS;
    out.push('[');
    for (i, entry) in list.iter().enumerate() {
        let comma = if i + 1 < list.len() { "," } else { "" };
        let text = format!("{entry}{comma}");
        let width = text.chars().count();
        if i == 0 || column + 1 + width > JSON_COLUMNS {
            out.push_str(&margin);
            column = indent + 2 + width;
        } else {
            out.push(' ');
            column += 1 + width;
        }
        out.push_str(&text);
    }
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
    out.push(']');
}

/// The entries of an object that have a value, with their keys as JSON.
fn present(object: &serde_json::Map<String, Value>) -> impl Iterator<Item = (String, &Value)> {
    object.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (format!("{}: ", Value::from(k.as_str())), v))
}

fn one_line(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        Value::Object(object) => {
            let entries = present(object).map(|(key, v)| format!("{key}{}", one_line(v)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        leaf => leaf.to_string(),
    }
}
