//! Reading `R/traces/` back, episode by episode.

use std::path::Path;

use super::{EpisodeRow, StepRow};
use crate::parquet_io::{TableError, read_batches};

type Batches<T> = Box<dyn Iterator<Item = Result<Vec<T>, TableError>>>;

/// Iterator over the episodes of a traces folder with their steps, in file order. Holds one batch
/// of each table at a time.
pub struct Episodes {
    folder: std::path::PathBuf,
    episodes: Batches<EpisodeRow>,
    steps: Batches<StepRow>,
    episode_rows: std::vec::IntoIter<EpisodeRow>,
    step_rows: std::iter::Peekable<std::vec::IntoIter<StepRow>>,
}

/// Opens `episodes.parquet` and `steps.parquet` of `folder`.
pub fn read_episodes(folder: &Path) -> Result<Episodes, TableError> {
    Ok(Episodes {
        folder: folder.to_owned(),
        episodes: Box::new(read_batches(&folder.join("episodes.parquet"))?),
        steps: Box::new(read_batches(&folder.join("steps.parquet"))?),
        episode_rows: Vec::new().into_iter(),
        step_rows: Vec::new().into_iter().peekable(),
    })
}

impl Episodes {
    fn next_step_of(&mut self, episode_id: &str) -> Result<Option<StepRow>, TableError> {
        while self.step_rows.peek().is_none() {
            match self.steps.next() {
                Some(batch) => self.step_rows = batch?.into_iter().peekable(),
                None => return Ok(None),
            }
        }
        Ok(self.step_rows.next_if(|s| s.episode_id == episode_id))
    }

    fn steps_of(&mut self, episode: &EpisodeRow) -> Result<Vec<StepRow>, TableError> {
        let mut steps = Vec::with_capacity(episode.steps as usize);
        while let Some(step) = self.next_step_of(&episode.episode_id)? {
            steps.push(step);
        }
        if steps.len() != episode.steps as usize {
            return Err(TableError::Schema {
                path: self.folder.join("steps.parquet"),
                reason: format!(
                    "episode {} has {} steps here and {} in episodes.parquet; run `ingest` again",
                    episode.episode_id,
                    steps.len(),
                    episode.steps
                ),
            });
        }
        Ok(steps)
    }
}

impl Iterator for Episodes {
    type Item = Result<(EpisodeRow, Vec<StepRow>), TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(episode) = self.episode_rows.next() {
                return Some(self.steps_of(&episode).map(|steps| (episode, steps)));
            }
            match self.episodes.next()? {
                Ok(rows) => self.episode_rows = rows.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
