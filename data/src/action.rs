//! The canonical action: one vocabulary for mobile, web and desktop, with typed coordinates.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What was done, whatever the platform's own name for it.
///
/// The source's own verb is kept beside it in [`Action::source_verb`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Tap or left click.
    Click,
    /// Two clicks in quick succession.
    DoubleClick,
    /// Secondary mouse button.
    RightClick,
    /// Tap and hold.
    LongPress,
    /// Press at [`Action::point`], release at [`Action::end`].
    Drag,
    /// Pointer moved without a button.
    Hover,
    /// Content scrolled in [`Action::direction`].
    Scroll,
    /// Text entered: [`Action::text`].
    Type,
    /// Key or key combination: [`Action::text`] holds it as `ctrl+c`.
    Press,
    /// Android home, or the desktop shown.
    Home,
    /// Android back, or the browser's back.
    Back,
    /// Android's list of recent applications.
    Recents,
    /// Application started: [`Action::text`] is its name.
    OpenApp,
    /// Another window brought to the front: [`Action::text`] is its title.
    SwitchWindow,
    /// Address opened: [`Action::text`] is the URL.
    Navigate,
    /// Option chosen in a list: [`Action::text`] is the option.
    Select,
    /// Copied to the clipboard: [`Action::text`] is the content, where the source has it.
    Copy,
    /// Pasted: [`Action::text`] is the content, where the source has it.
    Paste,
    /// Nothing done for a while.
    Wait,
    /// The task declared finished.
    Complete,
    /// The task declared infeasible.
    Impossible,
}

impl Verb {
    /// Every verb, in declaration order.
    pub const ALL: [Self; 21] = [
        Self::Click,
        Self::DoubleClick,
        Self::RightClick,
        Self::LongPress,
        Self::Drag,
        Self::Hover,
        Self::Scroll,
        Self::Type,
        Self::Press,
        Self::Home,
        Self::Back,
        Self::Recents,
        Self::OpenApp,
        Self::SwitchWindow,
        Self::Navigate,
        Self::Select,
        Self::Copy,
        Self::Paste,
        Self::Wait,
        Self::Complete,
        Self::Impossible,
    ];

    /// The name used in every file: `double_click`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Click => "click",
            Self::DoubleClick => "double_click",
            Self::RightClick => "right_click",
            Self::LongPress => "long_press",
            Self::Drag => "drag",
            Self::Hover => "hover",
            Self::Scroll => "scroll",
            Self::Type => "type",
            Self::Press => "press",
            Self::Home => "home",
            Self::Back => "back",
            Self::Recents => "recents",
            Self::OpenApp => "open_app",
            Self::SwitchWindow => "switch_window",
            Self::Navigate => "navigate",
            Self::Select => "select",
            Self::Copy => "copy",
            Self::Paste => "paste",
            Self::Wait => "wait",
            Self::Complete => "complete",
            Self::Impossible => "impossible",
        }
    }

    /// True for the verbs that end an episode rather than act on a screen.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Impossible)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Verb {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|v| v.name() == s).ok_or_else(|| format!("unknown verb `{s}`"))
    }
}

/// Where content moves on a scroll: `Down` shows what lies below (the finger moves up).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Shows what lies above.
    Up,
    /// Shows what lies below.
    Down,
    /// Shows what lies to the left.
    Left,
    /// Shows what lies to the right.
    Right,
}

impl Direction {
    /// The lower-case name used in every file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Left => "left",
            Self::Right => "right",
        }
    }

    /// The content direction becomes the finger's, and the finger's the content's.
    pub fn opposite(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    /// Direction of a displacement (end minus start): horizontal only if `|dx| > |dy|`, as
    /// GUI-Odyssey's converter decides it. `None` when nothing moved.
    pub fn of_displacement(dx: f64, dy: f64) -> Option<Self> {
        if dx == 0.0 && dy == 0.0 {
            None
        } else if dx.abs() > dy.abs() {
            Some(if dx < 0.0 { Self::Left } else { Self::Right })
        } else {
            Some(if dy < 0.0 { Self::Up } else { Self::Down })
        }
    }
}

impl FromStr for Direction {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s.to_ascii_lowercase().as_str() {
            "up" => Ok(Self::Up),
            "down" => Ok(Self::Down),
            "left" => Ok(Self::Left),
            "right" => Ok(Self::Right),
            _ => Err(format!("unknown direction `{s}`")),
        }
    }
}

/// A coordinate frame. The frames are types, so that one is never taken for another.
pub trait Frame: Copy {
    /// Name in files: `px`, `norm`, `thousandths`.
    const NAME: &'static str;
    /// Largest legal value on either axis, where the frame has one.
    const MAX: Option<f64>;
}

/// Pixels of the screenshot, origin top left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pixels;
/// Shares of the screen's width and height, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Normalized;
/// Thousandths of the screen's width and height, 0 to 1000 (GUI-Odyssey, Qwen-VL).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thousandths;

impl Frame for Pixels {
    const NAME: &'static str = "px";
    const MAX: Option<f64> = None;
}
impl Frame for Normalized {
    const NAME: &'static str = "norm";
    const MAX: Option<f64> = Some(1.0);
}
impl Frame for Thousandths {
    const NAME: &'static str = "thousandths";
    const MAX: Option<f64> = Some(1000.0);
}

/// Width and height of a screen, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenSize {
    /// Width in pixels, above 0.
    pub width_px: u32,
    /// Height in pixels, above 0.
    pub height_px: u32,
}

/// A point in frame `F`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point<F> {
    /// Horizontal, rightwards.
    pub x: f64,
    /// Vertical, downwards.
    pub y: f64,
    frame: PhantomData<F>,
}

impl<F: Frame> Point<F> {
    /// A point; see [`Point::checked`] for data from outside.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, frame: PhantomData }
    }

    /// A point that must lie inside the frame, and for pixels inside `screen` where it is known.
    ///
    /// # Errors
    /// Names the value and the frame's limits.
    pub fn checked(x: f64, y: f64, screen: Option<ScreenSize>) -> Result<Self, OutOfRange> {
        let (max_x, max_y) = match F::MAX {
            Some(max) => (max, max),
            None => screen
                .map_or((f64::INFINITY, f64::INFINITY), |s| (f64::from(s.width_px), f64::from(s.height_px))),
        };
        let inside = x.is_finite() && y.is_finite() && x >= 0.0 && y >= 0.0;
        if inside && x <= max_x && y <= max_y {
            Ok(Self::new(x, y))
        } else {
            Err(OutOfRange { x, y, frame: F::NAME, max_x, max_y })
        }
    }
}

/// A coordinate outside its frame or screen.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("coordinate ({x}, {y}) is outside 0..={max_x} × 0..={max_y} ({frame})")]
pub struct OutOfRange {
    /// Horizontal value found.
    pub x: f64,
    /// Vertical value found.
    pub y: f64,
    /// Name of the frame.
    pub frame: &'static str,
    /// Largest legal horizontal value.
    pub max_x: f64,
    /// Largest legal vertical value.
    pub max_y: f64,
}

impl Point<Pixels> {
    /// As shares of `screen`.
    pub fn to_normalized(self, screen: ScreenSize) -> Point<Normalized> {
        Point::new(self.x / f64::from(screen.width_px), self.y / f64::from(screen.height_px))
    }
}
impl Point<Normalized> {
    /// In pixels of `screen`, not rounded.
    pub fn to_pixels(self, screen: ScreenSize) -> Point<Pixels> {
        Point::new(self.x * f64::from(screen.width_px), self.y * f64::from(screen.height_px))
    }
}
impl Point<Thousandths> {
    /// As shares of the screen.
    pub fn to_normalized(self) -> Point<Normalized> {
        Point::new(self.x / 1000.0, self.y / 1000.0)
    }
}

/// A point as a file holds it: the values as the source gave them, and the frame's name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// Horizontal, rightwards.
    pub x: f64,
    /// Vertical, downwards.
    pub y: f64,
    /// Which frame the two numbers are in.
    pub frame: FrameName,
}

/// [`Frame::NAME`] as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrameName {
    /// [`Pixels`].
    #[serde(rename = "px")]
    Pixels,
    /// [`Normalized`].
    #[serde(rename = "norm")]
    Normalized,
    /// [`Thousandths`].
    #[serde(rename = "thousandths")]
    Thousandths,
}

impl Position {
    /// As shares of the screen; pixels need `screen`.
    pub fn to_normalized(self, screen: Option<ScreenSize>) -> Option<Point<Normalized>> {
        match self.frame {
            FrameName::Pixels => Some(Point::<Pixels>::new(self.x, self.y).to_normalized(screen?)),
            FrameName::Normalized => Some(Point::new(self.x, self.y)),
            FrameName::Thousandths => Some(Point::<Thousandths>::new(self.x, self.y).to_normalized()),
        }
    }

    /// In pixels of `screen`, not rounded.
    pub fn to_pixels(self, screen: Option<ScreenSize>) -> Option<Point<Pixels>> {
        match self.frame {
            FrameName::Pixels => Some(Point::new(self.x, self.y)),
            _ => Some(self.to_normalized(screen)?.to_pixels(screen?)),
        }
    }
}

impl From<Point<Pixels>> for Position {
    fn from(p: Point<Pixels>) -> Self {
        Self { x: p.x, y: p.y, frame: FrameName::Pixels }
    }
}
impl From<Point<Normalized>> for Position {
    fn from(p: Point<Normalized>) -> Self {
        Self { x: p.x, y: p.y, frame: FrameName::Normalized }
    }
}
impl From<Point<Thousandths>> for Position {
    fn from(p: Point<Thousandths>) -> Self {
        Self { x: p.x, y: p.y, frame: FrameName::Thousandths }
    }
}

/// An axis-aligned box as a file holds it: edges, and the frame they are in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BBox {
    /// Left edge.
    pub left: f64,
    /// Top edge.
    pub top: f64,
    /// Right edge, not left of `left`.
    pub right: f64,
    /// Bottom edge, not above `top`.
    pub bottom: f64,
    /// Which frame the four numbers are in.
    pub frame: FrameName,
}

impl BBox {
    /// True when `(x, y)`, in the box's own frame, lies inside or on an edge.
    pub fn contains(&self, x: f64, y: f64) -> bool {
        self.left <= x && x <= self.right && self.top <= y && y <= self.bottom
    }
}

/// The element an action was applied to, as far as the source names it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Label, accessible name, column or field name.
    pub name: Option<String>,
    /// Role or control type in the source's words: `button`, `ButtonControl`, `textbox`.
    pub role: Option<String>,
    /// Gold boxes of the element; empty when the source gives none.
    pub boxes: Vec<BBox>,
    /// [`Element::id`](crate::trace::Element::id) of the element on the step's screen.
    pub element: Option<String>,
}

/// One canonical action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// What was done.
    pub verb: Verb,
    /// Where; the start of a drag or of a scroll gesture.
    pub point: Option<Position>,
    /// End of a drag or of a scroll gesture.
    pub end: Option<Position>,
    /// Typed text, key combination, application, URL, option, clipboard: see [`Verb`].
    pub text: Option<String>,
    /// Direction in which content scrolls.
    pub direction: Option<Direction>,
    /// The source's own word for the direction, which may be the finger's.
    pub source_direction: Option<String>,
    /// Element acted on.
    pub target: Target,
    /// Seconds of a wait, repeats of a scroll.
    pub amount: Option<f64>,
    /// The source's own verb, as written there: `CLICK`, `MouseAction/click`, `pyautogui.write`.
    pub source_verb: String,
}

impl Action {
    /// An action with nothing but its verb.
    pub fn new(verb: Verb, source_verb: impl Into<String>) -> Self {
        Self {
            verb,
            point: None,
            end: None,
            text: None,
            direction: None,
            source_direction: None,
            target: Target::default(),
            amount: None,
            source_verb: source_verb.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verb_names_round_trip_through_text_and_serde() {
        for verb in Verb::ALL {
            assert_eq!(verb.name().parse::<Verb>(), Ok(verb));
            assert_eq!(serde_json::to_value(verb).expect("serialises"), verb.name());
        }
        assert!("tap".parse::<Verb>().is_err());
    }

    #[test]
    fn displacement_is_horizontal_only_when_strictly_wider() {
        assert_eq!(Direction::of_displacement(-5.0, 4.0), Some(Direction::Left));
        assert_eq!(Direction::of_displacement(5.0, -5.0), Some(Direction::Up));
        assert_eq!(Direction::of_displacement(0.0, 0.0), None);
    }

    #[test]
    fn points_outside_their_frame_are_refused() {
        assert!(Point::<Thousandths>::checked(1000.0, 0.0, None).is_ok());
        let error = Point::<Thousandths>::checked(1000.5, 3.0, None).expect_err("out of range");
        assert_eq!(error.to_string(), "coordinate (1000.5, 3) is outside 0..=1000 × 0..=1000 (thousandths)");
        let screen = ScreenSize { width_px: 100, height_px: 50 };
        assert!(Point::<Pixels>::checked(100.0, 50.0, Some(screen)).is_ok());
        assert!(Point::<Pixels>::checked(100.0, 51.0, Some(screen)).is_err());
        assert!(Point::<Pixels>::checked(f64::NAN, 1.0, None).is_err());
    }

    #[test]
    fn frames_convert_explicitly() {
        let screen = ScreenSize { width_px: 200, height_px: 100 };
        let p = Position::from(Point::<Thousandths>::new(500.0, 250.0));
        assert_eq!(p.to_pixels(Some(screen)), Some(Point::new(100.0, 25.0)));
        assert_eq!(p.to_pixels(None), None);
        assert_eq!(p.to_normalized(None), Some(Point::new(0.5, 0.25)));
    }
}
