//! The run directory: its formats, their versions, and how they are written without ever being
//! half-written. It knows nothing of drawing and nothing of how figures were measured.

mod baselines;
mod beside_runs;
mod bounds;
pub mod clients;
mod directory;
mod error;
mod events;
#[cfg(feature = "faults")]
pub mod faults;
#[cfg(not(feature = "faults"))]
mod faults;
mod file;
pub mod histogram;
mod notes;
pub mod placement;
pub mod places;
pub mod result;
pub mod rows;
mod runs;
pub mod summary;

/// For `derive(JsonSchema)`: schemars' own, or without the feature `schema` one that derives nothing.
#[cfg(feature = "schema")]
pub(crate) use schemars::JsonSchema;
#[cfg(not(feature = "schema"))]
pub(crate) use tilemark_schema::JsonSchema;

pub use baselines::Baselines;
pub use directory::{Held, ROWS_MAX, RepeatFiles, RunDirectory, TaggedSecond};
pub use error::RecordError;
pub use events::{Event, Events};
pub use file::{DOCUMENT_MAX, lock_within, sha256_of, write_whole};
pub use notes::{Notes, RunNotes};
pub use runs::{Listed, NoAnswer, Runs};

/// What a load of jobs on one guest found: part of a repeat's summary.
pub mod jobs {
    pub use tilemark_plan::workload::{JobKind, JobTimes, JobsFigures};
}

/// What a store load on one guest found: part of a repeat's summary.
pub mod store {
    pub use tilemark_plan::workload::{
        Finding, ServerSetting, SteadyWindow, StepLatency, StoreFigures, StoreServer, StoreStatus,
        StoreVerdict,
    };
}
