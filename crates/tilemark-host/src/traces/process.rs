//! Processes, known by number and start time: a number alone may come to mean another process.

use std::fs;

/// A process that lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the host's boot.
    pub start_ticks: u64,
    /// Its program's name, as far as the kernel keeps it.
    pub name: String,
}

impl Process {
    /// The one with this number; `None` for one that is gone or only a zombie.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let Stat { name, start_ticks, .. } = Stat::parse(&String::from_utf8_lossy(&stat))?;
        Some(Self { pid, start_ticks, name })
    }

    /// The numbers of all processes.
    pub(super) fn all() -> std::io::Result<Vec<u32>> {
        let entries = fs::read_dir("/proc")?.flatten();
        Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }
}

/// When the process with this number started, in clock ticks since the host's boot; `None` for one that is gone or only a zombie.
pub fn start_ticks(pid: u32) -> Option<u64> {
    Process::of(pid).map(|process| process.start_ticks)
}

/// What the kernel says about a process or thread in its `stat`.
pub(crate) struct Stat {
    name: String,
    /// The process that it belongs to; 2 for all threads of the kernel.
    pub(crate) parent: u32,
    /// When it started, in clock ticks since the host's boot.
    pub(crate) start_ticks: u64,
}

impl Stat {
    /// `None` for a zombie, and for what is no such text.
    pub(crate) fn parse(stat: &str) -> Option<Self> {
        // The second field is the program's name in brackets and may hold anything.
        let (head, tail) = stat.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        let mut fields = tail.split_whitespace();
        if fields.next()? == "Z" {
            return None;
        }
        // Fields 4 and 22 of proc_pid_stat(5).
        Some(Self { name, parent: fields.next()?.parse().ok()?, start_ticks: fields.nth(17)?.parse().ok()? })
    }
}
