//! A failure that is no bug, ready to be shown; and how an error of another crate becomes one.
//!
//! This module uses no other of this crate, so that every other can fail with `?`.

use serde::{Deserialize, Serialize};
use std::{fmt::Display, io, path::Path};
use tilemark_guests::GuestError;
use tilemark_image::ImageError;
use tilemark_plan::problem::Problems;
use tilemark_record::RecordError;
use tilemark_sys::files::{Distrust, distrust};

/// A failure that is no bug, ready to be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The exit code that it has.
    pub code: FailureCode,
    /// What failed, then its causes.
    pub message: String,
    /// Why, outermost first.
    pub causes: Vec<String>,
    /// What to do about it.
    pub remedy: String,
}

/// Kinds of failure, by exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureCode {
    /// 1: our bug.
    Bug,
    /// 2: a bad scenario or flag.
    BadInput,
    /// 3: the host is unfit, or busy.
    HostUnfit,
    /// 4: a guest failed.
    GuestFailed,
    /// 5: the user ended it before it was done.
    Interrupted,
    /// 6: the host was not restored.
    NotRestored,
}

impl FailureCode {
    /// The exit code.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Bug => 1,
            Self::BadInput => 2,
            Self::HostUnfit => 3,
            Self::GuestFailed => 4,
            Self::Interrupted => 5,
            Self::NotRestored => 6,
        }
    }

    /// The same in a word, for `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bug => "bug",
            Self::BadInput => "bad-input",
            Self::HostUnfit => "host-unfit",
            Self::GuestFailed => "guest-failed",
            Self::Interrupted => "interrupted",
            Self::NotRestored => "not-restored",
        }
    }
}

impl Failure {
    /// From texts alone.
    pub fn new(code: FailureCode, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code, message: message.into(), causes: Vec::new(), remedy: remedy.into() }
    }

    /// From an error with its remedy; causes are taken from its sources.
    pub fn from_error(code: FailureCode, error: &dyn std::error::Error, remedy: impl Into<String>) -> Self {
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        Self {
            causes: causes.map(ToString::to_string).collect(),
            ..Self::new(code, error.to_string(), remedy)
        }
    }

    /// From texts, with what caused it.
    pub(crate) fn caused_by(
        cause: &impl Display,
        code: FailureCode,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { causes: vec![cause.to_string()], ..Self::new(code, message, remedy) }
    }

    /// The same, naming the path that was asked for instead of the way by which it was reached.
    pub(crate) fn shown_as(mut self, way: &Path, asked: &Path) -> Self {
        let (way, asked) = (way.display().to_string(), asked.display().to_string());
        self.message = self.message.replace(&way, &asked);
        self
    }
}

/// A record that cannot be written is the host's shortage; one that cannot be read is bad input.
impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        let code = match &error {
            RecordError::Write { .. } | RecordError::Busy { .. } => FailureCode::HostUnfit,
            RecordError::Read { .. }
            | RecordError::Damaged { .. }
            | RecordError::Unfinished { .. }
            | RecordError::Newer { .. }
            | RecordError::NoRecord { .. }
            | RecordError::Occupied { .. }
            | RecordError::NoSuchRun { .. }
            | RecordError::NotARecord { .. }
            | RecordError::NotUnique { .. } => FailureCode::BadInput,
        };
        Self::from_error(code, &error, remedy_for(&error, rustix::process::geteuid().is_root()))
    }
}

/// What a user reads who has no such run, and is not root.
pub(crate) const ROOTS_RUNS: &str = "runs made with sudo belong to root: repeat the command with `sudo`";

/// What to do about a record. Who is not root may look for a run that `sudo` made, and that root has.
fn remedy_for(error: &RecordError, is_root: bool) -> String {
    let remedy = error.remedy();
    match error {
        RecordError::NoSuchRun { .. } if !is_root => {
            format!("{remedy}; {ROOTS_RUNS}")
        }
        _ => remedy,
    }
}

/// An image that fails is the host's matter, unless what was asked for is wrong.
impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        let code = match &error {
            ImageError::BadSpec { .. }
            | ImageError::UnknownSpec { .. }
            | ImageError::UnknownImage { .. }
            | ImageError::AmbiguousImage { .. }
            | ImageError::BadDiskName { .. }
            | ImageError::BadArchive { .. }
            | ImageError::OtherImage { .. }
            | ImageError::ForBuiltIn { .. }
            | ImageError::NamedAsBuiltIn { .. }
            | ImageError::WouldReplace { .. }
            | ImageError::FileChanged { .. }
            | ImageError::NoSource { .. }
            | ImageError::SuiteNotFound { .. }
            | ImageError::PackagesNotFound { .. } => FailureCode::BadInput,
            ImageError::NotCached { .. }
            | ImageError::NotRoot { .. }
            | ImageError::OddPath { .. }
            | ImageError::ToolMissing { .. }
            | ImageError::NoAptSource { .. }
            | ImageError::MirrorUnreachable { .. }
            | ImageError::ToolFailed { .. }
            | ImageError::ExtraFile { .. }
            | ImageError::DiskFull { .. }
            | ImageError::DiskShort { .. }
            | ImageError::StillMounted { .. }
            | ImageError::Kernel { .. }
            | ImageError::ModuleMissing { .. }
            | ImageError::HashMismatch { .. }
            | ImageError::SizeMismatch { .. }
            | ImageError::BadLock { .. }
            | ImageError::StoreBusy { .. }
            | ImageError::StoreMount { .. }
            | ImageError::Loop { .. }
            | ImageError::Clone { .. }
            | ImageError::Io { .. } => FailureCode::HostUnfit,
        };
        Self::from_error(code, &error, error.remedy())
    }
}

impl From<GuestError> for Failure {
    fn from(error: GuestError) -> Self {
        let code = match &error {
            // No guest failed: the host lacks what guests need.
            GuestError::QemuMissing { .. }
            | GuestError::QemuTooOld { .. }
            | GuestError::Network(_)
            | GuestError::OwnBridge { .. }
            | GuestError::AddressInUse { .. }
            | GuestError::Unheld { .. } => FailureCode::HostUnfit,
            GuestError::Firmware { .. } => FailureCode::BadInput,
            // A QEMU that does not even start may be a commit's fault: a bisection skips it as it skips one whose guests fail.
            GuestError::NotQemu { .. } => FailureCode::GuestFailed,
            _ => FailureCode::GuestFailed,
        };
        Self::from_error(code, &error, error.remedy())
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::new(FailureCode::BadInput, problems.to_string(), problems.remedy())
    }
}

/// A state folder, or a file of a job in one, that cannot be made or read.
pub(crate) fn state_failed(error: io::Error) -> Failure {
    place_distrusted(&error).unwrap_or_else(|| {
        Failure::caused_by(
            &error,
            FailureCode::HostUnfit,
            "cannot make a state folder",
            "free some space, or set TILEMARK_HOME to a folder that may be written",
        )
    })
}

/// A place that was named and cannot be used; `failed` makes the failure of any other error.
pub(crate) fn place_failed<F: Into<Failure>>(
    error: io::Error,
    failed: impl FnOnce(io::Error) -> F,
) -> Failure {
    let Some(why) = distrust(&error) else { return failed(error).into() };
    if matches!(why, Distrust::Folder { .. }) {
        return Failure::new(FailureCode::BadInput, why.to_string(), "add the file's name to the path");
    }
    let remedy = "name a new file or folder that you own, by a path without links of other users";
    Failure::new(FailureCode::HostUnfit, format!("{why}: nothing is written there"), remedy)
}

/// What somebody else could have written is not believed: the failure, where that is the error.
pub(crate) fn place_distrusted(error: &io::Error) -> Option<Failure> {
    let why = distrust(error)?;
    let path = match why {
        Distrust::Owner { path, .. }
        | Distrust::Writable { path, .. }
        | Distrust::Folder { path }
        | Distrust::Kind { path } => path.display(),
    };
    let remedy = match why {
        Distrust::Owner { .. } => {
            format!("find out who made {path}, then remove it, or set TILEMARK_HOME to a folder of your own")
        }
        Distrust::Writable { .. } => {
            format!("look at what is in {path}, then take the right from others: `chmod -R go-w {path}`")
        }
        Distrust::Folder { .. } | Distrust::Kind { .. } => format!("remove {path}, or name another place"),
    };
    Some(Failure::new(FailureCode::HostUnfit, format!("{why}: it is not used"), remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_root_reads_where_the_runs_of_sudo_are() {
        let none = RecordError::NoSuchRun { wanted: "last".to_owned(), known: Vec::new() };
        assert!(remedy_for(&none, false).ends_with("repeat the command with `sudo`"));
        assert!(!remedy_for(&none, true).contains("sudo"));
        let no_record = RecordError::NotARecord { path: "/x".into() };
        assert_eq!(remedy_for(&no_record, false), "check the path");
    }
}
