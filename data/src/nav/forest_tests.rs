//! The forest and its text: the paper's example, random graphs, adversarial graphs.

use proptest::prelude::*;

use super::graph::{Control, Edge, Graph, Place};
use super::text::{Everything, Label, Parsed, parse, write_trees};
use super::{ControlId, CoreOptions, Dag, Forest, ForestError, MAX_NODES, Plan, Targets, Theta, Topology};

/// Children by node: edges of a graph on `n` nodes.
pub(super) fn children(n: usize, edges: &[(u32, u32)]) -> Vec<Vec<u32>> {
    let mut children = vec![Vec::new(); n];
    edges.iter().for_each(|&(from, to)| children[from as usize].push(to));
    for list in &mut children {
        list.sort_unstable();
        list.dedup();
    }
    children
}

/// A graph of buttons called after their numbers; 0 is the virtual root.
pub(super) fn graph(n: usize, edges: &[(u32, u32)]) -> Graph {
    let mut graph = Graph { controls: vec![Control::root("app")], ..Graph::default() };
    for i in 1..n {
        let id = ControlId::new(i.to_string(), "button", ["window"]);
        graph.controls.push(Control { id_only: false, ..Control::bare(id, Place::new("log", "line 1")) });
    }
    for &(from, to) in edges {
        graph.edges.push(Edge {
            from,
            to,
            action: "click".to_owned(),
            window_opened: None,
            count: 1,
            flags: Vec::new(),
            evidence: Vec::new(),
        });
    }
    graph
}

pub(super) fn topology(graph: Graph, theta: Theta) -> Topology {
    Topology::of(graph, theta, CoreOptions::default(), String::new()).expect("small enough")
}

/// Figure 4 below the virtual root.
pub(super) const FIGURE_4: [(u32, u32); 13] = [
    (0, 1),
    (1, 2),
    (1, 3),
    (1, 4),
    (2, 5),
    (3, 6),
    (4, 6),
    (6, 7),
    (6, 8),
    (6, 9),
    (9, 10),
    (9, 11),
    (9, 12),
];

const WAY: [u32; 5] = [1, 4, 6, 9, 12];

#[test]
fn figure_4_as_a_tree_and_as_a_forest() {
    for theta in [Theta(None), Theta(Some(7))] {
        let tree = topology(graph(13, &FIGURE_4), theta);
        assert_eq!(tree.forest.roots, [0]);
        assert_eq!(Targets::of(&tree).follow(&WAY), Some((19, Vec::new())), "θ = {theta}");
    }
    for theta in [Theta(Some(0)), Theta(Some(6))] {
        let forest = topology(graph(13, &FIGURE_4), theta);
        assert_eq!(forest.forest.roots, [0, 8], "θ = {theta}");
        assert_eq!(Targets::of(&forest).follow(&WAY), Some((14, vec![7])));
        assert_eq!(forest.forest.entries.into_iter().collect::<Vec<_>>(), [(8, vec![5, 7])]);
    }
}

#[test]
fn figure_4_as_text() {
    let topology = topology(graph(13, &FIGURE_4), Theta(Some(6)));
    let mut labels = topology.labels(super::Limit::default());
    labels.iter_mut().for_each(|label| label.control_type.clear());
    let labels: Vec<Label> =
        labels.into_iter().map(|label| Label { description: String::new(), ..label }).collect();
    let expected = "# main tree\napp_0[\n1_1[2_2[5_3],3_4[6_5],4_6[6_7]]\n]\n# shared subtrees\n6_8[\n7_9,\n8_10,\n\
                    9_11[10_12,11_13,12_14]\n]\n# entries: reference -> root of the shared subtree\n5 -> 8\n7 -> 8\n";
    assert_eq!(topology.text(&labels), expected);
    assert_eq!(
        topology.branches_text(&[7], &labels),
        "# shared subtrees\n6_8[\n7_9,\n8_10,\n9_11[10_12,11_13,12_14]\n]\n",
        "a reference stands for its subtree"
    );
}

#[test]
fn a_cycle_is_cut_where_it_closes_and_noted() {
    // 1 and 2 lead to each other; 3 leads to itself; 5 and 6 are a circle that nothing leads to.
    let dag = Dag::of(&children(7, &[(0, 1), (1, 2), (2, 1), (2, 3), (3, 3), (1, 3), (5, 6), (6, 5)]), 0);
    assert_eq!(dag.back_edges, [(2, 1), (3, 3)]);
    assert_eq!(dag.unreachable, [4, 5, 6]);
    assert_eq!(dag.postorder, [3, 2, 1, 0]);
    assert_eq!(dag.in_degree, [0, 1, 1, 2, 0, 0, 0]);
}

#[test]
fn a_ladder_of_sixty_diamonds_stays_small_and_its_tree_is_refused() {
    // 0 → 1, then each rung doubles: 3i+1 → 3i+2, 3i+3 → 3i+4.
    let mut edges = vec![(0, 1)];
    for rung in 0..60 {
        let top = 3 * rung + 1;
        edges.extend([(top, top + 1), (top, top + 2), (top + 1, top + 3), (top + 2, top + 3)]);
    }
    let (n, e) = (182, edges.len() as u64);
    let children = children(n, &edges);
    let dag = Dag::of(&children, 0);
    assert_eq!(dag.merge_nodes(), 60);
    for theta in [0, 5, 20, 50] {
        let forest = Forest::of(&dag, Theta(Some(theta)), MAX_NODES).expect("small");
        assert!(
            forest.nodes.len() as u64 <= n as u64 + e + theta * 60,
            "θ = {theta}: {}",
            forest.nodes.len()
        );
    }
    let error = Forest::of(&dag, Theta(None), MAX_NODES).expect_err("2^60 and more");
    let ForestError::TooLarge { nodes, .. } = error;
    assert!((1 << 61..u64::MAX).contains(&nodes), "{nodes}");
    // Four more rungs, and the number no longer fits.
    let mut high = edges.clone();
    for rung in 60..70 {
        let top = 3 * rung + 1;
        high.extend([(top, top + 1), (top, top + 2), (top + 1, top + 3), (top + 2, top + 3)]);
    }
    let dag = Dag::of(&super::forest_tests::children(212, &high), 0);
    assert_eq!(Plan::of(&dag, Theta(None)).size[0], u64::MAX, "saturates");
    let error = Forest::of(&dag, Theta(None), MAX_NODES).expect_err("too large");
    assert!(error.to_string().contains("more than 2^64") && error.to_string().contains("--theta"), "{error}");
}

#[test]
fn a_chain_of_a_hundred_thousand_needs_no_stack() {
    let n = 100_000;
    let edges: Vec<(u32, u32)> = (0..n - 1).map(|i| (i, i + 1)).chain([(n - 1, 1)]).collect();
    let topology = topology(graph(n as usize, &edges), Theta::default());
    assert_eq!(topology.back_edges, [(n - 1, 1)]);
    assert_eq!(topology.forest.path_in_tree(n - 1).len(), n as usize);
    let labels = topology.labels(super::Limit::default());
    let text = topology.text(&labels);
    let parsed = parse(&text).expect("comes back");
    assert_eq!(parsed.nodes.len(), n as usize);
    assert_eq!(parsed.nodes[n as usize - 1].id, n - 1);
    let mut json = Vec::new();
    topology.write(&mut json).expect("written");
    let again = Topology::read(std::str::from_utf8(&json).expect("UTF-8"), topology.graph.clone());
    assert_eq!(again.expect("read").forest, topology.forest);
    let core = topology.core(CoreOptions { depth: 6, enumeration: 30 });
    assert_eq!(core.nodes, 7, "the root and six levels");
}

/// Graphs on up to 14 nodes with up to 40 edges, cycles and loops among them.
fn graphs() -> impl Strategy<Value = (usize, Vec<(u32, u32)>)> {
    (2_usize..14).prop_flat_map(|n| {
        let node = 0..n as u32;
        (Just(n), proptest::collection::vec((node.clone(), node), 0..40))
    })
}

/// Every path of a graph without cycles from its root to `to`, as lists of nodes.
fn paths(dag: &Dag, at: u32, to: u32, way: &mut Vec<u32>, out: &mut Vec<Vec<u32>>) {
    if at == to {
        out.push(way.clone());
    }
    for &child in &dag.children[at as usize] {
        way.push(child);
        paths(dag, child, to, way, out);
        way.pop();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn forests_of_any_graph_keep_their_promises((n, edges) in graphs(), theta in 0_u64..30) {
        let children = children(n, &edges);
        let dag = Dag::of(&children, 0);
        // What is left and what was taken out is what there was, and nothing leads upwards any more.
        let place: Vec<usize> = (0..n as u32)
            .map(|v| dag.postorder.iter().position(|&p| p == v).unwrap_or(usize::MAX)).collect();
        for (from, list) in children.iter().enumerate().filter(|(from, _)| place[*from] != usize::MAX) {
            for &to in list {
                let kept = dag.children[from].contains(&to);
                prop_assert!(kept != dag.back_edges.contains(&(from as u32, to)), "{from} → {to}: once");
                prop_assert!(!kept || place[to as usize] < place[from]);
            }
        }
        for &(from, to) in &dag.back_edges {
            prop_assert!(children[from as usize].contains(&to));
            let (mut up, mut found) = (Vec::new(), Vec::new());
            paths(&dag, to, from, &mut up, &mut found);
            prop_assert!(!found.is_empty(), "{from} → {to} closed no cycle");
        }
        let bound = dag.postorder.len() as u64 + dag.edges() as u64 + theta * dag.merge_nodes() as u64;
        let plan = Plan::of(&dag, Theta(Some(theta)));
        for (v, shared) in plan.shared.iter().enumerate() {
            let cost = u64::from(dag.in_degree[v].saturating_sub(1)) * plan.size[v];
            prop_assert_eq!(*shared, cost > theta, "node {}", v);
        }
        for theta in [Theta(Some(theta)), Theta(None)] {
            let Ok(forest) = Forest::of(&dag, theta, 20_000) else { continue };
            let topology = Topology { forest, ..topology(graph(n, &edges), Theta(Some(0))) };
            let (forest, targets) = (&topology.forest, Targets::of(&topology));
            prop_assert_eq!(forest.nodes.len() as u64, Plan::of(&dag, theta).nodes(&dag));
            if theta.0.is_some() {
                prop_assert!(forest.nodes.len() as u64 <= bound, "{} > {}", forest.nodes.len(), bound);
            } else {
                prop_assert_eq!(forest.roots.len(), 1);
            }
            // Consecutive preorder ids: every node lies inside its parent, and roots have none.
            for (id, node) in (0..).zip(&forest.nodes) {
                match node.parent {
                    Some(parent) => prop_assert!(parent < id && node.end <= forest.nodes[parent as usize].end),
                    None => prop_assert!(forest.roots.contains(&id)),
                }
            }
            // Every way through the graph is a way through the forest, to a node of its own.
            let mut reached = std::collections::BTreeMap::new();
            for to in 1..n as u32 {
                let (mut way, mut ways) = (Vec::new(), Vec::new());
                paths(&dag, 0, to, &mut way, &mut ways);
                for way in ways.into_iter().filter(|way| !way.is_empty()) {
                    let (id, references) = targets.follow(&way).expect("every way is kept");
                    prop_assert_eq!(forest.nodes[id as usize].control, to);
                    let before = reached.insert((id, references), way.clone());
                    prop_assert_eq!(before, None, "two ways to one place");
                }
            }
            // And nothing else is in it: every leaf is reached by its entrance.
            let entrances = forest.entrances();
            for id in (0..forest.nodes.len() as u32).filter(|&id| id != 0 && forest.is_leaf(id)) {
                let references = entrances.get(&forest.root_of(id)).expect("every tree is entered");
                prop_assert!(reached.contains_key(&(id, references.clone())));
            }
        }
    }

    #[test]
    fn the_order_of_edges_in_the_input_does_not_matter((n, edges) in graphs(), seed in any::<u64>()) {
        let mut shuffled = edges.clone();
        let mut state = seed | 1;
        for i in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(i, (state >> 33) as usize % (i + 1));
        }
        let (a, b) = (topology(graph(n, &edges), Theta::default()), topology(graph(n, &shuffled), Theta::default()));
        prop_assert_eq!((a.forest, a.back_edges), (b.forest, b.back_edges));
    }

    #[test]
    fn text_with_hostile_names_comes_back(
        (n, edges) in graphs(),
        words in proptest::collection::vec("[\\\\()\\[\\],_+# \n\r\ta0-9>éu{}\u{0}\u{1b}\u{7f}\u{85}\u{2028}\u{202e}\u{200d}-]{0,7}", 42),
        theta in 0_u64..10,
    ) {
        let topology = topology(graph(n, &edges), Theta(Some(theta)));
        let labels: Vec<Label> = { words.chunks_exact(3).take(n) }
            .map(|w| Label { name: w[0].clone(), control_type: w[1].clone(), description: w[2].clone() })
            .collect();
        let text = write_trees(&topology.forest, &topology.forest.roots, |id| {
            &labels[topology.forest.nodes[id as usize].control as usize]
        }, &Everything);
        prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{:?}", text);
        let parsed = parse(&text).expect("comes back");
        prop_assert_eq!(parsed.nodes.len(), topology.forest.nodes.len());
        for (node, read) in topology.forest.nodes.iter().zip(&parsed.nodes) {
            prop_assert_eq!(&read.label, &labels[node.control as usize]);
            prop_assert_eq!(read.parent.map(|p| parsed.nodes[p].id), node.parent);
        }
        let ids: Vec<u32> = parsed.nodes.iter().map(|node| node.id).collect();
        prop_assert_eq!(ids, (0..topology.forest.nodes.len() as u32).collect::<Vec<_>>());
        let entries = topology.forest.entries.iter().flat_map(|(root, refs)| refs.iter().map(|r| (*r, *root)));
        let mut entries: Vec<_> = entries.collect();
        entries.sort_unstable();
        let mut read = parsed.entries;
        read.sort_unstable();
        prop_assert_eq!(read, entries);
    }

    #[test]
    fn reading_any_text_ends_in_trees_or_in_an_error(text in r"[a_0-9\[\]()+,\\\n -]{0,40}") {
        if let Err(error) = parse(&text) {
            prop_assert!(error.line >= 1 && error.column >= 1 && !error.reason.is_empty());
        }
    }

    #[test]
    fn thetas_come_back_from_text_and_json(theta in proptest::option::of(0_u64..1 << 40)) {
        let theta = Theta(theta);
        prop_assert_eq!(theta.to_string().parse(), Ok(theta));
        let json = serde_json::to_string(&theta).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<Theta>(&json).expect("comes back"), theta);
    }
}

#[test]
fn broken_text_is_told_by_line_and_column() {
    for (text, at, reason) in [
        ("a_0[\nb_1,\nc_x]\n", (3, 3), "expected an id"),
        ("a_0[b_1", (1, 8), "expected `,` and another child, or `]`"),
        ("a_0]", (1, 4), "expected the end of the line"),
        ("a(b_0", (1, 6), "a type is cut off"),
        ("a(b)c_0", (1, 5), "expected `_` and the id"),
        ("a_0[b,c_2]", (1, 6), "`,` in a name"),
        ("a_0[+x]", (1, 6), "the number of nodes not shown"),
        ("a_99999999999", (1, 3), "a whole number"),
        ("a\\", (1, 3), "a backslash ends the text"),
        ("a\\u{1g}_0", (1, 4), "the number of a character"),
        ("a\\u{d800}_0", (1, 4), "the number of a character"),
        ("a\\u1b_0", (1, 4), "the number of a character"),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!((error.line, error.column), at, "{text}: {error}");
        assert!(error.reason.contains(reason), "{text}: {error}");
    }
    assert_eq!(parse("# nothing\n\n"), Ok(Parsed::default()));
    let hidden = parse("a_0[+3]\nb_1[c_2,+4]\n5 -> 1\n").expect("read");
    assert_eq!(hidden.nodes.iter().map(|n| n.hidden).collect::<Vec<_>>(), [3, 4, 0]);
    assert_eq!(hidden.entries, [(5, 1)]);
}

#[test]
fn the_core_leaves_out_large_enumerations_and_what_is_named() {
    // 1 has 40 leaves, 2 and 3 share the subtree of 4.
    let mut edges: Vec<(u32, u32)> = vec![(0, 1), (0, 2), (0, 3), (2, 4), (3, 4)];
    edges.extend((5..45).map(|leaf| (1, leaf)));
    edges.extend((45..60).map(|leaf| (4, leaf)));
    edges.push((1, 60));
    let mut graph = graph(61, &edges);
    graph.controls[60].id.control_type = "edit".to_owned();
    let mut topology = topology(graph, Theta(Some(5)));
    let labels = topology.labels(super::Limit::Chars(0));
    let options = CoreOptions { depth: 6, enumeration: 30 };
    let text = topology.core_text(options, &labels);
    assert!(text.starts_with("# main tree\napp(virtual root)_0[\n1(button)_1[60(edit)_42,+40],\n"), "{text}");
    assert!(text.contains("# shared subtrees\n4(button)_47[\n45(button)_48,"), "{text}");
    let shallow = topology.core_text(CoreOptions { depth: 1, enumeration: 30 }, &labels);
    assert_eq!(
        shallow,
        "# main tree\napp(virtual root)_0[\n1(button)_1[+41],\n2(button)_43[+1],\n3(button)_45[+1]\n]\n"
    );
    topology.prune = "2\n3\n".to_owned();
    let pruned = topology.core_text(options, &labels);
    assert!(!pruned.contains("shared"), "nothing leads there: {pruned}");
    assert!(pruned.ends_with("60(edit)_42,+40],+4\n]\n"), "{pruned}");
    assert!(parse(&pruned).is_ok());
}

#[test]
fn values_are_an_enumeration_sooner_than_commands() {
    // 1 holds 8 list items, 4 cells and 11 buttons, 2 holds 10 list items; 25 is a cell below 1 with something
    // below it.
    let mut edges: Vec<(u32, u32)> = vec![(0, 1), (0, 2), (1, 25), (25, 26)];
    edges.extend((3..25).map(|leaf| (1, leaf)));
    edges.push((1, 37));
    edges.extend((27..37).map(|leaf| (2, leaf)));
    let mut graph = graph(38, &edges);
    for (range, kind) in
        [(3..11, "list item"), (11..15, "table cell"), (25..26, "table cell"), (27..37, "list item")]
    {
        range.for_each(|i| kind.clone_into(&mut graph.controls[i].id.control_type));
    }
    let topology = topology(graph, Theta::default());
    let shown = |enumeration: usize| {
        let core = topology.core(CoreOptions { depth: 6, enumeration });
        let shown = |&id: &u32| super::text::Selection::shows(&core, id);
        let ids: Vec<u32> = (0..topology.forest.nodes.len() as u32).filter(shown).collect();
        let mut controls: Vec<u32> =
            ids.into_iter().map(|id| topology.forest.nodes[id as usize].control).collect();
        controls.sort_unstable();
        controls
    };
    let hidden = |enumeration: usize| {
        let shown = shown(enumeration);
        (0..38).filter(|control| shown.binary_search(control).is_err()).collect::<Vec<u32>>()
    };
    assert_eq!(hidden(36), [0_u32; 0], "12 values and 36 / 3");
    assert_eq!(
        hidden(33),
        (3..15).collect::<Vec<_>>(),
        "lists and cells count together; 10 list items may stay"
    );
    assert_eq!(hidden(10), (3..25).chain(27..38).collect::<Vec<_>>(), "11 buttons as well");
}

#[test]
fn long_names_are_cut_and_control_characters_are_written_out() {
    let mut graph = graph(4, &[(0, 1), (0, 2), (0, 3)]);
    graph.controls[1].name = "N".repeat(200_000);
    graph.controls[2].name = "\u{1b}[31mred\u{0}\u{2028}\u{202e}👩\u{200d}💻".to_owned();
    graph.controls[3].id.control_type = "t".repeat(5_000);
    let topology = topology(graph, Theta::default());
    let labels = topology.labels(super::Limit::default());
    let text = topology.core_text(topology.core, &labels);
    assert_eq!(
        text,
        format!(
            "# main tree\napp(virtual root)_0[\n{}…(button)_1,\n\\u{{1b}}\\[31mred\\u{{0}}\\u{{2028}}\\u{{202e}}👩\u{200d}💻(button)_2,\n3({}…)_3\n]\n",
            "N".repeat(119),
            "t".repeat(119)
        )
    );
    let parsed = parse(&text).expect("comes back");
    let read: Vec<&Label> = parsed.nodes.iter().map(|node| &node.label).collect();
    assert_eq!(read, labels.iter().collect::<Vec<_>>());
    let mut json = Vec::new();
    topology.write(&mut json).expect("written");
    assert!(String::from_utf8(json).expect("UTF-8").contains(&"N".repeat(200_000)), "the file has it whole");
}

#[test]
fn descriptions_go_with_key_types_ways_and_shared_names() {
    let mut graph = graph(9, &[(0, 1), (1, 2), (0, 3), (0, 4), (0, 5), (0, 6), (0, 7), (0, 8)]);
    let set = |graph: &mut Graph, i: usize, name: &str, kind: &str, description: &str| {
        let control = &mut graph.controls[i];
        name.clone_into(&mut control.name);
        kind.clone_into(&mut control.id.control_type);
        description.clone_into(&mut control.description);
    };
    set(&mut graph, 1, "More", "link", "opens the rest of the list");
    set(&mut graph, 2, "Leaf", "link", "not told");
    set(&mut graph, 3, "Color", "page tab", "");
    set(&mut graph, 4, "Color", "label", "The colour of the text, as it is printed and as it is shown");
    set(&mut graph, 5, "Same", "label", "told");
    set(&mut graph, 6, "Same", "label", "told");
    set(&mut graph, 7, "Bold", "push button", "BOLD ");
    set(&mut graph, 8, "", "push button", "");
    let topology = topology(graph, Theta::default());
    let labels = topology.labels(super::Limit::Chars(20));
    let told: Vec<&str> = labels.iter().map(|label| label.description.as_str()).collect();
    assert_eq!(
        told,
        ["", "opens the rest of t…", "", "window", "The colour of the t…", "", "", "", "window"]
    );
    let words = |text: &str| text.split_whitespace().count();
    let labels = topology.labels(super::Limit::Tokens(3, &words));
    assert_eq!(labels[1].description, "opens the rest…");
}

#[test]
fn files_of_two_builds_are_refused() {
    let topology = topology(graph(13, &FIGURE_4), Theta(Some(6)));
    let mut json = Vec::new();
    topology.write(&mut json).expect("written");
    let text = String::from_utf8(json).expect("UTF-8");
    assert_eq!(Topology::read(&text, topology.graph.clone()).expect("read"), topology);
    let error = Topology::read(&text, graph(5, &[])).expect_err("another graph");
    assert!(error.to_string().contains("has no control") && error.to_string().contains("build"), "{error}");
    for (from, to, said) in [
        ("\"version\": 1", "\"version\": 9", "version 9"),
        ("\"id\": 3,\n      \"parent\": 2", "\"id\": 3,\n      \"parent\": 7", "nodes[3]"),
        ("\"5\": 8", "\"5\": 9", "5 -> 9"),
        ("\"roots\": [\n    0,\n    8\n  ]", "\"roots\": [8]", "roots"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = Topology::read(&text.replace(from, to), topology.graph.clone()).expect_err(said);
        assert!(error.to_string().contains(said), "{error}");
    }
    let mut json = Vec::new();
    topology.graph.write(&mut json).expect("written");
    let text = String::from_utf8(json).expect("UTF-8");
    assert_eq!(Graph::read(&text).expect("read"), topology.graph);
    let error = Graph::read(&text.replacen("\"from\": \"1|button|window\"", "\"from\": \"x|y|z\"", 1));
    assert!(error.expect_err("no such node").to_string().contains("edges[1]: no node has the id `x|y|z`"));
}
