use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::action::Verb::{self, Click, Copy, Paste, Select, SwitchWindow, Type};
use crate::adapters::testing::{self, read_all, read_bytes, real_data};
use crate::trace::Reject;

fn fixture(name: &str) -> PathBuf {
    testing::fixture("ui-log").join(name)
}

fn read(bytes: impl AsRef<[u8]>) -> (Vec<Episode>, Vec<Reject>) {
    read_bytes(Format::UiLog, "log.csv", bytes.as_ref())
}

const HEADER: &str = "timeStamp,userID,eventType,target.name\n";

fn row(second: u32, user: &str, event: &str) -> String {
    format!("2020-01-01T00:00:{second:02}Z,{user},{event},f{second}\n")
}

/// Two good rows around `middle`.
fn around(middle: &[u8]) -> Vec<u8> {
    let (first, last) = (row(1, "u", "clickButton"), row(9, "u", "copy"));
    [HEADER.as_bytes(), first.as_bytes(), middle, last.as_bytes()].concat()
}

#[test]
fn a_log_becomes_steps_in_time_order() {
    let (episodes, rejects) = read_all(Format::UiLog, &fixture("orders.csv"));
    assert_eq!(rejects, []);
    let [episode] = episodes.as_slice() else { panic!("one episode, found {}", episodes.len()) };
    assert_eq!(episode.episode_id, "ui-log:orders/ann");
    assert_eq!(episode.platform, Platform::Desktop);
    assert_eq!(episode.apps, ["Excel", "OS-Clipboard", "Chrome"]);
    let verbs: Vec<Verb> = episode.steps.iter().map(|s| s.action.verb).collect();
    assert_eq!(verbs, [Click, Copy, Click, Paste, Type, Select, SwitchWindow, Click]);
    let cell = &episode.steps[0];
    assert_eq!(cell.window.as_deref(), Some("Orders.xlsx - Sheet1"));
    assert_eq!(
        (cell.action.target.name.as_deref(), cell.action.target.role.as_deref()),
        (Some("A2"), Some("cell"))
    );
    assert_eq!((cell.source_key.as_str(), cell.time_secs), ("line 5", Some(0.0)));
    let typed = &episode.steps[4];
    assert_eq!(typed.action.text.as_deref(), Some("Ann \"A\"\nSmith"));
    assert_eq!(typed.site.as_deref(), Some("https://shop.example/new"));
    assert_eq!(typed.time_secs, Some(4.5));
    let button = &episode.steps[7];
    assert_eq!(button.action.target.name.as_deref(), Some("Place order"));
    assert_eq!(button.action.target.role.as_deref(), Some("button submit"));
    assert_eq!((button.source_key.as_str(), button.step), ("line 10", 7));
}

#[test]
fn column_order_case_byte_order_mark_and_line_ends_do_not_matter() {
    let text = "\u{feff}EVENTTYPE,TimeStamp\r\nclickButton,2020-01-01 00:00:01\r\n\r\ncopy,2020-01-01 00:00:02.250\r\n";
    let (episodes, rejects) = read(text);
    assert_eq!(rejects, []);
    assert_eq!(episodes[0].episode_id, "ui-log:log");
    let keys: Vec<_> = episodes[0].steps.iter().map(|s| (s.source_key.as_str(), s.time_secs)).collect();
    assert_eq!(keys, [("line 2", Some(0.0)), ("line 4", Some(1.25))]);
}

#[test]
fn users_cut_a_log_into_runs_and_blank_ones_continue() {
    let rows = [
        row(1, "", "copy"),
        row(2, "a", "copy"),
        row(3, "", "copy"),
        row(4, "b", "copy"),
        row(5, "a", "copy"),
    ];
    let (episodes, _) = read([HEADER.to_owned(), rows.concat()].concat());
    let found: Vec<_> = episodes.iter().map(|e| (e.episode_id.as_str(), e.steps.len())).collect();
    assert_eq!(found, [("ui-log:log/a", 3), ("ui-log:log/b", 1), ("ui-log:log/a#2", 1)]);
}

#[test]
fn cases_may_interleave() {
    let text = "timeStamp,eventType,caseID,userID\n\
                2020-01-01T00:00:01Z,copy,1,a\n2020-01-01T00:00:02Z,copy,2,a\n\
                2020-01-01T00:00:03Z,copy,,b\n2020-01-01T00:00:04Z,copy,1,b\n";
    let (episodes, rejects) = read(text);
    assert_eq!(rejects, []);
    let found: Vec<_> = episodes.iter().map(|e| (e.episode_id.as_str(), e.steps.len())).collect();
    assert_eq!(found, [("ui-log:log/1", 2), ("ui-log:log/2", 2)]);
    let text = "timeStamp,eventType,caseID\n2020-01-01T00:00:01Z,copy,1\n2020-01-01T00:00:02Z,copy,2\n\
                2020-01-01T00:00:03Z,copy,1\n2020-01-01T00:00:04Z,copy,\n";
    let found: Vec<_> = read(text).0.iter().map(|e| e.steps.len()).collect();
    assert_eq!(found, [3, 1], "a blank case is that of the row before, not of the newest case");
}

#[test]
fn a_bad_row_is_refused_alone() {
    let cases: [(&[u8], RejectKind, &str); 8] = [
        (b"yesterday,u,copy,x\n", RejectKind::OutOfRange, "yesterday"),
        (b",u,copy,x\n", RejectKind::MissingField, "timeStamp"),
        (b"2020-01-01T00:00:02Z,u,,x\n", RejectKind::MissingField, "eventType"),
        (b"2020-01-01T00:00:02Z,u,teleport,x\n", RejectKind::OutOfRange, "`teleport`; known: click"),
        (b"2020-01-01T00:00:02Z,u,copy\n", RejectKind::Malformed, "row of 3 fields"),
        (b"2020-01-01T00:00:02Z,u,copy,x,y\n", RejectKind::Malformed, "row of 5 fields"),
        // A header of 39 bytes, a row of 38 with its line end, then `caf` of this row.
        (b"caf\xe9,u,copy,x\n", RejectKind::NotUtf8, "at byte 80"),
        (b"2020-01-01T00:00:02Z,u,copy,\"never closed\n", RejectKind::Malformed, "never closed"),
    ];
    for (bad, kind, reason) in cases {
        let (episodes, rejects) = read(around(bad));
        let lines: Vec<_> = episodes[0].steps.iter().map(|s| s.source_key.as_str()).collect();
        assert_eq!(lines, ["line 2", "line 4"], "{reason}");
        let [reject] = rejects.as_slice() else { panic!("one reject for {reason}, found {rejects:?}") };
        assert_eq!((reject.kind, reject.key.as_str()), (kind, "line 3"), "{}", reject.reason);
        assert!(reject.reason.contains(reason), "{}", reject.reason);
    }
}

#[test]
fn a_stray_quote_costs_its_own_line_only() {
    let bad = b"2020-01-01T00:00:02Z,\"u,copy,x\n2020-01-01T00:00:03Z,u,paste,x\n2020-01-01T00:00:04Z,u,\"paste\",x\n";
    let (episodes, rejects) = read(around(bad));
    assert_eq!(rejects.len(), 1);
    assert_eq!(rejects[0].key, "line 3");
    assert_eq!(episodes[0].steps.len(), 4);
}

#[test]
fn a_log_cut_off_in_its_last_line_keeps_the_rest() {
    let (episodes, rejects) = read(&around(b"")[..HEADER.len() + 37 + 20]);
    assert_eq!((episodes[0].steps.len(), rejects.len()), (1, 1));
    assert!(rejects[0].reason.contains("cut off"), "{}", rejects[0].reason);
}

#[test]
fn a_file_without_the_columns_or_without_rows_is_refused() {
    let (_, rejects) = read("timeStamp,user\n");
    assert_eq!((rejects[0].kind, rejects[0].key.as_str()), (RejectKind::MissingField, "line 1"));
    assert!(rejects[0].reason.contains("`eventType` is missing; the header has: timeStamp, user"));
    assert_eq!(read("").1[0].kind, RejectKind::Empty);
    assert_eq!(read(HEADER).1[0].kind, RejectKind::Empty);
    assert_eq!(read(b"timeStamp,eventType,\xff\n").1[0].kind, RejectKind::NotUtf8);
    let folder = tempfile::tempdir().expect("temporary folder");
    fs::write(folder.path().join("prices.csv"), "item,price\n").expect("file");
    let input = Input::new(folder.path()).expect("exists");
    assert!(matches!(UiLog.discover(&input), Err(AdapterError::Nothing { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_between_good_rows_lose_neither(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        // A quote may rightly join the junk with what follows it.
        let junk: Vec<u8> = bytes.into_iter().filter(|b| *b != b'"').chain([b'\n']).collect();
        let (episodes, _) = read(around(&junk));
        let steps: Vec<_> = episodes.iter().flat_map(|e| &e.steps).map(|s| s.action.target.name.as_deref()).collect();
        prop_assert!(steps.contains(&Some("f1")) && steps.contains(&Some("f9")));
    }

    #[test]
    fn any_bytes_with_quotes_keep_the_first_row(bytes in proptest::collection::vec(prop_oneof![Just(b'"'), Just(b'\n'), Just(b','), any::<u8>()], 0..40)) {
        let (episodes, _) = read(around(&bytes));
        prop_assert!(!episodes.is_empty());
        prop_assert_eq!(&episodes[0].steps[0].source_key, "line 2");
    }

    #[test]
    fn any_cut_accounts_for_every_line(at in 0_usize..180) {
        let text = around(row(2, "u", "\"copy\"").as_bytes());
        let cut = &text[..at.min(text.len())];
        let (episodes, rejects) = read(cut);
        let rows = cut.split(|b| *b == b'\n').filter(|l| !l.is_empty()).count().saturating_sub(1);
        let steps: usize = episodes.iter().map(|e| e.steps.len()).sum();
        let row_rejects = rejects.iter().filter(|r| r.key.starts_with("line") && r.key != "line 1").count();
        if cut.len() >= HEADER.len() {
            prop_assert_eq!(steps + row_rejects, rows);
        }
    }
}

/// Counts taken with a separate program: 2,409 rows of one user, all well formed.
#[test]
fn the_real_log_is_read_whole() {
    let Some(path) = real_data("ui-logs") else { return };
    let (episodes, rejects) = read_all(Format::UiLog, &path);
    assert_eq!(rejects, []);
    assert_eq!(episodes.len(), 1);
    assert_eq!(episodes[0].episode_id, "ui-log:StudentRecord/vleno");
    let steps = &episodes[0].steps;
    assert_eq!(steps.len(), 2409);
    let count = |verb| steps.iter().filter(|s| s.action.verb == verb).count();
    // 506 fields, 354 cells, 50 buttons, 49 links and 40 check boxes are clicked.
    assert_eq!([Click, Type, Paste, Copy].map(count), [999, 542, 504, 364]);
    assert!(steps.is_sorted_by(|a, b| a.time_secs < b.time_secs));
    assert_eq!(episodes[0].apps, ["Excel", "OS-Clipboard", "Chrome"]);
}
