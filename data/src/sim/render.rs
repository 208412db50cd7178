//! Screens as pictures: the same boxes as in the annotations and trees.

use std::convert::Infallible;
use std::io::BufWriter;
use std::path::Path;

use embedded_graphics::mono_font::iso_8859_1::{FONT_6X13, FONT_7X13_BOLD, FONT_9X18, FONT_9X18_BOLD};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::{
    Dimensions, DrawTarget, Drawable, OriginDimensions, Pixel, Point, Primitive, RgbColor, Size,
};
use embedded_graphics::primitives::{
    Circle, Line, PrimitiveStyle, PrimitiveStyleBuilder, Rectangle, RoundedRectangle,
};
use embedded_graphics::text::{Baseline, Text};
use image::RgbImage;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};

use super::SampleError;
use super::layout::{Canvas, Place, Rect, Scene, Shown, shown};
use super::uilog::window_title;
use super::walk::Move;
use super::world::{Bindings, Device, Role, World, fill};

const INK: Rgb888 = Rgb888::new(32, 33, 36);
const MUTED: Rgb888 = Rgb888::new(110, 114, 120);
const LINE: Rgb888 = Rgb888::new(218, 220, 224);
const PAPER: Rgb888 = Rgb888::new(250, 250, 252);
const BAR: Rgb888 = Rgb888::new(238, 240, 245);
const ACCENT: Rgb888 = Rgb888::new(26, 102, 210);
const SHADE: Rgb888 = Rgb888::new(150, 154, 162);
/// Colours of launcher icons and avatars.
const TINTS: [Rgb888; 6] = [
    Rgb888::new(66, 133, 244),
    Rgb888::new(219, 84, 72),
    Rgb888::new(52, 148, 92),
    Rgb888::new(224, 146, 30),
    Rgb888::new(126, 87, 194),
    Rgb888::new(0, 137, 150),
];

/// A picture that shapes and text can be drawn on.
struct Sheet(RgbImage);

impl OriginDimensions for Sheet {
    fn size(&self) -> Size {
        Size::new(self.0.width(), self.0.height())
    }
}

impl DrawTarget for Sheet {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        let area = self.bounding_box();
        for Pixel(at, color) in pixels {
            if area.contains(at) {
                let rgb = image::Rgb([color.r(), color.g(), color.b()]);
                self.0.put_pixel(at.x as u32, at.y as u32, rgb);
            }
        }
        Ok(())
    }

    // Row by row: the default goes pixel by pixel, and most of a screen is fills.
    fn fill_solid(&mut self, area: &Rectangle, color: Rgb888) -> Result<(), Infallible> {
        let area = area.intersection(&self.bounding_box());
        let rgb = [color.r(), color.g(), color.b()];
        let width = self.0.width() as usize;
        for y in area.rows() {
            let start = (y as usize * width + area.top_left.x as usize) * 3;
            let bytes: &mut [u8] = &mut self.0;
            let row = &mut bytes[start..start + area.size.width as usize * 3];
            row.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(&rgb));
        }
        Ok(())
    }
}

/// Draws the scene of a move and writes it as PNG, each pixel of the canvas as `factor` × `factor`: pictures have the
/// size that the source gives for its screens.
///
/// # Errors
/// A file that cannot be written.
pub(super) fn save(
    world: &World,
    m: &Move<'_>,
    bind: &Bindings,
    canvas: Canvas,
    factor: u32,
    path: &Path,
) -> Result<(), SampleError> {
    let drawn = draw(world, &m.scene, bind, canvas);
    let picture = if factor == 1 { drawn } else { enlarged(&drawn, factor) };
    let file = std::fs::File::create(path).map_err(SampleError::io(path))?;
    // Flat areas are runs of zeros under this filter, which the fast encoder is made for.
    let encoder = PngEncoder::new_with_quality(BufWriter::new(file), CompressionType::Fast, FilterType::Up);
    picture.write_with_encoder(encoder).map_err(|source| SampleError::Image { path: path.to_owned(), source })
}

/// Each pixel as a square of `factor` pixels.
fn enlarged(picture: &RgbImage, factor: u32) -> RgbImage {
    let (width, height) = (picture.width() * factor, picture.height() * factor);
    let mut bytes = Vec::with_capacity(width as usize * height as usize * 3);
    for row in picture.as_raw().chunks_exact(picture.width() as usize * 3) {
        let start = bytes.len();
        for pixel in row.chunks_exact(3) {
            (0..factor).for_each(|_| bytes.extend_from_slice(pixel));
        }
        let end = bytes.len();
        (1..factor).for_each(|_| bytes.extend_from_within(start..end));
    }
    RgbImage::from_raw(width, height, bytes).expect("as many bytes as pixels")
}

/// The picture of a scene.
pub(super) fn draw(world: &World, scene: &Scene, bind: &Bindings, canvas: Canvas) -> RgbImage {
    let mut pen = Pen { sheet: Sheet(RgbImage::new(canvas.w as u32, canvas.h as u32)) };
    pen.block(Rect { x: 0, y: 0, w: canvas.w, h: canvas.h }, PAPER);
    let title = match scene.place {
        Place::App { app, screen } => fill(&world.apps[app].screens[screen].title, bind),
        Place::Home => String::new(),
        Place::Recents { .. } => "Recent apps".to_owned(),
    };
    match world.device {
        Device::Phone => pen.phone_frame(canvas, &title),
        Device::Desktop => pen.desktop_frame(world, scene, bind, canvas),
    }
    let (all, _) = shown(world, scene, bind, canvas);
    for element in all.iter().filter(|e| !e.modal) {
        pen.element(element, world.device);
    }
    let modal: Vec<_> = all.iter().filter(|e| e.modal).collect();
    if let (Some(first), Some(last)) = (modal.first(), modal.last()) {
        let top = first.rect.y - 14;
        let (w, h) = (320.min(canvas.w - 40), last.rect.y + last.rect.h + 16 - top);
        pen.shade();
        pen.card(Rect { x: (canvas.w - w) / 2, y: top, w, h }, 14, RgbColor::WHITE, LINE);
        for element in modal {
            pen.element(element, world.device);
        }
    }
    pen.sheet.0
}

struct Pen {
    sheet: Sheet,
}

impl Pen {
    fn draw(&mut self, drawable: &impl Drawable<Color = Rgb888>) {
        // Infallible: the target is memory.
        let _ = drawable.draw(&mut self.sheet);
    }

    fn block(&mut self, rect: Rect, color: Rgb888) {
        self.draw(&rectangle(rect).into_styled(PrimitiveStyle::with_fill(color)));
    }

    fn card(&mut self, rect: Rect, radius: u32, fill: Rgb888, stroke: Rgb888) {
        let style =
            PrimitiveStyleBuilder::new().fill_color(fill).stroke_color(stroke).stroke_width(1).build();
        let shape = RoundedRectangle::with_equal_corners(rectangle(rect), Size::new(radius, radius));
        self.draw(&shape.into_styled(style));
    }

    fn disc(&mut self, x: i32, y: i32, diameter: u32, color: Rgb888) {
        let disc = Circle::new(Point::new(x, y), diameter);
        self.draw(&disc.into_styled(PrimitiveStyle::with_fill(color)));
    }

    fn rule(&mut self, y: i32, x1: i32, x2: i32) {
        let line = Line::new(Point::new(x1, y), Point::new(x2, y));
        self.draw(&line.into_styled(PrimitiveStyle::with_stroke(LINE, 1)));
    }

    /// Text at a top left corner, cut to `width` pixels.
    fn text(&mut self, text: &str, x: i32, y: i32, width: i32, font: &MonoFont<'_>, color: Rgb888) {
        let room = (width.max(0) / font.character_size.width as i32) as usize;
        let text = clip(text, room);
        let style = MonoTextStyle::new(font, color);
        self.draw(&Text::with_baseline(&text, Point::new(x, y), style, Baseline::Top));
    }

    fn centred(&mut self, text: &str, rect: Rect, font: &MonoFont<'_>, color: Rgb888) {
        let advance = font.character_size.width as i32;
        let text = clip(text, (rect.w / advance) as usize);
        let x = rect.x + (rect.w - text.chars().count() as i32 * advance) / 2;
        let y = rect.y + (rect.h - font.character_size.height as i32) / 2;
        self.text(&text, x, y, rect.w, font, color);
    }

    /// Dims what was drawn so far.
    fn shade(&mut self) {
        for pixel in self.sheet.0.pixels_mut() {
            pixel.0 = pixel.0.map(|c| c / 2 + 30);
        }
    }

    fn phone_frame(&mut self, canvas: Canvas, title: &str) {
        self.block(Rect { x: 0, y: 0, w: canvas.w, h: 24 }, BAR);
        self.text("10:24", 12, 6, 60, &FONT_6X13, INK);
        self.text("LTE  72%", canvas.w - 60, 6, 60, &FONT_6X13, INK);
        self.text(title, 16, 44, canvas.w - 130, &FONT_9X18_BOLD, INK);
        if !title.is_empty() {
            self.rule(81, 0, canvas.w);
        }
        let grip = Rect { x: canvas.w / 2 - 50, y: canvas.h - 10, w: 100, h: 4 };
        self.card(grip, 2, INK, INK);
    }

    fn desktop_frame(&mut self, world: &World, scene: &Scene, bind: &Bindings, canvas: Canvas) {
        self.block(Rect { x: 0, y: 0, w: canvas.w, h: 36 }, BAR);
        self.text(&window_title(world, scene, bind), 14, 11, 800, &FONT_7X13_BOLD, INK);
        if let Place::App { app, screen } = scene.place {
            let (app, screen) = (&world.apps[app], &world.apps[app].screens[screen]);
            if let (Some(url), Some(path)) = (&app.url, &screen.url) {
                self.card(Rect { x: 480, y: 46, w: 700, h: 28 }, 14, RgbColor::WHITE, LINE);
                self.text(&format!("{url}{path}"), 498, 53, 660, &FONT_6X13, MUTED);
            }
            let mut x = 60;
            self.block(Rect { x: 0, y: canvas.h - 40, w: canvas.w, h: 40 }, INK);
            for other in &world.apps {
                let color = if other.id == app.id { RgbColor::WHITE } else { SHADE };
                self.text(&other.name, x, canvas.h - 27, 150, &FONT_7X13_BOLD, color);
                x += 160;
            }
        }
        for (k, mark) in ["-", "o", "x"].iter().enumerate() {
            self.text(mark, canvas.w - 90 + 30 * k as i32, 11, 20, &FONT_7X13_BOLD, INK);
        }
        self.rule(80, 0, canvas.w);
    }

    fn element(&mut self, e: &Shown<'_>, device: Device) {
        let rect = e.rect;
        match e.role {
            Role::Text => self.text(&e.label, rect.x, rect.y + 6, rect.w, &FONT_6X13, MUTED),
            Role::Icon => self.icon(e),
            Role::Row | Role::Item | Role::Card | Role::Side | Role::Menu => self.row(e, device),
            Role::Field => self.field(e),
            Role::Switch => self.switch(e),
            Role::Option | Role::Check | Role::Radio => self.choice(e),
            Role::Link => {
                self.text(&e.label, rect.x, rect.y + 6, rect.w, &FONT_7X13_BOLD, ACCENT);
                self.rule(rect.y + 21, rect.x, rect.x + 7 * e.label.chars().count() as i32);
            }
            Role::Cell => self.cell(e),
            Role::Fab => {
                self.card(rect, 18, ACCENT, ACCENT);
                self.centred("+", rect, &FONT_9X18_BOLD, RgbColor::WHITE);
            }
            Role::Action => {
                self.card(rect, 20, BAR, BAR);
                self.centred(&initials(&e.label), rect, &FONT_7X13_BOLD, INK);
            }
            Role::Tab => {
                self.card(rect, 0, BAR, BAR);
                self.centred(&e.label, rect, &FONT_6X13, INK);
            }
            Role::Tool => {
                self.card(rect, 6, RgbColor::WHITE, LINE);
                self.centred(&e.label, rect, &FONT_6X13, INK);
            }
            Role::Button => {
                self.card(rect, 16, ACCENT, ACCENT);
                self.centred(&e.label, rect, &FONT_7X13_BOLD, RgbColor::WHITE);
            }
        }
    }

    fn icon(&mut self, e: &Shown<'_>) {
        let Rect { x, y, w, h } = e.rect;
        self.disc(x + (w - 56) / 2, y + 4, 56, tint(&e.label));
        let circle = Rect { x: x + (w - 56) / 2, y: y + 4, w: 56, h: 56 };
        self.centred(&initials(&e.label), circle, &FONT_9X18_BOLD, RgbColor::WHITE);
        self.centred(&e.label, Rect { x, y: y + 64, w, h: h - 64 }, &FONT_6X13, INK);
    }

    fn row(&mut self, e: &Shown<'_>, device: Device) {
        let Rect { x, y, w, h } = e.rect;
        if e.role == Role::Card {
            self.card(e.rect, 10, BAR, LINE);
        }
        let mark = (h - 12).min(32);
        self.disc(x + 8, y + (h - mark) / 2, mark as u32, tint(&e.label));
        let font = if device == Device::Phone { &FONT_9X18 } else { &FONT_6X13 };
        let top = y + (h - font.character_size.height as i32) / 2;
        self.text(&e.label, x + mark + 20, top, w - mark - 24, font, INK);
        self.rule(y + h, x + mark + 20, x + w);
    }

    fn field(&mut self, e: &Shown<'_>) {
        let Rect { x, y, w, h } = e.rect;
        self.card(Rect { x, y: y + 2, w, h: h - 4 }, 6, RgbColor::WHITE, MUTED);
        self.text(&e.label, x + 10, y + 5, w - 20, &FONT_6X13, MUTED);
        let value = e.value.as_deref().unwrap_or_default();
        self.text(value, x + 10, y + 20, w - 20, &FONT_9X18, INK);
    }

    fn switch(&mut self, e: &Shown<'_>) {
        let Rect { x, y, w, h } = e.rect;
        self.text(&e.label, x + 12, y + (h - 18) / 2, w - 80, &FONT_9X18, INK);
        let on = e.value.is_some();
        let color = if on { ACCENT } else { SHADE };
        self.card(Rect { x: x + w - 58, y: y + h / 2 - 12, w: 44, h: 24 }, 12, color, color);
        let knob = if on { x + w - 35 } else { x + w - 56 };
        self.disc(knob, y + h / 2 - 10, 20, RgbColor::WHITE);
    }

    fn choice(&mut self, e: &Shown<'_>) {
        let Rect { x, y, w, h } = e.rect;
        let radius = if e.role == Role::Check { 3 } else { 9 };
        let fill = if e.value.is_some() { ACCENT } else { RgbColor::WHITE };
        self.card(Rect { x: x + 6, y: y + h / 2 - 9, w: 18, h: 18 }, radius, fill, MUTED);
        self.text(&e.label, x + 34, y + (h - 13) / 2, w - 40, &FONT_7X13_BOLD, INK);
    }

    fn cell(&mut self, e: &Shown<'_>) {
        let Rect { x, y, w, h } = e.rect;
        self.card(e.rect, 0, RgbColor::WHITE, LINE);
        let address = e.cell.as_deref().unwrap_or_default();
        let text = e.value.as_deref().unwrap_or(&e.label);
        self.text(text, x + 6, y + (h - 13) / 2, w - 40, &FONT_6X13, INK);
        self.text(address, x + w - 26, y + (h - 13) / 2, 26, &FONT_6X13, SHADE);
    }
}

fn rectangle(rect: Rect) -> Rectangle {
    Rectangle::new(Point::new(rect.x, rect.y), Size::new(rect.w.max(0) as u32, rect.h.max(0) as u32))
}

/// At most `room` characters, the last an ellipsis where the text is longer.
fn clip(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(2)).collect();
    format!("{kept}..")
}

fn initials(label: &str) -> String {
    label.split_whitespace().filter_map(|w| w.chars().next()).take(2).collect()
}

fn tint(label: &str) -> Rgb888 {
    TINTS[xxhash_rust::xxh3::xxh3_64(label.as_bytes()) as usize % TINTS.len()]
}
