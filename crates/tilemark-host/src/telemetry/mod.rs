//! What the host and the watched processes did in each second.
//!
//! A [`Sampler`] keeps its files open and reads counters; [`difference`] turns two readings into a [`Second`]. Counters are
//! never turned into figures while reading, so the arithmetic is pure and a reading is cheap. What could not be read is
//! missing with a reason in [`Second::missing`], never 0. It decides nothing: which figures count is judged elsewhere.

mod census;
mod difference;
mod energy;
mod files;
pub mod parse;
mod process;
mod sample;
mod sampler;
mod second;

pub use census::{Census, NamedUse};
pub use difference::difference;
pub use parse::Pss;
pub use process::pss;
pub use sample::{Sample, Watched, WatchedKind};
pub use sampler::Sampler;
pub use second::{
    DiskSecond, InterfaceSecond, MemorySecond, Pressure, PressureSecond, ProcessorSplit, Second,
    ThreadSecond, WatchedSecond,
};
