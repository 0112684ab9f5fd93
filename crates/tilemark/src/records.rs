//! Records of this user as a command line names them, and what this user has noted of them.

use crate::places::places;
use tilemark_record::{Baselines, Notes, RunDirectory, Runs};
use tilemark_run::failure::Failure;

/// The run that a name means.
pub(crate) fn find(run: &str) -> Result<RunDirectory, Failure> {
    Ok(Runs::new(&places().runs).find(run)?)
}

/// The runs that names mean.
pub(crate) fn found(runs: &[String]) -> Result<Vec<RunDirectory>, Failure> {
    let known = Runs::new(&places().runs);
    runs.iter().map(|run| Ok(known.find(run)?)).collect()
}

/// The runs that a side names: those of a baseline, or one.
pub(crate) fn side(name: &str) -> Result<Vec<RunDirectory>, Failure> {
    let of_baseline = Baselines::new(&places().runs).find(name)?;
    found(&of_baseline.unwrap_or_else(|| vec![name.to_owned()]))
}

/// The tags and notes of this user.
pub(crate) fn notes() -> Notes {
    Notes::new(&places().runs)
}

/// The tags of a run, in order.
pub(crate) fn tags_of(run: &RunDirectory) -> Result<Vec<String>, Failure> {
    Ok(notes().of(run)?.tags.into_iter().collect())
}
