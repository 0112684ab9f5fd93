//! When a program of the user's own is ready.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use tilemark_units::Span;

/// When a program of your own is ready: as soon as it listens on its port, or has printed a line. Exactly one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// The TCP port that it listens on. Loads ask it there. Default: none.
    #[serde(default)]
    pub port: Option<u16>,
    /// Text that a line of its output holds, such as `listening on`. Default: none.
    #[serde(default)]
    pub line: Option<String>,
    /// How long it may take, at most `400s`.
    #[serde(default = "default_within")]
    pub within: Span,
}

const fn default_within() -> Span {
    Span::from_seconds(60)
}
