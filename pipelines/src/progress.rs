//! Progress bars on standard error: counts, rate and time left. They disappear when standard
//! error is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `total` things (or a spinner, when the number is not known).
pub fn bar(stage: &'static str, what: &str, total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{prefix:>8} [{bar:32}] {human_pos}/{human_len} {msg} · {per_sec} · {eta} left",
        ),
        None => {
            (ProgressBar::new_spinner(), "{prefix:>8} {spinner} {human_pos} {msg} · {per_sec} · {elapsed}")
        }
    };
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(stage);
    bar.set_message(what.to_owned());
    bar
}
