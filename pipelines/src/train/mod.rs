//! Training the high-level agents: SFT warm-up, then GRPO from execution feedback (CES, sections 4.3 and 5.1).
//!
//! * `settings`: `[policy]`, `[sft]`, `[grpo]`
//! * `model`: a language model with tokenizer and chat template, from a folder or a GGUF file
//! * `rows`: exported pools as token ids
//! * `trainer`: gradients over micro-batches, optimizer steps, checkpoints that resume exactly
//! * `journal`: metrics, TensorBoard, transcripts
//! * `evaluate`: greedy replies on held-out rows
//! * `sft`, `grpo`: the two loops; `rollout`, `tally`: outputs with their rewards, and a step's figures
//! * `memory`: what a run will need

mod evaluate;
mod grpo;
mod journal;
mod local;
mod memory;
mod model;
mod rollout;
mod rows;
mod settings;
mod sft;
mod tally;
mod trainer;

pub use evaluate::{HeldOut, Judged};
pub use grpo::grpo;
pub use local::{LocalModel, LocalRequest};
pub use memory::{Estimate, Plan, estimate};
pub use model::{ChatFormat, Loaded, load, write_merged};
pub use rows::{TrainRow, TrainSet};
pub use settings::{GrpoSection, LocalModelSection, Number, PolicySection, SftSection};
pub use sft::{Inputs, dry_run, sft};
