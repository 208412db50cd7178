//! The tables of `eval planning`.

use serde_json::Value;
use tracemill_models::metrics::Mean;

use super::{Consistency, LONG, Length, Measured};
use crate::table::{self, Table};

/// Percent with its interval.
fn percent(mean: &Mean) -> String {
    match (mean.mean, mean.low, mean.high) {
        (Some(mean), Some(low), Some(high)) => {
            format!("{:.1} ({:.1}–{:.1})", 100.0 * mean, 100.0 * low, 100.0 * high)
        }
        (Some(mean), ..) => format!("{:.1}", 100.0 * mean),
        _ => "–".to_owned(),
    }
}

fn plain(mean: &Mean) -> String {
    mean.mean.map_or("–".to_owned(), |m| format!("{m:.1}"))
}

/// Prints everything.
pub(super) fn print(result: &Value, measured: &[Measured], consistency: Option<&Consistency>) {
    table::print(&table_1(measured));
    table::print(&format!("\n{}", by_length(measured)));
    if let Some(found) = consistency {
        table::print(&format!(
            "\nStep consistency over {} bootstraps of the mined episodes: {} % of {} plan units ({} consistent)",
            found.bootstraps,
            percent(&found.share),
            found.units,
            found.consistent_units
        ));
    }
    table::print(&format!("\n{}", notes(result)));
}

fn table_1(measured: &[Measured]) -> String {
    let mut rows = Table::new(&[
        "variant",
        "success %",
        "completion %",
        "step coverage %",
        "order %",
        "step efficiency %",
        "cases 1/2/3",
        "steps",
        "open",
        "ms",
    ]);
    for m in measured {
        rows.row(&[
            m.variant,
            &percent(&m.success),
            &percent(&m.completion),
            &percent(&m.coverage),
            &percent(&m.order),
            &percent(&m.efficiency),
            &format!("{}/{}/{}", m.cases[0], m.cases[1], m.cases[2]),
            &plain(&m.planned_steps),
            &plain(&m.open_arguments),
            &format!("{:.1}", m.planning_ms),
        ]);
    }
    rows.to_string()
}

/// Success, completion and efficiency of each variant by recorded steps (figures 5 and 6).
fn by_length(measured: &[Measured]) -> String {
    let Some(first) = measured.first() else { return String::new() };
    let name = |from: usize| {
        if from == LONG { format!("{LONG} and more") } else { format!("{from}–{}", from + 4) }
    };
    let mut header = vec!["recorded steps", "tasks"];
    header.extend(measured.iter().map(|m| m.variant));
    let mut rows = Table::new(&header);
    let at = |m: &Measured, from: usize, part: fn(&Length) -> &Mean| {
        let found = m.lengths.iter().find(|l| l.from == from).and_then(|l| part(l).mean);
        found.map_or("–".to_owned(), |v| format!("{:.0}", 100.0 * v))
    };
    for length in &first.lengths {
        let cell = |m: &Measured| {
            let parts: [fn(&Length) -> &Mean; 3] = [|l| &l.success, |l| &l.completion, |l| &l.efficiency];
            parts.map(|part| at(m, length.from, part)).join(" / ")
        };
        let mut cells = vec![name(length.from), length.completion.values.to_string()];
        cells.extend(measured.iter().map(cell));
        rows.row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    format!("Success / completion / step efficiency in % by recorded steps:\n{rows}")
}

/// What the figures are of, and what leaks.
fn notes(result: &Value) -> String {
    let leak = &result["leakage"];
    format!(
        "{} held-out tasks ({} in the simulator, synthetic; {} of them do not say all that the task needs and count for \
         no success), {} episodes mined: {} units, {} stored plans. Encoder: {}.\n\
         Leakage: {} held-out tasks among the mined ones, {} with at least 80 % of their words in one mined command; {} of {} \
         in a place that no mined unit has.\n\
         {} of {} recorded steps have no label or value: any step of their kind counts as theirs.\n\
         95 % intervals by bootstrap over tasks, seed {}. Success of a replay: every recorded step was carried out.",
        result["tasks"],
        result["simulated_tasks"],
        result["untold"],
        result["mined_episodes"],
        result["mined_units"],
        result["stored_plans"],
        result["encoder"].as_str().unwrap_or_default(),
        leak["same_task"],
        leak["near_duplicates"],
        leak["unseen_places"][1],
        leak["unseen_places"][0],
        result["unnamed_steps"],
        result["recorded_steps"],
        result["seed"],
    )
}
