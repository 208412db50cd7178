//! One file for each subcommand. A stage is `fn run(&Settings, &Run) -> Result<Report>`.

pub mod cluster;
pub mod compress;
mod dataset_card;
pub mod doctor;
mod doctor_dataset;
pub mod embed;
pub mod encode;
pub mod eval;
pub mod eval_actions;
pub mod eval_ces;
pub mod eval_sample;
pub mod explain;
pub mod export;
pub mod induce;
pub mod ingest;
pub mod label;
pub mod ledger;
pub mod memory;
pub mod report;
pub mod reward;
pub mod sample;
pub mod score;
pub mod serve;
pub mod serve_executor;
pub mod temporal;
pub mod train;
pub mod validate;
