//! Trees of every form: read whole, broken, and of what has no name.

use proptest::prelude::*;

use super::tests::{check_fates, compressor};
use super::*;

/// A tree of three elements, `Name 0` to `Name 2`, whose left edges are 101, 111 and 121.
fn sample(form: Form) -> String {
    let each = |write: &dyn Fn(usize, usize) -> String, between: &str| {
        (0..3).map(|i| write(i, 101 + 10 * i)).collect::<Vec<_>>().join(between)
    };
    match form {
        Form::OsworldTsv => {
            let row = |i: usize, x: usize| format!("push-button\tName {i}\ttext\tnote\t\t({x}, 2)\t(30, 40)");
            format!("{}\n{}\n", linear::HEADER, each(&row, "\n"))
        }
        Form::AtspiXml => {
            let shown = "st:showing=\"true\" st:visible=\"true\" st:enabled=\"true\"";
            let node = |i: usize, x: usize| {
                format!(
                    "<push-button name=\"Name {i}\" {shown} cp:screencoord=\"({x}, 2)\" cp:size=\"(30, 40)\">a &amp; b</push-button>"
                )
            };
            format!(
                "<desktop-frame><application name=\"App\">{}</application></desktop-frame>",
                each(&node, "\n")
            )
        }
        Form::UiaJson => {
            let node = |i: usize, x: usize| {
                format!(
                    "{{\"Name\": \"Name {i}\", \"ControlType\": \"ButtonControl\", \"BoundingRectangle\": {{\"left\": {x}, \"top\": 2, \"right\": 200, \"bottom\": 40}}}}"
                )
            };
            format!("{{\"ControlType\": \"PaneControl\", \"Children\": [{}]}}", each(&node, ",\n"))
        }
        Form::DroidbotJson => {
            let view = |i: usize, x: usize| {
                format!(
                    "{{\"class\": \"a.Button\", \"text\": \"Name {i}\", \"clickable\": true, \"bounds\": [[{x}, 2], [200, 40]]}}"
                )
            };
            format!("{{\"views\": [{}], \"foreground_activity\": \"a/.B\"}}", each(&view, ",\n"))
        }
        Form::MiniwobJson => {
            let node = |i: usize, x: usize| {
                format!(
                    "{{\"tag\": \"BUTTON\", \"text\": \"Name {i}\", \"left\": {x}, \"top\": 2, \"width\": 30, \"height\": 40, \"ref\": {i}}}"
                )
            };
            format!("{{\"dom\": {{\"tag\": \"BODY\", \"children\": [{}]}}}}", each(&node, ",\n"))
        }
    }
}

proptest! {
    #[test]
    fn a_broken_tree_is_read_as_far_as_it_goes_or_refused(
        form in prop::sample::select(Form::ALL.to_vec()),
        breaks in prop::collection::vec((0.0..1.0_f64, 0..9_usize, "[-({\\[\"<>&;)\\]}\t\n0-9a-z\u{1F600},.:/=]{0,6}"), 1..4),
    ) {
        let mut text = sample(form);
        for (place, gone, put) in breaks {
            let mut chars: Vec<char> = text.chars().collect();
            let at = (place * chars.len() as f64) as usize;
            chars.splice(at..(at + gone).min(chars.len()), put.chars());
            text = chars.into_iter().collect();
        }
        let _ = form.is_begun_by(&text);
        match form.read(&text) {
            Err(error) => prop_assert!(!error.place.is_empty() && !error.reason.is_empty()),
            Ok(read) => {
                // Broken in a few places, of whatever length, no file says more than it has characters for.
                let read_in: usize = read.trees.iter().map(|t| t.nodes.len() + t.left_out.len()).sum();
                prop_assert!(read_in <= 12, "{read_in} elements of {text}");
                for tree in &read.trees {
                    check_fates(tree, &compressor().compress(tree, None, ""));
                }
            }
        }
    }

    #[test]
    fn what_is_broken_in_one_element_costs_that_element_alone(
        form in prop::sample::select(Form::ALL.to_vec()),
        which in 0..3_usize,
        number in prop::sample::select(vec!["1.5e", "--3", "x", "99999999999999999999", "\u{1F600}", ""]),
    ) {
        // The element's first number, in three of the forms with what stands around it.
        let text = sample(form);
        let marked = text.replacen(&format!("1{which}1"), number, 1);
        prop_assert_ne!(&text, &marked);
        let names = |text: &str| -> Option<Vec<String>> {
            let read = form.read(text).ok()?;
            let names = read.trees.iter().flat_map(|tree| &tree.nodes).map(|node| node.label().to_owned());
            Some(names.filter(|name| name.starts_with("Name")).collect())
        };
        prop_assert_eq!(names(&text).map(|names| names.len()), Some(3));
        let broken = form.read(&marked);
        if let Some(names) = names(&marked) {
            let others: Vec<String> = (0..3).filter(|i| *i != which).map(|i| format!("Name {i}")).collect();
            prop_assert!(others.iter().all(|name| names.contains(name)), "{names:?} of {marked}");
        } else {
            // What is no JSON any more has no parts that could be told apart.
            prop_assert!(form != Form::OsworldTsv && form != Form::AtspiXml, "{broken:?}");
        }
    }
}

/// The text that a tree of one form becomes.
fn shown(form: Form, text: &str) -> String {
    compressor().compress(&form.read(text).unwrap().trees[0], None, "").text
}

#[test]
fn what_a_user_acts_on_has_a_line_though_it_has_no_name() {
    let dom = r#"{"dom": {"tag": "BODY", "left": 0, "top": 0, "width": 160, "height": 210, "children": [
        {"tag": "INPUT_text", "left": 10, "top": 60, "width": 100, "height": 20, "value": ""},
        {"tag": "INPUT_checkbox", "left": 10, "top": 90, "width": 12, "height": 12, "value": true},
        {"tag": "circle", "left": 30, "top": 120, "width": 20, "height": 20, "classes": {}},
        {"tag": "DIV", "left": 0, "top": 150, "width": 160, "height": 20, "id": "wrap"}]}}"#;
    insta::assert_snapshot!(shown(Form::MiniwobJson, dom), @r"
    APP: unknown application
    [CONTENT]
    entry (60,70)
    check-box (16,96) checked
    circle (40,130)
    ");
    let views = r#"{"width": 1080, "height": 2280, "views": [
        {"class": "android.widget.FrameLayout", "bounds": [[0, 0], [1080, 2280]]},
        {"class": "android.widget.FrameLayout", "bounds": [[900, 1000], [1000, 1100]], "clickable": true, "resource_id": "app:id/fab"},
        {"class": "android.view.View", "bounds": [[0, 600], [1080, 800]], "clickable": true},
        {"class": "android.widget.Button", "text": "Pay", "bounds": [[0, 900], [300, 1000]], "clickable": true, "enabled": false}]}"#;
    let text = shown(Form::DroidbotJson, views);
    for line in ["frame-layout fab (950,1050)\n", "view (540,700)\n", "button Pay (150,950) disabled\n"] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(text.matches("layout").count(), 1, "{text}");
}
