//! The program under test, folders and their comparison.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;

/// The workspace root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_owned()
}

/// The program, started in `folder`.
pub fn tracemill(folder: &Path) -> Command {
    let mut command = Command::cargo_bin("tracemill").expect("the program is built");
    command.current_dir(folder);
    command
}

/// Runs the program and returns its output; fails the test, showing it, when the program fails.
pub fn ok(folder: &Path, args: &[&str]) -> Output {
    let output = tracemill(folder).args(args).output().expect("the program starts");
    assert!(
        output.status.success(),
        "tracemill {}\n{}{}",
        args.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs the program, which must fail; returns what it said.
pub fn fails(folder: &Path, args: &[&str]) -> String {
    let output = tracemill(folder).args(args).output().expect("the program starts");
    assert!(!output.status.success(), "tracemill {} succeeded", args.join(" "));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Every file of a run that must be the same from run to run, with its content's hash.
pub fn contents(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in walkdir::WalkDir::new(folder) {
        let entry = entry.expect("a readable folder");
        let name =
            entry.path().strip_prefix(folder).expect("below the folder").to_string_lossy().into_owned();
        if entry.file_type().is_file() && !name.ends_with("timing.json") && !name.contains("tfevents") {
            let bytes = std::fs::read(entry.path()).expect("a readable file");
            files.insert(name, blake3::hash(&bytes).to_hex().to_string());
        }
    }
    files
}

/// The real data beside the checkout, or `None` with a message.
pub fn shared_data() -> Option<PathBuf> {
    let path = root().parent()?.join("shared/data");
    if path.is_dir() {
        return Some(path);
    }
    eprintln!("skipped: no real data beside the checkout ({})", path.display());
    None
}
