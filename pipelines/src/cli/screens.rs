//! Arguments of `compress`.

use std::path::PathBuf;

use clap::Args;

use crate::stage::compress::TreeSource;

/// Arguments of `compress`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "flags")]
pub struct CompressArgs {
    /// osworld-tsv, atspi-xml, uia-json, droidbot-json or miniwob-json; of recorded steps droidtask, aitz or amex.
    #[arg(long, value_name = "F")]
    pub format: TreeSource,
    /// A tree, or a folder searched recursively for trees (gzip too); numbered files of a folder follow one another.
    #[arg(long, value_name = "PATH")]
    pub input: PathBuf,
    /// Folder to write: a .txt for each tree, summary.json, rejects.jsonl.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Write `OSWorld`'s linear form too, a .tsv beside each .txt.
    #[arg(long)]
    pub linear: bool,
    /// Fail when a larger share than this of the trees, or of their elements, cannot be read.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    pub max_rejects: f64,
    /// What the user wants, for the parts of long texts that are kept; @FILE reads it, auto takes instruction.txt beside each
    /// tree.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub instruction: String,
    /// Write audit.parquet, a row for each element, and audit.html, raw and compressed side by side.
    #[arg(long)]
    pub audit: bool,
    /// A folder of rules: general.toml, and a file for each application.
    #[arg(long, value_name = "DIR")]
    pub rules: Option<PathBuf>,
    /// Size of the screen, where the trees do not say it [default: 1920x1080].
    #[arg(long, value_name = "WxH", value_parser = size)]
    pub screen: Option<(i32, i32)>,
    /// How tokens are counted: `o200k_base`, `cl100k_base`, or a tokenizer.json.
    #[arg(long, value_name = "T", default_value = "o200k_base")]
    pub tokens: String,
    /// Files are screens of their own, also where they are numbered.
    #[arg(long)]
    pub independent: bool,
    /// Leave out modal detection.
    #[arg(long)]
    pub no_modal: bool,
    /// Leave out redundancy reduction.
    #[arg(long)]
    pub no_reduce: bool,
    /// Leave out semantic structuring.
    #[arg(long)]
    pub no_structure: bool,
}

/// A share, from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is no share: write a number from 0 to 1"))
}

/// `1366x768`.
fn size(text: &str) -> Result<(i32, i32), String> {
    let parts = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    parts.filter(|(w, h)| *w > 0 && *h > 0).ok_or_else(|| format!("`{text}` is no size: write 1366x768"))
}
