//! Graphs written as exploration logs and read back: what the log observes and nothing else, whether it tells its
//! paths or not.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::forest_tests::{FIGURE_4, children};
use super::{BuildOptions, Built, Dag, Flag, GraphBuilder, ROOT, RipReader};

/// How a log tells the way to what it acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paths {
    /// What was clicked from the first screen on.
    True,
    /// An empty list, whatever was clicked.
    Empty,
    /// No such field.
    Absent,
}

const ALL: [Paths; 3] = [Paths::True, Paths::Empty, Paths::Absent];

fn id(n: u32) -> String {
    format!("{n}|button|window")
}

fn control(n: u32) -> Value {
    json!({"id": id(n), "name": n.to_string(), "role": "button", "states": ["enabled"], "actions": ["click"]})
}

/// One shortest way from the virtual root to every node, the node itself left out; nothing where there is none.
fn ways(children: &[Vec<u32>]) -> Vec<Option<Vec<u32>>> {
    let mut ways = vec![None; children.len()];
    ways[ROOT as usize] = Some(Vec::new());
    let mut queue = VecDeque::from([ROOT]);
    while let Some(at) = queue.pop_front() {
        let mut way = ways[at as usize].clone().expect("in the queue");
        way.extend((at != ROOT).then_some(at));
        for &to in &children[at as usize] {
            if ways[to as usize].is_none() {
                ways[to as usize] = Some(way.clone());
                queue.push_back(to);
            }
        }
    }
    ways
}

/// The log of an explorer that acted on every control of a graph; 0 is the virtual root.
fn lines(children: &[Vec<u32>], paths: Paths) -> Vec<String> {
    let ways = ways(children);
    let row = |(at, list): (usize, &Vec<u32>)| {
        let (is_launch, at) = (at == ROOT as usize, at as u32);
        let mut row = json!({
            "app": "a", "control": if is_launch { Value::Null } else { control(at) },
            "action": if is_launch { "launch" } else { "click" },
            "new_controls": list.iter().map(|&to| control(to)).collect::<Vec<_>>(),
        });
        let way = match paths {
            Paths::Absent => None,
            Paths::Empty => Some(Vec::new()),
            Paths::True => ways[at as usize].clone(),
        };
        if let Some(way) = way {
            row["path"] = json!(way.into_iter().map(id).collect::<Vec<_>>());
        }
        row.to_string()
    };
    children.iter().enumerate().map(row).collect()
}

fn read(lines: &[String]) -> Built {
    let mut builder = GraphBuilder::new(BuildOptions::default());
    let mut reader = RipReader::new("log.jsonl", "log");
    for (number, line) in (1..).zip(lines) {
        reader.line(&mut builder, number, Ok(line));
    }
    reader.end(&mut builder);
    builder.finish()
}

/// The edges of a graph by the controls' numbers, and whether each was only assumed.
fn edges(built: &Built) -> BTreeSet<(u32, u32, bool)> {
    let number = |at: u32| match at {
        ROOT => ROOT,
        at => built.graph.controls[at as usize].id.primary.parse().expect("a number"),
    };
    let assumed = |flags: &[Flag]| flags.contains(&Flag::ByPath);
    built.graph.edges.iter().map(|e| (number(e.from), number(e.to), assumed(&e.flags))).collect()
}

#[test]
fn figure_4_is_the_same_with_and_without_paths() {
    let children = children(13, &FIGURE_4);
    let observed: BTreeSet<_> = FIGURE_4.iter().map(|&(from, to)| (from, to, false)).collect();
    for paths in ALL {
        let built = read(&lines(&children, paths));
        assert_eq!(edges(&built), observed, "{paths:?}");
        let counts = &built.graph.counts;
        let told = (counts.get("edges_by_path"), counts.get("transitions_without_path").copied());
        assert_eq!(told, (None, (paths == Paths::Absent).then_some(12)), "{paths:?}");
        // A row without a path says nothing of how its control was come to.
        assert_eq!(built.clicks.len(), if paths == Paths::Absent { 0 } else { 12 });
    }
}

#[test]
fn a_ladder_and_a_chain_without_paths_stay_what_they_are() {
    let mut ladder = vec![(0, 1)];
    for rung in 0..60 {
        let top = 3 * rung + 1;
        ladder.extend([(top, top + 1), (top, top + 2), (top + 1, top + 3), (top + 2, top + 3)]);
    }
    let chain: Vec<(u32, u32)> = (0..5_000).map(|i| (i, i + 1)).collect();
    for (n, list, merge_nodes) in [(182, ladder, 60), (5_001, chain, 0)] {
        let children = children(n, &list);
        let built = read(&lines(&children, Paths::Absent));
        assert_eq!(built.graph.edges.len(), list.len());
        assert_eq!(Dag::of(&built.graph.children(), ROOT).merge_nodes(), merge_nodes);
    }
}

#[test]
fn what_nothing_reveals_was_there_from_the_start() {
    // Nothing leads to 1, nor to the circle of 4 and 5, in which 5 was acted on first.
    let rows = |list: &[(u32, &[u32])]| -> Vec<String> {
        let row = |(at, new): &(u32, &[u32])| {
            let new: Vec<Value> = new.iter().map(|&n| control(n)).collect();
            json!({"action": "click", "control": control(*at), "new_controls": new}).to_string()
        };
        list.iter().map(row).collect()
    };
    // The row of 2 stands before the one that reveals it.
    let built = read(&rows(&[(2, &[3]), (1, &[2]), (5, &[4]), (4, &[5])]));
    assert_eq!(
        edges(&built),
        BTreeSet::from([
            (0, 1, true),
            (0, 5, true),
            (1, 2, false),
            (2, 3, false),
            (4, 5, false),
            (5, 4, false)
        ])
    );
    // What a suspect row or a blacklisted control showed came from there, so far as the log tells.
    let quit = json!({"id": "Quit|button|window", "name": "Quit", "role": "button"});
    let mut lines = vec![
        json!({"action": "launch", "control": null, "new_controls": [control(1), quit]}).to_string(),
        json!({"action": "click", "control": control(1), "new_controls": [control(2)], "suspect": true})
            .to_string(),
        json!({"action": "click", "control": quit, "new_controls": [control(6)]}).to_string(),
    ];
    lines.extend(rows(&[(2, &[3]), (3, &[2]), (6, &[7])]));
    let found = read(&lines);
    let from_root: Vec<u32> = found.graph.edges.iter().filter(|e| e.from == ROOT).map(|e| e.to).collect();
    assert_eq!(from_root, [1, 2], "1 and Quit");
    let unreachable = Dag::of(&found.graph.children(), ROOT).unreachable.len();
    assert_eq!(unreachable, 4, "2, 3, 6 and 7 are told, not put on the first screen");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_log_gives_the_graph_it_observes(
        (n, list) in (2_usize..14).prop_flat_map(|n| {
            let (from, to) = (0..n as u32, 1..n as u32);
            (Just(n), proptest::collection::vec((from, to), 1..40))
        }),
        order in any::<prop::sample::Index>(),
    ) {
        let children = children(n, &list);
        let observed: BTreeSet<_> = list.iter().map(|&(from, to)| (from, to, false)).collect();
        let reached = |edges: &BTreeSet<(u32, u32, bool)>| {
            let list: Vec<(u32, u32)> = edges.iter().map(|&(from, to, _)| (from, to)).collect();
            ways(&self::children(n, &list)).iter().map(Option::is_some).collect::<Vec<_>>()
        };
        let before = reached(&observed);
        for paths in ALL {
            let mut lines = lines(&children, paths);
            let mid = order.index(lines.len());
            lines.rotate_left(mid);
            let found = edges(&read(&lines));
            // Every edge that the log shows is there. What is there beside leads from the first screen to what
            // could not be reached without it.
            prop_assert!(observed.is_subset(&found), "{:?}", paths);
            for &(from, to, assumed) in found.difference(&observed) {
                prop_assert!(from == ROOT && assumed && !before[to as usize], "{:?}: {} → {}", paths, from, to);
            }
            // And then everything that was acted on can be.
            prop_assert!(reached(&found).into_iter().all(|reached| reached), "{:?}", paths);
        }
    }
}
