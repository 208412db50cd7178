use proptest::prelude::*;

use super::*;

const W: u32 = 50;
const H: u32 = 30;

fn grey(value: u8) -> Vec<u8> {
    vec![value; (W * H * 3) as usize]
}

fn set(picture: &mut [u8], x: u32, y: u32, pixel: [u8; 3]) {
    let at = ((y * W + x) * 3) as usize;
    picture[at..at + 3].copy_from_slice(&pixel);
}

fn change(before: &[u8], after: &[u8], margin: u32) -> PixelChange {
    let picture = |rgb| Picture { width_px: W, height_px: H, rgb };
    changed_region(picture(before), picture(after), margin)
}

fn region(left_px: u32, top_px: u32, right_px: u32, bottom_px: u32) -> PixelChange {
    PixelChange::Region(Region { left_px, top_px, right_px, bottom_px })
}

#[test]
fn equal_pictures_have_no_region() {
    assert_eq!(change(&grey(7), &grey(7), 50), PixelChange::None);
}

#[test]
fn a_difference_of_one_in_one_channel_counts() {
    for channel in 0..3 {
        let mut pixel = [7, 7, 7];
        pixel[channel] = 8;
        let mut after = grey(7);
        set(&mut after, 20, 10, pixel);
        assert_eq!(change(&grey(7), &after, 0), region(20, 10, 21, 11), "channel {channel}");
    }
}

#[test]
fn colours_of_equal_grey_differ() {
    // Both have a luma of 76 under ITU-R 601, which the released code compares.
    let luma = |[r, g, b]: [u32; 3]| (299 * r + 587 * g + 114 * b + 500) / 1000;
    assert_eq!(luma([255, 0, 0]), luma([76, 76, 76]));
    let (mut before, mut after) = (grey(255), grey(255));
    set(&mut before, 3, 4, [255, 0, 0]);
    set(&mut after, 3, 4, [76, 76, 76]);
    assert_eq!(change(&before, &after, 0), region(3, 4, 4, 5));
}

#[test]
fn margins_end_at_the_edges() {
    let mut after = grey(0);
    set(&mut after, 0, 0, [1, 0, 0]);
    assert_eq!(change(&grey(0), &after, 5), region(0, 0, 6, 6));
    let mut after = grey(0);
    set(&mut after, W - 1, H - 1, [0, 0, 1]);
    assert_eq!(change(&grey(0), &after, 5), region(W - 6, H - 6, W, H));
    assert_eq!(change(&grey(0), &grey(1), u32::MAX), region(0, 0, W, H));
}

#[test]
fn another_size_is_not_compared() {
    let (a, b) = (vec![0; 12], vec![0; 12]);
    let wide = Picture { width_px: 4, height_px: 1, rgb: &a };
    let high = Picture { width_px: 1, height_px: 4, rgb: &b };
    assert_eq!(changed_region(wide, high, 0), PixelChange::Resized);
}

#[test]
fn points_are_as_far_as_the_nearest_edge() {
    let region = Region { left_px: 10, top_px: 10, right_px: 20, bottom_px: 20 };
    assert_eq!([[15.0, 19.9], [26.0, 15.0], [23.0, 24.0]].map(|p| region.distance_px(p)), [0.0, 6.0, 5.0]);
    assert!((region.share(100, 10) - 0.1).abs() < 1e-12);
}

proptest! {
    /// The box is the smallest: it is that of the changed pixels, found by looking at each of them.
    #[test]
    fn the_region_is_the_box_of_what_changed(pixels in prop::collection::vec((0..W, 0..H, 0..3_usize), 0..12)) {
        let (before, mut after) = (grey(9), grey(9));
        for &(x, y, channel) in &pixels {
            after[((y * W + x) * 3) as usize + channel] = 10;
        }
        let expected = match (pixels.iter().map(|p| p.0).min(), pixels.iter().map(|p| p.1).min()) {
            (Some(left), Some(top)) => {
                let right = pixels.iter().map(|p| p.0).max().unwrap_or_default() + 1;
                region(left, top, right, pixels.iter().map(|p| p.1).max().unwrap_or_default() + 1)
            }
            _ => PixelChange::None,
        };
        prop_assert_eq!(change(&before, &after, 0), expected);
    }
}
