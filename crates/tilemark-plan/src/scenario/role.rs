//! What a guest is for.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a guest is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Nothing but its operating system.
    Idle,
    /// A web server.
    Web,
    /// A guest whose data disks are read and written from inside.
    Disk,
    /// A message broker.
    Broker,
    /// A database.
    Database,
    /// A guest whose processors and memory work from inside, and files on its first data disk.
    Compute,
    /// A guest that sends a load to another one of its tile.
    Client,
    /// What the dynamic pages of web servers ask.
    Backend,
    /// A program of your own: `run`.
    Program,
}

impl Role {
    /// The name as it is written in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Web => "web",
            Self::Disk => "disk",
            Self::Broker => "broker",
            Self::Database => "database",
            Self::Compute => "compute",
            Self::Client => "client",
            Self::Backend => "backend",
            Self::Program => "program",
        }
    }
}
