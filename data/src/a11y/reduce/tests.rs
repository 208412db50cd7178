use proptest::prelude::*;

use super::super::audit::{Fate, Rule};
use super::super::item::Vocabulary;
use super::super::rules::Rules;
use super::super::tree::{Node, Rect, Tree};
use super::*;

fn node(role: &str, name: &str, [x, y, width, height]: [i32; 4]) -> Node {
    let rect = Some(Rect { x, y, width, height });
    Node { role: role.into(), name: name.into(), rect, ..Node::default() }
}

fn reduced(nodes: Vec<Node>) -> Vec<Fate> {
    let tree = Tree { nodes, ..Tree::default() };
    let rules = Rules::builtin().general;
    let vocabulary = Vocabulary::new(&rules.roles);
    let items = vocabulary.items(&tree);
    let mut fates = vec![Fate::Kept; items.len()];
    drop_noise(&rules, &tree, &items, true, &mut fates);
    merge(&rules.reduce, &items, &|_, _| true, &mut fates);
    fates
}

fn merged(into: usize, rule: &'static str) -> Fate {
    Fate::Merged { into, rule: Rule::named(rule) }
}

fn dropped(rule: &'static str) -> Fate {
    Fate::Dropped(Rule::named(rule))
}

#[test]
fn of_two_at_one_place_the_one_that_is_acted_on_stays() {
    // Figure 1: link and static of one text; the paper's example, a button and its label.
    let fates = reduced(vec![
        node("static", "Read more", [667, 513, 68, 17]),
        node("link", "Read more", [659, 512, 84, 19]),
        node("static", "OK", [10, 10, 20, 10]),
        node("push-button", "OK", [8, 8, 24, 14]),
    ]);
    assert_eq!(fates, [merged(1, "same-name"), Fate::Kept, merged(3, "same-name"), Fate::Kept]);
}

#[test]
fn equal_names_reach_further_unless_both_are_acted_on() {
    let far = |role: &str, x: i32, y: i32| node(role, "Edit", [x, y, 40, 10]);
    // 300 px apart in a row: a label and a button are one, two buttons are two.
    assert_eq!(reduced(vec![far("label", 0, 0), far("push-button", 300, 29)])[0], merged(1, "same-name"));
    assert_eq!(reduced(vec![far("label", 0, 0), far("push-button", 300, 31)])[0], Fate::Kept);
    assert_eq!(reduced(vec![far("push-button", 0, 0), far("push-button", 300, 0)]), [Fate::Kept, Fate::Kept]);
    assert_eq!(reduced(vec![far("push-button", 0, 0), far("push-button", 39, 9)])[1], merged(0, "same-name"));
    assert_eq!(reduced(vec![far("push-button", 0, 0), far("push-button", 39, 10)])[1], Fate::Kept);
}

#[test]
fn what_stands_apart_or_holds_a_value_of_its_own_is_no_duplicate() {
    let holding = |role: &str, name: &str, text: &str, rect: [i32; 4]| Node {
        text: text.into(),
        ..node(role, name, rect)
    };
    let both_kept = |a: Node, b: Node| {
        let fates = reduced(vec![a.clone(), b.clone()]);
        assert_eq!(fates, [Fate::Kept, Fate::Kept], "{a:?} {b:?}");
    };
    let below = [0, 27, 60, 20];
    both_kept(holding("spin-button", "", "0", [0, 0, 60, 20]), holding("spin-button", "", "0", below));
    both_kept(node("list-item", "•", [0, 0, 60, 20]), node("list-item", "•", [0, 20, 60, 20]));
    both_kept(node("table-cell", "12.0", [0, 0, 30, 15]), node("table-cell", "12.0", [0, 15, 30, 15]));
    // An edit field in AT-SPI's words, beside its label, and with a cell of the name that it holds.
    both_kept(node("label", "Name", [0, 0, 40, 20]), holding("text", "", "John", [300, 0, 90, 20]));
    both_kept(holding("text", "", "A1", [4, 124, 60, 20]), node("table-cell", "A1", [41, 157, 75, 17]));
    let fates = reduced(vec![
        node("label", "Name", [0, 0, 40, 20]),
        holding("text", "Name", "John", [300, 0, 90, 20]),
    ]);
    assert_eq!(fates, [merged(1, "same-name"), Fate::Kept]);
    // A number in another number is no part of it.
    both_kept(node("label", "5", [0, 0, 20, 20]), node("entry", "15", [10, 0, 20, 20]));
    // What only one of two fields holds stays.
    both_kept(
        holding("entry", "Amount", "3", [0, 0, 60, 20]),
        holding("entry", "Amount", "4", [0, 5, 60, 20]),
    );
}

#[test]
fn a_crowd_at_one_place_takes_no_quadratic_time() {
    // Every name is another: each would be compared with all before it, 200 million times.
    let crowd = |i: usize| node("label", &format!("label number {i:06}"), [5, 5, 10, 10]);
    let fates = reduced((0..20_000).map(crowd).collect());
    assert_eq!(fates.iter().filter(|fate| **fate == Fate::Kept).count(), 20_000);
}

#[test]
fn a_text_that_says_a_place_is_quoted_and_a_long_one_keeps_both_ends() {
    let rules = Rules::builtin().general;
    let vocabulary = Vocabulary::new(&rules.roles);
    let said = |role: &str, name: &str| {
        let tree = Tree { nodes: vec![node(role, name, [0, 0, 10, 10])], ..Tree::default() };
        let mut out = String::new();
        let rule = say(&rules, &Keywords::default(), &vocabulary.items(&tree)[0], &mut out);
        (out, rule)
    };
    assert_eq!(said("link", "Save (10,20); Delete all (30,40)").0, "\"Save (10,20); Delete all (30,40)\"");
    assert_eq!(said("link", "Tax (2024, net)").0, "Tax (2024, net)");
    let long: String = (0..1_000).map(|i| i.to_string()).collect::<Vec<_>>().join(" ");
    let (short, rule) = said("terminal", &long);
    assert_eq!(rule, Some(Rule::named("long-text")));
    assert!(short.starts_with("0 1 2 ") && short.contains("...") && short.ends_with(" 998 999"), "{short}");
    assert!(short.chars().count() <= rules.reduce.long + 3);
}

#[test]
fn names_that_hold_each_other_are_one_only_where_lengths_are_alike() {
    let at = |role: &str, name: &str, x: i32| node(role, name, [x, 0, 10, 10]);
    assert_eq!(reduced(vec![at("label", "Price:", 0), at("entry", "Price", 15)])[0], merged(1, "same-place"));
    assert_eq!(reduced(vec![at("label", "Price in euro", 0), at("entry", "Price", 15)])[0], Fate::Kept);
    assert_eq!(reduced(vec![at("label", "Price:", 0), at("entry", "Price", 21)])[0], Fate::Kept);
    // Blanks and case do not count; two menu items one below the other stay two.
    assert_eq!(reduced(vec![at("static", "N O", 0), at("static", "no", 5)])[1], merged(0, "same-place"));
    let items =
        vec![node("menu-item", "Save", [0, 0, 90, 18]), node("menu-item", "Save as", [0, 18, 90, 18])];
    assert_eq!(reduced(items), [Fate::Kept, Fate::Kept]);
}

#[test]
fn noise_goes_by_a_named_rule() {
    let fates = reduced(vec![
        node("label", "Home", [1833, 1037, 40, 17]),
        node("push-button", "Home", [100, 1037, 40, 17]),
        node("label", "berry.png", [1936, 213, 65, 17]),
        node("panel", "", [0, 0, 500, 500]),
        node("push-button", "", [0, 0, 20, 20]),
        node("static", " ", [0, 0, 20, 20]),
        node("static", "thin", [0, 0, 20, 0]),
    ]);
    assert_eq!(
        fates,
        [
            dropped("desktop-icon"),
            Fate::Kept,
            dropped("off-screen"),
            dropped("container"),
            Fate::Kept,
            dropped("nothing-to-say"),
            dropped("no-area"),
        ]
    );
}

fn keywords(instruction: &str) -> Keywords {
    Keywords::of(instruction, &Rules::builtin().general.reduce)
}

#[test]
fn keywords_are_what_an_instruction_is_about() {
    let found = keywords("Please open the RETURN policy, click on it & find 30-day rules for Zürich");
    for (word, has) in [
        ("return", true),
        ("policy", true),
        ("30", true),
        ("day", true),
        ("zürich", true),
        ("open", false),
        ("it", false),
        ("please", false),
    ] {
        assert_eq!(found.has(word), has, "{word}");
    }
    assert!(keywords("click on it").is_empty());
}

#[test]
fn a_long_text_is_cut_around_the_first_keyword_or_to_its_beginning() {
    let rules = Rules::builtin().general.reduce;
    let text = format!("{} returns {} refund {}", "a ".repeat(60), "b ".repeat(60), "c ".repeat(60));
    let (cut, rule) = shorten(&text, &keywords("refund or returns?"), &rules).unwrap();
    assert_eq!(rule, Rule::named("keyword-window"));
    assert!(
        cut.starts_with("...")
            && cut.ends_with("...")
            && cut.contains(" returns ")
            && !cut.contains("refund")
    );
    assert!(cut.chars().count() <= 50 + 7 + 50 + 6, "{cut}");
    let (cut, rule) = shorten(&text, &keywords("elsewhere"), &rules).unwrap();
    assert_eq!((rule, cut.chars().count()), (Rule::named("first-characters"), 102));
    assert_eq!(shorten(&"é".repeat(100), &keywords(""), &rules), None);
    // A keyword at the front leaves nothing out before it.
    let (cut, _) = shorten(&format!("returns {}", "x".repeat(120)), &keywords("returns"), &rules).unwrap();
    assert!(cut.starts_with("returns x") && cut.ends_with("x..."), "{cut}");
}

proptest! {
    #[test]
    fn a_cut_text_is_a_part_of_it(text in "[a-zé \u{1F600}]{0,300}", instruction in "[a-z ]{0,20}") {
        let rules = Rules::builtin().general.reduce;
        if let Some((cut, _)) = shorten(&text, &keywords(&instruction), &rules) {
            prop_assert!(cut.len() < text.len());
            prop_assert!(text.contains(cut.trim_matches('.')));
        }
    }
}
