//! Every command that the README shows is run, as written there.

use crate::support::{ok, root, shared_data};

/// The commands of the fenced block after `<!-- commands: NAME -->`.
fn commands(name: &str) -> Vec<Vec<String>> {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let marker = format!("<!-- commands: {name} -->");
    let block = readme.split(&marker).nth(1).unwrap_or_else(|| panic!("README.md has no block {marker}"));
    let block = block.split("```").nth(1).expect("a fenced block");
    let block = block.replace("\\\n", "");
    let is_command = |line: &&str| line.starts_with("tracemill ") || line.starts_with("scripts/experiments/");
    let lines: Vec<&str> = block.lines().filter(is_command).collect();
    assert!(!lines.is_empty(), "{marker}: no commands");
    lines.into_iter().map(words).collect()
}

/// Splits a line at spaces outside quotes, as a shell does.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match c {
            '"' | '\'' if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            ' ' if quote.is_none() && words.last().is_some_and(String::is_empty) => {}
            ' ' if quote.is_none() => words.push(String::new()),
            c => words.last_mut().expect("never empty").push(c),
        }
    }
    words
}

fn run(folder: &std::path::Path, words: &[String]) {
    let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    ok(folder, &args);
}

#[test]
fn the_tour_works_after_the_demo() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    // What the first command runs, once it has built the program.
    ok(dir.path(), &["run", "demo", "--run", "runs/demo"]);
    for words in commands("tour").into_iter().chain(commands("plans")) {
        run(dir.path(), &words);
    }
}

#[test]
fn the_stages_work_one_by_one() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for words in commands("stages").into_iter().chain(commands("diff")) {
        run(dir.path(), &words);
    }
}

#[test]
fn states_and_lessons_are_made_as_shown() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for words in commands("states") {
        run(dir.path(), &words);
    }
}

#[test]
fn data_sets_are_exported_and_checked() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for words in commands("datasets") {
        run(dir.path(), &words);
    }
    // The settings that the README names are settings of this version.
    let roles = root().join("examples/roles.toml");
    let roles = roles.to_str().expect("UTF-8");
    let error = crate::support::fails(dir.path(), &["eval", "ces", "--run", "nowhere", "--config", roles]);
    assert!(error.contains("no run folder at nowhere"), "{error}");
}

/// The files of a folder of the checkout, to the same place below `to`.
fn copy(folder: &str, to: &std::path::Path) {
    std::fs::create_dir_all(to.join(folder)).expect("a folder");
    for file in std::fs::read_dir(root().join(folder)).expect("a folder") {
        let file = file.expect("a file");
        if file.path().is_file() {
            std::fs::copy(file.path(), to.join(folder).join(file.file_name())).expect("copied");
        }
    }
}

#[test]
fn screens_are_compressed_to_what_is_shown() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    copy("examples/screens", dir.path());
    for words in commands("screens") {
        run(dir.path(), &words);
    }
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let shown = readme.split("```").find(|block| block.contains("APP: Google Chrome")).expect("the excerpt");
    let text = std::fs::read_to_string(dir.path().join("screens/2.txt")).expect("the text");
    for part in shown.split("…\n") {
        assert!(text.contains(part.trim_start()), "{text}");
    }
}

#[test]
fn controls_are_reached_as_shown() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    copy("examples", dir.path());
    for words in commands("topology") {
        run(dir.path(), &words);
    }
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let shown = readme.split("```").find(|block| block.contains("# main tree")).expect("the excerpt");
    let output = ok(dir.path(), &["topology", "show", "--forest", "topology"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), shown.trim());
}

#[test]
fn execution_feedback_works_on_the_examples() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    copy("examples", dir.path());
    for words in commands("feedback") {
        run(dir.path(), &words);
    }
}

/// With a tiny random model in place of the one that is fetched, on the real rows.
#[test]
fn agents_are_trained_as_shown() {
    let Some(data) = shared_data() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let model = crate::train::model(dir.path());
    let program = assert_cmd::cargo::cargo_bin("tracemill");
    let path =
        format!("{}:{}", program.parent().expect("a folder").display(), std::env::var("PATH").expect("PATH"));
    for words in commands("training") {
        let words: Vec<String> = words
            .iter()
            .map(|word| match word.as_str() {
                "$MODEL" => model.display().to_string(),
                "/data" => data.display().to_string(),
                word => word.to_owned(),
            })
            .collect();
        let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        match (words[0].as_str(), args[0]) {
            ("tracemill", "serve") => {
                let (_served, url) = crate::train::serve(dir.path(), &args);
                assert_eq!(url, "http://127.0.0.1:8766/v1");
            }
            ("tracemill", _) => {
                ok(dir.path(), &args);
            }
            (script, _) => {
                let status = std::process::Command::new(root().join(script))
                    .args(&args)
                    .current_dir(dir.path())
                    .env("PATH", &path)
                    .status()
                    .expect("the script starts");
                assert!(status.success(), "{script}");
            }
        }
    }
    assert!(dir.path().join("coordinator/model.safetensors").is_file());
}

#[test]
fn the_two_commands_name_things_that_exist() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    for path in ["scripts/setup.sh", "scripts/fetch-models.sh", "ARCHITECTURE.md", "CHANGELOG.md", "LOG.md"] {
        assert!(readme.contains(path), "README.md does not mention {path}");
        assert!(root().join(path).exists(), "{path} is missing");
    }
    assert!(root().join("pipelines/recipes/intents.toml").exists());
}
