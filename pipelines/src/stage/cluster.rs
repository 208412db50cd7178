//! `cluster`: latents → `R/intents/`, groups and subgroups; or plain vectors → labels.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracemill_data::artifact::{IntentRow, SubgroupRow};
use tracemill_data::parquet_io::{Vectors, read_batches, read_vectors, write_table};
use tracemill_data::views::Unit;
use tracemill_models::cluster::{Engine, HdbscanSettings, IntentAssignment, hdbscan, intent_groups};

use super::eval::{intent_settings, quality};
use crate::run::{Draft, Report, Run, StageInput, StageSpec, write_json};
use crate::settings::Settings;
use crate::table;
use crate::unit_views::UnitLatents;

/// Clusters the latents in two levels.
///
/// # Errors
/// When latents are missing or not finite.
pub fn run(settings: &Settings, run: &Run) -> Result<Report> {
    let spec = StageSpec {
        name: "cluster",
        folder: "intents",
        settings: json!(settings.cluster),
        seed: settings.seed,
        inputs: vec![
            StageInput::FromStage("units/units.parquet", "label"),
            StageInput::FromStage("encoder/latents.parquet", "encode"),
            StageInput::FromStage("encoder/subgroup_latents.parquet", "encode"),
        ],
    };
    run.stage(&spec, |draft| cluster(settings, run, draft))
}

fn cluster(settings: &Settings, run: &Run, draft: &mut Draft) -> Result<()> {
    let fused = read_vectors(&run.path("encoder/latents.parquet"), &["unit_id"])?;
    let subgroup = read_vectors(&run.path("encoder/subgroup_latents.parquet"), &["unit_id"])?;
    let found =
        intent_groups(&fused.data, fused.dim, &subgroup.data, subgroup.dim, &intent_settings(settings))?;
    let subgroups = subgroup_rows(&fused, &found, settings.cluster.representatives);
    write_table(&draft.path("units.parquet"), &intent_rows(&fused, &found))?;
    write_table(&draft.path("subgroups.parquet"), &subgroups)?;

    let (env_tags, act_tags) = tags(run, &fused.ids)?;
    let latents = UnitLatents { dim: fused.dim, fused: fused.data, subgroup: subgroup.data };
    let quality = quality(&latents, &found.ig, &found.sg, &env_tags, &act_tags);
    write_json(&draft.path("quality.json"), &quality)?;
    draft.count("units", fused.ids.len());
    draft.count("intent_groups", quality.intent_groups);
    draft.count("subgroups", quality.subgroups);
    draft.count("noise_share", quality.noise_share);
    Ok(())
}

/// The rows of `intents/units.parquet`.
pub fn intent_rows(fused: &Vectors, found: &IntentAssignment) -> Vec<IntentRow> {
    let row = |i: usize| IntentRow {
        unit_id: fused.ids[i].clone(),
        z: fused.row(i).to_vec(),
        ig: found.ig[i],
        sg: found.sg[i],
        ig_probability: found.ig_probability[i],
        sg_probability: found.sg_probability[i],
    };
    (0..fused.len()).map(row).collect()
}

/// Centroid (mean of the members' latents, normalised), size and nearest members of each subgroup.
pub fn subgroup_rows(fused: &Vectors, found: &IntentAssignment, representatives: usize) -> Vec<SubgroupRow> {
    let mut members: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (i, &sg) in found.sg.iter().enumerate().filter(|(_, sg)| **sg >= 0) {
        members.entry(sg).or_default().push(i);
    }
    let row = |(sg, members): (i32, Vec<usize>)| {
        let centroid = unit_mean(fused, &members);
        let cosine = |i: usize| -> f32 { fused.row(i).iter().zip(&centroid).map(|(a, b)| a * b).sum() };
        let mut nearest: Vec<(f32, usize)> = members.iter().map(|&i| (cosine(i), i)).collect();
        nearest.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        SubgroupRow {
            ig: found.ig[members[0]],
            sg,
            size: members.len() as u32,
            representative_unit_ids: nearest
                .iter()
                .take(representatives)
                .map(|&(_, i)| fused.ids[i].clone())
                .collect(),
            centroid,
        }
    };
    members.into_iter().map(row).collect()
}

fn unit_mean(vectors: &Vectors, rows: &[usize]) -> Vec<f32> {
    let mut mean = vec![0f64; vectors.dim];
    for &i in rows {
        mean.iter_mut().zip(vectors.row(i)).for_each(|(m, v)| *m += f64::from(*v));
    }
    let norm = mean.iter().map(|m| m * m).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    mean.into_iter().map(|m| (m / norm) as f32).collect()
}

/// ENV and ACT tags in the order of `ids`.
fn tags(run: &Run, ids: &[String]) -> Result<(Vec<String>, Vec<String>)> {
    let mut by_id = BTreeMap::new();
    for batch in read_batches::<Unit>(&run.path("units/units.parquet"))? {
        by_id.extend(batch?.into_iter().map(|u| (u.unit_id, (u.env_tag, u.act_tag))));
    }
    ids.iter()
        .map(|id| {
            by_id
                .remove(id)
                .with_context(|| format!("unit {id} has latents but is not in units/units.parquet"))
        })
        .collect::<Result<Vec<_>>>()
        .map(|pairs| pairs.into_iter().unzip())
}

/// A row of the labels file of `cluster --vectors`.
#[derive(Debug, Serialize, Deserialize)]
struct LabelRow {
    id: String,
    label: i32,
    probability: f64,
    outlier_score: f64,
}

/// Clusters the vectors of a Parquet file, taken as given, by one HDBSCAN.
///
/// # Errors
/// A file without the columns `id` and `vector`, values that are not finite, settings out of range.
pub fn vectors(
    input: &Path,
    output: &Path,
    min_cluster_size: usize,
    min_samples: Option<usize>,
    engine: Engine,
) -> Result<()> {
    let vectors = read_vectors(input, &["id", "unit_id"])?;
    let mut settings = HdbscanSettings::new(min_cluster_size);
    settings.min_samples = min_samples;
    settings.engine = engine;
    let dim = vectors.dim.max(1);
    let found = hdbscan(&vectors.data, dim, &settings).with_context(|| format!("{}", input.display()))?;
    let rows: Vec<LabelRow> = vectors
        .ids
        .iter()
        .enumerate()
        .map(|(i, id)| LabelRow {
            id: id.clone(),
            label: found.labels[i],
            probability: found.probabilities[i],
            outlier_score: found.outlier_scores[i],
        })
        .collect();
    write_table(output, &rows)?;
    let noise = found.labels.iter().filter(|&&l| l < 0).count();
    table::print(&format!(
        "{} vectors: {} clusters, {noise} noise → {}",
        rows.len(),
        found.clusters(),
        output.display()
    ));
    Ok(())
}
