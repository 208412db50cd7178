//! The changed region of two pictures: the smallest box that holds every pixel of which any channel differs
//! (`HiSA`, section 3.3.1).
//!
//! Rows are compared as bytes and the box is shrunk from its edges, so that no mask of the screen is ever made: equal
//! rows cost a comparison of memory, and a row inside the box is looked at only outside the columns that the box has
//! already taken.

use serde::{Deserialize, Serialize};

/// Bytes that are compared at a time when the first difference of a row is looked for.
const BLOCK: usize = 64;
/// Bytes of a pixel.
const CHANNELS: usize = 3;

/// A decoded picture.
///
/// # Shapes
/// `rgb` holds `height_px × width_px × 3` bytes, row by row.
#[derive(Debug, Clone, Copy)]
pub struct Picture<'a> {
    /// Width in pixels.
    pub width_px: u32,
    /// Height in pixels.
    pub height_px: u32,
    /// Red, green and blue of each pixel.
    pub rgb: &'a [u8],
}

/// A box of pixels; right and bottom are exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Left edge.
    pub left_px: u32,
    /// Top edge.
    pub top_px: u32,
    /// Right edge, exclusive.
    pub right_px: u32,
    /// Bottom edge, exclusive.
    pub bottom_px: u32,
}

/// What two pictures differ in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelChange {
    /// Nothing.
    None,
    /// The region outside of which they are equal, with its margin.
    Region(Region),
    /// Their sizes: the whole screens are what changed.
    Resized,
}

impl Region {
    /// All of a screen.
    pub fn whole(width_px: u32, height_px: u32) -> Self {
        Self { left_px: 0, top_px: 0, right_px: width_px, bottom_px: height_px }
    }

    /// Width in pixels.
    pub fn width_px(self) -> u32 {
        self.right_px - self.left_px
    }

    /// Height in pixels.
    pub fn height_px(self) -> u32 {
        self.bottom_px - self.top_px
    }

    /// Share of a screen, 0 to 1.
    pub fn share(self, width_px: u32, height_px: u32) -> f64 {
        let area = f64::from(self.width_px()) * f64::from(self.height_px());
        area / (f64::from(width_px) * f64::from(height_px)).max(1.0)
    }

    /// The region grown by a margin on every side, cut at the screen's edges.
    pub fn grown(self, margin_px: u32, width_px: u32, height_px: u32) -> Self {
        Self {
            left_px: self.left_px.saturating_sub(margin_px),
            top_px: self.top_px.saturating_sub(margin_px),
            right_px: self.right_px.saturating_add(margin_px).min(width_px),
            bottom_px: self.bottom_px.saturating_add(margin_px).min(height_px),
        }
    }

    /// From a point to the region, in pixels; 0 inside it.
    pub fn distance_px(self, [x, y]: [f64; 2]) -> f64 {
        let off = |at: f64, low: u32, high: u32| (f64::from(low) - at).max(at - f64::from(high)).max(0.0);
        off(x, self.left_px, self.right_px).hypot(off(y, self.top_px, self.bottom_px))
    }

    /// Left, top, right and bottom.
    pub fn corners(self) -> [u32; 4] {
        [self.left_px, self.top_px, self.right_px, self.bottom_px]
    }

    /// The smallest region that holds both.
    pub fn union(self, other: Self) -> Self {
        Self {
            left_px: self.left_px.min(other.left_px),
            top_px: self.top_px.min(other.top_px),
            right_px: self.right_px.max(other.right_px),
            bottom_px: self.bottom_px.max(other.bottom_px),
        }
    }
}

/// The changed region of two pictures, grown by `margin_px` (0 in the paper, 50 in the released code). Any difference
/// of any channel counts: the released code compares grey levels and misses changes between colours of equal grey.
pub fn changed_region(before: Picture<'_>, after: Picture<'_>, margin_px: u32) -> PixelChange {
    let size = (before.width_px, before.height_px);
    if size != (after.width_px, after.height_px) {
        return PixelChange::Resized;
    }
    let stride = before.width_px as usize * CHANNELS;
    if stride == 0 || before.rgb == after.rgb {
        return PixelChange::None;
    }
    let rows = || before.rgb.chunks_exact(stride).zip(after.rgb.chunks_exact(stride));
    let Some(top) = rows().position(|(a, b)| a != b) else { return PixelChange::None };
    let bottom = rows().rposition(|(a, b)| a != b).map_or(top, |last| last) + 1;
    let (mut left, mut right) = (stride, 0);
    for (a, b) in rows().skip(top).take(bottom - top) {
        if let Some(first) = first_difference(&a[..left], &b[..left]) {
            left = first / CHANNELS * CHANNELS;
        }
        if let Some(last) = last_difference(&a[right..], &b[right..]) {
            right += last / CHANNELS * CHANNELS + CHANNELS;
        }
    }
    let region = Region {
        left_px: (left / CHANNELS) as u32,
        top_px: top as u32,
        right_px: (right / CHANNELS) as u32,
        bottom_px: bottom as u32,
    };
    PixelChange::Region(region.grown(margin_px, size.0, size.1))
}

/// Position of the first byte that differs.
fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    let (a_blocks, a_rest) = a.as_chunks::<BLOCK>();
    let (b_blocks, b_rest) = b.as_chunks::<BLOCK>();
    let within = |a: &[u8], b: &[u8]| a.iter().zip(b).position(|(x, y)| x != y);
    match a_blocks.iter().zip(b_blocks).position(|(x, y)| x != y) {
        Some(block) => within(&a_blocks[block], &b_blocks[block]).map(|at| block * BLOCK + at),
        None => within(a_rest, b_rest).map(|at| a_blocks.len() * BLOCK + at),
    }
}

/// Position of the last byte that differs.
fn last_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    let (a_rest, a_blocks) = a.as_rchunks::<BLOCK>();
    let (b_rest, b_blocks) = b.as_rchunks::<BLOCK>();
    let within = |a: &[u8], b: &[u8]| a.iter().zip(b).rposition(|(x, y)| x != y);
    match a_blocks.iter().zip(b_blocks).rposition(|(x, y)| x != y) {
        Some(block) => within(&a_blocks[block], &b_blocks[block]).map(|at| a_rest.len() + block * BLOCK + at),
        None => within(a_rest, b_rest),
    }
}

#[cfg(test)]
#[path = "region_tests.rs"]
mod tests;
