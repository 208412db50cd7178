//! verl: Parquet of prompts with their ground truth, a Hydra configuration and a reward function.

use std::path::Path;

use minijinja::{Environment, context};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::parquet_rows::{ImageCell, MessageCell, Sink};
use super::target::{Picture, TableSink, Written};
use super::{Kind, Split, Target};
use crate::artifact::AgentRole;
use crate::parquet_io::TableError;

/// A picture as one of verl's readers takes it.
trait Cell: Serialize + DeserializeOwned + Send + 'static {
    fn of(picture: &Picture) -> Self;
}

/// The file's bytes.
impl Cell for ImageCell {
    fn of(picture: &Picture) -> Self {
        Self::of(picture)
    }
}

/// The path, for `RLHFDataset`.
impl Cell for String {
    fn of(picture: &Picture) -> Self {
        picture.path.clone()
    }
}

/// The path, for the SFT data set, which takes no bare text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PathCell {
    image: String,
}

impl Cell for PathCell {
    fn of(picture: &Picture) -> Self {
        Self { image: picture.path.clone() }
    }
}

fn images<C: Cell>(row: &Written) -> Vec<C> {
    row.picture.iter().map(C::of).collect()
}

/// A row that `RLHFDataset` reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "C: Cell")]
struct RlRow<C> {
    /// `planner` or `tracker`, as in CES's own rows; verl reports metrics by it.
    data_source: String,
    prompt: Vec<MessageCell>,
    images: Vec<C>,
    ability: String,
    reward_model: RewardModel,
    extra_info: ExtraInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RewardModel {
    style: String,
    /// What `serve reward` needs, as JSON.
    ground_truth: String,
}

/// CES's fields, and where the row comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ExtraInfo {
    split: String,
    /// Unique: rows that share one are taken for one group.
    index: i64,
    id: String,
    answer: String,
    width: i64,
    height: i64,
    /// Two corners for each box.
    bbox: Vec<Vec<Vec<f64>>>,
    high_level_instruction: String,
    low_level_instruction: Option<String>,
    state: String,
    image_path: Option<String>,
    prompt: String,
    prompt_hash: String,
    coordinator_prompt_hash: Option<String>,
    executor_prompt_hash: Option<String>,
    /// What the executor is asked, `{{ command }}` standing for the instruction.
    executor_prompt: Option<String>,
}

impl<C: Cell> From<&Written> for RlRow<C> {
    fn from(row: &Written) -> Self {
        let sample = &row.sample;
        let source = if sample.agent.role == AgentRole::Coordinator { "planner" } else { "tracker" };
        Self {
            data_source: source.to_owned(),
            prompt: sample.prompt.messages.iter().map(MessageCell::of).collect(),
            images: images(row),
            ability: "gui".to_owned(),
            reward_model: RewardModel {
                style: "rule".to_owned(),
                ground_truth: super::pool::ground_truth(sample),
            },
            extra_info: ExtraInfo::of(row),
        }
    }
}

impl ExtraInfo {
    fn of(row: &Written) -> Self {
        let sample = &row.sample;
        let chain = super::pool::chain(sample);
        let hash = |role: &str| chain.iter().find(|l| l.role == role).map(|l| l.prompt_hash.clone());
        let corners = |b: &[f64; 4]| vec![vec![b[0], b[1]], vec![b[2], b[3]]];
        Self {
            split: row.split.name().to_owned(),
            index: row.index as i64,
            id: sample.lineage.row_id.clone(),
            answer: sample.action.clone(),
            width: i64::from(sample.agent.screen.width),
            height: i64::from(sample.agent.screen.height),
            bbox: sample.agent.truth.boxes.iter().map(corners).collect(),
            high_level_instruction: sample.agent.task.clone(),
            low_level_instruction: sample.instruction.clone(),
            state: sample.agent.state.clone(),
            image_path: sample.agent.screen.image.clone(),
            prompt: sample.prompt.template.clone(),
            prompt_hash: sample.prompt.hash.clone(),
            coordinator_prompt_hash: hash("coordinator"),
            executor_prompt_hash: hash("executor"),
            executor_prompt: super::pool::template(sample, "executor").map(|(_, t)| t.user.clone()),
        }
    }
}

/// A row that the multi-turn SFT data set reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "C: Cell")]
struct SftRow<C> {
    messages: Vec<MessageCell>,
    images: Vec<C>,
    id: String,
    prompt_hash: String,
}

impl<C: Cell> From<&Written> for SftRow<C> {
    fn from(row: &Written) -> Self {
        Self {
            messages: row.sample.messages().iter().map(MessageCell::of).collect(),
            images: images(row),
            id: row.sample.lineage.row_id.clone(),
            prompt_hash: row.sample.prompt.hash.clone(),
        }
    }
}

/// The file of a split; `held` when rows hold their pictures' bytes.
pub(super) fn create(
    kind: Kind,
    path: &Path,
    pictured: bool,
    held: bool,
) -> Result<Box<dyn TableSink>, TableError> {
    let without: &[&str] = if pictured { &[] } else { &["images"] };
    match (kind, held) {
        (Kind::Sft, true) => Sink::<SftRow<ImageCell>>::create(path, without),
        (Kind::Sft, false) => Sink::<SftRow<PathCell>>::create(path, without),
        (Kind::Rl, true) => Sink::<RlRow<ImageCell>>::create(path, without),
        (Kind::Rl, false) => Sink::<RlRow<String>>::create(path, without),
    }
}

/// `grpo.yaml` with CES's settings (appendix B, table 4), and `tracemill_reward.py`.
pub(super) fn companions(kind: Kind, role: AgentRole, splits: &[Split]) -> Vec<(String, String)> {
    if kind == Kind::Sft {
        return Vec::new();
    }
    let file = |split: Split| splits.contains(&split).then(|| Target::Verl.file(split));
    let train = file(Split::Train).unwrap_or_default();
    let coordinator = role == AgentRole::Coordinator;
    let values = context! {
        role => role.name(),
        val_file => file(Split::Test).unwrap_or_else(|| train.clone()),
        train_file => train,
        // The paper's base models.
        model => if coordinator { "Qwen/Qwen2.5-VL-7B-Instruct" } else { "Qwen/Qwen3-4B" },
        max_response_length => if coordinator { 256 } else { 512 },
        epochs => if coordinator { 10 } else { 5 },
    };
    let config = Environment::new()
        .render_str(include_str!("templates/grpo.yaml"), values)
        .expect("the template that is compiled in is valid");
    vec![
        ("grpo.yaml".to_owned(), config),
        ("tracemill_reward.py".to_owned(), include_str!("templates/tracemill_reward.py").to_owned()),
    ]
}
