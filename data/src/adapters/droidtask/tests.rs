use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, json};

use super::super::testing::{kinds, read_all, read_bytes, real_data, try_bytes};
use super::state::elements;
use super::*;
use crate::action::Target;
use crate::trace::Reject;

const SCREEN: &str = "<input id=0 >Search folders</input>\n<button id=1 text='Open camera'></button>\n \
                      <checkbox id=2 checked=True>Last modified</checkbox>\n <checkbox id=7 \
                      checked=False>Name</checkbox>\n<button id=3>Internal<br>2</button>\n<button id=4 text='01 \
                      July'>1</button>\n<p id=6>Folders</p>\n<button id=5>go back</button>";

fn row(choice: i64, typed: &str) -> Value {
    json!({"label": [choice, typed], "history": "\n- Start the gallery app.", "state": SCREEN, "state_str": "5c"})
}

fn task_of(rows: &[Value]) -> Value {
    json!({"task": "Show the folders", "profile": rows, "step_num": rows.len()})
}

fn profile(tasks: &[(&str, Value)]) -> Value {
    let tasks: Map<String, Value> =
        tasks.iter().map(|(hash, task)| ((*hash).to_owned(), task.clone())).collect();
    json!({ "gallery": tasks })
}

fn read(value: &Value) -> (Vec<Episode>, Vec<Reject>) {
    read_bytes(Format::Droidtask, "profile.json", value.to_string().as_bytes())
}

fn one(choice: i64, typed: &str) -> Step {
    let (mut episodes, rejects) = read(&profile(&[("a1", task_of(&[row(choice, typed)]))]));
    assert_eq!(rejects, []);
    episodes.remove(0).steps.remove(0)
}

#[test]
fn a_screen_becomes_elements() {
    let read = elements(SCREEN).expect("read");
    let flat: Vec<_> =
        read.iter().map(|e| (e.id.as_str(), e.role.as_str(), e.text.as_str(), e.states.join(" "))).collect();
    let expected = [
        ("0", "input", "Search folders", ""),
        ("1", "button", "Open camera", ""),
        ("2", "checkbox", "Last modified", "checked=True"),
        ("7", "checkbox", "Name", "checked=False"),
        ("3", "button", "Internal\n2", ""),
        ("4", "button", "01 July\n1", ""),
        ("6", "p", "Folders", ""),
        ("5", "button", "go back", ""),
    ];
    assert_eq!(flat, expected.map(|(id, role, text, states)| (id, role, text, states.to_owned())));
}

#[test]
fn labels_hold_markup_quotes_and_line_breaks_as_they_are() {
    for (state, text) in [
        ("<button id=5>> DCIM</button>", "> DCIM"),
        ("<p id=5><unknown></p>", "<unknown>"),
        ("<button id=8>A\nB</button>", "A\nB"),
        ("<button id=1 text='What's new'></button>", "What's new"),
        ("<button id=1 text='a > b'></button>", "a > b"),
        ("<button id=1 text='Video'>Video</button>", "Video"),
        ("<input id=1 ></input>", ""),
        ("<button id=1 text='Bob's' checked=True>it's 5'</button>", "Bob's\nit's 5'"),
        (" <button id=1>S</button>", "S"),
    ] {
        let read = elements(state).expect("read");
        assert_eq!(read.iter().map(|e| e.text.as_str()).collect::<Vec<_>>(), [text], "{state}");
    }
    assert_eq!(elements(""), Ok(Vec::new()));
    let read = elements("<div id=1 class='a scroller'>scroll down</div>").expect("read");
    assert_eq!(read[0].states, ["class=a scroller"]);
}

#[test]
fn a_screen_that_says_two_things_or_nothing_is_refused() {
    for (state, reason) in [
        ("text", "expected an element"),
        ("<>", "expected an element"),
        ("<p id=1>a</p> b", "only a new line"),
        ("<p id=1>a</p>\nb", "expected an element"),
        ("<p id=1>a", "`</p>` is missing"),
        ("<p id=1>a\n<p id=2>b</p>", "`</p>` is missing before the next element"),
        ("<p id=1>a</p>\n<p id=1>b</p>", "two elements have the id 1"),
        ("<p>a</p>", "without a number as its id"),
        ("<p id=x>a</p>", "without a number as its id"),
        ("<p id=1 id=2>a</p>", "attribute `id` stands twice"),
        ("<p id=1 checked>a</p>", "expected an attribute"),
        ("<p id=1 text='a>b</p>", "expected an attribute"),
        ("<p id=1", "expected an attribute"),
        ("<p id=1 text='a'>b'>c</p>", "may end in several places"),
    ] {
        let fault = elements(state).expect_err(state);
        assert!(fault.reason.contains(reason), "{state}: {}", fault.reason);
    }
}

#[test]
fn every_choice_becomes_its_verb() {
    let flat = |choice, typed| {
        let Action { verb, source_verb, text, target, .. } = one(choice, typed).action;
        let Target { name, role, element, .. } = target;
        (verb.name(), source_verb, text, [name, role, element].map(Option::unwrap_or_default).join("|"))
    };
    let expected = |verb, word: &str, text: Option<&str>, target: &str| {
        (verb, word.to_owned(), text.map(str::to_owned), target.to_owned())
    };
    assert_eq!(flat(1, "null"), expected("click", "TapOn", None, "Open camera|button|1"));
    assert_eq!(flat(3, ""), expected("click", "TapOn", None, "Internal|button|3"));
    assert_eq!(flat(2, "null"), expected("click", "Uncheck", None, "Last modified|checkbox|2"));
    assert_eq!(flat(7, "null"), expected("click", "Check", None, "Name|checkbox|7"));
    assert_eq!(flat(0, "DCIM"), expected("type", "InputText", Some("DCIM"), "Search folders|input|0"));
    assert_eq!(flat(5, "null"), expected("back", "go back", None, "go back|button|5"));
    assert_eq!(flat(-1, "null"), expected("complete", "-1", None, "||"));
}

#[test]
fn a_task_keeps_what_the_source_says() {
    let (episodes, rejects) = read(&profile(&[("a1", task_of(&[row(1, "null"), row(-1, "null")]))]));
    assert_eq!(rejects, []);
    let episode = &episodes[0];
    assert_eq!(episode.episode_id, "droidtask:gallery/a1");
    assert_eq!(episode.source_key, "gallery/a1");
    assert_eq!((episode.platform, episode.outcome), (Platform::Mobile, Outcome::Success));
    assert_eq!(episode.instruction, "Show the folders");
    assert_eq!(episode.apps, ["gallery"]);
    assert_eq!(episode.extra.as_deref(), Some(r#"{"form":"task","states":["5c","5c"]}"#));
    let step = &episode.steps[1];
    assert_eq!((step.step, step.source_key.as_str()), (1, "profile[1]"));
    assert_eq!(step.context.as_deref(), Some("- Start the gallery app."));
    assert_eq!(step.app.as_deref(), Some("gallery"));
    assert_eq!(step.screen.elements.len(), 8);
    let open = read(&profile(&[("a1", task_of(&[row(1, "null")]))])).0;
    assert_eq!(open[0].outcome, Outcome::Unknown);
}

#[test]
fn bad_tasks_are_refused_alone() {
    let with = |name: &str, value: Value| {
        let mut row = row(1, "null");
        row[name] = value;
        task_of(&[row])
    };
    let mut short = task_of(&[row(1, "null")]);
    short["step_num"] = json!(2);
    let tasks = [
        ("00", task_of(&[row(1, "null")])),
        ("01", json!(["no task"])),
        ("02", json!({"profile": [], "step_num": 0})),
        ("03", task_of(&[])),
        ("04", short),
        ("05", with("label", json!([99, "null"]))),
        ("06", with("label", json!([-2, "null"]))),
        ("07", with("label", json!([-1, "text"]))),
        ("08", with("label", json!([1]))),
        ("09", with("label", json!(["1", "null"]))),
        ("10", with("label", json!([1, null]))),
        ("11", with("state", json!("<p id=1>cut"))),
        ("12", with("state", Value::Null)),
        ("13", with("state_str", json!(["a", 5]))),
        ("14", task_of(&[row(-1, "null"), row(1, "null")])),
        ("15", task_of(&[json!("row")])),
        ("16", with("history", json!(7))),
        ("17", task_of(&[row(-1, "null")])),
    ];
    let (episodes, rejects) = read(&profile(&tasks));
    let ids: Vec<_> = episodes.iter().map(|e| e.episode_id.as_str()).collect();
    assert_eq!(ids, ["droidtask:gallery/00", "droidtask:gallery/17"]);
    assert_eq!(
        kinds(&rejects),
        [
            ("gallery/01", RejectKind::Malformed),
            ("gallery/02", RejectKind::MissingField),
            ("gallery/03 profile[0]", RejectKind::Empty),
            ("gallery/04", RejectKind::OutOfRange),
            ("gallery/05 profile[0]", RejectKind::OutOfRange),
            ("gallery/06 profile[0]", RejectKind::OutOfRange),
            ("gallery/07 profile[0]", RejectKind::OutOfRange),
            ("gallery/08 profile[0]", RejectKind::MissingField),
            ("gallery/09 profile[0]", RejectKind::MissingField),
            ("gallery/10 profile[0]", RejectKind::MissingField),
            ("gallery/11 profile[0]", RejectKind::Malformed),
            ("gallery/12 profile[0]", RejectKind::MissingField),
            ("gallery/13 profile[0]", RejectKind::MissingField),
            ("gallery/14 profile[0]", RejectKind::OutOfRange),
            ("gallery/15 profile[0]", RejectKind::Malformed),
            ("gallery/16 profile[0]", RejectKind::MissingField),
        ]
    );
    assert!(rejects[4].reason.contains("element 99 is not among the 8"), "{}", rejects[4].reason);
    assert_eq!(rejects[4].episode_id.as_deref(), Some("droidtask:gallery/05"));
}

#[test]
fn a_key_twice_is_refused() {
    let task = task_of(&[row(1, "null")]).to_string();
    let twice =
        format!(r#"{{"gallery": {{"a": {task}, "a": {task}}}, "gallery": {{"b": {task}, "a": {task}}}}}"#);
    let (episodes, rejects) = read_bytes(Format::Droidtask, "profile.json", twice.as_bytes());
    assert_eq!(episodes.len(), 2);
    assert_eq!(kinds(&rejects), [("gallery/a", RejectKind::Duplicate), ("gallery/a", RejectKind::Duplicate)]);
    let inside = task.replacen(r#""task""#, r#""step_num":1,"task""#, 1);
    let inside = format!(r#"{{"gallery": {{"a": {inside}, "b": {task}}}}}"#);
    let (episodes, rejects) = read_bytes(Format::Droidtask, "profile.json", inside.as_bytes());
    assert_eq!(episodes.len(), 1);
    assert_eq!(kinds(&rejects), [("gallery/a", RejectKind::Malformed)]);
    assert!(rejects[0].reason.contains("key `step_num` stands twice"), "{}", rejects[0].reason);
}

#[test]
fn damaged_profiles_are_refused() {
    let kinds_of = |content: &[u8]| {
        let (episodes, rejects) = read_bytes(Format::Droidtask, "profile.json", content);
        (episodes.len(), rejects.into_iter().map(|r| (r.key, r.kind)).collect::<Vec<_>>())
    };
    let whole = profile(&[("a", task_of(&[row(1, "null")])), ("b", task_of(&[row(1, "null")]))]).to_string();
    let cut = &whole.as_bytes()[..whole.len() - 20];
    assert_eq!(kinds_of(cut), (1, vec![(String::new(), RejectKind::Malformed)]));
    let mut bad = whole.clone().into_bytes();
    bad.splice(bad.len() - 20..bad.len() - 19, [0xff]);
    assert_eq!(kinds_of(&bad), (1, vec![(String::new(), RejectKind::NotUtf8)]));
    assert_eq!(kinds_of(format!("\u{feff}{whole}").as_bytes()), (2, vec![]));
    assert_eq!(kinds_of(b""), (0, vec![(String::new(), RejectKind::Malformed)]));
    let no_tasks = format!("{},\"clock\":5}}", &whole[..whole.len() - 1]);
    assert_eq!(kinds_of(no_tasks.as_bytes()), (2, vec![(String::new(), RejectKind::Malformed)]));
    let other = try_bytes(Format::Droidtask, "profile.json", b"{\"gallery\": {\"a\": 1}}");
    assert!(other.is_err_and(|e| e.to_string().contains("no droidtask file found")));
}

fn exploration_of(records: &str) -> (Vec<Episode>, Vec<Reject>) {
    let text = format!("records:\n{records}step_num: 3\ntask_name: utg\n");
    read_bytes(Format::Droidtask, "utg.yaml", text.as_bytes())
}

const RECORD: &str = "- Choice: 1
  Input: 'null'
  State: '<button id=0>Timer</button>

    <button id=1>go back</button>'
  new_state_str: ab
  state_str:
  - c1
  - c2
";

#[test]
fn an_exploration_is_one_episode_without_instruction() {
    let done = RECORD.replace("Choice: 1", "Choice: -1");
    let (episodes, rejects) = exploration_of(&format!("{RECORD}{done}"));
    assert_eq!(rejects, []);
    let episode = &episodes[0];
    assert!(episode.episode_id.starts_with("droidtask:utg/"), "{}", episode.episode_id);
    assert_eq!((episode.instruction.as_str(), episode.outcome), ("", Outcome::Unknown));
    let verbs: Vec<_> = episode.steps.iter().map(|s| s.action.verb).collect();
    assert_eq!(verbs, [Verb::Back, Verb::Complete]);
    assert_eq!(episode.steps[1].source_key, "records[1]");
    let extra: Value = serde_json::from_str(episode.extra.as_deref().expect("extra")).expect("JSON");
    let expected = json!({
        "form": "exploration", "task_name": "utg", "step_num": 3,
        "states": [["c1", "c2"], ["c1", "c2"]], "new_states": ["ab", "ab"],
    });
    assert_eq!(extra, expected);
}

#[test]
fn bad_explorations_are_refused_whole() {
    let refused = |records: &str| {
        let (episodes, rejects) = exploration_of(records);
        assert_eq!((episodes.len(), rejects.len()), (0, 1), "{records}");
        (rejects[0].key.clone(), rejects[0].kind, rejects[0].reason.clone())
    };
    let of_second = |from: &str, to: &str| refused(&format!("{RECORD}{}", RECORD.replace(from, to)));
    let place = "records[1]".to_owned();
    for (from, to, kind) in [
        ("Choice: 1", "Choice: 8", RejectKind::OutOfRange),
        ("Choice: 1", "Choice: one", RejectKind::MissingField),
        ("Choice: 1", "Chosen: 1", RejectKind::MissingField),
        ("Input: 'null'", "Input: null", RejectKind::MissingField),
        ("id=0", "id=1", RejectKind::Duplicate),
        ("</button>'", "'", RejectKind::Malformed),
        ("new_state_str: ab", "new_state_str: 5", RejectKind::MissingField),
    ] {
        let (key, found, reason) = of_second(from, to);
        assert_eq!((&key, found), (&place, kind), "{from} → {to}: {reason}");
    }
    let (key, kind, reason) = of_second("Input: 'null'", "Choice: 1");
    assert_eq!((key.as_str(), kind), ("", RejectKind::Malformed));
    assert!(reason.contains("key `Choice` stands twice") && reason.contains("line"), "{reason}");
    assert_eq!(refused("").1, RejectKind::MissingField);
    let kind = |content: &[u8]| kinds(&read_bytes(Format::Droidtask, "utg.yaml", content).1)[0].1;
    assert_eq!(kind(b"records: []\nstep_num: 0\ntask_name: utg\n"), RejectKind::Empty);
    assert_eq!(kind(b""), RejectKind::Malformed);
    assert_eq!(kind(b"records: \xff"), RejectKind::NotUtf8);
    assert_eq!(kind(b"records: [\n"), RejectKind::Malformed);
    let cut = format!("records:\n{RECORD}");
    let (_, rejects) = read_bytes(Format::Droidtask, "utg.yaml", cut.as_bytes());
    assert!(rejects[0].reason.contains("where a cut-off file ends"), "{}", rejects[0].reason);
}

#[test]
fn the_real_files_are_read_whole() {
    let Some(path) = real_data("droidtask") else { return };
    let (episodes, rejects) = read_all(Format::Droidtask, &path);
    assert_eq!(rejects, []);
    let (explored, tasks): (Vec<_>, Vec<_>) =
        episodes.iter().partition(|e| e.episode_id.starts_with("droidtask:utg/"));
    let figures = |episodes: &[&Episode]| {
        let mut verbs: BTreeMap<&str, usize> = BTreeMap::new();
        for step in episodes.iter().flat_map(|e| &e.steps) {
            *verbs.entry(step.action.verb.name()).or_default() += 1;
        }
        let elements: usize = episodes.iter().flat_map(|e| &e.steps).map(|s| s.screen.elements.len()).sum();
        (episodes.len(), verbs, elements)
    };
    // Counted from the files with another program.
    let verbs = BTreeMap::from([("click", 354), ("complete", 112), ("type", 21)]);
    assert_eq!(figures(&tasks), (112, verbs, 6223));
    let verbs = BTreeMap::from([("back", 120), ("click", 396), ("complete", 8), ("type", 5)]);
    assert_eq!(figures(&explored), (10, verbs, 6340));
    assert!(tasks.iter().all(|e| e.outcome == Outcome::Success && e.apps.len() == 1));
}

/// The history of a task's step names the action of the step before it, in the source's own words.
#[test]
fn the_real_histories_agree_with_the_verbs() {
    let Some(path) = real_data("droidtask/profile.json") else { return };
    let (episodes, _) = read_all(Format::Droidtask, &path);
    let pairs = episodes.iter().flat_map(|e| e.steps.windows(2));
    let mut compared = 0;
    for pair in pairs {
        let history = pair[1].context.as_deref().expect("a history");
        let (word, rest) = history
            .rsplit("\n- ")
            .next()
            .expect("a line")
            .trim_start_matches("- ")
            .split_once(": ")
            .expect("a word");
        let action = &pair[0].action;
        let said = match rest.split_once(" InputText: ") {
            Some((_, text)) => ("InputText", Some(text)),
            None => (word, None),
        };
        assert_eq!((action.source_verb.as_str(), action.text.as_deref()), said, "{history}");
        let role = action.target.role.as_deref().expect("a role");
        assert!(rest.starts_with(&format!("<{role}")), "{history}");
        compared += 1;
    }
    assert_eq!(compared, 375);
}

/// Writes `element` as the source may have: its text in the attribute, as the content, or in both.
fn renderings(element: &Element) -> Vec<String> {
    let Element { id, role, text, states, .. } = element;
    let mut parts =
        vec![(None, text.as_str()), (Some(text.as_str()), ""), (Some(text.as_str()), text.as_str())];
    parts.extend(text.match_indices('\n').map(|(at, _)| (Some(&text[..at]), &text[at + 1..])));
    let states = states.iter().fold(String::new(), |text, state| text + " " + state);
    let write = |(label, content): (Option<&str>, &str), space| {
        let label = label.map(|label| format!(" text='{label}'")).unwrap_or_default();
        format!("<{role} id={id}{states}{label}{space}>{content}</{role}>")
    };
    parts.into_iter().flat_map(|part| [write(part, ""), write(part, " ")]).collect()
}

/// Every character of a real screen is in its elements: written back they give the screen, but for
/// `<br>`, which is a line break like any other, and spaces between elements and in tags.
#[test]
fn nothing_of_a_real_screen_is_lost() {
    let Some(path) = real_data("droidtask") else { return };
    let profile = std::fs::read_to_string(path.join("profile.json")).expect("read");
    let profile: Value = serde_json::from_str(&profile).expect("JSON");
    let mut states: Vec<String> = Vec::new();
    for task in
        profile.as_object().expect("apps").values().flat_map(|app| app.as_object().expect("tasks").values())
    {
        states.extend(
            task["profile"]
                .as_array()
                .expect("rows")
                .iter()
                .map(|row| row["state"].as_str().expect("text").to_owned()),
        );
    }
    for folder in std::fs::read_dir(path.join("utgs")).expect("a folder") {
        let text = std::fs::read_to_string(folder.expect("an entry").path().join("utg.yaml")).expect("read");
        let value = parse_yaml(&text).expect("YAML");
        states.extend(
            value["records"]
                .as_array()
                .expect("rows")
                .iter()
                .map(|row| row["State"].as_str().expect("text").to_owned()),
        );
    }
    assert_eq!(states.len(), 1016);
    for state in states {
        let plain = state.replace("<br>", "\n");
        let mut rest = plain.as_str();
        for element in elements(&state).expect("read") {
            rest = rest.trim_start_matches(['\n', ' ']);
            let written = renderings(&element).into_iter().find(|text| rest.starts_with(text.as_str()));
            let written = written.unwrap_or_else(|| panic!("{element:?} does not give {rest:.80}"));
            rest = &rest[written.len()..];
        }
        assert_eq!(rest, "");
    }
}

fn label() -> impl Strategy<Value = String> {
    "[a-zA-Z<>'\" é./\n]{1,12}"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_screen_is_refused_or_read_without_loss(
        parts in proptest::collection::vec((label(), label(), any::<bool>()), 1..5),
    ) {
        let lines: Vec<String> = parts
            .iter()
            .enumerate()
            .map(|(i, (label, content, labelled))| {
                let label = if *labelled { format!(" text='{label}'") } else { String::new() };
                format!("<button id={i}{label}>{content}</button>")
            })
            .collect();
        if let Ok(read) = elements(&lines.join("\n")) {
            let texts: Vec<_> = read.into_iter().map(|e| e.text).collect();
            let expected: Vec<_> = parts
                .into_iter()
                .map(|(label, content, labelled)| {
                    if labelled && label != content { format!("{label}\n{content}") } else { content }
                })
                .map(|text| text.replace("<br>", "\n"))
                .collect();
            prop_assert_eq!(texts, expected);
        }
    }

    #[test]
    fn plain_labels_are_always_read(labels in proptest::collection::vec("[a-zA-Z> é.'=/]{0,12}", 1..5)) {
        let lines: Vec<String> =
            labels.iter().enumerate().map(|(i, label)| format!("<p id={i} >{label}</p>")).collect();
        let texts: Vec<_> = elements(&lines.join("\n ")).expect("read").into_iter().map(|e| e.text).collect();
        prop_assert_eq!(texts, labels);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        content in proptest::collection::vec(any::<u8>(), 0..200),
        yaml in any::<bool>(),
    ) {
        let name = if yaml { "utg.yaml" } else { "profile.json" };
        if let Ok((episodes, rejects)) = try_bytes(Format::Droidtask, name, &content) {
            prop_assert!(episodes.is_empty() && !rejects.is_empty());
        }
    }

    #[test]
    fn a_cut_off_profile_keeps_the_tasks_before_the_cut(share in 0.0_f64..1.0) {
        let task = task_of(&[row(1, "null")]);
        let whole = profile(&[("a", task.clone()), ("b", task.clone()), ("c", task)]).to_string();
        let cut = (whole.len() as f64 * share) as usize;
        let ends: Vec<usize> = whole.match_indices("\"step_num\":1}").map(|(at, text)| at + text.len()).collect();
        let read = try_bytes(Format::Droidtask, "profile.json", &whole.as_bytes()[..cut]);
        let (episodes, rejects) = read.expect("a damaged file is read");
        prop_assert_eq!(episodes.len(), ends.iter().filter(|end| **end <= cut).count());
        prop_assert_eq!(rejects.len(), 1);
    }
}
