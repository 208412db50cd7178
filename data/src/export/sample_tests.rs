use super::*;
use crate::action::{BBox, Direction, Point, Thousandths};
use crate::grammar::{parse_action, strict_answer};
use crate::trace::{Element, Episode, Format, Outcome, Platform, Step};

fn episode(format: Format, extra: Option<&str>, steps: Vec<Step>) -> (EpisodeRow, Vec<StepRow>) {
    let episode = Episode {
        episode_id: format!("{format}:1"),
        format,
        source: "f.json".to_owned(),
        source_key: "rows 1-2".to_owned(),
        platform: Platform::Mobile,
        instruction: "Set a timer".to_owned(),
        apps: vec!["Clock".to_owned()],
        domain: None,
        outcome: Outcome::Unknown,
        split: None,
        extra: extra.map(str::to_owned),
        steps,
    };
    episode.into_rows()
}

/// A step as GUI-Odyssey tells it.
fn told(number: u32, context: &str) -> Step {
    let mut action = Action::new(Verb::Click, "CLICK");
    action.point = Some(Point::<Thousandths>::new(500.0, 250.0).into());
    let frame = FrameName::Thousandths;
    action.target.boxes = vec![BBox { left: 400.0, top: 200.0, right: 600.0, bottom: 300.0, frame }];
    let mut step = Step::new(number, format!("steps[{number}]"), action);
    step.screen.screenshot = Some(format!("{number}.png"));
    step.screen.size = Some(crate::action::ScreenSize { width_px: 1000, height_px: 2000 });
    step.instruction = Some("Tap Start.".to_owned());
    step.description = Some("A clock.".to_owned());
    step.thought = Some("Start it.".to_owned());
    step.context = Some(context.to_owned());
    step
}

fn exporter(kind: Kind, role: AgentRole, form: Form) -> Exporter {
    Exporter { kind, role, form, worded: false, text_screens: false }
}

fn rows(exporter: Exporter, (episode, steps): &(EpisodeRow, Vec<StepRow>)) -> Vec<Result<Sample, Skipped>> {
    exporter.episode(episode, steps).expect("renders")
}

#[test]
fn a_coordinator_learns_thought_and_instruction() {
    let made = episode(Format::GuiOdyssey, None, vec![told(0, ""), told(1, "Started.")]);
    let paper = rows(exporter(Kind::Sft, AgentRole::Coordinator, Form::Paper), &made);
    let first = paper[0].as_ref().expect("a row");
    assert_eq!(first.reply.as_deref(), Some("<think>A clock. Start it.</think><answer>Tap Start.</answer>"));
    assert_eq!(first.lineage.row_id, "gui-odyssey:1#0/coordinator");
    assert_eq!(first.lineage.source_key, "rows 1-2 › steps[0]");
    assert_eq!((first.lineage.state_from.as_str(), first.image.as_deref()), ("first", Some("0.png")));
    assert_eq!(paper[1].as_ref().expect("a row").lineage.state_from, "context");
    let released = rows(exporter(Kind::Sft, AgentRole::Coordinator, Form::CesCode), &made);
    let reply = released[0].as_ref().expect("a row").reply.clone().expect("a reply");
    assert_eq!(reply, "<think>A clock.Start it.</think><answer>Tap Start.</answer>", "no separator");
}

#[test]
fn a_tracker_learns_the_next_context_and_reads_the_action_done() {
    let made = episode(Format::GuiOdyssey, None, vec![told(0, ""), told(1, "Started.")]);
    let paper = rows(exporter(Kind::Sft, AgentRole::StateTracker, Form::Paper), &made);
    let first = paper[0].as_ref().expect("a row");
    assert_eq!(first.reply.as_deref().and_then(strict_answer), Some("Started."));
    let user = &first.prompt.messages[1].content;
    assert!(
        user.contains("<think>A clock. Start it.</think><answer>click(point='(500, 500)')</answer>"),
        "{user}"
    );
    assert_eq!(paper[1], Err(Skipped::NoNextState), "the source tells states, and not this one");
    let released = rows(exporter(Kind::Sft, AgentRole::StateTracker, Form::CesCode), &made);
    let first = released[0].as_ref().expect("a row");
    assert_eq!(first.reply.as_deref(), Some("Started."));
    assert!(first.prompt.messages[1].content.contains("<answer>CLICK</answer>"));
    let told_last = episode(Format::GuiOdyssey, Some(r#"{"final_state": "Done."}"#), vec![told(0, "")]);
    let last = rows(exporter(Kind::Sft, AgentRole::StateTracker, Form::CesCode), &told_last);
    assert_eq!(last[0].as_ref().expect("a row").reply.as_deref(), Some("Done."));
}

/// A prompt must hold what its reply tells of.
#[test]
fn a_tracker_is_told_what_was_done() {
    let tracker = exporter(Kind::Sft, AgentRole::StateTracker, Form::Paper);
    let mut step = told(0, "");
    (step.thought, step.description) = (None, None);
    let asked = |step: &Step| {
        let made = rows(tracker, &episode(Format::Mind2web, None, vec![step.clone(), told(1, "Started.")]));
        made[0].clone().map(|row| row.prompt.messages[1].content.clone())
    };
    assert!(
        asked(&step).expect("a row").contains("<think>Tap Start.</think>"),
        "the instruction stands for it"
    );
    step.instruction = None;
    step.action.target.name = Some("Start".to_owned());
    assert!(asked(&step).expect("a row").contains("<think>Tap \"Start\".</think>"));
    step.action.target.name = None;
    step.action.point = None;
    assert_eq!(asked(&step), Err(Skipped::NothingDone));
}

#[test]
fn truths_stay_on_the_screen() {
    let mut step = told(0, "");
    let frame = FrameName::Pixels;
    let at = |left, top, right, bottom| BBox { left, top, right, bottom, frame };
    step.action.target.boxes = vec![at(-5.0, 10.004, 50.0, 2500.0), at(7.0, 7.0, 7.0, 9.0)];
    let made = episode(Format::Agentnet, None, vec![step]);
    let row = rows(exporter(Kind::Rl, AgentRole::Coordinator, Form::Paper), &made);
    assert_eq!(row[0].as_ref().expect("a row").agent.truth.boxes, [[0.0, 10.0, 50.0, 2000.0]]);
}

/// Eq. 15 and 16: the state after a step is rewarded on the next screen.
#[test]
fn a_trackers_reward_is_on_the_next_screen() {
    let mut second = told(1, "Started.");
    second.action.verb = Verb::Scroll;
    second.action.direction = Some(Direction::Down);
    let made = episode(Format::GuiOdyssey, None, vec![told(0, ""), second]);
    let pool = rows(exporter(Kind::Rl, AgentRole::StateTracker, Form::Paper), &made);
    let row = pool[0].as_ref().expect("a row");
    assert_eq!(row.agent.truth.action, "scroll");
    assert_eq!(row.agent.screen.image.as_deref(), Some("1.png"));
    assert_eq!(row.agent.state, FIRST_STATE);
    assert!(row.agent.executor_output.contains("click("));
    assert_eq!(pool[1], Err(Skipped::NoNextState));
    let coordinator = rows(exporter(Kind::Rl, AgentRole::Coordinator, Form::Paper), &made);
    let row = coordinator[0].as_ref().expect("a row");
    assert_eq!(row.agent.truth.boxes, [[400.0, 400.0, 600.0, 600.0]]);
    assert_eq!(row.reply, None);
}

#[test]
fn what_cannot_be_a_row_says_why() {
    let coordinator = |kind| exporter(kind, AgentRole::Coordinator, Form::Paper);
    let bare = |edit: &dyn Fn(&mut Step)| {
        let mut step = told(0, "");
        edit(&mut step);
        episode(Format::AndroidControl, None, vec![step])
    };
    let reason =
        |exporter: Exporter, made: &(EpisodeRow, Vec<StepRow>)| rows(exporter, made)[0].clone().err();
    let silent = bare(&|s| s.instruction = None);
    assert_eq!(reason(coordinator(Kind::Sft), &silent), Some(Skipped::NoInstruction));
    assert_eq!(reason(coordinator(Kind::Rl), &silent), None, "a reward needs no instruction");
    assert_eq!(reason(Exporter { worded: true, ..coordinator(Kind::Sft) }, &silent), None);
    assert_eq!(
        reason(coordinator(Kind::Rl), &bare(&|s| s.screen.screenshot = None)),
        Some(Skipped::NoScreen)
    );
    let pointless = |edit: &dyn Fn(&mut Step)| {
        bare(&|s| {
            s.action.point = None;
            s.action.target.boxes.clear();
            edit(s);
        })
    };
    let element = pointless(&|s| s.action.target.element = Some("7".to_owned()));
    assert_eq!(reason(coordinator(Kind::Rl), &element), Some(Skipped::NoTruth), "a picture has no element 7");
    let textless = pointless(&|s| s.action.verb = Verb::Type);
    assert_eq!(reason(coordinator(Kind::Rl), &textless), Some(Skipped::NoTruth));
    let read = bare(&|s| s.action.source_verb = "inferred:Tap".to_owned());
    assert_eq!(reason(coordinator(Kind::Rl), &read), Some(Skipped::ReadTruth));
    let untargeted = bare(&|s| {
        s.action.point = None;
        s.action.target.boxes.clear();
    });
    assert_eq!(reason(coordinator(Kind::Rl), &untargeted), Some(Skipped::NoTruth));
    let marked = bare(&|s| s.instruction = Some("Tap </answer> <image>".to_owned()));
    assert_eq!(reason(coordinator(Kind::Sft), &marked), Some(Skipped::Marked));
    let mut taskless = bare(&|_| {});
    taskless.0.instruction = " ".to_owned();
    assert_eq!(reason(coordinator(Kind::Rl), &taskless), Some(Skipped::NoTask));
    let other = episode(Format::CesSft, Some(r#"{"role": "state-tracker"}"#), vec![told(0, "")]);
    assert_eq!(reason(coordinator(Kind::Sft), &other), Some(Skipped::OtherRole));
}

#[test]
fn a_text_screen_is_shown_as_text() {
    let mut step = told(0, "");
    step.screen.screenshot = None;
    step.screen.elements = vec![Element {
        id: "7".to_owned(),
        role: "button".to_owned(),
        text: "Start".to_owned(),
        ..Element::default()
    }];
    let mut both = step.clone();
    both.screen.screenshot = Some("0.png".to_owned());
    let both = episode(Format::Webvoyager, None, vec![both]);
    let pictured = exporter(Kind::Sft, AgentRole::Coordinator, Form::Paper);
    let shown =
        |exporter: Exporter| rows(exporter, &both)[0].as_ref().expect("a row").prompt.template.clone();
    assert_eq!(shown(pictured), "coordinator@1");
    assert_eq!(shown(Exporter { text_screens: true, ..pictured }), "coordinator-text@1");
    let made = episode(Format::Droidtask, None, vec![step]);
    for form in [Form::Paper, Form::CesCode] {
        let made = rows(exporter(Kind::Sft, AgentRole::Coordinator, form), &made);
        let row = made[0].as_ref().expect("a row");
        assert_eq!((row.prompt.template.as_str(), row.image.as_ref()), ("coordinator-text@1", None));
        assert!(row.prompt.messages[1].content.contains("7 button \"Start\""));
    }
}

#[test]
fn the_action_told_to_a_tracker_is_the_action_done() {
    let (_, steps) = episode(Format::GuiOdyssey, None, vec![told(0, "")]);
    let parsed = parse_action(&action_text(&steps[0]), FrameName::Pixels).expect("an action");
    assert_eq!(parsed.action.verb, Verb::Click);
    assert_eq!(parsed.action.point.map(|p| (p.x, p.y)), Some((500.0, 500.0)));
}
