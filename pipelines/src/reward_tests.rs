use serde_json::json;

use super::*;

fn rewarder(profile: &str) -> Rewarder {
    let settings = RewardSection { profile: profile.to_owned(), ..RewardSection::default() };
    Rewarder::open(&settings, None).expect("opens")
}

fn row(role: &str, output: &str) -> AgentRow {
    let elements = json!([
        {"id": "0", "role": "button", "text": "New Timer", "states": [], "bbox": null},
        {"id": "1", "role": "button", "text": "Settings", "states": [], "bbox": null},
    ]);
    let row = json!({
        "id": 7, "role": role, "output": output, "task": "Open the settings",
        "screen": {"width": 0, "height": 0, "elements": elements},
        "truth": {"action": "click", "element": "1"},
    });
    serde_json::from_value(row).expect("a row")
}

fn total(profile: &str, output: &str) -> Option<f64> {
    let rewarded = rewarder(profile).reward_all(&[row("coordinator", output)]).expect("rewarded");
    rewarded[0].reward.as_ref().map(|r| r.total)
}

#[test]
fn a_coordinator_is_paid_for_what_its_instruction_leads_to() {
    assert_eq!(total("paper", "<think>a</think><answer>Tap 'Settings'</answer>"), Some(1.0));
    assert_eq!(total("paper", "Tap 'Settings'"), Some(0.9), "no form, and the right action");
    let wrong = total("paper", "<think>a</think><answer>Tap 'New Timer'</answer>").expect("a score");
    assert!((wrong - 0.28).abs() < 1e-9, "form and type: {wrong}");
    assert_eq!(total("paper", "<think>a</think><answer></answer>"), Some(0.1));
    assert_eq!(total("ces-code", "<think>a</think> <answer>Tap 'Settings'</answer>"), Some(0.0));
}

#[test]
fn everything_that_led_to_a_reward_comes_with_it() {
    let output = "<think>a</think><answer>Tap 'Settings'</answer>";
    let rewarded = &rewarder("paper").reward_all(&[row("coordinator", output)]).expect("rewarded")[0];
    assert_eq!(rewarded.id, json!(7));
    assert_eq!(rewarded.instruction.as_deref(), Some("Tap 'Settings'"));
    assert_eq!(
        rewarded.reply.as_deref(),
        Some("<think>button 1 \"Settings\" fits.</think><answer>click(element='1')</answer>")
    );
    let json = serde_json::to_value(rewarded).expect("serialises");
    assert_eq!((&json["outcome"], &json["total"]), (&json!("score"), &json!(1.0)));
    assert_eq!(json["executed"]["parsed"], "click(element='1')");
}

#[test]
fn a_tracker_without_a_coordinator_and_a_picture_without_a_folder_are_errors_of_their_own() {
    let mut pictured = row("coordinator", "Tap 'Settings'");
    pictured.prompt.screen.image = Some("a.png".to_owned());
    let rows = [row("state-tracker", "s"), pictured, row("coordinator", "Tap 'Settings'")];
    let rewarded = rewarder("paper").reward_all(&rows).expect("rewarded");
    let reasons: Vec<String> = rewarded
        .iter()
        .map(|r| match &r.executed {
            Outcome::Error { reason } => reason.clone(),
            other => format!("{other:?}"),
        })
        .collect();
    assert!(reasons[0].contains("reward.coordinator.endpoints"), "{}", reasons[0]);
    assert!(reasons[1].contains("--images"), "{}", reasons[1]);
    assert!(rewarded[0].reward.is_none() && rewarded[1].reward.is_none());
    assert_eq!(rewarded[2].reward.as_ref().map(|r| r.total), Some(0.9));
}

#[test]
fn relative_coordinates_become_pixels_before_they_are_scored() {
    let size = Some(ScreenSize { width_px: 1000, height_px: 2000 });
    let truth: Truth =
        serde_json::from_value(json!({"action": "click", "bbox": [400, 900, 600, 1100]})).expect("a truth");
    let mut rewarder = rewarder("paper");
    for (coordinates, reply, right) in [
        (Coordinates::Thousandths, "click(point='(500, 500)')", true),
        (Coordinates::Norm, "click(point='(0.5, 0.5)')", true),
        (Coordinates::Px, "click(point='(500, 500)')", false),
    ] {
        rewarder.coordinates = coordinates;
        let score = rewarder.score(reply, &truth, size);
        assert_eq!(score.score().map(|s| s.param > 0.0), Some(right), "{reply}");
    }
    rewarder.coordinates = Coordinates::Thousandths;
    assert!(matches!(rewarder.score("click(point='(1, 1)')", &truth, None), Outcome::Error { .. }));
}

/// A server that answers the n-th chat request as `answer` says, and keeps what it was asked.
fn scripted(answer: fn(usize) -> Result<&'static str, u16>) -> (String, std::sync::Arc<Mutex<Vec<String>>>) {
    use axum::http::StatusCode;
    let asked = std::sync::Arc::new(Mutex::new(Vec::new()));
    let kept = std::sync::Arc::clone(&asked);
    let (address, bound) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let answer = axum::routing::post(move |body: String| async move {
                let mut kept = kept.lock().expect("not poisoned");
                kept.push(body);
                let content = answer(kept.len() - 1)
                    .map_err(|status| StatusCode::from_u16(status).expect("a status"))?;
                let message = json!({"role": "assistant", "content": content});
                let choice = json!({"message": message, "finish_reason": "stop"});
                Ok::<_, StatusCode>(axum::Json(json!({"model": "m", "choices": [choice]})))
            });
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            address.send(listener.local_addr().expect("an address")).expect("someone waits");
            axum::serve(listener, axum::Router::new().fallback(answer)).await.expect("serves");
        });
    });
    (format!("http://{}/v1", bound.recv().expect("an address")), asked)
}

/// A rewarder whose executor is at `url`: every request is a call, tried once, and no endpoint rests.
fn served(url: &str, ledger: &Path, max_error_share: f64) -> Rewarder {
    let endpoint = json!({
        "mode": "live", "ledger": ledger, "max_error_share": max_error_share, "min_calls": 20,
        "endpoints": [{"base_url": url, "model": "m"}],
        "retries": {"attempts": 1}, "health": {"failures": 1_000_000_000},
    });
    let settings = RewardSection {
        executor: "endpoint".to_owned(),
        endpoint: serde_json::from_value(endpoint).expect("settings"),
        ..RewardSection::default()
    };
    Rewarder::open(&settings, None).expect("opens")
}

const RIGHT: &str = "<think>e</think><answer>click(element='1')</answer>";

/// The acceptance of the whole chain: a call that fails is never a number, and the stage is told to stop.
#[test]
fn of_ten_thousand_failed_calls_none_becomes_a_score() {
    let (url, asked) = scripted(|n| if n % 10 == 0 { Ok(RIGHT) } else { Err(503) });
    let ledger = tempfile::tempdir().expect("a temporary folder");
    let rewarder = served(&url, ledger.path(), 0.95);
    let rows = vec![row("coordinator", "<think>a</think><answer>Tap 'Settings'</answer>"); 11_200];
    let rewarded = rewarder.reward_all(&rows).expect("a failed call stops no batch");
    let (answered, failed): (Vec<_>, Vec<_>) = rewarded.iter().partition(|r| r.reply.is_some());
    assert_eq!(
        (asked.lock().expect("not poisoned").len(), answered.len(), failed.len()),
        (11_200, 1_120, 10_080)
    );
    assert!(answered.iter().all(|r| r.reward.as_ref().is_some_and(|r| (r.total - 1.0).abs() < 1e-9)));
    for r in failed {
        assert!(r.reward.is_none() && r.executed.score().is_none(), "{r:?}");
        let json = serde_json::to_value(r).expect("serialises");
        assert_eq!((&json["outcome"], &json["total"]), (&json!("error"), &Value::Null));
    }
    rewarder.check_failures().expect("90 % fail, and 95 % may");
}

#[test]
fn too_many_failures_are_told_over_batches_by_rewards_and_by_acts() {
    let (url, _) = scripted(|_| Err(503));
    let ledger = tempfile::tempdir().expect("a temporary folder");
    let tripped = |rewarder: &Rewarder| rewarder.check_failures().is_err();
    let rewarder = served(&url, ledger.path(), 0.1);
    let one = [row("coordinator", "Tap 'Settings'")];
    for batch in 0..3 {
        assert!(!tripped(&rewarder), "{batch} of 20 calls failed");
        rewarder.reward_all(&one).expect("rewarded");
    }
    assert!(tripped(&rewarder), "3 of 20");
    let rewarder = served(&url, ledger.path(), 0.1);
    let screen = Screen { elements: one[0].prompt.screen.elements.clone(), ..Screen::default() };
    let command = Command { instruction: "Tap 'Settings'", screen: &screen, image: None };
    let truths = vec![one[0].prompt.truth.clone(); 3];
    let done = rewarder.act(&[command; 3], &truths).expect("acted");
    assert!(done.iter().all(|(outcome, reply)| outcome.score().is_none() && reply.is_none()));
    assert!(tripped(&rewarder));
}

/// Eq. 15 to 18: the Tracker's state goes to the Coordinator, its instruction to the Executor.
#[test]
fn a_tracker_is_paid_for_what_the_coordinator_makes_of_its_state() {
    let (url, asked) = scripted(|_| Ok("<think>c</think><answer>Tap 'Settings'</answer>"));
    let ledger = tempfile::tempdir().expect("a temporary folder");
    for (profile, expected) in [("paper", [1.0, 0.9]), ("ces-code", [1.0, 1.0])] {
        let settings = RewardSection {
            profile: profile.to_owned(),
            coordinator: serde_json::from_value(json!({
                "ledger": ledger.path(), "endpoints": [{"base_url": url, "model": "m"}],
            }))
            .expect("settings"),
            ..RewardSection::default()
        };
        let rewarder = Rewarder::open(&settings, None).expect("opens");
        let rows = [
            row("state-tracker", "<think>t</think><answer>The list is <image> open.</answer>"),
            row("state-tracker", "The list is open."),
        ];
        let rewarded = rewarder.reward_all(&rows).expect("rewarded");
        let totals: Vec<Option<f64>> = rewarded.iter().map(|r| r.reward.as_ref().map(|r| r.total)).collect();
        assert_eq!(totals, expected.map(Some), "{profile}: {rewarded:?}");
        let passed = rewarded[0].instruction.as_deref().expect("an instruction");
        assert_eq!(passed.starts_with("<think>"), profile == "ces-code", "{passed}");
    }
    let asked = asked.lock().expect("not poisoned");
    let holds = |text: &str| asked.iter().any(|body| body.contains(text));
    assert!(
        holds("Current_state: The list is open.") && holds("High-level task: Open the settings"),
        "{asked:?}"
    );
    assert!(holds("The list is ‹image› open."), "a picture's marker in a state is text");
}
