//! Arguments of `abstract` and `lessons`.

use anyhow::Result;
use clap::Args;

use super::StageArgs;
use crate::stage;

/// Arguments of `abstract`.
#[derive(Debug, Args)]
pub(super) struct AbstractArgs {
    #[command(flatten)]
    stage: StageArgs,
    /// Fail when a larger share of pictures is missing or unreadable (0 to 1).
    #[arg(long, value_name = "SHARE")]
    max_rejects: Option<f64>,
    /// Most questions put to the model; the rules answer the rest.
    #[arg(long, value_name = "N")]
    max_calls: Option<u64>,
}

pub(super) fn abstract_run(args: AbstractArgs) -> Result<()> {
    let AbstractArgs { stage: common, max_rejects, max_calls } = args;
    let mut settings = common.common.settings()?;
    settings.abstraction.max_rejects = max_rejects.unwrap_or(settings.abstraction.max_rejects);
    settings.abstraction.max_calls = max_calls.or(settings.abstraction.max_calls);
    let run = crate::run::Run::open(&common.run, common.resume)?;
    let report = stage::abstract_::run(&settings, &run)?;
    crate::pipeline::print_reports(&[report]);
    Ok(())
}
