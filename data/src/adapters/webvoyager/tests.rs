use std::fs;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::CHAT;
use crate::action::Verb;
use crate::adapters::AdapterOptions;
use crate::adapters::testing::{self, kinds, read_all, real_data};
use crate::trace::{Episode, Format, Outcome, Reject, RejectKind};

const HEAD: &str =
    "Now given a task: Find it.  Please interact with https://www.shop.example/x?y and get the answer. \n";
const OMITTED: &str = "Observation: A screenshot and some texts. (Omitted in context.)";

/// Writes files into a folder and reads it. A name that ends in `.png` is a picture of 200 × 100 pixels.
fn read(files: &[(&str, &[u8])]) -> (Vec<Episode>, Vec<Reject>) {
    read_with(files, AdapterOptions::default())
}

fn read_with(files: &[(&str, &[u8])], options: AdapterOptions) -> (Vec<Episode>, Vec<Reject>) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let root = folder.path().join("results");
    for (name, bytes) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
        if path.extension().is_some_and(|ending| ending == "png") {
            image::RgbImage::new(200, 100).save(path).expect("picture");
        } else {
            fs::write(path, bytes).expect("file");
        }
    }
    testing::read_with(Format::Webvoyager, &root, options).expect("read")
}

fn user(text: &str) -> Value {
    let url = json!({"url": "data:image/png;base64,AAAA"});
    json!({"role": "user", "content": [{"type": "text", "text": text}, {"type": "image_url", "image_url": url}]})
}

fn agent(action: &str) -> Value {
    json!({"role": "assistant", "content": format!("Thought: why\n\nAction: {action}")})
}

fn chat(turns: &[Value]) -> String {
    let mut messages = vec![json!({"role": "system", "content": "Imagine you are a robot"})];
    messages.extend(turns.iter().cloned());
    json!(messages).to_string()
}

/// The reject of a chat `bad`, beside a good one.
fn refused(bad: &[u8]) -> Reject {
    let good = chat(&[user(HEAD), agent("Wait")]);
    let files: [(&str, &[u8]); 2] =
        [("taskA--1/interact_messages.json", bad), ("taskB--2/interact_messages.json", good.as_bytes())];
    let (episodes, mut rejects) = read(&files);
    let ids: Vec<_> = episodes.iter().map(|e| e.episode_id.as_str()).collect();
    assert_eq!((ids, rejects.len()), (vec!["webvoyager:B--2"], 1), "the neighbour is read");
    let reject = rejects.remove(0);
    assert_eq!(reject.episode_id.as_deref(), Some("webvoyager:A--1"));
    assert_eq!(reject.file, "results/taskA--1/interact_messages.json");
    reject
}

fn extra(episode: &Episode) -> Value {
    serde_json::from_str(episode.extra.as_deref().expect("extra")).expect("JSON")
}

#[test]
fn a_chat_is_an_episode_of_the_task() {
    let error = "The action you have chosen cannot be exected. Please double-check.";
    let observed = "Observation: look\n[3]: <input> \"\";\t[4]: <button> \"Go\", \"Search\";";
    let turns = [
        json!({"role": "user", "content": format!("{HEAD}{OMITTED}")}),
        agent("Click [9]"),
        user(observed),
        agent("Click [7]"),
        json!({"role": "user", "content": error}),
        agent("Type [4]; [milk]"),
        user(OMITTED),
        agent("ANSWER; 3 litres"),
    ];
    let text = chat(&turns);
    let tasks =
        json!({"web_name": "The Shop", "id": "Shop--3", "ques": "Find it.", "web": "https://old.example/"});
    let (episodes, rejects) = read(&[
        ("run/taskShop--3/interact_messages.json", text.as_bytes()),
        ("run/taskShop--3/screenshot2.png", b""),
        ("run/taskShop--3/accessibility_tree2.json", b"{}"),
        ("data/tasks_test.jsonl", tasks.to_string().as_bytes()),
    ]);
    assert_eq!((episodes.len(), rejects.len()), (1, 0));
    let episode = &episodes[0];
    assert_eq!(
        (episode.episode_id.as_str(), episode.instruction.as_str()),
        ("webvoyager:Shop--3", "Find it.")
    );
    assert_eq!((episode.apps.as_slice(), episode.outcome), (&["The Shop".to_owned()][..], Outcome::Unknown));
    let said = extra(episode);
    assert_eq!(said["remarks"][0], json!({"message": 3, "text": "look"}));
    assert_eq!(said["remarks"][1], json!({"message": 5, "text": error}));
    assert_eq!((&said["web"], &said["listed_task"]), (&json!("https://www.shop.example/x?y"), &Value::Null));
    let [first, second, third, last] = &episode.steps[..] else { panic!("four steps") };
    assert_eq!((first.source_key.as_str(), first.thought.as_deref()), ("message 2", Some("why")));
    assert_eq!((first.site.as_deref(), first.app.as_deref()), (Some("www.shop.example"), Some("The Shop")));
    assert_eq!((first.action.target.element.as_deref(), first.screen.elements.len()), (Some("9"), 0));
    // The element is on the picture without being in the list; after the error the screen is the same.
    assert_eq!(
        (second.action.target.element.as_deref(), second.action.target.name.as_deref()),
        (Some("7"), None)
    );
    assert_eq!(second.screen, third.screen);
    assert_eq!(third.screen.screenshot.as_deref(), Some("run/taskShop--3/screenshot2.png"));
    assert_eq!(third.screen.tree.as_deref(), Some("run/taskShop--3/accessibility_tree2.json"));
    assert_eq!(third.screen.size.map(|s| s.width_px), Some(200));
    let target = &third.action.target;
    assert_eq!((target.name.as_deref(), target.role.as_deref()), (Some("Go"), Some("button")));
    assert_eq!((third.action.verb, third.action.text.as_deref()), (Verb::Type, Some("milk")));
    assert_eq!((last.action.verb, last.action.text.as_deref()), (Verb::Complete, Some("3 litres")));
    assert_eq!(last.screen.screenshot.as_deref(), Some("screenshot4.png"));
    assert!(last.screen.elements.is_empty() && !last.screen.screenshot_found);
}

#[test]
fn the_list_of_tasks_stands_in_and_differs_in_the_open() {
    let list = |words: &str| {
        json!({"web_name": "A", "id": "A--1", "ques": words, "web": "https://a.example/"}).to_string()
    };
    let read_one = |head: &str, list: &str| {
        let text = chat(&[user(&format!("{head}{OMITTED}")), agent("Wait")]);
        let (mut episodes, rejects) = read(&[
            ("taskA--1/interact_messages.json", text.as_bytes()),
            ("WebVoyager_data.jsonl", list.as_bytes()),
        ]);
        (episodes.remove(0), rejects)
    };
    let (episode, _) = read_one("", &list("Listed."));
    assert_eq!(
        (episode.instruction.as_str(), episode.steps[0].site.as_deref()),
        ("Listed.", Some("a.example"))
    );
    let (episode, _) = read_one(HEAD, &list("Listed."));
    assert_eq!(
        (episode.instruction.as_str(), &extra(&episode)["listed_task"]),
        ("Find it.", &json!("Listed."))
    );
    let damaged = format!("{}\nbroken\n{{\"id\": 1}}\n{}\n", list("Listed."), list("Another."));
    let (episode, rejects) = read_one("", &damaged);
    assert_eq!(episode.instruction, "Listed.");
    let malformed = RejectKind::Malformed;
    let missing = RejectKind::MissingField;
    assert_eq!(
        kinds(&rejects),
        [("line 2", malformed), ("line 3", missing), ("line 4", RejectKind::Duplicate)]
    );
    assert!(rejects[0].file.ends_with("WebVoyager_data.jsonl"));
}

#[test]
fn a_turn_without_a_readable_action_refuses_the_chat() {
    let good = [user(HEAD), agent("Click [1]"), user(OMITTED)];
    let with = |last: Value| chat(&[&good[..], &[last]].concat());
    let long = "x".repeat(1 << 20);
    for (last, kind, reason) in [
        (json!({"role": "assistant", "content": "I am done."}), RejectKind::MissingField, "no `Action:`"),
        (agent("Dance [3]"), RejectKind::OutOfRange, "\"Dance [3]\" cannot be read"),
        (agent(&format!("Click {long}")), RejectKind::OutOfRange, "cannot be read"),
        (json!({"role": "assistant", "content": 7}), RejectKind::MissingField, "`content`"),
        (json!({"role": "assistant"}), RejectKind::MissingField, "`content` is missing"),
        (json!({"role": "user", "content": [7]}), RejectKind::MissingField, "parts"),
        (
            json!({"role": "user", "content": [{"type": "text", "text": 7}]}),
            RejectKind::MissingField,
            "`text`",
        ),
        (json!({"role": "tool", "content": ""}), RejectKind::OutOfRange, "`role`"),
        (json!("text"), RejectKind::Malformed, "expected a JSON object"),
        (user("Observation:\n[1]: no quotes;"), RejectKind::Malformed, "element [1]"),
    ] {
        let reject = refused(with(last).as_bytes());
        assert_eq!((reject.key.as_str(), reject.kind), ("message 4", kind), "{}", reject.reason);
        assert!(reject.reason.contains(reason) && reject.reason.len() < 500, "{}", reject.reason);
    }
    let (episodes, _) =
        read(&[("taskA--1/interact_messages.json", with(agent(&format!("Type [1]; {long}"))).as_bytes())]);
    assert_eq!(episodes[0].steps[1].action.text.as_deref(), Some(long.as_str()));
}

#[test]
fn a_damaged_chat_is_refused_as_a_whole() {
    let whole = chat(&[user(HEAD), agent("Wait")]);
    let twice = r#"[{"role": "assistant", "role": "user", "content": ""}]"#;
    for (bytes, kind, reason) in [
        (b"".as_slice(), RejectKind::Malformed, "cut off"),
        (&whole.as_bytes()[..whole.len() - 5], RejectKind::Malformed, "cut off"),
        (b"[\"\xff\"]", RejectKind::NotUtf8, "not UTF-8 at byte 2"),
        (b"{}", RejectKind::Malformed, "list of messages"),
        (b"[]", RejectKind::Empty, "no message"),
        (twice.as_bytes(), RejectKind::Malformed, "key `role` stands twice"),
    ] {
        let reject = refused(bytes);
        assert_eq!((reject.key.as_str(), reject.kind), ("", kind), "{}", reject.reason);
        assert!(reject.reason.contains(reason), "{}", reject.reason);
    }
}

#[test]
fn screenshots_can_be_required() {
    let text = chat(&[user(HEAD), agent("Wait")]);
    let strict = AdapterOptions { require_screenshots: true };
    let (_, rejects) = read_with(&[("taskA--1/interact_messages.json", text.as_bytes())], strict);
    assert_eq!(kinds(&rejects), [("message 2", RejectKind::MissingScreenshot)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let (episodes, rejects) = read(&[("taskA--1/interact_messages.json", &bytes)]);
        prop_assert_eq!((episodes.len(), rejects.len()), (0, 1));
    }

    #[test]
    fn any_turn_is_read_or_refused(
        observed in "[a-z0-9\\[\\]:<>\";,\t\n ]{0,60}",
        action in "(Click|Type|Scroll|ANSWER|Wait)?[a-z0-9\\[\\];: ]{0,30}",
    ) {
        let text = chat(&[user(&format!("Observation:\n[1]: \"{observed}")), agent(&action)]);
        let (episodes, rejects) = read(&[(CHAT, text.as_bytes())]);
        prop_assert_eq!(episodes.len() + rejects.len(), 1);
    }
}

/// Counts taken with a separate program: the agent's turns in eight chats, and 842 elements in those of the
/// user's that are not left out.
#[test]
fn real_data_is_read_whole() {
    let Some(path) = real_data("webvoyager") else { return };
    let (episodes, rejects) = read_all(Format::Webvoyager, &path);
    assert_eq!(rejects, []);
    let found: Vec<_> = episodes.iter().map(|e| (e.episode_id.as_str(), e.steps.len())).collect();
    assert_eq!(
        found,
        [
            ("webvoyager:Allrecipes--4", 6),
            ("webvoyager:Apple--17", 6),
            ("webvoyager:ArXiv--11", 7),
            ("webvoyager:BBC News--9", 3),
            ("webvoyager:Booking--1", 9),
            ("webvoyager:Coursera--16", 5),
            ("webvoyager:ESPN--11", 5),
            ("webvoyager:Google Flights--8", 11)
        ]
    );
    let steps: Vec<_> = episodes.iter().flat_map(|e| &e.steps).collect();
    assert_eq!(steps.iter().map(|s| s.screen.elements.len()).sum::<usize>(), 842);
    let elements = || steps.iter().flat_map(|s| &s.screen.elements);
    assert_eq!(elements().filter(|e| e.role == "button").count(), 163);
    // 78 have a label for screen readers as well, and the labels of three more have line ends.
    assert_eq!(elements().filter(|e| e.text.contains('\n')).count(), 81);
    assert_eq!(steps.iter().filter(|s| s.screen.screenshot_found).count(), 13);
    assert!(steps.iter().all(|s| s.thought.is_some() && s.site.is_some()));
    for episode in &episodes {
        let last = &episode.steps[episode.steps.len() - 1].action;
        assert!(last.verb == Verb::Complete && last.text.is_some(), "{}", episode.episode_id);
        // The list of tasks says the same as the chats.
        assert_eq!(extra(episode)["listed_task"], Value::Null);
    }
    // The warning that the agent typed into a button.
    let remarks: Vec<_> =
        episodes.iter().map(|e| extra(e)["remarks"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(remarks, [0, 0, 0, 0, 0, 1, 0, 0]);
    let home = &episodes[5].steps[3].action.target;
    assert_eq!((home.element.as_deref(), home.name.as_deref()), (Some("2"), Some("Search Coursera")));
}
