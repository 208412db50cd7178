//! `abstract tokens`: what a policy reads and pays at each step under full history, a sliding window and `HiSA`
//! (section 3.5, figure 1b), by module (table 4), with the ablations of tables 5 and 6; in `R/tokens`.
//!
//! Nothing is run: prompts are counted as they would be sent. Success rates and the number of steps, which the paper's
//! tables show beside tokens, cannot be known that way; every variant is counted over the recorded steps.
//!
//! | variant | history at step `t` | screens |
//! | --- | --- | --- |
//! | full history | every raw step (thought and action) | every one so far |
//! | sliding window | every raw step (Eq. 2) | the current one and `W` before it (Eq. 1) |
//! | `HiSA` | the refined context, abstracted steps since, lessons (Eq. 3) | the current one |

mod chart;
mod cost;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::json;
use tracemill_data::export::action_text;
use tracemill_data::prompt::{Template, registry, screen_text};
use tracemill_data::trace::StepRow;
use tracemill_models::state::{Done, RefineSettings, domain_of, synthesise};

use super::contexts::{Refining, done};
use super::{Abstracted, States, TokensSection, abstracted, states};
use crate::progress;
use crate::run::{Draft, Report, Run, StageInput, StageSpec, write_json};
use crate::settings::Settings;
use crate::stage::lessons;
use crate::table::{self, Table, grouped};
use crate::tokens::Counter;
use cost::{ImageCounter, Prices};

/// Episodes counted at a time.
const BATCH: usize = 64;
/// Refinement intervals of table 6.
const INTERVALS: [u32; 4] = [3, 5, 7, 9];

/// Who reads and writes tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Module {
    /// The policy, at every step.
    Decision,
    /// Abstracted steps.
    Abstraction,
    /// Refined contexts.
    Refinement,
    /// Lessons of the episode.
    Induction,
    /// Lessons for the episode.
    Retrieval,
}

/// Tokens of one module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// Text read.
    pub text_in: u64,
    /// Pictures read.
    pub image_in: u64,
    /// Text written.
    pub out: u64,
}

impl Tokens {
    fn total(self) -> u64 {
        self.text_in + self.image_in + self.out
    }
}

impl std::ops::AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.text_in += other.text_in;
        self.image_in += other.image_in;
        self.out += other.out;
    }
}

/// A way to keep history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum History {
    Full,
    Window,
    Hisa { every: u32, regions: bool, abstraction: bool, refinement: bool, lessons: bool },
}

/// `HiSA` as it is, with this interval.
fn hisa(every: u32) -> History {
    History::Hisa { every, regions: true, abstraction: true, refinement: true, lessons: true }
}

fn variants(section: &TokensSection, every: u32) -> Vec<(String, History)> {
    let mut variants = vec![
        ("full history".to_owned(), History::Full),
        (format!("sliding window, {} pictures", section.window), History::Window),
        (format!("HiSA, N = {every}"), hisa(every)),
    ];
    variants.extend(INTERVALS.iter().filter(|n| **n != every).map(|&n| (format!("HiSA, N = {n}"), hisa(n))));
    let without = [
        ("HiSA without regions", [false, true, true, true]),
        ("HiSA without step abstraction", [true, false, true, true]),
        ("HiSA without context refinement", [true, true, false, true]),
        ("HiSA without lessons", [true, true, true, false]),
    ];
    variants.extend(without.into_iter().map(|(name, [regions, abstraction, refinement, lessons])| {
        (name.to_owned(), History::Hisa { every, regions, abstraction, refinement, lessons })
    }));
    variants
}

/// Tokens of an episode under one variant.
struct Counted {
    modules: BTreeMap<Module, Tokens>,
    /// What the policy reads at each step.
    decisions: Vec<Tokens>,
    /// Everything read and written up to each step, by all modules.
    spent: Vec<u64>,
}

/// Sums over episodes under one variant.
#[derive(Default)]
struct Total {
    modules: BTreeMap<Module, Tokens>,
    /// By step: episodes that have it, text and image tokens of its decision, all tokens up to it.
    curve: Vec<(u64, u64, u64, u64)>,
}

/// Counts the tokens of a run.
///
/// # Errors
/// Missing states, settings that cannot work.
pub fn run(settings: &Settings, run: &Run) -> Result<Report> {
    let section = &settings.abstraction.tokens;
    let prices = Prices::read(section.prices.as_deref())?;
    let has_lessons = run.path("lessons/lessons.parquet").exists();
    let mut inputs = vec![
        StageInput::FromStage("traces/episodes.parquet", "ingest"),
        StageInput::FromStage("traces/steps.parquet", "ingest"),
        StageInput::FromStage("states/steps.parquet", "abstract"),
        StageInput::FromStage("states/states.parquet", "abstract"),
    ];
    inputs.extend(has_lessons.then_some(StageInput::FromStage("lessons/lessons.parquet", "lessons build")));
    let spec = StageSpec {
        name: "tokens",
        folder: "tokens",
        settings: json!({ "tokens": section, "refine": settings.abstraction.refine, "prices": prices, "lessons": settings.lessons.store }),
        seed: settings.seed,
        inputs,
    };
    run.stage(&spec, |draft| {
        let lessons = has_lessons.then(|| lessons::Opened::open(settings, run)).transpose()?;
        let texts = Counter::named(&section.text).context("abstract.tokens.text")?;
        let images = ImageCounter::of(section);
        let refine = settings.abstraction.refine;
        let count = |t: &Template| (texts.count(&t.system) + texts.count(&t.user)) as u64;
        let templates = registry().templates().map(|(name, template)| (name, count(template))).collect();
        let states = states(run)?;
        Accounting { section, refine, texts, templates, images, prices, lessons, states }.count(run, draft)
    })
}

struct Accounting<'a> {
    section: &'a TokensSection,
    refine: RefineSettings,
    texts: Counter,
    /// Tokens of each prompt without its values.
    templates: BTreeMap<&'static str, u64>,
    images: ImageCounter,
    prices: Prices,
    lessons: Option<lessons::Opened>,
    states: States,
}

/// What every variant counts of an episode: tokens of its parts.
struct Parts {
    /// The policy's prompt without history and screen.
    fixed: u64,
    /// Each step's screen: text, picture.
    screens: Vec<(u64, u64)>,
    /// Each step's raw record: thought and action.
    raw: Vec<u64>,
    done: Vec<Done>,
    /// Each abstracted step.
    told: Vec<u64>,
    /// What the abstraction of each step reads of regions and of whole screens, and writes; 0 where none is asked.
    regions: Vec<u64>,
    wholes: Vec<u64>,
    asks: Vec<bool>,
    results: Vec<u64>,
    /// Lessons told at the start, and read for that.
    lessons: (u64, u64),
}

impl Accounting<'_> {
    fn count(&self, run: &Run, draft: &mut Draft) -> Result<()> {
        let variants = variants(self.section, self.refine.every);
        let mut totals: Vec<Total> = variants.iter().map(|_| Total::default()).collect();
        let (mut episodes, mut steps) = (0_u64, 0_u64);
        let bar = progress::bar("tokens", "episodes", None);
        let mut all = abstracted(run)?;
        loop {
            let batch: Vec<Abstracted> = all.by_ref().take(BATCH).collect::<Result<_>>()?;
            if batch.is_empty() {
                break;
            }
            let counted: Vec<Vec<Counted>> = batch
                .par_iter()
                .map(|episode| {
                    let parts = self.parts(episode)?;
                    Ok(variants.iter().map(|(_, history)| self.episode(episode, &parts, *history)).collect())
                })
                .collect::<Result<_>>()?;
            for one in &counted {
                totals.iter_mut().zip(one).for_each(|(total, counted)| total.add(counted));
            }
            episodes += batch.len() as u64;
            steps += batch.iter().map(|(_, steps, _)| steps.len() as u64).sum::<u64>();
            bar.inc(batch.len() as u64);
        }
        bar.finish_and_clear();
        let names: Vec<&str> = variants.iter().map(|(name, _)| name.as_str()).collect();
        let rows: Vec<_> =
            names.iter().zip(&totals).map(|(name, total)| total.json(name, episodes, &self.prices)).collect();
        write_json(
            &draft.path("tokens.json"),
            &json!({ "episodes": episodes, "steps": steps, "variants": rows }),
        )?;
        std::fs::write(draft.path("tokens.svg"), chart::curves(&names[..3], &totals[..3])?)?;
        draft.count("episodes", episodes);
        draft.count("steps", steps);
        table::print(&summary(&names, &totals, episodes, &self.prices));
        Ok(())
    }

    fn text(&self, text: &str) -> u64 {
        self.texts.count(text) as u64
    }

    fn template(&self, name: &str) -> u64 {
        self.templates.get(name).copied().unwrap_or_default()
    }

    fn parts(&self, (episode, steps, states): &Abstracted) -> Result<Parts> {
        let whole = |i: usize| {
            let size = states[i].width_px.zip(states[i].height_px);
            let pictured = states[i].screen_hash.is_some()
                && states[i].width_px.is_some()
                && steps[i].screenshot.is_some();
            size.filter(|_| pictured).map_or(0, |(w, h)| self.images.screen(w, h))
        };
        let screen = |i: usize| match whole(i) {
            0 if !steps[i].elements.is_empty() => (self.text(&screen_text(&steps[i].elements)), 0),
            tokens => (0, tokens),
        };
        let region = |i: usize| {
            let state = &states[i];
            let (Some(left), Some(top), Some(right), Some(bottom)) =
                (state.left_px, state.top_px, state.right_px, state.bottom_px)
            else {
                return 0;
            };
            let size = state.width_px.zip(state.height_px).unwrap_or((right, bottom));
            if state.seen_in == "pixels" {
                2 * self.images.region((right - left, bottom - top), size)
            } else {
                0
            }
        };
        let done: Vec<Done> =
            (1..).zip(steps.iter().zip(states)).map(|(n, (step, state))| done(n, step, state)).collect();
        let all = || 0..steps.len();
        let asks: Vec<bool> =
            states.iter().map(|s| matches!(s.change.as_str(), "region" | "resized")).collect();
        let lessons = match &self.lessons {
            None => (0, 0),
            Some(_) if episode.instruction.trim().is_empty() => (0, 0),
            Some(opened) => {
                let found = opened.retrieve(&episode.instruction, Some(&domain_of(episode)), None)?;
                let read: u64 = found.hits.iter().map(|h| self.text(&h.lesson.text)).sum();
                let required: u64 = found.required.iter().map(|l| self.text(&l.text)).sum();
                (self.text(&synthesise(&found).join("\n")), read + required)
            }
        };
        Ok(Parts {
            fixed: self.template("coordinator") + self.text(&episode.instruction),
            screens: all().map(screen).collect(),
            raw: steps.iter().map(|step| self.text(&raw(step))).collect(),
            told: done.iter().map(|done| self.text(&done.text())).collect(),
            regions: all().map(|i| if asks[i] { region(i) } else { 0 }).collect(),
            wholes: all().map(|i| if asks[i] && region(i) > 0 { 2 * whole(i) } else { 0 }).collect(),
            results: states.iter().map(|s| self.text(&s.text)).collect(),
            asks,
            done,
            lessons,
        })
    }

    fn episode(&self, episode: &Abstracted, parts: &Parts, history: History) -> Counted {
        let steps = parts.raw.len();
        let mut counted = Counted { modules: BTreeMap::new(), decisions: Vec::new(), spent: Vec::new() };
        let lessons = match history {
            History::Hisa { lessons: true, .. } if parts.lessons.1 > 0 => parts.lessons.0,
            _ => 0,
        };
        if lessons > 0 {
            let read = self.template("lesson-synthesis") + parts.lessons.1;
            counted.add(Module::Retrieval, Tokens { text_in: read, out: lessons, ..Tokens::default() });
        }
        let told = self.histories(episode, parts, history);
        let sum = |values: &[u64]| values.iter().sum::<u64>();
        for t in 0..steps {
            let screens = match history {
                History::Full => 0..t + 1,
                History::Window => t.saturating_sub(self.section.window as usize)..t + 1,
                History::Hisa { .. } => t..t + 1,
            };
            let seen = parts.screens[screens].iter().fold((0, 0), |sum, s| (sum.0 + s.0, sum.1 + s.1));
            let text = match history {
                History::Full | History::Window => sum(&parts.raw[..t]),
                History::Hisa { .. } => told[t],
            };
            let read = Tokens {
                text_in: parts.fixed + lessons + text + seen.0,
                image_in: seen.1,
                out: parts.raw[t],
            };
            counted.add(Module::Decision, read);
            if let History::Hisa { every, regions, abstraction, refinement, .. } = history {
                if abstraction && parts.asks[t] {
                    let image_in = if regions { parts.regions[t] } else { parts.wholes[t] };
                    let text_in = self.template("state-abstraction") + self.text(&parts.done[t].words);
                    counted.add(Module::Abstraction, Tokens { text_in, image_in, out: parts.results[t] });
                }
                // Refined before the next decision, where there is one.
                let end = t + 1;
                if refinement && end.is_multiple_of(every as usize) && end < steps {
                    let new = if abstraction {
                        sum(&parts.told[end - every as usize..end])
                    } else {
                        sum(&parts.raw[end - every as usize..end])
                    };
                    let before = if end > every as usize { told[end - every as usize] } else { 0 };
                    let text_in = self.template("state-refinement") + parts.fixed + before + new;
                    counted.add(Module::Refinement, Tokens { text_in, out: told[end], ..Tokens::default() });
                }
            }
            counted.decisions.push(read);
            counted.spent.push(counted.modules.values().map(|t| t.total()).sum());
        }
        if let History::Hisa { lessons: true, abstraction, .. } = history {
            let text = if abstraction { sum(&parts.told) + sum(&parts.results) } else { sum(&parts.raw) };
            let text_in = self.template("lesson-induction") + parts.fixed + text;
            counted.add(Module::Induction, Tokens { text_in, ..Tokens::default() });
        }
        counted
    }

    /// Tokens of the history that `HiSA` tells before each step.
    fn histories(&self, (episode, steps, states): &Abstracted, parts: &Parts, history: History) -> Vec<u64> {
        let History::Hisa { every, abstraction, refinement, .. } = history else { return Vec::new() };
        let settings = RefineSettings { every, ..self.refine };
        if !refinement {
            // The paper falls back on a window of five steps.
            let of = if abstraction { &parts.told } else { &parts.raw };
            return (0..=steps.len()).map(|t| of[t.saturating_sub(5)..t].iter().sum()).collect();
        }
        let mut refining = Refining::new(episode, steps, states, settings);
        while refining.due().is_some() {
            refining.refine(None);
        }
        let text = |t: usize| {
            let own = (every == self.refine.every)
                .then(|| self.states.get(&(episode.episode_id.clone(), t as u32)));
            own.flatten().map_or(refining.states[t].text.as_str(), |(text, _)| text.as_str()).to_owned()
        };
        let tokens = |t: usize| {
            if abstraction {
                return self.text(&text(t));
            }
            // The context as it is, and the steps since as they were recorded.
            let from = (t.saturating_sub(1) / every as usize * every as usize).min(t);
            let from = if t.is_multiple_of(every as usize) && t < steps.len() { t } else { from };
            let context = if from == 0 { 0 } else { self.text(&text(from)) };
            context + parts.raw[from..t].iter().sum::<u64>()
        };
        (0..=steps.len()).map(tokens).collect()
    }
}

/// A step as a log keeps it: what was thought and what was done.
fn raw(step: &StepRow) -> String {
    let said =
        [&step.description, &step.thought, &step.instruction].into_iter().flatten().map(String::as_str);
    let said = said.collect::<Vec<_>>().join(" ");
    format!("Step {}: {said} {}", step.step + 1, action_text(step))
}

impl Counted {
    fn add(&mut self, module: Module, tokens: Tokens) {
        *self.modules.entry(module).or_default() += tokens;
    }
}

impl Total {
    fn add(&mut self, counted: &Counted) {
        for (module, tokens) in &counted.modules {
            *self.modules.entry(*module).or_default() += *tokens;
        }
        if self.curve.len() < counted.decisions.len() {
            self.curve.resize(counted.decisions.len(), (0, 0, 0, 0));
        }
        for (sum, (decision, spent)) in
            self.curve.iter_mut().zip(counted.decisions.iter().zip(&counted.spent))
        {
            *sum = (sum.0 + 1, sum.1 + decision.text_in, sum.2 + decision.image_in, sum.3 + spent);
        }
    }

    fn all(&self) -> Tokens {
        self.modules.values().fold(Tokens::default(), |mut sum, tokens| {
            sum += *tokens;
            sum
        })
    }

    fn cost(&self, prices: &Prices) -> f64 {
        self.modules.iter().map(|(module, tokens)| prices.of(*module, *tokens)).sum()
    }

    fn json(&self, name: &str, episodes: u64, prices: &Prices) -> serde_json::Value {
        let curve: Vec<_> = (1..).zip(&self.curve).map(|(step, (n, text, image, spent))| {
            let mean = |sum: u64| sum as f64 / *n as f64;
            json!({ "step": step, "episodes": n, "text": mean(*text), "image": mean(*image), "cumulative": mean(*spent) })
        }).collect();
        json!({
            "variant": name, "modules": self.modules, "total": self.all(), "per_task": self.all().total() as f64 / episodes.max(1) as f64,
            "usd_per_task": self.cost(prices) / episodes.max(1) as f64, "curve": curve,
        })
    }
}

fn summary(names: &[&str], totals: &[Total], episodes: u64, prices: &Prices) -> String {
    let per_task = |sum: u64| grouped((sum as f64 / episodes.max(1) as f64).round() as i64);
    let columns = [
        "variant",
        "text in",
        "image in",
        "out",
        "decision",
        "abstraction",
        "refinement",
        "lessons",
        "total",
        "USD",
    ];
    let mut table = Table::new(&columns);
    for (name, total) in names.iter().zip(totals) {
        let all = total.all();
        let of = |modules: &[Module]| {
            modules.iter().filter_map(|m| total.modules.get(m)).map(|t| t.total()).sum::<u64>()
        };
        table.row(&[
            name,
            &per_task(all.text_in),
            &per_task(all.image_in),
            &per_task(all.out),
            &per_task(of(&[Module::Decision])),
            &per_task(of(&[Module::Abstraction])),
            &per_task(of(&[Module::Refinement])),
            &per_task(of(&[Module::Induction, Module::Retrieval])),
            &per_task(all.total()),
            &format!("{:.4}", total.cost(prices) / episodes.max(1) as f64),
        ]);
    }
    format!(
        "{table}\nTokens for each task, means over {} episodes; the number of steps is the recorded one.\n",
        grouped(episodes as i64)
    )
}
