//! A screen as a flat list of elements, whatever form it came in.

use serde::{Deserialize, Serialize};

use super::audit::Rule;
use super::linear;

/// A box in pixels of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rect {
    /// Left edge.
    pub x: i32,
    /// Top edge.
    pub y: i32,
    /// Width; negative where the source says so.
    pub width: i32,
    /// Height; negative where the source says so.
    pub height: i32,
}

impl Rect {
    /// The centre, rounded down: where a click belongs (appendix C, coordinate compression).
    pub fn centre(self) -> (i32, i32) {
        let half = |start: i32, size: i32| {
            (i64::from(start) + i64::from(size.max(0)) / 2).clamp(i32::MIN.into(), i32::MAX.into()) as i32
        };
        (half(self.x, self.width), half(self.y, self.height))
    }

    /// Right edge, past the last pixel.
    pub fn right(self) -> i32 {
        self.x.saturating_add(self.width.max(0))
    }

    /// Bottom edge, past the last pixel.
    pub fn bottom(self) -> i32 {
        self.y.saturating_add(self.height.max(0))
    }

    /// The smallest box around both.
    pub fn around(self, other: Self) -> Self {
        let (x, y) = (self.x.min(other.x), self.y.min(other.y));
        let size = |start: i32, end: i32| end.saturating_sub(start);
        Self {
            x,
            y,
            width: size(x, self.right().max(other.right())),
            height: size(y, self.bottom().max(other.bottom())),
        }
    }

    /// Whether the other box lies inside.
    pub fn encloses(self, other: Self) -> bool {
        self.x <= other.x
            && self.y <= other.y
            && other.right() <= self.right()
            && other.bottom() <= self.bottom()
    }

    /// Whether the point lies inside.
    pub fn contains(self, (x, y): (i32, i32)) -> bool {
        (self.x..self.right()).contains(&x) && (self.y..self.bottom()).contains(&y)
    }
}

/// One element of a screen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Where it stands in the source: the number of its record, or its path in the tree.
    pub id: String,
    /// Role in the source's words: `push-button`, `ButtonControl`, `android.widget.Button`.
    pub role: String,
    /// Accessible name.
    pub name: String,
    /// Content; often the name again.
    pub text: String,
    /// Class in the toolkit's words.
    pub class: String,
    /// Description.
    pub description: String,
    /// Value of a slider, spin button or entry.
    pub value: String,
    /// States that are set, in the source's words and order.
    pub states: Vec<String>,
    /// Where it is; none where the source does not say.
    pub rect: Option<Rect>,
    /// The window it lies in, as a position in [`Tree::windows`], where the source has windows.
    pub window: Option<u32>,
}

/// A window of the screen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Role: `frame`, `dialog`.
    pub role: String,
    /// Title.
    pub title: String,
    /// Name of the application that it belongs to, where the source has it.
    pub application: String,
    /// Whether it has the focus.
    pub active: bool,
    /// Whether it says that it blocks the others.
    pub modal: bool,
    /// Where it is.
    pub rect: Option<Rect>,
}

impl Node {
    /// What the element is called: its name, else its text, else its value or its description.
    pub fn label(&self) -> &str {
        [&self.name, &self.text, &self.value, &self.description]
            .into_iter()
            .map(|part| part.trim())
            .find(|part| !part.is_empty())
            .unwrap_or_default()
    }

    /// Its centre; the origin where it has no box.
    pub fn centre(&self) -> (i32, i32) {
        self.rect.map_or((0, 0), Rect::centre)
    }

    /// Whether a state is set, in any of the sources' spellings: `checked`, `checked=True`, `checked=true`.
    pub fn is(&self, state: &str) -> bool {
        self.states.iter().any(|set| match set.split_once('=') {
            Some((name, value)) => name == state && value.eq_ignore_ascii_case("true"),
            None => set == state,
        })
    }
}

/// A screen: its elements in document order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// The elements.
    pub nodes: Vec<Node>,
    /// The windows on the screen, where the source has them, in its order.
    pub windows: Vec<Window>,
    /// Names of the applications, where the source has them.
    pub applications: Vec<String>,
    /// Width and height in pixels, where the source says them.
    pub size: Option<(i32, i32)>,
    /// Positions in `nodes`, ascending, of those that `OSWorld`'s linear form has no line for.
    pub beyond_linear: Vec<u32>,
    /// What the source has besides and no reader hands on, in document order; the audit has it too.
    pub left_out: Vec<LeftOut>,
    /// What could not be read, each by its place.
    pub rejects: Vec<TreeError>,
    /// Whether the source was cut to a length, so that more stood in it.
    pub cut: bool,
}

/// An element of the source that is not handed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The element.
    pub node: Node,
    /// Why: [`NOT_SHOWN`], [`NOT_IN_LINEAR_FORM`], [`NOTHING_TO_SAY`], [`CUT_OFF`] or [`UNREADABLE`].
    pub rule: Rule,
}

/// The source says that it is not on the screen.
pub const NOT_SHOWN: &str = "not-shown";
/// It is on the screen, but the linear form has no line for it, and a user does not act on it.
pub const NOT_IN_LINEAR_FORM: &str = "not-in-linear-form";
/// There is nothing to call it by and nothing to do with it.
pub const NOTHING_TO_SAY: &str = "nothing-to-say";
/// The source was cut to a length in the middle of it.
pub const CUT_OFF: &str = "cut-off";
/// Its place cannot be read; it is a reject too.
pub const UNREADABLE: &str = "unreadable";

/// The trees of a file, and what in it could not be read as one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trees {
    /// The trees, in the file's order; what could not be read inside one is in its [`Tree::rejects`].
    pub trees: Vec<Tree>,
    /// Lines and states that are no tree, each by its place.
    pub rejects: Vec<TreeError>,
}

impl Trees {
    /// Adds what was read at a place of a file.
    pub(super) fn add(&mut self, mut read: Self, place: &str) {
        let parts = read.trees.iter_mut().flat_map(|tree| &mut tree.rejects);
        for part in parts.chain(&mut read.rejects) {
            part.place = format!("{place}: {}", part.place);
        }
        self.trees.append(&mut read.trees);
        self.rejects.append(&mut read.rejects);
    }
}

/// The size of a screen whose source says none, as the linear form does: that of `OSWorld`'s machines.
pub const DEFAULT_SIZE: (i32, i32) = (1920, 1080);

impl Tree {
    /// Width and height in pixels: the source's, else [`DEFAULT_SIZE`].
    pub fn screen_size(&self) -> (i32, i32) {
        self.size.filter(|(w, h)| *w > 0 && *h > 0).unwrap_or(DEFAULT_SIZE)
    }

    /// The screen in `OSWorld`'s linear form, which has no line for [`Tree::beyond_linear`].
    pub fn linear(&self) -> String {
        let mut beyond = self.beyond_linear.iter().peekable();
        let has_line = |(i, _): &(usize, &Node)| beyond.next_if(|b| **b as usize == *i).is_none();
        linear::write(self.nodes.iter().enumerate().filter(has_line).map(|(_, node)| node))
    }

    pub(super) fn leave_out(&mut self, node: Node, rule: &'static str) {
        self.left_out.push(LeftOut { node, rule: Rule::named(rule) });
    }

    pub(super) fn reject(&mut self, place: impl Into<String>, reason: impl Into<String>) {
        self.rejects.push(TreeError::new(place, reason));
    }

    /// The tree, or the first reject where nothing at all could be read.
    pub(super) fn or_reject(mut self) -> Result<Self, TreeError> {
        if self.nodes.is_empty() && !self.rejects.is_empty() {
            return Err(self.rejects.swap_remove(0));
        }
        Ok(self)
    }
}

/// Why a tree, or a part of one, cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{place}: {reason}")]
pub struct TreeError {
    /// Line, byte or element.
    pub place: String,
    /// What is wrong there, and what was expected.
    pub reason: String,
}

impl TreeError {
    pub(super) fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }
}

/// The start of `text`, for an error.
pub(super) fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(60).collect::<String>())
}

/// Rejects of one tree that are told one by one; a tree with more is no tree, and is refused.
pub const MOST_REJECTS: usize = 10_000;

/// Elements that a tree may have: far above any screen, and little enough to be read in a second.
pub const MOST_ELEMENTS: usize = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_do_not_overflow_and_negative_sizes_are_empty() {
        let far = Rect { x: i32::MAX - 1, y: i32::MIN, width: i32::MAX, height: -5 };
        assert_eq!((far.right(), far.bottom()), (i32::MAX, i32::MIN));
        assert_eq!(far.centre(), (i32::MAX, i32::MIN));
        assert!(!far.contains((0, 0)));
        let around = far.around(Rect { x: i32::MIN, y: 0, width: 1, height: 1 });
        assert_eq!((around.x, around.width), (i32::MIN, i32::MAX));
    }

    #[test]
    fn states_are_read_in_every_spelling() {
        let node = Node { states: vec!["checked=True".into(), "focused".into()], ..Node::default() };
        assert!(node.is("checked") && node.is("focused") && !node.is("selected"));
        assert_eq!(Node { text: " b ".into(), ..Node::default() }.label(), "b");
    }
}
