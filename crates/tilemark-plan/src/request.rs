//! What is asked for in addition to the scenario.

use crate::{backend::Backend, screening::Screening, sides::Sides};
use std::collections::BTreeMap;
use tilemark_units::Span;

/// A preset that every scenario has: its own, or the sizes as they are with a ladder that fits the host.
pub const HOST_PRESET: &str = "host";

/// What was asked for in addition to the scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Preset to apply.
    pub preset: Option<String>,
    /// `--set` values by dotted key.
    pub settings: BTreeMap<String, String>,
    /// The backend, then its twin if there is one.
    pub backends: Vec<Backend>,
    /// Tile counts instead of the ladder's.
    pub tiles: Option<Vec<u32>>,
    /// Settings of two sides.
    pub sides: Option<Sides>,
    /// Search for the largest tile count that holds.
    pub search: bool,
    /// Each role of the tile alone and beside every other one, in place of a ladder.
    pub interference: bool,
    /// Further blocks of repeats of the pairs of roles that look slow; 0: none.
    pub confirm_blocks: u32,
    /// Settings of the host that are screened, in place of a ladder.
    pub screening: Option<Screening>,
    /// End within this.
    pub within: Option<Span>,
    /// One tile more on this backend, once, to show whether its guests work.
    pub demonstrate: Option<Backend>,
    /// Seeds order, schedules and choices.
    pub seed: u64,
}
