//! SFT and RL rows for the frameworks that train on them: what a row holds, which rows there are, and one
//! file for each framework's form.
//!
//! A row is made from one step of an episode (CES, appendix B.1) and knows where from: [`Lineage`].

mod llama_factory;
mod ms_swift;
mod openai;
mod parquet_rows;
mod pool;
mod sample;
mod split;
mod target;
mod temporal;
mod trl;
mod verl;

pub use parquet_rows::{Bytes, ImageCell, MessageCell};
pub use pool::PoolRow;
pub use sample::{Exporter, Form, Kind, Lineage, Sample, Skipped, State, action_text};
pub use split::{Choice, Split, Splitter, task_key};
pub use target::{ExportError, Picture, Pictures, Target, TargetFile, Written, companions};
pub use temporal::{TemporalRow, pair_id, pairs, question};
