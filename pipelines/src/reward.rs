//! The reward of the high-level agents by execution (CES, section 4.3): an agent's output goes on to the
//! frozen Executor, for the State Tracker by way of the frozen Coordinator, and the action that comes out
//! is scored.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use tracemill_data::action::{Action, FrameName, ScreenSize};
use tracemill_data::adapters::Input;
use tracemill_data::artifact::{AgentPrompt, AgentRole, ScreenPixels, Truth};
use tracemill_data::grammar::{Reply as ReplyText, parse_action};
use tracemill_data::prompt::Shown;
use tracemill_data::trace::Screen;
use tracemill_models::rl::{AgentReward, Outcome, Profile, agent_reward, score_action, score_reply};

use crate::chat::{BlockingClient, ChatError, ChatReply, ChatSettings, ErrorGuard, Image, Outcome as Called};
use crate::executor::{
    Command, Coordinates, Endpoint, Executor, Lexical, LocalExecutor, Reply, ask, local_replies,
    local_request,
};
use crate::settings::RewardSection;
use crate::train::LocalModel;

/// One output to be rewarded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRow {
    /// What it answers.
    #[serde(flatten)]
    pub prompt: AgentPrompt,
    /// The raw output, tags and all.
    pub output: String,
}

/// What an output earned, and everything that led to it.
///
/// As JSON: `outcome`, `total`, `format` and `executor` are the output's own, null without a reward; `executed` holds
/// the score of the action that it led to.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewarded {
    /// The row's id.
    pub id: Value,
    /// `α1·format(output) + α2·executor`; absent when nothing can be said.
    pub reward: Option<AgentReward>,
    /// Score, abstention or error of the executed action.
    pub executed: Outcome,
    /// What the frozen Coordinator said (State Tracker only).
    pub coordinator: Option<String>,
    /// The instruction that the executor got.
    pub instruction: Option<String>,
    /// The executor's raw reply.
    pub reply: Option<String>,
}

impl Serialize for Rewarded {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let term = |f: fn(&AgentReward) -> f64| self.reward.as_ref().map(f);
        let mut row = serializer.serialize_struct("Rewarded", 9)?;
        row.serialize_field("id", &self.id)?;
        row.serialize_field("outcome", self.executed.name())?;
        row.serialize_field("total", &term(|r| r.total))?;
        row.serialize_field("format", &term(|r| r.format))?;
        row.serialize_field("executor", &term(|r| r.executor))?;
        row.serialize_field("executed", &self.executed)?;
        row.serialize_field("coordinator", &self.coordinator)?;
        row.serialize_field("instruction", &self.instruction)?;
        row.serialize_field("reply", &self.reply)?;
        row.end()
    }
}

impl Rewarded {
    /// What stands for an output that cannot be rewarded.
    pub fn failed(reason: &str) -> Self {
        Self {
            id: Value::Null,
            reward: None,
            executed: Outcome::Error { reason: reason.to_owned() },
            coordinator: None,
            instruction: None,
            reply: None,
        }
    }
}

/// The limit of Qwen2.5-VL's processor in the paper's executor.
const DEFAULT_MAX_PIXELS: u64 = 1_003_520;

/// Rewards outputs by a profile, an executor and, for State Trackers, a Coordinator.
pub struct Rewarder {
    profile: &'static Profile,
    executor: Box<dyn Executor>,
    coordinator: Option<FrozenCoordinator>,
    coordinates: Coordinates,
    /// What the model's picture was limited to, for [`Coordinates::Resized`].
    max_pixels: u64,
    max_tokens: u32,
    images: Option<Input>,
    executor_guard: StageGuard,
    coordinator_guard: StageGuard,
}

/// Counts the failed calls of a stage over all its batches.
struct StageGuard {
    guard: ErrorGuard,
    tripped: Mutex<Option<ChatError>>,
}

impl StageGuard {
    fn new(settings: &ChatSettings) -> Self {
        let guard = ErrorGuard::new(settings.max_error_share, settings.min_calls);
        Self { guard, tripped: Mutex::new(None) }
    }

    fn count<T>(&self, outcome: &Called<T>) {
        if let Err(error) = self.guard.count(outcome) {
            self.tripped.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    fn check(&self) -> Result<(), ChatError> {
        self.tripped.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

impl Rewarder {
    /// Opens what the settings name. Pictures are looked for below `images`.
    ///
    /// # Errors
    /// An unknown profile or executor, endpoints that cannot work, a folder that is not there.
    pub fn open(settings: &RewardSection, images: Option<&Path>) -> Result<Self> {
        let executor: Box<dyn Executor> = match settings.executor.as_str() {
            "lexical" => Box::new(Lexical),
            "endpoint" => Box::new(
                Endpoint::open(&unguarded(&settings.endpoint), settings.max_tokens, settings.structured)
                    .context("reward.endpoint")?,
            ),
            "model" => Box::new(LocalExecutor::open(&settings.model, settings.max_tokens)?),
            other => bail!("reward.executor is `{other}`: give `lexical`, `endpoint` or `model`"),
        };
        let coordinates = if settings.executor == "lexical" { Coordinates::Px } else { settings.coordinates };
        let max_pixels = match settings.endpoint.image_max_pixels {
            None if coordinates == Coordinates::Resized => {
                bail!(
                    "reward.coordinates is `resized`: set reward.endpoint.image_max_pixels, which decides how"
                )
            }
            limit => limit.unwrap_or(DEFAULT_MAX_PIXELS),
        };
        let coordinator = FrozenCoordinator::open(settings)?;
        let open = |dir: &Path| Input::new(dir).with_context(|| format!("--images {}", dir.display()));
        Ok(Self {
            profile: Profile::named(&settings.profile).map_err(anyhow::Error::msg)?,
            executor,
            coordinator,
            coordinates,
            max_pixels,
            max_tokens: settings.max_tokens,
            executor_guard: StageGuard::new(&settings.endpoint),
            coordinator_guard: StageGuard::new(&settings.coordinator),
            images: images.map(open).transpose()?,
        })
    }

    /// The rules.
    pub fn profile(&self) -> &'static Profile {
        self.profile
    }

    /// Whether too many calls have failed so far. A caller asks after it has written what it has.
    ///
    /// # Errors
    /// [`ChatError::TooManyFailures`], once.
    pub fn check_failures(&self) -> Result<(), ChatError> {
        self.executor_guard.check()?;
        self.coordinator_guard.check()
    }

    /// What the executor's coordinates are.
    pub fn coordinates(&self) -> Coordinates {
        self.coordinates
    }

    /// An executor's action with its points in pixels of the screenshot, read as `coordinates`.
    pub fn in_pixels(&self, coordinates: Coordinates, action: Action, size: ScreenSize) -> Option<Action> {
        coordinates.to_pixels(action, Some(size), self.max_pixels)
    }

    /// The executor's name and version.
    pub fn executor_name(&self) -> String {
        self.executor.name()
    }

    /// Rewards rows, in their order. A row whose call fails, or whose picture cannot be read, gets an
    /// error of its own.
    ///
    /// # Errors
    /// What has to stop the stage; see [`Executor::execute_all`].
    pub fn reward_all(&self, rows: &[AgentRow]) -> Result<Vec<Rewarded>, ChatError> {
        let mut progress: Vec<Progress> = rows.iter().map(|row| self.begin(row)).collect();
        self.coordinate(rows, &mut progress)?;
        self.execute(rows, &mut progress)?;
        Ok(rows.iter().zip(progress).map(|(row, p)| self.finish(row, p)).collect())
    }

    /// Has the executor carry out commands, and scores what comes back against `truths`.
    ///
    /// # Errors
    /// Those of [`Rewarder::reward_all`].
    pub fn act(
        &self,
        commands: &[Command<'_>],
        truths: &[Truth],
    ) -> Result<Vec<(Outcome, Option<Reply>)>, ChatError> {
        let outcomes = self.executor.execute_all(commands)?;
        let scored = outcomes.into_iter().zip(commands).zip(truths).map(|((outcome, command), truth)| {
            self.executor_guard.count(&outcome);
            match outcome {
                Called::Reply(reply) => (self.score(&reply.text, truth, command.screen.size), Some(reply)),
                Called::Failed(error) => (Outcome::Error { reason: format!("Executor: {error}") }, None),
            }
        });
        Ok(scored.collect())
    }

    /// The picture at a path below the folder of pictures, or in a data URL.
    ///
    /// # Errors
    /// When there is no such folder or file, or the path leaves the folder.
    pub fn picture(&self, image: &str) -> Result<Image> {
        read_picture(self.images.as_ref(), image)
    }

    /// Reads a row's screen, and a Coordinator's instruction.
    fn begin(&self, row: &AgentRow) -> Progress {
        let screen = Screen {
            size: row.prompt.screen.size(),
            elements: row.prompt.screen.elements.clone(),
            ..Screen::default()
        };
        let mut progress = Progress { screen, ..Progress::default() };
        match row.prompt.screen.image.as_deref().map(|image| self.picture(image)) {
            None => {}
            Some(Ok(image)) => progress.image = Some(image),
            Some(Err(e)) => progress.failed = Some(format!("screen.image: {e:#}")),
        }
        if row.prompt.role == AgentRole::Coordinator {
            progress.instruct(self.profile.read(&row.output).1);
        }
        progress
    }

    /// Asks the frozen Coordinator with the states that Trackers wrote (Eq. 16).
    fn coordinate(&self, rows: &[AgentRow], progress: &mut [Progress]) -> Result<(), ChatError> {
        let wanting: Vec<usize> = (0..rows.len())
            .filter(|&i| rows[i].prompt.role == AgentRole::StateTracker && progress[i].failed.is_none())
            .collect();
        let Some(coordinator) = self.coordinator.as_ref().filter(|_| !wanting.is_empty()) else {
            for i in wanting {
                progress[i].failed = Some(
                    "a State Tracker is rewarded through a Coordinator: set reward.coordinator.endpoints or \
                     reward.coordinator_model.model"
                        .to_owned(),
                );
            }
            return Ok(());
        };
        let mut asked = Vec::with_capacity(wanting.len());
        for &i in &wanting {
            let state = self.state_of(&rows[i].output);
            let values = BTreeMap::from([("task", rows[i].prompt.task.clone()), ("state", state)]);
            asked.push((values, &progress[i].screen, progress[i].image.as_ref()));
        }
        let replies = coordinator.replies(asked, self.max_tokens)?;
        for (i, outcome) in wanting.into_iter().zip(replies) {
            self.coordinator_guard.count(&outcome);
            match outcome {
                Called::Failed(error) => progress[i].failed = Some(format!("Coordinator: {error}")),
                Called::Reply(reply) => {
                    let whole = self.profile.tracker_passes_whole_output;
                    progress[i].instruct(if whole { Some(&reply) } else { self.profile.read(&reply).1 });
                    progress[i].coordinator = Some(reply);
                }
            }
        }
        Ok(())
    }

    /// The state that a Tracker's output passes on: the content of its answer, or all of it where the
    /// profile's Trackers write no tags.
    pub fn state_of(&self, output: &str) -> String {
        let state = if self.profile.tracker_format { self.profile.read(output).1 } else { Some(output) };
        state.unwrap_or_default().trim().to_owned()
    }

    fn execute(&self, rows: &[AgentRow], progress: &mut [Progress]) -> Result<(), ChatError> {
        let ready: Vec<usize> = (0..progress.len())
            .filter(|&i| progress[i].failed.is_none() && progress[i].instruction.is_some())
            .collect();
        let commands: Vec<Command<'_>> = ready
            .iter()
            .map(|&i| Command {
                instruction: progress[i].instruction.as_deref().unwrap_or_default(),
                screen: &progress[i].screen,
                image: progress[i].image.as_ref(),
            })
            .collect();
        let truths: Vec<Truth> = ready.iter().map(|&i| rows[i].prompt.truth.clone()).collect();
        let done = self.act(&commands, &truths)?;
        for (i, outcome) in ready.into_iter().zip(done) {
            progress[i].done = Some(outcome);
        }
        Ok(())
    }

    fn finish(&self, row: &AgentRow, progress: Progress) -> Rewarded {
        let Progress { screen, failed, coordinator, instruction, done, .. } = progress;
        let (executed, reply) = match (failed, done) {
            (Some(reason), _) => (Outcome::Error { reason }, None),
            (None, Some((executed, reply))) => (executed, reply.map(|reply| reply.text)),
            // No instruction is a reply without an action: it earns nothing, and only where there is a truth.
            (None, None) => (self.nothing_said(&row.prompt.truth, screen.size), None),
        };
        let tracker = row.prompt.role == AgentRole::StateTracker;
        let reward = agent_reward(self.profile, &row.output, tracker, &executed);
        Rewarded { id: row.prompt.id.clone(), reward, executed, coordinator, instruction, reply }
    }

    /// The score of no instruction at all: an action that is missing, where there is a truth.
    pub fn nothing_said(&self, truth: &Truth, size: Option<ScreenSize>) -> Outcome {
        score_reply(self.profile, "", truth, size.map(ScreenPixels::from))
    }

    /// Scores an executor's reply whose coordinates are in the executor's own frame.
    fn score(&self, reply: &str, truth: &Truth, size: Option<ScreenSize>) -> Outcome {
        let pixels = size.map(ScreenPixels::from);
        if self.coordinates == Coordinates::Px {
            return score_reply(self.profile, reply, truth, pixels);
        }
        let formed = self.profile.answer(reply).is_some();
        match parse_action(ReplyText::of(reply).content(), FrameName::Pixels) {
            Ok(parsed) => match self.coordinates.to_pixels(parsed.action, size, self.max_pixels) {
                Some(action) => score_action(self.profile, &action, formed, truth, pixels),
                None => Outcome::Error {
                    reason: "the executor's coordinates are relative, and the row has no screen size"
                        .to_owned(),
                },
            },
            // What cannot be read has no coordinates either.
            Err(_) => score_reply(self.profile, reply, truth, pixels),
        }
    }
}

/// The frozen Coordinator of a State Tracker's reward: behind a server, or in this process.
enum FrozenCoordinator {
    Served(Box<BlockingClient>),
    Local(Box<LocalModel>),
}

/// What it is asked: the template's values, the screen and its picture.
type Asked<'a> = (BTreeMap<&'static str, String>, &'a Screen, Option<&'a Image>);

impl FrozenCoordinator {
    fn open(settings: &RewardSection) -> Result<Option<Self>> {
        let served = !settings.coordinator.endpoints.is_empty();
        if served && settings.coordinator_model.model.is_some() {
            bail!("both reward.coordinator.endpoints and reward.coordinator_model.model are set: give one");
        }
        if settings.coordinator_model.model.is_some() {
            let model = LocalModel::open(&settings.coordinator_model, "reward.coordinator_model")?;
            return Ok(Some(Self::Local(Box::new(model))));
        }
        let open = || BlockingClient::open(&unguarded(&settings.coordinator)).context("reward.coordinator");
        served.then(open).transpose().map(|client| client.map(|client| Self::Served(Box::new(client))))
    }

    fn replies(&self, asked: Vec<Asked<'_>>, max_tokens: u32) -> Result<Vec<Called<String>>, ChatError> {
        match self {
            Self::Served(client) => {
                let request = |(values, screen, image): Asked<'_>| {
                    let shown = Shown::of(image.is_some(), &screen.elements);
                    ask(client, "coordinator", values, shown, image, max_tokens)
                };
                let requests: Vec<_> = asked.into_iter().map(request).collect::<Result<_, ChatError>>()?;
                let text = |outcome| match outcome {
                    Called::Reply(ChatReply { text, .. }) => Called::Reply(text),
                    Called::Failed(error) => Called::Failed(error),
                };
                Ok(client.call_all(&requests, |_, _| {})?.into_iter().map(text).collect())
            }
            Self::Local(model) => {
                let request = |(values, screen, _): Asked<'_>| {
                    let shown = Shown::of(false, &screen.elements);
                    local_request("coordinator", values, shown, max_tokens as usize)
                };
                local_replies(model, &asked.into_iter().map(request).collect::<Result<Vec<_>, ChatError>>()?)
            }
        }
    }
}

/// The picture at a path below `folder`, or in a data URL.
///
/// # Errors
/// When there is no such folder or file, or the path leaves the folder.
pub fn read_picture(folder: Option<&Input>, image: &str) -> Result<Image> {
    if let Some((mime, data)) = image.strip_prefix("data:").and_then(|url| url.split_once(";base64,")) {
        return Ok(Image::new(STANDARD.decode(data).context("not base64")?, mime));
    }
    let Some(input) = folder else {
        bail!("`{image}` is a path: give the folder it lies in with --images, or send a data URL")
    };
    let path: PathBuf = input.inside(&input.root, image).map_err(anyhow::Error::msg)?;
    let bytes = std::fs::read(&path).with_context(|| image.to_owned())?;
    let is_jpeg =
        path.extension().is_some_and(|e| e.eq_ignore_ascii_case("jpg") || e.eq_ignore_ascii_case("jpeg"));
    Ok(Image::new(bytes, if is_jpeg { "image/jpeg" } else { "image/png" }))
}

/// The share of failures is watched over the stage, not over each batch, whose rows would be lost.
fn unguarded(settings: &ChatSettings) -> ChatSettings {
    ChatSettings { max_error_share: 1.0, ..settings.clone() }
}

/// A row on its way.
#[derive(Default)]
struct Progress {
    screen: Screen,
    image: Option<Image>,
    failed: Option<String>,
    coordinator: Option<String>,
    instruction: Option<String>,
    done: Option<(Outcome, Option<Reply>)>,
}

impl Progress {
    fn instruct(&mut self, content: Option<&str>) {
        self.instruction = content.map(str::trim).filter(|c| !c.is_empty()).map(str::to_owned);
    }
}

#[cfg(test)]
#[path = "reward_tests.rs"]
mod tests;
