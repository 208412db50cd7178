use super::*;
use crate::action::Verb;

fn step(verb: &str) -> UnitAction {
    UnitAction { verb: verb.into(), source_verb: verb.to_uppercase(), ..UnitAction::default() }
}

fn phrased(phrase: &str) -> UnitAction {
    UnitAction { phrase: Some(phrase.into()), ..step("click") }
}

fn on(target: &str) -> UnitAction {
    UnitAction { target: Some(target.into()), ..step("click") }
}

fn with_text(verb: &str, text: &str) -> UnitAction {
    UnitAction { text: Some(text.into()), ..step(verb) }
}

/// `predicate(field=value, …)`.
fn mapped(map: &AliasMap, action: &UnitAction) -> String {
    let mapped = map.map(action);
    let args: Vec<String> = mapped.args.iter().map(|a| format!("{}={}", a.field, a.value)).collect();
    format!("{}({})", mapped.predicate, args.join(", "))
}

#[test]
fn the_builtin_map_has_17_predicates_and_reaches_every_one() {
    let map = AliasMap::builtin();
    let names: Vec<&str> = map.verbs().iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names.len(), 17);
    for name in names {
        let reaches = |rule: &AliasRule| {
            rule.predicate.as_deref() == Some(name)
                || rule.predicate.is_none()
                    && file::verb_index(name)
                        .is_some_and(|v| map.by_verb[v].iter().any(|&i| map.rules[i].name == rule.name))
        };
        assert!(map.rules().iter().any(reaches), "no rule leads to `{name}`");
    }
}

#[test]
fn every_canonical_verb_ends_in_an_unconditional_rule() {
    let map = AliasMap::builtin();
    for (verb, rules) in Verb::ALL.iter().zip(&map.by_verb) {
        let last = rules.last().map(|&i| &map.rules[i]);
        assert!(last.is_some_and(AliasRule::is_unconditional), "`{verb}` can stay unmapped");
        assert_ne!(map.map(&step(verb.name())).coverage, Coverage::Unmapped);
    }
}

#[test]
fn verbs_map_to_their_predicates_and_fields() {
    let map = AliasMap::builtin();
    let cases = [
        (with_text("type", "hello"), "text_input(text=hello)"),
        (with_text("type", " two  spaces "), "text_input(text= two  spaces )"),
        (with_text("type", "  "), "text_input()"),
        (step("home"), "switch_focus(target=home_screen)"),
        (step("recents"), "switch_focus(target=recent_apps)"),
        (step("back"), "back()"),
        (with_text("open_app", "Clock"), "open(app=Clock)"),
        (with_text("navigate", "https://example.com"), "open(url=https://example.com)"),
        (with_text("switch_window", "Editor"), "switch_focus(target=Editor)"),
        (with_text("press", "ctrl+c"), "copy()"),
        (with_text("press", "Ctrl+V"), "paste()"),
        (with_text("press", "cmd+s"), "save()"),
        (with_text("press", "ctrl+z"), "press(key=ctrl+z)"),
        (with_text("press", "alt+tab"), "switch_focus()"),
        (with_text("press", "alt+left"), "back()"),
        (with_text("press", "enter"), "press(key=enter)"),
        (with_text("press", "ctrl+l"), "press(target=address_bar)"),
        (UnitAction { direction: Some("down".into()), ..step("scroll") }, "scroll(direction=down)"),
        (
            UnitAction { target: Some("Size".into()), ..with_text("select", "XL") },
            "select(target=Size, option=XL)",
        ),
        (UnitAction { role: Some("option".into()), ..on("XL") }, "select(option=XL)"),
        (step("complete"), "terminal()"),
        (step("impossible"), "terminal()"),
        (step("wait"), "wait()"),
        (on("Alarm"), "click(target=Alarm)"),
        (UnitAction { target: Some("Alarm".into()), ..step("long_press") }, "long_press(target=Alarm)"),
    ];
    for (action, expected) in cases {
        assert_eq!(mapped(&map, &action), expected, "{action:?}");
    }
}

#[test]
fn the_papers_example_focuses_the_bar_and_enters_the_address() {
    let map = AliasMap::builtin();
    assert_eq!(mapped(&map, &phrased("focus URL bar")), "press(target=address_bar)");
    let open =
        UnitAction { phrase: Some("open web site".into()), ..with_text("type", "https://example.com") };
    assert_eq!(mapped(&map, &open), "text_input(target=address_bar, text=https://example.com)");
}

#[test]
fn phrases_decide_by_how_they_begin() {
    let map = AliasMap::builtin();
    let cases = [
        ("Open the Clock app", "open(app=Clock)"),
        ("open usa today app", "open(app=usa today)"),
        ("Launch 'Simple Notes' app.", "open(app=Simple Notes)"),
        ("Open the Google Play Store.", "open(app=Google Play Store)"),
        ("Open the Firefox browser on the home screen", "open(app=Firefox)"),
        ("Open the All-In-One Calculator app.", "open(app=All-In-One Calculator)"),
        ("Open the installed app.", "click()"),
        ("open a new tab in the browser", "click()"),
        ("Open the settings of the app", "click()"),
        ("Open the first article", "click()"),
        ("Open the options menu for the selected file.", "click()"),
        ("click on the save icon at the top left corner", "save()"),
        ("Tap the 'Save' button to finalize the event.", "save()"),
        ("Save the edited photo.", "save()"),
        ("click on the add to cart button to save this shirt in my cart.", "click()"),
        ("Click on save money tips", "click()"),
        ("Save 20% now", "click()"),
        ("copy the meeting link.", "copy()"),
        ("select 'copy' to save the url.", "copy()"),
        ("click on the share a copy", "click()"),
        ("paste the copied link into the field", "paste()"),
        ("Select clipboard suggestion to paste text.", "click()"),
        ("go back to the previous screen.", "back()"),
        ("click on the back arrow button.", "back()"),
        ("click on the backspace button", "click()"),
        ("click on back to school deals", "click()"),
        ("Return to the home screen.", "switch_focus(target=home_screen)"),
        ("click on the home tab", "click()"),
        ("Switch to the recent apps view", "switch_focus(target=recent_apps)"),
        ("tap the circular icon to the left of the address bar", "click()"),
        ("Wait for the page to load.", "wait()"),
        ("Waitrose groceries", "click()"),
        ("Select 'New York'.", "select(option=New York)"),
        ("Choose 'XL' from the options.", "select(option=XL)"),
        ("Select the 'XL' option in the list.", "select(option=XL)"),
        ("Select the search bar to enter a new query.", "click()"),
        ("Select 'XL' from the size list", "select(option=XL)"),
    ];
    for (phrase, expected) in cases {
        assert_eq!(mapped(&map, &phrased(phrase)), expected, "{phrase}");
    }
}

#[test]
fn targets_decide_only_as_whole_labels() {
    let map = AliasMap::builtin();
    let cases = [
        ("Save", "save(target=Save)"),
        ("Save changes", "save(target=Save changes)"),
        ("Saved places", "click(target=Saved places)"),
        ("Save up to 50% on flights", "click(target=Save up to 50% on flights)"),
        ("Navigate up", "back()"),
        ("Back pain relief", "click(target=Back pain relief)"),
        ("Copy link", "copy(target=Copy link)"),
        ("Copyright", "click(target=Copyright)"),
        ("Search or type web address", "press(target=address_bar)"),
    ];
    for (target, expected) in cases {
        assert_eq!(mapped(&map, &on(target)), expected, "{target}");
    }
}

#[test]
fn unknown_verbs_keep_their_name_and_are_unmapped() {
    let map = AliasMap::builtin();
    let action = step("teleport");
    let result = map.map(&action);
    assert_eq!((result.predicate, result.rule, result.coverage), ("teleport", "", Coverage::Unmapped));
    assert_eq!(map.map(&step("click")).coverage, Coverage::Fallback);
    assert_eq!(map.map(&on("Alarm")).coverage, Coverage::Rule);
}

#[test]
fn values_have_types() {
    let map = AliasMap::builtin();
    let cases = [
        ("https://example.com/a?b=c", "<url>"),
        ("www.bbc.co.uk", "<url>"),
        ("alibaba.com", "<url>"),
        ("ann@example.org", "<email>"),
        ("C:\\Users\\ann\\notes.txt", "<file_path>"),
        ("/home/ann/notes.txt", "<file_path>"),
        ("~/Desktop", "<file_path>"),
        ("quarterly report.xlsx", "<file_path>"),
        ("2024-05-03", "<date>"),
        ("May 3, 2024", "<date>"),
        ("3 Mar", "<date>"),
        ("15/08/2024 10:30", "<date>"),
        ("7:30 am", "<date>"),
        ("12.5", "<number>"),
        ("1,200", "<number>"),
        ("$45.00", "<number>"),
        ("+1 555 010-9999", "<number>"),
        ("may be later", "<text>"),
        ("March", "<text>"),
        ("see you at 7:30", "<text>"),
        ("a/b testing", "<text>"),
        ("e.g. this", "<text>"),
        ("Call me at 5", "<text>"),
    ];
    for (value, kind) in cases {
        assert_eq!(map.value_type("text", value, None), kind, "{value}");
    }
    assert_eq!(map.value_type("text", "2048", Some("<query>")), "<query>");
    assert_eq!(map.value_type("text", "https://a.org/x", Some("<query>")), "<url>");
    assert_eq!(map.value_type("target", "alibaba.com", None), "<element>");
}

#[test]
fn searches_are_queries() {
    let map = AliasMap::builtin();
    let hint = |action: &UnitAction| map.map(action).args.last().and_then(|a| a.hint).map(str::to_owned);
    let search = Some("<query>".to_owned());
    assert_eq!(hint(&UnitAction { target: Some("Search".into()), ..with_text("type", "cats") }), search);
    let phrase = Some("Type cats in the search bar".into());
    assert_eq!(hint(&UnitAction { phrase, ..with_text("type", "cats") }), search);
    let phrase = Some("Type research notes in the title".into());
    assert_eq!(hint(&UnitAction { phrase, ..with_text("type", "research notes") }), None);
}

#[test]
fn popups_are_known_by_their_whole_label_or_phrase() {
    let map = AliasMap::builtin();
    for target in ["Close", "Not now", "No thanks", "GOT IT", "Got it!", "Skip", "Don’t allow", "Close ad"]
    {
        assert!(map.dismisses_popup(&on(target)), "{target}");
    }
    for target in ["Close tab", "Skip to content", "Cancel subscription", "Allow", "OK", "Closet"] {
        assert!(!map.dismisses_popup(&on(target)), "{target}");
    }
    let phrases = [
        "close the ad",
        "Dismiss the reminder settings notification prompt.",
        "select 'no, thanks' to dismiss it.",
    ];
    for phrase in phrases {
        assert!(map.dismisses_popup(&phrased(phrase)), "{phrase}");
    }
    assert!(map.dismisses_popup(&phrased("Dismiss the pop-up by tapping 'Later'.")));
    for phrase in ["close the current tab.", "click on the skip video option", "Open the close-up"] {
        assert!(!map.dismisses_popup(&phrased(phrase)), "{phrase}");
    }
}

/// A small valid map with `rules` in place of its own.
fn small(rules: &str) -> String {
    format!(
        r#"version = "t"
[[verb]]
name = "click"
meaning = "m"
template = "t"
[[field]]
name = "target"
meaning = "m"
type = "<element>"
[[type]]
name = "<element>"
meaning = "m"
[incidental]
dismiss_target = '^close$'
dismiss_phrase = '^close it$'
{rules}"#
    )
}

#[test]
fn a_users_own_map_is_read() {
    let map = AliasMap::parse(&small(
        "[[rule]]\nname = \"a\"\nverb = [\"back\"]\nwhen = { phrase = 'to (?P<x>\\w+)' }\nto = \"click\"\nargs = { target = [\"target\", \"@x\", \"=there\"] }\n",
    ))
    .expect("valid");
    assert_eq!(map.version(), "t");
    let action = UnitAction { phrase: Some("go to Bed".into()), ..step("back") };
    assert_eq!(mapped(&map, &action), "click(target=Bed)");
    assert_eq!(map.map(&step("click")).coverage, Coverage::Unmapped);
}

#[test]
fn a_faulty_map_is_refused_with_line_and_rule() {
    let cases = [
        (
            "[[rule]]\nname = \"a\"\nverb = [\"clik\"]\n",
            "line 17, rule `a`: unknown verb `clik`; did you mean `click`?",
        ),
        (
            "[[rule]]\nname = \"a\"\nverb = [\"click\"]\nto = \"clack\"\n",
            "line 17, rule `a`: unknown predicate `clack`; did you mean `click`?",
        ),
        (
            "[[rule]]\nname = \"a\"\nverb = [\"type\"]\n",
            "line 17, rule `a`: unknown predicate `type`; did you mean",
        ),
        (
            "[[rule]]\nname = \"a\"\nverb = [\"click\"]\nargs = { targt = \"target\" }\n",
            "unknown field `targt`; did you mean `target`?",
        ),
        (
            "[[rule]]\nname = \"a\"\nverb = [\"click\"]\nargs = { target = \"txt\" }\n",
            "unknown source `txt`; did you mean `text`?",
        ),
        (
            "[[rule]]\nname = \"a\"\nverb = [\"click\"]\nwhen = { phrase = '(?P<app>x)' }\nargs = { target = \"@ap\" }\n",
            "unknown captured group `ap`; did you mean `app`?",
        ),
        (
            "[[rule]]\nname = \"a\"\nverb = [\"click\"]\nargs = { target = \"target\" }\ntypes = { target = \"<elemnt>\" }\n",
            "unknown type `<elemnt>`; did you mean `<element>`?",
        ),
        (
            "[[rule]]\nname = \"a\"\nverb = [\"click\"]\nwhen = { phrase = '(' }\n",
            "line 17, rule `a`: `phrase` is not a regular expression",
        ),
        (
            "[[rule]]\nname = \"a\"\nverb = [\"click\"]\nwhen = { phrase = 'x' }\n[[rule]]\nname = \"a\"\nverb = [\"click\"]\n",
            "line 21: rule `a` is defined twice",
        ),
        (
            "[[rule]]\nname = \"a\"\nverb = [\"click\"]\n[[rule]]\nname = \"b\"\nverb = [\"click\"]\nwhen = { phrase = 'x' }\n",
            "line 20, rule `b`: never reached for `click`, which rule `a` takes",
        ),
        (
            "[[rule]]\nname = \"a\"\nverb = [\"click\"]\nfallback = true\nwhen = { phrase = 'x' }\n",
            "line 17, rule `a`: a fallback has no `when`",
        ),
        ("[[rule]]\nname = \"a\"\nverb = [\"click\"]\nwhn = { phrase = 'x' }\n", "unknown field `whn`"),
        (
            "[[verb]]\nname = \"click\"\nmeaning = \"m\"\ntemplate = \"t\"\n[[rule]]\nname = \"a\"\nverb = [\"click\"]\n",
            "line 16: verb `click` is defined twice",
        ),
    ];
    for (rules, expected) in cases {
        let message = AliasMap::parse(&small(rules)).expect_err("faulty").to_string();
        assert!(message.contains(expected), "expected `{expected}` in `{message}`");
    }
}
