//! Jobs whose `srun` was killed: Slurm goes on with them until their time is over, and they keep their node.

use std::process::{Command, Stdio};

/// What hides jobs from `squeue` and `scancel`, in the environment of whoever calls us, behind the name of either (squeue(1), scancel(1)).
const HIDES: [&str; 13] = [
    "ACCOUNT",
    "BATCH",
    "INTERACTIVE",
    "LICENSES",
    "NAME",
    "NAMES",
    "PARTITION",
    "QOS",
    "STATE",
    "STATES",
    "USER",
    "USERS",
    "WCKEY",
];

/// `squeue` that shows the jobs of everybody.
pub fn squeue() -> Command {
    unfiltered("squeue")
}

/// `scancel` that ends every job that is named to it.
pub fn scancel() -> Command {
    unfiltered("scancel")
}

fn unfiltered(program: &str) -> Command {
    let mut command = Command::new(program);
    for what in HIDES {
        command.env_remove(format!("{}_{what}", program.to_uppercase()));
    }
    command
}

/// Ends the job of this name, where Slurm has one. Where Slurm does not answer, the next question says so.
pub fn end_left_job(name: &str) {
    let mut queue = squeue();
    queue.args(["--noheader", "--format=%i", &format!("--name={name}")]).stdin(Stdio::null());
    let has_job =
        queue.output().is_ok_and(|output| output.status.success() && !output.stdout.trim_ascii().is_empty());
    if has_job {
        let _ = scancel().arg(format!("--name={name}")).stdin(Stdio::null()).output();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_environment_hides_a_job() {
        for (command, variable) in [(squeue(), "SQUEUE_USERS"), (scancel(), "SCANCEL_PARTITION")] {
            assert!(
                command.get_envs().any(|(name, value)| name == variable && value.is_none()),
                "{command:?}"
            );
        }
    }
}
