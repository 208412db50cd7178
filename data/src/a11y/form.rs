//! The forms that trees come in, by their names on the command line.

use std::fmt;
use std::str::FromStr;

use super::tree::{Node, Rect, Tree, TreeError, Trees};
use super::{atspi, json, linear};
use crate::action::FrameName;
use crate::trace::{Element, Screen};

/// A form of trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `OSWorld`'s linear form.
    OsworldTsv,
    /// `OSWorld`'s dump of an AT-SPI tree.
    AtspiXml,
    /// Windows UIA, of `AgentNet` or UFO.
    UiaJson,
    /// `DroidBot`'s states.
    DroidbotJson,
    /// The DOM of `MiniWoB++`.
    MiniwobJson,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 5] =
        [Self::OsworldTsv, Self::AtspiXml, Self::UiaJson, Self::DroidbotJson, Self::MiniwobJson];

    /// The name on the command line: `osworld-tsv`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OsworldTsv => "osworld-tsv",
            Self::AtspiXml => "atspi-xml",
            Self::UiaJson => "uia-json",
            Self::DroidbotJson => "droidbot-json",
            Self::MiniwobJson => "miniwob-json",
        }
    }

    /// Whether a text begins as a tree of this form does: what it does not is another file, not a broken tree.
    pub fn is_begun_by(self, text: &str) -> bool {
        let start: String = text.trim_start_matches('\u{feff}').trim_start().chars().take(4_000).collect();
        let names = |keys: &[&str]| keys.iter().any(|key| start.contains(&format!("\"{key}\"")));
        let is_json = start.starts_with(['{', '[']);
        match self {
            Self::OsworldTsv => linear::is_linear(text),
            Self::AtspiXml => start.starts_with('<') && atspi::is_atspi(&start),
            Self::UiaJson => is_json && names(&["ControlType", "control_type", "axtree", "a11y_tree"]),
            Self::DroidbotJson => is_json && names(&["views", "foreground_activity"]),
            Self::MiniwobJson => is_json && names(&["dom", "tag", "utterance"]),
        }
    }

    /// Reads the trees of a file: one, but for JSON lines and demonstrations.
    ///
    /// Lines that are no tree, and elements that cannot be read, are rejects.
    ///
    /// # Errors
    /// A file in which there is no tree of this form, with the place.
    pub fn read(self, text: &str) -> Result<Trees, TreeError> {
        let one = |tree| Trees { trees: vec![tree], rejects: Vec::new() };
        match self {
            Self::OsworldTsv => linear::read(text).map(one),
            Self::AtspiXml => atspi::read(text).map(|dump| one(dump.into_tree())),
            Self::UiaJson => json::read_uia(text),
            Self::DroidbotJson => json::read_droidbot(text),
            Self::MiniwobJson => json::read_dom(text),
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|form| form.name() == s).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|form| form.name()).collect();
            format!("unknown form `{s}`; known forms: {}", names.join(", "))
        })
    }
}

/// The elements of a recorded screen as a tree. Boxes in shares of the screen need its size; without it there are none.
impl From<&Screen> for Tree {
    fn from(screen: &Screen) -> Self {
        let size = screen.size.map(|size| (size.width_px as i32, size.height_px as i32));
        Self {
            nodes: screen.elements.iter().map(|element| node(element, size)).collect(),
            size,
            ..Self::default()
        }
    }
}

fn node(element: &Element, size: Option<(i32, i32)>) -> Node {
    let rect = element.bbox.and_then(|bbox| {
        let (width, height) = match bbox.frame {
            FrameName::Pixels => (1.0, 1.0),
            FrameName::Normalized => size.map(|(w, h)| (f64::from(w), f64::from(h)))?,
            FrameName::Thousandths => size.map(|(w, h)| (f64::from(w) / 1e3, f64::from(h) / 1e3))?,
        };
        let pixels = |value: f64, scale: f64| (value * scale).round() as i32;
        let (x, y) = (pixels(bbox.left, width), pixels(bbox.top, height));
        let (right, bottom) = (pixels(bbox.right, width), pixels(bbox.bottom, height));
        Some(Rect { x, y, width: right.saturating_sub(x), height: bottom.saturating_sub(y) })
    });
    // The adapters put the name and then the text into one field.
    let (name, text) = element.text.split_once('\n').unwrap_or((&element.text, ""));
    Node {
        id: element.id.clone(),
        role: element.role.clone(),
        name: name.to_owned(),
        text: text.to_owned(),
        states: element.states.clone(),
        rect,
        ..Node::default()
    }
}
