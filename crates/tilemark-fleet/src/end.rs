//! What a host's attempt ended as.

use serde::{Deserialize, Serialize};
pub use tilemark_report::End;

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
