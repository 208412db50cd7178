//! Screens made of elements with boxes: which element a touch meets, and how large the screen is.

use std::path::Path;

use super::source::{Fault, Input};
use crate::action::ScreenSize;
use crate::trace::{Element, RejectKind, Screen};

/// The element with the smallest box around `(x, y)`, which is in the boxes' own frame; the first
/// of several that are equally small.
pub fn smallest_around<'a>(
    elements: impl IntoIterator<Item = &'a Element>,
    x: f64,
    y: f64,
) -> Option<&'a Element> {
    let boxed = elements.into_iter().filter_map(|element| Some((element, element.bbox?)));
    let around = boxed.filter(|(_, bbox)| bbox.contains(x, y));
    let areas = around.map(|(element, b)| (element, (b.right - b.left) * (b.bottom - b.top)));
    areas.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(element, _)| element)
}

/// Width and height of the screenshot of `screen`, from the picture's header; `None` where no
/// screenshot was found.
///
/// # Errors
/// [`RejectKind::Unreadable`] when the file is no picture.
pub fn screenshot_size(input: &Input, screen: &Screen) -> Result<Option<ScreenSize>, Fault> {
    let Some(shown) = screen.screenshot.as_deref().filter(|_| screen.screenshot_found) else {
        return Ok(None);
    };
    let reader =
        image::ImageReader::open(input.root.join(shown)).and_then(image::ImageReader::with_guessed_format);
    let size = reader.map_err(image::ImageError::from).and_then(image::ImageReader::into_dimensions);
    match size {
        Ok((width_px, height_px)) => Ok(Some(ScreenSize { width_px, height_px })),
        Err(e) => {
            let reason = format!("screenshot `{shown}` cannot be read: {e}; replace it, or take it away");
            Err(Fault::new(RejectKind::Unreadable, reason))
        }
    }
}

/// [`Input::step_screen`] for a source that names screenshots by their path in its own layout:
/// looks for the path, then for the file name alone, below each of `folders`.
///
/// # Errors
/// As [`Input::step_screen`].
pub fn screen_of(input: &Input, path: &str, folders: &[&Path], required: bool) -> Result<Screen, Fault> {
    let screen = input.step_screen(Some(path), folders, false)?;
    let name = Path::new(path).file_name().map(|name| name.to_string_lossy());
    if let Some(name) = name.filter(|_| !screen.screenshot_found) {
        let beside = input.step_screen(Some(&name), folders, false)?;
        if beside.screenshot_found {
            return Ok(beside);
        }
    }
    input.step_screen(Some(path), folders, required)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{BBox, FrameName};

    fn element(id: &str, [left, top, right, bottom]: [f64; 4]) -> Element {
        let bbox = Some(BBox { left, top, right, bottom, frame: FrameName::Pixels });
        Element { id: id.to_owned(), bbox, ..Element::default() }
    }

    #[test]
    fn the_smallest_box_around_the_point_wins_and_the_first_of_equals() {
        let elements = [
            element("page", [0.0, 0.0, 100.0, 100.0]),
            element("row", [0.0, 10.0, 100.0, 20.0]),
            element("same row", [0.0, 10.0, 100.0, 20.0]),
            element("elsewhere", [0.0, 50.0, 1.0, 51.0]),
            Element { id: "nowhere".to_owned(), ..Element::default() },
        ];
        let at = |x, y| smallest_around(&elements, x, y).map(|e| e.id.as_str());
        assert_eq!(at(50.0, 15.0), Some("row"));
        assert_eq!(at(50.0, 20.0), Some("row"));
        assert_eq!(at(50.0, 21.0), Some("page"));
        assert_eq!(at(101.0, 15.0), None);
    }

    #[test]
    fn a_screenshot_is_found_by_path_or_name_and_measured() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let input = Input::new(folder.path()).expect("exists");
        let beside = input.root.join("a");
        std::fs::create_dir(&beside).expect("made");
        image::RgbImage::new(30, 20).save(beside.join("x.png")).expect("written");
        let screen = screen_of(&input, "elsewhere/x.png", &[&beside], true).expect("found");
        assert_eq!(screen.screenshot.as_deref(), Some("a/x.png"));
        let size = screenshot_size(&input, &screen);
        assert_eq!(size, Ok(Some(ScreenSize { width_px: 30, height_px: 20 })));
        let absent = screen_of(&input, "elsewhere/y.png", &[&beside], false).expect("absent");
        assert_eq!(absent.screenshot.as_deref(), Some("elsewhere/y.png"));
        assert_eq!(screenshot_size(&input, &absent), Ok(None));
        let kind = |path: &str| screen_of(&input, path, &[&beside], true).expect_err("refused").kind;
        assert_eq!(kind("elsewhere/y.png"), RejectKind::MissingScreenshot);
        assert_eq!(kind("../../x.png"), RejectKind::UnsafePath);
    }

    #[test]
    fn what_is_no_picture_is_a_fault() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let input = Input::new(folder.path()).expect("exists");
        std::fs::write(input.root.join("x.png"), b"no picture").expect("written");
        let screen = screen_of(&input, "x.png", &[], true).expect("found");
        let fault = screenshot_size(&input, &screen).expect_err("no picture");
        assert_eq!(fault.kind, RejectKind::Unreadable);
    }
}
