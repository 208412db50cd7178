//! The difference as tables.

use std::path::Path;

use tracemill_models::metrics::Became;

use super::{Change, Difference, Level};
use crate::table::Table;

/// Changes of one kind that the tables show; the page and the JSON have all.
const SHOWN: usize = 25;

pub(super) fn told(difference: &Difference, out: Option<&Path>) -> String {
    let Difference { before, after, causes, units, intent_groups, subgroups, skills, skills_same, lessons } =
        difference;
    let mut text = format!("{before} → {after}\n");
    if causes.is_empty() {
        text += "Made of the same sources with the same settings.\n";
    } else {
        let mut rows = Table::new(&["why they may differ", "", "before", "after"]);
        for cause in causes {
            let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".to_owned());
            rows.row(&[cause.kind, &cause.what, &word(&cause.before), &word(&cause.after)]);
        }
        text += &format!("{rows}\n");
    }
    text += &format!(
        "\nUnits: {} in both ({} with other views), {} only before, {} only after.\n",
        units.common, units.relabelled, units.only_before, units.only_after
    );
    let mut rows = Table::new(&[
        "",
        "before",
        "after",
        "same",
        "changes",
        "stability",
        "adj. Rand",
        "to noise",
        "from noise",
    ]);
    for (name, level) in [("intent groups", intent_groups), ("subgroups", subgroups)] {
        let share = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.3}"));
        rows.row(&[
            name,
            &level.before.to_string(),
            &level.after.to_string(),
            &level.same.to_string(),
            &level.changes.len().to_string(),
            &share(level.stability),
            &share(level.adjusted_rand_index),
            &level.noise_after_only.to_string(),
            &level.noise_before_only.to_string(),
        ]);
    }
    text += &format!("{rows}\n");
    if difference.changes() == 0 {
        return text + "No difference in intents, skills and lessons.";
    }
    text += &groups("Intent groups", intent_groups);
    text += &groups("Subgroups", subgroups);
    if !skills.is_empty() {
        let mut rows = Table::new(&["skill", "before", "after", "what", "particulars"]);
        for skill in skills.iter().take(SHOWN) {
            let word = |id: &Option<String>| id.clone().unwrap_or_else(|| "–".to_owned());
            rows.row(&[
                &cut(&skill.title, 40),
                &word(&skill.before),
                &word(&skill.after),
                &skill.what(),
                &cut(&skill.told(), 70),
            ]);
        }
        text += &format!("\nSkills ({skills_same} the same):\n{rows}\n{}", more(skills.len()));
    }
    if lessons.changes() > 0 {
        text += &format!("\nLessons ({} the same):\n", lessons.same);
        lessons.added.iter().take(SHOWN).for_each(|lesson| text += &format!("  + {lesson}\n"));
        lessons.removed.iter().take(SHOWN).for_each(|lesson| text += &format!("  - {lesson}\n"));
    }
    let place = out.map_or_else(
        || "All of it: --out DIR (a page and JSON), or --json.".to_owned(),
        |out| format!("All of it: {}", out.join("diff.html").display()),
    );
    text + "\n" + &place
}

fn groups(name: &str, level: &Level) -> String {
    if level.changes.is_empty() {
        return String::new();
    }
    let mut order: Vec<&Change> = level.changes.iter().collect();
    order.sort_by_key(|c| {
        (c.change.became == Became::Changed || c.change.became == Became::Same, c.change.became)
    });
    let mut rows = Table::new(&["became", "before", "after", "kept", "stability", "about", "why"]);
    for change in order.iter().take(SHOWN) {
        let ids = |groups: &[i32]| groups.iter().map(i32::to_string).collect::<Vec<_>>().join(" ");
        rows.row(&[
            word(change.change.became),
            &cut(&ids(&change.change.before), 24),
            &cut(&ids(&change.change.after), 24),
            &change.change.kept.to_string(),
            &format!("{:.2}", change.change.stability),
            &cut(&change.title, 40),
            &change.why(),
        ]);
    }
    format!("\n{name} ({} the same):\n{rows}\n{}", level.same, more(level.changes.len()))
}

/// A change's name.
pub(super) fn word(became: Became) -> &'static str {
    match became {
        Became::Same => "grown or shrunk",
        Became::Changed => "changed",
        Became::Split => "split",
        Became::Merged => "merged",
        Became::Regrouped => "regrouped",
        Became::Removed => "removed",
        Became::Added => "added",
    }
}

fn more(count: usize) -> String {
    if count > SHOWN { format!("and {} more\n", count - SHOWN) } else { String::new() }
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
