//! The host's settings by profile: shown, applied, verified, restored, moved to and from other programs. And running guests bound to nodes.

pub mod apply;
mod binders;
mod describe;
pub mod exchange;
mod huge_pages;
pub mod pin;
pub mod plan;
pub mod profile;
pub(crate) mod rivals;

#[cfg(test)]
mod tests;
