//! x

pub mod skill;
