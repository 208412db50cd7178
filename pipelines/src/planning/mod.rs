//! Planning on a run: the store of approved plans, held-out tasks, the simulated applications and recordings as worlds.

mod heldout;
mod simulated;
mod store;

pub use heldout::{HeldOut, Leakage, Mined, MinedSpaces, RawPrototypes, TestTask, read_held_out};
pub use simulated::{SimTask, Simulated, sim_tasks};
pub use store::PlanStore;
