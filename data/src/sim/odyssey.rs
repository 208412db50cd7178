//! Phone episodes in GUI-Odyssey v2's layout.

use std::path::{Path, PathBuf};

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::layout::{Canvas, Rect};
use super::text::{Words, task, words};
use super::walk::{Act, Move, Played};
use super::world::{Do, World, fill};
use crate::action::Direction;

/// A phone model: the canvas is its screen at a fraction of the resolution.
#[derive(Debug)]
pub(super) struct Phone {
    pub name: &'static str,
    product: &'static str,
    release: &'static str,
    sdk: &'static str,
    w: i32,
    h: i32,
    pub canvas: Canvas,
}

impl Phone {
    /// Pixels of the screen for one of the canvas.
    pub fn factor(&self) -> u32 {
        (self.w / self.canvas.w) as u32
    }
}

/// The models episodes are recorded on.
pub(super) const PHONES: [Phone; 3] = [
    Phone {
        name: "Pixel 7 Pro",
        product: "cheetah",
        release: "13",
        sdk: "33",
        w: 1440,
        h: 3120,
        canvas: Canvas { w: 360, h: 780 },
    },
    Phone {
        name: "Medium Phone",
        product: "sdk_gphone64_x86_64",
        release: "14",
        sdk: "34",
        w: 1080,
        h: 2400,
        canvas: Canvas { w: 360, h: 800 },
    },
    Phone {
        name: "Small Phone",
        product: "sdk_gphone64_x86_64",
        release: "14",
        sdk: "34",
        w: 720,
        h: 1280,
        canvas: Canvas { w: 360, h: 640 },
    },
];

/// Episodes above which annotations and screenshots are spread over subfolders.
const FLAT: u64 = 10_000;
/// Episodes of one subfolder.
pub(super) const PER_FOLDER: u64 = 1_000;

/// The id of an episode: 16 digits, as the dataset's.
pub(super) fn episode_id(index: u64) -> String {
    format!("{:016}", 1_000_000_000_000_000 + index)
}

/// The folder of an episode below `annotations` or `screenshots`.
pub(super) fn folder(root: &Path, kind: &str, index: u64, total: u64) -> PathBuf {
    let folder = root.join(kind);
    if total > FLAT { folder.join(format!("{:04}", index / PER_FOLDER)) } else { folder }
}

/// The test split: one episode in five, as in the dataset's random split.
pub(super) fn is_test(index: u64) -> bool {
    index % 5 == 4
}

/// A box in thousandths of the screen, rounded inwards.
pub(super) fn thousandths(rect: Rect, canvas: Canvas) -> [i32; 4] {
    let up = |v: i32, full: i32| (v.clamp(0, full) * 1000 + full - 1) / full;
    let down = |v: i32, full: i32| v.clamp(0, full) * 1000 / full;
    [
        up(rect.x, canvas.w),
        up(rect.y, canvas.h),
        down(rect.x + rect.w, canvas.w),
        down(rect.y + rect.h, canvas.h),
    ]
}

/// The annotation of an episode.
pub(super) fn annotation(
    world: &World,
    played: &Played<'_>,
    phone: &Phone,
    id: &str,
    rng: &mut ChaCha8Rng,
) -> Value {
    let words = words(world, played, rng);
    let steps: Vec<_> = played
        .moves
        .iter()
        .zip(words)
        .enumerate()
        .map(|(k, (m, words))| step(m, &words, k, phone, id, rng))
        .collect();
    json!({
        "episode_id": id,
        "device_info": {
            "product": phone.product,
            "release_version": phone.release,
            "sdk_version": phone.sdk,
            "h": phone.h,
            "w": phone.w,
            "device_name": phone.name,
        },
        "task_info": task_info(played, rng),
        "step_length": steps.len(),
        "steps": steps,
    })
}

fn task_info(played: &Played<'_>, rng: &mut ChaCha8Rng) -> Value {
    let mut apps: Vec<&str> = Vec::new();
    for segment in &played.segments {
        if !apps.contains(&segment.app.name.as_str()) {
            apps.push(&segment.app.name);
        }
    }
    let category = if apps.len() > 1 { "Multi_Apps" } else { played.segments[0].app.category.as_str() };
    let patterns: Vec<String> = played
        .segments
        .iter()
        .map(|s| s.template.phrasings.choose(rng).cloned().unwrap_or_default())
        .collect();
    let filled: Vec<String> = patterns.iter().map(|p| fill(p, &played.bind)).collect();
    let goals: Vec<String> =
        played.segments.iter().map(|s| format!("{} in {}", s.goal, s.app.name)).collect();
    json!({
        "category": category,
        "app": apps,
        "meta_task": task(&patterns, rng),
        "task": task(&filled, rng),
        "instruction": task(&goals, rng),
    })
}

fn step(m: &Move<'_>, words: &Words, k: usize, phone: &Phone, id: &str, rng: &mut ChaCha8Rng) -> Value {
    let target = m.target.as_ref().filter(|_| matches!(m.act, Act::Do(Do::Tap | Do::Long | Do::Select)));
    let bbox = target.map(|t| thousandths(t.rect, phone.canvas));
    let point = bbox.map(|[x1, y1, x2, y2]| {
        let inner = |a: i32, b: i32, rng: &mut ChaCha8Rng| {
            let margin = (b - a) / 5;
            rng.random_range(a + margin..=b - margin)
        };
        [inner(x1, x2, rng), inner(y1, y2, rng)]
    });
    let (action, info, ps) = match m.act {
        Act::Home => ("CLICK", json!("KEY_HOME"), json!("")),
        Act::Back => ("CLICK", json!("KEY_BACK"), json!("")),
        Act::Recents => ("CLICK", json!("KEY_APPSELECT"), json!("")),
        Act::Complete => ("COMPLETE", json!(""), json!("The task is finished.")),
        Act::Do(Do::Type) => ("TEXT", json!(m.text), json!("")),
        Act::Do(Do::Long) => ("LONG_PRESS", json!([point]), json!("")),
        Act::Do(Do::Scroll(direction)) => {
            let trace = swipe(direction, rng);
            let text = trace.iter().map(|[x, y]| format!("({x}, {y})")).collect::<Vec<_>>().join(", ");
            ("SCROLL", json!([trace[0], trace[trace.len() - 1]]), json!(format!("[{text}]")))
        }
        Act::Do(_) => ("CLICK", json!([point]), json!("")),
    };
    json!({
        "step": k,
        "screenshot": format!("{id}_{k}.png"),
        "action": action,
        "info": info,
        "ps": ps,
        "description": words.description,
        "intention": words.intention,
        "context": words.context,
        "low_level_instruction": words.instruction,
        "sam2_bbox": bbox.map_or_else(Vec::new, |b| b.to_vec()),
    })
}

/// The finger's path, against the direction in which the content is revealed.
fn swipe(direction: Direction, rng: &mut ChaCha8Rng) -> Vec<[i32; 2]> {
    let (x, from) = (rng.random_range(400..600), rng.random_range(640..740));
    let length = rng.random_range(300..420);
    let path = (0..=4).map(|k| [x + rng.random_range(-6..=6), from - length * k / 4]);
    let mut path: Vec<_> = path.collect();
    if direction == Direction::Up {
        path.reverse();
    }
    path
}
