//! Token accounting.
