//! The stages of tracemill and its command line: what touches files, network and clock.

pub mod ces;
pub mod chat;
pub mod cli;
pub mod config;
pub mod executor;
pub mod manifest;
pub mod pipeline;
pub mod progress;
pub mod publish;
pub mod reward;
pub mod run;
pub mod settings;
pub mod stage;
pub mod table;
pub mod tensorboard;
pub mod tokens;
pub mod train;
pub mod unit_views;
