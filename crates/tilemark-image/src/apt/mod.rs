//! What this host's apt knows: where its archives are, whose signatures it trusts, how it reaches them.

mod options;
mod sources;

pub(crate) use options::host_options;
pub(crate) use sources::{Keys, host_sources, sources_for_suite};
