//! Jobs whose `srun` was killed: Slurm goes on with them until their time is over, and they keep their node.

use std::process::{Command, Stdio};

/// What hides jobs from `squeue`, in the environment of whoever calls us (squeue(1)).
const HIDES: [&str; 6] =
    ["SQUEUE_ACCOUNT", "SQUEUE_NAMES", "SQUEUE_PARTITION", "SQUEUE_QOS", "SQUEUE_STATES", "SQUEUE_USERS"];

/// `squeue` that shows all jobs.
pub fn squeue() -> Command {
    let mut command = Command::new("squeue");
    HIDES.iter().for_each(|variable| {
        command.env_remove(variable);
    });
    command
}

/// Ends the job of this name, where Slurm has one. Where Slurm does not answer, the next question says so.
pub fn end_left_job(name: &str) {
    let mut queue = squeue();
    queue.args(["--noheader", "--format=%i", &format!("--name={name}")]).stdin(Stdio::null());
    let has_job =
        queue.output().is_ok_and(|output| output.status.success() && !output.stdout.trim_ascii().is_empty());
    if has_job {
        let _ = Command::new("scancel").arg(format!("--name={name}")).stdin(Stdio::null()).output();
    }
}
