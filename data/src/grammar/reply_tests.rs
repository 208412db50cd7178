use proptest::prelude::*;

use super::super::Reply;
use super::*;

fn parsed(text: &str) -> Parsed {
    parse_action(text, FrameName::Pixels).unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

/// Verb, point, text, direction and element, as a line.
fn line(text: &str) -> String {
    let Parsed { action, grammar, rest } = parsed(text);
    let mut line = format!("{grammar:?} {}", action.verb);
    if let Some(p) = action.point {
        line += &format!(" at {},{}", p.x, p.y);
    }
    if let Some(p) = action.end {
        line += &format!(" to {},{}", p.x, p.y);
    }
    for (name, value) in
        [("text", action.text), ("direction", action.source_direction), ("element", action.target.element)]
    {
        line += &value.map(|v| format!(" {name} {v:?}")).unwrap_or_default();
    }
    line + if rest { " …" } else { "" }
}

#[test]
fn calls_of_ces_and_swirl() {
    for (text, expected) in [
        ("click(point='(402, 683)')", "Call click at 402,683"),
        ("long_press(point='(1, 2)')", "Call long_press at 1,2"),
        ("type(content='it\\'s \"x\"')", "Call type text \"it's \\\"x\\\"\""),
        ("type(content='')", "Call type text \"\""),
        ("scroll(direction='Down')", "Call scroll direction \"down\""),
        ("open_app(app_name='Clock')", "Call open_app text \"Clock\""),
        ("press_home()", "Call home"),
        ("press_back", "Call back"),
        ("press_enter()", "Call press text \"enter\""),
        ("press_appselect()", "Call recents"),
        ("wait()", "Call wait"),
        ("finished()", "Call complete"),
        ("error(content='no such app')", "Call impossible text \"no such app\""),
        ("click(start_box='<|box_start|>(10,20)<|box_end|>')", "Call click at 10,20"),
        ("click(element='7')", "Call click element \"7\""),
        ("click(element=7)", "Call click element \"7\""),
        ("click([0, 10, 20, 30])", "Call click at 10,20"),
        ("click(x=3, y=4)", "Call click at 3,4"),
        ("click(402, 683)", "Call click at 402,683"),
        ("type(content='Men's shoes')", "Call type text \"Men's shoes\""),
        ("type(content=007)", "Call type text \"007\""),
        ("type(content=2.50)", "Call type text \"2.50\""),
        ("hotkey(key='ctrl c')", "Call press text \"ctrl+c\""),
        ("Thought: I tap it.\nAction: click((3, 4))", "Call click at 3,4"),
        ("\u{feff}press_home()", "Call home"),
        ("```press_home()```", "Call home"),
        ("Action: click((3, 4))\nclick((5, 6))", "Call click at 3,4 …"),
        ("```python\npress_home()\n```", "Call home"),
    ] {
        assert_eq!(line(text), expected, "{text}");
    }
}

#[test]
fn dictionaries_of_gui_r1_and_ui_r1() {
    for (text, expected) in [
        (
            "[{'action': 'click', 'point': [123, 300], 'input_text': 'no input text'}]",
            "Dictionary click at 123,300",
        ),
        (
            "[{'action': 'type', 'point': [-100, -100], 'input_text': 'shanghai shopping mall'}]",
            "Dictionary type text \"shanghai shopping mall\"",
        ),
        (
            "[{\"action\": \"scroll\", \"point\": [-100, -100], \"input_text\": \"up\"}]",
            "Dictionary scroll direction \"up\"",
        ),
        ("{'action': 'press home', 'point': [-100, -100]}", "Dictionary home"),
        ("[{'action': 'enter', 'input_text': 'None'}]", "Dictionary press text \"enter\""),
        ("[{'action': 'scroll', 'input_text': 'scroll down'}]", "Dictionary scroll direction \"down\""),
        ("[{'action': 'click', 'point': ['402', '683.0']}]", "Dictionary click at 402,683"),
        ("[{'action': 'click', 'point': {'x': 4, 'y': 6}}]", "Dictionary click at 4,6"),
        ("[{'action': 'click', 'coordinate': [5, 6]}]", "Dictionary click at 5,6"),
        ("[‘action’: ‘click’, ‘point’: [5, 6], ‘input_text’: ‘no input text’]", "Dictionary click at 5,6"),
        ("[{'action': 'click', 'point': [1, 2]}, {'action': 'complete'}]", "Dictionary click at 1,2 …"),
        ("{\"action_type\": \"click\", \"x\": 7, \"y\": 8}", "Dictionary click at 7,8"),
    ] {
        assert_eq!(line(text), expected, "{text}");
    }
}

#[test]
fn tool_calls_of_qwen_vl() {
    let call = |arguments: &str| {
        line(&format!(
            "<tool_call>\n{{\"name\": \"mobile_use\", \"arguments\": {{{arguments}}}}}\n</tool_call>"
        ))
    };
    assert_eq!(call("\"action\": \"click\", \"coordinate\": [402, 683]"), "ToolCall click at 402,683");
    assert_eq!(
        call("\"action\": \"swipe\", \"coordinate\": [5, 90], \"coordinate2\": [5, 10]"),
        "ToolCall scroll at 5,90 to 5,10 direction \"up\""
    );
    assert_eq!(call("\"action\": \"system_button\", \"button\": \"Back\""), "ToolCall back");
    assert_eq!(call("\"action\": \"terminate\", \"status\": \"failure\""), "ToolCall impossible");
    assert_eq!(call("\"action\": \"key\", \"keys\": [\"Ctrl\", \"c\"]"), "ToolCall press text \"ctrl+c\"");
    assert_eq!(call("\"action\": \"scroll\", \"pixels\": -500"), "ToolCall scroll direction \"down\"");
    assert_eq!(
        call("\"action\": \"type\", \"text\": \"\\ud83d\\ude00\\ud83d\""),
        "ToolCall type text \"😀\u{fffd}\""
    );
    assert_eq!(line("{\"name\": \"m\", \"arguments\": \"{\\\"action\\\": \\\"wait\\\"}\"}"), "ToolCall wait");
    assert_eq!(call("\"action\": \"open\", \"text\": \"Clock\""), "ToolCall open_app text \"Clock\"");
    assert_eq!(call("\"action\": \"left_click\", \"coordinate\": [1.5, 2]"), "ToolCall click at 1.5,2");
}

#[test]
fn strings_of_gui_odyssey() {
    for (text, expected) in [
        ("CLICK: (402, 683)", "Colon click at 402,683"),
        ("SCROLL: UP", "Colon scroll direction \"up\""),
        ("TYPE: see: this", "Colon type text \"see: this\""),
        ("PRESS_RECENT", "Call recents"),
        ("COMPLETE", "Call complete"),
        ("IMPOSSIBLE", "Call impossible"),
    ] {
        assert_eq!(line(text), expected, "{text}");
    }
}

#[test]
fn faults_say_what_is_wrong() {
    for (text, expected) in [
        ("", "the reply is empty"),
        ("  ", "the reply is empty"),
        ("I will click the button", "not an action: text follows `I` without brackets or a colon"),
        ("click the button", "not an action: text follows `click` without brackets or a colon"),
        ("teleport(point='(1, 2)')", "unknown action `teleport`"),
        ("click(point='here')", "argument `point`: expected a point such as (402, 683)"),
        ("click(point='(1, 2, 3)')", "argument `point`: expected a point such as (402, 683)"),
        ("{\"thought\": \"x\"}", "not an action: no key `action`"),
        ("[]", "not an action: no key `action`"),
        ("click(point=__import__('os'))", "not an action: expected `,` or `)` at byte 22, found `('os'))`"),
        (
            "[{'action': 'click'",
            "not an action: expected `,` or the dictionary's end at byte 19, found the end",
        ),
    ] {
        let fault = parse_action(text, FrameName::Pixels).expect_err(text);
        assert_eq!(fault.to_string(), expected, "{text}");
    }
}

#[test]
fn a_missing_argument_is_no_fault() {
    assert_eq!(line("click()"), "Call click");
    assert_eq!(line("scroll()"), "Call scroll");
    assert_eq!(line("[{'action': 'click', 'point': [-100, -100]}]"), "Dictionary click");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn no_text_panics(text in "\\PC{0,120}") {
        let reply = Reply::of(&text);
        let _ = parse_action(reply.content(), FrameName::Pixels);
    }

    #[test]
    fn no_damaged_action_panics(
        text in prop_oneof![
            Just("<think>a</think><answer>click(point='(402, 683)')</answer>"),
            Just("<answer>[{'action': 'click', 'point': [123, 300], 'input_text': 'é'}]</answer>"),
            Just("<tool_call>{\"name\": \"m\", \"arguments\": {\"action\": \"swipe\", \"coordinate2\": [1, 2]}}"),
        ],
        cut in 0_usize..100,
        noise in "[\\[\\](){}'\"\\\\:,=‘é<>a0-]{0,6}",
    ) {
        let at = text.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(text.len());
        let damaged = format!("{}{noise}{}", &text[..at], &text[at..]);
        let _ = parse_action(Reply::of(&damaged).content(), FrameName::Pixels);
        let _ = parse_action(Reply::of(&damaged[..at]).content(), FrameName::Pixels);
    }

    #[test]
    fn typed_text_comes_back(text in "\\PC{0,20}", x in -2000_i32..3000, y in 0_i32..3000) {
        let quoted = text.replace('\\', "\\\\").replace('\'', "\\'");
        prop_assert_eq!(parsed(&format!("type(content='{quoted}')")).action.text, Some(text));
        if (x, y) != (-100, -100) {
            let point = parsed(&format!("click(point='({x}, {y})')")).action.point;
            prop_assert_eq!(point.map(|p| (p.x, p.y)), Some((f64::from(x), f64::from(y))));
        }
    }
}
