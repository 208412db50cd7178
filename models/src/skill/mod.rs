//! Skills: what the members of a subgroup have in common (`IntentCUA`, section 3.2).
//!
//! Every step is mapped by Φ ([`AliasMap`](tracemill_data::artifact::AliasMap)) to a predicate with typed fields; incidental steps are
//! removed and listed ([`clean`](tracemill_data::views::clean)); the medoid of the predicate sequences under [`d_sig`] is the schema
//! ([`medoid`], equation 6); its arguments become literals or typed parameters ([`induce`]); further
//! schemas are induced from the members that the earlier ones don't explain.
//!
//! # Example
//! One subgroup, one schema:
//! ```
//! use tracemill_data::artifact::AliasMap;
//! use tracemill_data::views::{Unit, UnitAction, UnitKind};
//! use tracemill_models::skill::{SkillSettings, Subgroup, induce};
//!
//! let step = |n: u32, verb: &str, target: Option<&str>, text: Option<&str>| UnitAction {
//!     step: n,
//!     verb: verb.into(),
//!     source_verb: verb.to_uppercase(),
//!     target: target.map(Into::into),
//!     text: text.map(Into::into),
//!     ..UnitAction::default()
//! };
//! let unit = |id: u32, dish: &str| Unit {
//!     unit_id: format!("ep{id}/0-4"),
//!     episode_id: format!("ep{id}"),
//!     first_step: 0,
//!     last_step: 4,
//!     kind: UnitKind::Control,
//!     env: "Recipes".into(),
//!     action: String::new(),
//!     keyword: String::new(),
//!     description: String::new(),
//!     env_tag: "Recipes".into(),
//!     act_tag: String::new(),
//!     boundary: "episode".into(),
//!     labeler: "rule".into(),
//!     actions: vec![
//!         step(0, "click", Some("Search recipes"), None),
//!         step(1, "wait", None, None),
//!         step(2, "type", Some("Search recipes"), Some(dish)),
//!         step(3, "press", None, Some("enter")),
//!         step(4, "complete", None, None),
//!     ],
//! };
//! let units = [unit(1, "pizza"), unit(2, "sushi"), unit(3, "ramen")];
//! let subgroup = Subgroup { ig: 0, sg: 4, units: units.iter().collect() };
//! let skills = induce(&subgroup, &AliasMap::builtin(), &SkillSettings::default()).skills;
//! assert_eq!(skills.len(), 1);
//! assert_eq!(
//!     skills[0].title,
//!     "Recipes · click Search recipes, type <query> in Search recipes, press enter"
//! );
//! assert_eq!(skills[0].removed_steps.len(), 6); // a wait and a terminal step of each member
//! ```

pub(crate) mod align;
mod coverage;
mod medoid;
mod params;
mod render;
mod schema;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use coverage::AliasCoverage;
pub use medoid::{Medoid, Signature, d_sig, medoid};
pub use render::{to_pretty_json, to_text};
pub use schema::{SkillSettings, Subgroup, SubgroupSkills, induce, induce_all};
