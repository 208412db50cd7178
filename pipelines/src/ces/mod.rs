//! The whole loop of CES over recorded episodes: Coordinator, Executor, State Tracker (section 4.2), with
//! roles that can be exchanged, and failures classed by putting the gold in their place (section 5.3).
//!
//! Screens are those that were recorded: a wrong action changes the state that is told, not the screens.

mod failures;
mod frozen;
mod roles;
mod rules;
mod tasks;
mod walk;

pub use failures::{Class, classify};
pub use frozen::{Frozen, FrozenTask};
pub use roles::{Coordinator, Planned, Roles, Setup, Tracker, setups};
pub use rules::plan as rule_plan;
pub use tasks::{EvalStep, LeftOut, Selection, Task, read_tasks};
pub use walk::{Loop, StepResult};
