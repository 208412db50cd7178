//! How long a plan takes, warm and without a model call, with a memory of 100,000 units:
//! `cargo run --release --example plan_bench -- [UNITS] [PLANS]`.
//!
//! The memory is made up: subgroups of 20 units, each with its own application words, skill and units; prototypes come
//! from the hash embedder and an untrained encoder of the default shape. Units lie near their subgroup's centroid.

#![allow(clippy::print_stdout, reason = "what it measures is its output")]

use std::collections::BTreeMap;
use std::time::Instant;

use candle_core::{DType, Device};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracemill_data::artifact::{AliasMap, Skill, SkillArg, SkillStep, TraceArg, TraceStep};
use tracemill_models::embed::{HashEmbedder, HashSettings};
use tracemill_models::memory::plan::{
    EncoderPrototypes, PlanMemory, PlanSettings, PlanTrace, Planner, Prototypes, RuleDecomposer, Variant,
};
use tracemill_models::memory::{GroupEntry, IndexSettings, IntentIndex, SubgroupEntry, UnitIndex};
use tracemill_models::multiview::{Encoder, EncoderConfig};

const PER_SUBGROUP: usize = 20;
const PER_GROUP: usize = 10;
const APPS: usize = 200;
const RUNS: usize = 200;

fn word(n: usize) -> String {
    let syllables = ["ba", "de", "fi", "go", "lu", "ma", "ne", "po", "ri", "su"];
    [n % 10, n / 10 % 10, n / 100 % 10, n / 1000 % 10].iter().map(|d| syllables[*d]).collect()
}

fn app(sg: usize) -> String {
    format!("App {}", word(sg % APPS))
}

fn arg(field: &str, kind: &str, value: &str) -> TraceArg {
    TraceArg { field: field.into(), kind: kind.into(), value: value.into() }
}

fn steps(sg: usize, value: &str) -> Vec<TraceStep> {
    let field = format!("{} field", word(sg));
    let step = |step, verb: &str, args| TraceStep { step, verb: verb.into(), args };
    vec![
        step(0, "open", vec![arg("app", "<app>", &app(sg))]),
        step(1, "click", vec![arg("target", "<element>", &field)]),
        step(2, "text_input", vec![arg("target", "<element>", &field), arg("text", "<text>", value)]),
        step(3, "save", vec![arg("target", "<element>", "Save")]),
    ]
}

fn skill(sg: usize, first_unit: usize) -> Skill {
    let of = |s: TraceStep| SkillStep {
        verb: s.verb,
        args: s
            .args
            .into_iter()
            .map(|a| {
                let literal = a.field != "text";
                let (examples, value) = (vec![a.value.clone()], literal.then_some(a.value));
                SkillArg { field: a.field, kind: a.kind, value, examples, more: None }
            })
            .collect(),
    };
    Skill {
        skill_id: format!("sg{sg}.0"),
        ig: (sg / PER_GROUP) as i32,
        sg: sg as i32,
        rank: 0,
        title: format!("{} · {} {}", app(sg), word(sg), word(sg + 7)),
        steps: steps(sg, "Some value").into_iter().map(of).collect(),
        support: PER_SUBGROUP as u32,
        members: PER_SUBGROUP as u32,
        medoid_unit_id: format!("u{first_unit}"),
        member_unit_ids: (first_unit..first_unit + PER_SUBGROUP).map(|u| format!("u{u}")).collect(),
        representative_unit_ids: (first_unit..first_unit + 5).map(|u| format!("u{u}")).collect(),
        removed_steps: vec![],
        alias_map: "1.0.0".into(),
    }
}

fn near(centre: &[f32], rng: &mut ChaCha8Rng) -> Vec<f32> {
    let mut z: Vec<f32> = centre.iter().map(|c| c + rng.random_range(-0.02..0.02)).collect();
    let norm = z.iter().map(|x| x * x).sum::<f32>().sqrt();
    z.iter_mut().for_each(|x| *x /= norm);
    z
}

fn memory(units: usize, prototypes: &dyn Prototypes) -> PlanMemory {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let subgroups = units / PER_SUBGROUP;
    let described: Vec<(String, String)> = (0..subgroups)
        .map(|sg| (app(sg), format!("create the {} of the {}", word(sg), word(sg + 7))))
        .collect();
    let texts: Vec<(Option<&str>, &str)> =
        described.iter().map(|(a, d)| (Some(a.as_str()), d.as_str())).collect();
    let centroids: Vec<Vec<f32>> =
        texts.chunks(512).flat_map(|chunk| prototypes.encode(chunk).expect("encoded")).collect();
    let dim = centroids[0].len();
    let (mut flat, mut traces, mut skills) = (Vec::new(), Vec::new(), Vec::new());
    let mut index = IntentIndex { subgroups: vec![], groups: vec![] };
    for (sg, centroid) in centroids.iter().enumerate() {
        let first = traces.len();
        for u in first..first + PER_SUBGROUP {
            flat.extend(near(centroid, &mut rng));
            traces.push(PlanTrace {
                unit_id: format!("u{u}"),
                env_tag: app(sg),
                description: described[sg].1.clone(),
                steps: steps(sg, &format!("Value {u}")),
            });
        }
        skills.push(skill(sg, first));
        index.subgroups.push(SubgroupEntry {
            ig: (sg / PER_GROUP) as i32,
            sg: sg as i32,
            centroid: centroid.clone(),
            size: PER_SUBGROUP,
            support: PER_SUBGROUP,
            representatives: (first..first + 10).collect(),
        });
        if sg % PER_GROUP == 0 {
            index.groups.push(GroupEntry { ig: (sg / PER_GROUP) as i32, centroid: centroid.clone() });
        }
    }
    let environments: BTreeMap<String, String> = (0..APPS).map(|a| (app(a), app(a))).collect();
    let vectors = UnitIndex::build(flat, dim, IndexSettings::default()).expect("unit vectors");
    PlanMemory::new(index, vectors, traces, skills, environments).expect("a memory")
}

fn command(n: usize, parts: usize) -> String {
    let part = |i: usize| {
        let sg = (n * 37 + i * 11) % 4_900;
        format!("create the {} of the {} called 'Garden plan {n}' in {}", word(sg), word(sg + 7), app(sg))
    };
    (0..parts).map(part).collect::<Vec<_>>().join(", then ")
}

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|a| a.parse::<usize>().ok());
    let (units, plans) = (args.next().unwrap_or(100_000), args.next().unwrap_or(1_000));
    let config = EncoderConfig { dim_in: 1_024, ..EncoderConfig::default() };
    let encoder = Encoder::new(config, 0, DType::F32, &Device::Cpu).expect("an encoder");
    let embedder = HashEmbedder::new(HashSettings { dim: 1_024 }).expect("an embedder");
    let prototypes = EncoderPrototypes { embedder: &embedder, encoder: &encoder };
    let began = Instant::now();
    let mut memory = memory(units, &prototypes);
    println!("{units} units, {} subgroups made in {:.1?}", units / PER_SUBGROUP, began.elapsed());
    let (map, settings) = (AliasMap::builtin(), PlanSettings::default());
    let with = |memory: &PlanMemory, variant, text: &str| {
        let decomposer = &RuleDecomposer;
        let (map, settings, prototypes) = (&map, &settings, &prototypes);
        Planner { memory, map, decomposer, prototypes, settings, variant }.plan(text).expect("a plan")
    };
    let approved: Vec<_> = (0..plans).map(|n| with(&memory, Variant::Intent, &command(n, 2))).collect();
    let began = Instant::now();
    memory.approve(&approved, &prototypes, settings.gates).expect("approved");
    println!("{plans} approved plans read in {:.1?}", began.elapsed());
    for (variant, parts) in
        [(Variant::Full, 1), (Variant::Full, 3), (Variant::Intent, 3), (Variant::Greedy, 3)]
    {
        let mut millis: Vec<f64> = Vec::new();
        let mut cases = [0usize; 4];
        for n in 0..RUNS {
            let text = command(n * 3, parts);
            let began = Instant::now();
            let plan = with(&memory, variant, &text);
            millis.push(began.elapsed().as_secs_f64() * 1e3);
            cases[plan.case.number() as usize] += 1;
        }
        millis.sort_by(f64::total_cmp);
        println!(
            "{:14} {parts} ACTs: median {:.2} ms, 99 % {:.2} ms, worst {:.2} ms; cases 1/2/3: {}/{}/{}",
            variant.name(),
            millis[RUNS / 2],
            millis[RUNS * 99 / 100],
            millis[RUNS - 1],
            cases[1],
            cases[2],
            cases[3]
        );
    }
}
