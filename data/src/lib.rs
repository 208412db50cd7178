//! What a trace, a screen, an intent unit and an artifact are.
//!
//! This crate holds the types that every stage reads and writes, the adapters that turn each
//! dataset format into them, and the Parquet in between. It learns nothing, opens no network
//! connection and compiles without candle.

pub mod a11y;
pub mod action;
pub mod adapters;
pub mod artifact;
pub mod check;
pub mod export;
pub mod grammar;
pub mod nav;
pub mod parquet_io;
pub mod picture;
pub mod prompt;
pub mod sim;
pub mod trace;
pub mod views;
