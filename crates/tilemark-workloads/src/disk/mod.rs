//! The workload `disk`: random requests to the data disks, made in the guest itself: flat out by fio, at a rate
//! in an open loop of our own. Its figures are measured inside.

mod child;
mod job;
mod paced;
mod report;
mod run;

pub use job::{Target, data_disks, job_file};
pub use report::{Snapshot, parse_snapshot};
pub(crate) use run::run_job;
pub use run::run_on;
