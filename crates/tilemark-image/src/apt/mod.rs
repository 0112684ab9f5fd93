//! What this host's apt knows: where its archives are, whose signatures it trusts, how it reaches them.

mod options;
mod sources;

pub(crate) use options::host_options;
pub use sources::{AptSource, Keys, deb822_sources, one_line_sources};
pub(crate) use sources::{host_sources, sources_for_suite};
