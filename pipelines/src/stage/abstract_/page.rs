//! `R/states/page.html`: some steps with their screens, the changed region drawn, the crops and the abstracted step.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};
use serde::Serialize;
use tracemill_data::artifact::StateStep;
use tracemill_data::export::Pictures;
use tracemill_data::picture::{Corners, Rgb};
use tracemill_data::trace::StepRow;

use crate::manifest;

const TEMPLATE: &str = include_str!("page.html");
/// Longest side of a picture of the page, in pixels.
const SIDE_PX: u32 = 480;

/// Steps for the page, spread over a run whose length is not known before its end: every step is kept until there
/// are twice too many, then every other one, and from then on every second, fourth, … step.
pub struct Sample {
    wanted: usize,
    stride: usize,
    seen: usize,
    kept: Vec<Kept>,
}

struct Kept {
    row: StateStep,
    before: Option<String>,
    after: Option<String>,
}

impl Sample {
    /// A sample of about `wanted` steps.
    pub fn new(wanted: usize) -> Self {
        Self { wanted, stride: 1, seen: 0, kept: Vec::new() }
    }

    /// Looks at an episode; only steps with a change that was looked for in pictures are shown.
    pub fn see(&mut self, steps: &[StepRow], rows: &[StateStep]) {
        for (i, row) in rows.iter().enumerate().filter(|(_, row)| row.seen_in == "pixels") {
            if self.wanted > 0 && self.seen.is_multiple_of(self.stride) {
                let after = steps.get(i + 1).and_then(|s| s.screenshot.clone());
                self.kept.push(Kept { row: row.clone(), before: steps[i].screenshot.clone(), after });
            }
            self.seen += 1;
            if self.kept.len() > 2 * self.wanted {
                self.stride *= 2;
                let mut at = 0;
                self.kept.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
            }
        }
    }
}

#[derive(Serialize)]
struct Card {
    row: StateStep,
    share: String,
    changed: String,
    before: Option<String>,
    after: Option<String>,
    crop_before: Option<String>,
    crop_after: Option<String>,
}

/// The page.
///
/// # Errors
/// Those of the template.
pub fn render(sample: Sample, pictures: &Pictures) -> Result<String> {
    let cards: Vec<Card> =
        sample.kept.into_iter().take(sample.wanted).map(|kept| card(kept, pictures)).collect();
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_template("page", TEMPLATE)?;
    let page = environment.get_template("page")?;
    Ok(page.render(context! { tool => manifest::tool(), seen => sample.seen, cards => Serde(cards) })?)
}

fn card(kept: Kept, pictures: &Pictures) -> Card {
    let Kept { row, before, after } = kept;
    let decoded =
        |name: &Option<String>| Rgb::decode(&std::fs::read(pictures.find(name.as_ref()?)?).ok()?).ok();
    let (before, after) = (decoded(&before), decoded(&after));
    let corners = || Some([row.left_px?, row.top_px?, row.right_px?, row.bottom_px?]);
    let region = corners();
    let of = |rgb: &Option<Rgb>| region.filter(|region| rgb.as_ref().is_some_and(|rgb| rgb.holds(*region)));
    let crop = |rgb: &Option<Rgb>| data_url(&rgb.as_ref()?.crop(of(rgb)?), None);
    Card {
        share: row.share.map(|share| format!("{:.2} %", share * 100.0)).unwrap_or_default(),
        changed: row.changed_share.map(|share| format!("{:.2} %", share * 100.0)).unwrap_or_default(),
        crop_before: crop(&before),
        crop_after: crop(&after),
        before: before.as_ref().and_then(|rgb| data_url(rgb, of(&before))),
        after: after.as_ref().and_then(|rgb| data_url(rgb, of(&after))),
        row,
    }
}

/// A picture scaled to fit the page, with a box drawn.
fn data_url(rgb: &Rgb, region: Option<Corners>) -> Option<String> {
    let jpeg = rgb.thumbnail(SIDE_PX, region).ok()?;
    Some(format!("data:image/jpeg;base64,{}", STANDARD.encode(jpeg)))
}
