//! Screenshots: decoded to RGB, cropped, written.

use std::io::Cursor;
use std::path::Path;

use anyhow::{Context, Result};
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder, ImageReader};
use tracemill_models::state::{Picture, Region};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes of a pixel.
const CHANNELS: usize = 3;
/// Share of a phone's screen that its status bar takes at most: clock and battery change by themselves.
const STATUS_BAR: u32 = 20;

/// A decoded screenshot.
#[derive(Debug)]
pub struct Rgb {
    /// Width in pixels.
    pub width_px: u32,
    /// Height in pixels.
    pub height_px: u32,
    /// `height_px × width_px × 3` bytes.
    pub bytes: Vec<u8>,
}

impl Rgb {
    /// Decodes a PNG or JPEG; transparency is dropped.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(encoded: &[u8]) -> Result<Self> {
        let decoded = ImageReader::new(Cursor::new(encoded)).with_guessed_format()?.decode()?;
        let rgb = decoded.into_rgb8();
        Ok(Self { width_px: rgb.width(), height_px: rgb.height(), bytes: rgb.into_raw() })
    }

    /// The picture as the difference takes it.
    pub fn picture(&self) -> Picture<'_> {
        Picture { width_px: self.width_px, height_px: self.height_px, rgb: &self.bytes }
    }

    /// Hash of size and pixels; of a phone's screen without its status bar.
    pub fn content_hash(&self, is_phone: bool) -> String {
        let skipped = if is_phone { self.height_px / STATUS_BAR } else { 0 };
        let below = &self.bytes[skipped as usize * self.width_px as usize * CHANNELS..];
        let mut hasher = Xxh3::new();
        hasher.update(&self.width_px.to_le_bytes());
        hasher.update(&self.height_px.to_le_bytes());
        hasher.update(below);
        format!("{:032x}", hasher.digest128())
    }

    /// A part of the picture.
    pub fn crop(&self, region: Region) -> Self {
        let row = self.width_px as usize * CHANNELS;
        let columns = region.left_px as usize * CHANNELS..region.right_px as usize * CHANNELS;
        let rows = self.bytes.chunks_exact(row).take(region.bottom_px as usize).skip(region.top_px as usize);
        let bytes = rows.flat_map(|row| &row[columns.clone()]).copied().collect();
        Self { width_px: region.width_px(), height_px: region.height_px(), bytes }
    }

    /// The picture as PNG.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn png(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        PngEncoder::new_with_quality(&mut out, CompressionType::Fast, FilterType::Adaptive).write_image(
            &self.bytes,
            self.width_px,
            self.height_px,
            ExtendedColorType::Rgb8,
        )?;
        Ok(out)
    }

    /// Writes the picture into a folder under the hash of its content, unless it is there; returns its name.
    ///
    /// # Errors
    /// Names the file.
    pub fn store(&self, folder: &Path) -> Result<String> {
        let size = u64::from(self.width_px) << 32 | u64::from(self.height_px);
        let name = format!("{:032x}.png", xxh3_128(&self.bytes) ^ u128::from(xxhash_rust::xxh3::xxh3_64(&size.to_le_bytes())));
        let path = folder.join(&name);
        if !path.exists() {
            // Two threads may make the same crop: each writes a file of its own, and the last rename wins with equal bytes.
            let mut file = tempfile::NamedTempFile::new_in(folder).with_context(|| path.display().to_string())?;
            std::io::Write::write_all(&mut file, &self.png()?).with_context(|| path.display().to_string())?;
            file.persist(&path).with_context(|| path.display().to_string())?;
        }
        Ok(name)
    }
}
