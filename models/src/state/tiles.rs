//! Where inside the changed region the changes are: the region is one box around all of them, and a clock in a corner
//! stretches it over most of the screen. Tiles of 32 × 32 pixels tell how much really changed, and where.

use super::region::{Picture, Region};

/// Side of a tile in pixels.
const TILE_PX: u32 = 32;
/// Bytes of a pixel.
const CHANNELS: usize = 3;

/// The changes of two pictures as the rules look at them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Focus {
    /// Share of the screen's tiles in which anything changed, 0 to 1.
    pub share: f64,
    /// The largest group of tiles that touch each other.
    pub largest: Region,
    /// From the action's point to the nearest changed tile, in pixels; `None` for actions without a point.
    pub distance_px: Option<f64>,
}

/// Which tiles of a region changed; both pictures are of one size, which holds the region.
pub fn focus(before: Picture<'_>, after: Picture<'_>, region: Region, point: Option<[f64; 2]>) -> Focus {
    let (columns, rows) = (before.width_px.div_ceil(TILE_PX), before.height_px.div_ceil(TILE_PX));
    let mut changed = vec![false; (columns * rows) as usize];
    let stride = before.width_px as usize * CHANNELS;
    let bytes = TILE_PX as usize * CHANNELS;
    for y in region.top_px..region.bottom_px {
        let row = y as usize * stride..(y as usize + 1) * stride;
        let first = (y / TILE_PX * columns) as usize;
        let marks = &mut changed[first..first + columns as usize];
        let tiles = before.rgb[row.clone()].chunks(bytes).zip(after.rgb[row].chunks(bytes));
        for (mark, (a, b)) in marks.iter_mut().zip(tiles) {
            // Most tiles that change do so in their first rows: the rest is not looked at.
            *mark = *mark || a != b;
        }
    }
    let count = changed.iter().filter(|&&c| c).count();
    let tile = |i: usize| tile_region(i as u32, columns, before);
    let marked = || (0..changed.len()).filter(|&i| changed[i]);
    let distance_px =
        point.and_then(|point| marked().map(|i| tile(i).distance_px(point)).min_by(f64::total_cmp));
    let largest = largest_group(&changed, columns as usize);
    let largest = largest.into_iter().map(tile).reduce(Region::union).unwrap_or(region);
    Focus { share: count as f64 / changed.len().max(1) as f64, largest, distance_px }
}

fn tile_region(i: u32, columns: u32, picture: Picture<'_>) -> Region {
    let (left_px, top_px) = (i % columns * TILE_PX, i / columns * TILE_PX);
    Region {
        left_px,
        top_px,
        right_px: (left_px + TILE_PX).min(picture.width_px),
        bottom_px: (top_px + TILE_PX).min(picture.height_px),
    }
}

/// The largest group of marked tiles that touch at a side; of equal ones, the first.
fn largest_group(changed: &[bool], columns: usize) -> Vec<usize> {
    let mut free = changed.to_vec();
    let mut largest = Vec::new();
    for start in 0..free.len() {
        if !std::mem::take(&mut free[start]) {
            continue;
        }
        let (mut group, mut open) = (Vec::new(), vec![start]);
        while let Some(i) = open.pop() {
            group.push(i);
            let beside = [
                (i % columns > 0).then(|| i - 1),
                (i % columns + 1 < columns).then_some(i + 1),
                i.checked_sub(columns),
                Some(i + columns).filter(|&j| j < free.len()),
            ];
            for j in beside.into_iter().flatten() {
                if std::mem::take(&mut free[j]) {
                    open.push(j);
                }
            }
        }
        if group.len() > largest.len() {
            largest = group;
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::super::{PixelChange, changed_region};
    use super::*;

    #[test]
    fn a_clock_in_the_corner_does_not_make_a_large_change() {
        let (width_px, height_px) = (1000, 700);
        let before = vec![0; width_px * height_px * 3];
        let mut after = before.clone();
        let mut paint = |left: usize, top: usize, side: usize| {
            for y in top..top + side {
                let at = (y * width_px + left) * 3;
                after[at..at + side * 3].fill(200);
            }
        };
        paint(100, 100, 90);
        paint(980, 680, 10);
        let picture = |rgb| Picture { width_px: width_px as u32, height_px: height_px as u32, rgb };
        let (before, after) = (picture(&before[..]), picture(&after[..]));
        let PixelChange::Region(region) = changed_region(before, after, 0) else { panic!("they differ") };
        assert!(region.share(1000, 700) > 0.7);
        let seen = focus(before, after, region, Some([100.0, 300.0]));
        assert!(seen.share < 0.03, "{seen:?}");
        assert_eq!(seen.largest, Region { left_px: 96, top_px: 96, right_px: 192, bottom_px: 192 });
        assert_eq!(seen.distance_px, Some(108.0));
        assert_eq!(focus(before, after, region, None).distance_px, None);
        assert_eq!(focus(before, after, region, Some([990.0, 690.0])).distance_px, Some(0.0));
    }
}
