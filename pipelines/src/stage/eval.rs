//! `eval encoder`: separation and purity of the latents (tables 3 and 4 of `IntentCUA`, on one's
//! own data), for the four loss variants and for raw embeddings.

use std::ops::ControlFlow;

use anyhow::Result;
use serde::Serialize;
use serde_json::json;
use tracemill_models::cluster::{IntentSettings, intent_groups};
use tracemill_models::metrics::{Purity, Separation, noise_share, purity, separation};
use tracemill_models::multiview::{EncoderConfig, LossVariant, TrainConfig, train};

use crate::cli::EncoderEvalArgs;
use crate::progress;
use crate::run::{Run, write_json};
use crate::settings::{Settings, device};
use crate::table;
use crate::unit_views::{UnitLatents, UnitViews, encode};

/// How good a partition into subgroups is.
#[derive(Debug, Clone, Serialize)]
pub struct Quality {
    /// Intent groups found.
    pub intent_groups: usize,
    /// Subgroups found.
    pub subgroups: usize,
    /// Share of units in no subgroup.
    pub noise_share: f64,
    /// Table 3.
    pub separation: Separation,
    /// Table 4, applications and sites.
    pub env_purity: Purity,
    /// Table 4, verb sequences.
    pub act_purity: Purity,
}

/// Measures subgroups in the space of `latents`.
pub fn quality(
    latents: &UnitLatents,
    ig: &[i32],
    sg: &[i32],
    env_tags: &[String],
    act_tags: &[String],
) -> Quality {
    let count = |labels: &[i32]| labels.iter().max().map_or(0, |&l| (l + 1) as usize);
    Quality {
        intent_groups: count(ig),
        subgroups: count(sg),
        noise_share: noise_share(sg),
        separation: separation(&latents.fused, latents.dim, sg),
        env_purity: purity(sg, env_tags),
        act_purity: purity(sg, act_tags),
    }
}

/// One trained encoder, or the baseline, measured.
#[derive(Debug, Serialize)]
struct Trial {
    variant: String,
    seed: u64,
    quality: Quality,
}

/// Trains and measures; prints the tables and writes `R/eval/encoder.json`.
///
/// # Errors
/// When units or embeddings are missing, or training fails.
pub fn encoder(settings: &Settings, args: &EncoderEvalArgs) -> Result<()> {
    let run = Run::existing(&args.run)?;
    let views = UnitViews::load(&run)?;
    let variants: Vec<LossVariant> =
        if args.ablate { LossVariant::ALL.to_vec() } else { vec![settings.encode.train.variant] };
    let bar = progress::bar("eval", "encoders trained", Some(variants.len() as u64 * args.seeds));
    let mut trials = vec![baseline(settings, &views)?];
    for variant in variants {
        for seed in settings.seed..settings.seed + args.seeds {
            trials.push(trial(settings, &views, variant, seed)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    std::fs::create_dir_all(run.path("eval"))?;
    write_json(&run.path("eval/encoder.json"), &json!({ "settings": settings, "trials": trials }))?;
    print_tables(&trials, views.len());
    Ok(())
}

/// Raw embeddings: the views concatenated, clustered in the same two levels.
fn baseline(settings: &Settings, views: &UnitViews) -> Result<Trial> {
    let latents =
        UnitLatents { fused: views.raw(&[0, 1, 2]), subgroup: views.raw(&[1, 2]), dim: 3 * views.dim };
    let found = intent_groups(
        &latents.fused,
        3 * views.dim,
        &latents.subgroup,
        2 * views.dim,
        &intent_settings(settings),
    )?;
    let quality = quality(&latents, &found.ig, &found.sg, &views.env_tags, &views.act_tags);
    Ok(Trial { variant: "Raw embeddings, concatenated".to_owned(), seed: settings.seed, quality })
}

fn trial(settings: &Settings, views: &UnitViews, variant: LossVariant, seed: u64) -> Result<Trial> {
    let device = device(&settings.encode.device)?;
    let model = EncoderConfig { dim_in: views.dim, ..settings.encode.model.clone() };
    let config = TrainConfig { seed, ..variant.preset(&settings.encode.train) };
    let data = views.train_data(&device)?;
    let outcome = train(&data, &model, &config, None, &mut |_, _| ControlFlow::Continue(()))?;
    let latents = encode(&outcome.encoder, &data.units)?;
    let found = intent_groups(
        &latents.fused,
        latents.dim,
        &latents.subgroup,
        latents.dim,
        &intent_settings(settings),
    )?;
    let quality = quality(&latents, &found.ig, &found.sg, &views.env_tags, &views.act_tags);
    Ok(Trial { variant: variant.title().to_owned(), seed, quality })
}

/// The clustering's settings.
pub fn intent_settings(settings: &Settings) -> IntentSettings {
    let mut out = IntentSettings::default();
    out.ig.min_cluster_size = settings.cluster.ig_min_cluster_size;
    out.sg.min_cluster_size = settings.cluster.sg_min_cluster_size;
    out.sg.root_extent = Some(settings.cluster.sg_root_extent);
    out.ig.resolution = settings.cluster.ig_resolution;
    out.sg.resolution = settings.cluster.sg_resolution;
    out.sg_resolution_share = settings.cluster.sg_resolution_share;
    out.with_engine(settings.cluster.engine)
}

/// Mean and standard deviation (ddof 1) over seeds.
fn over_seeds(values: impl Iterator<Item = Option<f64>>) -> String {
    let values: Vec<f64> = values.flatten().collect();
    let n = values.len() as f64;
    if values.is_empty() {
        return "–".to_owned();
    }
    let mean = values.iter().sum::<f64>() / n;
    if values.len() == 1 {
        return format!("{mean:.3}");
    }
    let std = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    format!("{mean:.3} ± {std:.3}")
}

fn print_tables(trials: &[Trial], units: usize) {
    let mut rows = table::Table::new(&[
        "loss variant",
        "separation ↑",
        "ENV purity ↑",
        "ACT purity ↑",
        "noise",
        "IG",
        "SG",
    ]);
    let mut names: Vec<&str> = trials.iter().map(|t| t.variant.as_str()).collect();
    names.dedup();
    let mut seeds = 1;
    for name in names {
        let of: Vec<&Quality> = trials.iter().filter(|t| t.variant == name).map(|t| &t.quality).collect();
        seeds = seeds.max(of.len());
        let purity = |part: fn(&Quality) -> &Purity| {
            let within = over_seeds(of.iter().map(|q| part(q).std));
            format!(
                "{} ({})",
                over_seeds(of.iter().map(|q| part(q).mean)),
                within.split(' ').next().unwrap_or("–")
            )
        };
        rows.row(&[
            name,
            &over_seeds(of.iter().map(|q| q.separation.value)),
            &purity(|q| &q.env_purity),
            &purity(|q| &q.act_purity),
            &over_seeds(of.iter().map(|q| Some(q.noise_share))),
            &over_seeds(of.iter().map(|q| Some(q.intent_groups as f64))),
            &over_seeds(of.iter().map(|q| Some(q.subgroups as f64))),
        ]);
    }
    table::print(&rows.to_string());
    table::print(&format!(
        "{units} units; mean ± standard deviation over {seeds} seeds; in parentheses the standard deviation over \
         subgroups. Excluded from separation: see eval/encoder.json."
    ));
}
