//! The integration binary: what users do, on files.

/// Scores, rewards and the lexical executor.
mod feedback;
/// `run`: the demo, resume, determinism.
mod flow;
/// The commands that the README shows.
mod readme;
/// Real data, where it lies beside the checkout.
mod real_data;
/// Shared helpers: the program, folders, comparison.
mod support;
