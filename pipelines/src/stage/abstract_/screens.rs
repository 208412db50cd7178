//! What the screens of an episode show: each step's change, its crops, and pictures that could not be read.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tracemill_data::action::ScreenSize;
use tracemill_data::artifact::StateStep;
use tracemill_data::export::Pictures;
use tracemill_data::picture::Rgb;
use tracemill_data::prompt::step_trace;
use tracemill_data::trace::{Element, EpisodeRow, StepRow};
use tracemill_models::state::{
    Change, ElementChange, LABELER, Picture, PixelChange, Region, Unseen, abstract_step, changed_region,
    element_change, focus,
};
use xxhash_rust::xxh3::xxh3_128;

/// A picture that could not be used; a line of `rejects.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PictureReject {
    /// The picture, as the trace names it.
    pub file: String,
    /// The episode.
    pub episode_id: String,
    /// The step whose screen it is.
    pub key: String,
    /// `missing` or `unreadable`.
    pub kind: String,
    /// The reason and the remedy.
    pub reason: String,
}

/// How screens are compared.
pub struct Screens<'a> {
    /// Where pictures lie.
    pub pictures: &'a Pictures,
    /// Where crops go.
    pub crops: Option<PathBuf>,
    /// See `abstract.margin_px`.
    pub margin_px: u32,
}

/// The steps of an episode as the rules abstract them.
pub struct Seen {
    /// One for each step.
    pub steps: Vec<StateStep>,
    /// The elements' difference, where both screens have elements.
    pub elements: Vec<Option<ElementChange>>,
    /// Pictures that could not be used.
    pub rejects: Vec<PictureReject>,
    /// Pictures that the source names.
    pub pictures: u64,
}

/// A step's picture.
#[derive(Clone)]
enum Shown {
    /// The source names none.
    None,
    /// It could not be used.
    Unreadable,
    Picture(Arc<Loaded>),
}

struct Loaded {
    encoded: Vec<u8>,
    rgb: Rgb,
    hash: String,
}

impl Screens<'_> {
    /// Abstracts the steps of an episode by rule. Of its pictures two are held at a time.
    ///
    /// # Errors
    /// A crop that cannot be written.
    pub fn episode(&self, episode: &EpisodeRow, steps: &[StepRow]) -> Result<Seen> {
        let mut seen = Seen { steps: Vec::new(), elements: Vec::new(), rejects: Vec::new(), pictures: 0 };
        let is_phone = episode.platform == "mobile";
        let mut before =
            steps.first().map_or(Shown::None, |s| self.load(s, is_phone, &Shown::None, &mut seen));
        for (at, step) in steps.iter().enumerate() {
            let next = steps.get(at + 1);
            let shared = next.is_some_and(|n| n.screenshot.is_some() && n.screenshot == step.screenshot);
            let after = match next {
                _ if shared => before.clone(),
                Some(next) => self.load(next, is_phone, &before, &mut seen),
                None => Shown::None,
            };
            let elements = next.and_then(|next| elements_of(step, next));
            // The picture's size is the screen's where the source says none.
            let sized = sized(step, &before);
            let row =
                self.step(sized.as_ref().unwrap_or(step), next, (&before, &after), elements.as_ref())?;
            seen.steps.push(row);
            seen.elements.push(elements);
            before = after;
        }
        Ok(seen)
    }

    fn load(&self, step: &StepRow, is_phone: bool, before: &Shown, seen: &mut Seen) -> Shown {
        let Some(name) = &step.screenshot else { return Shown::None };
        seen.pictures += 1;
        let mut refuse = |kind: &str, reason: String| {
            seen.rejects.push(PictureReject {
                file: name.clone(),
                episode_id: step.episode_id.clone(),
                key: format!("step {}", step.step),
                kind: kind.to_owned(),
                reason,
            });
            Shown::Unreadable
        };
        let Some(path) = self.pictures.find(name) else {
            return refuse(
                "missing",
                "not under the folders that the traces were read from (--image-root names another)"
                    .to_owned(),
            );
        };
        let encoded = match std::fs::read(&path) {
            Ok(encoded) => encoded,
            Err(error) => return refuse("unreadable", error.to_string()),
        };
        if let Shown::Picture(same) = before
            && same.encoded == encoded
        {
            return before.clone();
        }
        match Rgb::decode(&encoded) {
            Ok(rgb) => {
                let hash = rgb.content_hash(is_phone);
                Shown::Picture(Arc::new(Loaded { encoded, rgb, hash }))
            }
            Err(error) => refuse("unreadable", format!("{error}; PNG and JPEG are read: replace the file")),
        }
    }

    fn step(
        &self,
        step: &StepRow,
        next: Option<&StepRow>,
        (before, after): (&Shown, &Shown),
        elements: Option<&ElementChange>,
    ) -> Result<StateStep> {
        let shared = next.is_some_and(|n| n.screenshot.is_some() && n.screenshot == step.screenshot);
        let mut row = blank(step);
        let (change, crops) = match (next, before, after) {
            (None, ..) => (Change::Unseen(Unseen::Last), None),
            _ if shared => (Change::Unseen(Unseen::SamePicture), None),
            (_, Shown::Picture(before), Shown::Picture(after)) => {
                "pixels".clone_into(&mut row.seen_in);
                let pair = (picture(&before.rgb), picture(&after.rgb));
                let change = changed_region(pair.0, pair.1, self.margin_px);
                let told = elements.filter(|told| change == PixelChange::None && !told.is_none());
                if let Some((told, next)) = told.zip(next) {
                    // Some recorders miss a picture and not its tree; never the other way round.
                    "elements".clone_into(&mut row.seen_in);
                    (of_elements(told, step, next), None)
                } else {
                    (of_pixels(change, pair, step.truth().point), crops_of(change, before, after))
                }
            }
            (Some(next), ..) => match elements {
                Some(change) => {
                    "elements".clone_into(&mut row.seen_in);
                    (of_elements(change, step, next), None)
                }
                None if matches!((before, after), (Shown::None, _) | (_, Shown::None)) => {
                    (Change::Unseen(Unseen::NoScreen), None)
                }
                None => (Change::Unseen(Unseen::Unreadable), None),
            },
        };
        if let (Some(folder), Some([before, after])) = (&self.crops, crops) {
            let stored =
                |crop: Rgb| crop.store(folder).with_context(|| format!("{}: a crop", folder.display()));
            row.crop_before = Some(stored(before)?);
            row.crop_after = Some(stored(after)?);
        }
        match before {
            Shown::Picture(loaded) => {
                row.screen_hash = Some(loaded.hash.clone());
                row.width_px = Some(loaded.rgb.width_px);
                row.height_px = Some(loaded.rgb.height_px);
            }
            _ if !step.elements.is_empty() => row.screen_hash = Some(hash_of(&step.elements)),
            _ => {}
        }
        fill(&mut row, change);
        let seen = elements.zip(next).map(|(change, next)| (&step.elements[..], &next.elements[..], change));
        let told = abstract_step(step, change, seen);
        (row.text, row.outcome, row.evidence) = (told.text, told.outcome, told.evidence);
        Ok(row)
    }
}

/// A row with nothing but the step and its words.
fn blank(step: &StepRow) -> StateStep {
    StateStep {
        episode_id: step.episode_id.clone(),
        step: step.step,
        action: action_words(step),
        change: String::new(),
        seen_in: String::new(),
        left_px: None,
        top_px: None,
        right_px: None,
        bottom_px: None,
        share: None,
        changed_share: None,
        crop_before: None,
        crop_after: None,
        screen_hash: None,
        width_px: step.screen_width_px,
        height_px: step.screen_height_px,
        text: String::new(),
        outcome: tracemill_data::artifact::StepOutcome::Unknown,
        evidence: String::new(),
        labeler: LABELER.to_owned(),
    }
}

/// What was done: the source's instruction, else words by rule, with the coordinates as the paper keeps them.
fn action_words(step: &StepRow) -> String {
    let own = step.instruction.as_deref().map(str::trim).filter(|words| !words.is_empty());
    let words = own.map_or_else(|| step_trace(step), str::to_owned);
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = words.contains("the point (");
    match step.truth().point.filter(|_| !told) {
        Some([x, y]) => {
            format!("{} [{}({},{})]", words.trim_end_matches('.'), step.action, x.round(), y.round())
        }
        None => words,
    }
}

fn fill(row: &mut StateStep, change: Change) {
    change.name().clone_into(&mut row.change);
    let region = match change {
        Change::Part { region, share, focus } => {
            row.share = share;
            row.changed_share = focus.map(|focus| focus.share).or(share);
            region
        }
        Change::Resized => {
            (row.share, row.changed_share) = (Some(1.0), Some(1.0));
            row.width_px.zip(row.height_px).map(|(w, h)| Region::whole(w, h))
        }
        Change::None | Change::SameElements => {
            (row.share, row.changed_share) = (Some(0.0), Some(0.0));
            None
        }
        Change::Unseen(_) => None,
    };
    if let Some(Region { left_px, top_px, right_px, bottom_px }) = region {
        (row.left_px, row.top_px) = (Some(left_px), Some(top_px));
        (row.right_px, row.bottom_px) = (Some(right_px), Some(bottom_px));
    }
}

fn picture(rgb: &Rgb) -> Picture<'_> {
    Picture { width_px: rgb.width_px, height_px: rgb.height_px, rgb: &rgb.bytes }
}

/// The step with the size of its picture, where the source says none.
fn sized(step: &StepRow, shown: &Shown) -> Option<StepRow> {
    let Shown::Picture(loaded) = shown else { return None };
    step.screen_width_px.is_none().then(|| StepRow {
        screen_width_px: Some(loaded.rgb.width_px),
        screen_height_px: Some(loaded.rgb.height_px),
        ..step.clone()
    })
}

fn of_pixels(
    change: PixelChange,
    (before, after): (Picture<'_>, Picture<'_>),
    point: Option<[f64; 2]>,
) -> Change {
    match change {
        PixelChange::None => Change::None,
        PixelChange::Resized => Change::Resized,
        PixelChange::Region(region) => {
            let share = Some(region.share(before.width_px, before.height_px));
            Change::Part { region: Some(region), share, focus: Some(focus(before, after, region, point)) }
        }
    }
}

/// The region on both screens; of screens of two sizes, all of each.
fn crops_of(change: PixelChange, before: &Loaded, after: &Loaded) -> Option<[Rgb; 2]> {
    match change {
        PixelChange::None => None,
        PixelChange::Region(region) => Some([&before.rgb, &after.rgb].map(|rgb| rgb.crop(region.corners()))),
        PixelChange::Resized => Some([before.rgb.clone(), after.rgb.clone()]),
    }
}

fn elements_of(before: &StepRow, after: &StepRow) -> Option<ElementChange> {
    let both = !before.elements.is_empty() && !after.elements.is_empty();
    both.then(|| element_change(&before.elements, &after.elements, size_of(before).or(size_of(after))))
}

fn size_of(step: &StepRow) -> Option<ScreenSize> {
    let (width_px, height_px) = step.screen_width_px.zip(step.screen_height_px)?;
    Some(ScreenSize { width_px, height_px })
}

fn of_elements(change: &ElementChange, before: &StepRow, after: &StepRow) -> Change {
    let sizes = size_of(before).zip(size_of(after));
    if sizes.is_some_and(|(before, after)| before != after) {
        return Change::Resized;
    }
    if change.is_none() {
        return Change::SameElements;
    }
    let share = change.region.zip(size_of(before)).map(|(r, size)| r.share(size.width_px, size.height_px));
    Change::Part { region: change.region, share, focus: None }
}

/// Hash of what a screen's elements say, whatever their ids.
fn hash_of(elements: &[Element]) -> String {
    let told: Vec<_> = elements.iter().map(|e| (&e.role, &e.text, &e.states)).collect();
    format!("{:032x}", xxh3_128(format!("{told:?}").as_bytes()))
}
