use proptest::prelude::*;

use super::super::testing::{kinds, read_all, read_bytes, real_data, try_bytes};
use super::*;

const SHOWN: [&str; 4] = [
    "[button]  Reservations -> HOVER",
    "[textbox]  City -> State -> TYPE: 08817 -> x",
    "[select]  Time -> SELECT: 02:30 PM",
    "[input]   -> CLICK",
];

fn row(id: &str, step: u32) -> Value {
    let (operation, value) =
        [("CLICK", ""), ("TYPE", "08817"), ("SELECT", "02 30 PM"), ("CLICK", "")][step as usize];
    json!({
        "annotation_id": id, "action_uid": format!("uid-{step}"), "task": "Rent a truck", "website": "budget",
        "domain": "Travel", "subdomain": "Car rental", "operation": operation, "value": value,
        "bbox": [[534.0, 45.0, 151.0, 22.0]], "previous_actions": SHOWN[..step as usize], "step": step,
        "total_steps": 4, "split": "task", "blocks_path": "p", "target_blocks": {},
    })
}

fn lines(rows: &[Value]) -> String {
    rows.iter().fold(String::new(), |text, row| text + &row.to_string() + "\n")
}

fn read(rows: &[Value]) -> (Vec<Episode>, Vec<crate::trace::Reject>) {
    read_bytes(Format::Mind2web, "a.jsonl", lines(rows).as_bytes())
}

#[test]
fn rows_are_grouped_and_ordered_over_the_whole_file() {
    let (episodes, rejects) =
        read(&[row("b", 2), row("a", 0), row("b", 0), row("a", 1), row("b", 1), row("b", 3)]);
    assert_eq!(rejects, []);
    let order: Vec<_> = episodes
        .iter()
        .map(|e| {
            (e.episode_id.as_str(), e.source_key.as_str(), e.steps.iter().map(|s| s.step).collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(
        order,
        [("mind2web:b", "lines 1-6", vec![0, 1, 2, 3]), ("mind2web:a", "lines 2-4", vec![0, 1])]
    );
    assert_eq!(episodes[0].steps[2].source_key, "line 1");
    let extra: Value = serde_json::from_str(episodes[1].extra.as_deref().expect("extra")).expect("JSON");
    assert_eq!(extra["missing_steps"], 2);
    assert_eq!(episodes[0].domain.as_deref(), Some("Travel/Car rental"));
    assert_eq!(
        (episodes[0].split.as_deref(), episodes[0].steps[0].site.as_deref()),
        (Some("task"), Some("budget"))
    );
}

#[test]
fn in_a_cut_off_file_the_last_episode_is_refused_if_it_lacks_steps() {
    let whole = lines(&[row("b", 0), row("b", 1), row("b", 2), row("b", 3), row("a", 0), row("a", 1)]);
    let cut = &whole.as_bytes()[..whole.len() - 20];
    let (episodes, rejects) = read_bytes(Format::Mind2web, "a.jsonl", cut);
    assert_eq!(episodes.iter().map(|e| e.episode_id.as_str()).collect::<Vec<_>>(), ["mind2web:b"]);
    let refused: Vec<_> = rejects.iter().filter_map(|r| r.episode_id.as_deref()).collect();
    assert_eq!(refused, ["mind2web:a"], "{rejects:?}");
    assert_eq!(rejects.len(), 2);
}

#[test]
fn the_next_row_names_the_element() {
    let (episodes, _) = read(&[row("a", 0), row("a", 1), row("a", 2), row("a", 3)]);
    let seen: Vec<_> = episodes[0]
        .steps
        .iter()
        .map(|s| {
            let a = &s.action;
            let texts = (a.target.role.as_deref(), a.target.name.as_deref(), a.text.as_deref());
            (a.verb.name(), a.source_verb.as_str(), texts)
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("click", "CLICK/HOVER", (Some("button"), Some("Reservations"), None)),
            ("type", "TYPE", (Some("textbox"), Some("City -> State"), Some("08817"))),
            ("select", "SELECT", (Some("select"), Some("Time"), Some("02 30 PM"))),
            ("click", "CLICK", (None, None, None)),
        ]
    );
    let bounds = episodes[0].steps[0].action.target.boxes[0];
    assert_eq!((bounds.left, bounds.top, bounds.right, bounds.bottom), (534.0, 45.0, 685.0, 67.0));
}

#[test]
fn a_bad_row_refuses_its_episode_and_no_other() {
    let broken = |edit: &dyn Fn(&mut Value)| {
        let mut second = row("bad", 1);
        edit(&mut second);
        let (episodes, rejects) = read(&[row("a", 0), row("bad", 0), second, row("bad", 2), row("a", 1)]);
        assert_eq!(episodes.iter().map(|e| e.episode_id.as_str()).collect::<Vec<_>>(), ["mind2web:a"]);
        assert_eq!(rejects.len(), 1, "{rejects:?}");
        assert_eq!(rejects[0].episode_id.as_deref(), Some("mind2web:bad"));
        (rejects[0].key.clone(), rejects[0].kind)
    };
    let line = |n: u32, kind| (format!("line {n}"), kind);
    assert_eq!(broken(&|r| r["operation"] = json!("DRAG")), line(3, RejectKind::OutOfRange));
    assert_eq!(broken(&|r| r["bbox"] = json!([[1, 2, -3, 4]])), line(3, RejectKind::OutOfRange));
    assert_eq!(broken(&|r| r["bbox"] = json!([[1, 2, 3]])), line(3, RejectKind::MissingField));
    assert_eq!(broken(&|r| r["bbox"] = json!("no")), line(3, RejectKind::MissingField));
    assert_eq!(broken(&|r| r["value"] = json!(5)), line(3, RejectKind::MissingField));
    assert_eq!(broken(&|r| r["step"] = json!(0)), line(3, RejectKind::OutOfRange));
    assert_eq!(broken(&|r| r["step"] = json!(-1)), line(3, RejectKind::OutOfRange));
    assert_eq!(broken(&|r| r["step"] = json!(3)), line(4, RejectKind::OutOfRange));
    assert_eq!(broken(&|r| r["task"] = json!("another")), line(3, RejectKind::OutOfRange));
}

#[test]
fn a_line_that_names_no_episode_is_refused_alone() {
    let mut content = lines(&[row("a", 0)]).into_bytes();
    content.extend_from_slice(b"{\"annotation_id\": \n{\"step\": 1}\n\xff\n");
    content.extend_from_slice(lines(&[row("b", 0)]).as_bytes());
    let (episodes, rejects) = read_bytes(Format::Mind2web, "a.jsonl", &content);
    assert_eq!(episodes.len(), 2);
    assert_eq!(
        kinds(&rejects),
        [
            ("line 2", RejectKind::Malformed),
            ("line 3", RejectKind::MissingField),
            ("line 4", RejectKind::NotUtf8)
        ]
    );
}

#[test]
fn the_real_file_is_read_whole() {
    let Some(path) = real_data("mind2web/cross_task_blocks.jsonl") else { return };
    let (episodes, rejects) = read_all(Format::Mind2web, &path);
    assert_eq!(rejects, []);
    assert_eq!((episodes.len(), episodes.iter().map(|e| e.steps.len()).sum::<usize>()), (177, 1338));
    let actions = || episodes.iter().flat_map(|e| &e.steps).map(|s| &s.action);
    assert_eq!(actions().filter(|a| a.source_verb == "CLICK/HOVER").count(), 17);
    // Every step but the last of each episode has a row after it that shows it.
    assert_eq!(actions().filter(|a| a.target.role.is_none()).count(), 177);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_row_of_a_cut_off_file_is_accounted_for(share in 0.0_f64..1.0) {
        let whole = lines(&[row("a", 0), row("a", 1), row("b", 0), row("c", 0)]);
        let cut = (whole.len() as f64 * share) as usize;
        let (episodes, rejects) = read_bytes(Format::Mind2web, "a.jsonl", &whole.as_bytes()[..cut]);
        let steps: usize = episodes.iter().map(|e| e.steps.len()).sum();
        // A broken last line also refuses the episode of the line before it, for all lack steps here.
        let rows: Vec<&str> = whole[..cut].lines().collect();
        let whole_rows = rows.iter().filter(|row| row.ends_with('}') && whole.contains(&format!("{row}\n"))).count();
        let broken = whole_rows < rows.len();
        let lost = if broken { [0, 1, 2, 1, 1][whole_rows] } else { 0 };
        prop_assert_eq!(steps, whole_rows - lost);
        prop_assert_eq!(rejects.len(), usize::from(broken || rows.is_empty()) + usize::from(lost > 0));
    }

    #[test]
    fn arbitrary_bytes_never_panic(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((episodes, rejects)) = try_bytes(Format::Mind2web, "a.jsonl", &content) {
            prop_assert!(episodes.is_empty() && !rejects.is_empty());
        }
    }

    #[test]
    fn any_shown_action_can_be_read(shown in "[\\[\\] >:A-Z-]{0,30}") {
        describe(&mut Action::new(Verb::Click, "CLICK"), &shown);
    }
}
