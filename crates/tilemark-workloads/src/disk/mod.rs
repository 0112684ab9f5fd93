//! The workload `disk`: fio on the data disks, run in the guest itself. Its figures are measured inside.

mod child;
mod job;
mod report;

pub use child::{run, run_on};
pub use job::{Target, data_disks, job_file};
pub use report::{Snapshot, parse_snapshot};
