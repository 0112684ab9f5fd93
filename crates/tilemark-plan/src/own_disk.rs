//! Guests that boot from a disk of the user's own, and on which backends they can.

use crate::JsonSchema;
use crate::{
    backend::Backend,
    problem::Problem,
    request::Request,
    scenario::{Guest, Scenario},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tilemark_units::Span;

/// How long it may take until the agent answers, where the scenario does not say. A cloud image took 52 s in an emulated guest alone on a
/// quiet host.
pub(crate) const BOOTS_WITHIN: Span = Span::from_seconds(600);

/// A disk of the user's own that a guest boots from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnDisk {
    /// Its path: as the scenario has it when a plan is resolved, absolute once it was looked at.
    pub path: String,
    /// How long it may take until the agent answers in it.
    pub boots_within: Span,
}

impl Guest {
    /// The disk that it boots from, where that is not the image.
    pub fn own_disk(&self) -> Option<OwnDisk> {
        let boots_within = self.boots_within.unwrap_or(BOOTS_WITHIN);
        self.from.as_ref().map(|path| OwnDisk { path: path.clone(), boots_within })
    }
}

impl Scenario {
    /// Whether any of its guests boots the image.
    pub fn needs_image(&self) -> bool {
        self.guest.iter().any(|guest| guest.from.is_none())
    }
}

/// Guests with a disk of their own where native twins are measured.
pub(crate) fn twins<'a>(request: &Request, scenarios: impl Iterator<Item = &'a Scenario>) -> Vec<Problem> {
    let mut backends = request.backends.iter().chain(&request.demonstrate);
    if !backends.any(|backend| *backend == Backend::Native) {
        return Vec::new();
    }
    let disks: BTreeSet<(&str, &str)> = scenarios
        .flat_map(|scenario| &scenario.guest)
        .filter_map(|guest| Some((guest.name.as_str(), guest.from.as_deref()?)))
        .collect();
    let problem = |(name, path): (&str, &str)| {
        Problem::new(
            format!(
                "guest `{name}` boots from {path:?}, and has no native twin: a twin has the host's kernel and Tilemark's image"
            ),
            "measure it with `--on kvm` or `--on emulated`, and without `--twin`",
        )
    };
    disks.into_iter().map(problem).collect()
}
