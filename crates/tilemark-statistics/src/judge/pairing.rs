//! Which repeats of two sides are compared with which.

/// How repeats of the sides belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// By the block that both ran in.
    Blocks,
    /// Not at all: one run a side, at different times. What differs may differ between any two runs.
    None,
    /// Not at all: several runs a side, and each run is one value.
    Runs,
}
