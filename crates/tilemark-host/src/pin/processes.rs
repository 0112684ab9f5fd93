//! The processes of guests: what is read of them, and what is asked of the scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use tilemark_plan::facts::{Fact, RunningGuest};
use tilemark_sys::files::read_kernel_text;
use tilemark_sys::memory::move_between_nodes;

use super::PinError;
use crate::read::guests::running_guests;
use crate::read::list::parse_list;
use crate::traces::Stat;
use crate::view::{HostView, LiveHost};

/// A thread of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    /// Its number.
    pub tid: u32,
    /// When it started, in clock ticks since the host's boot.
    pub start_ticks: u64,
}

/// The host's processes, as far as guests are bound. The specification has one of its own.
pub trait Processes {
    /// Where files of `/proc` and `/sys` are.
    fn host(&self) -> &dyn HostView;
    /// Processors that a thread may use.
    fn affinity(&self, tid: u32) -> io::Result<BTreeSet<u32>>;
    /// Lets a thread use these processors only.
    fn bind(&self, tid: u32, processors: &BTreeSet<u32>) -> io::Result<()>;
    /// Moves a process's pages, and returns how many stayed.
    fn move_memory(&self, pid: u32, from: &BTreeSet<u32>, to: &BTreeSet<u32>) -> io::Result<u64>;
}

/// The processes of the host that this program runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveProcesses;

impl Processes for LiveProcesses {
    fn host(&self) -> &dyn HostView {
        &LiveHost
    }

    fn affinity(&self, tid: u32) -> io::Result<BTreeSet<u32>> {
        let status = read_kernel_text(Path::new(&format!("/proc/{tid}/status")))?;
        allowed_in(&status).ok_or_else(|| io::Error::other(format!("/proc/{tid}/status lists no processors")))
    }

    fn bind(&self, tid: u32, processors: &BTreeSet<u32>) -> io::Result<()> {
        let mut set = CpuSet::new();
        for processor in processors {
            if *processor as usize >= CpuSet::MAX_CPU {
                return Err(io::Error::other(format!("processor {processor} has too high a number")));
            }
            set.set(*processor as usize);
        }
        Ok(sched_setaffinity(Some(pid_of(tid)?), &set)?)
    }

    fn move_memory(&self, pid: u32, from: &BTreeSet<u32>, to: &BTreeSet<u32>) -> io::Result<u64> {
        let list = |nodes: &BTreeSet<u32>| nodes.iter().copied().collect::<Vec<u32>>();
        move_between_nodes(pid, &list(from), &list(to))
    }
}

/// Processors that a thread may use, from its status. `sched_getaffinity` leaves out those that are offline, and whoever restored what it
/// returns would keep the thread from them when they are online again.
fn allowed_in(status: &str) -> Option<BTreeSet<u32>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(parse_list(list)?.into_iter().collect())
}

fn pid_of(tid: u32) -> io::Result<Pid> {
    let raw = i32::try_from(tid).ok().and_then(Pid::from_raw);
    raw.ok_or_else(|| io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()))
}

/// Guests that run, whoever started them.
pub(super) fn guests(host: &dyn HostView) -> Result<Vec<RunningGuest>, PinError> {
    match running_guests(host) {
        Fact::Value(guests) => Ok(guests),
        Fact::Missing(why) => Err(PinError::Processes(why)),
    }
}

fn stat(host: &dyn HostView, path: &str) -> Option<Stat> {
    Stat::parse(&host.read(&format!("{path}/stat")).ok()?)
}

/// When a process started; `None` for one that is gone or only a zombie.
pub(super) fn start_ticks(host: &dyn HostView, pid: u32) -> Option<u64> {
    stat(host, &format!("/proc/{pid}")).map(|found| found.start_ticks)
}

/// All threads of a guest, its main one first: QEMU's own, and those that move its packets in the kernel. Since Linux 6.4 these are
/// threads of the process; before, they were threads of the kernel that are named after it.
pub(super) fn threads(host: &dyn HostView, pid: u32, of_kernel: &KernelThreads) -> Vec<Thread> {
    let folder = format!("/proc/{pid}/task");
    let mut own = numbers_in(host, &folder);
    own.sort_unstable_by_key(|tid| (*tid != pid, *tid));
    let own = own.into_iter().filter_map(|tid| {
        Some(Thread { tid, start_ticks: stat(host, &format!("{folder}/{tid}"))?.start_ticks })
    });
    own.chain(of_kernel.get(&pid).into_iter().flatten().cloned()).collect()
}

/// Threads of the kernel that work for a guest, by the guest's process.
pub(super) type KernelThreads = BTreeMap<u32, Vec<Thread>>;

/// Looks for them once for all guests: there may be thousands of processes.
pub(super) fn kernel_threads(host: &dyn HostView) -> KernelThreads {
    let mut found = KernelThreads::new();
    for tid in numbers_in(host, "/proc") {
        let Ok(name) = host.read(&format!("/proc/{tid}/comm")) else { continue };
        let Some(pid) = name.trim_end().strip_prefix("vhost-").and_then(|pid| pid.parse().ok()) else {
            continue;
        };
        // Every process can give itself a name, but only the kernel's own have this parent.
        let Some(stat) = stat(host, &format!("/proc/{tid}")).filter(|stat| stat.parent == KERNEL_PARENT)
        else {
            continue;
        };
        found.entry(pid).or_default().push(Thread { tid, start_ticks: stat.start_ticks });
    }
    found
}

/// `kthreadd`, which starts all threads of the kernel.
const KERNEL_PARENT: u32 = 2;

fn numbers_in(host: &dyn HostView, folder: &str) -> Vec<u32> {
    host.list(folder).unwrap_or_default().iter().filter_map(|name| name.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_use_processors_that_are_offline() {
        let status = "Name:\tqemu\nCpus_allowed:\tbf\nCpus_allowed_list:\t0-5,7\nMems_allowed_list:\t0\n";
        assert_eq!(allowed_in(status), Some(BTreeSet::from([0, 1, 2, 3, 4, 5, 7])));
        assert_eq!(allowed_in("Name:\tqemu\n"), None);
        // Whichever processors are online here.
        let own = std::fs::read_to_string("/proc/self/status").unwrap();
        assert_eq!(LiveProcesses.affinity(std::process::id()).unwrap(), allowed_in(&own).unwrap());
    }
}
