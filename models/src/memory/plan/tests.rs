//! The three cases and their boundaries, execution, and what must never happen.
