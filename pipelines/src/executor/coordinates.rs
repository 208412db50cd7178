//! What an executor's coordinates are measured in.

use serde::{Deserialize, Serialize};
use tracemill_data::action::{Action, FrameName, Pixels, Point, Position, ScreenSize};

/// The frame of an executor's points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coordinates {
    /// Pixels of the screenshot.
    Px,
    /// Shares of the screen, 0 to 1.
    Norm,
    /// Thousandths of the screen.
    Thousandths,
    /// Pixels of the picture as Qwen2-VL and Qwen2.5-VL models see it (GUI-R1 among them), after it was
    /// resized to multiples of 28 within the limit on its pixels.
    Resized,
}

impl Coordinates {
    /// Every frame.
    pub const ALL: [Self; 4] = [Self::Px, Self::Norm, Self::Thousandths, Self::Resized];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Px => "px",
            Self::Norm => "norm",
            Self::Thousandths => "thousandths",
            Self::Resized => "resized",
        }
    }

    /// The action with its points in pixels of the screenshot; `None` when that needs a screen size that is
    /// not known. `max_pixels` is the limit that the model's processor was given.
    pub fn to_pixels(self, action: Action, size: Option<ScreenSize>, max_pixels: u64) -> Option<Action> {
        let convert = |p: Option<Position>| match p {
            None => Some(None),
            Some(p) => self.point_to_pixels(p, size, max_pixels).map(Some),
        };
        Some(Action { point: convert(action.point)?, end: convert(action.end)?, ..action })
    }

    fn point_to_pixels(self, p: Position, size: Option<ScreenSize>, max_pixels: u64) -> Option<Position> {
        let framed = |frame| Position { frame, ..p }.to_pixels(size).map(Position::from);
        match self {
            Self::Px => Some(Position { frame: FrameName::Pixels, ..p }),
            Self::Norm => framed(FrameName::Normalized),
            Self::Thousandths => framed(FrameName::Thousandths),
            Self::Resized => {
                let size = size?;
                let seen = smart_resize(size, max_pixels);
                let scale = |v: f64, of: u32, seen: u32| v * f64::from(of) / f64::from(seen);
                let x = scale(p.x, size.width_px, seen.width_px);
                let y = scale(p.y, size.height_px, seen.height_px);
                Some(Point::<Pixels>::new(x, y).into())
            }
        }
    }
}

/// Sides of the picture are multiples of this.
const FACTOR: f64 = 28.0;
/// Fewest pixels that the processor leaves.
const MIN_PIXELS: f64 = 56.0 * 56.0;

/// The size to which Qwen2-VL's image processor brings a picture (`smart_resize` in transformers): sides
/// rounded to multiples of 28, the area between its limits, the shape nearly kept.
pub fn smart_resize(size: ScreenSize, max_pixels: u64) -> ScreenSize {
    let (height, width) = (f64::from(size.height_px), f64::from(size.width_px));
    let max_pixels = max_pixels as f64;
    let nearest = |side: f64| ((side / FACTOR).round_ties_even() * FACTOR).max(FACTOR);
    let (mut seen_height, mut seen_width) = (nearest(height), nearest(width));
    if seen_height * seen_width > max_pixels {
        let beta = (height * width / max_pixels).sqrt();
        let down = |side: f64| ((side / beta / FACTOR).floor() * FACTOR).max(FACTOR);
        (seen_height, seen_width) = (down(height), down(width));
    } else if seen_height * seen_width < MIN_PIXELS {
        let beta = (MIN_PIXELS / (height * width)).sqrt();
        let up = |side: f64| (side * beta / FACTOR).ceil() * FACTOR;
        (seen_height, seen_width) = (up(height), up(width));
    }
    ScreenSize { width_px: seen_width as u32, height_px: seen_height as u32 }
}

#[cfg(test)]
mod tests {
    use tracemill_data::action::Verb;

    use super::*;

    const MAX: u64 = 1_003_520;

    fn size(width_px: u32, height_px: u32) -> ScreenSize {
        ScreenSize { width_px, height_px }
    }

    /// Worked out by hand from the formula.
    #[test]
    fn pictures_are_resized_as_the_processor_does() {
        assert_eq!(smart_resize(size(840, 1876), MAX), size(644, 1484));
        assert_eq!(smart_resize(size(280, 560), MAX), size(280, 560));
        assert_eq!(smart_resize(size(270, 600), MAX), size(280, 588), "rounded to multiples of 28");
        assert_eq!(smart_resize(size(20, 20), MAX), size(56, 56));
    }

    #[test]
    fn points_become_pixels_of_the_screenshot() {
        let at = |frame: Coordinates, x: f64, y: f64| {
            let point = Some(Point::<Pixels>::new(x, y).into());
            let action = Action { point, ..Action::new(Verb::Click, "") };
            let point = frame.to_pixels(action, Some(size(840, 1876)), MAX)?.point?;
            Some((point.x.round(), point.y.round()))
        };
        assert_eq!(at(Coordinates::Px, 420.0, 938.0), Some((420.0, 938.0)));
        assert_eq!(at(Coordinates::Norm, 0.5, 0.5), Some((420.0, 938.0)));
        assert_eq!(at(Coordinates::Thousandths, 500.0, 500.0), Some((420.0, 938.0)));
        assert_eq!(at(Coordinates::Resized, 322.0, 742.0), Some((420.0, 938.0)));
        let action =
            Action { point: Some(Point::<Pixels>::new(1.0, 1.0).into()), ..Action::new(Verb::Click, "") };
        assert_eq!(Coordinates::Norm.to_pixels(action, None, MAX), None);
    }
}
