//! Jobs whose `srun` was killed: Slurm goes on with them until their time is over, and they keep their node.

use std::process::{Command, Stdio};

/// Ends the job of this name, where Slurm has one. Where Slurm does not answer, the next question says so.
pub fn end_left_job(name: &str) {
    let mut queue = Command::new("squeue");
    queue.args(["--noheader", "--format=%i", &format!("--name={name}")]).stdin(Stdio::null());
    let has_job =
        queue.output().is_ok_and(|output| output.status.success() && !output.stdout.trim_ascii().is_empty());
    if has_job {
        let _ = Command::new("scancel").arg(format!("--name={name}")).stdin(Stdio::null()).output();
    }
}
