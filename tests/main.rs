//! The integration binary: what users do, on files.

/// `diff` of two runs.
mod diff;
/// Data sets: export, validation, lineage, the loop evaluated.
mod export;
/// Scores, rewards and the lexical executor.
mod feedback;
/// `run`: the demo, resume, determinism.
mod flow;
/// `ledger`, and the settings of the `openai` embedder.
mod ledger;
/// `plan`, approved plans, `eval planning`.
mod planning;
/// The commands that the README shows.
mod readme;
/// Real data, where it lies beside the checkout.
mod real_data;
/// Screens: trees compressed, with their audit.
mod screens;
/// State abstraction, lessons and token accounting.
mod states;
/// Shared helpers: the program, folders, comparison.
mod support;
/// `topology`: graphs, forests and calls of `visit`.
mod topology;
/// Training: the reward goes up, runs resume, wrong rows are named.
mod train;
