//! Navigation: which control leads to which, as a text a model can read and commands it can give (GOI, the paper
//! "A Case for Declarative LLM-friendly Interfaces", sections 3 and 4).
//!
//! ```text
//! exploration logs, DroidTask, DroidBot, traces ─GraphBuilder→ Graph ─Dag, Plan→ Forest ─text→ prompt
//!                                                                       commands ─resolve→ paths ─Executor→ steps
//! ```
//!
//! A [`Graph`] holds every control once and what reveals it. [`Dag`] takes out what closes cycles, [`Plan`] decides
//! which shared substructures are cloned and which become subtrees of their own, and [`Forest`] numbers the result,
//! in which each functional control (a leaf) has one path. [`text`] writes it; [`command`] and [`resolve`] read what
//! a model answers; [`execute`] carries that out on anything that is a [`Ui`], of which [`Simulator`] is the one
//! made from a graph. [`declare`] holds the declarations of states and observations, which take labels of the
//! screen instead.

mod assumed;
mod build;
pub mod command;
mod dag;
pub mod declare;
mod describe;
mod droidbot;
mod droidbot_utg;
pub mod execute;
mod forest;
mod graph;
mod id;
mod kind;
mod matcher;
pub mod resolve;
mod rip;
mod screens;
mod simulator;
mod stats;
pub mod text;
mod topology;

#[cfg(test)]
mod droidbot_tests;
#[cfg(test)]
mod forest_tests;
#[cfg(test)]
mod real_tests;
#[cfg(test)]
mod rip_tests;
#[cfg(test)]
mod source_tests;
#[cfg(test)]
mod visit_tests;

pub use build::{BuildOptions, Built, GraphBuilder, Rejected, Reveal, Sighting};
pub use dag::{DEFAULT_THETA, Dag, Plan, Theta};
pub use describe::{Core, CoreOptions, DESCRIPTION_CHARS, Limit, NAME_CHARS, labels};
pub use droidbot::DroidbotReader;
pub use forest::{Forest, ForestError, MAX_NODES, Node};
pub use graph::{
    APPLICATION_TYPE, Clicks, Control, Edge, Evidence, Flag, Graph, GraphError, Place, ROOT, ScreenGroup,
    Window,
};
pub use id::{ControlId, IdError, UNNAMED};
pub use kind::{Kind, Pattern};
pub use matcher::{ControlList, DEFAULT_BLACKLIST, DEFAULT_THRESHOLD, ListError, Match, find, score};
pub use rip::{RipReader, explorer_skipped};
pub use screens::{TraceReader, TraceStep};
pub use simulator::{Done, Injection, InjectionSpec, Shown, Simulator, Ui, View, closing_rank};
pub use stats::{
    Coverage, Length, Measured, Saved, Size, Stats, THETAS, Target, Targets, ambiguous_names, coverage,
    revealed_sequences, sizes, stats,
};
pub use topology::{Topology, TopologyError};
