use proptest::prelude::*;

use super::super::testing::{kinds, read_all, read_bytes, read_with, real_data, try_bytes};
use super::*;
use crate::trace::Reject;

fn tracker(task: &str, state: &str, action: &str, output: &str) -> Value {
    let prompt = format!(
        "High-level user instruction: {task}\nLatest output of executor agent: <think>On {state}, I act.</think>\
         <answer>{action}</answer>\nPrevious Task State: {state}"
    );
    json!({"system": "s", "conversations": [{"from": "human", "value": prompt}, {"from": "gpt", "value": output}]})
}

fn coordinator(episode: &str, step: u32, instruction: &str) -> Value {
    let prompt = format!(
        "Screenshot: <image> \nHigh-level task: Task of {episode}\nCurrent_state: State {step}\nFirst, think step-by-step."
    );
    let reply = format!("<think>Thought {step}</think><answer>{instruction}</answer>");
    json!({
        "system": "s",
        "images": [format!("/data1/screenshots/{episode}_{step}.png")],
        "conversations": [{"from": "human", "value": prompt}, {"from": "gpt", "value": reply}],
    })
}

fn read(rows: &[Value]) -> (Vec<Episode>, Vec<Reject>) {
    read_bytes(Format::CesSft, "a.json", json!(rows).to_string().as_bytes())
}

fn sizes(episodes: &[Episode]) -> Vec<(&str, usize)> {
    episodes.iter().map(|e| (e.source_key.as_str(), e.steps.len())).collect()
}

#[test]
fn tracker_rows_are_chained_by_their_states() {
    let rows = [
        tracker("one", FIRST_STATE, "CLICK", "s1"),
        tracker("one", "s1", "TEXT", "s2"),
        tracker("one", FIRST_STATE, "SCROLL", "t1"),
        tracker("two", FIRST_STATE, "LONG_PRESS", "u1"),
    ];
    let (episodes, rejects) = read(&rows);
    assert_eq!(rejects, []);
    assert_eq!(sizes(&episodes), [("rows 1-2", 2), ("rows 3-3", 1), ("rows 4-4", 1)]);
    let verbs: Vec<_> = episodes.iter().flat_map(|e| &e.steps).map(|s| s.action.verb).collect();
    assert_eq!(verbs, [Verb::Click, Verb::Type, Verb::Scroll, Verb::LongPress]);
    let step = &episodes[0].steps[1];
    assert_eq!((step.context.as_deref(), step.thought.as_deref()), (Some("s1"), Some("On s1, I act.")));
    let extra: Value = serde_json::from_str(episodes[0].extra.as_deref().expect("extra")).expect("JSON");
    assert_eq!(extra, json!({"role": "state-tracker", "final_state": "s2"}));
}

#[test]
fn tracker_ids_depend_on_content_not_on_place() {
    let a = || tracker("one", FIRST_STATE, "CLICK", "s1");
    let b = || tracker("two", FIRST_STATE, "CLICK", "s1");
    let ids = |rows: &[Value]| read(rows).0.into_iter().map(|e| e.episode_id).collect::<Vec<_>>();
    let (first, second) = (ids(&[a(), b()]), ids(&[b(), a(), a()]));
    assert_eq!([&first[1], &first[0]], [&second[0], &second[1]]);
    assert!(second[1].ends_with("-0") && second[2].ends_with("-1"));
    assert!(first[0].starts_with("ces-sft:tracker-"));
}

#[test]
fn a_break_in_the_states_refuses_the_episode_and_no_other() {
    let rows = [
        tracker("one", FIRST_STATE, "CLICK", "s1"),
        tracker("one", "something else", "CLICK", "s2"),
        tracker("one", "s2", "CLICK", "s3"),
        tracker("two", FIRST_STATE, "CLICK", "u1"),
        tracker("three", "the middle", "CLICK", "v1"),
        tracker("four", FIRST_STATE, "PINCH", "w1"),
        tracker("four", "w1", "CLICK", "w2"),
        json!({"conversations": []}),
        tracker("five", FIRST_STATE, "CLICK", "x1"),
    ];
    let (episodes, rejects) = read(&rows);
    assert_eq!(sizes(&episodes), [("rows 4-4", 1), ("rows 9-9", 1)]);
    assert_eq!(
        kinds(&rejects),
        [
            ("row 8", RejectKind::MissingField),
            ("row 2", RejectKind::OutOfRange),
            ("row 5", RejectKind::OutOfRange),
            ("row 6", RejectKind::OutOfRange),
        ]
    );
    assert!(rejects[3].reason.contains("`PINCH`") && rejects[3].reason.contains("LONG_PRESS"));
}

#[test]
fn coordinator_rows_are_grouped_by_their_images() {
    let rows = [
        coordinator("77", 1, "Type 'vottak' in the search bar."),
        coordinator("88", 0, "Send the message."),
        coordinator("77", 0, "Open the Tumblr app."),
        coordinator("77", 2, "Task completed."),
    ];
    let (episodes, rejects) = read(&rows);
    assert_eq!(rejects, []);
    assert_eq!(
        episodes.iter().map(|e| e.episode_id.as_str()).collect::<Vec<_>>(),
        ["ces-sft:coordinator-77", "ces-sft:coordinator-88"]
    );
    let seen: Vec<_> = episodes
        .iter()
        .flat_map(|e| &e.steps)
        .map(|s| (s.action.verb, s.action.source_verb.as_str(), s.action.text.as_deref(), s.app.as_deref()))
        .collect();
    assert_eq!(
        seen,
        [
            (Verb::OpenApp, "instruction:Open", Some("Tumblr"), None),
            (Verb::Type, "instruction:Type", Some("vottak"), Some("Tumblr")),
            (Verb::Complete, "instruction:Task", None, Some("Tumblr")),
            (Verb::Click, "inferred:Send", None, None),
        ]
    );
    let step = &episodes[0].steps[0];
    assert_eq!(step.instruction.as_deref(), Some("Open the Tumblr app."));
    assert_eq!((step.thought.as_deref(), step.context.as_deref()), (Some("Thought 0"), Some("State 0")));
    assert_eq!(step.screen.screenshot.as_deref(), Some("/data1/screenshots/77_0.png"));
    assert_eq!(
        (episodes[0].outcome, episodes[0].apps.as_slice()),
        (Outcome::Success, ["Tumblr".to_owned()].as_slice())
    );
}

#[test]
fn bad_coordinator_rows_are_refused_with_their_episode() {
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut row = coordinator("9", 1, "Tap.");
        edit(&mut row);
        let (episodes, rejects) = read(&[coordinator("9", 0, "Tap."), row, coordinator("8", 0, "Tap.")]);
        assert!(episodes.iter().any(|e| e.episode_id.ends_with("-8")), "a neighbour was lost");
        let reject = rejects.first().expect("a reject");
        (reject.key.clone(), reject.kind, reject.episode_id.is_some())
    };
    let row = |kind, named| ("row 2".to_owned(), kind, named);
    assert_eq!(edited(&|r| r["images"] = json!(["x_5.png"])).1, RejectKind::OutOfRange);
    assert_eq!(edited(&|r| r["images"] = json!(["9_0.png"])), row(RejectKind::OutOfRange, true));
    assert_eq!(edited(&|r| r["images"] = json!(["9_2.png"])), row(RejectKind::OutOfRange, true));
    assert_eq!(edited(&|r| r["images"] = json!(["../../9_1.png"])), row(RejectKind::UnsafePath, true));
    assert_eq!(edited(&|r| r["images"] = json!(["nine.png"])), row(RejectKind::MissingField, false));
    assert_eq!(edited(&|r| r["images"] = json!([])), row(RejectKind::MissingField, false));
    assert_eq!(edited(&|r| r["images"] = json!(3)), row(RejectKind::MissingField, false));
    assert_eq!(edited(&|r| r["conversations"][1]["value"] = json!("Tap.")), row(RejectKind::Malformed, true));
    assert_eq!(
        edited(&|r| r["conversations"][1]["from"] = json!("human")),
        row(RejectKind::OutOfRange, false)
    );
    assert_eq!(
        edited(&|r| r["conversations"][0]["value"] = json!("Hello")),
        row(RejectKind::Malformed, false)
    );
    assert_eq!(edited(&|r| *r = json!(1)), row(RejectKind::Malformed, false));
}

#[test]
fn a_cut_off_array_keeps_the_rows_before_the_cut() {
    let rows = ["1", "2", "3"].map(|episode| coordinator(episode, 0, "Tap."));
    let text = json!(rows).to_string();
    let (episodes, rejects) = read_bytes(Format::CesSft, "a.json", &text.as_bytes()[..text.len() - 5]);
    // The second episode may have gone on in what is lost.
    assert_eq!(episodes.iter().map(|e| e.source_key.as_str()).collect::<Vec<_>>(), ["rows 1-1"]);
    assert_eq!(kinds(&rejects), [("after row 2", RejectKind::Malformed), ("row 2", RejectKind::Malformed)]);
    let (_, rejects) = read_bytes(Format::CesSft, "a.json", b"[]");
    assert_eq!(kinds(&rejects), [("", RejectKind::Empty)]);
}

#[test]
fn screenshots_may_be_required() {
    let folder = tempfile::tempdir().expect("temporary folder");
    std::fs::write(folder.path().join("a.json"), json!([coordinator("1", 0, "Tap.")]).to_string())
        .expect("written");
    let strict = AdapterOptions { require_screenshots: true };
    let (_, rejects) = read_with(Format::CesSft, folder.path(), strict).expect("discovered");
    assert_eq!(kinds(&rejects), [("row 1", RejectKind::MissingScreenshot)]);
}

/// The released Tracker row again, from canonical fields only.
fn tracker_row(episode: &Episode, i: usize) -> (String, String) {
    let step = &episode.steps[i];
    let text = |t: &Option<String>| t.clone().expect("kept");
    let prompt = format!(
        "High-level user instruction: {}\nLatest output of executor agent: <think>{}</think><answer>{}</answer>\n\
         Previous Task State: {}",
        episode.instruction,
        text(&step.thought),
        step.action.source_verb,
        text(&step.context)
    );
    let extra: Value = serde_json::from_str(episode.extra.as_deref().expect("extra")).expect("JSON");
    let last = || extra["final_state"].as_str().expect("kept").to_owned();
    (prompt, episode.steps.get(i + 1).map_or_else(last, |next| text(&next.context)))
}

/// The released Coordinator row again, from canonical fields only.
fn coordinator_row(episode: &Episode, i: usize) -> (String, String) {
    let step = &episode.steps[i];
    let text = |t: &Option<String>| t.clone().expect("kept");
    let prompt = format!(
        "Screenshot: <image> \nHigh-level task: {}\nCurrent_state: {}\nFirst, think step-by-step about your analysis of \
         the current image, and instruction. Put your reasoning inside <think></think> tags. After your reasoning, you \
         MUST provide the available action command for the current step within <answer></answer> tags.",
        episode.instruction,
        text(&step.context)
    );
    (prompt, format!("<think>{}</think><answer>{}</answer>", text(&step.thought), text(&step.instruction)))
}

#[test]
fn the_real_files_are_read_whole_and_can_be_made_again() {
    type Render = fn(&Episode, usize) -> (String, String);
    let files: [(&str, (usize, usize), Render); 2] =
        [("memory_sft.json", (51, 725), tracker_row), ("planner_vl_sft.json", (66, 974), coordinator_row)];
    for (name, expected, render) in files {
        let Some(path) = real_data(&format!("gui-odyssey-ces/{name}")) else { return };
        let (episodes, rejects) = read_all(Format::CesSft, &path);
        assert_eq!(rejects, []);
        assert_eq!((episodes.len(), episodes.iter().map(|e| e.steps.len()).sum::<usize>()), expected);
        let rows: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).expect("readable")).expect("JSON");
        for episode in &episodes {
            for (i, step) in episode.steps.iter().enumerate() {
                let row: usize = step.source_key["row ".len()..].parse().expect("a number");
                let turns = &rows[row - 1]["conversations"];
                let (prompt, reply) = render(episode, i);
                assert_eq!(
                    (Some(prompt.as_str()), Some(reply.as_str())),
                    (turns[0]["value"].as_str(), turns[1]["value"].as_str())
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_cut_off_file_loses_nothing_silently(share in 0.0_f64..1.0) {
        let rows = [tracker("one", FIRST_STATE, "CLICK", "s1"), coordinator("1", 0, "Tap."), coordinator("2", 0, "Tap.")];
        let whole = json!(rows).to_string();
        let cut = ((whole.len() - 1) as f64 * share) as usize;
        let (episodes, rejects) = read_bytes(Format::CesSft, "a.json", &whole.as_bytes()[..cut]);
        let ends: Vec<usize> = (1..=3).map(|n| json!(rows[..n]).to_string().len() - 1).collect();
        let begun = ends.iter().filter(|end| **end <= cut).count();
        // The last episode before the cut may have gone on behind it.
        prop_assert_eq!(episodes.len(), begun.saturating_sub(1));
        prop_assert_eq!(rejects.len(), 1 + begun.min(1));
    }

    #[test]
    fn arbitrary_bytes_never_panic(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((episodes, rejects)) = try_bytes(Format::CesSft, "a.json", &content) {
            prop_assert!(episodes.is_empty() && !rejects.is_empty());
        }
    }
}
