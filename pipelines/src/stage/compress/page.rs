//! The audit as a page: raw and compressed side by side, with the picture of the screen where there is one.

use std::path::Path;

use anyhow::{Context, Result};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;
use tracemill_data::a11y::{Compressed, Fate, Found, Node, Tree};

use super::Part;

const TEMPLATE: &str = include_str!("page.html");
/// Screens that a page shows; the table has all.
pub const MOST: usize = 200;

/// A screen on the page.
#[derive(Debug, Clone, Serialize)]
pub struct Shown {
    name: String,
    app: String,
    modal: Option<&'static str>,
    raw: Vec<Line>,
    /// Elements of the source that the reader left out.
    left_out: usize,
    text: String,
    picture: Option<String>,
}

/// A line of the raw tree, with what became of it.
#[derive(Debug, Clone, Serialize)]
struct Line {
    text: String,
    fate: &'static str,
    rule: String,
}

impl Shown {
    /// The screen of a tree, whose picture is a PNG of the same name beside it.
    pub fn of(name: &str, tree: &Tree, compressed: &Compressed, source: &Path) -> Self {
        let line = |(node, fate): (&Node, &Fate)| {
            let place = node.rect.map(|r| format!("({}, {}) ({}, {})", r.x, r.y, r.width, r.height));
            Line {
                text: [&node.role, &node.name, &node.text, &place.unwrap_or_default()]
                    .map(|part| part.trim())
                    .join(" · "),
                fate: fate.word(),
                rule: match fate {
                    Fate::Merged { into, rule } => format!("{} into {into}", rule.0),
                    other => other.rule().unwrap_or_default().to_owned(),
                },
            }
        };
        Self {
            name: name.to_owned(),
            app: compressed.app.clone(),
            modal: compressed.modal.map(Found::name),
            raw: tree.nodes.iter().zip(&compressed.fates).map(line).collect(),
            left_out: tree.left_out.len(),
            text: compressed.text.clone(),
            picture: picture(source),
        }
    }
}

/// The picture beside a tree, as an address of this machine.
fn picture(source: &Path) -> Option<String> {
    let folder = source.parent()?;
    let name = source.file_name()?.to_str()?;
    let stem = name.split('.').next()?;
    let path =
        ["png", "jpg"].iter().map(|end| folder.join(format!("{stem}.{end}"))).find(|path| path.is_file())?;
    Some(format!("file://{}", path.to_str()?))
}

/// Writes the page.
pub fn write(path: &Path, parts: &[Part]) -> Result<()> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("page.html", TEMPLATE)?;
    let screens: Vec<&Shown> = parts.iter().flat_map(|part| &part.pages).take(MOST).collect();
    let all: usize = parts.iter().map(|part| part.screens.len()).sum();
    let page = environment.get_template("page.html")?.render(context! { screens => Serde(screens), all })?;
    std::fs::write(path, page).with_context(|| path.display().to_string())
}
