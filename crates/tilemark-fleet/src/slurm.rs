//! Slurm as the engine: one exclusive job for each host, never an array, because two tasks of an array may share a host.

use crate::carrier::as_root;
use std::{
    collections::BTreeMap,
    io::Write,
    process::{Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};
use tilemark_site::{
    Site, SiteEngine,
    left_job::{scancel, squeue},
};
use tilemark_sys::passwords::PASSWORDS;
use tilemark_units::printable_line;

/// How old an answer of `squeue` may be: it is asked for all jobs at once.
const FRESH: Duration = Duration::from_secs(2);

/// So long before its limit of time a job is asked to end.
pub(crate) const ENDED_BEFORE: Duration = Duration::from_secs(60);

/// Parts of Slurm's reasons (<https://slurm.schedmd.com/job_reason_codes.html>) with which a job waits until somebody releases it or
/// changes a limit. Limits of a user, an account or a group of jobs are not among them: they pass when other jobs end.
const HELD: [&str; 14] = [
    "JobHeld",
    "JobHoldMaxRequeue",
    "launch failed requeued held",
    "PerJob",
    "PerNode",
    "TimeLimit",
    "PartitionNodeLimit",
    "PartitionInactive",
    "MinCpuNotSatisfied",
    "BadConstraints",
    "PartitionConfig",
    "Invalid",
    "NotAllowed",
    "NeverSatisfied",
];

/// A job as the queue shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) id: String,
    /// Slurm's word, such as PENDING.
    pub(crate) state: String,
    /// Slurm's reason, such as Resources.
    pub(crate) reason: String,
}

/// What a job's state means for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits and may start.
    Queued,
    /// It waits for a host that is gone.
    HostGone,
    /// It is held, or beyond a limit that no other job's end changes: it waits until somebody acts.
    Held,
    Running,
    Over,
}

impl Job {
    pub(crate) fn stage(&self) -> Stage {
        match self.state.as_str() {
            "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => Stage::Held,
            "PENDING" | "REQUEUED" => {
                let has = |words: &[&str]| words.iter().any(|word| self.reason.contains(word));
                if has(&["NotAvail", "DOWN", "Down", "Unavailable"]) {
                    Stage::HostGone
                } else if has(&HELD) {
                    Stage::Held
                } else {
                    Stage::Queued
                }
            }
            "RUNNING" | "COMPLETING" | "CONFIGURING" | "SUSPENDED" | "STOPPED" | "SIGNALING" | "RESIZING"
            | "STAGE_OUT" => Stage::Running,
            _ => Stage::Over,
        }
    }

    /// In Slurm's words.
    pub(crate) fn words(&self) -> String {
        format!("Slurm's job {} is {} ({})", self.id, self.state, self.reason)
    }

    /// What to do about one that waits for too long.
    pub(crate) fn way_on(&self) -> String {
        let later = "the job stays in the queue: collect later, or `tilemark fleet cancel`";
        match self.stage() {
            Stage::Held => {
                format!("see `scontrol show job {}`, and release it or change the limit; {later}", self.id)
            }
            _ => later.to_owned(),
        }
    }
}

/// The name of a host's job.
pub(crate) fn job_name(fleet: &str, host: &str) -> String {
    format!("tilemark-{fleet}-{host}")
}

/// Before a job's shell: where Slurm's keeper of the job is killed, the kernel asks the job to end, as a queue's Ctrl-C does.
const ENDS_WITH_SLURM: &str = "env --default-signal=INT setpriv --pdeathsig INT";

/// Submits a job; its number.
///
/// # Errors
/// In words, when Slurm does not take it.
pub(crate) fn submit(site: &Site, fleet: &str, host: &str, job: &str) -> Result<String, String> {
    let mut command = Command::new("sbatch");
    command.args([
        "--parsable",
        "--exclusive",
        "--mem=0",
        "--nodes=1",
        "--requeue",
        "--open-mode=append",
        "--chdir=/",
    ]);
    // Before its limit of time a job gets what Ctrl-C sends, and keeps its whole repeats.
    command.arg("--output=/dev/null").arg(format!("--signal=B:INT@{}", ENDED_BEFORE.as_secs()));
    command.arg(format!("--nodelist={host}")).arg(format!("--job-name={}", job_name(fleet, host)));
    if let SiteEngine::Slurm(slurm) = &site.engine {
        command.args(slurm.flags());
        command.args(slurm.time_s.map(|seconds| format!("--time={}", seconds.div_ceil(60))));
    }
    // sbatch brings the environment of the submitting machine along, whose places are none of the host.
    let script = format!(
        "#!/bin/sh\nunset TILEMARK_HOME TMPDIR\n{}",
        as_root(job, "--preserve-env=SLURM_RESTART_COUNT", ENDS_WITH_SLURM)
    );
    let printed = run(command, &script)?;
    let id = printed.trim().split(';').next().unwrap_or_default();
    if id.is_empty() || !id.chars().all(|digit| digit.is_ascii_digit()) {
        return Err(format!(
            "sbatch printed {:?}, which is not the number of a job",
            printable_line(printed.trim())
        ));
    }
    Ok(id.to_owned())
}

/// Ends a host's job. With `signal` its script gets that signal and ends in order; else the job is removed from the queue.
///
/// # Errors
/// In words, when Slurm does not do it.
pub(crate) fn end(fleet: &str, host: &str, signal: Option<&str>) -> Result<(), String> {
    let mut command = scancel();
    command.arg(format!("--name={}", job_name(fleet, host)));
    if let Some(signal) = signal {
        command.arg("--batch").arg(format!("--signal={signal}"));
    }
    run(command, "").map(drop)
}

/// Runs a command of Slurm; what it printed.
fn run(mut command: Command, input: &str) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Slurm keeps the environment of what submits a job, and gives it to the job.
    PASSWORDS.iter().for_each(|secret| {
        command.env_remove(secret);
    });
    // A submitter that is itself a job may have begun again. It would number the attempts of the hosts.
    command.env_remove("SLURM_RESTART_COUNT");
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| format!("`{name}` does not start on this machine: {error}"))?;
    let mut stdin = child.stdin.take().expect("it is piped");
    // One that ends at once does not read it, and says why itself.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().map_err(|error| format!("`{name}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", printable_line(String::from_utf8_lossy(&output.stderr).trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The queue, asked for all jobs of a fleet run at once.
pub(crate) struct Queue {
    names: String,
    seen: Mutex<Option<(Instant, BTreeMap<String, Job>)>>,
}

impl Queue {
    /// Of these hosts.
    pub(crate) fn new<'a>(fleet: &str, hosts: impl Iterator<Item = &'a str>) -> Self {
        let names: Vec<String> = hosts.map(|host| job_name(fleet, host)).collect();
        Self { names: names.join(","), seen: Mutex::new(None) }
    }

    /// The job of this name; none where Slurm knows none (any more).
    ///
    /// # Errors
    /// In words, when the queue does not answer.
    pub(crate) fn job(&self, name: &str) -> Result<Option<Job>, String> {
        let mut seen =
            self.seen.lock().map_err(|_| "the queue was being read when its reader failed".to_owned())?;
        if let Some((at, jobs)) = &*seen
            && at.elapsed() < FRESH
        {
            return Ok(jobs.get(name).cloned());
        }
        // What it answers is at least as new as this.
        let asked = Instant::now();
        let mut command = squeue();
        command
            .args(["--noheader", "--states=all", "--format=%j|%i|%T|%r"])
            .arg(format!("--name={}", self.names));
        let jobs = jobs(&run(command, "")?);
        let found = jobs.get(name).cloned();
        *seen = Some((asked, jobs));
        Ok(found)
    }
}

/// Jobs by name; of several with one name the one that is not over, else the newest.
fn jobs(printed: &str) -> BTreeMap<String, Job> {
    let mut jobs: BTreeMap<String, Job> = BTreeMap::new();
    for line in printed.lines() {
        let parts: Vec<&str> = line.splitn(4, '|').map(str::trim).collect();
        let [name, id, state, reason] = parts.as_slice() else { continue };
        let job = Job { id: (*id).to_owned(), state: (*state).to_owned(), reason: (*reason).to_owned() };
        let number = |job: &Job| (job.stage() != Stage::Over, job.id.parse::<u64>().unwrap_or_default());
        if jobs.get(*name).is_none_or(|known| number(known) < number(&job)) {
            jobs.insert((*name).to_owned(), job);
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_read_by_name() {
        let jobs = jobs(
            "tilemark-f-n1|7|COMPLETED|None\ntilemark-f-n1|5|RUNNING|None\ntilemark-f-n2|6|PENDING|(ReqNodeNotAvail, UnavailableNodes:n2)\nodd\n",
        );
        assert_eq!(jobs["tilemark-f-n1"].id, "5");
        assert_eq!(jobs["tilemark-f-n1"].stage(), Stage::Running);
        assert_eq!(jobs["tilemark-f-n2"].stage(), Stage::HostGone);
        assert_eq!(jobs.len(), 2);
    }

    #[test]
    fn each_state_has_its_stage() {
        let stage = |state: &str, reason: &str| {
            Job { id: "1".into(), state: state.into(), reason: reason.into() }.stage()
        };
        assert_eq!(stage("PENDING", "Resources"), Stage::Queued);
        assert_eq!(stage("PENDING", "ReqNodeNotAvail"), Stage::HostGone);
        for held in [
            "JobHeldUser",
            "JobHeldAdmin",
            "PartitionTimeLimit",
            "PartitionNodeLimit",
            "QOSMaxWallDurationPerJobLimit",
            "AssocMaxNodePerJobLimit",
            "InvalidQOS",
            "AccountNotAllowed",
        ] {
            assert_eq!(stage("PENDING", held), Stage::Held, "{held}");
        }
        // They pass when other jobs end.
        for passes in [
            "None",
            // A job that was requeued waits for two minutes.
            "BeginTime",
            "Priority",
            "QOSMaxJobsPerUserLimit",
            "QOSMaxNodePerUserLimit",
            "QOSGrpNodeLimit",
            "AssocGrpCpuLimit",
            "MaxNodePerAccount",
        ] {
            assert_eq!(stage("PENDING", passes), Stage::Queued, "{passes}");
        }
        assert_eq!(stage("REQUEUE_HOLD", "None"), Stage::Held);
        for over in ["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"]
        {
            assert_eq!(stage(over, "None"), Stage::Over);
        }
    }
}
