//! The host's settings by profile: shown, applied, verified, restored.

pub mod apply;
mod describe;
pub mod plan;
pub mod profile;
mod rivals;

#[cfg(test)]
mod tests;
