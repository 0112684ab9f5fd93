//! What a host's attempt ended as.

use serde::{Deserialize, Serialize};

/// How the work of one host ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// It measured, and its answer is to be trusted.
    Trusted,
    /// It measured, and its answer is not to be trusted.
    NotTrusted,
    /// It measured, and the data do not answer the question.
    CannotTell,
    /// It cannot do this work: something is missing there.
    Unfit,
    /// A guest or a load failed.
    GuestFailed,
    /// A setting of the host could not be restored. Whatever else is true of the host comes after this.
    NotRestored,
    /// The host or its engine was lost while it worked.
    Lost,
    /// The host does not answer.
    NoAnswer,
    /// Its work has never started.
    NeverStarted,
}

/// One attempt of one host, as `end.json` keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostEnd {
    /// How it ended.
    pub end: End,
    /// The exit code of `tilemark` on the host; none where it is not known.
    pub exit_code: Option<i32>,
    /// Why, in words, for a person. Empty where it is trusted.
    pub because: String,
}
