//! Many hosts: where their names are kept, how each is reached, what each ended as, and one verdict for all.
//!
//! A fleet run has a folder of its own, `fleets/ID` in Tilemark's folder:
//!
//! ```text
//! fleet.json                       what was asked: scenario, seed, engine and hosts; synced before anything is submitted
//! hosts/NAME/attempt-N/end.json    what that attempt ended as (`HostEnd`)
//! hosts/NAME/attempt-N/record/     its record, as `runs` keeps it; not there where it left none
//! ```

mod end;
pub mod verdict;

pub use end::{End, HostEnd};
