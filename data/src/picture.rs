//! Screenshots: decoded to RGB, cropped, written.

use std::io::Cursor;
use std::path::Path;

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder, ImageError, ImageReader, RgbImage};
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a pixel.
const CHANNELS: usize = 3;
/// A phone's status bar takes at most this part of its screen; clock and battery change by themselves.
const STATUS_BAR: u32 = 20;
/// Quality of pictures for a page.
const QUALITY: u8 = 80;
/// Colour of a box that is drawn.
const RED: [u8; 3] = [220, 30, 30];

/// A decoded picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rgb {
    /// Width in pixels.
    pub width_px: u32,
    /// Height in pixels.
    pub height_px: u32,
    /// `height_px × width_px × 3` bytes, row by row.
    pub bytes: Vec<u8>,
}

/// A box of pixels: left, top, right, bottom; the latter two are exclusive.
pub type Corners = [u32; 4];

impl Rgb {
    /// Decodes a PNG or JPEG; transparency is dropped.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(encoded: &[u8]) -> Result<Self, ImageError> {
        let rgb = ImageReader::new(Cursor::new(encoded)).with_guessed_format()?.decode()?.into_rgb8();
        Ok(Self { width_px: rgb.width(), height_px: rgb.height(), bytes: rgb.into_raw() })
    }

    /// Hash of size and pixels; of a phone's screen without its status bar.
    pub fn content_hash(&self, is_phone: bool) -> String {
        let skipped = if is_phone { self.height_px / STATUS_BAR } else { 0 };
        let mut hasher = Xxh3::new();
        hasher.update(&self.width_px.to_le_bytes());
        hasher.update(&self.height_px.to_le_bytes());
        hasher.update(&self.bytes[skipped as usize * self.width_px as usize * CHANNELS..]);
        format!("{:032x}", hasher.digest128())
    }

    /// Whether a box lies on the picture.
    pub fn holds(&self, [left, top, right, bottom]: Corners) -> bool {
        left < right && top < bottom && right <= self.width_px && bottom <= self.height_px
    }

    /// A part of the picture, which must hold it.
    pub fn crop(&self, [left, top, right, bottom]: Corners) -> Self {
        let columns = left as usize * CHANNELS..right as usize * CHANNELS;
        let mut bytes = Vec::with_capacity(columns.len() * (bottom - top) as usize);
        let rows = self.bytes.chunks_exact(self.width_px as usize * CHANNELS);
        for row in rows.take(bottom as usize).skip(top as usize) {
            bytes.extend_from_slice(&row[columns.clone()]);
        }
        Self { width_px: right - left, height_px: bottom - top, bytes }
    }

    /// The picture as PNG.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn png(&self) -> Result<Vec<u8>, ImageError> {
        let mut out = Vec::new();
        let encoder = PngEncoder::new_with_quality(&mut out, CompressionType::Fast, FilterType::Adaptive);
        encoder.write_image(&self.bytes, self.width_px, self.height_px, ExtendedColorType::Rgb8)?;
        Ok(out)
    }

    /// Writes the picture into a folder under the hash of its content, unless it is there; returns its name.
    ///
    /// # Errors
    /// A picture that cannot be written.
    pub fn store(&self, folder: &Path) -> Result<String, ImageError> {
        let name = format!("{}.png", self.content_hash(false));
        let path = folder.join(&name);
        if !path.exists() {
            // Several threads may make the same crop: each writes a file of its own, and the last one stays, of equal bytes.
            let thread = format!("{name}.{:?}", std::thread::current().id());
            let draft = folder.join(thread.replace(['(', ')'], ""));
            std::fs::write(&draft, self.png()?)?;
            std::fs::rename(&draft, &path)?;
        }
        Ok(name)
    }

    /// The picture as JPEG, no larger than `most_px` on either side, with a box drawn around a region.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn thumbnail(&self, most_px: u32, region: Option<Corners>) -> Result<Vec<u8>, ImageError> {
        let image = RgbImage::from_raw(self.width_px, self.height_px, self.bytes.clone()).unwrap_or_default();
        let side = f64::from(self.width_px.max(self.height_px).max(1));
        let scale = (f64::from(most_px) / side).min(1.0);
        let scaled = |px: u32| ((f64::from(px) * scale).round() as u32).max(1);
        let (width, height) = (scaled(self.width_px), scaled(self.height_px));
        let mut small = image::imageops::thumbnail(&image, width, height);
        if let Some(corners) = region {
            draw(&mut small, corners.map(|px| (f64::from(px) * scale) as u32));
        }
        let mut bytes = Vec::new();
        JpegEncoder::new_with_quality(&mut bytes, QUALITY).encode(
            &small,
            width,
            height,
            ExtendedColorType::Rgb8,
        )?;
        Ok(bytes)
    }
}

/// A box of two pixels' width.
fn draw(image: &mut RgbImage, [left, top, right, bottom]: Corners) {
    let (width, height) = image.dimensions();
    let (right, bottom) = (right.min(width.saturating_sub(1)), bottom.min(height.saturating_sub(1)));
    let (left, top) = (left.min(right), top.min(bottom));
    for x in left..=right {
        for y in [top, (top + 1).min(bottom), bottom.saturating_sub(1).max(top), bottom] {
            image.put_pixel(x, y, image::Rgb(RED));
        }
    }
    for y in top..=bottom {
        for x in [left, (left + 1).min(right), right.saturating_sub(1).max(left), right] {
            image.put_pixel(x, y, image::Rgb(RED));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gradient(width_px: u32, height_px: u32) -> Rgb {
        let bytes = (0..width_px * height_px * 3).map(|i| (i % 251) as u8).collect();
        Rgb { width_px, height_px, bytes }
    }

    #[test]
    fn crops_are_parts_and_come_back_from_their_files() {
        let picture = gradient(7, 5);
        let crop = picture.crop([2, 1, 5, 4]);
        assert_eq!((crop.width_px, crop.height_px, crop.bytes.len()), (3, 3, 27));
        assert_eq!(crop.bytes[..9], picture.bytes[(7 + 2) * 3..(7 + 5) * 3]);
        assert_eq!(Rgb::decode(&crop.png().expect("encoded")).expect("decoded"), crop);
        assert_eq!(picture.crop([0, 0, 7, 5]), picture);
        assert!(picture.holds([0, 0, 7, 5]) && !picture.holds([0, 0, 8, 5]) && !picture.holds([3, 0, 3, 5]));
    }

    #[test]
    fn a_picture_is_stored_once() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let names: Vec<String> = (0..3).map(|_| gradient(4, 4).store(dir.path()).expect("stored")).collect();
        gradient(2, 8).store(dir.path()).expect("stored");
        assert_eq!(names[0], names[2]);
        assert_eq!(
            std::fs::read_dir(dir.path()).expect("listed").count(),
            2,
            "the shape is part of the content"
        );
    }

    #[test]
    fn a_phones_clock_is_no_content() {
        let (a, mut b) = (gradient(40, 40), gradient(40, 40));
        b.bytes[5] ^= 1;
        assert_eq!(a.content_hash(true), b.content_hash(true));
        assert_ne!(a.content_hash(false), b.content_hash(false));
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        let png = gradient(40, 40).png().expect("encoded");
        assert!(Rgb::decode(&png[..png.len() / 2]).is_err());
        assert!(Rgb::decode(b"no picture").is_err());
    }

    #[test]
    fn thumbnails_have_their_size_and_box() {
        let jpeg = gradient(200, 100).thumbnail(50, Some([0, 0, 200, 100])).expect("encoded");
        let small = Rgb::decode(&jpeg).expect("decoded");
        assert_eq!((small.width_px, small.height_px), (50, 25));
        assert!(small.bytes[0] > 150 && small.bytes[1] < 110, "red at the corner: {:?}", &small.bytes[..3]);
    }
}
