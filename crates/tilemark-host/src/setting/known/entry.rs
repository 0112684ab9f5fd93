//! An entry of the catalogue: what is known of one setting.

use serde::Serialize;

use super::accepts::Accepts;
use super::request::Make;

/// One setting of the catalogue, or many that differ by a name in their key.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its key; `{device}` and the like is any name: `block.{device}.scheduler`.
    pub key: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Where it is documented: a document of the kernel, or a manual page.
    pub source: &'static str,
    /// What can go wrong.
    pub danger: Danger,
    /// Where it is in force.
    pub place: Place,
    /// What it accepts.
    pub accepts: Accepts,
    /// Makes the settings of this host for a value that it accepts.
    pub(super) settings: Make,
}

/// What can go wrong where a setting is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Danger {
    /// Nothing but speed.
    None,
    /// The host, or programs on it, may run out of something or behave otherwise.
    Stability,
    /// The host becomes easier to attack.
    Security,
    /// Data that was written may be lost.
    DataLoss,
}

impl Danger {
    /// The one of this name.
    pub(super) fn called(name: &str) -> Option<Self> {
        let all = [Self::None, Self::Stability, Self::Security, Self::DataLoss];
        all.into_iter().find(|danger| danger.name() == name)
    }

    /// Whether it is applied only where it is named by itself.
    pub fn needs_consent(self) -> bool {
        self >= Self::Security
    }

    /// As in documents and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Stability => "stability",
            Self::Security => "security",
            Self::DataLoss => "data-loss",
        }
    }
}

/// Where a setting is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In the whole host.
    Host,
    /// In one network namespace: a run sets it in its own, and the host's is unchanged.
    RunNetwork,
    /// In the processes that Tilemark starts.
    Process,
}

impl Place {
    /// The one of this name.
    pub(super) fn called(name: &str) -> Option<Self> {
        [Self::Host, Self::RunNetwork, Self::Process].into_iter().find(|place| place.name() == name)
    }

    /// As in documents and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::RunNetwork => "run-network",
            Self::Process => "process",
        }
    }
}
