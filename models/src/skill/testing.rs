//! Hand-made units for the tests of this module.

use std::sync::LazyLock;

use tracemill_data::artifact::AliasMap;
use tracemill_data::views::{Unit, UnitAction, UnitKind};

/// The built-in map, whose patterns take a while to compile unoptimised.
pub static MAP: LazyLock<AliasMap> = LazyLock::new(AliasMap::builtin);

pub fn step(verb: &str) -> UnitAction {
    UnitAction { verb: verb.into(), source_verb: verb.to_uppercase(), ..UnitAction::default() }
}

pub fn target(verb: &str, target: &str) -> UnitAction {
    UnitAction { target: Some(target.into()), ..step(verb) }
}

pub fn text(verb: &str, text: &str) -> UnitAction {
    UnitAction { text: Some(text.into()), ..step(verb) }
}

pub fn typed(field: &str, text: &str) -> UnitAction {
    UnitAction { text: Some(text.into()), ..target("type", field) }
}

pub fn scroll(direction: &str) -> UnitAction {
    UnitAction { direction: Some(direction.into()), ..step("scroll") }
}

/// A unit of `episode` with the steps numbered from 0.
pub fn unit(episode: &str, env: &str, actions: Vec<UnitAction>) -> Unit {
    let last_step = actions.len().saturating_sub(1) as u32;
    let number = |(i, action): (usize, UnitAction)| UnitAction { step: i as u32, ..action };
    Unit {
        unit_id: format!("{episode}/0-{last_step}"),
        episode_id: episode.into(),
        first_step: 0,
        last_step,
        kind: UnitKind::Control,
        env: env.into(),
        action: String::new(),
        keyword: String::new(),
        description: String::new(),
        env_tag: env.into(),
        act_tag: String::new(),
        boundary: "episode".into(),
        labeler: "test".into(),
        actions: actions.into_iter().enumerate().map(number).collect(),
    }
}
