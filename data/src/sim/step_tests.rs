//! What counts as done, what is refused, and that every template achieves itself.

use super::*;

fn params(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn tap(label: &str) -> SimAct {
    SimAct::Tap(label.to_owned())
}

fn alarm(simulator: &mut Simulator, time: &str) -> Result<(), Refused> {
    let acts = [tap("Clock"), tap("Alarm"), tap("New alarm"), tap("Alarm time")];
    acts.iter().try_for_each(|act| simulator.act(act))?;
    simulator.act(&SimAct::Type(time.to_owned()))?;
    simulator.act(&tap("Save"))
}

#[test]
fn a_task_is_achieved_by_its_effects_and_by_the_right_value_only() {
    let simulation = Simulation::load().expect("the tables parse");
    for (typed, achieved) in [("6:15 AM", true), ("7:30 AM", false)] {
        let mut phone = simulation.start("phone", &params(&[("time", "6:15 AM")])).expect("a phone");
        assert_eq!(phone.achieved(&["clock.alarm"]), Some(false));
        alarm(&mut phone, typed).expect("every element is there");
        assert_eq!(phone.achieved(&["clock.alarm"]), Some(achieved), "{typed}");
        assert_eq!(phone.achieved(&["clock.timer"]), Some(false), "an alarm is no timer");
        assert_eq!(phone.achieved(&["nothing"]), None);
    }
}

#[test]
fn finishing_what_was_not_asked_for_is_no_success() {
    let simulation = Simulation::load().expect("the tables parse");
    let mut phone = simulation.start("phone", &params(&[("time", "6:15 AM")])).expect("a phone");
    alarm(&mut phone, "7:30 AM").expect("every element is there");
    alarm(&mut phone, "6:15 AM").unwrap_err();
    phone.act(&SimAct::Open("clock".to_owned())).expect("an application");
    let mut again = phone.clone();
    for act in [tap("Alarm"), tap("New alarm"), tap("Alarm time")] {
        again.act(&act).expect("there");
    }
    again.act(&SimAct::Type("6:15 AM".to_owned())).expect("a field");
    again.act(&tap("Save")).expect("there");
    // Two alarms: the commit is the same act, the value before it decides.
    assert_eq!(again.achieved(&["clock.alarm"]), Some(true));
    again.act(&SimAct::Open("Contacts".to_owned())).expect("an application");
    again.act(&tap("New contact")).expect("there");
    again.act(&tap("Save")).expect("there");
    assert_eq!(again.achieved(&["clock.alarm"]), Some(false), "an empty contact was saved as well");
}

#[test]
fn refusals_change_nothing_and_say_why() {
    let simulation = Simulation::load().expect("the tables parse");
    let mut phone = simulation.start("phone", &BTreeMap::new()).expect("a phone");
    assert_eq!(phone.act(&tap("Save")), Err(Refused::NoElement("Save".to_owned())));
    assert_eq!(phone.act(&SimAct::Type("x".to_owned())), Err(Refused::NoFocus));
    assert_eq!(phone.act(&SimAct::Open("Nope".to_owned())), Err(Refused::NoApp("Nope".to_owned())));
    assert_eq!(phone.app(), None);
    phone.popup_before(4, 0);
    phone.act(&tap("Clock")).expect("an icon");
    assert!(phone.is_covered(), "the dialog came up before the next act");
    assert_eq!(phone.act(&tap("Alarm")), Err(Refused::Covered("Alarm".to_owned())));
    assert!(phone.screen().elements.iter().any(|e| e.text == "Not now"));
    phone.act(&tap("Not now")).expect("the dialog's button");
    phone.act(&tap("Alarm")).expect("nothing covers it now");
}

#[test]
fn every_template_of_both_devices_achieves_itself() {
    let simulation = Simulation::load().expect("the tables parse");
    for world in [&simulation.phone, &simulation.desktop] {
        for template in &world.templates {
            let mut device = simulation.start(world.device.name(), &BTreeMap::new()).expect("a device");
            device.effects = device.reference(template);
            assert_eq!(device.achieved(&[&template.id]), Some(true), "{}", template.id);
            device.effects.pop();
            assert_eq!(device.achieved(&[&template.id]), Some(false), "{} without its end", template.id);
        }
    }
}
