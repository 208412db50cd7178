#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value;

use super::layout::{Place, shown};
use super::walk::{Act, Move};
use super::world::Do;
use super::*;

const BOTH: Devices = Devices { phone: true, desktop: true };

fn settings(episodes: u64, seed: u64) -> SampleSettings {
    SampleSettings { episodes, seed, formats: BOTH, screens: false }
}

fn sample(settings: &SampleSettings) -> (tempfile::TempDir, SampleReport) {
    let dir = tempfile::tempdir().unwrap();
    let report = generate(dir.path(), settings, &|_| ()).unwrap();
    (dir, report)
}

/// Relative path and content of every file.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    walkdir::WalkDir::new(root)
        .into_iter()
        .map(Result::unwrap)
        .filter(|e| e.file_type().is_file())
        .map(|e| {
            let name = e.path().strip_prefix(root).unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(e.path()).unwrap())
        })
        .collect()
}

fn json_lines(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn worlds() -> &'static [(World, layout::Canvas); 2] {
    static WORLDS: LazyLock<[(World, layout::Canvas); 2]> = LazyLock::new(|| {
        [
            (World::load(Device::Phone).unwrap(), PHONES[0].canvas),
            (World::load(Device::Desktop).unwrap(), uilog::CANVAS),
        ]
    });
    &WORLDS
}

#[test]
fn same_seed_same_bytes_whatever_the_threads() {
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| sample(&settings(60, 7)))
    };
    let (one, two) = (with_threads(1), with_threads(2));
    assert_eq!(one.1, two.1);
    assert_eq!(files(one.0.path()), files(two.0.path()));
    let (other, _) = sample(&settings(60, 8));
    assert_ne!(files(one.0.path())["truth.jsonl"], files(other.path())["truth.jsonl"]);
}

#[test]
fn the_world_is_wide_enough() {
    let worlds = worlds();
    let apps: usize = worlds.iter().map(|(w, _)| w.apps.len()).sum();
    assert!(apps >= 8, "{apps} applications");
    for (world, canvas) in worlds {
        check(world, *canvas, &mut stream(0, world.device, 0)).unwrap();
        for template in &world.templates {
            let ways: BTreeSet<_> = template.phrasings.iter().collect();
            assert!(ways.len() >= 5, "{}: {} phrasings", template.id, ways.len());
            assert_eq!(ways.len(), template.phrasings.len(), "{}", template.id);
            assert!(template.canonical().len() >= 3, "{}", template.id);
        }
    }
}

/// No template can be told by its application or its verbs alone.
#[test]
fn templates_share_applications_and_verbs() {
    let worlds = worlds();
    let templates: Vec<_> = worlds.iter().flat_map(|(w, _)| &w.templates).collect();
    let alone = |t: &&&world::Template| templates.iter().filter(|o| o.app == t.app).count() == 1;
    assert!(templates.iter().filter(alone).count() <= 1);
    for template in &templates {
        let verbs: BTreeSet<_> = template.canonical().into_iter().collect();
        let shared = |other: &&&world::Template| {
            other.app != template.app && other.canonical().iter().filter(|v| verbs.contains(*v)).count() >= 2
        };
        assert!(templates.iter().any(|o| shared(&o)), "{}", template.id);
    }
}

#[test]
fn noise_holds_its_share_and_every_kind_occurs() {
    let (_dir, report) = sample(&settings(200, 3));
    assert!(report.noisy_episodes * 10 >= report.episodes * 3, "{report:?}");
    assert!(report.noisy_episodes * 10 <= report.episodes * 5, "{report:?}");
    assert_eq!(report.noise.len(), Noise::ALL.len(), "{report:?}");
    for n in 1..12 {
        let (_dir, report) = sample(&settings(n, 3));
        assert!(report.noisy_episodes * 10 >= n * 3, "{report:?}");
    }
}

#[test]
fn truth_covers_every_step_of_every_source() {
    let (dir, report) = sample(&settings(40, 5));
    let files = files(dir.path());
    let truth = json_lines(&files["truth.jsonl"]);
    assert_eq!(truth.len() as u64, report.steps);
    let mut rows: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for row in &truth {
        rows.entry(row["episode_id"].as_str().unwrap()).or_default().push(row);
    }
    let (mut phone, mut desktop) = (0, 0);
    for (name, bytes) in &files {
        if name.contains("annotations") {
            let episode = json(bytes);
            let rows = &rows[format!("gui-odyssey:{}", episode["episode_id"].as_str().unwrap()).as_str()];
            assert_eq!(rows.len(), episode["steps"].as_array().unwrap().len());
            assert_eq!(rows.len() as u64, episode["step_length"].as_u64().unwrap());
            rows.iter().enumerate().for_each(|(k, row)| assert_eq!(row["step"], k));
            phone += 1;
        } else if Path::new(name).extension().is_some_and(|e| e == "csv") {
            let lines = String::from_utf8(bytes.clone()).unwrap().lines().count();
            let stem = Path::new(name).file_stem().unwrap().to_str().unwrap();
            let rows: Vec<_> = rows.iter().filter(|(id, _)| id.contains(stem)).flat_map(|(_, r)| r).collect();
            assert_eq!(rows.len(), lines - 1);
            assert_eq!(rows[0]["source_key"], "line 2");
            desktop += 1;
        }
    }
    assert_eq!((phone, desktop), (report.phone_episodes, report.desktop_logs));
}

/// What is left of a segment without noise, transitions and optional steps is the canonical sequence.
#[test]
fn truth_without_noise_is_canonical() {
    let (dir, _) = sample(&settings(60, 11));
    let files = files(dir.path());
    let templates = json(&files["templates.json"]);
    let canonical: BTreeMap<_, _> = templates
        .as_array()
        .unwrap()
        .iter()
        .map(|t| (t["id"].as_str().unwrap().to_owned(), t["canonical"].as_array().unwrap().clone()))
        .collect();
    let mut segments: BTreeMap<(String, u64, u64), (String, Vec<Value>)> = BTreeMap::new();
    for row in json_lines(&files["truth.jsonl"]) {
        if row["part"] != "task" || row["optional"] == true {
            continue;
        }
        let platform = row["platform"].as_str().unwrap().to_owned();
        let key = (platform, row["task"].as_u64().unwrap(), row["segment"].as_u64().unwrap());
        let intent = row["intent"].as_str().unwrap().to_owned();
        let entry = segments.entry(key).or_insert((intent, Vec::new()));
        entry.1.push(row["verb"].clone());
    }
    assert!(segments.len() > 60);
    for (intent, verbs) in segments.values() {
        assert_eq!(verbs, &canonical[intent], "{intent}");
    }
}

/// Every move acts on an element of the scene it claims, and typing has a field.
fn check_moves(world: &World, canvas: layout::Canvas, seed: u64, index: u64) {
    let mut rng = stream(seed, world.device, index);
    let played = play(world, canvas, is_noisy(index), &mut rng).unwrap();
    for m in &played.moves {
        let (all, pages) = shown(world, &m.scene, &played.bind, canvas);
        assert!(m.scene.page < pages);
        for e in &all {
            let r = e.rect;
            assert!(r.x >= 0 && r.y >= 0 && r.w > 0 && r.h > 0, "{e:?}");
            assert!(r.x + r.w <= canvas.w && r.y + r.h <= canvas.h, "{e:?}");
        }
        if let Some(target) = &m.target {
            let same = |e: &layout::Shown| e.label == target.label && e.rect == target.rect;
            assert!(all.iter().any(same), "{target:?} is not on the screen");
            assert!(m.scene.overlay.is_none() || target.modal, "{target:?} lies below a dialog");
        }
        assert!(m.target.is_some() || !acts_on_element(m), "{m:?}");
    }
}

fn acts_on_element(m: &Move) -> bool {
    matches!(m.act, Act::Do(Do::Tap | Do::Double | Do::Right | Do::Long | Do::Select | Do::Type))
}

/// A move's scene follows from the move before it: the screen its element leads to, or the same one.
fn check_transitions(world: &World, seed: u64, index: u64) {
    let mut rng = stream(seed, world.device, index);
    let played = play(world, PHONES[0].canvas, is_noisy(index), &mut rng).unwrap();
    for pair in played.moves.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let (Place::App { app, screen }, Place::App { app: next_app, screen: next }) =
            (before.scene.place, after.scene.place)
        else {
            continue;
        };
        assert_eq!(app, next_app);
        let Some(target) = &before.target else { continue };
        let retry = before.why == Why::Noise(Noise::Retry);
        let hold = before.act == Act::Do(Do::Long);
        let to = if hold { target.element.and_then(|e| e.hold.as_deref()) } else { target.to() };
        let moves = acts_on_element(before) && before.act != Act::Do(Do::Type) && !retry;
        let expected = to.filter(|_| moves).and_then(|id| world.apps[app].screen(id)).unwrap_or(screen);
        assert_eq!(next, expected, "after {before:?}");
    }
}

/// Points lie in their boxes, boxes in the screen, and every field of the format is there.
fn check_annotation(world: &World, seed: u64, index: u64) {
    let mut rng = stream(seed, Device::Phone, index);
    let phone = &PHONES[index as usize % PHONES.len()];
    let played = play(world, phone.canvas, is_noisy(index), &mut rng).unwrap();
    let annotation = odyssey::annotation(world, &played, phone, "1", &mut rng);
    for step in annotation["steps"].as_array().unwrap() {
        for field in ["description", "intention", "context", "low_level_instruction", "screenshot"] {
            let text = step[field].as_str().unwrap();
            assert!(!text.is_empty() && !text.contains(['{', '}']), "{field}: {text}");
        }
        let bbox: Vec<i64> =
            step["sam2_bbox"].as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect();
        assert!(bbox.iter().all(|v| (0..=1000).contains(v)), "{bbox:?}");
        let pressed = matches!(step["action"].as_str().unwrap(), "CLICK" | "LONG_PRESS");
        assert_eq!(bbox.len(), if pressed && step["info"].is_array() { 4 } else { 0 }, "{step}");
        if let [x1, y1, x2, y2] = bbox[..] {
            let (x, y) = (step["info"][0][0].as_i64().unwrap(), step["info"][0][1].as_i64().unwrap());
            assert!((x1..=x2).contains(&x) && (y1..=y2).contains(&y), "{step}");
        }
        if step["action"] == "SCROLL" {
            let y = |k: usize| step["info"][k][1].as_i64().unwrap();
            assert!(y(0) != y(1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_episode_is_consistent(seed in any::<u64>(), index in 0u64..1_000_000) {
        for (world, canvas) in worlds() {
            check_moves(world, *canvas, seed, index);
        }
        let phone = &worlds()[0].0;
        check_transitions(phone, seed, index);
        check_annotation(phone, seed, index);
    }
}

#[test]
fn logs_have_the_loggers_header_and_rising_times() {
    let (dir, _) =
        sample(&SampleSettings { formats: Devices { phone: false, desktop: true }, ..settings(30, 2) });
    let path = dir.path().join("desktop/log_0000.csv");
    let mut reader = csv::Reader::from_path(path).unwrap();
    assert_eq!(reader.headers().unwrap().iter().collect::<Vec<_>>(), uilog::HEADER);
    let times: Vec<jiff::Timestamp> = reader.records().map(|r| r.unwrap()[0].parse().unwrap()).collect();
    assert!(times.windows(2).all(|w| w[0] < w[1]));
    // Sessions are minutes apart.
    let gaps = times.windows(2).filter(|w| w[1].as_second() - w[0].as_second() >= 240).count();
    assert_eq!(gaps, 29);
    let trees = std::fs::read(dir.path().join("desktop/trees/log_0000/a11y.jsonl")).unwrap();
    let trees = json_lines(&trees);
    assert!(trees.len() > 30);
    let seconds: Vec<f64> = trees.iter().map(|t| t["time_stamp"].as_f64().unwrap()).collect();
    assert!(seconds.windows(2).all(|w| w[0] < w[1]));
    assert_eq!(trees[0]["axtree"]["ControlType"], "WindowControl");
    assert!(!trees[0]["axtree"]["Children"].as_array().unwrap().is_empty());
}

#[test]
fn screens_are_drawn_on_request() {
    let (dir, report) = sample(&SampleSettings { screens: true, ..settings(3, 1) });
    let files = files(dir.path());
    let pictures: Vec<_> =
        files.iter().filter(|(n, _)| Path::new(n).extension().is_some_and(|e| e == "png")).collect();
    assert_eq!(pictures.len() as u64, report.screens);
    assert_eq!(report.screens, report.steps);
    let picture = image::load_from_memory(pictures[0].1).unwrap().to_rgb8();
    let colors: BTreeSet<_> = picture.pixels().map(|p| p.0).collect();
    assert!(colors.len() >= 4, "a drawn screen has several colours, found {}", colors.len());
}

#[test]
fn a_table_that_contradicts_itself_is_refused() {
    let text = include_str!("phone.toml");
    let broken = |from: &str, to: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        let world = World::parse(Device::Phone, &changed);
        let error = world.and_then(|w| check(&w, PHONES[0].canvas, &mut stream(0, Device::Phone, 0)));
        error.unwrap_err().to_string()
    };
    assert!(broken("\"tap New alarm\"", "\"tap Old alarm\"").contains("no element `Old alarm`"));
    assert!(broken("to = \"alarm_edit\"", "to = \"nowhere\"").contains("no screen `nowhere`"));
    assert!(broken("\"tap New alarm\"", "\"poke New alarm\"").contains("unknown verb `poke`"));
    assert!(broken("app = \"clock\"", "app = \"watch\"").contains("no application `watch`"));
    assert!(broken("\"tap Alarm time\", \"type {time}\"", "\"type {time}\"").contains("no field"));
}

#[test]
fn nothing_asked_for_and_a_full_folder_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let run = |s: &SampleSettings| generate(dir.path(), s, &|_| ()).unwrap_err().to_string();
    assert!(run(&settings(0, 1)).contains("nothing to generate"));
    let neither = SampleSettings { formats: Devices { phone: false, desktop: false }, ..settings(5, 1) };
    assert!(run(&neither).contains("nothing to generate"));
    std::fs::write(dir.path().join("kept.txt"), "x").unwrap();
    assert!(run(&settings(2, 1)).contains("not empty"));
}

#[test]
fn large_corpora_are_sharded() {
    let root = Path::new("r");
    assert_eq!(odyssey::folder(root, "annotations", 12_345, 10_000), Path::new("r/annotations"));
    assert_eq!(odyssey::folder(root, "annotations", 12_345, 1_000_000), Path::new("r/annotations/0012"));
}
