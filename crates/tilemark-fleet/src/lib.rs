//! Many hosts: where their names are kept, how each is reached, what each ended as, and one verdict for all.
//!
//! A fleet run has a folder of its own, `fleets/ID` in Tilemark's folder:
//!
//! ```text
//! fleet.json                       what was asked: scenario, seed, engine and hosts; synced before anything is submitted
//! cancelled                        from when it is there, nothing more is submitted
//! hosts/NAME/attempt-N/end.json    what that attempt ended as (`HostEnd`)
//! hosts/NAME/attempt-N/record/     its record, as `runs` keeps it; not there where it left none
//! ```
//!
//! On a host its work is in `fleet-jobs/ID/NAME` of Tilemark's folder there (`job.sh`), and stays until it is cleaned.

mod carrier;
mod collect;
mod end;
mod end_work;
mod error;
mod folder;
mod job;
mod open_files;
mod plan;
mod run;
mod slurm;
pub mod verdict;

pub use carrier::read_host_answer;
pub use collect::unpack_attempt;
pub use end::{End, HostEnd};
pub use end_work::{EndedWork, cancel, clean};
pub use error::FleetError;
pub use folder::{Fleet, FleetFolder, FleetLock, FleetOrder, HostWork, Step, fleets, ids};
pub use plan::{PlannedHost, plan};
pub use run::{Watch, collect_all, run, status};
pub use tilemark_site::{Host, Site, SiteEngine, Slurm};
