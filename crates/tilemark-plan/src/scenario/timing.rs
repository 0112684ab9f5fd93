//! When the requests of a load are sent.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

/// When requests are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoopKind {
    /// At their intended times, whatever the answers do.
    #[default]
    Open,
    /// On each connection, the next one when the previous one is answered. It takes no `rate`.
    Closed,
}

/// How the requests of an open loop are spread in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// Independent users: exponential gaps.
    #[default]
    Poisson,
    /// Equal gaps.
    Even,
    /// Independent users who come together: the requests of a period come in its first part.
    Bursts,
}
