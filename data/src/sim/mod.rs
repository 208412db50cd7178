//! The sample corpus: a simulated phone and desktop on which tasks with known intents are played.
//!
//! The world is data (`phone.toml`, `desktop.toml`): applications with screens and elements, and
//! task templates with parameters, phrasings and steps. An interpreter walks it, and every step
//! carries the hidden truth of why it was taken. Episode `i` draws from its own stream of the
//! seed's generator, so the bytes do not depend on the number of threads.

mod layout;
mod odyssey;
mod render;
mod text;
mod truth;
mod uilog;
mod walk;
mod world;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use odyssey::PHONES;
use truth::Source;
pub use walk::Noise;
use walk::{Played, Why, check, play};
use world::{Device, World};

/// Which simulated devices to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// GUI-Odyssey episodes of the phone.
    pub phone: bool,
    /// UI logs and element trees of the desktop.
    pub desktop: bool,
}

/// What to generate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleSettings {
    /// Phone episodes and desktop sessions together; with both devices, seven in ten are phone.
    pub episodes: u64,
    /// Seed of every draw.
    pub seed: u64,
    /// Which devices.
    pub formats: Devices,
    /// Draws each step's screen as a PNG file.
    pub screens: bool,
}

/// What was generated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SampleReport {
    /// Phone episodes and desktop sessions.
    pub episodes: u64,
    /// Phone episodes.
    pub phone_episodes: u64,
    /// Desktop sessions.
    pub desktop_sessions: u64,
    /// Files the desktop sessions lie in.
    pub desktop_logs: u64,
    /// Steps and log rows, which is the number of lines of `truth.jsonl`.
    pub steps: u64,
    /// PNG files drawn.
    pub screens: u64,
    /// Episodes with at least one kind of noise.
    pub noisy_episodes: u64,
    /// Episodes with each kind of noise.
    pub noise: BTreeMap<Noise, u64>,
    /// Task templates of the devices chosen.
    pub templates: u64,
    /// Applications of the devices chosen.
    pub apps: u64,
}

/// Why a corpus could not be generated.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The output cannot be written.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The output folder holds something already.
    #[error("{path} is not empty; choose a new folder, or empty this one")]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// Neither device was chosen, or no episode was asked for.
    #[error("nothing to generate: ask for at least one episode and one device")]
    Nothing,
    /// A table of the simulated world contradicts itself.
    #[error("{table}: {why}")]
    World {
        /// The table.
        table: &'static str,
        /// What does not fit.
        why: String,
    },
    /// A screen could not be encoded.
    #[error("{path}: {source}")]
    Image {
        /// The file.
        path: PathBuf,
        /// What the encoder said.
        source: image::ImageError,
    },
}

impl SampleError {
    fn world(device: Device, why: String) -> Self {
        let table = match device {
            Device::Phone => "phone.toml",
            Device::Desktop => "desktop.toml",
        };
        Self::World { table, why }
    }

    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// Sessions of one desktop log.
const PER_LOG: u64 = 200;
/// Phone episodes generated between two writes of the truth.
const BATCH: u64 = 2_048;

/// Generates a corpus below `out`, which must be empty or absent. `progress` is called with the
/// number of episodes finished so far, from several threads.
///
/// # Errors
/// Output that cannot be written, or settings that ask for nothing.
pub fn generate(
    out: &Path,
    settings: &SampleSettings,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<SampleReport, SampleError> {
    let (phones, desktops) = settings.shares()?;
    make_empty(out)?;
    let truth_path = out.join("truth.jsonl");
    let truth = File::create(&truth_path).map_err(SampleError::io(&truth_path))?;
    let done = AtomicU64::new(0);
    let mut run = Run { out, settings, done: &done, progress, truth: BufWriter::new(truth), truth_path };
    let mut report = SampleReport::default();
    let mut worlds = Vec::new();
    if phones > 0 {
        let world = load(Device::Phone, PHONES[0].canvas, settings.seed)?;
        run.phone(&world, phones, &mut report)?;
        worlds.push(world);
    }
    if desktops > 0 {
        let world = load(Device::Desktop, uilog::CANVAS, settings.seed)?;
        run.desktop(&world, desktops, &mut report)?;
        worlds.push(world);
    }
    run.truth.flush().map_err(SampleError::io(&run.truth_path))?;
    report.templates = worlds.iter().map(|w| w.templates.len() as u64).sum();
    report.apps = worlds.iter().map(|w| w.apps.len() as u64).sum();
    let templates = truth::templates(&worlds.iter().collect::<Vec<_>>());
    write(&out.join("templates.json"), format!("{templates:#}\n").as_bytes())?;
    write(&out.join("README.md"), truth::readme(settings, &report).as_bytes())?;
    Ok(report)
}

impl SampleSettings {
    /// Episodes of the phone and of the desktop.
    fn shares(&self) -> Result<(u64, u64), SampleError> {
        let Devices { phone, desktop } = self.formats;
        match (self.episodes, phone, desktop) {
            (0, ..) | (_, false, false) => Err(SampleError::Nothing),
            (n, true, false) => Ok((n, 0)),
            (n, false, true) => Ok((0, n)),
            (n, true, true) => {
                let phones = n - n / 10 * 3 - n % 10 * 3 / 10;
                Ok((phones, n - phones))
            }
        }
    }
}

/// The generator of one episode: a stream of its own, whatever runs beside it.
fn stream(seed: u64, device: Device, index: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(index * 2 + u64::from(device == Device::Desktop));
    rng
}

/// Two episodes in five: spread evenly, so that the share holds for small corpora too.
fn is_noisy(index: u64) -> bool {
    matches!(index % 5, 0 | 2)
}

fn load(device: Device, canvas: layout::Canvas, seed: u64) -> Result<World, SampleError> {
    let world = World::load(device)?;
    check(&world, canvas, &mut stream(seed, device, u64::MAX / 4))?;
    Ok(world)
}

fn make_empty(out: &Path) -> Result<(), SampleError> {
    std::fs::create_dir_all(out).map_err(SampleError::io(out))?;
    let mut entries = std::fs::read_dir(out).map_err(SampleError::io(out))?;
    if entries.next().is_some() {
        return Err(SampleError::NotEmpty { path: out.to_owned() });
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), SampleError> {
    std::fs::write(path, bytes).map_err(SampleError::io(path))
}

fn make_folder(path: &Path) -> Result<(), SampleError> {
    std::fs::create_dir_all(path).map_err(SampleError::io(path))
}

/// Truth and counts of one episode or log.
struct Part {
    truth: Vec<u8>,
    report: SampleReport,
}

struct Run<'a> {
    out: &'a Path,
    settings: &'a SampleSettings,
    done: &'a AtomicU64,
    progress: &'a (dyn Fn(u64) + Sync),
    truth: BufWriter<File>,
    truth_path: PathBuf,
}

impl Run<'_> {
    fn phone(&mut self, world: &World, total: u64, report: &mut SampleReport) -> Result<(), SampleError> {
        let root = self.out.join("phone");
        let kinds: &[&str] =
            if self.settings.screens { &["annotations", "screenshots"] } else { &["annotations"] };
        for kind in kinds {
            // Every folder exists before the threads start.
            for first in (0..total).step_by(odyssey::PER_FOLDER as usize) {
                make_folder(&odyssey::folder(&root, kind, first, total))?;
            }
        }
        for start in (0..total).step_by(BATCH as usize) {
            let batch = start..total.min(start + BATCH);
            let parts: Vec<_> =
                batch.into_par_iter().map(|k| self.phone_episode(world, &root, k, total)).collect();
            self.take(parts, report)?;
        }
        split_file(&root, total)
    }

    fn phone_episode(&self, world: &World, root: &Path, index: u64, total: u64) -> Result<Part, SampleError> {
        let mut rng = stream(self.settings.seed, Device::Phone, index);
        let phone = &PHONES[rng.random_range(0..PHONES.len())];
        let played = play(world, phone.canvas, is_noisy(index), &mut rng)?;
        let id = odyssey::episode_id(index);
        let annotation = odyssey::annotation(world, &played, phone, &id, &mut rng);
        let path = odyssey::folder(root, "annotations", index, total).join(format!("{id}.json"));
        write(&path, annotation.to_string().as_bytes())?;
        let mut report = SampleReport { phone_episodes: 1, ..SampleReport::default() };
        if self.settings.screens {
            let folder = odyssey::folder(root, "screenshots", index, total);
            for (k, m) in played.moves.iter().enumerate() {
                render::save(world, m, &played.bind, phone.canvas, &folder.join(format!("{id}_{k}.png")))?;
                report.screens += 1;
            }
        }
        let episode_id = format!("gui-odyssey:{id}");
        let source = Source { episode_id: &episode_id, first_step: 0, task: index, device: Device::Phone };
        let mut truth = Vec::new();
        append_truth(&mut truth, &played, &source, &path)?;
        report.count(&played);
        self.tick();
        Ok(Part { truth, report })
    }

    fn desktop(&mut self, world: &World, total: u64, report: &mut SampleReport) -> Result<(), SampleError> {
        let root = self.out.join("desktop");
        make_folder(&root)?;
        let logs = total.div_ceil(PER_LOG);
        let at_once = 4 * rayon::current_num_threads() as u64;
        for start in (0..logs).step_by(at_once as usize) {
            let batch = start..logs.min(start + at_once);
            let parts: Vec<_> =
                batch.into_par_iter().map(|k| self.desktop_log(world, &root, k, total)).collect();
            self.take(parts, report)?;
        }
        Ok(())
    }

    fn desktop_log(&self, world: &World, root: &Path, index: u64, total: u64) -> Result<Part, SampleError> {
        let mut log = uilog::Log::new(index);
        let mut report = SampleReport { desktop_logs: 1, ..SampleReport::default() };
        let (mut truth, csv) = (Vec::new(), root.join(format!("{}.csv", log.stem)));
        let episode_id = format!("ui-log:{}/{}", log.stem, log.user);
        let screens = root.join("screenshots").join(&log.stem);
        if self.settings.screens {
            make_folder(&screens)?;
        }
        for session in index * PER_LOG..total.min((index + 1) * PER_LOG) {
            let mut rng = stream(self.settings.seed, Device::Desktop, session);
            let played = play(world, uilog::CANVAS, is_noisy(session), &mut rng)?;
            let first_step = log.rows;
            let source =
                Source { episode_id: &episode_id, first_step, task: session, device: Device::Desktop };
            append_truth(&mut truth, &played, &source, &csv)?;
            log.session(world, &played, &mut rng);
            if self.settings.screens {
                for (k, m) in played.moves.iter().enumerate() {
                    let path = screens.join(format!("{}_{}.png", log.stem, first_step + k));
                    render::save(world, m, &played.bind, uilog::CANVAS, &path)?;
                    report.screens += 1;
                }
            }
            report.desktop_sessions += 1;
            report.count(&played);
            self.tick();
        }
        write(&csv, log.csv.as_bytes())?;
        let trees = root.join("trees").join(&log.stem);
        make_folder(&trees)?;
        write(&trees.join("a11y.jsonl"), log.trees.as_bytes())?;
        Ok(Part { truth, report })
    }

    /// Appends the parts in their order.
    fn take(
        &mut self,
        parts: Vec<Result<Part, SampleError>>,
        report: &mut SampleReport,
    ) -> Result<(), SampleError> {
        for part in parts {
            let part = part?;
            self.truth.write_all(&part.truth).map_err(SampleError::io(&self.truth_path))?;
            report.add(&part.report);
        }
        Ok(())
    }

    fn tick(&self) {
        (self.progress)(self.done.fetch_add(1, Ordering::Relaxed) + 1);
    }
}

fn append_truth(
    out: &mut Vec<u8>,
    played: &Played<'_>,
    source: &Source<'_>,
    path: &Path,
) -> Result<(), SampleError> {
    truth::append(out, played, source).map_err(|e| SampleError::io(path)(e.into()))
}

/// `splits/random_split.json`, written name by name: a million of them need no tree in memory.
fn split_file(root: &Path, total: u64) -> Result<(), SampleError> {
    let folder = root.join("splits");
    make_folder(&folder)?;
    let path = folder.join("random_split.json");
    let names = |test: bool| {
        let names = (0..total).filter(|k| odyssey::is_test(*k) == test);
        names.map(|k| format!("\"{}.json\"", odyssey::episode_id(k))).collect::<Vec<_>>().join(",\n")
    };
    let text = format!("{{\"train\": [\n{}\n], \"test\": [\n{}\n]}}\n", names(false), names(true));
    write(&path, text.as_bytes())
}

impl SampleReport {
    fn count(&mut self, played: &Played<'_>) {
        self.episodes += 1;
        self.steps += played.moves.len() as u64;
        let mut kinds: Vec<_> = played
            .moves
            .iter()
            .filter_map(|m| match m.why {
                Why::Noise(kind) => Some(kind),
                _ => None,
            })
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        self.noisy_episodes += u64::from(!kinds.is_empty());
        for kind in kinds {
            *self.noise.entry(kind).or_default() += 1;
        }
    }

    fn add(&mut self, other: &Self) {
        self.episodes += other.episodes;
        self.phone_episodes += other.phone_episodes;
        self.desktop_sessions += other.desktop_sessions;
        self.desktop_logs += other.desktop_logs;
        self.steps += other.steps;
        self.screens += other.screens;
        self.noisy_episodes += other.noisy_episodes;
        for (kind, n) in &other.noise {
            *self.noise.entry(*kind).or_default() += n;
        }
    }
}
